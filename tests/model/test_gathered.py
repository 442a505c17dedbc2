"""Any sequence of changes of a model gives what a fit of the resulting data gives."""

from __future__ import annotations

import csv
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import yoro
from yoro.data.responses import ResponseBatch
from yoro.discriminant.evidence import Choice
from yoro.discriminant.readings import Layout, Reading
from yoro.errors import InputError, StatisticsError, StoreError
from yoro.mappings.batches import row_digests
from yoro.model.gathered import Gathered
from yoro.model.model import Model, Origin
from yoro.model.open_model import OpenModel, load
from yoro.model.settings import SolveSettings
from yoro.model.shards import Shard
from yoro.model.solve import solve
from yoro.trust.label_cleaning import clean, write_undo

ONE, TWO = Layout.of(7), Layout((Reading("logits", 4), Reading("features", 3, "unit")))
RESPONSES = np.random.default_rng(0).normal(size=(40, 7)).astype(np.float32)
CONTENTS = row_digests(RESPONSES)
NAMES = ("cat", "dog", "owl", "fox")
FIRST = [(row, NAMES[row % 3]) for row in range(15)]  # stays in, so that there is always enough to solve
PLENTY, FEW, NONE = 500, 12, 0  # responses that the reservoir has room for

Example = tuple[int, str]  # row of the responses, label
rows = st.lists(st.tuples(st.integers(0, 39), st.sampled_from(NAMES)), min_size=1, max_size=8)


def batch(examples: list[Example]) -> ResponseBatch:
    chosen = [row for row, _ in examples]
    contents, names = [CONTENTS[row] for row in chosen], [f"row {row}" for row in chosen]
    return ResponseBatch(RESPONSES[chosen], [label for _, label in examples], None, contents, names)


def data_of(examples: list[Example]) -> tuple[np.ndarray, np.ndarray]:
    return RESPONSES[[row for row, _ in examples]], np.array([label for _, label in examples])


def entries(examples: list[Example]) -> Counter[tuple[bytes, str]]:
    return Counter((CONTENTS[row], label) for row, label in examples)


def same_statistics(mine: Gathered, other: Gathered) -> None:
    one, two = mine.statistics, other.statistics
    assert one.classes == two.classes
    assert mine.images == other.images
    for part, fresh in zip(one.parts, two.parts, strict=True):
        np.testing.assert_allclose(part.counts, fresh.counts, atol=1e-9)
        np.testing.assert_allclose(part.means, fresh.means, atol=1e-9)
        np.testing.assert_allclose(part.scatter, fresh.scatter, atol=1e-9)


class Changes(RuleBasedStateMachine):
    """A classifier under its verbs, beside the list of what it should have been fitted on."""

    @initialize(layout=st.sampled_from([ONE, TWO]), capacity=st.sampled_from([PLENTY, FEW, NONE]), noting=st.booleans())
    def fit(self, layout: Layout, capacity: int, noting: bool) -> None:
        self.layout, self.capacity, self.noting = layout, capacity, noting
        self.rule = "loo" if capacity == PLENTY else 0.3
        self.folder = Path(tempfile.mkdtemp())
        self.examples = list(FIRST)
        self.classifier = OpenModel(self.fitted(self.examples))

    def teardown(self) -> None:
        for file in sorted(self.folder.rglob("*"), reverse=True) if hasattr(self, "folder") else []:
            file.rmdir() if file.is_dir() else file.unlink()

    def fitted(self, examples: list[Example], keep: Choice | None = None) -> Model:
        gathered = Gathered.empty(self.capacity, 0, self.layout, noting=self.noting)
        gathered.add([batch(examples)])
        origin = Origin(made_by={"source": {"readings": self.layout.config()}})
        return solve(gathered, SolveSettings(self.rule, reservoir=self.capacity), origin, keep=keep)

    def removable(self) -> list[Example]:
        return list((Counter(self.examples) - Counter(self.first())).elements())

    def first(self) -> list[Example]:
        """What stays in, under the labels of now."""
        return self.examples[: len(FIRST)]

    def drop(self, gone: list[Example]) -> None:
        left = self.examples[len(FIRST) :]
        for example in gone:
            left.remove(example)
        self.examples = self.first() + left

    @rule(new=rows)
    def update(self, new: list[Example]) -> None:
        known = entries(self.examples)
        change = self.classifier.update(data_of(new))
        again = sum(entry in known for entry in entries(new).elements())
        assert (f"{again} example" in " ".join(change.notes)) == (again > 0 and self.noting)
        assert self.classifier.model.history[-1]["images"] == len(new)
        self.examples += new

    @precondition(lambda self: self.noting and self.removable())
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        gone = data.draw(st.permutations(self.removable()))[: data.draw(st.integers(1, 5))]
        receipt = self.classifier.forget(data_of(gone)).receipt
        assert Counter(receipt.removed) == entries(gone)
        self.drop(gone)

    @precondition(lambda self: self.noting)
    @rule(new=rows)
    def forget_what_was_never_added(self, new: list[Example]) -> None:
        before = self.classifier.model
        if entries(new) <= entries(self.examples):
            return
        with pytest.raises(StatisticsError, match="cannot be removed"):
            self.classifier.forget(data_of(new))
        assert self.classifier.model is before

    @rule(names=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(NAMES), min_size=1))
    def relabel(self, names: dict[str, str]) -> None:
        present = {label for _, label in self.examples}
        names = {old: new for old, new in names.items() if old in present}
        if names and len({names.get(label, label) for _, label in self.first()}) > 1:
            self.classifier.relabel(names)
            self.examples = [(row, names.get(label, label)) for row, label in self.examples]

    @rule(new=rows, mine_first=st.booleans())
    def merge(self, new: list[Example], mine_first: bool) -> None:
        other = [*FIRST[:6], *new]
        if mine_first:
            self.classifier.merge(OpenModel(self.fitted(other)))
        else:
            merged = OpenModel(self.fitted(other))
            merged.merge(self.classifier)
            self.classifier = merged
        self.examples += other

    @precondition(lambda self: self.noting and self.removable())
    @rule(data=st.data(), new=rows)
    def exchange(self, data: st.DataObject, new: list[Example]) -> None:
        gone = data.draw(st.permutations(self.removable()))[: data.draw(st.integers(1, 5))]
        self.classifier.change("clean", remove=batch(gone), add=batch(new))
        self.drop(gone)
        self.examples += new

    @precondition(lambda self: self.noting and self.capacity == PLENTY and self.removable())
    @rule(data=st.data(), undo=st.booleans())
    def clean(self, data: st.DataObject, undo: bool) -> None:
        gone = data.draw(st.permutations(sorted(set(self.removable()))))[: data.draw(st.integers(1, 4))]
        chosen = [
            (row, label, data.draw(st.sampled_from([n for n in NAMES if n != label] + [""]))) for row, label in gone
        ]
        file = self.folder / "list.csv"
        with file.open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["path", "label", "proposed", "digest", "action"])
            for row, label, new in chosen:
                writer.writerow([f"row {row}", label, new, CONTENTS[row].hex(), "relabel" if new else "remove"])
        _, done = clean(self.classifier, file)
        if undo:
            write_undo(self.folder / "list.undo", done)
            clean(self.classifier, self.folder / "list.undo")
        else:
            self.drop(gone)
            self.examples += [(row, new) for row, _, new in chosen if new]

    @rule()
    def save_and_load(self) -> None:
        self.classifier.save(self.folder / "m.yoro", force=True)
        self.classifier = load(self.folder / "m.yoro")
        model = self.classifier.model
        again = Shard.from_bytes(Shard(model.gathered, model.origin).to_bytes(), "shard").gathered
        same_statistics(again, model.gathered)
        assert again.ledger.entries() == model.ledger.entries()
        assert again.noting is self.noting

    @invariant()
    def it_is_a_fit_of_the_resulting_data(self) -> None:
        if not hasattr(self, "classifier"):
            return
        model = self.classifier.model
        # Of a part of the responses a fit keeps others, and may choose otherwise; by the same choice it is the same.
        fresh = self.fitted(self.examples, keep=model.choice if self.capacity == FEW else None)
        same_statistics(model.gathered, fresh.gathered)
        listed = entries(self.examples)
        assert Counter(model.ledger.entries()) == (listed if self.noting else Counter())
        if self.noting:
            assert all(model.gathered.contains(list(listed)))
            assert not any(model.gathered.contains([(CONTENTS[row], "yak") for row in range(40)]))
        self.same_reservoir(model, fresh)
        np.testing.assert_allclose(model.mapping.weights, fresh.mapping.weights, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(model.mapping.bias, fresh.mapping.bias, rtol=1e-9, atol=1e-9)
        mine, theirs = (yoro.Classifier(one).predict_proba(RESPONSES) for one in (model, fresh))
        np.testing.assert_allclose(mine, theirs, atol=1e-9)

    def same_reservoir(self, model: Model, fresh: Model) -> None:
        """Where there is room for all, the same responses; else those of a fresh one with the smallest keys."""
        mine, theirs = model.members(), fresh.members()
        assert (mine is None) == (self.capacity == NONE)
        if mine is None or theirs is None:
            return
        assert len(mine) == len(self.examples) if self.capacity == PLENTY else len(mine) <= FEW
        assert mine.digests == theirs.digests[: len(mine)]
        np.testing.assert_array_equal(mine.responses, theirs.responses[: len(mine)])
        kept, wanted = (Counter(zip(one.digests, one.labels.tolist(), strict=True)) for one in (mine, theirs))
        assert kept <= wanted


TestChanges = Changes.TestCase
TestChanges.settings = settings(
    max_examples=6, stateful_step_count=8, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate]
)  # a sequence is short enough to be read as it is


@pytest.mark.long
def test_many_changes_give_what_a_fit_afresh_gives():
    run_state_machine_as_test(Changes, settings=settings(TestChanges.settings, max_examples=60))


def test_a_copy_changes_alone():
    gathered = Gathered.empty(PLENTY, 0, TWO)
    gathered.add([batch(FIRST)])
    copy = gathered.copy()
    copy.remove([batch(FIRST[:2])])
    copy.rename({"cat": "lynx"})
    assert (gathered.images, copy.images) == (15, 13)
    assert gathered.statistics.classes == ("cat", "dog", "owl")
    assert gathered.whole
    assert copy.whole


def test_a_removal_that_fails_changes_nothing():
    gathered = Gathered.empty(PLENTY, 0, TWO)
    gathered.add([batch(FIRST)])
    with pytest.raises(StatisticsError, match="1 of 2 cannot be removed; the first is row 20"):
        gathered.remove([batch(FIRST[:1]), batch([(20, "cat")])])
    with pytest.raises(InputError, match="yak"):
        gathered.rename({"yak": "cat"})
    assert Counter(gathered.ledger.entries()) == entries(FIRST)
    assert gathered.images == len(gathered.reservoir) == 15


@pytest.mark.parametrize("key", ["gathered", "readings", "format"])
def test_a_file_that_lacks_something_is_refused(key):
    gathered = Gathered.empty(PLENTY, 0, TWO)
    gathered.add([batch(FIRST)])
    with pytest.raises(StoreError, match=r"damaged|format"):
        Gathered.from_bytes(gathered.to_bytes({key: None}), "a.stats")
