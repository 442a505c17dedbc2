"""A solution updated after few images were added or removed: a low-rank correction, no new eigendecomposition.

One image x of a class with n images and mean m changes the scatter by a multiple of (x - m)(x - m)'. In the previous
eigenbasis, the scatter is then diagonal but for one such product an image, and by Woodbury's identity so is the inverse
of every shrunk covariance. Shrinkage targets move as they should, so that mapping and leave-one-out are those of a new
solve, to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.calibration import Prior, log_prior
from yoro.discriminant.evidence import Choice, Evidence
from yoro.discriminant.joint import JointStatistics
from yoro.discriminant.leave_one_out import Turned, turn
from yoro.discriminant.mixture import Mixture, sum_of_mappings
from yoro.discriminant.readings import side_by_side
from yoro.discriminant.reservoir import Members
from yoro.discriminant.shrinkage import LowRank, Spectrum
from yoro.mappings.affine import AffineMapping
from yoro.mappings.batches import Array

LEFT = 0.5  # of the scatter's trace: if less is left, so are fewer digits than a new solve has
OUTSIDE = 1e-10  # of the length of an image: what reaches no farther out of the span of the others is rounding


class ImageChange(NamedTuple):
    """An image that was added (1) or removed (-1): its response (width of all readings,) and its class."""

    sign: int
    response: NDArray[np.floating]
    label: str


@dataclass(frozen=True)
class HeldSolution:
    """A solution that few images can change: the spectra, and all kept responses in their eigenbases."""

    readings: tuple[_HeldReading, ...]
    mixture: Mixture  # how they are weighed; without evidence
    places: dict[bytes, int]  # of contents among the members

    @classmethod
    def of(cls, mixture: Mixture) -> Self | None:
        """The solution of evidence with `turned` members; None if it cannot be updated, as with class sentences."""
        readings = [_HeldReading.of(evidence) for evidence in mixture.evidences]
        found = tuple(reading for reading in readings if reading is not None)
        members = mixture.evidences[0].members
        if len(found) < len(readings) or members is None or len(members.digests) < len(members):
            return None
        return cls(found, replace(mixture, evidences=()), {digest: row for row, digest in enumerate(members.digests)})

    def mapping(self, changes: Sequence[ImageChange], choice: Choice, prior: Prior) -> AffineMapping | None:
        """The mapping after these changes at a choice; None if a class is new or would have no image left."""
        classes, parts = self.readings[0].classes, choice.parts or (choice,)
        if len(parts) != len(self.readings) or not {change.label for change in changes} <= set(classes):
            return None

        def of_reading(i: int) -> AffineMapping | None:
            held, part = self.readings[i], parts[i]
            if choice.parts and part.weight <= 0:
                return AffineMapping(np.zeros((held.spectrum.width, len(classes))), np.zeros(len(classes)), classes)
            changed = held.after(changes, self.mixture.layout.slices[i])
            return None if changed is None else changed.mapping(held, part.shrinkage, prior)

        widths = self.mixture.layout.widths
        found = [one for one in side_by_side(of_reading, range(len(parts)), widths) if one is not None]
        if len(found) < len(parts):
            return None
        return sum_of_mappings(parts, found) if choice.parts else found[0]

    def after(
        self, changes: Sequence[ImageChange], statistics: JointStatistics, members: Members, prior: Prior
    ) -> Mixture | None:
        """The evidence after these changes, with updated statistics and members; None if it must be solved anew."""
        places = np.array([self.places.get(digest, -1) for digest in members.digests], dtype=np.intp)

        def of_reading(i: int) -> Evidence | None:
            held, own, sums = self.readings[i], self.mixture.layout.slices[i], statistics.parts[i]
            changed = held.after(changes, own)
            if changed is None or sums.degrees <= 0:
                return None
            mine = replace(members, responses=members.responses[:, own])
            spectrum = _rescaled(changed.spectrum, sums.degrees)
            return Evidence(sums, spectrum, mine, prior=prior, turned=held.turned(spectrum, mine.responses, places))

        widths = self.mixture.layout.widths
        found = side_by_side(of_reading, range(len(self.readings)), widths)
        evidences = tuple(evidence for evidence in found if evidence is not None)
        return replace(self.mixture, evidences=evidences) if len(evidences) == len(found) else None


@dataclass(frozen=True)
class _Changed:
    """A reading after changes: its spectrum, and the counts and means of the classes."""

    spectrum: Spectrum
    counts: dict[str, float]
    means: dict[str, Array]

    def mapping(self, held: _HeldReading, rho: float, prior: Prior) -> AffineMapping | None:
        """The discriminant at a shrinkage; None if a class has no image left."""
        classes, counts, turned = held.classes, held.counts.copy(), _padded(held.turned_means, self.spectrum)
        for label, count in self.counts.items():
            counts[classes.index(label)] = count
            turned[classes.index(label)] = self.means[label] @ self.spectrum.basis
        if not (counts > 0).all():
            return None
        white = _rescaled(self.spectrum, counts.sum() - len(counts)).whitened(turned, rho)
        bias = log_prior(counts, classes, prior) - 0.5 * np.einsum("kr,kr->k", turned, white)
        return AffineMapping(self.spectrum.basis @ white.T, bias, classes)


@dataclass(frozen=True)
class _HeldReading:
    """One reading: counts and means of the classes, the spectrum, means and members in its basis."""

    classes: tuple[str, ...]
    counts: Array
    means: Array  # (classes, width)
    turned_means: Array  # (classes, rank)
    spectrum: Spectrum
    members: Turned

    @classmethod
    def of(cls, evidence: Evidence) -> Self | None:
        sums, spectrum = evidence.statistics, evidence.spectrum
        plain = evidence.head is None and spectrum.target == "identity"
        if not plain or spectrum.degenerate or spectrum.change is not None or evidence.turned is None:
            return None
        means = sums.means.copy()
        return cls(sums.classes, sums.counts.copy(), means, means @ spectrum.basis, spectrum, evidence.turned)

    def after(self, changes: Sequence[ImageChange], columns: slice) -> _Changed | None:
        """The spectrum with the rows of the changes; None if too little is left of the scatter."""
        known = {name: i for i, name in enumerate(self.classes)}
        counts, means = dict[str, float](), dict[str, Array]()
        rows, signs = list[Array](), list[float]()
        for sign, response, label in changes:
            mine = response[columns].astype(np.float64)
            if label not in counts:
                at = known.get(label)
                counts[label] = 0.0 if at is None else float(self.counts[at])
                means[label] = mine if not counts[label] or at is None else self.means[at]
            left, step = counts[label] + sign, mine - means[label]
            if left > 0 and counts[label] > 0:
                rows.append(np.sqrt(counts[label] / left) * step)
                signs.append(float(sign))
                means[label] = means[label] + sign / left * step
            elif left > 0:
                means[label] = mine  # the first image of a class
            counts[label] = left
        if not rows:
            return _Changed(self.spectrum, counts, means)
        spectrum = _extended(self.spectrum, np.stack(rows))
        change = LowRank(np.stack(rows) @ spectrum.basis, np.array(signs))
        changed = replace(spectrum, change=change)
        return _Changed(changed, counts, means) if changed.trace > LEFT * spectrum.trace else None

    def turned(self, spectrum: Spectrum, responses: NDArray[np.floating], places: NDArray[np.intp]) -> Turned:
        """Members in the basis of a changed spectrum, those that are held at their places, -1 for others."""
        rows, new = _padded(self.members.rows[places], spectrum), np.flatnonzero(places < 0)
        if len(new):
            rows[new] = turn(spectrum, self.members.centre, responses[new]).rows
        return Turned(self.members.centre, rows)


def _padded(rows: Array, spectrum: Spectrum) -> Array:
    """A copy of rows (n, rank) with zeros for the directions by which a basis was extended."""
    found = np.zeros((len(rows), len(spectrum.values)))
    found[:, : rows.shape[1]] = rows
    return found


def _extended(spectrum: Spectrum, rows: Array) -> Spectrum:
    """A basis that spans the rows (r, width) too, with no variance in its new directions."""
    if spectrum.basis.shape[1] == spectrum.width:
        return spectrum
    basis, lengths = spectrum.basis, np.sqrt((rows**2).sum(axis=1))
    rest = (rows / np.where(lengths > 0, lengths, 1.0)[:, None]).T  # (width, r)
    for _ in range(2):  # the second time for what the first left over
        rest = rest - basis @ (basis.T @ rest)
    directions, sizes, _ = np.linalg.svd(rest, full_matrices=False)
    directions = directions[:, sizes > OUTSIDE]
    directions = np.linalg.qr(directions - basis @ (basis.T @ directions))[0]
    values = np.concatenate([spectrum.values, np.zeros(directions.shape[1])])
    return replace(spectrum, values=values, basis=np.column_stack([basis, directions]))


def _rescaled(spectrum: Spectrum, degrees: float) -> Spectrum:
    """The spectrum of the same scatter with other degrees of freedom."""
    return replace(spectrum, values=spectrum.values * (spectrum.degrees / degrees), degrees=degrees)
