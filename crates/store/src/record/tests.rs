//! Entries go in and come out; changed ones do not.

use std::borrow::Cow;

use proptest::prelude::*;

use super::*;
use crate::cipher::CipherKind;
use crate::segment::tests::spent;

fn contexts() -> [FileContext; 3] {
    let cipher = |kind| Some(Cipher::new(kind, &[7; 32]));
    [
        FileContext { seed: 0xfeed_beef, cipher: None },
        FileContext { seed: 1, cipher: cipher(CipherKind::ChaCha20Poly1305) },
        FileContext { seed: 2, cipher: cipher(CipherKind::Aes256Gcm) },
    ]
}

/// Owns what an entry borrows.
#[derive(Clone, Debug)]
enum Step {
    Message(u64, i64, Option<i64>, Vec<u8>, Vec<u8>, Vec<u8>),
    Control(Control<'static>),
}

impl Step {
    fn entry(&self) -> Entry<'_> {
        match self {
            Self::Message(seq, timestamp, expires, subject, headers, payload) => Entry::Message(Message {
                seq: *seq,
                timestamp: *timestamp,
                expires: *expires,
                subject,
                headers,
                payload,
            }),
            Self::Control(control) => Entry::Control(control.clone()),
        }
    }
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..most)
}

fn log_entry() -> impl Strategy<Value = LogEntry> {
    let kind = prop_oneof![
        Just(LogEntryKind::Normal),
        Just(LogEntryKind::Membership),
        Just(LogEntryKind::Empty),
        Just(LogEntryKind::Abort),
    ];
    (1..u64::MAX, any::<u64>(), any::<u64>(), any::<u64>(), kind, any::<bool>()).prop_map(
        |(index, term, commit, chain, kind, more)| LogEntry { index, term, commit, chain, kind, more },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let ranges = prop::collection::vec(0u64..1000, 0..20)
        .prop_map(|list| Control::Delete(Cow::Owned(Ranges::from_unsorted(list))));
    let control = prop_oneof![
        ranges,
        any::<u64>().prop_map(|first| Control::Trim { first }),
        any::<u64>().prop_map(|last| Control::Truncate { last }),
        any::<u64>().prop_map(|last| Control::Skip { last }),
        any::<(u64, u64)>().prop_map(|(no, offset)| Control::Durable { segment: SegmentNo(no), offset }),
        any::<(u64, u64)>().prop_map(|(epoch, term)| Control::Term { epoch, term }),
        log_entry().prop_map(Control::LogEntry),
        any::<(u64, u64)>().prop_map(|(first, chain)| Control::TakenBack { first, chain }),
        (any::<(u64, u8)>(), bytes(40)).prop_map(|((consumer, kind), payload)| {
            Control::Consumer(ConsumerRecord { consumer, kind, payload: Cow::Owned(payload) })
        }),
        bytes(40).prop_map(|blob| Control::Config(Cow::Owned(blob))),
        (bytes(40), bytes(40)).prop_map(|(key, value)| {
            Control::Note(NoteRecord { key: Cow::Owned(key), value: Cow::Owned(value) })
        }),
    ];
    let message = (any::<(u64, i64, Option<i64>)>(), bytes(40), bytes(40), bytes(200)).prop_map(
        |((seq, time, expires), subject, headers, payload)| {
            Step::Message(seq, time, expires, subject, headers, payload)
        },
    );
    prop_oneof![3 => message, 1 => control.prop_map(Step::Control)]
}

fn encode(steps: &[Step], at: u64, context: &FileContext) -> (Vec<u8>, Vec<u32>) {
    let mut buffer = b"before".to_vec();
    let mut batch = EntryBatch::begin(&mut buffer, at, context);
    let place = |step: &Step| match (step.entry(), step) {
        (Entry::Message(message), _) => batch.message(&message),
        (_, Step::Control(control)) => batch.control(control, 5),
        _ => unreachable!("a step is a message or a control"),
    };
    let places = steps.iter().map(place).collect();
    let length = batch.finish();
    assert_eq!(&buffer[..6], b"before");
    assert_eq!(buffer.len() - 6, length);
    (buffer.split_off(6), places)
}

proptest! {
    #[test]
    fn a_batch_comes_back(steps in prop::collection::vec(step(), 1..8), at in 128u64..1_000_000) {
        for context in contexts() {
            let (mut buffer, places) = encode(&steps, at, &context);
            let mut done = 0;
            for (index, (step, place)) in steps.iter().zip(&places).enumerate() {
                prop_assert_eq!(u64::from(*place), at + done as u64);
                let head = peek(&buffer[done..]).unwrap();
                let most = match step.entry() {
                    Entry::Message(message) => message.max_encoded_len(),
                    Entry::Control(control) => control.max_encoded_len(),
                    Entry::Erased { .. } => 0,
                };
                prop_assert!(head.size() <= most);
                prop_assert_eq!(verify(&buffer[done..], &context).unwrap(), head);
                let rest = &mut buffer[done..];
                let decoded = decode(rest, u64::from(*place), &context).unwrap();
                prop_assert_eq!(&decoded.entry, &step.entry());
                prop_assert_eq!(decoded.continues, index + 1 < steps.len());
                prop_assert_eq!(decoded.size, head.size());
                done += decoded.size;
            }
            prop_assert_eq!(done, buffer.len());
        }
    }

    #[test]
    fn a_cut_or_changed_entry_is_invalid(step in step(), bit in any::<prop::sample::Index>()) {
        for context in contexts() {
            let (good, _) = encode(std::slice::from_ref(&step), 128, &context);
            for cut in 0..good.len() {
                prop_assert!(decode(&mut good[..cut].to_vec(), 128, &context).is_err());
            }
            let mut bad = good.clone();
            let bit = bit.index(bad.len() * 8);
            bad[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(decode(&mut bad, 128, &context).is_err());
            let other = FileContext { seed: context.seed ^ 1, cipher: context.cipher.clone() };
            prop_assert_eq!(decode(&mut good.clone(), 128, &other).unwrap_err(), Invalid::Checksum);
            let moved = decode(&mut good.clone(), 129, &context).is_err();
            prop_assert_eq!(moved, context.cipher.is_some());
        }
    }

    #[test]
    fn records_come_back_from_their_canonical_form(steps in prop::collection::vec(step(), 0..8)) {
        let mut bytes = Vec::new();
        for step in &steps {
            match (step.entry(), step) {
                (Entry::Message(message), _) => canonical::write_message(&message, &mut bytes),
                (_, Step::Control(control)) => canonical::write_control(control, 5, &mut bytes),
                _ => unreachable!("a step is a message or a control"),
            }
        }
        let has_form = |entry: &Entry<'_>| {
            !matches!(
                entry,
                Entry::Control(Control::Durable { .. } | Control::LogEntry(_) | Control::TakenBack { .. })
            )
        };
        let expected: Vec<_> = steps.iter().map(Step::entry).filter(has_form).collect();
        let records = canonical::read(&bytes).unwrap();
        prop_assert_eq!(records.iter().map(|(entry, _)| entry.clone()).collect::<Vec<_>>(), expected);
        for (entry, timestamp) in &records {
            match entry {
                Entry::Message(message) => prop_assert_eq!(message.timestamp, *timestamp),
                _ => prop_assert_eq!(*timestamp, 5),
            }
        }
        for cut in 0..bytes.len() {
            let left = canonical::read(&bytes[..cut]).map_or(0, |records| records.len());
            prop_assert!(left < records.len());
        }
    }

    #[test]
    fn any_bytes_are_an_entry_or_not(mut bytes in bytes(120), kind in 0u8..10, size in 0u32..140) {
        for context in contexts() {
            let _ = decode(&mut bytes.clone(), 128, &context);
            if bytes.len() >= HEAD_BYTES {
                bytes[4..8].copy_from_slice(&size.to_le_bytes());
                (bytes[24], bytes[25], bytes[26]) = (bytes[24] & 31, 0, kind);
                bytes[29..32].fill(0);
                let end = (size as usize).clamp(4, bytes.len());
                let checksum = crc32c::crc32c_append(context.seed, &bytes[4..end]);
                bytes[..4].copy_from_slice(&checksum.to_le_bytes());
                let _ = decode(&mut bytes.clone(), 128, &context);
                let _ = decode_trusted(&bytes);
                let _ = erase(&mut bytes.clone(), &context);
            }
        }
    }
}

const HELLO: Message<'_> = Message {
    seq: 9,
    timestamp: -3,
    expires: Some(17),
    subject: b"a.b",
    headers: b"NATS/1.0\r\n\r\n",
    payload: b"hello",
};

#[test]
fn the_layout_is_the_documented_one() {
    let context = FileContext { seed: 11, cipher: None };
    let mut buffer = Vec::new();
    let mut batch = EntryBatch::begin(&mut buffer, 128, &context);
    batch.message(&HELLO);
    batch.control(&Control::Trim { first: 4 }, 6);
    batch.finish();
    let mut plain = 60u32.to_le_bytes().to_vec();
    plain.extend(9u64.to_le_bytes());
    plain.extend((-3i64).to_le_bytes());
    plain.extend([3, 0, 1, 3, 12, 0, 0, 0]);
    plain.extend(17i64.to_le_bytes());
    plain.extend(b"a.bNATS/1.0\r\n\r\nhello");
    assert_eq!(buffer[..4], crc32c::crc32c_append(11, &plain).to_le_bytes());
    assert_eq!(buffer[4..60], plain);
    assert_eq!(buffer.len(), 92);
    assert_eq!(buffer[60 + 26..60 + 32], [3, 0, 0, 0, 0, 0]);
    assert_eq!(decode_trusted(&buffer).unwrap().entry, Entry::Message(HELLO));
}

#[test]
fn the_chain_is_the_documented_one() {
    let entry = LogEntry { index: 9, term: 2, commit: 7, chain: 0, kind: LogEntryKind::Normal, more: false };
    let mut records = Vec::new();
    canonical::write_message(&HELLO, &mut records);
    canonical::write_control(&Control::Durable { segment: SegmentNo(1), offset: 4 }, 6, &mut records);
    canonical::write_control(&Control::Trim { first: 4 }, 6, &mut records);
    let mut expected = vec![1, 2, 3, 0, 12, 0, 0, 0, 5, 0, 0, 0];
    expected.extend(9u64.to_le_bytes());
    expected.extend((-3i64).to_le_bytes());
    expected.extend(17i64.to_le_bytes());
    expected.extend(b"a.bNATS/1.0\r\n\r\nhello");
    expected.extend([3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend(4u64.to_le_bytes());
    expected.extend(6i64.to_le_bytes());
    assert_eq!(records, expected);
    let chain = entry.chained(11, &records);
    assert_eq!(chain, LogEntry { commit: 8, chain: 5, ..entry }.chained(11, &records));
    for other in [
        LogEntry { more: true, ..entry }.chained(11, &records),
        LogEntry { index: 10, ..entry }.chained(11, &records),
        LogEntry { term: 3, ..entry }.chained(11, &records),
        LogEntry { kind: LogEntryKind::Empty, ..entry }.chained(11, &records),
        entry.chained(12, &records),
        entry.chained(11, &records[1..]),
    ] {
        assert_ne!(chain, other);
    }
    // Bytes on disks depend on it.
    assert_eq!(chain, 3_108_131_316_708_803_088);
}

#[test]
fn an_erased_message_keeps_its_place_only() {
    for context in contexts() {
        let mut buffer = Vec::new();
        let mut batch = EntryBatch::begin(&mut buffer, 128, &context);
        batch.message(&HELLO);
        batch.control(&Control::Trim { first: 4 }, 6);
        let length = batch.finish();
        let size = peek(&buffer).unwrap().size();
        erase(&mut buffer, &context).unwrap();
        assert_eq!(buffer.len(), length);
        assert!(buffer[HEAD_BYTES..size].iter().all(|byte| *byte == 0));
        let decoded = decode(&mut buffer, 128, &context).unwrap();
        assert_eq!((decoded.entry, decoded.size, decoded.continues), (Entry::Erased { seq: 9 }, size, true));
        assert_eq!(erase(&mut buffer[size..], &context), Err(Invalid::Body));
        erase(&mut buffer, &context).unwrap();
    }
}

#[test]
fn a_cancelled_batch_leaves_nothing() {
    let [_, context, _] = contexts();
    let mut buffer = b"x".to_vec();
    let mut batch = EntryBatch::begin(&mut buffer, 128, &context);
    assert!(batch.is_empty());
    batch.message(&HELLO);
    batch.message(&HELLO);
    batch.cancel();
    assert_eq!(buffer, b"x");
    assert_eq!(EntryBatch::begin(&mut buffer, 128, &context).finish(), 0);
}

#[test]
fn sizes_are_those_of_the_reference() {
    assert_eq!(stored_size(Storage::File, 3, 0, 10), 22 + 3 + 10 + 8);
    assert_eq!(stored_size(Storage::File, 3, 12, 10), 22 + 3 + 4 + 12 + 10 + 8);
    assert_eq!(stored_size(Storage::Memory, 3, 12, 10), 3 + 12 + 10 + 16);
    assert!(fits(65_535, 1, 1) && !fits(65_536, 0, 0) && !fits(1, usize::MAX, usize::MAX));
    assert!(!fits(1, 0, MAX_ENTRY_BYTES) && peek(&[0; 64]).is_none());
}

/// Run by hand:
/// `cargo test --release -p myelin-store speed -- --ignored --nocapture --test-threads 1`.
#[test]
#[ignore = "measures"]
fn record_speed() {
    const COUNT: u64 = 400;
    const ROUNDS: u64 = 5_000;
    let payload = [b'x'; 128];
    for context in contexts() {
        let mut buffer = Vec::with_capacity(128 << 10);
        let start = spent();
        for round in 0..ROUNDS {
            buffer.clear();
            let mut batch = EntryBatch::begin(&mut buffer, 128, &context);
            for index in 0..COUNT {
                let message = Message {
                    seq: round * COUNT + index,
                    timestamp: 1,
                    expires: None,
                    subject: b"orders.eu",
                    headers: b"",
                    payload: &payload,
                };
                batch.message(&message);
            }
            batch.finish();
        }
        let nanos = (spent() - start) as f64 / (COUNT * ROUNDS) as f64;
        let mut copy = vec![0; buffer.len()];
        let start = spent();
        for _ in 0..ROUNDS {
            copy.copy_from_slice(&buffer);
            std::hint::black_box(&mut copy);
        }
        let plain = (spent() - start) as f64 / (COUNT * ROUNDS) as f64;
        let start = spent();
        for _ in 0..ROUNDS {
            for entry in buffer.chunks(buffer.len() / COUNT as usize) {
                std::hint::black_box(crc32c::crc32c_append(1, &entry[4..]));
            }
        }
        let checksum = (spent() - start) as f64 / (COUNT * ROUNDS) as f64;
        println!(
            "{:?}: {nanos:.1} ns per record, copying the bytes {plain:.1} ns, checksum {checksum:.1} ns",
            context.cipher
        );
    }
}
