"""What the files of real networks say of their images, and what is made of it."""

from __future__ import annotations

import json

import pytest

from yoro.errors import SourceError
from yoro.sources.preprocessing_file import Preprocessing, read_preprocessing

IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HALF = (0.5,) * 3
TRANSFORMERS = {
    "ViT": (
        {
            "do_normalize": True,
            "do_resize": True,
            "image_mean": [0.5] * 3,
            "image_std": [0.5] * 3,
            "resample": 2,
            "size": 224,
        },
        Preprocessing(224, HALF, HALF),
    ),
    "ViT, later": (
        {
            "do_normalize": True,
            "do_rescale": True,
            "rescale_factor": 0.00392156862745098,
            "size": {"height": 224, "width": 224},
            "image_mean": [0.5] * 3,
            "image_std": [0.5] * 3,
            "resample": 3,
        },
        Preprocessing(224, HALF, HALF, interpolation="bicubic"),
    ),
    "ConvNeXT and ResNet": (
        {"crop_pct": 0.875, "do_normalize": True, **IMAGENET, "resample": 3, "size": {"shortest_edge": 224}},
        Preprocessing(224, MEAN, STD, "crop", "bicubic"),
    ),
    "DINOv2": (
        {
            "crop_size": {"height": 224, "width": 224},
            "do_center_crop": True,
            "do_normalize": True,
            **IMAGENET,
            "resample": 3,
            "size": {"shortest_edge": 256},
        },
        Preprocessing(224, MEAN, STD, "crop", "bicubic"),
    ),
    "MobileViT": (
        {
            "crop_size": {"height": 256, "width": 256},
            "do_center_crop": True,
            "do_flip_channel_order": True,
            "resample": 2,
            "size": {"shortest_edge": 288},
        },
        Preprocessing(256, (0.0,) * 3, (1.0,) * 3, "crop", channels="bgr"),
    ),
    "bytes": (
        {"do_rescale": False, "do_normalize": True, "image_mean": [127.5] * 3, "image_std": [255] * 3, "size": 32},
        Preprocessing(32, HALF, (1.0,) * 3),
    ),
}


@pytest.mark.parametrize("kind", TRANSFORMERS)
def test_what_transformers_writes(tmp_path, kind):
    said, expected = TRANSFORMERS[kind]
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(said))
    found = read_preprocessing(tmp_path / "preprocessor_config.json")
    assert found.mean == pytest.approx(expected.mean, abs=1e-12)
    assert found.std == pytest.approx(expected.std, rel=1e-12)
    for key in ("side", "fit", "interpolation", "channels"):
        assert getattr(found, key) == getattr(expected, key), key


def test_what_timm_writes(tmp_path):
    said = {
        "architecture": "resnet18",
        "num_classes": 1000,
        "pretrained_cfg": {
            "tag": "a1_in1k",
            "input_size": [3, 224, 224],
            "interpolation": "bicubic",
            "crop_pct": 0.95,
            "crop_mode": "center",
            "mean": list(MEAN),
            "std": list(STD),
        },
    }
    (tmp_path / "config.json").write_text(json.dumps(said))
    assert read_preprocessing(tmp_path / "config.json") == Preprocessing(224, MEAN, STD, "crop", "bicubic")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "vit"}))
    assert read_preprocessing(tmp_path / "config.json") is None


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("[1]", "it is no table"),
        ("{", "it is not JSON"),
        ({}, "its size is None"),
        ({"size": {"height": 224, "width": 192}}, "not that of a square"),
        ({"size": 10**9}, "its size is 1000000000"),
        ({"size": {"longest_edge": 5}}, "not that of a square"),
        ({"size": [224]}, "not that of a square"),
        ({"size": True}, "not that of a square"),
        ({"size": 8, "do_normalize": True}, "its image_mean is None, not three numbers"),
        ({"size": 8, "image_mean": [0.5] * 3, "image_std": [0.5, 0.5, 0]}, "not three positive numbers"),
        ({"size": 8, "image_mean": [0.5, "x", 0], "image_std": [1] * 3}, "its image_mean has 'x' for a number"),
        ({"size": 8, "rescale_factor": 0}, "for a number"),
        ({"size": 8, "rescale_factor": 1e-320, "image_mean": [1] * 3, "image_std": [1] * 3}, "for a number"),
        ({"size": 8, "do_flip_channel_order": True, **IMAGENET}, "flips the order of colours"),
    ],
)
def test_what_does_not_say_it_is_an_error_that_tells_what_to_do(tmp_path, said, why):
    file = tmp_path / "preprocessor_config.json"
    file.write_text(said if isinstance(said, str) else json.dumps(said))
    with pytest.raises(SourceError, match=r"Give it with the name, as in hf:OWNER/NAME\?mean=") as caught:
        read_preprocessing(file)
    assert why in str(caught.value)
