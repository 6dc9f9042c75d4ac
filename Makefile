# Needs make, a POSIX shell and Python 3.11 or later. Everything else is installed into .venv.
#   PYTHON=/path/to/python   creates .venv (default: the first suitable Python on PATH)
#   ARGS="..."               arguments of the command: make demo ARGS="--seed 3",
#                            make test ARGS="-k racks -x"
#   WORKERS=2                number of processes that run tests (default: 2; with ARGS, one)

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?=
ARGS ?=
# Each has clusters of its own, which also use a core while they are idle.
WORKERS ?= $(if $(strip $(ARGS)),0,2)

EXTRAS := kafka-python,confluent,aiokafka,spark,cluster,docker,cli,yaml,prometheus,controller
CHECKED := placement_core assignors partitioners rack_traffic rackward tests integration benchmarks \
	examples docs conftest.py .ci/client_versions.py .ci/kafka_image.py .ci/wheel_test.py
INPUTS := pyproject.toml constraints.txt

# pip reads the first for the packages to install, the second for those to build with.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_BUILD_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-quick test-docker lint format typecheck docs benchmarks benchmarks-placement benchmarks-clients benchmarks-leading chaos nightly mutation wheel wheel-test constraints clean

help:
	@echo 'make demo                  compare four assignors on a Kafka of six brokers in three racks'
	@echo 'make test                  all tests that can run here (those for Docker need an engine)'
	@echo 'make test-quick            the tests that need neither a cluster nor Spark: three minutes'
	@echo 'make test-docker           the tests on containers (Testcontainers); fails without a Docker engine'
	@echo 'make lint                  ruff, mypy --strict, import-linter'
	@echo 'make format                fix and format the code with ruff'
	@echo 'make docs                  build the documentation as a site, in build/site'
	@echo 'make benchmarks            time the assignors'
	@echo 'make benchmarks-placement  time the placers and reassignment plans'
	@echo 'make benchmarks-clients    compare the confluent consumers on a real Kafka'
	@echo 'make benchmarks-leading    CPU, memory and seconds of leading 5,000 groups on simulated brokers'
	@echo 'make chaos                 break clusters and groups of every client, and check what they did'
	@echo 'make nightly               what takes hours: slow tests, new random examples, all rights, all faults, memory'
	@echo 'make mutation              change the code in small ways, and count what the tests notice'
	@echo 'make wheel                 build the sdist and the wheel, in dist'
	@echo 'make wheel-test            build the wheel, and test it without the checkout'
	@echo 'make constraints           update constraints.txt to the newest versions'
	@echo 'make clean                 remove .venv and all generated files'
	@echo
	@echo 'Needs make and Python 3.11 or later. PYTHON=/path/to/python chooses the interpreter,'
	@echo 'ARGS="..." passes arguments: make demo ARGS="--seed 3"'

demo: $(VENV)/.demo-installed
	@$(BIN)/rackward demo $(ARGS)

test: $(VENV)/.dev-installed
	@$(BIN)/python -m pytest --numprocesses $(WORKERS) $(ARGS)

test-quick: $(VENV)/.dev-installed
	@$(BIN)/python -m pytest --numprocesses logical -m 'not spark and not thorough' tests $(ARGS)

test-docker: $(VENV)/.dev-installed
	@RACKWARD_REQUIRE_DOCKER=1 $(BIN)/python -m pytest --numprocesses $(WORKERS) -m docker integration $(ARGS)

lint: typecheck
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo

typecheck: $(VENV)/.dev-installed
	@$(BIN)/mypy --strict $(CHECKED)

format: $(VENV)/.dev-installed
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

# Strict: a warning, such as a broken link, is an error. No messages about other site generators.
docs: $(VENV)/.dev-installed
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet $(ARGS)
	@echo 'The site is in build/site. To read it: python3 -m http.server --bind 127.0.0.1 --directory build/site'

benchmarks: $(VENV)/.dev-installed
	@$(BIN)/python -m benchmarks $(ARGS)

benchmarks-placement: $(VENV)/.dev-installed
	@$(BIN)/python -m benchmarks.reassignment
	@$(BIN)/python -m benchmarks.placement
	@$(BIN)/python -m benchmarks.leaders

benchmarks-clients: $(VENV)/.dev-installed
	@$(BIN)/python -m benchmarks.confluent_overhead $(ARGS)

benchmarks-leading: $(VENV)/.dev-installed
	@$(BIN)/python -m benchmarks.leading $(ARGS)

chaos: $(VENV)/.dev-installed
	@$(BIN)/python -m integration.chaos $(ARGS)

# Slow tests have the whole matrix of rights; each step runs, and the last failure is the status.
# Property tests draw 2,000 new examples each: the profile of the other runs repeats the same ones.
nightly: $(VENV)/.dev-installed
	@status=0; \
	RACKWARD_SLOW_TESTS=all $(BIN)/python -m pytest --numprocesses $(WORKERS) -m slow tests integration || status=$$?; \
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --hypothesis-profile=fuzz --timeout 7200 \
		-m 'hypothesis and not spark' tests || status=$$?; \
	$(BIN)/python -m integration.chaos $(ARGS) || status=$$?; \
	$(BIN)/python -m integration.chaos --soak 30 $(ARGS) || status=$$?; \
	exit $$status

mutation: $(VENV)/.mutation-installed
	@$(BIN)/python -m benchmarks.mutation $(ARGS)

wheel: $(VENV)/.dev-installed
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist

wheel-test: $(VENV)/.dev-installed
	@$(BIN)/python .ci/wheel_test.py

constraints: $(BIN)/python
	@.ci/constraints $(BIN)/python $(EXTRAS)

# Stamp files, so that nothing is installed twice. The demo needs no development tools.
# --no-compile: most installed modules are never imported, and compile when they are.
$(VENV)/.demo-installed: $(INPUTS) | $(BIN)/python
	@echo 'Installing rackward and the packages of the demo into $(VENV) ...'
	@$(BIN)/python -m pip install --quiet --no-compile --editable '.[cli]'
	@touch $@

$(VENV)/.dev-installed: $(INPUTS) | $(BIN)/python
	@echo 'Installing rackward, every extra and the development tools into $(VENV) ...'
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1' # for --group
	@$(BIN)/python -m pip install --quiet --no-compile --editable '.[$(EXTRAS)]' --group dev
	@touch $@ $(VENV)/.demo-installed

$(VENV)/.mutation-installed: $(VENV)/.dev-installed
	@$(BIN)/python -m pip install --quiet --no-compile --group mutation
	@touch $@

$(BIN)/python:
	@.ci/venv '$(VENV)' '$(PYTHON)'

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
