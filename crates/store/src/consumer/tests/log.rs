//! Logs of consumers: changes that were flushed are there after a restart.

use myelin_disk::faulty::{DiskFault, FaultyDisk};
use myelin_disk::memory::MemoryDisk;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Work of a server with the consumers of a stream.
#[derive(Clone, Debug)]
enum Act {
    Create(u8, AckRules),
    Update(u8, AckRules),
    Remove(u8),
    Replace(u8),
    Events(u8, Vec<Event>),
    ForAll(Event),
    Flush,
    Checkpoint,
    /// Written anew while there are these changes.
    Rewrite(u8, AckRules, Vec<Event>),
    /// The log is let go of while there are these changes.
    Suspend(u8, AckRules, Vec<Event>),
    Restart,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => (any::<u8>(), strategy::rules()).prop_map(|(name, rules)| Act::Create(name % 8, rules)),
        1 => (any::<u8>(), strategy::rules()).prop_map(|(at, rules)| Act::Update(at, rules)),
        1 => any::<u8>().prop_map(Act::Remove),
        1 => any::<u8>().prop_map(Act::Replace),
        12 => (any::<u8>(), vec(strategy::anything(), 0..20)).prop_map(|(at, events)| Act::Events(at, events)),
        1 => any::<u8>().prop_map(|at| Act::ForAll(Event::DropBelow(at))),
        6 => Just(Act::Flush),
        1 => Just(Act::Checkpoint),
        2 => (any::<u8>(), strategy::rules(), vec(strategy::anything(), 0..20))
            .prop_map(|(at, rules, events)| Act::Rewrite(at, rules, events)),
        1 => (any::<u8>(), strategy::rules(), vec(strategy::anything(), 0..20))
            .prop_map(|(at, rules, events)| Act::Suspend(at, rules, events)),
        1 => Just(Act::Restart),
    ]
}

pub(super) fn cipher() -> impl Strategy<Value = Option<CipherKind>> {
    prop_oneof![Just(None), Just(Some(CipherKind::Aes256Gcm)), Just(Some(CipherKind::ChaCha20Poly1305))]
}

fn nth(consumers: &Consumers, at: u8) -> Option<ConsumerId> {
    let mut ids: Vec<ConsumerId> = consumers.iter().map(|(id, _)| id).collect();
    ids.sort_unstable();
    (!ids.is_empty()).then(|| ids[at as usize % ids.len()])
}

fn clean_up(place: &LogStorage, consumers: &mut Consumers) {
    for obsolete in consumers.take_obsolete() {
        assert_eq!(obsolete.fate, Fate::Remove);
        place.disk.remove_file(&obsolete.path).expect("it is there");
    }
}

fn perform(place: &LogStorage, consumers: &mut Consumers, act: Act) {
    match act {
        Act::Create(name, rules) => {
            let name = format!("consumer {name}");
            let known = consumers.find(&name);
            let created = consumers.create(&name, rules, name.as_bytes());
            assert_eq!(created.is_err(), known.is_some());
        }
        Act::Update(at, rules) => {
            if let Some(id) = nth(consumers, at) {
                consumers.update(id, rules, b"updated").expect("it exists");
            }
        }
        Act::Remove(at) => {
            if let Some(id) = nth(consumers, at) {
                let gone = consumers.remove(id).expect("it exists");
                assert_eq!(consumers.find(gone.name()), None);
                assert_eq!(consumers.remove(id).map(|_| ()), Err(ConsumerError::Unknown(id)));
            }
        }
        Act::Replace(at) => {
            if let Some(id) = nth(consumers, at) {
                let mut state = consumers.state(id).expect("it exists").clone();
                state.apply(AckRules::default(), delivered(state.delivered().consumer.0 + 1, 1 << 40));
                consumers.replace(id, state).expect("it exists");
            }
        }
        Act::Events(at, events) => {
            for event in events {
                if let Some(id) = nth(consumers, at) {
                    let delta = event.delta(consumers.state(id).expect("it exists"));
                    consumers.apply(id, &[delta]).expect("it exists");
                }
            }
        }
        Act::ForAll(event) => {
            if let Some(id) = nth(consumers, 0) {
                let delta = event.delta(consumers.state(id).expect("it exists"));
                consumers.apply_to_all(delta);
            }
        }
        Act::Flush => {
            let position = consumers.flush(0).expect("the disk is healthy").expect("it is on a disk");
            assert!(position.end == 0 || consumers.is_released(position));
            assert!(!consumers.is_dirty());
            clean_up(place, consumers);
        }
        Act::Checkpoint => {
            let position = consumers.checkpoint().expect("the disk is healthy").expect("it is on a disk");
            assert!(consumers.is_released(position));
            clean_up(place, consumers);
        }
        Act::Rewrite(at, rules, events) => {
            let Some(mut rewrite) = consumers.begin_rewrite(0).expect("the disk is healthy") else { return };
            let mut step = 0;
            while consumers.draw(&mut rewrite, 0).expect("the disk is healthy") == Drawn::More {
                // A consumer may be drawn already or not when it changes or goes.
                step += 1;
                perform(place, consumers, Act::Events(at.wrapping_mul(step), events.clone()));
                match step {
                    1 => perform(place, consumers, Act::Create(at % 7, rules)),
                    2 => perform(place, consumers, Act::Remove(at / 2)),
                    3 => perform(place, consumers, Act::Update(at / 7, rules)),
                    _ => {}
                }
            }
            perform(place, consumers, Act::Create(at % 8, rules));
            perform(place, consumers, Act::Events(at, events.clone()));
            perform(place, consumers, Act::Flush);
            perform(place, consumers, Act::Remove(at / 2));
            let file = rewrite.write();
            perform(place, consumers, Act::Update(at / 3, rules));
            perform(place, consumers, Act::Replace(at / 5));
            perform(place, consumers, Act::Events(at / 4, events));
            let position = consumers.finish_rewrite(rewrite, file, 0).expect("the disk is healthy");
            assert!(consumers.is_released(position.expect("nobody else wrote it anew")));
            assert!(!consumers.is_dirty());
            clean_up(place, consumers);
        }
        Act::Suspend(at, rules, events) => {
            consumers.suspend_log();
            let files = place.disk.list(&directory()).expect("it is there");
            perform(place, consumers, Act::Create(at % 8, rules));
            perform(place, consumers, Act::Events(at / 3, events));
            perform(place, consumers, Act::Remove(at / 2));
            assert!(!consumers.is_dirty() && !consumers.checkpoint_due());
            assert_eq!(consumers.flush(0).expect("nothing is written"), None);
            assert_eq!(place.disk.list(&directory()).expect("it is there"), files);
            consumers.resume_log();
            consumers.flush(0).expect("the disk is healthy");
            assert!(!consumers.is_dirty());
            clean_up(place, consumers);
        }
        Act::Restart => {
            perform(place, consumers, Act::Flush);
            let before = everything(consumers);
            let (again, report) = Consumers::open(place.clone()).expect("it was flushed");
            assert!(report.is_clean(), "{report:?}");
            assert_eq!(everything(&again), before);
            *consumers = again;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn what_was_flushed_is_there_again(cipher in cipher(), acts in vec(act(), 0..60)) {
        let place = place(Arc::new(MemoryDisk::new()), cipher);
        let (mut consumers, report) = Consumers::open(place.clone()).expect("there is nothing");
        prop_assert!(report.is_clean());
        let mut highest = 0;
        for act in acts {
            perform(&place, &mut consumers, act);
            highest = highest.max(consumers.iter().map(|(id, _)| id.0).max().unwrap_or(0));
        }
        perform(&place, &mut consumers, Act::Restart);
        let next = consumers.create("the next one", AckRules::default(), b"").expect("the name is new");
        prop_assert!(next.0 > consumers.iter().filter(|(id, _)| *id != next).map(|(id, _)| id.0).max().unwrap_or(0));
        prop_assert!(place.disk.list(&directory()).expect("it is there").len() <= 1);
    }

    #[test]
    fn memory_is_the_same_without_files(rules in strategy::rules(), events in vec(strategy::anything(), 0..100)) {
        let mut consumers = Consumers::in_memory();
        let id = consumers.create("one", rules, b"").expect("it is the first");
        let mut state = ConsumerState::default();
        for event in events {
            let delta = event.delta(&state);
            let applied = state.apply(rules, delta);
            prop_assert_eq!(consumers.apply_one(id, delta), Ok(applied));
        }
        prop_assert_eq!(consumers.state(id), Some(&state));
        prop_assert_eq!(consumers.flush(0).expect("nothing is written"), None);
        prop_assert!(!consumers.is_dirty());
    }
}

#[test]
fn an_id_is_not_used_again_after_a_checkpoint_and_a_restart() {
    let place = place(Arc::new(MemoryDisk::new()), None);
    let (mut consumers, _) = Consumers::open(place.clone()).expect("there is nothing");
    let first = consumers.create("a", AckRules::default(), b"").expect("it is new");
    consumers.flush(0).expect("the disk is healthy");
    consumers.remove(first).expect("it exists");
    consumers.flush(0).expect("the disk is healthy");
    consumers.checkpoint().expect("the disk is healthy");
    let (mut again, _) = Consumers::open(place).expect("it was flushed");
    assert!(again.is_empty());
    assert!(again.create("a", AckRules::default(), b"").expect("it is new") > first);
}

/// The salt above all, which nothing else shows.
#[test]
fn equal_sources_of_random_bytes_give_equal_logs() {
    let log_of = |seed| {
        let place = place(Arc::new(MemoryDisk::new()), None);
        let place = LogStorage { entropy: Arc::new(SeededEntropy::new(seed)), ..place };
        let (mut consumers, _) = Consumers::open(place.clone()).expect("there is nothing");
        consumers.create("a", AckRules::default(), b"").expect("it is new");
        consumers.flush(0).expect("the disk is healthy");
        let log = place.disk.list(&directory()).expect("it is there").remove(0).name;
        let file = place.disk.open(&directory().join(log)).expect("it was flushed");
        let mut bytes = vec![0; file.len().expect("the disk is healthy") as usize];
        let read = file.read_at(&mut bytes, 0).expect("the disk is healthy");
        bytes.truncate(read);
        bytes
    };
    let bytes = log_of(1);
    assert!(bytes.len() > crate::consumer::header::HEADER_BYTES, "a header and an entry");
    assert_eq!(bytes, log_of(1));
    assert_ne!(bytes, log_of(2));
}

#[test]
fn a_log_of_mostly_history_is_due() {
    let place = place(Arc::new(MemoryDisk::new()), None);
    let (mut consumers, _) = Consumers::open(place.clone()).expect("there is nothing");
    let id = consumers.create("a", AckRules::default(), b"").expect("it is new");
    let mut seq = 0;
    while !consumers.checkpoint_due() {
        seq += 1;
        consumers.apply(id, &[delivered(seq, seq), acknowledged(seq, seq)]).expect("it exists");
        consumers.flush(0).expect("the disk is healthy");
        assert!(seq < 100_000);
    }
    let before = consumers.flush(0).expect("the disk is healthy").expect("a file");
    assert!(before.end >= 256 << 10);
    let after = consumers.checkpoint().expect("the disk is healthy").expect("a file");
    assert!(after > before && after.end < 1000, "{after:?}");
    assert!(!consumers.checkpoint_due());
    assert!(consumers.is_released(before));
}

#[test]
fn a_log_is_due_when_most_of_its_consumers_are_gone() {
    let (mut consumers, _) =
        Consumers::open(place(Arc::new(MemoryDisk::new()), None)).expect("there is nothing");
    let create = |n| consumers.create(&format!("c{n}"), AckRules::default(), &[7; 600]).expect("it is new");
    let ids: Vec<_> = (0..2_000).map(create).collect();
    consumers.flush(0).expect("the disk is healthy");
    // All of it is needed.
    assert!(!consumers.checkpoint_due());
    for id in ids {
        consumers.remove(id).expect("it exists");
    }
    let long = consumers.flush(0).expect("the disk is healthy").expect("a file").end;
    assert!(long > 1 << 20 && consumers.checkpoint_due(), "{long} bytes of nothing");
    let short = consumers.checkpoint().expect("the disk is healthy").expect("a file").end;
    assert!(short < 1000 && !consumers.checkpoint_due());
}

/// One write that fails is no answer for a client: all that is to be written is known.
#[test]
fn a_log_that_cannot_be_appended_to_is_written_anew_at_once() {
    let mut anew = 0;
    for point in 0..4 {
        let disk = FaultyDisk::new(3);
        let place = place(Arc::new(disk.clone()), None);
        let (mut consumers, _) = Consumers::open(place.clone()).expect("there is nothing");
        let id = consumers.create("a", AckRules::default(), b"").expect("it is new");
        let first = consumers.flush(0).expect("the disk is healthy").expect("there is a log");
        consumers.apply_one(id, delivered(1, 1)).expect("it exists");
        disk.fail_at(disk.points() + point, DiskFault::Error(std::io::ErrorKind::Other));
        let Ok(Some(flushed)) = consumers.flush(1) else { continue };
        anew += usize::from(flushed.file > first.file);
        let (again, report) = Consumers::open(place.clone()).expect("it was flushed");
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(states(&again), states(&consumers));
    }
    assert!(anew > 0, "no point is the write");
}

/// A disk without room: acknowledgements work, nothing is lost, memory stays bounded.
#[test]
fn a_full_disk_loses_nothing() {
    for cipher in [None, Some(CipherKind::Aes256Gcm)] {
        let disk = FaultyDisk::new(3);
        let place = place(Arc::new(disk.clone()), cipher);
        let (mut consumers, _) = Consumers::open(place.clone()).expect("there is nothing");
        let id = consumers.create("a", AckRules::default(), b"").expect("it is new");
        consumers.flush(0).expect("the disk is healthy");
        disk.set_capacity(Some(disk.used()));
        let mut failed = 0;
        for seq in 1..30_000 {
            consumers.apply_one(id, delivered(seq, seq)).expect("it exists");
            if seq % 3 > 0 {
                consumers.apply_one(id, acknowledged(seq, seq)).expect("it exists");
            }
            if seq % 100 == 0 {
                failed += usize::from(consumers.flush(0).is_err());
            }
        }
        assert!(failed > 200, "{failed}");
        disk.set_capacity(None);
        consumers.flush(0).expect("there is room again");
        let (again, report) = Consumers::open(place.clone()).expect("it was flushed");
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(states(&again), states(&consumers));
    }
}

#[test]
fn another_key_is_an_error_and_changes_nothing() {
    let disk = Arc::new(MemoryDisk::new());
    let here = place(disk.clone(), Some(CipherKind::Aes256Gcm));
    let (mut consumers, _) = Consumers::open(here.clone()).expect("there is nothing");
    consumers.create("a", AckRules::default(), b"").expect("it is new");
    consumers.flush(0).expect("the disk is healthy");
    let other = StreamKey::generate(&SeededEntropy::new(3));
    let wrong = LogStorage { key: Some((CipherKind::Aes256Gcm, other)), ..here.clone() };
    assert!(matches!(Consumers::open(wrong), Err(OpenError::Locked(_))));
    assert!(matches!(Consumers::open(LogStorage { key: None, ..here.clone() }), Err(OpenError::Locked(_))));
    assert_eq!(Consumers::open(here).expect("the right key").0.len(), 1);
}

/// A log of which `pending` messages await their acknowledgement.
fn pending(place: &LogStorage, pending: u64) -> (Consumers, ConsumerId) {
    let (mut consumers, _) = Consumers::open(place.clone()).expect("there is nothing");
    let id = consumers.create("a", AckRules::default(), b"").expect("it is new");
    for seq in 1..=pending {
        consumers.apply_one(id, delivered(seq, seq)).expect("it exists");
        if seq % 1000 == 0 {
            consumers.flush(0).expect("the disk is healthy");
        }
    }
    consumers.flush(0).expect("the disk is healthy");
    (consumers, id)
}

/// A start would take twice the memory of what is pending, and the allocator keep it.
#[test]
fn rings_do_not_grow_while_a_log_is_read() {
    let place = place(Arc::new(MemoryDisk::new()), None);
    let (mut consumers, id) = pending(&place, 33_000);
    let room = |place: &LogStorage| {
        let (again, _) = Consumers::open(place.clone()).expect("it was flushed");
        let pending = again.state(id).expect("it exists").pending();
        (pending.len(), pending.capacity())
    };
    assert_eq!(room(&place), (33_000, 33_000));
    // Behind a state as a whole, with some that are delivered again, and acknowledged.
    consumers.checkpoint().expect("the disk is healthy");
    for seq in 33_001..=33_500 {
        let next = consumers.state(id).expect("it exists").delivered().consumer.0 + 1;
        consumers.apply_one(id, delivered(next, seq)).expect("it exists");
        let again = Delta::Delivered { delivery: DeliverySeq(next + 1), seq: 7, count: 1, timestamp: 8 };
        consumers.apply_one(id, again).expect("it exists");
    }
    for seq in 33_001..=33_500 {
        consumers.apply_one(id, Delta::Forget { seq }).expect("it exists");
    }
    consumers.flush(0).expect("the disk is healthy");
    assert_eq!(room(&place), (33_000, 33_500));
}

#[test]
fn a_log_that_is_appended_to_faster_than_it_is_written_anew_stays() {
    let place = place(Arc::new(MemoryDisk::new()), None);
    let (mut consumers, id) = pending(&place, 10);
    let begin = |consumers: &mut Consumers| {
        let mut rewrite = consumers.begin_rewrite(0).expect("the disk is healthy").expect("a log");
        assert_eq!(consumers.draw(&mut rewrite, 0).expect("the disk is healthy"), Drawn::Whole);
        rewrite
    };
    let append = |consumers: &mut Consumers, times: usize| {
        for _ in 0..times {
            consumers.update(id, AckRules::default(), &vec![7; 100_000]).expect("it exists");
            consumers.flush(0).expect("the disk is healthy");
        }
    };
    // What waits in memory is bounded.
    let mut rewrite = begin(&mut consumers);
    append(&mut consumers, 11);
    assert_eq!(consumers.draw(&mut rewrite, 0).expect("the disk is healthy"), Drawn::Overtaken);
    let file = rewrite.write();
    assert_eq!(consumers.finish_rewrite(rewrite, file, 0).expect("the disk is healthy"), None);
    assert!(!consumers.checkpoint_due());
    let before = everything(&consumers);
    let (again, report) = Consumers::open(place.clone()).expect("it was flushed");
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(everything(&again), before);
    // It is tried again when the log is twice as long.
    append(&mut consumers, 9);
    assert!(!consumers.checkpoint_due());
    append(&mut consumers, 3);
    assert!(consumers.checkpoint_due());
    let mut rewrite = begin(&mut consumers);
    append(&mut consumers, 2);
    let file = rewrite.write();
    assert!(consumers.finish_rewrite(rewrite, file, 0).expect("the disk is healthy").is_some());
    assert_eq!(everything(&Consumers::open(place).expect("it was flushed").0), everything(&consumers));
}
