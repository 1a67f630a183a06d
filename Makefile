# `make demo` and `make test` need Python >= 3.11 and make; everything else goes into .venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Python compiles a module when it is first imported: most of what is installed never is. What it
# compiled is kept, whatever the environment says: tests start hundreds of processes, which need
# 0.8 s of CPU each to import it, and 2.6 s to compile it again.
export PYTHONDONTWRITEBYTECODE :=
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet install --no-compile \
  -c constraints.txt

.PHONY: demo test test-compiled test-commands test-interpreted test-apply test-real \
  test-imports test-apart test-cluster lint format bench fuzz long clean kernels wheel
.DEFAULT_GOAL := help

help:
	@echo "make demo   replay three weeks of a small fleet through the exact HPA rules"
	@echo "make test   all tests, compiled and interpreted"
	@echo "make test-cluster  live beside a real cluster's own controller (KUBECONFIG names another one)"
	@echo "make lint   ruff, mypy --strict, import layers"
	@echo "make wheel  a wheel with compiled kernels for this machine, in build/"
	@echo "make bench  benchmarks (writes build/bench.json, docs/proof.md and the README's extract)"
	@echo "make fuzz   the long comparison with the naive reference (N=1000000 SEED=7)"
	@echo "make long   every golden row instead of a tenth and the committed part (needs HPABATCH_GOLDEN),"
	@echo "            ten minutes of random levels on a real cluster"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "hpabatch needs Python >= 3.11; name one with: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "no virtual environment could be made (on Debian: apt-get install python3-venv)"; exit 1; }

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing hpabatch into $(VENV) ..."
	@$(PIP) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing hpabatch and the development tools into $(VENV) ..."
	@$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.core

demo: $(VENV)/.core
	@$(BIN)/hpabatch replay data/demo --out build/demo/decisions.parquet --top 12
	@$(BIN)/hpabatch report data/demo --out build/demo/report.html
	@echo "(hpabatch is $(BIN)/hpabatch; \". $(BIN)/activate\" puts it on the PATH)"

# Four parts run side by side, on two cores: two that compute, which keep a core each busy (so one
# thread is enough for polars), and two that mostly wait for real servers: those of scaling and all
# others. What computes is `nice`, so that a server answers when it is asked. More parts at once make
# tests that race with servers fail. A part begins when another one has ended, so those that wait
# longest stand first: at the end they would leave the cores idle. PARTS=test-cluster adds one, which
# waits for five minutes; it begins last, as beside four busy parts it differs from the controller in
# its timing and has to be run twice. The kernels come first: a part that needs none would take the
# place of one that is listed before it. Nothing of the model and of packing is compiled, and no rule
# that Python calls: their tests run once, where coverage is measured.
IMPORTS  := importers inputs
APART    := cluster docs history jobs report
PLAIN    := layout model packing rules
COMMANDS := api cli live
APPLY    := $(wildcard tests/real/test_live_apply*.py)
PARTS   :=
BUSY    := POLARS_MAX_THREADS=1

# Some tests race with servers, signals and clocks, and the parts share the machine: what fails is
# run once more by itself, and counts if it fails again. Both runs are shown. Plain Python races with
# nothing.
PYTEST   = $(BUSY) $(BIN)/python -m pytest -o cache_dir=$(CURDIR)/.pytest_cache/$@
TESTED   = $(PYTEST) $(1) || \
  { [ $$? = 1 ] && $(PYTEST) $(1) --last-failed --last-failed-no-failures none; }

test: $(VENV)/.dev kernels
	@$(MAKE) --no-print-directory -j4 -o kernels test-real test-apart test-compiled \
	  test-apply test-commands test-interpreted test-imports $(PARTS)

test-compiled test-commands test-interpreted test-imports test-apart: BUSY := nice env $(BUSY)

test-compiled: kernels
	$(call TESTED,$(patsubst %,--ignore=tests/%,$(APART) $(COMMANDS) $(IMPORTS) $(PLAIN) real))

test-commands: kernels
	$(call TESTED,$(COMMANDS:%=tests/%))

test-apply: kernels
	$(call TESTED,$(APPLY))

test-real: kernels
	$(call TESTED,tests/real $(patsubst %,--ignore=%,$(APPLY)))

test-imports: kernels
	$(call TESTED,$(IMPORTS:%=tests/%))

test-apart: kernels
	$(call TESTED,$(APART:%=tests/%))

# All kernels are compiled once, before several processes need them.
kernels: $(VENV)/.dev
	@$(BUSY) $(BIN)/python -m hpabatch._prebuild

# A wheel with the compiled kernels of a kind of machine, such as MACHINE=aarch64 (this one's by
# default): nothing compiles where it is installed.
MACHINE ?= $(shell uname -m)
wheel: $(VENV)/.dev
	$(BIN)/python -m hpabatch._prebuild build/kernels $(MACHINE)
	HPABATCH_KERNELS=$(CURDIR)/build/kernels HPABATCH_MACHINE=$(MACHINE) $(BIN)/python -m pip --disable-pip-version-check \
	  --quiet wheel --no-deps --no-build-isolation --wheel-dir build .

# Rules and kernels again as plain Python: the same results, no access outside of an array, and
# branch coverage, which cannot see inside compiled code. It takes a hundred times as long, so it
# decides the committed part of the golden data only, draws less (tests/effort.py), and leaves out
# what only reads, writes, shows or sums up: nothing in that is compiled. Of the engine it takes what
# hands arrays of its own to a kernel.
ENGINE := replay/test_summary shards/test_align shards/test_ways simulate/test_replayed_run simulate/test_loop \
  explain/test_histories_told fidelity/test_walk
INTERPRETED := tests/layout tests/packing tests/conformance tests/fuzz tests/kernels tests/rules \
  tests/model \
  $(ENGINE:%=tests/engine/%.py) \
  tests/engine/simulate/test_laws.py::test_counting_equal_pods_together_changes_nothing \
  tests/engine/fleet/test_versions.py::test_gates_that_were_recorded_before_an_upgrade_did_away_with_them

test-interpreted: $(VENV)/.dev
	HPABATCH_GOLDEN= NUMBA_DISABLE_JIT=1 $(BUSY) $(BIN)/python -m pytest $(INTERPRETED) --cov \
	  --cov-report=
	$(BIN)/python -m coverage report --fail-under=100

# `hpabatch live` beside the controller of a real cluster: upstream's 1.20.2 on loopback where
# HPABATCH_CLUSTER_SCRIPTS names the scripts that start it, else the one that KUBECONFIG names, in
# namespaces that it makes and removes. EXPECTED_SKIPS=a,b: fail if anything else is left out.
# It races with that controller, and gets a second try as other tests do. Code 4 says that nothing
# differs, and that the controller moved too little on a machine that was too busy.
CLUSTER = $(BIN)/python -m tests.live_cluster \
  $(if $(filter undefined,$(origin EXPECTED_SKIPS)),,--expected-skips "$(EXPECTED_SKIPS)")

test-cluster: $(VENV)/.dev
	$(CLUSTER) || $(CLUSTER)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	nice $(BIN)/mypy
	nice $(BIN)/mypy $(patsubst %.pyi,%.py,$(wildcard hpabatch/api/*.pyi))  # hidden by their stubs
	$(BIN)/lint-imports
	$(BIN)/python -m tests.lines

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev
	@mkdir -p build
	NUMBA_NUM_THREADS=2 $(BIN)/python -m pytest benchmarks --benchmark-enable -q \
	  --benchmark-json=build/bench.json
	$(BIN)/python -m benchmarks.readme README.md docs/proof.md build/bench.json

# N calculator cases and a timeline for every 40 of them against the naive reference, under all
# versions; `make test` runs a seeded hundredth of the usual number. SEED=... draws others.
N    ?= 200000
SEED ?=
fuzz: $(VENV)/.dev
	HPABATCH_FUZZ_DECISIONS=$(N) HPABATCH_FUZZ_SEED=$(SEED) $(BIN)/python -m pytest tests/fuzz -q -s

# Every golden row (HPABATCH_GOLDEN names their folder); 10,000 simulated worlds of `live --apply`;
# ten minutes of random levels on a real cluster, other ones with SEED=....
long: $(VENV)/.dev
	$(BIN)/python -m pytest tests/conformance -q
	HPABATCH_WORLDS=10000 $(BIN)/python -m pytest tests/live/apply/test_world.py -q
	$(BIN)/python -m tests.live_cluster --seed $(or $(SEED),1) --seconds 600

clean:
	rm -rf build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
