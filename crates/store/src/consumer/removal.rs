//! Log of consumers while their stream is being removed: it may stay, and then so do they.

use super::consumers::{ChangeSink, Consumers};

impl Consumers {
    /// Writes nothing any more, as if the consumers were in memory: their stream is being removed.
    /// What was written stays as durable as it is, for the stream may stay, too.
    pub fn suspend_log(&mut self) {
        self.sink = match std::mem::replace(&mut self.sink, ChangeSink::Nowhere) {
            ChangeSink::Log(log) => ChangeSink::Suspended(Box::new(log)),
            other => other,
        };
    }

    /// Whether nothing is written because the stream is being removed.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        matches!(self.sink, ChangeSink::Suspended(_))
    }

    /// Takes [`Consumers::suspend_log`] back: the next flush writes all that is known into another
    /// file.
    pub fn resume_log(&mut self) {
        self.sink = match std::mem::replace(&mut self.sink, ChangeSink::Nowhere) {
            ChangeSink::Suspended(mut log) => {
                // Also if all of them are gone: no id is given out again.
                log.fall_behind(self.next > 1);
                ChangeSink::Log(*log)
            }
            other => other,
        };
    }

    /// Lets go of the file for good, after [`Consumers::suspend_log`]: the stream is gone, and its
    /// directory will be.
    pub fn end_log(&mut self) {
        if let ChangeSink::Suspended(log) = &mut self.sink {
            log.let_go();
        }
    }
}
