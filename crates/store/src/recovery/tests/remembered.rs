//! Losses that a start tells because an earlier one has found them.

use std::path::PathBuf;

use myelin_disk::faulty::{DiskFault, Survival};

use super::first::{Left, Written, seqs};
use super::*;

/// Three closed segments with messages 1 to 10, 11 to 20 and 21 to 25, of which none is sealed.
fn left() -> Left {
    let mut written = Written::new();
    written.segment(10);
    written.segment(10);
    written.segment(5);
    written.end()
}

/// Report of one start, as far as it is looked at.
struct Told {
    lost: Vec<Seq>,
    there: Vec<Seq>,
    notices: Vec<String>,
}

/// A start, a message more, everything sealed and merged, and a stop. None if the disk fails.
fn try_live(left: &Left, seed: u64) -> Option<Told> {
    let options =
        StoreOptions { journal_file_bytes: 256 << 10, headroom_bytes: 0, ..StoreOptions::new("/store") };
    let disk = Arc::clone(&left.disk) as Arc<dyn Disk>;
    let (store, _) = Store::open(disk, options, Arc::new(SeededEntropy::new(seed))).ok()?;
    let (mut stream, report) = store.open_stream(left.id, config(Compression::None), 5).ok()?;
    let lost = report.lost.iter().flat_map(|lost| lost.sequences.clone()).collect();
    // What the files show is told anew each time.
    let is_of_documents = |words: &String| words.contains(": losses: ") || words.starts_with("moved ");
    let notices = report.notices.iter().map(ToString::to_string).filter(is_of_documents).collect();
    let mut there = Vec::new();
    let mut cursor = stream.reader().cursor(Filter::All, 0);
    while let Some(message) = cursor.next(Wait::Allowed).ok()? {
        there.push(message.seq);
    }
    let told = Told { lost, there, notices };
    let message = NewMessage { subject: b"s.1", payload: &[1; 100], timestamp: 6, ..NewMessage::default() };
    stream.append(&[message], Admission::Check, 6, &mut Vec::new()).ok()?;
    stream.close_segment(0, 6).ok()?;
    loop {
        store.journal().round_now(&|| 6).ok()?;
        let Some(job) = stream.next_job(6) else { break };
        stream.finish(job.run(), 6).ok()?;
    }
    store.close(&|| 7).ok()?;
    Some(told)
}

fn live(left: &Left, seed: u64) -> Told {
    try_live(left, seed).expect("the disk is healthy")
}

/// Removes all messages up to this one.
fn purge(left: &Left, seed: u64, below: Seq) {
    let store = open(&left.disk, seed);
    let (mut stream, _) = store.open_stream(left.id, config(Compression::None), 5).unwrap();
    while stream.compact(below, 100, 6).unwrap().more {}
    settle(&store, &mut stream);
    store.close(&|| 7).unwrap();
}

fn directory(left: &Left) -> PathBuf {
    stream_directory(Path::new("/store"), left.id)
}

fn copies(left: &Left) -> usize {
    let names = left.disk.list(&directory(left)).unwrap();
    names.iter().filter(|entry| LOST_COPIES.contains(&entry.name.as_str())).count()
}

#[test]
fn each_start_tells_what_one_has_found() {
    for (first, lost) in [(1, seqs(1..=10)), (11, seqs(11..=20)), (21, seqs(21..=25))] {
        let left = left();
        left.disk.remove_file(&left.segment_with(first)).unwrap();
        for turn in 0..3 {
            let told = live(&left, 10 + turn);
            assert_eq!(told.lost, lost, "start {turn}");
            let there: Vec<Seq> = (1..=25 + turn).filter(|seq| !lost.contains(seq)).collect();
            assert_eq!(told.there, there, "start {turn}");
            assert_eq!(copies(&left), 2);
        }
    }
}

#[test]
fn nothing_is_written_down_where_nothing_is_lost() {
    let left = left();
    for turn in 0..2 {
        assert_eq!(live(&left, 10 + turn).lost, []);
        assert_eq!(copies(&left), 0);
    }
}

#[test]
fn a_loss_is_told_as_long_as_a_message_of_its_time_is_left() {
    let left = left();
    left.disk.remove_file(&left.segment_with(1)).unwrap();
    live(&left, 10);
    for (seed, below) in [(20, 11), (30, 15), (40, 25)] {
        purge(&left, seed, below);
        assert_eq!(live(&left, seed + 1).lost, seqs(1..=10), "removed below {below}");
    }
    purge(&left, 50, 26);
    assert_eq!(live(&left, 51).lost, []);
    assert_eq!(copies(&left), 0, "nobody needs it any more");
}

/// Nothing is left at all, so nothing can be removed: what is lost is told until what came since is
/// gone.
#[test]
fn the_loss_of_everything_is_told() {
    let left = left();
    for first in [1, 11, 21] {
        left.disk.remove_file(&left.segment_with(first)).unwrap();
    }
    assert_eq!(live(&left, 10).lost, seqs(1..=25));
    assert_eq!(live(&left, 11).lost, seqs(1..=25));
    purge(&left, 12, 28);
    assert_eq!(live(&left, 13).lost, []);
}

#[test]
fn what_was_brought_back_is_not_told() {
    let left = left();
    let path = left.segment_with(11);
    let bytes = left.disk.read_all(&path).unwrap();
    left.disk.remove_file(&path).unwrap();
    for seed in [10, 11] {
        let store = open(&left.disk, seed);
        let (_, report) = store.open_stream(left.id, config(Compression::None), 5).unwrap();
        assert_eq!(report.lost[0].sequences, 11..=20);
        assert_eq!(copies(&left), 2);
        store.close(&|| 7).unwrap();
    }
    left.disk.create(&path).unwrap().write_at(&bytes, 0).unwrap();
    let told = live(&left, 12);
    assert_eq!((told.lost, told.there), (Vec::new(), seqs(1..=25)));
    assert_eq!(copies(&left), 0);
}

#[test]
fn one_copy_is_enough_and_is_written_again() {
    for (name, other) in [(LOST_COPIES[0], LOST_COPIES[1]), (LOST_COPIES[1], LOST_COPIES[0])] {
        let left = left();
        left.disk.remove_file(&left.segment_with(1)).unwrap();
        live(&left, 10);
        let path = directory(&left).join(name);
        left.disk.flip_bit(&path, 30, 2).unwrap();
        let told = live(&left, 11);
        assert_eq!(told.lost, seqs(1..=10));
        assert_eq!(
            told.notices,
            [format!("{name}: losses: wrong checksum; written again from the other copy")]
        );
        left.disk.remove_file(&directory(&left).join(other)).unwrap();
        let told = live(&left, 12);
        assert_eq!((told.lost, told.notices), (seqs(1..=10), Vec::new()));
        assert_eq!(copies(&left), 2);
    }
}

#[test]
fn what_nobody_can_read_any_more_is_moved_and_said() {
    let left = left();
    left.disk.remove_file(&left.segment_with(1)).unwrap();
    live(&left, 10);
    for name in LOST_COPIES {
        left.disk.truncate(&directory(&left).join(name), 20).unwrap();
    }
    let told = live(&left, 11);
    assert_eq!(told.lost, []);
    assert_eq!(told.notices.len(), 2, "{:?}", told.notices);
    assert!(told.notices.iter().all(|words| words.contains("is not told again")), "{:?}", told.notices);
    assert_eq!((live(&left, 12).notices, copies(&left)), (Vec::new(), 0));
}

/// A process may end anywhere while a start finds a loss, or tells one again.
#[test]
fn a_loss_that_was_told_is_never_forgotten_wherever_the_power_fails() {
    let left = left();
    left.disk.remove_file(&left.segment_with(1)).unwrap();
    let settled = Left { disk: Arc::new(left.disk.power_cycle(Survival::All)), id: left.id };
    live(&settled, 10);
    for before in [left, settled] {
        let begin = || Left { disk: Arc::new(before.disk.power_cycle(Survival::All)), id: before.id };
        let whole = begin();
        let points = whole.disk.points();
        live(&whole, 11);
        for point in 0..whole.disk.points() - points {
            let struck = begin();
            struck.disk.fail_at(struck.disk.points() + point, DiskFault::Crash);
            assert!(try_live(&struck, 11).is_none(), "point {point} is before the end");
            for survival in [Survival::None, Survival::All, Survival::Random(point)] {
                let left = Left { disk: Arc::new(struck.disk.power_cycle(survival)), id: struck.id };
                let mut lost = live(&left, 12).lost;
                lost.retain(|seq| *seq <= 10);
                assert_eq!(lost, seqs(1..=10), "point {point}, {survival:?}");
            }
        }
    }
}

/// The bytes of a document, which later versions read.
#[test]
fn a_document_is_written_as_its_page_says() {
    let left = left();
    left.disk.remove_file(&left.segment_with(1)).unwrap();
    live(&left, 10);
    let bytes = LOST_COPIES.map(|name| left.disk.read_all(&directory(&left).join(name)).unwrap());
    assert_eq!(bytes[0], bytes[1]);
    let mut expected = b"MYELLOST".to_vec();
    let name = b"0000000000000001.seg";
    let body = 5 * 8 + 3 * 8 + 4 + name.len();
    [1, 16 + body as u32 + 4]
        .iter()
        .for_each(|number: &u32| expected.extend_from_slice(&number.to_le_bytes()));
    // The stream, generation 1, first and last sequence; one loss: first, last, unknown bytes.
    let numbers = [left.id.0, 1, 11, 25, 1, 1, 10, 0];
    numbers.iter().for_each(|number| expected.extend_from_slice(&number.to_le_bytes()));
    expected.extend_from_slice(&(name.len() as u32).to_le_bytes());
    expected.extend_from_slice(name);
    let checksum = crc32c::crc32c(&expected);
    expected.extend_from_slice(&checksum.to_le_bytes());
    assert_eq!(bytes[0], expected);
}
