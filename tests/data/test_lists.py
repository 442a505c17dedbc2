from __future__ import annotations

from pathlib import Path

import pytest

from yoro.data.find import find
from yoro.errors import InputError

from .conftest import save


def written(tmp_path: Path, text: str, name: str = "list.csv", encoding: str = "utf-8") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return path


def test_csv_paths_are_relative_to_the_list(tmp_path: Path) -> None:
    found = find(written(tmp_path, "path,label,split,group\nb/2.jpg,dog,valid,p1\na 1.jpg,7,train,\n"))
    first, second = found.examples
    assert (first.label, first.split, first.group, first.name) == ("7", "train", None, "a 1.jpg")
    assert (second.label, second.split, second.group) == ("dog", "val", "p1")
    assert second.image == tmp_path / "b/2.jpg"


def test_a_byte_order_mark_and_windows_lines_do_no_harm(tmp_path: Path) -> None:
    path = written(tmp_path, "Path,Label\r\nä.jpg,größe\r\n\r\n", encoding="utf-8-sig")
    assert find(path).classes == ["größe"]


def test_jsonl_with_file_name_and_integer_labels(tmp_path: Path) -> None:
    path = written(tmp_path, '{"file_name": "a.jpg", "label": 3}\n\n{"file_name": "b.jpg", "label": "x"}\n', "l.jsonl")
    assert find(path).classes == ["3", "x"]


def test_tab_separated_lists_work(tmp_path: Path) -> None:
    assert find(written(tmp_path, "path\tlabel\na,b.jpg\tx\n", "l.tsv")).examples[0].name == "a,b.jpg"


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("path", ["image", "filename", "file", "Path", "file_name", "Image Name"])
@pytest.mark.parametrize("label", ["class", "target", "Label", "category", "class-name"])
def test_columns_as_people_name_and_part_them(tmp_path: Path, path: str, label: str, delimiter: str) -> None:
    rows = [[path, "size", label], ["a, b.jpg" if delimiter != "," else "a.jpg", "3", "cat"], ["b.jpg", "4", "dog"]]
    found = find(written(tmp_path, "\n".join(delimiter.join(row) for row in rows)))
    assert found.classes == ["cat", "dog"]
    assert found.examples[1].name == "b.jpg"


def test_a_column_of_ours_comes_before_its_likes(tmp_path: Path) -> None:
    found = find(written(tmp_path, "image,path,class,label\nx,a.jpg,9,cat\n"))
    assert (found.examples[0].name, found.classes) == ("a.jpg", ["cat"])


def test_paths_from_where_one_stands_are_found_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lists").mkdir()
    save(tmp_path / "photos" / "a.png")
    path = written(tmp_path / "lists", "path,label\nphotos/gone.png,y\nphotos/a.png,x\n")
    monkeypatch.chdir(tmp_path)
    found = find(path)
    assert found.examples[0].image == Path("photos/a.png")
    assert any("relative to the working directory" in note for note in found.notes)
    save(tmp_path / "lists" / "photos" / "gone.png")
    again = find(path)
    assert again.examples[0].image == tmp_path / "lists" / "photos" / "a.png"
    assert again.notes == ()


def test_a_spreadsheet_is_to_be_saved_as_a_list(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a spreadsheet: save it as 'CSV UTF-8'"):
        find(written(tmp_path, "PK", "labels.xlsx"))


def test_backslashes_of_windows_lead_to_files(tmp_path: Path) -> None:
    save(tmp_path / "cats" / "a.png")
    save(tmp_path / "odd\\name.png")
    found = find(written(tmp_path, "path,label\ncats\\a.png,cat\nodd\\name.png,odd\n"))
    assert [example.image for example in found] == [tmp_path / "cats" / "a.png", tmp_path / "odd\\name.png"]


def test_a_list_that_leads_nowhere_says_where_its_images_were_looked_for(tmp_path: Path) -> None:
    found = find(written(tmp_path, "path,label\ngone/a.png,cat\n"))
    assert any(f"'{tmp_path.resolve()}'" in note and "'gone/a.png'" in note for note in found.notes)


def test_a_list_without_labels_is_for_prediction(tmp_path: Path) -> None:
    path = written(tmp_path, "path\na.jpg\n")
    assert find(path, labelled=False).examples[0].label is None
    with pytest.raises(InputError, match=r"no column 'label' .*; columns seen: path\."):
        find(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("picture,class\na.jpg,x\n", r"no column 'path' .* columns seen: picture, class\."),
        ("a b.jpg,x\nb.jpg,y\n", r"has no header: its first row is 'a b.jpg,x'. .* such as path,label"),
        ("path,label\na.jpg,x\nb.jpg,\n", r"row 3 \('b.jpg'\) has no label"),
        ("path,label\n,x\n", r"row 2 has no path"),
        ("path,klass\na.jpg,x\n", r"row 1, the header: there is no column 'label' .* columns seen: path, klass\."),
        ("path,label\na.jpg\n", r"row 2 has 1 fields, the header 2"),
        ("path,label,split\na.jpg,x,holdout\n", r"row 2 .*: split is 'holdout', expected one of train"),
        ("path,label\n", "lists no image"),
        ("", "lists no image"),
        ('path,label\n"a.jpg,x\n', "cannot be read as a list"),
        ("path,label\n" + "a" * 70_000 + ",x\n", "line 2 is longer than"),
    ],
)
def test_a_bad_csv_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"path": "a.jpg", "label": null}', "line 1 .* has no label"),
        ('{"path": "a.jpg", "label": 1.5}', "label is 1.5, expected text or an integer"),
        ('{"path": "a.jpg", "label": true}', "label is True"),
        ('["a.jpg"]', "is list, expected an object"),
        ("{", "cannot be read as a list"),
        ("[" * 60_000, "cannot be read as a list"),
    ],
)
def test_a_bad_jsonl_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find(written(tmp_path, text, "l.jsonl"))


def test_a_list_in_another_encoding_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not UTF-8; save it as UTF-8"):
        find(written(tmp_path, "path,label\nä.jpg,x\n", encoding="latin-1"))
