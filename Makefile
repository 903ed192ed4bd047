# make demo: set up, then the main job.  make test: set up, then all checks.  make help: the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Threads that spin while they wait slow small operations down; must be set before torch is imported.
export OMP_WAIT_POLICY ?= PASSIVE
export PIP_DISABLE_PIP_VERSION_CHECK := 1

DEMO := --epochs 40 --batch-size 50 --times 32

.PHONY: help demo test lint types tests verify clean
help:
	@echo "make demo     Burgers' equation: data, three models, table and page (4 minutes on 2 cores)"
	@echo "make test     lint, types and tests (under 10 minutes)"
	@echo "make verify   committed results and the long checks; writes results/verify.json and, in benchmarks/results,"
	@echo "              kills.json, fuzz.json and fuzz_import.json (100 000 damaged files each), stream_day.json, exports.json"
	@echo "make clean    remove the virtual environment, runs and caches of tools"

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "tino needs Python 3.11 or newer: make PYTHON=python3.12 demo"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.user: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet -c constraints.txt -e ".[dev]"
	@touch $@ $(VENV)/.user

demo: $(VENV)/.user
	rm -rf runs/demo
	$(BIN)/tino train burgers-0.1 don $(DEMO) --out runs/demo/don
	$(BIN)/tino train burgers-0.1 spod-trtino $(DEMO) --out runs/demo/spod-trtino
	$(BIN)/tino train burgers-0.1 equation --out runs/demo/equation
	$(BIN)/tino report runs/demo/don runs/demo/spod-trtino runs/demo/equation --out runs/demo

test: lint types tests

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/basedpyright

tests: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

verify: $(VENV)/.dev
	$(BIN)/python -m pytest benchmarks/test_committed.py
	$(BIN)/python benchmarks/verify.py
	$(BIN)/python benchmarks/kills.py
	$(BIN)/python benchmarks/fuzz.py
	$(BIN)/python benchmarks/fuzz_import.py
	$(BIN)/python benchmarks/stream_day.py
	$(BIN)/python benchmarks/exports.py

clean:
	rm -rf $(VENV) runs build dist .pytest_cache .ruff_cache .hypothesis
