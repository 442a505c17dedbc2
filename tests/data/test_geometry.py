from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from skimage import data

from yoro.data.decoding import decode
from yoro.data.geometry import Augmentation, Geometry, Shifts, View

BOTH = pytest.mark.parametrize("geometry", [Geometry(96), Geometry(96, "crop", "bicubic")])
STRONG = Augmentation((0.08, 1.0), (3 / 4, 4 / 3), shorter_first=True)
SHAPES = [(640, 480), (480, 640), (32, 32), (1000, 250), (60, 61)]


def fixed(view: View):
    return lambda size, geometry: view


def drawn(augmentation, size, n: int = 4000, side: int = 96) -> list[View]:
    return [augmentation.draw((0, 1, i), size, Geometry(side)) for i in range(n)]


def test_a_view_is_that_part_of_the_image_mirrored_or_not():
    photo = data.coffee()  # 600 x 400
    half = decode(photo, Geometry(96), look=fixed(View(300, 100, 300, 200)))
    np.testing.assert_array_equal(half, decode(photo[100:300, 300:600], Geometry(96)))
    mirrored = decode(photo, Geometry(96), look=fixed(View(300, 100, 300, 200, mirrored=True)))
    np.testing.assert_array_equal(mirrored, half[:, ::-1])


def test_a_view_of_a_large_photograph_is_the_same_part_at_reduced_scale():
    turned = Image.fromarray(data.coffee()).resize((3000, 2000), Image.Resampling.BICUBIC).transpose(
        Image.Transpose.ROTATE_90
    )  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = 6  # it is to be turned by 270 degrees
    file = io.BytesIO()
    turned.save(file, "JPEG", quality=95, exif=exif)
    sizes = []

    def look(size, geometry):
        sizes.append(size)
        return View(1500, 500, 1200, 1100)

    reduced, full = (decode(file.getvalue(), Geometry(96, reduced=value), look=look) for value in (True, False))
    assert sizes == [(3000, 2000)] * 2  # upright, and of the whole image
    assert np.abs(reduced.astype(int) - full).mean() < 1  # as far off as MARGIN allows


@pytest.mark.parametrize("augmentation", [Augmentation(), STRONG, Shifts()])
def test_views_depend_on_the_numbers_and_the_size_alone(augmentation):
    def draw(*numbers):
        return augmentation.draw(numbers, (640, 480), Geometry(96))

    assert draw(1, 2, 3) == draw(1, 2, 3)
    others = ((1, 2, 3), (0, 2, 3), (1, 0, 3), (1, 2, 0), (1, 2, 3, 1), (5, 5, 5), (6, 6, 6))
    assert len({draw(*numbers) for numbers in others}) > 4  # a shift has only 18 values


@pytest.mark.parametrize("augmentation", [Augmentation(), STRONG, Shifts()])
@pytest.mark.parametrize("size", SHAPES)
def test_views_lie_within_the_image(augmentation, size):
    for view in drawn(augmentation, size, 500):
        width, height = view.first or size
        assert view.width > 0 < view.height
        assert view.left >= 0 <= view.top
        assert view.left + view.width <= width
        assert view.top + view.height <= height


def test_half_of_the_views_are_mirrored_if_any():
    assert 1800 < sum(view.mirrored for view in drawn(Augmentation(), (64, 48))) < 2200
    assert not any(view.mirrored for view in drawn(Augmentation(flip=False), (64, 48), 50))
    assert not any(view.mirrored for view in drawn(Shifts(flip=False), (64, 48), 50))


@pytest.mark.torch
@pytest.mark.parametrize("size", SHAPES)
@pytest.mark.parametrize(
    "augmentation",
    [pytest.param(STRONG, id="published"), pytest.param(Augmentation(), id="paper", marks=pytest.mark.long)],
)
def test_views_are_distributed_as_those_of_torchvision(augmentation, size):
    """Two samples of 4,000: distances of their distributions above 0.05 would come once in 10,000 times."""
    torch = pytest.importorskip("torch")
    transforms = pytest.importorskip("torchvision.transforms")
    from scipy.stats import ks_2samp

    image = Image.new("RGB", size)
    if augmentation.shorter_first:
        image = transforms.Resize(96)(image)
    torch.manual_seed(0)
    scale, ratio = list(augmentation.scale), list(augmentation.ratio)
    tops, lefts, heights, widths = np.array(
        [transforms.RandomResizedCrop.get_params(image, scale, ratio) for _ in range(4000)]
    ).T
    views = drawn(augmentation, size)
    assert all((view.first or size) == image.size for view in views)
    for theirs, name in ((lefts, "left"), (tops, "top"), (widths, "width"), (heights, "height")):
        ours = np.array([getattr(view, name) for view in views])
        assert ks_2samp(ours, theirs).statistic < 0.05, name
    areas = np.array([view.width * view.height for view in views]) / (image.width * image.height)
    ratios = np.array([view.width / view.height for view in views])
    theirs = widths * heights / (image.width * image.height)
    assert areas.mean() == pytest.approx(theirs.mean(), abs=4 * theirs.std() * (2 / 4000) ** 0.5 + 1e-12)
    theirs = widths / heights
    assert ratios.mean() == pytest.approx(theirs.mean(), abs=4 * theirs.std() * (2 / 4000) ** 0.5 + 1e-12)


def test_views_of_a_photograph_keep_its_proportions():
    """A square of a photograph of 4:3 has at most 3/4 of its area; within a squashed square it would have 4:3."""
    views = drawn(Augmentation(), (640, 480))
    areas = np.array([view.width * view.height for view in views]) / (640 * 480)
    ratios = np.array([view.width / view.height for view in views])
    assert areas.mean() == pytest.approx(0.754, abs=0.003)
    assert ratios.mean() == pytest.approx(1.05, abs=0.005)


@pytest.mark.torch
@BOTH
@pytest.mark.parametrize("size", [(600, 400), (300, 451)])
def test_pixels_of_a_view_are_those_of_torchvision(geometry, size):
    pytest.importorskip("torch")
    transforms = pytest.importorskip("torchvision.transforms.functional")
    mode = transforms.InterpolationMode(geometry.interpolation)
    photo = Image.fromarray(data.coffee()).resize(size)
    for number in range(5):
        raw = Augmentation().draw((0, 0, number), size, geometry)
        box = raw.top, raw.left, raw.height, raw.width
        expected = transforms.resized_crop(photo, *box, [96, 96], mode)
        seen = decode(photo, geometry, look=fixed(raw))
        np.testing.assert_array_equal(seen[:, ::-1] if raw.mirrored else seen, np.asarray(expected))

        kept = STRONG.draw((0, 0, number), size, geometry)
        box = kept.top, kept.left, kept.height, kept.width
        expected = transforms.resized_crop(transforms.resize(photo, 96, mode), *box, [96, 96], mode)
        seen = decode(photo, geometry, look=fixed(kept))
        np.testing.assert_array_equal(seen[:, ::-1] if kept.mirrored else seen, np.asarray(expected))


@pytest.mark.torch
def test_shifts_are_the_published_crops_of_224_pixels_of_228():
    pytest.importorskip("torch")
    transforms = pytest.importorskip("torchvision.transforms.functional")
    photo, geometry = Image.fromarray(data.coffee()), Geometry(224)
    views = drawn(Shifts(), photo.size, 2000, 224)
    places = [(view.left, view.top) for view in views]
    assert {view.first for view in views} == {(228, 228)}
    assert set(places) == {(left, top) for left in range(5) for top in range(5)}
    assert max(places.count(place) for place in set(places)) < 130  # of 80 expected
    view = next(view for view in views if not view.mirrored)
    expected = transforms.crop(transforms.resize(photo, [228, 228]), view.top, view.left, 224, 224)
    np.testing.assert_array_equal(decode(photo, geometry, look=fixed(view)), np.asarray(expected))
