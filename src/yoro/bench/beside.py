"""The paper's numbers beside ours: which may stand there, and what is to be known of their protocols."""

from __future__ import annotations

from collections.abc import Sequence

from yoro.bench.layout import letter, lettered
from yoro.bench.paper import Published, protocol_marks, published, published_value
from yoro.bench.plan import Plan, Setting

CLIP = ("clip-rn50", "clip-rn101", "clip-vit-b32", "clip-vit-b16")
AVERAGE = "average"
TOGETHER = ("overall", "overall-clip")
# Tables that print averages alone average the rows of these.
FULL_DATA_ROWS, CLIP_ROWS = "yoro-mapping-full-detail", "fsclip-v32-r50"


class Beside:
    """Looks up numbers of a plan's tables of the paper for one table, and letters the sentences on them."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._tables = plan.paper
        self._used: dict[tuple[str, str], list[str]] = {}  # tables by setting and method
        self._letters: dict[str, str] = {}  # by sentence
        self._other = False  # whether an average of other datasets was left out

    def number(self, setting: Setting, method: str, dataset: str, metric: str = "accuracy") -> Published | None:
        """The paper's number of a dataset."""
        numbers = (published_value(table, setting.name, method, dataset, metric) for table in self._tables)
        found = next((number for number in numbers if number is not None), None)
        return None if found is None else self._noted(found)

    def average(self, settings: Sequence[Setting], method: str, metric: str = "accuracy") -> Published | None:
        """The paper's average over the datasets of a setting, or of several together.

        None unless the paper averages the same datasets and settings: else the two are not comparable. A lone
        dataset is its own average.
        """
        first = settings[0]
        if len(settings) == 1 and len(first.datasets) == 1:
            return self.number(first, method, first.datasets[0], metric)
        other = False
        for name in (first.name,) if len(settings) == 1 else TOGETHER:
            for table in self._tables:
                found = published_value(table, name, method, AVERAGE, metric)
                if found is not None and _same(found, settings):
                    return self._noted(found)
                other = other or found is not None
        self._other = self._other or other
        return None

    def mark(self, method: str, settings: Sequence[Setting]) -> tuple[str, ...]:
        """Letters of the sentences on a method's numbers that were found so far."""
        names = [setting.name for setting in settings] + (list(TOGETHER) if len(settings) > 1 else [])
        tables = dict.fromkeys(table for name in names for table in self._used.get((name, method), ()))
        texts = dict.fromkeys(text for table in tables for text in protocol_marks(table, method))
        return tuple(self._letters.setdefault(text, letter(len(self._letters))) for text in texts)

    def notes(self) -> list[str]:
        """The lettered sentences, and what was left out."""
        said = list(lettered(self._letters))
        if self._other:
            said.append("The paper's averages are of other datasets or settings than these, and are not shown.")
        limited = any(setting.reading.limit for setting in self._plan.settings)
        if limited and self._used:
            said.append("Images are limited here; the paper's numbers are of all images.")
        return said

    def _noted(self, number: Published) -> Published:
        used = self._used.setdefault((number.setting, number.method), [])
        if number.table not in used:
            used.append(number.table)
        return number


def _same(number: Published, settings: Sequence[Setting]) -> bool:
    """Whether a printed average is of just these settings and their datasets."""
    if number.setting in TOGETHER and {setting.name for setting in settings} != _settings(number):
        return False
    return all(set(setting.datasets) == _datasets(number.table, setting.name) for setting in settings)


def _settings(number: Published) -> set[str]:
    if number.setting == "overall-clip":
        return set(CLIP)
    return {other.setting for other in published(number.table)} - set(TOGETHER)


def _datasets(table: str, setting: str) -> set[str]:
    """What a table averages over in a setting."""
    own = {number.dataset for number in published(table) if number.setting == setting} - {AVERAGE}
    if own:
        return own
    rows = published(CLIP_ROWS if setting in CLIP else FULL_DATA_ROWS)
    return {number.dataset for number in rows} - {AVERAGE}


def check_tables(plan: Plan) -> None:
    """Raise if a plan names a table that the paper does not have."""
    for table in plan.paper:
        published(table)
