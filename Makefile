# Each target does all of its own set-up: one virtual environment, made anew only when pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# an environment that was made by the lock stays so until `make clean`
INSTALLED := $(VENV)/installed$(if $(LOCKED)$(wildcard $(VENV)/installed-locked),-locked)
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help

help: ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

$(VENV)/installed-locked: requirements.lock

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; say PYTHON=python3.11 make …"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "The module venv is missing. Type: apt-get install python3-venv"; exit 2; }
	@echo "Installing into $(VENV): torch and its companions, a few minutes the first time."
	@$(BIN)/pip install -qq --upgrade pip
	@case $@ in \
		*-locked) $(BIN)/pip install -qq --require-hashes -r requirements.lock && $(BIN)/pip install -qq --no-deps --no-build-isolation -e . ;; \
		*) $(BIN)/pip install -qq -e '.[dev,docs,frozen,track,timm]' ;; \
	esac
	@touch $@

setup: $(INSTALLED) ## the environment; LOCKED=1: every package at the version and hash of requirements.lock

# one file for every platform; the wheels of torch for Linux carry CUDA and run without a GPU too
lock: setup ## requirements.lock anew, from pyproject.toml and what the registry has today
	@$(BIN)/pip install -qq uv
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --all-extras \
		pyproject.toml -o requirements.lock
	@echo "Written: requirements.lock. Try it: make clean setup LOCKED=1"

digits: setup ## run the digits suite (mini: minutes, no download) and print the table
	@$(BIN)/python -m benchmark run --suite digits

pacs: setup ## run the PACS suite (mini)
	@$(BIN)/python -m benchmark run --suite pacs

domainnet: setup ## run the DomainNet suite (mini)
	@$(BIN)/python -m benchmark run --suite domainnet

lint: setup ## ruff, mypy, and that imports follow the flow
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

test: lint ## the whole test suite with coverage (what CI runs)
	@$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not slurm and not perf and not soak" --durations=15 \
		--cov --cov-report=term:skip-covered --cov-fail-under=90

bench: setup ## speed, side by side, as ratios beside the stored ones (.benchmarks/ratios.txt)
	@$(BIN)/python -m pytest -m perf tests/perf --benchmark-columns=median,ops

baseline: setup ## keep the ratios of the last make bench as the stored ones
	@$(BIN)/python -m tests.perf.pairs

flops: setup ## count what the rows of the built-in suites compute, where the table of `plan` lacks it (minutes)
	@$(BIN)/python -c "from benchmark.plan.counting import write_table; write_table()"

soak: setup ## endurance: the long proofs
	@$(BIN)/python -m pytest -m soak -s

# The generator's notice about its own future would stand where warnings stand.
docs: setup ## the pages of docs/ and the reference, built into site/; stops at a dead link or a warning
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "Built. Open site/index.html"

clean: ## remove the environment and caches (records stay)
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .benchmarks build site *.egg-info

-include slurm/Makefile.inc

.PHONY: help setup lock digits pacs domainnet lint test bench baseline flops soak docs clean
