//! Publishers: messages of QoS 1 and 2 are acknowledged when they are stored, in streams as
//! nats-server has them.

use super::peer::{Peer, hello, id, lasting, message};
use super::{Stored, address, server, servers};
use crate::eventually;
use crate::process::Server;
use crate::raw::{Message, Raw};
use myelin_mqtt::packet::{AckPacket, ClientPacket, ConnectPacket, Exchange, PublishPacket, Qos, Will};
use serde_json::{Value, json};

/// A NATS client that asks the API.
pub(super) struct Asking(Raw);

impl Asking {
    pub(super) fn new(server: &Server) -> Self {
        Self::login(server, "")
    }

    pub(super) fn login(server: &Server, fields: &str) -> Self {
        let mut raw = Raw::open(server.address());
        raw.send(&format!("CONNECT {{\"verbose\":false,\"pedantic\":false,\"headers\":true{fields}}}\r\n"));
        raw.subscribe("answers", 1);
        raw.barrier();
        Self(raw)
    }

    fn message(&mut self, to: &str, body: &str) -> Message {
        self.0.send(&format!("PUB {to} answers {}\r\n{body}\r\n", body.len()));
        self.0.message()
    }

    pub(super) fn ask(&mut self, request: &str, body: &str) -> Value {
        let answer = self.message(&format!("$JS.API.{request}"), body);
        serde_json::from_slice(&answer.body).expect("JSON")
    }

    /// Publishes; the acknowledgement.
    pub(super) fn publish(&mut self, subject: &str, body: &str) -> Value {
        let answer = self.message(subject, body);
        serde_json::from_slice(&answer.body).expect("JSON")
    }

    /// Publishes a header block without a payload; the acknowledgement.
    pub(super) fn publish_block(&mut self, subject: &str, block: &str) -> Value {
        let size = block.len();
        self.0.send(&format!("HPUB {subject} answers {size} {size}\r\n{block}\r\n"));
        serde_json::from_slice(&self.0.message().body).expect("JSON")
    }

    /// State of a stream.
    pub(super) fn state(&mut self, stream: &str) -> Value {
        self.ask(&format!("STREAM.INFO.{stream}"), "")["state"].clone()
    }

    /// Waits until nothing is stored for a session any more, to which nothing comes meanwhile.
    pub(super) fn until_all_is_settled(&mut self, sub: &mut Peer) {
        eventually("nothing is left", || {
            assert_eq!(sub.all_came(), []);
            ["$MQTT_msgs", "$MQTT_out"].iter().all(|stream| self.messages(stream) == 0)
        });
    }

    /// Messages in a stream.
    pub(super) fn messages(&mut self, stream: &str) -> u64 {
        self.state(stream)["messages"].as_u64().expect("a number")
    }

    /// Headers, without the first line, and payload of the last message of a subject.
    pub(super) fn last(&mut self, stream: &str, subject: &str) -> (String, String) {
        let body = json!({"last_by_subj": subject}).to_string();
        let answer = self.ask(&format!("STREAM.MSG.GET.{stream}"), &body);
        let part = |name: &str| {
            let text = answer["message"][name].as_str().unwrap_or_default();
            String::from_utf8(myelin_stdx::base64::decode(text).expect("base64")).expect("text")
        };
        let headers = part("hdrs").replacen("NATS/1.0\r\n", "", 1).replace("\r\n\r\n", "");
        (headers, part("data"))
    }
}

fn publish<'a>(exchange: Exchange, topic: &'a str, payload: &'a str) -> ClientPacket<'a> {
    ClientPacket::Publish(PublishPacket { exchange, ..message(topic, payload.as_bytes()) })
}

fn release(number: u16) -> ClientPacket<'static> {
    ClientPacket::PubRel(AckPacket::success(id(number)))
}

#[test]
fn an_account_gets_the_streams_of_nats_server() {
    let all: Vec<Vec<Value>> = servers("", "").iter().map(configurations).collect();
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "{all:#?}");
    assert_eq!(all[0].len(), 5);
}

fn configurations(server: &Stored) -> Vec<Value> {
    Peer::connect(address(server), "first").barrier();
    let mut asking = Asking::new(server);
    let names = ["$MQTT_sess", "$MQTT_msgs", "$MQTT_rmsgs", "$MQTT_qos2in", "$MQTT_out"];
    let config = |name: &str| {
        let mut config = asking.ask(&format!("STREAM.INFO.{name}"), "")["config"].clone();
        let fields = config.as_object_mut().expect("a stream");
        fields.remove("metadata");
        // Retained messages are read by direct gets.
        fields.remove("allow_direct");
        // Sessions and messages of MQTT 5 end by themselves.
        fields.remove("allow_msg_ttl");
        config
    };
    names.into_iter().map(config).collect()
}

#[test]
fn records_are_those_of_nats_server() {
    for server in &servers("", "") {
        let mut sub = Peer::dial(address(server));
        sub.resume(&lasting("reader"));
        assert_eq!(sub.subscribe_with(&[("never/#", Qos::AtLeastOnce), ("s", Qos::ExactlyOnce)]), [1, 2]);
        sub.disconnect();
        sub.rest();
        let mut peer = Peer::connect(address(server), "writer");
        peer.publish_1("never/x", "1");
        let two = publish(Exchange::ExactlyOnce(id(9)), "never/y", "2");
        assert_eq!(peer.exchange(&two), ("PUBREC", 9));
        peer.retain("kept/here", "3");
        let mut asking = Asking::new(server);
        assert_eq!(asking.last("$MQTT_msgs", "$MQTT.msgs.never.x"), ("Nmqtt-Pub:1".into(), "1".into()));
        let held = asking.last("$MQTT_qos2in", "$MQTT.qos2.in.writer.9");
        assert_eq!(held, ("Nmqtt-Pub:24\r\nNmqtt-Subject:never.y".into(), "2".into()));
        assert_eq!(peer.exchange(&release(9)), ("PUBCOMP", 9));
        let released = asking.last("$MQTT_msgs", "$MQTT.msgs.never.y");
        assert_eq!(released, ("Nmqtt-Pub:2\r\nNats-Msg-Id:q2-1".into(), "2".into()));
        assert_eq!(asking.messages("$MQTT_qos2in"), 0);
        let (headers, payload) = asking.last("$MQTT_rmsgs", "$MQTT.rmsgs.kept.here");
        let (headers, origin) = headers.split_once("\r\nNmqtt-ROrigin:").expect("an origin");
        let shown = ("Nmqtt-RTopic:kept/here\r\nNmqtt-RFlags:3", "3", 8);
        assert_eq!((headers, payload.as_str(), origin.len()), shown);
        let record = asking.last("$MQTT_sess", "$MQTT.sess.>").1;
        let record: Value = serde_json::from_str(&record).expect("JSON");
        assert!(record["origin"] == *origin && record["id"] == "writer", "{record}");
    }
}

#[test]
fn acknowledgements_come_in_the_order_of_messages() {
    for server in &servers("", "") {
        let mut peer = Peer::connect(address(server), "many");
        let mut bytes = Vec::new();
        for number in 1..=3000 {
            publish(Exchange::AtLeastOnce(id(number)), "order/x", "x")
                .encode(myelin_mqtt::packet::ProtocolLevel::V3, &mut bytes);
        }
        let all = std::thread::scope(|scope| {
            let mut writer = peer.writer();
            scope.spawn(move || std::io::Write::write_all(&mut writer, &bytes).expect("the server reads"));
            (1..=3000).map(|_| peer.came()).collect::<Vec<_>>()
        });
        let wanted = (1..=3000).map(|number| ("PUBACK".to_owned(), number));
        assert!(all.into_iter().eq(wanted));
    }
}

#[test]
fn messages_that_are_released_together_go_and_others_are_held() {
    for server in &servers("", "") {
        let mut sub = Peer::dial(address(server));
        sub.resume(&lasting("sub"));
        sub.subscribe_with(&[("many/+", Qos::ExactlyOnce)]);
        sub.disconnect();
        sub.rest();
        let mut asking = Asking::new(server);
        let mut peer = Peer::connect(address(server), "pub");
        let level = myelin_mqtt::packet::ProtocolLevel::V3;
        let mut bytes = Vec::new();
        for number in 1..=60 {
            publish(Exchange::ExactlyOnce(id(number)), "many/x", &number.to_string())
                .encode(level, &mut bytes);
        }
        peer.send_bytes(&bytes);
        (1..=60).for_each(|number| assert_eq!(peer.came(), ("PUBREC".to_owned(), number)));
        // The seventh is not released.
        let released: Vec<u16> = (1..=60).filter(|number| *number != 7).collect();
        bytes.clear();
        released.iter().for_each(|number| release(*number).encode(level, &mut bytes));
        peer.send_bytes(&bytes);
        released.iter().for_each(|number| assert_eq!(peer.came(), ("PUBCOMP".to_owned(), *number)));
        assert_eq!(asking.messages("$MQTT_qos2in"), 1);
        assert_eq!(asking.last("$MQTT_qos2in", "$MQTT.qos2.in.pub.7").1, "7");
        // Numbers that are free are used again.
        peer.publish_2("many/x", "again");
        assert_eq!(peer.exchange(&release(7)), ("PUBCOMP", 7));
        assert_eq!((asking.messages("$MQTT_qos2in"), asking.messages("$MQTT_msgs")), (0, 61));
        let mut sub = Peer::dial(address(server));
        assert!(sub.resume(&lasting("sub")));
        let wanted = released.iter().map(u16::to_string).chain(["again".to_owned(), "7".to_owned()]);
        let mut payloads = Vec::new();
        let mut completed = 0;
        while completed < 61 {
            match sub.came() {
                (text, number) if text == "PUBREL" => {
                    sub.pubcomp(number);
                    completed += 1;
                }
                (text, number) => {
                    payloads.push(text);
                    sub.pubrec(number);
                }
            }
        }
        assert!(payloads.into_iter().eq(wanted.map(|payload| format!("PUBLISH many/x {payload} q2"))));
    }
}

#[test]
fn a_held_message_is_released_once_also_after_a_restart() {
    let mut server = server("", "");
    let mut sub = Peer::dial(address(&server));
    sub.resume(&lasting("sub"));
    sub.subscribe_with(&[("twice", Qos::ExactlyOnce)]);
    let mut peer = Peer::dial(address(&server));
    peer.resume(&lasting("pub"));
    let two = publish(Exchange::ExactlyOnce(id(5)), "twice", "held");
    for _ in 0..2 {
        assert_eq!(peer.exchange(&two), ("PUBREC", 5));
    }
    assert_eq!(sub.all_came(), []);
    server.server.restart();
    let mut peer = Peer::dial(address(&server));
    assert!(peer.resume(&lasting("pub")));
    let mut sub = Peer::dial(address(&server));
    assert!(sub.resume(&lasting("sub")));
    for _ in 0..2 {
        assert_eq!(peer.exchange(&release(5)), ("PUBCOMP", 5));
    }
    let (text, number) = sub.came();
    assert_eq!(text, "PUBLISH twice held q2");
    sub.pubrec(number);
    assert_eq!(sub.came(), ("PUBREL".to_owned(), number));
    sub.pubcomp(number);
    assert_eq!(sub.all_came(), []);
    let mut asking = Asking::new(&server);
    eventually("nothing is left", || {
        ["$MQTT_qos2in", "$MQTT_msgs", "$MQTT_out"].iter().all(|stream| asking.messages(stream) == 0)
    });
}

#[test]
fn a_message_that_cannot_be_held_is_not_acknowledged() {
    let server = server("", "");
    let mut peer = Peer::connect(address(&server), "pub");
    let mut asking = Asking::new(&server);
    let mut config = asking.ask("STREAM.INFO.$MQTT_qos2in", "")["config"].clone();
    config["max_msgs"] = json!(1);
    let updated = asking.ask("STREAM.UPDATE.$MQTT_qos2in", &config.to_string());
    assert_eq!(updated["error"], Value::Null, "{updated}");
    let two = |number| publish(Exchange::ExactlyOnce(id(number)), "full", "x");
    assert_eq!(peer.exchange(&two(1)), ("PUBREC", 1));
    peer.send(&two(2));
    assert_eq!(peer.rest(), b"");
    server.wait_for_log("MQTT storage: ");
}

#[test]
fn a_will_may_be_stored_and_retained() {
    for server in &servers("", "") {
        let mut sub = Peer::dial(address(server));
        sub.resume(&lasting("heir"));
        sub.subscribe_with(&[("wills/+", Qos::AtLeastOnce)]);
        let will = Will {
            qos: Qos::ExactlyOnce,
            retain: true,
            properties: myelin_mqtt::packet::Properties::EMPTY,
            topic: "wills/x",
            payload: b"bye",
        };
        drop(Peer::enter(address(server), &ConnectPacket { will: Some(will), ..hello("leaving") }));
        let (text, number) = sub.came();
        assert_eq!(text, "PUBLISH wills/x bye q1");
        sub.puback(number);
        let mut late = Peer::connect(address(server), "late");
        eventually("the will is retained", || {
            late.unsubscribe(&["wills/x"]);
            late.subscribe(&["wills/x"]);
            late.all_came() == [("PUBLISH wills/x bye q0 retain".to_owned(), 0)]
        });
    }
}

#[test]
fn who_may_not_publish_stores_nothing() {
    let users =
        "authorization { users: [ {user: u, password: p, permissions { publish { deny: denied } } } ] }";
    for server in &servers("", users) {
        let login = ConnectPacket { user_name: Some("u"), password: Some(b"p"), ..lasting("u") };
        let mut peer = Peer::dial(address(server));
        peer.resume(&login);
        peer.subscribe_with(&[("#", Qos::AtLeastOnce)]);
        peer.publish_1("denied", "no");
        peer.retain("denied", "no");
        peer.publish_2("denied", "no");
        let exchange = Exchange::AtLeastOnce(id(7));
        peer.send(&publish(exchange, "allowed", "yes"));
        let mut came = [peer.came().0, peer.came().0];
        came.sort();
        assert_eq!(came, ["PUBACK", "PUBLISH allowed yes q1"]);
        let mut asking = Asking::login(server, ",\"user\":\"u\",\"pass\":\"p\"");
        assert_eq!(asking.messages("$MQTT_rmsgs"), 0);
    }
}

#[test]
fn a_client_is_refused_where_there_is_no_jetstream() {
    let accounts = "accounts { A { users: [{user: a, password: p}] } }";
    let server = server("js_api_timeout: 1s", accounts);
    let mut peer = Peer::dial(address(&server));
    let connect = ConnectPacket { user_name: Some("a"), password: Some(b"p"), ..hello("none") };
    let refused = Some(myelin_mqtt::packet::ReasonCode::ServerUnavailable);
    assert_eq!(peer.greet(&connect), refused);
    assert_eq!(peer.rest(), b"");
    server.wait_for_log("MQTT storage: ");
}
