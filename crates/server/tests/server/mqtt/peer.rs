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
        let mut raw = Vec::new();
        filters.iter().for_each(|f| SubscribeFilters::push(f, SubscribeOptions::default(), &mut raw));
        let filters = SubscribeFilters::of(&raw);
        let packet = SubscribePacket { packet_id: id(1), properties: Properties::EMPTY, filters };
        self.send(&ClientPacket::Subscribe(packet));
        let codes = self.with_packet(|packet| match packet {
            ServerPacket::SubAck(ack) => ack.codes.to_vec(),
            other => panic!("{other:?}"),
        });
        codes.expect("the connection is open")
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
