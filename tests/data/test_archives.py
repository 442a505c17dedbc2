"""Archives: the same data as a folder, and strangers' archives that are refused or do no harm."""

from __future__ import annotations

import gzip
import io
import shutil
import stat
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yoro import limits
from yoro.data.decoding import digest
from yoro.data.examples import Member
from yoro.data.find import find
from yoro.data.geometry import Geometry
from yoro.data.loading import load
from yoro.errors import ImageError, InputError

from .conftest import save

KINDS = {".zip": "zip", ".tar": "tar", ".tar.gz": "gztar", ".tar.bz2": "bztar"}


def packed(folder: Path, suffix: str) -> Path:
    return Path(shutil.make_archive(str(folder.parent / "packed"), KINDS[suffix], folder))


def of_members(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("suffix", KINDS)
@pytest.mark.parametrize("workers", [0, 2])
def test_an_archive_is_read_as_its_folder_is(flowers: Path, suffix: str, workers: int) -> None:
    folder, archive = find(flowers), find(packed(flowers, suffix))
    assert archive.examples == folder.examples
    for one, other in zip(
        *(load(d.examples, Geometry(8), batch_size=4, workers=workers) for d in (folder, archive)), strict=True
    ):
        assert one.digests == other.digests
        assert (one.pixels == other.pixels).all()
        assert not other.failures
    unlabelled = find(packed(flowers, suffix), labelled=False)
    assert [example.name for example in unlabelled] == [example.name for example in folder]


def test_nothing_is_left_of_a_packed_tar(flowers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    found = find(packed(flowers, ".tar.gz"))
    assert digest(found.examples[0].image) == digest(flowers / "rose" / "0.png")
    assert list((tmp_path / "temporary").iterdir()) == []
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    del found
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors - 1


def test_an_archive_of_a_mac_with_a_folder_around_it(flowers: Path, tmp_path: Path) -> None:
    inner = tmp_path / "all" / "flowers"
    inner.parent.mkdir()
    shutil.copytree(flowers, inner)
    save(tmp_path / "all" / "__MACOSX" / "flowers" / "._0.png")
    found = find(packed(tmp_path / "all", ".zip"))
    assert found.classes == ["rose", "tulip"]
    assert found.examples[0].name == "flowers/rose/0.png"


@pytest.mark.parametrize("name", ["../a/x.png", "/etc/x.png", "a/../../x.png", "C:/x.png", "..\\x.png"])
def test_names_that_lead_out_are_ignored_and_said(tmp_path: Path, name: str) -> None:
    found = find(of_members(tmp_path / "a.zip", {name: b"x", "in/y.png": b"y"}), labelled=False)
    assert [example.name for example in found] == ["in/y.png"]
    assert "leads out of the archive" in " ".join(found.notes)


def test_links_in_archives_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.png"
    save(secret)
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for kind, name in (
            (tarfile.SYMTYPE, "soft.png"),
            (tarfile.LNKTYPE, "hard.png"),
            (tarfile.FIFOTYPE, "pipe.png"),
        ):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, str(secret)
            archive.addfile(entry)
        entry = tarfile.TarInfo("real.png")
        entry.size = 1
        archive.addfile(entry, io.BytesIO(b"x"))
    link = zipfile.ZipInfo("soft.png")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(link, str(secret))
        archive.writestr("real.png", b"x")
    for file in ("a.tar", "a.zip"):
        found = find(tmp_path / file, labelled=False)
        assert [example.name for example in found] == ["real.png"]
        assert "'soft.png'" in " ".join(found.notes)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an archive may unpack to beside its proportion is little, so that a bomb can be."""
    monkeypatch.setattr(limits, "IMAGE_FILE_BYTES", 10**6)


@pytest.mark.usefixtures("small")
def test_an_archive_that_unpacks_beyond_proportion_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(60):
            archive.writestr(f"a/{i}.png", bytes(10**6))
    with pytest.raises(InputError, match=r"would unpack to.*unpack it"):
        find(tmp_path / "bomb.zip")


@pytest.mark.usefixtures("small")
def test_a_packed_tar_is_refused_as_soon_as_it_grows_beyond_proportion(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "bomb.tar.gz", "wb") as file:
        for _ in range(60):
            file.write(bytes(10**6))
    with pytest.raises(InputError, match="would unpack to"):
        find(tmp_path / "bomb.tar.gz")


def test_limits_of_members_and_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = of_members(tmp_path / "many.zip", {f"a/{i}.png": b"x" for i in range(20)})
    deep = of_members(tmp_path / "deep.zip", {"/".join(["d"] * 30)[1:].lstrip("/") + ".png": b"x"})
    long = of_members(tmp_path / "long.zip", {"n" * 5000 + ".png": b"x"})
    with pytest.raises(InputError, match="names that are too long"):
        find(long)
    monkeypatch.setattr(limits, "PACKED_MEMBERS", 15)
    for archive in (many, deep):
        with pytest.raises(InputError, match="more than 15 files"):
            find(archive)


def test_a_tar_that_declares_a_huge_header_is_refused(tmp_path: Path) -> None:
    entry = tarfile.TarInfo("././@LongLink")
    entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, 2**33
    (tmp_path / "a.tar").write_bytes(entry.tobuf(tarfile.GNU_FORMAT) + bytes(2048))
    with pytest.raises(InputError, match="too long"):
        find(tmp_path / "a.tar")


def test_encrypted_strangely_packed_and_damaged_members_are_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("1.png", b"x" * 50)
        archive.writestr(zipfile.ZipInfo("2.png"), b"y" * 50, zipfile.ZIP_LZMA)
        archive.writestr("3.png", b"z" * 50)
    content = bytearray((tmp_path / "a.zip").read_bytes())
    content[content.index(b"zzz")] = 0
    place = content.index(b"PK\x01\x02")
    struct.pack_into("<H", content, place + 8, 1)
    (tmp_path / "a.zip").write_bytes(content)
    found = find(tmp_path / "a.zip", labelled=False)
    said = [message for batch in load(found.examples, Geometry(8), workers=1) for _, message in batch.failures]
    assert "encrypted" in said[0]
    assert "method 14" in said[1]
    assert "'3.png' cannot be read as an image: the archive is damaged here" in said[2]


@pytest.mark.parametrize("name", ["a.rar", "a.7z", "a.tar.xz"])
def test_archives_that_are_not_read_say_what_to_do(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(InputError, match="unpack it, or repack it as"):
        find(tmp_path / name)


@pytest.mark.parametrize("suffix", KINDS)
def test_what_is_no_archive_under_its_name_is_refused(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a{suffix}").write_bytes(b"no archive at all" * 100)
    with pytest.raises(InputError, match="archive"):
        find(tmp_path / f"a{suffix}")


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    root = tmp_path_factory.mktemp("archives")
    for label in ("a", "b"):
        save(root / "f" / label / "0.png")
    return {suffix: packed(root / "f", suffix).read_bytes() for suffix in KINDS}


@given(
    st.sampled_from(sorted(KINDS)),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=6),
    st.floats(0.2, 1),
)
def test_damaged_archives_end_in_errors_of_ours(
    archives: dict[str, bytes],
    tmp_path_factory: pytest.TempPathFactory,
    suffix: str,
    changes: list[tuple[float, int]],
    share: float,
) -> None:
    content = bytearray(archives[suffix])
    for place, value in changes:
        content[int(place * (len(content) - 1))] = value
    file = tmp_path_factory.getbasetemp() / f"damaged{suffix}"
    file.write_bytes(content[: int(len(content) * share)])
    try:
        for example in find(file, labelled=False):
            if isinstance(example.image, Member):
                example.image.read()
    except (InputError, ImageError):
        pass


@given(content=st.binary(max_size=300), packing=st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
def test_a_member_has_the_bytes_that_zipfile_reads(
    content: bytes, packing: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "one.zip"
    with zipfile.ZipFile(file, "w", packing) as archive:
        archive.writestr("x/ä.png", content + b"!")
    (example,) = find(file, labelled=False)
    assert isinstance(example.image, Member)
    assert example.image.read() == content + b"!"
    assert Member.at(example.image.address()) == example.image
