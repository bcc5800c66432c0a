//! Servers whose streams are members of one group: each a house, and between them what carries
//! frames.

use super::house::{Heard, House, stream};
use crate::engine::{GroupConfig, GroupSettings, KeptLogBounds, LiveStream};
use bytes::Bytes;
use myelin_broker::{Service, ServiceBatch, ServiceShard};
use myelin_disk::faulty::{FaultyDisk, Survival};
use myelin_jsapi::config::StreamConfig;
use myelin_replica::frame::{FrameBody, GroupPlace, PeerFrame};
use myelin_replica::{GroupId, Peer, RaftMessageKind, RaftRole};
use myelin_stdx::sync::lock;
use myelin_store::{Seq, Wait};
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(super) const BEAT: i64 = 50_000_000;
const NAMES: [&str; 5] = ["server-A", "server-B", "server-C", "server-D", "server-E"];
pub(super) const PLACE: GroupPlace = GroupPlace { group: GroupId(7), epoch: 1 };

/// Frames that have left a server: subject and bytes.
#[derive(Default)]
struct Wire(Mutex<Vec<(Vec<u8>, Vec<u8>)>>);

impl Service for Wire {
    fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
        let frames = msgs.iter().map(|msg| (msg.subject.to_vec(), msg.payload.to_vec()));
        lock(&self.0).extend(frames);
        msgs.clear();
    }
}

/// Frames on their way.
#[derive(Clone)]
pub(super) struct Parcel {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) is_bulk: bool,
    subject: Vec<u8>,
    bytes: Vec<u8>,
}

impl Parcel {
    /// Whether a member confirms entries with it.
    fn confirms(&self) -> bool {
        let mut bytes = Bytes::copy_from_slice(&self.bytes);
        while let Ok(Some((frame, size))) = PeerFrame::read(&bytes, usize::MAX) {
            if let FrameBody::Raft(_, message) = frame.body
                && message.kind == RaftMessageKind::AppendAnswer
                && !message.is_refused
            {
                return true;
            }
            bytes = bytes.split_off(size);
        }
        false
    }

    /// Two parcels of it: without the frames that say where a member's log ends, and of these.
    pub(super) fn without_log_words(self) -> [Self; 2] {
        let mut rest = Bytes::copy_from_slice(&self.bytes);
        let (mut others, mut words) = (Vec::new(), Vec::new());
        while let Ok(Some((frame, size))) = PeerFrame::read(&rest, usize::MAX) {
            let part = if matches!(frame.body, FrameBody::Log(..)) { &mut words } else { &mut others };
            part.extend_from_slice(&rest.split_to(size));
        }
        [others, words].map(|bytes| Self { bytes, ..self.clone() })
    }
}

struct Server {
    disk: FaultyDisk,
    house: Option<House>,
    wire: Arc<Wire>,
    /// Messages that are large.
    bulk: Arc<Wire>,
    /// Answers to what was published here, in all lives.
    acks: Vec<Arc<Mutex<Vec<Heard>>>>,
    /// Deliveries of consumers here, in all lives.
    deliveries: Vec<Arc<Mutex<Vec<Heard>>>>,
    /// Lives so far.
    lives: u64,
    /// Time that has passed for it.
    now: i64,
}

/// Servers of one cluster.
pub(super) struct Cluster {
    servers: Vec<Server>,
    config: StreamConfig,
    sync_always: bool,
    seed: u64,
    /// Servers that nobody hears, and that hear nobody.
    pub(super) isolated: Vec<usize>,
    /// Servers whose disk has not synced yet what it was asked to.
    pub(super) are_syncs_held: bool,
    /// How much of the log stays for servers that are behind, of those that begin from now on.
    pub(super) kept_log: KeptLogBounds,
    /// Bytes of segments, if these are smaller than usual.
    segment_bytes: Option<u32>,
    /// Whether what is large is lost on its way.
    pub(super) is_bulk_lost: bool,
    /// Server in which whatever may wait for a disk does.
    pub(super) is_waiting: Option<usize>,
}

/// The server with this number.
pub(super) fn peer(number: usize) -> Peer {
    Peer::parse(NAMES[number]).expect("eight characters")
}

impl Cluster {
    /// Servers with an empty stream S each.
    pub(super) fn new(size: usize) -> Self {
        Self::with(size, stream("S"))
    }

    /// Servers with an empty stream each.
    pub(super) fn with(size: usize, config: StreamConfig) -> Self {
        Self::seeded(size, config, false, 1)
    }

    /// Servers with an empty stream each, a rule by which entries are persisted, and all that is
    /// random.
    pub(super) fn seeded(size: usize, config: StreamConfig, sync_always: bool, seed: u64) -> Self {
        Self::built(size, config, (sync_always, seed), (KeptLogBounds::default(), None))
    }

    /// Servers with an empty stream each and small segments, which keep little of the log for those
    /// that are behind.
    pub(super) fn lean(size: usize, config: StreamConfig) -> Self {
        let kept_log = KeptLogBounds { longest: 0, bytes: 0 };
        Self::built(size, config, (false, 1), (kept_log, Some(32 << 10)))
    }

    fn built(
        size: usize,
        config: StreamConfig,
        (sync_always, seed): (bool, u64),
        (kept_log, segment_bytes): (KeptLogBounds, Option<u32>),
    ) -> Self {
        let server = |number: usize| Server {
            disk: FaultyDisk::new(seed + number as u64),
            house: None,
            wire: Arc::default(),
            bulk: Arc::default(),
            acks: Vec::new(),
            deliveries: Vec::new(),
            lives: 0,
            now: 0,
        };
        let mut cluster = Self {
            servers: (0..size).map(server).collect(),
            config,
            sync_always,
            seed,
            isolated: Vec::new(),
            are_syncs_held: false,
            kept_log,
            segment_bytes,
            is_bulk_lost: false,
            is_waiting: None,
        };
        (0..size).for_each(|number| cluster.begin(number));
        cluster
    }

    /// Ends a server, and gives it another, empty disk.
    pub(super) fn replace_disk(&mut self, number: usize) {
        self.kill(number);
        self.servers[number].disk = FaultyDisk::new(self.seed + 100 + number as u64);
    }

    /// Has the next life of a server begin with a time of day long past.
    pub(super) fn forget_time(&mut self, number: usize) {
        self.servers[number].now = 0;
    }

    /// Replicas that took the place of others, in all lives.
    pub(super) fn installs(&self) -> usize {
        let houses = self.servers.iter().filter_map(|server| server.house.as_ref());
        houses.map(|house| house.host.infos_with("has all of its group's stream")).sum()
    }

    /// Entries as of which replicas that run have drawn their states last, other than none.
    pub(super) fn comparisons(&mut self) -> usize {
        let drawn = (0..self.size()).map(|number| self.house(number).stream("S").compared_at());
        drawn.filter(Option::is_some).count()
    }

    /// Consumers of a server's stream as its group has them: names and states, in words.
    pub(super) fn consumer_states(&mut self, number: usize) -> Vec<String> {
        let live = self.house(number).stream("S");
        let mut guard = live.lock_core().expect("it is there");
        let (core, _) = guard.parts();
        let applied = core.applied_consumers().expect("it is in a group");
        let words = |(id, (name, rules, _, state)): (_, (&str, _, _, &_))| {
            format!("{id:?} {name} {rules:?} {state:?}")
        };
        applied.iter().map(words).collect()
    }

    /// Begins a server on what its disk has.
    pub(super) fn begin(&mut self, number: usize) {
        let size = self.servers.len();
        let server = &mut self.servers[number];
        server.lives += 1;
        let seed = self.seed.wrapping_mul(1000) + server.lives * 8 + number as u64;
        let mut house =
            House::member(&server.disk, (seed, server.now), (self.sync_always, self.segment_bytes));
        house.host.stand_still();
        house.host.has_sync_thread.store(true, Relaxed);
        for other in (0..size).filter(|other| *other != number) {
            let subject = format!("{}.*", peer(other));
            let _ = house.frames.bind(subject.as_bytes(), Arc::clone(&server.wire) as Arc<dyn Service>);
            let _ = house.bulk.bind(subject.as_bytes(), Arc::clone(&server.bulk) as Arc<dyn Service>);
        }
        server.acks.push(house.record("acks.>"));
        server.deliveries.push(house.record("to.me"));
        let known = house.streams().stream(&self.config.name);
        // As the meta group does it with a replica whose log was lost before its first sync.
        let is_blank = |live: &Arc<LiveStream>| {
            !live.consumers().is_of_group() && live.reader().state().totals.messages == 0
        };
        if known.as_ref().is_some_and(is_blank) {
            house.delete_and_wait(&self.config.name);
        }
        if house.streams().stream(&self.config.name).is_none() {
            house.create(self.config.clone());
        }
        let (account, bulk) = (Arc::clone(&house.frames), Arc::clone(&house.bulk));
        let settings = GroupSettings { me: peer(number), account, bulk, kept_log: self.kept_log };
        house.jetstream.begin_groups(settings).expect("a healthy disk");
        let voters = (0..size).map(peer).collect();
        let config = GroupConfig { place: PLACE, voters };
        house.jetstream.join_group("$G", &self.config.name, &config).expect("it is there");
        server.house = Some(house);
    }

    /// Ends a server's process.
    pub(super) fn kill(&mut self, number: usize) {
        let disk = self.servers[number].disk.kill();
        self.end(number, disk);
    }

    /// Ends a server, and of what its disk has not synced `survival` is left.
    pub(super) fn lose_power(&mut self, number: usize, survival: Survival) {
        let disk = self.servers[number].disk.power_cycle(survival);
        self.end(number, disk);
    }

    fn end(&mut self, number: usize, disk: FaultyDisk) {
        let server = &mut self.servers[number];
        server.disk = disk;
        if let Some(house) = server.house.take() {
            server.now = house.host.now.load(Relaxed);
            house.end();
        }
        lock(&server.wire.0).clear();
        lock(&server.bulk.0).clear();
    }

    pub(super) fn size(&self) -> usize {
        self.servers.len()
    }

    pub(super) fn disk(&self, number: usize) -> &FaultyDisk {
        &self.servers[number].disk
    }

    pub(super) fn house(&mut self, number: usize) -> &mut House {
        self.servers[number].house.as_mut().expect("it runs")
    }

    pub(super) fn runs(&self, number: usize) -> bool {
        self.servers[number].house.is_some()
    }

    /// Does what there is to do everywhere, until there is nothing.
    pub(super) fn settle(&mut self) {
        loop {
            (0..self.size()).for_each(|number| self.settle_one(number));
            let parcels = self.collect();
            if parcels.is_empty() {
                return;
            }
            parcels.into_iter().for_each(|parcel| self.carry(parcel));
        }
    }

    /// Does what there is to do at one server.
    pub(super) fn settle_one(&mut self, number: usize) {
        let are_syncs_held = self.are_syncs_held;
        let Some(house) = &mut self.servers[number].house else { return };
        loop {
            house.settle();
            if !house.run_repairs() && (are_syncs_held || !house.run_sync()) {
                return;
            }
        }
    }

    /// Frames that have left a server.
    pub(super) fn collect(&mut self) -> Vec<Parcel> {
        let mut parcels = Vec::new();
        for from in 0..self.servers.len() {
            let Server { wire, bulk, .. } = &self.servers[from];
            let of = |wire: &Arc<Wire>, is_bulk| {
                let all = std::mem::take(&mut *lock(&wire.0));
                all.into_iter().map(move |(subject, bytes)| (subject, bytes, is_bulk))
            };
            for (subject, bytes, is_bulk) in of(wire, false).chain(of(bulk, true)) {
                let is_for = |number: &usize| subject.starts_with(peer(*number).to_string().as_bytes());
                let to = (0..self.servers.len()).find(is_for).expect("a server");
                parcels.push(Parcel { from, to, is_bulk, subject, bytes });
            }
        }
        parcels
    }

    /// Brings frames to the server that they are for.
    pub(super) fn carry(&mut self, Parcel { from, to, is_bulk, subject, bytes }: Parcel) {
        if self.isolated.contains(&from) || self.isolated.contains(&to) || (is_bulk && self.is_bulk_lost) {
            return;
        }
        if let Some(house) = &mut self.servers[to].house {
            let mut msgs = MessageBuf::default();
            msgs.push(MessageRef { subject: &subject, payload: &bytes, ..MessageRef::default() });
            let account = Arc::clone(if is_bulk { &house.bulk } else { &house.frames });
            house.send_in(&account, &mut msgs);
        }
    }

    /// Lets a beat pass at one server, and does nothing of what follows.
    pub(super) fn beat(&mut self, number: usize) {
        let Some(house) = &mut self.servers[number].house else { return };
        house.host.sleep(Duration::from_nanos(BEAT.unsigned_abs()));
        if self.is_waiting == Some(number) { house.ring_without_waiting(BEAT) } else { house.ring(BEAT) }
    }

    /// Lets time pass everywhere.
    pub(super) fn pass(&mut self, beats: usize) {
        for _ in 0..beats {
            (0..self.size()).for_each(|number| self.beat(number));
            self.settle();
        }
    }

    /// Whether the stream of a server leads.
    pub(super) fn leads(&self, number: usize) -> bool {
        let house = self.servers[number].house.as_ref();
        house.is_some_and(|house| house.stream(&self.config.name).role().leads())
    }

    /// The server whose stream leads, if others hear of it.
    pub(super) fn leader(&self) -> Option<usize> {
        (0..self.servers.len()).find(|number| self.leads(*number) && !self.isolated.contains(number))
    }

    /// Waits for a leader.
    pub(super) fn elect(&mut self) -> usize {
        for _ in 0..300 {
            if let Some(leader) = self.leader() {
                return leader;
            }
            self.pass(1);
        }
        panic!("nobody leads: {:?}", self.statuses());
    }

    /// How members see their group, and why their streams have failed.
    pub(super) fn statuses(&self) -> Vec<String> {
        let houses = self.servers.iter().map(|server| server.house.as_ref());
        let words = houses.map(|house| {
            house.map_or("ended".to_owned(), |house| {
                let live = house.stream(&self.config.name);
                let warnings = lock(&house.host.warnings).clone();
                let panics = lock(&house.host.panics).clone();
                format!(
                    "{:?} {:?} {:?} {warnings:?} {panics:?}",
                    live.group_status(),
                    live.failure(),
                    live.role()
                )
            })
        });
        words.collect()
    }

    /// Publishes at one server.
    pub(super) fn publish(&mut self, number: usize, payload: &str) {
        self.publish_with(number, "acks.x", "", payload);
    }

    /// Publishes with these lines of headers.
    pub(super) fn publish_with(&mut self, number: usize, reply: &str, headers: &str, payload: &str) {
        self.say_with(number, reply, headers, payload);
        self.settle();
    }

    /// Publishes with these lines of headers, and does nothing of what follows from it.
    pub(super) fn say_with(&mut self, number: usize, reply: &str, headers: &str, payload: &str) {
        let subject = format!("{}.a", self.config.name);
        let headers =
            if headers.is_empty() { String::new() } else { format!("NATS/1.0\r\n{headers}\r\n\r\n") };
        let (subject, reply) = (subject.as_bytes(), reply.as_bytes());
        let (headers, payload) = (headers.as_bytes(), payload.as_bytes());
        self.house(number).send(MessageRef { subject, reply, headers, payload, ..MessageRef::default() });
    }

    /// Publishes at one server, and lets beats pass in which what another one confirms is lost on
    /// its way.
    pub(super) fn publish_unheard(&mut self, (number, to): (usize, usize), payload: &str) {
        self.say_with(number, "acks.x", "", payload);
        self.pass_unheard((number, to), 20);
    }

    /// Lets beats pass in which what another server confirms to one is lost on its way.
    pub(super) fn pass_unheard(&mut self, (number, to): (usize, usize), beats: usize) {
        for _ in 0..beats {
            self.beat(number);
            self.beat(to);
            for _ in 0..10 {
                self.settle_one(number);
                self.settle_one(to);
                let parcels = self.collect().into_iter();
                let heard = parcels.filter(|parcel| parcel.from != to || !parcel.confirms());
                heard.for_each(|parcel| self.carry(parcel));
            }
        }
    }

    /// How many acknowledgements came, at all servers in all lives.
    pub(super) fn acks(&self) -> usize {
        self.answers()
            .iter()
            .filter(|(_, payload)| payload.contains(r#""seq""#) && !payload.contains("error"))
            .count()
    }

    /// Answers to publishes, at all servers in all lives: where they went and what they say.
    pub(super) fn answers(&self) -> Vec<(String, String)> {
        let all = self.servers.iter().flat_map(|server| &server.acks);
        all.flat_map(|acks| {
            lock(acks).iter().map(|ack| (ack.subject.clone(), ack.payload.clone())).collect::<Vec<_>>()
        })
        .collect()
    }

    /// Takes what consumers have delivered at a server since the last call.
    pub(super) fn delivered(&mut self, number: usize) -> Vec<Heard> {
        let all = &self.servers[number].deliveries;
        all.iter().flat_map(|heard| std::mem::take(&mut *lock(heard))).collect()
    }

    /// Messages and last sequence of the stream of each server that runs.
    pub(super) fn contents(&self) -> Vec<(u64, u64)> {
        let houses = self.servers.iter().filter_map(|server| server.house.as_ref());
        houses.map(|house| house.contents(&self.config.name)).collect()
    }

    /// Messages that a reader finds at a server.
    pub(super) fn payloads(&self, number: usize) -> Vec<(Seq, String)> {
        let house = self.servers[number].house.as_ref().expect("it runs");
        let reader = house.stream(&self.config.name).reader();
        let totals = reader.state().totals;
        let read = |seq| {
            let mut buffer = Vec::new();
            let found = reader.get(seq, Wait::Allowed, &mut buffer).expect("a healthy disk")?;
            Some((seq, String::from_utf8_lossy(found.payload).into_owned()))
        };
        (totals.first_seq..=totals.last_seq).filter_map(read).collect()
    }

    /// Whether a server's member needs no ticks.
    pub(super) fn rests(&mut self, number: usize) -> bool {
        let name = self.config.name.clone();
        self.house(number).stream(&name).is_resting()
    }

    /// The members that lead, with their terms.
    pub(super) fn raft_leaders(&self) -> Vec<(usize, u64)> {
        let status = |number: usize| {
            let house = self.servers[number].house.as_ref()?;
            let status = house.stream(&self.config.name).group_status()?;
            (status.role == RaftRole::Leader).then_some((number, status.term))
        };
        (0..self.size()).filter_map(status).collect()
    }

    /// Part that a server's member has.
    pub(super) fn role(&mut self, number: usize) -> RaftRole {
        let name = self.config.name.clone();
        self.house(number).stream(&name).group_status().expect("it is a member").role
    }
}
