"""What a result says of the machine that computed it."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from yoro.research.bench.machine import RESET, forget_peak, machine_facts, peak_memory


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems tell the peak of the whole process")
def test_the_peak_of_a_cell_is_not_that_of_the_one_before() -> None:
    try:
        RESET.write_text("5")
    except OSError:
        pytest.skip("this container does not let a process forget its peak")
    large = np.ones(1 << 25)  # 256 MB
    before = peak_memory()["process"]
    del large
    forget_peak()
    assert before - peak_memory()["process"] > 200 << 20


@pytest.mark.torch
def test_a_result_names_the_device_that_auto_stands_for() -> None:
    import torch

    facts = machine_facts("auto")
    assert facts["device"] in ("cpu", "mps") or facts["device"].startswith("cuda")
    assert facts["torch"] == torch.__version__
    assert facts["device_name"]


@pytest.mark.torch
def test_a_graphics_card_computes_in_float32() -> None:
    """No card is needed: torch's switches can be read anywhere."""
    import torch

    from yoro.sources.torch.network import whole_float32

    switches = (torch.backends.cudnn, torch.backends.cuda.matmul)
    before = [switch.allow_tf32 for switch in switches]
    try:
        for switch in switches:
            switch.allow_tf32 = True
        whole_float32(torch.device("cpu"))
        assert torch.backends.cudnn.allow_tf32
        whole_float32(torch.device("cuda"))
        assert not any(switch.allow_tf32 for switch in switches)
    finally:
        for switch, allowed in zip(switches, before, strict=True):
            switch.allow_tf32 = allowed


@pytest.mark.torch
def test_determinism_is_asked_for_and_recorded() -> None:
    import torch

    from yoro.sources.torch.network import device_facts, make_deterministic

    assert device_facts("cpu")["deterministic"] == "False"
    try:
        make_deterministic()
        assert device_facts("cpu")["deterministic"] == "True"
    finally:
        torch.use_deterministic_algorithms(False)
