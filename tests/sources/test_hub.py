"""Files of a hub: fetched once, resumed, checked, and kept as the hub's own client keeps them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from child import wait_until
from loopback_hub import COMMIT, LoopbackHub, digest, hub_files, network, repository, serving
from yoro.errors import SourceError
from yoro.sources.hub import check_file
from yoro.sources.hub_requests import _redirected, _token

NAME = "someone/network"
FILE = "onnx/model.onnx"
PROGRAM = f"""
import sys
sys.path.append({str(Path(__file__).parents[1])!r})
from loopback_hub import hub_files
hub_files({NAME!r}, "main", [{{!r}}])
"""
VARIABLES = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN", "HF_HUB_OFFLINE", "http_proxy", "HTTP_PROXY")


@pytest.fixture
def hub(tmp_path, monkeypatch, socket_enabled):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    with serving(LoopbackHub({NAME: repository()})) as served:
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        yield served


@pytest.fixture
def home(tmp_path):
    return tmp_path / "hf" / "hub" / "models--someone--network"


def files_under(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def test_a_file_is_fetched_once_and_found_again(hub, home):
    folder = hub_files(NAME, "main", [FILE, "README.md"], optional=["config.json"])
    assert folder == home / "snapshots" / COMMIT
    assert (folder / FILE).read_bytes() == hub.files[NAME][FILE]
    assert (folder / FILE).readlink() == Path("../../../blobs") / digest(FILE, hub.files[NAME][FILE])
    assert (home / "refs/main").read_text() == COMMIT
    assert files_under(home / ".no_exist") == {f"{COMMIT}/config.json"}
    hub.asked.clear()
    assert hub_files(NAME, COMMIT, [FILE, "README.md"], optional=["config.json"]) == folder
    assert not hub.asked  # a commit does not change
    assert hub_files(NAME, "main", [FILE]) == folder
    assert [asked.path for asked in hub.asked] == [f"/api/models/{NAME}/revision/main"]  # a branch may


def test_the_hubs_own_client_finds_what_was_fetched_and_its_files_are_found(hub, home, tmp_path, monkeypatch):
    client = pytest.importorskip("huggingface_hub")
    folder = hub_files(NAME, "main", [FILE], optional=["config.json"])
    cache = tmp_path / "hf" / "hub"
    for revision in ("main", COMMIT):
        assert Path(client.try_to_load_from_cache(NAME, FILE, cache_dir=cache, revision=revision)) == folder / FILE
        found = client.hf_hub_download(NAME, FILE, cache_dir=cache, revision=revision, local_files_only=True)
        assert Path(found) == folder / FILE
    assert client.try_to_load_from_cache(NAME, "config.json", cache_dir=cache) is client._CACHED_NO_EXIST
    theirs = tmp_path / "theirs"
    client.hf_hub_download(NAME, FILE, cache_dir=theirs, endpoint=hub.url)
    monkeypatch.setenv("HF_HUB_CACHE", str(theirs))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert (hub_files(NAME, "main", [FILE]) / FILE).read_bytes() == hub.files[NAME][FILE]


def test_a_cut_download_goes_on_where_it_stopped(hub, home):
    hub.faults[FILE] = "cut 100"
    with pytest.raises(SourceError, match=r"stopped at 100 of \d+ bytes.*to resume"):
        hub_files(NAME, "main", [FILE])
    assert not (home / "snapshots" / COMMIT / FILE).exists()
    assert not (home / "refs").exists()  # what is not there is not the branch yet
    del hub.faults[FILE]
    assert (hub_files(NAME, "main", [FILE]) / FILE).read_bytes() == hub.files[NAME][FILE]
    assert [asked.headers.get("Range") for asked in hub.requests()] == [None, "bytes=100-"]
    assert not list((home / "blobs").glob("*.incomplete"))


def test_killed_while_it_downloads_it_leaves_nothing_that_looks_finished(hub, home):
    hub.faults[FILE] = "stall 150"
    program = PROGRAM.format(FILE)
    child = subprocess.Popen([sys.executable, "-c", program])
    wait_until(lambda: hub.requests())
    child.kill()
    child.wait()
    assert not (home / "snapshots" / COMMIT / FILE).exists()
    assert all(name.endswith(".incomplete") for name in files_under(home / "blobs"))
    del hub.faults[FILE]
    assert (hub_files(NAME, "main", [FILE]) / FILE).read_bytes() == hub.files[NAME][FILE]


def test_a_host_that_cannot_resume_sends_all_again(hub):
    hub.faults[FILE] = "cut 100"
    with pytest.raises(SourceError, match="stopped at 100"):
        hub_files(NAME, "main", [FILE])
    hub.faults[FILE] = "no ranges"
    assert (hub_files(NAME, "main", [FILE]) / FILE).read_bytes() == hub.files[NAME][FILE]


def test_a_redirect_within_the_hub_is_followed(hub, monkeypatch):
    hub.faults = {"README.md": "hop", FILE: "hop"}
    monkeypatch.setenv("HF_TOKEN", "secret")
    folder = hub_files(NAME, "main", ["README.md", FILE])
    assert (folder / FILE).read_bytes() == hub.files[NAME][FILE]
    assert (folder / "README.md").read_bytes() == hub.files[NAME]["README.md"]
    assert {asked.headers.get("Authorization") for asked in hub.asked if asked.host == "hub"} == {"Bearer secret"}


@pytest.mark.parametrize("file", [FILE, "README.md"])
def test_what_has_not_the_hubs_digest_is_removed(hub, home, file):
    hub.faults[file] = "wrong" if file == FILE else "etag " + "0" * 40
    with pytest.raises(SourceError, match="does not match the hub's digest; it was removed"):
        hub_files(NAME, "main", [file])
    assert not files_under(home / "blobs")
    assert not files_under(home / "snapshots")


@pytest.mark.parametrize(
    ("repository", "revision", "faults", "said"),
    [
        (
            "someone/absent",
            "main",
            {},
            "has no public 'someone/absent' at 'main'. If it is private or gated, set HF_TOKEN",
        ),
        (NAME, "v9", {}, "has no 'someone/network' at 'v9'. Check the spelling"),
        (NAME, "main", {FILE: "status 404"}, f"has no '{FILE}' of 'someone/network'"),
        (
            NAME,
            "main",
            {FILE: "status 403"},
            f"refuses access to '{FILE}' of 'someone/network'",
        ),
        (NAME, "main", {"list": "status 401", "code": "GatedRepo"}, "on its page, and set HF_TOKEN"),
        (NAME, "main", {"list": "status 503"}, r"is unavailable (HTTP 503); try again later"),
        (NAME, "main", {"list": "status 418"}, r"refused 'someone/network' at 'main' (HTTP 418)"),
        ("no repository", "main", {}, "'no repository' is not a repository name; expected OWNER/NAME"),
        ("../../etc/x", "main", {}, "is not a repository name"),
        ("a--b/c", "main", {}, "is not a repository name"),
        (NAME, "../x", {}, "is not a revision"),
    ],
)
def test_an_error_of_the_hub_is_one_sentence(hub, home, repository, revision, faults, said):
    hub.faults.update(faults)
    with pytest.raises(SourceError) as caught:
        hub_files(repository, revision, [FILE])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not files_under(home)


HOSTILE = {
    "a commit that is a path": ({}, {NAME: "../../../../" + "x" * 28}, "names no commit for 'main'"),
    "a commit that is no text": ({}, {NAME: 7}, "names no commit for 'main'"),
    "a digest that is a path": ({FILE: "etag ../../../escaped"}, {}, "states no digest and size"),
    "no digest": ({FILE: "etag "}, {}, "states no digest and size"),
    "another commit": ({FILE: "commit " + "f" * 40}, {}, "answers with another commit"),
    "a huge file": ({FILE: "size 9000000000000"}, {}, "has 9,000,000,000,000 bytes, more than"),
    "a size that is no number": ({FILE: "size -5"}, {}, "states no digest and size"),
    "a redirect to a file": ({FILE: "to file:///etc/passwd"}, {}, "which is not followed"),
    "a redirect to ftp": ({FILE: "to ftp://127.0.0.1/x"}, {}, "which is not followed"),
    "a redirect without end": (
        {"list": "to /api/models/someone/network/revision/main"},
        {},
        "redirects more than 5 times",
    ),
    "a list without end": ({"list": "long"}, {}, "does not say what is in 'someone/network'"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_hub_writes_nothing_but_blobs_in_the_cache(hub, home, tmp_path, case):
    hub.faults, hub.commits, said = HOSTILE[case]
    with pytest.raises(SourceError) as caught:
        hub_files(NAME, "main", [FILE])
    assert said in str(caught.value)
    assert not [
        name
        for name in files_under(tmp_path)
        if not name.startswith(("hf/hub/models--someone--network/blobs/", "hf/hub/.locks/"))
    ]
    assert not (home / "snapshots" / COMMIT / FILE).exists()


@pytest.mark.parametrize(
    "name", ["../x", "/etc/x", "a/../../x", "a//x", "a/./x", "", "a\\x", "C:x", "a\nx", "a\0x", "x" * 5000, "y" * 250]
)
def test_a_name_that_leads_elsewhere_is_no_file(name):
    with pytest.raises(SourceError, match="is not the name of a file in a repository"):
        check_file(name)


def test_names_that_lead_elsewhere_are_left_out_of_the_list(hub, tmp_path):
    hub.files[NAME] |= {"../../../escaped.onnx": b"x", "/absolute.onnx": b"x"}
    with pytest.raises(SourceError, match="is not the name of a file"):
        hub_files(NAME, "main", ["../../../escaped.onnx"])
    assert (hub_files(NAME, "main", [FILE]) / FILE).is_file()
    assert not [name for name in files_under(tmp_path) if "escaped" in name or "absolute" in name]


def test_a_redirect_from_https_stays_there():
    here = "https://hub/x"
    assert _redirected(here, "/y", "it") == "https://hub/y"
    assert _redirected("http://hub/x", "http://storage/y", "it") == "http://storage/y"
    for place in ("http://hub/y", "file:///etc/passwd", "//user@hub/y", "javascript:x", ""):
        with pytest.raises(SourceError, match="which is not followed"):
            _redirected(here, place, "it")


def test_a_token_is_sent_to_the_hub_alone(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    hub_files(NAME, "main", [FILE])
    assert {asked.headers.get("Authorization") for asked in hub.asked if asked.host == "hub"} == {"Bearer secret"}
    assert {asked.headers.get("Authorization") for asked in hub.requests()} == {None}
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.example")
    assert _token("http://hub.example/x") == {}  # anybody on the way could read it
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.example")
    assert _token("https://hub.example/x") == {"Authorization": "Bearer secret"}
    assert _token("https://hub.example.org/x") == {}


def test_offline_nobody_is_asked(hub, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(SourceError, match="would have to be downloaded, but HF_HUB_OFFLINE is set"):
        hub_files(NAME, "main", [FILE])
    assert not hub.asked


def test_a_hub_that_cannot_be_reached_is_an_error_only_for_what_is_not_here(hub, monkeypatch):
    hub_files(NAME, "main", [FILE])
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert (hub_files(NAME, "main", [FILE]) / FILE).is_file()
    with pytest.raises(
        SourceError, match=r"'README.md' of 'someone/network' is not on this machine: 127.0.0.1:9 cannot"
    ):
        hub_files(NAME, "main", ["README.md"])
    with pytest.raises(SourceError, match=r"127.0.0.1:9 cannot be reached .* `yoro models` lists them"):
        hub_files("someone/else", "main", [FILE])


def test_an_address_that_is_no_hub_is_refused(hub, monkeypatch):
    for address in ("file:///etc", "hub", "https://user:word@hub", "https://"):
        monkeypatch.setenv("HF_ENDPOINT", address)
        with pytest.raises(SourceError, match="expected the address of a hub"):
            hub_files(NAME, "main", [FILE])


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit on the size of files")
def test_a_full_disk_is_an_error_and_the_download_goes_on_later(hub, home):
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))  # no file may be longer: what a full disk does, too
    try:
        with pytest.raises(SourceError, match=r"Cannot write to the hub's cache .*models--someone--network': File too"):
            hub_files(NAME, "main", [FILE])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not files_under(home / "snapshots")
    assert (hub_files(NAME, "main", [FILE]) / FILE).read_bytes() == hub.files[NAME][FILE]
    assert hub.requests()[-1].headers["Range"] == "bytes=100-"


def test_two_at_once_fetch_a_file_once(hub):
    hub.files[NAME]["onnx/large.bin"] = os.urandom(20_000_000)
    program = PROGRAM.format("onnx/large.bin")
    children = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(2)]
    assert [child.wait() for child in children] == [0, 0]
    assert len(hub.requests()) == 1


def test_a_branch_that_moved_is_fetched_anew(hub, home):
    hub_files(NAME, "main", [FILE])
    hub.commits[NAME] = "f" * 40
    hub.files[NAME][FILE] = network(1)["model.onnx"]
    folder = hub_files(NAME, "main", [FILE])
    assert folder.name == "f" * 40
    assert (folder / FILE).read_bytes() == hub.files[NAME][FILE]
    assert (home / "refs/main").read_text() == "f" * 40
    assert (hub_files(NAME, COMMIT, [FILE]) / FILE).read_bytes() == network()["model.onnx"]
