# Two commands do everything on a fresh machine with Python 3.11 to 3.13 and make:
#   make reproduce   set up, then run the main job (results land in results/)
#   make test        set up, then run the tests (minutes; make test-all for the rest, make studies for hours)
# And one for readers: make docs builds the documentation site into docs/_build/html.
# make test-lowest runs the tests with the lowest versions of all dependencies that pyproject.toml allows.
# The environment is .venv in this folder (.venv-lowest for test-lowest); nothing global is touched.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$p && break; done)
# The oldest that there is has most of the lowest versions as wheels.
OLDEST ?= $(shell for p in python3.11 python3.12 python3.13 python3 python; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
LOWEST := .venv-lowest/bin
WORKERS ?= auto

.PHONY: reproduce test test-all test-lowest studies lint bench docs links clean

reproduce: .venv/ready
	$(BIN)/pomdpfit reproduce --out results

test: .venv/ready-to-test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

test-all: .venv/ready-for-docs test  # and what takes longer: before a release, or before an issue is closed
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "full and not study"

test-lowest: .venv-lowest/ready  # after a change of a dependency or of its lower bound
	$(LOWEST)/python -m pytest -n $(WORKERS) --dist loadfile

studies: .venv/ready-to-test  # Monte Carlo of hours: after a change of method
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m study

lint: .venv/ready-to-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/ready-to-bench
	$(BIN)/python -m benchmarks $(THEMES)

docs: .venv/ready-for-docs
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

links: .venv/ready-for-docs  # to other sites: needs a network
	$(BIN)/python -m sphinx -b linkcheck -D nb_execution_mode=off docs docs/_build/links

.venv/ready: pyproject.toml
	@test -n "$(PYTHON)" || { echo "pomdpfit needs Python 3.11, 3.12 or 3.13 on the PATH"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[data]"
	@# econirl carries Rust's readings; its file is read, the package never imported: no dependencies.
	$(BIN)/python -m pip install --quiet --no-deps "econirl>=0.1.1" || true
	@touch $@

.venv/ready-to-test: .venv/ready
	$(BIN)/python -m pip install --quiet --no-warn-conflicts --group test --group lint
	@touch $@

.venv/ready-to-bench: .venv/ready
	$(BIN)/python -m pip install --quiet --no-warn-conflicts --group bench
	@touch $@

.venv/ready-for-docs: .venv/ready
	$(BIN)/python -m pip install --quiet --no-warn-conflicts --editable ".[data,docs]"
	@touch $@

# uv resolves lowest versions, which pip does not: of what pyproject.toml names, not of what that needs.
.venv-lowest/ready: pyproject.toml
	@test -n "$(OLDEST)" || { echo "pomdpfit needs Python 3.11, 3.12 or 3.13 on the PATH"; exit 1; }
	$(OLDEST) -m venv --clear .venv-lowest
	$(LOWEST)/python -m pip install --quiet uv
	$(LOWEST)/python -m uv pip install --quiet --python $(LOWEST)/python --resolution lowest-direct \
		--only-binary :all: -r pyproject.toml --all-extras --group test
	$(LOWEST)/python -m pip install --quiet --no-deps --editable .
	@touch $@

clean:
	rm -rf .venv .venv-lowest results dist docs/_build .pytest_cache .mypy_cache .ruff_cache
