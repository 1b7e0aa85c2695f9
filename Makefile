# Everything a newcomer, a developer and continuous integration run. `make help` lists it.
# Needs python3 (3.11 to 3.13) and make; the first use of a target installs what it needs into .venv.

PYTHON ?= python3
VENV := .venv
BENCH_VENV := .venv-bench-jax
DIST_VENV := .venv-dist
ECO_VENV := .venv-ecosystem
ECO_FIRST_VENV := .venv-ecosystem-first
ECO_JAX_VENV := .venv-ecosystem-jax
PY := $(VENV)/bin/python
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

# Many images set PYTHONDONTWRITEBYTECODE. Importing weft then takes twice as long in each of the
# thousands of processes that tests start, unless its bytecode is there.
BYTECODE = @$(PY) -m compileall -q weft

# How many tests run at once, and further arguments for pytest: make test JOBS=4 ARGS="-k vmap -x".
JOBS ?= 2
ARGS ?=
# The revision that `make test-changed` compares with: make test-changed BASE=main.
BASE ?= HEAD
# The rows of a table share what was compiled for them, so each process gets stretches of tests that
# stand beside one another, and takes some of another's when it has done its own.
PYTEST := $(PY) -m pytest -q -n $(JOBS) --dist worksteal

# Tests of the source, of golden texts, and those on the fake backend: nothing that XLA compiles.
CHECKED := tests/project/test_layers.py tests/project/test_names.py tests/project/test_style.py \
  tests/project/test_surface.py tests/project/test_features.py tests/project/test_changed_tests.py \
  tests/project/test_tiers.py tests/project/test_api_reference.py tests/interpreters/test_golden.py \
  tests/extend/test_extend_surface.py tests/core/test_errors.py tests/core/test_jaxpr.py \
  tests/interpreters/test_dce.py tests/base tests/sharding/test_meshes.py \
  tests/lowering/test_fake_backend.py tests/runtime/test_runtime_fake.py

# And for the demo: make demo ARGS="--devices 8" trains over eight devices (docs/demo.md).
# How long random programs run, over all families: make fuzz SECONDS=600 ARGS="--family misuse".
SECONDS ?=
# The version that release notes are printed of (that of the package).
VERSION ?=
# Which benchmark cases to run (all) and how often each: make bench ONLY=eager_ops,trace REPS=3.
ONLY ?=
REPS ?=

.PHONY: help demo test test-all test-quick test-rest check smoke test-changed test-code test-fast test-slow test-sanitized \
  test-ecosystem test-ecosystem-first test-ecosystem-times test-ecosystem-suites \
  lint format format-check types size docs site test-site fuzz bench sweep programs growth \
  growth-memory several-bench checkpoint-bench dist dist-check release-notes clean
.DEFAULT_GOAL := help

help: ## show this list
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

demo: $(VENV)/installed-demo ## train a network on digits, or on yours: ARGS="--data iris.csv"
	$(PY) examples/digits.py $(ARGS)

check: $(VENV)/installed-test ## source, style, surface, golden texts, the fake backend: 60 s
	$(PY) -m ruff check . && $(PY) -m ruff format --check --quiet .
	$(PYTEST) $(CHECKED) $(ARGS)

smoke: $(VENV)/installed-test ## one look at each operation, page and example: 150 s
	WEFT_TEST_TIER=smoke $(PYTEST) -m smoke tests/ops/test_ops.py tests/project/test_docs.py \
	  tests/examples $(ARGS)

test-changed: $(VENV)/installed-test ## tests that the changes since BASE (HEAD) reach
	@tests="$$($(PY) tools/changed_tests.py --base $(BASE))"; \
	  if [ -n "$$tests" ]; then $(PYTEST) $$tests $(ARGS); else echo "nothing has changed"; fi

test: test-quick lint format-check ## whether this clone works: 10 minutes

test-all: test test-rest types size ## besides, what continuous integration runs: 35 minutes

test-quick: $(VENV)/installed-test ## each operation, page and example, and the other tests that are quick
	$(BYTECODE)
	WEFT_TEST_TIER=quick $(PYTEST) $(ARGS)

test-rest: $(VENV)/installed-test ## the other tests, and the operations with all dtypes
	$(BYTECODE)
	WEFT_TEST_TIER=rest $(PYTEST) $(ARGS)

test-code: $(VENV)/installed-test ## all tests at once, JOBS at a time
	$(BYTECODE)
	$(PYTEST) $(ARGS)

test-fast: $(VENV)/installed-test ## the subset for newer Pythons
	$(PYTEST) -m "fast and not slow" $(ARGS)

test-slow: $(VENV)/installed-test ## the tests that take minutes
	WEFT_COMPILE_EFFORT=full $(PYTEST) -m slow $(ARGS)

test-sanitized: $(VENV)/installed-test ## tests of calls under AddressSanitizer: 5 minutes
	$(PY) tools/test_sanitized.py $(ARGS)

test-ecosystem: $(ECO_VENV)/installed ## main jobs of the libraries written for JAX
	$(ECO_VENV)/bin/python tests/ecosystem/run.py $(if $(ONLY),--only $(ONLY)) $(ARGS)

# The jobs that continuous integration runs, in an environment of a quarter of the size.
FIRST_JOBS := optax,equinox,flax_linen,flax_nnx,haiku,diffrax,numpyro,blackjax,chex,distrax,jaxopt,einops
test-ecosystem-first: $(ECO_FIRST_VENV)/installed ## the main jobs of twelve of them
	$(ECO_FIRST_VENV)/bin/python tests/ecosystem/run.py --only $(FIRST_JOBS) $(ARGS)

test-ecosystem-times: $(ECO_VENV)/installed $(ECO_JAX_VENV)/installed ## the same beside JAX: the table
	-$(ECO_VENV)/bin/python tests/ecosystem/run.py --beside $(ECO_JAX_VENV)/bin/python \
	  $(if $(ONLY),--only $(ONLY)) $(if $(REPS),--repeats $(REPS)) $(ARGS)
	$(ECO_VENV)/bin/python tests/ecosystem/table.py

test-ecosystem-suites: $(ECO_VENV)/installed $(ECO_JAX_VENV)/installed ## parts of the libraries' own tests
	-$(ECO_VENV)/bin/python tests/ecosystem/suites.py --beside $(ECO_JAX_VENV)/bin/python \
	  $(if $(ONLY),--only $(ONLY)) $(if $(SECONDS),--seconds $(SECONDS)) $(ARGS)

lint: $(VENV)/installed-test ## ruff's checks
	$(PY) -m ruff check .

format: $(VENV)/installed-test ## rewrite the source in the project's format
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

format-check: $(VENV)/installed-test ## whether the source is in the project's format
	$(PY) -m ruff format --check .

# Without a cache: from one, mypy forgets comments that silence nothing, and a fresh clone fails.
types: $(VENV)/installed-test ## mypy: strict for the core, lenient elsewhere
	$(PY) -m mypy --no-incremental

size: $(VENV)/installed-test ## files and lines per folder, and the longest files
	$(PY) tools/size_report.py

docs: $(VENV)/installed-run ## docs/parity.md, the map of the tree and the tables of settings, from the package as it is
	$(PY) tools/parity.py
	$(PY) tools/architecture_map.py
	$(PY) tools/settings_table.py

site: $(VENV)/installed-site ## the documentation as web pages, in build/site: 3 minutes
	$(PY) tools/build_site.py $(ARGS)

test-site: site $(VENV)/installed-test ## those pages in a browser (the Debian package chromium)
	WEFT_SITE=build/site $(PY) -m pytest -q tests/project/test_site_in_browser.py

fuzz: $(VENV)/installed-test ## random programs for SECONDS, and what they find
	$(PY) tools/fuzz.py $(if $(SECONDS),--seconds $(SECONDS)) $(ARGS)

bench: $(VENV)/installed-run $(BENCH_VENV)/installed ## weft against JAX, into benchmarks/results.md
	$(PY) benchmarks/run.py --lib jax --python $(BENCH_VENV)/bin/python \
	  --vs weft --vs-python $(PY) --report benchmarks/results \
	  $(if $(ONLY),--only $(ONLY)) $(if $(REPS),--reps $(REPS)) $(ARGS)

sweep: $(VENV)/installed-run $(BENCH_VENV)/installed ## every function of arrays beside JAX: build/sweep/results.md
	$(PY) benchmarks/sweep/run.py --python $(PY) --beside $(BENCH_VENV)/bin/python \
	  $(if $(ONLY),--only "$(ONLY)") $(if $(REPS),--reps $(REPS)) $(ARGS)

accuracy: $(VENV)/installed-run $(BENCH_VENV)/installed ## errors of elementwise functions beside JAX: docs/accuracy.md
	$(BENCH_VENV)/bin/python benchmarks/accuracy/largest_errors.py --python $(PY) \
	  --beside $(BENCH_VENV)/bin/python $(if $(ONLY),--only "$(ONLY)") $(ARGS)
	$(BENCH_VENV)/bin/python benchmarks/accuracy/accuracy_page.py

growth: $(VENV)/installed-run $(BENCH_VENV)/installed ## cost as work grows, beside JAX: benchmarks/growth/results.md
	$(PY) benchmarks/growth/run.py --python $(PY) --beside $(BENCH_VENV)/bin/python \
	  $(if $(ONLY),--only "$(ONLY)") $(ARGS)

growth-memory: $(VENV)/installed-run $(BENCH_VENV)/installed ## memory over 100,000 calls of functions made anew
	$(PY) benchmarks/growth/memory.py --python $(PY) --beside $(BENCH_VENV)/bin/python \
	  $(if $(ONLY),--only "$(ONLY)") $(ARGS)

programs: $(VENV)/installed-run $(BENCH_VENV)/installed ## real programs beside JAX: benchmarks/programs/results.md
	$(PY) benchmarks/programs/run.py --python $(PY) --beside $(BENCH_VENV)/bin/python \
	  $(if $(ONLY),--only $(ONLY)) $(if $(REPS),--reps $(REPS)) $(ARGS)

several-bench: $(VENV)/installed-run $(BENCH_VENV)/installed ## a step over several processes beside JAX
	$(PY) benchmarks/several/run.py --python $(PY) --beside $(BENCH_VENV)/bin/python $(ARGS)

checkpoint-bench: $(VENV)/installed-test ## writing and reading checkpoints beside cp: benchmarks/checkpoint.md
	$(PY) benchmarks/checkpoint.py $(if $(REPS),--rounds $(REPS)) $(ARGS)

dist: $(DIST_VENV)/installed ## the source distribution and the wheel, into dist/
	rm -rf dist build *.egg-info
	$(DIST_VENV)/bin/python -m build --no-isolation --outdir dist .

# What weft needs is fetched once; the check itself asks no index.
dist-check: dist $(DIST_VENV)/wheelhouse/complete ## install both into an empty environment, without an index
	$(DIST_VENV)/bin/python tools/check_dist.py dist $(DIST_VENV)/wheelhouse

release-notes: ## the notes of a version, from CHANGELOG.md: make release-notes VERSION=0.1.0
	@$(PYTHON) tools/release_notes.py $(VERSION)

clean: ## remove the environments and everything that tools leave behind
	rm -rf .venv .venv-dist .venv-bench-jax .venv-ecosystem .venv-ecosystem-first .venv-ecosystem-jax .venv-ci-* .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf build dist *.egg-info out
	rm -f weft/native/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ---- environments ----------------------------------------------------------------------------------
# A stamp is written when an installation is complete, so an interrupted one starts again.

CHECK_PYTHON := import sys; v = sys.version_info[:2]; \
  sys.exit(None if (3, 11) <= v < (3, 14) else \
  "weft needs Python 3.11 to 3.13; %s is %d.%d. Choose another: make PYTHON=python3.12 ..." \
  % (sys.executable, *v))

$(VENV)/created:
	@$(PYTHON) -c '$(CHECK_PYTHON)'
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/installed-run: $(VENV)/created requirements/run.txt requirements/constraints.txt pyproject.toml \
  $(wildcard weft/native/*.c weft/native/*.h)
	$(PY) $(PIP_INSTALL) -r requirements/run.txt
	$(PY) $(PIP_INSTALL) --no-deps --editable .
	$(BYTECODE)
	@touch $@

$(VENV)/installed-demo: $(VENV)/installed-run requirements/demo.txt
	$(PY) $(PIP_INSTALL) -r requirements/demo.txt
	@touch $@

$(VENV)/installed-test: $(VENV)/installed-demo requirements/test.txt
	$(PY) $(PIP_INSTALL) -r requirements/test.txt
	@touch $@

$(DIST_VENV)/installed: requirements/dist.txt requirements/constraints.txt
	@$(PYTHON) -c '$(CHECK_PYTHON)'
	rm -rf $(DIST_VENV)
	$(PYTHON) -m venv $(DIST_VENV)
	$(DIST_VENV)/bin/python $(PIP_INSTALL) -r requirements/dist.txt
	@touch $@

# The builder of the package is among them, for the source distribution.
$(DIST_VENV)/wheelhouse/complete: $(DIST_VENV)/installed requirements/run.txt
	$(DIST_VENV)/bin/python -m pip download --quiet --disable-pip-version-check \
	  --dest $(@D) -r requirements/run.txt -r requirements/dist.txt
	@touch $@

$(VENV)/installed-site: $(VENV)/installed-run requirements/site.txt
	$(PY) $(PIP_INSTALL) -r requirements/site.txt
	@touch $@

$(BENCH_VENV)/installed: requirements/bench.txt requirements/constraints.txt
	@$(PYTHON) -c '$(CHECK_PYTHON)'
	rm -rf $(BENCH_VENV)
	$(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/python $(PIP_INSTALL) -r requirements/bench.txt
	@touch $@

# The pins are one whole, so nothing is resolved; compat/jax is what answers to the name jax.
$(ECO_VENV)/installed: tests/ecosystem/requirements.txt
$(ECO_FIRST_VENV)/installed: tests/ecosystem/requirements-first.txt
$(ECO_VENV)/installed $(ECO_FIRST_VENV)/installed: compat/jax/pyproject.toml
	@$(PYTHON) -c '$(CHECK_PYTHON)'
	rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python $(PIP_INSTALL) --no-deps -r $(filter %.txt,$^)
	$(@D)/bin/python $(PIP_INSTALL) --no-deps --editable . ./compat/jax
	@touch $@

$(ECO_JAX_VENV)/installed: tests/ecosystem/requirements.txt
	rm -rf $(ECO_JAX_VENV)
	$(PYTHON) -m venv $(ECO_JAX_VENV)
	$(ECO_JAX_VENV)/bin/python $(PIP_INSTALL) --no-deps -r tests/ecosystem/requirements.txt jax==0.10.2
	@touch $@
