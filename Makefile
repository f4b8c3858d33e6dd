# Every target builds its own .venv with plain venv + pip; nothing else need be installed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint docs bench clean
demo: $(STAMP)
	$(BIN)/python -m kembed.experiments.figure1 --output build/demo

test: $(STAMP)
	$(BIN)/python -m pytest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(STAMP)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "open build/docs/index.html"

bench: $(STAMP)
	$(BIN)/python -m benchmarks

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable '.[dev,docs]'
	@touch $@

clean:
	rm -rf build $(VENV)
