//! The time of the last message, where nothing is left of that.

use super::house::{House, stream};
use crate::engine::Host;
use myelin_disk::faulty::FaultyDisk;
use myelin_jsapi::config::{Retention, StreamConfig};

#[test]
fn what_is_not_stored_has_come_nevertheless() {
    let disk = FaultyDisk::new(1);
    let mut house = House::on(&disk);
    house.create(StreamConfig { retention: Retention::Interest, ..stream("I") });
    house.create(stream("E"));
    house.pass(1000);
    house.publish("I.x");
    house.publish("E.x");
    let now = house.host.now();
    let live = house.stream("E");
    let mut guard = live.lock_core().expect("nobody else has it");
    guard.parts().0.store_mut().erase(1, now).expect("the disk works");
    drop(guard);
    house.settle();
    let last = |house: &House, name: &str| house.stream(name).state(false).last_ts;
    assert_eq!([last(&house, "I"), last(&house, "E")], [now, now]);
    house.jetstream.journal().round_now(&|| 1).expect("the disk works");
    drop(house);
    let house = House::on(&disk.kill());
    assert_eq!([house.contents("I"), house.contents("E")], [(0, 1), (0, 1)]);
    assert_eq!([last(&house, "I"), last(&house, "E")], [now, now]);
}
