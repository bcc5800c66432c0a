#!/bin/sh
# The official Rust client's own tests, core and streams, against a server:
#
#   conformance/rust.sh SERVER_BINARY SUITE      SUITE is a checkout of github.com/nats-io/nats.rs
#
# The published crate has no tests, hence the checkout. The suite finds the server as `nats-server` in
# PATH. Left out: consumers and what stands on them (issue 6: watching, keys and history of key-value buckets,
# object stores), websockets, and the tests below that want the network at large. LATER=1 also runs those that
# want what Myelin does not offer yet.
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

# demo.nats.io, raw.githubusercontent.com, and the `nats` command line.
elsewhere="connect_domain service::schemas service::cross_clients_tests custom_tls_client tls_with_native_certs"
# Operators with JWTs, nkeys, clusters.
later="custom_auth_callback_jwt multiple_auth_methods server_pool_contains_discovered_servers
    set_server_pool_marks_all_as_explicit"
suites="client_tests server_pool_tests server_pool_parity_tests service_tests subject_validation_test
    tls_tests"

# Of the tests of JetStream, those that need streams only.
streams="query_account_requests publish_with_headers publish_payload_size publish_async send_publish request_ok
    request_err request create_stream get_stream purge_stream purge_filter purge get_or_create_stream
    delete_stream update_stream get_raw_message get_last_raw_message_by_subject direct_get_last_for_subject
    direct_get_next_for_subject direct_get_next_for_subject_after_sequence direct_get_for_sequence
    direct_get_no_stream stream_info timeout_out_request discard_new_per_subject stream_names_list streams_list
    publish_no_stream test_version_on_initial_connect test_stream_by_subject stream_subjects raw_messages
    allow_batch_publish_round_trip message_with_ttl test_async_publish_max_ack_pending
    test_async_publish_backpressure"
buckets="create_bucket create_with_failure create_or_update_key_value create entry get create_with_ttl limit_markers put
    republish purge_with_ttl republish_headers_handling test_direct_get_with_long_bucket_names update"

skip=$elsewhere
if [ -n "${LATER:-}" ]; then
    suites="$suites nkey_tests jwt_tests"
else
    skip="$skip $later"
fi

set --
for test in $suites; do
    set -- "$@" --test "$test"
done
set -- "$@" -- --test-threads=4
for name in $skip; do
    set -- "$@" --skip "$name"
done

cd "$suite/async-nats"
export RUST_BACKTRACE=0
status=0
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$work/target}"
export CARGO_TARGET_DIR
run() {
    nice cargo test --no-fail-fast --features experimental "$@" >>"$work/output.txt" 2>&1 || status=$?
}
run "$@"
# Their names begin those of others, so they are asked for exactly.
# shellcheck disable=SC2046
run --test jetstream_tests -- --exact --test-threads=3 $(printf 'jetstream::%s ' $streams)
# shellcheck disable=SC2046
run --test kv_tests -- --exact --test-threads=3 $(printf 'kv::%s ' $buckets)
grep -q '^test result' "$work/output.txt" || { cat "$work/output.txt" >&2; exit 1; }
sed -n 's/^test \(.*\) \.\.\. FAILED$/FAIL \1/p; /^thread .* panicked/,+1p' "$work/output.txt"
sed -n 's/^test result: .* \([0-9]*\) passed; \([0-9]*\) failed.*/\1 \2/p' "$work/output.txt" |
    awk '{ passed += $1; failed += $2 } END { print passed " passed, " failed " failed" }'
exit "$status"
