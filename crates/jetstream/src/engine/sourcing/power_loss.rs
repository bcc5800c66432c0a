//! A stream that keeps three messages copies two others, and power is lost at every point of what
//! it asks of its disk: every message is copied once, also where nothing is left of those that told
//! how far it was.

use super::position_search::{Finding, PositionSearch};
use super::positions::{self, PositionStore, RULES, SeenPositions, SourcePosition, read};
use super::read_state::ReadState;
use super::render::SourceRenderer;
use crate::engine::consumers::POSITION_PREFIX;
use myelin_disk::faulty::{DiskFault, FaultyDisk, Survival};
use myelin_jsapi::config::{Storage, StreamConfig, StreamSource};
use myelin_stdx::rng::Rng;
use myelin_store::consumer::Consumers;
use myelin_store::entropy::SeededEntropy;
use myelin_store::{Job, Reserve, Seq, Store, StoreOptions, StreamReport, Timestamp};
use myelin_streams::stream::{Effects, SourcedMsgs, StreamCore, StreamSettings, storage_config};
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

const NOW: Timestamp = 1_700_000_000_000_000_000;
const NAMES: [&str; 2] = ["A", "B"];
/// Messages of each origin, and of a run.
const MESSAGES: Seq = 40;
const RUN: Seq = 5;
/// Bytes of a segment: about four runs.
const SEGMENT: u32 = 2048;

/// Whether each message is synced, and how sequences are kept from coming twice.
type Mode = (bool, Reserve);

/// The consumers' log of the stream.
struct ConsumerLog(Mutex<Consumers>);

impl PositionStore for ConsumerLog {
    fn note(&self, name: &str, blob: Option<&[u8]>) {
        let mut states = self.0.lock().unwrap();
        // The disk may be off.
        let _ = match (states.find(name), blob) {
            (Some(id), Some(blob)) => states.update(id, RULES, blob),
            (None, Some(blob)) => states.create(name, RULES, blob).map(drop),
            (Some(id), None) => states.remove(id).map(drop),
            (None, None) => Ok(()),
        };
        let _ = states.flush(NOW);
    }

    fn kept(&self) -> Vec<(String, SourcePosition)> {
        let states = self.0.lock().unwrap();
        let kept = states.iter();
        kept.filter_map(|(_, kept)| {
            Some((kept.name().strip_prefix(POSITION_PREFIX)?.to_owned(), read(kept.config())?))
        })
        .collect()
    }
}

fn config() -> StreamConfig {
    let source = |name: &&str| StreamSource { name: (*name).into(), ..StreamSource::default() };
    StreamConfig {
        name: "S".into(),
        storage: Storage::File,
        max_consumers: -1,
        max_msgs: 3,
        max_bytes: -1,
        max_msgs_per_subject: -1,
        max_msg_size: -1,
        num_replicas: 1,
        sources: NAMES.iter().map(source).collect(),
        ..StreamConfig::default()
    }
}

fn index(name: &str) -> String {
    format!("{name} > >")
}

/// A stream with its sources, as the next process finds them.
struct Setup {
    store: Store,
    core: StreamCore,
    log: ConsumerLog,
    read_states: Vec<ReadState>,
    /// Messages of a run.
    run: Seq,
    /// Sequences that the opening passed over.
    passed_over: Seq,
}

impl Setup {
    /// `None`: the disk is off.
    fn open(disk: &FaultyDisk, (always, reserve): Mode, turn: u64) -> Option<Self> {
        let options = StoreOptions { reserve, ..StoreOptions::new("/store") };
        let entropy = Arc::new(SeededEntropy::new(100 + turn));
        let (store, report) = Store::open(Arc::new(disk.clone()), options, entropy).ok()?;
        let storage_config =
            myelin_store::StreamConfig { segment_bytes: Some(SEGMENT), ..storage_config(&config(), always) };
        let mut seen = SeenPositions::default();
        let found = report.streams.into_iter().next();
        let (stream, report) = match found {
            Some(found) => {
                let mut visit = |seq: Seq, headers: &[u8]| seen.see(seq, headers);
                store.open_stream_before(found.id, storage_config, NOW, &mut visit).ok()?
            }
            None => {
                let created = store.create_stream("A", "S", b"", storage_config, NOW).ok()?;
                (created, StreamReport::default())
            }
        };
        let (consumers, _) = store.open_consumers(stream.id(), storage_config.durability, None).ok()?;
        let log = ConsumerLog(Mutex::new(consumers));
        let settings = StreamSettings { always_syncs: always, ..StreamSettings::default() };
        let last = report.found_end(stream.state().totals.last_seq);
        let core = StreamCore::new(Arc::new(config()), stream, settings, NOW);
        let looked_through = positions::reconcile(&log, &config(), last, seen);
        let indexes = NAMES.map(index);
        let known = (log.kept().into_iter().collect(), looked_through);
        let mut search = PositionSearch::new(indexes.iter().map(String::as_str), known, &core.reader());
        while !search.scan_slice().ok()? {}
        let read_states = search.end().map(read_state).collect();
        let passed_over = report.passed_over.map_or(0, |passed| passed.count() as Seq);
        Some(Self { store, core, log, read_states, run: RUN, passed_over })
    }

    /// Copies one run of a source, and writes down how far that is. False: there is nothing left,
    /// or it cannot be stored.
    fn copy(&mut self, at: usize) -> bool {
        let read_state = &mut self.read_states[at];
        let from = read_state.position.as_ref().map_or(0, |position| position.seq) + 1;
        let mut msgs = MessageBuf::default();
        let through = (from + self.run - 1).min(MESSAGES);
        for seq in from..=through {
            let name = NAMES[at];
            let headers = format!("NATS/1.0\r\nNats-Stream-Source: {name} {seq} > > x ident\r\n\r\n");
            msgs.push(MessageRef {
                subject: b"x",
                headers: headers.as_bytes(),
                payload: b"hello",
                ..MessageRef::default()
            });
        }
        let mut effects = Effects::default();
        let copied = self.core.copy(&SourcedMsgs { msgs: &msgs, stamps: &[] }, NOW, &mut effects);
        if copied.done > 0 {
            let seq = from + copied.done as Seq - 1;
            positions::write(&self.log, &index(NAMES[at]), read_state.come_to(seq, self.core.store()));
        }
        copied.done > 0 && self.core.store().failure().is_none()
    }

    fn round(&self) -> bool {
        self.store.journal().round_now(&|| NOW as u64).is_ok()
    }

    /// Has segments sealed, and those removed of which nothing is left.
    fn tidy(&mut self) {
        for step in 0..100 {
            let now = NOW + step * 2_000_000_000;
            if let Some(job) = self.core.next_job(now) {
                self.run(job, now);
                assert!(self.round());
            }
        }
    }

    fn run(&mut self, job: Job, now: Timestamp) {
        let done = positions::upkeep(job, &self.log.0, self.store.journal(), now);
        self.core.finish(done, now, &mut Effects::default());
    }

    /// Copies in an order of its own, with a round and a piece of upkeep now and then, until all is
    /// there or nothing goes any more.
    fn work(&mut self, seed: u64) {
        let mut rng = Rng::seeded(seed);
        let mut idle = 0;
        while idle < 8 {
            match rng.below(6) {
                0 => {
                    if !self.round() {
                        return;
                    }
                }
                1 => {
                    if let Some(job) = self.core.next_job(NOW) {
                        self.run(job, NOW);
                    }
                }
                choice if self.copy(choice as usize % NAMES.len()) => idle = 0,
                _ => idle += 1,
            }
        }
    }
}

fn read_state(finding: Finding) -> ReadState {
    let position = match finding {
        Finding::Read(position) | Finding::Written(position) => position,
        Finding::Nothing => SourcePosition::default(),
    };
    let mut read_state = ReadState {
        log: 0,
        link: None,
        position: None,
        past: VecDeque::new(),
        renderer: SourceRenderer::new(&StreamSource::default(), false),
        msgs: MessageBuf::default(),
        stamps: Vec::new(),
        largest: 0,
        unacked: VecDeque::new(),
        questions: VecDeque::new(),
        asked_for: String::new(),
        rng: Rng::seeded(1),
        refusals: 0,
    };
    read_state.enter(position);
    read_state
}

/// A first life that ends at `point`, and a second one on what survives of it.
///
/// What comes back is counted, behind what is passed over.
fn live(mode: Mode, seed: u64, point: u64, survival: Option<Survival>) {
    let disk = FaultyDisk::new(seed);
    disk.fail_at(point, DiskFault::Crash);
    if let Some(mut world) = Setup::open(&disk, mode, 0) {
        world.work(seed);
    }
    let left = survival.map_or_else(|| disk.kill(), |survival| disk.power_cycle(survival));
    let case = format!("{mode:?}, seed {seed}, point {point}, {survival:?}");
    let mut world = Setup::open(&left, mode, 1).unwrap_or_else(|| panic!("{case}: it cannot be opened"));
    let found: Vec<SourcePosition> =
        world.read_states.iter().filter_map(|read_state| read_state.position.clone()).collect();
    let began = world.core.state().totals.last_seq;
    world.work(seed + 1);
    while world.copy(0) || world.copy(1) {}
    let last = world.core.state().totals.last_seq;
    let copied = last - world.passed_over;
    assert_eq!(copied, 2 * MESSAGES, "{case}: it went on at {began} with {found:?}");
}

fn lose_power(mode: Mode, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let disk = FaultyDisk::new(seed);
        Setup::open(&disk, mode, 0).expect("the disk works").work(seed);
        let points = disk.points();
        assert!(points > 30, "{points}");
        for point in 0..points {
            let random = Survival::Random(seed * 1000 + point);
            let prefix = Survival::Prefix(point % 7);
            for survival in [Survival::None, Survival::All, prefix, random] {
                live(mode, seed, point, Some(survival));
            }
        }
    }
}

#[test]
fn power_is_lost_while_messages_are_released_when_they_are_written() {
    lose_power((false, Reserve::Nothing), 1..4);
}

#[test]
fn power_is_lost_where_sequences_are_passed_over() {
    lose_power((false, Reserve::default()), 4..5);
}

#[test]
fn power_is_lost_while_messages_are_released_when_they_are_synced() {
    lose_power((true, Reserve::Nothing), 1..4);
}

/// Checks that the last position of each file is kept: when a file is sealed, positions alone know
/// what is gone from it. Others may give way to it.
#[test]
fn of_each_file_that_is_not_synced_the_last_position_is_kept() {
    let mut world = Setup::open(&FaultyDisk::new(1), (false, Reserve::Nothing), 0).expect("the disk works");
    world.run = 1;
    let mut ends = Vec::new();
    while world.copy(0) {
        ends.push((world.core.state().totals.last_seq, world.core.store().end()));
    }
    let lasts = ends.windows(2).filter(|two| !two[0].1.shares_file(two[1].1)).map(|two| two[0].0);
    let lasts: Vec<Seq> = lasts.collect();
    let kept: Vec<Seq> = world.read_states[0].past.iter().map(|(_, local, _)| *local).collect();
    assert!(lasts.len() > 1 && kept.len() < ends.len(), "{ends:?}");
    assert!(lasts.iter().all(|last| kept.contains(last)), "{lasts:?}, {kept:?}");
}

#[test]
fn a_position_of_messages_that_are_lost_gives_way_when_nothing_else_tells_of_its_source() {
    for (seed, reserve) in (0..40).flat_map(|seed| [(seed, Reserve::Nothing), (seed, Reserve::default())]) {
        let mode = (false, reserve);
        let disk = FaultyDisk::new(1);
        let mut world = Setup::open(&disk, mode, 0).expect("the disk works");
        assert!(world.copy(0) && world.round());
        while world.copy(1) {}
        assert!(world.round());
        // Now only its position tells of the first.
        world.tidy();
        assert!(world.copy(0));
        let left = disk.power_cycle(Survival::Random(seed));
        let mut world = Setup::open(&left, mode, 1).expect("it can be opened");
        let found: Vec<SourcePosition> =
            world.read_states.iter().filter_map(|read_state| read_state.position.clone()).collect();
        while world.copy(0) || world.copy(1) {}
        let copied = world.core.state().totals.last_seq - world.passed_over;
        assert_eq!(copied, 2 * MESSAGES, "{mode:?}, seed {seed}: {found:?}");
    }
}
