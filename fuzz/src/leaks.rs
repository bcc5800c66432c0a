//! Memory that inputs leave behind: counted by the allocator of the programs, without a sanitizer.
//!
//! LeakSanitizer took half of a fuzzer's time: it writes zeros over each allocation, notes its
//! stack, and looks through the whole heap whenever an input allocates more than it frees. Here an
//! input that leaves bytes behind is run again, and is a find when each of [`RUNS`] leaves more:
//! what is learned once (a cache, a table that grows) is no leak. This finds what can still be
//! reached, too, and counts the whole process, so nothing else may run in it.

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Runs in a row that must leave bytes behind before it is called a leak.
const RUNS: usize = 64;

/// Bytes that one input may have allocated in all: what asks for more follows a length that
/// nobody has checked.
const MOST: usize = 2 << 30;

/// Runs `body` over `data`, and again where bytes are left behind.
///
/// # Panics
/// When each run leaves bytes behind, or one allocates more than `MOST`.
pub fn watched(body: fn(&[u8]), data: &[u8]) {
    let mut left = 0;
    for _ in 0..RUNS {
        let region = Region::new(ALLOCATOR);
        body(data);
        let change = region.change();
        assert!(change.bytes_allocated < MOST, "one input allocates {} bytes", change.bytes_allocated);
        if change.bytes_allocated <= change.bytes_deallocated {
            return;
        }
        left += change.bytes_allocated - change.bytes_deallocated;
    }
    panic!("each of {RUNS} runs leaves memory behind: {left} bytes");
}
