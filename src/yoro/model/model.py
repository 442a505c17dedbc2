"""A model as data: all that a classifier is made of."""

from __future__ import annotations

import hashlib
import time
import warnings
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from yoro.data.python_data import Label
from yoro.discriminant.calibration import Prior
from yoro.discriminant.evidence import Choice, Evidence, Validation, make_evidence
from yoro.discriminant.joint import JointStatistics
from yoro.discriminant.mixture import LeaveOneOutScores, Mixture
from yoro.discriminant.readings import FEATURES, Layout, side_by_side
from yoro.discriminant.reservoir import Members, Reservoir
from yoro.discriminant.shrinkage import Spectrum
from yoro.discriminant.statistics import ResponseStatistics
from yoro.environment import peak_memory
from yoro.errors import DegenerateWarning, InputError
from yoro.files.tensors import Arrays
from yoro.mappings.affine import AffineMapping
from yoro.mappings.batches import class_codes
from yoro.model.gathered import Gathered
from yoro.model.ledger import Ledger
from yoro.text.encoded_bank import EncodedBank

if TYPE_CHECKING:
    from yoro.discriminant.semi_supervised import PileOutcome

Json = dict[str, object]

LEFT_OUT = "leave_one_out"  # of an entry of the history: the accuracy that the solve found on its way
WHOLE = {"program": "their trained prompts", "sentences": "the sentences that images were compared with"}
PLACES = frozenset({"name", "licence"})  # what a source is called and where it lies makes no response different


@dataclass(frozen=True)
class Origin:
    """Where responses come from: source, transform and prompt as they are recorded, and a trained prompt's arrays."""

    source: Json = field(default_factory=lambda: {"name": "responses"})
    transform: Json | None = None
    prompt: Json | None = None
    prompt_arrays: Arrays = field(default_factory=dict)
    made_by: Json | None = None  # of responses that were given as numbers: the identity that their file carries

    @property
    def name(self) -> str:
        return str(self.source.get("name"))

    @property
    def images(self) -> bool:
        """Whether the responses are to images, not given as numbers."""
        return self.name != "responses"

    @property
    def layout(self) -> Layout | None:
        """The readings of a response, where they are several."""
        recorded = self.source if self.images else (self.made_by or {}).get("source")
        readings = recorded.get("readings") if isinstance(recorded, dict) else None
        return None if readings is None else Layout.from_config(readings)

    def describe(self) -> dict[str, Json | None]:
        """Source, prompt and transform, as `Pipeline.describe` gives them."""
        return {"source": self.source, "prompt": self.prompt, "transform": self.transform}

    def identity(self) -> Json | None:
        """What must be equal for responses to mean the same; None where nobody says where they come from."""
        if not self.images:
            return self.made_by
        program = self.prompt_arrays.get("program")
        digest = None if program is None else hashlib.sha256(program.tobytes()).hexdigest()
        return {**self.describe(), "program": digest}

    def check_same(self, other: Origin) -> None:
        """Raise unless responses of the two mean the same."""
        odd = difference({**self.describe()}, {**other.describe()}) or difference(self.identity(), other.identity())
        if odd:
            raise InputError(f"The models differ in {odd}. Only models that read the same responses can be merged.")


def difference(one: Json | None, two: Json | None) -> str:
    """In what two identities differ, in words; nothing where they do not, or where one is not known."""
    if one is None or two is None:
        return ""
    for what in ("source", "transform", "prompt"):
        mine, theirs = (part.get(what) for part in (one, two))
        mine, theirs = (part if isinstance(part, dict) else {} for part in (mine, theirs))
        odd = differing(mine, theirs)
        if odd:
            shown = "name" if odd[0] in ("networks", "readings") else odd[0]
            return f"the {odd[0]} of their {what}: {mine.get(shown)!r} and {theirs.get(shown)!r}"
    return next((said for what, said in WHOLE.items() if one.get(what) != two.get(what)), "")


def differing(one: Json, two: Json) -> list[str]:
    """Keys in which two descriptions of a source differ; where it lies does not matter, which function it is does."""
    one, two = _without_places(one), _without_places(two)
    return sorted(key for key in {*one, *two} if one.get(key) != two.get(key))


def _without_places(described: Json) -> Json:
    """A description without what sources are called and where they lie; of code, the function's name stays."""
    kept = {key: value for key, value in described.items() if key not in PLACES}
    if described.get("digest_of") == "code":
        kept["name"] = str(described.get("name")).rpartition(":")[2]
    if isinstance(networks := described.get("networks"), list):
        kept["networks"] = [_without_places(one) for one in networks]
        kept["readings"] = described.get("readings") and Layout.from_config(described["readings"]).numbered
    return kept


@dataclass(repr=False)
class Model:
    """Everything a classifier is made of."""

    gathered: Gathered
    mapping: AffineMapping
    choice: Choice
    prior: Prior = "empirical"
    protocol: str = "default"
    delta: float = 0.0
    origin: Origin = field(default_factory=Origin)
    history: list[Json] = field(default_factory=list)
    words: EncodedBank | None = None  # of a model on an image-text source
    integers: bool = False  # whether the labels were given as whole numbers, and are answered as such
    # What the solve found on its way; it is not saved, and a changed copy does not have it.
    found_left_out: LeaveOneOutScores | None = field(default=None, init=False, repr=False, compare=False)
    found_spectrum: Spectrum | None = field(default=None, init=False, repr=False, compare=False)  # of `main_reading`

    def __repr__(self) -> str:
        what = f"{len(self.mapping.classes):,} classes from {self.statistics.total:,.0f} examples"
        return f"<yoro model: {what} of {self.origin.name}, responses of width {self.statistics.width:,}>"

    @property
    def labels(self) -> tuple[Label, ...]:
        """The classes as they were given, in the order of the mapping's columns: names, or whole numbers."""
        names = self.mapping.classes
        whole = self.integers and all(_is_whole(name) for name in names)
        return tuple(int(name) for name in names) if whole else names

    @property
    def uses_pile(self) -> bool:
        """Whether unlabelled responses are part of the mapping."""
        return self.choice.pile is not None and self.choice.pile.weight > 0

    @property
    def recorded_accuracy(self) -> tuple[float, int] | None:
        """The leave-one-out accuracy that the history records of this model, and of how many examples it is."""
        found = self.history[-1].get(LEFT_OUT) if self.history else None
        share, n = (found.get("accuracy"), found.get("n")) if isinstance(found, dict) else (None, None)
        if not isinstance(share, int | float) or not isinstance(n, int) or not 0 <= share <= 1 or n < 1:
            return None  # a saved model may hold anything
        return float(share), n

    @property
    def statistics(self) -> JointStatistics:
        """Counts, means and scatter of the responses."""
        return self.gathered.statistics

    @property
    def ledger(self) -> Ledger:
        """Which contents were fitted, under which label."""
        return self.gathered.ledger

    @property
    def reservoir(self) -> Reservoir | None:
        """The individual responses kept, if any may be."""
        return self.gathered.reservoir

    @property
    def answering(self) -> set[str]:
        """The networks that the answers depend on; the name is empty if there is only one."""
        layout = self.statistics.layout
        pairs = zip(layout.readings, layout.slices, strict=True)
        return {reading.network for reading, part in pairs if self.mapping.weights[part].any()}

    @property
    def main_reading(self) -> int:
        """The features, where they are read, else the heaviest reading."""
        layout, parts = self.statistics.layout, self.choice.parts or (self.choice,)
        features = [i for i in layout.places(FEATURES) if layout.readings[i].network in self.answering]
        return features[0] if features else max(range(len(parts)), key=lambda i: parts[i].weight)

    def evidence(self) -> Mixture:
        """What leave-one-out and the shrinkage rules need."""
        return known(self.statistics, kept_members(self.reservoir), self.prior, self.words)

    def members(self) -> Members | None:
        """The individual responses kept; None if there are none."""
        return kept_members(self.reservoir)

    def left_out(self, evidence: Mixture | None = None) -> LeaveOneOutScores | None:
        """Exact leave-one-out scores of the responses kept, computed once; None if none can be left out.

        `evidence` is that of the model, where it is at hand.
        """
        if self.found_left_out is None and self.reservoir:
            if self.uses_pile:
                self.found_left_out = held_out(with_pile(self.gathered, self.choice.asked, self.prior, self.words))
            else:
                self.found_left_out = (evidence or self.evidence()).left_out(self.choice)
        return self.found_left_out

    def evidence_of(self, reading: int, members: Members | None) -> Evidence:
        """What is known by one reading, with these responses (n, width of all readings) to leave out."""
        spectrum = self.found_spectrum if reading == self.main_reading else None
        return _of_reading(reading, self.statistics, members, self.prior, self.words, spectrum)


def _is_whole(name: str) -> bool:
    """Whether a name is a whole number as Python writes it, so that it can be given back as one."""
    digits = name.removeprefix("-")
    return digits.isascii() and digits.isdigit() and str(int(name)) == name


def kept_members(reservoir: Reservoir | None) -> Members | None:
    """The responses of a reservoir that has any."""
    return reservoir.members() if reservoir is not None and len(reservoir) else None


def known(
    statistics: JointStatistics,
    members: Members | None,
    prior: Prior,
    words: EncodedBank | None,
    validation: Validation | None = None,
) -> Mixture:
    """The evidence for each reading: statistics, individual responses, and sentences if there are any."""
    layout = statistics.layout

    def of_reading(i: int) -> Evidence:
        evidence = _of_reading(i, statistics, members, prior, words)
        if validation is None:
            return evidence
        responses, labels = validation
        return replace(evidence, validation=(responses[:, layout.slices[i]], labels))

    evidences = tuple(side_by_side(of_reading, range(len(layout.readings)), layout.widths))
    return Mixture(layout, evidences, words is not None)


def with_pile(
    gathered: Gathered, rule: str | float, prior: Prior, words: EncodedBank | None, whole: AffineMapping | None = None
) -> PileOutcome:
    """What unlabelled responses add to the labelled ones, all of which are kept; `whole` is the mapping of these."""
    statistics, members = gathered.statistics, kept_members(gathered.reservoir)
    assert gathered.pile is not None
    layout, pile = statistics.layout, gathered.pile.members().responses
    if members is None:  # classes are known by their sentences alone
        members = Members(pile[:0], np.empty(0, dtype=np.str_), np.empty(0, dtype=np.str_), np.empty(0))
    rule = "loo" if rule == "validation" else rule

    def refit(rows: NDArray[np.intp]) -> AffineMapping:
        if whole is not None and len(rows) == len(members):
            return whole
        some = members.take(rows)
        sums = JointStatistics(layout, [ResponseStatistics(statistics.classes) for _ in layout.readings])
        sums.update(some.responses, some.labels.tolist())
        evidence = known(sums, some, prior, words)
        with warnings.catch_warnings():  # the fit on all labels has already warned
            warnings.simplefilter("ignore", DegenerateWarning)
            return evidence.mapping(evidence.judge(rule)[0])

    truth = class_codes(members.labels.tolist(), statistics.classes)
    from yoro.discriminant.semi_supervised import learn_from_pile

    return learn_from_pile(layout, members.responses, truth, members.groups, pile, refit)


def held_out(outcome: PileOutcome) -> LeaveOneOutScores | None:
    """The scores of labels held out, where some could be."""
    if outcome.left_out is None or outcome.rows is None:
        return None
    return LeaveOneOutScores(outcome.left_out, outcome.rows)


def _of_reading(
    i: int,
    statistics: JointStatistics,
    members: Members | None,
    prior: Prior,
    words: EncodedBank | None,
    spectrum: Spectrum | None = None,
) -> Evidence:
    layout = statistics.layout
    if members is not None and len(layout.readings) > 1:
        members = replace(members, responses=members.responses[:, layout.slices[i]])
    # Sentences lie in the space of the first reading, the image vectors.
    descriptions, votes = (None, True) if words is None or i > 0 else (words.descriptions, words.votes)
    return make_evidence(statistics.parts[i], members, prior, descriptions, votes=votes, spectrum=spectrum)


@dataclass(frozen=True)
class Verb:
    """An entry of a model's history in the making: name and start of a verb, its images, and the history before."""

    name: str
    images: int = 0
    before: tuple[Json, ...] = ()
    more: Json = field(default_factory=dict)  # what else is recorded of it
    integers: bool = False  # whether the labels were given as whole numbers
    started: float = field(default_factory=time.perf_counter)

    def history(self) -> list[Json]:
        """The history with the verb at its end, as far as it has come."""
        now: Json = {
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "verb": self.name,
            "images": self.images,
            "passes": int(self.images > 0),
            "seconds": round(time.perf_counter() - self.started, 3),
            "peak_memory_mb": round(peak_memory(), 1),
        }
        return [*self.before, now | self.more]
