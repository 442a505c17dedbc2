"""An endpoint that fails as endpoints do, compared with one that does not."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import yoro
from child import BOUND, start, wait_until
from command_line import invoke, run
from hostile_endpoint import describe, hostile
from photos import write_folder
from yoro.errors import AnswerError, SourceError
from yoro.sources import open_source
from yoro.sources.endpoint.journal import Journal

PASSING = ["reset before", "reset after", "429", "500", "slow"]


def answered(journal: Path) -> set[str]:
    """The keys that have an answer in the journal."""
    try:
        with sqlite3.connect(journal) as database:
            rows = database.execute("SELECT hex(key) FROM calls WHERE vector IS NOT NULL").fetchall()
    except sqlite3.OperationalError:  # not there yet
        return set()
    finally:
        database.close()
    return {key.lower() for (key,) in rows}


def lost(journal: Path) -> int:
    with sqlite3.connect(journal) as database:
        (request,) = database.execute("SELECT request FROM calls LIMIT 1").fetchone()
    database.close()
    return Journal(journal).totals(request).lost


def same(one, two) -> None:
    """The same mapping to the last bit: the same answers in the same order."""
    np.testing.assert_array_equal(one.mapping.weights, two.mapping.weights)
    np.testing.assert_array_equal(one.mapping.bias, two.mapping.bias)


def killed_twice(tmp_path: Path, count: int) -> None:
    """A fit over an endpoint that fails a fifth of all calls, killed at about a quarter and a half of its answers."""
    photos = write_folder(tmp_path / "photos", count=count)
    (tmp_path / "sound").mkdir()
    with hostile(tmp_path) as sound:
        wanted = yoro.fit(photos, source=describe(tmp_path / "sound", sound.url, concurrency=16)).model
        images = len(sound.noted("delivered")) - 1  # without the grey one; crops that are equal count once
        assert 0.99 * 4 * count < images <= 4 * count
    journal = tmp_path / "answers.sqlite"
    with hostile(tmp_path, faults=PASSING, share=0.2, delay=0.02) as endpoint:
        source = describe(tmp_path, endpoint.url, concurrency=16, timeout=3.0)
        words = ["-m", "yoro", "fit", photos, "--out", tmp_path / "m.yoro", "--source", source, "--workers", 0]
        for share in (0.25, 0.5):
            child = start(*words, stderr=subprocess.DEVNULL)
            wait_until(lambda share=share: len(answered(journal)) >= share * images, child)
            child.send_signal(signal.SIGKILL)
            child.wait(BOUND)
            kept, before = answered(journal), endpoint.lines
            assert kept
            assert not (tmp_path / "m.yoro").exists()
            done = run("fit", photos, "--out", tmp_path / "x.yoro", "--source", source, "--dry-run")
            assert f"{images - len(kept) + 1} calls" in done.stdout  # the grey image is among the kept
        ended = start(*words, stderr=subprocess.PIPE)
        said = ended.communicate(timeout=BOUND)[1]
        assert ended.returncode == 0, said
        again = {line["key"] for line in endpoint.noted("asked", after=before)}
        assert not kept & again, "an answered call was asked again"
        delivered = Counter(line["key"] for line in endpoint.noted("delivered"))
        assert set(delivered) == answered(journal)
        assert len(delivered) == images + 1
        twice = sum(number - 1 for number in delivered.values())
        assert twice <= lost(journal)  # an answer that came twice was lost the first time, and counted
        assert f"{lost(journal)} answers lost in transit" in said
        fates = {line["fate"] for line in endpoint.noted("asked")}
        assert fates <= {*PASSING, "answered"}
        assert len(fates) > 3  # which of them came is drawn, and may leave one out
    same(yoro.load(tmp_path / "m.yoro").model, wanted)


def test_killed_twice_over_a_failing_endpoint_no_answered_call_is_repeated(tmp_path):
    killed_twice(tmp_path, 12)


@pytest.mark.long
def test_a_thousand_images_killed_twice_over_a_failing_endpoint(tmp_path):
    killed_twice(tmp_path, 250)


@pytest.mark.parametrize(
    "fault",
    [
        "slow",
        "429",
        *(pytest.param(f, marks=pytest.mark.long) for f in ("reset before", "reset after", "500", "408", "503")),
    ],
)
def test_what_passes_is_tried_again_and_changes_nothing(tmp_path, few, undisturbed, fault):
    with hostile(tmp_path, faults=[fault], share=0.25) as endpoint:
        source = describe(tmp_path, endpoint.url, timeout=2.0 if fault == "slow" else 300.0)
        same(yoro.fit(few, source=source).model, undisturbed)
        assert fault in {line["fate"] for line in endpoint.noted("asked")}
        assert len({line["key"] for line in endpoint.noted("asked")}) == 33


FINAL = {
    "short": "the vector has 63 numbers; expected 64",
    "nan": "contains NaN",
    "words": "expected a list of numbers",
    "missing": r"nothing at data\[0\].embedding",
    "no json": "not JSON: '<html>bad gateway</html>'",
    "huge": "more than 4,194,304 bytes",
    "400": "answered 400: 'no: None is not liked'",
    "401": "answered 401",
    "redirect": "redirects to 'http://127.0.0.1:9/elsewhere' .307.",
    "wait an hour": "asks us to wait 3,600 s, more than the 60 of longest_wait",
}


# An answer that is no vector, one that is too large, a refusal, and a wait; the others end the run in the same way.
QUICK = ("short", "huge", "401", "wait an hour")


@pytest.mark.parametrize(
    "fault", [fault if fault in QUICK else pytest.param(fault, marks=pytest.mark.long) for fault in FINAL]
)
def test_what_does_not_pass_ends_the_run_and_what_was_answered_is_kept(tmp_path, few, undisturbed, fault):
    mended = tmp_path / "mended"
    with hostile(tmp_path, faults=[fault], good_first=10, mended=mended) as endpoint:
        source = describe(tmp_path, endpoint.url)
        with pytest.raises(SourceError, match=FINAL[fault]) as raised:
            yoro.fit(few, source=source)
        if isinstance(raised.value, AnswerError):
            assert any(name in str(raised.value) for name in ("astronaut/0", "cat/0", "coffee/0", "rocket/0"))
        asked = Counter(line["key"] for line in endpoint.noted("asked"))
        assert max(asked.values()) == 1, "it was tried again"
        kept, before = answered(tmp_path / "answers.sqlite"), endpoint.lines
        assert kept == {line["key"] for line in endpoint.noted("delivered")}
        assert len(kept) == 10
        mended.touch()
        same(yoro.fit(few, source=source).model, undisturbed)
        assert not kept & {line["key"] for line in endpoint.noted("asked", after=before)}


def test_a_redirect_takes_nothing_to_another_host(tmp_path, few, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sesame-4711")
    with hostile(tmp_path) as other, hostile(tmp_path, faults=["redirect"], elsewhere=other.url) as endpoint:
        source = describe(tmp_path, endpoint.url, headers=CREDENTIAL)
        with pytest.raises(SourceError, match="not followed"):
            yoro.fit(few, source=source)
        assert endpoint.noted("asked")[0]["sent"] == "Bearer sesame-4711"
        assert other.lines == 0


CREDENTIAL = '[headers]\nauthorization = {env = "MY_KEY", prefix = "Bearer "}\n'


@pytest.mark.parametrize("fault", ["reset after", "401"])
def test_a_credential_is_in_no_file_and_no_sentence(tmp_path, few, monkeypatch, fault):
    secret = "sesame-4711-öffne".encode().hex()
    monkeypatch.setenv("MY_KEY", secret)
    (tmp_path / "logs").mkdir()
    with hostile(tmp_path / "logs", faults=[fault], share=0.2 if fault == "reset after" else 1.0) as endpoint:
        source = describe(tmp_path, endpoint.url, headers=CREDENTIAL)
        words = ["-m", "yoro", "fit", few, "--out", tmp_path / "m.yoro", "--source", source, "--debug"]
        with (tmp_path / "said").open("w") as said:
            code = start(*words, stderr=said, stdout=said).wait(BOUND)
        assert endpoint.noted("asked")[0]["sent"] == f"Bearer {secret}"
    assert (code == 0) == (fault == "reset after")
    assert ("***" in (tmp_path / "said").read_text()) == (fault == "401")  # the server repeats it
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.parent.name != "logs"]
    assert any(path.name == "answers.sqlite" for path in files)
    for path in files:
        assert secret.encode() not in path.read_bytes(), path


def test_a_vanished_endpoint_is_an_error_and_nothing_counts_as_sent(tmp_path, few):
    with hostile(tmp_path) as endpoint:
        source = describe(tmp_path, endpoint.url, retries=1, width=64)
    with pytest.raises(SourceError, match=r"cannot be reached .* times in a row"):
        yoro.fit(few, source=source)
    assert lost(tmp_path / "answers.sqlite") == 0


def test_an_endpoint_that_fails_every_call_is_not_called_for_every_image(tmp_path, few):
    with hostile(tmp_path, faults=["500"]) as endpoint:
        source = describe(tmp_path, endpoint.url, retries=2, concurrency=2, width=64)
        with pytest.raises(SourceError, match=r"answered 500: .*, [67] times in a row"):
            yoro.fit(few, source=source)
        assert len(endpoint.noted("asked")) in (6, 7)  # three rounds of two, and one that was on its way


def test_a_budget_is_kept_to_the_call_and_the_next_run_goes_on(tmp_path, few, undisturbed):
    with hostile(tmp_path, faults=["500"], share=0.3) as endpoint:
        source = describe(tmp_path, endpoint.url)
        ended = invoke("fit", few, "--out", tmp_path / "m.yoro", "--source", source, "--budget", 12)
        assert (ended.code, len(endpoint.noted("asked"))) == (1, 12)
        assert "The budget of 12 calls is spent" in ended.stderr
        assert "to resume" in ended.stderr
        run("fit", few, "--out", tmp_path / "m.yoro", "--source", source)
        assert max(Counter(line["key"] for line in endpoint.noted("delivered")).values()) == 1
        done = run("evaluate", tmp_path / "m.yoro", few, "--source", source, "--budget", 0)
        assert "0 calls made now" in done.stderr
    same(yoro.load(tmp_path / "m.yoro").model, undisturbed)


def test_a_dry_run_asks_nothing_and_counts_what_is_there(tmp_path, few):
    with hostile(tmp_path) as endpoint:
        source = describe(tmp_path, endpoint.url, price=0.002, currency="EUR")
        words = ["fit", few, "--out", tmp_path / "m.yoro", "--source", source]
        assert "32 images, 0 answered before: 33 calls" in run(*words, "--dry-run").stdout
        assert "0.066 EUR at 0.002 each" in run(*words, "--dry-run").stdout
        assert not (tmp_path / "answers.sqlite").exists()
        invoke(*words, "--budget", 11)
        before = endpoint.lines
        assert "32 images, 10 answered before: 22 calls" in run(*words, "--dry-run").stdout
        assert "64 images, 10 answered before: 54 calls" in run(*words, "--dry-run", "--views", 2).stdout
        assert "22 calls" in run("respond", few, "--out", tmp_path / "z.npz", "--source", source, "--dry-run").stdout
        assert endpoint.lines == before


def test_a_dry_run_of_a_model_counts_what_its_verbs_would_ask(tmp_path, few):
    with hostile(tmp_path) as endpoint:
        source = describe(tmp_path, endpoint.url, price=0.5)
        run("fit", few, "--out", tmp_path / "m.yoro", "--source", source)
        write_folder(tmp_path / "new", count=3, seed=5)
        before, saved = endpoint.lines, (tmp_path / "m.yoro" / "config.json").read_bytes()
        for verb in ("predict", "evaluate", "update"):
            words = [verb, tmp_path / "m.yoro", tmp_path / "new", "--source", source, "--dry-run"]
            assert "12 images, 0 answered before: 12 calls" in run(*words).stdout
        words = ["evaluate", tmp_path / "m.yoro", few, "--source", source, "--dry-run"]
        assert "32 images, 32 answered before: 0 calls" in run(*words).stdout
        assert endpoint.lines == before
        assert (tmp_path / "m.yoro" / "config.json").read_bytes() == saved


def test_several_images_go_into_a_request_and_give_the_same_model(tmp_path, few, undisturbed):
    with hostile(tmp_path, faults=["reset before", "429", "500"], share=0.3) as endpoint:
        source = describe(tmp_path, endpoint.url, answer="data[].embedding", images=5, width=64)
        words = ["fit", few, "--out", tmp_path / "m.yoro", "--source", source]
        assert "32 images, 0 answered before: 7 calls" in run(*words, "--dry-run").stdout
        run(*words)
        assert len(endpoint.noted("delivered")) == 7
        same(yoro.load(tmp_path / "m.yoro").model, undisturbed)
        one = describe(tmp_path, endpoint.url, name="one.toml", width=64)  # the same answers, one at a time
        run("fit", few, "--out", tmp_path / "again.yoro", "--source", one, "--budget", 0)


def test_answers_in_another_order_are_put_into_that_of_the_images(tmp_path, few, undisturbed):
    with hostile(tmp_path, faults=["reversed"]) as endpoint:
        source = describe(tmp_path, endpoint.url, answer="data[].embedding", images=5, width=64)
        said = run("fit", few, "--out", tmp_path / "m.yoro", "--source", source).stderr
        same(yoro.load(tmp_path / "m.yoro").model, undisturbed)
        assert "7 calls made now. 32 answers in the journal; 32 images sent so far." in said
        assert f"--source {source}" in said  # without which `predict` asks nobody


@pytest.mark.parametrize("fault", ["one more", "missing"])
def test_an_answer_with_more_or_fewer_vectors_than_images_is_refused(tmp_path, few, fault):
    with hostile(tmp_path, faults=[fault]) as endpoint:
        source = describe(tmp_path, endpoint.url, answer="data[].embedding", images=4, width=64)
        ended = invoke("fit", few, "--out", tmp_path / "m.yoro", "--source", source)
        assert "expected a list of 4, one for each image" in ended.stderr


def test_one_bad_vector_of_several_names_its_image(tmp_path, few):
    with hostile(tmp_path, faults=["short"]) as endpoint:
        source = describe(tmp_path, endpoint.url, answer="data[].embedding", images=4, width=64)
        ended = invoke("fit", few, "--out", tmp_path / "m.yoro", "--source", source)
        assert "the vector has 63 numbers; expected 64" in ended.stderr
        assert ".jpg" in ended.stderr


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"images": 4}, "answer must say where the vector of each image is"),
        ({"images": 4, "answer": "data[].embedding", "body": '[body]\ninput = "{{image_base64}}"\n'}, "item of a list"),
        ({"images": 0}, "expected 1 to 256"),
        ({"answer": "data[][].embedding"}, "is not a JSON path"),
    ],
)
def test_a_file_that_cannot_take_several_images_says_why(tmp_path, more, said):
    with pytest.raises(SourceError, match=said):
        open_source(describe(tmp_path, "http://127.0.0.1:9/embed", **more))


def test_two_processes_that_want_the_same_images_ask_once(tmp_path, few):
    with hostile(tmp_path, delay=0.2) as endpoint:
        source = describe(tmp_path, endpoint.url, concurrency=4, width=64)
        words = ["-m", "yoro", "respond", few, "--source", source, "--out"]
        children = [start(*words, tmp_path / f"{i}.npz", stderr=subprocess.PIPE) for i in range(2)]
        said = [child.communicate(timeout=BOUND)[1] for child in children]
        assert [child.returncode for child in children] == [0, 0], said
        asked = [line["key"] for line in endpoint.noted("asked")]
        assert len(asked) == len(set(asked)) == 32
        one, two = (np.load(tmp_path / f"{i}.npz")["responses"] for i in range(2))
        np.testing.assert_array_equal(one, two)


def test_after_ctrl_c_what_was_on_its_way_is_kept(tmp_path, few):
    with hostile(tmp_path, delay=0.5) as endpoint:
        source = describe(tmp_path, endpoint.url, concurrency=2)
        child = start(
            "-m", "yoro", "fit", few, "--out", tmp_path / "m.yoro", "--source", source, stderr=subprocess.PIPE
        )
        wait_until(lambda: len(endpoint.noted("asked")) >= 4, child)
        child.send_signal(signal.SIGINT)
        said = child.communicate(timeout=BOUND)[1]
        assert child.returncode == 130, said
        assert answered(tmp_path / "answers.sqlite") == {line["key"] for line in endpoint.noted("delivered")}
        assert 2 <= len(endpoint.noted("delivered")) < 33
        assert f"{len(endpoint.noted('delivered'))} answers in the journal" in said
        assert "Nothing was written" not in said


def test_a_full_disk_stops_the_run_and_loses_no_answer(tmp_path, few, undisturbed):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "none", disk], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        with hostile(tmp_path) as endpoint:
            source = describe(tmp_path, endpoint.url, journal=str(disk / "answers.sqlite"))
            ended = invoke("fit", few, "--out", tmp_path / "m.yoro", "--source", source)
            assert ended.code == 1
            assert "cannot be written" in ended.stderr
            assert not (tmp_path / "m.yoro").exists()
            kept, before = answered(disk / "answers.sqlite"), endpoint.lines
            assert 0 < len(kept) < 33
            subprocess.run(["mount", "-o", "remount,size=16m", disk], check=True)
            run("fit", few, "--out", tmp_path / "m.yoro", "--source", source)
            assert not kept & {line["key"] for line in endpoint.noted("asked", after=before)}
        same(yoro.load(tmp_path / "m.yoro").model, undisturbed)
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def test_a_rate_and_a_number_at_once_are_kept(tmp_path, few):
    with hostile(tmp_path, delay=0.05) as endpoint:
        yoro.fit(few, source=describe(tmp_path, endpoint.url, concurrency=3, rate="40/s"))
        asked = endpoint.noted("asked")
        assert max(line["together"] for line in asked) <= 3
        # The grey image was answered before the others began, so that none of their 31 gaps is shortened by a delay.
        assert asked[-1]["at"] - asked[0]["at"] >= 0.99 * 31 / 40
