//! Requests of sessions to JetStream: no more than they have to, and again where nobody takes them.

use super::peer::{Peer, hello, id, lasting, message};
use super::stored::Asking;
use super::{address, server};
use crate::eventually;
use crate::raw::{Message, Raw};
use myelin_mqtt::packet::{ClientPacket, Exchange, PublishPacket, Qos};
use serde_json::Value;

/// Time in which a test has a stream made again, with the option of the server.
const PATIENT: &str = "js_api_timeout: \"30s\"";

fn publish<'a>(number: u16, topic: &'a str, payload: &'a str, retain: bool) -> ClientPacket<'a> {
    let exchange = Exchange::AtLeastOnce(id(number));
    ClientPacket::Publish(PublishPacket { exchange, retain, ..message(topic, payload.as_bytes()) })
}

/// Removes a stream; its configuration.
fn remove(asking: &mut Asking, stream: &str) -> String {
    let config = asking.ask(&format!("STREAM.INFO.{stream}"), "")["config"].to_string();
    assert_eq!(asking.ask(&format!("STREAM.DELETE.{stream}"), "")["success"], true);
    config
}

fn make(asking: &mut Asking, stream: &str, config: &str) {
    let made = asking.ask(&format!("STREAM.CREATE.{stream}"), config);
    assert!(made["error"].is_null(), "{made}");
}

/// A fleet that comes back at once asks for each stream once, and makes none that is there.
#[test]
fn many_that_connect_at_once_ask_for_streams_once() {
    let mut server = server("", "");
    drop(Peer::connect(address(&server), "first"));
    server.server.restart();
    let at = address(&server);
    let mut watcher = Raw::open(server.address());
    watcher.send("CONNECT {\"verbose\":false,\"headers\":true}\r\n");
    watcher.subscribe("$MQTT.JSA.>", 1);
    watcher.barrier();
    let peers: Vec<Peer> = std::thread::scope(|scope| {
        let connects = (0..16).map(|number| {
            scope.spawn(move || {
                let (mut peer, client_id) = (Peer::dial(at), format!("c{number}"));
                peer.resume(&lasting(&client_id));
                peer
            })
        });
        let connects: Vec<_> = connects.collect();
        connects.into_iter().map(|connect| connect.join().expect("it is welcome")).collect()
    });
    let kinds: Vec<String> = watcher
        .barrier()
        .iter()
        .filter_map(|msg| {
            serde_json::from_slice::<Value>(&msg.body).ok()?["type"].as_str().map(str::to_owned)
        })
        .collect();
    let count = |kind: &str| kinds.iter().filter(|other| other.ends_with(kind)).count();
    assert_eq!(count("stream_create_response"), 0, "{kinds:?}");
    assert!((5..16).contains(&count("stream_info_response")), "{kinds:?}");
    assert_eq!(peers.len(), 16);
}

/// A stream that was removed is made when somebody needs it, by whoever connects then.
#[test]
fn a_stream_that_is_gone_is_made_by_the_next_client() {
    let server = server("", "");
    let at = address(&server);
    let _first = Peer::connect(at, "first");
    let mut asking = Asking::new(&server);
    remove(&mut asking, "$MQTT_sess");
    assert!(Peer::dial(at).greet(&hello("second")).is_some());
    eventually("its stream is there again", || Peer::dial(at).greet(&hello("third")).is_some());
    assert!(asking.state("$MQTT_sess")["messages"].is_u64());
}

/// Stands for a stream without a leader: says to these requests that nobody takes them.
fn refuse(watcher: &mut Raw, requests: impl IntoIterator<Item = Message>) {
    for reply in requests.into_iter().filter_map(|request| request.reply) {
        let status = "NATS/1.0 503\r\n\r\n";
        watcher.send(&format!("HPUB {reply} {0} {0}\r\n{status}\r\n", status.len()));
    }
}

/// Messages that nobody takes, for their stream has no leader, wait until there is one.
#[test]
fn messages_wait_for_their_stream_and_keep_their_order() {
    let server = server(PATIENT, "");
    let mut asking = Asking::new(&server);
    let mut peer = Peer::connect(address(&server), "writer");
    let config = remove(&mut asking, "$MQTT_rmsgs");
    let mut watcher = Raw::open(server.address());
    watcher.send("CONNECT {\"verbose\":false,\"headers\":true}\r\n");
    watcher.subscribe("$MQTT.rmsgs.>", 1);
    watcher.barrier();
    for number in 1..=9 {
        peer.send(&publish(number, "kept", &number.to_string(), true));
    }
    let first: Vec<_> = (1..=9).map(|_| watcher.message()).collect();
    refuse(&mut watcher, first);
    make(&mut asking, "$MQTT_rmsgs", &config);
    watcher.send("UNSUB 1\r\n");
    // What has come again meanwhile: it is said of a message that the stream may have, too.
    let others = watcher.barrier();
    refuse(&mut watcher, others);
    for number in 1..=9 {
        assert_eq!(peer.came(), ("PUBACK".to_owned(), number));
    }
    assert_eq!(asking.last("$MQTT_rmsgs", "$MQTT.rmsgs.kept").1, "9");
}

/// A client that acknowledges nothing has no more retained messages on their way than others.
#[test]
fn retained_messages_wait_for_acknowledgements() {
    let server = server("max_ack_pending: 50", "");
    let mut peer = Peer::connect(address(&server), "writer");
    (0..120).for_each(|number| peer.retain(&format!("many/{number}"), "x"));
    let mut sub = Peer::connect(address(&server), "reader");
    assert_eq!(sub.subscribe_with(&[("many/+", Qos::AtLeastOnce)]), [1]);
    let mut numbers: Vec<u16> = (0..50).map(|_| sub.came().1).collect();
    assert!(sub.all_came().is_empty());
    for at in 0..120 {
        sub.puback(numbers[at]);
        if numbers.len() < 120 {
            numbers.push(sub.came().1);
        }
    }
    assert!(sub.all_came().is_empty());
    // Numbers are not used again while others are free.
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 120);
}
