from __future__ import annotations

import numpy as np
import pytest

from yoro.errors import SourceError
from yoro.sources import open_source

MODULE = """
import numpy as np

def colours(images):
    return np.asarray(images, np.float64).mean(axis=(1, 2))
colours.side = 8
colours.class_names = ("red", "green", "blue")

def default(images):
    return np.zeros((len(images), 4))

def flat(images):
    return np.zeros(len(images))
flat.side = 8

def moody(images):
    return np.zeros((len(images), len(images)))
moody.side = 8

def broken(images):
    raise RuntimeError("the service is down")
broken.side = 8

def never(images):
    raise AssertionError("asked for its width although it says it")
never.side, never.width = 8, 10

def odd(images):
    return images
odd.side = "wide"
"""


@pytest.fixture(autouse=True)
def black_box(tmp_path, monkeypatch):
    name = f"black_box_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    return name


def test_a_function_of_the_working_directory_is_a_source(black_box):
    source = open_source(f"callable:{black_box}:colours")
    assert (source.side, source.width, source.class_names) == (8, 3, ["red", "green", "blue"])
    images = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)
    responses = source.respond(images)
    assert responses.dtype == np.float32
    np.testing.assert_allclose(responses, images.mean(axis=(1, 2)), rtol=1e-6)
    assert source.respond(images[:0]).shape == (0, 3)
    assert source.describe()["digest_of"] == "code"


def test_the_side_is_224_unless_the_function_says_it(black_box):
    assert open_source(f"callable:{black_box}:default").side == 224


def test_a_function_that_says_its_width_is_not_asked(black_box):
    assert open_source(f"callable:{black_box}:never").width == 10


@pytest.mark.parametrize(
    ("function", "answer"),
    [
        ("flat", r"answered 1 images with float64 of shape \(1,\); expected numbers of shape \(1, width\)"),
        ("broken", "RuntimeError: the service is down"),
        ("absent", "has no function 'absent'"),
        ("odd", "attribute 'side' must be a whole number"),
    ],
)
def test_a_function_that_breaks_the_contract_is_refused(black_box, function, answer):
    with pytest.raises(SourceError, match=answer):
        open_source(f"callable:{black_box}:{function}")


def test_a_changing_width_is_refused(black_box):
    source = open_source(f"callable:{black_box}:moody")
    with pytest.raises(SourceError, match="width 2, but its width was 1"):
        source.respond(np.zeros((2, 8, 8, 3), np.uint8))


def test_what_a_black_box_cannot_do_is_said(black_box):
    with pytest.raises(SourceError, match="cannot import"):
        open_source("callable:no_such_module_here:function")
    with pytest.raises(SourceError, match="cannot be read at 'features'"):
        open_source(f"callable:{black_box}:colours", read="features")
    with pytest.raises(SourceError, match="exported to ONNX"):
        open_source(f"callable:{black_box}:colours").onnx_model()
