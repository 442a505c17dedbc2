"""The results of a plan by setting, method and dataset, and notes on those that are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from yoro.errors import InputError, counted
from yoro.research.bench.datasets.bench_datasets import find_bench_dataset
from yoro.research.bench.plan import Plan, Setting
from yoro.research.bench.results import CellResult, PlanEntry
from yoro.research.bench.tables.summary import mean

NAMED = 3  # missing runs named one by one
LISTED = 6  # datasets named in one sentence
LONGEST = 160  # characters of an error within a note


def percent(run: CellResult) -> float:
    """The accuracy of a run in percent."""
    return 100 * run.accuracy


class RunGrid:
    """The runs of a plan by setting, method and dataset. The mean of an incomplete set of runs is None."""

    def __init__(self, plan: Plan, entries: Sequence[PlanEntry]) -> None:
        self.plan = plan
        self.entries = tuple(entries)
        self._places: dict[tuple[str, str, str], list[PlanEntry]] = {}
        for entry in entries:
            self._places.setdefault((entry.setting, entry.method, entry.dataset), []).append(entry)

    def at(self, setting: Setting, method: str, dataset: str) -> list[PlanEntry]:
        return self._places.get((setting.name, method, dataset), [])

    def runs(self, setting: Setting, method: str, dataset: str) -> dict[int, CellResult] | None:
        """Results by seed; None unless every seed of the setting has one."""
        entries = self.at(setting, method, dataset)
        found = {entry.seed: entry.result for entry in entries if entry.result is not None}
        return {seed: found[seed] for seed in setting.seeds} if all(s in found for s in setting.seeds) else None

    def whole(self, settings: Iterable[Setting], method: str) -> dict[str, dict[int, CellResult]] | None:
        """Results by seed of every dataset of some settings; None if any is missing."""
        places = [(setting, dataset) for setting in settings for dataset in setting.datasets]
        found = {f"{setting.name}/{dataset}": self.runs(setting, method, dataset) for setting, dataset in places}
        there = {place: runs for place, runs in found.items() if runs is not None}
        return there if len(there) == len(found) else None

    def all_runs(self, settings: Sequence[Setting], method: str) -> list[CellResult] | None:
        """Every run of a method in some settings; None if any is missing, or the settings are not comparable."""
        found = self.whole(settings, method) if comparable(settings, method) else None
        return None if found is None else [run for runs in found.values() for run in runs.values()]

    def averages(
        self, setting: Setting, method: str, figure: Callable[[CellResult], float] = percent
    ) -> dict[int, float] | None:
        """Each seed's mean over all datasets of a setting; None if any run is missing."""
        found = self.whole([setting], method) if method in setting.methods else None
        if found is None:
            return None
        return {seed: mean([figure(runs[seed]) for runs in found.values()]) for seed in setting.seeds}

    def by_setting(self, settings: Sequence[Setting], method: str) -> dict[str, dict[int, float]] | None:
        """Each setting's averages by seed; None if a run is missing, or the settings are not comparable."""
        found = {setting.name: self.averages(setting, method) for setting in settings}
        there = {name: values for name, values in found.items() if values is not None}
        return there if len(there) == len(found) and comparable(settings, method) else None

    def title(self, method: str) -> str:
        """A method's title in the plan; the name of one that the plan does not use."""
        return self.plan.uses[method].title if method in self.plan.uses else method

    def gaps(self) -> list[str]:
        """Notes on runs that failed or are missing: the first few by name, the rest counted."""
        absent = [entry for entry in self.entries if entry.result is None]
        said = []
        for failed in (True, False):
            chosen = [entry for entry in absent if (entry.error is not None) == failed]
            if chosen:
                count = f"{len(chosen):,} run{'s' if len(chosen) > 1 else ''}"
                word = "failed" if failed else "are missing" if len(chosen) > 1 else "is missing"
                said.append(f"{count} {word}: {_first(self.absent(chosen))}")
        return said

    def absent(self, entries: Iterable[PlanEntry]) -> list[str]:
        """Places and their errors, one line for all seeds that share an error."""
        alike: dict[tuple[str, str | None], list[int]] = {}
        for entry in entries:
            setting = self.plan.setting(entry.setting)
            where = f" in {setting_title(self.plan, setting)}" if len(self.plan.settings) > 1 else ""
            place = f"{self.title(entry.method)} on {dataset_title(entry.dataset)}{where}"
            alike.setdefault((place, entry.error), []).append(entry.seed)
        return [
            f"{place}, seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
            + ("" if error is None else f": {_shortened(error)}")
            for (place, error), seeds in alike.items()
        ]

    def incomplete(self) -> list[str]:
        """Notes on averages that are not computed; methods that miss the same datasets share one."""
        alike: dict[tuple[str, int, tuple[str, ...]], list[str]] = {}
        for setting in self.plan.settings:
            for method in setting.methods if len(setting.datasets) > 1 else ():
                lacking = tuple(name for name in setting.datasets if self.runs(setting, method, name) is None)
                if lacking:
                    place = setting_title(self.plan, setting), len(setting.datasets), lacking
                    alike.setdefault(place, []).append(self.title(method))
        return [
            f"The average of {', '.join(methods)} in {title} needs all {size} datasets; "
            f"{len(lacking)} {'is' if len(lacking) == 1 else 'are'} missing: {_names(lacking)}."
            for (title, size, lacking), methods in alike.items()
        ]

    def not_summed(self) -> list[str]:
        """Notes on groups without a baseline, and on methods that some settings of a group do not run."""
        base, said = self.plan.baseline, []
        for title, settings in groups(self.plan):
            if not comparable(settings, base):
                said.append(f"{title}: no gain, because the baseline {base!r} is not run there.")
            methods = methods_of(settings)
            absent = [self.title(name) for name in methods if name != base and not comparable(settings, name)]
            if absent:
                said.append(
                    f"{title}: no summary of {', '.join(absent)}, which some settings do not run with the same seeds."
                )
            known = [name for name in methods if comparable(settings, name)]
            lacking = [self.title(name) for name in known if self.whole(settings, name) is None]
            if lacking:
                needed = counted(sum(len(setting.datasets) for setting in settings), "dataset")
                said.append(f"{title}: no summary of {', '.join(lacking)}, which needs every seed of {needed}.")
        return said

    def not_overall(self) -> list[str]:
        """A note on methods without an overall mean because the plan does not run them everywhere."""
        out = [use.title for name, use in self.plan.uses.items() if not comparable(self.plan.settings, name)]
        why = "no overall mean, because some settings do not run them with the same seeds"
        return [f"{', '.join(out)}: {why}."] if out else []

    def chosen_on_test(self) -> list[str]:
        """A note on methods whose epoch was chosen on the test images."""
        found = {e.method for e in self.entries if e.result is not None and e.result.selected_on == "test"}
        names = [use.title for name, use in self.plan.uses.items() if name in found]
        if not names:
            return []
        what = "the epoch was chosen on the test images, as in some published numbers, so the accuracy is optimistic"
        return [f"{', '.join(names)}: {what}."]


def methods_of(settings: Iterable[Setting]) -> list[str]:
    """All methods of some settings, in the order in which they are first named."""
    return list(dict.fromkeys(method for setting in settings for method in setting.methods))


def comparable(settings: Sequence[Setting], method: str) -> bool:
    """Whether every setting has the method, and the same seeds."""
    seeds = set(settings[0].seeds)
    return all(method in setting.methods and set(setting.seeds) == seeds for setting in settings)


def groups(plan: Plan) -> list[tuple[str, tuple[Setting, ...]]]:
    """Settings to sum up, and their title: each alone, then those of full data and those of few shots together.

    Settings of different seeds are not summed up.
    """
    made: list[tuple[str, tuple[Setting, ...]]] = []
    limited = any(setting.inputs.limit for setting in plan.settings)
    for few, kind in ((False, "Limited data" if limited else "Full data"), (True, "Few-shot")):
        alike = tuple(setting for setting in plan.settings if (setting.inputs.shots is not None) == few)
        made += [(setting_title(plan, setting), (setting,)) for setting in alike]
        if len(alike) > 1 and len({frozenset(setting.seeds) for setting in alike}) == 1:
            together = "both" if len(alike) == 2 else f"all {len(alike)}"
            made.append((f"{kind}, {together} settings", alike))
    return made


def setting_title(plan: Plan, setting: Setting) -> str:
    """A setting's title, with its name where another has the same title."""
    alike = sum(other.title == setting.title for other in plan.settings)
    return setting.title if alike == 1 else f"{setting.title} ({setting.name})"


def dataset_title(name: str) -> str:
    """The title of a dataset; its name if it cannot be found any more."""
    try:
        return find_bench_dataset(name).title
    except InputError:
        return name


def _shortened(error: str) -> str:
    plain = " ".join(error.split())
    return plain if len(plain) <= LONGEST else plain[: LONGEST - 1] + "…"


def _names(datasets: Sequence[str]) -> str:
    named = ", ".join(dataset_title(name) for name in datasets[:LISTED])
    return named + (f" and {len(datasets) - LISTED} more" if len(datasets) > LISTED else "")


def _first(runs: Sequence[str]) -> str:
    more = f"; and {len(runs) - NAMED:,} more" if len(runs) > NAMED else ""
    return "; ".join(runs[:NAMED]).rstrip(".") + more + "."
