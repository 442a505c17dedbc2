from __future__ import annotations

import subprocess
import sys

import pytest

from yoro.errors import InputError
from yoro.research.baselines.published import CLIP_METHODS, LABEL_MAPPINGS
from yoro.research.bench.methods.bench_methods import CLIP_BANKS, METHODS, find_method


def test_methods_are_listed_without_torch():
    code = "import sys, yoro.research.bench.methods.bench_methods; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_published_method_is_on_the_bench():
    clip = {f"clip-{name}" if name in LABEL_MAPPINGS else name for name in CLIP_METHODS}
    assert {name for name, method in METHODS.items() if method.trains} == {"yoro-fp", *LABEL_MAPPINGS, *clip}
    assert {f"one-pass-{name}" for name in ("rlm", "flm", "blm", "blm+")} < set(METHODS)
    assert all(name == method.name for name, method in METHODS.items())


@pytest.mark.torch
def test_methods_read_as_many_banks_as_their_trainings_take():
    pytest.importorskip("torch")
    from yoro.research.baselines.clip import BANKS

    assert set(CLIP_BANKS) <= set(CLIP_METHODS)
    for method, (least, most, _) in BANKS.items():
        assert least <= len(CLIP_BANKS[method]) <= most


def test_an_unknown_method_gets_the_nearest():
    with pytest.raises(InputError, match=r"'clip-blmm'.*'clip-blm'"):
        find_method("clip-blmm")
