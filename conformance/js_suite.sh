#!/bin/sh
# The JavaScript client's own tests (core, streams, consumers, key-value, objects, services) against a server:
#
#   conformance/js_suite.sh SERVER_BINARY SUITE STD [PACKAGE[=FILE,…] …]
#
# SUITE is a checkout of github.com/nats-io/nats.js (3a7b736b is known to work), STD one of github.com/denoland/std. The
# tests run on Deno, which comes from npm; what they import from JSR comes from the checkouts and from npm. What fails on any
# server is in js_out_of_scope.txt: only other failures count, unless ALL=1. FILTER is a part of the names of
# tests; OUTPUTS names a folder that keeps what the tests have said.
set -eu

usage="usage: js_suite.sh SERVER_BINARY SUITE STD [PACKAGE[=FILE,…] …]"
here=$(cd "$(dirname "$0")" && pwd)
server=$(readlink -f "${1:?$usage}")
suite=$(readlink -f "${2:?$usage}")
std=$(readlink -f "${3:?$usage}")
shift 3
[ $# -gt 0 ] || set -- core jetstream kv obj services
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/bin" "$work/tmp"
# A copy, so that a build in the meantime does not change what is tested.
cp "$server" "$work/bin/nats-server"
cp -r "$suite" "$work/nats.js"
cp -r "$std" "$work/std"
# It wants demo.nats.io, and takes the rest of its file with it where there is none.
sed -i 's/^Deno.test("reconnect - should receive when some/Deno.test.ignore("reconnect - should receive when some/' \
    "$work/nats.js/core/tests/reconnect_test.ts"
cd "$work"
npm install --silent --no-audit --no-fund --prefix "$work/deno" deno@2.9.6
deno=$work/deno/node_modules/.bin/deno
PATH="$work/bin:$PATH" NO_COLOR=1
export PATH NO_COLOR

known=$here/js_out_of_scope.txt
[ -z "${ALL:-}" ] || known=/dev/null

status=0
for what in "$@"; do
    package=${what%%=*}
    tests=$package/tests
    # Only some files of it.
    [ "$what" = "$package" ] || tests=$(echo "${what#*=}" | tr , '\n' | sed "s|^|$package/tests/|")
    sed "s/PACKAGE/$package/" "$here/js/suite_imports.json" >imports.json
    flags="--no-check --no-lock --no-config --import-map=$work/imports.json"
    # shellcheck disable=SC2086
    "$deno" cache $flags "nats.js/$package"/tests/*_test.ts >cache.txt 2>&1 || { cat cache.txt >&2; exit 1; }
    # shellcheck disable=SC2086
    (cd nats.js && TMPDIR="$work/tmp" "$here/alone.sh" "$deno" test -A --quiet --cached-only $flags ${FILTER:+"--filter=$FILTER"} \
        --preload="./$package/tests/connect.ts" $tests) >"$package.txt" 2>&1 || true
    sed -n -e 's/^\(.*\) \.\.\. FAILED.*/\1/p' -e 's/^Uncaught error from \(.*\) FAILED$/\1/p' "$package.txt" |
        grep -vxFf "$known" >unexpected.txt || true
    [ -z "${OUTPUTS:-}" ] || cp "$package.txt" "$OUTPUTS/js_$package.txt"
    sed 's/^/FAIL /' unexpected.txt
    [ ! -s unexpected.txt ] || status=1
    echo "$package: $(grep -E '[0-9]+ passed' "$package.txt" | tail -n 1)"
done
exit $status
