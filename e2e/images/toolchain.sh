#!/bin/sh
# A C compiler above the base, to build our programs with; part of no image.
set -eu
apt-get update
apt-get install --yes --no-install-recommends gcc libc6-dev
