"""`yoro parties`: several parties add up the statistics of their images, and nobody sees anything but the total."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from yoro.cli.data_arguments import Images, LabelFrom, given
from yoro.cli.options import (
    LoadingOptions,
    Moved,
    MovedOptions,
    PipelineOptions,
    Pipelines,
    QuietOption,
    Quiets,
    Reads,
    UsageError,
    WriteOptions,
    Writes,
    parse_names,
)
from yoro.cli.output import print_text, say, spoken_warnings, tell_skipped
from yoro.cli.stats import STATS, check_stats
from yoro.errors import InputError, counted
from yoro.model.settings import FitSettings

if TYPE_CHECKING:
    from yoro.discriminant.readings import Layout
    from yoro.model.model import Origin
    from yoro.model.partial_pass import ShardPass
    from yoro.parties.agreement import Agreement

app = App("parties", sort_key=100, help="Add up statistics of parties; only the total is seen.")

Folder = Annotated[Path, Parameter(name="FOLDER", help="The folder of the session, which all parties see.")]
Key = Annotated[Path, Parameter(metavar="FILE.key", help="The party's secret keys, which stay with it.")]


@app.command
def agree(
    folder: Folder,
    /,
    *,
    parties: Annotated[str, Parameter(metavar="A,B,...", help="Names of the parties, with commas between.")],
    classes: Annotated[str, Parameter(metavar="C,D,...|FILE", help="Class names, or a file with one a line.")],
    like: Annotated[
        Path | None,
        Parameter(metavar="Z.npz", help="Parties that hold responses: a file of such, for their source and width."),
    ] = None,
    shift: Annotated[
        Path | None,
        Parameter(metavar="Z.npz", help="Public responses: sums are about their mean, which keeps more digits."),
    ] = None,
    bits: Annotated[int | None, Parameter(help="Bits behind the point of the integers that are added up.")] = None,
    least: Annotated[int | None, Parameter(help="Parties that must remain for a sum; at least 2.")] = None,
    noise: Annotated[
        str | None,
        Parameter(metavar="EPSILON,DELTA", help="All add noise, which hides whether any one image is in the total."),
    ] = None,
    clip: Annotated[
        float | None, Parameter(metavar="C", help="With --noise: the length that responses are clipped to.")
    ] = None,
    honest: Annotated[
        int | None, Parameter(help="With --noise: parties whose noise alone keeps the promise; by default --least.")
    ] = None,
    pipeline: Pipelines = PipelineOptions(),
    output: Quiets = QuietOption(),
) -> None:
    """Write down what all agree on: parties, classes, how images are read."""
    from yoro.model.store import check_output
    from yoro.parties.agreement import FEW, FILE, agreement_of, write_agreement
    from yoro.parties.differential_privacy import Noise, clip_of
    from yoro.parties.keys import need_cryptography

    need_cryptography()
    check_output(folder, force=folder.is_dir() and not any(folder.iterdir()))
    origin, layout = _read_by(like, pipeline)
    more: dict[str, object] = {"bits": bits, "least": least, "shift": None if shift is None else _mean(shift)}
    if noise is not None:
        more["noise"] = Noise.parse(noise, clip_of(layout, clip), honest or least or FEW)
    elif clip is not None or honest is not None:
        raise UsageError("--clip and --honest go with --noise EPSILON,DELTA.")
    given_more = {name: value for name, value in more.items() if value is not None}
    made = agreement_of(parse_names(parties), _classes(classes), origin, layout, **given_more)
    write_agreement(made, folder)
    say(f"{folder / FILE}: {_told(made)}", output.quiet)
    say(f"Each party now types: yoro parties join {folder} --party NAME --key NAME.key", output.quiet)


@app.command
def join(
    folder: Folder,
    /,
    *,
    party: Annotated[str, Parameter(metavar="NAME", help="Which of the parties this is.")],
    key: Key,
    output: Quiets = QuietOption(),
) -> None:
    """Make the keys of a party: secret ones for itself, public ones in the folder."""
    from yoro.parties.secure_aggregation import Session, join

    session = Session(folder)
    public = join(session, party, key)
    say(f"{key}: the secret keys of {party}. Give them to nobody.", output.quiet)
    say(f"{session.place(party, 'public')}: the public ones. Fingerprint: {public.fingerprint}", output.quiet)


@app.command
def mask(
    folder: Folder,
    /,
    *data: Images,
    key: Key,
    label_from: LabelFrom = None,
    moved: Moved = MovedOptions(),
    loading: Reads = LoadingOptions(),
    output: Quiets = QuietOption(),
) -> None:
    """Read a party's data once, and put their sums under masks into the folder.

    DATA may also be the file of `yoro stats --sums-only`.
    """
    from yoro.parties.secure_aggregation import Session, send

    session = Session(folder)
    _ = session.publics  # before any image is read
    settings = FitSettings(loading=loading, progress=not output.quiet, tell=lambda note: say(note, output.quiet))
    with spoken_warnings(output.quiet):
        passed = _read(session.agreement, given(data, label_from), settings, moved)
        message = send(session, passed.shard.gathered.statistics, key)
    place = session.place(message.party, "masked")
    examples = counted(passed.shard.gathered.statistics.total, "example")
    say(f"{place}: the sums of {examples} under masks, {message.limbs.nbytes / 1e6:.1f} MB.", output.quiet)
    tell_skipped(passed.skipped)


@app.command
def confirm(folder: Folder, /, *, key: Key, output: Quiets = QuietOption()) -> None:
    """Confirm whose messages came, so that they can be added up."""
    from yoro.parties.secure_aggregation import Session, confirm

    session = Session(folder)
    agreed = confirm(session, key)
    for note in agreed.notes:
        say(f"Note: {note}", output.quiet)
    say(f"Confirmed: {', '.join(agreed.added)}.", output.quiet)


@app.command(name="sum")
def add_up(
    folder: Folder,
    /,
    *,
    out: Annotated[Path, Parameter(metavar="S.stats", help="Where to write the statistics of all.")],
    output: Writes = WriteOptions(),
) -> None:
    """Add up what all have confirmed; `yoro merge` makes a model of it."""
    from yoro.model.shards import write_shard
    from yoro.parties.secure_aggregation import Session, total

    check_stats(out, force=output.force)
    shard, agreed = total(Session(folder))
    write_shard(shard, out)
    for note in agreed.notes:
        say(f"Note: {note}", output.quiet)
    statistics = shard.gathered.statistics
    examples, classes = counted(statistics.total, "example"), counted(len(statistics.classes), "class")
    say(f"{out}: {examples} of {classes}, of {len(agreed.added)} parties.", output.quiet)
    if lacking := sorted(set(Session(folder).agreement.classes) - set(statistics.classes)):
        say(f"Nobody has an image of {', '.join(map(repr, lacking))}.", output.quiet)


@app.command
def show(folder: Folder, /) -> None:
    """Print what was agreed on, who has done what, and the fingerprints of the keys."""
    from yoro.parties.secure_aggregation import Session

    session = Session(folder)
    print_text(_told(session.agreement))
    keys, width = session.joined(), max(map(len, session.agreement.parties))
    for party in session.agreement.parties:
        done = [what for what in ("masked", "confirmed") if session.place(party, what).is_file()]
        key = keys[party].fingerprint if party in keys else "has not joined"
        print_text(f"{party:<{width}}  {key}  {', '.join(done)}".rstrip())


def _read_by(like: Path | None, pipeline: PipelineOptions) -> tuple[Origin, Layout]:
    """Where the responses of all parties come from, and their readings."""
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
    """The sums of a party's data, read as was agreed on."""
    from yoro.data.response_streams import is_response_data
    from yoro.model.model import difference
    from yoro.model.partial_pass import Clip, ShardPass, gather_shard
    from yoro.model.pipeline import reopen_pipeline
    from yoro.model.shards import read_shard

    origin, pipeline, clip = agreement.origin, None, None
    if agreement.noise is not None:
        if isinstance(data, str) and Path(data).suffix == STATS:
            raise InputError("Noise was agreed on, for which every response is clipped; give the data, not their sums.")
        clip = Clip(agreement.noise.clip, agreement.shift)
    if isinstance(data, str) and Path(data).suffix == STATS:
        passed = ShardPass(read_shard(Path(data)))
    else:
        if not is_response_data(data):
            pipeline = reopen_pipeline(origin, moved.source, device=moved.device)
        passed = gather_shard(data, settings, sums_only=True, pipeline=pipeline, clip=clip)
    mine = passed.shard.origin
    odd = difference(origin.identity(), mine.identity())
    if odd or (origin.images and not mine.images and mine.identity() is None):
        raise InputError(f"The data are read in another way than was agreed on: {odd or 'they do not say how'}.")
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
        raise UsageError(f"{path} is no file of responses; expected what `yoro respond DATA --out Z.npz` writes.")
    held = collect(open_responses(path, labelled=True), "reading")
    return tuple(np.mean(held.responses, axis=0, dtype=float).tolist())


def _told(agreement: Agreement) -> str:
    parties, classes = f"{len(agreement.parties)} parties", counted(len(agreement.classes), "class")
    size, noise = agreement.length * 16 / 1e6, agreement.noise
    promise = f"; noise of epsilon {noise.epsilon:g}, delta {noise.delta:g}" if noise else ""
    return (
        f"{parties}, {classes}, {agreement.origin.name}, responses of width {agreement.layout.width:,}; "
        f"messages of {size:.1f} MB{promise}; digest {agreement.digest[:16]}."
    )
