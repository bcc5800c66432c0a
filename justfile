# What one does here every day. `just` lists it; everything also works without just, by the lines below.

_default:
    @just --list --unsorted

# Run a server, for example: just server -p 4222 -D
server *ARGS:
    cargo run --release -p myelin-server -- {{ARGS}}

# All tests; where nats-server 2.15.2 is installed, the transcripts are played against it too
test *ARGS:
    cargo test --workspace {{ARGS}}

# Everything that CI does
ci:
    bash .ci/run

# Every interleaving of the claim and the turn
loom:
    RUSTFLAGS="--cfg loom -C debug-assertions" cargo test -p myelin-stdx --release --lib --target-dir target/loom

# One fuzz target under libFuzzer until it finds something (needs nightly and cargo-fuzz): just fuzz session
fuzz NAME *ARGS:
    mkdir -p fuzz/corpus/{{NAME}}
    cargo +nightly fuzz run {{NAME}} fuzz/corpus/{{NAME}} fuzz/seeds/{{NAME}} {{ARGS}}

# Every fuzz target for a few seconds, on stable
fuzz-smoke:
    cargo test --manifest-path fuzz/Cargo.toml

# Every fuzz target for two minutes with leak detection, a line each in docs/fuzz-ledger.tsv: just fuzz-nightly -s 60 session
fuzz-nightly *ARGS:
    bash fuzz/nightly.sh {{ARGS}}

# What runs every night
nightly: fuzz-nightly

# The table of docs/performance.md: ours beside nats-server, interleaved, on an otherwise idle machine; streams: --rows js
bench-table *ARGS:
    cargo build --release -p myelin-server -p myelin-cli
    target/release/myelin bench table --ours target/release/myelin-server --reference nats-server {{ARGS}}

# The systems of a plan side by side (docs/bench-compare.md): just bench-compare s2 --quick
bench-compare *ARGS:
    cargo build --release -p myelin-server -p myelin-cli
    target/release/myelin bench compare {{ARGS}}

# The store alone beside a null store, on the disk of the current directory (8 GB, some minutes)
bench-store *ARGS:
    cargo build --release -p myelin-cli
    target/release/myelin bench store {{ARGS}}

# Everything at once for some minutes; fails if memory, files, disk or any table grows (docs/soak.md): just soak 60
soak *ARGS:
    cargo build --release -p myelin-server -p myelin-soak
    target/release/myelin-soak {{ARGS}}

# Instructions and system calls per message, which noise does not touch (docs/count.md; needs valgrind and strace)
count *ARGS:
    cargo build --release -p myelin-server -p myelin-count
    target/release/myelin-count --server target/release/myelin-server {{ARGS}}

# Official clients in five languages against the server; SUITE is a checkout of nats.rs, whose own tests run then too
conformance SERVER="target/release/myelin-server" SUITE="":
    cargo build --release -p myelin-server
    MYELIN_SERVER={{SERVER}} bash conformance/python.sh
    bash conformance/go.sh {{SERVER}}
    bash conformance/js.sh {{SERVER}}
    bash conformance/java.sh {{SERVER}}
    bash conformance/websocket.sh {{SERVER}}
    [ -z "{{SUITE}}" ] || bash conformance/rust.sh {{SERVER}} {{SUITE}}

fmt:
    cargo fmt --all
    cargo fmt --manifest-path fuzz/Cargo.toml

doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
