# Every target makes .venv and installs what it needs; nothing is expected on the machine but Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-all check bench clean

demo: .venv/base.stamp
	$(BIN)/yoro demo --force

test: .venv/dev.stamp
	$(BIN)/python -m pytest --numprocesses 2 -m "not long"

test-all: .venv/dev.stamp
	$(BIN)/python -m pytest --numprocesses 2

check: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/dev.stamp
	cd benchmarks && ../$(BIN)/python core.py
	cd benchmarks && ../$(BIN)/python sources.py
	cd benchmarks && ../$(BIN)/python decoding.py
	cd benchmarks && ../$(BIN)/python images.py
	cd benchmarks && ../$(BIN)/python accuracy.py
	cd benchmarks && ../$(BIN)/python peers.py
	cd benchmarks && ../$(BIN)/python refinement.py

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip

.venv/base.stamp: .venv/bin/python pyproject.toml
	$(BIN)/pip install --quiet --editable .
	touch $@

.venv/dev.stamp: .venv/base.stamp
	$(BIN)/pip install --quiet --editable '.[torch,clip,bench]' --group dev
	touch $@

clean:
	rm -rf .venv
