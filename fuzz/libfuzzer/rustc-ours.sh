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
# What the edges of these compare are numbers of their own, and hardly ever a word that an input could have. Of serde_json it is
# single bytes, which the dictionary of words is not for. Of myelin_streams it is numbers that stand in digits in what comes.
compares=-Cllvm-args=-sanitizer-coverage-trace-compares
# Indirect calls are told to libFuzzer at level 4, and mean something with -use_value_profile only.
set -- "${@/%-sanitizer-coverage-level=4/-sanitizer-coverage-level=3}"
case $name in
    myelin_fuzz) ;;
    myelin_broker | myelin_stdx | myelin_streams | myelin_subject | serde_json) set -- "${@/#$compares/$compares=0}" ;&
    myelin_* | minlz | zlib_rs | simdutf8 | httparse | '') exec "$@" ;;
esac
arguments=()
for argument in "$@"; do
    [ "$argument" = -Cpasses=sancov-module ] || arguments+=("$argument")
done
exec "${arguments[@]}"
