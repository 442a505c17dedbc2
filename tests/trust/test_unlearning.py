from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import yoro
from command_line import run
from photos import write_folder
from yoro.errors import StoreError
from yoro.model.store import model_digest
from yoro.model.unlearning_receipt import Receipt, digest_of, read_receipt
from yoro.trust.unlearning import largest_difference


def some(digits, start, stop):
    return digits[0][start:stop], digits[1][start:stop]


def without(digits, n, start, stop):
    return tuple(np.delete(part[:n], np.s_[start:stop], 0) for part in digits)


def failing(verification):
    return [finding.what for finding in verification.findings if not finding.holds]


def test_forgetting_and_choosing_anew_equal_a_fit_without_to_1e9(digits):
    responses, labels = digits[0][:400].copy(), digits[1][:400]
    responses[200:260] *= np.random.default_rng(0).normal(size=(60, 1)) * 30  # so that all is chosen otherwise
    fitted = yoro.fit((responses, labels))
    before = fitted.model.choice
    change = fitted.forget((responses[200:260], labels[200:260]))
    fresh = yoro.fit(without((responses, labels), 400, 200, 260))
    assert before.shrinkage != fresh.model.choice.shrinkage
    assert fitted.model.choice.shrinkage == fresh.model.choice.shrinkage
    assert fitted.model.choice.temperature == pytest.approx(fresh.model.choice.temperature, rel=1e-9)
    assert largest_difference(fitted.model, fresh.model) < 1e-9
    assert change.receipt.uncertain == ()
    np.testing.assert_allclose(fitted.typicality(responses[:50]), fresh.typicality(responses[:50]), rtol=0, atol=1e-9)
    assert fitted.predict_sets(responses[:50], 0.9) == fresh.predict_sets(responses[:50], 0.9)


def test_numbers_that_were_huge_leave_no_trace(digits):
    responses, labels = digits[0][:300], digits[1][:300]
    huge = responses[:20] * 1e9
    fitted = yoro.fit((np.concatenate([responses, huge]), np.concatenate([labels, labels[:20]])))
    fitted.forget((huge, labels[:20]))
    assert largest_difference(fitted.model, yoro.fit((responses, labels)).model) < 1e-9


def test_a_receipt_holds_after_a_save_and_with_the_data_left_or_those_of_the_fit(digits, tmp_path):
    fitted = yoro.fit(some(digits, 0, 300))
    receipt = fitted.forget(some(digits, 40, 60)).receipt
    receipt.save(tmp_path / "receipt.json")
    fitted.save(tmp_path / "m.yoro")
    loaded = yoro.load(tmp_path / "m.yoro")
    assert model_digest(loaded.model) == model_digest(fitted.model) == receipt.after["digest"]
    assert read_receipt(tmp_path / "receipt.json") == receipt
    assert loaded.verify(tmp_path / "receipt.json").holds
    for data in (without(digits, 300, 40, 60), some(digits, 0, 300)):
        found = loaded.verify(receipt, data)
        assert found.holds
        assert found.difference < 1e-9


def test_what_does_not_hold_is_found(digits):
    fitted, again = yoro.fit(some(digits, 0, 300)), yoro.fit(some(digits, 0, 300))
    receipt = fitted.forget(some(digits, 40, 60)).receipt
    assert failing(again.verify(receipt)) == ["model", "list", "contents"]
    assert failing(fitted.verify(receipt, some(digits, 0, 200))) == ["data", "fit"]
    shorter = Receipt(receipt.removed[1:], receipt.before, receipt.after)
    assert failing(fitted.verify(shorter)) == ["list"]
    fitted.model.mapping.weights[3, 2] += 1e-6
    assert failing(fitted.verify(receipt, some(digits, 0, 300))) == ["model", "fit"]


def test_what_was_fitted_twice_and_forgotten_once_is_not_certain(digits):
    fitted = yoro.fit(some(digits, 0, 300))
    fitted.update(some(digits, 10, 12))
    receipt = fitted.forget(some(digits, 10, 14)).receipt
    assert "2 images still in" in receipt.uncertain[0]
    assert failing(fitted.verify(receipt)) == ["contents"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"reservoir": 50}, "responses kept of 290 examples"),
        ({"reservoir": 0, "shrinkage": "oas"}, None),
        ({"shrinkage": "validation"}, "validation images"),
    ],
)
def test_where_a_fit_might_choose_otherwise_the_receipt_says_so(digits, options, said):
    val = some(digits, 400, 500) if options.get("shrinkage") == "validation" else None
    fitted = yoro.fit(some(digits, 0, 300), val=val, **options)
    receipt = fitted.forget(some(digits, 0, 10)).receipt
    assert [said in sentence for sentence in receipt.uncertain] == ([True] if said else [])
    found = fitted.verify(receipt, some(digits, 0, 300))
    assert found.holds or options.get("reservoir") == 50  # where other responses would have been kept
    assert fitted.verify(receipt).holds


@pytest.mark.parametrize("change", ["label", "digest", "count", "kind", "cut", "date", "removed"])
def test_a_receipt_that_was_touched_is_refused(digits, tmp_path, change):
    fitted, file = yoro.fit(some(digits, 0, 300)), tmp_path / "receipt.json"
    fitted.forget(some(digits, 0, 10)).receipt.save(file)
    value = json.loads(file.read_text())
    if change in ("label", "digest"):
        value["removed"][0][change] = "0" * 32
    elif change == "removed":
        value["removed"] = value["removed"][1:]
    else:
        value[change] = 3
    file.write_text(json.dumps(value) if change != "cut" else file.read_text()[:-40])
    with pytest.raises(StoreError, match=r"changed after|not a yoro-receipt|damaged"):
        fitted.verify(file)


def test_the_order_of_a_list_does_not_matter():
    one, two = (b"a", "x"), (b"b", "y")
    assert digest_of([one, two]) == digest_of([two, one]) != digest_of([one])


@pytest.mark.parametrize("views", [1, 2])
def test_the_verbs_on_images(tmp_path, views):
    folder = write_folder(tmp_path / "photos", count=7, names=("cat", "coffee", "rocket"))
    model, receipt = tmp_path / "m.yoro", tmp_path / "receipt.json"
    run("fit", folder, "--out", model, "--workers", 0, "--views", views)
    gone = tmp_path / "gone"
    for name in ("cat/001.jpg", "rocket/005.jpg"):
        (gone / name).parent.mkdir(parents=True)
        shutil.copy(folder / name, gone / name)
    said = run("forget", model, gone, "--receipt", receipt, "--workers", 0).stderr
    assert "Receipt written to" in said
    assert ("mirror images" in said) == (views == 2)
    assert run("verify", model, receipt).stdout.count("holds  ") == 3
    for name in ("cat/001.jpg", "rocket/005.jpg"):
        (folder / name).unlink()
    found = json.loads(run("verify", model, receipt, folder, "--workers", 0, "--batch-size", 5, "--json").stdout)
    assert found["holds"], found
    assert found["difference"] < 1e-9
    (folder / "cat" / "broken.jpg").write_text("no image")  # it was not fitted either
    assert "'cat/broken.jpg' cannot be read" in run("verify", model, receipt, folder, "--workers", 0).stderr
    (folder / "cat" / "002.jpg").unlink()
    assert "FAILS" in run("verify", model, receipt, folder, "--workers", 0, code=1).stdout
    run("update", model, gone, "--workers", 0)
    assert "2 images still in the model" in run("verify", model, receipt, code=1).stdout
