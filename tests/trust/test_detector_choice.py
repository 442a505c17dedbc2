"""The out-of-distribution score that tells hidden classes best is chosen, and the usual one stays where none does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import yoro
from yoro.data.responses import ResponseBatch
from yoro.discriminant.leave_one_out import LeaveOneOut
from yoro.discriminant.readings import FEATURES, LOGITS, Layout, Reading
from yoro.mappings.batches import row_digests
from yoro.model.gathered import Gathered
from yoro.model.model import Model, Origin
from yoro.model.settings import SolveSettings
from yoro.model.solve import solve
from yoro.trust.detector_choice import (
    CENTRED,
    HELLINGER,
    RELATIVE,
    Term,
    auroc,
    candidates,
    choose_terms,
    hidden_classes,
    hide,
    transformed,
)
from yoro.trust.out_of_distribution import left_out_scores, out_of_distribution_score, usual_term

LAYOUT = Layout((Reading(LOGITS, 12), Reading(FEATURES, 16), Reading("layer-2", 20), Reading("layer-1", 10)))


def drawn(telling: str, each: int, classes: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Responses whose classes are far apart in one reading and close together in the others."""
    rng = np.random.default_rng(1)
    parts = []
    for reading in LAYOUT.readings:
        means = rng.normal(size=(classes, reading.width)) * (4.0 if reading.name == telling else 0.5)
        noise = np.random.default_rng([seed, reading.width]).normal(size=(classes * each, reading.width))
        parts.append(np.repeat(means, each, axis=0) + noise)
    return np.concatenate(parts, axis=1).astype(np.float32), np.repeat([f"{i:02}" for i in range(classes)], each)


def model_of(responses: np.ndarray, labels: np.ndarray) -> Model:
    gathered = Gathered.empty(SolveSettings.reservoir, 0, LAYOUT)
    names = [f"row {i}" for i in range(len(labels))]
    gathered.add([ResponseBatch(responses, labels.tolist(), None, row_digests(responses), names)])
    return solve(gathered, SolveSettings(), Origin())


def chosen(model: Model) -> tuple[Term, ...]:
    return choose_terms(LAYOUT, usual_term(model), model.members())


def test_a_reading_that_tells_hidden_classes_is_added():
    responses, labels = drawn("layer-1", 16)
    known = labels < "08"
    model = model_of(responses[known], labels[known])
    assert 3 in {term.reading for term in chosen(model)}
    new = drawn("layer-1", 10, seed=2)
    measure = out_of_distribution_score(model)
    usual = left_out_scores(model, model.members(), [usual_term(model)])[0]
    areas = [auroc(score(new[0][new[1] < "08"]), score(new[0][new[1] >= "08"])) for score in (usual, measure)]
    assert areas[0] < 0.8 < 0.95 < areas[1]


def test_each_reading_is_measured_with_one_thread_of_every_blas(monkeypatch):
    """A second one would busy-wait, and on busy cores take several times as long."""
    model, seen = model_of(*drawn(FEATURES, 4)), []
    make = LeaveOneOut.__init__

    def watched(*given, **named):
        seen.extend(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")
        make(*given, **named)

    monkeypatch.setattr(LeaveOneOut, "__init__", watched)
    with threadpool_limits(2, user_api="blas"):
        out_of_distribution_score(model)
    assert set(seen) == {1}


def test_the_usual_score_stays_where_the_features_tell():
    model = model_of(*drawn(FEATURES, 16))
    assert chosen(model) == (usual_term(model),)


@pytest.mark.parametrize("case", ["three classes", "two images a class", "groups"])
def test_the_usual_score_stays_where_the_choice_cannot_be_made(case):
    responses, labels = drawn("layer-1", 16)
    model = model_of(responses, labels)
    members = model.members()
    if case == "three classes":
        members = members.take(np.flatnonzero(members.labels < "03"))
    elif case == "two images a class":
        members = members.take(np.concatenate([np.flatnonzero(members.labels == c)[:2] for c in np.unique(labels)]))
    else:
        members.groups[:] = "g"
    assert choose_terms(LAYOUT, usual_term(model), members) == (usual_term(model),)


def test_hidden_classes_are_as_far_as_from_a_fit_without_them():
    responses, labels = drawn("layer-1", 6)
    rows, rho = responses[:, :12].astype(np.float64), 0.3
    truth = np.unique(labels, return_inverse=True)[1]
    for mask in hidden_classes(truth):
        found = hide((rows - 3.0) @ (rows - 3.0).T, truth, mask, rho, 12)
        without = yoro.fit((rows[~mask], labels[~mask]), shrinkage=rho).model
        distances = left_out_scores(without, without.members(), [Term(0, shrinkage=rho)])[0].terms[0]
        near = distances.within(rows).min(axis=1)
        pair = np.column_stack([near, near - distances.whole(rows)[:, 0]])
        np.testing.assert_allclose(scaled(found.hidden), scaled(pair[mask]), rtol=0, atol=1e-9)


def scaled(pair: np.ndarray) -> np.ndarray:
    """Distances up to the scale, which the known give."""
    return (pair - pair.mean(axis=0)) / pair.std(axis=0)


def test_known_responses_are_left_out_of_means_and_scatter():
    """The distances by their definition, the shrinkage target and the degrees of freedom held."""
    responses, labels = drawn("layer-1", 6, classes=5)
    rows, rho = responses[:, :12].astype(np.float64), 0.4
    truth = np.unique(labels, return_inverse=True)[1]
    mask = truth == 2
    found = hide(rows @ rows.T, truth, mask, rho, 12)
    kept, codes = rows[~mask], truth[~mask]
    pair = []
    for i in range(len(kept)):
        rest, names = np.delete(kept, i, axis=0), np.delete(codes, i)
        near = min(quadratic(kept, codes, rest, names, c, kept[i], rho) for c in np.unique(codes))
        one = np.zeros_like(codes)
        pair.append([near, near - quadratic(kept, one, rest, one[1:], 0, kept[i], rho, trace_by=codes)])
    centre, spread = np.median(pair, axis=0), np.std(pair, axis=0)
    np.testing.assert_allclose(found.known, (np.array(pair) - centre) / spread, rtol=0, atol=1e-9)


def quadratic(kept, codes, rest, names, c, z, rho, trace_by=None):
    """The squared distance of z to the mean of class c of the rest."""
    labels = codes if trace_by is None else trace_by
    classes = len(np.unique(codes))
    target = rho * scatter(kept, labels).trace() / (len(kept) - len(np.unique(labels))) / kept.shape[1]
    matrix = (1 - rho) * scatter(rest, names) / (len(kept) - classes) + target * np.eye(kept.shape[1])
    step = z - rest[names == c].mean(axis=0)
    return step @ np.linalg.solve(matrix, step)


def scatter(rows, names):
    residuals = np.concatenate([rows[names == c] - rows[names == c].mean(axis=0) for c in np.unique(names)])
    return residuals.T @ residuals


def test_the_usual_score_is_that_of_plain_inverses():
    model = model_of(*drawn(FEATURES, 4))
    members, rho = model.members(), 0.3
    measure, values, rows = left_out_scores(model, members, [Term(usual_term(model).reading, shrinkage=rho)])
    (term,), names = measure.terms, members.labels
    z, one = members.responses[:, term.part].astype(np.float64), np.zeros(len(names))

    def covariance(rest, labels):
        return scatter(rest, labels) / (len(rest) - len(np.unique(labels)))

    def shrunk(rest, labels, rho):
        found = covariance(rest, labels)
        return (1 - rho) * found + rho * found.trace() / len(found) * np.eye(len(found))

    inside, whole = covariance(z, names).trace(), covariance(z, one).trace()
    share = rho * inside / (rho * inside + (1 - rho) * whole)
    for row, value in zip(rows, values, strict=True):
        rest, labels = np.delete(z, row, axis=0), np.delete(names, row)
        steps = z[row] - np.stack([rest[labels == name].mean(axis=0) for name in np.unique(labels)])
        near = np.einsum("kd,kd->k", steps, np.linalg.solve(shrunk(rest, labels, rho), steps.T).T).min()
        step = z[row] - rest.mean(axis=0)
        far = share * whole / (rho * inside) * step @ np.linalg.solve(shrunk(rest, one[1:], share), step)
        assert value == pytest.approx(term.joined(np.array([[near, near - far]]))[0], rel=1e-9, abs=1e-9)


def test_what_the_solve_has_decomposed_is_not_decomposed_again(monkeypatch):
    model, calls, eigh = model_of(*drawn(FEATURES, 4)), [], np.linalg.eigh
    fresh = replace(model)  # a copy knows nothing of the solve
    monkeypatch.setattr("numpy.linalg.eigh", lambda matrix: calls.append(1) or eigh(matrix))
    found, counts = [], []
    for one in (model, fresh):
        found.append(left_out_scores(one, one.members(), [usual_term(one)])[1])
        counts.append(len(calls))
    assert counts == [1, 3]
    np.testing.assert_array_equal(*found)


def test_every_term_leaves_responses_out_exactly():
    responses, labels = drawn("layer-1", 5, classes=6)
    model = model_of(responses, labels)
    terms = [usual_term(model), Term(0, HELLINGER), Term(0, CENTRED, (0.0, 3.0)), Term(3)]
    members = model.members()
    measure, values, rows = left_out_scores(model, members, terms)
    for row in range(0, len(rows), 7):
        rest = members.take(np.delete(np.arange(len(members)), rows[row]))
        without = left_out_scores(model_of(rest.responses, rest.labels), rest, terms)[0]
        total = 0.0
        for mine, theirs in zip(measure.terms, without.terms, strict=True):
            one = transformed(members.responses[rows[row], mine.part][None].astype(np.float64), mine.transform)
            near = theirs.within(one).min()
            far = mine.whole.scale * type(theirs.whole)(theirs.whole.statistics, theirs.whole.spectrum, mine.whole.rho)(
                one
            )
            total += mine.joined(np.array([[near, near - far[0, 0]]]))[0]
        assert values[row] == pytest.approx(total, abs=1e-8)


def test_a_saved_model_and_another_order_make_the_same_choice(tmp_path):
    responses, labels = drawn("layer-1", 16)
    fitted = model_of(responses, labels)
    order = np.random.default_rng(3).permutation(len(labels))
    other = model_of(responses[order], labels[order])
    assert len(chosen(fitted)) > 1
    assert chosen(fitted) == chosen(other)
    new = drawn("layer-1", 3, seed=5)[0]
    np.testing.assert_allclose(
        out_of_distribution_score(fitted)(new), out_of_distribution_score(other)(new), rtol=0, atol=1e-8
    )


def test_typicality_by_a_chosen_score_is_uniform_over_new_images():
    shares, found = np.array([0.05, 0.1, 0.3, 0.5]), []
    for seed in range(4):
        model = model_of(*drawn("layer-1", 16, seed=seed))
        measure = out_of_distribution_score(model)
        assert len(measure.terms) > 1
        typical = measure.typicality(drawn("layer-1", 60, seed=seed + 50)[0])
        found.append((typical[:, None] <= shares).mean(axis=0))
    assert np.abs(np.mean(found, axis=0) - shares).max() < 0.04


def test_where_images_differ_alike_in_all_classes_the_relative_distance_counts():
    """Single reading: the noise of every image has its own size, which the relative distance forgives."""
    rng = np.random.default_rng(0)
    means, labels = 3 * rng.normal(size=(20, 30)), np.repeat([f"{i:02}" for i in range(20)], 16)
    sizes = np.exp(rng.normal(size=(320, 1)))
    responses = np.concatenate([np.repeat(means, 16, axis=0), np.zeros((320, 30))], axis=1)
    responses += sizes * rng.normal(size=(320, 60))
    model = yoro.fit((responses, labels), shrinkage=0.3).model
    assert len(out_of_distribution_score(model).terms) == 1
    assert out_of_distribution_score(model).terms[0].weights == RELATIVE


def test_every_candidate_contains_both_distances_of_the_usual_reading():
    usual = Term(1, shrinkage=0.2)
    offered = candidates(LAYOUT, usual)
    assert offered[0] == (usual,)
    assert all(terms[0].space == usual.space and min(terms[0].weights) > 0 for terms in offered)
    assert len(candidates(Layout.of(8), Term(0))) == 2
