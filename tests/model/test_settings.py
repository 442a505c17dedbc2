from __future__ import annotations

from dataclasses import fields
from typing import get_type_hints

import pytest

import yoro
from yoro.errors import InputError
from yoro.fit import FitOptions
from yoro.model.settings import HERE, ClusterSettings, FitSettings, Loading, PipelineSettings, SolveSettings
from yoro.text.settings import SentenceSettings

GROUPS = {
    "pipeline": PipelineSettings,
    "solve": SolveSettings,
    "sentences": SentenceSettings,
    "loading": Loading,
    "cluster": ClusterSettings,
}


def test_the_options_of_fit_are_the_fields_of_its_groups():
    known = {f.name for group in GROUPS.values() for f in fields(group)}
    known |= {f.name for f in fields(FitSettings) if f.name not in GROUPS or f.name == "sentences"}
    assert set(get_type_hints(FitOptions)) == known
    alone = [f.name for group in GROUPS.values() for f in fields(group)]
    assert len(set(alone)) == len(alone), "an option belongs to one group"


def test_options_find_their_group():
    made = FitSettings.of(source="onnx:a.onnx", shrinkage="0.1", sentences=3, classes=["cat"], batch_size=4, shots=2)
    assert made.pipeline == PipelineSettings(source="onnx:a.onnx")
    assert made.solve == SolveSettings(shrinkage=0.1)
    assert made.sentences == SentenceSettings(sentences=3, classes=("cat",))
    assert made.loading == Loading(4, workers=0)
    assert made.shots == 2
    assert FitSettings.of().loading == HERE


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shrinkag": 0.1}, "There is no option 'shrinkag'. Did you mean 'shrinkage'?"),
        ({"shrinkage": "guess"}, "shrinkage rule 'guess'"),
        ({"shrinkage": 2}, "no shrinkage rule"),
        ({"protocol": "mine"}, "is no protocol"),
        ({"protocol": "paper", "read": "features"}, "reads the logits"),
        ({"protocol": "paper", "prior": "uniform"}, "leave these options out"),
        ({"batch_size": 0}, "batch size is 0"),
        ({"workers": -1}, "-1 workers"),
        ({"shots": -1}, "expected 0 or more"),
        ({"refine": -1}, "expected 0 or more"),
        ({"sentences": 0}, "expected at least 1"),
    ],
)
def test_wrong_options_are_refused_before_any_data_are_looked_at(options, message):
    with pytest.raises(InputError) as refused:
        yoro.fit("no such folder", **options)
    assert message in str(refused.value)


def test_the_paper_chooses_by_validation():
    assert SolveSettings(protocol="paper").shrinkage == "validation"
