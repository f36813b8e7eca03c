# Every target makes its own environment: no other step is needed on a machine with python3 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test lint docs bench clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Installed anew whenever what it is made from has changed. torch goes first and pinned: an unpinned one
# would bring several gigabytes of another build.
$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "make: no '$(PYTHON)' found; install Python 3.11 to 3.13 or name one with PYTHON=..."; exit 2; }
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,docs,notebooks]'
	@touch $(READY)

demo: $(READY) ## Train three models on parity, verify Theorem 1 on their weights, write out/demo/report.md
	$(BIN)/python -m analysis.demo

test: $(READY) ## Run the whole test suite, doctests and the notebook included
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

lint: $(READY) ## Formatting, lint, types and the import contracts: what pre-commit runs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(READY) ## Build the documentation site into site/, every warning an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

bench: $(READY) ## Run the benchmarks that this machine can run, twice, results in benchmarks/results
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks --repeat 2

clean: ## Remove the environment and all outputs
	rm -rf $(VENV) out site
