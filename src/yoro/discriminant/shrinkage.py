"""Covariance shrinkage: the spectrum within classes, whole rho paths, and closed formulas for rho."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import InputError
from yoro.mappings.batches import Array

EPSILON = float(np.finfo(np.float64).eps)
CUT_OFF = 1e-10  # of the largest eigenvalue or variance: what is smaller counts as nothing
NARROW = 0.75  # of the width: responses that span less are solved in their span
TARGETS = ("identity", "diagonal", "texts")
ROUNDING = 1e-15  # what interpolation may add to a product, relatively


class LowRank(NamedTuple):
    """Rows (r, rank) in the coordinates of a basis, and signs (r,): `rows' diag(signs) rows` is added to a scatter."""

    rows: Array
    signs: Array


@dataclass(frozen=True)
class Inverses:
    """Inverses of matrices that are diagonal but for a low rank; by Woodbury's identity, `D - T'KT`."""

    diagonals: Array  # (matrices, rank)
    turned: Array = field(default_factory=lambda: np.empty((0, 0, 0)))  # (matrices, r, rank), if not diagonal alone
    cores: Array = field(default_factory=lambda: np.empty((0, 0, 0)))  # (matrices, r, r)

    def __len__(self) -> int:
        return len(self.diagonals)

    def times(self, vectors: Array) -> Array:
        """Every inverse times the vectors (k, rank): (matrices, k, rank)."""
        found = self.diagonals[:, None] * vectors
        for i, (turned, core) in enumerate(zip(self.turned, self.cores, strict=True)):
            found[i] -= (vectors @ turned.T) @ core @ turned
        return found

    def squares(self, vectors: Array) -> Array:
        """Squared lengths (k, matrices) of the vectors (k, rank) in every inverse."""
        found = np.asarray(vectors**2 @ self.diagonals.T)
        if len(self.turned):
            few, r, rank = self.turned.shape
            along = (vectors @ self.turned.reshape(-1, rank).T).reshape(-1, few, r).swapaxes(0, 1)
            found -= np.einsum("jkr,jkr->kj", along @ self.cores, along)
        return found

    def mixed(self, vectors: Array, shares: Array) -> Array:
        """Each of the vectors (k, rank) times its own mixture of the inverses, by shares (k, matrices)."""
        found = vectors * (shares @ self.diagonals)
        for i, (turned, core) in enumerate(zip(self.turned, self.cores, strict=True)):
            found -= shares[:, i, None] * ((vectors @ turned.T) @ core @ turned)
        return found


@dataclass(frozen=True)
class Spectrum:
    """The within-class covariance in its eigenbasis; one serves every shrinkage.

    A vector v of the statistics has the coordinates `v @ basis`, in which the covariance is
    diagonal with `values`. For dense responses the basis is orthogonal and the coordinates are
    as many as the response has. For responses `z = scale T v` (eq. clip-low-rank-solve) it is
    the low-rank basis: with `T'T = L L'`, responses are an isometric image of `u = scale L'v`,
    so the covariance of u has all non-zero eigenvalues of that of z, and only the width that
    divides the trace must remember that z is longer.

    What the covariance is shrunk towards is a choice of coordinates: to shrink the covariance of
    `u = L'v` towards the identity is to shrink that of v towards `(LL')^-1`. So there is one
    mechanism for every target: "identity", "diagonal" (L divides each coordinate by its
    deviation within classes; the target is the diagonal of the covariance), and "texts", the
    low-rank basis above, whose target over v is `(T'T)^-1`.

    After few images came or went, the covariance is that of `values` plus a `change` of low rank (see `rank_one`).
    """

    values: Array  # (rank,) eigenvalues of the covariance, never negative
    basis: Array  # (dimension of v, rank)
    width: int  # coordinates of a response
    degrees: float  # n - k; zero or less means that there is no covariance to speak of
    target: str = "identity"  # of TARGETS
    change: LowRank | None = None  # of the scatter, which is `degrees` times the covariance

    @property
    def trace(self) -> float:
        more = 0.0 if self.change is None else float(self.change.signs @ (self.change.rows**2).sum(axis=1))
        return float(self.values.sum()) + more / self.degrees if more else float(self.values.sum())

    @property
    def degenerate(self) -> bool:
        """Whether the classes have no spread at all, so that the metric falls back to the identity."""
        return self.degrees <= 0 or self.trace <= 0

    def regularised(self, rho: float) -> tuple[Array, float]:
        """Eigenvalues of `(1-rho) C + rho tr(C)/width I + delta I` (eq. shrinkage), and delta."""
        if self.degenerate:
            return np.ones_like(self.values), 0.0
        target = rho * self.trace / self.width
        values = (1.0 - rho) * self.values + target
        smallest = min(float(values.min()), target) if self.width > len(values) else float(values.min())
        delta = max(0.0, EPSILON * self.width * float(values.max()) - smallest)
        return values + delta, delta

    def whitened(self, vectors: Array, rho: float) -> Array:
        """The inverse of the regularised covariance times vectors (k, rank), all in the basis."""
        values = self.regularised(rho)[0]
        found: Array
        if self.change is None:
            found = vectors / values
            return found
        found = self.inverses(1.0 / values[None], np.array([(1.0 - rho) / self.degrees])).times(vectors)[0]
        return found

    def inverses(self, diagonals: Array, slopes: Array) -> Inverses:
        """Inverses of few matrices: diagonal ones with such inverses (matrices, rank), plus the change by slopes."""
        if self.change is None:
            return Inverses(diagonals)
        rows, signs = self.change
        turned, each = diagonals[:, None] * rows, slopes[:, None, None]
        return Inverses(diagonals, turned, each * np.linalg.inv(np.diag(signs) + each * turned @ rows.T))

    def empirical(self) -> Array:
        """Eigenvalues without any shrinkage, for the pseudo-inverse: infinite where they are nothing.

        Directions in which the classes have no spread to speak of are left out of the metric.
        """
        if self.degenerate:
            return np.ones_like(self.values)
        return np.where(self.values > CUT_OFF * self.values.max(), self.values, np.inf)


def make_spectrum(
    statistics: ResponseStatistics, target: str = "identity", texts: ArrayLike | None = None, scale: float = 1.0
) -> Spectrum:
    """The spectrum for a target by name; "texts" takes text vectors (texts, width) and the scale of the responses.

    Statistics over image vectors v can be shrunk towards the identity (GDA's choice) or, with
    "texts", towards `(T'T)^-1` (the paper's).
    """
    if target == "texts":
        if texts is None:
            raise InputError("The target 'texts' needs the text vectors that the responses are made with.")
        return low_rank_spectrum(statistics, texts, scale)
    if target not in TARGETS:
        raise InputError(f"Unknown shrinkage target {target!r}; choose one of {', '.join(TARGETS)}.")
    return dense_spectrum(statistics) if target == "identity" else diagonal_spectrum(statistics)


def dense_spectrum(statistics: ResponseStatistics) -> Spectrum:
    """Spectrum of the covariance of the responses themselves; of few responses, in their span alone.

    Outside their span the shrunk covariance is a multiple of the identity, and no class mean reaches there.
    """
    factor = statistics.factor
    if factor is None or len(factor) + len(statistics.classes) > NARROW * statistics.width or not len(factor):
        return _spectrum(statistics, np.eye(0), statistics.width)
    return _span_spectrum(statistics, factor)


def diagonal_spectrum(statistics: ResponseStatistics) -> Spectrum:
    """Spectrum over coordinates divided by their deviation within classes: shrinkage towards the diagonal.

    The deviations are those of all the data, also where leave-one-out leaves a response out: with this
    target leave-one-out is exact but for that. A coordinate without spread gets that of the cut-off.
    """
    variances = statistics.scatter.diagonal() / max(statistics.degrees, 1.0)
    largest = float(variances.max(initial=0.0))
    if largest <= 0:
        return replace(dense_spectrum(statistics), target="diagonal")
    lift = np.diag(1.0 / np.sqrt(np.maximum(variances, CUT_OFF * largest)))
    return _spectrum(statistics, lift, statistics.width, "diagonal")


def low_rank_spectrum(statistics: ResponseStatistics, texts: ArrayLike, scale: float) -> Spectrum:
    """Spectrum for responses `scale * texts @ v`, from statistics over v; texts (width, dimension).

    No width x width matrix is formed. Directions that no text sees are dropped: the responses
    carry nothing there.
    """
    t = np.asarray(texts, dtype=np.float64)
    if t.ndim != 2 or t.shape[1] != statistics.width:
        raise InputError(f"Texts of shape {t.shape} do not fit vectors of dimension {statistics.width}.")
    if not np.isfinite(t).all() or not scale > 0:
        raise InputError(f"Text vectors must be finite and the scale positive; the scale is {scale}.")
    strengths, directions = np.linalg.eigh(t.T @ t)
    seen = strengths > EPSILON * max(t.shape) * strengths[-1]
    if not seen.any():
        raise InputError("All text vectors are zero, so responses carry no information.")
    return _spectrum(statistics, scale * directions[:, seen] * np.sqrt(strengths[seen]), len(t), "texts")


def _spectrum(statistics: ResponseStatistics, lift: Array, width: int, target: str = "identity") -> Spectrum:
    scatter = statistics.scatter
    if lift.size:
        scatter = lift.T @ scatter @ lift
    rotation: Array
    if statistics.degrees > 0 and np.any(scatter):
        # numpy's releases Python's lock, so that readings are decomposed side by side; scipy's does not.
        values, rotation = np.linalg.eigh((scatter + scatter.T) / 2 / statistics.degrees)
        values = np.maximum(values, 0.0)
    else:
        values, rotation = np.zeros(len(scatter)), np.eye(len(scatter))
    return Spectrum(values, lift @ rotation if lift.size else rotation, width, statistics.degrees, target)


def _span_spectrum(statistics: ResponseStatistics, factor: Array) -> Spectrum:
    """The spectrum over an orthonormal basis of the rows of the factor and of the class means."""
    seen = statistics.counts > 0
    centre = statistics.counts @ statistics.means / statistics.total
    rows = np.concatenate([factor, np.sqrt(statistics.counts[seen])[:, None] * (statistics.means[seen] - centre)])
    sizes, turned = np.linalg.eigh(rows @ rows.T)
    kept = sizes > EPSILON * statistics.width * sizes[-1]
    span = rows.T @ (turned[:, kept] / np.sqrt(sizes[kept]))  # (width, rank), orthonormal
    for _ in range(2):  # the second time for what the first left over
        centre = centre - span @ (span.T @ centre)
    span = np.linalg.qr(np.column_stack([span, centre]))[0]  # small sizes leave it a little oblique
    inner = factor @ span
    degrees = statistics.degrees
    if degrees <= 0 or not inner.any():
        return Spectrum(np.zeros(span.shape[1]), span, statistics.width, degrees)
    values, rotation = np.linalg.eigh(inner.T @ inner / degrees)
    return Spectrum(np.maximum(values, 0.0), span @ rotation, statistics.width, degrees)


def oas(spectrum: Spectrum) -> float:
    """Oracle approximating shrinkage (Chen et al. 2010, eq. 23), with n - k for the sample size."""
    width, nu = spectrum.width, spectrum.degrees
    square, trace = _traces(spectrum)
    return _intensity(
        (1 - 2 / width) * square + trace**2,
        (nu + 1 - 2 / width) * (square - trace**2 / width),
    )


def rblw(spectrum: Spectrum) -> float:
    """Rao-Blackwellised Ledoit-Wolf shrinkage (Chen et al. 2010, eq. 17), with n - k for the sample size."""
    width, nu = spectrum.width, spectrum.degrees
    square, trace = _traces(spectrum)
    if nu <= 0:
        return 1.0
    return _intensity(
        (nu - 2) / nu * square + trace**2,
        (nu + 2) * (square - trace**2 / width),
    )


def _traces(spectrum: Spectrum) -> tuple[float, float]:
    """tr(C^2) and tr(C) of a covariance of trace about one: an intensity has no unit, and squares do not overflow."""
    values = np.ldexp(spectrum.values, -int(np.frexp(spectrum.trace)[1]))  # exact, so that no digit changes
    return float((values**2).sum()), float(values.sum())


def ledoit_wolf(spectrum: Spectrum, residuals: Array, weights: Array, total: float) -> float:
    """Ledoit and Wolf's (2004) shrinkage for residuals about the class means, in the eigenbasis, (m, rank).

    The fourth moment about the class means is no function of counts, sums and second moment,
    so it is read from individual residuals: all of them, or a sample of them beside the full
    covariance. As in the original, the covariance here divides by n.
    """
    values = spectrum.values * spectrum.degrees / total
    square = float((values**2).sum())
    distance = square - float(values.sum()) ** 2 / spectrum.width  # |C - mu I|^2
    fourth = float(weights @ np.einsum("ij,ij->i", residuals, residuals) ** 2 / weights.sum())
    return _intensity(min((fourth - square) / total, distance), distance)


def _intensity(numerator: float, denominator: float) -> float:
    """A shrinkage in [0, 1]; a covariance that is a multiple of the identity already gets 1."""
    return float(np.clip(numerator / denominator, 0.0, 1.0)) if denominator > 0 else 1.0


class LogNodes:
    """Few places between two positive numbers, from which what is smooth in the logarithm is interpolated.

    `x' (A + t)^-1 y`, A diagonal and never negative, has no pole nearer than pi as a function of log t, so that few
    Chebyshev nodes give it to rounding.
    """

    def __init__(self, low: float, high: float, error: float = ROUNDING) -> None:
        self._middle, self._half = np.log(low * high) / 2, max(np.log(high / low) / 2, 1e-6)
        count = int(np.ceil(np.log(4 / error) / np.arcsinh(np.pi / self._half)))
        angles = (2 * np.arange(count) + 1) * np.pi / (2 * count)
        self._nodes, self._weights = np.cos(angles), np.sin(angles) * (-1.0) ** np.arange(count)
        self.places: Array = np.exp(self._middle + self._half * self._nodes)

    def between(self, t: Array) -> Array:
        """Shares (len(t), nodes) by which products at the nodes make those at t."""
        apart = (np.log(t) - self._middle)[:, None] / self._half - self._nodes
        met = np.abs(apart) < 1e-14
        shares: Array = self._weights / np.where(met, 1.0, apart)
        shares /= shares.sum(axis=1, keepdims=True)
        shares[met.any(axis=1)] = met[met.any(axis=1)]
        return shares
