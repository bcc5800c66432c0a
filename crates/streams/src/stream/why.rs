//! Why a stream takes no messages, or loses some: the checks of `admit`, and of the store, asked
//! for a message that nobody has published, outside of the stream's turn.
//!
//! Reads only. That it says what a publish would hear is held by a test that lives beside it
//! (`tests/why.rs`).

use super::rules::PublishRules;
use super::settings::StorageBudget;
use myelin_jsapi::api::why::{Holds, StreamCause};
use myelin_jsapi::config::{Retention, StreamConfig};
use myelin_jsapi::consumer::config::ConsumerConfig;
use myelin_store::{Discard, Filter, StreamReader, StreamState};
use myelin_wire::message_buf::MessageRef;
use std::sync::Arc;

/// Subjects that are looked at one by one, at most.
const MOST_SUBJECTS: usize = 100_000;

/// A stream as those see it who have not its turn.
pub struct StreamFacts<'a> {
    /// The configuration in force.
    pub config: &'a StreamConfig,
    /// Reader of its log.
    pub reader: &'a StreamReader,
    /// Budget of the account in which it counts.
    pub account: &'a StorageBudget,
    /// Budget of the server.
    pub server: &'a StorageBudget,
}

impl StreamFacts<'_> {
    /// Finds what keeps messages from being stored, in the order of the checks. With
    /// [`Holds::All`] there is a cause where no message would be taken, however small; where only
    /// those as large as the others would not be, it is [`Holds::Some`].
    #[must_use]
    pub fn refusals(&self) -> Vec<(Holds, StreamCause)> {
        let mut refusals = Vec::new();
        let rules = PublishRules::new(self.config);
        if let Some(mirror) = &self.config.mirror {
            refusals.push((Holds::All, StreamCause::Mirror { origin: mirror.name.clone() }));
        }
        if rules.check_sealed().is_err() {
            refusals.push((Holds::All, StreamCause::Sealed));
        }
        let totals = self.reader.state().totals;
        // Whoever publishes next finds out whether it still is.
        if self.server.full_at().is_some_and(|at| at > totals.last_timestamp) {
            let error = "the disk had no room when a message should have been stored last".to_owned();
            refusals.push((Holds::All, StreamCause::WaitsForDisk { error }));
        }
        let least = rules.size(&MessageRef { subject: b"a", ..MessageRef::default() });
        let usual = totals.bytes.checked_div(totals.messages).unwrap_or(0).max(least);
        let held = |fits: &dyn Fn(u64) -> bool| match (fits(least), fits(usual)) {
            (false, _) => Some(Holds::All),
            (true, false) => Some(Holds::Some),
            (true, true) => None,
        };
        let signed = |size: u64| i64::try_from(size).unwrap_or(i64::MAX);
        // The rule for the server asks what is there, and not what comes.
        if !self.server.admits(0) {
            let (used, limit) = (self.server.used(), self.server.limit());
            refusals.push((Holds::All, StreamCause::ServerFull { used, limit }));
        }
        if let Some(holds) = held(&|size| self.account.admits(signed(size))) {
            let (used, limit) = (self.account.used(), self.account.limit());
            refusals.push((holds, StreamCause::AccountFull { used, limit }));
        }
        if rules.limits.discard == Discard::New {
            let (bytes, messages) = (totals.bytes, totals.messages);
            if let Some(most) = rules.limits.messages.filter(|most| messages >= *most) {
                refusals.push((Holds::All, StreamCause::Full { limit: "max_msgs", used: messages, most }));
            }
            if let Some(most) = rules.limits.bytes
                && let Some(holds) = held(&|size| bytes + size <= most)
            {
                refusals.push((holds, StreamCause::Full { limit: "max_bytes", used: bytes, most }));
            }
            refusals.extend(self.full_subjects(&rules).map(|cause| (Holds::Some, cause)));
        }
        refusals
    }

    /// Subjects with as many messages as each may have, where it refuses more of them.
    fn full_subjects(&self, rules: &PublishRules) -> Option<StreamCause> {
        let most = rules.limits.messages_per_subject.filter(|_| rules.limits.discard_new_per_subject)?;
        let subjects = self.reader.subjects(b">", None, MOST_SUBJECTS);
        let mut full = subjects.iter().filter(|(_, count)| *count >= most);
        let first = String::from_utf8_lossy(&full.next()?.0).into_owned();
        Some(StreamCause::SubjectsFull { subjects: 1 + full.count() as u64, first, most })
    }

    /// Finds what costs it messages that somebody may still want, or keeps those that nobody wants.
    #[must_use]
    pub fn losses(&self, consumers: &[Arc<ConsumerConfig>]) -> Vec<StreamCause> {
        let state = self.reader.state();
        self.discards(&state).into_iter().chain(self.unwanted(&state, consumers)).collect()
    }

    fn discards(&self, state: &StreamState) -> Option<StreamCause> {
        let limits = super::storage_config(self.config, false).limits;
        let (messages, bytes) = (state.totals.messages, state.totals.bytes);
        let usual = bytes.checked_div(messages)?;
        let of_messages =
            limits.messages.filter(|most| messages >= *most).map(|most| ("max_msgs", messages, most));
        let of_bytes =
            limits.bytes.filter(|most| bytes + usual > *most).map(|most| ("max_bytes", bytes, most));
        let (limit, used, most) = of_messages.or(of_bytes).filter(|_| limits.discard == Discard::Old)?;
        let first_at = self.reader.first_time().ok().flatten()?;
        Some(StreamCause::DiscardsOldest { limit, used, most, first_at })
    }

    /// Messages of a work queue that are for no consumer.
    fn unwanted(&self, state: &StreamState, consumers: &[Arc<ConsumerConfig>]) -> Option<StreamCause> {
        let totals = &state.totals;
        if self.config.retention != Retention::WorkQueue || totals.messages == 0 {
            return None;
        }
        let wants_all = consumers.iter().any(|config| config.filters().next().is_none());
        let filters: Vec<_> = consumers.iter().flat_map(|config| config.filters()).collect();
        let wanted = match (wants_all, filters.is_empty()) {
            (true, _) => return None,
            (false, true) => 0,
            (false, false) => {
                let filter = Filter::any(filters.iter().map(|filter| filter.as_bytes().to_vec()).collect());
                self.reader.count(&filter, totals.first_seq, totals.last_seq).ok()?
            }
        };
        let messages = totals.messages.saturating_sub(wanted);
        let consumers = consumers.len() as u64;
        (messages > 0).then_some(StreamCause::InterestGone { messages, consumers })
    }

    /// Whether nothing was ever stored, though something might have been.
    #[must_use]
    pub fn is_unused(&self) -> Option<StreamCause> {
        let is_unused = self.reader.state().totals.last_seq < self.config.first_seq.max(1);
        let subjects = self.config.subjects.clone();
        (is_unused && !subjects.is_empty()).then_some(StreamCause::NothingPublished { subjects })
    }
}
