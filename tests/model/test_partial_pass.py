from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import yoro
from photos import write_folder
from yoro.errors import InputError, StatisticsError
from yoro.model.model import Model
from yoro.model.partial_pass import DataShare, gather_shard
from yoro.model.settings import FitSettings, PipelineSettings, SolveSettings
from yoro.model.shards import Shard, merged, missing_shares, read_shard, shard_of, solve_shards, told_parts, write_shard
from yoro.trust.unlearning import largest_difference, verify

SUMS = {"sums_only": True}


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    return write_folder(tmp_path_factory.mktemp("shares") / "photos", count=5)


@pytest.fixture(scope="module")
def rows(tmp_path_factory, digits) -> Path:
    path = tmp_path_factory.mktemp("rows") / "digits.npz"
    np.savez(path, responses=digits[0][:900], labels=digits[1][:900])
    return path


def shards_of(data: object, n: int, settings: FitSettings | None = None, **options: bool) -> list[Shard]:
    chosen = settings or FitSettings()
    return [gather_shard(data, chosen, DataShare(i, n), **options).shard for i in range(1, n + 1)]


def same(one: Model, two: Model) -> None:
    # Scores, not weights: where the covariance is nearly singular, rounding moves the weights along directions in which
    # no response differs from another.
    asked = two.statistics.means if two.members() is None else two.members().responses
    scores = two.mapping(asked)
    np.testing.assert_allclose(one.mapping(asked), scores, rtol=0, atol=1e-7 * max(1.0, np.abs(scores).max()))
    assert [part.shrinkage for part in one.choice.parts] == [part.shrinkage for part in two.choice.parts]
    assert one.choice.shrinkage == two.choice.shrinkage
    assert one.ledger.entries() == two.ledger.entries()
    mine, theirs = one.members(), two.members()
    assert (mine is None) == (theirs is None)
    if mine is not None and theirs is not None:
        np.testing.assert_array_equal(mine.responses, theirs.responses)
        assert mine.digests == theirs.digests


@given(count=st.integers(1, 200), of=st.integers(1, 40))
def test_all_shares_together_have_every_row_once_and_in_order(count, of):
    if of > count:
        with pytest.raises(InputError, match=r"is empty|Make at most"):
            [DataShare(i, of).rows(count) for i in range(1, of + 1)]
        return
    met = [row for i in range(1, of + 1) for row in DataShare(i, of).rows(count)]
    assert met == list(range(count))


@pytest.mark.parametrize("text", ["3", "0/4", "5/4", "a/b", "1/0", "-1/3", "1/2/3", ""])
def test_what_is_no_share_is_said(text):
    with pytest.raises(InputError, match="expected I/N"):
        DataShare.parse(text)


def test_three_shares_of_photos_merge_into_the_fit_of_all(photos, tmp_path):
    shards = []
    for i, shard in enumerate(shards_of(photos, 3)):
        write_shard(shard, tmp_path / f"{i}.stats")
        shards.append(read_shard(tmp_path / f"{i}.stats"))
    made = solve_shards(shards, None, "empirical")
    assert made.notes == ()
    same(made.model, yoro.fit(photos).model)
    assert made.model.origin == yoro.fit(photos).model.origin


@pytest.mark.parametrize("n", [1, 2, 7])
def test_shares_of_a_response_file_merge_into_the_fit_of_all(rows, n):
    made = solve_shards(shards_of(rows, n), None, "empirical")
    same(made.model, yoro.fit(rows).model)


def test_the_sample_is_the_same_where_it_is_smaller_than_the_data(rows):
    settings = FitSettings(solve=SolveSettings(reservoir=100, seed=3))
    made = solve_shards(shards_of(rows, 5, settings), None, "empirical")
    same(made.model, yoro.fit(rows, reservoir=100, seed=3).model)


def test_whether_two_views_help_is_decided_after_the_merge(photos):
    settings = FitSettings(pipeline=PipelineSettings(read="features", views=2))
    made = solve_shards(shards_of(photos, 2, settings), None, "empirical")
    whole = yoro.fit(photos, read="features", views=2).model
    same(made.model, whole)
    assert made.model.origin == whole.origin
    assert made.model.history[-1]["views"] == 2


def test_sums_alone_hold_no_response_no_digest_and_no_name(photos, digits, tmp_path):
    (photos / "cat" / "broken-secret-name.jpg").write_bytes(b"no image")
    try:
        made = gather_shard(photos, FitSettings(pipeline=PipelineSettings(read="features")), sums_only=True)
        full = gather_shard(photos, FitSettings(pipeline=PipelineSettings(read="features"))).shard
    finally:
        (photos / "cat" / "broken-secret-name.jpg").unlink()
    assert [Path(name).name for name, _ in made.skipped] == ["broken-secret-name.jpg"]
    write_shard(made.shard, tmp_path / "a.stats")
    content, shard = (tmp_path / "a.stats").read_bytes(), read_shard(tmp_path / "a.stats")
    assert b"secret" not in content
    assert b"secret" in full.to_bytes()
    assert not len(shard.gathered.ledger)
    assert shard.gathered.reservoir is None
    assert all(part.factor is None for part in shard.gathered.statistics.parts)  # rows would be single responses
    for digest, _ in full.gathered.ledger.entries():
        assert digest not in content
    for response in full.gathered.reservoir.members().responses:
        assert response.tobytes() not in content
        assert response.astype(np.float64).tobytes() not in content


def test_the_name_of_sums_alone_tells_nothing_and_that_of_a_whole_shard_its_contents(rows):
    one, two = (gather_shard(rows, FitSettings(), sums_only=True).shard for _ in range(2))
    assert one.parts != two.parts
    three, four = (gather_shard(rows, FitSettings()).shard for _ in range(2))
    assert three.parts == four.parts


def test_sums_alone_are_solved_by_a_closed_formula_and_that_is_said(rows):
    made = solve_shards(shards_of(rows, 4, **SUMS), None, "empirical")
    assert "Shrinkage by oas" in " ".join(made.notes)
    assert largest_difference(made.model, yoro.fit(rows, shrinkage="oas", reservoir=0).model) < 1e-9
    fixed = solve_shards(shards_of(rows, 4, **SUMS), 0.1, "uniform")
    assert [note.partition(":")[0] for note in fixed.notes] == ["Overlap cannot be checked"]
    whole = yoro.fit(rows, shrinkage=0.1, reservoir=0, prior="uniform").model
    assert largest_difference(fixed.model, whole) < 1e-9


def test_a_shard_that_came_twice_is_refused_and_one_within_a_model_too(rows):
    shards = shards_of(rows, 3)
    with pytest.raises(InputError, match=shards[1].parts[0]):
        merged([*shards, shards[1]])
    model = solve_shards(shards[:2], None, "empirical").model
    with pytest.raises(InputError, match=shards[1].parts[0]):
        merged([shard_of(model), shards[1]])
    whole = solve_shards([shard_of(model), shards[2]], None, "empirical", model.history).model
    same(whole, yoro.fit(rows).model)
    assert sorted(shard_of(whole).parts) == sorted(part for shard in shards for part in shard.parts)


def test_shares_that_are_lost_are_named_until_they_come(rows):
    shards = shards_of(rows, 5)
    lost = merged([shards[0], shards[3]])
    assert missing_shares(lost) == ["3 of 5 parts of the same data are missing: 2, 3, 5."]
    assert missing_shares(merged([lost, shards[2], shards[1], shards[4]])) == []
    same_rows = shards[0].gathered.images + shards[3].gathered.images
    assert lost.gathered.statistics.total == same_rows


def test_classes_that_vanish_with_a_lost_part_are_named(tmp_path):
    responses = np.random.default_rng(0).normal(size=(40, 3))
    np.savez(tmp_path / "z.npz", responses=responses, labels=np.repeat(["a", "b", "c", "d"], 10))
    shards = shards_of(tmp_path / "z.npz", 4)
    said = missing_shares(merged([shards[0], shards[1], shards[3]]))
    assert said == ["1 of 4 parts of the same data is missing: 3. Without it these classes have no image: 'c'."]
    assert told_parts(merged([shards[0], shards[3]])) == "1, 4 of 4"
    with pytest.raises(InputError, match=r"data for 1 class;.* 3 of 4 parts .* are missing: 2, 3, 4\. .*'b', 'c', 'd'"):
        solve_shards([shards[0]], None, "empirical")
    assert told_parts(gather_shard(tmp_path / "z.npz", FitSettings(), **SUMS).shard) == "1"


def test_a_total_beside_a_part_of_it_is_warned_of_where_there_are_no_hashes(rows):
    part, other = shards_of(rows, 2, **SUMS)
    total = replace(merged([part, other]), parts=("a-session",))  # as secure aggregation names it
    for both in ([total, part], [total, shards_of(rows, 2)[0]]):
        notes = solve_shards(both, None, "empirical").notes
        assert any("Overlap cannot be checked" in note and "count twice" in note for note in notes)
    assert not any("Overlap" in note for note in solve_shards([total], None, "empirical").notes)


def test_shares_cut_differently_overlap_and_that_is_said(rows):
    halves, thirds = shards_of(rows, 2), shards_of(rows, 3)
    made = solve_shards([halves[0], thirds[0]], None, "empirical")
    assert "300 examples in two of the files, now counted twice." in made.notes


def test_beside_the_whole_that_a_part_is_of_nothing_is_missing(rows):
    whole, part = gather_shard(rows, FitSettings()).shard, shards_of(rows, 3)[1]
    notes = solve_shards([whole, part], None, "empirical").notes
    assert notes == (f"{part.gathered.images} examples in two of the files, now counted twice.",)


def test_facts_of_a_stranger_are_no_reason_to_fall(rows):
    shard = shards_of(rows, 2)[0]
    for odd in ([], {"a": 1}, {"a": {"of": "9", "have": 3}}, {"a": {"of": 10**12, "have": ["x", None]}}):
        missing_shares(replace(shard, facts={"shares": odd}))
        told_parts(replace(shard, facts={"shares": odd}))


def test_a_model_without_a_list_says_so_and_stays_as_it_was(rows):
    made = solve_shards(shards_of(rows, 2, **SUMS), None, "empirical")
    classifier = yoro.model.open_model.OpenModel(made.model)
    receipt = yoro.fit(rows).forget(rows_of(rows, 5)).receipt
    before = made.model.mapping.weights.copy()
    for verb in (lambda: classifier.forget(rows_of(rows, 5)), lambda: verify(classifier, receipt)):
        with pytest.raises(StatisticsError, match="no image hashes"):
            verb()
    np.testing.assert_array_equal(classifier.model.mapping.weights, before)
    classifier.update(rows_of(rows, 5))
    assert classifier.model.statistics.total == 905
    assert len(classifier.model.ledger) == 0


def rows_of(path: Path, n: int) -> tuple[np.ndarray, np.ndarray]:
    with np.load(path) as file:
        return file["responses"][:n], file["labels"][:n]


def test_sentences_do_not_go_into_a_file_of_statistics(photos):
    with pytest.raises(InputError, match="--read features"):
        gather_shard(photos, FitSettings(pipeline=PipelineSettings(source="embedded:conse", read="logits")))
