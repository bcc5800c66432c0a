#!/bin/sh
# The Python client's own tests about JetStream (streams, consumers, buckets, object stores), connected to a door: a server
# without JetStream in a cluster of three servers that have it.
#
#   conformance/door.sh SERVER SUITE [PYTEST_ARGUMENT …]
#
# SERVER is the door, of Myelin or (for a baseline) nats-server; SUITE a checkout of github.com/nats-io/nats.py. The three are HUB,
# a program of either kind, or else nats-servers, from PATH or ~/go/bin. Needs what python.sh has installed in target/conformance/python.
set -eu

usage="usage: door.sh SERVER SUITE [PYTEST_ARGUMENT …]"
here=$(cd "$(dirname "$0")" && pwd)
door=$(readlink -f "${1:?$usage}")
suite=$(readlink -f "${2:?$usage}")
shift 2
python=${CARGO_TARGET_DIR:-$here/../target}/conformance/python/bin/python
hub=$(readlink -f "${HUB:-$(PATH="$PATH:$HOME/go/bin" command -v nats-server)}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Copies, so that a build in the meantime does not change what is tested.
cp "$door" "$work/door"
cp -r "$suite" "$work/suite"
mkdir "$work/bin"
cp "$here/door/nats-server" "$work/bin/"
for at in 1 2 3; do
    cat >"$work/$at.conf" <<CONF
server_name: hub$at
listen: "127.0.0.1:1422$at"
jetstream { store_dir: "$work/store$at", max_mem: 4GB, max_file: 8GB }
cluster { name: hub, listen: "127.0.0.1:1622$at", no_advertise: true,
    routes: ["nats://127.0.0.1:16221", "nats://127.0.0.1:16222", "nats://127.0.0.1:16223"] }
CONF
done
cat >"$work/run" <<'RUN'
work=$1 hub=$2
shift 2
running=""
for at in 1 2 3; do
    "$hub" -c "$work/$at.conf" 2>"$work/$at.log" &
    running="$running $!"
done
status=0
"$@" || status=$?
# shellcheck disable=SC2086
kill $running
exit $status
RUN

# What wants accounts or a cluster of its own is out of scope: the hub is one for all tests.
out=""
for class in AccountLimitsTest ClusterInfoTest; do out="$out --deselect tests/test_js.py::$class"; done
cd "$work/suite/nats"
# shellcheck disable=SC2086
PATH="$work/bin:$PATH" DOOR_SERVER="$work/door" DOOR_ROUTES=nats://127.0.0.1:16221,nats://127.0.0.1:16222,nats://127.0.0.1:16223 \
    PYTHONPATH="src:$here/python_before_313" "$here/alone.sh" sh "$work/run" "$work" "$hub" \
    "$python" -m pytest -q --rootdir . -p no:cacheprovider --timeout 60 --show-capture=no --tb=short -rfE -W ignore \
    $out "$@" tests/test_js.py >"$work/output.txt" 2>&1 || status=1
sed -n '/short test summary/,$p' "$work/output.txt" | grep . || tail -n 3 "$work/output.txt"
exit ${status:-0}
