"""Cells keep their names: results of earlier runs are found by them."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yoro.errors import InputError
from yoro.research.baselines.published import ClipOptions
from yoro.research.bench.cells import EDITION, BenchCell, CellInputs
from yoro.research.bench.methods.bench_methods import METHODS, FewPassOptions, LabelMappingOptions

TEXTS = st.text(max_size=5)
CELL = st.builds(
    BenchCell, TEXTS, TEXTS, TEXTS, TEXTS, st.integers(0, 9),
    st.dictionaries(TEXTS, st.integers(2) | TEXTS, max_size=3).map(lambda d: tuple(sorted(d.items()))),
    st.builds(CellInputs, shots=st.none() | st.integers(1, 16), attributes=TEXTS),
)  # fmt: skip


@given(CELL, CELL)
def test_a_cell_is_named_by_all_it_is_made_of(one: BenchCell, other: BenchCell):
    assert (one.name == other.name) == (one == other)
    assert BenchCell.from_key(one.key()) == one


def test_the_names_of_cells_are_those_of_earlier_runs():
    plain = BenchCell("digits", "embedded:lite0", "watermark", "yoro", 0)
    made = BenchCell(
        "dtd", "timm:a", "padding", "yoro-fp", 2, (("epochs", 3),), CellInputs(shots=16, limit="train=3", sentences=5)
    )
    assert made.key() == {
        "dataset": "dtd", "source": "timm:a", "prompt": "padding", "method": "yoro-fp", "seed": 2,
        "options": {"epochs": 3}, "reading": {"shots": 16, "limit": "train=3", "sentences": 5},
    }  # fmt: skip
    assert plain.name == "82aae1088418342e7a80add89789eb04"
    assert made.name == "f13ecda25c558c676ecb44d8419297d6"


def test_a_default_that_changes_needs_another_edition():
    """What is at its default has no part in a name: under the old edition, old results would be taken for new ones."""
    assert EDITION == 3
    assert asdict(CellInputs()) == {
        "frame": "grey", "image_side": None, "read": "logits", "shots": None, "draws": "ours", "limit": "",
        "grouped": False, "half": "", "examples": None, "validation": "shots", "pile": None, "timed": False,
        "attributes": "des", "sentences": 20,
    }  # fmt: skip
    assert asdict(FewPassOptions()) == {
        "epochs": 20, "mapping": "momentum", "beta": 0.9, "protocol": "paper", "learning_rate": None,
        "batch_size": None, "augment": True, "epoch_zero": True, "flip": None, "mixed_precision": False,
    }  # fmt: skip
    assert asdict(LabelMappingOptions()) == {
        "epochs": 200, "batch_size": None, "select": "validation", "mapping_pass": True, "mixed_precision": False,
    }  # fmt: skip
    assert asdict(ClipOptions()) == {
        "epochs": 200, "select": "validation", "nearest": 3, "alpha": 0.5, "prompts": 3, "levels": 2, "scales": 1,
        "crops": 5, "projection_rate": 0.01, "learning_rate": 40.0, "width": None, "mixed_precision": False,
        "scale": 1.5, "resize": "fixed", "mapping": "full", "sources": 1, "again": False, "weight_decay": 0.0,
        "search": False,
    }  # fmt: skip
    peers = {name: (asdict(m.make_options({})), m.edition) for name, m in METHODS.items() if m.edition > 1}
    search = {"sharpest": 12.0, "heaviest": 10.0, "views": 1}
    assert peers == {  # what is published for single datasets is in tests/research/peers/test_as_published.py
        "tip-adapter": (search, 2),
        "tip-adapter-f": (search | {"alpha": 1.17, "epochs": 20}, 2),
        "ape": (
            search | {"sharpest": 7.0, "heaviest": 7.0, "surprise": 1.0, "channels": 800, "similarity": 0.7}, 2,
        ),
        "timo": ({"gamma": 50.0}, 2), "timo-s": ({}, 2), "lp++": ({}, 2),
    }  # fmt: skip


@pytest.mark.parametrize("key", [{}, {"options": 3, "reading": {}}, {"options": {}, "reading": {"shot": 1}}])
def test_a_key_of_no_cell_is_an_error(key: dict[str, object]):
    with pytest.raises(InputError, match="Not a cell"):
        BenchCell.from_key(key)
