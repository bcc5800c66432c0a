//! Servers whose streams are members of one group: each a house, and between them what carries
//! frames.

use super::house::{Heard, House, stream};
use crate::engine::{GroupConfig, GroupSettings};
use myelin_broker::{Service, ServiceBatch, ServiceShard};
use myelin_disk::faulty::FaultyDisk;
use myelin_jsapi::config::StreamConfig;
use myelin_replica::frame::GroupPlace;
use myelin_replica::{GroupId, Peer, RaftRole};
use myelin_stdx::sync::lock;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BEAT: i64 = 50_000_000;
const NAMES: [&str; 5] = ["server-A", "server-B", "server-C", "server-D", "server-E"];
const PLACE: GroupPlace = GroupPlace { group: GroupId(7), epoch: 1 };

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

struct Server {
    disk: FaultyDisk,
    house: Option<House>,
    wire: Arc<Wire>,
    /// Answers to what was published here, in all lives.
    acks: Vec<Arc<Mutex<Vec<Heard>>>>,
}

/// Servers of one cluster.
pub(super) struct Cluster {
    servers: Vec<Server>,
    config: StreamConfig,
    /// Servers that nobody hears, and that hear nobody.
    pub(super) isolated: Vec<usize>,
}

/// The server with this number.
fn peer(number: usize) -> Peer {
    Peer::parse(NAMES[number]).expect("eight characters")
}

impl Cluster {
    /// So many servers with an empty stream S each.
    pub(super) fn new(size: usize) -> Self {
        Self::with(size, stream("S"))
    }

    /// So many servers with an empty stream each.
    pub(super) fn with(size: usize, config: StreamConfig) -> Self {
        let server = |number: usize| Server {
            disk: FaultyDisk::new(number as u64 + 1),
            house: None,
            wire: Arc::default(),
            acks: Vec::new(),
        };
        let servers = (0..size).map(server).collect();
        let mut cluster = Self { servers, config, isolated: Vec::new() };
        (0..size).for_each(|number| cluster.begin(number));
        cluster
    }

    /// Begins a server on what its disk has.
    pub(super) fn begin(&mut self, number: usize) {
        let size = self.servers.len();
        let server = &mut self.servers[number];
        let mut house = House::seeded(&server.disk, number as u64 + 1);
        house.host.stand_still();
        for other in (0..size).filter(|other| *other != number) {
            let subject = format!("{}.*", peer(other));
            let _ = house.frames.bind(subject.as_bytes(), Arc::clone(&server.wire) as Arc<dyn Service>);
        }
        server.acks.push(house.record("acks"));
        if house.streams().stream(&self.config.name).is_none() {
            house.create(self.config.clone());
        }
        let settings = GroupSettings { me: peer(number), account: Arc::clone(&house.frames) };
        house.jetstream.begin_groups(settings).expect("a healthy disk");
        let voters = (0..size).map(peer).collect();
        let config = GroupConfig { place: PLACE, voters };
        house.jetstream.join_group("$G", &self.config.name, &config).expect("it is there");
        server.house = Some(house);
    }

    /// Ends a server's process.
    pub(super) fn kill(&mut self, number: usize) {
        let server = &mut self.servers[number];
        server.house = None;
        server.disk = server.disk.kill();
        lock(&server.wire.0).clear();
    }

    pub(super) fn house(&mut self, number: usize) -> &mut House {
        self.servers[number].house.as_mut().expect("it runs")
    }

    /// Does what there is to do everywhere, until there is nothing.
    pub(super) fn settle(&mut self) {
        loop {
            self.servers.iter_mut().filter_map(|server| server.house.as_mut()).for_each(House::settle);
            let mut has_any = false;
            for from in 0..self.servers.len() {
                let frames = std::mem::take(&mut *lock(&self.servers[from].wire.0));
                has_any |= !frames.is_empty();
                frames.iter().for_each(|(subject, bytes)| self.carry(from, subject, bytes));
            }
            if !has_any {
                return;
            }
        }
    }

    fn carry(&mut self, from: usize, subject: &[u8], bytes: &[u8]) {
        let is_for = |number: &usize| subject.starts_with(peer(*number).to_string().as_bytes());
        let to = (0..self.servers.len()).find(is_for).expect("a server");
        if self.isolated.contains(&from) || self.isolated.contains(&to) {
            return;
        }
        if let Some(house) = &mut self.servers[to].house {
            let mut msgs = MessageBuf::default();
            msgs.push(MessageRef { subject, payload: bytes, ..MessageRef::default() });
            let account = Arc::clone(&house.frames);
            house.send_in(&account, &mut msgs);
        }
    }

    /// Lets time pass everywhere.
    pub(super) fn pass(&mut self, beats: usize) {
        for _ in 0..beats {
            for house in self.servers.iter_mut().filter_map(|server| server.house.as_mut()) {
                house.host.sleep(Duration::from_nanos(BEAT.unsigned_abs()));
                house.pass(BEAT);
            }
            self.settle();
        }
    }

    /// The server whose stream leads, if others hear of it.
    pub(super) fn leader(&self) -> Option<usize> {
        (0..self.servers.len()).find(|number| {
            let server = &self.servers[*number];
            let leads =
                server.house.as_ref().is_some_and(|house| house.stream(&self.config.name).role().leads());
            leads && !self.isolated.contains(number)
        })
    }

    /// Waits for a leader.
    pub(super) fn elect(&mut self) -> usize {
        for _ in 0..200 {
            if let Some(leader) = self.leader() {
                return leader;
            }
            self.pass(1);
        }
        panic!("nobody leads");
    }

    /// Publishes at one server.
    pub(super) fn publish(&mut self, number: usize, payload: &str) {
        let subject = format!("{}.a", self.config.name);
        self.house(number).say(&subject, "acks", payload);
        self.settle();
    }

    /// How many acknowledgements came, at all servers in all lives.
    pub(super) fn acks(&self) -> usize {
        let all = self.servers.iter().flat_map(|server| &server.acks);
        all.map(|acks| lock(acks).iter().filter(|ack| ack.payload.contains(r#""seq""#)).count()).sum()
    }

    /// Messages and last sequence of the stream of each server that runs.
    pub(super) fn contents(&self) -> Vec<(u64, u64)> {
        let houses = self.servers.iter().filter_map(|server| server.house.as_ref());
        houses.map(|house| house.contents(&self.config.name)).collect()
    }

    /// Part that a server's member has.
    pub(super) fn role(&mut self, number: usize) -> RaftRole {
        let name = self.config.name.clone();
        self.house(number).stream(&name).group_status().expect("it is a member").role
    }
}
