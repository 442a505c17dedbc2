"""A black box: any Python function from images to responses, `callable:module:function`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from yoro.errors import SourceError
from yoro.sources.names import SourceName, parse_colour, parse_side
from yoro.sources.protocol import IMAGENET_COLOURS, Colour, IdentifiedSource, Identity, Images, Reading
from yoro.user_code import import_here

if TYPE_CHECKING:
    import onnx

DEFAULT_SIDE = 224


class CallableSource(IdentifiedSource):
    """A function that takes images (n, side, side, 3) and returns responses (n, width).

    The function may carry the attributes `side` (224 if absent), `width` (else one grey image is asked
    for it), `mean`, `std` (ImageNet's if absent) and `class_names`.
    """

    def __init__(self, name: str, function: Callable[[Images], object], digest: str) -> None:
        side = parse_side(str(getattr(function, "side", DEFAULT_SIDE)), f"{name!r}: attribute 'side'")
        mean, std = _colour(function, "mean", name), _colour(function, "std", name)
        names = getattr(function, "class_names", None)
        identity = Identity(name, "logits", side, mean, std, digest, licence=None, digest_of="code")
        super().__init__(identity, None if names is None else [str(item) for item in names])
        self._function = function
        width: object = getattr(function, "width", None)
        if width is None:
            width = self._probe()
        if not isinstance(width, int) or width < 1:
            raise SourceError(f"{name!r}: attribute 'width' must be a positive whole number; got {width!r}.")
        self.width = width

    def onnx_model(self) -> onnx.ModelProto:
        """Always an error: a black box has no graph."""
        raise SourceError(f"{self.name!r} is a Python function; only sources that are graphs can be exported to ONNX.")

    def _ask(self, images: Images) -> object:
        try:
            return self._function(images)
        except Exception as error:
            raise SourceError(
                f"{self.name!r} failed on images {images.shape}: {type(error).__name__}: {error}"
            ) from error


def open_callable(name: SourceName, read: Reading, _: int | None) -> CallableSource:
    """Import the module, the working directory included, and wrap the function."""
    if read != "logits":
        raise SourceError(f"{name.text!r} is a black box with one output; it cannot be read at {read!r}.")
    module_name, colon, function_name = name.rest.partition(":")
    if not colon or not module_name or not function_name:
        raise SourceError(f"{name.text!r} is incomplete; write callable:module:function.")
    module = import_here(module_name, name.text, SourceError)
    function = getattr(module, function_name, None)
    if not callable(function):
        raise SourceError(f"{name.text!r}: module {module_name!r} has no function {function_name!r}.")
    return CallableSource(name.text, function, _code_digest(module, name.rest))


def _code_digest(module: object, name: str) -> str:
    """Digest of the module's file; of the name where there is no file."""
    file = getattr(module, "__file__", None)
    return hashlib.sha256(Path(file).read_bytes() if file else name.encode()).hexdigest()


def _colour(function: object, key: str, name: str) -> Colour:
    values = getattr(function, key, IMAGENET_COLOURS[key])
    try:
        text = ",".join(str(float(value)) for value in values)
    except (TypeError, ValueError):
        text = repr(values)
    return parse_colour(text, f"{name!r}: attribute {key!r}", positive=key == "std")
