"""A simulated person at the desk's page, who knows the truth: `python tests/desk_person.py FOLDER [COUNT]`.

FOLDER holds CLASS/ or train/CLASS/ and test/CLASS/; COUNT of its photos are the pile. Everything is done by keys and
clicks in Chromium. Printed are the decisions it took and how many photos are in the folder of their class.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from browser import Page, browser
from child import wait_until
from desks import RunningDesk, desk_at
from yoro.data.find import find

SMALL = 8  # photos of a group that is not worth naming, once the rest was grouped again
PURE = 0.4  # share of a group that its commonest class must have to be named
LISTS, QUESTIONS = 4, 3  # checked and answered before the next look at the proposals


@dataclass(frozen=True)
class PagePerson:
    """Works off the lists of the page; `truth` is the class of each photo by the name of its file."""

    page: Page
    desk: RunningDesk
    truth: Mapping[str, str]

    @property
    def decisions(self) -> int:
        """As the page counts them."""
        return int(self.page.text("#score-text").split()[-2].replace(",", ""))

    def label_all(self, most: int) -> int:
        """Label the pile in at most so many decisions and write the result; returns how many it took."""
        page = self.page
        page.open(f"{self.desk.client.base_url}/desk/")
        page.until("return document.querySelectorAll('#groups li').length > 0")
        self.name_groups(least=1)
        before = self.decisions
        page.click("#regroup")
        wait_until(lambda: self.decisions > before)
        self.learned()
        self.name_groups(least=SMALL)
        while self.decisions < most - 2 and self.listed("#checks"):
            for label in self.listed("#checks")[:LISTS]:
                if self.decisions < most - 2 and label in self.listed("#checks")[:-1]:
                    self.check(label)
            for _ in range(QUESTIONS):
                if self.decisions < most - 1 and self.listed("#checks"):
                    self.answer()
        if page.count("#sure button"):
            page.click("#sure button:last-child")
            page.until("return document.querySelectorAll('#sure button').length === 0")
        page.click("#write")
        page.until("return document.getElementById('message').innerText.includes('photos of')")
        return self.decisions

    def name_groups(self, least: int) -> None:
        """Name each group after its commonest class, without the strangers; pass over what is small or too mixed."""
        passed = 0
        if self.listed("#groups"):
            self.page.click("#groups li:first-child button")
        while passed < len(groups := self.listed("#groups")):
            labels = self.photos(groups[passed])
            label, count = Counter(labels).most_common(1)[0]
            if len(labels) < least or count < PURE * len(labels):
                passed += 1
                self.page.keys("]")
            else:
                self.apply(label, labels)  # then the first list is open
                for _ in range(passed):
                    self.page.keys("]")
        self.learned()

    def check(self, label: str) -> None:
        """Confirm a list of proposals, without those that are wrong."""
        place = 1 + self.listed("#checks").index(label)
        self.page.click(f"#checks li:nth-child({place}) button")
        self.apply(label, self.photos(f"Proposed: {label}"))
        self.learned()

    def answer(self) -> None:
        """Answer the first question."""
        self.page.click("#checks li:last-child button")
        self.apply(self.photos("Questions: what is this?")[0])
        self.learned()

    def photos(self, title: str) -> list[str]:
        """The class of every photo of the list of this title, once all of them are shown."""
        self.page.until(
            """
            const title = document.getElementById("title").innerText, more = document.getElementById("more");
            if (!title.startsWith(arguments[0] + " (") || title.endsWith("(0 photos)")) return false;
            if (!more.hidden) more.click();
            return title.includes(`(${document.querySelectorAll("#gallery li").length} photo`);
            """,
            title,
        )
        names = self.page.run("return [...document.querySelectorAll('#gallery li')].map((item) => item.title)")
        return [self.truth[Path(str(name)).name] for name in names]

    def apply(self, label: str, labels: Sequence[str] = ()) -> None:
        """Type a label and press the button, with the photos of other classes selected."""
        before, page = self.decisions, self.page
        strangers = [i for i, truth in enumerate(labels) if truth != label]
        for i in strangers:
            page.click(f"#gallery li:nth-child({i + 1})")
        page.keys("n")
        page.call("Input.insertText", text=label)
        page.click("#apply")
        page.until("return document.getElementById('name').value === ''")
        steps = 1 + bool(strangers) - (len(strangers) == len(labels) > 0)
        assert self.decisions == before + steps, (label, labels)

    def listed(self, lists: str) -> list[str]:
        """The titles of some lists, from the top."""
        script = "return [...document.querySelectorAll(arguments[0] + ' .text')].map((item) => item.innerText)"
        return self.page.run(script, lists)

    def learned(self) -> None:
        """Wait until the proposals are of the last step."""
        self.page.until("return document.getElementById('working').hidden")


def label_by_page(files: Mapping[Path, str], place: Path, most: int = 150) -> tuple[int, int]:
    """Label files, given with their classes, through the page; returns the decisions and how many labels are right."""
    pile, into = place / "pile", place / "photos"
    pile.mkdir()
    truth = {f"{i:04d}{file.suffix}": label for i, (file, label) in enumerate(files.items())}
    for name, file in zip(truth, files, strict=True):
        shutil.copy(file, pile / name)
    with browser() as page, desk_at(pile, "--into", into) as desk:
        decisions = PagePerson(page, desk, truth).label_all(most)
        assert [fault for fault in page.faults if str(desk.client.base_url) in fault] == []
    return decisions, sum(truth[file.name] == file.parent.name for file in into.glob("*/*"))


def main(folder: Path, count: int = 1000) -> None:
    """Label photos of a folder."""
    examples = list(find(folder).examples)
    drawn = np.random.default_rng(0).permutation(len(examples))[:count]
    files = {Path(str(examples[i].image)): examples[i].label or "" for i in drawn}
    with tempfile.TemporaryDirectory() as place:
        decisions, right = label_by_page(files, Path(place))
    told = f"{len(files):,} photos of {len(set(files.values()))} classes, {decisions} decisions"
    print(f"{told}: {right:,} in the folder of their class ({right / len(files):.1%})")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:3]))
