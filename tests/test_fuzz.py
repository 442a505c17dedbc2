"""A short run of the fuzzers; `make fuzz` runs them for long."""

from __future__ import annotations

import pytest

from fuzz import TARGETS, attempt

CASES = {
    "npz": 400,
    "archive": 300,
    "model": 60,
    "onnx": 150,
    "image": 1500,
    "listing": 300,
    "bank": 300,
    "plan": 300,
    "checkpoint": 300,
    "verbs": 15,
}


@pytest.mark.parametrize("target", TARGETS)
def test_only_errors_of_ours_escape(target, tmp_path):
    escaped = {seed: found for seed in range(CASES.get(target, 300)) if (found := attempt(target, seed, tmp_path))}
    assert escaped == {}


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
