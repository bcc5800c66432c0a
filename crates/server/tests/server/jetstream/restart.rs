//! Contents of a store from one server to the next, however the first one ended.

use super::{Asker, Home};
use crate::eventually;
use crate::process::{PROGRAM, Server, Setup};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::Command;

/// Signals that end a server.
const ENDS: [Signal; 2] = [Signal::TERM, Signal::KILL];

fn end_and_start_again(server: &mut Server, signal: Signal) {
    server.signal(signal);
    let status = server.wait();
    if signal == Signal::TERM {
        assert_eq!(status.code(), Some(0));
        server.wait_for_log("JetStream Shutdown");
    }
    server.restart();
}

#[test]
fn configurations_are_as_they_were() {
    for signal in ENDS {
        let home = Home::new();
        let mut server = home.start("");
        let mut asker = Asker::connect(&server);
        asker.create("A", &json!({ "max_msgs": 10, "metadata": { "owner": "me" }, "compression": "s2" }));
        asker.create("B", &json!({ "retention": "workqueue", "max_age": 3_600_000_000_000_u64 }));
        asker.create("C", &json!({ "allow_atomic": true, "allow_batched": true, "deny_delete": true }));
        asker.api(
            "STREAM.UPDATE.A",
            &json!({ "name": "A", "subjects": ["A.>", "more.*"], "compression": "s2" }),
        );
        let shown = |asker: &mut Asker| {
            let mut list = asker.api("STREAM.LIST", &Value::Null)["streams"].clone();
            for stream in list.as_array_mut().expect("a list") {
                stream.as_object_mut().expect("a stream").remove("ts");
            }
            list
        };
        let before = shown(&mut asker);
        end_and_start_again(&mut server, signal);
        let mut asker = Asker::connect(&server);
        assert_eq!(shown(&mut asker), before, "{signal:?}");
        assert_eq!(asker.publish("more.x", "bound again"), json!({ "stream": "A", "seq": 1 }));
        asker.api("STREAM.DELETE.B", &Value::Null);
        end_and_start_again(&mut server, signal);
        let names = Asker::connect(&server).api("STREAM.NAMES", &Value::Null)["streams"].clone();
        assert_eq!(names, json!(["A", "C"]));
    }
}

#[test]
fn ids_are_remembered() {
    for signal in ENDS {
        let home = Home::new();
        let mut server = home.start("");
        let mut asker = Asker::connect(&server);
        asker.create("S", &json!({}));
        for i in 1..=50 {
            let ack = asker.publish_with(&format!("Nats-Msg-Id: id{i}\r\n"), "S.a", "x");
            assert_eq!(ack["seq"], i);
        }
        end_and_start_again(&mut server, signal);
        let mut asker = Asker::connect(&server);
        for i in [1, 25, 50] {
            let ack = asker.publish_with(&format!("Nats-Msg-Id: id{i}\r\n"), "S.a", "x");
            assert_eq!(ack, json!({ "stream": "S", "seq": i, "duplicate": true }), "{signal:?}");
        }
        let last = asker.publish_with("Nats-Expected-Last-Msg-Id: id50\r\n", "S.a", "x");
        assert_eq!(last["seq"], 51, "{last}");
    }
}

#[test]
fn what_was_removed_stays_so_and_sequences_go_on() {
    for signal in ENDS {
        let home = Home::new();
        let mut server = home.start("");
        let mut asker = Asker::connect(&server);
        for name in ["PURGED", "HOLES", "ROLLED"] {
            asker.create(name, &json!({ "allow_rollup_hdrs": true }));
            for i in 0..20 {
                asker.publish(&format!("{name}.a"), &i.to_string());
            }
        }
        assert_eq!(asker.api("STREAM.PURGE.PURGED", &Value::Null)["purged"], 20);
        for (seq, no_erase) in [(1, true), (7, true), (8, false), (20, true)] {
            asker.api("STREAM.MSG.DELETE.HOLES", &json!({ "seq": seq, "no_erase": no_erase }));
        }
        asker.publish_with("Nats-Rollup: all\r\n", "ROLLED.a", "one for all");
        let states = |asker: &mut Asker| ["PURGED", "HOLES", "ROLLED"].map(|name| asker.state(name));
        let before = states(&mut asker);
        end_and_start_again(&mut server, signal);
        let mut asker = Asker::connect(&server);
        assert_eq!(states(&mut asker), before, "{signal:?}");
        assert_eq!(asker.publish("PURGED.a", "next")["seq"], 21);
        let seqs: Vec<u64> = asker.read_all("HOLES").iter().map(|message| message.seq).collect();
        assert_eq!(seqs, (2..20).filter(|seq| ![7, 8].contains(seq)).collect::<Vec<_>>());
        assert_eq!(asker.read_all("ROLLED").len(), 1);
    }
}

#[test]
fn messages_end_on_time_while_nobody_serves_them() {
    let home = Home::new();
    let mut server = home.start("");
    let mut asker = Asker::connect(&server);
    asker.create("TTL", &json!({ "allow_msg_ttl": true }));
    asker.create("AGE", &json!({ "max_age": 1_500_000_000_u64, "duplicate_window": 1_000_000_000_u64 }));
    for _ in 0..5 {
        asker.publish_with("Nats-TTL: 1s\r\n", "TTL.short", "x");
        asker.publish("AGE.a", "x");
    }
    asker.publish("TTL.ever", "x");
    end_and_start_again(&mut server, Signal::KILL);
    let mut asker = Asker::connect(&server);
    eventually("the mortal ones are gone", || {
        asker.number("TTL", "messages") == 1 && asker.number("AGE", "messages") == 0
    });
    assert_eq!(asker.read_all("TTL")[0].subject, "TTL.ever");
    assert_eq!(asker.number("AGE", "last_seq"), 5);
}

#[test]
fn two_servers_do_not_share_a_store() {
    let home = Home::new();
    let server = home.start("");
    let mut asker = Asker::connect(&server);
    asker.create("S", &json!({}));
    let folder = home.path().to_str().expect("tests have plain paths");
    let mut command = Command::new(PROGRAM);
    command.args(["-a", "127.0.0.1", "-p", "-1", "-js", "-sd", folder]);
    let second = command.output().expect("the program starts");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains("Can't start JetStream") && said.contains("another process uses"), "{said}");
    // The first one does not mind.
    assert_eq!(asker.publish("S.a", "x")["seq"], 1);
}

/// As test suites start them.
#[test]
fn of_servers_that_nobody_gave_a_store_each_has_one() {
    let home = Home::new();
    let setup = || Setup::default().flags(&["-js"]).temporary(home.path());
    let usual = format!("Store Directory: \"{}\"", home.path().join("nats/jetstream").display());
    let first = setup().start();
    first.wait_for_log(&usual);
    let second = setup().start();
    second.wait_for_log("Default storage directory is in use by another server");
    for server in [&first, &second] {
        let mut asker = Asker::connect(server);
        asker.create("S", &json!({}));
        assert_eq!(asker.publish("S.a", "x")["seq"], 1);
    }
    drop(first);
    // The next one has the streams of the first.
    let third = setup().start();
    third.wait_for_log(&usual);
    assert_eq!(Asker::connect(&third).number("S", "messages"), 1);
}

/// Nor do they meet when they start at the same moment; and no more places stay behind than servers
/// ran at once.
#[test]
fn servers_without_a_store_that_start_at_once_share_a_few_places() {
    const SERVERS: usize = 3;
    let home = Home::new();
    for _ in 0..2 {
        let start = || Setup::default().flags(&["-js"]).temporary(home.path()).start();
        let servers: Vec<Server> = std::thread::scope(|scope| {
            let starting: Vec<_> = (0..SERVERS).map(|_| scope.spawn(start)).collect();
            starting.into_iter().map(|thread| thread.join().expect("each server starts")).collect()
        });
        let mut stores: Vec<_> =
            servers.iter().map(|server| server.wait_for_log("Store Directory")).collect();
        stores.iter_mut().for_each(|line| drop(line.drain(..line.find("Store").expect("just found"))));
        stores.sort_unstable();
        stores.dedup();
        assert_eq!(stores.len(), SERVERS, "{stores:?}");
        let places = std::fs::read_dir(home.path()).expect("the folder is there");
        assert_eq!(places.count(), SERVERS);
    }
}

/// README's quick start in bytes: a stream, a message, a restart, the message.
#[test]
fn a_message_is_read_back_after_a_restart() {
    let home = Home::new();
    let mut server = home.start("");
    let mut asker = Asker::connect(&server);
    asker.api("STREAM.CREATE.ORDERS", &json!({ "name": "ORDERS", "subjects": ["orders.>"] }));
    assert_eq!(asker.publish("orders.new", "hello"), json!({ "stream": "ORDERS", "seq": 1 }));
    end_and_start_again(&mut server, Signal::TERM);
    let mut asker = Asker::connect(&server);
    let got = asker.api("STREAM.MSG.GET.ORDERS", &json!({ "last_by_subj": "orders.new" }));
    assert_eq!(got["message"]["data"], "aGVsbG8=", "{got}");
    let again = asker.api("STREAM.CREATE.ORDERS", &json!({ "name": "ORDERS", "subjects": ["orders.>"] }));
    assert_eq!(again["state"]["messages"], 1, "{again}");
}

/// Where the consumer of a work queue was begun anew is known afterwards: what it passed over is
/// there for whoever goes back.
#[test]
fn a_work_queue_keeps_what_its_consumer_was_reset_past() {
    for signal in ENDS {
        let home = Home::new();
        let mut server = home.start("");
        let mut asker = Asker::connect(&server);
        asker.create("W", &json!({ "retention": "workqueue" }));
        let config =
            json!({ "stream_name": "W", "config": { "durable_name": "c", "ack_policy": "explicit" } });
        asker.api("CONSUMER.CREATE.W.c", &config);
        for seq in 1..=3 {
            assert_eq!(asker.publish("W.a", "x")["seq"], seq);
        }
        assert_eq!(asker.api("CONSUMER.RESET.W.c", &json!({ "seq": 3 }))["reset_seq"], 3);
        for _ in 0..2 {
            end_and_start_again(&mut server, signal);
            let mut asker = Asker::connect(&server);
            assert_eq!(asker.api("STREAM.INFO.W", &Value::Null)["state"]["messages"], 3, "{signal:?}");
            let info = asker.api("CONSUMER.INFO.W.c", &Value::Null);
            assert_eq!(info["num_pending"], 1, "{signal:?}");
        }
        let mut asker = Asker::connect(&server);
        assert_eq!(asker.api("CONSUMER.RESET.W.c", &json!({ "seq": 1 }))["num_pending"], 3);
    }
}
