"""Explanations of classes, and of why an image got its class and not the second best.

The prediction is one affine map of all layers, so the difference of two scores is an exact sum of contributions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from yoro.data.examples import Example
from yoro.data.find import find
from yoro.data.processes import decode_fenced
from yoro.data.response_streams import is_response_data
from yoro.discriminant.evidence import mapping_at
from yoro.errors import InputError, percent_text
from yoro.files.result_view import Result, Table
from yoro.files.rows import Row
from yoro.mappings.batches import Array
from yoro.model.answers import Answers
from yoro.model.model import Json, Model
from yoro.model.open_model import OpenModel
from yoro.model.priors import fitted_log_prior
from yoro.model.settings import USUAL, Loading
from yoro.option import check_choice
from yoro.trust.contributions import Terms, terms_of
from yoro.trust.nearest_neighbours import FittedImages, Neighbour, pictures_of
from yoro.trust.occlusion import check_grid, occlusion_map

Reason = tuple[str, float]  # the name of a term, and its contribution

NEAR = 5  # fitted images that are named
TOP = 5  # terms on each side


@dataclass(frozen=True, repr=False)
class ClassReasons(Result):
    """The terms of one layer that count for and against a class, the strongest first.

    A term's strength is its weight for the class less the mean over all classes, times its standard deviation over the
    training images; the strongest term of the layer, over all classes, has 1 or -1.
    """

    label: str
    reading: str
    share: float  # of the reading in the answer
    strengths: Array  # (terms,)
    names: Sequence[str]

    def speaking_for(self, count: int = TOP) -> list[Reason]:
        return _first(self.names, self.strengths, count)

    def speaking_against(self, count: int = TOP) -> list[Reason]:
        return _last(self.names, self.strengths, count)

    def headline(self) -> str:
        return f"{self.label}: the terms of {self.reading} for it and against it ({self.share:.0%} of the answer)."

    def tables(self) -> list[Table]:
        """The strongest terms for the class, then those against it."""
        terms = [*self.speaking_for(), *self.speaking_against()]
        rows: list[Row] = [{"term": name, "strength": value} for name, value in terms]
        return [Table(rows, bars=("strength",))]

    def to_json(self, top: int = TOP) -> Json:
        sides = {"for": _listed(self.speaking_for(top)), "against": _listed(self.speaking_against(top))}
        return {"label": self.label, "reading": self.reading, "share": self.share, **sides}


@dataclass(frozen=True, repr=False)
class Part(Result):
    """The contributions of one layer, term by term: above zero for the prediction, below for the second best."""

    reading: str
    contributions: Array  # (terms,)
    names: Sequence[str]
    named: bool
    low: NDArray[np.bool_]  # (terms,) which are less than halfway between the two classes
    rest: float = 0.0  # rounding

    @property
    def said(self) -> list[str]:
        """The names, with "little" before a term whose absence counts: "little cat"."""
        told = zip(self.names, self.low, strict=True)
        return [f"little {name}" if low and self.named else name for name, low in told]

    @property
    def value(self) -> float:
        return float(self.contributions.sum()) + self.rest

    def headline(self) -> str:
        return f"{self.reading} contributes {self.value:+.3g} to the log odds."

    def tables(self) -> list[Table]:
        """The strongest terms on both sides."""
        return [_terms_table([self])]

    def to_json(self, top: int = TOP) -> Json:
        """The strongest terms on both sides, and the sum of the others."""
        kept = [*_first(self.said, self.contributions, top), *_last(self.said, self.contributions, top)]
        others = self.value - sum(value for _, value in kept)
        return {"reading": self.reading, "value": self.value, "terms": _listed(kept), "others": others}


@dataclass(frozen=True, repr=False)
class Explanation(Result):
    """Why an image got its label and not the second best.

    `difference` is the log odds of the two: the sum of `prior`, of `offset` and of the values of `parts`. A part is
    the contribution of what sets the image apart from the midpoint between the mean responses of the two classes, where
    a discriminant prefers neither apart from the prior. The offset is what the sentences prefer at the midpoint;
    without sentences it is zero up to rounding.
    """

    name: str
    label: str
    second: str
    probability: float
    second_probability: float
    difference: float
    prior: float
    offset: float
    parts: tuple[Part, ...]
    nearest: tuple[Neighbour, ...] = ()
    occlusion: Array | None = None  # (grid, grid) by how much covering a cell lowers the difference

    @property
    def sums(self) -> list[Reason]:
        """The difference by layers, with the prior and the offset."""
        return [*((part.reading, part.value) for part in self.parts), ("prior", self.prior), ("offset", self.offset)]

    def headline(self) -> str:
        best, second = (percent_text(share) for share in (self.probability, self.second_probability))
        return f"{self.name}: {self.label} {best}, not {self.second} {second}; log odds {self.difference:.3g}."

    def tables(self) -> list[Table]:
        """The strongest contributions on both sides, those of the layers, and the nearest training images."""
        layers: list[Row] = [{"layer": name, "contribution": value} for name, value in self.sums]
        near = [vars(neighbour) for neighbour in self.nearest]
        return [
            _terms_table(self.parts), Table(layers, "By layer", ("contribution",)),
            Table(near, "Nearest training images", ("similarity",)),
        ]  # fmt: skip

    def row(self) -> Row:
        """The explanation in one row: both classes, and the strongest reason for the prediction."""
        reasons = strongest(self.parts, 1)[0] if self.parts else []
        return {
            "path": self.name, "label": self.label, "probability": self.probability, "second": self.second,
            "second_probability": self.second_probability, "reason": reasons[0][0] if reasons else "",
        }  # fmt: skip

    def to_json(self, top: int = TOP) -> Json:
        apart = ("name", "parts", "nearest", "occlusion")
        return (
            {"path": self.name}
            | {key: value for key, value in vars(self).items() if key not in apart}
            | {
                "readings": [part.to_json(top) for part in self.parts],
                "nearest": [vars(neighbour) for neighbour in self.nearest],
                "occlusion": None if self.occlusion is None else self.occlusion.tolist(),
            }
        )


def explain_classes(classifier: OpenModel, labels: Sequence[str] = ()) -> list[ClassReasons]:
    """The reasons for each of these classes, or for all, by every layer whose terms have names.

    If none has, by the layer with the largest ensemble weight.
    """
    model, terms = classifier.model, terms_of(classifier)
    for label in labels:
        check_choice("class", label, classifier.names)
    shares = [part.weight for part in model.choice.parts] or [1.0]
    chosen = [i for i, one in enumerate(terms) if one.named] or [int(np.argmax(shares))]
    found = []
    for i in chosen:
        strengths = _strengths(model, terms[i], i)
        for label in labels or classifier.names:
            column = strengths[:, classifier.names.index(label)]
            found.append(ClassReasons(label, terms[i].reading, shares[i], column, terms[i].names))
    return found


def _strengths(model: Model, terms: Terms, i: int) -> Array:
    """The strength of each term for each class (terms, classes), by the discriminant of one layer alone."""
    mapping, statistics = model.mapping, model.statistics.parts[i]
    if model.choice.parts:
        mapping = mapping_at(statistics, model.choice.parts[i], model.prior, None)
    known = np.isfinite(mapping.bias)
    weights = mapping.weights - mapping.weights[:, known].mean(axis=1, keepdims=True)
    strengths = np.where(known, terms.weights(weights) * terms.spread(statistics)[:, None], 0.0)
    return strengths / (np.abs(strengths).max() or 1.0)


@dataclass(frozen=True)
class ExplanationRequest:
    """What to add to each explanation: the nearest training images, and an occlusion map."""

    near: int = NEAR
    fitted: object = None  # labelled data to name them by
    occlusion: int = 0  # cells to a side of the map; 0: none


class ExplanationStream:
    """Explanations image by image; it can be traversed once."""

    def __init__(
        self,
        classifier: OpenModel,
        data: object,
        asked: ExplanationRequest,
        *,
        loading: Loading = USUAL,
        progress: bool = False,
    ) -> None:
        self._classifier, self._asked = classifier, asked
        self.pictures: dict[str, Example] = {}  # by name; none of responses
        if not is_response_data(data):
            data = find(data, labelled=False).from_here()
            self.pictures = {example.name: example for example in data}
        if asked.occlusion:
            check_grid(asked.occlusion)
            if not self.pictures:
                raise InputError("An occlusion map needs images, not responses.")
        known = None if asked.fitted is None else pictures_of(classifier, asked.fitted)
        self.fitted = FittedImages(classifier.model, known)
        self._sums = Sums(classifier)
        self.answers = classifier.answers(data, loading=loading, progress=progress)

    def __iter__(self) -> Iterator[Explanation]:
        for batch in self.answers:
            assert batch.responses is not None
            near = self.fitted.nearest(batch.responses, self._asked.near)
            for row, neighbours in enumerate(near):
                yield self._mapped(replace(self._sums(batch, row), nearest=neighbours))

    def _mapped(self, one: Explanation) -> Explanation:
        if not self._asked.occlusion:
            return one
        pipeline, classes = self._classifier.pipeline, self._classifier.names
        image = decode_fenced(self.pictures[one.name].image, pipeline.geometry, one.name)
        first, second = classes.index(one.label), classes.index(one.second)

        def score(responses: NDArray[np.floating]) -> Array:
            scores = self._classifier.model.mapping(responses)
            return np.asarray((scores[:, first] - scores[:, second]) / self._classifier.model.choice.temperature)

        return replace(one, occlusion=occlusion_map(pipeline, image, score, self._asked.occlusion, one.difference))


class Sums:
    """Writes the log odds of an image's two best classes as sums over the terms of a classifier."""

    def __init__(self, classifier: OpenModel) -> None:
        model = self._model = classifier.model
        self._terms = terms_of(classifier)
        self._slices = model.statistics.layout.slices
        self._means = np.concatenate([_means(model, i) for i in range(len(self._terms))], axis=1)
        self._log_prior = fitted_log_prior(model)
        parts, temperature = model.choice.parts, model.choice.temperature
        self._times = sum(part.weight / part.temperature for part in parts) / temperature if parts else 1 / temperature

    def __call__(self, batch: Answers, row: int) -> Explanation:
        assert batch.responses is not None
        model, logs = self._model, batch.log_probabilities[row]
        best, other = np.argsort(-logs, kind="stable")[:2].tolist()
        if not np.isfinite(logs[other]):
            raise InputError("The model predicts only one class, so there is no other to compare it with.")
        weights = (model.mapping.weights[:, best] - model.mapping.weights[:, other]) / model.choice.temperature
        halfway = (self._means[best] + self._means[other]) / 2
        moved = np.asarray(batch.responses[row], dtype=np.float64) - halfway
        parts = tuple(_part(t, moved[s], weights[s]) for t, s in zip(self._terms, self._slices, strict=True))
        prior = self._times * float(self._log_prior[best] - self._log_prior[other])
        difference = float(logs[best] - logs[other])
        offset = difference - prior - sum(part.value for part in parts)
        shares = np.exp(logs[[best, other]])
        return Explanation(
            batch.names[row], model.mapping.classes[best], model.mapping.classes[other],
            float(shares[0]), float(shares[1]), difference, prior, offset, parts,
        )  # fmt: skip


def _part(terms: Terms, moved: Array, weights: Array) -> Part:
    found = terms.values(moved[None])[0]
    values = found * terms.weights(weights[:, None])[:, 0]
    return Part(terms.reading, values, terms.names, terms.named, found < 0, float(moved @ weights - values.sum()))


def _means(model: Model, i: int) -> Array:
    """The mean response (classes, width) of each class by one layer; of its sentences, for a class without images."""
    statistics, words = model.statistics.parts[i], model.words
    if words is None or not words.votes or i > 0:
        return statistics.means
    if statistics.total == 0:
        return words.descriptions.means(statistics.classes)
    return words.descriptions.anchored(statistics).means


def strongest(parts: Sequence[Part], count: int = TOP) -> tuple[list[Reason], list[Reason]]:
    """The strongest terms for the prediction and for the second best; named terms only, if any contributes."""
    parts = [part for part in parts if part.named and part.contributions.any()] or parts
    names = [name for part in parts for name in part.said]
    values = np.concatenate([part.contributions for part in parts])
    return _first(names, values, count), _last(names, values, count)


def _terms_table(parts: Sequence[Part]) -> Table:
    """The strongest terms for the prediction, then those for the second best."""
    terms = [term for side in strongest(parts) for term in side] if parts else []
    rows: list[Row] = [{"term": name, "contribution": value} for name, value in terms]
    return Table(rows, bars=("contribution",))


def _first(names: Sequence[str], values: Array, count: int) -> list[Reason]:
    """The terms with the largest values, if above zero."""
    order = np.argsort(-values, kind="stable")[:count].tolist()
    return [(names[i], float(values[i])) for i in order if values[i] > 0]


def _last(names: Sequence[str], values: Array, count: int) -> list[Reason]:
    return [(name, -value) for name, value in _first(names, -values, count)]


def _listed(reasons: Sequence[Reason]) -> list[Json]:
    return [{"name": name, "value": value} for name, value in reasons]
