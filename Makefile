# Needs make, a POSIX shell and Python 3.11 or later; all else goes into .venv.
#   PYTHON=/path/to/python   which Python makes .venv (default: the newest that .ci/venv finds)
#   ARGS="..."               passed on: make demo ARGS="--seed 3", make test ARGS="-k racks -x"

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?=
ARGS ?=

EXTRAS := kafka-python,confluent,aiokafka,spark,cluster,docker,cli,yaml,prometheus,controller
CHECKED := placement_core assignors rack_traffic rackward tests integration benchmarks conftest.py \
	.ci/wheel_test.py .ci/kafka_image.py
INPUTS := pyproject.toml constraints.txt

# Both: pip reads the first for what it installs and the second for what it builds with.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_BUILD_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo test lint format typecheck benchmarks benchmarks-placement benchmarks-clients wheel-test constraints clean

help:
	@echo 'make demo         a real six-broker Kafka in three racks, three assignors, one table'
	@echo 'make test         every test that can run here (says so when Docker is missing)'
	@echo 'make lint         ruff, mypy --strict, import-linter'
	@echo 'make format       let ruff rewrite what it can'
	@echo 'make benchmarks   time the assignors (benchmarks-placement: placers and reassignment)'
	@echo 'make benchmarks-clients  our confluent consumer beside its own, on a real Kafka'
	@echo 'make wheel-test   build the wheel and test it where the sources are out of reach'
	@echo 'make constraints  renew constraints.txt with the newest versions that fit'
	@echo 'make clean        remove .venv and everything that is made'
	@echo
	@echo 'Needs Python 3.11 or later (PYTHON=... to choose one) and make. ARGS="..." is passed on.'

demo: $(VENV)/.demo-installed
	@$(BIN)/rackward demo $(ARGS)

test: $(VENV)/.dev-installed
	@$(BIN)/python -m pytest $(ARGS)

lint: typecheck
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo

typecheck: $(VENV)/.dev-installed
	@$(BIN)/mypy --strict $(CHECKED)

format: $(VENV)/.dev-installed
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

benchmarks: $(VENV)/.dev-installed
	@$(BIN)/python -m benchmarks $(ARGS)

benchmarks-placement: $(VENV)/.dev-installed
	@$(BIN)/python -m benchmarks.placement
	@$(BIN)/python -m benchmarks.reassignment

benchmarks-clients: $(VENV)/.dev-installed
	@$(BIN)/python -m benchmarks.confluent_overhead $(ARGS)

wheel-test: $(VENV)/.dev-installed
	@$(BIN)/python .ci/wheel_test.py .ci/kafka_image.py

constraints: $(BIN)/python
	@.ci/constraints $(BIN)/python $(EXTRAS)

# Stamps, so that nothing is installed twice. The demo does without the tools of developers.
# What is imported is compiled then: most of what is installed never is.
$(VENV)/.demo-installed: $(INPUTS) | $(BIN)/python
	@echo 'Installing rackward and what the demo needs into $(VENV) ...'
	@$(BIN)/python -m pip install --quiet --no-compile --editable '.[cli]'
	@touch $@

$(VENV)/.dev-installed: $(INPUTS) | $(BIN)/python
	@echo 'Installing rackward, every extra and the development tools into $(VENV) ...'
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1' # older ones know no --group
	@$(BIN)/python -m pip install --quiet --no-compile --editable '.[$(EXTRAS)]' --group dev
	@touch $@ $(VENV)/.demo-installed

$(BIN)/python:
	@.ci/venv '$(VENV)' '$(PYTHON)'

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
