# Everything happens inside the clone: .venv/ holds Python's packages and Jupyter's own files, build/ what runs produce.
PYTHON ?= python3
BIN := .venv/bin
# Workers for `make test`: one notebook or test file each.
JOBS ?= 2
THREADS := $(shell n=$$(( $$(getconf _NPROCESSORS_ONLN) / $(JOBS) )); echo $$(( n > 1 ? n : 1 )))
# Which notebook `make run` runs (default: all), and papermill's parameters for it.
NB ?=
P ?=
export P

# Jupyter, IPython and matplotlib would otherwise write into the home directory, or find another kernel there.
HERE := $(CURDIR)/.venv/var
export JUPYTER_CONFIG_DIR := $(HERE)/jupyter/config
export JUPYTER_DATA_DIR := $(HERE)/jupyter/data
export JUPYTER_RUNTIME_DIR := $(HERE)/jupyter/runtime
export JUPYTER_PREFER_ENV_PATH := 1
export IPYTHONDIR := $(HERE)/ipython
export MPLCONFIGDIR := $(HERE)/matplotlib
export npm_config_cache := $(HERE)/npm
export PYTHONDONTWRITEBYTECODE := 1
unexport MPLBACKEND

.PHONY: help setup run test lab ledger store ablations torture clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-9s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "one notebook, other settings:  make run NB=08_nanogpt_shakespeare P=\"-p preset smoke\""

setup: .venv/ready ## create .venv with everything in it, once

.venv/ready: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 or newer is needed and '$(PYTHON)' is not: install one, then 'make PYTHON=python3.12 ...'"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "Python's venv module is missing: install it ('apt install python3-venv' on Debian and Ubuntu) and try again"; exit 1; }
	$(PYTHON) -m venv .venv
	@mkdir -p .venv/var .venv/share/jupyter/lab/settings
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -r requirements.txt
	@$(BIN)/python -m ipykernel install --sys-prefix --name python3 --display-name "Python 3 (dot products to nanoGPT)" >/dev/null
	@echo '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}' > .venv/share/jupyter/lab/settings/overrides.json
	@touch $@

run: .venv/ready ## run all notebooks with papermill into build/, train a GPT and print what it writes
	@$(BIN)/python tools/notebooks.py run $(if $(NB),--only $(NB)) --parameters="$$P" </dev/null

test: .venv/ready ## ruff, pytest, and nbval (strict) over every notebook
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .; ruff=$$?; \
	NANOGPT_RUNS="$(CURDIR)/build/test-runs" OMP_NUM_THREADS=$(THREADS) $(BIN)/pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder \
	  --nbval --nbval-current-env --nbval-cell-timeout 600 notebooks tests; tests=$$?; \
	echo "make test: ruff $$([ $$ruff = 0 ] && echo passed || echo FAILED)," \
	  "pytest and nbval $$([ $$tests = 0 ] && echo passed || echo FAILED)"; exit $$((ruff || tests))

lab: .venv/ready ## open the notebooks in JupyterLab on this machine
	$(BIN)/jupyter lab --ServerApp.ip=127.0.0.1 --LabApp.default_url=/lab/tree/notebooks \
	  --LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate $(LAB)

ledger: .venv/ready ## where each number of the sources stands, after running what has changed
	@$(BIN)/python tools/notebooks.py ledger </dev/null

store: .venv/ready ## run all notebooks in place and store their outputs for git
	@$(BIN)/python tools/notebooks.py store $(if $(NB),--only $(NB))

ablations: .venv/ready ## train a small GPT without each of its parts, for notebook 10 (half an hour or more)
	@OMP_NUM_THREADS=1 $(BIN)/python -m helpers.ablations --jobs $(JOBS)

torture: .venv/ready ## attack training, run folders and every entrance: kills, full disks, hostile files, bad values
	@$(BIN)/python -m tools.torture --jobs $(JOBS) </dev/null

clean: ## remove .venv and build
	rm -rf .venv build *.egg-info .pytest_cache .ruff_cache .hypothesis
