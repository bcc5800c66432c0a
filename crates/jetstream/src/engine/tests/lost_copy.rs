//! Streams whose copies power takes while they are young.

use super::house::{House, copy, source, stream};
use crate::engine::host::Host;
use myelin_disk::faulty::{DiskFault, FaultyDisk, Survival};

/// Ways in which sectors that were not synced survive, of those that depend on a seed.
const RANDOM: u64 = 12;

/// Has `S`, with a message of a minute before, be copied to `K`, and power be lost so many points
/// of the disk after that was made. `None`: it has come to an end before.
fn lose_power_after(points: u64) -> Option<FaultyDisk> {
    let disk = FaultyDisk::new(1);
    let mut house = House::on(&disk);
    house.set_clock_back(60_000_000_000);
    house.create(stream("S"));
    house.publish("S.a");
    let now = house.host.now().unsigned_abs();
    house.jetstream.journal().round_now(&|| now).expect("the disk works");
    house.make(copy("K", &[source("S", "")]));
    disk.fail_at(disk.points() + points, DiskFault::Crash);
    for _ in 0..2 {
        house.settle();
        // It states how far streams may come, as a thread does, until the power is lost.
        let _ = house.jetstream.write_watermarks();
        let _ = house.jetstream.journal().round_now(&|| now);
    }
    disk.is_off().then_some(disk)
}

#[test]
fn what_a_loss_of_power_takes_of_a_copy_is_copied_again() {
    for points in 0.. {
        let Some(disk) = lose_power_after(points) else {
            assert!(points > 3, "power is lost at some points");
            return;
        };
        let some = (0..RANDOM).map(Survival::Random);
        let prefixes = (0..disk.unsynced()).map(Survival::Prefix);
        for survival in some.chain(prefixes).chain([Survival::None, Survival::All]) {
            let mut house = House::on(&disk.power_cycle(survival));
            house.pass(2_000_000_000);
            let now = house.host.now().unsigned_abs();
            house.jetstream.journal().round_now(&|| now).expect("the disk works");
            house.settle();
            assert_eq!(house.contents("K").0, 1, "power is lost at point {points}, with {survival:?}");
        }
    }
}
