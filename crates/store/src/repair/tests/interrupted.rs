//! Repairs that end anywhere: the power fails at each point, and the next repair finishes.

use myelin_disk::faulty::DiskFault;

use super::*;

/// A store in which something is broken, and all that a repair brings back.
struct Broken {
    what: &'static str,
    disk: FaultyDisk,
    given: Vec<Given>,
    seen: Seen,
}

impl Broken {
    fn new(what: &'static str, disk: &FaultyDisk, given: Vec<Given>) -> Self {
        let healthy = disk.power_cycle(Survival::None);
        let (summary, told) = run(&healthy, true, None, &given).unwrap();
        assert!(!summary.is_empty(), "{what}: something is broken: {told:?}");
        assert_eq!(check(&healthy, None), [], "{what}: {told:#?}");
        let seen = see(&healthy, None);
        Self { what, disk: disk.power_cycle(Survival::None), given, seen }
    }

    /// Power fails at each point of the repair, and the next one finishes.
    fn is_repaired_wherever_the_power_fails(&self, least: u64) {
        let healthy = self.disk.power_cycle(Survival::None);
        let before = healthy.points();
        run(&healthy, true, None, &self.given).unwrap();
        let points = healthy.points() - before;
        assert!(points > least, "{}: {points}", self.what);
        for point in 0..points {
            let struck = self.disk.power_cycle(Survival::None);
            struck.fail_at(struck.points() + point, DiskFault::Crash);
            let _ = run(&struck, true, None, &self.given);
            for survival in [Survival::None, Survival::All, Survival::Random(point)] {
                let left = struck.power_cycle(survival);
                let (_, told) = run(&left, true, None, &self.given).unwrap();
                let what = format!("{}, point {point}, {survival:?}: {told:#?}", self.what);
                assert_eq!(check(&left, None), [], "{what}");
                assert_eq!(see(&left, None), self.seen, "{what}");
            }
        }
    }
}

fn name_in(disk: &FaultyDisk, id: StreamId, begin: &str) -> String {
    let names = disk.list(&stream_directory(Path::new(ROOT), id)).unwrap().into_iter();
    names.map(|entry| entry.name).filter(|name| name.starts_with(begin)).max().expect("there is one")
}

/// Everything that is there twice is broken at once.
#[test]
fn it_may_be_interrupted_anywhere() {
    let (disk, ids) = build(None, Compression::None);
    let whole = see(&disk, None);
    for name in META_COPIES {
        break_file(&disk, &path(ids[0], name));
    }
    for name in COPIES {
        break_file(&disk, &path(ids[0], name));
    }
    for name in [MARKER, COPY] {
        break_file(&disk, &Path::new(ROOT).join(name));
    }
    let broken = Broken::new("copies", &disk, vec![given(Some(ids[0]), "ONE")]);
    assert!(broken.seen == whole);
    broken.is_repaired_wherever_the_power_fails(50);
}

#[test]
fn the_repair_of_a_base_may_be_interrupted_anywhere() {
    let (built, ids) = build(None, Compression::None);
    let whole = see(&built, None);
    let base = path(ids[0], &name_in(&built, ids[0], "index."));
    for how in ["damaged", "missing", "a directory"] {
        let disk = built.power_cycle(Survival::None);
        match how {
            "damaged" => break_file(&disk, &base),
            _ => disk.remove_file(&base).unwrap(),
        }
        if how == "a directory" {
            disk.make_directory(&base).unwrap();
        }
        disk.sync_directory(base.parent().unwrap()).unwrap();
        let broken = Broken::new(how, &disk, Vec::new());
        assert!(broken.seen == whole, "{how}");
        broken.is_repaired_wherever_the_power_fails(15);
    }
}

#[test]
fn the_repair_of_a_consumers_log_may_be_interrupted_anywhere() {
    let (built, ids) = build(None, Compression::None);
    let whole = see(&built, None);
    let log = path(ids[0], &name_in(&built, ids[0], "consumers."));
    for how in ["its header", "an entry", "its end"] {
        let disk = built.power_cycle(Survival::None);
        let length = disk.read_all(&log).unwrap().len() as u64;
        match how {
            "its header" => break_file(&disk, &log),
            // The first entry is the consumer; what comes behind is damaged.
            "an entry" => [length - 9, length - 2].iter().for_each(|at| disk.flip_bit(&log, *at, 1).unwrap()),
            _ => disk.truncate(&log, length - 5).unwrap(),
        }
        let broken = Broken::new(how, &disk, Vec::new());
        let is_gone = how == "its header";
        assert_eq!(broken.seen["ONE"].1.is_empty(), is_gone, "{how}");
        assert!(broken.seen["ONE"].0 == whole["ONE"].0 && broken.seen["TWO"] == whole["TWO"], "{how}");
        broken.is_repaired_wherever_the_power_fails(10);
    }
}

#[test]
fn the_repair_of_a_kept_journal_may_be_interrupted_anywhere() {
    let (disk, whole) = with_a_kept_journal();
    let broken = Broken::new("kept", &disk, Vec::new());
    assert!(broken.seen == whole);
    broken.is_repaired_wherever_the_power_fails(20);
}

/// Files that belong nowhere, and directories where files belong.
#[test]
fn moves_to_quarantine_may_be_interrupted_anywhere() {
    let (disk, ids) = build(None, Compression::None);
    let whole = see(&disk, None);
    let strange =
        [path(ids[0], "strange"), path(ids[1], "0000.old"), Path::new(ROOT).join("streams/strange")];
    for file in &strange {
        let file = disk.create(file).unwrap();
        file.write_at(b"of somebody else", 0).unwrap();
        file.sync().unwrap();
    }
    for taken in [path(ids[0], COPIES[1]), path(ids[1], META_COPIES[0]), Path::new(ROOT).join(COPY)] {
        disk.remove_file(&taken).unwrap();
        disk.make_directory(&taken).unwrap();
    }
    for directory in [stream_directory(Path::new(ROOT), ids[0]), stream_directory(Path::new(ROOT), ids[1])] {
        disk.sync_directory(&directory).unwrap();
    }
    [Path::new(ROOT), &Path::new(ROOT).join("streams")]
        .iter()
        .for_each(|at| disk.sync_directory(at).unwrap());
    let broken = Broken::new("quarantine", &disk, Vec::new());
    assert!(broken.seen == whole);
    broken.is_repaired_wherever_the_power_fails(20);
}

#[test]
fn the_acknowledgement_of_losses_may_be_interrupted_anywhere() {
    let (disk, ids) = build(None, Compression::None);
    disk.remove_file(&path(ids[1], &crate::stream::segment_name(SegmentNo(1)))).unwrap();
    disk.sync_directory(&stream_directory(Path::new(ROOT), ids[1])).unwrap();
    let store = open(&disk, None, 5);
    let (stream, report) = store.open_stream(ids[1], config(Compression::None), 200).unwrap();
    assert_eq!(report.lost.len(), 1);
    drop(stream);
    store.close(&|| 201).unwrap();
    drop(store);
    Broken::new("losses", &disk, Vec::new()).is_repaired_wherever_the_power_fails(5);
}
