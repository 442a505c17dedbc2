from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import yoro
from yoro import limits
from yoro.errors import NonFiniteError, StoreError
from yoro.model.ledger import Ledger
from yoro.model.store import FORMAT, _config_digest


@pytest.fixture
def saved(tmp_path, digits):
    responses, labels = digits
    classifier = yoro.fit((responses[:500], labels[:500]))
    classifier.save(tmp_path / "m.yoro")
    return tmp_path / "m.yoro"


def edit(folder: Path, **changes: object) -> None:
    """Change the config as a careful attacker would, with a digest that fits."""
    config = json.loads((folder / "config.json").read_text()) | changes
    config["digest"] = _config_digest(config)
    (folder / "config.json").write_text(json.dumps(config))


def test_a_loaded_model_answers_as_before_from_anywhere(saved, tmp_path, digits, monkeypatch):
    expected = yoro.load(saved).predict_proba(digits[0])
    (tmp_path / "elsewhere").mkdir()
    moved = tmp_path / "elsewhere" / "other name.yoro"
    shutil.move(saved, moved)
    monkeypatch.chdir(tmp_path / "elsewhere")
    np.testing.assert_array_equal(yoro.load("other name.yoro").predict_proba(digits[0]), expected)


def test_nothing_but_safetensors_json_and_a_card_is_written(saved):
    assert sorted(p.name for p in saved.iterdir()) == [
        "README.md", "config.json", "mapping.safetensors", "reservoir.safetensors", "statistics.safetensors",
    ]  # fmt: skip
    assert [p for p in saved.parent.iterdir() if p.name.endswith(".tmp")] == []
    assert "10 classes, 500 fitted images" in (saved / "README.md").read_text()


@pytest.mark.parametrize("name", ["mapping", "statistics", "reservoir"])
@pytest.mark.parametrize("damage", ["missing", "truncated", "changed", "emptied"])
def test_damage_to_any_part_is_noticed(saved, name, damage):
    file = saved / f"{name}.safetensors"
    content = bytearray(file.read_bytes())
    if damage == "missing":
        file.unlink()
    elif damage == "changed":
        content[-9] ^= 1
        file.write_bytes(content)
    else:
        file.write_bytes(content[: len(content) // 2] if damage == "truncated" else b"")
    with pytest.raises(StoreError, match=f"{name}.safetensors"):
        yoro.load(saved)


def test_a_newer_format_asks_for_an_upgrade(saved):
    edit(saved, format=FORMAT + 1)
    with pytest.raises(StoreError, match=rf"format {FORMAT + 1}; this version .* up to {FORMAT}. Upgrade"):
        yoro.load(saved)


def test_a_hand_edited_config_is_noticed(saved):
    text = (saved / "config.json").read_text()
    (saved / "config.json").write_text(text.replace('"temperature": ', '"temperature": 1'))
    with pytest.raises(StoreError, match="changed after it was written"):
        yoro.load(saved)


@pytest.mark.parametrize(
    "changes",
    [
        {"classes": ["a"]}, {"classes": "abc"}, {"classes": list(range(10))}, {"shrinkage": 7}, {"shrinkage": "0.1"},
        {"temperature": 0}, {"selection": None}, {"digests": {}}, {"digests": {"../../x": "0"}}, {"history": 3},
        {"source": None}, {"digests": {"mapping.safetensors": "0", "statistics.safetensors": "0", "evil.py": "0"}},
        {"delta": -1}, {"format": "1"}, {"format": 0}, {"format": True, "classes": None},
    ],
    ids=str,
)  # fmt: skip
def test_a_hostile_config_is_an_error_and_nothing_else(saved, changes):
    edit(saved, **changes)
    with pytest.raises(StoreError):
        yoro.load(saved)


def test_json_bombs_and_other_files_are_errors(saved, tmp_path):
    (saved / "config.json").write_text("[" * 100_000)
    with pytest.raises(StoreError, match="not JSON"):
        yoro.load(saved)
    with pytest.raises(StoreError, match="does not exist"):
        yoro.load(tmp_path / "nothing.yoro")
    with pytest.raises(StoreError, match="is not a model"):
        yoro.load(tmp_path)


def test_a_name_without_its_ending_leads_to_the_model(saved, tmp_path):
    with pytest.raises(StoreError, match=re.escape(f"does not exist. Did you mean {saved}?")):
        yoro.load(saved.with_suffix(""))
    with pytest.raises(StoreError, match="yoro fit --out"):
        yoro.load(tmp_path / "gone.yoro")


def test_an_existing_output_is_kept_unless_forced(saved, digits):
    before = (saved / "config.json").read_bytes()
    classifier = yoro.fit((digits[0][:100], digits[1][:100]))
    with pytest.raises(StoreError, match="exists already"):
        classifier.save(saved)
    assert (saved / "config.json").read_bytes() == before
    classifier.save(saved, force=True)
    assert yoro.load(saved).model.statistics.total == 100
    (saved.parent / "photos.yoro").mkdir()
    with pytest.raises(StoreError, match="is not a model, so it is not replaced"):
        classifier.save(saved.parent / "photos.yoro", force=True)
    with pytest.raises(StoreError, match=r"ends in \.yoro"):
        classifier.save(saved.parent / "plain")
    with pytest.raises(StoreError, match="does not exist"):
        classifier.save(saved.parent / "no" / "m.yoro")


def test_a_failed_write_leaves_the_old_model(saved, digits, monkeypatch):
    before = {p.name: p.read_bytes() for p in saved.iterdir()}
    classifier = yoro.load(saved)
    classifier.update((digits[0][500:600], digits[1][500:600]))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("yoro.model.store.model_card", full)
    with pytest.raises(StoreError, match="No space left"):
        classifier.save(saved, force=True)
    assert {p.name: p.read_bytes() for p in saved.iterdir()} == before
    assert [p.name for p in saved.parent.iterdir()] == ["m.yoro"]


@pytest.mark.parametrize("size", [1e80, 1e99, 1e140, np.inf])
def test_numbers_that_float64_cannot_carry_are_refused_by_row_and_the_model_survives(saved, digits, size):
    expected = yoro.load(saved).predict_proba(digits[0])
    classifier = yoro.load(saved)
    odd = digits[0][:3].astype(np.float64)
    odd[1, 7] = size
    with pytest.raises(NonFiniteError, match="index 1"):
        classifier.update((odd, digits[1][:3]))
    classifier.save(saved, force=True)
    np.testing.assert_array_equal(yoro.load(saved).predict_proba(digits[0]), expected)


@pytest.mark.parametrize("size", [1e20, limits.RESPONSE_SIZE, -limits.RESPONSE_SIZE])
def test_whatever_is_within_the_range_can_be_saved_and_loaded(tmp_path, digits, size, caplog):
    odd = digits[0][:200].astype(np.float64)
    odd[17, 3] = size
    with caplog.at_level("INFO", logger="yoro"):
        classifier = yoro.fit((odd, digits[1][:200]))
    assert any("row 17" in message and "usual size" in message for message in caplog.messages)
    classifier.save(tmp_path / "odd.yoro")
    found = yoro.load(tmp_path / "odd.yoro").predict_proba(digits[0][:50])
    assert np.isfinite(found).all()


def test_a_draft_that_cannot_be_loaded_does_not_replace_the_model(saved, digits):
    expected = yoro.load(saved).predict_proba(digits[0])
    classifier = yoro.load(saved)
    classifier.model.mapping.weights[0, 0] = np.nan
    with pytest.raises(StoreError, match="not saved"):
        classifier.save(saved, force=True)
    np.testing.assert_array_equal(yoro.load(saved).predict_proba(digits[0]), expected)
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_parts_that_contradict_each_other_are_noticed_when_they_are_loaded_or_saved(saved):
    classifier = yoro.load(saved)
    gathered = classifier.model.gathered
    digests, labels = zip(*gathered.ledger.entries(), strict=True)
    for other in ("another class", next(label for label in labels if label != labels[3])):
        gathered.ledger = Ledger()
        gathered.ledger.add(digests, [*labels[:3], other, *labels[4:]])
        with pytest.raises(StoreError, match="disagree"):
            classifier.save(saved, force=True)
    foreign = Ledger()
    foreign.add([digest[::-1] for digest in digests], labels)
    gathered.ledger = foreign
    with pytest.raises(StoreError, match="not in its list"):
        classifier.save(saved, force=True)
