# Two commands on a bare Linux machine with Python 3.11.5 or newer, pip, make and git:
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
PARALLEL := -n auto --dist loadfile --max-worker-restart 0

.PHONY: help setup reproduce test docs faults notebooks data lock clean distclean
.DEFAULT_GOAL := help

help:  ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14
	@echo "variables:    PYTHON=python3.12   the interpreter that makes $(VENV)"
	@echo "              TORCH=keep          $(VENV) uses the machine's own torch (on first setup)"
	@echo "              OMP_NUM_THREADS=1   threads per process"
	@echo "              TIER=hour           reproduce trains what this tier of params.yaml plans, on a GPU"
	@echo "              SEED=7              of the records that reproduce trains again (by default another each time)"

setup: $(STAMP)  ## make .venv and install the pinned packages; nothing to do when up to date
	@# Programs of .venv find each other by name, activated or not: DVC's queue calls `dvc`.
	@cp .dvc/fpt-environment.pth "$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
	@echo "setup: $(VENV) is up to date"

# The packages of the lock, without those whose names begin as the pattern $(1) says.
without = awk '/^[a-z]/ {keep = !/^($(1))/} keep' requirements.lock
# The package $(1) alone, as the lock has it, out of the file $(2).
only = awk '/^[a-z]/ {keep = /^$(1)==/} keep' $(2)
# What CUDA builds of torch need and others do not.
CUDA := nvidia-|cuda-|triton==

# `--without-pip` and `pip --python` also work where the distribution ships no ensurepip. Each package
# is one of the files that the lock knows by SHA-256: no dependency is looked up, so none is missed.
$(STAMP): INSTALL = -m pip install -q --no-deps --require-hashes -r
$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 5))' \
	  || { echo "fpt needs Python 3.11.5 or newer, $(PYTHON) is older: set PYTHON=..."; exit 2; }
	@if ! $(PY) -m pip --version > /dev/null 2>&1; then \
	  echo "setup: making $(VENV) with $$($(PYTHON) --version)"; \
	  $(PYTHON) -m venv --without-pip $(if $(filter keep,$(TORCH)),--system-site-packages) $(VENV) \
	  && $(call only,pip,requirements.lock) > $(VENV)/pip.lock \
	  && $(PYTHON) -m pip --python $(PY) install -q --require-hashes -r $(VENV)/pip.lock; \
	fi
	@# An environment that sees the machine's packages keeps the machine's torch.
	@if grep -q 'include-system-site-packages = true' $(VENV)/pyvenv.cfg; \
	  then $(call without,$(CUDA)|torch==); else $(call without,$(CUDA)); fi > $(VENV)/requirements.lock
	@echo "setup: installing the packages of requirements.lock into $(VENV) (several minutes the first time)"
	@# pip prefers files whose digest an index tells, so a CPU build of torch in a folder of its `find-links`
	@# would lose against the CUDA build, which is ten times as large: it is looked for alone, and first.
	@$(call only,torch,$(VENV)/requirements.lock) > $(VENV)/torch.lock
	@if [ -s $(VENV)/torch.lock ]; then $(PY) $(INSTALL) $(VENV)/torch.lock --no-index 2> /dev/null || true; fi
	@$(PY) $(INSTALL) $(VENV)/requirements.lock
	@# The build of torch that pip found says whether it needs the libraries of CUDA.
	@if grep -q '^torch==' $(VENV)/requirements.lock \
	  && $(PY) -c 'from importlib.metadata import requires; print(*requires("torch"))' | grep -Eq '$(CUDA)'; \
	  then $(PY) $(INSTALL) requirements.lock; fi
	@$(PY) -m pip install -q --no-deps --no-build-isolation -e .
	@$(PY) -c 'from importlib.metadata import version; print("setup: done, torch", version("torch"))'
	@touch $@

reproduce: setup  ## setup, `dvc repro`, which makes the report, then train five records again (SEED=)
	@echo "reproduce: dvc repro (what is up to date is skipped)"
	@# A downloaded archive has no repository, which DVC otherwise asks for.
	@git rev-parse --git-dir > /dev/null 2>&1 || $(PY) -m dvc config --local core.no_scm true
	@$(PY) -m dvc $(if $(TIER),exp run -S tier=$(TIER),repro --keep-going)
	@# 2: nothing can be trained here, for want of the weights, say. The report is complete all the same.
	@HF_HUB_OFFLINE=1 $(PY) -m fpt replicate --workers 2 --longest 90s $(if $(SEED),--seed $(SEED)) \
	  || [ $$? -eq 2 ]
	@echo "reproduce: the report is reports/README.md, its pages in HTML are reports/*.html"

test: export HF_HUB_OFFLINE := 1
test: setup  ## setup, then ruff, mypy, pytest and the notebooks' outputs (nbval)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m pytest $(PARALLEL)
	$(PY) -m pytest --nbval --nbval-current-env $(PARALLEL) notebooks/*.ipynb
	$(PY) -m pytest --nbval-lax --nbval-current-env $(PARALLEL) examples

docs: setup  ## build the site of docs/, with the pages whose HTML was made, into site/, without a network
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet
	@echo "docs: open site/index.html ($(VENV)/bin/mkdocs serve shows it with a search box)"

faults: setup  ## let 120 real processes meet a fault, and print what was lost
	@$(PY) lab/faults.py --trials 120

notebooks: setup  ## renew what follows from params.yaml, and execute the notebooks
	@$(PY) -m lab.renew
	@$(PY) -m jupyter nbconvert --execute --inplace --ExecutePreprocessor.record_timing=False examples/time_series.ipynb

data: setup  ## fetch and prepare the data that the tier in params.yaml needs (reaches the hub)
	@$(PY) -m fpt data

lock:  ## write requirements.lock anew (after changing pyproject.toml; needs uv and a network)
	@$(PYTHON) -m lab.lock

clean:  ## remove .venv and the tools' caches; records and reports stay
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis

distclean: clean  ## remove what setup and reproduce made: also data, caches, pages in HTML, dvc.lock
	rm -rf .cache dvc_plots dvc.lock .dvc/cache .dvc/tmp data/prepared data/backbones
	rm -rf reports/index reports/metrics.json reports/curves.csv reports/*.html
	git clean -qfdX reports/experiments/smoke
	find . -name __pycache__ -prune -exec rm -rf {} +
