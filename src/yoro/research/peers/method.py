"""The contract of a peer method: its task, its description, and its scorer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from yoro.data.splits import hold_out
from yoro.discriminant.descriptions import Descriptions
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import InputError, SelectionError, YoroError, one_line
from yoro.mappings.affine import AffineMapping
from yoro.mappings.batches import Array, Codes, check_batch, class_codes, refuse_non_finite

Scorer = Callable[[Array], Array]  # responses (n, width) -> scores (n, classes)
T = TypeVar("T")

HELD = 4  # images a class held out for a grid where no validation data are given
HELD_OF_GROUPS = 0.25  # ... as a share, where groups must stay whole
ROWS = 1024  # responses scored at a time, by methods that make large arrays of them
NEEDS = ("gradients", "features", "texts", "stored data", "validation", "torch")


@dataclass(frozen=True)
class Texts:
    """Unit text vectors of each class, (m_c, dimension) in the order of the classes, and the scale of cosines."""

    by_class: tuple[Array, ...]
    scale: float = 100.0

    @property
    def heads(self) -> Array:
        """Zero-shot classifier (classes, dimension): the mean vector of each class, at unit length."""
        return unit(np.stack([vectors.mean(axis=0) for vectors in self.by_class]))

    @property
    def flat(self) -> Array:
        """All text vectors, class after class, (texts, dimension)."""
        return np.concatenate(self.by_class)

    def described(self, classes: Sequence[str]) -> Descriptions:
        """The same as the mapping of this package takes it; the classes in their order."""
        owners = [name for name, mine in zip(classes, self.by_class, strict=True) for _ in mine]
        return Descriptions(self.flat, tuple(owners), self.scale)

    @property
    def templates(self) -> Array:
        """Text vectors (templates, classes, dimension), where every class has its text of each template."""
        sizes = sorted({len(vectors) for vectors in self.by_class})
        if len(sizes) > 1:
            raise InputError(
                f"The classes have {sizes[0]} to {sizes[-1]} texts each, but this method weights templates; "
                "expected the same templates, in the same order, for every class."
            )
        return np.stack(self.by_class, axis=1)


@dataclass(frozen=True)
class FitTask:
    """The input of a method: training responses (n, width), true classes (n,), and what else it may use.

    Validation data are for choosing settings and are never fitted. With texts, the responses are image vectors of the
    same model.
    """

    responses: Array
    truth: Codes
    classes: tuple[str, ...]
    validation: tuple[Array, Codes] | None = None
    texts: Texts | None = None
    seed: int = 0
    groups: tuple[str, ...] | None = None  # "" is no group
    tested: Array | None = None  # responses of the test images, for methods that were published as reading them

    @property
    def counts(self) -> Array:
        """Training images of each class, (classes,)."""
        return np.bincount(self.truth, minlength=len(self.classes)).astype(np.float64)

    @property
    def labels(self) -> NDArray[np.str_]:
        """Names of the true classes, (n,)."""
        return np.asarray(self.classes, dtype=np.str_)[self.truth]

    def generator(self, purpose: int = 0) -> np.random.Generator:
        """Random numbers that depend on the seed and the purpose alone."""
        return np.random.default_rng([self.seed, purpose])

    def needed_texts(self) -> Texts:
        if self.texts is None:
            raise InputError("it needs texts of an image-text model")
        return self.texts

    def normalised(self) -> FitTask:
        """The same task with every image vector at unit length."""
        held = self.validation and (unit(self.validation[0]), self.validation[1])
        tested = None if self.tested is None else unit(self.tested)
        return replace(self, responses=unit(self.responses), validation=held, tested=tested)

    def validated(self) -> FitTask:
        return self.trial()[0]

    def trial(self) -> tuple[FitTask, Array, Codes]:
        """A task with validation data, and these: those given, or some held out of the training data by the seed.

        min(4, half) of each class are held out; of grouped images about a quarter, in whole groups. After choosing its
        settings a method fits all the training data, unless its docstring says otherwise.
        """
        if self.validation is not None:
            return self, *self.validation
        drawn = self._draw()
        if not len(drawn):
            raise SelectionError("no validation data, and too few images to hold any out")
        kept, held = np.setdiff1d(np.arange(len(self.truth)), drawn), (self.responses[drawn], self.truth[drawn])
        task = replace(self, responses=self.responses[kept], truth=self.truth[kept], validation=held, groups=None)
        return task, *held

    def _draw(self) -> Codes:
        """Rows to hold out, ascending."""
        if self.groups is not None and any(self.groups):
            teams = [group or None for group in self.groups]
            return hold_out(self.labels.tolist(), HELD_OF_GROUPS, self.seed, teams)[1]
        generator = self.generator()
        rows = [np.flatnonzero(self.truth == c) for c in range(len(self.classes))]
        return np.sort(np.concatenate([generator.permutation(mine)[: min(HELD, len(mine) // 2)] for mine in rows]))


@dataclass(frozen=True)
class Method:
    """A method: its name, its `fit`, what it needs, and how many passes over the responses it makes at most."""

    name: str
    fit: Callable[..., Scorer]  # of a task; of a task and settings where there are some
    needs: tuple[str, ...] = ()  # of NEEDS
    passes: int = 1
    about: str = ""
    prepare: Callable[[], object] | None = None  # loads libraries before the clock starts
    settings: type[object] | None = None  # a frozen dataclass with defaults that `fit` takes after the task
    published: Mapping[str, object] = field(default_factory=dict, hash=False)  # the authors' settings by dataset
    edition: int = 1  # raised when the method computes something else for the same task, to recompute results


@dataclass(frozen=True)
class LinearScores:
    """A scorer that is affine in the responses, or in the responses at unit length."""

    weights: Array  # (width, classes)
    bias: Array  # (classes,)
    normalise: bool = False

    def __call__(self, responses: Array) -> Array:
        return (unit(responses) if self.normalise else responses) @ self.weights + self.bias


def make_task(
    responses: ArrayLike,
    labels: ArrayLike,
    *,
    validation: tuple[ArrayLike, ArrayLike] | None = None,
    texts: Mapping[str, ArrayLike] | None = None,
    scale: float = 100.0,
    groups: Sequence[str] | None = None,
    seed: int = 0,
) -> FitTask:
    """A task from arrays and names, checked; texts are vectors (m, width) for each class.

    >>> make_task([[1.0, 0.0], [0.0, 1.0]], ["cat", "dog"]).counts.tolist()
    [1.0, 1.0]
    """
    batch = check_batch(responses, labels)
    refuse_non_finite(batch.responses)
    names = tuple(sorted(set(batch.labels.tolist())))
    if len(names) < 2:
        raise InputError(f"Got {len(names)} class; a comparison needs at least 2 classes.")
    held = None
    if validation is not None:
        checked = check_batch(*validation)
        refuse_non_finite(checked.responses)
        held = checked.responses.astype(np.float64), class_codes(checked.labels.tolist(), names)
    return FitTask(
        batch.responses.astype(np.float64), class_codes(batch.labels.tolist(), names), names, held,
        None if texts is None else make_texts(texts, names, batch.responses.shape[1], scale), seed,
        None if groups is None else tuple(groups),
    )  # fmt: skip


def make_texts(texts: Mapping[str, ArrayLike], classes: Sequence[str], width: int, scale: float) -> Texts:
    """Text vectors by class, checked and brought to unit length."""
    vectors = []
    for name in classes:
        found = np.atleast_2d(np.asarray(texts.get(name, np.empty((0, width))), dtype=np.float64))
        if not len(found) or found.shape[1] != width or not np.isfinite(found).all():
            raise InputError(
                f"The texts of class {name!r} have shape {found.shape}; expected at least one finite vector of "
                f"dimension {width}, like the images."
            )
        vectors.append(unit(found))
    return Texts(tuple(vectors), float(scale))


def unit(vectors: Array) -> Array:
    """Vectors at unit length; zero stays zero."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: Array = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    return scaled


def one_hot(truth: Codes, classes: int) -> Array:
    """Indicators (n, classes)."""
    indicators: Array = np.eye(classes)[truth]
    return indicators


def class_means(responses: Array, truth: Codes, classes: int) -> Array:
    """Mean of each class, (classes, width); every class has data."""
    member = csr_array((np.ones(len(truth)), truth, np.arange(len(truth) + 1)), shape=(len(truth), classes))
    sums: Array = member.T @ responses
    return sums / np.bincount(truth, minlength=classes)[:, None]


def gathered(task: FitTask) -> ResponseStatistics:
    """Statistics of the training data."""
    statistics = ResponseStatistics(task.classes)
    statistics.update(task.responses, task.labels)
    return statistics


def mapping_method(name: str, solve: Callable[[ResponseStatistics], AffineMapping], about: str = "") -> Method:
    """A label mapping as a method: statistics of one pass in, an affine mapping of the responses out."""
    return Method(name, lambda task: solve(gathered(task)), about=about)


def make_ready(method: Method, task: FitTask) -> None:
    """Check that there are texts if the method needs them, and load its libraries, before the clock starts."""
    if "texts" in method.needs:
        task.needed_texts()
    if method.prepare is not None:
        method.prepare()


def check_scores(scores: Array, rows: int, classes: int) -> None:
    """Raise unless there is a number for every response and class."""
    if scores.shape != (rows, classes) or np.isnan(scores).any():
        raise InputError(f"its scores have shape {scores.shape} or contain NaN; expected ({rows}, {classes})")


def failure(error: Exception) -> str:
    """An error in one line, with its type unless it is one of ours."""
    text, kind = one_line(error), type(error).__name__
    return text if isinstance(error, YoroError) or text == kind else f"{kind}: {text}"


def correct(scores: Array, truth: Codes) -> int:
    """Number of correct answers; counts, so that ties are exact."""
    return int((scores.argmax(axis=-1) == truth).sum())


def most_right(answers: Iterable[tuple[T, Array]], truth: Codes) -> T:
    """The option whose scores (n, classes) have the most correct answers; the first of equals."""
    return max(answers, key=lambda answer: correct(answer[1], truth))[0]


def in_blocks(scorer: Scorer, responses: Array) -> Array:
    """The scores of all responses, computed in blocks of rows; of no responses, in the right shape."""
    return np.concatenate([scorer(responses[i : i + ROWS]) for i in range(0, max(1, len(responses)), ROWS)])
