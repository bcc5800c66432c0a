//! One member with its stream and its disk.

use std::sync::Arc;

use myelin_disk::faulty::{FaultyDisk, Survival};
use myelin_jsapi::config::{Storage, StreamConfig};
use myelin_replica::hard_state::HardState;
use myelin_replica::{GroupId, Peer, RaftMessage, Vote};
use myelin_stdx::histogram::Latencies;
use myelin_store::entropy::SeededEntropy;
use myelin_store::{GroupPosition, Seq, Store, StoreOptions, Timestamp, Wait};
use myelin_wire::message_buf::{MessageBuf, MessageRef};

use crate::ReplicaRole;
use crate::group::{GroupMember, GroupStart, GroupVotes, KeptLogBounds, MemberFailed, Persistence};
use crate::stream::tests::{block, config};
use crate::stream::{Effects, StreamCore, StreamSettings, storage_config};

const GROUP: GroupId = GroupId(7);

/// A member that lives, or its disk.
pub(super) struct Replica {
    pub(super) number: usize,
    pub(super) disk: FaultyDisk,
    live: Option<Live>,
    voters: Vec<Peer>,
    persistence: Persistence,
    lives: u64,
    /// Answers to clients in all its lives: reply subject, payload.
    pub(super) said: Vec<(String, String)>,
    pub(super) needs_sync: bool,
    pub(super) entry_bytes: usize,
    /// Whether it dies when it is to remember a vote, with everything said that it has said then.
    pub(super) dies_at_vote: bool,
    /// Whether votes are not made durable, until [`Replica::persist_vote`].
    pub(super) are_votes_held: bool,
    held_vote: Option<Vote>,
    pub(super) commit_waits: Arc<Latencies>,
}

struct Live {
    core: StreamCore,
    member: GroupMember,
    votes: GroupVotes,
    store: Store,
    effects: Effects,
}

fn stream_config() -> StreamConfig {
    StreamConfig { storage: Storage::File, max_msgs_per_subject: 50, ..config() }
}

fn settings() -> StreamSettings {
    StreamSettings { role: ReplicaRole::Follower, ..StreamSettings::default() }
}

impl Replica {
    pub(super) fn new(number: usize, voters: &[Peer], persistence: Persistence, now: Timestamp) -> Self {
        let disk = FaultyDisk::new(number as u64 + 1);
        let mut replica = Self {
            number,
            disk,
            live: None,
            voters: voters.to_vec(),
            persistence,
            lives: 0,
            said: Vec::new(),
            needs_sync: false,
            entry_bytes: 600,
            dies_at_vote: false,
            are_votes_held: false,
            held_vote: None,
            commit_waits: Arc::default(),
        };
        let (store, _) = replica.open_store();
        let stored = storage_config(&stream_config(), false);
        let mut stream = store.create_stream("A", "S", b"", stored, now).unwrap();
        let position = GroupPosition { epoch: 1, term: 0, index: 0, chain: 0, commit: 0 };
        stream.join_group(position, now).unwrap();
        let core = StreamCore::new(Arc::new(stream_config()), stream, settings(), now);
        replica.begin(store, core);
        replica.sync(now);
        replica
    }

    fn open_store(&self) -> (Store, myelin_store::StoreReport) {
        let options = StoreOptions {
            journal_file_bytes: 1 << 20,
            headroom_bytes: 1 << 20,
            segment_bytes: Some(64 << 10),
            ..StoreOptions::new("/store")
        };
        let entropy = Arc::new(SeededEntropy::new(self.number as u64));
        Store::open(Arc::new(self.disk.clone()), options, entropy).unwrap()
    }

    fn begin(&mut self, store: Store, mut core: StreamCore) {
        // So that what is published at once is often a decision of several entries.
        core.store_mut().bound_entries(self.entry_bytes);
        // A member begins with what is synced, if that is what counts.
        store.settle(&|| 1).unwrap();
        store.journal().round_now(&|| 1).unwrap();
        let (votes, _) = GroupVotes::open(&store, None).unwrap();
        let vote = votes.get(GROUP).map_or(Vote::default(), |state| state.vote);
        let start = GroupStart { vote, ..self.start() };
        let member = GroupMember::open(&mut core, start).unwrap();
        self.live = Some(Live { core, member, votes, store, effects: Effects::default() });
        self.lives += 1;
    }

    pub(super) fn start(&self) -> GroupStart {
        GroupStart {
            is_damaged: false,
            me: self.peer(),
            voters: self.voters.clone(),
            vote: Vote::default(),
            is_amnesiac: false,
            seed: self.lives * 100 + self.number as u64,
            persistence: self.persistence,
            kept_log: KeptLogBounds::default(),
            commit_waits: Arc::clone(&self.commit_waits),
        }
    }

    pub(super) fn peer(&self) -> Peer {
        Peer::from_number(self.number as u64 + 1).unwrap()
    }

    pub(super) fn is_alive(&self) -> bool {
        self.live.is_some()
    }

    pub(super) fn core(&self) -> &StreamCore {
        &self.live.as_ref().expect("it lives").core
    }

    pub(super) fn core_mut(&mut self) -> &mut StreamCore {
        &mut self.live.as_mut().expect("it lives").core
    }

    pub(super) fn member(&mut self) -> &mut GroupMember {
        &mut self.live.as_mut().expect("it lives").member
    }

    pub(super) fn leads(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.core.role().leads())
    }

    pub(super) fn position(&self) -> GroupPosition {
        self.core().store().group().unwrap()
    }

    /// Brings stream and consensus together; answers what is to be sent.
    pub(super) fn advance(&mut self, now: Timestamp) -> Result<Vec<RaftMessage>, MemberFailed> {
        let Some(live) = &mut self.live else { return Ok(Vec::new()) };
        let mut messages = Vec::new();
        loop {
            let work = live.member.advance(&mut live.core, now, &mut live.effects)?;
            self.needs_sync = work.needs_sync;
            messages.extend(work.messages);
            if work.hands_over
                && let Some(heir) = live.member.heir(|_| true)
            {
                live.member.consensus_mut().transfer(heir).map_err(MemberFailed::Consensus)?;
                messages.extend(live.member.advance(&mut live.core, now, &mut live.effects)?.messages);
            }
            if let Some(role) = work.role {
                live.core.set_role(role, now, &mut live.effects);
            }
            if work.vote.is_some() && std::mem::take(&mut self.dies_at_vote) {
                self.kill();
                return Ok(messages);
            }
            if self.are_votes_held && work.vote.is_some() {
                self.held_vote = work.vote;
                return Ok(messages);
            }
            if let Some(vote) = work.vote {
                live.votes.set(&[(GROUP, HardState { vote, ..HardState::default() })]).unwrap();
                live.member.vote_persisted(vote);
            }
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            self.said.extend(live.effects.out.iter().map(|msg| (text(msg.subject), text(msg.payload))));
            assert!(live.effects.failed.is_none(), "{:?}", live.effects.failed);
            live.effects.clear();
            if work.role.is_none() && work.vote.is_none() {
                return Ok(messages);
            }
        }
    }

    /// Asks the member once what it wants, and notes the role that the stream is to have.
    pub(super) fn advance_once(&mut self, now: Timestamp, roles: &mut Vec<Option<ReplicaRole>>) {
        let live = self.live.as_mut().expect("it lives");
        roles.push(live.member.advance(&mut live.core, now, &mut live.effects).unwrap().role);
    }

    /// Makes the vote durable that was held; answers whether there was one.
    pub(super) fn persist_vote(&mut self) -> bool {
        let vote = self.held_vote.take();
        vote.into_iter().for_each(|vote| self.member().vote_persisted(vote));
        vote.is_some()
    }

    /// Publishes messages with these replies, headers and payloads as one buffer.
    pub(super) fn publish(&mut self, messages: &[(&str, &[&str], &str)], now: Timestamp) {
        let Some(live) = &mut self.live else { return };
        let mut msgs = MessageBuf::default();
        for &(reply, headers, payload) in messages {
            msgs.push(MessageRef {
                subject: b"subject",
                reply: reply.as_bytes(),
                headers: block(headers).as_bytes(),
                payload: payload.as_bytes(),
                ..MessageRef::default()
            });
        }
        live.core.publish(&msgs, now, &mut live.effects);
    }

    /// A round of the store, which syncs everything.
    pub(super) fn sync(&mut self, now: Timestamp) {
        let Some(live) = &mut self.live else { return };
        live.store.settle(&|| now.unsigned_abs()).unwrap();
        live.store.journal().round_now(&|| now.unsigned_abs()).unwrap();
        live.core.released(&mut live.effects);
        // As jobs are run beside a stream.
        while let Some(job) = live.core.store_mut().next_job(now) {
            let done = job.run();
            live.core.store_mut().finish(done, now).unwrap();
        }
    }

    pub(super) fn kill(&mut self) {
        self.live = None;
        self.disk = self.disk.kill();
    }

    pub(super) fn lose_power(&mut self, survival: Survival) {
        self.live = None;
        self.disk = self.disk.power_cycle(survival);
    }

    pub(super) fn come_back(&mut self, now: Timestamp) {
        if self.live.is_some() {
            return;
        }
        let (store, report) = self.open_store();
        let id = report.streams[0].id;
        let stored = storage_config(&stream_config(), false);
        let (stream, report) = store.open_stream(id, stored, now).unwrap();
        assert!(!report.is_damaged(), "{report:?}");
        self.begin(store, StreamCore::new(Arc::new(stream_config()), stream, settings(), now));
    }

    /// Everything that a reader sees.
    pub(super) fn payloads(&self) -> Vec<(Seq, String)> {
        let reader = self.core().reader();
        let totals = self.core().state().totals;
        let mut found = Vec::new();
        for seq in totals.first_seq..=totals.last_seq {
            let mut buffer = Vec::new();
            if let Some(message) = reader.get(seq, Wait::Allowed, &mut buffer).unwrap() {
                found.push((seq, String::from_utf8_lossy(message.payload).into_owned()));
            }
        }
        found
    }
}
