"""The statistics files add up on any scheduler: the examples for Slurm, Dask and Kubernetes, run or checked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import yoro
from cluster.models import assert_same
from command_line import run
from photos import write_folder
from yoro.model.store import read_model

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A folder of photographs, and we beside it, with the command on the path as a login shell has it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return write_folder(tmp_path / "photos", count=5)


def assert_as_one_fit(photos: Path) -> None:
    assert_same(read_model(Path("mine.yoro")), yoro.fit(str(photos)).model)


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_tasks_of_a_slurm_array_add_up_to_one_fit(photos):
    for task in ("1", "2"):
        told = {**os.environ, "SLURM_ARRAY_TASK_ID": task, "SLURM_ARRAY_TASK_COUNT": "2"}
        subprocess.run(["bash", EXAMPLES / "statistics.slurm", photos, "parts"], env=told, check=True)
    run("merge", *sorted(Path("parts").glob("*.stats")), "--out", "mine.yoro")
    assert_as_one_fit(photos)


@pytest.mark.long
def test_tasks_of_dask_add_up_to_one_fit(photos):
    pytest.importorskip("distributed", reason="dask and distributed are not installed")
    words = [EXAMPLES / "dask_statistics.py", photos, "parts", "mine.yoro", "--parts", "3"]
    subprocess.run([sys.executable, *map(str, words)], check=True)
    assert_as_one_fit(photos)


def test_the_kubernetes_job_is_one_by_its_schema_and_its_pods_add_up(photos):
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    import yaml

    job = yaml.safe_load((EXAMPLES / "statistics.kubernetes.yaml").read_text())
    validate.validate(job, validate.latest_version(), strict=True)
    pod = job["spec"]["template"]["spec"]["containers"][0]
    assert job["spec"]["completions"] == 16
    for index in ("0", "1"):
        words = [pod["command"][0], "-c", pod["args"][0].replace("/data/", "./").replace("/16", "/2")]
        subprocess.run(words, env={**os.environ, "JOB_COMPLETION_INDEX": index}, check=True)
    run("merge", *sorted(Path("parts").glob("*.stats")), "--out", "mine.yoro")
    assert_as_one_fit(photos)
