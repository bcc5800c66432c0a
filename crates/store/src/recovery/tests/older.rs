//! Segments that were sealed and have lost their footer with a part of their entries.

use std::path::PathBuf;

use super::*;
use crate::cipher::CipherKind;
use crate::keys::{Keys, MasterKey};

const FIRST: SegmentNo = SegmentNo(1);

/// A stream of sealed segments.
struct Sealed {
    disk: Arc<FaultyDisk>,
    id: StreamId,
    first: PathBuf,
}

fn keyed(disk: &Arc<FaultyDisk>, seed: u64) -> Store {
    let options = StoreOptions {
        keys: Some(Keys { kind: CipherKind::Aes256Gcm, current: MasterKey::derive(b"key"), previous: None }),
        journal_file_bytes: 256 << 10,
        headroom_bytes: 0,
        ..StoreOptions::new("/store")
    };
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    Store::open(disk, options, Arc::new(SeededEntropy::new(seed))).unwrap().0
}

fn append(stream: &mut Stream, count: u64) {
    for n in 0..count {
        let payload = [b'a' + (n % 7) as u8; 1000];
        let message =
            NewMessage { subject: b"s.1", payload: &payload, timestamp: 2, ..NewMessage::default() };
        stream.append(&[message], Admission::Check, 2, &mut Vec::new()).unwrap();
    }
}

fn sealed(store: Store, disk: Arc<FaultyDisk>, compression: Compression) -> Sealed {
    let mut stream = store.create_stream("A", "S", b"", config(compression), 1).unwrap();
    let first = stream_directory(Path::new("/store"), stream.id()).join(segment_name(FIRST));
    append(&mut stream, MESSAGES);
    settle(&store, &mut stream);
    store.journal().round(&|| 4).unwrap();
    store.write_watermarks().unwrap();
    let id = stream.id();
    drop((stream, store));
    Sealed { disk: Arc::new(disk.kill()), id, first }
}

impl Sealed {
    /// Starts; answers which messages are missing and which are told as lost.
    fn start(&self, store: &Store, compression: Compression) -> (Vec<Seq>, Vec<Seq>, Vec<Notice>) {
        let (stream, report) = store.open_stream(self.id, config(compression), 5).unwrap();
        let there = sequences(&stream);
        let missing = (1..=MESSAGES).filter(|seq| !there.contains(seq)).collect();
        let mut told: Vec<Seq> = report.lost.iter().flat_map(|lost| lost.sequences.clone()).collect();
        told.dedup();
        assert!(stream.state().totals.last_seq >= MESSAGES);
        (missing, told, report.notices)
    }
}

/// Garbage over the last entries and what stands behind them: nothing else goes.
#[test]
fn a_footer_that_is_damaged_with_entries_costs_only_those() {
    for is_encrypted in [false, true] {
        for length in [600, 3000] {
            let disk = Arc::new(FaultyDisk::new(9));
            let begin: fn(&Arc<FaultyDisk>, u64) -> Store = if is_encrypted { keyed } else { open };
            let left = sealed(begin(&disk, 1), disk, Compression::None);
            let end = left.disk.read_all(&left.first).unwrap().len() as u64;
            for behind in [0, 40, 200] {
                let disk = Arc::new(left.disk.kill());
                let garbage: Vec<u8> = (0..length - behind).map(|n| (n * 37 % 251) as u8).collect();
                disk.open(&left.first).unwrap().write_at(&garbage, end - length).unwrap();
                let left = Sealed { disk, first: left.first.clone(), ..left };
                let (missing, told, notices) = left.start(&begin(&left.disk, 2), Compression::None);
                let what = format!("{is_encrypted}, {length} bytes, {behind}: {missing:?}: {notices:#?}");
                assert!(missing.len() <= 4 && missing.iter().all(|seq| *seq <= 16), "{what}");
                assert_eq!(told, missing, "{what}");
            }
        }
    }
}
