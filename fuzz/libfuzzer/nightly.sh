#!/usr/bin/env bash
# Every fuzz target in turn for some time, with leak detection on: a line each in docs/fuzz-ledger.tsv.
#
#   fuzz/libfuzzer/nightly.sh [-s SECONDS] [-j JOBS] [TARGET…]     120 seconds (or MYELIN_FUZZ_SECONDS), one at a time (or
#                                                                  MYELIN_FUZZ_JOBS), all targets
#
# A target ends with its first finding, and the next one begins; the exit code is that there was one. Needs nightly and
# cargo-fuzz. No sanitizer: nothing of ours is `unsafe`, and src/leaks.rs finds leaks at less cost, so that more inputs are
# tried. (`just fuzz NAME` runs with AddressSanitizer and LeakSanitizer.) What was found stays in fuzz/corpus/ for the next run.
set -euo pipefail
cd "$(dirname "$0")/.."
ledger=../docs/fuzz-ledger.tsv
seconds=${MYELIN_FUZZ_SECONDS:-120}
jobs=${MYELIN_FUZZ_JOBS:-1}
while getopts s:j: option; do
    case $option in
        s) seconds=$OPTARG ;;
        j) jobs=$OPTARG ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))

# The number behind NAME in libFuzzer's last words, or 0.
stat_of() {
    sed -n "s/^stat::$1: *//p" "$2" | tail -1 | grep . || echo 0
}

# Runs one target and adds its line. Fails if it has found something.
run_target() {
    local name=$1 found=0 log times executions edges cpu speed options=()
    # How often these pass an edge of the program costs more than it tells: without that up to twice as many inputs are tried, and
    # in equal time more edges are found (CONTRIBUTING.md, "Add a fuzz target").
    case $name in
        leaf | publish | session) options=(-use_counters=0 -reduce_inputs=0) ;;
    esac
    mkdir -p "corpus/$name" "artifacts/$name"
    log=artifacts/$name/nightly.log
    times=artifacts/$name/nightly.times
    local TIMEFORMAT='%R %U %S'
    { time "$programs/$name" "corpus/$name" "seeds/$name" -max_total_time="$seconds" -timeout=60 -print_funcs=0 \
        -print_final_stats=1 -reload=0 "${options[@]}" -artifact_prefix="artifacts/$name/" >"$log" 2>&1; } 2>"$times" || found=1
    executions=$(stat_of number_of_executed_units "$log")
    edges=$(sed -n 's/^#.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)
    # Other work on the machine must not make a target look slow: speed is reckoned by the processor's time.
    read -r elapsed cpu speed < <(tail -1 "$times" | awk -v n="$executions" '{ cpu = $2 + $3;
        printf "%.0f %.0f %.0f\n", $1, cpu, (cpu > 0 ? n / cpu : 0) }')
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$(date -u +%F)" "$commit" "$name" "$executions" "$elapsed" "$cpu" \
        "$speed" "${edges:-0}" "$found" | tee -a "$ledger"
    if [ "$found" = 1 ]; then
        echo "$name has found something; the log is fuzz/$log:" >&2
        grep -m 3 -E 'panicked at|ERROR: |Test unit written' -A 1 "$log" >&2 || tail -5 "$log" >&2
        return 1
    fi
}

triple=$(rustc +nightly -vV | sed -n 's/^host: //p')
programs=libfuzzer/target/nightly/$triple/release
commit=$(git rev-parse --short=8 HEAD)
git diff --quiet HEAD -- .. ":!$ledger" || commit+=+
# A folder of its own: programs with other flags must not be taken for these.
RUSTC_WRAPPER=$PWD/libfuzzer/rustc-ours.sh cargo +nightly fuzz build --fuzz-dir libfuzzer --sanitizer none --target-dir libfuzzer/target/nightly
[ -s "$ledger" ] || printf '#date\tcommit\ttarget\texecutions\tseconds\tcpu\texec/s\tedges\tfindings\n' >"$ledger"
[ $# -gt 0 ] || mapfile -t < <(sed -n 's/^myelin_fuzz::target!(myelin_fuzz::\(.*\));/\1/p' libfuzzer/fuzz_targets/*.rs)
[ $# -gt 0 ] || set -- "${MAPFILE[@]}"

running=0
failed=0
for name in "$@"; do
    if [ "$running" -ge "$jobs" ]; then
        wait -n || failed=1
        running=$((running - 1))
    fi
    run_target "$name" &
    running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
    wait -n || failed=1
    running=$((running - 1))
done
# Of the goal of 100,000,000 executions for each target.
awk -F '\t' '!/^#/ { sum[$3] += $4 } END { for (name in sum) printf "%12d  %5.1f %%  %s\n", sum[name], sum[name] / 1e6, name }' \
    "$ledger" | sort -n
exit "$failed"
