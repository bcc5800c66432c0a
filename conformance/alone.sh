#!/bin/sh
# Runs a command in a loopback network and among processes of its own, where the system allows: conformance/alone.sh COMMAND …
#
# For suites that use fixed ports, find servers by their process id, or leave some behind: what they have started ends with them.
set -eu

if unshare -rnpf --kill-child --mount-proc true 2>/dev/null; then
    exec unshare -rnpf --kill-child --mount-proc sh -c 'ip link set lo up && exec "$@"' alone "$@"
fi
exec "$@"
