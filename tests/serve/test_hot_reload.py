from __future__ import annotations

import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import yoro
from child import wait_until
from command_line import run
from photos import write_folder
from services import running
from yoro.serve.hot_reload import Current

JPEG = {"content-type": "image/jpeg"}


def facts(service):
    return service.client.get("/v1/model").json()


def test_a_changed_model_is_taken_up_without_a_restart(model, tmp_path, cat):
    write_folder(tmp_path / "more", count=2, seed=1, names=("cat",))
    (tmp_path / "more" / "cat").rename(tmp_path / "more" / "tiger")
    with running(model, log=tmp_path / "log") as service, ThreadPoolExecutor(1) as asking:
        before = facts(service)

        def ask_all_the_time():
            found = []
            while facts(service)["version"] == before["version"] or len(found) < 5:
                found.append(service.client.post("/v1/predict", content=cat, headers=JPEG))
            return found

        asked = asking.submit(ask_all_the_time)
        run("update", model, tmp_path / "more", "--new-classes", "-q")
        answers = asked.result()
        assert {answer.status_code for answer in answers} == {200}
        assert facts(service)["counts"]["tiger"] == 2
        assert {answer.json()["version"] for answer in answers} <= {before["version"], facts(service)["version"]}


@pytest.mark.long
def test_beside_an_update_in_a_loop_every_request_is_answered_by_a_whole_model(model, tmp_path, cat):
    write_folder(tmp_path / "more", count=1, seed=1, names=("cat",))
    with running(model, log=tmp_path / "log") as service, ThreadPoolExecutor(2) as asking:
        ended = threading.Event()

        def ask_all_the_time():
            found = []
            while not ended.is_set():
                found.append(service.client.post("/v1/predict", content=cat, headers=JPEG))
            return found

        asked = [asking.submit(ask_all_the_time) for _ in range(2)]
        for _ in range(6):
            run("update", model, tmp_path / "more", "-q")
            run("forget", model, tmp_path / "more", "-q")
        run("update", model, tmp_path / "more", "-q")
        wait_until(lambda: facts(service)["counts"]["cat"] == 7, service.process)
        ended.set()
        answers = [answer for one in asked for answer in one.result()]
        assert {answer.status_code for answer in answers} == {200}
        assert {answer.json()["predictions"][0]["label"] for answer in answers} == {"cat"}
        log = service.log.read_text()
        assert log.count("is now in use") > 2
        assert "Hot reload failed" not in log
        assert "Traceback" not in log


def test_a_model_from_before_or_after_its_time_is_taken_up(model, tmp_path):
    """A clock that jumps gives files any time: what counts is that they are others, not that they are newer."""
    write_folder(tmp_path / "more", count=1, seed=1, names=("cat",))
    for file in model.iterdir():
        os.utime(file, (4e9, 4e9))  # in the year 2096
    current = Current(model)
    before = current.served.version
    for years, verb in ((-40, "update"), (0, "forget"), (70, "update")):
        run(verb, model, tmp_path / "more", "-q")
        for file in model.iterdir():
            os.utime(file, (1.7e9 + 3e7 * years, 1.7e9 + 3e7 * years))
        current.reload_if_changed()
        assert current.error is None
        assert current.served.version != before
        before = current.served.version


def test_a_broken_model_is_reported_and_the_old_one_stays(model, tmp_path, cat):
    with running(model, log=tmp_path / "log") as service:
        before = facts(service)
        good = (model / "mapping.safetensors").read_bytes()
        (model / "mapping.safetensors").write_bytes(good[:-8])
        wait_until(lambda: facts(service)["error"] is not None)
        assert "mapping.safetensors" in facts(service)["error"]
        assert facts(service)["version"] == before["version"]
        assert service.client.post("/v1/predict", content=cat, headers=JPEG).status_code == 200
        assert service.counted('yoro_models_total{outcome="refused"}') == 1
        assert "previous model stays" in service.log.read_text()
        (model / "mapping.safetensors").write_bytes(good)
        wait_until(lambda: facts(service)["error"] is None)
        shutil.rmtree(model)
        wait_until(lambda: facts(service)["error"] is not None)
        assert service.client.post("/v1/predict", content=cat, headers=JPEG).status_code == 200


def test_feedback_is_off_unless_asked_for(service, cat):
    assert service.client.post("/v1/feedback?label=cat", content=cat, headers=JPEG).status_code == 404


def test_feedback_is_the_update_of_the_command(model, tmp_path):
    write_folder(tmp_path / "more", count=2, seed=1)
    plain = shutil.copytree(model, tmp_path / "plain.yoro")
    run("update", plain, tmp_path / "more", "-q")
    with running(model, "--feedback", log=tmp_path / "log") as service, ThreadPoolExecutor(4) as clients:

        def teach(folder):
            sent = [("images", (file.name, file.read_bytes())) for file in sorted(folder.iterdir())]
            return service.client.post("/v1/feedback", params={"label": folder.name}, files=sent)

        answers = list(clients.map(teach, sorted((tmp_path / "more").iterdir())))
        assert [answer.status_code for answer in answers] == [200] * 4
        assert [answer.json()["added"] for answer in answers] == [2] * 4
        again = teach(tmp_path / "more" / "cat").json()
        assert (again["added"], again["known"], again["examples"]) == (0, 2, 32)
        assert facts(service)["version"] == again["version"]
    mine, theirs = yoro.load(model), yoro.load(plain)
    assert sorted(mine.model.ledger.entries()) == sorted(theirs.model.ledger.entries())
    assert mine.predict_proba(tmp_path / "more") == pytest.approx(theirs.predict_proba(tmp_path / "more"), abs=1e-4)
    last = mine.model.history[-1]
    assert (last["verb"], last["passes"]) == ("feedback", 1)
    run("forget", model, tmp_path / "more", "-q")


def test_feedback_makes_new_classes_and_refuses_what_is_none(model, tmp_path, cat):
    with running(model, "--feedback", log=tmp_path / "log") as service:

        def teach(label, content=cat):
            return service.client.post("/v1/feedback", params={"label": label}, content=content, headers=JPEG)

        assert teach(" new\u0308 ").status_code == 200
        assert "new\u0308".replace("u\u0308", "ü") in [*facts(service)["classes"], "new\u0308"]
        before = json.loads((model / "config.json").read_text())["digest"]
        for label, content in (("", cat), ("  ", cat), ("\u200b", cat), ("x" * 201, cat), ("cat", b"words")):
            refused = teach(label, content)
            assert refused.status_code == 422, label
            assert refused.json()["error"]
        assert json.loads((model / "config.json").read_text())["digest"] == before


def test_feedback_beside_another_writer_loses_nothing(model, tmp_path, cat):
    write_folder(tmp_path / "more", count=3, seed=2, names=("coffee",))
    with running(model, "--feedback", log=tmp_path / "log") as service, ThreadPoolExecutor(2) as hands:
        other = hands.submit(run, "update", model, tmp_path / "more", "-q")
        mine = service.client.post("/v1/feedback", params={"label": "kitten"}, content=cat, headers=JPEG)
        other.result()
        assert mine.status_code == 200
    counts = json.loads((model / "config.json").read_text())["counts"]
    assert (counts["kitten"], counts["coffee"]) == (1, 9)
