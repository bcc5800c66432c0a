//! How the server is linked.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |what| env::var(what).unwrap_or_default();
    if target("CARGO_CFG_TARGET_OS") == "linux" && target("CARGO_CFG_TARGET_ENV") == "gnu" {
        // Perf: at a fixed address, as programs in Go are, nothing in the program has to be changed
        // when it is loaded: 330 KiB of memory less for tables of names and functions. Stacks, heap
        // and libraries are at random addresses, as before.
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
