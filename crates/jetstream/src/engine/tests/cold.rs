//! A counter whose total is not in memory: those who publish to its stream wait for it, and nobody
//! else.

use super::house::{House, stream};
use crate::engine::waits::block_on;
use myelin_disk::faulty::FaultyDisk;
use myelin_jsapi::config::StreamConfig;
use myelin_stdx::sync::lock;
use myelin_store::Wait;
use myelin_wire::message_buf::MessageRef;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

fn counters() -> StreamConfig {
    StreamConfig { allow_msg_counter: true, ..stream("C") }
}

/// Publishes, and does nothing of what follows from it.
fn increment(house: &mut House, subject: &str) {
    let headers = b"NATS/1.0\r\nNats-Incr: 1\r\n\r\n";
    house.send(MessageRef { subject: subject.as_bytes(), headers, ..MessageRef::default() });
    house.flush();
}

fn total(house: &House, subject: &str) -> String {
    let mut buffer = Vec::new();
    let last = house.stream("C").reader().last_of(subject.as_bytes(), Wait::Allowed, &mut buffer);
    String::from_utf8_lossy(last.expect("it can be read").expect("it is there").payload).into_owned()
}

#[test]
fn who_waits_for_a_cold_counter_is_not_waited_for() {
    let disk = FaultyDisk::new(1);
    let mut house = House::on(&disk);
    house.create(counters());
    house.create(stream("O"));
    increment(&mut house, "C.a");
    house.settle();
    disk.chill(true);
    increment(&mut house, "C.a");
    increment(&mut house, "C.new");
    increment(&mut house, "C.a");
    // The disk has not answered.
    assert_eq!((house.contents("C"), lock(&house.host.reads).len()), ((1, 1), 1));
    // Another stream does not notice.
    house.say("O.x", "", "x");
    house.flush();
    assert_eq!(house.stream("O").reader().last_logged(), 1);
    // Neither do requests to the API, about this one as well.
    let (streams, live, jetstream) = (house.streams(), house.stream("C"), Arc::clone(&house.jetstream));
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let config = StreamConfig { max_msgs: 100, ..counters() };
        let updated = block_on(streams.update(&jetstream, &live, config));
        sender.send(updated)
    });
    let updated = receiver.recv_timeout(Duration::from_secs(10)).expect("it does not wait for the disk");
    updated.expect("it is a small change");
    assert_eq!(house.stream("C").config().max_msgs, 100);
    assert_eq!((house.contents("C"), lock(&house.host.reads).len()), ((1, 1), 1));
    // Then all are counted, in their order.
    house.settle();
    assert_eq!(house.contents("C"), (4, 4));
    assert_eq!([total(&house, "C.a"), total(&house, "C.new")], [r#"{"val":"3"}"#, r#"{"val":"1"}"#]);
}
