//! What nobody was told of: messages without a reply subject that were not taken, by reason.

/// See the module.
#[derive(Default)]
pub(super) struct Losses(Vec<(u16, u64)>);

impl Losses {
    /// Counts a message that was refused with this error.
    pub(super) fn count(&mut self, err_code: u16) {
        self.count_many(err_code, 1);
    }

    pub(super) fn count_many(&mut self, err_code: u16, messages: u64) {
        match self.0.iter_mut().find(|(code, _)| *code == err_code) {
            Some((_, count)) => *count += messages,
            None => self.0.push((err_code, messages)),
        }
    }

    pub(super) fn by_error(&self) -> &[(u16, u64)] {
        &self.0
    }
}
