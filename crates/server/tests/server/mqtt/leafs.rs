//! MQTT clients at a leaf node whose sessions are stored at its hub (`js_domain`).

use super::address;
use super::peer::{Peer, lasting};
use super::stored::Asking;
use crate::process::{Server, Setup};
use crate::routes::free_port;
use myelin_compat::implementation::reference_program;
use myelin_mqtt::packet::Qos;
use myelin_mqtt::records::session_hash;
use serde_json::Value;
use std::path::Path;

/// A hub with JetStream.
fn hub(setup: Setup, port: u16, store: &Path) -> Server {
    let config = format!(
        "server_name: hub\njetstream {{ store_dir: {store:?}, domain: hub }}\n\
         mqtt {{ host: \"127.0.0.1\", port: -1, js_domain: hub }}\nleafnodes {{ host: \"127.0.0.1\", port: {port} }}"
    );
    setup.config(&config).start()
}

/// A leaf node without JetStream.
fn leaf(port: u16) -> Server {
    let config = format!(
        "server_name: leaf\nmqtt {{ host: \"127.0.0.1\", port: -1, js_domain: hub }}\n\
         leafnodes {{ remotes: [{{ url: \"nats://127.0.0.1:{port}\" }}] }}"
    );
    Setup::default().flags(&["-DV"]).config(&config).start()
}

/// Takes what comes, and acknowledges it.
fn take(peer: &mut Peer, count: usize) -> Vec<String> {
    let mut texts: Vec<_> = (0..count)
        .map(|_| {
            let (text, number) = peer.came();
            if number > 0 {
                peer.puback(number);
            }
            text
        })
        .collect();
    texts.sort();
    assert!(peer.all_came().is_empty(), "nothing else, behind {texts:?}");
    texts
}

#[test]
fn clients_at_a_leaf_node_have_their_sessions_at_the_hub() {
    let setup = Setup::default().flags(&["-DV"]);
    let reference = reference_program().map(|program| setup.clone().program(&program));
    for setup in [Some(setup), reference].into_iter().flatten() {
        let (port, store) = (free_port(), tempfile::tempdir().expect("a folder"));
        let hub = hub(setup, port, store.path());
        let leaf_node = leaf(port);
        let mut there = Peer::dial(address(&leaf_node));
        assert!(!there.resume(&lasting("there")));
        assert_eq!(there.subscribe_with(&[("#", Qos::AtLeastOnce)]), [1]);
        let mut here = Peer::connect(address(&hub), "here");
        assert_eq!(here.subscribe_with(&[("b/#", Qos::AtLeastOnce), ("kept", Qos::AtMostOnce)]), [1, 0]);
        // With both qualities, in both directions, each message once.
        here.publish("a/x", "0");
        here.publish_1("a/x", "1");
        assert_eq!(take(&mut there, 2), ["PUBLISH a/x 0 q0", "PUBLISH a/x 1 q1"]);
        there.unsubscribe(&["#"]);
        assert_eq!(there.subscribe_with(&[("a/#", Qos::AtLeastOnce)]), [1]);
        there.publish("b/x", "0");
        there.publish_1("b/x", "1");
        there.retain("kept", "2");
        assert_eq!(take(&mut here, 3), ["PUBLISH b/x 0 q0", "PUBLISH b/x 1 q1", "PUBLISH kept 2 q0"]);
        let mut reader = Peer::connect(address(&hub), "reader");
        assert_eq!(reader.subscribe(&["kept"]), [0]);
        assert_eq!(reader.came().0, "PUBLISH kept 2 q0 retain");
        // A session outlives its leaf node, and gets what came meanwhile.
        let subject = format!("$MQTT.sess.hub.{}", session_hash("there"));
        let (_, record) = Asking::new(&hub).last("$MQTT_sess", &subject);
        let record: Value = serde_json::from_str(&record).expect("a record");
        assert_eq!(record["subs"], serde_json::json!({ "a.>": 1 }));
        there.disconnect();
        assert_eq!(there.rest(), b"");
        drop(leaf_node);
        here.publish_1("a/y", "meanwhile");
        let leaf_node = leaf(port);
        let mut there = Peer::dial(address(&leaf_node));
        assert!(there.resume(&lasting("there")));
        assert_eq!(take(&mut there, 1)[0].trim_end_matches(" dup"), "PUBLISH a/y meanwhile q1");
    }
}
