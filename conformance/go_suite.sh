#!/bin/sh
# The Go client's own tests against a server:
#
#   conformance/go_suite.sh SERVER_BINARY ORBIT [TESTS]
#
# ORBIT is a checkout of github.com/synadia-io/orbit.go (873426d is known to work): the tests ask a tester for servers,
# whose client is there. The tester is ours (go-tester/): it runs SERVER_BINARY. TESTS is a pattern as `go test -run` takes
# it. What is skipped, and why, is in go_out_of_scope.txt; ALL=1 runs it too.
set -eu

usage="usage: go_suite.sh SERVER_BINARY ORBIT [TESTS]"
here=$(cd "$(dirname "$0")" && pwd)
server=$(readlink -f "${1:?$usage}")
orbit=$(readlink -f "${2:?$usage}")
only=${3:-}
version=v1.55.0
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

# A copy, so that a build in the meantime does not change what is tested.
cp "$server" "$work/server"
cp -r "$(go mod download -json "github.com/nats-io/nats.go@$version" | sed -n 's/^.*"Dir": "\(.*\)".*/\1/p')" "$work/suite"
chmod -R u+w "$work/suite"
cp -r "$orbit/ntf-client" "$work/ntf-client"
# The tests want a later client, which takes benchmarks too.
sed -i '/h func/!s/t \*testing\.T\b/t testing.TB/' "$work/ntf-client/client.go"
cp -r "$here/go-tester" "$work/tester"

cd "$work/suite"
GOFLAGS=-mod=mod
export GOFLAGS
go mod edit -replace="github.com/synadia-io/orbit.go/ntf=$work/tester" \
    -replace="github.com/synadia-io/orbit.go/ntf-client=$work/ntf-client" go_test.mod
for package in jetstream/test test micro/test; do
    go test -modfile=go_test.mod -tags=internal_testing -vet=off -c -o "$work/$(echo $package | tr / _)" "./$package"
done

skipped=""
[ -n "${ALL:-}" ] || skipped=$(sed -n 's/^\(Test.*\)/\1/p' "$here/go_out_of_scope.txt" | paste -sd '|')

status=0
run() {
    program=$1
    (cd "$work/suite/$(echo "$program" | tr _ /)" && TESTED_SERVER="$work/server" TMPDIR="$work" "$here/alone.sh" \
        "$work/$program" -test.v -test.timeout 60m -test.run "${only:-.}" -test.skip "^(${skipped:-none})\$" \
        >"$work/output.txt" 2>&1) || status=1
    grep -E '^ *--- FAIL|^panic' "$work/output.txt" || true
    echo "$program: $(grep -c '^--- PASS' "$work/output.txt") passed, $(grep -c '^--- FAIL' "$work/output.txt") failed," \
        "$(grep -c '^--- SKIP' "$work/output.txt") skipped"
}
run jetstream_test
run test
run micro_test
exit $status
