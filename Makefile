# The two set-up commands of the README. Nothing but Python >= 3.11 is needed.
#
#   make demo   virtual environment, the package, one solved day with a picture
#   make test   every extra and the test tools; ruff, mypy, pytest
#   make tables every comparison of docs/benchmarks.md, on an idle machine
#
# Run them again at any time: what is installed already stays.

PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
  && { echo $$p; break; }; done)
BIN := .venv/bin

# One thread per process: pytest runs two processes, solvers must not fight.
export OMP_NUM_THREADS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test docs tables

demo: .venv/core-installed
	$(BIN)/clusterfirst demo --out out/demo.png

test: .venv/all-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2

docs: .venv/all-installed
	$(BIN)/python docs/generate_cli.py

tables: .venv/all-installed
	$(BIN)/python benchmarks/parts.py --store
	$(BIN)/python benchmarks/tables.py free
	$(BIN)/python benchmarks/tables.py search

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or newer is needed; try make PYTHON=/path/to/python3.11"; exit 2; }
	$(PYTHON) -m venv .venv

.venv/core-installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

# --group needs pip 25.1; the pip in a fresh environment of Python 3.11 is older.
.venv/all-installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[labels,bench,ray]" --group dev
	@touch $@ .venv/core-installed
