# Every target builds its own .venv with plain venv + pip; nothing else need be installed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PLAIN_STAMP := $(VENV)/.installed-plain
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.installed-docs
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo figures test test-random coverage test-browser test-oldest test-newest lint docs release-check clean
demo: $(PLAIN_STAMP)
	$(BIN)/kembed demo --output build/demo

# The paper's figures, measured again: docs/reproduction.md.
figures: $(STAMP)
	$(BIN)/python -m experiments all --output build/figures

# Two workers on two cores: a BLAS that starts threads of its own would only get in its own way.
test: export OMP_NUM_THREADS = 1
test: $(STAMP)
	$(BIN)/python -m pytest

# The same in random order: SEED=1 repeats an order.
SEED ?= $(shell date +%s)
test-random: export OMP_NUM_THREADS = 1
test-random: $(STAMP)
	$(BIN)/python -m pytest --override-ini addopts= -n 2 --dist loadscope --import-mode=importlib --doctest-modules -q -p randomly -p no:cacheprovider --randomly-seed=$(SEED)

# Lines and branches of src that no test reaches. In one process: a worker of pytest that takes long to write down what
# it saw is killed, and half of it is lost.
coverage: export OMP_NUM_THREADS = 1
coverage: $(STAMP)
	mkdir -p build/coverage
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest -n 0
	$(BIN)/python -m coverage combine
	$(BIN)/python -m coverage report --fail-under=95

# The HTML report in a real Chromium, which must be installed (Debian: apt-get install chromium).
test-browser: $(STAMP)
	$(BIN)/python -m pytest -n 0 tests/browser

# The whole suite in fresh environments: the oldest versions that the ranges allow, on the oldest Python there is
# (OLDEST_PYTHON=python3.11), and the newest (NEWEST_PYTHON=python3.13) without any constraint.
OLDEST_PYTHON ?= $(PYTHON)
NEWEST_PYTHON ?= $(PYTHON)
test-oldest test-newest: export OMP_NUM_THREADS = 1
test-oldest:
	rm -rf build/oldest && $(OLDEST_PYTHON) -m venv build/oldest
	build/oldest/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-oldest.txt --editable '.[dev]'
	build/oldest/bin/python -m pytest

test-newest:
	rm -rf build/newest && $(NEWEST_PYTHON) -m venv build/newest
	build/newest/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	build/newest/bin/python -m pytest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(DOCS_STAMP)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "open build/docs/index.html"

# Wheel and source archive as an index would show them, each installed in an environment of its own and tried.
RELEASE := build/release
release-check:
	rm -rf $(RELEASE) && mkdir -p $(RELEASE)
	$(PYTHON) -m venv $(RELEASE)/tools
	$(RELEASE)/tools/bin/python -m pip install --quiet --disable-pip-version-check build twine
	$(RELEASE)/tools/bin/python -m build --outdir $(RELEASE)/dist .
	$(RELEASE)/tools/bin/twine check --strict $(RELEASE)/dist/*
	for archive in $(RELEASE)/dist/*; do \
	  $(PYTHON) -m venv --clear $(RELEASE)/trial && \
	  $(RELEASE)/trial/bin/python -m pip install --quiet --disable-pip-version-check $$archive && \
	  (cd $(RELEASE) && trial/bin/python -c "import kembed; print('import', kembed.__version__)" && \
	   trial/bin/kembed demo --output demo) || exit 1; \
	done

$(PLAIN_STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	@touch $@

$(STAMP): $(PLAIN_STAMP)
	$(PIP) --editable '.[dev]'
	@touch $@

$(DOCS_STAMP): $(STAMP)
	$(PIP) --editable '.[dev,docs]'
	@touch $@

clean:
	rm -rf build $(VENV)
