//! Power that fails at each operation of the disk, and errors at each of them.

use std::sync::atomic::{AtomicU64, Ordering};

use myelin_disk::faulty::{DiskFault, FaultyDisk, Survival};

use super::*;

/// States that a consumer may have after a restart.
type Possible = BTreeMap<ConsumerId, Vec<Option<ConsumerState>>>;

/// Salts differ between processes, as they do with real entropy.
static PROCESS: AtomicU64 = AtomicU64::new(100);

fn open(disk: &FaultyDisk, cipher: Option<CipherKind>) -> (Consumers, LogReport) {
    let entropy = Arc::new(SeededEntropy::new(PROCESS.fetch_add(1, Ordering::Relaxed)));
    Consumers::open(place_as_is(Arc::new(disk.clone()), cipher, entropy))
        .expect("nothing is wrong with the disk")
}

/// Works on consumers until the disk fails for good; what was confirmed, and what may have arrived
/// beyond.
struct Worker {
    disk: FaultyDisk,
    consumers: Consumers,
    possible: Possible,
    seq: u64,
}

impl Worker {
    fn note(&mut self, confirmed: bool) {
        let now = states(&self.consumers);
        let ids: Vec<ConsumerId> = now.keys().chain(self.possible.keys()).copied().collect();
        for id in ids {
            let states = self.possible.entry(id).or_insert_with(|| vec![None]);
            if confirmed {
                states.clear();
            }
            let state = now.get(&id).cloned();
            if states.last() != Some(&state) {
                states.push(state);
            }
        }
    }

    fn flush(&mut self) {
        self.note(false);
        let result = self.consumers.flush(0);
        if result.is_ok() {
            self.note(true);
        }
    }

    fn checkpoint(&mut self) {
        self.note(false);
        if self.consumers.checkpoint().is_ok() {
            self.note(true);
        }
        for obsolete in self.consumers.take_obsolete() {
            assert_eq!(obsolete.fate, Fate::Remove);
            let _ = self.disk.remove_file(&obsolete.path);
        }
    }

    /// Writes the log anew while there is work.
    fn rewrite(&mut self, ids: [ConsumerId; 2]) {
        self.note(false);
        let rewrite = self.consumers.begin_rewrite(0);
        if rewrite.is_ok() {
            self.note(true);
        }
        let three = self.consumers.create("three", AckRules::default(), b"3").expect("it is new");
        self.work(ids[0]);
        self.flush();
        let Ok(Some(mut rewrite)) = rewrite else { return };
        loop {
            self.note(false);
            let drawn = self.consumers.draw(&mut rewrite, 0);
            if drawn.is_ok() {
                self.note(true);
            }
            match drawn {
                Ok(Drawn::More) => self.work(ids[1]),
                Ok(Drawn::Whole) => break,
                Ok(Drawn::Overtaken) | Err(_) => return,
            }
        }
        let file = rewrite.write();
        self.work(ids[0]);
        self.work(three);
        let _ = self.consumers.update(ids[0], AckRules::default(), b"another");
        self.consumers.remove(ids[1]).expect("it exists");
        self.flush();
        self.consumers.create("four", AckRules::default(), b"4").expect("it is new");
        self.note(false);
        if self.consumers.finish_rewrite(rewrite, file, 0).is_ok_and(|flushed| flushed.is_some()) {
            self.note(true);
        }
        for obsolete in self.consumers.take_obsolete() {
            assert_eq!(obsolete.fate, Fate::Remove);
            let _ = self.disk.remove_file(&obsolete.path);
        }
        self.work(three);
        self.work(ids[0]);
        self.flush();
    }

    fn work(&mut self, id: ConsumerId) {
        self.seq += 1;
        let Some(state) = self.consumers.state(id) else { return };
        let next = state.delivered().consumer.0 + 1;
        let deltas = [delivered(next, self.seq), acknowledged(next - next % 2, self.seq - 1)];
        self.consumers.apply(id, &deltas).expect("it exists");
    }

    fn run(&mut self) {
        let one = self.consumers.create("one", AckRules::default(), b"1").expect("it is new");
        self.flush();
        let two = self.consumers.create("two", AckRules::default(), b"2").expect("it is new");
        for round in 0..8 {
            self.work(one);
            self.work(two);
            self.flush();
            match round {
                2 | 5 => self.checkpoint(),
                4 => self.rewrite([one, two]),
                _ => {}
            }
        }
        self.flush();
    }
}

fn worker(disk: &FaultyDisk, cipher: Option<CipherKind>) -> Worker {
    place(Arc::new(disk.clone()), cipher);
    let (consumers, report) = open(disk, cipher);
    assert!(report.is_clean());
    Worker { disk: disk.clone(), consumers, possible: Possible::new(), seq: 0 }
}

fn check(worker: &Worker, disk: &FaultyDisk, cipher: Option<CipherKind>, what: &str) {
    let (mut again, report) = open(disk, cipher);
    let found = states(&again);
    for (id, possible) in &worker.possible {
        let state = found.get(id).cloned();
        assert!(
            possible.contains(&state),
            "{what}: {id:?} is {state:?}, not one of {possible:?}\n{report:?}"
        );
    }
    assert!(found.keys().all(|id| worker.possible.contains_key(id)), "{what}");
    assert_eq!(report.missing, 0, "{what}: {report:?}");
    // It goes on.
    let new = again.create("new", AckRules::default(), b"").expect("it is new");
    again.apply_one(new, delivered(1, 1)).expect("it exists");
    again.flush(0).expect("nothing is wrong with the disk");
    let (last, report) = open(disk, cipher);
    assert!(report.is_clean(), "{what}: {report:?}");
    assert_eq!(everything(&last), everything(&again), "{what}");
}

fn points(cipher: Option<CipherKind>) -> std::ops::Range<u64> {
    let disk = FaultyDisk::new(1);
    let mut healthy = worker(&disk, cipher);
    let from = disk.points();
    healthy.run();
    check(&healthy, &disk.kill(), cipher, "killed");
    from..disk.points()
}

#[test]
fn power_fails_anywhere() {
    for cipher in [None, Some(CipherKind::ChaCha20Poly1305)] {
        let mut survivals = vec![Survival::None, Survival::All];
        survivals.extend((0..12).map(Survival::Random));
        let points = points(cipher);
        assert!(points.end - points.start > 40, "{points:?}");
        for point in points {
            let disk = FaultyDisk::new(1);
            let mut worker = worker(&disk, cipher);
            disk.fail_at(point, DiskFault::Crash);
            worker.run();
            for survival in &survivals {
                let what = format!("power fails at {point}, {survival:?} survives");
                check(&worker, &disk.power_cycle(*survival), cipher, &what);
            }
        }
    }
}

/// One operation fails, the next ones do not: what was confirmed is there, and nothing that was not
/// is lost in memory.
#[test]
fn one_error_anywhere() {
    for cipher in [None, Some(CipherKind::ChaCha20Poly1305)] {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::Other] {
            for point in points(cipher) {
                let disk = FaultyDisk::new(1);
                let mut worker = worker(&disk, cipher);
                disk.fail_at(point, DiskFault::Error(kind));
                worker.run();
                let what = format!("{kind:?} at {point}");
                check(&worker, &disk.power_cycle(Survival::None), cipher, &what);
                check(&worker, &disk.kill(), cipher, &what);
                assert!(!worker.consumers.is_dirty(), "{what}: the last flush went well");
                let (again, report) = open(&disk.kill(), cipher);
                assert_eq!(everything(&again), everything(&worker.consumers), "{what}: {report:?}");
            }
        }
    }
}
