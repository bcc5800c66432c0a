//! Reservations: bytes in memory and in files that streams have by their `max_bytes`, of all
//! accounts together. The server has one count of them, so that two accounts that ask at once are
//! not promised the same bytes.

use myelin_jsapi::config::{Storage, StreamConfig};
use myelin_stdx::sync::lock;
use std::sync::{Arc, Mutex};

/// Bytes in memory and in files. Wider than one limit: the sum of many may be.
type Bytes = [i128; 2];

/// Reservations of all streams.
#[derive(Default)]
pub(super) struct Reservations(Mutex<Bytes>);

/// Bytes that are held for a stream until its table counts it, or it is given up.
pub(super) struct HeldBytes {
    of: Arc<Reservations>,
    bytes: Bytes,
}

/// Bytes that a stream reserves of what its account may have, with its replicas.
pub(super) fn reserved(config: &StreamConfig) -> [i128; 2] {
    in_storage(config, config.reserved())
}

/// Bytes that a stream reserves of what a server has, which has one replica.
pub(super) fn reserved_here(config: &StreamConfig) -> [i128; 2] {
    in_storage(config, config.max_bytes.max(0))
}

fn in_storage(config: &StreamConfig, reserved: i64) -> Bytes {
    let mut bytes = Bytes::default();
    bytes[place(config.storage)] = i128::from(reserved);
    bytes
}

/// Where sums of a storage stand.
pub(super) fn place(storage: Storage) -> usize {
    usize::from(storage == Storage::File)
}

impl Reservations {
    /// Bytes in memory and in files.
    pub(super) fn get(&self) -> [i64; 2] {
        lock(&self.0).map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX))
    }

    /// A stream has other reservations than it had, or has come or gone.
    pub(super) fn replace(&self, before: Bytes, now: Bytes) {
        let mut bytes = lock(&self.0);
        *bytes = [0, 1].map(|at| bytes[at] + now[at] - before[at]);
    }

    /// Holds what a stream reserves beyond what it had before, if there are `most` in all. What it
    /// gives up counts when it is given up.
    pub(super) fn hold(self: &Arc<Self>, before: Bytes, now: Bytes, most: [i64; 2]) -> Option<HeldBytes> {
        let mut bytes = lock(&self.0);
        let more = [0, 1].map(|at| (now[at] - before[at]).max(0));
        if (0..2).any(|at| more[at] > 0 && bytes[at] + more[at] > i128::from(most[at])) {
            return None;
        }
        *bytes = [0, 1].map(|at| bytes[at] + more[at]);
        Some(HeldBytes { of: Arc::clone(self), bytes: more })
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.of.replace(self.bytes, Bytes::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_there_for_nobody_else() {
        let all = Arc::<Reservations>::default();
        let most = [10, 10];
        let held = all.hold([0; 2], [0, 6], most).expect("there is room");
        assert!(all.hold([0; 2], [0, 5], most).is_none());
        assert!(all.hold([0; 2], [5, 0], most).is_some(), "memory is another matter");
        drop(held);
        assert_eq!(all.get(), [0, 0]);
        all.replace([0; 2], [0, 8]);
        assert!(all.hold([0, 8], [0, 11], most).is_none());
        assert!(all.hold([0, 8], [0, 2], [0, 1]).is_some(), "nobody is kept from taking less");
        assert_eq!(all.get(), [0, 8]);
    }
}
