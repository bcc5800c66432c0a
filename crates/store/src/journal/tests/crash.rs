//! Power lost, or the process killed, at every point of a scripted mix of everything a journal
//! does.

use std::io;

use myelin_disk::faulty::{DiskFault, FaultyDisk, Survival};
use myelin_stdx::rng::Rng;

use super::world::{Heard, Twin, World, check, id, recover, small};
use crate::{Durability, StreamId};

/// Appends of all modes to a growing number of files, with everything else between, over several
/// journal files.
fn script(world: &mut World, seed: u64, steps: usize) -> io::Result<()> {
    let mut rng = Rng::seeded(seed);
    let mut next_stream = 1;
    for step in 0..steps {
        let alive: Vec<usize> = (0..world.files.len())
            .filter(|index| !world.files[*index].0.is_gone && world.files[*index].0.generation == 1)
            .collect();
        let any = |rng: &mut Rng| alive[rng.below(alive.len() as u64) as usize];
        match rng.below(20) {
            _ if alive.len() < 5 => create(world, &mut next_stream, &mut rng)?,
            0 if alive.len() < 20 => create(world, &mut next_stream, &mut rng)?,
            1 => {
                let index = any(&mut rng);
                let length = world.files[index].0.content.len();
                if length > 40 {
                    let offset = 8 + rng.below(length as u64 - 40) as usize;
                    world.overwrite(index, offset, 1 + rng.below(32) as usize)?;
                }
            }
            2 if step % 3 == 0 => world.drop_stream(StreamId(world.files[any(&mut rng)].0.id.stream.0))?,
            3 if step % 2 == 0 => {
                // A file is sealed and synced before it is rewritten.
                let index = any(&mut rng);
                world.files[index].1.close()?;
                finish_round(world)?;
                world.rewrite(index)?;
            }
            4 => world.files[any(&mut rng)].1.flush()?,
            5 => drop(world.files[any(&mut rng)].1.reserve(5000)?),
            6 if step % 4 == 0 => {
                let index = any(&mut rng);
                world.append(index, 9000)?;
            }
            7..11 => finish_round(world)?,
            _ => {
                for _ in 0..rng.below(8) {
                    let index = any(&mut rng);
                    world.append(index, 1 + rng.below(700) as usize)?;
                }
            }
        }
    }
    finish_round(world)
}

fn create(world: &mut World, next_stream: &mut u64, rng: &mut Rng) -> io::Result<()> {
    let modes = [Durability::Written, Durability::Synced, Durability::Memory];
    world.create(id(*next_stream, 1), modes[rng.below(3) as usize])?;
    *next_stream += 1;
    Ok(())
}

fn finish_round(world: &mut World) -> io::Result<()> {
    world.round().map_err(|failed| io::Error::other(failed.to_string()))?;
    world.note_overwrites();
    Ok(())
}

const STEPS: usize = 150;

fn points_of(seed: u64) -> u64 {
    let disk = FaultyDisk::new(seed);
    let mut world = World::new(disk.clone(), small(), seed).unwrap();
    script(&mut world, seed, STEPS).unwrap();
    let statistics = world.journal.statistics(world.now());
    assert!(statistics.journal_syncs > 5 && statistics.file_syncs > 5, "both ways: {statistics:?}");
    assert!(statistics.settling_syncs > 0, "journal files are used again: {statistics:?}");
    disk.points()
}

fn survivals(point: u64) -> impl Iterator<Item = Survival> {
    let fixed = [Survival::None, Survival::All, Survival::Prefix(point % 7)];
    fixed.into_iter().chain((0..2).map(move |n| Survival::Random(point * 31 + n)))
}

fn crash_at(seed: u64, point: u64) -> Option<World> {
    let disk = FaultyDisk::new(seed);
    disk.fail_at(point, DiskFault::Crash);
    let mut world = World::new(disk.clone(), small(), seed).ok()?;
    // The last rounds of a script may tell the listeners only.
    let _ = script(&mut world, seed, STEPS);
    assert!(disk.is_off());
    Some(world)
}

#[test]
fn nothing_durable_is_lost_wherever_power_fails() {
    for seed in 0..2 {
        let points = points_of(seed);
        for point in 0..points {
            let Some(world) = crash_at(seed, point) else { continue };
            let twins = world.twins();
            for survival in survivals(point) {
                let context = format!("seed {seed}, point {point} of {points}, {survival:?}");
                let disk = world.disk.power_cycle(survival);
                let (_, report) = recover(&disk, small()).unwrap();
                assert_eq!(report.problems, [], "{context}");
                check(&disk, &twins, &context);
                let before: Vec<_> =
                    disk.files().into_keys().map(|path| disk.read_all(&path).unwrap()).collect();
                let again = disk.power_cycle(Survival::None);
                let (_, report) = recover(&again, small()).unwrap();
                assert_eq!((report.problems.len(), report.bytes), (0, 0), "{context}, again");
                check(&again, &twins, &context);
                assert_eq!(before.len(), again.files().len(), "{context}, again");
            }
        }
    }
}

#[test]
fn a_killed_process_loses_nothing_released() {
    for seed in 10..12 {
        let points = points_of(seed);
        for point in 0..points {
            let Some(world) = crash_at(seed, point) else { continue };
            let context = format!("seed {seed}, point {point} of {points}");
            let disk = world.disk.kill();
            let (_, report) = recover(&disk, small()).unwrap();
            assert_eq!(report.problems, [], "{context}");
            check(&disk, &world.twins(), &context);
        }
    }
}

/// Loses power at every point of a replay of `crashed`, and replays what is left of that.
fn lose_power_in_replays(crashed: &FaultyDisk, twins: &[(Twin, Heard)], context: &str) {
    let probe = crashed.kill();
    recover(&probe, small()).unwrap();
    for point in 0..probe.points() {
        let disk = crashed.kill();
        disk.fail_at(point, DiskFault::Crash);
        assert!(recover(&disk, small()).is_err());
        let more = (0..12).map(|n| Survival::Random(1000 * point + n));
        for survival in survivals(point).chain(more) {
            let context = format!("{context}, replay point {point}, {survival:?}");
            let disk = disk.power_cycle(survival);
            let (_, report) = recover(&disk, small()).unwrap();
            assert_eq!(report.problems, [], "{context}");
            check(&disk, twins, &context);
        }
    }
}

#[test]
fn power_may_fail_during_the_replay_as_well() {
    let seed = 21;
    let points = points_of(seed);
    for point in (0..points).step_by(29) {
        let Some(world) = crash_at(seed, point) else { continue };
        let crashed = world.disk.power_cycle(Survival::Random(point));
        lose_power_in_replays(&crashed, &world.twins(), &format!("point {point} of {points}"));
    }
}

/// The next process sees that older files are not needed, and the device does not know it: they
/// must not be written over.
#[test]
fn a_note_that_was_never_synced_frees_no_file() {
    let run = |fault: Option<u64>| {
        let disk = FaultyDisk::new(4);
        let mut world = World::new(disk.clone(), small(), 4).unwrap();
        for stream in 1..6 {
            world.create(id(stream, 1), Durability::Synced).unwrap();
        }
        for _ in 0..20 {
            (0..5).for_each(|file| world.append(file, 900).unwrap());
            finish_round(&mut world).unwrap();
        }
        let before = disk.points();
        if let Some(point) = fault {
            disk.fail_at(before + point, DiskFault::Crash);
        }
        let _ = world.journal.close(&|| 0);
        (world, before)
    };
    let (healthy, before) = run(None);
    for point in 0..healthy.disk.points() - before {
        let (world, _) = run(Some(point));
        lose_power_in_replays(&world.disk.kill(), &world.twins(), &format!("point {point} of the end"));
    }
}

#[test]
fn a_replayed_store_goes_on() {
    // Crash, recover, work on with the same journal, crash again: numbers and rounds must not be
    // confused.
    let mut disk = FaultyDisk::new(5);
    for life in 0..12_u64 {
        let mut world = World::new(disk.clone(), small(), life).unwrap();
        for file in 0..5 {
            world.create(id(100 * life + file, 1), Durability::Synced).unwrap();
        }
        for _ in 0..life {
            for file in 0..5 {
                world.append(file, 1500).unwrap();
            }
            finish_round(&mut world).unwrap();
        }
        let twins = world.twins();
        disk = disk.power_cycle(Survival::Random(life));
        let (_, report) = recover(&disk.kill(), small()).unwrap();
        assert_eq!(report.problems, [], "life {life}");
        let copy = disk.kill();
        recover(&copy, small()).unwrap();
        check(&copy, &twins, &format!("life {life}"));
    }
    assert!(
        disk.files().keys().filter(|path| path.extension().is_some_and(|name| name == "jnl")).count() < 8
    );
}
