#!/bin/sh
# The Go server's own tests, as far as they speak with it over sockets only:
#
#   conformance/go_server_tests.sh SERVER_BINARY OUTPUT.json [FILE_WITH_NAMES]      PACKAGE=test for those of that folder;
#   NOFILTER=1 for all of these names (of clusters and leaf nodes, say), also those that look into the process
#
# In a copy of the Go server's module, starting a server starts SERVER_BINARY instead (go-server-tests/outside.go), and what
# is asked of it is asked over HTTP. Run it with nats-server first: what fails there looks into the process and does not
# count. Only what passes there and fails here is a difference.
set -eu

usage="usage: go_server_tests.sh SERVER_BINARY OUTPUT.json [FILE_WITH_NAMES]"
here=$(cd "$(dirname "$0")" && pwd)
server=$(readlink -f "${1:?$usage}")
output=$(readlink -f "${2:?$usage}")
names=${3:+$(readlink -f "$3")}
version=v2.15.2
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

cp "$server" "$work/tested"
cp -r "$(go mod download -json "github.com/nats-io/nats-server/v2@$version" | sed -n 's/^.*"Dir": "\(.*\)".*/\1/p')" "$work/module"
chmod -R u+w "$work/module"
cd "$work/module"
methods='Start|readyForConnections|Shutdown|LameDuckShutdown|lameDuckMode|Reload|Varz|Connz|Subsz|Accountz|Jsz|healthz|Healthz|NumClients|NumRoutes|numRoutes|NumRemotes|Routez|NumLeafNodes|Leafz|Gatewayz|NumOutboundGateways|numOutboundGateways|numInboundGateways|GatewayAddr|ClusterName|ClusterAddr|NumSubscriptions|NumSlowConsumers|ID|Name|Addr|MonitorAddr|JetStreamConfig|StoreDir|JetStreamEnabled'
find server -name '*.go' ! -name '*_test.go' -exec \
    sed -E -i "s/^func \(s \*Server\) ($methods)\(/func (s *Server) inner\1(/" {} +
# Who wants a subject is asked of the process, too.
sed -E -i 's/^func \(a \*Account\) SubscriptionInterest\(subject string\) bool \{/&\n\tif a.srv != nil {\n\t\treturn a.srv.outsideInterest(a.Name, subject)\n\t}/' \
    server/accounts.go
cp "$here/go-server-tests/outside.go" server/
package=${PACKAGE:-server}
export GOFLAGS=-mod=mod
go test -vet=off -c -o "$work/program" "./$package"
python3 "$here/go-server-tests/run.py" "$work/tested" "$output" "$work/program" "$work/module/$package" "${WORKERS:-3}" ${names:+"$names"}
