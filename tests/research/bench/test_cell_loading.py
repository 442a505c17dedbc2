"""Image-text sources on the bench: which sentences a method reads, and that every published method runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from yoro.errors import InputError
from yoro.research.bench.cell_loading import choose_sentences
from yoro.research.bench.context import make_sentences
from yoro.research.bench.datasets.attribute_files import find_bank
from yoro.research.bench.datasets.bench_datasets import find_bench_dataset
from yoro.research.bench.plan import Plan, make_plan
from yoro.research.bench.results import Results, entries
from yoro.research.bench.runner import RunSettings, run_plan
from yoro.sources import open_source

pytest.importorskip("tokenizers")

DATASET = """
from dataclasses import replace
from own_dataset import DATASET as whole, draw
from yoro.data.examples import Dataset, Example
from yoro.research.bench.datasets.dataset import BenchDataset, Found

def find(roots):
    kept = [e for e in whole.find(roots).dataset if int(e.name.split("/")[-1]) < 3]
    return Found(Dataset(tuple(kept)), "a few shapes")

DATASET = BenchDataset("few", "Few", 3, {"train": 9, "val": 9, "test": 9}, find, bank="shapes")
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data root with banks and templates, and a small dataset of one's own in the working directory."""
    examples = Path(__file__).parents[3] / "examples"
    (tmp_path / "own_dataset.py").write_text((examples / "own_dataset.py").read_text())
    (tmp_path / "few_shapes.py").write_text(DATASET)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    bank = tmp_path / "root" / "attributes" / "shapes"
    bank.mkdir(parents=True)
    names = ("dvp__attributes__des", "attrvr__gpt3__dist", *(f"dvp__causes__cse_{i}" for i in (1, 2, 3)), "cupl")
    for number, name in enumerate(names):
        sentences = {
            c: [f"{c} seen {number} times, as picture {i} of all" for i in range(4)] for c in ("cross", "disc", "ring")
        }
        (bank / f"{name}.json").write_text(json.dumps(sentences))
    (tmp_path / "root" / "templates").mkdir()
    for name in ("imagenet", "carprt"):
        lines = "\n".join(f"a {kind} of a {{}} for {name}" for kind in ("photo", "drawing", "cartoon"))
        (tmp_path / "root" / "templates" / f"{name}.txt").write_text(lines)
    return tmp_path / "root"


def plan_of(*methods: str, **more: object) -> Plan:
    return make_plan({
        "title": "Sentences", "datasets": ["few_shapes:DATASET"], "methods": list(methods), "seeds": [0],
        "sentences": 3,
        "settings": [{"name": "conse", "source": "embedded:conse", "prompt": "padding"}],
    } | more)  # fmt: skip


def chosen(root: Path, method: str, **more: object) -> list[str]:
    cell = plan_of(method, **more).entries()[0].cell
    found = choose_sentences(cell, find_bench_dataset("few_shapes:DATASET"), [root])
    return [origin.stem if isinstance(origin, Path) else origin for origin in found]


def test_each_method_reads_the_sentences_it_was_published_with(root: Path):
    des, dist = "dvp__attributes__des", "attrvr__gpt3__dist"
    assert chosen(root, "yoro") == chosen(root, "dvp-cls") == chosen(root, "yoro-fp") == [des]
    assert chosen(root, "attrvr") == chosen(root, "dga") == [des, dist]
    assert chosen(root, "dvp-cse") == [f"dvp__causes__cse_{i}" for i in (1, 2, 3)]
    assert chosen(root, "vp") == chosen(root, "ar") == []
    assert chosen(root, "clip-blm") == chosen(root, "autovp") == ["imagenet"]
    assert chosen(root, "carprt") == chosen(root, "mpe") == ["carprt"]
    assert (
        chosen(root, "yoro", attributes="templates") == chosen(root, "attrvr", attributes="templates") == ["templates"]
    )
    assert chosen(root, "tip-adapter") == chosen(root, "lp++") == chosen(root, "gda") == ["a photo of a {name}."]
    assert chosen(root, "yoro", attributes="sentence") == ["a photo of a {name}."]
    assert chosen(root, "timo") == chosen(root, "ape") == ["a photo of a {name}.", "cupl"]
    (root / "attributes" / "shapes" / "cupl.json").unlink()
    with pytest.raises(InputError, match=r"sentences \(cupl\) were not found.*lyymuwu/TIMO hold them"):
        chosen(root, "timo-s")
    (root / "templates" / "carprt.txt").unlink()
    assert chosen(root, "carprt") == ["templates"]  # ours stand in
    (root / "attributes" / "shapes" / f"{dist}.json").unlink()
    with pytest.raises(InputError, match=r"Few: its attribute sentences \(dist\) were not found"):
        chosen(root, "dga")


@pytest.mark.parametrize(
    "name", ["APE/gpt3_prompts/CuPL_prompts_fgvcaircraft.json", "TIMO/Prompt_CuPL/fgvcaircraft.json"]
)
def test_the_sentences_of_cupl_are_found_in_either_repository(name: str, tmp_path: Path):
    place = tmp_path / name
    place.parent.mkdir(parents=True)
    place.write_text("{}")
    assert find_bank(find_bench_dataset("fgvc-aircraft"), [tmp_path], "cupl") == place


def test_templates_and_a_bank_beside_them_are_read_whole_and_in_order(tmp_path: Path):
    bank = tmp_path / "cupl.json"
    bank.write_text(json.dumps({"Red Fox": ["It is red.", "short"], "Owl": ["A bird of the night."]}))
    source = open_source("embedded:conse")
    made = make_sentences(source, ["red_fox", "Owl"], ("{name} texture.", bank), 20, False)
    assert made.bank.sentences == {
        "Owl": ("Owl texture.", "A bird of the night."), "red_fox": ("red fox texture.", "It is red.", "short"),
    }  # fmt: skip
    assert made.vectors.shape[0] == 5


@pytest.mark.torch
def test_peers_run_with_their_own_texts_and_settings(root: Path, tmp_path: Path):
    pytest.importorskip("torch")
    framed = {"ape": {"channels": 100, "prompt": "watermark"}, "tip-adapter-f": {"epochs": 2}}
    plan = plan_of("tip-adapter", "tip-adapter-f", "ape", "gda", "timo", "timo-s", "lp++", method=framed)
    said: list[str] = []
    assert run_plan(plan, Results(tmp_path / "results"), RunSettings([root], tell=said.append)).failed == 0, said
    found = {e.method: e.result for e in entries(plan, Results(tmp_path / "results"))[0]}
    assert found["tip-adapter-f"].passes == 2
    assert found["timo"].depends["edition"] == "2"
    assert "edition" not in found["gda"].depends
    assert len({found[name].depends["sentences"] for name in ("tip-adapter", "lp++", "gda", "timo")}) == 2
    assert len(list((tmp_path / "results" / "responses").iterdir())) == 2  # of two prompts


TRAINED = ("vp", "ar", "attrvr", "dvp-cls", "dvp-cse", "autovp", "dga", "clip-blm", "clip-blm+")


@pytest.mark.torch
@pytest.mark.parametrize(
    "trained", [("vp", "attrvr"), pytest.param(TRAINED, marks=pytest.mark.long)], ids=["some", "all"]
)
def test_every_published_method_for_image_text_sources_runs(root: Path, tmp_path: Path, trained: tuple[str, ...]):
    pytest.importorskip("torch")
    options = {name: {"epochs": 1, "learning_rate": 1.0} for name in trained} | {"yoro-fp": {"epochs": 1}}
    if "dvp-cls" in trained:
        options["dvp-cls"] = {"epochs": 2, "prompts": 2}
    plan = plan_of("yoro", "yoro-fp", "bdm-conditional", "tip-adapter", "carprt", *trained, "blm", method=options)
    said: list[str] = []
    tally = run_plan(plan, Results(tmp_path / "results"), RunSettings([root], tell=said.append))
    assert tally.failed == 1, said  # BLM is for classifiers, and says so
    assert "on an image-text source use clip-blm" in said[-1]
    found = {e.method: e.result for e in entries(plan, Results(tmp_path / "results"))[0] if e.result}
    assert all(result.tested == 9 and result.fitted == 9 for result in found.values())
    assert {name for name, result in found.items() if result.selected_on == "validation"} == {*trained, "yoro-fp"}
    assert len(found["vp"].epochs) == 2  # before training, and after an epoch
    assert "dvp-cls" not in found or len(found["dvp-cls"].epochs) == 2  # the first published epoch trains nothing
    assert "sentences" in found["attrvr"].depends
    assert "sentences" not in found["vp"].depends


def test_other_sentences_are_other_results(root: Path, tmp_path: Path):
    results = tmp_path / "results"
    plan = plan_of("yoro", "vp", method={"vp": {"epochs": 0}})
    assert run_plan(plan_of("yoro"), Results(results), RunSettings([root])).computed == 1
    bank = root / "attributes" / "shapes" / "dvp__attributes__des.json"
    bank.write_text(bank.read_text().replace("seen", "shown"))
    assert run_plan(plan_of("yoro"), Results(results), RunSettings([root])).computed == 1
    assert run_plan(plan_of("yoro"), Results(results), RunSettings([root])).found == 1
    assert len(list((results / "responses").iterdir())) == 1  # image vectors do not depend on sentences
    assert plan.entries()[0].cell == plan_of("yoro").entries()[0].cell
