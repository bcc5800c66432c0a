//! Mirrors and sources of streams on another server, which is played here message by message.

use super::house::{Heard, House, copy, source, stream};
use myelin_disk::faulty::FaultyDisk;
use myelin_jsapi::config::{ExternalStream, SourceConsumerConfig, StreamConfig, StreamSource};
use myelin_stdx::sync::lock;
use myelin_wire::message_buf::MessageRef;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

const SECOND: i64 = 1_000_000_000;

fn elsewhere(filter: &str) -> StreamSource {
    let external = Some(ExternalStream { api: "$JS.hub.API".into(), deliver: String::new() });
    StreamSource { external, ..source("O", filter) }
}

fn mirror() -> StreamConfig {
    StreamConfig { mirror: Some(elsewhere("")), ..copy("M", &[]) }
}

/// The other server.
struct Hub {
    requests: Arc<Mutex<Vec<Heard>>>,
    answers: Arc<Mutex<Vec<Heard>>>,
    /// Where the last consumer delivers.
    deliver: String,
}

impl Hub {
    fn open(house: &mut House) -> Self {
        let (requests, answers) = (house.record("$JS.hub.API.>"), house.record("$JS.FC.>"));
        Self { requests, answers, deliver: String::new() }
    }

    /// The next request, with its body.
    fn request(&mut self) -> Option<(Heard, Value)> {
        let mut requests = lock(&self.requests);
        if requests.is_empty() {
            return None;
        }
        let request = requests.remove(0);
        let body = serde_json::from_str(&request.payload).unwrap_or(Value::Null);
        Some((request, body))
    }

    /// Grants the next request for a consumer that has nothing up to `seq`. Returns its
    /// configuration.
    fn grant(&mut self, house: &mut House, identity: &str, seq: u64) -> Value {
        let (request, body) = self.request().expect("it asks");
        let config = body["config"].clone();
        config["deliver_subject"].as_str().expect("it says where").clone_into(&mut self.deliver);
        let answer = json!({
            "name": "c", "config": config, "num_pending": 3,
            "delivered": { "consumer_seq": 0, "stream_seq": seq },
        });
        let headers = format!("NATS/1.0\r\nNats-Stream-Identity: {identity}\r\n\r\n");
        answer_with(house, &request.reply, &headers, &answer);
        config
    }

    fn deliver(&self, house: &mut House, delivery: u64, seq: u64) {
        let reply = format!("$JS.ACK.O.c.1.{seq}.{delivery}.{}.0", seq * 100);
        house.send(MessageRef {
            to: self.deliver.as_bytes(),
            subject: format!("o.{seq}").as_bytes(),
            reply: reply.as_bytes(),
            payload: b"x",
            ..MessageRef::default()
        });
        house.settle();
    }

    fn control(&self, house: &mut House, reply: &str, headers: &str) {
        let headers = format!("NATS/1.0 100 {headers}\r\n\r\n");
        house.send(MessageRef {
            subject: self.deliver.as_bytes(),
            reply: reply.as_bytes(),
            headers: headers.as_bytes(),
            ..MessageRef::default()
        });
        house.settle();
    }
}

fn answer_with(house: &mut House, reply: &str, headers: &str, answer: &Value) {
    let payload = answer.to_string();
    house.send(MessageRef {
        subject: reply.as_bytes(),
        headers: headers.as_bytes(),
        payload: payload.as_bytes(),
        ..MessageRef::default()
    });
    house.settle();
}

#[test]
fn a_mirror_asks_for_a_consumer_as_soon_as_somebody_takes_requests() {
    let mut house = House::new();
    house.create(mirror());
    house.pass(SECOND);
    let mut hub = Hub::open(&mut house);
    let config = hub.grant(&mut house, "id", 4);
    assert_eq!((&config["deliver_policy"], &config["sourcing"]), (&json!("all"), &json!(true)));
    assert_eq!(house.contents("M"), (0, 4), "the origin has nothing before");
    hub.deliver(&mut house, 1, 5);
    hub.deliver(&mut house, 2, 8);
    assert_eq!(house.contents("M"), (2, 8));
    assert!(hub.request().is_none(), "it has what it wants");
}

#[test]
fn where_a_delivery_was_lost_it_goes_on_behind_what_is_stored() {
    let mut house = House::new();
    house.create(mirror());
    let mut hub = Hub::open(&mut house);
    hub.grant(&mut house, "id", 0);
    hub.deliver(&mut house, 1, 1);
    hub.deliver(&mut house, 3, 3);
    let before = hub.deliver.clone();
    let config = hub.grant(&mut house, "id", 1);
    assert_eq!(
        (&config["deliver_policy"], &config["opt_start_seq"]),
        (&json!("by_start_sequence"), &json!(2))
    );
    assert_ne!(hub.deliver, before);
    let now = std::mem::replace(&mut hub.deliver, before);
    hub.deliver(&mut house, 4, 4);
    assert_eq!(house.contents("M"), (1, 1), "the one before is not heard any more");
    hub.deliver = now;
    hub.deliver(&mut house, 1, 2);
    hub.deliver(&mut house, 2, 3);
    assert_eq!(house.contents("M"), (3, 3));
}

#[test]
fn a_silent_consumer_is_given_up_for_another() {
    let mut house = House::new();
    house.create(mirror());
    let mut hub = Hub::open(&mut house);
    hub.grant(&mut house, "id", 0);
    hub.deliver(&mut house, 1, 1);
    for _ in 0..20 {
        house.pass(SECOND);
        hub.control(&mut house, "", "Idle Heartbeat\r\nNats-Last-Consumer: 1\r\nNats-Last-Stream: 1");
    }
    assert!(hub.request().is_none(), "it gives signs of life");
    house.pass(2 * SECOND);
    assert!(hub.request().is_none(), "one or two may be late");
    house.pass(2 * SECOND);
    assert_eq!(hub.grant(&mut house, "id", 1)["opt_start_seq"], 2);
    hub.deliver(&mut house, 1, 2);
    assert_eq!(house.contents("M"), (2, 2));
}

#[test]
fn one_that_does_not_answer_is_asked_again() {
    let mut house = House::new();
    house.create(mirror());
    let mut hub = Hub::open(&mut house);
    let (first, _) = hub.request().expect("it asks");
    house.pass(9 * SECOND);
    assert!(hub.request().is_none(), "it waits");
    house.pass(2 * SECOND);
    let (second, _) = hub.request().expect("it asks again");
    assert_ne!(first.reply, second.reply);
    // The late answer to the first one is nobody's.
    answer_with(&mut house, &first.reply, "", &json!({ "config": {}, "delivered": { "stream_seq": 9 } }));
    assert_eq!(house.contents("M"), (0, 0));
}

#[test]
fn a_request_that_was_lost_with_the_link_goes_again_when_that_is_back() {
    let mut house = House::new();
    house.create(mirror());
    let (requests, way) = house.record_until_unbound("$JS.hub.API.>");
    assert_eq!(lock(&requests).len(), 1, "it asks");
    house.account.unbind(&way);
    house.pass(SECOND / 2);
    let mut hub = Hub::open(&mut house);
    hub.grant(&mut house, "id", 0);
    hub.deliver(&mut house, 1, 1);
    assert_eq!(house.contents("M"), (1, 1));
}

#[test]
fn a_refusal_is_shown_and_it_is_asked_again_later() {
    let mut house = House::new();
    house.create(mirror());
    let mut hub = Hub::open(&mut house);
    let (request, _) = hub.request().expect("it asks");
    let error = json!({ "error": { "code": 404, "err_code": 10059, "description": "stream not found" } });
    answer_with(&mut house, &request.reply, "", &error);
    let (mirror, _) = house.stream("M").sourcing_info();
    let shown = mirror.and_then(|mirror| mirror.error).map(|error| error.to_string());
    assert_eq!(shown.as_deref(), Some("stream not found (10059)"));
    house.pass(SECOND);
    hub.grant(&mut house, "id", 0);
    hub.deliver(&mut house, 1, 1);
    assert_eq!(house.contents("M"), (1, 1));
}

#[test]
fn a_missing_origin_is_asked_for_after_growing_pauses() {
    let mut house = House::new();
    house.create(mirror());
    let mut hub = Hub::open(&mut house);
    let error = json!({ "error": { "code": 404, "err_code": 10059, "description": "stream not found" } });
    let mut asked = Vec::new();
    for tenth in 0..700 {
        while let Some((request, _)) = hub.request() {
            asked.push(tenth / 10);
            answer_with(&mut house, &request.reply, "", &error);
        }
        house.pass(SECOND / 10);
    }
    assert_eq!(asked, [0, 1, 3, 7, 15, 31, 47, 63]);
}

#[test]
fn a_question_of_flow_control_is_answered_with_what_is_stored() {
    let mut house = House::new();
    house.create(mirror());
    let mut hub = Hub::open(&mut house);
    hub.grant(&mut house, "id", 0);
    hub.deliver(&mut house, 1, 1);
    hub.control(&mut house, "$JS.FC.O.c.x", "FlowControl Request");
    let answers = std::mem::take(&mut *lock(&hub.answers));
    let [answer] = answers.as_slice() else { panic!("{answers:?}") };
    let headers = "NATS/1.0\r\nNats-Last-Consumer: 1\r\nNats-Last-Stream: 1\r\n\r\n";
    assert_eq!((answer.subject.as_str(), answer.headers.as_str()), ("$JS.FC.O.c.x", headers));
}

#[test]
fn a_source_knows_an_origin_that_was_made_anew_under_its_name() {
    let mut house = House::new();
    house.create(copy("S", &[elsewhere("o.>")]));
    let mut hub = Hub::open(&mut house);
    hub.grant(&mut house, "one", 0);
    hub.deliver(&mut house, 1, 7);
    house.pass(11 * SECOND);
    let (request, body) = hub.request().expect("it asks again");
    assert!(request.subject.starts_with("$JS.hub.API.CONSUMER.CREATE.O.JS_SRC_"), "{}", request.subject);
    assert!(request.headers.contains("Nats-Stream-Identity: one\r\n"), "{}", request.headers);
    assert_eq!(body["config"]["opt_start_seq"], 8);
    let mismatch = json!({ "error": { "code": 400, "err_code": 10225, "description": "two" } });
    answer_with(&mut house, &request.reply, "", &mismatch);
    let config = hub.grant(&mut house, "two", 0);
    assert_eq!(config["deliver_policy"], "all");
    hub.deliver(&mut house, 1, 1);
    assert_eq!(house.contents("S"), (2, 2));
}

#[test]
fn a_source_goes_on_after_a_restart() {
    let disk = FaultyDisk::new(1);
    let mut house = House::on(&disk);
    house.create(copy("S", &[elsewhere("")]));
    let mut hub = Hub::open(&mut house);
    hub.grant(&mut house, "id", 0);
    hub.deliver(&mut house, 1, 5);
    drop(house);
    let mut house = House::on(&disk.kill());
    let mut hub = Hub::open(&mut house);
    assert_eq!(hub.grant(&mut house, "id", 5)["opt_start_seq"], 6);
    hub.deliver(&mut house, 1, 6);
    assert_eq!(house.contents("S"), (2, 2));
}

#[test]
fn an_old_server_is_asked_for_a_plain_consumer() {
    let mut house = House::new();
    house.create(mirror());
    let mut hub = Hub::open(&mut house);
    let (request, body) = hub.request().expect("it asks");
    let name = body["config"]["name"].as_str().expect("it has one").to_owned();
    let error = json!({ "error": { "code": 412, "err_code": 10185, "description": "level" } });
    answer_with(&mut house, &request.reply, "", &error);
    let config = hub.grant(&mut house, "", 0);
    assert_eq!(config.get("sourcing"), None);
    assert!(config["name"].as_str().is_some_and(|plain| plain.starts_with(&format!("{name}_"))), "{config}");
    hub.deliver(&mut house, 1, 1);
    assert_eq!(house.contents("M"), (1, 1));
}

#[test]
fn a_mirror_that_becomes_a_stream_has_its_consumer_deleted() {
    let mut house = House::new();
    house.create(mirror());
    let mut hub = Hub::open(&mut house);
    hub.grant(&mut house, "id", 0);
    hub.deliver(&mut house, 1, 1);
    house
        .update(StreamConfig { name: "M".into(), subjects: vec!["m.>".into()], ..stream("M") })
        .expect("it may");
    let (request, _) = hub.request().expect("it says so");
    assert_eq!(request.subject, "$JS.hub.API.CONSUMER.DELETE.O.c");
    hub.deliver(&mut house, 2, 2);
    house.publish("m.a");
    assert_eq!(house.contents("M"), (2, 2));
}

/// The answer to the last request may be on its way, and the consumer there.
#[test]
fn a_mirror_that_has_no_way_to_its_origin_has_its_consumer_deleted() {
    let mut house = House::new();
    house.create(mirror());
    let mut hub = Hub::open(&mut house);
    let config = hub.grant(&mut house, "id", 0);
    hub.deliver(&mut house, 1, 1);
    // One was lost.
    hub.deliver(&mut house, 3, 3);
    hub.request().expect("it asks for another one");
    house.delete("M");
    let (request, _) = hub.request().expect("it says so");
    let name = config["name"].as_str().expect("it has one");
    assert_eq!(request.subject, format!("$JS.hub.API.CONSUMER.DELETE.O.{name}"));
}

#[test]
fn a_consumer_that_somebody_has_made_goes_on_where_it_was() {
    let given = SourceConsumerConfig { name: "given".into(), deliver_subject: "given.d".into() };
    let source = StreamSource { consumer: Some(given), ..elsewhere("") };
    let mut house = House::new();
    house.create(StreamConfig { mirror: Some(source), ..copy("M", &[]) });
    let mut hub = Hub::open(&mut house);
    let answer = |policy: &str, seq: u64| {
        let config = json!({ "ack_policy": policy });
        json!({ "name": "given", "config": config, "delivered": { "consumer_seq": 4, "stream_seq": seq } })
    };
    let (request, _) = hub.request().expect("it asks");
    assert_eq!(
        (request.subject.as_str(), request.payload.as_str()),
        ("$JS.hub.API.CONSUMER.RESET.O.given", "")
    );
    answer_with(&mut house, &request.reply, "", &answer("none", 0));
    let error =
        house.stream("M").sourcing_info().0.and_then(|mirror| mirror.error).map(|error| error.err_code);
    assert_eq!(error, Some(10214), "it must acknowledge by flow control");
    house.pass(SECOND);
    let (request, _) = hub.request().expect("it asks again");
    answer_with(&mut house, &request.reply, "", &answer("flow_control", 2));
    hub.deliver = "given.d".into();
    hub.deliver(&mut house, 5, 3);
    assert_eq!(house.contents("M"), (1, 3));
    house.delete("M");
    assert!(hub.request().is_none(), "it is not the mirror's to delete");
}
