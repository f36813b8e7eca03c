# Every target makes its own environment: no other step is needed on a machine with python3 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGE := $(VENV)/.package
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast lint docs bench constraints clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# A package index to look for torch in, beside the usual one. On Linux the usual one has torch with CUDA, several
# gigabytes; make demo TORCH_INDEX=https://download.pytorch.org/whl/cpu takes the build without.
TORCH_INDEX ?=

# Installed anew whenever what it is made from has changed. torch goes first: what a later command finds
# installed it does not look for again, so only this one has to know of the other index.
$(PACKAGE): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "make: no '$(PYTHON)' found; install Python 3.11 to 3.14 or name one with PYTHON=..."; exit 2; }
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt $(if $(TORCH_INDEX),--extra-index-url '$(TORCH_INDEX)') torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $(PACKAGE)

$(READY): $(PACKAGE)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,docs,mutation,notebooks]'
	@touch $(READY)

demo: $(PACKAGE) ## Train three models on parity, verify Theorem 1 on their weights, write out/demo/report.md
	$(BIN)/python -m analysis.demo

# A process that is through takes over what the other has left, so that fixtures of a module are made once if they can be.
# Bytecode is stored: the tests start many processes, each of which would compile the packages anew.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist worksteal

test: $(READY) ## Run the whole test suite, doctests and the notebooks included
	$(PYTEST)

test-fast: $(READY) ## Run the tests that are not in tests/slow.txt: a minute on two cores
	$(PYTEST) -m 'not slow'

lint: $(READY) ## Formatting, lint, types and the import contracts: what pre-commit runs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(READY) ## Build the documentation site into site/, every warning an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

bench: $(READY) ## Run the benchmarks that this machine can run, twice, results in benchmarks/results
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks --repeat 2

constraints: ## Write constraints.txt anew after a change of requirements, from the public index
	PYTHON=$(PYTHON) .ci/constraints

clean: ## Remove the environment and all outputs
	rm -rf $(VENV) out site
