//! Scans of segments that were not sealed: torn, with holes, with strangers' bytes.

use super::*;

/// A segment under construction, and what a scan should say.
struct Log {
    header: SegmentHeader,
    context: FileContext,
    bytes: Vec<u8>,
    /// Where each batch begins.
    batches: Vec<u64>,
    next_seq: u64,
}

impl Log {
    fn new(index: usize) -> Self {
        let [plain, locked] = contexts();
        let (header, context) = if index == 0 { plain } else { locked };
        Self {
            header,
            context,
            bytes: header.encode().to_vec(),
            batches: Vec::new(),
            next_seq: header.first_seq,
        }
    }

    fn both() -> [Self; 2] {
        [Self::new(0), Self::new(1)]
    }

    fn end(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn batch(&mut self, messages: u64) -> &mut Self {
        let at = self.end();
        self.batches.push(at);
        let mut batch = EntryBatch::begin(&mut self.bytes, at, &self.context);
        for _ in 0..messages {
            let payload = format!("payload of {}", self.next_seq);
            let (seq, payload) = (self.next_seq, payload.as_bytes());
            batch.message(&Message {
                seq,
                timestamp: 1,
                expires: None,
                subject: b"s",
                headers: b"",
                payload,
            });
            self.next_seq += 1;
        }
        batch.finish();
        self
    }

    fn control(&mut self, control: &Control<'_>) -> &mut Self {
        let at = self.end();
        self.batches.push(at);
        let mut batch = EntryBatch::begin(&mut self.bytes, at, &self.context);
        batch.control(control, 1);
        batch.finish();
        self
    }

    fn durable(&mut self) -> &mut Self {
        let (segment, offset) = (self.header.segment, self.end());
        self.control(&Control::Durable { segment, offset })
    }

    /// Room for more, as in a file that is being written.
    fn allocate(&mut self) -> &mut Self {
        let length = self.bytes.len() + 5000;
        self.bytes.resize(length, 0);
        self
    }

    fn flip(&mut self, at: u64) -> &mut Self {
        self.bytes[at as usize] ^= 0x10;
        self
    }

    fn scan(&self, durable: u64) -> (Vec<u64>, Scan) {
        let mut sequences = Vec::new();
        let mut visit = |scanned: Scanned<'_>| {
            if let Entry::Message(message) = scanned.entry {
                assert_eq!(message.payload, format!("payload of {}", message.seq).as_bytes());
                sequences.push(message.seq);
            }
        };
        let extent = Extent { from: 128, to: self.end(), durable };
        let file = Bytes::new(&self.bytes);
        let scan = scan(&file, &self.header, &self.context, extent, &mut visit).unwrap();
        (sequences, scan)
    }
}

fn clean(end: u64) -> Scan {
    Scan { end: ScanEnd::Clean { end }, damaged: Vec::new() }
}

fn torn(at: u64, valid_after: &[std::ops::Range<u64>]) -> Scan {
    Scan { end: ScanEnd::Torn { at, valid_after: valid_after.to_vec() }, damaged: Vec::new() }
}

#[test]
fn whole_batches_up_to_the_zeros() {
    for mut log in Log::both() {
        assert_eq!(log.scan(0), (vec![], clean(128)));
        log.batch(3).durable().batch(1);
        let end = log.end();
        assert_eq!(log.scan(0), ((10..14).collect(), clean(end)));
        assert_eq!(log.scan(end), ((10..14).collect(), clean(end)));
        log.allocate();
        assert_eq!(log.scan(0), ((10..14).collect(), clean(end)));
        assert_eq!(log.scan(end), ((10..14).collect(), clean(end)));
    }
}

#[test]
fn a_cut_at_any_byte_of_the_last_batch_drops_that_batch() {
    for mut log in Log::both() {
        log.batch(2).batch(3);
        let (begin, end) = (log.batches[1], log.end());
        for cut in begin + 1..end {
            for zeros in [0, 4000] {
                let mut log = Log {
                    bytes: log.bytes[..cut as usize].to_vec(),
                    ..Log::new(usize::from(log.header.encryption.is_some()))
                };
                log.bytes.resize(cut as usize + zeros, 0);
                let (sequences, scan) = log.scan(0);
                assert_eq!(sequences, [10, 11]);
                // A batch that ends in zeros which are its own may survive a cut: then it is whole.
                assert_eq!(scan, torn(begin, &[]), "cut at {cut}");
            }
        }
    }
}

#[test]
fn an_unsynced_hole_is_a_tail_and_what_follows_is_told() {
    for mut log in Log::both() {
        log.batch(2).durable().batch(2).batch(2).batch(1).allocate();
        let [_, _, hole, after, ..] = log.batches[..] else { panic!("five batches") };
        let end = log.end() - 5000;
        log.flip(hole + 40);
        // The second entry of the torn batch is whole.
        let (sequences, scan) = log.scan(0);
        assert_eq!(sequences, [10, 11]);
        let ScanEnd::Torn { at, valid_after } = scan.end else { panic!("{scan:?}") };
        assert_eq!((at, valid_after.len(), valid_after[0].end), (hole, 1, end));
        assert!(valid_after[0].start > hole && valid_after[0].start < after);
        assert!(scan.damaged.is_empty());
    }
}

#[test]
fn a_hole_with_proof_is_damage_and_the_rest_is_read() {
    for mut log in Log::both() {
        log.batch(2).batch(3).batch(2).durable().batch(1).allocate();
        let [_, hole, after, ..] = log.batches[..] else { panic!("five batches") };
        let end = log.end() - 5000;
        log.flip(hole + 40);
        let (sequences, scan) = log.scan(0);
        assert_eq!(sequences, [10, 11, 13, 14, 15, 16, 17]);
        assert_eq!(scan.end, ScanEnd::Clean { end });
        let [damaged] = &scan.damaged[..] else { panic!("{scan:?}") };
        assert_eq!((damaged.bytes.start, damaged.first_seq, damaged.last_seq), (hole, 12, Some(12)));
        assert!(damaged.bytes.end < after);
    }
}

#[test]
fn a_sector_of_zeros_is_a_hole_like_others() {
    for mut log in Log::both() {
        log.batch(40).batch(40).batch(40);
        let end = log.end();
        log.allocate();
        log.bytes[1024..1536].fill(0);
        let (sequences, scan) = log.scan(end);
        assert_eq!(scan.end, ScanEnd::Clean { end });
        let [damaged] = &scan.damaged[..] else { panic!("{scan:?}") };
        let lost: Vec<u64> = (damaged.first_seq..=damaged.last_seq.unwrap()).collect();
        let mut all = [sequences.clone(), lost].concat();
        all.sort_unstable();
        assert_eq!(all, (10..130).collect::<Vec<_>>());
        assert!(damaged.bytes.start <= 1024 && damaged.bytes.end >= 1536);
        // Nothing says that it was synced: it is cut where the batch with the hole begins.
        let (sequences, scan) = log.scan(0);
        assert!(sequences.is_empty());
        let ScanEnd::Torn { at: 128, valid_after } = scan.end else { panic!("{scan:?}") };
        assert_eq!((valid_after.len(), valid_after[0].clone()), (1, damaged.bytes.end..end));
    }
}

#[test]
fn synced_bytes_that_are_zeros_at_the_end_are_damage() {
    for mut log in Log::both() {
        log.batch(2).batch(2);
        let (hole, end) = (log.batches[1] as usize, log.end());
        log.bytes[hole..].fill(0);
        let (sequences, scan) = log.scan(end);
        assert_eq!(sequences, [10, 11]);
        let bytes = hole as u64..end;
        assert_eq!(scan.damaged, [Damaged { bytes, first_seq: 12, last_seq: None }]);
        assert_eq!(scan.end, ScanEnd::Clean { end });
    }
}

#[test]
fn an_end_that_the_file_has_lost_is_damage() {
    for mut log in Log::both() {
        log.batch(2).batch(2);
        let (cut, end) = (log.batches[1] + 7, log.end());
        log.bytes.truncate(cut as usize);
        let (sequences, scan) = log.scan(end);
        assert_eq!(sequences, [10, 11]);
        let lost = Damaged { bytes: log.batches[1]..cut, first_seq: 12, last_seq: None };
        assert_eq!(scan.damaged, [lost, Damaged { bytes: cut..end, first_seq: 12, last_seq: None }]);
    }
}

/// A file whose device cannot read some bytes.
#[derive(Debug)]
struct Scratched(Bytes, std::ops::Range<u64>);

impl File for Scratched {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset < self.1.end && offset + buffer.len() as u64 > self.1.start {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.0.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }
    fn allocate(&self, length: u64) -> io::Result<()> {
        self.0.allocate(length)
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

#[test]
fn what_the_device_cannot_read_is_damage_in_a_sealed_segment_only() {
    for mut log in Log::both() {
        (0..300).for_each(|_| {
            log.batch(3);
        });
        let (end, mut sequences) = (log.end(), Vec::new());
        let file = Scratched(Bytes::new(&log.bytes), 20_000..20_100);
        let mut visit = |scanned: Scanned<'_>| match scanned.entry {
            Entry::Message(message) => sequences.push(message.seq),
            other => panic!("{other:?}"),
        };
        let mut extent = Extent { from: 128, to: end, durable: end };
        let scan = scan(&file, &log.header, &log.context, extent, &mut visit).unwrap();
        assert_eq!(scan.end, ScanEnd::Clean { end });
        let [damaged] = &scan.damaged[..] else { panic!("{scan:?}") };
        let lost = damaged.first_seq..=damaged.last_seq.unwrap();
        assert!(damaged.bytes.start <= 20_000 && damaged.bytes.end >= 20_100);
        assert!(lost.clone().count() < 200);
        assert_eq!(sequences, (10..910).filter(|seq| !lost.contains(seq)).collect::<Vec<_>>());
        extent.durable = 1000;
        let refused = super::scan(&file, &log.header, &log.context, extent, &mut |_| {});
        assert!(matches!(refused, Err(Damage::Io(_))));
    }
}

#[test]
fn strangers_behind_the_end_are_no_entries() {
    for mut log in Log::both() {
        log.batch(2);
        let end = log.end();
        let mut other = Log::new(0);
        other.header.generation = 2;
        other.context = other.header.context(None);
        other.batch(5).durable();
        let stale = other.bytes[128..].to_vec();
        log.bytes.extend(stale);
        assert_eq!(log.scan(0), (vec![10, 11], torn(end, &[])));
        log.bytes.truncate(end as usize);
        log.bytes.extend((0..3000u32).map(|index| ((index * index) >> 3) as u8));
        assert_eq!(log.scan(0), (vec![10, 11], torn(end, &[])));
    }
}

#[test]
fn a_later_segment_proves_and_an_earlier_one_does_not() {
    for (segment, proven) in [(2, false), (3, false), (4, true)] {
        for mut log in Log::both() {
            log.batch(1).batch(1);
            let hole = log.batches[1];
            log.control(&Control::Durable {
                segment: SegmentNo(segment),
                offset: if segment == 3 { hole } else { 9999 },
            });
            let end = log.end();
            log.flip(hole + 33);
            let (sequences, scan) = log.scan(0);
            assert_eq!(sequences, [10]);
            if proven {
                assert_eq!(scan.end, ScanEnd::Clean { end });
                assert_eq!(scan.damaged.len(), 1);
            } else {
                assert!(matches!(scan.end, ScanEnd::Torn { at, .. } if at == hole), "{scan:?}");
            }
        }
    }
}

#[test]
fn holes_end_at_the_sequences_that_follow() {
    let mut log = Log::new(0);
    log.batch(1).batch(1).control(&Control::Skip { last: 30 });
    log.next_seq = 31;
    log.batch(1).batch(1).durable();
    let (end, holes) = (log.end(), [log.batches[1], log.batches[4]]);
    holes.iter().for_each(|hole| {
        log.flip(hole + 34);
    });
    let (sequences, scan) = log.scan(end);
    assert_eq!(sequences, [10, 31]);
    let lost: Vec<_> = scan.damaged.iter().map(|damaged| (damaged.first_seq, damaged.last_seq)).collect();
    assert_eq!(lost, [(11, Some(30)), (32, None)]);
}

#[test]
fn what_another_key_encrypted_is_reported_one_by_one() {
    let mut log = Log::new(1);
    log.batch(1);
    let own = log.context.clone();
    log.context.cipher = Some(Cipher::new(CipherKind::Aes256Gcm, &[8; 32]));
    log.batch(1);
    log.context = own;
    log.batch(1);
    let (end, bytes) = (log.end(), log.batches[1]..log.batches[2]);
    let (sequences, scan) = log.scan(0);
    assert_eq!(sequences, [10, 12]);
    assert_eq!(scan.damaged, [Damaged { bytes, first_seq: 11, last_seq: Some(11) }]);
    assert_eq!(scan.end, ScanEnd::Clean { end });
    log.context.cipher = None;
    let extent = Extent { from: 128, to: end, durable: 0 };
    let refused = scan_all(&log, extent);
    assert!(matches!(refused, Err(Damage::Locked(_))));
}

fn scan_all(log: &Log, extent: Extent) -> Result<Scan, Damage> {
    scan(&Bytes::new(&log.bytes), &log.header, &log.context, extent, &mut |_| {})
}

#[test]
fn a_batch_longer_than_the_buffer_is_one_batch() {
    for mut log in Log::both() {
        log.batch(60_000).batch(2);
        let end = log.end();
        assert!(end > 2 << 20);
        assert_eq!(log.scan(0), ((10..60_012).collect(), clean(end)));
        log.flip(end - 1).allocate();
        assert_eq!(log.scan(0).0.len(), 60_000);
    }
}

#[test]
fn a_payload_full_of_heads_does_not_make_the_search_long() {
    let mut log = Log::new(0);
    log.batch(1);
    let hole = log.end();
    // Each claims a million bytes: with a checksum for each, it would be hours.
    let mut fake = vec![0u8; 32];
    fake[4..8].copy_from_slice(&1_000_000u32.to_le_bytes());
    fake[26] = 1;
    (0..100_000).for_each(|_| log.bytes.extend_from_slice(&fake));
    let start = spent();
    assert_eq!(log.scan(0), (vec![10], torn(hole, &[])));
    println!("a search through fakes: {:.1} ms", millis(start));
}

proptest! {
    #[test]
    fn any_damage_is_told(
        batches in prop::collection::vec(1u64..5, 1..6),
        hits in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..4),
        known in any::<bool>(),
        which in 0usize..2,
    ) {
        let mut log = Log::new(which);
        batches.iter().for_each(|messages| { log.batch(*messages); });
        let end = log.end();
        for (index, change) in &hits {
            let at = 128 + index.index(end as usize - 128);
            log.bytes[at] ^= change;
        }
        let (sequences, scan) = log.scan(if known { end } else { 0 });
        let all: Vec<u64> = (10..log.next_seq).collect();
        if known {
            // Each message is read or in a reported range.
            let told = |seq: &u64| scan.damaged.iter().any(|hole| {
                hole.first_seq <= *seq && hole.last_seq.is_none_or(|last| *seq <= last)
            });
            prop_assert!(all.iter().all(|seq| sequences.contains(seq) || told(seq)));
            prop_assert_eq!(scan.end, ScanEnd::Clean { end });
        } else {
            // A prefix of whole batches, and a cut where they end.
            prop_assert_eq!(&sequences[..], &all[..sequences.len()]);
            let whole = log.batches.iter().position(|batch| *batch == scan.end.offset());
            let count = whole.map(|whole| batches[..whole].iter().sum::<u64>());
            prop_assert!(count == Some(sequences.len() as u64) || sequences.len() == all.len());
        }
    }
}

#[test]
#[ignore = "measures"]
fn scan_speed() {
    for index in 0..2 {
        let mut log = Log::new(index);
        let payload = [b'x'; 120];
        while log.bytes.len() < 64 << 20 {
            let at = log.end();
            let mut batch = EntryBatch::begin(&mut log.bytes, at, &log.context);
            for _ in 0..400 {
                let message = Message {
                    seq: log.next_seq,
                    timestamp: 1,
                    expires: None,
                    subject: b"orders.1",
                    headers: b"",
                    payload: &payload,
                };
                batch.message(&message);
                log.next_seq += 1;
            }
            batch.finish();
        }
        let file = Bytes::new(&log.bytes);
        let extent = Extent { from: 128, to: log.end(), durable: 0 };
        for _ in 0..3 {
            let (start, mut bytes) = (spent(), 0u64);
            let mut visit = |scanned: Scanned<'_>| bytes += scanned.size as u64;
            scan(&file, &log.header, &log.context, extent, &mut visit).unwrap();
            println!("scan {index}: {:.2} GB/s", bytes as f64 / (spent() - start) as f64);
        }
    }
}
