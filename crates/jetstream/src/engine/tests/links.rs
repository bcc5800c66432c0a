//! Streams that copy others: what becomes of the consumers that stand for them, and of what fails
//! on the way.

use super::house::{Heard, House, copy, source, stream};
use crate::engine::Host;
use myelin_disk::faulty::{FaultyDisk, Survival};
use myelin_jsapi::config::{Retention, SourceConsumerConfig, StreamConfig, StreamSource};
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig};
use myelin_jsapi::json::Moment;
use myelin_stdx::sync::lock;
use myelin_wire::message_buf::MessageBuf;
use serde_json::json;
use std::sync::{Arc, Mutex};

const SECOND: i64 = 1_000_000_000;

fn keeping(retention: Retention, name: &str) -> StreamConfig {
    StreamConfig { retention, ..stream(name) }
}

/// A work queue `W` with what comes later in it, copied by what `config` says.
fn copied(config: StreamConfig) -> House {
    let mut house = House::new();
    house.create(keeping(Retention::WorkQueue, "W"));
    house.create(config);
    house.publish("W.a");
    house.publish("W.b");
    house
}

fn mirror() -> StreamConfig {
    StreamConfig { mirror: Some(source("W", "")), ..copy("S", &[]) }
}

#[test]
fn a_search_that_panics_is_begun_again_later() {
    let mut house = House::new();
    house.create(stream("O"));
    house.publish("O.x");
    house.make(copy("S", &[source("O", "")]));
    let search = lock(&house.host.reads).pop_front().expect("it looks how far it is");
    // As unwinding does.
    drop(search);
    house.settle();
    let (_, sources) = house.stream("S").sourcing_info();
    let error = sources[0].error.as_ref().expect("it is told").to_string();
    assert!(error.contains("a panic while the origin was looked for"), "{error}");
    assert_eq!(house.contents("S"), (0, 0));
    house.pass(SECOND);
    assert_eq!(house.contents("S"), (1, 1));
    assert_eq!(house.stream("S").sourcing_info().1[0].error, None);
    // On its second way it falls behind the search.
    house.make(copy("T", &[source("O", "")]));
    let search = lock(&house.host.reads).pop_front().expect("it looks how far it is");
    search();
    lock(&house.host.tasks).clear();
    house.pass(SECOND);
    assert_eq!(house.contents("T"), (1, 1));
}

#[test]
fn the_consumer_of_a_mirror_goes_with_it() {
    let mut house = copied(mirror());
    assert_eq!((house.consumers("W").len(), house.contents("W").0), (1, 0));
    house.delete("S");
    assert!(house.consumers("W").is_empty());
}

#[test]
fn the_consumer_of_a_mirror_goes_when_that_becomes_a_stream() {
    let mut house = copied(mirror());
    house.update(StreamConfig { subjects: vec!["own".into()], ..copy("S", &[]) }).expect("it may");
    assert!(house.consumers("W").is_empty());
}

#[test]
fn it_goes_although_nobody_reads_by_it_at_that_moment() {
    let mut house = copied(copy("S", &[source("W", "")]));
    // The log of the origin was opened anew, and the source is about to look for it.
    house.stream("W").downstreams().reconnect_all();
    house.delete("S");
    assert!(house.consumers("W").is_empty());
}

#[test]
fn a_source_that_leads_elsewhere_leaves_nothing_behind() {
    let mut house = copied(copy("S", &[source("W", "")]));
    house.create(keeping(Retention::WorkQueue, "V"));
    house.update(copy("S", &[source("V", "")])).expect("it may");
    // The name is the same there.
    assert_eq!((house.consumers("W").len(), house.consumers("V").len()), (0, 1));
    house.publish("W.c");
    house.publish("V.c");
    assert_eq!((house.contents("W").0, house.contents("V").0, house.contents("S").0), (1, 0, 3));
}

#[test]
fn a_consumer_that_a_client_removes_is_made_anew() {
    for retention in [Retention::WorkQueue, Retention::Interest] {
        let mut house = House::new();
        house.create(keeping(retention, "W"));
        house.create(copy("S", &[source("W", "")]));
        house.publish("W.a");
        let live = house.stream("W");
        let consumer = live.consumers().all().remove(0);
        live.consumers().delete_and_wait(&consumer, &mut MessageBuf::default()).expect("the disk works");
        house.settle();
        assert_eq!(house.consumers("W"), [consumer.name()]);
        house.publish("W.b");
        assert_eq!((house.contents("W").0, house.contents("S").0), (0, 2));
    }
}

#[test]
fn nothing_is_copied_while_the_consumer_is_paused() {
    let mut house = copied(copy("S", &[source("W", "")]));
    let live = house.stream("W");
    let consumer = live.consumers().all().remove(0);
    let config = live.consumers().config(consumer.name()).expect("it is there");
    assert_eq!(config.name, "JS_SRC_N6lXlrSF", "as nats-server calls it");
    let until = |at: i64| ConsumerConfig { pause_until: Some(Moment::from(at)), ..(*config).clone() };
    let hour = house.host.now() + 3600 * SECOND;
    live.consumers().update_and_wait(&consumer, until(hour)).expect("it may");
    house.publish("W.c");
    assert_eq!((house.contents("W").0, house.contents("S").0), (1, 2));
    // It ends when it is time, and when a client says so.
    house.pass(3600 * SECOND);
    assert_eq!((house.contents("W").0, house.contents("S").0), (0, 3));
    live.consumers().update_and_wait(&consumer, until(hour + 3600 * SECOND)).expect("it may");
    house.publish("W.d");
    assert_eq!(house.contents("W").0, 1);
    live.consumers().update_and_wait(&consumer, (*config).clone()).expect("it may");
    house.settle();
    assert_eq!((house.contents("W").0, house.contents("S").0), (0, 4));
}

/// Two sources of one stream have other names than one.
#[test]
fn a_source_that_is_called_something_else_goes_on_and_leaves_nothing_behind() {
    let mut house = copied(copy("S", &[source("W", "W.a")]));
    let one = house.consumers("W");
    house.update(copy("S", &[source("W", "W.a"), source("W", "W.b")])).expect("it may");
    let two = house.consumers("W");
    assert!(two.len() == 2 && !two.contains(&one[0]), "{one:?} {two:?}");
    house.publish("W.a");
    house.publish("W.b");
    assert_eq!((house.contents("W").0, house.contents("S").0), (0, 4));
    house.update(copy("S", &[source("W", "W.b")])).expect("it may");
    assert_eq!(house.consumers("W"), one, "the name of a single one");
    house.publish("W.a");
    house.publish("W.b");
    assert_eq!((house.contents("W").0, house.contents("S").0), (1, 5));
}

#[test]
fn a_consumer_of_a_stream_that_is_not_there_goes_when_the_server_starts() {
    let disk = FaultyDisk::new(1);
    let mut house = House::on(&disk);
    house.create(keeping(Retention::WorkQueue, "W"));
    house.create(copy("S", &[source("W", "")]));
    house.create(copy("T", &[source("W", "")]));
    // One that a client has made for whatever is on another server.
    let same = house.stream("W").consumers().config(&house.consumers("W")[0]).expect("it is there");
    let stranger = ConsumerConfig { is_own: false, ..(*same).clone() };
    let stranger = ConsumerConfig { name: "X".into(), durable_name: "X".into(), ..stranger };
    house.consume("W", stranger);
    assert_eq!(house.consumers("W").len(), 3);
    // The end comes between the removal of the stream and what follows.
    let live = house.stream("S");
    let mut guard = live.lock_core().expect("nobody else has it");
    house.jetstream.store.delete_stream(guard.parts().0.store_mut()).expect("the disk works");
    house.jetstream.journal().round_now(&|| 1).expect("the disk works");
    drop(house);
    let house = House::on(&disk.power_cycle(Survival::All));
    let left = house.consumers("W");
    assert!(left.len() == 2 && left.contains(&"X".to_owned()), "{left:?}");
}

/// A client, or another server that reads from here, has made one under the name that this server
/// would give.
#[test]
fn a_consumer_that_somebody_else_has_made_stays_when_the_stream_goes_that_copied_by_it() {
    let mut house = copied(copy("S", &[source("W", "")]));
    let own = house.stream("W").consumers().config(&house.consumers("W")[0]).expect("it is there");
    house.delete("S");
    assert!(house.consumers("W").is_empty());
    house.consume("W", ConsumerConfig { is_own: false, ..(*own).clone() });
    house.create(copy("S", &[source("W", "")]));
    house.publish("W.c");
    assert_eq!((house.contents("W").0, house.contents("S").0), (0, 1));
    house.delete("S");
    assert_eq!(house.consumers("W"), [&*own.name]);
}

/// A stream that cannot be read may be one that copies, and somebody may bring it back.
#[test]
fn as_long_as_a_stream_cannot_be_read_only_consumers_of_those_that_are_deleted_go() {
    let disk = FaultyDisk::new(1);
    let mut house = House::on(&disk);
    house.create(keeping(Retention::Interest, "W"));
    house.create(copy("S", &[source("W", "")]));
    // A stream has a directory once it has stored something.
    house.publish("W.a");
    let before: std::collections::BTreeSet<_> = disk.files().into_keys().collect();
    house.create(copy("T", &[source("W", "")]));
    house.publish("W.b");
    house.jetstream.close().expect("the disk works");
    drop(house);
    // From a start on the register does not know what stands in a directory.
    let disk = disk.power_cycle(Survival::All);
    let house = House::on(&disk);
    let files = disk.files();
    let is_new = |path: &&std::path::PathBuf| path.ends_with("meta") && !before.contains(*path);
    let meta = files.keys().find(is_new).expect("it has one");
    house.jetstream.close().expect("the disk works");
    drop(house);
    let disk = disk.power_cycle(Survival::All);
    for copy in [meta, &meta.with_file_name("meta.copy")] {
        disk.flip_bit(copy, 20, 1).expect("it is there");
    }
    let mut house = House::on(&disk);
    assert_eq!(house.consumers("W").len(), 2);
    house.publish("W.a");
    assert_eq!((house.contents("W").0, house.contents("S").0), (1, 3), "it is kept for the other one");
    house.delete("S");
    assert_eq!(house.consumers("W").len(), 1);
}

#[test]
fn a_stream_does_not_begin_to_lose_what_is_not_held_for_those_that_copy_it() {
    let mut house = House::new();
    house.create(stream("O"));
    house.create(copy("R", &[source("O", "")]));
    house.create(copy("S", &[source("O", "")]));
    // Somebody has the name that the consumer would have.
    house.create(keeping(Retention::Interest, "N"));
    house.create(copy("Q", &[]));
    house.update(copy("S", &[source("N", "")])).expect("it may");
    let name = house.consumers("N").remove(0);
    house.update(copy("S", &[source("O", "")])).expect("it may");
    let taken = ConsumerConfig {
        name: name.clone(),
        durable_name: name.clone(),
        ack_policy: AckPolicy::Explicit,
        ..ConsumerConfig::default()
    };
    house.consume("O", taken);
    house.update(keeping(Retention::Interest, "O")).expect_err("nobody would stand for it");
    assert_eq!(house.stream("O").config().retention, Retention::Limits);
    assert_eq!(house.consumers("O"), vec![name.clone()], "what was made for others is gone");
    house.publish("O.x");
    assert_eq!((house.contents("O"), house.contents("R"), house.contents("S")), ((1, 1), (1, 1), (1, 1)));
    // When the name is free, it may.
    let live = house.stream("O");
    let taken = live.consumers().find(&name).expect("it is there");
    live.consumers().delete_and_wait(&taken, &mut MessageBuf::default()).expect("the disk works");
    house.update(keeping(Retention::Interest, "O")).expect("both are held");
    assert_eq!(house.consumers("O").len(), 2);
    house.publish("O.y");
    assert_eq!((house.contents("O").0, house.contents("R").0, house.contents("S").0), (0, 2, 2));
}

/// A search for an origin may be faster than the start that opens the account's other streams.
#[test]
fn what_copies_finds_its_origin_with_the_start_and_not_a_second_later() {
    let disk = FaultyDisk::new(1);
    let mut house = House::on(&disk);
    // Streams are opened in the order in which they were made.
    house.create(StreamConfig { mirror: Some(source("O", "")), ..copy("M", &[]) });
    house.create(copy("S", &[source("O", ""), source("P", "")]));
    house.create(stream("O"));
    house.create(stream("P"));
    house.publish("O.x");
    assert_eq!((house.contents("M"), house.contents("S")), ((1, 1), (1, 1)));
    drop(house);
    let mut house = House::promptly_on(&disk.kill());
    house.publish("O.x");
    house.publish("P.x");
    assert_eq!((house.contents("M"), house.contents("S")), ((2, 2), (3, 3)), "no time has passed");
    let (mirror, sources) = (house.stream("M").sourcing_info().0, house.stream("S").sourcing_info().1);
    assert!(mirror.into_iter().chain(sources).all(|source| source.error.is_none()));
}

/// A stream that has let go of messages knows of some of its sources by notes alone.
#[test]
fn a_source_that_was_never_heard_is_copied_from_its_first_message() {
    for restarts in [false, true] {
        let disk = FaultyDisk::new(1);
        let mut house = House::on(&disk);
        house.create(stream("A"));
        house.create(StreamConfig { max_msgs: 2, ..copy("S", &[source("A", ""), source("B", "")]) });
        (0..5).for_each(|_| house.publish("A.x"));
        assert_eq!(house.contents("S"), (2, 5));
        house.make(stream("B"));
        house.say("B.x", "", "x");
        house.flush();
        // Nobody comes to look for it.
        lock(&house.host.reads).clear();
        house.pass(SECOND / 2);
        house.publish("A.x");
        assert_eq!(house.contents("S"), (2, 6));
        if restarts {
            house = House::on(&disk.kill());
        }
        // It was not there twice: the pause is two seconds.
        house.pass(2 * SECOND);
        assert_eq!(house.contents("S"), (2, 7), "{restarts}");
    }
}

#[test]
fn a_source_that_is_added_begins_with_what_comes_behind_the_streams_last_message() {
    let disk = FaultyDisk::new(1);
    let mut house = House::on(&disk);
    house.create(stream("B"));
    house.publish("B.old");
    house.pass(SECOND);
    let few = StreamConfig { max_msgs: 2, ..stream("S") };
    house.create(few.clone());
    (0..3).for_each(|_| house.publish("S.own"));
    house.pass(SECOND);
    house.publish("B.new");
    house.update(StreamConfig { sources: vec![source("B", "B.*")], ..few }).expect("it may");
    assert_eq!(house.contents("S"), (2, 4));
}

/// Has another server ask for the consumer that stands for a source of `S`, and answers what is
/// pushed there from then on.
fn ask_elsewhere(house: &mut House) -> Arc<Mutex<Vec<Heard>>> {
    let heard = house.record("elsewhere.x");
    lock(&house.host.requests).get_or_insert_default();
    let name = house.consumers("W").remove(0);
    let config = json!({
        "name": name, "deliver_subject": "elsewhere.x", "ack_policy": "none", "max_deliver": 1,
        "flow_control": true, "idle_heartbeat": SECOND, "direct": true, "sourcing": true,
        "metadata": { "_nats.src.stream": "S", "_nats.src.acc": "$G" },
    });
    let answers = house.record("answers");
    let request = json!({ "stream_name": "W", "config": config }).to_string();
    house.say("$JS.API.CONSUMER.CREATE.W", "answers", &request);
    house.settle();
    let answers = std::mem::take(&mut *lock(&answers));
    assert!(answers.len() == 1 && !answers[0].payload.contains("error"), "{answers:?}");
    heard
}

/// The stream that copies is led by another server from then on, which asks for the consumer.
#[test]
fn a_consumer_pushes_to_another_server_when_its_stream_is_copied_there() {
    let mut house = copied(copy("S", &[source("W", "")]));
    house.stream("S").sourcing().suspend();
    let heard = ask_elsewhere(&mut house);
    house.publish("W.c");
    let bodies = |heard: &Mutex<Vec<Heard>>| lock(heard).iter().filter(|one| one.payload == "x").count();
    assert_eq!((bodies(&heard), house.contents("W").0), (1, 1));
    assert!(!house.stream("W").consumers().config(&house.consumers("W")[0]).expect("it is there").is_own);
}

/// A server may not have heard that another one leads the stream that copies.
#[test]
fn a_consumer_that_another_server_asks_for_is_not_read_here_any_more() {
    let mut house = copied(copy("S", &[source("W", "")]));
    house.stream("S").sourcing().suspend();
    let consumer = house.stream("W").consumers().all().remove(0);
    consumer.act(|core, turn| core.set_read(true, turn));
    house.publish("W.c");
    let heard = ask_elsewhere(&mut house);
    assert!(lock(&heard).iter().any(|one| one.payload == "x"), "all that is not acknowledged");
    // Back again: the log is read, and nothing is pushed.
    lock(&heard).clear();
    let live = house.stream("S");
    live.sourcing().begin(&live, &live.config());
    house.settle();
    house.publish("W.d");
    assert_eq!((lock(&heard).len(), house.contents("W").0, house.contents("S").0), (0, 0, 4));
}

/// Another server may lead the stream that copies, and have what a client has made push there.
#[test]
fn a_consumer_of_a_client_pushes_when_its_mirror_copies_nothing_for_a_while() {
    let mut house = House::new();
    house.create(keeping(Retention::WorkQueue, "W"));
    let given = ConsumerConfig {
        name: "given".into(),
        durable_name: "given".into(),
        deliver_subject: "given.d".into(),
        ack_policy: AckPolicy::FlowControl,
        flow_control: true,
        idle_heartbeat: SECOND,
        ..ConsumerConfig::default()
    };
    let heard = house.record("given.d");
    house.consume("W", given);
    let consumer = Some(SourceConsumerConfig { name: "given".into(), deliver_subject: "given.d".into() });
    let mirror = Some(StreamSource { consumer, ..source("W", "") });
    house.create(StreamConfig { mirror, ..copy("S", &[]) });
    house.publish("W.a");
    assert_eq!((lock(&heard).len(), house.contents("S"), house.contents("W").0), (0, (1, 1), 0));
    house.stream("S").sourcing().suspend();
    house.publish("W.b");
    assert!(lock(&heard).iter().any(|one| one.payload == "x"), "it is pushed");
}
