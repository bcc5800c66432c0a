#!/bin/sh
# The official Rust client's own tests against a server:
#
#   conformance/rust.sh SERVER_BINARY SUITE      SUITE is a checkout of github.com/nats-io/nats.rs
#
# The published crate has no tests, hence the checkout. The suite finds the server as `nats-server` in
# PATH. Left out: the tests below that want the network at large, and one that wants more consumers than
# nats-server allows. LATER=1 also runs those that want what Myelin does not offer yet, and SUITES="server_pool_tests"
# says which programs are run: without `service_tests` among them a third of the crates is left out.
set -eu

usage="usage: rust.sh SERVER_BINARY SUITE"
server=$(readlink -f "${1:?$usage}")
suite=$(readlink -f "${2:?$usage}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/bin"
# A copy, so that a build in the meantime does not change what is tested.
cp "$server" "$work/bin/nats-server"
PATH="$work/bin:$PATH"
export PATH

# demo.nats.io, raw.githubusercontent.com, the `nats` command line, and 1,200 consumers of one stream.
elsewhere="connect_domain service::schemas service::cross_clients_tests custom_tls_client tls_with_native_certs
    jetstream::consumers"
# Replicated streams.
later="jetstream::create_stream_with_replicas"
suites=${SUITES:-"client_tests server_pool_tests server_pool_parity_tests service_tests subject_validation_test
    tls_tests websocket_test nkey_tests jwt_tests jetstream_tests kv_tests object_store"}

skip=$elsewhere
[ -n "${LATER:-}" ] || skip="$skip $later"

set --
for test in $suites; do
    set -- "$@" --test "$test"
done
set -- "$@" -- --test-threads=4
for name in $skip; do
    set -- "$@" --skip "$name"
done

# Two tests want a cluster and no streams. Their servers have JetStream, which Myelin does not have in a cluster: they do without.
cp -r "$suite" "$work/suite"
cd "$work/suite/async-nats"
sed -i 's|run_cluster("tests/configs/jetstream.conf")|run_cluster("")|' tests/server_pool_tests.rs
# Clients of HTTP and of JSON schemas are hundreds of crates that one program alone wants.
case " $suites " in
*" service_tests "*) ;;
*) sed -i '/^criterion\|^reqwest\|^jsonschema/d; /^\[\[bench\]\]/,/^$/d' Cargo.toml ;;
esac
export RUST_BACKTRACE=0
status=0
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$work/target}"
export CARGO_TARGET_DIR
run() {
    nice cargo test --no-fail-fast --features experimental "$@" >>"$work/output.txt" 2>&1 || status=$?
}
run "$@"
grep -q '^test result' "$work/output.txt" || { cat "$work/output.txt" >&2; exit 1; }
sed -n 's/^test \(.*\) \.\.\. FAILED$/FAIL \1/p; /^thread .* panicked/,+1p' "$work/output.txt"
sed -n 's/^test result: .* \([0-9]*\) passed; \([0-9]*\) failed.*/\1 \2/p' "$work/output.txt" |
    awk '{ passed += $1; failed += $2 } END { print passed " passed, " failed " failed" }'
exit "$status"
