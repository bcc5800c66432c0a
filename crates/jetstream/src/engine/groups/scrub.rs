//! Scrub: what replicas have stored is read now and then, so that damage is found while others have
//! what it has taken, and before somebody needs it.
//!
//! Each replica is read when its server has begun, and once a week. Whoever meets damage tells of
//! it as any reader does: nothing here knows what follows.

use super::Groups;
use std::sync::Weak;

/// Bytes that are read in one beat: some 20 MB in a second.
const SLICE: u64 = 1 << 20;
/// Streams of which some is read in one beat.
const STREAMS: usize = 64;
/// Beats in a week.
pub(super) const WEEK: u64 = 7 * 24 * 3600 * 20;

impl Groups {
    /// Has a slice of what is to be read read, on the thread for backups.
    pub(super) fn scrub(&self) {
        if !self.members.begin_reading() {
            return;
        }
        let groups = Weak::clone(&self.me_weak);
        self.host.spawn_backup(Box::new(move || {
            if let Some(groups) = groups.upgrade() {
                groups.read_slice();
            }
        }));
    }

    fn read_slice(&self) {
        let mut left = SLICE;
        for _ in 0..STREAMS {
            let Some((group, from)) = self.members.take_unread() else { break };
            let Some(member) = self.members.get(group) else { continue };
            let (next, bytes) = member.read_through(from, left);
            next.into_iter().for_each(|next| self.members.put_unread(group, next));
            left = left.saturating_sub(bytes);
            if left == 0 {
                break;
            }
        }
        self.members.end_reading();
    }
}
