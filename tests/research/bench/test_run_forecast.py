"""What a run would do, before it does anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import invoke, run
from yoro.research.bench.datasets.bench_datasets import find_bench_dataset
from yoro.research.bench.plan import make_plan, read_plan
from yoro.research.bench.results import Results
from yoro.research.bench.run_forecast import count_images, forecast, forecast_lines, guessed_rate, measured_speeds
from yoro.research.bench.runner import RunSettings, run_plan
from yoro.research.bench.speed_probe import Speed, measure
from yoro.sources.open import why_unavailable

CONFIGS = Path(__file__).parents[3] / "configs"


@pytest.mark.parametrize("name", sorted(path.stem for path in CONFIGS.glob("*.toml")))
def test_a_dry_run_lists_exactly_the_cells_of_a_plan_and_reads_nothing(name: str, tmp_path: Path):
    plan = read_plan(CONFIGS / f"{name}.toml")
    listed = forecast(plan, Results(tmp_path / "results"), [tmp_path])
    assert [one.entry for one in listed] == plan.entries()
    assert not (tmp_path / "results").exists()
    lines = forecast_lines(listed)
    groups = {(e.setting, e.dataset, e.method) for e in plan.entries()}
    assert len([line for line in lines if "  seeds " in line]) == len(groups)
    assert any(line.startswith(f"{len(listed)} cells: ") for line in lines)


def test_the_command_says_what_would_run(tmp_path: Path):
    done = run("bench", "run", CONFIGS / "svhn.toml", "--dry-run", cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert lines[0].split()[:3] == ["rn18-padding", "svhn", "yoro"]
    assert "seeds 0 1 2" in lines[0]
    assert "27 cells: 27 no data." in lines
    assert "SVHN was not found" in lines[-1]
    cells = json.loads(run("bench", "run", CONFIGS / "svhn.toml", "--dry-run", "--json", cwd=tmp_path).stdout)
    assert len(cells) == 27
    assert cells[3]["options"]["mapping"] == "frozen"
    part = run("bench", "run", CONFIGS / "svhn.toml", "--dry-run", "--shard", "3/16", "--json", cwd=tmp_path).stdout
    assert [cell["seed"] for cell in json.loads(part)] == [cell["seed"] for cell in cells[2::16]] == [2, 0]
    assert not list(tmp_path.iterdir())


def test_a_dry_run_shows_both_geometries_where_methods_differ(tmp_path: Path):
    listed = forecast(read_plan(CONFIGS / "external.toml"), Results(tmp_path / "results"), [tmp_path])
    shown = {tuple(line.split()[2:4]) for line in forecast_lines(listed) if " dtd " in line}
    assert shown == {
        ("yoro", "padding"),
        *((name, "watermark") for name in ("carprt", "mpe", "wpe", "tip-adapter")),
        *((f"{name}-framed", "padding") for name in ("carprt", "mpe", "wpe", "tip-adapter")),
    }


@pytest.mark.parametrize(
    ("name", "reading", "counts"),
    [
        ("flowers102", {}, (4093, 1633, 2463)),
        ("flowers102", {"shots": 16}, (16 * 102, 4 * 102, 2463)),
        ("svhn", {}, (73257 - 7326, 7326, 26032)),
        ("cifar10", {"limit": {"train": 32, "val": 8, "test": 40}}, (320, 80, 400)),
        ("caltech101", {"shots": 100}, (4128, 400, 2465)),
        ("dtd", {"shots": 16, "half": "base"}, (16 * 24, 4 * 24, 1692 // 2)),
        ("dtd", {"examples": 1000}, (800, 200, 1692)),
        ("digits", {"shots": 2, "pile": 50}, (2 * 10 + 50 * 10, 2 * 10, 539)),
    ],
)
def test_images_are_counted_by_what_is_known_of_a_dataset(
    name: str, reading: dict[str, object], counts: tuple[int, ...]
):
    setting = {"name": "a", "source": "embedded:lite0", "prompt": "padding"} | reading
    plan = make_plan({"title": "x", "datasets": [name], "methods": ["yoro"], "settings": [setting]})
    found = count_images(plan.entries()[0].cell, find_bench_dataset(name))
    assert (found.train, found.val, found.test) == counts


def test_more_epochs_and_slower_sources_take_longer(tmp_path: Path):
    def hours(source: str, method: str, **options: object) -> float:
        plan = make_plan({
            "title": "x", "datasets": ["dtd"], "methods": [method], "seeds": [0], "method": {method: options},
            "settings": [{"name": "a", "source": source, "prompt": "padding"}],
        })  # fmt: skip
        return forecast(plan, Results(tmp_path), [tmp_path])[0].seconds / 3600

    slow, fast = "timm:resnext101_32x8d.fb_wsl_ig1b_ft_in1k", "torchvision:resnet18/IMAGENET1K_V1"
    assert hours(fast, "yoro") < hours(fast, "yoro-fp") / 20
    assert hours(slow, "yoro") > 5 * hours(fast, "yoro")
    assert hours(fast, "blm", epochs=200) == pytest.approx(10 * hours(fast, "blm", epochs=20), rel=0.2)
    assert hours(fast, "blm", mapping_pass=False) < hours(fast, "blm")
    clip = "open_clip:ViT-B-32/openai"
    assert hours(clip, "dga") > 5 * hours(clip, "attrvr")


def test_the_estimate_uses_what_was_measured(tmp_path: Path):
    content = {
        "title": "x", "datasets": ["digits"], "methods": ["ncm"], "seeds": [0],
        "limit": {"train": 3, "val": 1, "test": 3},
        "settings": [{"name": "a", "source": "embedded:lite0?side=64", "prompt": "watermark"}],
    }  # fmt: skip
    results = Results(tmp_path / "results")
    run_plan(make_plan(content), results, RunSettings())
    speeds = measured_speeds(make_plan(content), results)
    measured = results.of(make_plan(content).entries()[0].cell)[0].image_seconds
    assert speeds["embedded:lite0?side=64"].forward == measured > 0
    more = forecast(make_plan(content | {"methods": ["ncm", "ridge"]}), results, [])
    assert [one.state for one in more] == ["finished", "to run"]
    assert more[1].seconds == pytest.approx(70 * measured)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "absent.toml"], "'absent.toml' not found"),
        (["run", "plan.toml", "--data", "nowhere"], "The data root 'nowhere' (--data) does not exist"),
        (["table", "absent.toml"], "'absent.toml' not found"),
        (["datasets", "flowers"], "Did you mean 'flowers102'?"),
        (["run", "wrong.toml"], "Did you mean 'settings'?"),
        (["run", "plan.toml", "--results", "plan.toml"], "plan.toml"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words: list[str], said: str, tmp_path: Path):
    (tmp_path / "plan.toml").write_text(
        'title = "x"\ndatasets = ["digits"]\nmethods = ["ncm"]\nseeds = [0]\nlimit = { train = 2, val = 1, test = 2 }\n'
        '[[settings]]\nname = "a"\nsource = "embedded:lite0?side=64"\nprompt = "watermark"\n'
    )
    (tmp_path / "wrong.toml").write_text('title = "x"\n[[setting]]\nname = "a"\n')
    done = invoke("bench", *words, cwd=tmp_path)
    assert done.code in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


SMALL = {
    "title": "x", "datasets": ["digits"], "methods": ["ncm"], "seeds": [0], "limit": {"train": 8, "val": 4, "test": 8},
    "settings": [{"name": "a", "source": "embedded:lite0?side=32", "prompt": "watermark"}],
}  # fmt: skip


def test_a_small_canvas_is_guessed_to_be_quick():
    assert guessed_rate("embedded:lite0?side=32") == pytest.approx(160 / 0.04)
    assert guessed_rate("embedded:lite0?side=56") == pytest.approx(16 * 160)
    assert guessed_rate("embedded:lite0") == 160.0
    assert guessed_rate("timm:resnet18?side=448&weights=x.safetensors") == pytest.approx(50 / 4)


@pytest.mark.parametrize(
    ("source", "method", "state", "said"),
    [
        ("embedded:lite0?side=32", "ncm", "to run", ""),
        ("onnx:absent.onnx", "ncm", "no source", "there is no file 'absent.onnx'"),
        ("timm:resnet18?weights=absent.safetensors", "ncm", "no source", "there is no file 'absent.safetensors'"),
        ("timm:resnet18", "ncm", "no source", "its weights are not on this machine"),
        ("torchvision:resnet18/IMAGENET1K_V1", "ncm", "no source", "its weights are not on this machine"),
        ("open_clip:ViT-B-32/openai", "ncm", "no source", "its weights are not on this machine"),
        ("embeded:lite0", "ncm", "no source", "Did you mean"),
    ],
)
def test_what_a_source_lacks_is_known_before_a_run(source, method, state, said, tmp_path, monkeypatch):
    if source.startswith(("timm", "torchvision", "open_clip")):
        pytest.importorskip("open_clip")
        monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    setting = {"name": "a", "source": source, "prompt": "watermark", "attributes": "templates"}
    plan = make_plan(SMALL | {"settings": [setting], "methods": [method]})
    (found,) = forecast(plan, Results(tmp_path / "results"), [])
    assert found.state == state
    assert said in found.why
    assert (found.why == "") == (state == "to run")


@pytest.mark.torch
def test_weights_in_a_cache_are_found(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    name = "torchvision:resnet18/IMAGENET1K_V1"
    assert "not on this machine" in why_unavailable(name)
    (tmp_path / "hub" / "checkpoints").mkdir(parents=True)
    (tmp_path / "hub" / "checkpoints" / "resnet18-f37072fd.pth").write_bytes(b"weights")
    assert why_unavailable(name) == ""


def test_a_published_draw_that_is_missing_is_known_before_a_run(tmp_path):
    setting = {"name": "a", "source": "embedded:lite0", "prompt": "watermark", "shots": 4, "draws": "published"}
    (found,) = forecast(
        make_plan({k: v for k, v in SMALL.items() if k != "limit"} | {"settings": [setting]}),
        Results(tmp_path / "r"),
        [],
    )
    assert found.state == "no data"
    assert "published draw" in found.why


@pytest.mark.torch
def test_a_source_is_measured_once_and_the_estimate_is_made_of_it(tmp_path):
    asked = []

    def watched(cell, dataset, examples, trains):
        asked.append((cell.source, trains))
        return measure(cell, dataset, examples, trains=trains)

    plan = make_plan(SMALL | {"methods": ["ncm", "ridge", "blm"], "method": {"blm": {"epochs": 3}}})
    listed = forecast(plan, Results(tmp_path / "results"), [], watched)
    assert asked == [("embedded:lite0?side=32", True)]
    assert not (tmp_path / "results").exists()
    by_method = {one.entry.method: one.seconds for one in listed}
    assert 0 < by_method["ridge"] < by_method["blm"]
    without = {one.entry.method: one.seconds for one in forecast(plan, Results(tmp_path / "results"), [])}
    assert by_method != without


def test_estimates_follow_the_measurement(tmp_path):
    plan = make_plan(SMALL | {"methods": ["ncm", "blm"], "method": {"blm": {"epochs": 3, "mapping_pass": False}}})
    speed = Speed(forward=0.01, training=0.1, solving=2.0)
    listed = forecast(plan, Results(tmp_path), [], lambda *_: speed)
    assert [one.seconds for one in listed] == pytest.approx(
        [200 * 0.01 + 2, 3 * (80 * 0.1 + 40 * 0.01) + 160 * 0.01 + 2]
    )
