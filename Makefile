# Everything a developer does here; `make` alone lists it.
.DEFAULT_GOAL := help
.PHONY: help setup demo test check format fuzz bench clean

VENV := .venv
BIN := $(VENV)/bin
# newer than pyproject.toml where all packages are installed
INSTALLED := $(VENV)/.viewkeep-installed
FUZZ_CASES ?= 20000
PYTHON ?=

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(INSTALLED): pyproject.toml
	@PYTHON="$(PYTHON)" scripts/setup_venv.sh $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[all]"
	@touch $@

setup: $(INSTALLED) ## install everything: packages, Java, Delta Lake (quick when done)
	@scripts/setup_java.sh
	@scripts/setup_postgres.sh
	@$(BIN)/python scripts/fetch_delta.py

demo: setup ## the main job on local Spark
	$(BIN)/viewkeep demo

test: setup ## all tests
	$(BIN)/python -m pytest -n 2 --dist loadgroup

check: $(INSTALLED) ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src/viewkeep

format: $(INSTALLED) ## format, and fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

fuzz: $(INSTALLED) ## a long random run against the oracle, on DuckDB (FUZZ_CASES=20000)
	VIEWKEEP_FUZZ_CASES=$(FUZZ_CASES) $(BIN)/python -m pytest tests/oracle -m "not spark"

bench: $(INSTALLED) ## measure refreshes against recomputing, on DuckDB
	$(BIN)/viewkeep bench devices

clean: ## remove the environment, caches and build output
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .demo
	rm -rf spark-warehouse metastore_db derby.log artifacts src/*.egg-info
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
