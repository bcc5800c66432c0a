//! Bugs that are planted in the shipped code on purpose, to see whether simulations find them
//! (`docs/simulation/planted.md` lists them). In a build without `--cfg planted` none is there:
//! the answer is a constant, and the compiler removes what it guards.

#[cfg(planted)]
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The bug that is awake; 0: none.
#[cfg(planted)]
static AWAKE: AtomicU32 = AtomicU32::new(0);

/// Whether the bug with this number is awake.
#[cfg(planted)]
#[must_use]
pub fn bug(number: u32) -> bool {
    AWAKE.load(Relaxed) == number
}

/// Whether the bug with this number is awake: none is.
#[cfg(not(planted))]
#[must_use]
#[inline(always)]
pub const fn bug(_: u32) -> bool {
    false
}

/// Wakes one bug, and lets the others sleep. Answers whether there are any.
#[allow(unused_variables, reason = "no bug is there without the cfg")]
pub fn wake(number: u32) -> bool {
    #[cfg(planted)]
    AWAKE.store(number, Relaxed);
    cfg!(planted)
}
