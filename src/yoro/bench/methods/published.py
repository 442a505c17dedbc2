"""The selection rule of the published baselines, kept apart because it reads the test set."""

from __future__ import annotations

from collections.abc import Sequence

from yoro.refining.checkpoint import EpochRecord
from yoro.refining.loop import best_trained


def best_test_epoch(records: Sequence[EpochRecord]) -> bool:
    """Whether the last epoch is the best yet, where the images given to the loop are the TEST images.

    The published numbers of ILM-VP, BLM, AttrVR, DVP and others are the best test accuracy over epochs; the
    untrained predictor is no candidate there. Such a number is not an estimate of anything: report it beside a
    validated one, and named. For `Training(..., choose=best_test_epoch)`, never in a product.
    """
    return best_trained(records)
