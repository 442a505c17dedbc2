"""Responses: images in, a frozen model's responses out, with a scikit-learn face."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from yoro.data.find import find
from yoro.data.response_streams import collect
from yoro.model.pipeline import Pipeline, make_pipeline
from yoro.model.settings import Loading, PipelineSettings


class Responses(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer from images to responses (n, width), so that any estimator can follow it.

    Parameters
    ----------
    source, read, prompt : as in `yoro.fit`
        Which frozen model reads the images, where, and behind which prompt.
    batch_size : int, default=32
        Images read together.

    Attributes
    ----------
    width_ : int
        Coordinates of a response.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> light = np.random.default_rng(0).integers(0, 60, (4, 32, 32, 3), dtype=np.uint8)
    >>> images, labels = np.concatenate([light, light + 180]), ["dark"] * 4 + ["light"] * 4
    >>> make_pipeline(Responses(), LogisticRegression()).fit(images, labels).predict(images[:1]).tolist()
    ['dark']
    """

    def __init__(
        self,
        source: str = PipelineSettings.source,
        *,
        read: str = "logits",
        prompt: str = PipelineSettings.prompt,
        batch_size: int = Loading.batch_size,
    ) -> None:
        self.source = source
        self.read = read
        self.prompt = prompt
        self.batch_size = batch_size

    def fit(self, X: object, y: object = None) -> Self:
        """Open the source; nothing is learned from the images."""
        self._opened = self._open()
        self.width_ = self._opened.source.width
        return self

    def transform(self, X: object) -> NDArray[np.floating]:
        """Responses (n, width) to images of any kind that `predict` takes; one that cannot be read is an error."""
        check_is_fitted(self, "width_")
        loading = Loading(batch_size=self.batch_size, strict=True)
        stream = self._open().stream(find(X, labelled=False).examples, loading)
        return collect(stream, "responding", width=self.width_).responses

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Names of the coordinates."""
        check_is_fitted(self, "width_")
        return np.array([f"response{i}" for i in range(self.width_)], dtype=object)

    def __getstate__(self) -> dict[str, object]:
        """For pickle: without the open network, which is reopened when it is needed."""
        return {key: value for key, value in super().__getstate__().items() if key != "_opened"}

    def _open(self) -> Pipeline:
        if not hasattr(self, "_opened"):
            self._opened = make_pipeline(PipelineSettings(source=self.source, read=self.read, prompt=self.prompt))
        return self._opened
