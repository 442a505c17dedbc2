from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from skimage import data

from yoro.data.decoding import decode
from yoro.data.geometry import Augmentation, Geometry, View


@pytest.mark.parametrize("geometry", [Geometry(96), Geometry(96, "crop", "bicubic")])
def test_the_whole_view_is_the_image_as_a_fit_sees_it(geometry):
    photo = data.coffee()  # 600 x 400
    whole = decode(photo, geometry, view=View()).astype(int)
    assert np.abs(whole - decode(photo, geometry)).max() <= (0 if geometry.fit == "squash" else 2)  # one rounding


def test_a_view_is_that_part_of_the_image_mirrored_or_not():
    photo = data.coffee()
    half = decode(photo, Geometry(96), view=View(0.5, 0.25, 0.5, 0.5))
    part = photo[100:300, 300:600]
    expected = np.asarray(Image.fromarray(photo).resize((96, 96), Image.Resampling.BILINEAR, box=(300, 100, 600, 300)))
    np.testing.assert_array_equal(half, expected)
    assert np.abs(half.astype(int) - decode(part, Geometry(96))).mean() < 1  # but for pixels at the edge
    mirrored = decode(photo, Geometry(96), view=View(0.5, 0.25, 0.5, 0.5, True))
    np.testing.assert_array_equal(mirrored, half[:, ::-1])


def test_views_depend_on_seed_epoch_and_image_alone():
    augmentation = Augmentation()
    assert augmentation.draw(1, 2, 3) == augmentation.draw(1, 2, 3)
    assert len({augmentation.draw(*numbers) for numbers in ((1, 2, 3), (0, 2, 3), (1, 0, 3), (1, 2, 0))}) == 4


def test_views_keep_to_their_bounds():
    views = [Augmentation().draw(0, 1, i) for i in range(500)]
    areas = np.array([view.width * view.height for view in views])
    ratios = np.array([view.width / view.height for view in views])
    assert areas.min() >= 0.7 - 1e-9
    assert areas.max() <= 1 + 1e-9
    assert ratios.min() >= 0.9 - 1e-9
    assert ratios.max() <= 1.1 + 1e-9
    assert all(v.left >= 0 and v.top >= 0 and v.left + v.width <= 1 and v.top + v.height <= 1 for v in views)
    assert 200 < sum(view.mirrored for view in views) < 300
    assert not any(Augmentation(flip=False).draw(0, 1, i).mirrored for i in range(50))
