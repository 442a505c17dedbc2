from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from research.bench.bench_cases import plan_of, setting
from yoro.errors import InputError
from yoro.research.bench.methods.bench_methods import find_method
from yoro.research.bench.plan import make_plan, read_plan
from yoro.research.bench.tables.paper import published, published_tables

CONFIGS = Path(__file__).parents[3] / "configs"
PLANS = sorted(path.stem for path in CONFIGS.glob("*.toml"))

# Cells of each plan, counted by hand: settings x datasets x methods x seeds.
CELLS = {
    "padding": 12 * (8 + 7) * 3,
    "watermark": 12 * 6 * 3,
    "legacy-padding": 12 * (8 + 7) * 3,
    "clip": 2 * 11 * 6 * 3,
    "clip-summary": 4 * 11 * 6 * 3,
    "update-full": 3 * 14 * 4 * 3,
    "update-clip": 4 * 11 * 4 * 3,
    "update-diagnostics": (14 + 4 * 11) * 4 * 3,
    "covariance": 4 * 11 * 6 * 3,
    "efficiency": (14 + 4 * 11) * 2 * 3,
    "clip-timing": 7 * 3,
    "svhn": 3 * 3 * 3,
    "external": 10 * (5 + 4) * 3,
    "peers": 10 * (2 * 6 + 1) * 3,
    "first-figure": 3,
    "refinement-shares": (3 * 14 + 4 * 11) * 2 * 3,
    "reachable": 3 * (8 + 6 + 2 * 6) * 3 + 2 * 2,
    "small": 2 * 3 * 9 * 2,
    "small-figure": 3 * 2,
    "house-numbers": 3 + 2,
    "shots": (3 + 4 * 4) * 10 * 3,
    "base-to-new": 2 * 10 * 4 * 3,
    "domain-shift": 5 * 4 * 3,
    "imagenet": 2,
    "thousand": 9 * 4 * 3,
    "pile": 3 * 3 * 3 * 3,
}

SMALL = {
    "title": "Small",
    "datasets": ["digits"],
    "methods": ["yoro"],
    "settings": [{"name": "lite0", "source": "embedded:lite0", "prompt": "watermark"}],
}


def test_every_plan_has_exactly_its_cells():
    assert {name: len(read_plan(CONFIGS / f"{name}.toml").entries()) for name in PLANS} == CELLS


def test_every_table_of_the_paper_has_its_plan():
    shown = {table for name in PLANS for table in read_plan(CONFIGS / f"{name}.toml").paper}
    assert shown == set(published_tables())


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("padding", "padding-detailed"),
        ("watermark", "watermark-yoro"),
        ("legacy-padding", "L-padding-detailed"),
        ("clip", "fsclip-v32-r50"),
        ("update-full", "yoro-mapping-full-detail"),
        ("external", "external-fs-clip"),
        ("svhn", "svhn-prompt-only"),
    ],
)
def test_a_plan_has_the_cells_of_its_table_and_no_others(name: str, table: str):
    printed = {(p.setting, p.dataset, p.method) for p in published(table) if p.metric == "accuracy"}
    printed = {cell for cell in printed if cell[1] != "average"}
    planned = Counter((e.setting, e.dataset, e.method) for e in read_plan(CONFIGS / f"{name}.toml").entries())
    # Peers that the paper quotes from their authors have a second row, under our frame, beside the printed one.
    framed = {(s, d, f"{m}-framed") for s, d, m in printed if m != "yoro"} if name == "external" else set()
    assert set(planned) == printed | framed
    assert set(planned.values()) == {3}  # seeds


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("clip-summary", "fs-summary"),
        ("update-full", "yoro-mapping-full"),
        ("update-clip", "yoro-mapping-fsclip"),
        ("covariance", "covariance-selection-ablation"),
        ("clip-timing", "clip-efficiency"),
    ],
)
def test_a_plan_has_the_rows_and_columns_of_its_summary(name: str, table: str):
    printed = {(p.setting, p.method) for p in published(table) if p.setting != "overall"}
    assert {(e.setting, e.method) for e in read_plan(CONFIGS / f"{name}.toml").entries()} == printed


def test_the_same_cell_of_two_plans_is_one():
    one, other = (read_plan(CONFIGS / f"{name}.toml").entries() for name in ("padding", "update-full"))
    shared = {e.cell.name for e in one} & {e.cell.name for e in other}
    assert len(shared) == 2 * 12 * 2 * 3  # YORO and YORO-FP (which is Momentum) on both backbones with padding


def test_the_published_numbers_of_prompts_reach_dvp():
    entries = read_plan(CONFIGS / "clip.toml").entries()
    given = {e.dataset: dict(e.cell.options) for e in entries if e.method == "dvp" and e.cell.options}
    assert given == {"eurosat": {"prompts": 1}, "food101": {"prompts": 2}, "ucf101": {"prompts": 2}}


@pytest.mark.parametrize("name", ["external", "peers"])
def test_peers_read_images_as_their_authors_do_and_beside_that_under_our_frame(name: str):
    cells = {(e.method, e.dataset, e.seed): e.cell for e in read_plan(CONFIGS / f"{name}.toml").entries()}
    for (method, dataset, seed), cell in cells.items():
        if method == "yoro" or method.endswith("-framed"):
            assert cell.prompt == "padding"
        else:
            assert cell.prompt == "watermark"  # untrained: 224 pixels of image, no frame
            assert cells[f"{method}-framed", dataset, seed] == replace(cell, prompt="padding")
        assert cell.options == ()  # as published for the dataset
        assert cell.inputs.attributes == "des"  # the sentences that the method was published with


def test_a_method_may_have_another_prompt_than_its_setting():
    plan = make_plan(SMALL | {"methods": ["yoro", "ncm"], "method": {"ncm": {"prompt": "padding"}}})
    assert {e.method: e.cell.prompt for e in plan.entries()} == {"yoro": "watermark", "ncm": "padding"}


def test_what_is_published_for_a_dataset_is_its_default():
    def options(*datasets: str, **given: object) -> dict[str, dict[str, object]]:
        method = {"title": "Tip-Adapter-F", **given}
        plan = make_plan(SMALL | {"datasets": list(datasets), "methods": ["tip-adapter-f"], "seeds": [0],
                                  "method": {"tip-adapter-f": method}})  # fmt: skip
        return {e.dataset: dict(e.cell.options) for e in plan.entries()}

    assert options("eurosat", "digits") == {"eurosat": {}, "digits": {}}
    assert options("eurosat", "digits", epochs=20) == {"eurosat": {"epochs": 20}, "digits": {}}
    assert options("eurosat", "digits", epochs=100) == {"eurosat": {}, "digits": {"epochs": 100}}
    made = find_method("tip-adapter-f").make_options({"epochs": 3}, "DTD")
    assert (made.sharpest, made.heaviest, made.alpha, made.epochs) == (13.0, 13.0, 2.0, 3)


def test_peers_have_settings_for_datasets_of_the_bench():
    from yoro.research.bench.datasets.bench_datasets import DATASETS
    from yoro.research.bench.methods.bench_methods import METHODS

    named = {name for method in METHODS.values() for name in method.published}
    assert named <= set(DATASETS)
    assert named == set(read_plan(CONFIGS / "external.toml").datasets)


def test_settings_take_from_the_top_what_they_do_not_say():
    plan = make_plan(SMALL | {"shots": 4, "settings": [SMALL["settings"][0], SMALL["settings"][0] | {
        "name": "other", "shots": 8, "datasets": ["svhn"], "seeds": [7]}]})  # fmt: skip
    assert [s.inputs.shots for s in plan.settings] == [4, 8]
    assert [s.datasets for s in plan.settings] == [("digits",), ("svhn",)]
    assert [s.seeds for s in plan.settings] == [(0, 1, 2), (7,)]


def test_a_part_of_a_plan():
    plan = read_plan(CONFIGS / "padding.toml")
    part = plan.only(settings=["rn18-padding"], methods=["yoro", "rlm"], datasets=["dtd"])
    assert {(e.setting, e.dataset, e.method) for e in part.entries()} == {
        ("rn18-padding", "dtd", "yoro"), ("rn18-padding", "dtd", "rlm"),
    }  # fmt: skip
    assert plan.only() == plan
    assert len(plan.only(methods=["rlm"]).settings) == 1  # the other has no such method
    with pytest.raises(InputError, match="Did you mean 'rn18-padding'"):
        plan.only(settings=["rn18-paddin"])
    with pytest.raises(InputError, match="Unknown dataset"):
        plan.only(datasets=["digits"])


def test_an_option_at_its_default_is_the_same_cell():
    said = make_plan(SMALL | {"methods": ["yoro-fp"], "method": {"yoro-fp": {"epochs": 20}}})
    unsaid = make_plan(SMALL | {"methods": ["yoro-fp"]})
    other = make_plan(SMALL | {"methods": ["yoro-fp"], "method": {"yoro-fp": {"epochs": 2}}})
    names = [{e.cell.name for e in plan.entries()} for plan in (said, unsaid, other)]
    assert names[0] == names[1]
    assert names[0].isdisjoint(names[2])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tittle": "x"}, "'tittle'. Did you mean 'title'?"),
        ({"title": None}, "title is missing"),
        ({"title": 3}, "title is 3; expected text"),
        ({"settings": []}, "settings is []"),
        ({"settings": [{"name": "a", "sauce": "b"}]}, "'sauce'. Did you mean 'source'?"),
        ({"settings": [{"name": "a"}]}, "source of a is missing"),
        ({"settings": [3]}, "expected a [[settings]] table"),
        ({"settings": SMALL["settings"] * 2}, "setting 'lite0' is listed twice"),
        ({"settings": [SMALL["settings"][0] | {"prompt": "paddin"}]}, "Did you mean 'padding'?"),
        ({"methods": ["yorro"]}, "'yorro'. Did you mean 'yoro'?"),
        ({"methods": ["yoro", "yoro"]}, "method 'yoro' is listed twice"),
        ({"methods": []}, "'lite0' has no method"),
        ({"datasets": "digits"}, "expected a list"),
        ({"seeds": [0.5]}, "seeds of lite0 is [0.5]"),
        ({"seeds": [-1]}, "integers from 0"),
        ({"shots": 0}, "shots of lite0 is 0"),
        ({"limit": {"trian": 3}}, "limit of lite0 is {'trian': 3}"),
        ({"grouped": "yes"}, "expected true or false"),
        ({"show": ["datasetts"]}, "Did you mean 'datasets'?"),
        ({"paper": ["padding-detail"]}, "Did you mean 'padding-detailed'?"),
        ({"method": {"yoro": {"epochs": 3}}}, "has no option 'epochs'"),
        ({"methods": ["yoro-fp"], "method": {"yoro-fp": {"epoch": 3}}}, "Did you mean 'epochs'?"),
        ({"methods": ["yoro-fp"], "method": {"yoro-fp": {"epochs": -3}}}, "epochs is -3"),
        ({"methods": ["yoro-fp"], "method": {"yoro-fp": {"mapping": "frosen"}}}, "Did you mean 'frozen'?"),
        ({"methods": ["yoro-fp"], "method": {"yoro-fp": {"for": {"digits": {"epoch": 1}}}}}, "yoro-fp.for.digits]"),
        ({"method": {"yoro": {"prompt": "paddin"}}}, "Did you mean 'padding'?"),
        ({"methods": ["ape"], "method": {"ape": {"channels": 0}}}, "[method.ape]: The option channels is 0"),
        ({"methods": ["timo"], "method": {"timo": {"gama": 9}}}, "Did you mean 'gamma'?"),
        ({"methods": ["flm"], "method": {"flm": {"select": "tests"}}}, "Did you mean 'test'?"),
        ({"method": {"ghost": {}}}, "[method.ghost] is not used"),
        ({"data": {"digits": 3}}, "expected the folder of each dataset"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_plan_is_said(change: dict[str, object], said: str):
    content = {key: value for key, value in (SMALL | change).items() if value is not None}
    with pytest.raises(InputError) as caught:
        make_plan(content)
    assert said in str(caught.value)


def test_a_file_that_is_no_plan_is_named(tmp_path: Path):
    with pytest.raises(InputError, match="not found"):
        read_plan(tmp_path / "absent.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("title = ")
    with pytest.raises(InputError, match="not valid TOML"):
        read_plan(broken)
    broken.write_text('title = "x"\ncolor = 1\n')
    with pytest.raises(InputError, match="'color'"):
        read_plan(broken)
    broken.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(InputError, match="at most"):
        read_plan(broken)


def test_the_plans_are_written_for_people():
    for path in CONFIGS.glob("*.toml"):
        text = path.read_text()
        assert text.startswith("# "), f"{path.name} does not say what it is"
        assert max(map(len, text.splitlines())) <= 180, path.name
        assert tomllib.loads(text)["title"]


@pytest.mark.torch
def test_the_plans_name_weights_that_their_libraries_know():
    timm, torchvision = pytest.importorskip("timm"), pytest.importorskip("torchvision")
    open_clip = pytest.importorskip("open_clip")
    named = {s.source for name in PLANS for s in read_plan(CONFIGS / f"{name}.toml").settings}
    for source in named:
        prefix, _, rest = source.partition(":")
        model, _, tag = rest.partition("/")
        if prefix == "timm":
            assert rest in timm.list_models(pretrained=True)
        elif prefix == "torchvision":
            assert tag in torchvision.models.get_model_weights(model).__members__
        elif prefix == "open_clip":
            assert (model, tag) in open_clip.list_pretrained()
        else:
            assert prefix == "embedded"
    assert len(named) == 13


def test_the_plans_name_datasets_of_the_bench():
    from yoro.research.bench.datasets.bench_datasets import DATASETS

    own = {"house-numbers/"}  # a folder of the user's
    named = {dataset for name in PLANS for dataset in read_plan(CONFIGS / f"{name}.toml").datasets} - own
    parts = {part for dataset in named for part in dataset.split(">")}
    assert parts == set(DATASETS)


def test_a_plan_as_published_differs_in_what_it_says_alone():
    for name in ("padding", "watermark", "legacy-padding", "clip", "clip-summary", "clip-timing"):
        protocol, published = (read_plan(CONFIGS / f"{name}.toml", variant) for variant in ("protocol", "published"))
        assert [setting.methods for setting in protocol.settings] == [setting.methods for setting in published.settings]
        assert {e.cell for e in protocol.entries() if e.method == "yoro"} <= {e.cell for e in published.entries()}
        chosen = {dict(e.cell.options).get("select") for e in published.entries() if not e.method.startswith("yoro")}
        assert chosen == {"test"}, name
    padding = read_plan(CONFIGS / "padding.toml", "published")
    assert {e.cell.prompt for e in padding.entries() if e.method == "blm"} == {"legacy-padding"}
    assert {e.cell.prompt for e in padding.entries() if e.method == "yoro"} == {"padding"}


def test_methods_without_a_number_in_the_paper_are_left_out_unless_asked():
    plan = read_plan(CONFIGS / "padding.toml")
    assert set(plan.of_counterparts("own", "cited").settings[0].methods) == {"yoro", "yoro-fp"}
    assert len(plan.entries()) == 540
    assert len(plan.of_counterparts("own", "cited").entries()) == 144


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"purpose": "fun"}, "purpose"),
        ({"as": {"publishd": {}}}, "published"),
        ({"as": {"published": {"nobody": {}}}}, "nobody"),
        ({"method": {"yoro": {"counterpart": "maybe"}}}, "counterpart"),
    ],
)
def test_wrong_words_for_variants_and_purposes_are_named(given, said):
    with pytest.raises(InputError, match=said):
        plan_of(**given)


def test_a_variant_that_a_plan_does_not_have_is_refused():
    with pytest.raises(InputError, match="no variant 'published'"):
        make_plan({"title": "A", "datasets": ["dtd"], "methods": ["yoro"], "settings": [setting("a")]}, "published")
