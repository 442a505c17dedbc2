"""Methods that read texts, against brute force: digits as image vectors, noisy class means as text vectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from yoro.errors import InputError
from yoro.peers import ape, gda, lpplusplus, proker, prompt_ensembles, tip_adapter
from yoro.peers.contract import Texts, make_task, one_hot, unit
from yoro.peers.methods import METHODS

SPOKEN = [m.name for m in METHODS.values() if "texts" in m.needs and not m.name.startswith("bdm")]
UNLABELLED = ("zero-shot", "mpe", "wpe", "carprt")  # no label is read


@pytest.fixture(scope="module")
def tested(halves):
    return unit(halves[2])


def heads(task):
    return np.stack([v.mean(axis=0) / np.linalg.norm(v.mean(axis=0)) for v in task.texts.by_class])


@pytest.mark.parametrize("name", SPOKEN)
def test_without_texts_the_reason_is_no_text_tower(plain, name):
    with pytest.raises(InputError, match="no text tower"):
        METHODS[name].fit(plain)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.torch] * (n == "tip-adapter-f")) for n in SPOKEN])
def test_methods_with_texts_answer_well_and_the_same_again(spoken, halves, answers, name):
    if name == "tip-adapter-f":
        pytest.importorskip("torch")
    scorer = METHODS[name].fit(spoken)
    assert answers(scorer) > (0.6 if name in UNLABELLED else 0.8)
    np.testing.assert_array_equal(scorer(halves[2]), METHODS[name].fit(spoken)(halves[2]))
    np.testing.assert_allclose(scorer(3.0 * halves[2]), scorer(halves[2]), atol=1e-9)  # lengths carry nothing


def test_tip_adapter_by_its_formula(spoken, tested):
    cache = tip_adapter.fit(spoken)
    expected = np.empty((len(tested), 10))
    for i, v in enumerate(tested):
        votes = np.zeros(10)
        for key, c in zip(spoken.responses, spoken.truth, strict=True):
            votes[c] += np.exp(-cache.beta * (1 - v @ key))
        expected[i] = 100 * heads(spoken) @ v + cache.alpha * votes
    np.testing.assert_allclose(cache(tested), expected, rtol=1e-9)
    assert cache.beta in tip_adapter.BETAS
    assert cache.alpha in tip_adapter.ALPHAS


def test_the_grid_of_tip_adapter_is_the_published_one():
    assert len(tip_adapter.BETAS) == 200
    assert len(tip_adapter.ALPHAS) == 20
    assert tip_adapter.BETAS[0] == tip_adapter.ALPHAS[0] == 0.1
    assert tip_adapter.BETAS[1] - 0.1 == pytest.approx((12 - 0.1) / 200)


def test_tip_adapter_takes_the_first_best_pair(spoken, halves):
    task = replace(spoken, validation=(unit(halves[2]), np.searchsorted(np.unique(halves[3]), halves[3])))
    cache = tip_adapter.fit(task)
    best = (cache(halves[2]).argmax(axis=1) == task.validation[1]).sum()
    for beta in tip_adapter.BETAS[::40]:
        for alpha in tip_adapter.ALPHAS[::5]:
            other = replace(cache, beta=beta, alpha=alpha)
            assert (other(halves[2]).argmax(axis=1) == task.validation[1]).sum() <= best


@pytest.mark.torch
def test_the_first_step_of_tip_adapter_f_descends_the_cross_entropy(spoken):
    torch = pytest.importorskip("torch")
    task = spoken.normalised().validated()
    head = task.texts.scale * task.texts.heads.T
    history = list(tip_adapter.train_keys(task, head))
    assert len(history) == 21
    values = one_hot(task.truth, 10)

    def loss(keys):
        scores = tip_adapter.Cache(keys, values, head, tip_adapter.BETA, tip_adapter.ALPHA)(task.responses)
        probability = softmax(scores, axis=1)
        return -np.log(probability[np.arange(len(scores)), task.truth]).mean()

    assert loss(history[-1]) < loss(history[1]) < loss(history[0])
    keys = torch.tensor(history[0], dtype=torch.float64, requires_grad=True)
    vectors = torch.tensor(task.responses)
    tip_adapter._loss(
        keys, vectors, vectors @ torch.tensor(head), torch.tensor(values), torch.tensor(task.truth)
    ).backward()
    for i, j in ((0, 20), (50, 33)):  # by differences
        moved = [history[0].copy(), history[0].copy()]
        moved[0][i, j] += 1e-5
        moved[1][i, j] -= 1e-5
        assert float(keys.grad[i, j]) == pytest.approx((loss(moved[0]) - loss(moved[1])) / 2e-5, rel=1e-4, abs=1e-9)


def test_gda_with_texts_mixes_in_the_zero_shot_answer(spoken, tested):
    scorer = gda.fit(spoken)
    own = gda.fit(replace(spoken, texts=None))(tested)
    zero_shot = 100 * tested @ heads(spoken).T
    gaps = [np.abs(scorer(tested) - zero_shot - mix * own).max() for mix in gda.MIXES]
    assert min(gaps) < 1e-8


def test_ape_by_brute_force(spoken, tested):
    refined = ape.fit(spoken)
    x, y, t = spoken.responses, spoken.truth, heads(spoken)
    everything, whose = np.concatenate([x, t]), np.concatenate([y, np.arange(10)])
    pairs = [everything[i] * everything[whose != whose[i]] for i in range(len(whose))]
    similarity = np.concatenate(pairs).mean(axis=0)
    criterion = -0.7 * similarity + 0.3 * t.var(axis=0, ddof=1)
    np.testing.assert_allclose(ape.pair_similarity(everything, whose, 10), similarity, atol=1e-12)
    kept = np.sort(np.argsort(-criterion, kind="stable")[:45])
    np.testing.assert_array_equal(refined.channels, kept)
    keys = unit(x[:, kept])
    probability = softmax(keys @ unit(t[:, kept]).T, axis=1)[np.arange(len(y)), y]
    gains = [np.abs(refined.values - one_hot(y, 10) * (probability**-gamma)[:, None]).max() for gamma in ape.GAMMAS]
    assert min(gains) < 1e-9
    votes = np.exp(-refined.beta * (1 - unit(tested[:, kept]) @ keys.T)) @ refined.values
    np.testing.assert_allclose(refined(tested), 100 * tested @ t.T + refined.alpha * votes, rtol=1e-9)


def test_timo_by_brute_force(spoken, tested):
    scorer = gda.fit_guided(spoken)
    x, y = list(spoken.responses), list(spoken.truth)
    weights, columns = [1.0] * len(x), []
    for c, vectors in enumerate(spoken.texts.by_class):
        mean = spoken.responses[spoken.truth == c].mean(axis=0)
        s = vectors @ (mean / np.linalg.norm(mean))
        columns.append(softmax(50 * s / np.linalg.norm(s)) @ vectors)
        for i in np.argsort(-s)[:2]:  # half of three, rounded
            x.append(vectors[i])
            y.append(c)
            weights.append(s[i])
    x, y, w = np.array(x), np.array(y), np.array(weights)
    means = np.stack([np.average(x[y == c], axis=0, weights=w[y == c]) for c in range(10)])
    centred = (x - means[y]) * np.sqrt(w)[:, None]
    scatter, total = centred.T @ centred, w.sum()
    precision = 64 * np.linalg.inv(scatter + np.trace(scatter) / (total - 1) * np.eye(64))
    own = tested @ precision @ means.T - np.log(10) - 0.5 * np.diag(means @ precision @ means.T)
    gaps = [np.abs(scorer(tested) - mix * tested @ np.stack(columns, axis=1) - own).max() for mix in gda.GUIDED_MIXES]
    assert min(gaps) < 1e-6


def test_timo_s_is_never_behind_timo_on_the_validation_data(spoken, halves):
    truth = np.searchsorted(np.unique(halves[3]), halves[3])
    task = replace(spoken, validation=(unit(halves[2]), truth))
    plain, searched = (
        (METHODS[name].fit(task)(halves[2]).argmax(axis=1) == truth).sum() for name in ("timo", "timo-s")
    )
    assert searched >= plain


def test_gradients_of_lp_plus_plus_by_differences(spoken):
    task = spoken.normalised()
    cosines = task.responses @ heads(task).T
    probe = lpplusplus.start(task, cosines)
    np.testing.assert_allclose(probe.weights[:, 3], task.responses[task.truth == 3].sum(axis=0))
    assert probe.blend[2] == pytest.approx(250 * cosines[task.truth == 2, 2].mean())
    probe = replace(probe, weights=0.1 * probe.weights, blend=0.01 * probe.blend)  # where the softmax is not flat
    indicators = one_hot(task.truth, 10)
    slope = lpplusplus.gradients(probe, task.responses, cosines, indicators)

    def loss(part, where, step):
        moved = {name: getattr(probe, name).copy() for name in ("weights", "blend", "bias")}
        moved[part][where] += step
        p = softmax(lpplusplus.Probe(**moved).scores(task.responses, cosines), axis=1)
        return -np.log(p[np.arange(len(p)), task.truth]).mean()

    for part, where in (("weights", (30, 4)), ("weights", (12, 0)), ("blend", (7,)), ("bias", (2,))):
        expected = (loss(part, where, 1e-6) - loss(part, where, -1e-6)) / 2e-6
        assert getattr(slope, part)[where] == pytest.approx(expected, rel=1e-5, abs=1e-9)


def test_lp_plus_plus_folds_into_one_affine_map(spoken, tested):
    task = spoken.normalised()
    probe = lpplusplus.start(task, task.responses @ heads(task).T)
    folded = probe.folded(heads(task))
    np.testing.assert_allclose(folded(tested), probe.scores(tested, tested @ heads(task).T), atol=1e-9)


def test_proker_by_its_formula(spoken, tested):
    scorer = proker.fit(spoken)
    t = heads(spoken)
    k = np.exp(-scorer.beta * (1 - spoken.responses @ spoken.responses.T))
    left = one_hot(spoken.truth, 10) - spoken.responses @ t.T
    kx = np.exp(-scorer.beta * (1 - tested @ spoken.responses.T))
    gaps = []
    for penalty in proker.PENALTIES:
        expected = tested @ t.T + kx @ np.linalg.inv(k / penalty + np.eye(len(k))) @ left
        gaps.append(np.abs(scorer(tested) - expected).max())
    assert min(gaps) < 1e-9


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
