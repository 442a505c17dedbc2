"""Methods that need no texts, against scikit-learn or brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from yoro.discriminant.solve import solve_mapping
from yoro.errors import InputError, SelectionError
from yoro.research.peers import deep_slda, gda, ranpac, ridge, scikit_learn
from yoro.research.peers import nearest_mean as nearest
from yoro.research.peers.method import gathered, make_task, one_hot, unit
from yoro.research.peers.methods import METHODS, find_methods


def names_of(task, scorer, responses):
    return np.asarray(task.classes)[scorer(responses).argmax(axis=1)]


@pytest.mark.filterwarnings("ignore:self.within_class_std_dev_")  # of theirs, on pixels that never vary
def test_nearest_mean_answers_as_scikit_learn(plain, halves):
    expected = NearestCentroid().fit(halves[0], halves[1]).predict(halves[2])
    np.testing.assert_array_equal(names_of(plain, nearest.fit_means(plain), halves[2]), expected)


@pytest.mark.parametrize("k", [1, 3, 5])
def test_nearest_neighbours_vote_as_in_scikit_learn(plain, halves, k):
    reference = KNeighborsClassifier(k, metric="cosine", algorithm="brute").fit(halves[0], halves[1])
    votes = nearest.fit_with(plain, k)(halves[2])
    np.testing.assert_allclose(np.floor(votes).sum(axis=1), k)
    np.testing.assert_allclose(np.floor(votes) / k, reference.predict_proba(halves[2]))


def test_the_number_of_neighbours_is_the_best_by_leave_one_out(plain):
    task = plain.normalised()
    right = {}
    for k in nearest.NEIGHBOURS:
        right[k] = 0
        for i in range(len(task.truth)):
            rest = replace(task, responses=np.delete(task.responses, i, 0), truth=np.delete(task.truth, i))
            scores = nearest.fit_with(rest, k)(task.responses[i : i + 1])
            right[k] += int(scores.argmax() == task.truth[i])
    chosen = nearest.fit(plain).neighbours
    assert right[chosen] == max(right.values())


def test_among_equal_votes_the_nearer_neighbours_win():
    similarity = np.array([[0.9, 0.8, 0.7, 0.6]])
    votes = nearest.votes(similarity, np.array([1, 0, 0, 1]), 2, 4)
    assert votes.argmax() == 1


def test_leave_one_out_of_ridge_equals_refits(plain):
    decomposed = ridge.Decomposed(plain)
    indicators = one_hot(plain.truth, 10)
    for penalty in (1.0, 1e3, 1e5):
        residuals = decomposed.residuals(penalty)
        for i in range(0, len(plain.truth), 13):
            rest = np.delete(np.arange(len(plain.truth)), i)
            refit = Ridge(penalty).fit(plain.responses[rest], indicators[rest])
            expected = indicators[i] - refit.predict(plain.responses[i : i + 1])[0]
            np.testing.assert_allclose(residuals[i], expected, atol=1e-9)


def test_a_group_is_left_out_of_ridge_whole(plain):
    decomposed, indicators = ridge.Decomposed(plain), one_hot(plain.truth, 10)
    rows = np.array([0, 1, 5, 40])
    rest = np.delete(np.arange(len(plain.truth)), rows)
    refit = Ridge(100.0).fit(plain.responses[rest], indicators[rest])
    expected = indicators[rows] - refit.predict(plain.responses[rows])
    np.testing.assert_allclose(decomposed.residuals(100.0, [rows])[rows], expected, atol=1e-9)


def test_neighbours_of_the_same_group_do_not_vote(halves):
    """Every image twice, the copies in one group: without the group k = 1 would look perfect."""
    twice, labels = np.repeat(halves[0], 2, axis=0), np.repeat(halves[1], 2)
    groups = [f"g{i // 2}" for i in range(len(labels))]
    task = make_task(twice, labels, groups=groups)
    single = nearest.fit(make_task(halves[0], halves[1])).neighbours
    assert nearest.fit(replace(task, groups=None)).neighbours == 1
    own = nearest._together(task, np.arange(4))
    assert own.sum(axis=1).tolist() == [2, 2, 2, 2]
    assert nearest.fit(task).neighbours >= single


def test_ridge_scores_equal_scikit_learns(plain, halves, answers):
    scorer = ridge.Decomposed(plain).scorer(50.0)
    expected = Ridge(50.0).fit(plain.responses, one_hot(plain.truth, 10)).predict(halves[2])
    np.testing.assert_allclose(scorer(halves[2]), expected, atol=1e-10)
    assert answers(ridge.fit(plain)) > 0.85


def test_logistic_regression_is_scikit_learns(plain, halves):
    reference = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(halves[0], plain.truth)
    np.testing.assert_allclose(
        scikit_learn.fit_logistic(plain)(halves[2]), reference.decision_function(halves[2]), atol=1e-9
    )


def test_linear_discriminant_is_scikit_learns(plain, halves):
    reference = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(halves[0], plain.truth)
    np.testing.assert_allclose(
        scikit_learn.fit_discriminant(plain)(halves[2]), reference.decision_function(halves[2]), atol=1e-9
    )


@pytest.mark.parametrize("name", ["logistic", "sklearn-lda"])
def test_two_classes_have_two_columns(halves, name):
    some = np.isin(halves[1], ["3", "8"])
    task = make_task(halves[0][some], halves[1][some])
    scores = METHODS[name].fit(task)(halves[0][some])
    assert scores.shape == (32, 2)
    assert (scores.argmax(axis=1) == task.truth).mean() > 0.9


def test_gda_is_bdm_at_a_fixed_shrinkage(plain):
    """Precision: d ((N-1) C + tr C I)^-1 equals rho (N-1)/(N-k) times BDM's at rho = d/(N-1+d)."""
    statistics = gathered(plain.normalised())
    n, k, d = 160, 10, 64
    matrix, factor = gda.precision_factor(statistics)
    precision = factor * np.linalg.inv(matrix)
    rho = d / (n - 1 + d)
    covariance = statistics.scatter / (n - k)
    shrunk = (1 - rho) * covariance + rho * np.trace(covariance) / d * np.eye(d)
    expected = rho * (n - 1) / (n - k) * np.linalg.inv(shrunk)
    np.testing.assert_allclose(precision, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    mapping = solve_mapping(statistics, rho, prior="uniform")
    np.testing.assert_allclose(
        gda.discriminant(statistics).weights, rho * (n - 1) / (n - k) * mapping.weights, atol=1e-8
    )


def test_gda_by_the_published_formula(plain, halves):
    x, y = unit(plain.responses), plain.truth
    means = np.stack([x[y == c].mean(axis=0) for c in range(10)])
    centred = x - means[y]
    covariance = centred.T @ centred / (len(x) - 1)
    precision = 64 * np.linalg.pinv((len(x) - 1) * covariance + np.trace(covariance) * np.eye(64))
    expected = unit(halves[2]) @ precision @ means.T + np.log(1 / 10) - 0.5 * np.diag(means @ precision @ means.T)
    np.testing.assert_allclose(gda.fit(plain)(halves[2]), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("columns", [40, 500])  # fewer and more than there are images
def test_ranpac_is_ridge_on_random_features(plain, halves, columns):
    scorer, trial = ranpac.fit(plain, columns), plain.validated()

    def ridge(task, penalty):  # least squares with rows of sqrt(penalty) below the features: no matrix is squared
        features = np.maximum(task.responses @ scorer.projection, 0)
        below = np.concatenate([features, np.sqrt(penalty) * np.eye(columns)])
        wanted = np.concatenate([one_hot(task.truth, 10), np.zeros((columns, 10))])
        return np.linalg.lstsq(below, wanted)[0]

    held, wanted = np.maximum(trial.validation[0] @ scorer.projection, 0), one_hot(trial.validation[1], 10)
    losses = [((held @ ridge(trial, penalty) - wanted) ** 2).sum() for penalty in ranpac.PENALTIES]
    chosen = ranpac.PENALTIES[int(np.argmin(losses))]
    assert ranpac.PENALTIES[0] < chosen < ranpac.PENALTIES[-1]
    expected = ridge(plain, chosen)
    np.testing.assert_allclose(scorer.weights, expected, atol=1e-6 * np.abs(expected).max())
    assert scorer.projection.std() == pytest.approx(1.0, abs=0.05)


def test_ranpac_chooses_the_penalty_of_least_error_on_validation_data(plain, halves):
    task = make_task(halves[0], halves[1], validation=(halves[2], halves[3]))
    scorer = ranpac.fit(task, 300)
    wanted = one_hot(task.validation[1], 10)
    path = ranpac.RidgePath(task.responses, scorer.projection, one_hot(task.truth, 10))
    held = ranpac.expand(halves[2], scorer.projection)
    losses = [((held @ path.weights(penalty) - wanted) ** 2).sum() for penalty in ranpac.PENALTIES]
    assert ((scorer(halves[2]) - wanted) ** 2).sum() == pytest.approx(min(losses))


def test_deep_slda_by_the_published_recursion(plain):
    rng = np.random.default_rng(5)
    order = rng.permutation(len(plain.truth))
    x, y = plain.responses[order], plain.truth[order]
    means, counts, covariance = np.zeros((10, 64)), np.zeros(10), np.ones((64, 64))
    for i in range(len(x)):  # i is the number of all responses seen before
        step = x[i] - means[y[i]]
        covariance = (i * covariance + np.outer(step, step) * i / (i + 1)) / (i + 1)
        counts[y[i]] += 1
        means[y[i]] += (x[i] - means[y[i]]) / counts[y[i]]
    found = deep_slda.stream(x, y, 10)
    np.testing.assert_allclose(found[0], means, atol=1e-10)
    np.testing.assert_allclose(found[1], covariance, atol=1e-9)


def test_deep_slda_is_not_the_batch_discriminant(plain):
    statistics = gathered(plain)
    covariance = deep_slda.stream(plain.responses, plain.truth, 10)[1]
    assert np.trace(covariance) > 1.2 * np.trace(statistics.scatter) / 160  # it holds the means as well


@pytest.mark.parametrize("name", [m.name for m in METHODS.values() if "texts" not in m.needs and "lm" not in m.name])
def test_methods_without_texts_answer_well_and_the_same_again(plain, halves, answers, name):
    scorer = METHODS[name].fit(plain)
    assert answers(scorer) > 0.8
    np.testing.assert_array_equal(scorer(halves[2]), METHODS[name].fit(plain)(halves[2]))


def test_held_out_images_are_at_most_four_a_class_and_never_half_a_class(halves):
    task = make_task(halves[0][[*range(16), 16, 17, 18, 32, 33]], halves[1][[*range(16), 16, 17, 18, 32, 33]])
    trial = task.validated()
    assert np.bincount(trial.validation[1]).tolist() == [4, 1, 1]
    assert np.bincount(trial.truth).tolist() == [12, 2, 1]
    other = replace(task, seed=1).validated()
    assert not np.array_equal(other.validation[0], trial.validation[0])


def test_groups_are_never_split_by_a_hold_out(halves):
    groups = [f"g{i // 4}" for i in range(160)]
    trial = make_task(halves[0], halves[1], groups=groups).validated()
    held = {tuple(row) for row in trial.validation[0]}
    inside = [groups[i] for i in range(160) if tuple(halves[0][i]) in held]
    assert 20 <= len(inside) <= 60
    assert all(inside.count(group) == 4 for group in inside)


def test_one_image_a_class_has_its_reason(halves):
    task = make_task(halves[0][::16], halves[1][::16])
    with pytest.raises(SelectionError, match="too few images"):
        ranpac.fit(task, 50)
    with pytest.raises(SelectionError, match="gives no covariance"):
        gda.fit(task)
    with pytest.raises(InputError, match="one image per class"):
        scikit_learn.fit_discriminant(task)


def test_unknown_methods_suggest_the_nearest():
    with pytest.raises(InputError, match=r"'tipadapter'. Did you mean 'tip-adapter'\?"):
        find_methods(["tipadapter"])
    with pytest.raises(InputError, match="There are "):
        find_methods(["zzzzzz"])


def test_a_class_without_training_data_is_refused(halves):
    with pytest.raises(InputError, match="Class 'y' has no training example"):
        make_task(halves[0], halves[1], validation=(halves[2][:1], ["y"]))
