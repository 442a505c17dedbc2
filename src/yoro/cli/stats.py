"""`yoro stats` and `merge`: statistics of a part of the data as a file, and the sum of many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.data_arguments import Images, LabelFrom, given
from yoro.cli.fit_summary import closing_lines
from yoro.cli.options import (
    SOLVING,
    Answers,
    JsonOptions,
    LoadingOptions,
    PipelineOptions,
    Pipelines,
    Reads,
    UsageError,
    WriteOptions,
    Writes,
    flag,
    preset_of,
)
from yoro.cli.output import print_json, print_text, resumable, say, spoken_warnings, tell_skipped
from yoro.errors import InputError, counted
from yoro.model.settings import FitSettings, SolveSettings

if TYPE_CHECKING:
    from yoro.model.model import Json, Model
    from yoro.model.partial_pass import ShardPass, Share
    from yoro.model.shards import Shard

STATS = ".stats"  # how the name of a file of statistics ends


@dataclass(frozen=True)
class StatsOptions:
    """What is read of the data, and what is kept of it."""

    part: Annotated[
        str | None, Parameter(metavar="I/N", help="Read the I-th of N parts of the data, as job I of N does.")
    ] = None
    sums_only: Annotated[bool, flag("Keep sums alone: no individual responses, no digests of images.")] = False
    noise: Annotated[
        str | None,
        Parameter(metavar="EPSILON,DELTA", help="Sums alone, with noise that hides whether any one image is in them."),
    ] = None
    clip: Annotated[
        float | None, Parameter(metavar="C", help="With --noise: the length that responses are clipped to.")
    ] = None
    fast: Annotated[bool, flag("Read as `yoro fit --fast` does.")] = False
    best: Annotated[bool, flag("Read as `yoro fit --best` does.")] = False
    seed: Annotated[int, Parameter(help="Seed of the sample of responses.")] = SolveSettings.seed
    label_from: LabelFrom = None
    resume: Annotated[bool, flag("Go on where a run that was ended left off.")] = FitSettings.resume


@dataclass(frozen=True)
class MergeOptions:
    """How the mapping is solved where files of statistics are among what is merged."""

    shrinkage: Annotated[
        str | None, Parameter(metavar="RULE", help="With .stats: a rule as of `fit`; by default loo, or oas of sums.")
    ] = None
    prior: Annotated[str | None, Parameter(metavar="empirical|uniform", help="With .stats: class priors.")] = None


def stats(
    *data: Images,
    out: Annotated[Path, Parameter(metavar="S.stats", help="Where to write the statistics.")],
    reading: Annotated[StatsOptions, Parameter(name="*")] = StatsOptions(),
    pipeline: Pipelines = PipelineOptions(),
    loading: Reads = LoadingOptions(),
    output: Answers = JsonOptions(),
) -> None:
    """Read labelled data once and save their statistics, to be merged.

    Files of all parts of the data merge into the model that `yoro fit` makes of the whole.
    """
    from yoro.files.atomic import remove_folder
    from yoro.model.partial_pass import WHOLE, Share
    from yoro.model.shards import write_shard

    if reading.clip is not None and reading.noise is None:
        raise UsageError("--clip goes with --noise EPSILON,DELTA.")
    preset = preset_of(fast=reading.fast, best=reading.best)
    quiet, unfinished = output.quiet, out.with_name(f".{out.name}.part")
    if reading.resume and out.exists() and not unfinished.exists():
        say(f"{out} is there, and no unfinished run beside it: nothing to resume.", quiet)
        return
    check_stats(out, force=output.force or (reading.resume and unfinished.exists()))
    settings = FitSettings(
        pipeline, SolveSettings(seed=reading.seed), loading=loading, checkpoint=unfinished, resume=reading.resume,
        progress=not quiet, tell=lambda note: say(note, quiet),
        preset=preset,
    )  # fmt: skip
    share = Share.parse(reading.part) if reading.part is not None else WHOLE
    with resumable(unfinished), spoken_warnings(quiet):
        made = _passed(given(data, reading.label_from), settings, share, reading)
    write_shard(made.shard, out)
    remove_folder(unfinished)
    say(f"{out}: {_sentence(made.shard)}", quiet)
    if output.as_json:
        print_json(shard_facts(made.shard))
    tell_skipped(made.skipped)


def merge(
    *files: Annotated[Path, Parameter(name="A B", help="Saved models (.yoro) or statistics (.stats) of one source.")],
    out: Annotated[Path, Parameter(metavar="C.yoro|C.stats", help="Where to write the model, or the sum.")],
    solve: Annotated[MergeOptions, Parameter(name="*", group=SOLVING)] = MergeOptions(),
    output: Writes = WriteOptions(),
) -> None:
    """Merge models, or statistics, into those of all their data."""
    from yoro.model.leave_one_out_evaluation import left_out_evaluation
    from yoro.model.store import check_target, write_model

    sums = [path for path in files if path.suffix == STATS]
    if len(files) < (1 if sums else 2):
        raise UsageError("At least two models are needed, or a file of statistics.")
    if (solve.shrinkage or solve.prior) and (not sums or out.suffix == STATS):
        raise UsageError("--shrinkage and --prior go with .stats files and a model to solve.")
    if out.suffix == STATS:
        check_stats(out, force=output.force)
        _merge_sums(files, out, output.quiet)
        return
    check_target(out, force=output.force)
    with spoken_warnings(output.quiet):
        model, notes = _solved(files, solve) if sums else _merged_models(files)
    write_model(model, out, force=output.force)
    for note in notes:
        say(note, output.quiet)
    classes = counted(len(model.mapping.classes), "class")
    say(f"{out}: {counted(model.statistics.total, 'example')}, {classes}.", output.quiet)
    for line in closing_lines(model, left_out_evaluation(model)):
        say(line, output.quiet)


def check_stats(out: Path, *, force: bool) -> None:
    """Raise if statistics cannot be written here."""
    from yoro.model.store import check_output

    if out.suffix != STATS:
        raise UsageError(f"A file of statistics has a name that ends in {STATS}; write {out.name + STATS!r}.")
    check_output(out, force=force)


def show_shard(path: Path, *, as_json: bool) -> None:
    """Print what a file of statistics holds."""
    from yoro.model.shards import read_shard

    shard = read_shard(path)
    if as_json:
        print_json(shard_facts(shard))
    else:
        print_text(shard_text(shard))


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
    """The same for a person."""
    statistics = shard.gathered.statistics
    lines = [
        f"source       {shard.origin.name}, responses of width {statistics.width}",
        f"readings     {', '.join(statistics.layout.names)}",
        f"examples     {statistics.total:,.0f} of {counted(len(statistics.classes), 'class')}",
        f"parts        {', '.join(shard.parts[:3])}{', ...' * (len(shard.parts) > 3)}",
        "",
        "what it reveals",
        *(f"  {line}" for line in revealed(shard)),
        "",
        "class counts",
        *(f"{count:>9,.0f}  {name}" for name, count in zip(statistics.classes, statistics.counts, strict=True)),
    ]
    return "\n".join(lines)


def revealed(shard: Shard) -> list[str]:
    """What somebody who has the file knows of the images, in sentences."""
    from yoro.model.noise_facts import noise_told

    gathered, statistics = shard.gathered, shard.gathered.statistics
    if noise := noise_told(shard.facts):
        return ["The names of the classes; numbers of images, means and one scatter with noise.", *noise]
    told = ["How many images there are of each class, the mean response of each, and one scatter of all."]
    if one := int((statistics.counts == 1).sum()):
        told.append(f"Of {counted(one, 'class')} with one image: that image's response, which is the mean.")
    if statistics.total < statistics.width:
        told.append("Fewer images than a response is wide: the scatter tells which directions they span.")
    if gathered.reservoir is not None and len(gathered.reservoir):
        told.append(f"The responses of {counted(len(gathered.reservoir), 'image')}, one by one.")
    elif any(part.factor is not None and part.total for part in statistics.parts):
        told.append("The responses of all images, one by one: so few are kept as rows.")
    if len(gathered.ledger):
        told.append(f"Digests of {counted(len(gathered.ledger), 'image')}: who has an image can tell that it is here.")
    return told


def _passed(data: object, settings: FitSettings, share: Share, reading: StatsOptions) -> ShardPass:
    """What came of the pass; with noise, where that was asked for."""
    from dataclasses import replace

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
    kept = "sums alone" if gathered.reservoir is None else f"{counted(len(gathered.reservoir), 'response')} kept"
    return f"{counted(statistics.total, 'example')} of {counted(len(statistics.classes), 'class')}, {kept}."


def _merged_models(files: Sequence[Path]) -> tuple[Model, list[str]]:
    from yoro.model.classifier import load

    first, notes = load(files[0]), list[str]()
    for path in files[1:]:
        notes += first.merge(load(path)).notes
    return first.model, notes


def _solved(files: Sequence[Path], options: MergeOptions) -> tuple[Model, tuple[str, ...]]:
    """The model of files of which at least one is of statistics."""
    from yoro.discriminant.rules import check_rule
    from yoro.model.merging import solve_shards

    rule = None if options.shrinkage is None else check_rule(options.shrinkage)
    shards, before = _read(files)
    made = solve_shards(shards, rule, options.prior or str(SolveSettings.prior), before)
    return made.model, made.notes


def _merge_sums(files: Sequence[Path], out: Path, quiet: bool) -> None:
    from yoro.model.merging import joined_notes
    from yoro.model.shards import merged, write_shard

    shards, _ = _read(files)
    whole = merged(shards)
    write_shard(whole, out)
    for note in joined_notes(shards, whole):
        say(note, quiet)
    say(f"{out}: {_sentence(whole)}", quiet)


def _read(files: Sequence[Path]) -> tuple[list[Shard], list[Json]]:
    """The shards of files, and the history of the first model among them."""
    from yoro.model.merging import shard_of
    from yoro.model.shards import read_shard
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
                raise InputError(f"{path} and {held[part]} hold the same part of the data, {part}; leave one out.")
            held[part] = path
    return shards, before
