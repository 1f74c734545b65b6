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
DEMO := $(or $(CARGO_TARGET_DIR),target)/demo/duramen
OUT ?= out
# For workspaces of their own, which share it.
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))

.PHONY: help setup build web web-if-possible test-web bench-web demo dist dist-arm test-dist test-client test-clients test-python test test-cgroups test-extensions test-majors test-otlp test-volumes check check-extra bench bench-router bench-store bench-functions bench-packs bench-replication benchmarks peers peers-c1z peers-memory peers-functions soak fmt clean-home release bench-scale bench-changes bench-follow test-parquet test-s3 test-store-s3 test-store-azure bench-store-s3 test-typescript test-deploy setup-clients test-go bench-pytest bench-masking bench-series bench-history bench-memory bench-store-history bench-store-index test-native test-long setup-cluster test-cluster test-fleet demo-cluster soak-cluster test-hosts

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## install what is missing: system packages, PostgreSQL binaries, sample data
	@scripts/setup

build: setup ## the program, target/demo/duramen: optimised, and built in a few minutes
	$(CARGO) build --profile demo -p duramen-cli

web: ## the console for the browser, web/dist, which the next build has in it (Node 20, or a wheel of it; fetches packages)
	@scripts/web

web-if-possible:
	@scripts/web --if-possible

demo: web-if-possible build ## branch real data and see it measured, then the store, durable functions, packs and replication (two minutes)
	$(DEMO) demo --out $(OUT)

dist: web-if-possible release ## what is given away, in dist/: program, tarball, Debian package, container image (as root), checksums
	@scripts/dist $(BIN)
	@if [ "$$(id -u)" = 0 ]; then scripts/image; else echo "dist: no container image, which needs root"; fi

dist-arm: web-if-possible ## the same for 64-bit ARM, in dist-arm/: program, tarball, Debian package, checksums, tried under emulation
	@scripts/dist-arm

test-dist: ## install what `make dist` made in a fresh Debian, use it and remove it (root, mmdebstrap)
	@scripts/test-dist

setup-clients: ## install what `make test-clients` needs and the machine lacks: psql, pgbench, venv, JDK, Maven, Go, Node
	@scripts/setup-clients

test-clients: setup ## programs of others: PostgreSQL clients of Python, Node, Go, Java and Rust, SDKs of agents, a fuzzer
	@missing=$$(scripts/setup-clients --missing | paste -sd' '); \
		[ -z "$$missing" ] || echo "test-clients: missing: $$missing; tests that need these fail (make setup-clients installs them)"
	@# What setup-clients has put there.
	PATH="$$PATH:$(CURDIR)/out/clients/bin" DURAMEN_TEST_CLIENTS=1 \
		$(CARGO) test -p duramen-cli --test it -- lab_runners outside clients_of_others rehearsals::examples

test-client: ## the client alone, in out/client: built for Linux and Windows, at most 10 MB, and checked for macOS (needs rustup, venv)
	@mkdir -p $(OUT)
	scripts/client $(OUT)/client

test-python: setup ## the Python client and its pytest plugin, against a daemon (needs venv; fetches packages)
	$(CARGO) build -p duramen-cli
	@mkdir -p $(OUT)
	@# Again when it needs other packages than before.
	test $(OUT)/python/installed -nt bindings/python/pyproject.toml || { python3 -m venv $(OUT)/python && \
		$(OUT)/python/bin/pip install -q -e 'bindings/python[test]' && touch $(OUT)/python/installed; }
	cd bindings/python && DURAMEN_PROGRAM=$(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/debug/duramen $(abspath $(OUT))/python/bin/pytest -q

test-native: ## the store for Python, built in out/native: lints, types, tests against a dict (needs venv; fetches packages)
	@mkdir -p $(OUT)
	@# Again when it needs other packages than before, which are named here, too.
	test $(OUT)/native/installed -nt bindings/native/pyproject.toml && test $(OUT)/native/installed -nt Makefile || { python3 -m venv $(OUT)/native && \
		$(OUT)/native/bin/pip install -q 'maturin>=1.9,<2' 'numpy>=1.24' 'hypothesis>=6' 'mypy>=1.11' 'pyarrow>=15' 'pytest>=8' && \
		$(OUT)/native/bin/pip install -q -e bindings/python && touch $(OUT)/native/installed; }
	cd bindings/native && $(CARGO) fmt --check && $(CARGO) clippy --target-dir $(TARGET)/native -- -D warnings
	cd bindings/native && export VIRTUAL_ENV=$(abspath $(OUT))/native PATH=$(abspath $(OUT))/native/bin:$$PATH && \
		maturin develop -q --release --target-dir $(TARGET)/native && pytest -q && mypy --strict python && \
		python -m mypy.stubtest --ignore-disjoint-bases duramen_native && python tests/overhead.py

test-typescript: setup ## the TypeScript client and its fixtures for Vitest, against a daemon (needs Node 20 and npm; fetches packages)
	$(CARGO) build -p duramen-cli
	cd bindings/typescript && { test -d node_modules || npm ci --ignore-scripts --no-audit --no-fund; } && \
		DURAMEN_PROGRAM=$(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/debug/duramen npm test

test-web: setup web ## the console in a browser, against a daemon with real branches (root, Debian's chromium; PICTURES=1: those of docs, too; BRANCHES=2900, INSTANCES=100000, FLEET=1: nodes of a fleet, too, with etcd and protoc)
	scripts/setup-clients browser
	$(if $(FLEET),export PROTOC=$$(scripts/setup-protoc); )$(CARGO) build -p duramen-cli $(if $(FLEET),--features fleet)
	export PATH="$$(scripts/web --path):$$PATH" DURAMEN_PROGRAM=$(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/debug/duramen $(if $(PICTURES),DURAMEN_PICTURES=1) $(if $(FLEET),DURAMEN_ETCD=$$(command -v etcd || ls $$(scripts/setup --print-home)/packages/etcd-*/usr/bin/etcd | tail -n 1)) DURAMEN_BRANCHES=$(or $(BRANCHES),200) DURAMEN_INSTANCES=$(or $(INSTANCES),3000); \
		cd web && $$DURAMEN_PROGRAM openapi | node generate.js | diff - src/api/schema.ts && npm test

bench-web: setup web release ## how soon the console's first view is there, by Lighthouse (root, Debian's chromium; fetches packages)
	scripts/setup-clients browser
	export PATH="$$(scripts/web --path):$$PATH" DURAMEN_PROGRAM=$(abspath $(BIN)) DURAMEN_OUT=$(abspath $(OUT)); \
		cd web/bench && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && ../node_modules/.bin/playwright test

test-deploy: setup ## what is in deploy/: schemas, options, routes, paths, and daemons that serve with it (needs venv, openssl; fetches packages)
	$(CARGO) build -p duramen-cli
	@mkdir -p $(OUT)
	test -x $(OUT)/deploy/bin/python || { python3 -m venv $(OUT)/deploy && $(OUT)/deploy/bin/pip install -q compose-spec kubernetes-validate pyyaml; }
	$(OUT)/deploy/bin/python scripts/check-deploy $(or $(CARGO_TARGET_DIR),target)/debug/duramen

test: setup ## run the test suite: what did not pass yet in this state (TESTS=all: also what did)
	@# Most of what tests do is wait, for servers above all.
	host=$$($(CARGO) -vV | sed -n 's/^host: //p' | tr a-z- A-Z_); \
	export CARGO_TARGET_$${host}_RUNNER=$(CURDIR)/scripts/test-runner; \
	RUST_TEST_THREADS=$${RUST_TEST_THREADS:-4} $(CARGO) test --workspace --no-fail-fast $(if $(filter long,$(TESTS)),--tests)

test-long: setup ## the tests that `make test` leaves out, which take long: kills at random, followers, passes of the lab
	@TESTS=long $(MAKE) test

test-otlp: setup ## the traces of daemons and of durable functions, which only packages are built with: lints and tests, against a collector
	$(CARGO) clippy -p duramen-traces -p duramen-functions -p duramen-server -p duramen-cli --all-targets --features duramen-cli/otlp -- -D warnings
	$(CARGO) test -p duramen-traces --features otlp
	RUST_TEST_THREADS=$${RUST_TEST_THREADS:-4} $(CARGO) test -p duramen-functions -p duramen-server -p duramen-cli --features duramen-cli/otlp \
		--lib --test it -- traces traceparent

test-extensions: setup ## import sources that use PostGIS, pgvector, pg_cron, orafce and others (root, Debian 12; installs them)
	@CARGO=$(CARGO) scripts/test-extensions

setup-cluster: setup ## fetch etcd and Patroni 4 for drills into the home (apt-get download, Python's registry)
	@scripts/setup-cluster

test-cluster: setup-cluster ## drills on a real cluster, etcd, Patroni and three PostgreSQL: killed, held and cut off leaders, nothing lost, and durable functions over four shards (root for the network; 8 minutes)
	RUST_TEST_THREADS=1 $(CARGO) test -p duramen-drill -p duramen-cli --features duramen-drill/cluster,duramen-cli/cluster --test cluster -- --nocapture

test-fleet: setup-cluster ## three daemons that act as one by etcd: lints, tests, two minutes of kills, holds and partitions, figures (root, Go, protoc; SECONDS=1800)
	export PROTOC=$$(scripts/setup-protoc); \
	$(CARGO) clippy -p duramen-fleet -p duramen-operate -p duramen-server -p duramen-cli --all-targets --features duramen-cli/fleet -- -D warnings && \
	$(CARGO) test -p duramen-fleet -p duramen-operate --features duramen-fleet/etcd,duramen-operate/fleet && \
	$(CARGO) test -p duramen-server --features fleet --lib -- fleet shared && \
	DURAMEN_FLEET_SECONDS=$(or $(SECONDS),120) RUST_TEST_THREADS=1 $(CARGO) test -p duramen-cli --features fleet --test fleet -- --nocapture

demo-cluster: setup-cluster web-if-possible ## three daemons that act as one, one of which is killed, then durable functions on four shards, one of which fails over (root; protoc, five minutes)
	export PROTOC=$$(scripts/setup-protoc); $(CARGO) build --profile demo -p duramen-cli --features fleet
	scripts/demo-cluster $(DEMO) $(OUT)
	$(DEMO) lab drill shards --json $(OUT)/shards.json --html $(OUT)/shards.html

soak-cluster: setup-cluster release ## every drill TIMES=20 times, with a synchronous standby and without (an hour and a half)
	@mkdir -p $(OUT)
	$(BIN) lab drill failover --times $(or $(TIMES),20) --json $(OUT)/failover.json --html $(OUT)/failover.html
	$(BIN) lab drill failover --times $(or $(TIMES),20) --mode async --json $(OUT)/failover-async.json --html $(OUT)/failover-async.html
	$(BIN) lab drill shards --failovers $(or $(TIMES),20) --kills 50 --json $(OUT)/shards.json --html $(OUT)/shards.html

test-volumes: setup ## the tests of branches on reflink copies (XFS) and on plain copies (root, xfsprogs; KIND=reflink)
	@CARGO=$(CARGO) scripts/test-volumes $(KIND)

test-cgroups: setup ## the tests of control groups under version 2 and systemd, in emulated machines with Debian 12 and 13 (root, a quarter of an hour)
	@CARGO=$(CARGO) scripts/test-cgroups

test-go: ## the engine for the ecosystem's Go SDK, and its processor time beside Pebble's (needs Go before 1.27 and gcc; GRANTS=1000000)
	$(CARGO) clippy --manifest-path bindings/c/Cargo.toml --target-dir $(TARGET) --release --all-targets -- -D warnings
	$(CARGO) test --manifest-path bindings/c/Cargo.toml --target-dir $(TARGET) --release
	$(CARGO) build --manifest-path bindings/c/Cargo.toml --target-dir $(TARGET) --release
	@# Go does not see that a library changed, and would not link again.
	cd bindings/go && export CGO_ENABLED=1 CGO_LDFLAGS=-L$(TARGET)/release \
		GOFLAGS=-ldflags=-X=main.library=$$(sha256sum $(TARGET)/release/libduramen_c.a | cut -c1-16) && go vet ./... && go test ./... && go test -race ./... && \
		GOEXPERIMENT=cgocheck2 go test ./... && go run ./bench -grants $(or $(GRANTS),1000000)

test-parquet: ## tables as Parquet files, read and written by DuckDB (needs venv; fetches duckdb)
	@mkdir -p $(OUT)
	test -x $(OUT)/duckdb/bin/python || { python3 -m venv $(OUT)/duckdb && $(OUT)/duckdb/bin/pip install -q duckdb; }
	DURAMEN_DUCKDB_PYTHON=$(abspath $(OUT))/duckdb/bin/python $(CARGO) test -p duramen-access --features parquet --test it -- tables:: tables_import::
	DURAMEN_DUCKDB_PYTHON=$(abspath $(OUT))/duckdb/bin/python $(CARGO) test -p duramen-store-arrow --features parquet
	$(CARGO) clippy -p duramen-store-arrow -p duramen-parquet --all-targets --features duramen-store-arrow/parquet -- -D warnings

# One server serves what is asked for by URL; tests that break it start their own.
STORE_S3 = mkdir -p $(OUT)/s3 && { test -x $(OUT)/s3/versitygw || CGO_ENABLED=0 GOBIN=$(abspath $(OUT))/s3 go install github.com/versity/versitygw/cmd/versitygw@v1.8.0; }

test-store-s3: ## stores in object storage: the store's own suites in a bucket, faults, kills, fencing (needs Go; fetches versitygw)
	$(STORE_S3)
	$(CARGO) clippy -p duramen-store-s3 -p duramen-cli --all-targets --features duramen-store-s3/s3,duramen-cli/s3 -- -D warnings
	$(CARGO) test -p duramen-store-s3 --features s3 --no-run
	CARGO=$(CARGO) VERSITYGW=$(abspath $(OUT))/s3/versitygw scripts/test-store-s3

test-store-azure: ## the same suites on what stands in for Azure Blob Storage, conditional puts first (needs Node 20; fetches Azurite)
	@mkdir -p $(OUT)/s3
	test -d $(OUT)/s3/azurite/node_modules/azurite || npm install --prefix $(OUT)/s3/azurite --ignore-scripts --no-audit --no-fund azurite@3.35.0
	$(CARGO) test -p duramen-store-s3 --features s3 --no-run
	CARGO=$(CARGO) AZURITE=$(abspath $(OUT))/s3/azurite/node_modules/azurite/dist/src/blob/main.js scripts/test-store-azure

bench-store-s3: ## what a store in a bucket costs: commits, opening, requests (needs Go; MEGABYTES=10000 SECONDS=60)
	$(STORE_S3)
	DURAMEN_VERSITYGW=$(abspath $(OUT))/s3/versitygw MEGABYTES=$(or $(MEGABYTES),1000) SECONDS=$(or $(SECONDS),60) \
		$(CARGO) bench -p duramen-store-s3 --features s3 --bench bucket

test-s3: ## packs in object storage, read by ranges from an S3 server (needs Go and curl; fetches versitygw; MEGABYTES=1000)
	@mkdir -p $(OUT)/s3
	test -x $(OUT)/s3/versitygw || CGO_ENABLED=0 GOBIN=$(abspath $(OUT))/s3 go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
	$(CARGO) clippy -p duramen-pack -p duramen-access --all-targets --features duramen-access/remote -- -D warnings
	DURAMEN_VERSITYGW=$(abspath $(OUT))/s3/versitygw DURAMEN_S3_MEGABYTES=$(or $(MEGABYTES),20) $(CARGO) test \
		-p duramen-access -p duramen-pack --features duramen-access/remote --lib --test it -- remote:: --nocapture

test-hosts: setup ## pairs and agents on other hosts, against two sshd of our own (root, Debian; unpacks openssh-server)
	@CARGO=$(CARGO) scripts/test-hosts

test-majors: setup ## the tests of branches with PostgreSQL 16 and 17 beside 15 and 18 (root; fetches them, and removes them again)
	@CARGO=$(CARGO) scripts/test-majors

check: ## formatting, lints, house rules, documentation, dependencies and spelling, all without warnings
	$(CARGO) fmt --check
	$(CARGO) clippy --workspace --all-targets --features duramen-cli/otlp -- -D warnings
	$(CARGO) test --workspace --test tidy
	@# With the features of the lints, so that no crate is checked a second time.
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --features duramen-cli/otlp
	@scripts/dependencies
	@scripts/spelling
	@scripts/fuzz-smoke

check-extra: ## miri, a build for 64-bit ARM and checks of the store for macOS and Windows, where rustup can fetch what they need; the comparison with other engines; packages of the store
	@scripts/check-extra

bench: setup release ## the branches suite: 5 rounds of 100 concurrent branches
	@mkdir -p $(OUT)
	$(BIN) lab run branches --rounds 5 --concurrency 100 --write events --runner session --source flights \
		--json $(OUT)/branches.json --html $(OUT)/branches.html

bench-scale: setup release ## branches of 200 million rows against branches of 20 million (root; 30 GB of disk, 15 minutes; SMALL=2M LARGE=20M)
	@scripts/bench-scale $(BIN) $(OUT) $(or $(SMALL),20M) $(or $(LARGE),200M)

bench-follow: setup release ## generations of a source that follows its origin, beside copies of it (root; GIGABYTES=2, four times that of disk)
	@scripts/bench-follow $(BIN) $(or $(GIGABYTES),2)

bench-history: setup release ## branches of moments of the past, by how much of the log is replayed (root; GIGABYTES=2, four times that of disk)
	@scripts/bench-history $(BIN) $(or $(GIGABYTES),2)

bench-changes: setup release ## comparisons of branches by their changed blocks, tables of 300,000 and 20 million rows (root, 12 GB of disk, 10 minutes)
	@scripts/bench-changes $(BIN)

bench-series: setup release ## a series of 48 tries of a slow benchmark: runs a try, hours, what was kept (half an hour; SECONDS=190: the night)
	@scripts/bench-series $(BIN) $(or $(SECONDS),4)

bench-masking: setup release ## six masked columns against a COPY of the table out and in, ten million rows (root, 25 GB of disk, half an hour; ROWS=1M)
	@scripts/bench-masking $(BIN) $(or $(ROWS),10M)

bench-router: setup release ## pgbench straight, through PgBouncer and through the router, and a hundred branches created by connecting (root, pgbouncer)
	@mkdir -p $(OUT)
	scripts/bench-router $(BIN)
	scripts/bench-router-waits $(BIN)
	$(BIN) lab run branches --rounds 5 --concurrency 100 --runner router --source flights \
		--json $(OUT)/router.json --html $(OUT)/router.html

bench-pytest: build ## what a branch of its own adds to a test of pytest, from a pool of 100 (needs venv; fetches packages)
	@mkdir -p $(OUT)
	test -x $(OUT)/python/bin/pytest || { python3 -m venv $(OUT)/python && $(OUT)/python/bin/pip install -q -e 'bindings/python[test]'; }
	$(OUT)/python/bin/python scripts/bench-pytest $(DEMO)

bench-store: setup release ## the store suite: every operation at every level of durability, a million keys
	@mkdir -p $(OUT)
	$(BIN) lab run store --json $(OUT)/store.json --html $(OUT)/store.html

bench-memory: ## how much memory the store takes with ten times as much data, and its slowest writes
	cargo bench -p duramen-store --bench memory

bench-store-history: ## what it costs the store to retain each commit, to read what was, and to read on beside a writer
	cargo bench -p duramen-store --bench history

bench-store-index: ## what an index costs a write to the store, and what it saves a reader
	cargo bench -p duramen-store --bench indexes

bench-functions: setup release ## the functions suite: rates, latencies, kills with a ledger of effects, and a soak
	@mkdir -p $(OUT)
	$(BIN) lab run functions --json $(OUT)/functions.json --html $(OUT)/functions.html

bench-packs: release ## the packs suite: access graphs up to a million grants, against SQLite
	@mkdir -p $(OUT)
	@# Beside the program, where the suite looks for it.
	$(CARGO) build --release -p duramen-lab --bin duramen-count-allocations
	$(BIN) lab run packs --json $(OUT)/packs.json --html $(OUT)/packs.html

bench-replication: setup release ## the replication suite: all scenarios at three levels, three times each (up to an hour)
	@mkdir -p $(OUT)
	$(BIN) lab run replication --json $(OUT)/replication.json --html $(OUT)/replication.html

benchmarks: bench bench-store bench-functions bench-packs peers ## all of these, replication in short, and docs/benchmarks.md made of what they left (a quarter of an hour)
	$(BIN) lab run replication --quick --json $(OUT)/replication.json --html $(OUT)/replication.html
	$(BIN) lab report $(addprefix $(OUT)/,branches.json store.json peers.json functions.json packs.json replication.json) $(wildcard $(OUT)/peers-memory.json) \
		--benchmarks docs/benchmarks.md

peers: ## the same work on the store and on redb, fjall, LMDB, SQLite and RocksDB (apt-get install librocksdb-dev libclang-dev)
	@mkdir -p $(OUT)
	cd benches/peers && ROCKSDB_LIB_DIR=$$(dirname $$(ldconfig -p | awk '/librocksdb.so$$/ { print $$NF; exit }')) \
		ROCKSDB_INCLUDE_DIR=/usr/include $(CARGO) run --release --features rocksdb -- --json $(abspath $(OUT))/peers.json

peers-memory: ## random gets and puts of ten times the memory, each engine in a control group (root; packages as above; MIB=256, half an hour)
	@mkdir -p $(OUT)
	cd benches/peers && ROCKSDB_LIB_DIR=$$(dirname $$(ldconfig -p | awk '/librocksdb.so$$/ { print $$NF; exit }')) \
		ROCKSDB_INCLUDE_DIR=/usr/include $(CARGO) run --release --features rocksdb -- \
		--memory $(or $(MIB),256) --seconds 20 --json $(abspath $(OUT))/peers-memory.json

peers-c1z: ## files of every kind that the ecosystem's SDK writes, read by both, and a million grants timed (needs Go before 1.27)
	@mkdir -p $(OUT)/c1z
	cd crates/access/tests/fixtures/c1z/sdk && CGO_ENABLED=0 go build -o $(abspath $(OUT))/c1z/sdk . && \
		$(abspath $(OUT))/c1z/sdk make $(abspath $(OUT))/c1z/files
	DURAMEN_C1Z_FILES=$(abspath $(OUT))/c1z/files $(CARGO) test -p duramen-access -- pebble_finds as_it_reads_them
	$(OUT)/c1z/sdk expansions $(OUT)/c1z/expansions.jsonl 1000 $(or $(EXPANSIONS),2000) 2>/dev/null
	DURAMEN_EXPANSIONS=$(abspath $(OUT))/c1z/expansions.jsonl $(CARGO) test -p duramen-access --test it -- expand::
	$(OUT)/c1z/sdk compactions $(OUT)/c1z/compactions.jsonl 1000 $(or $(COMPACTIONS),300) 2>/dev/null
	DURAMEN_COMPACTIONS=$(abspath $(OUT))/c1z/compactions.jsonl $(CARGO) test -p duramen-access --test it -- compact::what
	$(CARGO) build --release -p duramen-access --example c1z3_bench
	@bench=$$($(CARGO) metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/examples/c1z3_bench; \
	for seed in $$(seq 1 $(or $(NESTED),1)); do \
		$(OUT)/c1z/sdk nested $(OUT)/c1z/nested.c1z 1000000 $$seed && $$bench expand $(OUT)/c1z/nested.c1z && \
		$(OUT)/c1z/sdk expand $(OUT)/c1z/nested.c1z 2>/dev/null || exit 1; \
	done; \
	for grants in 100000 1000000; do \
		$(OUT)/c1z/sdk write $(OUT)/c1z/$$grants.c1z $$grants && $(OUT)/c1z/sdk read $(OUT)/c1z/$$grants.c1z && \
		$$bench open $(OUT)/c1z/$$grants.c1z && $$bench principal $(OUT)/c1z/$$grants.c1z user:user-00000123 || exit 1; \
	done

peers-functions: setup release ## the same durable work on Duramen, DBOS and absurd, on one server (Python with venv; fetches packages; six minutes)
	@python3 benches/peers/functions/compare.py --duramen $(BIN) --home "$$(scripts/setup --print-home)" --out $(OUT)/peers-functions

soak: setup release ## ten million steps of the store against its model, a million with everything, 20,000 power cuts, a disk that fails at each call, damaged graphs for ten minutes, 200 kills of daemons and servers, and an hour of functions
	DURAMEN_SOAK_STEPS=$(or $(STEPS),10000000) $(CARGO) test --release -p duramen-store --test it -- --nocapture model::soak
	DURAMEN_SOAK_STEPS=1000000 $(CARGO) test --release -p duramen-store --test it -- --nocapture everything::soak
	DURAMEN_SOAK_FAULTS=1 $(CARGO) test --release -p duramen-store --test it -- --nocapture disk_faults::
	DURAMEN_SOAK_ROUNDS=2000 $(CARGO) test --release -p duramen-store --test it -- --nocapture isolation::
	DURAMEN_SOAK_IMAGES=$(or $(IMAGES),20000) $(CARGO) test --release -p duramen-store --test it -- --nocapture power_cuts::soak
	DURAMEN_SOAK_SECONDS=$(or $(SECONDS),60) $(CARGO) test --release -p duramen-access -- hostile_bytes:: damaged_parts_of_files
	DURAMEN_SOAK_KILLS=$(or $(KILLS),200) $(CARGO) test -p duramen-cli --test it -- --nocapture kills_at_random_moments
	@mkdir -p $(OUT)
	$(BIN) lab run functions --phase soak --minutes $(or $(MINUTES),60) --json $(OUT)/functions-soak.json --html $(OUT)/functions-soak.html

fmt: ## format the sources
	$(CARGO) fmt

clean-home: ## remove the home directory: sources, branches, and what `make setup` fetched
	@scripts/clean-home

release:
	@if protoc=$$(scripts/setup-protoc); then export PROTOC="$$protoc"; fleet=fleet,; else echo "release: without fleets (docs/fleet.md), as there is no protoc" >&2; fi; \
	$(CARGO) build --release -p duramen-cli --features $${fleet}otlp,parquet,remote,s3
