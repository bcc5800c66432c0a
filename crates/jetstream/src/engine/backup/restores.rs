//! Budget of all restores of the server: bytes that have come and are not stored yet.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes that all of them may hold of what is not stored yet.
const MOST_HELD: usize = 512 << 20;

/// Budget of all restores of the server. One reference is the server's, two are each restore's.
#[derive(Debug, Default)]
pub(crate) struct Restores {
    held: AtomicUsize,
}

impl Restores {
    /// Counts bytes that are held from now on. False: there is no room for them, and they are not
    /// counted.
    pub(super) fn hold(&self, bytes: usize) -> bool {
        let now = self.held.fetch_add(bytes, Relaxed).saturating_add(bytes);
        if now > MOST_HELD {
            self.release(bytes);
        }
        now <= MOST_HELD
    }

    /// Counts bytes no longer.
    pub(super) fn release(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_found_no_room_is_not_held() {
        let restores = Restores::default();
        assert!(restores.hold(MOST_HELD) && !restores.hold(1), "there is room for so much");
        restores.release(MOST_HELD);
        assert!(restores.hold(MOST_HELD), "what was refused takes no room");
    }
}
