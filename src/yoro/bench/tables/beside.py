"""The paper's numbers beside ours: which may stand there, and what is to be known of their protocols."""

from __future__ import annotations

from collections.abc import Sequence

from yoro.bench.plan import Plan, Setting
from yoro.bench.tables.layout import letter
from yoro.bench.tables.paper import Published, protocol_marks, published, published_value

CLIP = ("clip-rn50", "clip-rn101", "clip-vit-b32", "clip-vit-b16")
AVERAGE = "average"
TOGETHER = ("overall", "overall-clip")
# Tables that print averages alone average the rows of these.
FULL_DATA_ROWS, CLIP_ROWS = "yoro-mapping-full-detail", "fsclip-v32-r50"


class Beside:
    """Looks up numbers of a plan's tables of the paper for one table, and letters the sentences on them.

    Given the letters of another table, a sentence keeps its letter.
    """

    def __init__(self, plan: Plan, letters: dict[str, str] | None = None) -> None:
        self._plan = plan
        self._tables = plan.paper
        self._used: dict[tuple[str, ...], list[str]] = {}  # tables by method and settings
        self._letters = {} if letters is None else letters  # by sentence
        self._said: set[str] = set()  # sentences of this table
        self._other = False  # whether an average of other datasets was left out

    def number(self, setting: Setting, method: str, dataset: str, metric: str = "accuracy") -> Published | None:
        """The paper's number of a dataset."""
        numbers = (published_value(table, setting.name, method, dataset, metric) for table in self._tables)
        found = next((number for number in numbers if number is not None), None)
        return None if found is None else self._noted(found, [setting])

    def average(self, settings: Sequence[Setting], method: str, metric: str = "accuracy") -> Published | None:
        """The paper's average over the datasets of a setting, or of several together.

        None unless the paper averages the same datasets and settings: else the two are not comparable. A lone
        dataset is its own average.
        """
        first = settings[0]
        if len(settings) == 1 and len(first.datasets) == 1:
            return self.number(first, method, first.datasets[0], metric)
        other = False
        together = TOGETHER if first.reading.shots is not None else TOGETHER[:1]
        for name in (first.name,) if len(settings) == 1 else together:
            for table in self._tables:
                found = published_value(table, name, method, AVERAGE, metric)
                if found is not None and _same(found, settings):
                    return self._noted(found, settings)
                other = other or found is not None
        self._other = self._other or other
        return None

    def mark(self, method: str, *groups: Sequence[Setting]) -> tuple[str, ...]:
        """Letters of the sentences on a method's numbers that were found so far for these groups of settings."""
        keys = [(method, *(setting.name for setting in group)) for group in groups]
        tables = dict.fromkeys(table for key in keys for table in self._used.get(key, ()))
        texts = dict.fromkeys(text for table in tables for text in protocol_marks(table, method))
        self._said.update(texts)
        found = [self._letters.setdefault(text, letter(len(self._letters))) for text in texts]
        return tuple(sorted(found, key=lambda mark: (len(mark), mark)))

    def marks(self) -> tuple[tuple[str, str], ...]:
        """Letters given so far in this table, and their sentences."""
        return tuple((mark, text) for text, mark in self._letters.items() if text in self._said)

    def notes(self) -> list[str]:
        """What was left out, and why."""
        said = []
        if self._other:
            said.append("The paper's averages are of other datasets or settings than these, and are not shown.")
        limited = any(setting.reading.limit for setting in self._plan.settings)
        if limited and self._used:
            said.append("Images are limited here; the paper's numbers are of all images.")
        return said

    def _noted(self, number: Published, settings: Sequence[Setting]) -> Published:
        used = self._used.setdefault((number.method, *(setting.name for setting in settings)), [])
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
