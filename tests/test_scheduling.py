"""Tests that share what is made once do run in one process, which xdist's own grouping does not promise."""

from __future__ import annotations

import os

import pytest


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="all tests run in one process")
@pytest.mark.parametrize("turn", range(6))
def test_the_tests_of_a_file_run_in_one_process(tmp_path_factory, turn):
    with (tmp_path_factory.getbasetemp().parent / "processes").open("a+") as shared:
        shared.write(os.environ["PYTEST_XDIST_WORKER"] + "\n")
        shared.seek(0)
        assert len(set(shared)) == 1
