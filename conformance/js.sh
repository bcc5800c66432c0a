#!/bin/sh
# The official JavaScript client on Node against a server: conformance/js.sh SERVER_BINARY
#
# The program in js/ starts the binary itself, once per case.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
server=$(readlink -f "${1:?usage: js.sh SERVER_BINARY}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cp "$here"/js/*.mjs "$here"/js/package*.json "$work"
cd "$work"
npm ci --silent --no-audit --no-fund
"$here/lab.sh" "$work/lab"
node smoke.mjs "$server" "$work/lab"
