from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import yoro
from photos import write_folder
from yoro.discriminant.calibration import log_probabilities
from yoro.errors import InputError
from yoro.trust.leave_one_out_answers import left_out


@pytest.mark.filterwarnings("ignore::yoro.errors.LabelWarning")
@settings(max_examples=5)
@given(seed=st.integers(0, 1000))
def test_answers_are_those_of_a_model_without_the_example(digits, seed):
    rows = np.random.default_rng(seed).permutation(1797)[:80]
    responses, labels = digits[0][rows], digits[1][rows]
    fitted = yoro.fit((responses, labels), shrinkage=0.2)
    answers = left_out(fitted, (responses, labels))
    for i in range(0, len(answers.examples), 9):
        row = int(answers.examples.names[i].split()[-1])
        without = yoro.fit((np.delete(responses, row, 0), np.delete(labels, row)), shrinkage=0.2).model
        scores = without.mapping(responses[row : row + 1])
        wanted = log_probabilities(scores, fitted.model.choice.temperature)[0]
        np.testing.assert_allclose(answers.log_probabilities[i], wanted, atol=1e-9)


def test_what_was_not_fitted_is_answered_as_it_is(digits):
    fitted = yoro.fit((digits[0][:300], digits[1][:300]))
    answers = left_out(fitted, (digits[0][300:330], digits[1][300:330]))
    np.testing.assert_allclose(np.exp(answers.log_probabilities), fitted.predict_proba(digits[0][300:330]))
    assert "30 images not in the model" in " ".join(answers.notes)


@pytest.mark.filterwarnings("ignore::yoro.errors.LabelWarning")
def test_an_example_alone_in_its_class_has_no_answer(digits):
    responses, labels = digits[0][:100], digits[1][:100].copy()
    labels[7] = "alone"
    answers = left_out(yoro.fit((responses, labels)), (responses, labels))
    assert len(answers.examples) == 99
    assert "alone" not in answers.examples.labels
    assert "alone in a class" in " ".join(answers.notes)


def test_images_that_are_not_kept_are_read_again_to_the_same_answers(tmp_path):
    folder = write_folder(tmp_path / "photos", count=5)
    fitted = yoro.fit(folder, read="features")
    kept = left_out(fitted, folder)
    fitted.drop_reservoir()
    again = left_out(fitted, folder)
    assert kept.examples.names == again.examples.names
    assert kept.examples.digests == again.examples.digests
    np.testing.assert_allclose(again.log_probabilities, kept.log_probabilities, atol=1e-3)  # of another batch


def test_a_label_that_was_mended_in_the_model_counts(tmp_path, digits):
    responses, labels = digits[0][:200], digits[1][:200]
    wrong = labels.copy()
    wrong[3] = "7"
    answers = left_out(yoro.fit((responses, labels)), (responses, wrong))
    assert answers.examples.labels[3] == labels[3]
    assert "the fitted label counts" in " ".join(answers.notes)


def test_a_class_that_the_model_does_not_know_is_an_error(digits):
    fitted = yoro.fit((digits[0][:200], digits[1][:200]))
    with pytest.raises(InputError, match="Unknown class 'x'"):
        left_out(fitted, (digits[0][200:202], np.array(["x", "1"])))
