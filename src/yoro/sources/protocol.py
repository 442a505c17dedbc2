"""The contract of a response source: images in, one response vector each out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from yoro.discriminant.readings import Layout
from yoro.errors import InputError, SourceError

if TYPE_CHECKING:
    import onnx

Reading: TypeAlias = Literal["logits", "features"]
Images: TypeAlias = npt.NDArray[np.uint8] | npt.NDArray[np.float32]
Responses: TypeAlias = npt.NDArray[np.float32]
Colour: TypeAlias = tuple[float, float, float]

IMAGENET_COLOURS: dict[str, Colour] = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


class ResponseSource(Protocol):
    """Anything that turns a batch of images into one response vector each.

    `name` is what the user typed, `side` the input size, `width` the length of a response; `mean` and
    `std` are in [0, 1] pixel units; `class_names` are the source's own classes where they are known. `layout` are
    the layers that a response consists of (None is one layer, taken as it is), `preferred_batch` is how many images
    it likes to get at once, and `concurrent` says whether `respond` may be called while another call runs.

    A class that inherits from this one need not have what is the same for sources that run here and read one layer.
    """

    name: str
    side: int
    width: int
    mean: Colour
    std: Colour
    class_names: list[str] | None
    layout: Layout | None = None  # the layers that a response consists of; None means one layer, not transformed
    preferred_batch: int = 1  # the preferred number of images per call
    concurrent: bool = False  # whether `respond` may be called while another call runs

    @property
    def notes(self) -> Sequence[str]:
        """What a user should know before the first image is read."""
        return ()

    def prepare(self, pixels: type[np.generic]) -> None:
        """Do what the first call would wait for (images of uint8 or float32); runs while images are decoded."""
        return

    def outcome(self) -> str:
        """The API calls of this run and their cost, in a sentence; empty for a source that runs here."""
        return ""

    def member(self, network: str) -> ResponseSource:
        """The network of that name, if the source has several; otherwise the source itself."""
        return self

    def only(self, networks: Collection[str]) -> ResponseSource:
        """The source with only these networks run; the responses of the others are zeros."""
        return self

    def read_all(self) -> ResponseSource:
        """The source, reading all its layers from now on; one with a single output does not change."""
        return self

    def respond(self, images: Images) -> Responses:
        """Responses (n, width) to RGB images (n, side, side, 3).

        Images are uint8, or float32 in [0, 1] pixel units; a prompt may push them outside [0, 1].
        """

    def describe(self) -> dict[str, object]:
        """JSON-able identity: what must be equal for two sources to give the same responses."""

    def onnx_model(self) -> onnx.ModelProto:
        """Graph from float32 "images" (n, side, side, 3) in [0, 1] to "responses" (n, width)."""


class DualEncoder(ResponseSource, Protocol):
    """An image-text model: images and sentences become unit vectors of one space.

    Its responses to an image are `logit_scale * <image, sentence>` for the sentences of a bank. They are
    never formed: `respond` gives the image vector, of length `dimension`, and the mapping is solved there. Read at all
    layers, the image vector comes first.
    """

    dimension: int
    logit_scale: float

    def encode_images(self, images: Images) -> Responses:
        """Unit vectors (n, dimension) of images as `respond` takes them."""

    def encode_texts(self, sentences: Sequence[str]) -> Responses:
        """Unit vectors (n, dimension) of sentences; one that is longer than the model reads is an error."""


def is_dual(source: object) -> TypeGuard[DualEncoder]:
    """Whether a source has a text tower."""
    return hasattr(source, "encode_texts")


@dataclass(frozen=True)
class Identity:
    """What a source is, as it is recorded beside a fitted mapping."""

    name: str
    read: str  # of `Reading`, or "all"
    side: int
    mean: Colour
    std: Colour
    digest: str  # sha256, hexadecimal
    licence: str | None = None
    digest_of: str = "weights"  # a black box has no weights to show: there it is "code"
    # Classifiers squash the whole image into the canvas; CLIP crops the centre.
    fit: str = "squash"
    interpolation: str = "bilinear"

    def as_dict(self) -> dict[str, object]:
        table = vars(self) | {"mean": list(self.mean), "std": list(self.std)}
        return table | {"geometry": {key: table.pop(key) for key in ("fit", "interpolation")}}


@dataclass(frozen=True)
class Calls:
    """How many calls an endpoint may get: None for no limit; none at all in a dry run."""

    budget: int | None = None
    dry: bool = False

    def __post_init__(self) -> None:
        if self.budget is not None and self.budget < 0:
            raise InputError(f"A budget of {self.budget} calls was given; expected 0 or more.")


FREE = Calls()


SourceDefaults = ResponseSource  # what classes outside of this package inherit from


def with_defaults(source: ResponseSource) -> ResponseSource:
    """The source itself; one of a user's own that lacks members gets those of `ResponseSource`."""
    kind = type(source)
    if ResponseSource in kind.__mro__:
        return source
    completed = copy(source)
    completed.__class__ = type(kind.__name__, (kind, ResponseSource), {})
    return completed


class IdentifiedSource(ResponseSource):
    """A source with an identity, from which most members follow."""

    def __init__(self, identity: Identity, class_names: list[str] | None = None) -> None:
        self.name, self.side, self.mean, self.std = identity.name, identity.side, identity.mean, identity.std
        self.class_names = class_names
        self._identity = identity

    def respond(self, images: Images) -> Responses:
        check_images(images, self.side)
        if not len(images):
            return np.empty((0, self.width), np.float32)
        return check_responses(self._ask(images), len(images), self.width, self.name)

    def describe(self) -> dict[str, object]:
        return self._identity.as_dict()

    def onnx_model(self) -> onnx.ModelProto:
        raise SourceError(f"{self.name!r} is not a graph, so it cannot be exported to ONNX.")

    def _probe(self) -> int:
        """The width, from a grey image."""
        grey = np.full((1, self.side, self.side, 3), 127, np.uint8)
        return int(check_responses(self._ask(grey), 1, None, self.name).shape[1])

    def _ask(self, images: Images) -> object:
        """What is answered to at least one image; it is checked afterwards."""
        raise NotImplementedError


def check_images(images: Images, side: int) -> None:
    """Refuse anything but uint8 or float32 of shape (n, side, side, 3)."""
    if not isinstance(images, np.ndarray) or images.dtype not in (np.uint8, np.float32):
        came = images.dtype if isinstance(images, np.ndarray) else type(images).__name__
        raise InputError(f"Images are {came}; expected a numpy array of uint8, or of float32 in [0, 1].")
    if images.ndim != 4 or images.shape[1:] != (side, side, 3):
        raise InputError(
            f"Images have shape {images.shape}; this source needs (n, {side}, {side}, 3). Resize them first."
        )


def check_responses(responses: object, n: int, width: int | None, name: str) -> Responses:
    """The responses as float32 (n, width); another shape is an error."""
    array = np.asarray(responses)
    if array.dtype.kind not in "fiu" or array.ndim != 2 or len(array) != n or array.shape[1] < 1:
        raise SourceError(
            f"{name!r} answered {n} images with {array.dtype} of shape {array.shape}; "
            f"expected numbers of shape ({n}, width)."
        )
    if width is not None and array.shape[1] != width:
        raise SourceError(f"{name!r} answered with width {array.shape[1]}, but its width was {width} before.")
    return np.ascontiguousarray(array, dtype=np.float32)


def as_colour(values: Sequence[float]) -> Colour:
    """Three numbers."""
    red, green, blue = values
    return float(red), float(green), float(blue)


def check_reading(read: str) -> Reading:
    """The reading, if it is one of those there are."""
    if read == "logits":
        return "logits"
    if read == "features":
        return "features"
    raise SourceError(f"A source can be read at 'logits', 'features' or 'all', not at {read!r}.")


def layout_of(source: ResponseSource) -> Layout:
    """The layers of a source's responses."""
    return source.layout or Layout.of(source.width)


def check_cpu(device: str, name: str) -> None:
    """Refuse a device other than the CPU for a source that has no other."""
    if device not in ("auto", "cpu"):
        raise SourceError(f"{name!r} runs on the CPU only, not on {device!r}; leave the device at 'auto'.")
