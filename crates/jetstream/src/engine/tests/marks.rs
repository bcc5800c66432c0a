//! Messages that are acknowledged before they are synced, and the loss of power.

use super::house::{House, copy, source, stream};
use crate::engine::Host;
use crate::engine::api_request::ApiRequest;
use myelin_disk::faulty::{FaultyDisk, Survival};
use myelin_jsapi::config::{Discard, StreamConfig};
use myelin_stdx::sync::lock;
use myelin_wire::message_buf::MessageRef;

/// Sequences that a stream may give out behind the last one of which a mark was made.
const AHEAD: u64 = 4096;
/// Sequences that a stream has given out when its first message has made a mark.
const FIRST_MARK: u64 = 1 + AHEAD;

#[test]
fn a_publisher_hears_of_what_is_behind_the_mark_when_that_has_moved() {
    let disk = FaultyDisk::new(1);
    let mut house = House::on(&disk);
    house.create(stream("S"));
    let heard = house.hear("inbox");
    for _ in 0..FIRST_MARK + 3 {
        house.say("S.x", "inbox", "");
        house.settle();
    }
    let heard_and_released =
        |house: &House| (lock(&heard).len() as u64, house.stream("S").reader().release().seq());
    assert_eq!(heard_and_released(&house), (FIRST_MARK, FIRST_MARK));
    let now = house.host.now().unsigned_abs();
    house.jetstream.journal().round(&|| now).expect("the disk works");
    house.settle();
    assert_eq!(heard_and_released(&house), (FIRST_MARK + 3, FIRST_MARK + 3));
    drop(house);
    // None of what was acknowledged is there, or it may not be: its sequences are not used again.
    let house = House::on(&disk.power_cycle(Survival::None));
    assert!(house.contents("S").1 >= FIRST_MARK + 3);
}

#[test]
fn a_mirror_passes_over_nothing() {
    let disk = FaultyDisk::new(2);
    let mut house = House::on(&disk);
    house.create(stream("S"));
    house.create(StreamConfig { mirror: Some(source("S", "")), ..copy("M", &[]) });
    house.publish("S.x");
    house.settle();
    assert_eq!([house.contents("S"), house.contents("M")], [(1, 1), (1, 1)]);
    house.jetstream.journal().round_now(&|| 1).expect("the disk works");
    drop(house);
    let mut house = House::on(&disk.power_cycle(Survival::All));
    house.settle();
    let last = 1 + AHEAD;
    assert_eq!(house.contents("S"), (1, last));
    house.publish("S.x");
    // What the mirror takes lies behind its own mark, which a round moves.
    for now in [2, 3] {
        house.jetstream.journal().round_now(&|| now).expect("the disk works");
        house.settle();
    }
    assert_eq!([house.contents("S"), house.contents("M")], [(2, last + 1), (2, last + 1)]);
}

/// Messages that wait for their release have not gone from the stream: there is no more room.
#[test]
fn a_copy_that_is_full_waits_while_its_messages_are_not_released() {
    let mut house = House::new();
    house.create(stream("S"));
    (0..2).for_each(|_| house.publish("S.x"));
    house.make(StreamConfig { max_msgs: 1, discard: Discard::New, ..copy("K", &[source("S", "")]) });
    let steps = (0..1000).take_while(|_| house.step_without_jobs()).count();
    assert!(steps < 1000, "it rests");
    let reader = house.stream("K").reader();
    assert_eq!((reader.last_logged(), reader.release().seq()), (1, 0), "its mark is not stated yet");
}

/// Whoever publishes and does not wait for the acknowledgement finds the message all the same.
#[test]
fn the_first_message_is_there_for_who_asks() {
    let mut house = House::new();
    house.create(stream("S"));
    house.say("S.x", "", "one");
    house.flush();
    while house.step_without_jobs() {}
    assert_eq!(house.stream("S").reader().release().seq(), 0, "its mark is not stated yet");
    let (subject, reply, payload) = (&b"$JS.API.STREAM.MSG.GET.S"[..], &b"inbox"[..], &br#"{"seq":1}"#[..]);
    let request = MessageRef { subject, reply, payload, ..MessageRef::default() };
    let answers = house.jetstream.answer(&ApiRequest::new(&house.account, request, None));
    let answer = answers.iter().next().expect("there is one");
    assert!(String::from_utf8_lossy(answer.payload).contains(r#""data":"b25l""#));
}

/// A key whose only value is not released yet is not there.
#[test]
fn a_direct_get_finds_a_first_value_once_it_is_released() {
    let mut house = House::new();
    house.create(StreamConfig { allow_direct: true, ..stream("S") });
    let heard = house.hear("inbox");
    house.say("S.key", "", "one");
    house.flush();
    while house.step_without_jobs() {}
    assert_eq!(house.stream("S").reader().release().seq(), 0, "its mark is not stated yet");
    house.say("$JS.API.DIRECT.GET.S", "inbox", r#"{"last_by_subj":"S.key"}"#);
    while house.step_without_jobs() {}
    assert!(lock(&heard)[0].contains("404"), "nothing is shown that may be lost");
    house.settle();
    house.say("$JS.API.DIRECT.GET.S", "inbox", r#"{"last_by_subj":"S.key"}"#);
    house.settle();
    let heard = lock(&heard);
    assert!(heard[1].contains("Nats-Sequence: 1\r\n"), "{heard:?}");
}
