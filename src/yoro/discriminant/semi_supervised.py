"""Semi-supervised learning: a Gaussian mixture fitted to labelled and unlabelled responses together (EM).

For every reading the classes are Gaussians that share one shrunk covariance, as in BDM. Labelled responses belong to
their class; unlabelled ones belong to every class by their probability, and count a fraction of a labelled one. These
responsibilities come from the sum over readings, so that readings teach each other, and from the mapping of the labels
alone, as far as that is worth much. A few rounds of expectation maximisation (EM) in the leading principal directions
of each reading settle them; the result is affine in the response.

Which readings are to be believed is what the labels say, if there are enough. With one or two a class it shows in the
unlabelled responses themselves: readings that err independently agree only where they are right. How much the mapping
of the labels counts beside the mixture, and whether the unlabelled responses are used at all, is decided by folds: some
labels are held out, and the whole is fitted again without them. With one label a class the mapping of the labels counts
as far as halves of the unlabelled responses lead to different answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.optimize import least_squares

from yoro.discriminant.calibration import TOLERANCE, fit_temperature, log_probabilities, spread
from yoro.discriminant.leave_one_out import Scored
from yoro.discriminant.pile_guard import belonging
from yoro.discriminant.readings import Layout
from yoro.mappings.affine import AffineMapping
from yoro.mappings.batches import Array

Rows = NDArray[np.intp]
Refit = Callable[[Rows], AffineMapping]  # the mapping of the labels in these rows alone

RANK = 256  # principal directions of a reading
FEWEST_RANK = 128  # with one label a class, or none
PRINCIPAL_ROWS = 2048  # responses that they are found from, at most
FIRST_SHRINKAGE = 0.9  # of the covariance of all responses, before there is one within classes
SPREAD = 4.0  # of the scores of the answer
BALANCE = 0.75  # how far the classes' shares are held to equal ones: 0 not at all, 1 wholly
ROUNDS = 10
CONVERGED = 2e-3  # mean change of a responsibility that ends the rounds
AGREEMENT_POWER = 6  # of an estimated accuracy, relative to the best reading's, that makes a weight
LEAST_WEIGHT = 0.1  # of the largest: a reading with less is left out
FOLDS = 4
FOLD_SCORES = 100_000  # scores of unlabelled responses in a fold, at most
PAIR = 2  # labels of a class from which on the mapping of the labels alone has a share in the answer
FEW = 3  # labels of a class below which the mapping of the labels alone has no say in the responsibilities
STANDARD_ERRORS = 3.0  # by which another choice must be better than the usual one
WORTH = 1.0  # standard errors by which the pile must beat the labels alone: folds have fewer labels, which flatters it
HARM = 3.0  # standard errors by which the labels alone must be better, where folds keep one label a class
ENOUGH = 6  # labels of a class from which on the mapping of the labels alone has the larger share


@dataclass(frozen=True)
class PileChoice:
    """How unlabelled responses are used, and what that was worth on labels held out."""

    weight: float  # weight of an unlabelled response relative to a labelled one; 0 if they are not used
    share: float  # share of the mapping from labels alone in the answer
    readings: tuple[float, ...]  # the weight of every reading in the mixture
    used: int
    unlike: int  # left out because they lie too far from every class
    rounds: int
    before: float | None = None  # accuracy on labels held out, without the unlabelled responses
    after: float | None = None  # and with them


@dataclass(frozen=True)
class PileOutcome:
    """The mapping of labelled and unlabelled responses, and the scores of labels held out, if there are any."""

    choice: PileChoice
    mapping: AffineMapping
    temperature: float = 1.0
    left_out: Scored | None = None
    rows: Rows | None = None  # that the scores are of


@dataclass(frozen=True)
class _Way:
    """One way to use unlabelled responses."""

    weight: float
    shrinkage: float
    say: float  # share of the mapping from labels in the responsibilities
    sharpness: float  # spread of the scores that responsibilities are made of


ONE_LABEL = _Way(weight=0.5, shrinkage=0.6, say=0.0, sharpness=4.0)
ALONE = replace(ONE_LABEL, sharpness=6.0)
TOGETHER = replace(ALONE, say=0.3)
BY_WORDS = _Way(weight=0.3, shrinkage=0.4, say=0.5, sharpness=4.0)  # where there are sentences and no label
SHARES = (0.0, 0.3, 0.6, 0.8)  # of the mapping of the labels in the answer


def learn_from_pile(
    layout: Layout,
    labelled: NDArray[np.floating],
    truth: Rows,
    groups: NDArray[np.str_],
    pile: NDArray[np.floating],
    refit: Refit,
) -> PileOutcome:
    """Learn from labelled responses (n, width) of classes `truth` and from a pile of unlabelled ones (m, width).

    `groups` (n,) names images that belong together, "" for none: they are held out together.
    """
    base = refit(np.arange(len(truth)))
    classes = len(base.classes)
    labels = _labels_a_class(truth, classes)
    rank = RANK if labels >= PAIR else FEWEST_RANK
    space = _Space.of(layout, labelled, pile, rank)
    kept = np.flatnonzero(belonging(space.labelled, truth, space.pile))
    unlike, pile = len(pile) - len(kept), pile[kept]
    nothing = PileOutcome(PileChoice(0.0, 1.0, (), 0, unlike, 0), base)
    if len(pile) < max(classes, 10):
        return nothing
    space = _Space.of(layout, labelled, pile, rank) if unlike else space  # without the directions of strangers
    whole = _Task(space, truth, base(pile), classes)
    weights = agreement_weights(whole) if labels < FEW else label_weights(base, space.parts, pile)
    usual = _usual(whole, weights)
    tried = _Folds(whole, weights, labelled, groups, pile, refit).tried(usual)
    chosen = usual if tried is None else tried.chosen(usual)
    if chosen is None and tried is not None:
        return replace(
            nothing, choice=replace(nothing.choice, before=tried.accuracy(None), after=tried.accuracy(usual))
        )
    way, share = chosen or usual
    mixture = whole.run(way, weights)
    mapping = _blended(base, mixture, whole, share)
    told = PileChoice(way.weight, share, tuple(weights.tolist()), len(pile), unlike, mixture.rounds)
    if tried is None:
        return PileOutcome(told, mapping)
    scored, rows, temperature = tried.scored((way, share))
    told = replace(told, before=tried.accuracy(None), after=tried.accuracy((way, share)))
    return PileOutcome(told, mapping, temperature, scored, rows)


def _labels_a_class(truth: Rows, classes: int) -> float:
    return float(np.median(np.bincount(truth, minlength=classes)))


def _usual(task: _Task, weights: Array) -> tuple[_Way, float]:
    """The default way for this many labels per class, and the share of the mapping from labels alone."""
    if not task.labels:
        return BY_WORDS, 0.3
    if task.labels < PAIR:
        doubt = halves_doubt(task, weights)
        return replace(ONE_LABEL, say=doubt), doubt
    if task.labels < FEW:
        return ALONE, 0.3
    return TOGETHER, 0.3 if task.labels < ENOUGH else 0.6


def halves_doubt(task: _Task, weights: Array) -> float:
    """How unreliable the mixture's answers are, from 0 to 1: whether those of halves of the pile differ.

    Their agreement beyond chance (Cohen's kappa) is that of half a pile; the formula of Spearman and Brown makes it
    that of a whole one. The halves alternate along the leading direction, so that the order of the pile is no matter.
    """
    order, everyone = np.argsort(task.space.pile[0][:, -1]), np.arange(len(task.truth))
    answers = []
    for half in (order[::2], order[1::2]):
        part = replace(task, space=task.space.take(everyone, half), said=task.said[half])
        answers.append(part.run(ONE_LABEL, weights).scores(task.space.pile).argmax(axis=1))
    one, two = (np.bincount(answer, minlength=task.classes) / len(order) for answer in answers)
    agree, chance = float((answers[0] == answers[1]).mean()), float(one @ two)
    kappa = max(agree - chance, 0.0) / max(1.0 - chance, np.finfo(np.float64).tiny)
    return (1.0 - kappa) / (1.0 + kappa)


@dataclass(frozen=True)
class _Space:
    """The principal directions of every reading, and labelled and unlabelled responses in them."""

    parts: tuple[slice, ...]
    centres: tuple[Array, ...]
    bases: tuple[Array, ...]
    labelled: tuple[Array, ...]
    pile: tuple[Array, ...]

    @classmethod
    def of(cls, layout: Layout, labelled: NDArray[np.floating], pile: NDArray[np.floating], rank: int) -> _Space:
        step = max(1, (len(labelled) + len(pile)) // PRINCIPAL_ROWS)
        sample = np.concatenate([labelled[::step], pile[::step]])
        centres, bases, near, far = [], [], [], []
        for part in layout.slices:
            centre, basis = _principal(np.asarray(sample[:, part], dtype=np.float64), rank)
            centres.append(centre)
            bases.append(basis)
            near.append((labelled[:, part] - centre) @ basis)
            far.append((pile[:, part] - centre) @ basis)
        return cls(layout.slices, tuple(centres), tuple(bases), tuple(near), tuple(far))

    def take(self, labels: Rows, pile: Rows) -> _Space:
        """Some of the labelled and of the unlabelled responses."""
        near, far = ([part[rows] for part in parts] for parts, rows in ((self.labelled, labels), (self.pile, pile)))
        return replace(self, labelled=tuple(near), pile=tuple(far))


def _principal(rows: Array, rank: int) -> tuple[Array, Array]:
    """Mean and leading principal directions (width, rank) of rows."""
    centre = rows.mean(axis=0)
    rows = rows - centre
    n, width = rows.shape
    rank = max(1, min(rank, n - 1, width))
    if n <= width:
        values, turned = eigh(rows @ rows.T, subset_by_index=(n - rank, n - 1))
        kept = values > 1e-10 * max(float(values[-1]), np.finfo(np.float64).tiny)
        return centre, rows.T @ (turned[:, kept] / np.sqrt(values[kept]))
    return centre, eigh(rows.T @ rows, subset_by_index=(width - rank, width - 1))[1]


@dataclass(frozen=True)
class _Mixture:
    """What EM ends with: a head (weights, bias) for each reading in use, and the responsibilities (m, classes)."""

    heads: dict[int, tuple[Array, Array]]
    responsibilities: Array
    rounds: int

    def scores(self, rows: Sequence[Array]) -> Array:
        total = sum(rows[i] @ weights + bias for i, (weights, bias) in self.heads.items())
        return np.asarray(total)


@dataclass(frozen=True)
class _Task:
    """What a mixture is fitted to."""

    space: _Space
    truth: Rows
    said: Array  # (m, classes): what the mapping of the labels says of the unlabelled responses
    classes: int

    @property
    def labels(self) -> float:
        """Labels a class, in the median."""
        return _labels_a_class(self.truth, self.classes)

    def run(self, way: _Way, weights: Array) -> _Mixture:
        """The mixture by EM, over the readings that have a weight."""
        used = [i for i in range(len(weights)) if weights[i] > 0]
        labelled, pile = self.space.labelled, self.space.pile
        hard = np.zeros((len(self.truth), self.classes))
        hard[np.arange(len(self.truth)), self.truth] = 1.0
        sums = {i: hard.T @ labelled[i] for i in used}
        products = {i: (labelled[i].T @ labelled[i], pile[i].T @ pile[i]) for i in used}
        moments = {i: near + way.weight * far for i, (near, far) in products.items()}
        counts, total = hard.sum(axis=0), len(self.truth) + way.weight * len(pile[0])
        say = way.say if (counts > 0).all() else max(way.say, BY_WORDS.say)
        opinion = _levelled(self.said, spread(self.said))
        heads: dict[int, tuple[Array, Array]] = {}
        if not say:
            for i, (near, far) in products.items():
                means = sums[i] / np.maximum(counts, 1.0)[:, None]
                heads[i] = _head(means, (near + far) / (len(self.truth) + len(pile[i])), FIRST_SHRINKAGE)
        before, done = np.full((len(pile[0]), self.classes), 1.0 / self.classes), 0
        for done in range(1, ROUNDS + 1):  # noqa: B007
            scores, heads = self._scores(heads, weights)
            scores = opinion if scores is None else say * opinion + (1 - say) * scores
            scores = scores * (way.sharpness / spread(scores))
            now = _responsibilities(scores)
            change, before = float(np.abs(now - before).sum(axis=1).mean()), now
            soft = way.weight * now
            mass = counts + soft.sum(axis=0)
            for i in used:
                means = (sums[i] + soft.T @ pile[i]) / mass[:, None]
                heads[i] = _head(means, (moments[i] - (means.T * mass) @ means) / total, way.shrinkage)
            if change < CONVERGED:
                break
        _, heads = self._scores(heads, weights)
        return _Mixture(heads, before, done)

    def _scores(
        self, heads: dict[int, tuple[Array, Array]], weights: Array
    ) -> tuple[Array | None, dict[int, tuple[Array, Array]]]:
        """The weighted sum (m, classes) of the heads, of spread one, and the heads scaled so that it is theirs."""
        if not heads:
            return None, heads
        found = {i: self.space.pile[i] @ head[0] + head[1] for i, head in heads.items()}
        scales = {i: weights[i] / spread(scores) for i, scores in found.items()}
        total = np.asarray(sum(scales[i] * scores for i, scores in found.items()))
        size = spread(total)
        scaled = {i: (head[0] * scales[i] / size, head[1] * scales[i] / size) for i, head in heads.items()}
        return (total - total.mean(axis=1, keepdims=True)) / size, scaled


def _head(means: Array, covariance: Array, shrinkage: float) -> tuple[Array, Array]:
    """Weights (rank, classes) and bias (classes,) of the discriminant of these means and this covariance."""
    shrunk = (1 - shrinkage) * covariance
    level = float(np.trace(covariance)) / len(covariance)
    shrunk[np.diag_indices_from(shrunk)] += shrinkage * max(level, np.finfo(np.float64).tiny)
    weights = np.asarray(np.linalg.solve(shrunk, means.T), dtype=np.float64)
    return weights, -0.5 * np.einsum("kd,dk->k", means, weights)


def _responsibilities(scores: Array) -> Array:
    """Probabilities (m, classes) by scores, the classes' shares held towards equal ones as far as `BALANCE` says."""
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    bias = np.zeros(scores.shape[1])
    for _ in range(10):
        tilt = np.exp(bias)
        shares = tilt * (odds.T @ (1.0 / (odds @ tilt))) + 1.0
        bias -= 0.5 * (BALANCE * np.log(shares / shares.mean()) + (1 - BALANCE) * bias)
    odds *= np.exp(bias)
    return odds / odds.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]


def _levelled(scores: Array, size: float) -> Array:
    """Scores about their mean, divided by a spread; a class that cannot be is far below the others."""
    known = np.isfinite(scores).all(axis=0)
    level = scores[:, known].mean(axis=1, keepdims=True)
    return np.where(known, scores - level, -1e3 * size) / size


def agreement_weights(task: _Task) -> Array:
    """The weight of each reading by how accurate it seems: by how often readings agree with each other.

    Each reading is fitted alone. If readings j and k err independently and are right with probabilities a_j and a_k,
    they agree in a_j a_k + (1 - a_j)(1 - a_k) / (classes - 1) of all cases; the a are found by least squares.
    """
    count = len(task.space.parts)
    if count < 3:
        return np.full(count, 1.0 / count)
    single = np.eye(count)
    way = ONE_LABEL if len(task.truth) else BY_WORDS
    answers = [task.run(way, single[i]).responsibilities.argmax(axis=1) for i in range(count)]
    one, two = np.triu_indices(count, 1)
    agree = np.array([(answers[i] == answers[j]).mean() for i, j in zip(one, two, strict=True)])

    def misfit(a: Array) -> Array:
        return a[one] * a[two] + (1 - a[one]) * (1 - a[two]) / (task.classes - 1) - agree  # type: ignore[no-any-return]

    accuracies = least_squares(misfit, np.full(count, 0.5), bounds=(0.0, 1.0)).x
    weights = (accuracies / accuracies.max()) ** AGREEMENT_POWER
    weights[weights < LEAST_WEIGHT] = 0.0
    return np.asarray(weights / weights.sum())


def label_weights(base: AffineMapping, parts: Sequence[slice], pile: NDArray[np.floating]) -> Array:
    """The weight of each reading by its part in what the mapping of the labels says of unlabelled responses."""
    known = np.isfinite(base.bias)
    said = [np.asarray(pile[:, part] @ base.weights[part][:, known]) for part in parts]
    weights = np.array([np.std(scores - scores.mean(axis=1, keepdims=True)) for scores in said])
    return weights / weights.sum() if weights.sum() > 0 else np.full(len(parts), 1.0 / len(parts))


def _blended(base: AffineMapping, mixture: _Mixture, task: _Task, share: float) -> AffineMapping:
    """The mapping of the labels and that of the mixture, each with a spread of one, as one mapping."""
    known = np.isfinite(base.bias)
    scale = share / spread(task.said) if share else 0.0
    weights, bias = scale * base.weights, np.where(known, scale * np.where(known, base.bias, 0.0), -np.inf)
    for i, (head, constant) in mixture.heads.items():
        lifted = (1 - share) * (task.space.bases[i] @ head)
        weights[task.space.parts[i]] += lifted
        bias = bias + (1 - share) * constant - task.space.centres[i] @ lifted
    return AffineMapping(SPREAD * weights, SPREAD * bias, base.classes)


@dataclass(frozen=True)
class _Tried:
    """Scores of labels held out, by the mapping of the other labels alone and by every way beside it."""

    rows: Rows
    truth: Rows
    alone: Array  # (h, classes), of spread one
    mixtures: dict[_Way, Array]  # (h, classes), of spread one
    labels: float  # a class, in the median

    def answer(self, way: tuple[_Way, float] | None) -> Array:
        if way is None:
            return SPREAD * self.alone
        return SPREAD * (way[1] * self.alone + (1 - way[1]) * self.mixtures[way[0]])

    def accuracy(self, way: tuple[_Way, float] | None) -> float:
        return float((self.answer(way).argmax(axis=1) == self.truth).mean())

    def scored(self, way: tuple[_Way, float]) -> tuple[Scored, Rows, float]:
        scores, counted = self.answer(way), np.ones(len(self.truth))
        return Scored(scores, self.truth, counted), self.rows, fit_temperature(scores, self.truth, counted)

    def chosen(self, usual: tuple[_Way, float]) -> tuple[_Way, float] | None:
        """The usual way, or one that is clearly better; None if the usual one does not beat the labels alone.

        Of two labels a class folds keep one, and tell too little: there the labels alone must be clearly better.
        """
        losses, alone = self._losses(usual), self._losses(None)
        if self.labels < FEW:
            return None if _better(alone, losses, HARM) else usual
        if not _better(losses, alone, WORTH):
            return None
        others = {(way, share): self._losses((way, share)) for way in self.mixtures for share in SHARES}
        best = min(others, key=lambda way: others[way].mean())
        return best if _better(others[best], losses, STANDARD_ERRORS) else usual

    def _losses(self, way: tuple[_Way, float] | None) -> Array:
        scores, counted = self.answer(way), np.ones(len(self.truth))
        logs = log_probabilities(scores, fit_temperature(scores, self.truth, counted))
        own = np.exp(logs[np.arange(len(self.truth)), self.truth])
        return -np.log((1 - TOLERANCE) * own + TOLERANCE / scores.shape[1])  # type: ignore[no-any-return]


def _better(one: Array, two: Array, errors: float) -> bool:
    """Whether one has smaller losses than the other, by this many standard errors."""
    gain = two - one
    return bool(gain.mean() > errors * gain.std() / np.sqrt(len(gain)))


@dataclass(frozen=True)
class _Folds:
    """The labels, dealt to folds such that every class keeps one."""

    task: _Task
    weights: Array
    labelled: NDArray[np.floating]
    groups: NDArray[np.str_]
    pile: NDArray[np.floating]
    refit: Refit

    def tried(self, usual: tuple[_Way, float]) -> _Tried | None:
        """Scores of all labels that can be held out; None if those are too few to tell anything."""
        truth, classes = self.task.truth, self.task.classes
        turn = self._dealt()
        if (turn >= 0).sum() < max(classes, 10):
            return None
        ways = (ALONE, TOGETHER) if self.task.labels >= FEW else usual[:1]  # of one label a class nothing is compared
        rows, alone = [], []
        found: dict[_Way, list[Array]] = {way: [] for way in ways}
        room = max(FOLD_SCORES // classes, classes)
        pile = np.arange(0, len(self.task.said), max(1, len(self.task.said) // room))
        for fold in range(int(turn.max()) + 1):
            held, kept = np.flatnonzero(turn == fold), np.flatnonzero(turn != fold)
            base = self.refit(kept)
            said, of_held = base(self.pile[pile]), base(self.labelled[held])
            task = _Task(self.task.space.take(kept, pile), truth[kept], said, classes)
            rows.append(held)
            alone.append(_levelled(of_held, spread(said)))
            for way in ways:
                mixture = task.run(way, self.weights)
                scores = mixture.scores([part[held] for part in self.task.space.labelled])
                found[way].append(scores - scores.mean(axis=1, keepdims=True))
        order = np.concatenate(rows)
        joined = {way: np.concatenate(parts) for way, parts in found.items()}
        return _Tried(order, truth[order], np.concatenate(alone), joined, self.task.labels)

    def _dealt(self) -> NDArray[np.intp]:
        """The fold of each label; -1 where it would leave a class without any. A group is held out whole."""
        truth, turn = self.task.truth, np.full(len(self.task.truth), -1, dtype=np.intp)
        units = [name or str(row) for row, name in enumerate(self.groups.tolist())]
        dealt: dict[str, int] = {}
        for c in np.unique(truth):
            rows = np.flatnonzero(truth == c).tolist()
            folds = min(FOLDS, len({units[row] for row in rows}))
            for row in rows if folds > 1 else []:
                turn[row] = dealt.setdefault(units[row], len(dealt)) % folds
        return turn
