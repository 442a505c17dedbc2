"""BDM, its ablations and the label mappings behind the contract: the same numbers as by their own doors."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from yoro import DiscriminantMapping
from yoro.data.response_streams import open_responses
from yoro.errors import DegenerateWarning, InputError
from yoro.mappings.cooccurrence import bayesian_mapping, plus_table
from yoro.model.gathered import Gathered
from yoro.model.model import Origin
from yoro.model.one_pass import gather
from yoro.model.settings import SolveSettings
from yoro.model.solve import solve
from yoro.research.peers.discriminants import in_responses
from yoro.research.peers.method import make_task, unit
from yoro.research.peers.methods import METHODS
from yoro.text.banks import Bank
from yoro.text.encoded_bank import EncodedBank


@pytest.mark.parametrize(
    ("name", "rule"), [("bdm", "loo"), ("bdm-oas", "oas"), ("bdm-rblw", "rblw"), ("bdm-ledoit-wolf", "ledoit-wolf")]
)
def test_bdm_is_the_estimators(plain, halves, name, rule):
    expected = DiscriminantMapping(rule).fit(halves[0], halves[1]).decision_function(halves[2])
    np.testing.assert_allclose(METHODS[name].fit(plain)(halves[2]), expected, atol=1e-8)


def test_the_papers_rule_is_the_estimators_on_the_same_validation_data(halves):
    held = halves[2][:100], halves[3][:100]
    task = make_task(halves[0], halves[1], validation=held)
    reference = DiscriminantMapping("validation").fit(halves[0], halves[1], validation=held)
    scores = METHODS["bdm-validation"].fit(task)(halves[2])
    np.testing.assert_allclose(scores, reference.decision_function(halves[2]), atol=1e-8)


def test_with_texts_bdm_is_that_of_the_explicit_similarities(spoken, tested_vectors):
    explicit = in_responses(spoken)
    assert explicit.responses.shape == (160, 30)
    for name in ("bdm-images", "bdm-oas", "bdm-conditional", "blm+", "flm"):
        one = METHODS[name].fit(spoken)(tested_vectors)
        two = METHODS[name.removesuffix("-images")].fit(explicit)(100 * tested_vectors @ spoken.texts.flat.T)
        scale = np.abs(two).max()
        np.testing.assert_allclose(one / scale, two / scale, atol=1e-7)


@pytest.fixture
def tested_vectors(halves):
    return unit(halves[2])


def test_in_feature_space_the_target_is_the_identity(spoken, tested_vectors):
    scores = METHODS["bdm-features"].fit(spoken)(tested_vectors)
    plain = METHODS["bdm"].fit(replace(spoken, texts=None))(tested_vectors)
    np.testing.assert_allclose(scores, plain, rtol=1e-9)


def test_label_mappings_are_their_own(plain, halves):
    table = plus_table(plain.classes)
    table.update(halves[0], halves[1])
    np.testing.assert_allclose(METHODS["blm+"].fit(plain)(halves[2]), bayesian_mapping(table)(halves[2]))
    one, two = (METHODS["rlm"].fit(replace(plain, seed=seed))(halves[2]) for seed in (0, 1))
    assert not np.array_equal(one, two)


@pytest.mark.parametrize("shots", [1, 2, 4, 16])
def test_with_texts_bdm_is_what_fit_makes_of_the_same_images(spoken, tested_vectors, shots):
    rows = np.flatnonzero(np.arange(160) % 16 < shots)  # 16 a class, class after class
    task = replace(spoken, responses=spoken.responses[rows], truth=spoken.truth[rows])
    words = {name: tuple(f"{name} {i}" for i in range(3)) for name in spoken.classes}
    encoded = EncodedBank(Bank(words, "given"), spoken.texts.flat.astype("f4"), spoken.texts.scale)
    gathered = Gathered.empty(SolveSettings.reservoir, 0)
    gather(gathered, open_responses((task.responses, task.labels), labelled=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateWarning)  # of one image a class
        model = solve(gathered, SolveSettings(), Origin(), words=encoded)
        scores = METHODS["bdm"].fit(task)(tested_vectors)
    expected = model.mapping(tested_vectors)
    np.testing.assert_allclose(scores / np.abs(expected).max(), expected / np.abs(expected).max(), atol=1e-5)
    assert model.choice.alpha > 0 or shots > 2


def test_zero_shot_is_the_head_of_the_sentences(spoken, tested_vectors):
    head = spoken.texts.described(spoken.classes).head(spoken.classes)
    scores = METHODS["zero-shot"].fit(spoken)(tested_vectors)
    np.testing.assert_allclose(scores, head(tested_vectors), atol=1e-9)
    np.testing.assert_allclose(scores, METHODS["mpe"].fit(spoken)(tested_vectors), atol=1e-9)


@pytest.mark.parametrize("name", [name for name in METHODS if name.startswith("bdm")])
def test_every_ablation_answers(spoken, answers, name):
    assert answers(lambda responses: METHODS[name].fit(spoken)(unit(responses))) > 0.75


def test_one_image_a_class_is_the_nearest_mean_or_a_reason(halves):
    task = make_task(halves[0][::16], halves[1][::16])
    with pytest.warns(DegenerateWarning, match="nearest class mean"):
        scores = METHODS["bdm"].fit(task)(halves[2])
    expected = METHODS["ncm"].fit(task)(halves[2])
    np.testing.assert_allclose(scores, expected + np.log(1 / 10), atol=1e-9)
    with pytest.raises(ValueError, match="too few images"):
        METHODS["bdm-validation"].fit(task)


def test_more_classes_than_sources_is_a_reason(halves):
    task = make_task(halves[0][:, :5], halves[1])
    with pytest.raises(InputError, match="10 classes cannot each have one of 5 source classes"):
        METHODS["flm"].fit(task)
