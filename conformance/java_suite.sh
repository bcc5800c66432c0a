#!/bin/sh
# The official Java client's own tests against a server:
#
#   conformance/java_suite.sh SERVER_BINARY SUITE [CLASS | CLASS#METHOD]...
#
# SUITE is a checkout of github.com/nats-io/nats.java whose build.gradle names a `jnats-server-runner` that is on Maven Central
# (3.0.1: the parent of 103c3653). Without names the tests that want a cluster and no streams are run. Their servers are
# configured with JetStream, which Myelin does not have in a cluster: that part of the helper is taken out, for either server.
set -eu

usage="usage: java_suite.sh SERVER_BINARY SUITE [CLASS | CLASS#METHOD]..."
server=$(readlink -f "${1:?$usage}")
suite=$(readlink -f "${2:?$usage}")
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Each of these starts two or three servers that are routed to each other.
impl=io.nats.client.impl.ReconnectTests
connect=io.nats.client.ConnectTests
[ $# -gt 0 ] || set -- "$impl#testReconnectNoIPTLSConnection" "$impl#testForceReconnect" "$impl#testForceReconnectWithAccount" \
    "$impl#testForceReconnectQueueBehaviorCheck" "$connect#testRunInJsCluster"

runner=$(sed -n "s/.*io.nats:jnats-server-runner:\([0-9.]*\)'.*/\1/p" "$suite/build.gradle")
cat >"$work/pom.xml" <<END
<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>suite</groupId><artifactId>suite</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.bouncycastle</groupId><artifactId>bcprov-lts8on</artifactId><version>2.73.10</version></dependency>
<dependency><groupId>org.jspecify</groupId><artifactId>jspecify</artifactId><version>1.0.0</version></dependency>
<dependency><groupId>org.junit.jupiter</groupId><artifactId>junit-jupiter</artifactId><version>5.14.1</version></dependency>
<dependency><groupId>io.nats</groupId><artifactId>jnats-server-runner</artifactId><version>$runner</version></dependency>
<dependency><groupId>nl.jqno.equalsverifier</groupId><artifactId>equalsverifier</artifactId><version>3.12.3</version></dependency>
<dependency><groupId>org.junit.platform</groupId><artifactId>junit-platform-console-standalone</artifactId><version>1.14.3</version></dependency>
</dependencies></project>
END
(cd "$work" && mvn -q -B -Dstyle.color=never dependency:copy-dependencies -DoutputDirectory="$work/jars" >&2)

cp -r "$suite" "$work/suite"
cd "$work/suite"
helper=src/test/java/io/nats/client/utils/TestBase.java
sed -i '/String\[\] makeInsert(/,/^    }/ {
    /"jetstream {"/,/"}"/d
    /jetstream: \\"enabled\\"/d
    s/configureAccount ? 19 : 12/configureAccount ? 15 : 9/
}' "$helper"
sed -i '/ void runInJsCluster(ThreeServerTestOptions/,/^    }/ s/false, true, null/false, false, null/' "$helper"
grep -q 'configureAccount ? 15 : 9' "$helper" || { echo "the helper of the suite has changed" >&2; exit 1; }

jars=$(printf '%s:' "$work"/jars/*.jar)
find src/main/java src/test/java -name '*.java' >"$work/sources"
javac -nowarn -encoding UTF-8 -proc:none -XDsuppressNotes -cp "$jars" -d "$work/classes" @"$work/sources" 2>"$work/javac.txt" ||
    { cat "$work/javac.txt" >&2; exit 1; }
cp -r src/test/resources/. "$work/classes/"

mkdir "$work/bin"
cp "$server" "$work/bin/nats-server"
PATH="$work/bin:$PATH"
nats_server_path=$work/bin/nats-server
export PATH nats_server_path
selectors=
for name in "$@"; do
    case $name in
    *'#'*) selectors="$selectors --select-method=$name" ;;
    *) selectors="$selectors --select-class=$name" ;;
    esac
done
status=0
# shellcheck disable=SC2086
java -cp "$work/classes:$jars" org.junit.platform.console.ConsoleLauncher execute --disable-banner --details=tree \
    --disable-ansi-colors $selectors >"$work/output.txt" 2>&1 || status=$?
grep -E "\[X\]|=> " "$work/output.txt" || true
[ -z "${KEEP:-}" ] || cp "$work/output.txt" "$KEEP"
passed=$(sed -n 's/.*\[ *\([0-9]*\) tests successful *\].*/\1/p' "$work/output.txt")
failed=$(sed -n 's/.*\[ *\([0-9]*\) tests failed *\].*/\1/p' "$work/output.txt")
[ -n "$passed" ] || { tail -50 "$work/output.txt" >&2; exit 1; }
echo "$passed passed, $failed failed"
exit "$status"
