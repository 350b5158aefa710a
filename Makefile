# `make chat` and `make test` are all that is needed; both set up .venv and the default model first.
VENV := .venv
BIN := $(VENV)/bin

.PHONY: chat setup cuda test lint check soak bench kernels gpu clean help

chat: setup ## open the chat
	@$(BIN)/localpaged chat

setup: $(VENV)/.installed ## make .venv, install, pull the default model
	@$(BIN)/localpaged models pull

cuda: ## torch for NVIDIA cards in the place of the one for processors; gigabytes
	@TORCH=cuda scripts/install.sh $(VENV)
	@touch $(VENV)/.installed
	@$(BIN)/localpaged doctor

test: $(VENV)/.installed-dev setup ## every test
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: $(VENV)/.installed-dev ## formatting, style, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test ## everything that has to hold before a commit

soak: $(VENV)/.installed-dev ## long random use of the engine's memory; several minutes
	$(BIN)/python benchmarks/soak.py

bench: setup ## speed of the engine on this machine, as a table and JSON
	$(BIN)/python benchmarks/engine.py

kernels: $(VENV)/.installed-dev ## every kernel compiled for every card, against the table; minutes
	$(BIN)/python -W ignore benchmarks/kernel_builds.py

gpu: $(VENV)/.installed ## the proof on an NVIDIA GPU, in under four minutes
	$(BIN)/python benchmarks/gpu_check.py

clean: ## remove .venv and caches; chats and models stay
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

help: ## this list
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

$(VENV)/.installed: pyproject.toml constraints.txt scripts/install.sh
	@echo "Setting up $(VENV) (a few minutes the first time) ..."
	@scripts/install.sh $(VENV)
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@scripts/install.sh $(VENV) dev
	@touch $@
