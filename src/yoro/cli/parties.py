"""`yoro parties`: combine statistics across organisations by secure aggregation; only the total is revealed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.arguments import Images, LabelFrom, Statistics, given, parse_names
from yoro.cli.options import (
    CLIP,
    NOISE,
    MovedOptions,
    PipelineOptions,
    QuietOption,
    ReadingOptions,
    WriteOptions,
    shown,
    verb_group,
)
from yoro.cli.output import UsageError, print_text, tell_skipped
from yoro.cli.stats import STATS, check_stats
from yoro.errors import InputError, counted
from yoro.model.settings import FitSettings
from yoro.option import option

if TYPE_CHECKING:
    from yoro.discriminant.readings import Layout
    from yoro.model.model import Origin
    from yoro.model.partial_pass import ShardPass
    from yoro.parties.agreement import Agreement
    from yoro.parties.secure_aggregation import Session

app = verb_group("parties")

Folder = Annotated[Path, Parameter(name="FOLDER", help="The shared folder of the session.")]
Key = Annotated[Path, Parameter(metavar="FILE.key", help="File of the party's secret keys; never share it.")]


@shown()
class AgreementOptions:
    """What the parties agree on, besides their names, the classes and the backbone."""

    like: Path | None = option(
        None, "For parties that hold responses: a response file, for its backbone and width.", metavar="Z.npz"
    )
    least: int | None = option(None, "Minimum number of parties in a sum; at least 2.")
    shift: Path | None = option(
        None, "Public responses, whose mean is subtracted to keep more digits.", metavar="Z.npz", expert=True
    )
    bits: int | None = option(None, "Fractional bits of the integers that are summed.", expert=True)
    noise: str | None = NOISE.field(None)
    clip: float | None = CLIP.field(None)
    honest: int | None = option(
        None, "With --noise: parties whose noise alone must suffice (default: --least).", expert=True
    )


@app.command
def agree(
    folder: Folder,
    /,
    *,
    parties: Annotated[str, Parameter(metavar="A,B,...", help="Names of the parties, separated by commas.")],
    classes: Annotated[str, Parameter(metavar="C,D,...|FILE", help="Class names, or a file with one per line.")],
    options: AgreementOptions = AgreementOptions(),
    pipeline: PipelineOptions = PipelineOptions(),
    output: QuietOption = QuietOption(),
) -> None:
    """Write the agreement: parties, classes, and how images are read."""
    from yoro.model.store import check_output
    from yoro.parties.agreement import FEW, FILE, agreement_of, write_agreement
    from yoro.parties.differential_privacy import Noise, clip_of
    from yoro.parties.keys import need_cryptography

    need_cryptography()
    if not folder.is_dir():
        check_output(folder, force=False)
    elif any(not path.name.startswith(".") for path in folder.iterdir()):  # a draft is left by a kill
        raise InputError(f"{folder} is not empty; give a new or empty folder: each session needs its own.")
    origin, layout = _read_by(options.like, pipeline)
    shift = None if options.shift is None else _mean(options.shift)
    more: dict[str, object] = {"bits": options.bits, "least": options.least, "shift": shift}
    if options.noise is not None:
        clip = clip_of(layout, options.clip)
        more["noise"] = Noise.parse(options.noise, clip, options.honest or options.least or FEW)
    elif options.clip is not None or options.honest is not None:
        raise UsageError("--clip and --honest need --noise EPSILON,DELTA.")
    given_more = {name: value for name, value in more.items() if value is not None}
    made = agreement_of(parse_names(parties), _classes(classes), origin, layout, **given_more)
    write_agreement(made, folder)
    output.tell(f"{folder / FILE}: {_told(made)}")
    _tell_two(made, output)
    output.tell(f"Next, each party: yoro parties join {folder} --party NAME --key NAME.key")


@app.command
def join(
    folder: Folder,
    /,
    *,
    party: Annotated[str, Parameter(metavar="NAME", help="Name of this party.")],
    key: Key,
    output: QuietOption = QuietOption(),
) -> None:
    """Make the keys of a party: the secret ones stay with it, the public ones go to the folder."""
    from yoro.parties.secure_aggregation import Session, join

    session = Session(folder)
    public = join(session, party, key)
    output.tell(f"{key}: the secret keys of {party}. Never share this file.")
    output.tell(f"{session.place(party, 'public')}: the public ones. Fingerprint: {public.fingerprint}")
    _tell_two(session.agreement, output)
    output.tell(
        f"Next, when all have joined: yoro parties show {folder}, and compare the fingerprints with the other parties "
        "over another channel, such as the telephone; anyone who can replace a key in the folder can read your sums. "
        f"Then: yoro parties mask {folder} DATA --key {key}"
    )


@app.command(usage="Usage: yoro parties mask FOLDER DATA... --key FILE.key [OPTIONS]")
def mask(
    folder: Folder,
    /,
    *data: Images,
    key: Key,
    label_from: LabelFrom = None,
    reading: ReadingOptions = ReadingOptions(),
    output: QuietOption = QuietOption(),
) -> None:
    """Read a party's data once, and write their masked sums to the folder.

    DATA may also be a file of `yoro stats --sums-only`.
    """
    from yoro.parties.secure_aggregation import Session, send, sender

    session = Session(folder)
    sender(session, key)  # before any image is read
    settings = FitSettings(loading=reading, progress=not output.quiet, tell=output.tell)
    with output.spoken_warnings():
        passed = _read(session.agreement, given(data, label_from), settings, reading)
        message = send(session, passed.shard.gathered.statistics, key)
    place = session.place(message.party, "masked")
    examples = counted(passed.shard.gathered.statistics.total, "example")
    output.tell(f"{place}: masked sums of {examples}, {message.limbs.nbytes / 1e6:.1f} MB.")
    output.tell(f"{_next(session, 'masked')}: yoro parties confirm {folder} --key {key}")
    tell_skipped(passed.skipped)


@app.command
def confirm(
    folder: Folder,
    /,
    *,
    key: Key,
    without: Annotated[
        tuple[str, ...], Parameter(metavar="NAME", help="Permanently leave out a party that sent no message.")
    ] = (),
    output: QuietOption = QuietOption(),
) -> None:
    """Confirm which messages arrived, so that they can be summed."""
    from yoro.parties.secure_aggregation import Session, confirm

    session = Session(folder)
    agreed = confirm(session, key, without)
    output.tell(*(f"Note: {note}" for note in agreed.notes))
    output.tell(f"Confirmed: {', '.join(agreed.added)}.")
    output.tell(f"{_next(session, 'confirmed', agreed.added)}: yoro parties sum {folder} --out TOTAL.stats")


@app.command(name="sum")
def add_up(folder: Folder, /, *, out: Statistics, output: WriteOptions = WriteOptions()) -> None:
    """Sum what all have confirmed; turn it into a model with `yoro merge`."""
    from yoro.model.shards import write_shard
    from yoro.parties.secure_aggregation import Session, total

    check_stats(out, force=output.force)
    shard, agreed = total(Session(folder))
    write_shard(shard, out)
    output.tell(*(f"Note: {note}" for note in agreed.notes))
    statistics = shard.gathered.statistics
    examples, classes = counted(statistics.total, "example"), counted(len(statistics.classes), "class")
    output.tell(f"{out}: {examples} of {classes} from {len(agreed.added)} parties.")
    if lacking := sorted(set(Session(folder).agreement.classes) - set(statistics.classes)):
        output.tell(f"No party has images of {', '.join(map(repr, lacking))}.")
    output.tell(f"Next: yoro merge {out} --out MODEL.yoro")


@app.command
def show(folder: Folder, /) -> None:
    """Print the agreement, the progress of each party, and the fingerprints of the keys."""
    from yoro.parties.secure_aggregation import Session

    session = Session(folder)
    print_text(_told(session.agreement))
    keys, width = session.joined(), max(map(len, session.agreement.parties))
    lost = {party for one in session.confirmations() for party in one.lost}
    for party in session.agreement.parties:
        done = [what for what in ("masked", "confirmed") if session.place(party, what).is_file()]
        done += ["left out"] if party in lost else []
        key = keys[party].fingerprint if party in keys else "has not joined"
        print_text(f"{party:<{width}}  {key}  {', '.join(done)}".rstrip())
    if len(keys) == len(session.agreement.parties):
        print_text("Compare the fingerprints with the other parties over another channel, such as the telephone.")
    print_text(_next_step(session, lost))


def _tell_two(agreement: Agreement, output: QuietOption) -> None:
    """Warn at the start about what two parties learn of each other."""
    from yoro.parties.agreement import FEW
    from yoro.parties.secure_aggregation import SEEN_BY_TWO

    if len(agreement.parties) == FEW:
        output.tell(f"Note: of two parties, {SEEN_BY_TWO} A third party prevents that.")
    elif agreement.least == FEW:
        output.tell(f"Note: if only two parties remain, {SEEN_BY_TWO} --least 3 prevents that.")


def _next(session: Session, what: str, parties: Sequence[str] | None = None) -> str:
    """The beginning of a line with the next step, and whose files it waits for."""
    wanted = session.agreement.parties if parties is None else parties
    missing = sorted(set(wanted) - set(session.have(what)))
    have = "has" if len(missing) == 1 else "have"
    return f"Next, when {', '.join(missing)} {have} {what} too" if missing else "Next"


def _next_step(session: Session, lost: set[str]) -> str:
    """What is to be done next, and by whom."""
    there = [party for party in session.agreement.parties if party not in lost]
    for what, words in (
        ("public", "join {0} --party NAME --key NAME.key"),
        ("masked", "mask {0} DATA --key NAME.key"),
        ("confirmed", "confirm {0} --key NAME.key"),
    ):
        if waited := [party for party in there if party not in session.have(what)]:
            return f"Next, {', '.join(waited)}: yoro parties {words.format(session.folder)}"
    return f"Next, anyone: yoro parties sum {session.folder} --out TOTAL.stats"


def _read_by(like: Path | None, pipeline: PipelineOptions) -> tuple[Origin, Layout]:
    """The origin of the responses, and their layers."""
    from yoro.data.responses import ResponseFile
    from yoro.discriminant.readings import Layout
    from yoro.model.model import Origin
    from yoro.model.pipeline import make_pipeline

    if like is None:
        opened = make_pipeline(pipeline)
        return opened.origin(), opened.layout
    with ResponseFile(like, labelled=False) as file:
        origin = Origin(made_by=file.identity)
        return origin, origin.layout or Layout.of(file.width)


def _read(agreement: Agreement, data: object, settings: FitSettings, moved: MovedOptions) -> ShardPass:
    """The sums of a party's data, read as agreed."""
    from yoro.data.response_streams import is_response_data
    from yoro.model.model import difference
    from yoro.model.partial_pass import Clip, ShardPass, gather_shard
    from yoro.model.pipeline import reopen_pipeline
    from yoro.model.shards import read_shard

    origin, noise = agreement.origin, agreement.noise
    if isinstance(data, str) and Path(data).suffix == STATS:
        if noise is not None:
            told = "The agreement asks for noise, so every response must be clipped"
            raise InputError(f"{told}; give the data, not their sums.")
        passed = ShardPass(read_shard(Path(data)))
    else:
        clip = None if noise is None else Clip(noise.clip, agreement.shift)
        images = not is_response_data(data)
        pipeline = reopen_pipeline(origin, moved.source, device=moved.device) if images else None
        classes = agreement.classes
        passed = gather_shard(data, settings, sums_only=True, pipeline=pipeline, clip=clip, classes=classes)
    mine = passed.shard.origin
    odd = difference(origin.identity(), mine.identity())
    if odd or (origin.images and not mine.images and mine.identity() is None):
        raise InputError(
            f"The data are not read as agreed: {odd or 'their origin is unknown'}. Give the images, or sums of them "
            "made with the options of the agreement."
        )
    return passed


def _classes(text: str) -> list[str]:
    from yoro.data.examples import class_name
    from yoro.text.banks import read_classes

    return read_classes(text) if Path(text).is_file() else [class_name(name) for name in parse_names(text)]


def _mean(path: Path) -> tuple[float, ...]:
    """The mean of the responses in a file."""
    import numpy as np

    from yoro.data.response_streams import collect, is_response_data, open_responses

    if not is_response_data(path):
        raise UsageError(f"{path} is not a file of responses; make one with `yoro respond DATA --out Z.npz`.")
    held = collect(open_responses(path, labelled=True), "reading")
    return tuple(np.mean(held.responses, axis=0, dtype=float).tolist())


def _told(agreement: Agreement) -> str:
    parties, classes = f"{len(agreement.parties)} parties", counted(len(agreement.classes), "class")
    size, noise = agreement.length * 16 / 1e6, agreement.noise
    promise = f"; noise with epsilon {noise.epsilon:g}, delta {noise.delta:g}" if noise else ""
    return (
        f"{parties}, {classes}, {agreement.origin.name}, responses of width {agreement.layout.width:,}; "
        f"messages of {size:.1f} MB{promise}; digest {agreement.digest[:16]}."
    )
