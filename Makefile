# `make demo` and `make test` are all that a fresh machine needs.
PYTHON ?= python3
BIN := .venv/bin
export HF_HUB_OFFLINE ?= 1
unexport PYTHONDONTWRITEBYTECODE  # every test process would compile the package and its tests

.PHONY: demo test lint types pytest bench clean

demo: .venv/installed  ## what the heads of our own translation model do and are worth
	$(BIN)/headcount demo --out demo

test: lint  ## everything that must hold: ruff, then pyright beside pytest
	$(MAKE) --jobs 2 types pytest

lint: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/installed  ## the package, the tests and the benchmarks
	$(BIN)/pyright --pythonpath $(BIN)/python

pytest: .venv/installed  ## a process for every core, at most eight
	$(BIN)/pytest --numprocesses auto --maxprocesses 8 --dist loadfile

bench: .venv/installed  ## make bench TREEBANK=file.conllu TEXT=file.txt
	$(BIN)/python benchmarks/overhead.py --treebank $(TREEBANK) --text $(TEXT) --memory

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@

clean:
	rm -rf .venv demo build *.egg-info
