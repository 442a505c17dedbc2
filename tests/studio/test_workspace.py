"""What was done is on the disk, and is there again after a kill."""

from __future__ import annotations

import signal
import sqlite3

import numpy as np
import pytest

from child import finish
from studios import studio_at
from yoro.errors import InputError, StoreError
from yoro.studio.workspace import JOURNAL, Workspace


def test_a_kill_loses_no_step_and_no_response(tmp_path, photos):
    with studio_at(tmp_path / "work", photos) as studio:
        before = studio.settled()
        answer = studio.tried((photos / "cat" / "000.jpg").read_bytes())
        studio.post("remove", photos=[studio.photos(1)[0]["digest"]])
        studio.post("classes", name="late")
        studio.process.send_signal(signal.SIGKILL)
        studio.process.wait()
    with studio_at(tmp_path / "work") as studio:
        state = studio.get("state")
        assert [c["name"] for c in state["classes"]] == [*(c["name"] for c in before["classes"]), "late"]
        assert (state["photos"], state["read"]) == (23, 23)  # none is read a second time
        assert (state["undo"], state["revision"]) == ("Add the class late", before["revision"] + 2)
        studio.post("undo")
        studio.post("undo")
        after = studio.settled()
        assert after["accuracy"] == before["accuracy"]
        again = studio.tried((photos / "cat" / "000.jpg").read_bytes())
        assert again["bars"] == answer["bars"]
        studio.post("redo")
        assert studio.settled()["photos"] == 23


def test_two_studios_do_not_share_a_folder(tmp_path):
    work = Workspace(tmp_path / "work")
    done = finish("-m", "yoro", "studio", "--work", tmp_path / "work", "--port", "0")
    assert done.returncode == 1
    assert "Another studio has" in done.stderr
    work.close()
    Workspace(tmp_path / "work").close()


def test_a_damaged_journal_is_an_error_that_says_so(tmp_path):
    work = Workspace(tmp_path / "work")
    work.do(work.state.adding_class("cat")[0])
    work.close()
    for entry in ("{", "[]", '{"undo": true}', '{"what": "x", "classes": [[1, 2]], "photos": []}'):
        with sqlite3.connect(tmp_path / "work" / JOURNAL) as database:
            database.execute("DELETE FROM journal")
            database.execute("INSERT INTO journal (entry) VALUES (?)", (entry,))
        database.close()
        with pytest.raises(StoreError, match="is damaged"):
            Workspace(tmp_path / "work")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / JOURNAL).write_bytes(b"no database at all, but long enough to be looked at" * 100)
    with pytest.raises(StoreError, match="is damaged"):
        Workspace(tmp_path / "other")


@pytest.mark.long
def test_tidying_deletes_what_was_removed_and_keeps_the_rest(tmp_path, photos):
    with studio_at(tmp_path / "work", photos) as studio:
        before = studio.settled()
        gone = studio.photos(1)[0]
        studio.post("remove", photos=[gone["digest"]])
        studio.process.terminate()
        studio.process.wait()
    work = Workspace(tmp_path / "work")
    assert work.photo(gone["digest"]).exists()
    assert work.tidy() == 1
    assert not work.photo(gone["digest"]).exists()
    assert not work.small(gone["digest"]).exists()
    work.close()
    everything = b"".join(path.read_bytes() for path in (tmp_path / "work").glob("work.sqlite*"))
    assert gone["digest"].encode() not in everything
    with studio_at(tmp_path / "work") as studio:
        state = studio.settled()
        assert (state["photos"], state["read"], state["undo"]) == (before["photos"] - 1, 23, None)
        assert [c["name"] for c in state["classes"]] == [c["name"] for c in before["classes"]]


def test_responses_of_another_source_or_width_are_not_taken(tmp_path):
    work = Workspace(tmp_path / "work")
    digests = [f"{i:032x}" for i in range(3)]
    work.keep_responses("a", {digests[0]: np.ones(4), digests[1]: np.ones(5)})
    work.keep_responses("a", {digests[2]: np.full(4, np.nan)})
    assert list(work.responses("a", 4)) == digests[:1]
    assert work.responses("b", 4) == {}
    with pytest.raises(InputError):
        work.photo("../../outside")
    work.close()
