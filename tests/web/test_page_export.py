from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

import yoro
from command_line import invoke, run
from photos import PHOTOS, crops
from yoro.environment import __version__
from yoro.errors import InputError, StoreError
from yoro.model.onnx_export import checked_export, run_graph
from yoro.trust.detector_choice import CENTRED, HELLINGER, Term
from yoro.trust.out_of_distribution import left_out_scores, out_of_distribution_score, usual_term
from yoro.web.browser_runtime import FILES, LICENCES, find_runtime
from yoro.web.out_of_distribution_graph import OUTPUT, add_strangeness
from yoro.web.page_export import FACTS, GRAPH, HALF_TOLERANCE, PAGE, export_web


@pytest.fixture(scope="module")
def engine(tmp_path_factory) -> Path:
    """A folder that looks like onnxruntime-web; the export copies its files and does not run them."""
    package = tmp_path_factory.mktemp("npm") / "node_modules" / "onnxruntime-web"
    (package / "dist").mkdir(parents=True)
    for name in FILES.values():
        (package / "dist" / name).write_bytes(name.encode())
    (package / "package.json").write_text('{"version": "1.2.3"}')
    return package


@pytest.fixture(scope="module")
def classifier() -> yoro.Classifier:
    images = [crop for name in PHOTOS for crop in crops(name, 8)]
    return yoro.fit(images, [f"<b>{name}</b>" for name in PHOTOS for _ in range(8)])


@pytest.fixture(scope="module")
def saved(classifier, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("models") / "m.yoro"
    classifier.save(path)
    return path


def test_the_folder_holds_the_page_the_graph_the_engine_and_the_facts(saved, engine, tmp_path):
    done = run("export", saved, "--web", "site", "--runtime", engine, cwd=tmp_path)
    assert "probabilities equal those of `predict`" in done.stderr
    assert "python -m http.server --directory site" in done.stderr
    site = tmp_path / "site"
    assert {path.name for path in site.iterdir()} == {*PAGE, *FILES, *LICENCES, FACTS, GRAPH}
    assert "Microsoft" in (site / "ort-license.txt").read_text()
    facts = json.loads((site / FACTS).read_text())
    assert facts["classes"] == sorted(f"<b>{name}</b>" for name in PHOTOS)
    assert (facts["runtime"], facts["version"], facts["examples"]) == ("1.2.3", __version__, 32)
    assert facts["files"] == {p.name: p.stat().st_size for p in site.iterdir() if p.name not in {FACTS, *LICENCES}}
    assert len(facts["fitted"]) == 32
    assert facts["fitted"] == sorted(facts["fitted"])


def test_every_file_of_the_page_is_exported():
    import yoro.web

    assert {path.name for path in (Path(yoro.web.__file__).parent / "page").iterdir()} == set(PAGE)


def test_the_page_asks_nobody_and_sets_no_html():
    import yoro.web

    for path in (Path(yoro.web.__file__).parent / "page").iterdir():
        content = path.read_text().replace("http://www.w3.org/2000/svg", "").replace("http://localhost:8000", "")
        for word in ("http:", "https:", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert word not in content, (path.name, word)


def test_the_exported_graph_has_half_the_size_and_gives_the_same_answers(classifier, saved, engine, tmp_path):
    made = export_web(classifier, tmp_path / "site", find_runtime(engine))
    graph = onnx.load_from_string(gzip.decompress((tmp_path / "site" / GRAPH).read_bytes()))
    whole = checked_export(classifier)[0]
    assert made.halved
    assert graph.ByteSize() < 0.55 * len(whole)
    side = classifier.pipeline.prompt.image_side
    images = np.stack([np.asarray(Image.fromarray(crop).resize((side, side))) for crop in crops("cat", 6)])
    (here,), (there,) = (run_graph(one, images, ["probabilities"]) for one in (graph, onnx.load_from_string(whole)))
    assert (here.argmax(axis=1) == there.argmax(axis=1)).all()
    assert np.abs(here - there).max() < HALF_TOLERANCE


def test_the_graph_finds_images_as_strange_as_the_measure_does(classifier):
    model = onnx.load_from_string(checked_export(classifier)[0])
    measure = out_of_distribution_score(classifier.model)
    add_strangeness(model, measure)
    onnx.checker.check_model(model)
    side = classifier.pipeline.prompt.image_side
    images = np.random.default_rng(0).integers(0, 256, (6, side, side, 3), dtype=np.uint8)
    found, probabilities = run_graph(model, images, [OUTPUT, "probabilities"])
    assert np.allclose(found, measure(classifier.pipeline.respond(images)), rtol=1e-4, atol=1e-4)
    assert probabilities.shape == (6, 4)


def test_the_graph_measures_responses_that_fill_their_space():
    """More examples than the response is wide: the other branch of the metric; and the newer form of ReduceMin."""
    rng = np.random.default_rng(0)
    labels = [str(i % 3) for i in range(60)]
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node("Identity", ["given"], ["responses"])],
            "responses",
            [onnx.helper.make_tensor_value_info("given", onnx.TensorProto.DOUBLE, ["n", 3])],
            [],
        ),
        opset_imports=[onnx.helper.make_opsetid("", 18)],
        ir_version=8,
    )
    responses = rng.normal(size=(60, 3)) + np.arange(60)[:, None] % 3
    measure = out_of_distribution_score(yoro.fit(responses, labels).model)
    add_strangeness(model, measure)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    new = rng.normal(size=(9, 3)) * 3
    assert np.allclose(session.run([OUTPUT], {"given": new})[0], measure(new), rtol=1e-4, atol=1e-4)


def test_the_graph_measures_every_kind_of_term(classifier):
    """Transformed readings and several terms, as another choice of the score has them."""
    model, fitted = onnx.load_from_string(checked_export(classifier)[0]), classifier.model
    logits = fitted.statistics.layout.names.index("logits")
    terms = [usual_term(fitted), Term(logits, HELLINGER), Term(logits, CENTRED, (0.0, 3.0))]
    measure = left_out_scores(fitted, fitted.members(), terms)[0]
    add_strangeness(model, measure)
    onnx.checker.check_model(model)
    side = classifier.pipeline.prompt.image_side
    images = np.random.default_rng(0).integers(0, 256, (6, side, side, 3), dtype=np.uint8)
    found = run_graph(model, images, [OUTPUT])[0]
    assert np.allclose(found, measure(classifier.pipeline.respond(images)), rtol=1e-4, atol=1e-4)


def test_a_model_that_keeps_no_responses_says_so_and_is_exported_without_unknown(engine, tmp_path):
    images = [crop for name in ("cat", "coffee") for crop in crops(name, 3)]
    fitted = yoro.fit(images, ["cat"] * 3 + ["coffee"] * 3, reservoir=0, shrinkage="oas")
    made = export_web(fitted, tmp_path / "site", find_runtime(engine))
    assert not made.unknown
    assert json.loads((tmp_path / "site" / FACTS).read_text())["fitted"] is None
    graph = onnx.load_from_string(gzip.decompress((tmp_path / "site" / GRAPH).read_bytes()))
    assert [output.name for output in graph.graph.output] == ["probabilities", "label"]


def test_the_engine_is_found_upwards_and_by_its_folder_and_missed_with_advice(engine, tmp_path, monkeypatch):
    deep = engine.parents[1] / "a" / "b"
    deep.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(deep)
    own = Path(yoro.__file__).parent / "web" / "engine"
    assert find_runtime().version == (
        json.loads((own / "package.json").read_text())["version"] if own.is_dir() else "1.2.3"
    )
    for folder in (engine, engine / "dist", engine.parent, engine.parents[1]):
        assert set(find_runtime(folder).files) == set(FILES)
    with pytest.raises(InputError, match=r"lacks ort.wasm.bundle.min.mjs or ort-wasm"):
        find_runtime(tmp_path)
    (engine / "package.json").rename(engine / "gone")
    assert find_runtime(engine).version == "unknown"
    (engine / "gone").rename(engine / "package.json")


def test_the_command_says_what_is_missing_before_any_work(saved, tmp_path):
    assert "expected FILE.onnx or --web FOLDER" in run("export", saved, code=2).stderr
    assert "--runtime needs --web" in run("export", saved, "--onnx", "x", "--runtime", ".", code=2).stderr
    done = invoke("export", saved, "--web", tmp_path / "site", "--runtime", tmp_path)
    assert (done.code, (tmp_path / "site").exists()) == (1, False)
    assert "expected the folder of onnxruntime-web" in done.stderr


def test_a_folder_of_other_things_is_left_alone_and_an_older_page_replaced_on_demand(classifier, engine, tmp_path):
    runtime, site = find_runtime(engine), tmp_path / "site"
    site.mkdir()
    (site / "letter.txt").write_text("mine")
    with pytest.raises(StoreError, match="not an exported page"):
        export_web(classifier, site, runtime, force=True)
    (site / "letter.txt").unlink()
    export_web(classifier, site, runtime)
    (site / "letter.txt").write_text("mine")
    with pytest.raises(StoreError, match="already exists"):
        export_web(classifier, site, runtime)
    (site / GRAPH).write_bytes(b"")
    export_web(classifier, site, runtime, force=True)
    assert (site / GRAPH).stat().st_size > 0
    assert (site / "letter.txt").read_text() == "mine"
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is a file"):
        export_web(classifier, tmp_path / "file", runtime)
