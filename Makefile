# The two set-up commands of the README. Nothing but Python >= 3.11 is needed.
#
#   make demo   virtual environment, the package, one solved day with a picture
#   make test   every extra and the test tools; ruff, mypy, pytest
# Both install the versions of constraints.txt: what was tested, not what is newest.
# `make help` lists the others. Run them again at any time: what is installed stays.

PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
  && { echo $$p; break; }; done)
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt
EVERYTHING := .[train,labels,bench,ray,serve,excel]

# One thread per process: several run side by side, solvers must not fight.
export OMP_NUM_THREADS := 1
# Half of the time tests wait, for limits, for services and for kills.
TESTS_AT_ONCE := 3
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test test-browser docs tables campaign constraints

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: .venv/core-installed ## set up and solve one bundled day with a picture
	$(BIN)/clusterfirst warm-up
	$(BIN)/clusterfirst demo --out out/demo.png

test: .venv/all-installed ## every extra and the test tools; ruff, mypy, pytest
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy & types=$$!; \
	$(BIN)/pytest -n $(TESTS_AT_ONCE) --dist worksteal --durations=25; tests=$$?; \
	wait $$types && exit $$tests

test-browser: .venv/all-installed ## walk through the service's page in Chromium
	@tests/browser/chromium.sh
	$(BIN)/pytest tests/browser

docs: .venv/docs-installed ## write docs/cli.md and the site in out/site, without network
	$(BIN)/python docs/generate_cli.py
	$(BIN)/python docs/generate_numbers.py
	$(BIN)/python docs/draw_architecture.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

tables: .venv/all-installed ## every comparison of docs/benchmarks.md, on an idle machine
	$(BIN)/python benchmarks/parts.py --store
	$(BIN)/python benchmarks/tables.py free
	$(BIN)/python benchmarks/tables.py search

campaign: .venv/all-installed ## attack every promise of docs/reliability.md; resumable, hours
	$(BIN)/python campaign/run.py

# A fresh environment, so that nothing stale is written down. Labels such as +cpu are
# of one machine's build; the file must also fit the others.
constraints: | $(BIN)/python ## the newest versions the bounds allow, into constraints.txt
	rm -rf out/newest && $(BIN)/python -m venv out/newest
	out/newest/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	out/newest/bin/python -m pip install --quiet "$(EVERYTHING)" --group dev --group docs
	{ sed -n '/^#/p' constraints.txt; out/newest/bin/python -m pip list \
	  --format=freeze --exclude clusterfirst --exclude pip | sed 's/+.*//'; } \
	  > out/constraints.txt
	mv out/constraints.txt constraints.txt && rm -rf out/newest

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or newer is needed; try make PYTHON=/path/to/python3.11"; exit 2; }
	$(PYTHON) -m venv .venv

.venv/core-installed: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable .
	@touch $@

# --group needs pip 25.1; the pip in a fresh environment of Python 3.11 is older.
.venv/all-installed: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(INSTALL) --editable "$(EVERYTHING)" --group dev
	@touch $@ .venv/core-installed

.venv/docs-installed: pyproject.toml constraints.txt | .venv/all-installed
	$(INSTALL) --group docs
	@touch $@
