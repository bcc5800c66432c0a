# What one does here every day. `just` lists it; everything also works without just, by the lines below.

_default:
    @just --list --unsorted

# Run a server, for example: just server -p 4222 -D
server *ARGS:
    cargo run --release -p myelin-server -- {{ARGS}}

# What is shipped, in target/packages: tarball, .deb, image, symbols, bill of materials (docs/packages.md). With --verify built twice and compared
dist *ARGS:
    cargo run --locked -p myelin-dist -- {{ARGS}}

# All tests; where nats-server 2.15.2 is installed, the transcripts are played against it too
test *ARGS:
    cargo test --workspace {{ARGS}}

# Before each commit: format, lints, tests of what has changed and of the crates above it: just check main
check *ARGS:
    bash .ci/check {{ARGS}}

# Everything that CI does
ci:
    bash .ci/run

# Every interleaving of the claim and the turn
loom:
    bash .ci/loom

# One fuzz target under libFuzzer until it finds something (needs nightly and cargo-fuzz): just fuzz session
fuzz NAME *ARGS:
    mkdir -p fuzz/corpus/{{NAME}}
    cargo +nightly fuzz run --fuzz-dir fuzz/libfuzzer {{NAME}} fuzz/corpus/{{NAME}} fuzz/seeds/{{NAME}} {{ARGS}}

# Every fuzz target for a few seconds, on stable
fuzz-smoke:
    cargo test --workspace --test smoke

# Every fuzz target for two minutes with leak detection, a line each in docs/fuzz-ledger.tsv: just fuzz-nightly -s 60 session
fuzz-nightly *ARGS:
    bash fuzz/libfuzzer/nightly.sh {{ARGS}}

# What takes hours, before an issue ends (deep crash enumeration, models, clusters, fuzzing, soak, conformance): just nightly crash models
nightly *ARGS:
    bash .ci/nightly {{ARGS}}

# The table of docs/performance.md: ours beside nats-server, interleaved, on an otherwise idle machine; streams: --rows js
bench-table *ARGS:
    cargo build --release -p myelin-server -p myelin-lab
    target/release/myelin-lab table --ours target/release/myelin-server --reference nats-server {{ARGS}}

# The systems of a plan side by side (docs/bench-compare.md): just bench-compare s2 --quick
bench-compare *ARGS:
    cargo build --release -p myelin-server -p myelin-lab
    target/release/myelin-lab compare {{ARGS}}

# The store alone beside a null store, on the disk of the current directory (8 GB, some minutes)
bench-store *ARGS:
    cargo build --release -p myelin-lab
    target/release/myelin-lab store {{ARGS}}

# Everything at once for some minutes; fails if memory, files, disk or any table grows (docs/soak.md): just soak 60
soak *ARGS:
    cargo build --release -p myelin-server -p myelin-soak
    target/release/myelin-soak {{ARGS}}

# Three servers that share JetStream, one of them killed, stopped or paused every 20 s; fails if anything acknowledged is missing: just torture 300
# With --members five servers, and replicas and leaders that change all the time: just torture 300 --members --every 10
torture SECONDS *ARGS:
    cargo build --release -p myelin-server -p myelin-cluster-test
    target/release/myelin-torture --program target/release/myelin-server --seconds {{SECONDS}} {{ARGS}}

# Servers of a version before are replaced by this one under load, in any order, and back: just upgrade-test, just upgrade-test COMMIT 5
upgrade-test *ARGS:
    bash .ci/upgrade {{ARGS}}

# Instructions and system calls per message, which noise does not touch (docs/count.md; needs valgrind and strace)
count *ARGS:
    cargo build --release -p myelin-server -p myelin-count
    target/release/myelin-count --server target/release/myelin-server {{ARGS}}

# Small faults, one at a time, and what catches each (docs/planted.md): just planted 3 17
planted *ARGS:
    python3 .ci/planted {{ARGS}}

# Official clients in five languages against the server; SUITE is a checkout of nats.rs, whose own tests run then too
conformance SERVER="target/release/myelin-server" SUITE="":
    cargo build --release -p myelin-server
    MYELIN_SERVER={{SERVER}} bash conformance/python.sh
    bash conformance/go.sh {{SERVER}}
    bash conformance/js.sh {{SERVER}}
    bash conformance/java.sh {{SERVER}}
    bash conformance/websocket.sh {{SERVER}}
    [ -z "{{SUITE}}" ] || bash conformance/rust.sh {{SERVER}} {{SUITE}}

# A store damaged from outside, one file at a time: nothing is missing that nobody spoke of: just damage --rounds 1
damage *ARGS:
    cargo build --release -p myelin-server -p myelin-cli
    python3 conformance/damage/damage.py target/release/myelin-server target/release/myelin {{ARGS}}

fmt:
    cargo fmt --all
    cargo fmt --manifest-path fuzz/libfuzzer/Cargo.toml

doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
