# Every target makes .venv and installs what it needs; nothing is expected on the machine but Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: test check bench clean

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip

.venv/base.stamp: .venv/bin/python pyproject.toml
	$(BIN)/pip install --quiet --editable .
	touch $@

.venv/dev.stamp: .venv/base.stamp
	$(BIN)/pip install --quiet --editable . --group dev
	touch $@

test: .venv/dev.stamp
	$(BIN)/python -m pytest

check: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/dev.stamp
	$(BIN)/python benchmarks/core.py

clean:
	rm -rf .venv
