"""Layouts: what stands where in a response, and how it is transformed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from child import finish
from yoro.discriminant.readings import Layout, Reading
from yoro.errors import InputError, YoroError

LAYOUT = Layout((Reading("logits", 2), Reading("features", 3, "root"), Reading("layer-80", 2, "unit")))


def test_a_hand_example() -> None:
    raw = np.array([[1.0, -2.0, 9.0, 16.0, 0.0, 3.0, -4.0]], dtype=np.float32)
    np.testing.assert_allclose(LAYOUT.transformed([raw])[0], [1, -2, 0.6, 0.8, 0, 0.6, -0.8], atol=1e-6)


@given(arrays(np.float32, (4, 7), elements=st.floats(-100, 100, width=32)))
def test_rows_do_not_depend_on_each_other_and_have_length_one(raw: np.ndarray) -> None:
    whole = LAYOUT.transformed([raw])
    for i in range(len(raw)):
        np.testing.assert_array_equal(whole[i : i + 1], LAYOUT.transformed([raw[i : i + 1]]))
    lengths = np.linalg.norm(whole[:, 2:5], axis=1)
    assert np.all((np.abs(lengths - 1) < 1e-5) | (lengths == 0))


def test_two_views_are_averaged_after_the_transform() -> None:
    two = Layout(LAYOUT.readings, views=2)
    raw = np.random.default_rng(0).normal(size=(3, 7)).astype(np.float32)
    np.testing.assert_allclose(two.transformed([raw, raw]), LAYOUT.transformed([raw]), atol=1e-6)
    with pytest.raises(InputError, match="Got 1 views; expected 2"):
        two.transformed([raw])


def test_a_layout_comes_back_from_its_config() -> None:
    two = Layout(LAYOUT.readings, views=2)
    assert Layout.from_config(two.config()) == two


@pytest.mark.parametrize(
    "config",
    [
        None,
        {},
        {"views": 1, "of": []},
        {"views": 3, "of": [{"name": "a", "width": 1, "transform": "plain"}]},
        {"views": True, "of": [{"name": "a", "width": 1, "transform": "plain"}]},
        {"views": 1, "of": [{"name": "a", "width": -1, "transform": "plain"}]},
        {"views": 1, "of": [{"name": "a", "width": 10**9, "transform": "plain"}]},
        {"views": 1, "of": [{"name": "a", "width": 1, "transform": "cube"}]},
        {"views": 1, "of": [{"name": "a" * 99, "width": 1, "transform": "plain"}]},
        {"views": 1, "of": [{"name": "a", "width": 1, "transform": "plain"}] * 2},
        {"views": 1, "of": [{"name": "a", "width": 1}]},
    ],
)
def test_what_a_stranger_wrote_is_refused(config: object) -> None:
    with pytest.raises(YoroError):
        Layout.from_config(config)


def test_side_by_side_each_reading_has_one_thread_of_every_blas() -> None:
    code = (
        "from threadpoolctl import threadpool_info\n"
        "from yoro.discriminant.joint import JointStatistics\nfrom yoro.discriminant.readings import Layout, Reading\n"
        "from yoro.model.solve import threads_for\n"
        "with threads_for(JointStatistics(Layout((Reading('a', 2), Reading('b', 2))))):\n"
        "    from scipy.linalg import eigh\n"
        "    print({i['num_threads'] for i in threadpool_info() if i['user_api'] == 'blas'})"
    )
    assert finish("-c", code).stdout.strip() == "{1}"
