# The commands of this repository. `make help` lists them.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# On CI a target folder outside of the clone, so that one build serves the next.
ifdef CI
export CARGO_TARGET_DIR ?= $(HOME)/.cache/toolwright/target
endif

.PHONY: help run package test-packages check-macos test test-rust test-docs test-model lint format bench fuzz properties crash crash-restate simulate cluster gram-reference openapi exports contract examples clients ui test-ui

help: ## List the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-15s %s\n", $$1, $$2 }'

run: ## Build and start the server with the demo
	@scripts/run

test: lint test-rust test-docs exports contract examples clients test-packages ## Set up and pass every test

# Properties draw the same cases each time, so that a failure comes from the change under test. `make properties` draws new ones.
test-rust: export PROPTEST_RNG_SEED ?= 20261118
test-rust: ## The tests of all crates, on SQLite, Postgres, Redis, S3, Restate and a mock of model providers
	scripts/with-services scripts/with-aimock scripts/openapi-samples scripts/nextest run --workspace --no-fail-fast

test-docs: ## The examples in the documentation of the crates, and the links of the pages
	scripts/check-links
	cargo test --quiet --workspace --doc

lint: ## Formatting, the rules for dependencies, and clippy
	cargo fmt --all --check
	scripts/deny
	cargo clippy --quiet --workspace --all-targets -- --deny warnings

format: ## Format everything
	cargo fmt --all

package: ## Build the packages that need no compiler, and install and start each of them (not part of `make test`)
	scripts/package
	scripts/check-packages

test-packages: ## Install and start the packages, made of the development binary
	cargo build --quiet --bin toolwright
	scripts/package --binary "$${CARGO_TARGET_DIR:-target}/debug/toolwright"
	scripts/check-packages

check-macos: ## Check that the server compiles for macOS (not part of `make test`)
	scripts/check-macos

exports: ## Load the exported tools in the packages they are for, and run the exported code against a server
	scripts/check-exports
	scripts/check-snippets

contract: ## Check openapi.json, and the server against it
	scripts/check-contract

examples: ## Run every example of examples/ and compare what it prints; compare docs/cli.md with the binary
	cargo build --quiet --bin toolwright
	scripts/check-examples

clients: ## Check the types of the clients for Python and TypeScript, and test them against a server
	scripts/check-clients

ui: ## Check, test and build the web UI into crates/ui/dist (needs Node.js)
	scripts/ui build

test-ui: ## Test the web UI in Chromium against the server (not part of `make test`; needs Node.js and Chromium)
	cargo build --quiet --bin toolwright
	scripts/ui e2e

openapi: ## Write openapi.json and the generated code of the Python client anew
	UPDATE_OPENAPI=1 cargo test --quiet -p toolwright-api --test rest openapi::
	python3 clients/python/generate.py

test-model: ## Let a real, very small model drive agents (not part of `make test`)
	scripts/test-model

fuzz: ## Fuzz the machine and every parser, 5 minutes each (not part of `make test`)
	scripts/fuzz

properties: CASES ?= 10000
properties: ## Hold every property against 10,000 cases: CASES=… (`make test` has a few hundred of each)
	PROPTEST_CASES=$(CASES) PROPTEST_MAX_GLOBAL_REJECTS=$(CASES)0 scripts/with-services scripts/openapi-samples \
	  scripts/nextest run --workspace --no-fail-fast --profile properties

crash: KILLS ?= 500
crash: SEED ?= any
crash: ## Kill the server 500 times under load and check every run and every write: KILLS=…, SEED=… (`make test` has a short one)
	TOOLWRIGHT_CRASH_KILLS=$(KILLS) TOOLWRIGHT_CRASH_SEED=$(SEED) cargo test --workspace --test crash -- --nocapture --exact \
	  server_crashes_lose_no_run_and_repeat_no_write

crash-restate: KILLS ?= 500
crash-restate: SEED ?= any
crash-restate: ## The same with runs scheduled by Restate, which is killed too
	TOOLWRIGHT_CRASH_KILLS=$(KILLS) TOOLWRIGHT_CRASH_SEED=$(SEED) scripts/with-services cargo test --workspace --test crash -- \
	  --nocapture --exact server_and_restate_crashes_lose_no_run_and_repeat_no_write

simulate: SCHEDULES ?= 1000000
simulate: FROM ?= 0
simulate: ## Play a million schedules of failures against the driver, in simulated time: SCHEDULES=…, FROM=…, or SEED=… for the story of one
	TOOLWRIGHT_SIMULATE=$(SCHEDULES) TOOLWRIGHT_SIMULATE_FROM=$(FROM) $(if $(SEED),TOOLWRIGHT_SIMULATE_SEED=$(SEED)) cargo test --release -p toolwright-runs --lib simulation::no_simulated_schedule -- --nocapture

cluster: ## Run the parts of deploy/compose.yaml as processes, measure them, and kill a server and a Restate node (not part of `make test`; needs HAProxy)
	cargo build --quiet
	scripts/with-services scripts/with-cluster scripts/check-cluster

gram-reference: ## Compare the gram parser with the reference on a million texts (not part of `make test`)
	cargo run --release --quiet -p toolwright-gram --example compare_with_reference

bench: ## Measure calls, the server, runs of agents and gram on this machine
	scripts/bench
