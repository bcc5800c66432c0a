#!/bin/sh
# The official JavaScript and Python clients over WebSocket against a server: conformance/websocket.sh SERVER_BINARY
#
# Node with `ws`, a page in headless Chromium (if `chromium` is there, or CHROMIUM names one), nats-py with aiohttp; plain and
# encrypted, compressed and not. The programs in websocket/ start the binary themselves.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
server=$(readlink -f "${1:?usage: websocket.sh SERVER_BINARY}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chromium=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
[ -n "$chromium" ] || echo "no Chromium: the page is not played" >&2

cp "$here"/websocket/* "$here"/js/server.mjs "$work"
cd "$work"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout key.pem -out cert.pem 2>/dev/null
npm ci --silent --no-audit --no-fund
NODE_EXTRA_CA_CERTS=$work/cert.pem node main.mjs "$server" "$work/cert.pem" "$work/key.pem" ${chromium:+"$chromium"} |
    tee node.txt

python3 -m venv venv
venv/bin/python -m pip install -q --disable-pip-version-check nats-py==2.15.0 aiohttp==3.14.5
venv/bin/python python_websocket.py "$server" "$work/cert.pem" "$work/key.pem" | tee python.txt

# A run that ended early has no such line, and counts as failed.
tail -qn 1 node.txt python.txt | awk '/^[0-9]+ passed, [0-9]+ failed$/ { passed += $1; failed += $3; runs++ }
    END { printf "%d passed, %d failed\n", passed, failed + 2 - runs; exit failed + 2 - runs > 0 }'
