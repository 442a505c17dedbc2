"""DiscriminantMapping: Bayesian Discriminant Mapping with a scikit-learn face."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from yoro.discriminant.calibration import Prior, log_probabilities
from yoro.discriminant.evidence import Choice, Evidence
from yoro.discriminant.reservoir import Reservoir
from yoro.discriminant.rules import MEMBERS, working_rules
from yoro.discriminant.selection import select_shrinkage
from yoro.discriminant.shrinkage import dense_spectrum
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import InputError, SelectionError
from yoro.mappings.affine import AffineMapping
from yoro.mappings.batches import Array, label_array, row_digests
from yoro.model.settings import SolveSettings


class DiscriminantMapping(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Regularised linear discriminant over response arrays, fitted in one pass.

    Parameters
    ----------
    shrinkage : {"loo", "k-fold", "validation", "oas", "rblw", "ledoit-wolf"} or float, default="loo"
        How the shrinkage is chosen, or the shrinkage itself. "validation" is the paper's rule
        and needs `fit(..., validation=(X_val, y_val))`.
    prior : {"empirical", "uniform"} or dict, default="empirical"
        Class priors; a dict gives a weight to every class.
    reservoir : int, default=8192
        How many individual responses are kept for leave-one-out.
    seed : int, default=0
        Which ones, if there are more.

    Attributes
    ----------
    classes_ : ndarray of shape (classes,)
    coef_ : ndarray of shape (classes, width), or (1, width) for two classes
    intercept_ : ndarray of shape (classes,), or (1,) for two classes
    shrinkage_ : float
    temperature_ : float
        Scores are divided by it before they become probabilities.
    statistics_ : ResponseStatistics

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> mapping = DiscriminantMapping().fit(X[:1000], y[:1000])
    >>> round(mapping.score(X[1000:], y[1000:]), 2)
    0.93
    """

    def __init__(
        self,
        shrinkage: str | float = SolveSettings.shrinkage,
        prior: Prior = "empirical",
        *,
        reservoir: int = SolveSettings.reservoir,
        seed: int = SolveSettings.seed,
    ) -> None:
        self.shrinkage = shrinkage
        self.prior = prior
        self.reservoir = reservoir
        self.seed = seed

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        validation: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> Self:
        """Fit on responses X (n, width) and labels y (n,); weights are frequencies, groups are never split."""
        self._forget_all()
        self._gather(X, y, sample_weight, groups, reset=True)
        present = int((self.statistics_.counts > 0).sum())
        if present < 2:
            raise InputError(f"The data hold {present} class; a classifier needs at least 2 classes.")
        self._settle(validation)
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Add a batch. Classes may appear at any time; those named in `classes` exist from the start.

        The mapping is solved when it is next asked for, not at every batch.
        """
        first = not hasattr(self, "statistics_")
        if first:
            self._forget_all()
        if classes is not None:
            self._name_classes(np.asarray(classes))
        self._gather(X, y, sample_weight, groups, reset=first)
        self.__dict__.pop("_solution", None)
        return self

    def decision_function(self, X: ArrayLike) -> Array:
        """Scores (n, classes); for two classes the difference of their scores, (n,)."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Best class of each response, (n,)."""
        best = self._scores(X).argmax(axis=1)
        return self.classes_[best]  # type: ignore[no-any-return]

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Log probabilities (n, classes), at the fitted temperature."""
        return log_probabilities(self._scores(X), self.temperature_)

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities (n, classes), at the fitted temperature."""
        return np.exp(self.predict_log_proba(X))

    @property
    def coef_(self) -> Array:
        """Weights, a row for each class, or one row for two classes."""
        weights = self._solved()[0].weights.T
        return weights[1:] - weights[:1] if len(weights) == 2 else weights

    @property
    def intercept_(self) -> Array:
        """Biases of the rows of `coef_`."""
        bias = self._solved()[0].bias
        return bias[1:] - bias[:1] if len(bias) == 2 else bias

    @property
    def shrinkage_(self) -> float:
        """The shrinkage that was chosen."""
        return self._solved()[1].shrinkage

    @property
    def temperature_(self) -> float:
        """The temperature of the probabilities."""
        return self._solved()[1].temperature

    @property
    def choice_(self) -> Choice:
        """The chosen shrinkage, with the score of every candidate."""
        return self._solved()[1]

    def _forget_all(self) -> None:
        self.__dict__.pop("_solution", None)
        self.statistics_ = ResponseStatistics()
        self.classes_ = np.empty(0)
        self._names: dict[str, Any] = {}
        self._reservoir = Reservoir(self.reservoir, self.seed)

    def _gather(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, groups: ArrayLike | None, *, reset: bool
    ) -> None:
        if y is not None:
            given = label_array(y)
            y = np.array(given.tolist()) if given.dtype == object else given  # whole numbers stay such
        checked = validate_data(self, X, y, reset=reset, dtype=[np.float64, np.float32, np.float16])
        responses: NDArray[np.floating] = checked[0]
        truth: NDArray[Any] = checked[1]
        check_classification_targets(truth)
        weights = (
            None if sample_weight is None else _check_sample_weight(sample_weight, responses, ensure_non_negative=True)
        )
        if weights is not None and not (weights > 0).any():
            raise InputError("Every sample weight is zero, so there is nothing to fit.")
        teams = None if groups is None else np.asarray(groups).astype(np.str_)
        if teams is not None and teams.shape != truth.shape:
            raise InputError(
                f"There are {len(truth)} responses but groups of shape {teams.shape}; expected one group each."
            )
        if weights is not None:
            some = weights > 0
            responses, truth, weights = responses[some], truth[some], weights[some]
            teams = None if teams is None else teams[some]
        self._name_classes(np.unique(truth))
        labels = truth.astype(np.str_)
        self.statistics_.update(responses, labels, weights)
        self._reservoir.add(
            responses,
            labels.tolist(),
            row_digests(responses),
            groups=None if teams is None else teams.tolist(),
            weights=weights,
        )

    def _name_classes(self, classes: NDArray[Any]) -> None:
        """Classes keep the type they came in; statistics know them by name."""
        self._names |= dict(zip(classes.astype(np.str_).tolist(), classes.tolist(), strict=True))
        self.classes_ = np.unique(np.concatenate([self.classes_, classes]) if len(self.classes_) else classes)
        self.statistics_ = self.statistics_ + ResponseStatistics(self._names)

    def _settle(self, validation: tuple[ArrayLike, ArrayLike] | None = None) -> None:
        if self.shrinkage == "validation" and validation is None:
            raise SelectionError(
                "The rule 'validation' needs fit(X, y, validation=(X_val, y_val)). "
                f"Rules that work without: {working_rules(MEMBERS)}."
            )
        held = None if validation is None else (np.asarray(validation[0]), np.asarray(validation[1]).astype(np.str_))
        prior = self.prior if isinstance(self.prior, str) else {str(name): value for name, value in self.prior.items()}
        spectrum = dense_spectrum(self.statistics_)
        evidence = Evidence(self.statistics_, spectrum, self._reservoir.members(), held, prior)
        choice = select_shrinkage(self.shrinkage, evidence)
        mapping = evidence.mapping(choice)
        columns = [mapping.classes.index(name) for name in self.classes_.astype(np.str_).tolist()]
        ordered = AffineMapping(
            mapping.weights[:, columns], mapping.bias[columns], tuple(mapping.classes[c] for c in columns)
        )
        self._solution = ordered, choice

    def _solved(self) -> tuple[AffineMapping, Choice]:
        check_is_fitted(self, "statistics_")
        if not hasattr(self, "_solution"):
            self._settle()
        return self._solution

    def _scores(self, X: ArrayLike) -> Array:
        check_is_fitted(self, "statistics_")
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32, np.float16])
        return self._solved()[0](X)
