//! How the server is linked.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=start.ld");
    let told = |what| env::var(what).unwrap_or_default();
    if told("CARGO_CFG_TARGET_OS") == "linux" && told("CARGO_CFG_TARGET_ENV") == "gnu" {
        // Perf: at a fixed address, as programs in Go are, nothing in the program has to be changed
        // when it is loaded: 330 KiB of memory less for tables of names and functions. Stacks, heap
        // and libraries are at random addresses, as before.
        println!("cargo::rustc-link-arg-bins=-no-pie");
        if told("PROFILE") == "release" {
            // Perf: of 14 MB of functions a start runs 1 MB, which lay everywhere: 9.3 MiB were
            // resident. The script puts those first. It is written by `.ci/start-order`; what it
            // says of functions that are called otherwise by now does nothing.
            let script = Path::new(&told("CARGO_MANIFEST_DIR")).join("start.ld");
            println!("cargo::rustc-link-arg-bins=-T{}", script.display());
        }
    }
}
