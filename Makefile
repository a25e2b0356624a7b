# One line a target. Every target sets up its own environment from the hashed lock file first.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
READY := .venv/.ready
ASC := .venv/assemblyscript
PYTEST := $(BIN)/python -m pytest -q

.PHONY: setup lock fmt check test sim crash mutants bench bench-record bench-plots run ci clean

setup: $(READY)

$(READY): requirements/dev.txt requirements/assemblyscript/package-lock.json pyproject.toml
	@test -n "$(PYTHON)" || { echo "Cellule needs Python 3.11 or newer; found none. Install one, or name it: make PYTHON=/path/to/python"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@mkdir -p $(ASC) && cp requirements/assemblyscript/*.json $(ASC) && npm ci --prefix $(ASC) --silent --ignore-scripts --no-audit --no-fund || echo "AssemblyScript could not be installed by npm: its tests are skipped"
	@touch $(READY)

lock: setup
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet --output-file requirements/dev.txt
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet --output-file requirements/runtime.txt
	npm install --prefix requirements/assemblyscript --package-lock-only --omit-lockfile-registry-resolved --no-audit --no-fund --silent

fmt: setup
	$(BIN)/python tools/generate_sync.py && $(BIN)/python tools/generate_api.py && $(BIN)/ruff format . && $(BIN)/ruff check --fix .

check: setup
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy && $(BIN)/lint-imports

test: setup
	$(PYTEST) -n auto --dist worksteal

sim: setup
	CELLULE_SIM_SEEDS=2000 $(PYTEST) -n auto --timeout 3600 tests/simulation

crash: setup
	CELLULE_CRASH=full $(PYTEST) -n auto --timeout 3600 tests/crash

mutants: setup
	$(BIN)/python tools/mutants.py

bench: setup
	$(BIN)/python -m bench

bench-record: setup
	$(BIN)/python -m bench.record && $(BIN)/python -m bench.plots

bench-plots: setup
	$(BIN)/python -m bench.plots

run: setup
	$(BIN)/python examples/00-orders/run.py

ci: check test

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
