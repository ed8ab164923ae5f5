# Names for the chores of `cargo xtask`, where all the work is done.

# Outside the tree, so that a fresh clone need not compile the dependencies again.
export CARGO_TARGET_DIR ?= $(or $(MUSTER_CACHE),$(HOME)/.cache/muster)/target

help:
	@echo 'make demo            two MPI jobs on this machine: neither root nor a cluster is needed'
	@echo 'make test            everything that must hold before a change lands, real Kubernetes included'
	@echo 'make test-all        the same, and the slow tests: jobs of 1,000 workers, Kueue, Volcano, an hour of bad weather'
	@echo 'make demo-cluster    an MPI job on a real Kubernetes cluster of this machine'
	@echo 'make clean           remove what cargo built; caches outside the repository stay'

demo: own-target
	@echo 'Building what runs the demo: a minute or two the first time.'
	@cargo build --package xtask
	@cargo xtask demo

demo-cluster: own-target
	@echo 'Building what runs the demo: a minute or two the first time.'
	@cargo build --package xtask
	@cargo xtask demo --cluster

test: own-target
	@echo 'Building what runs the tests: a minute or two the first time.'
	@cargo xtask test

test-all: own-target
	@echo 'Building what runs the tests: a minute or two the first time.'
	@cargo xtask test --all

clean:
	cargo clean

# Cargo tells two clones apart by the age of their files alone, and may take what it built from one
# for the other. So when the last build was another clone's, all but the dependencies goes.
own-target:
	@last=$(CARGO_TARGET_DIR)/clone; \
	if [ "$$(cat $$last 2>/dev/null)" != "$(CURDIR)" ]; then \
		cargo clean --quiet --workspace && mkdir -p $(CARGO_TARGET_DIR) && echo "$(CURDIR)" >$$last; \
	fi

.PHONY: help demo demo-cluster test test-all clean own-target
