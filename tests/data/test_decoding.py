from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from yoro.data.decoding import decode, digest
from yoro.data.geometry import Geometry, View
from yoro.errors import ImageError, InputError

SQUARE = Geometry(32, reduced=False)


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def photo(photos: Path, name: str = "coffee.png") -> Image.Image:
    with Image.open(photos / name) as image:
        return image.convert("RGB")


def four_corners(width: int = 96, height: int = 64) -> Image.Image:
    """Red, green, blue and white quarters: every turn and flip of it is another image."""
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    pixels[: height // 2, : width // 2] = (255, 0, 0)
    pixels[: height // 2, width // 2 :] = (0, 255, 0)
    pixels[height // 2 :, : width // 2] = (0, 0, 255)
    pixels[height // 2 :, width // 2 :] = (255, 255, 255)
    return Image.fromarray(pixels)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_squash_is_pillows_resize(photos: Path, interpolation: str) -> None:
    image = photo(photos)
    resample = Image.Resampling[interpolation.upper()]
    expected = np.asarray(image.resize((224, 224), resample))
    geometry = Geometry(224, "squash", interpolation)  # type: ignore[arg-type]
    assert np.array_equal(decode(photos / "coffee.png", geometry), expected)


@pytest.mark.parametrize("size", [(600, 400), (401, 600), (300, 300), (333, 224)])
def test_crop_is_shorter_side_then_centre(photos: Path, size: tuple[int, int]) -> None:
    image = photo(photos).resize(size)
    width, height = size
    scaled = (224, int(224 * height / width)) if width <= height else (int(224 * width / height), 224)
    left, top = round((scaled[0] - 224) / 2.0), round((scaled[1] - 224) / 2.0)
    resized = image.resize(scaled, Image.Resampling.BICUBIC)
    expected = np.asarray(resized.crop((left, top, left + 224, top + 224)))
    assert np.array_equal(decode(image, Geometry(224, "crop", "bicubic")), expected)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("fit", ["squash", "crop"])
def test_rotated_photo_is_upright(orientation: int, fit: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = encoded(four_corners(), "PNG", exif=exif)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(content)))
    geometry = Geometry(32, fit)  # type: ignore[arg-type]
    assert np.array_equal(decode(content, geometry), decode(encoded(upright, "PNG"), geometry))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("fit", ["squash", "crop"])
def test_reduced_decoding_of_a_rotated_photo_stays_in_place(photos: Path, orientation: int, fit: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = encoded(photo(photos).resize((1203, 905)), "JPEG", quality=95, exif=exif)
    full = decode(content, Geometry(32, fit, reduced=False)).astype(int)  # type: ignore[arg-type]
    reduced = decode(content, Geometry(32, fit)).astype(int)  # type: ignore[arg-type]
    assert np.abs(full - reduced).mean() < 0.6  # a shift by half a pixel gives more than 2
    assert np.abs(full - reduced).max() <= 8


def test_reduced_decoding_changes_pixels_little_and_can_be_switched_off(photos: Path) -> None:
    path = photos / "retina.jpg"  # 1411 x 1411
    with Image.open(path) as image:
        expected = np.asarray(image.resize((224, 224), Image.Resampling.BILINEAR))
    exact = decode(path, Geometry(224, reduced=False))
    near = decode(path, Geometry(224))
    assert np.array_equal(exact, expected)
    assert not np.array_equal(near, expected)
    assert np.abs(near.astype(int) - expected).mean() < 0.3
    assert np.abs(near.astype(int) - expected).max() <= 5


def test_a_photo_below_four_times_the_target_is_decoded_in_full(photos: Path) -> None:
    assert np.array_equal(
        decode(photos / "rocket.jpg", Geometry(224)), decode(photos / "rocket.jpg", Geometry(224, reduced=False))
    )


def test_cmyk_jpeg_has_the_colours_of_the_rgb_one() -> None:
    content = encoded(four_corners().convert("CMYK"), "JPEG", quality=95)
    difference = decode(content, SQUARE).astype(int) - decode(four_corners(), SQUARE)
    assert np.abs(difference).mean() < 3


def test_sixteen_bit_grey_is_scaled_not_clipped() -> None:
    values = np.linspace(0, 65535, 32 * 32).round().astype(np.uint16).reshape(32, 32)
    pixels = decode(encoded(Image.fromarray(values), "PNG"), SQUARE)
    assert np.array_equal(pixels[:, :, 0], np.floor(values / 257 + 0.5))
    assert pixels.max() == 255
    assert np.array_equal(decode(encoded(Image.fromarray(values), "TIFF"), SQUARE), pixels)


def sixteen_bit_rgb_png(values: tuple[int, int, int], side: int = 4) -> bytes:
    """A PNG of one 16-bit colour, which Pillow cannot write itself."""
    line = b"\0" + struct.pack(">3H", *values) * side

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", side, side, 16, 2, 0, 0, 0)
    body = zlib.compress(line * side)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def test_sixteen_bit_colour_keeps_black_grey_and_white() -> None:
    assert (decode(sixteen_bit_rgb_png((0, 32896, 65535)), SQUARE)[0, 0] == (0, 128, 255)).all()


def test_transparent_palette_lies_on_white() -> None:
    image = Image.new("P", (8, 8), 0)
    image.putpalette([10, 20, 30, 200, 0, 0])
    image.paste(1, (0, 0, 4, 8))
    for transparency in (0, bytes([0, 255])):
        pixels = decode(encoded(image, "PNG", transparency=transparency), Geometry(8))
        assert (pixels[0, 0] == (200, 0, 0)).all()
        assert (pixels[0, 7] == (255, 255, 255)).all()


def test_grey_with_alpha_is_blended_with_white() -> None:
    pixels = decode(encoded(Image.new("LA", (8, 8), (0, 51)), "PNG"), Geometry(8))
    assert (pixels == 204).all()


def test_horse_silhouette_is_not_a_black_rectangle(photos: Path) -> None:
    assert decode(photos / "horse.png", SQUARE).max() == 255


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_an_animation_gives_its_first_frame(kind: str) -> None:
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue")]
    content = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
    assert np.abs(decode(content, SQUARE)[0, 0].astype(int) - (255, 0, 0)).max() <= 3


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "CMYK", "YCbCr", "HSV", "I;16", "I", "PA"])
def test_every_common_mode_becomes_rgb(mode: str) -> None:
    pixels = decode(Image.new(mode, (5, 9)), SQUARE)
    assert (pixels.shape, pixels.dtype) == ((32, 32, 3), np.uint8)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM", "WEBP", "JPEG2000"])
def test_lossless_formats_agree(kind: str) -> None:
    options = {"lossless": True} if kind == "WEBP" else {}
    assert np.array_equal(decode(encoded(four_corners(), kind, **options), SQUARE), decode(four_corners(), SQUARE))


def test_arrays_bytes_paths_and_pictures_agree(photos: Path) -> None:
    array = np.asarray(photo(photos))
    expected = decode(photos / "coffee.png", SQUARE)
    assert np.array_equal(decode(array, SQUARE), expected)
    assert np.array_equal(decode(array / 255.0, SQUARE), expected)
    assert np.array_equal(decode((array / 255.0).astype(np.float32), SQUARE), expected)
    assert np.array_equal(decode((photos / "coffee.png").read_bytes(), SQUARE), expected)
    assert np.array_equal(decode(photo(photos), SQUARE), expected)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((3, 32, 40), dtype=np.uint8),
        np.zeros((0, 4, 3), dtype=np.uint8),
        np.zeros((4, 4), dtype=np.int32),
        np.full((4, 4), 200.0),
        np.full((4, 4), np.nan),
        np.zeros(4, dtype=np.uint8),
    ],
)
def test_arrays_that_are_no_images_are_refused(array: np.ndarray) -> None:
    with pytest.raises(ImageError, match="'item 7' cannot be read as an image: "):
        decode(array, SQUARE, name="item 7")


def broken_files(photos: Path) -> dict[str, bytes]:
    jpeg = (photos / "rocket.jpg").read_bytes()
    png = (photos / "coffee.png").read_bytes()
    return {
        "zero.jpg": b"",
        "text.jpg": b"this is not a photograph\n" * 40,
        "half.jpg": jpeg[: len(jpeg) // 2],
        "head.jpg": jpeg[:300],
        "half.png": png[: len(png) // 2],
        "half.gif": (photos / "no_time_for_that_tiny.gif").read_bytes()[:200],
        "half.webp": encoded(four_corners(), "WEBP")[:100],
        "script.jpg": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
    }


def test_broken_files_are_named_with_a_cause(photos: Path, tmp_path: Path) -> None:
    for name, content in broken_files(photos).items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ImageError, match=f"{name}' cannot be read as an image: .+") as caught:
            decode(tmp_path / name, SQUARE)
        assert "\n" not in str(caught.value)


def test_a_truncated_large_photo_is_broken_also_when_reduced(photos: Path) -> None:
    content = (photos / "retina.jpg").read_bytes()
    with pytest.raises(ImageError, match="truncated"):
        decode(content[: len(content) // 2], Geometry(32))


@pytest.mark.timeout(20)
def test_missing_files_folders_and_pipes_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    for name, cause in (("gone.jpg", "no such file"), ("", "regular"), ("pipe.jpg", "regular")):
        with pytest.raises(ImageError, match=cause):
            decode(tmp_path / name, SQUARE)


def png_bomb(side: int) -> bytes:
    """A valid PNG header that promises side x side pixels, and little else."""
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    body = b"IDAT" + zlib.compress(bytes(1000))
    return (
        b"\x89PNG\r\n\x1a\n"
        + struct.pack(">I", len(header))
        + chunk
        + struct.pack(">I", zlib.crc32(chunk))
        + struct.pack(">I", len(body) - 4)
        + body
        + struct.pack(">I", zlib.crc32(body))
    )


@pytest.mark.parametrize("limit", [None, 1 << 40, 89_478_485])
def test_a_decompression_bomb_is_refused_whatever_pillows_limit(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with pytest.raises(ImageError, match="pixels"):
        decode(png_bomb(60_000), SQUARE)


def test_a_large_image_within_the_limit_gives_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 4000)
    before = list(warnings.filters)
    decode(encoded(four_corners(), "PNG"), SQUARE)  # 6144 pixels: Pillow would warn, and warnings are errors here
    assert list(warnings.filters) == before


def test_a_thread_of_an_image_is_not_blown_up_by_cropping() -> None:
    thread = Image.new("L", (60_000, 1))
    assert decode(thread, Geometry(224)).shape == (224, 224, 3)
    with pytest.raises(ImageError, match="too narrow"):
        decode(thread, Geometry(224, "crop"))


def test_digest_is_of_the_content_alone(photos: Path, tmp_path: Path) -> None:
    content = (photos / "rocket.jpg").read_bytes()
    (tmp_path / "copy.bin").write_bytes(content)
    assert digest(photos / "rocket.jpg") == digest(tmp_path / "copy.bin") == digest(content)
    assert len(digest(content)) == 32
    array = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    assert digest(array) == digest(np.asfortranarray(array))
    assert len({digest(array), digest(array.reshape(4, 1, 3)), digest(array.astype(np.float64))}) == 3
    assert digest(Image.new("L", (2, 3))) != digest(Image.new("L", (3, 2)))


def test_geometry_survives_its_config_and_refuses_any_other() -> None:
    geometry = Geometry(192, "crop", "bicubic", reduced=False)
    assert Geometry.from_config(geometry.config()) == geometry
    changes = [{"side": 0}, {"side": "192"}, {"fit": "stretch"}, {"interpolation": "box"}, {"reduced": 1}, {"new": 1}]
    for change in changes:
        with pytest.raises(InputError):
            Geometry.from_config({**geometry.config(), **change})
    with pytest.raises(InputError, match="keys"):
        Geometry.from_config({"side": 192})
    published = Geometry(192, **PUBLISHED)
    assert Geometry.from_config(published.config()) == published
    assert "published" not in geometry.config(), "so that models of earlier versions and ours say the same"
    with pytest.raises(InputError, match="both true"):
        Geometry(192, published=True)


PUBLISHED = {"reduced": False, "published": True}


@pytest.mark.torch
@pytest.mark.parametrize("side", [256, 770, 4000])
@pytest.mark.parametrize("orientation", [1, 6])
def test_published_pixels_are_torchvisions(photos: Path, tmp_path: Path, side: int, orientation: int) -> None:
    from torchvision.datasets.folder import default_loader
    from torchvision.transforms import CenterCrop, Compose, InterpolationMode, Resize

    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "photo.jpg"
    photo(photos).resize((side, side * 3 // 4 if side > 1000 else side)).save(path, quality=95, exif=exif)
    image = default_loader(str(path))
    bicubic = Compose([Resize(224, InterpolationMode.BICUBIC), CenterCrop(224)])
    for geometry, transform in [
        (Geometry(192, **PUBLISHED), Resize((192, 192))),
        (Geometry(224, "crop", "bicubic", **PUBLISHED), bicubic),
    ]:
        assert np.array_equal(decode(path, geometry), np.asarray(transform(image)))
    usual = decode(path, Geometry(192))
    assert np.array_equal(usual, decode(path, Geometry(192, **PUBLISHED))) == (side == 256 and orientation == 1)


@pytest.mark.parametrize("mode", ["RGBA", "P", "L", "LA", "1", "CMYK"])
def test_published_pixels_of_any_mode_are_pillows_own(mode: str) -> None:
    image = four_corners().convert(mode)
    if mode == "RGBA":
        image.putalpha(100)
    expected = np.asarray(image.convert("RGB").resize((32, 32), Image.Resampling.BILINEAR))
    kind = "TIFF" if mode == "CMYK" else "PNG"
    assert np.array_equal(decode(encoded(image, kind), Geometry(32, **PUBLISHED)), expected)
    assert np.array_equal(decode(image, Geometry(32, **PUBLISHED)), expected)


def test_a_view_of_published_pixels_is_cut_out_as_torchvision_cuts(photos: Path) -> None:
    content = encoded(photo(photos).resize((1203, 905)), "JPEG")
    with Image.open(io.BytesIO(content)) as image:
        part = image.convert("RGB").crop((100, 50, 700, 650)).resize((64, 64), Image.Resampling.BILINEAR)
    seen = decode(content, Geometry(64, **PUBLISHED), look=lambda size, geometry: View(100, 50, 600, 600))
    assert np.array_equal(seen, np.asarray(part))


def test_importing_the_data_room_brings_nothing_heavy() -> None:
    heavy = ("torch", "onnx", "onnxruntime", "sklearn", "scipy")
    code = f"import sys, yoro.data; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "TIFF", "WEBP", "BMP", "PPM", "JPEG2000"])
def test_a_damaged_file_gives_pixels_or_an_image_error_and_nothing_else(kind: str) -> None:
    content = encoded(four_corners(), kind)
    generator = np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(content)
        for position in generator.integers(0, min(len(damaged), 400), size=4):
            damaged[position] = int(generator.integers(256))
        try:
            pixels = decode(bytes(damaged), SQUARE)
        except ImageError:
            continue
        assert pixels.shape == (32, 32, 3)


def heic(path: Path) -> Path:
    """A photograph as a phone saves it, lying on its side with a word on that."""
    pillow_heif = pytest.importorskip("pillow_heif")
    skimage = pytest.importorskip("skimage")
    photo = Image.fromarray(skimage.data.chelsea()).resize((96, 64))
    pillow_heif.from_pillow(photo).save(path, quality=95)
    return path


def test_a_heic_is_read_like_the_photograph_it_holds(tmp_path: Path) -> None:
    skimage = pytest.importorskip("skimage")
    photo = np.asarray(Image.fromarray(skimage.data.chelsea()).resize((96, 64)))
    for name in ("a.heic", "really a heic.jpg"):
        seen = decode(heic(tmp_path / name), Geometry(32, "squash"))
        wanted = decode(photo, Geometry(32, "squash"))
        assert np.abs(seen.astype(int) - wanted.astype(int)).mean() < 4  # of 255; HEIC loses a little


def declared(size: tuple[int, int]) -> bytes:
    """A small HEIC that says it has this size."""
    pillow_heif = pytest.importorskip("pillow_heif")
    written = io.BytesIO()
    pillow_heif.from_pillow(Image.new("RGB", (64, 64))).save(written)
    before, mark, rest = written.getvalue().partition(b"ispe\0\0\0\0")
    return before + mark + size[0].to_bytes(4) + size[1].to_bytes(4) + rest[8:]


@pytest.mark.parametrize(("size", "refused"), [((8064, 6048), False), ((8160, 6120), False), ((9000, 6000), True)])
def test_a_heic_of_a_phone_is_within_the_limit_of_memory(size: tuple[int, int], refused: bool) -> None:
    with pytest.raises(ImageError) as told:
        decode(declared(size), SQUARE)
    assert ("bytes to decode, more than" in str(told.value)) == refused


def test_what_is_too_large_says_what_to_do() -> None:
    for content in (declared((9000, 6000)), declared((14_000, 14_000))):
        with pytest.raises(ImageError, match="; make it smaller, or save it as JPEG"):
            decode(content, SQUARE)


def test_without_its_extra_a_heic_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = heic(tmp_path / "a.heic")
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(ImageError, match=r"'.*a.heic' cannot be read as an image: it is a HEIC, .*\.\[heif\]"):
        decode(path, Geometry(32))
