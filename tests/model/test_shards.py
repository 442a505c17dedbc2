from pathlib import Path

import numpy as np
import pytest

import yoro
from yoro.data.responses import ResponseBatch
from yoro.discriminant.readings import Layout, Reading
from yoro.errors import InputError, StoreError
from yoro.mappings.batches import row_digests
from yoro.model.gathered import Gathered
from yoro.model.model import Origin
from yoro.model.shards import Shard, merged, read_shard, write_shard

LAYOUT = Layout((Reading("logits", 4), Reading("features", 3, "unit")))


def batch(seed: int, n: int = 30) -> ResponseBatch:
    rng = np.random.default_rng(seed)
    labels = [str(name) for name in rng.choice(["cat", "dog", "owl"], n)]
    responses = rng.normal(size=(n, LAYOUT.width)).astype(np.float32)
    return ResponseBatch(responses, labels, None, row_digests(responses), [f"{seed}-{i}" for i in range(n)])


def gathered(*seeds: int, capacity: int = 40, noting: bool = True) -> Gathered:
    result = Gathered.empty(capacity, 0, LAYOUT, noting=noting)
    for seed in seeds:
        result.add([batch(seed)])
    return result


def assert_equal(one: Gathered, two: Gathered) -> None:
    assert one.statistics.classes == two.statistics.classes
    for mine, theirs in zip(one.statistics.parts, two.statistics.parts, strict=True):
        np.testing.assert_allclose(mine.means, theirs.means, atol=1e-13)
        np.testing.assert_allclose(mine.scatter, theirs.scatter, atol=1e-11)
    assert one.ledger.entries() == two.ledger.entries()
    assert one.images == two.images
    assert (one.reservoir is None) == (two.reservoir is None)
    if one.reservoir is not None and two.reservoir is not None:
        np.testing.assert_array_equal(one.reservoir.members().responses, two.reservoir.members().responses)
        assert one.reservoir.members().digests == two.reservoir.members().digests


@pytest.mark.parametrize("noting", [True, False])
@pytest.mark.parametrize("capacity", [0, 40])
def test_a_shard_is_read_as_it_was_written(tmp_path: Path, capacity: int, noting: bool) -> None:
    shard = Shard(gathered(1, capacity=capacity, noting=noting), Origin(), ("a",), {"party": "north"})
    write_shard(shard, tmp_path / "a.stats")
    again = read_shard(tmp_path / "a.stats")
    assert_equal(again.gathered, shard.gathered)
    assert (again.parts, again.facts, again.origin) == (("a",), {"party": "north"}, Origin())
    assert again.gathered.noting is noting


def test_shards_add_up_to_the_whole_in_their_order() -> None:
    shards = [Shard(gathered(seed), Origin(), (str(seed),)) for seed in range(7)]
    whole = merged(shards)
    assert whole.parts == tuple("0123456")
    assert_equal(whole.gathered, gathered(*range(7)))


def test_what_one_shard_does_not_keep_the_sum_has_not() -> None:
    whole = merged([Shard(gathered(1), Origin()), Shard(gathered(2, capacity=0, noting=False), Origin())])
    assert whole.gathered.reservoir is None
    assert len(whole.gathered.ledger) == 0
    assert whole.gathered.statistics.total == 60


def test_a_part_that_came_twice_is_refused() -> None:
    one = Shard(gathered(1), Origin(), ("a", "b"))
    with pytest.raises(InputError, match="twice"):
        merged([one, Shard(gathered(2), Origin(), ("c",)), Shard(gathered(1), Origin(), ("b",))])


def test_shards_of_two_sources_do_not_add_up() -> None:
    other = Origin(made_by={"source": {"digest": "1"}})
    with pytest.raises(InputError, match="digest"):
        merged([Shard(gathered(1), Origin(made_by={"source": {"digest": "0"}})), Shard(gathered(2), other)])


def test_damage_is_said(tmp_path: Path) -> None:
    content = Shard(gathered(1), Origin()).to_bytes()
    for damaged in (b"", content[:100], content[:-8], content.replace(b'"noting\\": true', b'"noting\\": 1234')):
        (tmp_path / "a.stats").write_bytes(damaged)
        with pytest.raises(StoreError, match=r"a\.stats"):
            read_shard(tmp_path / "a.stats")
    with pytest.raises(StoreError, match=r"does not|cannot be read"):
        read_shard(tmp_path / "none.stats")


def test_a_model_is_no_shard(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    classifier = yoro.fit((rng.normal(size=(20, 3)), np.array(["a", "b"] * 10)))
    classifier.save(tmp_path / "m.yoro")
    with pytest.raises(StoreError, match="yoro-statistics"):
        read_shard(tmp_path / "m.yoro" / "statistics.safetensors")
