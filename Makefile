# Everything happens inside the clone: .venv/ holds Python's packages and Jupyter's own files, build/ what runs produce.

# Which notebook `make run`, `make test` and `make store` take (default: all), and settings: papermill's for a notebook, or the
# options of `make write` and `make gpt2`; WEIGHTS is the folder of the latter. Make must not expand them and no shell
# may see them: tools/ read them from the environment.
override NB := $(value NB)
override P := $(value P)
override WEIGHTS := $(value WEIGHTS)
override NAME := $(value NAME)
override QUICK := $(value QUICK)
override OUT := $(value OUT)
override SUBMISSIONS := $(value SUBMISSIONS)
# The address of PyTorch's CPU builds, for `make setup`.
override REPO := $(value REPO)
override TORCH_INDEX := $(value TORCH_INDEX)
export NB P WEIGHTS NAME QUICK REPO TORCH_INDEX OUT SUBMISSIONS

PYTHON ?= python3
BIN := .venv/bin
LOCK := tools/requirements.lock
CLASSROOM := tools/classroom.lock
# Workers for `make run`, `make test` and `make check`: one notebook or test file each, with an equal share of the cores.
# Two with a core each get more done than one with two: the tensors here are small.
CORES := $(shell getconf _NPROCESSORS_ONLN)
JOBS ?= $(shell echo $$(( $(CORES) < 4 ? $(CORES) : 4 )))
SHARE := $(shell n=$$(( $(CORES) / $(JOBS) )); echo $$(( n < 1 ? 1 : n > 4 ? 4 : n )))
# All else takes half the cores, at most 4: small tensors gain nothing from more, and on a busy machine they lose.
# Threads that wait watch for a moment and then sleep: asleep at once, they cost training a third of its speed; always
# awake, they cost a busy machine everything. Your own settings win.
YOURS := $(OMP_NUM_THREADS)
OMP_NUM_THREADS ?= $(shell n=$$(( $(CORES) / 2 )); echo $$(( n < 1 ? 1 : n > 4 ? 4 : n )))
ifndef OMP_WAIT_POLICY
export OMP_WAIT_POLICY := passive
export GOMP_SPINCOUNT ?= 1000
endif
export OMP_NUM_THREADS

# Jupyter, IPython and matplotlib would otherwise write into the home directory, or find another kernel there.
HERE := $(CURDIR)/.venv/var
export JUPYTER_CONFIG_DIR := $(HERE)/jupyter/config
export JUPYTER_DATA_DIR := $(HERE)/jupyter/data
export JUPYTER_RUNTIME_DIR := $(HERE)/jupyter/runtime
export JUPYTER_PREFER_ENV_PATH := 1
export IPYTHONDIR := $(HERE)/ipython
export MPLCONFIGDIR := $(HERE)/matplotlib
export npm_config_cache := $(HERE)/npm
# Python keeps what it has compiled there too, even where it was told to keep nothing: without it, every start, of which
# the tests have hundreds, compiles all files anew.
export PYTHONPYCACHEPREFIX := $(HERE)/pycache
unexport PYTHONDONTWRITEBYTECODE MPLBACKEND

.PHONY: help setup run test check format lab site browser-test write gpt2 ledger store fresh study ladder better rungs picture play bench publish classroom student grade torture lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "you changed some lines:        make check; for the tests of one notebook, make test NB=03"
	@echo "one notebook, other settings:  make run NB=08 P=\"-p preset smoke\""
	@echo "text from the trained model:   make write P='--prompt \"ROMEO:\" --temperature 0.8'"

setup: .venv/ready ## create .venv with everything in it, once

# PyTorch comes last and without a hash: one version has several builds (CPU, CUDA), and any of them will do.
# What it needs besides is locked and already there, but for the CUDA libraries that its CUDA builds bring along.
.venv/ready: requirements.txt $(LOCK)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 or newer is needed and '$(PYTHON)' is not: install one, then 'make PYTHON=python3.12 ...'"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "Python's venv module is missing: install it ('apt install python3-venv' on Debian and Ubuntu) and try again"; exit 1; }
	$(PYTHON) -m venv .venv
	@mkdir -p .venv/var .venv/share/jupyter/lab/settings
	@echo "installing packages: this takes a while"
	@$(PIP) --require-hashes --only-binary :all: -r $(LOCK) 2>.venv/var/pip.log || { \
	  sed -n 's/^ERROR: THESE PACKAGES DO NOT MATCH.*/HASHES/p; s/^    \([^ ]*==[^ ]*\) from .*/\1/p' .venv/var/pip.log | \
	  if read -r kind && [ "$$kind" = HASHES ] && read -r package; then \
	    echo "error: $$package is not the file that $(LOCK) expects (its SHA-256 differs), so nothing was installed"; \
	  else cat .venv/var/pip.log; fi >&2; exit 1; }
	@$(PIP) $${TORCH_INDEX:+--index-url "$$TORCH_INDEX"} "$$(grep '^torch==' requirements.txt)"
	@$(PIP) --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m ipykernel install --sys-prefix --name python3 --display-name "Python 3 (dot products to nanoGPT)" >/dev/null
	@echo '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}' > .venv/share/jupyter/lab/settings/overrides.json
	@touch $@

PIP = $(BIN)/python -m pip install --disable-pip-version-check --quiet

run: export OMP_NUM_THREADS := $(or $(YOURS),$(if $(NB),$(OMP_NUM_THREADS),$(SHARE)))
run: .venv/ready ## run all notebooks with papermill into build/, train a GPT and print what it writes
	@exec $(BIN)/python tools/notebooks.py run --jobs $(JOBS) </dev/null

test: .venv/ready ## ruff, types, biome, pytest, and nbval (strict) over every notebook, or over one and what belongs to it: NB=03
	@rm -rf build/test-runs
	@$(STATIC); $(PYTEST) -m "not torture$(if $(NB),, and not lesson)" $(NBVAL) notebooks tests; tests=$$?; $(VERDICT)

check: .venv/ready ## the same without notebooks and slow tests, in a minute or two; it names the five slowest
	@$(STATIC); $(PYTEST) -m "not slow and not torture" --durations=5 tests; tests=$$?; $(VERDICT)

# Biome looks after the JavaScript; there is a build of it for Linux on x86-64, and elsewhere it isn't asked.
JAVASCRIPT = --config-path=tools/javascript.json pictures/front tools/site/static tools/lab
BIOME = ! [ -x $(BIN)/biome ] || $(BIN)/biome
STATIC = $(BIN)/ruff check . && $(BIN)/ruff format --check .; ruff=$$?; $(BIN)/ty check --python .venv --quiet; types=$$?; \
  $(BIOME) check $(JAVASCRIPT); biome=$$?
PYTEST = NANOGPT_RUNS="$(CURDIR)/build/test-runs" OMP_NUM_THREADS=$(SHARE) \
  $(BIN)/pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder
NBVAL = -p nbval.plugin --nbval --nbval-current-env --nbval-cell-timeout 600
said = $$([ $$$(1) = 0 ] && echo passed || echo FAILED)
VERDICT = echo "make $@: ruff $(call said,ruff), types $(call said,types), JavaScript $(call said,biome), tests $(call said,tests)"; \
  exit $$((ruff || types || biome || tests))

format: .venv/ready ## mend what ruff and biome can mend: layout, order of imports
	@$(BIN)/ruff check --fix --quiet .; fixed=$$?; $(BIN)/ruff format . && $(BIOME) check --write $(JAVASCRIPT) && exit $$fixed

lab: .venv/ready ## open the notebooks in JupyterLab on this machine
	@mkdir -p $(JUPYTER_CONFIG_DIR)/custom && cp tools/lab/look.css $(JUPYTER_CONFIG_DIR)/custom/custom.css
	$(BIN)/jupyter lab --custom-css --ServerApp.ip=127.0.0.1 --LabApp.default_url=/lab/tree/notebooks/index.ipynb \
	  --LabApp.extra_labextensions_path="$(CURDIR)/tools/lab" --LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate $(LAB)

site: .venv/ready ## build the site in build/site from the stored notebooks, without running them
	@$(BIN)/python tools/website.py </dev/null

browser-test: .venv/ready ## try site, play page and JupyterLab in Chromium: links, keys, accessibility, phone, paper (CHROMIUM=path)
	@OMP_NUM_THREADS=$(SHARE) $(BIN)/pytest -q -rs -n $(JOBS) --maxschedchunk 1 tests/browser

write: .venv/ready ## let the trained model write: P='--prompt "ROMEO:"'
	@$(BIN)/python tools/write.py

gpt2: .venv/ready ## let OpenAI's GPT-2 write with this code: WEIGHTS=folder P='--prompt "Once upon"'
	@$(BIN)/python tools/write.py gpt2

ledger: .venv/ready ## where each number of the sources stands, after running what has changed
	@exec $(BIN)/python tools/notebooks.py ledger </dev/null

store: .venv/ready ## run all notebooks in place and store their outputs for git
	@exec $(BIN)/python tools/notebooks.py store </dev/null

fresh: .venv/ready ## bring back the notebooks as they were committed, keeping yours aside
	@exec $(BIN)/python tools/notebooks.py fresh </dev/null

study: .venv/ready ## train a small GPT with each of its parts left out in turn: NAME=parts (hours, in the background)
	@OMP_NUM_THREADS=1 $(BIN)/python tools/study.py --jobs $(JOBS)

ladder: .venv/ready ## climb from nanoGPT's recipe to the speedrun, for notebook 13 (an hour, in the background)
	@OMP_NUM_THREADS=1 $(BIN)/python tools/study.py ladder --jobs $(JOBS)

better: .venv/ready ## train the presets of three minutes and store what they write (a quarter of an hour; NAME=counted for one)
	@$(BIN)/python tools/better.py </dev/null

rungs: .venv/ready ## climb the ladder that opens notebook 08 with three seeds (three minutes)
	@OMP_NUM_THREADS=1 $(BIN)/python tools/rungs.py </dev/null

picture: .venv/ready ## draw the README's moving picture from the run in build/runs/laptop
	@$(BIN)/python tools/picture.py

bench: .venv/ready ## measure speed against rivals, side by side: QUICK=1 for a minute, NAME=training for one group
	@$(BIN)/python tools/bench.py </dev/null

play: .venv/ready ## pack the trained model anew for the page that lets you play with it, docs/play
	@$(BIN)/python tools/play.py

publish: .venv/ready ## write the address of your repository into README, pyproject.toml and notebooks: REPO=owner/name
	@$(BIN)/python tools/publish.py

classroom: .venv/classroom ## for teachers: add nbgrader to .venv

# What nbgrader needs besides is in the other lock.
.venv/classroom: .venv/ready $(CLASSROOM)
	@$(PIP) --require-hashes --only-binary :all: --no-deps -r $(CLASSROOM)
	@touch $@

student: .venv/ready ## the lessons as assignments, without solutions and proofs: OUT=folder
	@$(BIN)/python -m tools.classroom student </dev/null

grade: .venv/ready ## judge what students have handed in: SUBMISSIONS=folder OUT=folder
	@exec $(BIN)/python -m tools.classroom grade --jobs $(JOBS) </dev/null

torture: .venv/ready ## attack training, run folders and every entrance: kills, full disks, hostile files, bad values; and the rare tests
	@$(BIN)/python -m tools.torture --jobs $(JOBS) </dev/null; tortured=$$?; $(PYTEST) -m "torture or lesson" tests && exit $$tortured

lock: ## write the locks in tools anew, from requirements.txt and for the classroom
	@$(PYTHON) -m venv build/lock && build/lock/bin/python -m pip install --disable-pip-version-check --quiet uv==0.13.9
	@build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	  --no-emit-package torch --no-emit-package dot-products-to-nanogpt --custom-compile-command "make lock" \
	  --output-file $(LOCK) requirements.txt
	@echo nbgrader==0.9.6 | build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	  --constraint $(LOCK) $$(sed -n 's/^\([a-z0-9-]*\)==.*/--no-emit-package \1/p' $(LOCK)) --custom-compile-command "make lock" \
	  --output-file $(CLASSROOM) -

clean: ## remove .venv and build
	rm -rf .venv build *.egg-info .pytest_cache .ruff_cache .hypothesis
