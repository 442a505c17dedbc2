"""Promises of the README that only something outside the process can check: strace sees what native code does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import yoro
from child import finish
from photos import write_folder
from yoro.model.store import read_model, write_model

LATE = 65  # seconds; onnxruntime's telemetry speaks up after some 45
LIVING = """
import sys, time
began = time.monotonic()
from yoro.cli.app import main
for words in (
    ["fit", "photos", "--out", "m.yoro", "--html", "r.html", "--workers", "1"],
    ["predict", "m.yoro", "photos", "--out", "p.csv"],
    ["evaluate", "m.yoro", "photos", "--quiet"],
    ["export", "m.yoro", "--onnx", "m.onnx"],
):
    main(words)
time.sleep(max(0, float(sys.argv[1]) - (time.monotonic() - began)))
"""
LOCAL = re.compile(r'inet_addr\("127\.|"::1"|AF_UNIX|AF_NETLINK')
NETWORK = re.compile(r"^\d+ +(socket|connect|sendto|sendmsg|sendmmsg|bind)\((.*)$", re.MULTILINE)


def strange(trace: str) -> list[str]:
    """Calls that made or used a socket of any kind but local ones."""
    return [match[0] for match in NETWORK.finditer(trace) if not LOCAL.search(match[0])]


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed: nothing can watch from outside")
@pytest.mark.parametrize("seconds", [0, pytest.param(LATE, marks=pytest.mark.long)])
def test_nothing_is_sent_and_nothing_kept_in_the_users_home(tmp_path, seconds):
    write_folder(tmp_path / "photos", count=4)
    home, trace = tmp_path / "home", tmp_path / "trace"
    home.mkdir()
    known = {key: value for key, value in os.environ.items() if not re.search("TELEMETRY|^XDG|^YORO", key)}
    subprocess.run(
        ["strace", "-f", "-qq", "-e", "trace=network", "-o", trace, sys.executable, "-c", LIVING, str(seconds)],
        cwd=tmp_path, env={**known, "HOME": str(home)}, check=True,
    )  # fmt: skip
    assert strange(trace.read_text()) == []
    kept = [path.relative_to(home) for path in home.rglob("*") if path.is_file()]
    assert [path for path in kept if path.parts[:2] != (".cache", "yoro")] == []


SERVING = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from services import running
from studios import studio_at
photos = {folder.name: sorted(folder.iterdir()) for folder in Path("photos").iterdir()}
with running(Path("m.yoro"), "--feedback", log=Path("log")) as service:
    for path, content in (("predict", photos["cat"][0]), ("predict?top=2&coverage=0.9", photos["rocket"][0])):
        sent = service.client.post("/v1/" + path, content=content.read_bytes(), headers={"content-type": "image/jpeg"})
        assert sent.status_code == 200, sent.text
    for path in ("/healthz", "/metrics", "/v1/model", "/openapi.json"):
        service.client.get(path)
    time.sleep(float(sys.argv[2]))
    service.end()
with studio_at(Path("work")) as studio:
    for name, files in photos.items():
        studio.add(name, files)
    studio.settled()
    studio.tried(photos["cat"][0].read_bytes())
    studio.client.get("/studio/")
    time.sleep(float(sys.argv[2]))
"""
ADDRESSED = re.compile(r"^.*(?:sin_addr|inet_pton|sin6_addr).*$", re.MULTILINE)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed: nothing can watch from outside")
@pytest.mark.parametrize("seconds", [0, pytest.param(LATE, marks=pytest.mark.long)])
def test_a_service_and_a_studio_talk_to_this_machine_alone(tmp_path, seconds):
    write_folder(tmp_path / "photos", count=3)
    yoro.fit(tmp_path / "photos").save(tmp_path / "m.yoro")
    known = {key: value for key, value in os.environ.items() if "TELEMETRY" not in key}
    words = [sys.executable, "-c", SERVING, str(Path(__file__).parent), str(seconds)]
    watch = ["strace", "-f", "-qq", "-e", "trace=network", "-o", tmp_path / "trace"]
    subprocess.run([*watch, *words], cwd=tmp_path, env=known, check=True)
    addressed = ADDRESSED.findall((tmp_path / "trace").read_text())
    assert len(addressed) > 10
    assert [line for line in addressed if not LOCAL.search(line)] == []


def test_the_watcher_would_notice():
    asked = "77  socket(AF_INET6, SOCK_DGRAM, IPPROTO_IP) = 7\n78  connect(7, {sa_family=AF_INET, "
    asked += 'sin_addr=inet_addr("10.0.0.1")}, 16) = 0\n79  connect(3, {sa_family=AF_UNIX, sun_path="/x"}, 110) = -1\n'
    assert len(strange(asked)) == 2


@pytest.mark.parametrize("first", ["yoro", "onnxruntime"])
def test_the_switches_are_set_before_the_engine_is_imported(first):
    code = f"import {first}, os; from yoro.sources import open_source; open_source('embedded:lite0'); "
    code += "assert os.environ['ORT_DISABLE_TELEMETRY'] == '1'; import onnxruntime"
    known = {key: value for key, value in os.environ.items() if "TELEMETRY" not in key}
    subprocess.run([sys.executable, "-c", code], env=known, check=True, cwd=Path(__file__).parent)


NAMES = (
    "json",
    "numpy",
    "PIL",
    "signal",
    "typing",
    "dataclasses",
    "onnxruntime",
    "scipy",
    "cyclopts",
    "tqdm",
    "logging",
)


@pytest.mark.parametrize(
    "start", [["-m", "yoro"], [str(Path(sys.executable).with_name("yoro"))]], ids=["module", "script"]
)
def test_nothing_in_the_working_directory_is_executed(tmp_path, start):
    write_folder(tmp_path / "photos", count=2)
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(
            f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r} + ' ')\nraise ImportError\n"
        )
    for words in (["fit", "photos", "--out", "m.yoro", "--workers", "2"], ["predict", "m.yoro", "photos"]):
        done = subprocess.run([sys.executable, *start, *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


def test_a_decoding_process_imports_nothing_from_where_its_parent_stands(tmp_path):
    write_folder(tmp_path / "photos", count=2)
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n")
    code = f"""
import os, sys, yoro
yoro.fit({str(tmp_path / "photos")!r}, workers=0)  # now this process has imported all that it needs
os.chdir({str(tmp_path)!r})
sys.path.insert(0, "")
yoro.fit("photos", workers=2)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed: nothing can watch from outside")
@pytest.mark.parametrize("source", ["timm:resnet18", "open_clip:hf-hub:someone/something"])
def test_a_model_from_a_stranger_chooses_no_host(tmp_path, source):
    write_folder(tmp_path / "photos", count=2)
    write_model_of(tmp_path / "m.yoro", source)
    command = [sys.executable, "-m", "yoro", "predict", "m.yoro", "photos"]
    watch = ["strace", "-f", "-qq", "-e", "trace=network", "-o", tmp_path / "trace"]
    done = subprocess.run([*watch, *command], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, f"--source {source}" in done.stderr) == (1, True), done.stderr
    assert strange((tmp_path / "trace").read_text()) == []


def write_model_of(path: Path, source: str) -> None:
    """A model whose record names another source than it was fitted on."""
    model = read_model(Path(__file__).parent / "models" / "images.yoro")
    write_model(replace(model, origin=replace(model.origin, source={**model.origin.source, "name": source})), path)


SAME = """
import sys, numpy, yoro
z, photos, workers, out = sys.argv[1:]
made = [yoro.fit(z).model.mapping, yoro.fit(photos, workers=int(workers)).model.mapping]
numpy.savez(out, **{f"{name}{i}": getattr(m, name) for i, m in enumerate(made) for name in ("weights", "bias")})
"""


@pytest.mark.parametrize(
    "setups", [((1, 0), (2, 1)), pytest.param(((1, 0), (1, 2), (2, 2), (2, 0), (8, 1)), marks=pytest.mark.long)]
)
def test_the_number_of_threads_and_workers_changes_no_mapping(tmp_path, setups):
    write_folder(tmp_path / "photos", count=3)
    generator = np.random.default_rng(0)
    labels = np.array(["a", "b", "c"] * 100)
    np.savez(tmp_path / "z.npz", responses=generator.normal(size=(300, 40)) + (labels == "a")[:, None], labels=labels)
    found = []
    for threads, workers in setups:
        many = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
        words = [tmp_path / "z.npz", tmp_path / "photos", workers, tmp_path / "made.npz"]
        done = finish("-c", SAME, *words, env={**os.environ, **many})
        assert done.returncode == 0, done.stderr
        with np.load(tmp_path / "made.npz") as made:
            found.append({name: made[name] for name in made.files})
    for other in found[1:]:
        for name, values in found[0].items():
            np.testing.assert_allclose(other[name], values, rtol=1e-9, atol=1e-9 * np.abs(values).max(), err_msg=name)


JUMPING = """
import random, sys, time
real, draw = time.time, random.Random(0)
time.time = lambda: real() + draw.choice((-3e8, -4000, 0, 4000, 3e8))  # a clock that is set, again and again
from yoro.cli.app import main
main(sys.argv[1:])
"""


def test_a_clock_that_jumps_changes_nothing(tmp_path):
    write_folder(tmp_path / "photos", count=3)
    for number, file in enumerate(sorted(tmp_path.glob("photos/*/*"))):
        os.utime(file, (4e9 * (number % 2), 4e9 * (number % 2)))  # in 1970, in 2096
    yoro.fit(tmp_path / "photos").save(tmp_path / "expected.yoro")
    for words in (["fit", "photos", "--out", "m.yoro", "--resume"], ["predict", "m.yoro", "photos", "--quiet"]):
        done = finish("-c", JUMPING, *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    expected, found = (read_model(tmp_path / name).mapping for name in ("expected.yoro", "m.yoro"))
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-9)
