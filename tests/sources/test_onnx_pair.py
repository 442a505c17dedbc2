"""Image-text models in ONNX files: both towers against open_clip and transformers, and no torch at work."""

from __future__ import annotations

import io
import json
import shutil
import warnings
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

from child import finish
from clip_models import CONFIG
from loopback_hub import COMMIT, LoopbackHub, serving
from photos import write_folder
from yoro.data.decoding import decode
from yoro.errors import InputError, SourceError
from yoro.model.pipeline import make_pipeline
from yoro.model.settings import PipelineSettings
from yoro.sources import catalogue, is_dual, needs_consent, open_source
from yoro.sources.open import why_unavailable

pytestmark = pytest.mark.torch

SENTENCES = ["a photo of a cat.", "A long-haired Persian, seen from  the side", "it's 3 mugs", "mug", "mug"]
PREPROCESSING = {
    "crop_size": {"height": 64, "width": 64}, "do_center_crop": True, "do_normalize": True, "do_resize": True,
    "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
    "resample": 3, "size": {"shortest_edge": 64},
}  # fmt: skip


def make_clip(quick=False):
    import open_clip
    import torch

    torch.manual_seed(0)
    model = open_clip.CLIP(CONFIG["embed_dim"], CONFIG["vision_cfg"], CONFIG["text_cfg"], quick_gelu=quick).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim:  # the logit scale stays
                parameter += 0.02 * torch.randn_like(parameter)
    return model


def write_tokenizer(folder):
    """CLIP's byte-pair encoding as a tokenizer.json, from the vocabulary that open_clip carries."""
    from open_clip import SimpleTokenizer
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    known = SimpleTokenizer()
    merges = sorted(known.bpe_ranks, key=known.bpe_ranks.get)
    tokenizer = Tokenizer(
        models.BPE(known.encoder, merges, unk_token="<|endoftext|>", end_of_word_suffix="</w>", fuse_unk=False)
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    words = Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(words, "removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    ends = ("<|endoftext|>", 49407), ("<|startoftext|>", 49406)
    tokenizer.post_processor = processors.RobertaProcessing(*ends, trim_offsets=False, add_prefix_space=False)
    tokenizer.enable_truncation(10)  # which hub files have, and which must not cut a sentence silently
    tokenizer.save(str(folder / "tokenizer.json"))


def export(module, example, path, names, free):
    import torch

    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval(), example, str(path), input_names=list(names[:-1]), output_names=[names[-1]],
            dynamic_axes=free, opset_version=17, dynamo=False,
        )  # fmt: skip


def tower(encode, *modules):
    """A torch module of a function."""
    import torch

    class Tower(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.ModuleList(modules)

        def forward(self, *inputs):
            return encode(*inputs)

    return Tower()


def write_pair(folder, model, act, **config):
    """The towers of an open_clip model as a hub's conversion has them; its text tower takes 40 tokens, always."""
    import torch

    (folder / "onnx").mkdir(parents=True)
    pixels, tokens = torch.zeros(2, 3, 64, 64), torch.ones(2, 40, dtype=torch.int64)
    free = {"pixel_values": dict(enumerate(("n", "c", "h", "w"))), "image_embeds": {0: "n"}}
    export(tower(model.encode_image, model), pixels, folder / "onnx/vision_model.onnx", list(free), free)
    free = {"input_ids": {0: "n"}, "text_embeds": {0: "n"}}
    export(tower(model.encode_text, model), tokens, folder / "onnx/text_model.onnx", list(free), free)
    write_tokenizer(folder)
    facts = {"model_type": "clip", "vision_config": {"hidden_act": act}, "text_config": {"hidden_act": act}}
    (folder / "config.json").write_text(json.dumps(facts | config))
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPROCESSING))
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("YORO_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="module")
def model():
    pytest.importorskip("open_clip")
    return make_clip()


@pytest.fixture(scope="module")
def pair(model, tmp_path_factory):
    return write_pair(tmp_path_factory.mktemp("pairs") / "clip", model, "gelu", logit_scale_init_value=2.5)


def by_open_clip(model):
    """The vectors of a photo and of sentences, as open_clip computes them."""
    import open_clip
    import torch
    from skimage import data

    photo = Image.fromarray(data.astronaut()[:300, 40:480])
    transform = open_clip.image_transform(
        64, is_train=False, mean=PREPROCESSING["image_mean"], std=PREPROCESSING["image_std"]
    )
    tokens = open_clip.SimpleTokenizer(context_length=40)(SENTENCES)
    with torch.inference_mode():
        image = model.encode_image(transform(photo)[None], normalize=True).numpy()
        return photo, image, model.encode_text(tokens, normalize=True).numpy()


@pytest.mark.parametrize("quick", [False, True])
def test_both_towers_answer_as_open_clip_does(quick, model, pair, tmp_path):
    act = "quick_gelu" if quick else "gelu"
    if quick:
        model = make_clip(quick=True)
        pair = write_pair(tmp_path / "quick", model, act)
    photo, image, texts = by_open_clip(model)
    pipeline = make_pipeline(PipelineSettings(f"onnx:{pair}"))
    source = pipeline.source
    assert is_dual(source)
    assert source.describe()["geometry"] == {"fit": "crop", "interpolation": "bicubic"}
    ours = source.encode_images(pipeline.prompt.compose(decode(photo, pipeline.geometry)[None]))
    np.testing.assert_allclose(ours, image, atol=1e-4)
    np.testing.assert_allclose(source.encode_texts(SENTENCES), texts, atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(source.encode_texts(SENTENCES), axis=1), 1, atol=1e-6)
    assert source.encode_texts([]).shape[0] == 0


def test_a_configuration_that_names_another_activation_is_refused(pair, tmp_path):
    shutil.copytree(pair, tmp_path / "other")
    config = json.loads((pair / "config.json").read_text()) | {"text_config": {"hidden_act": "quick_gelu"}}
    (tmp_path / "other/config.json").write_text(json.dumps(config))
    with pytest.raises(SourceError, match=r"names the activation quick_gelu, but text_model.onnx computes another one"):
        open_source(f"onnx:{tmp_path / 'other'}")


def test_a_text_tower_of_any_length_is_given_no_padding_and_a_mask(tmp_path, pair):
    """As transformers' own models are converted: any number of tokens, and a mask that says which are meant."""
    import torch
    from transformers import CLIPTextConfig, CLIPTextModelWithProjection

    torch.manual_seed(1)
    settings = CLIPTextConfig(
        hidden_size=32, intermediate_size=64, projection_dim=48, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=20, attn_implementation="eager",
    )  # fmt: skip
    theirs = CLIPTextModelWithProjection(settings).eval()
    folder = tmp_path / "free"
    shutil.copytree(pair, folder)
    axes = {0: "n", 1: "length"}

    def encode(ids, mask):
        return theirs(input_ids=ids, attention_mask=mask).text_embeds

    example = torch.tensor([[49406, 320, 49407]] * 2), torch.ones(2, 3, dtype=torch.int64)
    names = ["input_ids", "attention_mask", "text_embeds"]
    export(tower(encode, theirs), example, folder / "onnx/text_model.onnx", names, dict.fromkeys(names[:2], axes))
    config = {"model_type": "clip", "text_config": {"max_position_embeddings": 20, "hidden_act": "quick_gelu"}}
    (folder / "config.json").write_text(json.dumps(config))
    source = open_source(f"onnx:{folder}")
    from open_clip import SimpleTokenizer

    known = SimpleTokenizer()
    for sentence, ours in zip(SENTENCES, source.encode_texts(SENTENCES), strict=True):
        ids = torch.tensor([[49406, *known.encode(sentence), 49407]])
        with torch.inference_mode():
            wanted = encode(ids, torch.ones_like(ids))[0].numpy()
        np.testing.assert_allclose(ours, wanted / np.linalg.norm(wanted), atol=1e-4)
    with pytest.raises(InputError, match=r"has 32 tokens; .* reads at most 20"):
        source.encode_texts(["mug", "dog " * 30])


def test_a_sentence_that_is_too_long_is_refused_by_its_length(pair):
    with pytest.raises(InputError, match=r"has 62 tokens; .* reads at most 40. Shorten it"):
        open_source(f"onnx:{pair}").encode_texts(["mug", "dog " * 60])


def test_the_logit_scale_is_said_or_assumed_aloud(pair, tmp_path):
    assert open_source(f"onnx:{pair}").logit_scale == pytest.approx(np.exp(2.5))
    named = open_source(f"onnx:{pair}?scale=42")
    assert (named.logit_scale, list(named.notes)) == (42.0, [])
    assert named.describe()["digest"] != open_source(f"onnx:{pair}").describe()["digest"]
    other = tmp_path / "other"
    shutil.copytree(pair, other)
    config = json.loads((pair / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"logit_scale_init_value": 2.6592}))
    assumed = open_source(f"onnx:{other}")
    assert assumed.logit_scale == 100
    assert "?scale=NUMBER" in assumed.notes[0]
    graph = onnx.load(other / "onnx/text_model.onnx")
    onnx.helper.set_model_props(graph, {"yoro.logit_scale": "17.5"})
    onnx.save(graph, other / "onnx/text_model.onnx")
    assert open_source(f"onnx:{other}").logit_scale == 17.5
    with pytest.raises(SourceError, match=r"option 'scale' must be a number from 0.01 to 1000; got 'hot'"):
        open_source(f"onnx:{pair}?scale=hot")


def test_the_exported_image_tower_gives_unit_vectors(pair, photos):
    import onnxruntime

    source = open_source(f"onnx:{pair}")
    model = source.onnx_model()
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (vectors,) = session.run(["responses"], {"images": photos(64).astype(np.float32) / 255})
    np.testing.assert_allclose(vectors, source.respond(photos(64)), atol=1e-5)


NO_TORCH = """
import sys
import yoro
source, folder, out = sys.argv[1:]
shots = yoro.fit(folder, shots=0, source=source)
shots.save(out)
told = yoro.load(out)
told.update(folder)
bank = {name: [f"a photo of a {name}", f"{name}s"] for name in told.classes}
few = yoro.fit(folder, source=source, attributes=bank)
print(len(told.predict(folder)), few.evaluate(folder).accuracy, "torch" in sys.modules)
"""


def test_zero_shot_banks_and_few_shot_need_no_torch(pair, tmp_path):
    folder = write_folder(tmp_path / "photos", count=3)
    done = finish("-c", NO_TORCH, f"onnx:{pair}", str(folder), str(tmp_path / "m.yoro"))
    assert done.returncode == 0, done.stderr
    number, accuracy, torch = done.stdout.split()
    assert (int(number), torch) == (12, "False")
    assert float(accuracy) > 0.5


@pytest.mark.parametrize("file", ["tokenizer.json", "config.json", "preprocessor_config.json", "onnx/text_model.onnx"])
def test_files_that_are_missing_or_damaged_are_named(pair, tmp_path, file):
    folder = tmp_path / "broken"
    shutil.copytree(pair, folder)
    (folder / file).write_bytes(b"[1, 2]")
    with pytest.raises(SourceError, match=file.rpartition("/")[2]):
        open_source(f"onnx:{folder}").encode_texts(["mug"])
    (folder / file).unlink()
    with pytest.raises(SourceError, match=f"is a folder without {file.rpartition('/')[2]}"):
        open_source(f"onnx:{folder}")


def test_a_tower_before_its_projection_is_refused(pair, tmp_path):
    folder = tmp_path / "bare"
    shutil.copytree(pair, folder)
    graph = onnx.load(folder / "onnx/vision_model.onnx")
    graph.graph.output[0].name = "pooler_output"
    graph.graph.node[-1].output[0] = "pooler_output"
    onnx.save(graph, folder / "onnx/vision_model.onnx")
    with pytest.raises(SourceError, match=r"vision_model.onnx gives pooler_output; expected image_embeds"):
        open_source(f"onnx:{folder}")


def test_a_pair_of_a_hub_is_opened_as_the_folder_is_and_offline_afterwards(pair, tmp_path, monkeypatch, socket_enabled):
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN", "HF_HUB_OFFLINE", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    files = {path.relative_to(pair).as_posix(): path.read_bytes() for path in pair.rglob("*") if path.is_file()}
    images = np.random.default_rng(2).integers(0, 256, (2, 64, 64, 3), dtype=np.uint8)
    local, sentences = open_source(f"onnx:{pair}"), ["a photo of a cat", "a dog"]
    with serving(LoopbackHub({"someone/clip": files | {"onnx/model.onnx": b"both towers in one"}})) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        pinned = open_source("hf:someone/clip").name
    assert pinned == f"hf:someone/clip@{COMMIT}"
    assert needs_consent(pinned) is None
    assert needs_consent("hf:someone/clip") == "may ask a hub on the network"
    again = open_source(pinned)  # the hub is gone
    np.testing.assert_array_equal(again.encode_texts(sentences), local.encode_texts(sentences))
    np.testing.assert_array_equal(again.respond(images), local.respond(images))
    assert again.describe()["digest"] == local.describe()["digest"]


def test_a_pair_is_in_the_catalogue_and_available(pair):
    assert any(row.name == "onnx:FOLDER" and row.installed for row in catalogue())
    assert why_unavailable(f"onnx:{pair}") == ""


def assert_layers(source, pair, model, images):
    """Tokens at the end of the tower, under its last norm; and the vectors of the pair, up to their length."""
    import torch

    assert not is_dual(source)
    assert source.layout.names[0] == "features"
    assert {"class-100", "patches-100"} <= set(source.layout.names)
    parts = dict(zip(source.layout.names, source.layout.slices, strict=True))
    found, tower = source.respond(images), model.visual
    vectors = found[:, parts["features"]] / np.linalg.norm(found[:, parts["features"]], axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, pair.respond(images), atol=1e-5)
    seen = []
    hook = tower.transformer.register_forward_hook(lambda _, __, output: seen.append(tower.ln_post(output)))
    with torch.no_grad():
        pixels = torch.from_numpy(images.astype(np.float32) / 255).permute(0, 3, 1, 2)
        mean, std = (torch.tensor(PREPROCESSING[key]).view(3, 1, 1) for key in ("image_mean", "image_std"))
        model.encode_image((pixels - mean) / std)
    hook.remove()
    np.testing.assert_allclose(found[:, parts["class-100"]], seen[0][:, 0], atol=1e-4)
    np.testing.assert_allclose(found[:, parts["patches-100"]], seen[0][:, 1:].mean(dim=1), atol=1e-4)


def test_the_image_tower_alone_is_read_at_its_layers(pair, model, photos):
    source = open_source(f"onnx:{pair}?layers=yes", read="all")
    assert_layers(source, open_source(f"onnx:{pair}"), model, photos(64))
    described = source.describe()
    assert described["geometry"] == {"fit": "crop", "interpolation": "bicubic"}
    with pytest.raises(SourceError, match="option 'layers' is 'yes', 'no', or left out"):
        open_source(f"onnx:{pair}?layers=some")


def test_layers_stand_beside_the_image_vector_unless_they_are_switched_off(pair, photos):
    plain, both = open_source(f"onnx:{pair}"), open_source(f"onnx:{pair}", read="all")
    alone = open_source(f"onnx:{pair}?layers=yes", read="all")
    images = photos(64)
    assert is_dual(both)
    assert both.layout == alone.layout
    np.testing.assert_array_equal(both.respond(images), alone.respond(images))
    np.testing.assert_allclose(both.encode_images(images), plain.respond(images), atol=1e-6)
    assert both.dimension == plain.width == both.layout.widths[0]
    graph = onnxruntime.InferenceSession(both.onnx_model().SerializeToString())
    found = graph.run(None, {"images": images.astype(np.float32) / 255})[0]
    np.testing.assert_allclose(found, both.respond(images), atol=1e-4)
    off = open_source(f"onnx:{pair}?layers=no", read="all")
    assert off.describe()["read"] == "logits"
    np.testing.assert_array_equal(off.respond(images), plain.respond(images))
