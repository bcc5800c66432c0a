//! An MQTT client that says exactly what a test wants.

use crate::PATIENCE;
use myelin_mqtt::packet::{
    AckPacket, ClientPacket, ConnectPacket, Decoded, DisconnectPacket, Exchange, PacketId, Properties,
    ProtocolLevel, PublishPacket, Qos, ReasonCode, ServerPacket, SubscribeFilters, SubscribeOptions,
    SubscribePacket, UnsubscribeFilters, UnsubscribePacket, Will, decode_from_server,
};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Number of a packet.
pub(super) fn id(number: u16) -> PacketId {
    PacketId::new(number).expect("not zero")
}

/// A clean CONNECT without credentials, will and keep alive.
pub(super) fn hello(client_id: &str) -> ConnectPacket<'_> {
    ConnectPacket {
        level: ProtocolLevel::V3,
        clean: true,
        keep_alive: 0,
        properties: Properties::EMPTY,
        client_id,
        will: None,
        user_name: None,
        password: None,
    }
}

/// A CONNECT of a session that lasts.
pub(super) fn lasting(client_id: &str) -> ConnectPacket<'_> {
    ConnectPacket { clean: false, ..hello(client_id) }
}

/// A will of QoS 0.
pub(super) fn will<'a>(topic: &'a str, payload: &'a str) -> Option<Will<'a>> {
    let (qos, properties, payload) = (Qos::AtMostOnce, Properties::EMPTY, payload.as_bytes());
    Some(Will { qos, retain: false, properties, topic, payload })
}

/// A PUBLISH of QoS 0.
pub(super) fn message<'a>(topic: &'a str, payload: &'a [u8]) -> PublishPacket<'a> {
    let (exchange, properties) = (Exchange::AtMostOnce, Properties::EMPTY);
    PublishPacket { dup: false, retain: false, exchange, topic, properties, payload }
}

/// A PUBLISH of QoS 1, with the number 7.
pub(super) fn publish_1<'a>(topic: &'a str, payload: &'a str) -> ClientPacket<'a> {
    let exchange = Exchange::AtLeastOnce(id(7));
    ClientPacket::Publish(PublishPacket { exchange, ..message(topic, payload.as_bytes()) })
}

/// A message as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Delivered {
    pub(super) topic: String,
    pub(super) payload: Vec<u8>,
}

impl Delivered {
    pub(super) fn shown(&self) -> (&str, &str) {
        (&self.topic, std::str::from_utf8(&self.payload).expect("tests send text"))
    }
}

/// MQTT client that says exactly what a test wants.
pub(super) struct Peer<S = TcpStream> {
    stream: S,
    unread: Vec<u8>,
    /// Version of its last CONNECT.
    level: ProtocolLevel,
}

impl Peer {
    /// Connects to the socket and says nothing.
    pub(super) fn dial(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a positive time");
        stream.set_write_timeout(Some(PATIENCE)).expect("a positive time");
        stream.set_nodelay(true).expect("a TCP socket");
        Self::over(stream)
    }

    /// Connects with [`hello`], which is welcome.
    pub(super) fn connect(address: SocketAddr, client_id: &str) -> Self {
        Self::enter(address, &hello(client_id))
    }

    /// Connects with a CONNECT that is welcome.
    pub(super) fn enter(address: SocketAddr, connect: &ConnectPacket<'_>) -> Self {
        let mut peer = Self::dial(address);
        assert_eq!(peer.greet(connect), Some(ReasonCode::Success));
        peer
    }
}

impl Peer {
    /// The sending half, for whoever sends while others read.
    pub(super) fn writer(&self) -> TcpStream {
        self.stream.try_clone().expect("a socket has two halves")
    }
}

impl<S: Read + Write> Peer<S> {
    pub(super) fn over(stream: S) -> Self {
        Self { stream, unread: Vec::new(), level: ProtocolLevel::V3 }
    }

    pub(super) fn set_level(&mut self, level: ProtocolLevel) {
        self.level = level;
    }

    /// Sends CONNECT; what the server says to it, nothing if it closes the connection.
    pub(super) fn greet(&mut self, connect: &ConnectPacket<'_>) -> Option<ReasonCode> {
        self.set_level(connect.level);
        self.send(&ClientPacket::Connect(*connect));
        self.with_packet(|packet| match packet {
            ServerPacket::ConnAck(ack) => ack.reason,
            other => panic!("{other:?}"),
        })
    }

    pub(super) fn send_bytes(&mut self, bytes: &[u8]) {
        // The server may have closed the connection, which is seen by what comes.
        let _ = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
    }

    pub(super) fn send(&mut self, packet: &ClientPacket<'_>) {
        let mut bytes = Vec::new();
        packet.encode(self.level, &mut bytes);
        self.send_bytes(&bytes);
    }

    pub(super) fn publish(&mut self, topic: &str, payload: &str) {
        self.send(&ClientPacket::Publish(message(topic, payload.as_bytes())));
    }

    pub(super) fn disconnect(&mut self) {
        let bye = DisconnectPacket { reason: ReasonCode::Success, properties: Properties::EMPTY };
        self.send(&ClientPacket::Disconnect(bye));
    }

    /// Subscribes with QoS 0; the codes that come back.
    pub(super) fn subscribe(&mut self, filters: &[&str]) -> Vec<u8> {
        let filters: Vec<_> = filters.iter().map(|filter| (*filter, Qos::AtMostOnce)).collect();
        self.subscribe_with(&filters)
    }

    pub(super) fn unsubscribe(&mut self, filters: &[&str]) {
        let mut raw = Vec::new();
        filters.iter().for_each(|filter| UnsubscribeFilters::push(filter, &mut raw));
        let filters = UnsubscribeFilters::of(&raw);
        let packet = UnsubscribePacket { packet_id: id(2), properties: Properties::EMPTY, filters };
        self.send(&ClientPacket::Unsubscribe(packet));
        let is_ack = self.with_packet(|packet| matches!(packet, ServerPacket::UnsubAck(_)));
        assert_eq!(is_ack, Some(true));
    }

    /// Looks at the next packet; nothing at the end of the connection.
    pub(super) fn with_packet<R>(&mut self, look: impl FnOnce(ServerPacket<'_>) -> R) -> Option<R> {
        loop {
            if let Decoded::Packet(packet, len) =
                decode_from_server(&self.unread, self.level, u32::MAX).expect("a packet of that version")
            {
                let seen = look(packet);
                self.unread.drain(..len);
                return Some(seen);
            }
            let mut chunk = vec![0; 64 * 1024];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(n) => self.unread.extend_from_slice(&chunk[..n]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// The next message, which has QoS 0.
    pub(super) fn message(&mut self) -> Delivered {
        let message = self.with_packet(|packet| match packet {
            ServerPacket::Publish(publish) => {
                assert_eq!((publish.exchange, publish.dup), (Exchange::AtMostOnce, false));
                Delivered { topic: publish.topic.to_owned(), payload: publish.payload.to_vec() }
            }
            other => panic!("{other:?}"),
        });
        message.expect("the connection is open")
    }

    /// Sends CONNECT, which is welcome: whether the session was there.
    pub(super) fn resume(&mut self, connect: &ConnectPacket<'_>) -> bool {
        self.set_level(connect.level);
        self.send(&ClientPacket::Connect(*connect));
        let ack = self.with_packet(|packet| match packet {
            ServerPacket::ConnAck(ack) => (ack.reason, ack.session_present),
            other => panic!("{other:?}"),
        });
        let (reason, is_present) = ack.expect("the connection is open");
        assert_eq!(reason, ReasonCode::Success);
        is_present
    }

    /// Subscribes with these qualities of service; the codes that come back.
    pub(super) fn subscribe_with(&mut self, filters: &[(&str, Qos)]) -> Vec<u8> {
        let mut raw = Vec::new();
        for (filter, max_qos) in filters {
            let options = SubscribeOptions { max_qos: *max_qos, ..SubscribeOptions::default() };
            SubscribeFilters::push(filter, options, &mut raw);
        }
        let filters = SubscribeFilters::of(&raw);
        let packet = SubscribePacket { packet_id: id(1), properties: Properties::EMPTY, filters };
        self.send(&ClientPacket::Subscribe(packet));
        let codes = self.with_packet(|packet| match packet {
            ServerPacket::SubAck(ack) => ack.codes.to_vec(),
            other => panic!("{other:?}"),
        });
        codes.expect("the connection is open")
    }

    /// The next packet, as short text, and its number, if it has one. The text is `PUBLISH <topic>
    /// <payload> q<QoS>`, with ` dup` and ` retain` where these are set, or the kind of another
    /// one.
    pub(super) fn came(&mut self) -> (String, u16) {
        let came = self.with_packet(|packet| match packet {
            ServerPacket::Publish(publish) => {
                let payload = String::from_utf8_lossy(publish.payload);
                let mut text =
                    format!("PUBLISH {} {payload} q{}", publish.topic, publish.exchange.qos() as u8);
                for (is_set, flag) in [(publish.dup, " dup"), (publish.retain, " retain")] {
                    text.push_str(if is_set { flag } else { "" });
                }
                (text, publish.exchange.packet_id().map_or(0, PacketId::get))
            }
            ServerPacket::PubAck(ack) => ("PUBACK".to_owned(), ack.packet_id.get()),
            ServerPacket::PubRec(ack) => ("PUBREC".to_owned(), ack.packet_id.get()),
            ServerPacket::PubRel(ack) => ("PUBREL".to_owned(), ack.packet_id.get()),
            ServerPacket::PubComp(ack) => ("PUBCOMP".to_owned(), ack.packet_id.get()),
            ServerPacket::PingResp => ("PINGRESP".to_owned(), 0),
            other => panic!("{other:?}"),
        });
        came.expect("the connection is open")
    }

    /// PINGREQ, and what comes before its answer, as [`came`](Self::came) says it.
    pub(super) fn all_came(&mut self) -> Vec<(String, u16)> {
        self.send(&ClientPacket::PingReq);
        let mut all = Vec::new();
        loop {
            match self.came() {
                (text, _) if text == "PINGRESP" => return all,
                other => all.push(other),
            }
        }
    }

    /// Publishes with QoS 1, which is acknowledged.
    pub(super) fn publish_1(&mut self, topic: &str, payload: &str) {
        assert_eq!(self.exchange(&publish_1(topic, payload)), ("PUBACK", 7));
    }

    /// Publishes with QoS 2, to the end of the exchange.
    pub(super) fn publish_2(&mut self, topic: &str, payload: &str) {
        let exchange = Exchange::ExactlyOnce(id(8));
        let packet = PublishPacket { exchange, ..message(topic, payload.as_bytes()) };
        assert_eq!(self.exchange(&ClientPacket::Publish(packet)), ("PUBREC", 8));
        assert_eq!(self.exchange(&ClientPacket::PubRel(AckPacket::success(id(8)))), ("PUBCOMP", 8));
    }

    /// Publishes a message that is to be retained, with QoS 1.
    pub(super) fn retain(&mut self, topic: &str, payload: &str) {
        let exchange = Exchange::AtLeastOnce(id(7));
        let packet = PublishPacket { exchange, retain: true, ..message(topic, payload.as_bytes()) };
        assert_eq!(self.exchange(&ClientPacket::Publish(packet)), ("PUBACK", 7));
    }

    pub(super) fn puback(&mut self, number: u16) {
        self.send(&ClientPacket::PubAck(AckPacket::success(id(number))));
    }

    pub(super) fn pubrec(&mut self, number: u16) {
        self.send(&ClientPacket::PubRec(AckPacket::success(id(number))));
    }

    pub(super) fn pubcomp(&mut self, number: u16) {
        self.send(&ClientPacket::PubComp(AckPacket::success(id(number))));
    }

    /// PINGREQ, and the messages that come before its answer.
    pub(super) fn barrier(&mut self) -> Vec<Delivered> {
        self.send(&ClientPacket::PingReq);
        let mut messages = Vec::new();
        loop {
            let next = self.with_packet(|packet| match packet {
                ServerPacket::Publish(publish) => {
                    let (topic, payload) = (publish.topic.to_owned(), publish.payload.to_vec());
                    Some(Delivered { topic, payload })
                }
                ServerPacket::PingResp => None,
                other => panic!("{other:?}"),
            });
            match next.expect("the connection is open") {
                Some(message) => messages.push(message),
                None => return messages,
            }
        }
    }

    /// Publishes with an exchange, and answers the acknowledgement's kind and number.
    pub(super) fn exchange(&mut self, packet: &ClientPacket<'_>) -> (&'static str, u16) {
        self.send(packet);
        let ack = self.with_packet(|packet| match packet {
            ServerPacket::PubAck(AckPacket { packet_id, .. }) => ("PUBACK", packet_id.get()),
            ServerPacket::PubRec(AckPacket { packet_id, .. }) => ("PUBREC", packet_id.get()),
            ServerPacket::PubComp(AckPacket { packet_id, .. }) => ("PUBCOMP", packet_id.get()),
            other => panic!("{other:?}"),
        });
        ack.expect("the connection is open")
    }

    /// Waits for the end of the connection; every byte that comes before it.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.unread);
        let mut chunk = [0; 4096];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return rest,
                Ok(n) => rest.extend_from_slice(&chunk[..n]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return rest,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Waits for so many bytes.
    pub(super) fn take(&mut self, count: usize) -> Vec<u8> {
        while self.unread.len() < count {
            let mut chunk = [0; 4096];
            let n = self.stream.read(&mut chunk).expect("the server answers");
            assert!(n > 0, "the connection ended behind {:x?}", self.unread);
            self.unread.extend_from_slice(&chunk[..n]);
        }
        self.unread.drain(..count).collect()
    }
}
