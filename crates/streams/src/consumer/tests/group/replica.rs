//! One replica of a group: a stream with its consumers, as a server embeds them.

use crate::ReplicaRole;
use crate::consumer::tests::spoken::Listeners;
use crate::consumer::{ConsumerCore, ConsumerInit, DeliverOutcome, Effects, StateHandle, TurnCtx, rules};
use crate::stream::{self, Interest, StreamCore, StreamSettings, storage_config};
use myelin_disk::memory::MemoryDisk;
use myelin_jsapi::config::{Retention, Storage, StreamConfig};
use myelin_jsapi::consumer::config::stored::Stored;
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig};
use myelin_stdx::sync::lock;
use myelin_store::consumer::{ConsumerId, ConsumerState, Consumers, GroupConsumers};
use myelin_store::entropy::SeededEntropy;
use myelin_store::{DecidedEntry, GroupPosition, Seq, Store, StoreOptions, Stream, Timestamp, Wait};
use myelin_wire::message_buf::MessageBuf;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

pub(super) const BEGIN: Timestamp = 1_700_000_000_000_000_000;

/// States by the names of consumers.
pub(super) type States = BTreeMap<String, ConsumerState>;

/// Something that a client of a consumer receives.
pub(super) struct Sent {
    pub(super) consumer: String,
    pub(super) to: String,
    /// The subject of its acknowledgement, if it is a message.
    pub(super) ack: String,
    pub(super) status: String,
}

/// A replica.
pub(super) struct Replica {
    pub(super) core: StreamCore,
    pub(super) decided: Arc<Mutex<Consumers>>,
    pub(super) live: BTreeMap<String, ConsumerCore>,
    /// Consumers that were deleted and have something to say.
    ending: Vec<(String, ConsumerCore)>,
    /// Messages that consumers have settled, for the stream's next turn.
    settled: Vec<Seq>,
    /// Entries that the other one has not got.
    pub(super) unsent: VecDeque<DecidedEntry>,
    pub(super) sent: Vec<Sent>,
    config: Arc<StreamConfig>,
    seed: u64,
    _store: Option<Store>,
}

/// Interest of all consumers in everything, by what is decided.
struct Wanted(Arc<Mutex<Consumers>>);

impl Interest for Wanted {
    fn wants(&self, _: &[u8]) -> bool {
        true
    }

    fn needs(&self, _: &[u8], seq: Seq, _: &mut usize) -> bool {
        lock(&self.0).iter().any(|(_, consumer)| is_needed(consumer.state(), seq))
    }

    fn has_consumers(&self) -> bool {
        !lock(&self.0).is_empty()
    }
}

pub(super) fn is_needed(state: &ConsumerState, seq: Seq) -> bool {
    seq > state.delivered().stream
        || state.pending().get(seq).is_some()
        || state.redelivered().contains_key(&seq)
}

impl Replica {
    pub(super) fn new(retention: Retention, is_file: bool, seed: u64) -> Self {
        let storage = if is_file { Storage::File } else { Storage::Memory };
        let config = StreamConfig { retention, storage, ..crate::stream::tests::config() };
        let stored = storage_config(&config, false);
        let (store, stream) = if is_file {
            let options = StoreOptions {
                journal_file_bytes: 1 << 20,
                headroom_bytes: 1 << 20,
                ..StoreOptions::new("/store")
            };
            let entropy = Arc::new(SeededEntropy::new(seed));
            let (store, _) = Store::open(Arc::new(MemoryDisk::new()), options, entropy).unwrap();
            let stream = store.create_stream("A", "S", b"", stored, BEGIN).unwrap();
            (Some(store), stream)
        } else {
            (None, Stream::in_memory(stored, seed, BEGIN))
        };
        let decided = Arc::new(Mutex::new(Consumers::in_memory()));
        let settings = StreamSettings {
            interest: Arc::new(Wanted(Arc::clone(&decided))),
            role: ReplicaRole::Follower,
            ..StreamSettings::default()
        };
        let config = Arc::new(config);
        let mut core = StreamCore::new(Arc::clone(&config), stream, settings, BEGIN);
        let position = GroupPosition { epoch: 1, term: 1, index: 0, chain: 0, commit: 0 };
        core.store_mut().join_group(position, BEGIN).unwrap();
        core.group_consumers(Arc::clone(&decided), GroupConsumers::in_memory(0)).unwrap();
        Self {
            core,
            decided,
            live: BTreeMap::new(),
            ending: Vec::new(),
            settled: Vec::new(),
            unsent: VecDeque::new(),
            sent: Vec::new(),
            config,
            seed,
            _store: store,
        }
    }

    pub(super) fn index(&mut self) -> u64 {
        self.core.store_mut().group().unwrap().index
    }

    pub(super) fn commit(&mut self) -> u64 {
        self.core.store_mut().group().unwrap().commit
    }

    pub(super) fn states(&self) -> States {
        let applied = self.core.applied_consumers().unwrap();
        applied.iter().map(|(_, (name, _, _, state))| (name.to_owned(), state.clone())).collect()
    }

    pub(super) fn has(&self, seq: Seq) -> bool {
        self.core.reader().get(seq, Wait::Allowed, &mut Vec::new()).unwrap().is_some()
    }

    // The stream's turn.

    /// Does something with the stream, and what follows from it.
    pub(super) fn stream_turn(
        &mut self,
        now: Timestamp,
        act: impl FnOnce(&mut StreamCore, &mut stream::Effects),
    ) {
        let mut effects = stream::Effects::default();
        act(&mut self.core, &mut effects);
        assert!(effects.failed.is_none(), "{:?}", effects.failed);
        self.unsent.extend(self.core.store_mut().take_decided());
        if effects.are_proposals_released {
            self.release(now);
        }
    }

    /// Does what consumers have left for the stream.
    pub(super) fn propose(&mut self, now: Timestamp) {
        let settled = std::mem::take(&mut self.settled);
        self.stream_turn(now, |core, effects| {
            // What was decided goes to the log before what follows from it, whoever comes first.
            core.acknowledged(&settled, now, effects);
            core.propose_consumers(now).unwrap();
        });
    }

    pub(super) fn committed(&mut self, index: u64, now: Timestamp) {
        self.stream_turn(now, |core, effects| core.committed(index, effects));
    }

    // Consumers.

    fn init(&self, config: ConsumerConfig, id: ConsumerId) -> ConsumerInit {
        ConsumerInit {
            stream: "S".into(),
            config: Arc::new(config),
            created: BEGIN,
            reader: self.core.reader(),
            state_handle: StateHandle::new(&self.decided, id),
            retention: self.config.retention,
            largest: 1000,
            seed: self.seed,
        }
    }

    pub(super) fn create(&mut self, config: ConsumerConfig, now: Timestamp) {
        let name = config.name.clone();
        let blob = Stored::new(BEGIN, &config).encode();
        let id = lock(&self.decided).create(&name, rules(&config), &blob).unwrap();
        let core = ConsumerCore::create(self.init(config, id), false, now).unwrap();
        self.live.insert(name, core);
    }

    pub(super) fn delete(&mut self, name: &str, now: Timestamp) {
        let Some(core) = self.live.remove(name) else { return };
        lock(&self.decided).remove(core.state_handle().id()).unwrap();
        self.ending.push((name.to_owned(), core));
        let mut effects = Effects::default();
        let (_, core) = self.ending.last_mut().unwrap();
        core.end("Consumer Deleted", &mut TurnCtx::new(now, &mut Listeners::default(), &mut effects));
        finish(name, core, &self.decided, effects, now, &mut self.sent);
    }

    /// Does something with a consumer, and keeps or sends what it says.
    pub(super) fn turn(
        &mut self,
        name: &str,
        now: Timestamp,
        act: impl FnOnce(&mut ConsumerCore, &mut TurnCtx<'_>),
    ) {
        let Some(core) = self.live.get_mut(name) else { return };
        let mut effects = Effects::default();
        act(core, &mut TurnCtx::new(now, &mut Listeners::default(), &mut effects));
        self.settled.append(&mut effects.settled);
        finish(name, core, &self.decided, effects, now, &mut self.sent);
    }

    pub(super) fn deliver(&mut self, name: &str, now: Timestamp) {
        let mut is_more = true;
        while is_more {
            is_more = false;
            self.turn(name, now, |core, turn| {
                core.due(turn);
                match core.deliver(turn) {
                    DeliverOutcome::More => is_more = true,
                    DeliverOutcome::Cold(seq) => {
                        core.warmed(seq, Some(seq));
                        is_more = true;
                    }
                    _ => {}
                }
            });
        }
    }

    fn release(&mut self, now: Timestamp) {
        for (name, core) in &mut self.live {
            finish(name, core, &self.decided, Effects::default(), now, &mut self.sent);
        }
        for (name, core) in &mut self.ending {
            finish(name, core, &self.decided, Effects::default(), now, &mut self.sent);
        }
        self.ending.retain(|(_, core)| core.is_holding());
    }

    // Roles.

    pub(super) fn follow(&mut self, now: Timestamp) {
        let names: Vec<String> = self.live.keys().cloned().collect();
        for name in names {
            self.turn(&name, now, |core, turn| core.set_role(ReplicaRole::Follower, "S", 1, turn));
        }
        for (name, mut core) in std::mem::take(&mut self.ending) {
            let mut effects = Effects::default();
            let (mut listeners, seed) = (Listeners::default(), self.seed);
            core.set_role(
                ReplicaRole::Follower,
                "S",
                seed,
                &mut TurnCtx::new(now, &mut listeners, &mut effects),
            );
            finish(&name, &mut core, &self.decided, effects, now, &mut self.sent);
        }
        self.settled.clear();
        self.stream_turn(now, |core, effects| core.set_role(ReplicaRole::Follower, now, effects));
        self.unsent.clear();
        assert!(self.live.values().all(|core| !core.is_holding()), "a follower has nothing to say");
    }

    /// Leads in `term`, with consumers as the group has them.
    pub(super) fn lead(&mut self, term: u64, now: Timestamp) {
        self.core.store_mut().lead(term);
        self.stream_turn(now, |core, effects| core.set_role(ReplicaRole::Leader, now, effects));
        let known: Vec<(ConsumerId, String, Vec<u8>)> = lock(&self.decided)
            .iter()
            .map(|(id, consumer)| (id, consumer.name().to_owned(), consumer.config().to_vec()))
            .collect();
        self.live.retain(|name, _| known.iter().any(|(_, known, _)| known == name));
        for (id, name, blob) in known {
            if self.live.contains_key(&name) {
                self.turn(&name, now, |core, turn| core.set_role(ReplicaRole::Leader, "S", 1, turn));
            } else {
                let config = Stored::decode(&blob).unwrap().config;
                let core = ConsumerCore::resume(self.init(config, id), now);
                self.live.insert(name, core);
            }
        }
        self.stream_turn(now, |core, effects| core.reconcile(now, effects));
    }
}

/// As an embedder does behind each turn of a consumer.
fn finish(
    name: &str,
    core: &mut ConsumerCore,
    decided: &Mutex<Consumers>,
    mut effects: Effects,
    now: Timestamp,
    sent: &mut Vec<Sent>,
) {
    if core.role().leads() {
        let position = lock(decided).flush(now).unwrap();
        core.hold(position, &mut effects, now);
        let is_released = |position: Option<_>| position.is_none_or(|at| lock(decided).is_released(at));
        core.release_held(is_released, &mut effects, now);
    }
    assert!(effects.confirmations.is_empty(), "they wait");
    send(name, &effects.out, sent);
}

fn send(consumer: &str, out: &MessageBuf, sent: &mut Vec<Sent>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    for msg in out.iter() {
        let is_message = !msg.to.is_empty();
        sent.push(Sent {
            consumer: consumer.to_owned(),
            to: text(if is_message { msg.to } else { msg.subject }),
            ack: if is_message { text(msg.reply) } else { String::new() },
            status: if is_message { String::new() } else { text(msg.headers) },
        });
    }
}

pub(super) fn config(name: &str, ack_policy: AckPolicy, ack_wait: i64) -> ConsumerConfig {
    ConsumerConfig {
        name: name.into(),
        durable_name: name.into(),
        ack_policy,
        ack_wait,
        max_deliver: -1,
        max_waiting: 512,
        max_ack_pending: 20,
        ..ConsumerConfig::default()
    }
}
