//! Scrub: what replicas have stored is read now and then, so that damage is found while others have
//! what it has taken, and before somebody needs it.
//!
//! Each replica is read when its server has begun, and once a week. Whoever meets damage tells of
//! it as any reader does: nothing here knows what follows.

use super::members::MemberTable;

/// Bytes that are read in one beat: some 20 MB in a second.
const SLICE: u64 = 1 << 20;
/// Streams of which some is read in one beat.
const STREAMS: usize = 64;
/// Beats in a week.
pub(super) const WEEK: u64 = 7 * 24 * 3600 * 20;

impl MemberTable {
    /// Reads a slice of what is to be read. Only for threads that may wait.
    pub(super) fn read_slice(&self) {
        let mut left = SLICE;
        for _ in 0..STREAMS {
            let Some((group, from)) = self.take_unread() else { break };
            let Some(member) = self.get(group) else { continue };
            let (next, bytes) = member.read_through(from, left);
            next.into_iter().for_each(|next| self.put_unread(group, next));
            left = left.saturating_sub(bytes);
            if left == 0 {
                break;
            }
        }
        self.end_reading();
    }
}
