from __future__ import annotations

import math
from dataclasses import fields

import pytest

import yoro
from yoro.errors import InputError
from yoro.http.settings import ServeSettings
from yoro.model.settings import USUAL, FitSettings, Loading, PipelineSettings, SolveSettings
from yoro.refining.settings import RefineSettings
from yoro.text.settings import SentenceSettings


def test_options_find_their_group():
    made = FitSettings.of(source="onnx:a.onnx", shrinkage="0.1", sentences=3, classes=["cat"], batch_size=4, shots=2)
    assert made.pipeline == PipelineSettings(source="onnx:a.onnx")
    assert made.solve == SolveSettings(shrinkage=0.1)
    assert made.sentences == SentenceSettings(sentences=3, classes=("cat",))
    assert made.loading == Loading(4)
    assert made.shots == 2
    assert FitSettings.of().loading == USUAL


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shrinkag": 0.1}, "Unknown option 'shrinkag'. Did you mean 'shrinkage'?"),
        ({"epochs": 3}, "one pass and has no epochs; refine=N"),
        ({"backbone": "x"}, "chosen with source=NAME"),
        ({"shrinkage": "guess"}, "shrinkage rule 'guess'"),
        ({"shrinkage": 2}, "shrinkage rule"),
        ({"protocol": "mine"}, "Unknown protocol 'mine'"),
        ({"protocol": "paper", "read": "features"}, "reads the logits"),
        ({"protocol": "paper", "prior": "uniform"}, "remove the options shrinkage and prior"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"workers": -1}, "workers is -1"),
        ({"shots": -1}, "expected 0 or more"),
        ({"refine": -1}, "expected 0 to 100,000"),
        ({"sentences": 0}, "expected 1 to 1,000,000"),
        ({"batch_size": 10**18}, "expected 1 to 65,536"),
        ({"workers": 10**18}, "expected 0 to 1,024"),
        ({"ray_actors": 10**18}, "expected 1 to 100,000"),
        ({"ray_threads": 10**18}, "expected 1 to 1,024"),
        ({"refine": 10**18}, "expected 0 to 100,000"),
        ({"views": "2"}, "expected a whole number"),
        ({"resume": 1}, "expected True or False"),
        ({"preset": "best possible"}, "Choose one of default, fast, best"),
    ],
)
def test_wrong_options_are_refused_before_any_data_are_looked_at(options, message):
    with pytest.raises(InputError) as refused:
        yoro.fit("no such folder", **options)
    assert message in str(refused.value)


HUGE = 10**18


@pytest.mark.parametrize(
    "name", [field.name for field in fields(ServeSettings) if field.name not in ("host", "feedback")]
)
def test_every_number_of_a_service_has_a_bound(name):
    for value in (HUGE, -1, math.nan):
        with pytest.raises(InputError, match=name.replace("_", ".")):
            ServeSettings(**{name: value})


@pytest.mark.parametrize("name", ["epochs", "beta", "canvas", "learning_rate", "batch_size", "warm_up", "temperature"])
def test_every_number_of_a_refinement_has_a_bound(name):
    for value in (HUGE, -1, math.nan):
        with pytest.raises(InputError, match=name):
            RefineSettings(**{name: value})


def test_the_paper_chooses_by_validation():
    assert SolveSettings(protocol="paper").shrinkage == "validation"
