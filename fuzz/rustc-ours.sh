#!/usr/bin/env bash
# rustc for fuzzing (`RUSTC_WRAPPER`): counts the edges of our own crates and of what takes inputs apart for them. Not of the
# targets themselves: what they compare says nothing of what they try. All else
# runs as fast as it does elsewhere: libFuzzer looks at every counter after every input, and the insides of ciphers, hash
# functions and hash tables tell it nothing.
set -euo pipefail
name=
previous=
for argument in "$@"; do
    [ "$previous" != --crate-name ] || name=$argument
    previous=$argument
done
case $name in
    myelin_fuzz) ;;
    myelin_* | serde_json | minlz | zlib_rs | simdutf8 | httparse | '') exec "$@" ;;
esac
arguments=()
for argument in "$@"; do
    [ "$argument" = -Cpasses=sancov-module ] || arguments+=("$argument")
done
exec "${arguments[@]}"
