//! View of all assignments that are committed.

use super::assignment::{Asked, Assignment, StreamKey};
use crate::engine::reservations::{place, reserved};
use myelin_jsapi::config::{OtherStreams, Storage, StreamConfig, TakenSubjects};
use myelin_store::{Seq, Timestamp};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Proposals that are remembered, over all streams: more than are committed at once.
const MOST_PROPOSALS: usize = 4096;
/// Removed streams of one name that are remembered.
const MOST_REPLACED: usize = 64;

/// Streams of the cluster as the meta stream has them.
#[derive(Default)]
pub(in crate::engine) struct Assignments {
    /// The last message that was looked at.
    seen: Seq,
    all: BTreeMap<StreamKey, Arc<Assignment>>,
    /// Streams that are removed and were not made anew, without their configurations: apart, so
    /// that who looks at all streams does not look at all that ever were.
    gone: BTreeMap<StreamKey, Arc<Assignment>>,
    /// Sequences of their messages.
    sequences: BTreeMap<StreamKey, Seq>,
    /// When streams were created that were seen here and are removed, of whose names so many others
    /// have been made and removed since that the last assignment says nothing of these any more.
    outlived: BTreeMap<StreamKey, BTreeSet<Timestamp>>,
    /// Sums over those that are there, so that who makes one of ten thousand streams does not look
    /// at all the others.
    accounts: BTreeMap<String, AccountSums>,
    /// Replicas that servers have.
    replicas: BTreeMap<String, usize>,
    /// Streams whose groups are to have other members.
    under_way: BTreeSet<StreamKey>,
    /// Proposals that were committed last: another one for the same stream may have followed before
    /// somebody looks.
    proposals: VecDeque<SeenProposal>,
}

/// Proposal that was committed.
struct SeenProposal {
    seq: Seq,
    nonce: u64,
    asked: Asked,
}

/// Sums over the streams of one account.
#[derive(Default)]
struct AccountSums {
    streams: usize,
    /// Bytes reserved in memory and in files.
    reserved: [i128; 2],
    taken: TakenSubjects,
    /// Mirrors of streams beside them, by the origin's name.
    mirrors: BTreeMap<String, BTreeSet<String>>,
}

impl Assignments {
    pub(super) fn seen(&self) -> Seq {
        self.seen
    }

    pub(super) fn see(&mut self, seq: Seq) {
        self.seen = self.seen.max(seq);
    }

    /// All assignments are to be looked at once more.
    pub(super) fn see_again(&mut self) {
        self.seen = 0;
    }

    pub(super) fn set(&mut self, assignment: &Arc<Assignment>, seq: Seq) {
        self.sequences.insert(assignment.key.clone(), seq);
        let (nonce, asked) = (assignment.nonce, Asked { client: None, ..assignment.asked.clone() });
        self.proposals.push_back(SeenProposal { seq, nonce, asked });
        if self.proposals.len() > MOST_PROPOSALS {
            self.proposals.pop_front();
        }
        let key = assignment.key.clone();
        let gone = self.gone.remove(&key);
        let before = if assignment.is_removed {
            self.gone.insert(key.clone(), Arc::new(assignment.without_config()));
            self.all.remove(&key)
        } else {
            self.all.insert(key, Arc::clone(assignment))
        };
        gone.iter().chain(&before).for_each(|before| self.note_outlived(before, assignment));
        before.into_iter().for_each(|before| self.take_out(&before));
        if !assignment.is_removed {
            self.count_in(assignment);
        }
    }

    fn count_in(&mut self, assignment: &Assignment) {
        let Assignment { key, config, .. } = assignment;
        let sums = self.accounts.entry(key.account.clone()).or_default();
        sums.streams += 1;
        let bytes = reserved(config);
        sums.reserved = [0, 1].map(|at| sums.reserved[at] + bytes[at]);
        sums.taken.add(&key.stream, &config.subjects);
        if let Some(origin) = mirrored(config) {
            sums.mirrors.entry(origin.to_owned()).or_default().insert(key.stream.clone());
        }
        for server in assignment.servers() {
            *self.replicas.entry(server.clone()).or_default() += 1;
        }
        if !assignment.before.is_empty() {
            self.under_way.insert(key.clone());
        }
    }

    fn take_out(&mut self, assignment: &Assignment) {
        let Assignment { key, config, .. } = assignment;
        if let Some(sums) = self.accounts.get_mut(&key.account) {
            sums.streams -= 1;
            let bytes = reserved(config);
            sums.reserved = [0, 1].map(|at| sums.reserved[at] - bytes[at]);
            sums.taken.remove(&key.stream, &config.subjects);
            if let Some(mirrors) = mirrored(config).and_then(|origin| sums.mirrors.get_mut(origin)) {
                mirrors.remove(&key.stream);
            }
            sums.mirrors.retain(|_, mirrors| !mirrors.is_empty());
            if sums.streams == 0 {
                self.accounts.remove(&key.account);
            }
        }
        for server in assignment.servers() {
            if let Some(count) = self.replicas.get_mut(server) {
                *count -= 1;
            }
        }
        self.under_way.remove(key);
    }

    fn note_outlived(&mut self, before: &Assignment, now: &Assignment) {
        let is_named = before.created == now.created || now.replaces.contains(&before.created);
        // One that was followed by few others, and is not named, was not removed.
        if !is_named && now.replaces.len() >= MOST_REPLACED {
            self.outlived.entry(now.key.clone()).or_default().insert(before.created);
        }
    }

    /// Whether a stream of this name that was created then is removed, as this assignment says or
    /// as is known here.
    pub(super) fn has_replaced(&self, assignment: &Assignment, created: Timestamp) -> bool {
        let is_outlived = || self.outlived.get(&assignment.key).is_some_and(|all| all.contains(&created));
        assignment.replaces.contains(&created) || is_outlived()
    }

    /// The server has nothing any more of streams of this name that are removed.
    pub(super) fn forget_outlived(&mut self, key: &StreamKey) {
        self.outlived.remove(key);
    }

    /// When the latest of all streams was made, removed ones among them, by the clocks of who made
    /// them.
    pub(super) fn latest(&self) -> Timestamp {
        let all = self.all.values().chain(self.gone.values());
        all.map(|assignment| assignment.created).max().unwrap_or(0)
    }

    /// The assignment of a stream that is there.
    pub(in crate::engine) fn get(&self, account: &str, stream: &str) -> Option<Arc<Assignment>> {
        self.all.get(&StreamKey::new(account, stream)).map(Arc::clone)
    }

    /// The assignment of a stream that is or was there.
    pub(super) fn last(&self, key: &StreamKey) -> Option<Arc<Assignment>> {
        self.all.get(key).or_else(|| self.gone.get(key)).map(Arc::clone)
    }

    /// When streams of this name were created that are removed, the newest last.
    pub(in crate::engine) fn removed(&self, account: &str, stream: &str) -> Vec<Timestamp> {
        let Some(last) = self.last(&StreamKey::new(account, stream)) else { return Vec::new() };
        let mut removed = last.replaces.clone();
        removed.extend(last.is_removed.then_some(last.created));
        removed.drain(..removed.len().saturating_sub(MOST_REPLACED));
        removed
    }

    /// Sequence of the last assignment of a stream; 0 where there is none.
    pub(super) fn last_of(&self, key: &StreamKey) -> Seq {
        self.sequences.get(key).copied().unwrap_or(0)
    }

    /// Whether a proposal was committed that was decided on the message `on` of its stream; `None`:
    /// not yet, and it may be.
    pub(super) fn outcome_of(&self, (key, nonce): (&StreamKey, u64), on: Seq) -> Option<bool> {
        let is_seen = self.proposals.iter().rev().any(|seen| seen.nonce == nonce);
        let is_late = self.last_of(key) > on;
        (is_seen || is_late).then_some(is_seen)
    }

    /// Whether a proposal was committed, and looked at here, a moment ago.
    pub(super) fn has_seen(&self, nonce: u64) -> bool {
        self.proposals.iter().rev().any(|seen| seen.nonce == nonce)
    }

    /// Whether something was committed behind the message `after` that was asked for with this
    /// subject and for an answer there: whoever led then has taken the request.
    pub(in crate::engine) fn was_taken(&self, after: Seq, (subject, reply): (&str, &[u8])) -> bool {
        let newest = self.proposals.iter().rev().take_while(|seen| seen.seq > after);
        let is_it = |asked: &Asked| asked.subject == subject && asked.reply.as_bytes() == reply;
        newest.filter(|seen| !seen.asked.reply.is_empty()).any(|seen| is_it(&seen.asked))
    }

    /// Whether a stream is known already that an assignment is about.
    pub(super) fn is_of(&self, assignment: &Assignment) -> bool {
        self.last(&assignment.key).is_some_and(|known| known.created == assignment.created)
    }

    /// Streams of an account, by name.
    pub(in crate::engine) fn of_account(&self, account: &str) -> Vec<Arc<Assignment>> {
        let first = StreamKey::new(account, "");
        let all = self.all.range(first..).take_while(|(key, _)| key.account == account);
        all.map(|(_, one)| Arc::clone(one)).collect()
    }

    /// Streams that copy others, by a mirror or by sources.
    pub(in crate::engine) fn copies(&self) -> Vec<Arc<Assignment>> {
        let copies = |one: &&Arc<Assignment>| one.config.mirror.is_some() || !one.config.sources.is_empty();
        self.all.values().filter(copies).map(Arc::clone).collect()
    }

    /// Streams of which a server has a replica.
    pub(super) fn on_server(&self, server: &str) -> Vec<Arc<Assignment>> {
        self.all.values().filter(|one| one.is_on(server)).map(Arc::clone).collect()
    }

    /// Streams with replicas on servers that are not in the cluster any more, and those that have
    /// fewer replicas than they want, or are to leave a server, while nothing else is under way.
    pub(super) fn incomplete(&self, servers: &[String]) -> Vec<Arc<Assignment>> {
        let lacks_some = |one: &&Arc<Assignment>| {
            let wanted = usize::try_from(one.config.num_replicas).unwrap_or(1);
            let is_gone = one.peers.iter().any(|peer| !servers.contains(peer));
            let leaves = one.leaves.iter().any(|server| one.peers.contains(server));
            let is_settled = one.before.is_empty();
            is_gone || is_settled && (leaves || one.peers.len() < wanted)
        };
        self.all.values().filter(lacks_some).map(Arc::clone).collect()
    }

    /// Streams whose groups are to have other members, and have not as far as was said.
    pub(super) fn under_way(&self) -> Vec<Arc<Assignment>> {
        self.under_way.iter().filter_map(|key| self.all.get(key).cloned()).collect()
    }

    /// Replicas that a server has of all streams.
    pub(super) fn replicas_on(&self, server: &str) -> usize {
        self.replicas.get(server).copied().unwrap_or(0)
    }

    /// Mirrors in an account of one of its streams, by name.
    pub(in crate::engine) fn mirrors_of(&self, account: &str, origin: &str) -> Vec<String> {
        let mirrors = self.accounts.get(account).and_then(|sums| sums.mirrors.get(origin));
        mirrors.into_iter().flatten().cloned().collect()
    }
}

/// Name of the stream beside it that a stream is a mirror of.
fn mirrored(config: &StreamConfig) -> Option<&str> {
    let mirror = config.mirror.as_ref()?;
    mirror.external.is_none().then_some(mirror.name.as_str())
}

/// Streams of one account, for a look at a configuration.
pub(in crate::engine) struct AccountView<'a> {
    /// Streams of all accounts.
    pub(in crate::engine) view: &'a Assignments,
    /// Name of the account.
    pub(in crate::engine) account: &'a str,
}

impl AccountView<'_> {
    fn sums(&self) -> Option<&AccountSums> {
        self.view.accounts.get(self.account)
    }
}

impl OtherStreams for AccountView<'_> {
    fn find(&self, name: &str) -> Option<Arc<StreamConfig>> {
        let found = self.view.get(self.account, name)?;
        Some(Arc::new(found.config.clone()))
    }

    fn list(&self) -> Vec<Arc<StreamConfig>> {
        let assigned = self.view.of_account(self.account);
        assigned.iter().map(|one| Arc::new(one.config.clone())).collect()
    }

    fn count(&self) -> usize {
        self.sums().map_or(0, |sums| sums.streams)
    }

    fn reserved(&self, storage: Storage) -> i64 {
        let bytes = self.sums().map_or(0, |sums| sums.reserved[place(storage)]);
        i64::try_from(bytes).unwrap_or(i64::MAX)
    }

    fn is_taken_by_other(&self, stream: &str, subjects: &[String]) -> bool {
        self.sums().is_some_and(|sums| sums.taken.is_taken_by_other(stream, subjects))
    }
}

#[cfg(test)]
mod tests {
    use super::super::assignment::AssignedGroup;
    use super::*;
    use myelin_jsapi::config::StreamSource;
    use myelin_stdx::rng::Rng;

    /// Any assignment of one of a few streams.
    fn any(rng: &mut Rng) -> Assignment {
        let mut peers = |most: u64| -> Vec<String> {
            let count = rng.below(most + 1);
            let mut peers: Vec<String> = (0..count).map(|_| format!("n{}", rng.below(5))).collect();
            peers.sort();
            peers.dedup();
            peers
        };
        let (peers, before) = (peers(3), peers(2));
        let mirror =
            (rng.below(4) == 0).then(|| StreamSource { name: "S0".into(), ..StreamSource::default() });
        let account = ["A", "B"][rng.below(2) as usize];
        let sample = Assignment::sample(account, &format!("S{}", rng.below(4)));
        Assignment {
            peers,
            before,
            group: AssignedGroup { name: "S-R3F-x".into(), recovery: None },
            config: StreamConfig {
                subjects: vec![format!("s.{}", rng.below(4)), "t.*".into()],
                storage: if rng.below(2) == 0 { Storage::File } else { Storage::Memory },
                max_bytes: rng.below(100) as i64,
                mirror,
                ..StreamConfig::default()
            },
            is_removed: rng.below(3) == 0,
            ..sample
        }
    }

    #[test]
    fn a_proposal_is_known_that_another_one_has_followed() {
        let (mut rng, mut view) = (Rng::seeded(7), Assignments::default());
        let first = Assignment { nonce: 11, ..any(&mut rng) };
        let of = |nonce| (&first.key, nonce);
        assert_eq!(view.outcome_of(of(11), 0), None);
        view.set(&Arc::new(first.clone()), 1);
        view.set(&Arc::new(Assignment { nonce: 12, ..first.clone() }), 2);
        assert_eq!((view.outcome_of(of(11), 0), view.outcome_of(of(12), 1)), (Some(true), Some(true)));
        assert_eq!(view.outcome_of(of(13), 1), Some(false), "another one was quicker");
        assert_eq!(view.outcome_of(of(13), 2), None);
    }

    #[test]
    fn of_a_stream_that_is_removed_its_configuration_is_not_kept() {
        let (mut rng, mut view) = (Rng::seeded(7), Assignments::default());
        let there =
            Arc::new(Assignment { is_removed: false, replaces: vec![3], created: 5, ..any(&mut rng) });
        view.set(&there, 1);
        assert_eq!(view.last(&there.key), Some(Arc::clone(&there)));
        view.set(&Arc::new(Assignment { is_removed: true, ..(*there).clone() }), 2);
        let gone = view.last(&there.key).expect("it is known that it was there");
        let bare = StreamConfig { name: there.config.name.clone(), ..StreamConfig::default() };
        assert_eq!((gone.is_removed, gone.id, &gone.config), (true, there.id, &bare));
        let (account, stream) = (&there.key.account, &there.key.stream);
        assert_eq!(view.removed(account, stream), [3, 5]);
        assert_eq!((view.get(account, stream), view.latest()), (None, 5));
        assert!(view.is_of(&there) && view.all.is_empty());
        view.set(&there, 3);
        assert_eq!(view.last(&there.key), Some(there));
        assert!(view.gone.is_empty());
    }

    #[test]
    fn sums_are_those_of_the_streams_that_are_there() {
        let (mut rng, mut view) = (Rng::seeded(5), Assignments::default());
        for seq in 1..2000 {
            view.set(&Arc::new(any(&mut rng)), seq);
            let account = ["A", "B"][rng.below(2) as usize];
            let (all, sums) = (view.of_account(account), AccountView { view: &view, account });
            assert_eq!(sums.count(), all.len());
            for storage in [Storage::File, Storage::Memory] {
                let of = all.iter().filter(|one| one.config.storage == storage);
                assert_eq!(sums.reserved(storage), of.map(|one| one.config.reserved()).sum::<i64>());
            }
            let wanted = [format!("s.{}", rng.below(4))];
            let takes = |one: &Arc<Assignment>| {
                let overlaps = |own: &String| myelin_subject::overlaps(own.as_bytes(), wanted[0].as_bytes());
                one.key.stream != "S1" && one.config.subjects.iter().any(overlaps)
            };
            assert_eq!(sums.is_taken_by_other("S1", &wanted), all.iter().any(takes));
            let mirrors = all.iter().filter(|one| one.config.mirror.is_some());
            let mirrors: Vec<String> = mirrors.map(|one| one.key.stream.clone()).collect();
            assert_eq!(view.mirrors_of(account, "S0"), mirrors);
            let there = [view.of_account("A"), view.of_account("B")].concat();
            for server in ["n0", "n4"] {
                assert_eq!(view.replicas_on(server), there.iter().filter(|one| one.is_on(server)).count());
            }
            let under_way: Vec<_> = there.iter().filter(|one| !one.before.is_empty()).cloned().collect();
            assert_eq!(view.under_way(), under_way);
        }
    }
}
