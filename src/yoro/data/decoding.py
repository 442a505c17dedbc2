"""From any image file to a square of uint8 RGB, the same way everywhere."""

from __future__ import annotations

import io
import stat
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import (
    Image,
    ImageFile,
    Jpeg2KImagePlugin,
    JpegImagePlugin,
    TiffImagePlugin,
    UnidentifiedImageError,
    WebPImagePlugin,
)

from yoro import limits
from yoro.data.examples import Later, Member, Picture, check_file_size, shown
from yoro.data.geometry import FILTERS, Geometry, Look, Size, shorter_to
from yoro.environment import install
from yoro.errors import ImageError, UnreachableError

BACKGROUND = (255, 255, 255)  # what shows through transparent pixels
STRIP = 1 << 22  # pixels that are turned into RGB at a time: in between a pixel may take 32 bytes
STORED = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2, "I;16L": 2, "LA": 4}  # bytes of a pixel by mode; 4 for others
# Bytes of a pixel that a decoder takes besides. Of a HEIF all together: 7.3 were measured at 49 megapixels, with
# transparency 12 at 24; 10 and 14 are predicted, so that phones' 50 megapixels pass.
DECODER = {"JPEG2000": 12, "WEBP": 4, "AVIF": 8, "TIFF": 4, "HEIF": 6}

# A JPEG is decoded at 1/2, 1/4 or 1/8 scale as long as that leaves at least this many times the target. Measured by
# benchmarks/decoding.py at side 224 against full decoding: with 2, the mean difference is 0.13 to 0.26 of 255 and no
# pixel is off by more than 4, at 1.6 to 3.3 times the speed from 1411 pixels on; with 1, it is 2.1 to 4 times,
# but pixels are off by up to 21 (mean 0.3 to 1.0). Pillow's `reducing_gap` gains less than either.
MARGIN = 2
DEFLATE_RATIO = 1032  # no deflate stream, so no PNG, holds more than this many times its own bytes

HEIF = "HEIF"
SMALLER = "make it smaller, or save it as JPEG"
HEIF_BRANDS = frozenset({b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1"})

# Only formats that Pillow decodes in this process: its EPS reader would start Ghostscript.
_FORMATS = ["JPEG", "PNG", "GIF", "BMP", "DIB", "PPM", "TIFF", "WEBP", "JPEG2000"]
_PLUGINS = (TiffImagePlugin, WebPImagePlugin, Jpeg2KImagePlugin)  # imported: the rest of Pillow's are slow to load
try:
    from PIL import AvifImagePlugin as _AvifImagePlugin  # noqa: F401  since Pillow 11.3

    _FORMATS.append("AVIF")
except ImportError:
    pass

_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_ORIENTATION = 0x0112  # EXIF tag

Box = tuple[float, float, float, float]


def decode(
    image: Picture, geometry: Geometry, *, name: str | None = None, look: Look | None = None
) -> NDArray[np.uint8]:
    """The image as (side, side, 3) uint8 RGB, upright; with a look, the part that it chooses in the same size.

    EXIF rotation is applied; transparency is laid on white; 16-bit grey is divided by 257; of an animation the first
    frame counts; colour profiles are not applied. A published geometry does none of the first three. Anything that
    cannot be read in full is an ImageError that names the image (by `name`, or its path) and the cause.
    """
    with _naming(image, name):
        return _resize(*_upright(_content(image), geometry), geometry, look)


def decode_whole(image: Picture, geometry: Geometry, *, name: str | None = None) -> NDArray[np.uint8]:
    """Every pixel (height, width, 3) that `decode` would resize; of a geometry that is not `reduced`."""
    with _naming(image, name):
        return np.asarray(_upright(_content(image), geometry)[0])


def decode_and_digest(
    image: Picture, *geometries: Geometry, name: str | None = None
) -> tuple[list[NDArray[np.uint8]], str]:
    """`decode` for one or more geometries, and `digest`, with the file read and decoded once.

    The first geometry decides at which scale a JPEG is decoded; the others should not be larger.
    """
    with _naming(image, name):
        content = _content(image)
        upright = _upright(content, geometries[0])
        return [_resize(*upright, geometry) for geometry in geometries], digest(content)


def digest(image: Picture) -> str:
    """32 hex digits of BLAKE2b over a file's bytes, or over kind and pixels of an image in memory."""
    hasher = blake2b(digest_size=16)
    if isinstance(image, Later):
        return digest(image.fetch())
    if isinstance(image, OSError):
        hasher.update(str(image).encode())
    elif isinstance(image, Path | Member | bytes):
        hasher.update(file_bytes(image))
    elif isinstance(image, np.ndarray):
        hasher.update(f"array {image.shape} {image.dtype.str} ".encode())
        hasher.update(np.ascontiguousarray(image).tobytes())
    else:
        hasher.update(f"picture {image.mode} {image.size} ".encode())
        hasher.update(image.tobytes())
    return hasher.hexdigest()


@contextmanager
def _naming(image: Picture, name: str | None) -> Iterator[None]:
    """Silence Pillow's warnings, and turn any error into an ImageError that names the image."""
    try:
        with _QUIET:
            yield
    except UnreachableError:
        raise
    except Exception as error:  # a hostile file can raise anything inside a decoder
        called = name or (shown(image) if isinstance(image, Path) else "the image given")
        raise ImageError(f"'{called}' cannot be read as an image: {_cause(error)}.") from error


def _content(image: Picture) -> bytes | Image.Image | NDArray[np.generic]:
    if isinstance(image, OSError):
        raise image
    if isinstance(image, Later):
        return _content(image.fetch())
    return file_bytes(image) if isinstance(image, Path | Member) else image


def file_bytes(image: Path | Member | bytes) -> bytes:
    """The bytes of an image file of sane size, wherever it lies."""
    if isinstance(image, bytes):
        return image
    if isinstance(image, Member):
        return image.read()
    found = image.stat()
    if not stat.S_ISREG(found.st_mode):  # a pipe or a device would never end
        raise ImageError("it is not a regular file")
    check_file_size(found.st_size)
    return image.read_bytes()


def _upright(
    content: bytes | Image.Image | NDArray[np.generic], geometry: Geometry
) -> tuple[Image.Image, Box | None, Size | None]:
    """Upright RGB; of a JPEG decoded at reduced scale also the part to use, and the full size."""
    if isinstance(content, np.ndarray):
        return _from_array(content, published=geometry.published), None, None
    if isinstance(content, Image.Image):
        _check_pixels(content.size)
        return (content.convert("RGB") if geometry.published else _turned(content, None, None)[0]), None, None
    if not content:
        raise ImageError("there are no bytes")
    _check_webp(content)
    with _opened(content) as image:
        _check_pixels(image.size, most=limits.JPEG_PIXELS if image.format == "JPEG" else limits.IMAGE_PIXELS)
        _check_complete(image, content)
        size = image.size
        asked = MARGIN * geometry.side
        drafted = image.draft(None, (asked, asked)) if geometry.reduced else None
        _check_memory(image)
        if geometry.published:
            return image.convert("RGB"), None, None
        if drafted is None or image.size == size:
            return _turned(image, None, None)
        return _turned(image, drafted[1], size)


def _opened(content: bytes) -> ImageFile.ImageFile:
    """The image file opened by its header; nothing is decoded yet."""
    if content.startswith(b"\xff\xd8"):  # past Pillow's limit on pixels: a JPEG can be decoded at reduced scale
        return JpegImagePlugin.JpegImageFile(io.BytesIO(content))
    return Image.open(io.BytesIO(content), formats=[HEIF] if _is_heif(content) else _FORMATS)


def _is_heif(content: bytes) -> bool:
    """Whether an image is HEIF (the format of phones); registers the decoder, or says which extra is missing."""
    brands = content[8 : min(int.from_bytes(content[:4]), 256)]  # the first is its own, the others it goes along with
    if content[4:8] != b"ftyp" or brands[:4] not in HEIF_BRANDS or b"avif" in brands:
        return False
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        raise ImageError(f"it is a HEIC, which needs an extra ({install('heif')}), or saving as JPEG") from None
    if HEIF not in Image.OPEN:
        register_heif_opener(thumbnails=False)
    return True


def _check_pixels(size: tuple[int, int], most: int = limits.IMAGE_PIXELS) -> None:
    if size[0] * size[1] > most:
        raise ImageError(f"it has {size[0]} x {size[1]} pixels, more than the limit of {most:,}; {SMALLER}")
    if max(size) > limits.IMAGE_SIDE:  # Pillow takes memory for every row, however short
        raise ImageError(f"it is {size[0]} x {size[1]} pixels; no side may exceed {limits.IMAGE_SIDE:,}")
    if min(size) < 1:
        raise ImageError("it has no pixels")


def _check_complete(image: ImageFile.ImageFile, content: bytes) -> None:
    """Refuse a file with too few bytes for its pixels, or with too many passes over them, before it is decoded."""
    pixels = image.size[0] * image.size[1]
    if image.format == "JPEG":
        scans = content.count(b"\xff\xda")  # within compressed data 0xff is followed by 0x00: only markers match
        if scans > limits.JPEG_SCANS or scans * pixels > limits.JPEG_SCANNED_PIXELS:
            raise ImageError(f"it has {scans:,} scans of {pixels:,} pixels, which take too long to decode")
    bits = _least_bits(image)
    if pixels * bits > 8 * len(content) * (DEFLATE_RATIO if image.format == "PNG" else 1):
        raise ImageError(f"the file is truncated: {len(content):,} bytes cannot hold {pixels:,} pixels")


def _least_bits(image: ImageFile.ImageFile) -> int:
    """Bits that a pixel takes at least in a file, before compression; 0 where the codec can do with any number."""
    codec, arguments = (image.tile[0][0], image.tile[0][3]) if image.tile else ("", None)
    if codec not in ("raw", "zip", "ppm", "ppm_plain"):
        return 0
    raw = str(arguments[0] if isinstance(arguments, tuple) else arguments) if codec in ("raw", "zip") else image.mode
    return 1 if raw.startswith("1") or ";" in raw or image.mode == "P" else 8


def _check_webp(content: bytes) -> None:
    """Check the size that a WebP claims: Pillow takes memory for its canvas as soon as it opens one."""
    if content[:4] != b"RIFF" or content[8:12] != b"WEBP" or len(content) < 30:
        return
    if content[12:16] == b"VP8X":
        size = 1 + int.from_bytes(content[24:27], "little"), 1 + int.from_bytes(content[27:30], "little")
    elif content[12:16] == b"VP8L":
        bits = int.from_bytes(content[21:25], "little")
        size = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    else:
        size = int.from_bytes(content[26:28], "little") & 0x3FFF, int.from_bytes(content[28:30], "little") & 0x3FFF
    _check_pixels((max(size[0], 1), max(size[1], 1)))
    if 8 * size[0] * size[1] > limits.DECODED_BYTES:
        raise ImageError(
            f"{size[0]} x {size[1]} pixels of WebP take more than {limits.DECODED_BYTES:,} bytes to decode; {SMALLER}"
        )


def _check_memory(image: Image.Image) -> None:
    """Refuse what would take too much memory at the scale it is decoded at; nothing is decoded yet."""
    plain = image.mode == "RGB" and "transparency" not in image.info
    each = STORED.get(image.mode, 4) + (0 if plain else 4) + DECODER.get(image.format or "", 0)
    needed = each * image.size[0] * image.size[1]
    if needed > limits.DECODED_BYTES:
        size = f"{image.size[0]} x {image.size[1]} pixels of {image.format}, {image.mode}"
        raise ImageError(f"{size} take {needed:,} bytes to decode, more than {limits.DECODED_BYTES:,}; {SMALLER}")


def _turned(image: Image.Image, box: Box | None, size: Size | None) -> tuple[Image.Image, Box | None, Size | None]:
    """Upright RGB of an opened image; `box` is the part to use and `size` the full size of one decoded reduced."""
    image.load()
    orientation = _orientation(image)  # after loading: Pillow turns TIFFs itself
    rgb = _to_rgb(image)
    if orientation in _TURNS:
        rgb = rgb.transpose(_TURNS[orientation])
        box = None if box is None else _turned_box(box, rgb.size, orientation)
        size = (size[1], size[0]) if size is not None and orientation >= 5 else size
    return rgb, box, size


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # damaged EXIF says nothing about the pixels
        return 1


def _turned_box(box: Box, size: tuple[int, int], orientation: int) -> Box:
    """Where a box at the origin lies after turning; `size` is that of the turned image."""
    width, height = (box[3], box[2]) if orientation >= 5 else (box[2], box[3])
    left = size[0] - width if orientation in (2, 3, 6, 7) else 0.0
    top = size[1] - height if orientation in (3, 4, 7, 8) else 0.0
    return left, top, left + width, top + height


def _to_rgb(image: Image.Image) -> Image.Image:
    """Any mode of Pillow as RGB, transparency on white; a large image strip by strip."""
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    width, height = image.size
    rows = max(1, STRIP // width)
    if rows >= height:
        return _strip_to_rgb(image)
    result = Image.new("RGB", image.size)
    for top in range(0, height, rows):
        strip = image.crop((0, top, width, min(top + rows, height)))
        result.paste(_strip_to_rgb(strip), (0, top))
    return result


def _strip_to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        return _from_deep(np.asarray(image))
    if image.mode == "F":
        return _from_array(np.asarray(image))
    if "A" in image.mode or "a" in image.mode or "transparency" in image.info:
        layer = image.convert("RGBA")
        ground = Image.new("RGBA", layer.size, (*BACKGROUND, 255))
        return Image.alpha_composite(ground, layer).convert("RGB")
    return image.convert("RGB")


def _from_deep(values: NDArray[np.generic]) -> Image.Image:
    """16-bit grey, divided by 257 so that white stays white."""
    wide = values.astype(np.int64)
    if wide.min() < 0 or wide.max() > 65535:
        raise ImageError(f"got grey values from {wide.min()} to {wide.max()}, expected 0 to 65535")
    return Image.fromarray(((wide + 128) // 257).astype(np.uint8)).convert("RGB")


def _from_array(values: NDArray[np.generic], *, published: bool = False) -> Image.Image:
    """RGB of an array (height, width[, 1, 3 or 4]) of uint8 or of floats in [0, 1]."""
    if values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[2] not in (1, 3, 4)):
        raise ImageError(f"got an array of shape {values.shape}, expected (height, width) or (height, width, 1|3|4)")
    _check_pixels((values.shape[1], values.shape[0]))
    if np.issubdtype(values.dtype, np.floating):
        real = values.astype(np.float64)
        if not (np.isfinite(real).all() and real.min() >= 0.0 and real.max() <= 1.0):
            low, high = real.min(initial=np.inf), real.max(initial=-np.inf)
            raise ImageError(
                f"got floating-point values from {low:g} to {high:g}, expected [0, 1]; give uint8, or divide by the "
                "largest and leave out any normalisation"
            )
        values = np.rint(real * 255.0).astype(np.uint8)
    if values.dtype != np.uint8:
        raise ImageError(f"got an array of {values.dtype}, expected uint8, or floats in [0, 1]")
    flat = values[:, :, 0] if values.ndim == 3 and values.shape[2] == 1 else values
    image = Image.fromarray(np.ascontiguousarray(flat))
    return image.convert("RGB") if published else _to_rgb(image)


def _resize(
    image: Image.Image, box: Box | None, size: Size | None, geometry: Geometry, look: Look | None = None
) -> NDArray[np.uint8]:
    """RGB image to (side, side, 3), by the same arithmetic as torchvision on PIL images."""
    side, resample = geometry.side, FILTERS[geometry.interpolation]
    if look is not None:
        return _look_at(image, box, size or image.size, geometry, look)
    if geometry.fit == "squash":
        return np.asarray(image.resize((side, side), resample, box=box))
    scaled = _checked(shorter_to(side, size or image.size), size or image.size)
    resized = image.resize(scaled, resample, box=box)
    left, top = round((scaled[0] - side) / 2.0), round((scaled[1] - side) / 2.0)
    return np.asarray(resized.crop((left, top, left + side, top + side)))


def _look_at(image: Image.Image, box: Box | None, size: Size, geometry: Geometry, look: Look) -> NDArray[np.uint8]:
    """The part of an image that a look chooses; `size` is the full size, `box` the whole of one decoded reduced."""
    side, resample = geometry.side, FILTERS[geometry.interpolation]
    view = look(size, geometry)
    if view.first is not None:
        image, box, size = image.resize(_checked(view.first, size), resample, box=box), None, view.first
    part = view.left, view.top, view.left + view.width, view.top + view.height
    if box is None:  # cut out, so that nothing beyond the edges is mixed in
        seen = np.asarray(image.crop(part).resize((side, side), resample))
    else:
        across, down = (box[2] - box[0]) / size[0], (box[3] - box[1]) / size[1]
        reduced = box[0] + across * part[0], box[1] + down * part[1], box[0] + across * part[2], box[1] + down * part[3]
        seen = np.asarray(image.resize((side, side), resample, box=_within(reduced, box)))
    return np.ascontiguousarray(seen[:, ::-1]) if view.mirrored else seen


def _within(part: Box, whole: Box) -> Box:
    """A part that rounding does not let reach beyond the whole."""
    return part[0], part[1], min(part[2], whole[2]), min(part[3], whole[3])


def _checked(scaled: Size, size: Size) -> Size:
    if scaled[0] * scaled[1] > limits.IMAGE_PIXELS:
        raise ImageError(
            f"{size[0]} x {size[1]} pixels are too narrow to crop a square of the shorter side; use 'squash'"
        )
    return scaled


def _cause(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "its content is not that of any known image format"
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, MemoryError):
        return f"it takes more memory to decode than one image may; {SMALLER}"
    if isinstance(error, Image.DecompressionBombError):
        return f"it has more pixels than the limit of {limits.IMAGE_PIXELS:,}; {SMALLER}"
    if isinstance(error, ImageError):
        return str(error)
    said = error.strerror if isinstance(error, OSError) else None
    text = (said or str(error)).strip().rstrip(".") or "no reason given"
    return text if isinstance(error, OSError) else f"{type(error).__name__}: {text}"


class _Quiet:
    """Silences Pillow's warnings; entered from several threads, the filters are saved and restored once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._saved = warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._saved = warnings.catch_warnings()
                self._saved.__enter__()
                warnings.simplefilter("ignore")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._saved.__exit__(None, None, None)


_QUIET = _Quiet()
