# Everything runs in .venv, built from pyproject.toml and the exact versions in constraints.txt.
# Another interpreter: make run PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One thread per process: the tests run in parallel, and timings are compared at one thread.
export OPENBLAS_NUM_THREADS := 1

comma := ,

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test test-extras test-slow lint format bench clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1: \2/p' $(MAKEFILE_LIST)

run: $(VENV)/.installed ## set up and run the bundled campaign of three sources; its report: sourcewise-example/report.html
	@$(BIN)/sourcewise example

test: lint ## set up, check style, types and layers, and run the tests
	@$(BIN)/pytest -n auto -m "not slow"

test-extras: $(VENV)/.installed-extras ## run the tests of every connector, clusters included; Spark needs Java
	@$(BIN)/pytest tests/connectors

test-slow: $(VENV)/.installed-dev ## run the tests that take minutes
	@$(BIN)/pytest -n auto -m slow

lint: $(VENV)/.installed-dev ## check style, types and layers
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(VENV)/.installed-dev ## put the code into the house format
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

bench: $(VENV)/.installed-dev ## run the benchmarks
	@$(BIN)/python benchmarks/run.py

clean: ## remove everything that is not source
	@rm -rf $(VENV) build dist sourcewise-example .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo "make: no '$(PYTHON)' found. Install Python 3.11 or newer, or name it: make PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: Sourcewise needs Python 3.11 or newer, and '$(PYTHON)' is $$("$(PYTHON)" -V 2>&1)." \
	       "Name another one: make PYTHON=python3.12" >&2; exit 1; }
	@rm -rf $(VENV)
	@if command -v uv >/dev/null; then uv venv --quiet --python "$$(command -v "$(PYTHON)")" $(VENV); \
	 else "$(PYTHON)" -m venv $(VENV); fi || { rm -rf $(VENV); exit 1; }

define install
	@echo "Installing into $(VENV) ..."
	@if command -v uv >/dev/null; then uv pip install --quiet --python $(BIN)/python -c constraints.txt -e "$(1)"; \
	 else $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e "$(1)"; fi
	@touch $@
endef

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(call install,.)

# Where there is no Java, Spark cannot run, and its 400 MB are left out.
$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(call install,.[dev$(if $(shell command -v java),$(comma)spark)])
	@touch $(VENV)/.installed

$(VENV)/.installed-extras: pyproject.toml constraints.txt | $(BIN)/python
	$(call install,.[dev$(comma)spark])
	@touch $(VENV)/.installed $(VENV)/.installed-dev
