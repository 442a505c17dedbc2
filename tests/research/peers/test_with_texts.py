"""Methods that read texts, against brute force: digits as image vectors, noisy class means as text vectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from yoro.errors import InputError
from yoro.research.peers import gda, prompt_ensembles, ridge
from yoro.research.peers.method import Texts, make_task, one_hot
from yoro.research.peers.methods import METHODS

SPOKEN = [m.name for m in METHODS.values() if "texts" in m.needs and not m.name.startswith("bdm")]
UNLABELLED = ("zero-shot", "mpe", "wpe", "carprt")  # no label is read


def heads(task):
    return np.stack([v.mean(axis=0) / np.linalg.norm(v.mean(axis=0)) for v in task.texts.by_class])


@pytest.mark.parametrize("name", SPOKEN)
def test_without_texts_that_is_the_reason(plain, name):
    with pytest.raises(InputError, match="needs texts"):
        METHODS[name].fit(plain)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.torch] * (n == "tip-adapter-f")) for n in SPOKEN])
def test_methods_with_texts_answer_well_and_the_same_again(spoken, halves, answers, name):
    if name == "tip-adapter-f":
        pytest.importorskip("torch")
    scorer = METHODS[name].fit(spoken)
    assert answers(scorer) > (0.6 if name in UNLABELLED else 0.8)
    np.testing.assert_array_equal(scorer(halves[2]), METHODS[name].fit(spoken)(halves[2]))
    np.testing.assert_allclose(scorer(3.0 * halves[2]), scorer(halves[2]), atol=1e-9)  # lengths carry nothing


def test_gda_with_texts_mixes_in_the_zero_shot_answer(judged, tested):
    own = gda.fit(replace(judged, texts=None))
    vectors, truth = judged.validation
    best = None
    for mix in (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0):
        right = ((100 * vectors @ heads(judged).T + mix * own(vectors)).argmax(axis=1) == truth).sum()
        if best is None or right > best[0]:
            best = right, mix
    assert best[1] not in (1e-4, 100.0)  # a choice that was made
    expected = 100 * tested @ heads(judged).T + best[1] * own(tested)
    np.testing.assert_allclose(gda.fit(judged)(tested), expected, atol=1e-8)


def test_proker_by_its_formula(judged, tested):
    t, (vectors, truth) = heads(judged), judged.validation
    left = one_hot(judged.truth, 10) - judged.responses @ t.T

    def scores(at, beta, penalty):
        k = np.exp(-beta * (1 - judged.responses @ judged.responses.T))
        kx = np.exp(-beta * (1 - at @ judged.responses.T))
        return at @ t.T + kx @ np.linalg.solve(k / penalty + np.eye(len(k)), left)

    best = (-1, 0.0, 0.0)
    for beta in np.linspace(0.5, 3, 20):
        for penalty in np.linspace(0.001, 1, 10):
            right = (scores(vectors, beta, penalty).argmax(axis=1) == truth).sum()
            if right > best[0]:
                best = right, beta, penalty
    found = ridge.fit_proker(judged)
    assert found.beta == best[1]
    np.testing.assert_allclose(found(tested), scores(tested, *best[1:]), atol=1e-9)


def test_mean_ensembling_is_the_mean_of_the_answers(spoken, tested):
    answers = np.stack([100 * tested @ heads.T for heads in spoken.texts.templates])
    np.testing.assert_allclose(prompt_ensembles.fit_mpe(spoken)(tested), answers.mean(axis=0), atol=1e-10)


def test_carprt_by_brute_force(spoken):
    z = 100 * np.einsum("nd,pcd->pcn", spoken.responses, spoken.texts.templates)
    expected = np.zeros((3, 10))
    for p in range(3):
        for c in range(10):
            own = [z[p, c, n] for n in range(z.shape[2]) if z[p, :, n].argmax() == c]
            expected[p, c] = np.mean(own) if own else 0.0
    np.testing.assert_allclose(prompt_ensembles.mean_answers(spoken.responses, spoken.texts.templates, 100.0), expected)
    weights = np.exp(expected) / np.exp(expected).sum(axis=0)
    head = (weights[..., None] * spoken.texts.templates).sum(axis=0)
    np.testing.assert_allclose(prompt_ensembles.fit_carprt(spoken).weights, 100 * head.T, atol=1e-9)


def test_a_template_that_answers_nothing_counts_zero():
    templates = np.array([[[1.0, 0.0], [0.5, 0.5]]])  # one template; its second class never wins
    np.testing.assert_allclose(
        prompt_ensembles.mean_answers(np.array([[1.0, 0.0], [0.8, 0.1]]), templates, 10.0), [[9.0, 0.0]]
    )


def test_weighted_ensembling_by_hand(spoken):
    z = 100 * np.einsum("nd,pcd->pcn", spoken.responses, spoken.texts.templates)
    expected = (z - z.mean(axis=2, keepdims=True)).max(axis=1).mean(axis=1)
    np.testing.assert_allclose(
        prompt_ensembles.template_scores(spoken.responses, spoken.texts.templates, 100.0), expected
    )
    head = np.einsum("p,pcd->cd", softmax(expected), spoken.texts.templates)
    np.testing.assert_allclose(prompt_ensembles.fit_wpe(spoken).weights, 100 * head.T, atol=1e-9)


@pytest.mark.parametrize("fit", [prompt_ensembles.fit_wpe, prompt_ensembles.fit_carprt])
def test_templates_are_weighed_by_test_images_as_published_where_these_are_given(spoken, halves, fit):
    test = prompt_ensembles.EnsembleSettings("test")
    with pytest.raises(InputError, match="needs the test images"):
        fit(spoken, test)
    as_published = fit(replace(spoken, tested=halves[2]), test)
    np.testing.assert_array_equal(as_published.weights, fit(replace(spoken, responses=halves[2])).weights)
    assert not np.array_equal(as_published.weights, fit(spoken).weights)
    with pytest.raises(InputError, match="Unknown images 'val'"):
        prompt_ensembles.EnsembleSettings("val")


@pytest.mark.parametrize("name", UNLABELLED)
def test_zero_shot_methods_read_no_label(spoken, tested, name):
    shuffled = replace(spoken, truth=np.roll(spoken.truth, 7))
    np.testing.assert_array_equal(METHODS[name].fit(spoken)(tested), METHODS[name].fit(shuffled)(tested))


def test_templates_must_be_the_same_for_every_class():
    with pytest.raises(InputError, match="1 to 2 texts each"):
        _ = Texts((np.ones((1, 3)), np.ones((2, 3)))).templates


def test_texts_of_another_dimension_are_refused(halves):
    with pytest.raises(InputError, match=r"texts of class '0' have shape \(1, 3\)"):
        make_task(halves[0], halves[1], texts={"0": np.ones(3)})
