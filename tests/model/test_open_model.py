from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, f1_score, log_loss

import yoro
from yoro.data.response_streams import open_responses
from yoro.errors import InputError, OnePassError, SelectionError, StatisticsError, WidthError
from yoro.model.metrics import Tally, wilson_interval


def part(digits, start, stop):
    return digits[0][start:stop], digits[1][start:stop]


def same(one, two, tolerance=1e-9):
    assert one.classes == two.classes
    a, b = one.model.mapping, two.model.mapping
    np.testing.assert_allclose(a.weights, b.weights, atol=tolerance * np.abs(b.weights).max())
    np.testing.assert_allclose(a.bias, b.bias, rtol=tolerance)
    assert one.model.choice.shrinkage == two.model.choice.shrinkage


def test_update_forget_and_merge_equal_fitting_on_what_is_left(digits):
    whole, half = yoro.fit(part(digits, 0, 800)), yoro.fit(part(digits, 0, 400))
    half.update(part(digits, 400, 800))
    same(half, whole)
    half.forget(part(digits, 400, 800))
    same(half, yoro.fit(part(digits, 0, 400)))
    half.merge(yoro.fit(part(digits, 400, 800)))
    same(half, whole)


def test_a_failed_verb_changes_nothing(digits):
    classifier = yoro.fit(part(digits, 0, 400))
    before = classifier.model
    with pytest.raises(StatisticsError, match="never added"):
        classifier.forget(part(digits, 400, 410))
    wrong = (digits[0][:1], np.array(["7" if digits[1][0] != "7" else "1"]))
    with pytest.raises(StatisticsError, match="it was added as"):
        classifier.forget(wrong)
    with pytest.raises(InputError):
        classifier.update((np.ones((1, 3)), np.array(["a"])))
    with pytest.raises(InputError, match="needs at least 2"):
        classifier.forget(part(digits, 0, 400))
    assert classifier.model is before


def test_forgetting_more_often_than_added_is_an_error(digits):
    classifier = yoro.fit(part(digits, 0, 400))
    twice = (np.repeat(digits[0][:1], 2, 0), np.repeat(digits[1][:1], 2))
    with pytest.raises(StatisticsError, match="1 of 2 cannot be removed"):
        classifier.forget(twice)


def test_renaming_alone_solves_nothing_anew(digits, monkeypatch):
    responses, labels = digits
    classifier = yoro.fit((responses, labels))
    before = classifier.predict_proba(responses[:50])
    names = {"0": "zz", "7": "a", "9": "8", "8": "9"}

    def refuse(*_: object) -> None:
        raise AssertionError("an eigendecomposition was made")

    monkeypatch.setattr("scipy.linalg.eigh", refuse)
    monkeypatch.setattr("numpy.linalg.eigh", refuse)
    monkeypatch.setattr("yoro.model.open_model.solve", refuse)
    classifier.relabel(names)
    monkeypatch.undo()
    assert classifier.classes == tuple(sorted(names.get(c, c) for c in "0123456789"))
    again = yoro.fit((responses, np.array([names.get(label, label) for label in labels])))
    np.testing.assert_allclose(classifier.predict_proba(responses[:50]), again.predict_proba(responses[:50]), atol=1e-9)
    columns = [classifier.classes.index(names.get(c, c)) for c in "0123456789"]
    np.testing.assert_allclose(
        classifier.predict_proba(responses[:50])[:, columns], before, rtol=1e-9
    )  # sums reordered
    classifier.update((responses[:40], np.array([names.get(label, label) for label in labels[:40]])))
    again.update((responses[:40], np.array([names.get(label, label) for label in labels[:40]])))
    np.testing.assert_allclose(classifier.predict_proba(responses[:9]), again.predict_proba(responses[:9]), atol=1e-9)


def test_relabelling_equals_fitting_with_other_names(digits):
    responses, labels = part(digits, 0, 600)
    classifier = yoro.fit((responses, labels))
    classifier.relabel({"1": "odd", "3": "odd"})
    names = np.where(np.isin(labels, ["1", "3"]), "odd", labels)
    same(classifier, yoro.fit((responses, names)))
    classifier.forget((responses[:50], names[:50]))


def test_the_paper_means_the_paper(digits):
    classifier = yoro.fit(part(digits, 0, 500), val=part(digits, 500, 700), protocol="paper")
    choice = classifier.model.choice
    assert choice.rule == "validation"
    assert choice.temperature == 1.0
    assert classifier.model.statistics.total == 500
    with pytest.raises(SelectionError, match="needs validation data"):
        yoro.fit(part(digits, 0, 500), protocol="paper")
    with pytest.raises(InputError, match="remove the options"):
        yoro.fit(part(digits, 0, 500), val=part(digits, 500, 700), protocol="paper", shrinkage=0.1)
    with pytest.raises(InputError, match="Unknown protocol"):
        yoro.fit(part(digits, 0, 500), protocol="other")


def test_validation_data_are_fitted_too_unless_they_decide(digits):
    told = []
    both = yoro.fit(part(digits, 0, 500), val=part(digits, 500, 700), tell=told.append)
    same(both, yoro.fit(part(digits, 0, 700)))
    assert "200 validation examples are fitted too" in told[0]


def test_without_responses_kept_the_shrinkage_stays_and_says_so(digits):
    classifier = yoro.fit(part(digits, 0, 500))
    classifier.drop_reservoir()
    before = classifier.model.choice
    change = classifier.update(part(digits, 500, 600))
    assert classifier.model.choice == before
    assert "stays at" in change.notes[0]


def test_examples_fitted_twice_are_mentioned(digits):
    classifier = yoro.fit(part(digits, 0, 500))
    change = classifier.update(part(digits, 400, 600))
    assert change.notes == ("100 examples already in the model, now counted twice.",)


def test_models_of_different_sources_do_not_merge(digits):
    one, two = yoro.fit(part(digits, 0, 500)), yoro.fit(part(digits, 500, 900))
    two.model.origin.source["read"] = "features"
    with pytest.raises(InputError, match="differ in the read of their source: None and 'features'"):
        one.merge(two)


def test_a_stream_can_be_traversed_once_only(digits):
    stream = open_responses(part(digits, 0, 10), labelled=True)
    assert sum(len(batch.names) for batch in stream) == 10
    with pytest.raises(OnePassError, match="read only once"):
        list(stream)


def test_evaluation_equals_scikit_learn(digits):
    _responses, _labels = digits
    classifier = yoro.fit(part(digits, 0, 900))
    held, truth = part(digits, 900, 1797)
    evaluation = classifier.evaluate((held, truth))
    predicted, probabilities = classifier.predict(held), classifier.predict_proba(held)
    assert evaluation.accuracy == pytest.approx(np.mean(np.array(predicted) == truth))
    assert evaluation.balanced_accuracy == pytest.approx(balanced_accuracy_score(truth, predicted))
    assert evaluation.macro_f1 == pytest.approx(f1_score(truth, predicted, average="macro"))
    assert evaluation.log_loss == pytest.approx(log_loss(truth, probabilities), rel=1e-6)
    np.testing.assert_array_equal(evaluation.confusion, confusion_matrix(truth, predicted))
    confidence, right = probabilities.max(axis=1), np.array(predicted) == truth
    bins = np.minimum((confidence * 15).astype(int), 14)
    expected = sum(
        abs(right[bins == b].mean() - confidence[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)
    )
    assert evaluation.calibration_error == pytest.approx(expected)
    assert evaluation.n == len(truth)
    assert predicted == [classifier.classes[i] for i in probabilities.argmax(axis=1)]


def test_wilson_interval_by_hand():
    low, high = wilson_interval(0.8, 10)
    assert (low, high) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))
    assert wilson_interval(0.0, 5)[0] == 0.0
    for n in range(1, 200):  # never "to 99.9%" where all are right
        assert wilson_interval(1.0, n)[1] == 1.0
        assert wilson_interval(0.0, n)[0] == 0.0
    assert wilson_interval(1.0, 5)[1] == 1.0


def test_a_class_that_the_model_does_not_know_is_an_error():
    with pytest.raises(InputError, match="does not know class 'cat'"):
        Tally(("a", "b")).update(np.zeros((1, 2)), ["cat"])


def test_history_records_passes_images_seconds_and_memory(digits):
    classifier = yoro.fit(part(digits, 0, 500))
    event = classifier.model.history[0]
    assert (event["verb"], event["images"], event["passes"]) == ("fit", 500, 1)
    assert event["seconds"] >= 0
    assert event["peak_memory_mb"] > 10


def test_models_of_another_width_are_not_merged():
    rng, labels = np.random.default_rng(0), ["a", "b"] * 10
    narrow, wide = (yoro.fit((rng.normal(size=(20, width)), labels)) for width in (4, 5))
    with pytest.raises(WidthError, match="width"):
        narrow.merge(wide)
