"""The results of a plan by their places, and sentences on those that are not there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from yoro.bench.datasets.bench_datasets import find_bench_dataset
from yoro.bench.plan import Plan, Setting
from yoro.bench.results import PlanEntry, Result
from yoro.bench.tables.summary import exact_mean, mean
from yoro.errors import InputError

NAMED = 3  # missing runs named one by one
LISTED = 6  # datasets named in one sentence
LONGEST = 160  # characters of an error within a note


class RunGrid:
    """The runs of a plan by setting, method and dataset. A mean of what is not whole is None."""

    def __init__(self, plan: Plan, entries: Sequence[PlanEntry]) -> None:
        self.plan = plan
        self.entries = tuple(entries)
        self._runs: dict[tuple[str, str, str], dict[int, Result]] = {}
        for entry in entries:
            if entry.result is not None:
                place = (entry.setting, entry.method, entry.dataset)
                self._runs.setdefault(place, {})[entry.seed] = entry.result

    def runs(self, setting: Setting, method: str, dataset: str) -> dict[int, Result] | None:
        """Results by seed; None unless every seed of the setting has one."""
        found = self._runs.get((setting.name, method, dataset), {})
        return {seed: found[seed] for seed in setting.seeds} if all(s in found for s in setting.seeds) else None

    def accuracies(self, setting: Setting, method: str, dataset: str) -> dict[int, float] | None:
        """Accuracies in percent by seed."""
        runs = self.runs(setting, method, dataset)
        return None if runs is None else {seed: 100 * run.accuracy for seed, run in runs.items()}

    def exact(self, setting: Setting, method: str, dataset: str) -> Fraction | None:
        """The mean accuracy over the seeds, exactly."""
        runs = self.runs(setting, method, dataset)
        return (
            None if runs is None else exact_mean([r.correct for r in runs.values()], [r.tested for r in runs.values()])
        )

    def averages(self, setting: Setting, method: str) -> dict[int, float] | None:
        """Each seed's mean accuracy over all datasets of a setting; None if any run is missing."""
        found = [self.accuracies(setting, method, dataset) for dataset in setting.datasets]
        if method not in setting.methods or any(values is None for values in found):
            return None
        return {seed: mean([values[seed] for values in found if values is not None]) for seed in setting.seeds}

    def by_setting(self, settings: Sequence[Setting], method: str) -> dict[str, dict[int, float]] | None:
        """Each setting's averages by seed; None if a run is missing, or the settings cannot be summed up together."""
        found = {setting.name: self.averages(setting, method) for setting in settings}
        whole = {name: values for name, values in found.items() if values is not None}
        return whole if len(whole) == len(found) and comparable(settings, method) else None

    def all_runs(self, settings: Iterable[Setting], method: str) -> list[Result] | None:
        """Every run of a method in some settings; None if any is missing."""
        found = [self.runs(setting, method, dataset) for setting in settings for dataset in setting.datasets]
        return None if any(runs is None for runs in found) else [r for runs in found for r in (runs or {}).values()]

    def missing_datasets(self, setting: Setting, method: str) -> tuple[str, ...]:
        """Datasets of a setting without all runs of a method."""
        return tuple(name for name in setting.datasets if self.runs(setting, method, name) is None)

    def title(self, method: str) -> str:
        """A method's title in the plan; the name of one that the plan does not use."""
        return self.plan.uses[method].title if method in self.plan.uses else method

    def gaps(self) -> list[str]:
        """Sentences on runs that failed or are missing: the first few by name, the rest counted."""
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
        """Places in words and their errors; seeds of one place that share an error stand together."""
        alike: dict[tuple[str, str | None], list[int]] = {}
        for entry in entries:
            setting = self.plan.setting(entry.setting)
            where = f" in {setting_title(self.plan, setting)}" if len(self.plan.settings) > 1 else ""
            place = f"{self.title(entry.method)} on {dataset_title(entry.dataset)}{where}"
            alike.setdefault((place, entry.error), []).append(entry.seed)
        return [
            f"{place}, seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
            + (f": {shortened(error)}" if error is not None else "")
            for (place, error), seeds in alike.items()
        ]

    def incomplete(self) -> list[str]:
        """Sentences on averages that are not computed; methods that lack the same datasets share one."""
        alike: dict[tuple[str, int, tuple[str, ...]], list[str]] = {}
        for setting in self.plan.settings:
            for method in setting.methods if len(setting.datasets) > 1 else ():
                if lacking := self.missing_datasets(setting, method):
                    place = setting_title(self.plan, setting), len(setting.datasets), lacking
                    alike.setdefault(place, []).append(self.title(method))
        return [
            f"The average of {', '.join(methods)} in {title} needs all {size} datasets; "
            f"{len(lacking)} {'is' if len(lacking) == 1 else 'are'} missing: {_names(lacking)}."
            for (title, size, lacking), methods in alike.items()
        ]

    def chosen_on_test(self) -> list[str]:
        """A sentence on methods whose epoch was chosen on the test images; none if there are none."""
        found = {e.method for e in self.entries if e.result is not None and e.result.selected_on == "test"}
        names = [use.title for name, use in self.plan.uses.items() if name in found]
        if not names:
            return []
        what = "the epoch was chosen on the test images, as in some published numbers, which flatters the result"
        return [f"{', '.join(names)}: {what}."]


def comparable(settings: Sequence[Setting], method: str) -> bool:
    """Whether every setting has the method, and the same seeds."""
    seeds = set(settings[0].seeds)
    return all(method in setting.methods and set(setting.seeds) == seeds for setting in settings)


def setting_title(plan: Plan, setting: Setting) -> str:
    """A setting's title, with its name where another has the same title."""
    alike = sum(other.title == setting.title for other in plan.settings)
    return setting.title if alike == 1 else f"{setting.title} ({setting.name})"


def dataset_title(name: str) -> str:
    """The title of a dataset of the bench; its name where it cannot be found any more."""
    try:
        return find_bench_dataset(name).title
    except InputError:
        return name


def shortened(text: str | None, longest: int = LONGEST) -> str:
    """An error on one line, of bounded length."""
    plain = " ".join((text or "").split())
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


def _names(datasets: Sequence[str]) -> str:
    named = ", ".join(dataset_title(name) for name in datasets[:LISTED])
    return named + (f" and {len(datasets) - LISTED} more" if len(datasets) > LISTED else "")


def _first(runs: Sequence[str]) -> str:
    more = f"; and {len(runs) - NAMED:,} more" if len(runs) > NAMED else ""
    return "; ".join(runs[:NAMED]).rstrip(".") + more + "."
