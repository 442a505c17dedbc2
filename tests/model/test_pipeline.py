"""The source is opened beside the decoding of the first images, for the pixels that the prompt gives."""

from __future__ import annotations

import numpy as np
import pytest

from yoro.data.find import find
from yoro.data.geometry import Geometry
from yoro.errors import SourceError
from yoro.model.pipeline import Pipeline
from yoro.model.settings import Loading
from yoro.prompts.prompt import make_prompt
from yoro.sources.protocol import IdentifiedSource, Identity, layout_of

SIDE = 16
COLOUR = (0.5, 0.5, 0.5)


class Slow(IdentifiedSource):
    """A source that has to be prepared before it is asked."""

    width = 3

    def __init__(self, broken: bool = False) -> None:
        super().__init__(Identity("slow", "logits", SIDE, COLOUR, COLOUR, "0" * 64))
        self.prepared: list[type] = []
        self._broken = broken

    def prepare(self, pixels: type[np.generic]) -> None:
        if self._broken:
            raise SourceError("It cannot be opened.")
        self.prepared.append(pixels)

    def _ask(self, images: np.ndarray) -> np.ndarray:
        assert self.prepared == [images.dtype.type]
        return images.mean(axis=(1, 2), dtype=np.float32)


def stream(source: Slow, prompt: str, inner: int | None = None):
    made = make_prompt(prompt, SIDE, mean=COLOUR, std=COLOUR, image_side=inner, frame="grey")
    pipeline = Pipeline(source, made, Geometry(made.image_side), layout_of(source))
    pictures = [np.full((20, 20, 3), 10 * i, np.uint8) for i in range(5)]
    return pipeline.stream(find(pictures, labelled=False).examples, Loading(batch_size=2))


@pytest.mark.parametrize(("prompt", "inner"), [("watermark", None), ("padding", 12)])
def test_a_source_is_prepared_once_and_before_it_is_asked(prompt, inner):
    source = Slow()
    assert sum(map(len, stream(source, prompt, inner))) == 5
    assert len(source.prepared) == 1


def test_what_is_wrong_with_opening_it_is_an_error_of_the_pass():
    with pytest.raises(SourceError, match="cannot be opened"):
        list(stream(Slow(broken=True), "watermark"))
