"""`yoro stats` and `merge`: statistics of part of the data as a file, and many of them merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.arguments import Images, Statistics, given
from yoro.cli.fit_summary import closing_lines
from yoro.cli.options import CLIP, LABEL_FROM, NOISE, FitOptions, JsonOptions, SeedOption, WriteOptions, shown
from yoro.cli.output import UsageError, print_json, resumable, tell_skipped
from yoro.errors import InputError, counted
from yoro.model.settings import FitSettings, SolveSettings
from yoro.option import option

if TYPE_CHECKING:
    from yoro.model.model import Json, Model
    from yoro.model.partial_pass import DataShare, ShardPass
    from yoro.model.shards import Shard

STATS = ".stats"  # how the name of a statistics file ends


@shown("shots", "refine", "ledger", "sentences", "cluster")
class StatsSettings(FitOptions):
    """How images are read."""

    solve: SeedOption = field(default_factory=SeedOption)


@shown()
class StatsOptions:
    """Which part of the data is read, and what is kept of it."""

    label_from: str | None = LABEL_FROM.field(None)
    part: str | None = option(None, "Read only part I of N of the data, as job I of N.", metavar="I/N")
    sums_only: bool = option(False, "Keep sums only: no individual responses, no image hashes.")
    noise: str | None = NOISE.field(None)
    clip: float | None = CLIP.field(None)


@shown()
class MergeOptions:
    """How the mapping is solved if statistics are among the merged files."""

    shrinkage: str | None = option(
        None, "For .stats: shrinkage rule, as in `fit`; by default loo, or oas for sums.", metavar="RULE", expert=True
    )
    prior: str | None = option(None, "For .stats: class priors.", metavar="empirical|uniform", expert=True)


def stats(
    *data: Images,
    out: Statistics,
    kept: StatsOptions = StatsOptions(),
    settings: StatsSettings = StatsSettings(),
    output: JsonOptions = JsonOptions(),
) -> None:
    """Compute the statistics of labelled data, to be merged later.

    Merging the statistics of all parts gives the same model as `yoro fit` on the whole.
    """
    from yoro.files.atomic import remove_folder
    from yoro.model.partial_pass import WHOLE, DataShare
    from yoro.model.shards import write_shard

    if kept.clip is not None and kept.noise is None:
        raise UsageError("--clip needs --noise EPSILON,DELTA.")
    unfinished = out.with_name(f".{out.name}.part")
    if settings.resume and out.exists() and not unfinished.exists():
        output.tell(f"Nothing to resume: {out} is complete.")
        return
    check_stats(out, force=output.force or (settings.resume and unfinished.exists()))
    settings = replace(settings, checkpoint=unfinished, progress=not output.quiet, tell=output.tell)
    share = DataShare.parse(kept.part) if kept.part is not None else WHOLE
    with resumable(unfinished), output.spoken_warnings():
        made = _passed(given(data, kept.label_from), settings, share, kept)
    write_shard(made.shard, out)
    remove_folder(unfinished)
    output.tell(f"{out}: {_sentence(made.shard)}")
    if output.as_json:
        print_json(shard_facts(made.shard))
    tell_skipped(made.skipped)


def merge(
    *files: Annotated[
        Path, Parameter(name="A B", help="Saved models (.yoro) or statistics (.stats) of the same backbone.")
    ],
    out: Annotated[Path, Parameter(metavar="C.yoro|C.stats", help="Where to write the merged model or statistics.")],
    solve: MergeOptions = MergeOptions(),
    output: WriteOptions = WriteOptions(),
) -> None:
    """Merge models or statistics exactly, as if fitted together."""
    from yoro.model.answers import left_out_evaluation
    from yoro.model.shards import joined_notes, merged, write_shard
    from yoro.model.store import check_target, write_model

    sums = [path for path in files if path.suffix == STATS]
    if len(files) < (1 if sums else 2):
        raise UsageError("Nothing to merge; give at least two models, or a file of statistics.")
    if (solve.shrinkage or solve.prior) and (not sums or out.suffix == STATS):
        raise UsageError("--shrinkage and --prior need .stats files as input and a model as output.")
    if out.suffix == STATS:
        check_stats(out, force=output.force)
        shards, _ = _read(files)
        whole = merged(shards)
        write_shard(whole, out)
        output.tell(*joined_notes(shards, whole), f"{out}: {_sentence(whole)}")
        return
    check_target(out, force=output.force)
    with output.spoken_warnings():
        model, notes = _solved(files, solve) if sums else _merged_models(files)
    write_model(model, out, force=output.force)
    output.tell(*notes)
    classes = counted(len(model.mapping.classes), "class")
    output.tell(f"{out}: {counted(model.statistics.total, 'example')}, {classes}.")
    output.tell(*closing_lines(model, left_out_evaluation(model)))


def check_stats(out: Path, *, force: bool) -> None:
    """Raise if statistics cannot be written to a file."""
    from yoro.model.store import check_output

    if out.suffix != STATS:
        raise UsageError(f"Statistics must be written to a file ending in {STATS}, such as {out.name + STATS!r}.")
    check_output(out, force=force)


def shard_facts(shard: Shard) -> Json:
    """A shard without its arrays."""
    gathered, statistics = shard.gathered, shard.gathered.statistics
    return {
        "classes": dict(zip(statistics.classes, statistics.counts.tolist(), strict=True)),
        "examples": statistics.total,
        "width": statistics.width,
        "source": shard.origin.source,
        "readings": list(statistics.layout.names),
        "responses_kept": 0 if gathered.reservoir is None else len(gathered.reservoir),
        "digests_kept": len(gathered.ledger),
        "skipped": [name for name, _ in gathered.skipped],
        "parts": list(shard.parts),
        "facts": shard.facts,
    }


def shard_text(shard: Shard) -> str:
    """A shard as text."""
    from yoro.model.shards import told_parts

    statistics = shard.gathered.statistics
    lines = [
        f"source       {shard.origin.name}, width {statistics.width:,}",
        f"layers       {', '.join(statistics.layout.names)}",
        f"examples     {statistics.total:,.0f} of {counted(len(statistics.classes), 'class')}",
        f"parts        {told_parts(shard)}",
        "",
        "what it reveals",
        *(f"  {line}" for line in revealed(shard)),
        "",
        "class counts",
        *(f"{count:>9,.0f}  {name}" for name, count in zip(statistics.classes, statistics.counts, strict=True)),
    ]
    return "\n".join(lines)


def revealed(shard: Shard) -> list[str]:
    """What the file reveals about the images, in sentences."""
    from yoro.model.card import noise_told

    gathered, statistics = shard.gathered, shard.gathered.statistics
    if noise := noise_told(shard.facts):
        return ["The class names; with noise: the counts, the class means and the scatter.", *noise]
    told = ["The number of images and the mean response of each class, and the scatter."]
    if one := int((statistics.counts == 1).sum()):
        told.append(f"The response of the only image of {counted(one, 'class')}, because it is the mean.")
    if statistics.total < statistics.width:
        told.append("The directions that the images span, because there are fewer images than response coordinates.")
    if gathered.reservoir is not None and len(gathered.reservoir):
        told.append(f"Individual responses of {counted(len(gathered.reservoir), 'image')}.")
    elif any(part.factor is not None and part.total for part in statistics.parts):
        told.append("Individual responses of all images, because so few are stored as rows.")
    if len(gathered.ledger):
        hashes = f"Hashes of {counted(len(gathered.ledger), 'image')}"
        told.append(f"{hashes}: anyone with an image can check whether it was used.")
    return told


def _passed(data: object, settings: FitSettings, share: DataShare, reading: StatsOptions) -> ShardPass:
    """The statistics of the data, with noise if asked for."""
    from yoro.data.response_streams import identity_of, is_response_data
    from yoro.discriminant.readings import Layout
    from yoro.model.model import Origin
    from yoro.model.partial_pass import Clip, gather_shard
    from yoro.model.pipeline import make_pipeline
    from yoro.parties.differential_privacy import Noise, clip_of, with_noise

    if reading.noise is None:
        return gather_shard(data, settings, share, sums_only=reading.sums_only)
    pipeline = None if is_response_data(data) else make_pipeline(settings.pipeline)
    layout = pipeline.layout if pipeline else Origin(made_by=identity_of(data)).layout or Layout.of(1)
    noise = Noise.parse(reading.noise, clip_of(layout, reading.clip))
    made = gather_shard(data, settings, share, sums_only=True, pipeline=pipeline, clip=Clip(noise.clip))
    return replace(made, shard=with_noise(made.shard, noise))


def _sentence(shard: Shard) -> str:
    statistics, gathered = shard.gathered.statistics, shard.gathered
    kept = "sums only" if gathered.reservoir is None else f"{counted(len(gathered.reservoir), 'response')} kept"
    return f"{counted(statistics.total, 'example')} of {counted(len(statistics.classes), 'class')}, {kept}."


def _merged_models(files: Sequence[Path]) -> tuple[Model, list[str]]:
    from yoro.model.open_model import load

    first, *others = map(load, files)
    notes = [note for other in others for note in first.merge(other).notes]
    return first.model, notes


def _solved(files: Sequence[Path], options: MergeOptions) -> tuple[Model, tuple[str, ...]]:
    """The model of merged files, at least one of them statistics."""
    from yoro.discriminant.rules import check_rule
    from yoro.model.shards import solve_shards

    rule = None if options.shrinkage is None else check_rule(options.shrinkage)
    shards, before = _read(files)
    made = solve_shards(shards, rule, options.prior or str(SolveSettings.prior), before)
    return made.model, made.notes


def _read(files: Sequence[Path]) -> tuple[list[Shard], list[Json]]:
    """The shards of files, and the history of the first model among them."""
    from yoro.model.shards import SHARES, read_shard, shard_of, told_parts
    from yoro.model.store import read_model

    shards: list[Shard] = []
    before: list[Json] = []
    held: dict[str, Path] = {}
    for path in files:
        if path.suffix == STATS:
            shards.append(read_shard(path))
        else:
            model = read_model(path)
            before = before or model.history
            shards.append(shard_of(model))
        for part in shards[-1].parts:
            if part in held:
                which = f" ({told_parts(shards[-1])})" if shards[-1].facts.get(SHARES) else ""
                raise InputError(f"{path} and {held[part]} contain the same part of the data{which}; remove one.")
            held[part] = path
    return shards, before
