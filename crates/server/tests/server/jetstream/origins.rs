//! Mirrors and sources, over and over ended while they copy: nothing is there twice and nothing is
//! missing.

use super::{Asker, Home, Stored, publish};
use crate::eventually;
use crate::process::Server;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Debug;

const PER_ROUND: usize = 1500;

/// Waits until nothing is left to be copied.
fn settle(asker: &mut Asker, stream: &str, last: impl Fn(&mut Asker) -> Vec<(String, u64)>) {
    eventually(&format!("{stream} has all"), || {
        let wanted = last(asker);
        let info = asker.api(&format!("STREAM.INFO.{stream}"), &Value::Null);
        let of = |source: &Value, name: &str, last: u64| {
            source["name"] == name && source["lag"] == 0 && source["seq"].as_u64().unwrap_or(last) >= last
        };
        let sources = info["sources"].as_array().cloned().unwrap_or_default();
        let mirror = info["mirror"].is_object().then(|| info["mirror"].clone());
        let all: Vec<Value> = sources.into_iter().chain(mirror).collect();
        let are_connected = all.iter().all(|source| source["active"] != -1 && source.get("error").is_none());
        let is_current = |(name, last): &(String, u64)| all.iter().any(|source| of(source, name, *last));
        are_connected && wanted.iter().all(is_current)
    });
}

fn last_of(asker: &mut Asker, names: &[&str]) -> Vec<(String, u64)> {
    names.iter().map(|name| ((*name).to_owned(), asker.number(name, "last_seq"))).collect()
}

fn text(message: &Stored) -> Cow<'_, str> {
    String::from_utf8_lossy(&message.payload)
}

fn contents(messages: &[Stored]) -> Vec<(u64, &str, Cow<'_, str>)> {
    messages.iter().map(|m| (m.seq, m.subject.as_str(), text(m))).collect()
}

/// Asserts that the copies are those that were to be; else says where they part, and not all of
/// both.
fn are_equal<T: PartialEq + Debug>(what: &str, copied: &[T], wanted: &[T]) {
    let parts = copied.iter().zip(wanted).position(|(one, other)| one != other);
    let at = parts.unwrap_or(copied.len().min(wanted.len()));
    let from = |all: &[T]| format!("{} with {:?}", all.len(), all.get(at));
    assert!(copied == wanted, "{what}: {} where {} are wanted, number {at}", from(copied), from(wanted));
}

fn end(server: &mut Server, signal: Signal) {
    server.signal(signal);
    server.wait();
}

#[test]
fn everything_is_copied_once_however_the_server_ends() {
    torment("", 6);
}

#[test]
fn nor_does_it_matter_when_acknowledgements_are_given_while_it_is_there() {
    torment("sync_interval: always", 3);
}

fn torment(lines: &str, rounds: usize) {
    let home = Home::new();
    let mut server = home.start(lines);
    let mut asker = Asker::connect(&server);
    asker.create("A", &json!({}));
    asker.create("B", &json!({}));
    for (name, retention) in [("W", "workqueue"), ("Q", "workqueue"), ("I", "interest"), ("J", "interest")] {
        asker.create(name, &json!({ "retention": retention }));
    }
    asker.create("MA", &json!({ "subjects": [], "mirror": { "name": "A" } }));
    asker.create("MQ", &json!({ "subjects": [], "mirror": { "name": "Q" } }));
    asker.create("MJ", &json!({ "subjects": [], "mirror": { "name": "J" } }));
    let all = json!([{ "name": "A" }, { "name": "B", "filter_subject": "B.x.*" }, { "name": "W" }, { "name": "I" }]);
    asker.create("S", &json!({ "subjects": [], "sources": all }));
    // Of most that was copied nothing is left here that says so.
    let both = json!([{ "name": "A" }, { "name": "B" }]);
    asker.create("FEW", &json!({ "subjects": [], "sources": both, "max_msgs": 3 }));
    asker.create(
        "ONE",
        &json!({
            "subjects": [], "max_msgs_per_subject": 1,
            "sources": [
                { "name": "A", "subject_transforms": [{ "src": "A.*.*", "dest": "one.{{wildcard(1)}}" }] },
                { "name": "B", "subject_transforms": [{ "src": "B.*.*", "dest": "one.{{wildcard(1)}}" }] },
            ],
        }),
    );
    // A stream that keeps what somebody wants has to know who does. The last two streams may hear
    // of their sources when they like, and of one before the other.
    for name in ["MQ", "MJ", "S"] {
        settle(&mut asker, name, |_| Vec::new());
    }
    for round in 0..rounds {
        for at in 0..PER_ROUND {
            for name in ["A", "B", "W", "Q", "I", "J"] {
                let subject = format!("{name}.x.{}", at % 7);
                let body = format!("{name} {round} {at}");
                asker.raw.send_bytes(&publish(&subject, "nobody", "", body.as_bytes()));
            }
        }
        // Somewhere in the middle of it all, and now and then in good order.
        asker.publish("A.x.last", &format!("A {round} last"));
        end(&mut server, if round % 3 == 2 { Signal::TERM } else { Signal::KILL });
        server = home.start(lines);
        asker = Asker::connect(&server);
    }
    settle(&mut asker, "MA", |asker| last_of(asker, &["A"]));
    settle(&mut asker, "MQ", |asker| last_of(asker, &["Q"]));
    settle(&mut asker, "MJ", |asker| last_of(asker, &["J"]));
    settle(&mut asker, "S", |asker| last_of(asker, &["A", "B", "W", "I"]));
    let (a, b) = (asker.read_all("A"), asker.read_all("B"));
    are_equal("MA", &contents(&asker.read_all("MA")), &contents(&a));
    let copied = asker.read_all("S");
    let of = |name: &str| -> Vec<_> {
        let own = |m: &&Stored| m.subject.starts_with(&format!("{name}."));
        copied.iter().filter(own).map(text).collect()
    };
    are_equal("A in S", &of("A"), &a.iter().map(text).collect::<Vec<_>>());
    are_equal("B in S", &of("B"), &b.iter().map(text).collect::<Vec<_>>());
    for name in ["W", "I"] {
        are_all_there_once(&mut asker, name, &of(name));
    }
    for (mirror, name) in [("MQ", "Q"), ("MJ", "J")] {
        let mirrored = asker.read_all(mirror);
        are_all_there_once(&mut asker, name, &mirrored.iter().map(text).collect::<Vec<_>>());
        assert_eq!(mirrored.last().map(|m| m.seq), Some(asker.number(name, "last_seq")), "{mirror}");
    }
    let total = (a.len() + b.len()) as u64;
    for few in ["FEW", "ONE"] {
        settle(&mut asker, few, |asker| last_of(asker, &["A", "B"]));
        assert_eq!(asker.number(few, "last_seq"), total, "{few}");
    }
}

/// Messages of each origin, and how often the server is killed before all are there.
const MANY: usize = 34_000;
const KILLS: usize = 6;

#[test]
fn a_hundred_thousand_messages_are_copied_once_however_often_the_server_is_killed() {
    flood("", MANY, KILLS);
}

#[test]
fn nor_do_fewer_when_acknowledgements_wait_for_the_disk() {
    flood("sync_interval: always", MANY / 10, KILLS / 2);
}

/// Messages that were not copied when the server is killed are copied later, from origins that keep
/// everything, and from those that keep only what is not copied.
fn flood(lines: &str, each: usize, kills: usize) {
    let home = Home::new();
    let mut server = home.start(lines);
    let mut asker = Asker::connect(&server);
    let names = ["L", "W", "I"];
    for (name, retention) in names.iter().zip(["limits", "workqueue", "interest"]) {
        asker.create(name, &json!({ "retention": retention }));
    }
    let sources = names.map(|name| json!({ "name": name }));
    asker.create("S", &json!({ "subjects": [], "sources": sources }));
    // Nothing is left here of most, in segments or anywhere.
    asker.create("FEW", &json!({ "subjects": [], "sources": sources, "max_msgs": 3 }));
    settle(&mut asker, "S", |_| Vec::new());
    settle(&mut asker, "FEW", |_| Vec::new());
    for kill in 1..=kills {
        let enough = (names.len() * each * kill / (kills + 1)) as u64;
        while asker.number("S", "last_seq") < enough {
            continue_with(&mut asker, &names, each / 20, each);
        }
        end(&mut server, Signal::KILL);
        server = home.start(lines);
        asker = Asker::connect(&server);
    }
    continue_with(&mut asker, &names, each, each);
    let all = |asker: &mut Asker| last_of(asker, &names);
    settle(&mut asker, "S", all);
    settle(&mut asker, "FEW", all);
    let copied = asker.read_all("S");
    let wanted: Vec<String> = (1..=each).map(|number| number.to_string()).collect();
    for name in names {
        let own = copied.iter().filter(|message| message.subject == format!("{name}.x"));
        let own: Vec<_> = own.map(|message| String::from_utf8_lossy(&message.payload)).collect();
        assert!(own == wanted, "{name}: {} messages, or in another order", own.len());
    }
    assert_eq!(asker.number("FEW", "last_seq"), (names.len() * each) as u64);
    for name in ["W", "I"] {
        eventually(&format!("{name} is empty"), || asker.number(name, "messages") == 0);
    }
}

/// Publishes some more messages to each stream, up to the last one: each says its number.
fn continue_with(asker: &mut Asker, names: &[&str], some: usize, last: usize) {
    let ends: Vec<usize> = names
        .iter()
        .map(|name| {
            let from = asker.number(name, "last_seq") as usize + 1;
            let end = (from + some).min(last + 1);
            for number in from..end {
                let body = number.to_string();
                asker.raw.send_bytes(&publish(&format!("{name}.x"), "nobody", "", body.as_bytes()));
            }
            end
        })
        .collect();
    asker.raw.barrier();
    // What is not released yet is not counted, and would be published again under the same number.
    for (name, end) in names.iter().zip(ends) {
        eventually(&format!("{name} has them"), || asker.number(name, "last_seq") as usize + 1 >= end);
    }
}

/// Checks that all messages of an origin that keeps nothing any more were copied, each once.
fn are_all_there_once(asker: &mut Asker, origin: &str, payloads: &[Cow<'_, str>]) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    payloads.iter().for_each(|payload| *counts.entry(payload).or_default() += 1);
    let twice: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "{} of {origin} came twice, first {:?}", twice.len(), twice[0]);
    assert_eq!(payloads.len() as u64, asker.number(origin, "last_seq"), "some of {origin} are missing");
    eventually(&format!("{origin} is empty"), || asker.number(origin, "messages") == 0);
}

#[test]
fn sources_come_and_go_and_the_others_go_on() {
    let home = Home::new();
    let server = home.start("");
    let mut asker = Asker::connect(&server);
    for name in ["A", "B"] {
        asker.create(name, &json!({}));
        asker.publish(&format!("{name}.1"), "1");
    }
    let config = |sources: Value| json!({ "name": "S", "subjects": ["S.>"], "allow_direct": true, "sources": sources });
    asker.api("STREAM.CREATE.S", &config(json!([{ "name": "A" }])));
    let seen = |asker: &mut Asker, wanted: &[&str]| {
        let mut subjects = Vec::new();
        eventually(&format!("{wanted:?}"), || {
            subjects = asker.read_all("S").iter().map(|m| m.subject.clone()).collect();
            subjects.len() >= wanted.len()
        });
        assert_eq!(subjects, wanted);
    };
    seen(&mut asker, &["A.1"]);
    asker.api("STREAM.UPDATE.S", &config(json!([{ "name": "A" }, { "name": "B" }])));
    seen(&mut asker, &["A.1", "B.1"]);
    asker.api("STREAM.UPDATE.S", &config(json!([{ "name": "B" }])));
    asker.publish("A.2", "2");
    asker.publish("B.2", "2");
    seen(&mut asker, &["A.1", "B.1", "B.2"]);
    // What was left in the stream says where it was.
    asker.api("STREAM.UPDATE.S", &config(json!([{ "name": "B" }, { "name": "A" }])));
    seen(&mut asker, &["A.1", "B.1", "B.2", "A.2"]);
    // One that is made anew begins anew.
    asker.api("STREAM.DELETE.A", &Value::Null);
    asker.create("A", &json!({}));
    asker.publish("A.new", "");
    seen(&mut asker, &["A.1", "B.1", "B.2", "A.2", "A.new"]);
    // A purge takes nothing of what is known.
    asker.api("STREAM.PURGE.S", &Value::Null);
    asker.publish("B.3", "");
    seen(&mut asker, &["B.3"]);
}

#[test]
fn a_full_stream_stops_its_sources_and_goes_on_in_order() {
    let home = Home::new();
    let server = home.start("");
    let mut asker = Asker::connect(&server);
    asker.create("A", &json!({}));
    for at in 1..=20 {
        asker.publish("A.x", &at.to_string());
    }
    asker.create("S", &json!({ "sources": [{ "name": "A" }], "max_msgs": 5, "discard": "new" }));
    let mut seen = Vec::new();
    while seen.len() < 20 {
        eventually("some are there", || asker.number("S", "messages") > 0);
        for message in asker.read_all("S") {
            asker.api("STREAM.MSG.DELETE.S", &json!({ "seq": message.seq, "no_erase": true }));
            seen.push(String::from_utf8_lossy(&message.payload).into_owned());
        }
    }
    assert_eq!(seen, (1..=20).map(|at| at.to_string()).collect::<Vec<_>>());
    assert_eq!(asker.number("S", "messages"), 0);
}

#[test]
fn a_mirror_is_found_by_its_own_domain_and_shown_by_monitoring() {
    let home = Home::new();
    let server = home.start("domain: hub");
    let mut asker = Asker::connect(&server);
    asker.create("A", &json!({}));
    asker.publish("A.x", "1");
    let external = json!({ "api": "$JS.hub.API", "deliver": "" });
    let mirror = json!({ "name": "A", "external": external });
    asker.create("M", &json!({ "subjects": [], "mirror": mirror, "mirror_direct": true }));
    eventually("it is there", || asker.number("M", "last_seq") == 1);
    let page = server.page("/jsz?accounts=1&streams=1");
    let streams = page["account_details"][0]["stream_detail"].as_array().cloned().unwrap_or_default();
    let mirror = streams.iter().find(|stream| stream["name"] == "M").expect("it is on the page");
    assert_eq!((&mirror["mirror"]["name"], &mirror["mirror"]["lag"]), (&json!("A"), &json!(0)));
    // One that is gone is answered for.
    asker.api("STREAM.DELETE.A", &Value::Null);
    eventually("the mirror answers", || {
        let reply = asker.ask("$JS.API.DIRECT.GET.A", r#"{"seq":1}"#);
        reply.text().contains("Nats-Stream: M\r\n")
    });
}
