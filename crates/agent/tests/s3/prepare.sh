#!/bin/sh
# Builds an S3 server, versitygw, from its Go module into a directory.
#
# Usage: prepare.sh DIRECTORY   Needs Go and a module proxy.
set -eu
into=$1
rm -rf "$into"
mkdir -p "$into"
GOBIN=$into CGO_ENABLED=0 go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
