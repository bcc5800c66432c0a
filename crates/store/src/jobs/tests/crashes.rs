//! Jobs on a disk that loses power between any two steps.

use myelin_disk::faulty::{DiskFault, FaultyDisk, Survival};

use super::*;

/// A stream with everything that jobs are for, all of it synced.
fn prepared(disk: &FaultyDisk, shape: Shape) -> Bench {
    disk.make_directory(Path::new("/store")).unwrap();
    disk.sync_directory(Path::new("/")).unwrap();
    let mut bench = Bench::new(Arc::new(disk.clone()), Path::new("/store"), shape, 1500);
    for n in 0..60u64 {
        bench.put(&format!("s.{}", n % 3), format!("message {n}").as_bytes());
        if n == 30 {
            bench.settle();
        }
    }
    for seq in (2..=20).filter(|seq| seq % 3 != 0) {
        bench.stream().delete(seq, 1).unwrap();
    }
    bench.stream().compact(12, 100, 1).unwrap();
    bench.stream().truncate(55, 1).unwrap();
    bench.put("s.9", b"after the truncation");
    for n in 0..6u8 {
        bench.put("t", &[n; 40]);
        bench.stream().close_segment(0, 1).unwrap();
    }
    bench.stream().erase(40, 1).unwrap();
    bench.round();
    bench
}

fn settle_until_off(bench: &mut Bench, disk: &FaultyDisk) -> bool {
    while !disk.is_off() {
        let Some(job) = bench.stream().next_job(1) else { return true };
        let done = job.run();
        let _ = bench.stream().finish(done, 1);
    }
    false
}

#[test]
fn a_loss_of_power_between_any_two_steps_loses_nothing() {
    for shape in SHAPES {
        let mut steps = 0;
        loop {
            let disk = FaultyDisk::new(7);
            let mut bench = prepared(&disk, shape);
            let before = contents(bench.stream());
            let totals = bench.stream().state().totals;
            disk.fail_at(disk.points() + steps, DiskFault::Crash);
            let is_done = settle_until_off(&mut bench, &disk);
            for survival in [Survival::None, Survival::All, Survival::Random(steps)] {
                bench.disk = Arc::new(disk.power_cycle(survival));
                bench.reopen();
                assert_eq!(contents(bench.stream()), before, "{shape:?}, step {steps}, {survival:?}");
                assert_eq!(bench.stream().state().totals, totals, "{shape:?}, step {steps}, {survival:?}");
                bench.settle();
                assert_eq!(
                    contents(bench.stream()),
                    before,
                    "{shape:?}, step {steps}, {survival:?}, settled"
                );
            }
            if is_done {
                break;
            }
            // Each step for one shape, every third for the others.
            steps += if shape == SHAPES[0] { 1 } else { 3 };
        }
        assert!(steps > 50, "{steps} steps are too few to show anything");
    }
}

#[test]
fn what_is_erased_is_there_again_if_power_takes_its_deletion() {
    for shape in SHAPES {
        let disk = FaultyDisk::new(7);
        disk.make_directory(Path::new("/store")).unwrap();
        disk.sync_directory(Path::new("/")).unwrap();
        let mut bench = Bench::new(Arc::new(disk.clone()), Path::new("/store"), shape, 1 << 20);
        for _ in 0..3 {
            bench.put("s", b"a message");
        }
        bench.round();
        let before = contents(bench.stream());
        // The deletion stands in the next segment, and this one gets its footer at once.
        bench.stream().close_segment(0, 1).unwrap();
        assert_eq!(bench.stream().erase(2, 1).unwrap().messages, 1);
        assert_eq!(bench.settle(), ["seal"], "{shape:?}");
        bench.open = None;
        bench.disk = Arc::new(disk.power_cycle(Survival::None));
        let store = bench.open_store();
        let (stream, _) = store.open_stream(bench.id, bench.config, 1).unwrap();
        assert_eq!(contents(&stream), before, "{shape:?}");
        assert_eq!(stream.state().totals.messages, 3, "{shape:?}");
    }
}
