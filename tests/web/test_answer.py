from __future__ import annotations

import csv
import io

import numpy as np

from web.node import node


def test_typicality_is_that_of_the_measure():
    rng = np.random.default_rng(0)
    fitted = np.sort(np.round(rng.normal(size=50), 1))  # with ties
    asked = np.concatenate([fitted, rng.normal(size=50), [-1e9, 1e9]])
    less = np.searchsorted(fitted, asked, side="left")
    body = "return given.asked.map((one) => page.typicality(one, given.fitted));"
    found = node("answer.js", body, {"asked": asked.tolist(), "fitted": fitted.tolist()})
    assert np.allclose(found, (1 + len(fitted) - less) / (1 + len(fitted)))


def test_shares_are_rounded_to_all_or_nothing_only_where_they_are():
    shares = [0, 1e-9, 0.0009, 0.001, 0.5, 0.99904, 0.9999999, 1]
    found = node("answer.js", "return given.map(page.percent);", shares)
    assert found == ["0.0 %", "< 0.1 %", "< 0.1 %", "0.1 %", "50.0 %", "> 99.9 %", "> 99.9 %", "100.0 %"]


def test_an_answer_is_unknown_where_few_fitted_photos_are_as_strange():
    facts = {"classes": ["a", "b"], "fitted": list(range(19))}
    answers = [{"probabilities": [0.2, 0.8], "strangeness": strangeness} for strangeness in (5, 18, 18.5, None)]
    body = "return given.answers.map((answer) => page.judged(given.facts, answer, 0.05));"
    found = node("answer.js", body, {"facts": facts, "answers": answers})
    assert [one["unknown"] for one in found] == [False, False, True, False]
    assert found[0]["best"] == [{"name": "b", "probability": 0.8}, {"name": "a", "probability": 0.2}]
    body = "return page.judged({ ...given, fitted: null }, { probabilities: [1, 0], strangeness: null }, 0.05).unknown;"
    assert node("answer.js", body, facts) is False


def test_saved_answers_are_read_back_whole():
    rows = [["path", "label"], ['a "b", c.jpg', "x\ny"], ["ü/é.png", "<b>&"], ["", " "]]
    text = node("answer.js", "return page.csv(given);", rows)
    assert list(csv.reader(io.StringIO(text, newline=""))) == rows
