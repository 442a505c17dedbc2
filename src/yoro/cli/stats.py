"""`yoro stats` and `merge`: the statistics of a part of the data as a file, and the sum of several."""

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

STATS = ".stats"  # how the name of a statistics file ends


@dataclass(frozen=True)
class StatsOptions:
    """What is read of the data, and what is kept of it."""

    part: Annotated[
        str | None, Parameter(metavar="I/N", help="Read only the I-th of N parts of the data, as job I of N.")
    ] = None
    sums_only: Annotated[bool, flag("Store sums only: no individual responses, no image hashes.")] = False
    noise: Annotated[
        str | None,
        Parameter(
            metavar="EPSILON,DELTA", help="Differential privacy: sums only, with noise that hides any one image."
        ),
    ] = None
    clip: Annotated[
        float | None, Parameter(metavar="C", help="With --noise: the norm that responses are clipped to.")
    ] = None
    fast: Annotated[bool, flag("The preset of `yoro fit --fast`.")] = False
    best: Annotated[bool, flag("The preset of `yoro fit --best`.")] = False
    seed: Annotated[int, Parameter(help="Seed of the sample of responses.")] = SolveSettings.seed
    label_from: LabelFrom = None
    resume: Annotated[bool, flag("Resume an interrupted run.")] = FitSettings.resume


@dataclass(frozen=True)
class MergeOptions:
    """How the mapping is solved when statistics files are merged."""

    shrinkage: Annotated[
        str | None, Parameter(metavar="RULE", help="With .stats: a rule as in `fit`; by default loo, or oas of sums.")
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
    """Read labelled data once and save the statistics, to be merged later.

    Merging the files of all parts of the data gives the model that `yoro fit` gives on the whole.
    """
    from yoro.files.atomic import remove_folder
    from yoro.model.partial_pass import WHOLE, Share
    from yoro.model.shards import write_shard

    if reading.clip is not None and reading.noise is None:
        raise UsageError("--clip needs --noise EPSILON,DELTA.")
    preset = preset_of(fast=reading.fast, best=reading.best)
    quiet, unfinished = output.quiet, out.with_name(f".{out.name}.part")
    if reading.resume and out.exists() and not unfinished.exists():
        say(f"{out} is complete; there is nothing to resume.", quiet)
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
    """Merge models or statistics files, as if all their data were fitted at once."""
    from yoro.model.answers import left_out_evaluation
    from yoro.model.store import check_target, write_model

    sums = [path for path in files if path.suffix == STATS]
    if len(files) < (1 if sums else 2):
        raise UsageError("Give at least two models, or a statistics file.")
    if (solve.shrinkage or solve.prior) and (not sums or out.suffix == STATS):
        raise UsageError("--shrinkage and --prior apply only when .stats files are merged into a model.")
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
        raise UsageError(f"The name of a statistics file ends in {STATS}; use {out.name + STATS!r}.")
    check_output(out, force=force)


def show_shard(path: Path, *, as_json: bool) -> None:
    """Print what a statistics file holds."""
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
    """What anyone who holds the file learns about the images, in sentences."""
    from yoro.model.noise_facts import noise_told

    gathered, statistics = shard.gathered, shard.gathered.statistics
    if noise := noise_told(shard.facts):
        return ["The names of the classes; counts, means and one scatter matrix with noise.", *noise]
    told = ["The number of images in each class, the mean response of each class, and one scatter matrix."]
    if one := int((statistics.counts == 1).sum()):
        told.append(f"The response of the only image of {counted(one, 'class')}: it is the mean.")
    if statistics.total < statistics.width:
        told.append("Which directions the images span: there are fewer of them than a response has coordinates.")
    if gathered.reservoir is not None and len(gathered.reservoir):
        told.append(f"The responses of {counted(len(gathered.reservoir), 'image')}, one by one.")
    elif any(part.factor is not None and part.total for part in statistics.parts):
        told.append("The responses of all images, one by one: with so few, the scatter is stored as rows.")
    if len(gathered.ledger):
        told.append(
            f"Hashes of {counted(len(gathered.ledger), 'image')}: whoever has an image can tell that it is here."
        )
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
    kept = "sums only" if gathered.reservoir is None else f"{counted(len(gathered.reservoir), 'response')} kept"
    return f"{counted(statistics.total, 'example')} of {counted(len(statistics.classes), 'class')}, {kept}."


def _merged_models(files: Sequence[Path]) -> tuple[Model, list[str]]:
    from yoro.model.open_model import load

    first, notes = load(files[0]), list[str]()
    for path in files[1:]:
        notes += first.merge(load(path)).notes
    return first.model, notes


def _solved(files: Sequence[Path], options: MergeOptions) -> tuple[Model, tuple[str, ...]]:
    """The model of files, at least one of them a statistics file."""
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
                raise InputError(f"{path} and {held[part]} hold the same part of the data, {part}; give one of them.")
            held[part] = path
    return shards, before
