//! A client of MQTT 5 on top of [`Peer`]: packets with properties.

use super::peer::{Peer, hello, id};
use myelin_mqtt::packet::{
    AckPacket, ClientPacket, ConnectPacket, DisconnectPacket, Exchange, PacketId, Properties, Property,
    PropertyBuf, ProtocolLevel, PublishPacket, ReasonCode, ServerPacket, SubscribeFilters, SubscribeOptions,
    SubscribePacket, SubscriptionId, UnsubscribeFilters, UnsubscribePacket,
};
use std::net::SocketAddr;

/// A CONNECT of MQTT 5 with a clean start.
pub(super) fn hello5(client_id: &str) -> ConnectPacket<'_> {
    ConnectPacket { level: ProtocolLevel::V5, ..hello(client_id) }
}

/// Properties of a packet.
pub(super) fn with(properties: &[Property<'_>]) -> PropertyBuf {
    let mut buf = PropertyBuf::default();
    properties.iter().for_each(|property| assert!(buf.push(*property)));
    buf
}

/// Properties as text.
fn shown(properties: Properties<'_>) -> Vec<String> {
    properties.iter().map(|property| format!("{property:?}")).collect()
}

/// A message as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Came {
    pub(super) topic: String,
    pub(super) payload: String,
    pub(super) properties: Vec<String>,
    pub(super) qos: u8,
    pub(super) dup: bool,
    pub(super) retain: bool,
    /// Its number; 0 without one.
    pub(super) number: u16,
}

impl Peer {
    /// Connects with MQTT 5.
    pub(super) fn connect5(address: SocketAddr, client_id: &str) -> Self {
        Self::enter(address, &hello5(client_id))
    }

    /// Sends CONNECT; reason and properties of the answer.
    pub(super) fn greet5(
        &mut self,
        connect: &ConnectPacket<'_>,
        properties: &[Property<'_>],
    ) -> (ReasonCode, Vec<String>) {
        let properties = with(properties);
        let mut answer = None;
        let connect = ConnectPacket { properties: properties.properties(), ..*connect };
        self.set_level(ProtocolLevel::V5);
        self.send(&ClientPacket::Connect(connect));
        self.with_packet(|packet| match packet {
            ServerPacket::ConnAck(ack) => answer = Some((ack.reason, shown(ack.properties))),
            other => panic!("{other:?}"),
        });
        answer.expect("a CONNACK")
    }

    /// Connects with a session that begins anew or not, and these properties; whether it was there.
    pub(super) fn resume5(
        address: SocketAddr,
        (client_id, clean): (&str, bool),
        properties: &[Property<'_>],
    ) -> (Self, bool) {
        let (mut peer, properties) = (Self::dial(address), with(properties));
        let properties = properties.properties();
        let is_present = peer.resume(&ConnectPacket { clean, properties, ..hello5(client_id) });
        (peer, is_present)
    }

    /// Publishes with QoS 0 to 2, to the end of the exchange; the reason of the first answer.
    pub(super) fn send5(
        &mut self,
        (topic, payload): (&str, &str),
        (qos, retain): (u8, bool),
        properties: &[Property<'_>],
    ) -> ReasonCode {
        let buf = with(properties);
        let exchange = match qos {
            0 => Exchange::AtMostOnce,
            1 => Exchange::AtLeastOnce(id(7)),
            _ => Exchange::ExactlyOnce(id(8)),
        };
        let (properties, payload) = (buf.properties(), payload.as_bytes());
        let publish = PublishPacket { dup: false, retain, exchange, topic, properties, payload };
        if qos == 0 {
            self.send(&ClientPacket::Publish(publish));
            return ReasonCode::Success;
        }
        let (_, reason) = self.exchange5(&ClientPacket::Publish(publish));
        if qos == 2 && !reason.is_error() {
            let release = ClientPacket::PubRel(AckPacket::success(id(8)));
            assert_eq!(self.exchange5(&release), ("PUBCOMP", ReasonCode::Success));
        }
        reason
    }

    /// The next message, whose exchange is taken to its end.
    pub(super) fn take5(&mut self) -> Came {
        let came = self.came5();
        if came.qos == 1 {
            self.puback(came.number);
        } else if came.qos == 2 {
            self.pubrec(came.number);
            assert_eq!(self.came(), ("PUBREL".to_owned(), came.number));
            self.pubcomp(came.number);
        }
        came
    }

    /// Leaves with a normal DISCONNECT, and waits for the end.
    pub(super) fn quit5(mut self, properties: &[Property<'_>]) {
        self.leave5(ReasonCode::Success, properties);
        assert_eq!(self.rest(), b"");
    }

    pub(super) fn publish5(&mut self, topic: &str, payload: &str, properties: &[Property<'_>]) {
        let buf = with(properties);
        let (exchange, properties, payload) = (Exchange::AtMostOnce, buf.properties(), payload.as_bytes());
        let publish = PublishPacket { dup: false, retain: false, exchange, topic, properties, payload };
        self.send(&ClientPacket::Publish(publish));
    }

    /// Subscribes, with a number if there is one; the codes that come back.
    pub(super) fn subscribe5(
        &mut self,
        filters: &[(&str, SubscribeOptions)],
        number: Option<u32>,
    ) -> Vec<u8> {
        let mut raw = Vec::new();
        filters.iter().for_each(|(filter, options)| SubscribeFilters::push(filter, *options, &mut raw));
        let number = number.and_then(SubscriptionId::new).map(Property::SubscriptionId);
        let properties = with(number.as_slice());
        let (properties, filters) = (properties.properties(), SubscribeFilters::of(&raw));
        self.send(&ClientPacket::Subscribe(SubscribePacket { packet_id: id(1), properties, filters }));
        let codes = self.with_packet(|packet| match packet {
            ServerPacket::SubAck(ack) => ack.codes.to_vec(),
            other => panic!("{other:?}"),
        });
        codes.expect("the connection is open")
    }

    /// Subscribes without options.
    pub(super) fn listen5(&mut self, filters: &[&str]) -> Vec<u8> {
        let filters: Vec<_> = filters.iter().map(|filter| (*filter, SubscribeOptions::default())).collect();
        self.subscribe5(&filters, None)
    }

    pub(super) fn unsubscribe5(&mut self, filters: &[&str]) -> Vec<u8> {
        let mut raw = Vec::new();
        filters.iter().for_each(|filter| UnsubscribeFilters::push(filter, &mut raw));
        let (properties, filters) = (Properties::EMPTY, UnsubscribeFilters::of(&raw));
        self.send(&ClientPacket::Unsubscribe(UnsubscribePacket { packet_id: id(2), properties, filters }));
        let codes = self.with_packet(|packet| match packet {
            ServerPacket::UnsubAck(ack) => ack.codes.to_vec(),
            other => panic!("{other:?}"),
        });
        codes.expect("the connection is open")
    }

    /// The next message.
    pub(super) fn came5(&mut self) -> Came {
        self.publish_or_ping().expect("a message")
    }

    /// The next message, or nothing where an answer to PINGREQ is next.
    pub(super) fn publish_or_ping(&mut self) -> Option<Came> {
        let came = self.with_packet(|packet| match packet {
            ServerPacket::Publish(publish) => Some(Came {
                topic: publish.topic.to_owned(),
                payload: String::from_utf8_lossy(publish.payload).into_owned(),
                properties: shown(publish.properties),
                qos: publish.exchange.qos() as u8,
                dup: publish.dup,
                retain: publish.retain,
                number: publish.exchange.packet_id().map_or(0, PacketId::get),
            }),
            ServerPacket::PingResp => None,
            other => panic!("{other:?}"),
        });
        came.expect("the connection is open")
    }

    /// Publishes with an exchange; the kind of what comes back, and its reason.
    pub(super) fn exchange5(&mut self, packet: &ClientPacket<'_>) -> (&'static str, ReasonCode) {
        self.send(packet);
        let ack = self.with_packet(|packet| match packet {
            ServerPacket::PubAck(ack) => ("PUBACK", ack.reason),
            ServerPacket::PubRec(ack) => ("PUBREC", ack.reason),
            ServerPacket::PubComp(ack) => ("PUBCOMP", ack.reason),
            other => panic!("{other:?}"),
        });
        ack.expect("the connection is open")
    }

    /// Waits for a DISCONNECT and the end of the connection.
    pub(super) fn parting(&mut self) -> (ReasonCode, Vec<String>) {
        let said = self.with_packet(|packet| match packet {
            ServerPacket::Disconnect(DisconnectPacket { reason, properties }) => (reason, shown(properties)),
            other => panic!("{other:?}"),
        });
        assert_eq!(self.rest(), b"");
        said.expect("a DISCONNECT")
    }

    /// Leaves with this reason.
    pub(super) fn leave5(&mut self, reason: ReasonCode, properties: &[Property<'_>]) {
        let properties = with(properties);
        let properties = properties.properties();
        self.send(&ClientPacket::Disconnect(DisconnectPacket { reason, properties }));
    }
}
