# The commands of this project. `make` alone lists them.
#
# cargo is found in its usual home when it is not on the PATH, and CARGO_TARGET_DIR is respected.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

CARGO_HOME_DIR := $(or $(CARGO_HOME),$(HOME)/.cargo)
export PATH := $(PATH):$(CARGO_HOME_DIR)/bin
CARGO ?= cargo
BIN := $(or $(CARGO_TARGET_DIR),target)/release/duramen
OUT ?= out

.PHONY: help setup demo test check bench bench-store bench-functions bench-packs bench-replication peers soak fmt clean-home release

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## install what is missing: system packages, PostgreSQL binaries, sample data
	@scripts/setup

demo: setup release ## branch real data and measure it, then the store, durable functions, packs and replication: tables, evidence, HTML reports
	$(BIN) demo --out $(OUT)
	@# Checks of times can fail on a busy machine: the demo shows it and goes on.
	$(BIN) lab run store --rows 100000 --vectors 10000 --seconds 0.3 --json $(OUT)/store.json --html $(OUT)/store.html \
		|| test $$? -eq 1
	$(BIN) lab run functions --seconds 1 --json $(OUT)/functions.json --html $(OUT)/functions.html || test $$? -eq 1
	$(BIN) lab run packs --grants 1000,100000 --json $(OUT)/packs.json --html $(OUT)/packs.html || test $$? -eq 1
	$(BIN) lab run replication S2 S8 S16 S17 S18 --quick --json $(OUT)/replication.json --html $(OUT)/replication.html \
		|| test $$? -eq 1
	$(BIN) lab report $(OUT) --out $(OUT)/site.html

test: setup ## run the whole test suite
	$(CARGO) test --workspace --no-fail-fast

check: ## formatting, lints, house rules and documentation, all without warnings
	$(CARGO) fmt --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) test -p duramen-cli --test tidy
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps
	@scripts/fuzz-smoke

bench: setup release ## the branches suite: 5 rounds of 100 concurrent branches
	@mkdir -p $(OUT)
	$(BIN) lab run branches --rounds 5 --concurrency 100 --write events --runner session --source flights \
		--json $(OUT)/branches.json --html $(OUT)/branches.html

bench-store: setup release ## the store suite: every operation at every level of durability, a million keys
	@mkdir -p $(OUT)
	$(BIN) lab run store --json $(OUT)/store.json --html $(OUT)/store.html

bench-functions: setup release ## the functions suite: rates, latencies, kills with a ledger of effects, and a soak
	@mkdir -p $(OUT)
	$(BIN) lab run functions --json $(OUT)/functions.json --html $(OUT)/functions.html

bench-packs: release ## the packs suite: access graphs up to a million grants, against SQLite
	@mkdir -p $(OUT)
	$(BIN) lab run packs --json $(OUT)/packs.json --html $(OUT)/packs.html

bench-replication: setup release ## the replication suite: all scenarios at three levels, three times each (up to an hour)
	@mkdir -p $(OUT)
	$(BIN) lab run replication --json $(OUT)/replication.json --html $(OUT)/replication.html

peers: ## the same work on the store and on redb, fjall, LMDB, SQLite and RocksDB (apt-get install librocksdb-dev libclang-dev)
	@mkdir -p $(OUT)
	cd benches/peers && ROCKSDB_LIB_DIR=$$(dirname $$(ldconfig -p | awk '/librocksdb.so$$/ { print $$NF; exit }')) \
		ROCKSDB_INCLUDE_DIR=/usr/include $(CARGO) run --release --features rocksdb -- --json $(abspath $(OUT))/peers.json

soak: ## ten million steps of the store against its model, and 20,000 power cuts
	DURAMEN_SOAK_STEPS=$(or $(STEPS),10000000) $(CARGO) test --release -p duramen-store --test model -- --nocapture soak
	DURAMEN_SOAK_IMAGES=$(or $(IMAGES),20000) $(CARGO) test --release -p duramen-store --test power_cuts -- --nocapture soak

fmt: ## format the sources
	$(CARGO) fmt

clean-home: ## remove the home directory: sources, branches, and what `make setup` fetched
	@scripts/clean-home

release:
	$(CARGO) build --release -p duramen-cli
