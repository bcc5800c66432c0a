//! Bases come back, and merging them with changes does what a map does.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::ranges::Ranges;
use crate::segment::tests::{Bytes, millis, spent};
use crate::segment::{Changes, SubjectChange, SubjectChanges, Totals};

fn contexts() -> [(BaseHeader, FileContext); 2] {
    let plain = BaseHeader {
        stream: StreamId(8),
        covers: SegmentNo(5),
        generation: 2,
        salt: [4; 16],
        encryption: None,
    };
    let kind = CipherKind::ChaCha20Poly1305;
    let locked = BaseHeader { encryption: Some(kind), ..plain };
    [(plain, plain.context(None)), (locked, locked.context(Some(Cipher::new(kind, &[1; 32]))))]
}

/// Count, first, last.
type State = (u64, u64, u64);

#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    subjects: BTreeMap<Vec<u8>, State>,
    expiries: BTreeMap<u64, i64>,
}

fn change<'a>(text: &'a [u8], (count, first, last): State) -> SubjectChange<'a> {
    SubjectChange { text, count, first, last, first_exact: count % 2 == 0, last_exact: true }
}

fn write(model: &Model, header: &BaseHeader, context: &FileContext) -> Arc<Bytes> {
    let file = Arc::new(Bytes::default());
    let mut writer = BaseWriter::begin(file.clone(), header, context.clone()).unwrap();
    model.subjects.iter().for_each(|(text, state)| writer.subject(change(text, *state)).unwrap());
    model.expiries.iter().for_each(|(seq, expires)| writer.expiry(*seq, *expires).unwrap());
    writer.finish().unwrap();
    file
}

fn read(file: Arc<Bytes>, key: Option<&Cipher>) -> Result<Model, Damage> {
    let header = BaseHeader::read(&*file)?;
    let context = header.context(key.cloned());
    let mut reader = BaseReader::open(file, &header, context)?;
    let mut model = Model::default();
    while let Some(subjects) = reader.next_subjects()? {
        for one in subjects.iter() {
            assert_eq!(one, change(one.text, (one.count, one.first, one.last)));
            model.subjects.insert(one.text.to_vec(), (one.count, one.first, one.last));
        }
    }
    while let Some(expiries) = reader.next_expiries()? {
        model.expiries.extend(expiries);
    }
    let counts = (model.subjects.len() as u64, model.expiries.len() as u64);
    assert_eq!(counts, (reader.summary().subjects, reader.summary().expiries));
    Ok(model)
}

fn state(least: u64) -> impl Strategy<Value = State> {
    (least..5, 1u64..90, 0u64..90).prop_map(|(count, first, more)| match count {
        0 => (0, 0, 0),
        _ => (count, first, first + more),
    })
}

fn texts(least: u64, most: usize) -> impl Strategy<Value = BTreeMap<Vec<u8>, State>> {
    prop::collection::btree_map("[a-d.]{1,3}".prop_map(String::into_bytes), state(least), 0..most)
}

fn expiries(most: usize) -> impl Strategy<Value = BTreeMap<u64, i64>> {
    prop::collection::btree_map(0u64..60, any::<i64>(), 0..most)
}

/// One segment's worth: subjects, deleted, first sequence, cut, messages with expiries (offset from
/// the last).
type Segment = (BTreeMap<Vec<u8>, State>, Vec<u64>, u64, Option<u64>, Vec<(u64, i64)>);

fn segment() -> impl Strategy<Value = Segment> {
    let deleted = prop::collection::vec(0u64..80, 0..10);
    let cut = prop_oneof![3 => Just(None), 1 => (0u64..60).prop_map(Some)];
    (texts(0, 12), deleted, 0u64..3, cut, prop::collection::vec((1u64..4, any::<i64>()), 0..8))
}

/// Applies a segment to the model as a stream would, and says what its footer would.
fn apply(model: &mut Model, last: &mut u64, first: &mut u64, segment: Segment) -> Changes {
    let (texts, deleted, trim, cut, messages) = segment;
    let cut = cut.filter(|cut| cut < last);
    if let Some(cut) = cut {
        *last = cut;
        model.expiries.retain(|seq, _| *seq <= cut);
    }
    *first += trim;
    let deleted: Vec<u64> = deleted.into_iter().filter(|seq| seq <= last).collect();
    model.expiries.retain(|seq, _| !deleted.contains(seq) && seq >= first);
    let mut own = Vec::new();
    for (gap, expires) in messages {
        *last += gap;
        if *last >= *first {
            own.push((*last, expires));
        }
    }
    model.expiries.extend(own.iter().copied());
    let mut subjects = SubjectChanges::new();
    for (text, state) in texts {
        subjects.push(change(&text, if state.0 == 0 { (0, 0, 0) } else { state }));
        model.subjects.insert(text, state);
    }
    model.subjects.retain(|_, state| state.0 > 0);
    let totals = Totals { first_seq: *first, last_seq: *last, ..Totals::default() };
    let deleted = Ranges::from_unsorted(deleted);
    Changes { totals, truncated_to: cut, subjects, deleted, expiries: own }
}

proptest! {
    #[test]
    fn a_merge_is_what_a_map_does(
        old in texts(1, 30),
        old_expiries in expiries(30),
        segments in prop::collection::vec(segment(), 0..5),
        with_old in any::<bool>(),
    ) {
        for (header, context) in contexts() {
            let mut model = Model { subjects: old.clone(), expiries: old_expiries.clone() };
            if !with_old {
                model = Model::default();
            }
            let base = write(&model, &header, &context);
            prop_assert_eq!(&read(base.clone(), context.cipher.as_ref()).unwrap(), &model);
            let (mut last, mut first) = (60, 0);
            let mut newer = Vec::new();
            for segment in segments.clone() {
                newer.push(apply(&mut model, &mut last, &mut first, segment));
            }
            let target = Arc::new(Bytes::default());
            let mut writer = BaseWriter::begin(target.clone(), &header, context.clone()).unwrap();
            let mut reader = BaseReader::open(base, &header, context.clone()).unwrap();
            merge(with_old.then_some(&mut reader), &newer, &mut writer).unwrap();
            writer.finish().unwrap();
            prop_assert_eq!(read(target, context.cipher.as_ref()).unwrap(), model);
        }
    }
}

fn large() -> Model {
    let subjects =
        (0..10_000u64).map(|index| (format!("s.{index:05}").into_bytes(), (1 + index % 3, index, 2 * index)));
    Model { subjects: subjects.collect(), expiries: (0..9000).map(|seq| (seq * 3, -(seq as i64))).collect() }
}

#[test]
fn many_blocks_come_back() {
    for (header, context) in contexts() {
        let file = write(&large(), &header, &context);
        assert!(file.len().unwrap() < 250_000);
        assert_eq!(read(file, context.cipher.as_ref()).unwrap(), large());
    }
}

#[test]
fn no_flipped_bit_and_no_cut_goes_unnoticed() {
    let model = Model {
        subjects: (1..20u64).map(|index| (vec![b'a' + index as u8], (index, index, index))).collect(),
        expiries: [(3, 4), (5, 6)].into(),
    };
    for (header, context) in contexts() {
        let good = write(&model, &header, &context).0.lock().unwrap().clone();
        let key = context.cipher.as_ref();
        assert_eq!(read(Arc::new(Bytes::new(&good)), key).unwrap(), model);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(read(Arc::new(Bytes::new(&bad)), key).is_err(), "bit {bit}");
        }
        for cut in 0..good.len() {
            assert!(read(Arc::new(Bytes::new(&good[..cut])), key).is_err(), "cut at {cut}");
        }
        if key.is_some() {
            assert!(matches!(read(Arc::new(Bytes::new(&good)), None), Err(Damage::Locked(_))));
        }
    }
}

#[test]
fn disorder_is_refused() {
    let (header, context) = &contexts()[0];
    let mut writer = BaseWriter::begin(Arc::new(Bytes::default()), header, context.clone()).unwrap();
    writer.subject(change(b"b", (1, 1, 1))).unwrap();
    assert!(writer.subject(change(b"b", (1, 1, 1))).is_err());
    assert!(writer.subject(change(b"a", (1, 1, 1))).is_err());
    writer.expiry(5, 1).unwrap();
    assert!(writer.expiry(5, 1).is_err());
    assert!(writer.subject(change(b"c", (1, 1, 1))).is_err());
}

#[test]
#[ignore = "measures"]
fn base_speed() {
    for (header, context) in contexts() {
        let file = Arc::new(Bytes::default());
        let start = spent();
        let mut writer = BaseWriter::begin(file.clone(), &header, context.clone()).unwrap();
        for index in 0..1_000_000u64 {
            let text = format!("orders.eu.{index:08}");
            writer.subject(change(text.as_bytes(), (1 + index % 3, index, index + 5_000_000))).unwrap();
        }
        let summary = writer.finish().unwrap();
        let written = millis(start);
        let start = spent();
        let mut reader = BaseReader::open(file, &header, context).unwrap();
        let mut sum = 0u64;
        while let Some(subjects) = reader.next_subjects().unwrap() {
            sum += subjects.iter().map(|one| one.count + one.text.len() as u64).sum::<u64>();
        }
        println!(
            "1,000,000 subjects, {} bytes: written in {written:.1} ms, read in {:.1} ms ({sum})",
            summary.file_len,
            millis(start),
        );
    }
}
