# `make` alone lists the targets. Everything runs in .venv, which is set up once.

SHELL := bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest

.PHONY: help
help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' Makefile

$(READY): pyproject.toml constraints.txt scripts/venv.sh
	@scripts/venv.sh $(VENV)
	@touch $@

.PHONY: demo
demo: $(READY)  ## dead code of a real package, live: extract with Spark, edit, see what changed
	@$(BIN)/python examples/dead-code/demo.py

# In an environment of its own: what it pins does not fit what is pinned here.
build/dbt/.ready: | $(READY)
	$(BIN)/python -m venv build/dbt
	build/dbt/bin/python -m pip install --quiet --no-compile dbt-core==1.10.23 dbt-duckdb==1.10.1
	@touch $@

# Microsoft's own emulator of Azure's store, for tests/faults/test_other_stores.py.
build/azurite/.ready:
	npm install --silent --no-audit --no-fund --prefix build/azurite azurite@3.37.0
	@touch $@

# The other checker of types, for tests/unit/test_types.py.
build/pyright/.ready:
	npm install --silent --no-audit --no-fund --prefix build/pyright pyright@1.1.414
	@touch $@

# What every Java with Spark's jars reads first, for tests/conftest.py.
build/classes.jsa: $(READY) scripts/classes.py
	@mkdir -p build
	$(BIN)/python scripts/classes.py $@

.PHONY: test
test: $(READY) build/dbt/.ready build/classes.jsa  ## all tests, in three processes: Spark, connectors, all else
	$(PYTEST) --numprocesses 3 --dist loadscope

build/pyspark-%: | $(READY)
	$(BIN)/python -m pip install --quiet --no-deps --target $@ pyspark==$*

.PHONY: connectors
connectors: $(READY) $(if $(SPARK),build/pyspark-$(SPARK))  ## Kafka, Delta and Iceberg through Spark, for real; SPARK=4.2.0 for another one
	PYTHONPATH=$(if $(SPARK),build/pyspark-$(SPARK)) $(PYTEST) tests/connectors

.PHONY: versions
versions: $(READY) $(if $(SPARK),build/pyspark-$(SPARK))  ## what works on a Spark, for docs/reference/spark.md; SPARK=4.2.0 for another one
	PYTHONPATH=$(if $(SPARK),build/pyspark-$(SPARK)) $(PYTEST) -p tests.support.versions -m shows tests/connectors tests/spark

.PHONY: cluster
cluster: $(READY)  ## a standalone cluster whose workers have no deltafix, a pipeline on it, in shards
	@$(BIN)/python examples/cluster/run.py

.PHONY: lint
lint: $(READY)  ## ruff, mypy --strict, and the layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: cover
cover: $(READY)  ## tests with coverage, lines missed listed
	$(PYTEST) -m "not spark" --cov --cov-report=term-missing:skip-covered

.PHONY: fuzz
fuzz: $(READY)  ## EXAMPLES=2000 of each property, PROOFS=700, SPLITS=1250, EPOCHS=20000, TABLED=20000, SQL=20000, KILLS=240, CRASHES=10, CLUSTER=200
	DELTAFIX_EXAMPLES=$(or $(EXAMPLES),2000) $(PYTEST) -m "not spark" \
		-k "(law or agree or oracle) and not proofs_oracle and not pipeline_splits and not pipeline_keys \
		and not pipeline_topics"
	DELTAFIX_EXAMPLES=$(or $(PROOFS),700) $(PYTEST) tests/agree/test_proofs_oracle.py
	DELTAFIX_EXAMPLES=$(or $(SPLITS),1250) $(PYTEST) -m "not spark" \
		tests/agree/test_pipeline_splits.py tests/agree/test_pipeline_keys.py tests/agree/test_pipeline_topics.py
	$(BIN)/python -m bench.fuzz --epochs $(or $(EPOCHS),20000)
	$(BIN)/python -m bench.tabling.fuzz --epochs $(or $(TABLED),20000)
	$(BIN)/python -m bench.sql_fuzz --transactions $(or $(SQL),20000)
	DELTAFIX_EXAMPLES=$(or $(KILLS),240) DELTAFIX_CRASHES=$(or $(CRASHES),10) \
		DELTAFIX_CLUSTER=$(or $(CLUSTER),200) $(PYTEST) tests/faults tests/connectors

.PHONY: proofs
proofs:  ## check the machine-checked proofs of maintenance; installs Coq where it may
	@scripts/proofs.sh

.PHONY: mutants
mutants: $(READY)  ## what tests do not see: SAMPLE=60 small changes of each PART, one after another
	$(BIN)/python scripts/mutants --sample $(or $(SAMPLE),60) $(addprefix --part ,$(PART))

.PHONY: bench
bench: $(READY)  ## workloads and peers; writes bench/RESULTS.md
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group bench
	$(BIN)/python -m bench

.PHONY: docs
docs: $(READY)  ## the documentation as a site, in site/
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group docs
	$(BIN)/mkdocs build --strict

.PHONY: recording
recording: $(READY)  ## play the session of README's moving picture, and draw it: docs/images/session.svg
	$(BIN)/python scripts/recording

.PHONY: screenshots
screenshots: $(READY)  ## every state of the page, in build/screenshots; those that the docs show are made anew
	DELTAFIX_SCREENSHOTS=build/screenshots $(PYTEST) tests/unit/web
	for shown in docs/images/page-*.png; do cp "build/screenshots/$${shown##*/}" "$$shown"; done

.PHONY: wheel
wheel: $(READY)  ## sdist and wheels in dist/: for Linux with the kernel compiled for x86-64-v2 and v3, and for all else
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group release
	$(BIN)/python scripts/objects.py build/objects x86-64-v2
	$(BIN)/python scripts/objects.py build/objects x86-64-v3
	rm -rf dist
	DELTAFIX_OBJECTS=$(CURDIR)/build/objects $(BIN)/python -m build --outdir dist
	$(BIN)/python -m build --wheel --outdir dist

.PHONY: try-wheel
try-wheel: wheel  ## that wheel, installed as users do, on each Python 3.11 to 3.14: this machine's, or Debian's
	$(BIN)/python scripts/try_wheel.py dist/*-manylinux_*.whl

.PHONY: vscode
vscode:  ## the extension for Visual Studio Code, in dist/; needs node 20 with npm
	npm --prefix editors/vscode ci --ignore-scripts
	mkdir -p dist
	npm --prefix editors/vscode run package

.PHONY: release
release: $(READY)  ## checks, lint, the wheel tried; then the upload, if UV_PUBLISH_TOKEN has a token
	$(BIN)/python scripts/release.py
	$(MAKE) lint try-wheel
	$(BIN)/python scripts/release.py dist

.PHONY: lock
lock: $(READY)  ## write the installed versions to constraints.txt
	$(BIN)/python scripts/lock.py

.PHONY: clean
clean:  ## remove what was built, except .venv
	rm -rf build dist site .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis \
		.import_linter_cache spark-warehouse metastore_db
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
