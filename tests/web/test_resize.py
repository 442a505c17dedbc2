from __future__ import annotations

import io
from base64 import b64decode, b64encode

import numpy as np
import PIL
import pytest
from PIL import Image

from web.node import node
from yoro.data.decoding import decode
from yoro.data.geometry import FILTERS, Geometry

COLUMNS_FIRST = int(PIL.__version__.split(".")[0]) >= 13


def packed(pixels: np.ndarray) -> dict[str, object]:
    height, width, channels = pixels.shape
    return {"data": b64encode(pixels.tobytes()).decode(), "width": width, "height": height, "channels": channels}


def unpacked(text: str, *shape: int) -> np.ndarray:
    return np.frombuffer(b64decode(text), np.uint8).reshape(shape)


@pytest.mark.parametrize("interpolation", FILTERS)
def test_resizing_is_pillows_to_the_bit(interpolation):
    rng = np.random.default_rng(len(interpolation))
    cases, expected = [], []
    for i in range(60):
        width, height, across, down = (int(n) for n in rng.integers(1, [200, 200, 150, 150]))
        pixels = rng.integers(0, 256, (height, width, 3 + i % 2), dtype=np.uint8)
        if i % 3 == 0:
            pixels = np.where(pixels > 127, 255, 0).astype(np.uint8)  # so that sums overshoot
        low, high = rng.uniform(0, 0.4, 2), 1 - rng.uniform(0, 0.4, 2)
        size = np.array([width, height])
        box = [*(low * size), *(high * size)] if i % 4 == 1 else None
        cases.append({"image": packed(pixels), "width": across, "height": down, "box": box})
        picture = Image.fromarray(np.ascontiguousarray(pixels[:, :, :3]))
        expected.append(np.asarray(picture.resize((across, down), FILTERS[interpolation], box=box)))
    body = """
        return given.cases.map(({ image, width, height, box }) =>
          text(page.resize({ ...image, data: bytes(image.data) }, width, height, given.geometry, { box })));
    """
    geometry = {"interpolation": interpolation, "columns_first": COLUMNS_FIRST}
    found = node("resize.js", body, {"cases": cases, "geometry": geometry})
    for case, text, wanted in zip(cases, found, expected, strict=True):
        width, height = case["image"]["width"], case["image"]["height"]
        assert (unpacked(text, *wanted.shape) == wanted).all(), (width, height, wanted.shape)


@pytest.mark.parametrize("fit", ["squash", "crop"])
def test_the_square_is_that_of_predict(fit):
    rng = np.random.default_rng(3)
    geometry = Geometry(48, fit=fit, interpolation="bicubic")
    cases, expected = [], []
    for width, height in [(48, 48), (49, 48), (120, 77), (77, 120), (31, 200), (48, 151), (300, 47), (96, 97)]:
        pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        cases.append(packed(pixels))
        expected.append(decode(pixels, geometry))
    body = "return given.cases.map((c) => text(page.square({ ...c, data: bytes(c.data) }, given.geometry)));"
    given = {"cases": cases, "geometry": geometry.config() | {"columns_first": COLUMNS_FIRST, "most_pixels": 1e6}}
    for text, wanted in zip(node("resize.js", body, given), expected, strict=True):
        assert (unpacked(text, 48, 48, 3) == wanted).all()


def test_transparency_is_laid_on_white_as_predict_does_it():
    values = np.stack(np.meshgrid(np.arange(256), np.arange(0, 256, 5), [7, 250], indexing="ij"), -1)
    pixels = np.concatenate([values, values[..., :1]], -1).reshape(256, -1, 4).astype(np.uint8)
    body = "const data = bytes(given.data); page.layOnWhite(data); return text(data);"
    found = unpacked(node("pixels.js", body, packed(pixels)), *pixels.shape)
    ground = Image.new("RGBA", pixels.shape[1::-1], (255, 255, 255, 255))
    wanted = np.asarray(Image.alpha_composite(ground, Image.fromarray(pixels)))
    assert (found == wanted).all()


def test_photos_are_turned_as_their_orientation_says():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 4), dtype=np.uint8)
    body = """
        const image = { ...given, data: bytes(given.data) };
        return [1, 2, 3, 4, 5, 6, 7, 8].map((o) => text(page.turned(image, o).data));
    """
    turns = [None, 0, 3, 1, 5, 4, 6, 2]  # Pillow's transpositions, by orientation
    for text, turn in zip(node("pixels.js", body, packed(pixels)), turns, strict=True):
        picture = Image.fromarray(pixels)
        wanted = np.asarray(picture if turn is None else picture.transpose(Image.Transpose(turn)))
        assert (unpacked(text, *wanted.shape) == wanted).all(), turn


def jpeg(width: int, height: int, orientation: int | None = None, **options: object) -> bytes:
    exif = Image.Exif()
    if orientation is not None:
        exif[0x0112] = orientation
    stream = io.BytesIO()
    Image.new("RGB", (width, height), "teal").save(stream, "JPEG", exif=exif, **options)
    return stream.getvalue()


def test_the_head_of_a_jpeg_is_read_and_a_damaged_one_says_nothing():
    whole = [jpeg(30, 20), jpeg(21, 33, 6), jpeg(16, 8, 3, progressive=True), jpeg(9, 9, 200)]
    rng = np.random.default_rng(1)
    damaged = []
    for _ in range(300):
        content = bytearray(whole[1][: int(rng.integers(len(whole[1])))])
        for place in rng.integers(0, max(1, len(content)), 4):
            content[int(place) : int(place) + 1] = bytes([int(rng.integers(256))])
        damaged.append(bytes(content))
    files = [*whole, b"", b"\xff", b"text", *damaged]
    body = "return given.map((file) => page.jpegFacts(bytes(file)));"
    found = node("pixels.js", body, [b64encode(file).decode() for file in files])
    assert found[:4] == [
        {"width": 30, "height": 20, "orientation": 1},
        {"width": 21, "height": 33, "orientation": 6},
        {"width": 16, "height": 8, "orientation": 3},
        {"width": 9, "height": 9, "orientation": 1},
    ]
    assert found[4:7] == [None, None, None]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_means_of_squares_are_nearly_what_libjpeg_decodes_reduced(orientation):
    """A browser that decodes at full size only comes this near."""
    rng = np.random.default_rng(orientation)
    smooth = Image.fromarray(rng.integers(40, 215, (9, 7, 3), dtype=np.uint8)).resize((453, 371), Image.BICUBIC)
    exif = Image.Exif()
    exif[0x0112] = orientation
    stream = io.BytesIO()
    smooth.save(stream, "JPEG", exif=exif, quality=95, subsampling=0)
    geometry = Geometry(40, fit="squash")
    wanted = decode(stream.getvalue(), geometry).astype(int)  # 40 * 2 * 4 fit into 371: decoded at a quarter
    full = np.asarray(decode_upright(stream.getvalue()))
    body = """
        const jpeg = page.jpegFacts(bytes(given.file));
        const image = page.reduced({ ...given.image, data: bytes(given.image.data) }, 4, jpeg.orientation);
        return { part: page.partOf(jpeg, 4), values: [...image.data], width: image.width, height: image.height };
    """
    given = {"file": b64encode(stream.getvalue()).decode(), "image": packed(full)}
    found = node("pixels.js", body, given)
    values = np.array(found["values"]).reshape(found["height"], found["width"], 3)
    picture = Image.fromarray(np.rint(values).astype(np.uint8))
    near = np.asarray(picture.resize((40, 40), Image.BILINEAR, box=found["part"]["box"])).astype(int)
    assert np.abs(near - wanted).max() <= 3
    assert np.abs(near - wanted).mean() < 0.5


def decode_upright(content: bytes) -> Image.Image:
    from PIL import ImageOps

    return ImageOps.exif_transpose(Image.open(io.BytesIO(content)))
