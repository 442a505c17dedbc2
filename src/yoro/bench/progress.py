"""How far a run of a plan has come, and how that is told."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from yoro.bench.results import Entry


@dataclass
class Tally:
    """Cells by what became of them."""

    total: int
    found: int = 0  # finished before
    computed: int = 0
    failed: int = 0
    errors: dict[str, int] = field(default_factory=dict)  # how many cells failed for each reason
    _started: float = field(default_factory=time.perf_counter, repr=False)

    @property
    def dealt_with(self) -> int:
        """Cells that need no more thought in this run."""
        return self.found + self.computed + self.failed

    def line(self, entry: Entry, what: str) -> str:
        """What became of a cell, how far the run is, and about how long it takes yet."""
        rest = ""
        if self.computed and self.dealt_with < self.total:
            each = (time.perf_counter() - self._started) / self.computed
            rest = f"; about {spell(each * (self.total - self.dealt_with))} left"
        place = f"{entry.setting}, {entry.dataset}, {entry.method}, seed {entry.seed}"
        return f"[{self.dealt_with} of {self.total}] {place}: {what}{rest}"

    def to_json(self) -> dict[str, object]:
        """Plain values for a machine to read."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __str__(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.total} cells: {self.found} were finished before, {self.computed} computed{failed}"


def spell(seconds: float) -> str:
    """A time as a person says it.

    >>> [spell(seconds) for seconds in (0.04, 75, 7300)]
    ['0.04 s', '1.2 min', '2.0 h']
    """
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
