//! Servers with a meta group, or with a stream in one group: each a house with the calls of its
//! API, and between them what carries messages.

use super::house::{Heard, House, stream};
use super::listeners::Recorder;
use crate::engine::meta::{FoundingTerms, peer_of};
use crate::engine::{ApiCalls, ApiRequest, GroupConfig, GroupSettings, KeptLogBounds};
use myelin_broker::{Binding, Service, ServiceBatch, ServiceShard};
use myelin_disk::faulty::{FaultyDisk, Survival};
use myelin_jsapi::ApiError;
use myelin_jsapi::config::StreamConfig;
use myelin_replica::frame::GroupPlace;
use myelin_replica::{GroupId, Peer};
use myelin_stdx::sync::lock;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const BEAT: i64 = 50_000_000;
pub(super) const NAMES: [&str; 6] = ["n1", "n2", "n3", "n4", "n5", "n6"];
const PLACE: GroupPlace = GroupPlace { group: GroupId(7), epoch: 1 };

/// A message between servers.
struct CarriedMessage {
    subject: Vec<u8>,
    reply: Vec<u8>,
    headers: Vec<u8>,
    payload: Vec<u8>,
    /// Whether it is in the account of what is large.
    is_bulk: bool,
}

/// Messages that have left a server.
#[derive(Default)]
struct Wire(Mutex<Vec<CarriedMessage>>, bool);

fn settings_of(number: usize, house: &House) -> GroupSettings {
    let (account, bulk) = (Arc::clone(&house.frames), Arc::clone(&house.bulk));
    GroupSettings { me: peer(number), account, bulk, kept_log: KeptLogBounds::default() }
}

impl Service for Wire {
    fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
        let frames = msgs.iter().map(|msg| CarriedMessage {
            subject: msg.subject.to_vec(),
            reply: msg.reply.to_vec(),
            headers: msg.headers.to_vec(),
            payload: msg.payload.to_vec(),
            is_bulk: self.1,
        });
        lock(&self.0).extend(frames);
        msgs.clear();
    }
}

struct Server {
    disk: FaultyDisk,
    house: Option<House>,
    wire: Arc<Wire>,
    /// Messages in the account of what is large.
    bulk: Arc<Wire>,
    /// Answers to what was published here, in all lives.
    acks: Vec<Arc<Mutex<Vec<Heard>>>>,
    /// Answers of the API, in all lives.
    answers: Vec<Arc<Mutex<Vec<Heard>>>>,
    /// By which these are heard.
    ears: Option<Arc<Binding>>,
    calls: Option<ApiCalls>,
}

/// Servers of one cluster.
pub(super) struct MetaCluster {
    servers: Vec<Server>,
    config: StreamConfig,
    /// Whether streams are made by the API, and not by the test.
    has_meta: bool,
    /// Servers that have founded the meta group; others ask for it.
    founders: usize,
    /// Servers that nobody hears, and that hear nobody.
    pub(super) isolated: Vec<usize>,
    /// Clusters of servers; empty where all are of one without a name.
    clusters: Vec<&'static str>,
    /// Servers that have not been linked in the present lives.
    pub(super) unlinked: Vec<usize>,
    /// Header block with which the API is asked.
    pub(super) asked_with: String,
    /// Whether it is the system account that asks.
    pub(super) asks_for_system: bool,
    /// Messages that were carried between servers.
    pub(super) carried: usize,
    /// Time that has passed.
    now: i64,
}

/// The server with this number.
pub(super) fn peer(number: usize) -> Peer {
    peer_of(NAMES[number]).expect("eight characters")
}

impl Server {
    /// Goes on with calls of the API. Answers whether something was said or done.
    fn go_on_with_calls(&mut self) -> bool {
        let (Some(calls), Some(house)) = (&mut self.calls, &mut self.house) else { return false };
        calls.resume();
        calls.flush();
        let mut has_any = false;
        while let Some((account, mut out)) = calls.next_answer() {
            has_any |= !out.is_empty();
            house.send_in(&account, &mut out);
        }
        while calls.run_task() {
            has_any = true;
        }
        house.settle();
        has_any
    }
}

impl MetaCluster {
    /// Servers with an empty stream S each.
    pub(super) fn new(size: usize) -> Self {
        Self::with(size, stream("S"))
    }

    /// Servers with an empty stream each.
    pub(super) fn with(size: usize, config: StreamConfig) -> Self {
        Self::begun(size, config, false)
    }

    /// Servers with a meta group and no stream; `stream` is the one that tests look at.
    pub(super) fn with_meta(size: usize) -> Self {
        Self::begun(size, stream("S"), true)
    }

    /// Servers with the stream `S`, which is made by this request, and the number of the one that
    /// leads it.
    pub(super) fn with_stream(size: usize, request: &str) -> (Self, usize) {
        let mut cluster = Self::with_meta(size);
        cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
        let made = cluster.answer_within(200, "STREAM.CREATE.S", request);
        assert!(made.contains(r#""did_create":true"#), "{made}");
        let leader = cluster.elect();
        (cluster, leader)
    }

    /// Servers of which the first have founded a meta group, and others are to come later.
    pub(super) fn founded_by(founders: usize, size: usize) -> Self {
        let mut cluster = Self::empty(size, stream("S"), true);
        cluster.founders = founders;
        (0..founders).for_each(|number| cluster.begin(number));
        cluster
    }

    /// Servers with a meta group, of several clusters: these, one after the other.
    pub(super) fn of_clusters(clusters: &[&'static str]) -> Self {
        let mut cluster = Self::empty(clusters.len(), stream("S"), true);
        cluster.clusters = clusters.to_vec();
        (0..clusters.len()).for_each(|number| cluster.begin(number));
        cluster
    }

    fn begun(size: usize, config: StreamConfig, has_meta: bool) -> Self {
        let mut cluster = Self::empty(size, config, has_meta);
        (0..size).for_each(|number| cluster.begin(number));
        cluster
    }

    fn empty(size: usize, config: StreamConfig, has_meta: bool) -> Self {
        let server = |number: usize| Server {
            disk: FaultyDisk::new(number as u64 + 1),
            house: None,
            wire: Arc::default(),
            bulk: Arc::new(Wire(Mutex::default(), true)),
            acks: Vec::new(),
            answers: Vec::new(),
            ears: None,
            calls: None,
        };
        let servers = (0..size).map(server).collect();
        Self {
            servers,
            config,
            has_meta,
            founders: size,
            isolated: Vec::new(),
            clusters: Vec::new(),
            unlinked: Vec::new(),
            asked_with: String::new(),
            asks_for_system: false,
            carried: 0,
            now: 0,
        }
    }

    /// Begins a server on what its disk has.
    pub(super) fn begin(&mut self, number: usize) {
        let size = self.servers.len();
        let server = &mut self.servers[number];
        let mut house =
            House::named(&server.disk, NAMES[number], number as u64 + 1 + 100 * server.acks.len() as u64);
        house.host.stand_still();
        house.host.now.store(self.now, Relaxed);
        let own = self.clusters.get(number).copied().unwrap_or_default();
        own.clone_into(&mut lock(&house.host.cluster));
        let cloud = if number < 2 { "cloud:a" } else { "cloud:b" };
        lock(&house.host.facts).tags = vec![cloud.to_owned(), format!("node:{}", number + 1)];
        for other in (0..size).filter(|other| *other != number) {
            let subject = format!("{}.*", peer(other));
            let _ = house.frames.bind(subject.as_bytes(), Arc::clone(&server.wire) as Arc<dyn Service>);
            let _ = house.bulk.bind(subject.as_bytes(), Arc::clone(&server.bulk) as Arc<dyn Service>);
        }
        for subject in ["_meta_.>", "_ask_.*", "_asked_.*", "_answer_.>", "_join_", "_joined_.*"] {
            let _ = house.frames.bind(subject.as_bytes(), Arc::clone(&server.wire) as Arc<dyn Service>);
        }
        server.acks.push(house.record("acks"));
        let (answers, ears) = house.record_until_unbound("answers");
        let _ = house.system.bind(b"answers", Arc::new(Recorder(Arc::clone(&answers))));
        server.answers.push(answers);
        server.ears = Some(ears);
        if self.has_meta {
            let settings = settings_of(number, &house);
            house.jetstream.begin_groups(settings).expect("a healthy disk");
            let is_linked = |other: &usize| !self.unlinked.contains(other);
            for (other, cluster) in self.clusters.iter().enumerate().filter(|(other, _)| is_linked(other)) {
                house.jetstream.server_is_of(NAMES[other], (*cluster != own).then_some(cluster));
            }
            let servers: Vec<String> = NAMES[..self.founders].iter().map(|&name| name.to_owned()).collect();
            if number < self.founders || house.jetstream.has_meta("RAFT") {
                house.jetstream.begin_meta(&servers).expect("a healthy disk");
            }
            let terms = FoundingTerms { expected: size, clusters: Vec::new() };
            house.jetstream.seek_meta(terms).expect("it has begun once");
            for other in (0..size).filter(|other| *other != number) {
                house.jetstream.server_linked(NAMES[other], "");
            }
            server.calls = Some(ApiCalls::new(&house.jetstream, Box::new(|call| call())));
            server.house = Some(house);
            return;
        }
        if house.streams().stream(&self.config.name).is_none() {
            house.create(self.config.clone());
        }
        let settings = settings_of(number, &house);
        house.jetstream.begin_groups(settings).expect("a healthy disk");
        let voters = (0..size).map(peer).collect();
        let config = GroupConfig { place: PLACE, voters };
        house.jetstream.join_group("$G", &self.config.name, &config).expect("it is there");
        server.house = Some(house);
    }

    /// A server alone on what the disk of one that has ended holds: as before it was in a cluster.
    pub(super) fn alone(&self, number: usize) -> House {
        House::named(&self.servers[number].disk, NAMES[number], 77)
    }

    /// The disk of a server.
    pub(super) fn disk(&self, number: usize) -> &FaultyDisk {
        &self.servers[number].disk
    }

    /// Gives a server that has ended an empty disk.
    pub(super) fn replace_disk(&mut self, number: usize) {
        self.servers[number].disk = FaultyDisk::new(number as u64 + 100);
    }

    /// Ends a server's process.
    pub(super) fn kill(&mut self, number: usize) {
        let server = &mut self.servers[number];
        (server.house, server.calls) = (None, None);
        server.disk = server.disk.kill();
        lock(&server.wire.0).clear();
        lock(&server.bulk.0).clear();
    }

    /// Ends a server with its machine, which loses nothing of what was written.
    pub(super) fn lose_power(&mut self, number: usize) {
        self.kill(number);
        let server = &mut self.servers[number];
        server.disk = server.disk.power_cycle(Survival::All);
    }

    pub(super) fn house(&mut self, number: usize) -> &mut House {
        self.servers[number].house.as_mut().expect("it runs")
    }

    /// Does what there is to do everywhere, until there is nothing.
    pub(super) fn settle(&mut self) {
        loop {
            let mut has_any = false;
            for server in &mut self.servers {
                if let Some(house) = &mut server.house {
                    house.settle();
                    has_any |= house.run_repairs();
                }
                has_any |= server.go_on_with_calls();
            }
            for from in 0..self.servers.len() {
                let mut frames = std::mem::take(&mut *lock(&self.servers[from].wire.0));
                frames.append(&mut lock(&self.servers[from].bulk.0));
                has_any |= !frames.is_empty();
                frames.iter().for_each(|frame| self.carry(from, frame));
            }
            if !has_any {
                return;
            }
        }
    }

    /// Carries a message: to the server that its subject names, to the leader of the meta group,
    /// which alone has interest in it, or to all.
    fn carry(&mut self, from: usize, carried: &CarriedMessage) {
        let subject = &carried.subject;
        let text = String::from_utf8_lossy(subject);
        let named = ["_ask_.", "_asked_.", "_answer_.", "_joined_."]
            .iter()
            .fold(&*text, |named, prefix| named.trim_start_matches(prefix));
        // Who hears a question passes it on here, as all that comes: only who asks is carried.
        let asks = carried.reply == format!("_joined_.{}", peer(from)).as_bytes();
        let is_for =
            |number: &usize| text == "_join_" && asks || named.starts_with(&peer(*number).to_string());
        let to: Vec<usize> = match text.starts_with("_meta_.") {
            true => self.meta_leader().into_iter().collect(),
            false => (0..self.servers.len()).filter(is_for).collect(),
        };
        to.into_iter().filter(|&to| to != from).for_each(|to| self.carry_to((from, to), carried));
    }

    fn carry_to(&mut self, (from, to): (usize, usize), carried: &CarriedMessage) {
        let CarriedMessage { subject, reply, headers, payload, is_bulk } = carried;
        if self.isolated.contains(&from) || self.isolated.contains(&to) {
            return;
        }
        self.carried += 1;
        if let Some(house) = &mut self.servers[to].house {
            let mut msgs = MessageBuf::default();
            msgs.push(MessageRef { subject, reply, headers, payload, ..MessageRef::default() });
            let account = Arc::clone(if *is_bulk { &house.bulk } else { &house.frames });
            house.send_in(&account, &mut msgs);
        }
    }

    /// Lets time pass everywhere.
    pub(super) fn pass(&mut self, beats: usize) {
        for _ in 0..beats {
            self.now += BEAT;
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
            let live = server.house.as_ref().and_then(|house| house.streams().stream(&self.config.name));
            let leads = live.is_some_and(|live| live.role().leads());
            leads && !self.isolated.contains(number)
        })
    }

    /// The server that leads the meta group.
    pub(super) fn meta_leader(&self) -> Option<usize> {
        (0..self.servers.len()).find(|number| {
            let house = self.servers[*number].house.as_ref();
            house.and_then(|house| house.jetstream.meta()).is_some_and(|meta| meta.leads())
        })
    }

    /// Servers that run.
    pub(super) fn running(&self) -> impl Iterator<Item = usize> {
        (0..self.servers.len()).filter(|&number| self.servers[number].house.is_some())
    }

    /// Numbers of the running servers that have a stream.
    pub(super) fn holders(&mut self, stream: &str) -> Vec<usize> {
        let numbers: Vec<usize> = self.running().collect();
        numbers.into_iter().filter(|&number| self.house(number).streams().stream(stream).is_some()).collect()
    }

    /// Lets time pass until something is so.
    pub(super) fn wait_until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        for _ in 0..600 {
            if is_so(self) {
                return;
            }
            self.pass(1);
        }
        panic!("there is not: {what}, but {:?}", self.statuses());
    }

    /// Removes a server, as the system account may.
    pub(super) fn remove_server(&mut self, name: &str) -> Result<(), ApiError> {
        self.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
        let leader = self.meta_leader().expect("it is there");
        let meta = self.house(leader).jetstream.meta().expect("it leads");
        let mut removal = pin!(meta.remove_server(name));
        for _ in 0..400 {
            if let Poll::Ready(done) = removal.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return done;
            }
            self.pass(1);
        }
        panic!("nobody says whether {name} is removed");
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

    /// The one answer to a request, which comes within so many passes.
    pub(super) fn answer_within(&mut self, passes: usize, subject: &str, body: &str) -> String {
        self.ask(subject, body);
        for _ in 0..passes {
            let answers = self.take_answers();
            if !answers.is_empty() {
                assert_eq!(answers.len(), 1, "one server answers: {answers:?}");
                return answers.concat();
            }
            self.pass(1);
        }
        panic!("nobody answers {subject}");
    }

    /// Asks the API at all servers that run, as each hears every request.
    pub(super) fn ask(&mut self, subject: &str, body: &str) {
        self.ask_for(subject, body, "answers");
    }

    /// As [`ask`](Self::ask), for no answer.
    pub(super) fn ask_without_reply(&mut self, subject: &str, body: &str) {
        self.ask_for(subject, body, "");
    }

    fn ask_for(&mut self, subject: &str, body: &str, reply: &str) {
        for (number, server) in self.servers.iter_mut().enumerate() {
            let (Some(calls), Some(house)) = (&mut server.calls, &server.house) else { continue };
            if !self.isolated.contains(&number) {
                let account = if self.asks_for_system { &house.system } else { &house.account };
                calls.begin(ApiRequest {
                    account: Arc::clone(account),
                    subject: format!("$JS.API.{subject}").into_bytes().into(),
                    reply: reply.as_bytes().into(),
                    headers: self.asked_with.as_bytes().into(),
                    payload: body.as_bytes().into(),
                    origin: None,
                });
            }
        }
        self.settle();
    }

    /// Has nobody hear the answers, or somebody again.
    pub(super) fn hear_answers(&mut self, are_heard: bool) {
        for server in &mut self.servers {
            let Some(house) = &mut server.house else { continue };
            match server.ears.take() {
                Some(ears) if !are_heard => house.account.unbind(&ears),
                ears => server.ears = ears,
            }
            if are_heard && server.ears.is_none() {
                let (answers, ears) = house.record_until_unbound("answers");
                server.answers.push(answers);
                server.ears = Some(ears);
            }
        }
    }

    /// Answers that have come since the last look, at all servers.
    pub(super) fn take_answers(&mut self) -> Vec<String> {
        let all = self.servers.iter().flat_map(|server| &server.answers);
        all.flat_map(|answers| std::mem::take(&mut *lock(answers))).map(|heard| heard.payload).collect()
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

    /// How servers that run stand, in words.
    pub(super) fn statuses(&self) -> Vec<String> {
        let houses = self.servers.iter().filter_map(|server| server.house.as_ref());
        let words = houses.map(|house| {
            let live = house.streams().stream(&self.config.name);
            let of_stream =
                live.map(|live| (live.group_status(), live.failure(), live.role(), live.voters()));
            let meta = house.jetstream.meta();
            let of_meta = meta.map(|meta| (meta.live().group_status(), meta.live().voters(), meta.servers()));
            let warnings = lock(&house.host.warnings).clone();
            format!("stream {of_stream:?}, meta {of_meta:?}, {warnings:?}\n")
        });
        words.collect()
    }

    /// Messages and last sequence of the stream of each server that runs.
    pub(super) fn contents(&self) -> Vec<(u64, u64)> {
        let houses = self.servers.iter().filter_map(|server| server.house.as_ref());
        houses.map(|house| house.contents(&self.config.name)).collect()
    }

    /// Whether a server's member rests.
    pub(super) fn rests(&mut self, number: usize) -> bool {
        let name = self.config.name.clone();
        self.house(number).stream(&name).is_resting()
    }
}
