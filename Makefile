# `make demo` and `make test` are all the set-up there is: each makes what it needs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TOOLS := $(VENV)/.dev,bench

.PHONY: demo test test-slow check format clean

demo: $(VENV)/.demo
	$(BIN)/nrtsi demo --overwrite

test: $(TOOLS) check
	$(BIN)/python -m pytest -m "not slow" -n 2 -q --durations=25

test-slow: $(TOOLS)
	$(BIN)/python -m pytest -m slow -q

check: $(TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(TOOLS)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) demo

# constraints.txt pins torch, so that a machine without a GPU gets the small CPU build.
$(VENV)/.%: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[$*]"
	touch $@
