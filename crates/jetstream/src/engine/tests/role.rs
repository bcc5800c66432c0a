//! A stream that follows is bound to nothing, and to all that it was when it leads again.

use super::house::{House, stream};
use myelin_jsapi::config::StreamConfig;
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig};
use myelin_stdx::sync::lock;
use myelin_streams::ReplicaRole;

const SECOND: i64 = 1_000_000_000;

#[test]
fn a_follower_hears_nothing_and_does_nothing_of_its_own_accord() {
    let mut house = House::new();
    house.create(StreamConfig { max_age: 30 * SECOND, ..stream("S") });
    let config = ConsumerConfig {
        name: "C".into(),
        durable_name: "C".into(),
        ack_policy: AckPolicy::Explicit,
        ack_wait: SECOND,
        ..ConsumerConfig::default()
    };
    house.consume("S", config);
    let heard = house.record("to.me");
    house.publish("S.a");
    let next = "$JS.API.CONSUMER.MSG.NEXT.S.C";
    house.say(next, "to.me", r#"{"batch":1,"expires":3600000000000}"#);
    house.say(next, "to.me", r#"{"batch":5,"expires":3600000000000}"#);
    house.settle();
    assert_eq!(lock(&heard).len(), 1);
    let live = house.stream("S");
    live.set_role(ReplicaRole::Follower);
    house.settle();
    let told = lock(&heard).last().map(|last| last.headers.clone());
    assert_eq!(told.as_deref(), Some("NATS/1.0 409 Leadership Change\r\n\r\n"), "who waits is told");
    house.publish("S.b");
    house.say(next, "to.me", r#"{"batch":1}"#);
    house.pass(3600 * SECOND);
    assert_eq!(house.contents("S"), (1, 1), "it hears nothing, and nothing ends");
    assert_eq!(lock(&heard).len(), 2, "nothing comes again, and nobody is told anything");
    // What brings a stream back where it was bound leaves a follower alone.
    live.bind();
    house.publish("S.c");
    assert_eq!(house.contents("S"), (1, 1));
    live.set_role(ReplicaRole::Leader);
    house.settle();
    house.pass(SECOND);
    assert_eq!(house.contents("S"), (0, 1), "what had ended goes");
    house.publish("S.d");
    house.say(next, "to.me", r#"{"batch":1,"no_wait":true}"#);
    house.settle();
    let heard = lock(&heard);
    assert!(heard.last().is_some_and(|last| last.subject == "S.d" || last.payload == "x"), "{heard:?}");
    assert_eq!(house.contents("S"), (1, 2));
}

#[test]
fn a_consumer_pushes_again_when_its_stream_leads_again() {
    let mut house = House::new();
    house.create(stream("S"));
    house.listen("to.me");
    let config = ConsumerConfig {
        name: "C".into(),
        durable_name: "C".into(),
        deliver_subject: "to.me".into(),
        ..ConsumerConfig::default()
    };
    house.consume("S", config);
    let heard = house.record("to.me");
    house.publish("S.a");
    house.settle();
    assert_eq!(lock(&heard).len(), 1);
    let live = house.stream("S");
    live.set_role(ReplicaRole::Follower);
    house.settle();
    live.set_role(ReplicaRole::Leader);
    house.publish("S.b");
    house.settle();
    assert_eq!(lock(&heard).len(), 2, "whoever listens has listened all the time");
}
