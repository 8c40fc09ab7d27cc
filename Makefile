# make demo    train on the embedded digits, print a table, write demo/report.html
# make test    lint, then the tests that need no GPU, no raw files and little time
# make docs    the documentation as a site: site/index.html
# make lint    ruff, mypy and import-linter
# make bench   measure: training, prediction, growth, the whole paper; benchmarks/results
# make clean   remove what these made; .venv stays

SEED ?= 0
PYTHONS := python3 python3.13 python3.12 python3.11

BIN := .venv/bin
READY := .venv/.ready

# Spinning threads slow each other down on a shared machine.
demo test: export OMP_WAIT_POLICY ?= passive

.DEFAULT_GOAL := demo
.PHONY: demo test docs lint bench clean

demo: $(READY)
	$(BIN)/linkdist reproduce --datasets digits --settings transductive --runs 1 --seed $(SEED) \
	  --methods MLP,GCN,CoLinkDistMLP,CoLinkDist --out demo
	@echo "Open demo/report.html in a browser."

# One process per core, up to four, each with one thread: most tests are too small for more.
test: export OMP_NUM_THREADS ?= 1
test: lint
	$(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist worksteal --durations 10

docs: $(READY)
	$(BIN)/python tools/site/build.py site
	@echo "Open site/index.html in a browser."

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

bench: $(READY)
	$(BIN)/pip install -q -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/prediction.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/paper.py

clean:
	rm -rf demo site build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests -name __pycache__ -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	@for python in $(PYTHONS); do \
	  if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "$$python -m venv .venv"; exec $$python -m venv .venv; \
	  fi; \
	done; \
	echo "LinkDist needs Python 3.11 or newer; none of these is: $(PYTHONS)." >&2; exit 1
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	@touch $@
