"""Image-text sources: each tower against the library or the formula it comes from."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image
from scipy.special import softmax

from clip_models import CONFIG, write_clip
from yoro.data.decoding import decode
from yoro.errors import InputError, SourceError
from yoro.model.pipeline import make_pipeline
from yoro.model.settings import PipelineSettings
from yoro.sources import catalogue, is_dual, open_source
from yoro.sources.embedded import imagenet_names

SENTENCES = ["a photo of a cat.", "A long-haired Persian, seen from the side", "mug", "mug"]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("YORO_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="module")
def clip_folder(tmp_path_factory):
    pytest.importorskip("open_clip")
    return write_clip(tmp_path_factory.mktemp("clip"))


@pytest.fixture
def clip(clip_folder):
    return open_source(f"open_clip:local-dir:{clip_folder}")


@pytest.mark.torch
def test_sentences_are_encoded_as_sentence_transformers_does():
    from sentence_transformers import SentenceTransformer

    from yoro.sources.minilm import model_folder

    theirs = SentenceTransformer(str(model_folder()), device="cpu", local_files_only=True)
    expected = theirs.encode(SENTENCES, normalize_embeddings=True)
    assert np.abs(open_source("embedded:conse").encode_texts(SENTENCES) - expected).max() < 1e-6


def test_an_image_is_the_mean_of_names_weighted_by_probabilities(photos):
    conse = open_source("embedded:conse")
    images = photos(224)
    names = conse.encode_texts(imagenet_names()).astype(np.float64)
    for text, temperature in (("embedded:conse", 1.0), ("embedded:conse?temperature=4", 4.0)):
        logits = open_source("embedded:lite0").respond(images).astype(np.float64)
        expected = softmax(logits / temperature, axis=1) @ names
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        assert np.abs(open_source(text).encode_images(images) - expected).max() < 1e-5


def test_the_conse_of_a_cat_is_nearest_to_the_word_cat(photos):
    conse = open_source("embedded:conse")
    similar = conse.encode_images(photos(224)) @ conse.encode_texts(["cat", "coffee cup", "astronaut"]).T
    assert similar.argmax(axis=1).tolist() == [0, 1, 2]


def test_a_vector_does_not_depend_on_its_batch(photos):
    conse = open_source("embedded:conse")
    images = photos(224)
    assert np.array_equal(conse.respond(images)[1:2], conse.respond(images[1:2]))


def test_another_temperature_is_another_source():
    digests = [open_source(f"embedded:conse{end}").describe()["digest"] for end in ("", "?temperature=4")]
    assert digests[0] != digests[1]
    with pytest.raises(SourceError, match=r"a number from 0.01 to 100; got 'hot'"):
        open_source("embedded:conse?temperature=hot")


def test_a_sentence_that_is_too_long_is_refused_by_its_length():
    with pytest.raises(InputError, match=r"has 402 tokens; .* reads at most 256"):
        open_source("embedded:conse").encode_texts(["dog " * 400])


def test_a_damaged_cache_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("YORO_CACHE", str(tmp_path))
    first = open_source("embedded:conse").respond(np.zeros((1, 224, 224, 3), np.uint8))
    (file,) = (tmp_path / "texts").iterdir()
    file.write_bytes(b"broken")
    assert np.array_equal(open_source("embedded:conse").respond(np.zeros((1, 224, 224, 3), np.uint8)), first)


@pytest.mark.torch
def test_both_towers_answer_as_open_clip_does(clip, clip_folder):
    import open_clip
    import torch
    from skimage import data

    name = f"local-dir:{clip_folder}"
    model, transform = open_clip.create_model_from_pretrained(name)
    photo = Image.fromarray(data.astronaut()[:300, 40:480])
    pipeline = make_pipeline(PipelineSettings(f"open_clip:{name}"))
    with torch.no_grad():
        image = model.encode_image(transform(photo)[None], normalize=True).numpy()
        texts = model.encode_text(open_clip.get_tokenizer(name)(SENTENCES), normalize=True).numpy()
    ours = clip.encode_images(pipeline.prompt.compose(decode(photo, pipeline.geometry)[None]))
    assert np.abs(clip.encode_texts(SENTENCES) - texts).max() < 1e-5
    assert np.abs(ours - image).max() < 1e-5
    assert clip.dimension == clip.width == CONFIG["embed_dim"]
    assert clip.logit_scale == pytest.approx(float(model.logit_scale.detach().exp()), rel=1e-6)


@pytest.mark.torch
def test_the_protocol_s_transform_crops_to_192_within_a_frame_of_16(clip):
    geometry = clip.describe()["geometry"]
    assert geometry == {"fit": "crop", "interpolation": "bicubic"}
    pipeline = make_pipeline(PipelineSettings(clip.name, prompt="padding"))
    assert (pipeline.geometry.side, pipeline.prompt.side, pipeline.geometry.fit) == (32, 64, "crop")


@pytest.mark.torch
def test_the_image_tower_alone_is_read_at_its_layers(clip, clip_folder, photos):
    source = open_source(f"open_clip:local-dir:{clip_folder}?layers=yes", read="all")
    assert not is_dual(source)
    assert {"features", "class-100", "patches-100"} <= set(source.layout.names)
    images = photos(source.side)
    np.testing.assert_allclose(source.respond(images)[:, : clip.width], clip.respond(images), atol=1e-5)


@pytest.mark.torch
def test_layers_stand_beside_the_image_vector_unless_they_are_switched_off(clip, clip_folder, photos):
    both = open_source(f"open_clip:local-dir:{clip_folder}", read="all")
    alone = open_source(f"open_clip:local-dir:{clip_folder}?layers=yes", read="all")
    images = photos(clip.side)
    assert is_dual(both)
    assert both.layout == alone.layout
    np.testing.assert_allclose(both.respond(images), alone.respond(images), atol=1e-5)
    np.testing.assert_allclose(both.encode_images(images), clip.respond(images), atol=1e-5)
    off = open_source(f"open_clip:local-dir:{clip_folder}?layers=no", read="all")
    assert (off.width, off.layout) == (clip.width, None)


@pytest.mark.torch
def test_weights_by_path_give_the_same_vectors(clip, clip_folder):
    import open_clip

    file = clip_folder.parent / "yoro-tiny.json"
    file.write_text(json.dumps(CONFIG))
    open_clip.add_model_config(file)
    other = open_source(f"open_clip:yoro-tiny?weights={clip_folder / 'open_clip_model.safetensors'}")
    assert other.describe()["digest"] == clip.describe()["digest"]
    assert np.array_equal(other.encode_texts(SENTENCES), clip.encode_texts(SENTENCES))


@pytest.mark.torch
def test_a_sentence_beyond_the_context_is_refused_not_cut(clip):
    with pytest.raises(InputError, match=r"has 52 tokens; .* reads at most 40"):
        clip.encode_texts(["dog " * 50])


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("open_clip:ViT-B-33/openai", "'ViT-B-33'. Did you mean 'ViT-B-32'"),
        ("open_clip:ViT-B-32/opnai", "no weights 'opnai'; choose one of openai"),
        ("open_clip:ViT-B-32?weights=none.pt", "there is no weight file 'none.pt'"),
        ("open_clip:ViT-B-32/openai?weights=none.pt", "both the tag 'openai'"),
        ("open_clip:local-dir:nowhere", "no 'open_clip_config.json'"),
        ("open_clip:ViT-B-32/openai?mean=1,1,1", "option 'mean'"),
    ],
)
def test_a_wrong_name_says_what_there_is(name, message):
    with pytest.raises(SourceError, match=message):
        open_source(name)


@pytest.mark.torch
def test_a_folder_without_weights_is_refused_not_filled_at_random(clip_folder, tmp_path):
    (tmp_path / "open_clip_config.json").write_bytes((clip_folder / "open_clip_config.json").read_bytes())
    with pytest.raises(SourceError, match="there are no weights"):
        open_source(f"open_clip:local-dir:{tmp_path}")
    (tmp_path / "open_clip_model.safetensors").write_bytes(b"not weights")
    with pytest.raises(SourceError, match="cannot be read"):
        open_source(f"open_clip:local-dir:{tmp_path}")


@pytest.mark.torch
def test_weights_from_the_hub_that_cannot_be_had_point_to_a_file(monkeypatch):
    import open_clip

    def offline(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr(open_clip, "create_model", offline)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # behind which a hub may be reached
    with pytest.raises(SourceError, match=r"no route to host.*open_clip:MODEL\?weights=FILE"):
        open_source("open_clip:RN50/openai")


def test_the_catalogue_names_the_paper_s_four():
    names = {row.name for row in catalogue()}
    assert {f"open_clip:{m}/openai" for m in ("RN50", "RN101", "ViT-B-32", "ViT-B-16")} | {"embedded:conse"} <= names
    assert is_dual(open_source("embedded:conse"))
    assert not is_dual(open_source("embedded:lite0"))
