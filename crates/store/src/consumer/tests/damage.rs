//! Logs cut at every byte, and with every bit flipped.
//!
//! What must hold of any damage: a message that awaits its acknowledgement is still pending or is
//! delivered again, floors are not above the true ones, and what was lost is reported.

use myelin_disk::faulty::FaultyDisk;
use myelin_disk::memory::MemoryDisk;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A log that was written flush by flush, with the truth after each.
struct Written {
    bytes: Vec<u8>,
    image_end: usize,
    flushes: Vec<(usize, BTreeMap<ConsumerId, ConsumerState>)>,
}

fn file_name() -> PathBuf {
    directory().join("consumers.00000001")
}

fn write(rules: &[AckRules], script: &[(u8, Vec<Event>)], cipher: Option<CipherKind>) -> Written {
    let disk = FaultyDisk::new(0);
    let (mut consumers, _) =
        Consumers::open(place(Arc::new(disk.clone()), cipher)).expect("there is nothing");
    let ids: Vec<ConsumerId> = rules
        .iter()
        .enumerate()
        .map(|(at, rules)| consumers.create(&format!("c{at}"), *rules, b"config").expect("new name"))
        .collect();
    let first = consumers.flush(0).expect("healthy").expect("a file");
    let mut flushes = vec![(first.end as usize, states(&consumers))];
    for (at, events) in script {
        let id = ids[*at as usize % ids.len()];
        for event in events {
            let delta = event.delta(consumers.state(id).expect("it exists"));
            consumers.apply(id, &[delta]).expect("it exists");
        }
        let end = consumers.flush(0).expect("healthy").expect("a file").end;
        flushes.push((end as usize, states(&consumers)));
    }
    let mut bytes = disk.read_all(&file_name()).expect("it is there");
    bytes.truncate(flushes.last().expect("there is one").0);
    Written { bytes, image_end: first.end as usize, flushes }
}

/// Opens `bytes` as the only log.
fn read(bytes: &[u8], cipher: Option<CipherKind>) -> Result<(Consumers, LogReport), OpenError> {
    let disk = Arc::new(MemoryDisk::new());
    let place = place(disk.clone(), cipher);
    disk.create(&file_name()).and_then(|file| file.write_at(bytes, 0)).expect("memory");
    Consumers::open(place)
}

fn truth(written: &Written) -> &BTreeMap<ConsumerId, ConsumerState> {
    &written.flushes.last().expect("there is one").1
}

/// Nothing that awaits an acknowledgement is lost, nothing is taken for done that is not.
fn check_nothing_lost(found: &ConsumerState, truth: &ConsumerState, what: &str) {
    assert!(found.ack_floor().stream <= truth.ack_floor().stream, "{what}: {found:?} instead of {truth:?}");
    assert!(found.delivered().stream <= truth.delivered().stream, "{what}: {found:?} instead of {truth:?}");
    for (seq, _) in truth.pending().iter() {
        let comes = found.pending().get(seq).is_some() || seq > found.delivered().stream;
        assert!(comes, "{what}: {seq} is lost in {found:?} instead of {truth:?}");
    }
}

fn script() -> impl Strategy<Value = Vec<(u8, Vec<Event>)>> {
    vec((any::<u8>(), vec(strategy::growing(), 1..6)), 1..12)
}

/// A single bit costs nothing.
fn check_flip(written: &Written, bit: usize, cipher: Option<CipherKind>) {
    let mut bytes = written.bytes.clone();
    bytes[bit / 8] ^= 1 << (bit % 8);
    let (consumers, report) = read(&bytes, cipher).expect("one bit is no damage");
    assert_eq!(report.corrected, [bit as u64], "{report:?}");
    assert_eq!(LogReport { corrected: Vec::new(), file: None, end: 0, ..report }, LogReport::default());
    assert_eq!(states(&consumers), *truth(written), "bit {bit}");
}

/// Two bits of one byte.
fn check_damage(written: &Written, bit: usize, cipher: Option<CipherKind>) {
    let mut bytes = written.bytes.clone();
    bytes[bit / 8] ^= 1 << (bit % 8) | 1 << ((bit + 3) % 8);
    let what = format!("bit {bit} and another one");
    let (consumers, report) = match read(&bytes, cipher) {
        Ok(opened) => opened,
        Err(OpenError::Version(_) | OpenError::Locked(_)) if bit / 8 < HEADER_BYTES => return,
        Err(error) => panic!("{what}: {error}"),
    };
    assert!(!report.is_clean(), "{what} is not noticed");
    let found = states(&consumers);
    for (id, state) in &found {
        check_nothing_lost(state, &truth(written)[id], &what);
    }
    check_floors(written, bit / 8, &found, &what);
    for (id, true_state) in truth(written) {
        let told = report.affected.iter().any(|(affected, ..)| affected == id)
            || report.orphans.contains(id)
            || report.missing > 0
            || report.torn.is_some()
            || !report.unusable.is_empty();
        assert!(found.get(id) == Some(true_state) || told, "{what}: {id:?} is not told: {report:?}");
    }
}

/// A floor is at least what it was before the damage, and exactly the true one if anything of the
/// consumer follows.
fn check_floors(written: &Written, at: usize, found: &BTreeMap<ConsumerId, ConsumerState>, what: &str) {
    if at < written.image_end {
        return;
    }
    let hit = written.flushes.partition_point(|(end, _)| *end <= at);
    for (id, state) in found {
        let before = &written.flushes[hit - 1].1[id];
        let (after, last) = (&written.flushes[hit].1[id], &truth(written)[id]);
        assert!(state.ack_floor().stream >= before.ack_floor().stream, "{what}: {state:?} after {before:?}");
        if after != last {
            assert_eq!(state.ack_floor(), last.ack_floor(), "{what}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn every_flipped_bit_is_corrected_and_more_lose_nothing_in_silence(
        rules in vec(strategy::rules(), 1..4),
        script in script(),
        cipher in super::log::cipher(),
    ) {
        let written = write(&rules, &script, cipher);
        for bit in 0..written.bytes.len() * 8 {
            // Every byte, and in turn each of its bits; all of them in one case of eight would take
            // too long.
            if bit % 8 == bit / 8 % 8 || written.bytes.len() < 400 {
                check_flip(&written, bit, cipher);
                check_damage(&written, bit, cipher);
            }
        }
    }

    #[test]
    fn a_log_cut_anywhere_is_what_it_was_at_some_flush(
        rules in vec(strategy::rules(), 1..3),
        script in script(),
        cipher in super::log::cipher(),
    ) {
        let written = write(&rules, &script, cipher);
        for length in 0..written.bytes.len() {
            let Ok((consumers, report)) = read(&written.bytes[..length], cipher) else {
                prop_assert!(length < written.image_end && cipher.is_some());
                continue;
            };
            if length < written.image_end {
                prop_assert!(!report.is_clean() || length == 0, "{} {:?}", length, report);
                continue;
            }
            let at = written.flushes.partition_point(|(end, _)| *end <= length) - 1;
            prop_assert_eq!(&states(&consumers), &written.flushes[at].1, "cut at {}", length);
            let torn = (length > written.flushes[at].0).then_some(written.flushes[at].0 as u64);
            prop_assert_eq!(report.torn.map(|torn| torn.offset), torn);
            prop_assert!(report.bad.is_empty() && report.affected.is_empty());
        }
    }

    /// Whole entries are missing, as if sectors had not arrived: later ones are there.
    #[test]
    fn a_hole_costs_deliveries_again_but_no_message(
        rules in vec(strategy::rules(), 1..3),
        script in script(),
        from: prop::sample::Index,
        length in 1usize..200,
    ) {
        let written = write(&rules, &script, None);
        let from = written.image_end + from.index(written.bytes.len() - written.image_end + 1);
        let to = (from + length).min(written.bytes.len());
        let mut bytes = written.bytes.clone();
        bytes[from..to].fill(0);
        let (consumers, _) = read(&bytes, None).expect("not encrypted");
        for (id, state) in states(&consumers) {
            check_nothing_lost(&state, &truth(&written)[&id], "hole");
        }
    }

    #[test]
    fn any_bytes_are_read(mut bytes in vec(any::<u8>(), 0..600), with_header: bool) {
        if with_header {
            let written = write(&[AckRules::default()], &[], None);
            bytes.splice(..0, written.bytes[..HEADER_BYTES].iter().copied());
        }
        let _ = replay(bytes, STREAM, 1);
    }
}

#[test]
fn after_damage_the_log_is_written_anew_and_the_old_one_is_kept() {
    let disk = FaultyDisk::new(0);
    let place = place(Arc::new(disk.clone()), None);
    let (mut consumers, _) = Consumers::open(place.clone()).expect("there is nothing");
    let id = consumers.create("a", AckRules::default(), b"").expect("it is new");
    consumers.flush(0).expect("healthy");
    let mut ends = Vec::new();
    for seq in 1..=3 {
        consumers.apply_one(id, delivered(seq, seq)).expect("it exists");
        ends.push(consumers.flush(0).expect("healthy").expect("a file").end);
    }
    for bit in [3, 5] {
        disk.flip_bit(&file_name(), ends[0] + 20, bit).expect("it is there");
    }

    let (mut again, report) = Consumers::open(place.clone()).expect("damage is no error");
    let range = ends[0]..ends[1];
    assert_eq!(report.bad, [BadRange { range, fault: BadBytes::Unreadable }]);
    assert_eq!(report.affected, [(id, "a".into(), Affected::Rewound)]);
    let state = again.state(id).expect("it is there");
    assert_eq!(state.delivered(), SequencePair { consumer: DeliverySeq(3), stream: 1 });
    assert_eq!(state.pending().len(), 1, "2 and 3 are delivered again");

    assert!(again.take_obsolete().is_empty(), "nothing has taken its place yet");
    again.apply_one(id, delivered(4, 2)).expect("it exists");
    assert_eq!(again.flush(0).expect("healthy").expect("a file").file, 2);
    assert_eq!(again.take_obsolete(), [Obsolete { path: file_name(), fate: Fate::Quarantine }]);
    disk.remove_file(&file_name()).expect("as if moved");
    let (last, report) = Consumers::open(place).expect("healthy");
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(states(&last), states(&again));
}

/// The last entry is damaged, or was never finished: nobody can tell, so it is not thrown away.
#[test]
fn a_torn_log_is_kept_and_so_is_one_that_lost_its_image() {
    let disk = FaultyDisk::new(0);
    let place = place(Arc::new(disk.clone()), None);
    let (mut consumers, _) = Consumers::open(place.clone()).expect("there is nothing");
    let id = consumers.create("a", AckRules::default(), b"").expect("it is new");
    consumers.flush(0).expect("healthy");
    consumers.apply_one(id, delivered(1, 1)).expect("it exists");
    let end = consumers.flush(0).expect("healthy").expect("a file").end;
    for bit in [3, 5] {
        disk.flip_bit(&file_name(), end - 1, bit).expect("it is there");
    }

    let (mut again, report) = Consumers::open(place.clone()).expect("damage is no error");
    assert!(report.torn.is_some() && report.bad.is_empty(), "{report:?}");
    assert!(again.is_dirty() && again.take_obsolete().is_empty(), "nothing has taken its place yet");
    again.flush(0).expect("healthy");
    assert_eq!(again.take_obsolete(), [Obsolete { path: file_name(), fate: Fate::Quarantine }]);

    // The second log loses a part that had been synced, so the first one counts again.
    let second = directory().join("consumers.00000002");
    disk.truncate(&second, HEADER_BYTES as u64 + 3).expect("it is there");
    let (mut last, report) = Consumers::open(place).expect("damage is no error");
    assert_eq!((report.file, report.unusable), (Some(1), vec!["consumers.00000002".to_owned()]));
    assert_eq!(last.flush(0).expect("healthy").expect("a file").file, 3, "no number comes again");
    let kept = [second, file_name()].map(|path| Obsolete { path, fate: Fate::Quarantine });
    let mut obsolete = last.take_obsolete();
    obsolete.sort_by_key(|one| std::cmp::Reverse(one.path.clone()));
    assert_eq!(obsolete, kept);
}

#[test]
fn a_reset_that_was_lost_is_seen_by_the_floor_after_it() {
    let disk = FaultyDisk::new(0);
    let place = place(Arc::new(disk.clone()), None);
    let (mut consumers, _) = Consumers::open(place.clone()).expect("there is nothing");
    let id = consumers.create("a", AckRules::default(), b"").expect("it is new");
    let mut ends = Vec::new();
    for deltas in [
        vec![delivered(1, 50), acknowledged(1, 50), delivered(2, 51)],
        vec![Delta::Reset { seq: 9 }],
        vec![delivered(1, 10), delivered(2, 11), acknowledged(1, 10)],
    ] {
        consumers.flush(0).expect("healthy");
        consumers.apply(id, &deltas).expect("it exists");
        ends.push(consumers.flush(0).expect("healthy").expect("a file").end);
    }
    disk.zero(&file_name(), ends[0]..ends[1]).expect("it is there");
    let (again, _) = Consumers::open(place).expect("damage is no error");
    let state = again.state(id).expect("it is there");
    assert_eq!(state.ack_floor().stream, 10);
    assert_eq!(state.delivered().stream, 10, "11 is delivered again");
    assert!(state.pending().is_empty());
}

/// A log that was made by hand from `docs/formats/consumers.md`, not by this code.
#[test]
fn the_format_is_the_one_on_paper() {
    let entries = include_bytes!("../../../../../fuzz/seeds/store_consumer/plain");
    let header = super::super::header::LogHeader {
        stream: StreamId(1),
        number: 1,
        next_consumer: 1,
        image_end: HEADER_BYTES as u64,
        consumers: 0,
        salt: [0; 16],
        cipher: None,
        applied: None,
    };
    let mut log = header.encode().to_vec();
    log.extend_from_slice(&entries[1..]);
    let read = replay(log, StreamId(1), 1).expect("the header is one");
    assert!(read.report.is_clean(), "{:?}", read.report);
    let [one, two, three] = &read.consumers[..] else { panic!("{:?}", read.consumers) };
    assert_eq!((&*one.name, one.rules.acks, &*one.config), ("one", AckPolicy::Explicit, &b"{}"[..]));
    let pending: Vec<_> = one.state.pending().iter().collect();
    // Its redelivery says no time.
    assert_eq!(pending, [(4, Pending { delivery: DeliverySeq(4), timestamp: 0 })]);
    assert_eq!(one.state.redelivered().iter().collect::<Vec<_>>(), [(&4, &1)]);
    assert_eq!(one.state.ack_floor(), SequencePair { consumer: DeliverySeq(3), stream: 3 });
    assert_eq!(two.state.delivered(), SequencePair { consumer: DeliverySeq(3), stream: 12 });
    assert_eq!(three.state.ack_floor(), SequencePair { consumer: DeliverySeq(2), stream: 2 });
}
