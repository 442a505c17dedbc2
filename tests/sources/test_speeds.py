"""Images per second: measured where the network is here, forecast where its multiply-adds are known."""

from __future__ import annotations

import pytest

from yoro.sources import catalogue
from yoro.sources.embedded import read_catalogue
from yoro.sources.network_trial import with_speeds


def test_what_is_here_is_measured_and_the_rest_forecast_from_it():
    names = ("embedded:lite0", "hf:Xenova/resnet-50", "onnx:PATH")
    here, away, unknown = with_speeds([row for row in catalogue() if row.name in names])
    assert here.speed > 0
    assert (here.measured, away.measured, unknown.measured) == (True, False, None)
    assert away.speed * away.multiply_adds == pytest.approx(here.speed * here.multiply_adds)
    assert unknown.speed is None


def test_every_recommended_source_is_in_the_catalogue():
    assert {row.name for row in catalogue() if row.purpose} == set(read_catalogue()["purposes"])
    for row in catalogue():
        assert not row.name.startswith("hf:X") or (row.megabytes and "of the original" in row.licence)
