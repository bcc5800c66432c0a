//! The twin ends and begins again, with what was saved.

use super::Twin;
use myelin_store::Seq;
use std::collections::BTreeMap;

impl Twin {
    /// The process ends, and another one begins with what was saved, in a stream that ends with
    /// `last`. What that one notices of the stream is saved with the next round of the log, and
    /// lost if it ends before.
    pub(in super::super) fn restart(&mut self, loses: bool, last: Seq) {
        if loses {
            self.state = self.saved.clone();
        }
        self.lasts.clear();
        self.again.clear();
        self.waiting.clear();
        self.last_look = 0;
        self.drop_below_first();
        self.cut_above(last);
        self.notice_removed();
        // Nobody is told of what was removed meanwhile.
        self.said.clear();
        self.from = (self.state.delivered.1 + 1).max(self.first);
        let through = self.config.places.lasts_through.min(last);
        if self.state.delivered.1 < through {
            let delivered = self.state.delivered.1;
            self.lasts = self.last_of_each(through);
            self.lasts.retain(|seq| *seq > delivered);
            self.from = (through + 1).max(self.first);
        }
        self.has_pause = self.is_paused();
    }

    /// The last wanted message of each subject up to `through`.
    pub(super) fn last_of_each(&self, through: Seq) -> Vec<Seq> {
        let mut last: BTreeMap<&str, Seq> = BTreeMap::new();
        for seq in self.wanted().into_iter().filter(|seq| *seq <= through) {
            last.insert(self.messages[&seq].subject, seq);
        }
        let mut lasts: Vec<Seq> = last.into_values().collect();
        lasts.sort_unstable();
        lasts
    }

    /// A place behind the end of the stream goes back to the end.
    fn cut_above(&mut self, last: Seq) {
        let state = &mut self.state;
        state.counts.retain(|seq, _| *seq <= last);
        if state.delivered.1 <= last {
            return;
        }
        state.pending.retain(|seq, _| *seq <= last);
        state.delivered.1 = last;
        state.floor.1 = state.floor.1.min(last);
        if state.pending.is_empty() {
            state.floor = state.delivered;
        }
    }
}
