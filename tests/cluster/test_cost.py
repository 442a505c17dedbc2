from __future__ import annotations

import numpy as np
import pytest

from yoro.cluster.cost import Prices, Shape, cost_of
from yoro.data.responses import ResponseBatch
from yoro.discriminant.readings import Layout, Reading
from yoro.model.gathered import Gathered
from yoro.model.model import Origin
from yoro.model.shards import Shard

PRICES = Prices(image=0.02, block=0.5, byte=1e-9)
SHAPE = Shape(widths=(60, 90), classes=5, block=32, reservoir=100)


@pytest.mark.parametrize("images", [20, 64, 500])
@pytest.mark.parametrize("ledger", [True, False])
def test_a_shard_has_the_bytes_that_the_model_says(images, ledger):
    rng = np.random.default_rng(0)
    layout = Layout(tuple(Reading(f"r{i}", width) for i, width in enumerate(SHAPE.widths)))
    gathered = Gathered.empty(SHAPE.reservoir, 0, layout, noting=ledger)
    labels = [str(i % SHAPE.classes) for i in range(images)]
    digests = [rng.bytes(16) for _ in labels]
    gathered.add([ResponseBatch(rng.normal(size=(images, 150)).astype(np.float32), labels, None, digests, labels)])
    written = len(Shard(gathered, Origin(), ("x",)).to_bytes())
    said = Shape(SHAPE.widths, SHAPE.classes, SHAPE.block, SHAPE.reservoir, ledger).shard_bytes(images)
    assert written == pytest.approx(said, rel=0.01, abs=3000)  # names of arrays and classes


def test_a_thousandfold_of_images_costs_a_thousandfold_of_cores():
    small, large = (cost_of(images, SHAPE, PRICES) for images in (10**6, 10**9))
    assert large.core_hours == pytest.approx(1000 * small.core_hours)
    assert large.merge_hours == pytest.approx(1000 * small.merge_hours, rel=0.8)  # ledgers grow on the way up
    assert (small.ledger, large.ledger) == (20 * 10**6, 20 * 10**9)


def test_without_a_ledger_what_lies_there_at_once_grows_with_the_height_of_the_tree_alone():
    bare = Shape(SHAPE.widths, SHAPE.classes, SHAPE.block, SHAPE.reservoir, ledger=False)
    sizes = [cost_of(10**n, bare, PRICES).most for n in (6, 9, 12)]
    assert sizes[2] < 3 * sizes[0]
    assert cost_of(10**12, bare, PRICES).ledger == 0


def test_one_block_is_added_to_nothing():
    cost = cost_of(32, SHAPE, PRICES)
    assert (cost.blocks, cost.merge_hours, cost.written) == (1, 0.0, SHAPE.shard_bytes(32))
