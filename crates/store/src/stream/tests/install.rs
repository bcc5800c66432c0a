//! A whole stream in pieces, from one replica to another.

use super::*;
use crate::consumer::{AckRules, ConsumerId, Consumers, Delta, GroupConsumers};
use crate::stream::{InstallPoint, InstallTarget};

/// A leader with messages of which some are gone, notes and consumers, all committed, and its
/// consumers.
fn leader(config: StreamConfig) -> (Bench, Stream, GroupConsumers) {
    let (bench, mut stream) = member(config);
    for n in 1..=60 {
        put(&mut stream, &format!("s.{}", n % 3), &format!("payload {n}"), n).unwrap();
    }
    stream.skip(2_000_000, 61).unwrap();
    put(&mut stream, "far", "away", 62).unwrap();
    for seq in [1, 2, 3, 17, 18, 40, 60] {
        stream.delete(seq, 63).unwrap();
    }
    let lasting = NewMessage { subject: b"t", timestamp: 64, expires: Some(7_000), ..NewMessage::default() };
    stream.append(&[lasting], Admission::Check, 64, &mut Vec::new()).unwrap();
    stream.skip(2_000_010, 65).unwrap();
    stream.propose_notes(&[(b"key", b"value")], 66).unwrap();
    stream.propose_config(b"config", 67).unwrap();
    let mut consumers = GroupConsumers::in_memory(0);
    let mut decided: Consumers = consumers.lead();
    for name in ["A", "B", "C"] {
        let id = decided.create(name, AckRules::default(), b"its config").unwrap();
        let delivery = crate::consumer::DeliverySeq(1);
        decided.apply_one(id, Delta::Delivered { delivery, seq: 4, count: 1, timestamp: 68 }).unwrap();
    }
    // Its id is never given out again.
    let made = decided.take_records();
    stream.propose_consumers(&made, 69).unwrap();
    let last = decided.find("C").unwrap();
    decided.remove(last).unwrap();
    let removed = decided.take_records();
    stream.propose_consumers(&removed, 69).unwrap();
    let index = stream.group().unwrap().index;
    stream.committed(index);
    for (index, records) in stream.committed_consumers(0) {
        consumers.apply(index, records).unwrap();
    }
    (bench, stream, consumers)
}

/// Has a stream of `bench` get everything, in small pieces.
fn install(
    (stream, consumers): (&Stream, &GroupConsumers),
    bench: &Bench,
    config: StreamConfig,
) -> (Stream, GroupConsumers, InstallPoint) {
    let store = bench.store.as_ref().unwrap();
    let mut source = stream.install_source(consumers).unwrap();
    let point = source.point();
    let own = bench.create(config);
    let (image, _) = store.open_group_consumers(own.id(), config.durability).unwrap();
    let mut target = InstallTarget::new(own, image, point);
    let mut pieces = 0;
    while let Some(piece) = source.next_piece(100).unwrap() {
        target.take(&piece).unwrap();
        pieces += 1;
    }
    assert!(pieces > 10);
    let settle = || {
        store.journal().round_now(&|| 100).map(drop).map_err(|error| StoreError::Failed(error.to_string()))
    };
    let (own, image) = target.finish(&settle).unwrap();
    (own, image, point)
}

#[test]
fn another_replica_has_everything_and_goes_on_behind_it() {
    for compression in [Compression::None, Compression::S2] {
        let config = StreamConfig { segment_bytes: Some(600), compression, ..StreamConfig::default() };
        let (_bench, mut stream, consumers) = leader(config);
        let other = Bench::new();
        let (mut own, image, point) = install((&stream, &consumers), &other, config);
        let states = |consumers: &GroupConsumers| {
            let words = |(id, (name, rules, config, state)): (ConsumerId, (&str, _, &[u8], &_))| {
                format!("{id:?} {name} {rules:?} {config:?} {state:?}")
            };
            consumers.iter().map(words).collect::<Vec<_>>()
        };
        let assert_same = |own: &Stream, image: &GroupConsumers, stream: &Stream| {
            assert_eq!(contents(own), contents(stream));
            assert_eq!(own.state().totals.last_timestamp, stream.state().totals.last_timestamp);
            assert_eq!(own.state().totals.first_seq, stream.state().totals.first_seq);
            assert_eq!(own.state().totals.last_seq, stream.state().totals.last_seq);
            assert_eq!(own.state().subjects, stream.state().subjects);
            assert_eq!(own.note(b"key"), Some(&b"value"[..]));
            assert_eq!(own.decided_config(), stream.decided_config());
            assert_eq!(states(image), states(&consumers));
            assert_eq!(
                (image.applied(), image.next_consumer()),
                (point.position.index, consumers.next_consumer())
            );
        };
        assert_same(&own, &image, &stream);
        assert_eq!(own.group(), Some(point.position));
        // What has a lifetime has it there, too.
        let mut buffer = Vec::new();
        let lasting = own.reader().get(2_000_002, Wait::Allowed, &mut buffer).unwrap().unwrap();
        assert_eq!((lasting.subject, lasting.timestamp), (&b"t"[..], 64));
        stream.take_decided();
        put(&mut stream, "s.1", "next", 70).unwrap();
        stream.delete(5, 71).unwrap();
        for entry in stream.take_decided() {
            own.append_decided(&entry, 72).unwrap();
        }
        let index = stream.group().unwrap().index;
        stream.committed(index);
        own.committed(index);
        assert_eq!(contents(&own), contents(&stream));
    }
}

/// Pieces are read while the stream goes on.
#[test]
fn what_goes_while_pieces_are_read_is_removed_by_later_entries() {
    let config = StreamConfig { segment_bytes: Some(600), ..StreamConfig::default() };
    let (_bench, mut stream, consumers) = leader(config);
    stream.take_decided();
    let mut source = stream.install_source(&consumers).unwrap();
    let first = source.next_piece(100).unwrap().unwrap();
    let mut purge = Purge { filter: None, below: 30, keep: 0, through: 0 };
    stream.purge(&mut purge, usize::MAX, 80).unwrap();
    stream.delete(44, 81).unwrap();
    let index = stream.group().unwrap().index;
    stream.committed(index);
    let other = Bench::new();
    let store = other.store.as_ref().unwrap();
    let own = other.create(config);
    let (image, _) = store.open_group_consumers(own.id(), config.durability).unwrap();
    let mut target = InstallTarget::new(own, image, source.point());
    target.take(&first).unwrap();
    while let Some(piece) = source.next_piece(100).unwrap() {
        target.take(&piece).unwrap();
    }
    let (mut own, _) = target.finish(&|| Ok(())).unwrap();
    for entry in stream.take_decided() {
        own.append_decided(&entry, 82).unwrap();
    }
    own.committed(index);
    assert_eq!(contents(&own), contents(&stream));
    assert_eq!(own.state().totals.first_seq, stream.state().totals.first_seq);
}

#[test]
fn pieces_that_are_none_are_refused() {
    let config = StreamConfig::default();
    let (_bench, stream, consumers) = leader(config);
    let point = stream.install_source(&consumers).unwrap().point();
    let (_other, own) = (Bench::new(), Stream::in_memory(config, 1, 1));
    let mut target =
        InstallTarget::new(own, GroupConsumers::in_memory(0), InstallPoint { last_seq: 10, ..point });
    let record = |seq| {
        let mut record = Vec::new();
        let message = Message { seq, timestamp: 1, expires: None, subject: b"a", headers: b"", payload: b"" };
        crate::record::canonical::write_message(&message, &mut record);
        record
    };
    assert!(target.take(b"nonsense").is_err());
    assert!(target.take(&record(11)).is_err(), "behind the end");
    assert!(target.take(&[record(5), record(4)].concat()).is_err(), "out of order");
    target.take(&[record(4), record(5)].concat()).unwrap();
    assert!(target.take(&record(5)).is_err(), "twice");
}
