//! Segments on a file in memory: what is sealed comes back, what is damaged is told.

use std::io;
use std::sync::Mutex;

use myelin_disk::File;
use proptest::prelude::*;

use super::*;
use crate::cipher::{Cipher, CipherKind};
use crate::damage::Damage;
use crate::ranges::Ranges;
use crate::record::{Control, Entry, EntryBatch, FileContext, Message};
use crate::{SegmentNo, StreamId};

mod scans;

/// Nanoseconds that this thread has computed: on a shared machine, the clock on the wall says
/// little.
pub(crate) fn spent() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse().unwrap()
}

/// Milliseconds since then.
pub(crate) fn millis(since: u64) -> f64 {
    (spent() - since) as f64 / 1e6
}

/// A file that is bytes.
#[derive(Debug, Default)]
pub(crate) struct Bytes(pub(crate) Mutex<Vec<u8>>);

impl Bytes {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self(Mutex::new(bytes.to_vec()))
    }
}

impl File for Bytes {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.0.lock().unwrap();
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
    fn write_at(&self, written: &[u8], offset: u64) -> io::Result<()> {
        let (mut bytes, end) = (self.0.lock().unwrap(), offset as usize + written.len());
        let length = bytes.len().max(end);
        bytes.resize(length, 0);
        bytes[offset as usize..end].copy_from_slice(written);
        Ok(())
    }
    fn allocate(&self, length: u64) -> io::Result<()> {
        let mut bytes = self.0.lock().unwrap();
        let length = bytes.len().max(length as usize);
        bytes.resize(length, 0);
        Ok(())
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.lock().unwrap().resize(length as usize, 0);
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn header() -> SegmentHeader {
    SegmentHeader {
        stream: StreamId(77),
        segment: SegmentNo(3),
        generation: 1,
        through: SegmentNo(3),
        first_seq: 10,
        before: 900,
        epoch: 4,
        term: 5,
        salt: [9; 16],
        encryption: None,
        packed: false,
        group: None,
    }
}

fn contexts() -> [(SegmentHeader, FileContext); 2] {
    let locked = SegmentHeader { encryption: Some(CipherKind::Aes256Gcm), ..header() };
    let cipher = Cipher::new(CipherKind::Aes256Gcm, &[3; 32]);
    [(header(), header().context(None)), (locked, locked.context(Some(cipher)))]
}

/// Rows of a model: delta, offset step, size, subject.
type Row = (u32, u32, u32, u8);

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let gap = prop_oneof![5 => Just(1u32), 1 => 1u32..500];
    prop::collection::vec((gap, 32u32..2000, 1u32..70_000, 0u8..12), 0..60)
}

fn slots(rows: &[Row], first_seq: u64) -> Slots {
    let (mut deltas, mut offsets, mut sizes, mut numbers) = (vec![], vec![], vec![], vec![]);
    let (mut delta, mut offset) = (0, 128);
    let mut names: Vec<u8> = Vec::new();
    for (index, (gap, step, size, subject)) in rows.iter().enumerate() {
        delta += if index == 0 { 0 } else { *gap };
        let number = names.iter().position(|name| name == subject).unwrap_or_else(|| {
            names.push(*subject);
            names.len() - 1
        });
        deltas.push(delta);
        offsets.push(offset);
        sizes.push(*size);
        numbers.push(number as u32);
        offset += step;
    }
    let mut texts = Texts::new();
    names.iter().for_each(|name| texts.push(&text(*name)));
    Slots::assemble(first_seq, deltas, offsets, sizes, numbers, &texts)
}

fn text(subject: u8) -> Vec<u8> {
    // Sorted by text is not sorted by number.
    format!("s.{}", 97u32.wrapping_mul(u32::from(subject)) % 13).into_bytes()
}

fn changes(rows: &[Row], deleted: Vec<u64>, expiries: Vec<(u64, i64)>, cut: Option<u64>) -> Changes {
    let mut names: Vec<Vec<u8>> = rows.iter().map(|row| text(row.3)).collect();
    names.push(b"a.gone".to_vec());
    names.push(b"z.old".to_vec());
    names.sort();
    names.dedup();
    let mut subjects = SubjectChanges::new();
    for (index, name) in (1u64..).zip(&names) {
        let count = if name == b"a.gone" { 0 } else { index << (index % 40) };
        let (first, last) = if count == 0 { (0, 0) } else { (1_000_000 + index, 1_000_000 + index * index) };
        let exact = index % 3 != 0 || count == 0;
        subjects.push(SubjectChange { text: name, count, first, last, first_exact: exact, last_exact: true });
    }
    let totals = Totals {
        first_seq: 3,
        last_seq: 900,
        messages: 5,
        bytes: 700,
        first_timestamp: -1,
        last_timestamp: 8,
    };
    Changes { totals, truncated_to: cut, subjects, deleted: Ranges::from_unsorted(deleted), expiries }
}

fn footer(rows: &[Row], changes: Changes) -> Footer {
    let slots = slots(rows, 10);
    let last_seq = slots.len().checked_sub(1).map_or(9, |index| slots.seq(index));
    let messages = slots.len() as u64;
    let summary =
        Totals { first_seq: 10, last_seq, messages, bytes: 1, first_timestamp: 2, last_timestamp: 3 };
    Footer { summary, changes, slots }
}

/// Checks everything but the numbers of subjects, which change with the dictionary that is written.
fn assert_same_slots(read: &Slots, written: &Slots) {
    assert_eq!(read.len(), written.len());
    for index in 0..read.len() {
        assert_eq!(read.seq(index), written.seq(index));
        assert_eq!((read.offset(index), read.size(index)), (written.offset(index), written.size(index)));
        let text = read.dictionary().text(read.subject(index));
        assert_eq!(text, written.dictionary().text(written.subject(index)));
        let number = read.dictionary().find(text).unwrap();
        assert_eq!(number, read.subject(index));
        let local = read.dictionary().local(number);
        let all: Vec<u32> =
            (0u32..).zip(read.subjects()).filter(|pair| *pair.1 == number).map(|pair| pair.0).collect();
        assert_eq!((local.count as usize, local.first, Some(&local.last)), (all.len(), all[0], all.last()));
    }
}

fn assert_finds(slots: &Slots) {
    let deltas: Vec<u32> = (0..slots.len()).map(|index| slots.delta(index)).collect();
    let most = deltas.last().map_or(5, |last| last + 5);
    for delta in 0..most {
        assert_eq!(slots.find(delta), deltas.binary_search(&delta).ok());
        assert_eq!(slots.lower_bound(delta), deltas.partition_point(|one| *one < delta));
    }
    assert_eq!(slots.find(u32::MAX), None);
}

proptest! {
    #[test]
    fn a_footer_comes_back(
        rows in rows(),
        deleted in prop::collection::vec(0u64..3000, 0..40),
        expiries in prop::collection::btree_map(any::<u64>(), any::<i64>(), 0..30),
        cut in any::<Option<u64>>(),
    ) {
        let footer = footer(&rows, changes(&rows, deleted, expiries.into_iter().collect(), cut));
        for (_, context) in contexts() {
            let mut bytes = vec![1; 5000];
            bytes.extend(footer.encode(5000, &context));
            let file = Bytes::new(&bytes);
            let trailer = read_trailer(&file, &context).unwrap().unwrap();
            prop_assert_eq!(trailer.summary, footer.summary);
            prop_assert_eq!((trailer.records_end, trailer.file_len()), (5000, bytes.len() as u64));
            prop_assert_eq!(&read_changes(&file, &trailer, &context).unwrap(), &footer.changes);
            let slots = read_slots(&file, &trailer, &context).unwrap();
            assert_same_slots(&slots, &footer.slots);
            assert_finds(&slots);
        }
    }

    #[test]
    fn columns_come_back(
        values in prop_oneof![
            prop::collection::vec(any::<u64>(), 0..50),
            prop::collection::vec(0u64..300, 0..50),
            (any::<u32>(), 0u64..70).prop_map(|(base, count)| (u64::from(base)..).take(count as usize).collect()),
            (any::<u64>(), 0usize..70).prop_map(|(value, count)| vec![value; count]),
        ],
        cut in any::<prop::sample::Index>(),
    ) {
        for form in [column::Form::Plain, column::Form::Short] {
            let mut bytes = Vec::new();
            column::encode(&values, form, &mut bytes);
            let cut = &bytes[..cut.index(bytes.len())];
            prop_assert_eq!(column::decode(values.len(), form, &mut &cut[..]), None);
            let mut input = &bytes[..];
            prop_assert_eq!(column::decode(values.len(), form, &mut input), Some(values.clone()));
            prop_assert!(input.is_empty());
        }
    }
}

/// Their checksums are right: somebody wrote them like that.
#[test]
fn footers_with_impossible_totals_are_damaged() {
    let context = header().context(None);
    let good = footer(&[], changes(&[], Vec::new(), Vec::new(), None));
    let read = |footer: &Footer| {
        let mut bytes = vec![1; 5000];
        bytes.extend(footer.encode(5000, &context));
        let file = Bytes::new(&bytes);
        let trailer = read_trailer(&file, &context)?.expect("a trailer");
        read_changes(&file, &trailer, &context).map(drop)
    };
    read(&good).unwrap();
    let empty = Totals { first_seq: MAX_SEQ + 1, last_seq: MAX_SEQ, ..Totals::default() };
    read(&Footer { summary: empty, ..good.clone() }).unwrap();
    for (first_seq, last_seq) in [(1, MAX_SEQ + 1), (1, u64::MAX), (u64::MAX, u64::MAX), (0, 5), (7, 5)] {
        let totals = Totals { first_seq, last_seq, ..Totals::default() };
        let of_segment = Footer { summary: totals, ..good.clone() };
        assert!(matches!(read(&of_segment), Err(Damage::Content(_))), "{totals:?}");
        let changes = Changes { totals, ..good.changes.clone() };
        assert!(matches!(read(&Footer { changes, ..good.clone() }), Err(Damage::Content(_))), "{totals:?}");
    }
}

#[test]
fn columns_that_cannot_be() {
    let column = |width: u8, base: u64, body: &[u8]| [&[width][..], &base.to_le_bytes(), body].concat();
    let decode = |bytes: Vec<u8>, count| column::decode(count, column::Form::Short, &mut &bytes[..]);
    assert_eq!(decode(column(9, u64::MAX - 1, &[]), 2), Some(vec![u64::MAX - 1, u64::MAX]));
    assert_eq!(decode(column(9, u64::MAX - 1, &[]), 3), None);
    assert_eq!(decode(column(1, u64::MAX, &[1]), 1), None);
    assert_eq!(decode(column(3, 0, &[1, 1, 1]), 1), None);
    assert_eq!(decode(column(8, 0, &[0; 8]), usize::MAX), None);
    for width in [0, 9] {
        assert_eq!(column::decode(1 << 40, column::Form::Plain, &mut &column(width, 0, &[])[..]), None);
    }
}

/// A sealed segment of one batch, and its parts.
fn sealed(context: &FileContext, header: &SegmentHeader) -> Vec<u8> {
    let mut bytes = header.encode().to_vec();
    let mut batch = EntryBatch::begin(&mut bytes, 128, context);
    batch.message(&Message {
        seq: 10,
        timestamp: 2,
        expires: None,
        subject: b"s.0",
        headers: b"",
        payload: b"one",
    });
    batch.message(&Message {
        seq: 11,
        timestamp: 3,
        expires: Some(4),
        subject: b"s.1",
        headers: b"h",
        payload: b"2",
    });
    batch.finish();
    let rows = [(1, 40, 36, 0), (1, 40, 40, 4)];
    let footer = footer(&rows, changes(&rows, vec![5, 6, 9], vec![(11, 4)], None));
    let tail = footer.encode(bytes.len() as u64, context);
    bytes.extend(tail);
    bytes
}

/// Everything that can be read of a segment, or the first thing that is wrong with it.
type Whole = (SegmentHeader, Option<(Trailer, Changes, Slots)>, Vec<String>);

fn read_whole(bytes: &[u8], context: &FileContext) -> Result<Whole, Damage> {
    let file = Bytes::new(bytes);
    let header = SegmentHeader::read(&file)?;
    let trailer = read_trailer(&file, context)?;
    let footer = match &trailer {
        None => None,
        Some(trailer) => {
            let changes = read_changes(&file, trailer, context)?;
            Some((*trailer, changes, read_slots(&file, trailer, context)?))
        }
    };
    let to = trailer.map_or(bytes.len() as u64, |trailer| trailer.records_end);
    let durable = if trailer.is_some() { to } else { 0 };
    let mut entries = Vec::new();
    let mut visit = |scanned: Scanned<'_>| entries.push(format!("{scanned:?}"));
    let extent = Extent { from: 128, to, durable };
    let scan = scan(&file, &header, context, extent, &mut visit)?;
    match scan {
        Scan { end: ScanEnd::Clean { .. }, damaged } if damaged.is_empty() => Ok((header, footer, entries)),
        _ => Err(Damage::Content("scan")),
    }
}

#[test]
fn no_flipped_bit_and_no_cut_goes_unnoticed() {
    for (header, context) in contexts() {
        let good = sealed(&context, &header);
        let (read, footer, entries) = read_whole(&good, &context).unwrap();
        assert_eq!((read, entries.len()), (header, 2));
        assert!(footer.is_some());
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            if bit / 8 < HEADER_BYTES {
                assert!(SegmentHeader::decode(&bad).is_err(), "bit {bit}");
                assert_eq!(SegmentHeader::read_corrected(&Bytes::new(&bad)).unwrap(), (header, Some(bit)));
            } else {
                assert!(read_whole(&bad, &context).is_err(), "bit {bit}");
            }
        }
        for cut in 0..good.len() {
            // Without its footer the file is an open one, which a manifest contradicts.
            if let Ok((_, footer, read)) = read_whole(&good[..cut], &context) {
                assert!(footer.is_none(), "cut at {cut}");
                assert!(read.is_empty() || read == entries, "cut at {cut}");
            }
        }
    }
}

#[test]
fn a_header_says_what_it_is() {
    let packed = SegmentHeader { packed: true, through: SegmentNo(8), ..header() };
    assert_eq!(SegmentHeader::decode(&packed.encode()).unwrap(), packed);
    let renumbered = |at: usize, byte: u8| {
        let mut bytes = header().encode();
        bytes[at] = byte;
        let checksum = crc32c::crc32c(&bytes[..124]);
        bytes[124..].copy_from_slice(&checksum.to_le_bytes());
        SegmentHeader::decode(&bytes)
    };
    assert!(matches!(renumbered(0, 0), Err(Damage::Magic(_))));
    assert!(matches!(renumbered(8, 3), Err(Damage::Version(_, 3))));
    assert!(matches!(renumbered(8, 2), Err(Damage::Content(_))), "without its flag");
    assert!(matches!(renumbered(12, 2), Err(Damage::Content(_))));
    assert!(matches!(renumbered(40, 2), Err(Damage::Content(_))));
    assert!(matches!(renumbered(88, 3), Err(Damage::Content(_))));
    assert!(matches!(renumbered(110, 1), Err(Damage::Content(_))));
    for first_seq in [0, MAX_SEQ + 1] {
        assert!(matches!(
            SegmentHeader::decode(&SegmentHeader { first_seq, ..header() }.encode()),
            Err(Damage::Content(_))
        ));
    }
    assert!(renumbered(72, 1).unwrap().seed() != header().seed());
    assert_eq!(header().encode()[8], 1, "a stream without a group has files that earlier versions read");
    let group = Some(GroupPlace { first_index: 7, chain: 0x0102_0304_0506_0708, is_within: true });
    let in_group = SegmentHeader { packed: true, group, ..header() };
    assert_eq!(in_group.encode()[8..16], [2, 0, 0, 0, 7, 0, 0, 0]);
    assert_eq!(SegmentHeader::decode(&in_group.encode()).unwrap(), in_group);
    let group = Some(GroupPlace { is_within: false, ..in_group.group.unwrap() });
    let between = SegmentHeader { group, ..in_group };
    assert_eq!(between.encode()[8..16], [2, 0, 0, 0, 3, 0, 0, 0]);
    assert_eq!(SegmentHeader::decode(&between.encode()).unwrap(), between);
    let group = Some(GroupPlace { first_index: 0, chain: 1, is_within: false });
    let bytes = SegmentHeader { group, ..header() }.encode();
    assert!(matches!(SegmentHeader::decode(&bytes), Err(Damage::Content(_))), "indexes begin with 1");
}

#[test]
#[ignore = "measures"]
fn footer_speed() {
    let context = header().context(None);
    for distinct in [100u32, 100_000] {
        let (mut texts, mut subjects) = (Texts::new(), SubjectChanges::new());
        for index in 0..distinct {
            let text = format!("orders.eu.{index:08}");
            texts.push(text.as_bytes());
            let (first, last) = (u64::from(index), u64::from(index) + 500_000);
            let text = text.as_bytes();
            subjects.push(SubjectChange { text, count: 1, first, last, first_exact: true, last_exact: true });
        }
        let column = |f: fn(u32) -> u32| (0..100_000).map(f).collect::<Vec<u32>>();
        let numbers = (0..100_000u32).map(|index| index.wrapping_mul(7919) % distinct).collect();
        let slots =
            Slots::assemble(10, column(|i| i), column(|i| 128 + i * 160), column(|_| 170), numbers, &texts);
        let summary = Totals { first_seq: 10, last_seq: 100_009, messages: 100_000, ..Totals::default() };
        let footer = Footer { summary, changes: Changes { subjects, ..Changes::default() }, slots };
        let start = spent();
        let mut bytes = vec![0; 16_000_128];
        bytes.extend(footer.encode(16_000_128, &context));
        let encoded = millis(start);
        let file = Bytes::new(&bytes);
        let start = spent();
        let trailer = read_trailer(&file, &context).unwrap().unwrap();
        let slots = read_slots(&file, &trailer, &context).unwrap();
        let (slots_time, memory) = (millis(start), slots.memory());
        let start = spent();
        let changes = read_changes(&file, &trailer, &context).unwrap();
        println!(
            "100,000 messages, {} subjects: encode {encoded:.2} ms, slots {slots_time:.2} ms ({memory} bytes), changes {:.2} ms, \
             footer {} bytes",
            changes.subjects.len(),
            millis(start),
            bytes.len() - 16_000_128,
        );
    }
}
