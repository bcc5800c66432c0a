#!/bin/sh
# The C client's own tests against a server:
#
#   conformance/c.sh SERVER_BINARY SUITE [TEST …]      SUITE is a checkout of github.com/nats-io/nats.c (2d4db4a3 is known to work)
#
# Wants cmake, a C compiler and OpenSSL's headers. What fails on nats-server too is in c_out_of_scope.txt;
# ALL=1 runs it too. C_BUILD names a folder that keeps the built suite between runs.
set -eu

usage="usage: c.sh SERVER_BINARY SUITE [TEST …]"
here=$(cd "$(dirname "$0")" && pwd)
server=$(readlink -f "${1:?$usage}")
suite=$(readlink -f "${2:?$usage}")
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=${C_BUILD:-$work/build}

# A copy, so that a build in the meantime does not change what is tested.
cp "$server" "$work/server"
# This one gives a hub and its leaf node, which run at once, one folder for both stores. Myelin lets no two servers into one:
# each gets its own, as the rest of the test means it.
shares_store=KeyValueMirrorCrossDomains
cat >"$work/own_store" <<'END'
#!/bin/sh
# shellcheck disable=SC2046
set -- $(echo "$*" | sed 's/-sd \([^ ]*\) -c \([^ ]*\)/-sd \1_\2 -c \2/')
exec "$(dirname "$0")/server" "$@"
END
chmod +x "$work/own_store"
cmake -S "$suite" -B "$build" -DNATS_BUILD_STREAMING=OFF -DNATS_BUILD_EXAMPLES=OFF -DNATS_BUILD_LIB_SHARED=OFF \
    -DCMAKE_BUILD_TYPE=Release >"$work/build.txt" && cmake --build "$build" -j >>"$work/build.txt" 2>&1 ||
    { cat "$work/build.txt" >&2; exit 1; }
# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(sed -n 's/^_test(\(.*\))/\1/p' "$suite/test/list_test.txt")
# Without a version the tests of what is later than 2.2 pass over themselves.
NATS_TEST_SERVER_EXE=$work/server NATS_TEST_SERVER_VERSION="nats-server: v2.15.2" TMPDIR=$work
export NATS_TEST_SERVER_EXE NATS_TEST_SERVER_VERSION TMPDIR

cd "$suite/test"
passed=0
failed=0
for test in "$@"; do
    NATS_TEST_SERVER_EXE=$work/server
    [ "$test" != "$shares_store" ] || NATS_TEST_SERVER_EXE=$work/own_store
    [ -n "${ALL:-}" ] || ! grep -qx "$test" "$here/c_out_of_scope.txt" || continue
    if "$here/alone.sh" timeout 90 "$build/bin/testsuite" "$test" >"$work/output.txt" 2>&1 && grep -q 'ALL PASSED' "$work/output.txt"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $test"
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
