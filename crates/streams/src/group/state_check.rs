//! Digest of the stream as of one entry, whatever is committed together with it: the same moment on
//! all members, which may hear of commits by steps of any length.

use myelin_store::StateDigest;

use super::GroupMember;
use crate::stream::{Effects, StreamCore};

/// Entry as of which the stream is looked at.
#[derive(Debug, Default)]
pub(super) struct StateCheck {
    /// The entry; `None`: nobody wants to know.
    at: Option<u64>,
    drawn: Option<StateDigest>,
}

impl GroupMember {
    /// Has the stream's state drawn as of an entry, when that is committed and nothing behind it
    /// is. Never, if more is committed already.
    pub fn draw_state_at(&mut self, index: u64) {
        self.state_check = StateCheck { at: Some(index), drawn: None };
    }

    /// The state that was drawn since the last call.
    pub fn take_drawn_state(&mut self) -> Option<StateDigest> {
        self.state_check.drawn.take()
    }

    /// The log is committed up to `commit`, which the stream may not know yet: draws the state on
    /// the way there.
    pub(super) fn pass_state_check(&mut self, commit: u64, stream: &mut StreamCore, effects: &mut Effects) {
        let Some(at) = self.state_check.at.filter(|&at| at <= commit) else { return };
        self.state_check.at = None;
        if stream.store().group().is_some_and(|position| position.commit <= at && at <= position.index) {
            stream.committed(at, effects);
            self.state_check.drawn = stream.state_digest();
        }
    }
}
