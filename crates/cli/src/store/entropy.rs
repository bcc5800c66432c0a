//! Randomness and the time of the machine, for a store that is written to.

use std::time::SystemTime;

use myelin_store::Timestamp;
use myelin_store::entropy::Entropy;

/// Keys that nobody can guess.
#[derive(Debug)]
pub(super) struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        myelin_stdx::entropy::OsEntropy.fill(bytes);
    }
}

/// The time, in nanoseconds.
pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::try_from(since.as_nanos()).unwrap_or(Timestamp::MAX)
}
