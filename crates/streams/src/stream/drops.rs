//! Drops: messages without a reply subject that were not taken and of which nobody was told, by
//! reason.

/// Messages without a reply subject that were not stored, counted by reason.
#[derive(Default)]
pub(super) struct Drops(Vec<(u16, u64)>);

impl Drops {
    /// Counts a message that was refused with this error.
    pub(super) fn count(&mut self, err_code: u16) {
        self.count_many(err_code, 1);
    }

    pub(super) fn count_many(&mut self, err_code: u16, messages: u64) {
        debug_assert!(messages > 0, "what was dropped is at least one message");
        match self.0.iter_mut().find(|(code, _)| *code == err_code) {
            Some((_, count)) => *count += messages,
            None => self.0.push((err_code, messages)),
        }
    }

    pub(super) fn by_error(&self) -> &[(u16, u64)] {
        &self.0
    }
}
