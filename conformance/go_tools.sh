#!/bin/sh
# The tests of what is built on the Go client, against a server:
#
#   conformance/go_tools.sh SERVER_BINARY JSM NATSCLI ORBIT [PACKAGE[=TESTS] …]
#
# JSM, NATSCLI and ORBIT are checkouts of github.com/nats-io/jsm.go (caea3c5 is known to work), github.com/nats-io/natscli
# (c778a5c) and github.com/synadia-io/orbit.go (873426d). Their tests start the Go server inside their own process: go-server/
# stands in for its package and runs SERVER_BINARY instead. What is skipped, and why, is in go_out_of_scope.txt; ALL=1
# runs it too. A PACKAGE is named as in the output (jsm.go/test, natscli/nats/tests, orbit.go/counters); TESTS is a pattern as
# `go test -run` takes it. OUTPUTS names a folder that keeps what the tests have said. Tests of natssysclient (orbit.go) are not
# run yet.
set -eu

usage="usage: go_tools.sh SERVER_BINARY JSM NATSCLI ORBIT [PACKAGE[=TESTS] …]"
here=$(cd "$(dirname "$0")" && pwd)
server=$(readlink -f "${1:?$usage}")
jsm=$(readlink -f "${2:?$usage}")
natscli=$(readlink -f "${3:?$usage}")
orbit=$(readlink -f "${4:?$usage}")
shift 4
wanted="$*"
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

# A copy, so that a build in the meantime does not change what is tested.
cp "$server" "$work/server"
cp -r "$jsm" "$work/jsm.go"
cp -r "$natscli" "$work/natscli"
cp -r "$orbit" "$work/orbit.go"
cp -r "$here/go-server" "$work/outside"
rm -f "$work"/orbit.go/go.work "$work"/orbit.go/*/go.work
grep -rl nats-server/v2/ --include=*_test.go "$work/jsm.go/test" "$work/jsm.go/monitor" "$work/jsm.go/connbalancer" \
    "$work/jsm.go/balancer" "$work/jsm.go/natscontext/svcbackend" "$work/jsm.go/api/server/tracing" "$work/natscli" "$work/orbit.go" |
    xargs sed -i -e 's|"github.com/nats-io/nats-server/v2/server"|"myelin.test/outside/server"|' \
        -e 's|"github.com/nats-io/nats-server/v2/test"|"myelin.test/outside/test"|'
GOFLAGS=-mod=mod
export GOFLAGS
stand_in() {
    go mod edit -require=myelin.test/outside@v0.0.0 -replace="myelin.test/outside=$work/outside" "$@"
}

skipped=none
[ -n "${ALL:-}" ] || skipped=$(sed -n 's/^\(Test.*\)/\1/p' "$here/go_out_of_scope.txt" | sed 's/^/^/; s/$/$/; s|/|$/^|' | paste -sd '|')

status=0
run() {
    name=$1
    only=.
    if [ -n "$wanted" ]; then
        only=$(echo "$wanted" | tr ' ' '\n' | sed -n -e "s|^$name\$|.|p" -e "s|^$name=||p")
        [ -n "$only" ] || return 0
    fi
    go test -vet=off -c -o "$work/program" .
    # The command's own tests take it from ../nats where they believe to be in CI.
    CI=true TESTED_SERVER="$work/server" TMPDIR="$work" "$here/alone.sh" \
        "$work/program" -test.v -test.timeout 30m -test.run "$only" -test.skip "$skipped" >"$work/output.txt" 2>&1 || status=1
    grep -aE '^ *--- FAIL|^panic' "$work/output.txt" || true
    echo "$name: $(grep -ac '^--- PASS' "$work/output.txt") passed, $(grep -ac '^--- FAIL' "$work/output.txt") failed"
    [ -z "${OUTPUTS:-}" ] || cp "$work/output.txt" "$OUTPUTS/$(echo "$name" | tr / _).txt"
}
cd "$work/jsm.go" && stand_in
for package in test monitor balancer connbalancer natscontext/svcbackend api/server/tracing; do
    cd "$work/jsm.go/$package" && run "jsm.go/$package"
done
# Only what is wanted is built.
if [ -z "$wanted" ] || echo "$wanted" | grep -q natscli; then
    cd "$work/natscli" && stand_in -replace="github.com/nats-io/jsm.go=$work/jsm.go"
    go build -o nats/nats ./nats
    cd nats/tests && run natscli/nats/tests
fi
for package in counters jetstreamext kvcodec natscontext natsext pcgroups; do
    cd "$work/orbit.go/$package/test" && stand_in && run "orbit.go/$package"
done
exit $status
