from __future__ import annotations

from yoro.reports.svg import percent_axis, spread


def test_names_beside_the_plot_never_overlap():
    places = spread([100.0, 100.0, 101.0, 300.0, 299.0], 17, 30, 305)
    assert all(abs(a - b) >= 17 for i, a in enumerate(places) for b in places[:i])
    assert min(places) >= 30
    assert max(places) <= 305


def test_one_bad_method_does_not_flatten_the_axis():
    bottom, top, step = percent_axis([0.02, 0.84, 0.85, 0.85, 0.86, 0.86, 0.87])
    assert bottom > 0.75
    assert top <= 0.9
    assert step in (0.01, 0.02)
    assert percent_axis([1.0]) == (0.98, 1.0, 0.005)
