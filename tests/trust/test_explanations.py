from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import yoro
from command_line import invoke, run
from photos import write_folder
from yoro.discriminant.shrinkage import low_rank_spectrum
from yoro.discriminant.solve import solve_path
from yoro.errors import InputError
from yoro.trust.contributions import SENTENCES, terms_of
from yoro.trust.explanations import explain_classes, strongest

SOURCE = "embedded:lite0?side=64"


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    place = tmp_path_factory.mktemp("explained")
    write_folder(place / "fitted", 6)
    write_folder(place / "new", 2, seed=3)
    return place


@pytest.fixture(scope="module")
def classifier(photos):
    """Of several readings."""
    return yoro.fit(photos / "fitted", source=SOURCE)


def check_sum(one, log_probabilities, classifier) -> None:
    """The parts of an explanation add up to the log odds of the two best classes."""
    classes = classifier.classes
    order = np.argsort(-log_probabilities)
    assert (one.label, one.second) == (classes[order[0]], classes[order[1]])
    odds = log_probabilities[order[0]] - log_probabilities[order[1]]
    whole = one.prior + one.offset + sum(part.value for part in one.parts)
    assert whole == pytest.approx(odds, abs=1e-9)
    assert one.difference == pytest.approx(odds, abs=1e-9)
    if classifier.model.words is None or not classifier.model.words.votes:
        assert abs(one.offset) < 1e-9
    for part in one.parts:
        assert abs(part.rest) < 1e-9  # the terms tell all, but for rounding
        told = part.to_json(3)
        assert sum(term["value"] for term in told["terms"]) + told["others"] == pytest.approx(part.value, abs=1e-9)


def logs_of(classifier, data):
    return np.concatenate([batch.log_probabilities for batch in classifier.answers(data)])


@settings(max_examples=20)
@given(seed=st.integers(0, 50), rows=st.integers(150, 300), prior=st.sampled_from(["empirical", "uniform"]))
def test_contributions_add_up_to_the_log_odds(digits, seed, rows, prior):
    order = np.random.default_rng(seed).permutation(len(digits[1]))
    fitted, new = order[:rows], order[rows : rows + 5]
    classifier = yoro.fit((digits[0][fitted], digits[1][fitted]), prior=prior)
    for one, logs in zip(classifier.explain(digits[0][new]), logs_of(classifier, digits[0][new]), strict=True):
        check_sum(one, logs, classifier)


def test_contributions_of_several_readings_add_up(classifier, photos):
    explained = classifier.explain(photos / "new")
    assert len(explained) == 8
    for one, logs in zip(explained, logs_of(classifier, photos / "new"), strict=True):
        check_sum(one, logs, classifier)
        assert [part.reading for part in one.parts] == list(classifier.model.statistics.layout.names)


def test_responses_far_from_zero_add_up_to_their_rounded_scores(digits):
    classifier = yoro.fit((digits[0][:200] + 1e4, digits[1][:200]))
    for one in classifier.explain(digits[0][200:220] + 1e4):
        whole = one.prior + one.offset + sum(part.value for part in one.parts)
        assert whole == pytest.approx(one.difference, abs=1e-9)
        assert abs(one.offset) < 1e-5


def test_the_offset_is_what_sentences_prefer_halfway(spoken, photos):
    classifier = spoken["sentences that vote"]
    model, head = classifier.model, classifier.model.words.descriptions.head(classifier.classes)
    for one in classifier.explain(photos / "new"):
        best, other = (classifier.classes.index(name) for name in (one.label, one.second))
        scores = head(model.statistics.parts[0].means[[best, other]].mean(axis=0, keepdims=True))[0]
        wanted = model.choice.alpha * (scores[best] - scores[other]) / model.choice.temperature
        assert one.offset == pytest.approx(wanted, abs=1e-9)


def test_halfway_between_two_classes_only_the_prior_speaks(digits):
    rows = np.concatenate([np.flatnonzero(digits[1] == "3")[:40], np.flatnonzero(digits[1] == "5")[:10]])
    classifier = yoro.fit((digits[0][rows], digits[1][rows]))
    halfway = classifier.model.statistics.parts[0].means.mean(axis=0, keepdims=True)
    one = classifier.explain(halfway)[0]
    assert one.prior == pytest.approx(np.log(4) / classifier.model.choice.temperature)
    assert (one.label, one.difference) == ("3", pytest.approx(one.prior, abs=1e-9))
    assert abs(one.offset) < 1e-9
    assert np.abs(one.parts[0].contributions).max() < 1e-9


def test_the_prior_part_is_what_another_prior_of_the_fit_would_change(digits):
    """With the shrinkage and temperature held, the two fits differ in nothing else."""
    rows = np.concatenate([np.flatnonzero(digits[1] == str(c))[: 10 + 5 * c] for c in range(4)])
    one, other = (
        yoro.fit((digits[0][rows], digits[1][rows]), prior=prior, shrinkage=0.2) for prior in ("empirical", "uniform")
    )
    object.__setattr__(other.model.choice, "temperature", one.model.choice.temperature)
    new = digits[0][digits[1] == "3"][-5:]
    for mine, theirs in zip(one.explain(new), other.explain(new), strict=True):
        assert theirs.prior == 0
        if (mine.label, mine.second) == (theirs.label, theirs.second):
            assert mine.difference - mine.prior == pytest.approx(theirs.difference, abs=1e-9)


BANK = {
    "astronaut": ["a person in a space suit", "an astronaut"],
    "cat": ["a cat", "an animal with whiskers"],
    "coffee": ["a cup of coffee", "a hot drink"],
    "rocket": ["a rocket", "a missile on its way"],
}
SPOKEN = {
    "sentences that vote": {},
    "sentences that do not": {"zero_shot": False, "shrinkage": 0.3},
    "sentences alone": {"shots": 0},
}


@pytest.fixture(scope="module")
def spoken(photos):
    """Fitted on an image-text source, in three ways."""
    (photos / "bank.json").write_text(json.dumps(BANK))
    common = {"source": "embedded:conse", "attributes": str(photos / "bank.json")}
    return {name: yoro.fit(photos / "fitted", **common, **options) for name, options in SPOKEN.items()}


@pytest.mark.parametrize("kind", SPOKEN)
def test_sentences_add_up_too(spoken, photos, kind):
    classifier = spoken[kind]
    for one, logs in zip(classifier.explain(photos / "new"), logs_of(classifier, photos / "new"), strict=True):
        check_sum(one, logs, classifier)
        assert one.parts[0].reading == SENTENCES
        assert len(set(one.parts[0].names)) == len(one.parts[0].names)  # a sentence drawn twice is one term
        assert set(one.parts[0].names) <= {sentence for sentences in BANK.values() for sentence in sentences}


def test_the_weights_of_sentences_are_those_of_the_discriminant_over_the_responses(spoken):
    model = (fitted := spoken["sentences that do not"]).model
    statistics, texts = model.statistics.parts[0], model.words.scale * model.words.vectors.astype(np.float64)
    over_v = solve_path(statistics, low_rank_spectrum(statistics, model.words.vectors, model.words.scale), [0.3])[0]
    wanted = np.linalg.lstsq(texts.T, over_v.weights)[0]  # the shortest with these scores, as the dense solution is
    terms, sentences = terms_of(fitted)[0], model.words.bank.flat()[0]
    assert len(sentences) > len(terms.names)
    summed = [wanted[[one == name for one in sentences]].sum(axis=0) for name in terms.names]
    found = terms.weights(model.mapping.weights)
    assert np.allclose(found, summed, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())


def test_sentences_speak_for_their_own_class(spoken):
    for kind in ("sentences that vote", "sentences alone"):
        reasons = {one.label: one for one in spoken[kind].explain_classes()}
        assert reasons["cat"].speaking_for(1)[0][0] in BANK["cat"]
        assert reasons["rocket"].speaking_for(1)[0][0] in BANK["rocket"]


def test_source_classes_that_speak_for_a_class_are_named(classifier):
    (cat,) = classifier.explain_classes("cat")
    assert cat.reading == "logits"
    names = {name for name, _ in cat.speaking_for(8)}
    assert names & {"Egyptian cat", "tabby", "tiger cat", "lynx", "Siamese cat", "Persian cat"}
    assert all(value > 0 for _, value in cat.speaking_for(8))
    assert all(value < 0 for _, value in cat.speaking_against(8))
    assert not names & {name for name, _ in cat.speaking_against(8)}


def strengths(classifier):
    return np.array([one.strengths for one in explain_classes(classifier)])


def test_strengths_follow_the_responses_wherever_they_stand(digits):
    turned = np.random.default_rng(0).permutation(64)
    one, two = (yoro.fit((responses, digits[1][:300])) for responses in (digits[0][:300], digits[0][:300, turned]))
    assert np.allclose(strengths(one)[:, turned], strengths(two), atol=1e-8)


def test_strengths_do_not_depend_on_the_unit_of_a_response(digits):
    """Without shrinkage neither does the discriminant."""
    rng = np.random.default_rng(0)
    responses = digits[0][:500] + rng.normal(size=(500, 64))  # no column is constant
    units = np.exp(rng.normal(size=64))
    one, two = (yoro.fit((z, digits[1][:500]), shrinkage=0.0) for z in (responses, responses * units))
    assert np.allclose(strengths(one), strengths(two), atol=1e-8)
    assert not np.allclose(one.model.mapping.weights, two.model.mapping.weights, rtol=0.1)


def test_strengths_are_the_same_whether_few_or_many_responses_were_fitted_at_once(digits):
    """The scatter is kept as rows, or as a matrix."""
    rows = yoro.fit((digits[0][:50], digits[1][:50]), shrinkage=0.2)
    folded = yoro.fit((digits[0][:50], digits[1][:50]), shrinkage=0.2, reservoir=0)
    folded.update((digits[0][50:150], digits[1][50:150]))
    folded.forget((digits[0][50:150], digits[1][50:150]))
    assert rows.model.statistics.parts[0].factor is not None
    assert folded.model.statistics.parts[0].factor is None
    assert np.allclose(strengths(rows), strengths(folded), atol=1e-7)


def test_what_is_lacking_is_called_little(classifier, photos):
    one = classifier.explain(photos / "fitted" / "cat")[0]
    part = next(part for part in one.parts if part.named)
    assert part.low.any()
    assert not part.low.all()
    assert part.said == [f"little {name}" if low else name for name, low in zip(part.names, part.low, strict=True)]


def test_unnamed_responses_have_numbers(digits):
    classifier = yoro.fit((digits[0][:150], digits[1][:150]))
    one = classifier.explain(digits[0][200:201])[0]
    (best, value), *_ = strongest(one.parts, 1)[0]
    assert best == f"channel {int(one.parts[0].contributions.argmax())} of logits"
    assert value == one.parts[0].contributions.max()
    with pytest.raises(InputError, match=r"Unknown class '.*Did you mean '1'"):
        classifier.explain_classes("11")


def test_nearest_fitted_images_are_found_and_named(classifier, photos):
    found = classifier.explain(photos / "fitted" / "cat", near=3, fitted=photos / "fitted")
    for one in found:
        first = one.nearest[0]
        assert first.similarity == pytest.approx(1.0)
        assert (first.name, first.label) == (one.name, "cat")
        assert [n.similarity for n in one.nearest] == sorted((n.similarity for n in one.nearest), reverse=True)
    nameless = classifier.explain(photos / "fitted" / "cat", near=3)
    assert [[replace(n, name="") for n in one.nearest] for one in found] == [list(one.nearest) for one in nameless]
    classifier = yoro.fit(photos / "fitted", source=SOURCE)
    classifier.drop_reservoir()
    assert all(one.nearest == () for one in classifier.explain(photos / "new"))


BLACK_BOX = """
import numpy as np

asked = [0]

def respond(images):  # the mean colours of the upper left quarter and of the whole
    asked[0] += len(images)
    z = np.asarray(images, dtype=np.float32) / (255 if images.dtype == np.uint8 else 1)
    return np.concatenate([z[:, :16, :16].mean(axis=(1, 2)), np.ones((len(z), 1))], axis=1)

respond.side, respond.width = 32, 4
"""


def test_the_map_of_a_black_box_shows_what_it_looks_at_for_the_passes_stated(photos, tmp_path, monkeypatch):
    (tmp_path / "box.py").write_text(BLACK_BOX)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    classifier = yoro.fit(photos / "fitted", source="callable:box:respond")
    import box

    box.asked[0] = 0
    one = classifier.explain([photos / "new" / "coffee" / "000.jpg"], occlusion=4)[0]
    assert box.asked[0] == 4 * 4 + 1
    assert one.occlusion.shape == (4, 4)
    assert np.abs(one.occlusion[:2, :2]).max() > 1e-3
    assert np.abs(one.occlusion[2:]).max() < 1e-9
    assert np.abs(one.occlusion[:, 2:]).max() < 1e-9
    for grid in (1, 33):
        with pytest.raises(InputError, match="2 to 32"):
            classifier.explain([photos / "new" / "coffee" / "000.jpg"], occlusion=grid)


def test_a_map_of_responses_is_refused(digits):
    with pytest.raises(InputError, match="needs images"):
        yoro.fit((digits[0][:150], digits[1][:150])).explain(digits[0][:1], occlusion=4)


def test_the_command_explains_classes_and_images(classifier, photos, tmp_path):
    classifier.save(tmp_path / "m.yoro")
    told = json.loads(run("explain", tmp_path / "m.yoro", "--class", "cat", "--top", 2, "--json").stdout)["classes"]
    assert [(one["label"], one["reading"], len(one["for"])) for one in told] == [("cat", "logits", 2)]
    assert run("explain", tmp_path / "m.yoro").stdout.count(": logits,") == 4
    new = photos / "new" / "cat" / "000.jpg"
    words = ("explain", tmp_path / "m.yoro", new, "--data", photos / "fitted", "--near", 2)
    done = run(*words, "--occlusion", 3, "--json")
    assert "10 forward passes" in done.stderr
    (one,) = json.loads(done.stdout)["images"]
    whole = one["prior"] + one["offset"] + sum(part["value"] for part in one["readings"])
    assert whole == pytest.approx(one["difference"], abs=1e-9)
    assert one["nearest"][0]["name"].startswith(str(photos / "fitted"))
    assert np.shape(one["occlusion"]) == (3, 3)
    text = run(*words).stdout
    assert "log odds" in text
    assert "most similar training images" in text
    assert str(new) in text
    for wrong, said in {
        ("--class", "cot"): "Did you mean 'cat'",
        ("--occlusion", "4"): "need images",
        (new, "--class", "cat"): "not both",
        (new, "--occlusion", "99"): "2 to 32",
    }.items():
        ended = invoke("explain", tmp_path / "m.yoro", *wrong)
        assert ended.code in (1, 2)
        assert said in ended.stderr
