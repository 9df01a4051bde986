# Everything happens inside the clone: .venv/ holds the packages, build/ what runs produce, mine/ what is yours.

# To be given on make's command line. What the environment calls by these names is something else.
# One or several notebooks for run, test and store (default: all): NB=08, NB="01 02".
NB :=
# Options: of papermill for run (P="-p preset smoke"), of helpers.sampling for write, of JupyterLab for lab.
P :=
PYTHON := python3
# It says whether that is the default or what somebody has asked for.
SETUP = $(PYTHON) tools/setup.py $(if $(findstring command,$(origin PYTHON)),asked)

# Other people's settings of Python reach nothing here; tools/surroundings.py says the same of Jupyter and others.
unexport $(filter PYTHON%,$(.VARIABLES))

BIN := .venv/bin

.PHONY: help setup setup-dev lab run test check write site store clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-8s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "one notebook, other settings:  make run NB=08 P=\"-p preset smoke\""
	@echo "text from the trained model:   make write P='--prompt \"ROMEO:\" --temperature 0.8'"
	@echo "what is done now and then:     python -m tools.NAME --help; CONTRIBUTING.md lists them"

setup: ## install what the notebooks need into .venv, once; it mends itself when the clone or the lists have changed
	@$(SETUP)

# What developing takes besides: ruff, Sphinx, a browser for tests …
setup-dev:
	@$(SETUP) dev

lab: setup ## open the notebooks in JupyterLab on this machine
	@$(BIN)/python -m tools.lab $(P)

run: setup ## run all notebooks with papermill into build/, train a GPT and print what it writes
	@$(BIN)/python -m tools.notebooks run $(NB) $(P)

test: setup-dev ## ruff, types, biome, pytest, and nbval (strict) over every notebook, or over one and what belongs to it
	@$(BIN)/python -m tools.check test $(NB)

check: setup-dev ## the same without notebooks and slow tests; it names the five slowest
	@$(BIN)/python -m tools.check check

write: setup ## let the trained model write
	@$(BIN)/python -m helpers.sampling $(P)

site: setup-dev ## build the site in build/site from the stored notebooks, without running them
	@$(BIN)/python -m tools.site

store: setup ## run notebooks in place and store their outputs for git
	@$(BIN)/python -m tools.notebooks store $(NB)

# By their names, so that nothing else is lost: your runs stay in build/runs, your own things in mine/.
clean: ## remove .venv and what can be made again; what you have trained and written stays
	rm -rf .venv build/notebooks build/html build/site build/play build/test-runs build/lib build/bdist.* *.egg-info
	rm -rf .pytest_cache .ruff_cache .hypothesis
