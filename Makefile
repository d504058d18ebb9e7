# Every target sets itself up: its own .venv, pins from training/constraints, progress shown.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help demo tour test lint bench clean

help:
	@echo "make demo    the main job: oracle, policies, audit, demo/report.html"
	@echo "make tour    the same, core and plots only"
	@echo "make test    lint, types, import contracts, tests, doctests, notebooks"
	@echo "make bench   ratios and sizes, side by side in one run, into build/bench.json"
	@echo "make clean   remove .venv, build and demo"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; run: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/core: pyproject.toml training/constraints/core.txt | $(BIN)/python
	@echo "Installing the core suite and plots into $(VENV) ..."
	$(PIP) install --progress-bar on -c training/constraints/core.txt -e ".[plots]"
	@touch $@

$(VENV)/dev: pyproject.toml training/constraints/dev.txt | $(BIN)/python
	@echo "Installing the development tools into $(VENV) ..."
	$(PIP) install --progress-bar on -c training/constraints/dev.txt -e ".[dev]"
	@touch $@ $(VENV)/core

demo: tour

tour: $(VENV)/core
	$(BIN)/clinical-envs demo --out demo

lint: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	OMP_NUM_THREADS=1 $(BIN)/pytest --durations=10
	OMP_NUM_THREADS=1 $(BIN)/pytest --nbmake --nbmake-timeout=300 notebooks

bench: $(VENV)/dev
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.benchmarks

clean:
	rm -rf $(VENV) build demo
