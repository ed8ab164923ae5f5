# Names for the chores of `cargo xtask`, where all the work is done.

# Outside the tree, so that a fresh clone need not compile the dependencies again.
export CARGO_TARGET_DIR ?= $(or $(MUSTER_CACHE),$(HOME)/.cache/muster)/target

help:
	@echo 'make demo    run an MPIJob on a real Kubernetes cluster of this machine'
	@echo 'make test    everything that must hold before a change lands, real Kubernetes included'
	@echo 'make clean   remove what cargo built; caches outside the repository stay'

demo:
	cargo xtask demo

test:
	cargo xtask test

clean:
	cargo clean

.PHONY: help demo test clean
