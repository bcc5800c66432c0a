//! View of all assignments that are committed.

use super::assignment::{Assignment, StreamKey};
use myelin_jsapi::config::{OtherStreams, Storage, StreamConfig};
use myelin_store::{Seq, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Removed streams of one name that are remembered.
const MOST_REPLACED: usize = 64;

/// Streams of the cluster as the meta stream has them.
#[derive(Default)]
pub(in crate::engine) struct Assignments {
    /// The last message that was looked at.
    seen: Seq,
    /// Removed ones, too.
    all: BTreeMap<StreamKey, Arc<Assignment>>,
    /// Sequences of their messages.
    sequences: BTreeMap<StreamKey, Seq>,
}

impl Assignments {
    pub(super) fn seen(&self) -> Seq {
        self.seen
    }

    pub(super) fn see(&mut self, seq: Seq) {
        self.seen = self.seen.max(seq);
    }

    pub(super) fn set(&mut self, assignment: &Arc<Assignment>, seq: Seq) {
        self.sequences.insert(assignment.key.clone(), seq);
        self.all.insert(assignment.key.clone(), Arc::clone(assignment));
    }

    /// The assignment of a stream that is there.
    pub(in crate::engine) fn get(&self, account: &str, stream: &str) -> Option<Arc<Assignment>> {
        let found = self.all.get(&StreamKey::new(account, stream))?;
        (!found.is_removed).then(|| Arc::clone(found))
    }

    /// The assignment of a stream that is or was there.
    pub(super) fn last(&self, key: &StreamKey) -> Option<Arc<Assignment>> {
        self.all.get(key).map(Arc::clone)
    }

    /// When streams of this name were created that are removed, the newest last.
    pub(in crate::engine) fn removed(&self, account: &str, stream: &str) -> Vec<Timestamp> {
        let Some(last) = self.all.get(&StreamKey::new(account, stream)) else { return Vec::new() };
        let mut removed = last.replaces.clone();
        removed.extend(last.is_removed.then_some(last.created));
        removed.drain(..removed.len().saturating_sub(MOST_REPLACED));
        removed
    }

    /// Sequence of the last assignment of a stream; 0 where there is none.
    pub(super) fn last_of(&self, key: &StreamKey) -> Seq {
        self.sequences.get(key).copied().unwrap_or(0)
    }

    /// The proposal that was committed last for a stream.
    pub(super) fn nonce(&self, key: &StreamKey) -> Option<u64> {
        self.all.get(key).map(|assignment| assignment.nonce)
    }

    /// Whether a stream of this name is or was assigned.
    pub(super) fn is_known(&self, account: &str, stream: &str) -> bool {
        self.all.contains_key(&StreamKey::new(account, stream))
    }

    /// Streams of an account, by name.
    pub(in crate::engine) fn of_account(&self, account: &str) -> Vec<Arc<Assignment>> {
        let first = StreamKey::new(account, "");
        let all = self.all.range(first..).take_while(|(key, _)| key.account == account);
        all.filter(|(_, assignment)| !assignment.is_removed).map(|(_, one)| Arc::clone(one)).collect()
    }

    /// Streams of which a server has a replica.
    pub(super) fn on_server(&self, server: &str) -> Vec<Arc<Assignment>> {
        let has = |one: &&Arc<Assignment>| !one.is_removed && one.servers().any(|peer| peer == server);
        self.all.values().filter(has).map(Arc::clone).collect()
    }

    /// Streams that are to have several replicas, or have.
    pub(super) fn replicated(&self) -> Vec<Arc<Assignment>> {
        let has_more = |one: &&Arc<Assignment>| one.peers.len() > 1 || one.config.num_replicas > 1;
        self.all.values().filter(|one| !one.is_removed).filter(has_more).map(Arc::clone).collect()
    }

    /// Streams whose groups are to have other members, and have not as far as was said.
    pub(super) fn under_way(&self) -> Vec<Arc<Assignment>> {
        let all = self.all.values();
        all.filter(|one| !one.is_removed && !one.before.is_empty()).map(Arc::clone).collect()
    }

    /// Replicas that a server has of all streams.
    pub(super) fn replicas_on(&self, server: &str) -> usize {
        let has = |one: &&Arc<Assignment>| !one.is_removed && one.is_on(server);
        self.all.values().filter(has).count()
    }
}

/// Streams of one account, for a look at a configuration.
pub(in crate::engine) struct AccountView(pub(in crate::engine) Vec<Arc<Assignment>>);

impl OtherStreams for AccountView {
    fn find(&self, name: &str) -> Option<Arc<StreamConfig>> {
        let found = self.0.iter().find(|one| one.key.stream == name)?;
        Some(Arc::new(found.config.clone()))
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn reserved(&self, storage: Storage) -> i64 {
        let of = self.0.iter().filter(|one| one.config.storage == storage);
        of.fold(0, |sum, one| sum.saturating_add(one.config.reserved()))
    }

    fn is_taken_by_other(&self, stream: &str, subjects: &[String]) -> bool {
        let overlaps = |own: &String| {
            subjects.iter().any(|subject| myelin_subject::overlaps(own.as_bytes(), subject.as_bytes()))
        };
        self.0.iter().any(|one| one.key.stream != stream && one.config.subjects.iter().any(overlaps))
    }
}
