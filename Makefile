# `make demo` and `make test` are all that a fresh machine needs.
PYTHON ?= python3
BIN := .venv/bin
export HF_HUB_OFFLINE ?= 1
unexport PYTHONDONTWRITEBYTECODE  # every test process would compile the package and its tests

.PHONY: demo test test-all lint types pytest docs notebooks versions kernels truth example turn device wheel faults mutants bench clean FORCE

demo: .venv/installed  ## what the heads of our own translation model do and are worth
	$(BIN)/headcount demo --out demo

test: lint  ## what must hold every day: ruff, then pyright and the docs beside pytest
	$(MAKE) --jobs 2 docs types pytest

test-all: test slow-1 slow-2 slow-3 slow-4  ## and the tests that are slow

lint: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/installed  ## the package, the tests and the benchmarks; with less memory pyright reads transformers again and again
	NODE_OPTIONS=--max-old-space-size=9000 $(BIN)/pyright --pythonpath $(BIN)/python

pytest: .venv/installed  ## all but the slow ones, in a process for every core, at most eight
	$(ON) $(BIN)/pytest -m "not slow or daily" $(PROCESSES)

PROCESSES := --numprocesses auto --maxprocesses 8 --dist loadfile

slow-%: .venv/installed  ## a quarter of the slow tests: make slow-1 to make slow-4
	$(ON) $(BIN)/pytest -m slow --part $* $(PROCESSES)

# For its time, CI takes one of these by the commit's hash. Each can be made by hand.
TURNS := versions kernels slow-1 slow-2 slow-3 slow-4 truth
COMMIT = $(shell git rev-parse --short=7 HEAD)

# Tests as on one of four machines, the one of a commit: make test ON='$(MACHINE)'
MACHINE = .ci/elsewhere $(shell echo $$((0x$(COMMIT) / 4 % 4)))

turn:  ## the one of a commit: make turn COMMIT=6728037
	$(MAKE) $(word $(shell echo $$((0x$(COMMIT) % $(words $(TURNS)) + 1))), $(TURNS))

docs: .venv/installed  ## the site in build/docs; a broken link or reference is an error
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet docs build/docs

# What pyproject.toml allows at least, and what was newest on 2026-11-26
VERSIONS := $(shell sed -n 's/.*"transformers>=\(.*\)".*/\1/p' pyproject.toml) 5.24.0
VERSIONED := tap/test_selfcheck.py tap/test_own_softmax.py tap/test_attention_interface.py \
	compaction/test_compact.py compaction/test_groups.py gates/test_context.py \
	models/test_remote_code.py models/test_shipped.py artifact/test_plain.py \
	artifact/test_compact_command.py reporting/test_demo.py

notebooks: .venv/installed  ## what the notebooks of the docs show, stored in them
	HEADCOUNT_NOTEBOOKS=1 $(BIN)/pytest tests/test_notebook_files.py

versions: $(addprefix transformers-, $(VERSIONS))  ## a part of the tests with the oldest and the newest transformers

transformers-%: .versions/%/installed FORCE
	.versions/$*/bin/python -m pytest -p no:cacheprovider $(addprefix tests/, $(VERSIONED)) -k "not card_is_about" \
		-W 'ignore:`torch.jit.script` is deprecated:DeprecationWarning'

.versions/%/installed: .venv/installed  ## what that version does not need otherwise is that of .venv
	$(PYTHON) -m venv .versions/$*
	echo "import site; site.addsitedir('$$($(BIN)/python -c $(PACKAGES))')" \
		> $$(.versions/$*/bin/python -c $(PACKAGES))/others.pth
	.versions/$*/bin/pip install --quiet transformers==$*
	touch $@

# What the oldest torch that pyproject.toml allows brings along, and the newest
TRITONS := 3.6.0 $(shell sed -n 's/^triton==//p' constraints.txt)

kernels: $(TRITONS:%=.kernels/%/installed)  ## the kernel for GPUs in Triton's interpreter, and compiled for an H100 that is not there
	TRITON_INTERPRET=1 .kernels/$(lastword $(TRITONS))/bin/python -m pytest -p no:cacheprovider -k triton \
		tests/tap/test_kernel_triton.py tests/measures/test_laws.py tests/analysis/test_analysis.py
	set -e; for version in $(TRITONS); do \
		TRITON_CACHE_DIR=.kernels/$$version/cache .kernels/$$version/bin/python benchmarks/registers.py; done

.kernels/%/installed: .venv/installed  ## triton, 0.7 GB, beside what is in .venv
	$(PYTHON) -m venv .kernels/$*
	echo "import site; site.addsitedir('$$($(BIN)/python -c $(PACKAGES))')" \
		> $$(.kernels/$*/bin/python -c $(PACKAGES))/others.pth
	.kernels/$*/bin/pip install --quiet --no-deps triton==$*
	touch $@

truth: .truth/installed  ## programs that torchwright compiled: every head's role and worth
	.truth/bin/python -m pytest -p no:cacheprovider tests/truth

.truth/installed: .venv/installed  ## its solver needs another protobuf than ONNX
	$(PYTHON) -m venv .truth
	echo "import site; site.addsitedir('$$($(BIN)/python -c $(PACKAGES))')" \
		> $$(.truth/bin/python -c $(PACKAGES))/others.pth
	.truth/bin/pip install --quiet "$(shell sed -n 's/^truth = \["\(.*\)"\]/\1/p' pyproject.toml)"
	touch $@

example: .example/installed  ## the package of docs/extending.md: its entry points are found, and its tests pass
	.example/bin/python -m headcount doctor
	.example/bin/python -m headcount several --help > /dev/null
	OMP_NUM_THREADS=1 .example/bin/python -m pytest -p no:cacheprovider --rootdir $(EXAMPLE) $(EXAMPLE)/tests

EXAMPLE := docs/extending/headcount-example

.example/installed: .venv/installed FORCE
	$(PYTHON) -m venv .example
	echo "import site; site.addsitedir('$$($(BIN)/python -c $(PACKAGES))')" \
		> $$(.example/bin/python -c $(PACKAGES))/others.pth
	.example/bin/pip install --quiet --no-deps ./$(EXAMPLE)
	touch $@

device: .venv/installed  ## on a machine with a GPU: the kernel against the blocks, and what measuring costs, in device.md
	$(BIN)/python benchmarks/device.py --out device.md

.SECONDARY:
PACKAGES := "import sysconfig; print(sysconfig.get_path('purelib'))"

wheel: .venv/installed  ## the wheel in build/wheel, installed in an environment of its own, where the demo runs
	.ci/wheel

faults: .venv/installed  ## make faults TRIES=1000: damaged files and killed runs, the table in faults.md
	HEADCOUNT_FUZZ=$(or $(TRIES),100) HEADCOUNT_FAULTS=faults.md $(BIN)/pytest tests/faults

mutants: .venv/installed  ## make mutants N=30: changes that no test notices
	.ci/mutants $(or $(N),30) $(or $(SEED),1)

bench: .venv/installed  ## make bench TREEBANK=file.conllu TEXT=file.txt
	$(BIN)/python benchmarks/overhead.py --treebank $(TREEBANK) --text $(TEXT) --memory

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@

clean:
	rm -rf .venv .versions .kernels .truth .example demo build *.egg-info
