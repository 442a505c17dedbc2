"""A short run of the fuzzers; `make fuzz` runs them for long."""

from __future__ import annotations

import pytest

from fuzz import TARGETS, attempt

CASES = {"image": 200, "model": 10, "onnx": 26, "verbs": 3}  # of the others, 50
TIMES = 15  # as many in `make test-all`


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.long) for part in range(1, TIMES))])
def test_only_errors_of_ours_escape(target, part, tmp_path):
    count = CASES.get(target, 50)
    seeds = range(part * count, (part + 1) * count)
    assert {seed: found for seed in seeds if (found := attempt(target, seed, tmp_path))} == {}


def test_the_fuzzer_would_notice(tmp_path, monkeypatch):
    monkeypatch.setitem(TARGETS, "broken", lambda draw, folder: [][draw.randrange(2)])
    assert "IndexError at test_fuzz.py" in attempt("broken", 1, tmp_path)


@pytest.mark.long
def test_only_errors_of_ours_escape_any_verb(tmp_path):
    escaped = {seed: found for seed in range(100, 500) if (found := attempt("verbs", seed, tmp_path))}
    assert escaped == {}


@pytest.mark.parametrize(
    ("target", "seed"),
    [("model", 500025), ("model", 504779), ("model", 504926), ("verbs", 31161), ("verbs", 420276)],
)
def test_what_escaped_once_does_not_again(target, seed, tmp_path):
    assert attempt(target, seed, tmp_path) is None
