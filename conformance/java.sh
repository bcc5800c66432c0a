#!/bin/sh
# The official Java client against a server: conformance/java.sh SERVER_BINARY
#
# The program in java/ starts the binary itself, once per case.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
server=$(readlink -f "${1:?usage: java.sh SERVER_BINARY}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

(cd "$work" && mvn -q -B -Dstyle.color=never dependency:copy -Dartifact=io.nats:jnats:2.26.2 -DoutputDirectory="$work" >&2)
javac -nowarn -XDsuppressNotes -cp "$work/jnats-2.26.2.jar" -d "$work" "$here"/java/*.java
"$here/lab.sh" "$work/lab"
java -Dlab="$work/lab" -cp "$work/jnats-2.26.2.jar:$work" Smoke "$server"
