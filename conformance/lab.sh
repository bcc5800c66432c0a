#!/bin/sh
# Certificates for the scenes over TLS: conformance/lab.sh FOLDER
#
# Two authorities (ca, ca2); NAME.pem and NAME.key of servers (server, other, server2 by ca2) and of clients (app and second
# by ca, stranger by ca2), those of clients as NAME.p12 (password `secret`) too; NAME.pin, what pins the key of a client.
set -eu

mkdir -p "${1:?usage: lab.sh FOLDER}"
cd "$1"

key="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"

authority() {
    # shellcheck disable=SC2086
    openssl req -x509 $key -days 2 -subj "/CN=$1" -keyout "$1.key" -out "$1.pem"
}

sign() {
    # shellcheck disable=SC2086
    openssl req $key -subj "/CN=$1" -keyout "$1.key" -out "$1.csr"
    printf 'subjectAltName=%s\n' "$3" >ext
    openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -set_serial "0x1$(openssl rand -hex 7)" -days 2 \
        -extfile ext -out "$1.pem"
}

{
    authority ca
    authority ca2
    sign server ca DNS:localhost,IP:127.0.0.1
    sign other ca DNS:other
    sign server2 ca2 DNS:localhost,IP:127.0.0.1
    sign app ca email:app@example.com
    sign second ca email:second@example.com
    sign stranger ca2 email:app@example.com
    for name in app second stranger; do
        openssl pkcs12 -export -in $name.pem -inkey $name.key -out $name.p12 -passout pass:secret
        openssl x509 -in $name.pem -noout -pubkey | openssl pkey -pubin -outform DER | openssl dgst -sha256 -r |
            cut -d ' ' -f 1 >$name.pin
    done
} 2>log.txt || {
    cat log.txt >&2
    exit 1
}
