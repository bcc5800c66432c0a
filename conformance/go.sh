#!/bin/sh
# The official Go client against a server: conformance/go.sh SERVER_BINARY [-later]
#
# The program in go/ starts the binary itself, once per case. -later also plays the cases for what
# Myelin does not offer yet (nkeys, imports and exports): a baseline for the reference.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
server=$(readlink -f "${1:?usage: go.sh SERVER_BINARY [-later]}")
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

(cd "$here/go" && go build -o "$work/smoke" .)
"$work/smoke" "$@" "$server"
