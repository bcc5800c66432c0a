#!/bin/sh
# The official Python clients against Myelin.
#
#   conformance/python.sh            a small program of ours with nats-py from PyPI
#   conformance/python.sh SUITE      the clients' own tests; SUITE is a checkout of github.com/nats-io/nats.py
#
# MYELIN_SERVER names another server to drive, for a baseline: MYELIN_SERVER=$(which nats-server).
# What is deselected, and why, is in python_out_of_scope.txt; ALL=1 runs them too.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../target}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

newest_build() {
    # shellcheck disable=SC2012
    ls -t "$target"/release/myelin-server "$target"/quick/myelin-server "$target"/debug/myelin-server 2>/dev/null |
        head -n 1
}

server=${MYELIN_SERVER:-$(newest_build)}
[ -x "$server" ] || { echo "no server: cargo build -p myelin-server" >&2; exit 1; }
mkdir "$work/bin"
# A copy, so that a build in the meantime does not change what is tested.
cp "$(readlink -f "$server")" "$work/bin/nats-server"
PATH="$work/bin:$PATH"
export PATH

venv=$target/conformance/python
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -m pip install -q --disable-pip-version-check \
    nats-py==2.15.0 nkeys==0.2.1 aiohttp==3.14.5 websockets==17.4 pytest==9.2.0 pytest-asyncio==1.5.0 pytest-timeout==2.4.0

if [ $# -eq 0 ]; then
    "$here/lab.sh" "$work/lab"
    "$venv/bin/python" "$here/python_smoke.py" "$work/bin/nats-server" "$work/lab"
    exit
fi

cp -r "$1" "$work/suite"
before_312=$("$venv/bin/python" -c 'import sys; print(int(sys.version_info < (3, 12)))')
if [ "$before_312" = 1 ]; then
    # Type parameters are the only thing in it that older interpreters cannot read.
    sed -i 's/^\( *def [a-z]*\)\[T\]/\1/' "$work/suite/nats-core/src/nats/client/message.py"
    sed -i -e 's/^\( *\(async \)*def [a-z_]*\)\[ResponseT\]/\1/' \
        -e '/^def check_response/i ResponseT = __import__("typing").TypeVar("ResponseT")' \
        "$work/suite/nats-jetstream/src/nats/jetstream/api/client.py"
fi

# The handshake-first tests are skipped without a version, and their configuration names files from the checkout's root.
handshake_first() {
    echo "== nats, handshake first"
    (cd "$work/suite" && NATS_SERVER_VERSION=main PYTHONPATH="nats/src:$here/python_before_313" \
        "$here/alone.sh" "$venv/bin/python" -m pytest -q --rootdir . -p no:cacheprovider --timeout 60 --show-capture=no --tb=short \
        -rfE -W ignore nats/tests/test_client.py::ClientTLSHandshakeFirstTest >"$work/handshake.txt" 2>&1) ||
        failed="${failed:-} handshake-first"
    tail -n 1 "$work/handshake.txt"
}

websocket() {
    echo "== nats, WebSocket"
    (cd "$work/suite" && PYTHONPATH="nats/src:$here/python_before_313" \
        "$here/alone.sh" "$venv/bin/python" -m pytest -q --rootdir . -p no:cacheprovider --timeout 60 --show-capture=no --tb=short \
        -rfE -W ignore nats/tests/test_client_websocket.py nats/tests/test_custom_headers_websocket.py \
        >"$work/websocket.txt" 2>&1) || failed="${failed:-} websocket"
    grep -E '^[0-9]+ passed|^FAILED' "$work/websocket.txt" || tail -n 1 "$work/websocket.txt"
}

run() {
    package=$1
    sources=$2
    shift 2
    deselected=""
    if [ -z "${ALL:-}" ]; then
        deselected=$(sed -n "s|^$package  *\(tests/.*\)|--deselect=\1|p" "$here/python_out_of_scope.txt")
    fi
    echo "== $package"
    # shellcheck disable=SC2086
    (cd "$work/suite/$package" && PYTHONPATH="$sources:$here/python_before_313" \
        "$here/alone.sh" "$venv/bin/python" -m pytest -q --rootdir . -p no:cacheprovider --timeout 60 --show-capture=no --tb=short -rfEs \
        -W ignore $deselected "$@" >"$work/$package.txt" 2>&1) || failed="${failed:-} $package"
    sed -n '/short test summary/,$p' "$work/$package.txt"
    grep -q 'short test summary' "$work/$package.txt" || tail -n 1 "$work/$package.txt"
}

failed=""
run nats src tests/test_parser.py tests/test_nuid.py tests/test_client.py tests/test_client_async_await.py \
    tests/test_client_v2.py tests/test_client_nkeys.py tests/test_micro_service.py tests/test_js.py
handshake_first
websocket
run nats-core src:../nats-server/src tests/test_client.py tests/test_connection.py tests/test_message.py \
    tests/test_protocol.py tests/test_subscription.py tests/test_examples.py tests/test_tls.py tests/test_websocket.py
run nats-server src tests
run nats-jetstream src:../nats-core/src:../nats-server/src tests
run nats-key-value src:../nats-jetstream/src:../nats-core/src:../nats-server/src tests
[ -z "$failed" ] || { echo "failed in:$failed" >&2; exit 1; }
