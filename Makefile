# Two commands on a bare Linux machine with Python 3.11 or newer, pip, make and git:
#   make reproduce     make test
# `make help` lists the rest. Every target is idempotent.

PYTHON ?= python3
# Where it is now: the PATH below would find the one of a .venv that is still half made.
override PYTHON := $(or $(shell command -v "$(PYTHON)"),$(PYTHON))
# TORCH=keep, given when .venv is first made, uses the torch that is already on this machine (a CUDA
# build, say) instead of installing the pinned one. The choice stays with that .venv.
TORCH ?= pinned

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed

# What calls a program by its name gets this environment's.
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
# One thread per process: small packs run side by side, and sums come in the same order everywhere.
export OMP_NUM_THREADS ?= 1
export PYTHONUNBUFFERED := 1

# Tests side by side: as many as there are cores, each file in one process.
PARALLEL := -n auto --dist loadfile

.PHONY: help setup reproduce test docs faults notebooks data constraints clean distclean
.DEFAULT_GOAL := help

help:  ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14
	@echo "variables:    PYTHON=python3.12   the interpreter that makes $(VENV)"
	@echo "              TORCH=keep          $(VENV) uses the machine's own torch (on first setup)"
	@echo "              OMP_NUM_THREADS=1   threads per process"

setup: $(STAMP)  ## make .venv and install the pinned packages; nothing to do when up to date
	@# Programs of .venv find each other by name, activated or not: DVC's queue calls `dvc`.
	@cp .dvc/fpt-environment.pth "$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
	@echo "setup: $(VENV) is up to date"

# `--without-pip` and `pip --python` also work where the distribution ships no ensurepip.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "fpt needs Python 3.11 or newer, $(PYTHON) is older: set PYTHON=..."; exit 2; }
	@if ! $(PY) -m pip --version > /dev/null 2>&1; then \
	  echo "setup: making $(VENV) with $$($(PYTHON) --version)"; \
	  $(PYTHON) -m venv --without-pip $(if $(filter keep,$(TORCH)),--system-site-packages) $(VENV) \
	  && $(PYTHON) -m pip --python $(PY) install -q -c constraints.txt pip; \
	fi
	@# An environment that sees the machine's packages keeps the machine's torch.
	@if grep -q 'include-system-site-packages = true' $(VENV)/pyvenv.cfg; \
	  then grep -v '^torch==' constraints.txt; else cat constraints.txt; fi > $(VENV)/constraints.txt
	@echo "setup: installing the packages of constraints.txt into $(VENV) (several minutes the first time)"
	@$(PY) -m pip install -q -c $(VENV)/constraints.txt -e '.[pipeline,test]'
	@$(PY) -c 'from importlib.metadata import version; print("setup: done, torch", version("torch"))'
	@touch $@

reproduce: setup  ## setup, then `dvc repro`: data, training, one notebook per section, report index
	@echo "reproduce: dvc repro (what is up to date is skipped)"
	@$(PY) -m dvc repro --keep-going
	@echo "reproduce: done, nothing has to be pushed; open reports/$$($(PY) -c 'from fpt import project; print(project.current_profile())')/index.html"

test: export HF_HUB_OFFLINE := 1
test: setup  ## setup, then ruff, mypy, pytest and the notebooks' outputs (nbval)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m pytest $(PARALLEL)
	$(PY) -m pytest --nbval --nbval-current-env $(PARALLEL) notebooks
	$(PY) -m pytest --nbval-lax --nbval-current-env $(PARALLEL) examples

docs: setup  ## build the site of docs/ into site/, without a network
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet
	@echo "docs: open site/index.html ($(VENV)/bin/mkdocs serve shows it with a search box)"

faults: setup  ## let 120 real processes meet a fault and write docs/faults.md
	@$(PY) lab/faults.py --trials 120 --write docs/faults.md

notebooks: setup  ## renew tests/project from params.yaml, and the outputs that nbval compares
	@$(PY) -m lab.renew
	@$(PY) -m jupyter nbconvert --execute --inplace --ExecutePreprocessor.record_timing=False examples/time_series.ipynb

data: setup  ## fetch and prepare the data that the profile in params.yaml needs (reaches the hub)
	@$(PY) -m fpt data

constraints: setup  ## write constraints.txt anew from .venv (after changing pyproject.toml)
	@{ echo "# Every package of the environment, pinned; written by 'make constraints' from a tested .venv."; \
	  $(PY) -m pip freeze --all --exclude-editable | sed -E 's/^(torch==[^+]+)\+.*/\1/'; } > constraints.txt

clean:  ## remove .venv and the tools' caches; records and reports stay
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis

distclean: clean  ## remove what setup and reproduce made: also data, caches, the smoke report, dvc.lock
	rm -rf .cache runs dvc_plots dvc.lock .dvc/cache .dvc/tmp data/prepared data/backbones reports/smoke
	rm -rf reports/*/notebooks/*.ipynb reports/*/index reports/*/metrics.json reports/*/curves.csv
	find . -name __pycache__ -prune -exec rm -rf {} +
