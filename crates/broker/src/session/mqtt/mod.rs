//! Sessions of clients that speak MQTT 3.1.1 and 5: the packets of MQTT in place of the operations
//! of NATS, under everything that a session has beside its protocol.
//!
//! A session that speaks MQTT is a [`Session`] with an [`MqttSession`]: identity, account,
//! permissions, subscriptions, limits, reload and end are those of all clients. Here are the
//! packets (`mod.rs`), CONNECT and the end (`connect.rs`), PUBLISH (`publish.rs`), SUBSCRIBE
//! (`subscribe.rs`), what is stored of all that (`stored/`), and the parts that only MQTT 5 has
//! (`five.rs`, `publish5.rs`, `options5.rs`, `state5.rs`). What clients receive is
//! made by `shard/{mqtt,mqtt5}.rs`, but for what is stored for one session.

mod connect;
mod five;
mod options5;
mod publish;
mod publish5;
mod state5;
mod stored;
mod subscribe;

use super::{Consumed, OpOutcome, Session, StopReason};
use crate::log::Level as LogLevel;
use crate::mqtt_will::StoredWill;
use crate::protocol_log::Direction;
use crate::shard::Shard;
use myelin_mqtt::packet::{
    self, ClientPacket, ConnAckPacket, Decoded, Malformed, PacketFault, PacketId, PacketLimits, Properties,
    ProtocolLevel, ReasonCode, Refusal, ServerPacket,
};
use myelin_wire::error::CloseReason;
use state5::Mqtt5Session;
use std::fmt::Display;
use std::time::{Duration, Instant};
use stored::state::StoredSession;

/// Bytes that a packet may have beside the largest payload: header, topic and number.
const PACKET_OVERHEAD: u32 = 5 + 2 + 65_535 + 2;

/// The longest packet that there is, in bytes.
const MAX_PACKET: u32 = 5 + 0x0fff_ffff;

/// Longest CONNECT, beside the longest control line. Safer than the reference, which takes one of
/// the size of the largest payload from whoever it may be.
const MAX_CONNECT: u32 = 64 * 1024;

/// State of a client that speaks MQTT.
#[derive(Default)]
pub(super) struct MqttSession {
    stage: MqttStage,
    client_id: Box<str>,
    /// Whether the session begins anew. One of MQTT 3.1.1 then ends with its connection, too.
    is_clean: bool,
    /// Time that may pass without a packet.
    keep_alive: Option<Duration>,
    /// Message for when the connection ends without a DISCONNECT.
    will: Option<Box<StoredWill>>,
    /// The half for which JetStream is asked, once the client's identity is known.
    stored: Option<Box<StoredSession>>,
    /// State of a client of MQTT 5.
    five: Option<Box<Mqtt5Session>>,
    /// When the will is due that outlives the connection.
    will_due: Option<Instant>,
}

/// Stage of a connection that speaks MQTT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum MqttStage {
    /// CONNECT has not come.
    #[default]
    AwaitConnect,
    /// The credentials are being checked.
    Connecting,
    /// The client is let in, and its session is opened.
    Opening,
    /// CONNACK is sent.
    Connected,
    /// Others fight over the client id: the connection ends then, and is not listened to before.
    Jailed(Instant),
}

impl MqttSession {
    /// Name of the session in subjects, once its stored half has begun.
    fn session_hash(&self) -> &str {
        self.stored.as_deref().map_or("", |stored| &stored.hash)
    }

    /// Version that the client speaks, once it is known.
    fn level(&self) -> Option<ProtocolLevel> {
        (self.stage == MqttStage::Connected).then(|| state5::level(self.five.as_deref()))
    }
}

impl Session {
    /// Takes whole packets from the front of `buf`.
    pub(super) fn packets(&mut self, shard: &mut Shard, buf: &[u8], now: Instant) -> Consumed {
        self.begin_batch();
        self.timers.heard(now);
        let limits = self.packet_limits(shard);
        let mut at = 0;
        loop {
            if shard.is_full() {
                return self.pause_at(shard, at, StopReason::Flush);
            }
            if let Some(reason) = self.conn.close_requested() {
                return Consumed { bytes: at, why: StopReason::Close(reason) };
            }
            let Some(mqtt) = self.mqtt.as_deref().filter(|_| at < buf.len()) else {
                return self.pause_at(shard, at, StopReason::More(1));
            };
            if let MqttStage::Jailed(_) = mqtt.stage {
                return Consumed { bytes: buf.len(), why: StopReason::More(1) };
            }
            if self.awaits_storage() {
                return Consumed { bytes: at, why: StopReason::AwaitStorage };
            }
            let step = match packet::decode(&buf[at..], mqtt.level(), &limits) {
                Ok(Decoded::Packet(packet, len)) => {
                    at += len;
                    self.take_packet(shard, packet, now)
                }
                Ok(Decoded::Need(need)) => return self.pause_at(shard, at, StopReason::More(need)),
                Err(malformed) => OpOutcome::Close(self.malformed(shard, &malformed)),
            };
            match step {
                OpOutcome::Continue => {}
                OpOutcome::Authenticate(task) => {
                    return Consumed { bytes: at, why: StopReason::Authenticate(task) };
                }
                OpOutcome::Close(reason) => return Consumed { bytes: at, why: StopReason::Close(reason) },
            }
        }
    }

    fn packet_limits(&self, shard: &Shard) -> PacketLimits {
        let settings = shard.settings();
        let max_payload = self.limits.max_payload.unwrap_or(settings.max_payload);
        let terms = self.conn.mqtt().map(|mqtt| &mqtt.terms);
        let refuses_qos_2 = terms.is_some_and(|terms| terms.refuses_qos_2);
        let control_line = u32::try_from(settings.max_control_line).unwrap_or(u32::MAX);
        PacketLimits {
            max_connect: MAX_CONNECT.saturating_add(control_line),
            max_packet: Some(max_payload.saturating_add(PACKET_OVERHEAD)),
            accepts_5: terms.is_some_and(|terms| terms.accepts_5),
            accepts_qos2: !refuses_qos_2,
        }
    }

    #[inline]
    fn take_packet(&mut self, shard: &mut Shard, packet: ClientPacket<'_>, now: Instant) -> OpOutcome {
        match packet {
            ClientPacket::Publish(publish) => return self.publish_packet(shard, &publish, now),
            ClientPacket::Connect(connect) => return self.connect_packet(shard, &connect, now),
            ClientPacket::Subscribe(subscribe) => return self.subscribe_packet(shard, &subscribe, now),
            ClientPacket::Unsubscribe(unsubscribe) => {
                return self.unsubscribe_packet(shard, &unsubscribe, now);
            }
            ClientPacket::PubRel(release) => self.release(shard, release.packet_id, now),
            ClientPacket::PubAck(ack) => self.puback(shard, ack.packet_id, now),
            ClientPacket::PubRec(ack) => self.pubrec(shard, ack.packet_id, ack.reason, now),
            ClientPacket::PubComp(ack) => self.pubcomp(shard, ack.packet_id, now),
            ClientPacket::PingReq => {
                self.log_packet("PINGREQ");
                self.answer(shard, &ServerPacket::PingResp, "PINGRESP");
            }
            ClientPacket::Disconnect(leave) => {
                self.log_packet("DISCONNECT");
                if let Some(mqtt) = &mut self.mqtt
                    && mqtt.five.as_mut().is_none_or(|five| five.leave(&leave))
                {
                    mqtt.will = None;
                }
                return OpOutcome::Close(CloseReason::ClientClosed);
            }
            // Not a packet of version 3.1.1.
            ClientPacket::Auth(_) => return self.auth_packet(),
        }
        OpOutcome::Continue
    }

    /// Stages a packet; `line` is for the log.
    fn answer(&self, shard: &mut Shard, packet: &ServerPacket<'_>, line: impl Display) {
        self.log_sent(line);
        let mut bytes = Vec::with_capacity(8);
        packet.encode(state5::level(self.five()), &mut bytes);
        shard.stage_line(&self.conn, &bytes);
    }

    /// Says what is wrong with a packet, and why the connection ends.
    #[cold]
    fn malformed(&mut self, shard: &mut Shard, malformed: &Malformed) -> CloseReason {
        if malformed.refusal != Refusal::None {
            let mut bytes = Vec::new();
            malformed.refusal.encode(&mut bytes);
            shard.stage_line(&self.conn, &bytes);
            self.has_parted();
        }
        match malformed.refusal {
            Refusal::None => {}
            Refusal::ReturnCode(code) => self.log_sent(format_args!("CONNACK sp=false rc={code}")),
            Refusal::ConnAck(reason) => self.log_sent(format_args!("CONNACK sp=false rc={}", reason as u8)),
            Refusal::Disconnect(reason) => self.log_sent(format_args!("DISCONNECT rc={}", reason as u8)),
        }
        if let PacketFault::TooLong(size, _) = malformed.fault {
            let max = self.limits.max_payload.unwrap_or(shard.settings().max_payload);
            self.log(LogLevel::Error, format_args!("maximum payload exceeded: {size} vs {max}"));
            return CloseReason::MaximumPayload;
        }
        self.log(LogLevel::Error, format_args!("{malformed}"));
        CloseReason::ProtocolViolation
    }

    /// Answers a CONNECT.
    fn acknowledge_connect(&self, shard: &mut Shard, reason: ReasonCode, session_present: bool) {
        let packet = ConnAckPacket { session_present, reason, properties: Properties::EMPTY };
        let code = reason.return_code();
        let line = format_args!("CONNACK sp={session_present} rc={code}");
        self.answer(shard, &ServerPacket::ConnAck(packet), line);
    }

    /// A packet in the protocol log.
    fn log_packet(&self, line: impl Display) {
        if self.logs_protocol {
            self.broker.log_protocol_line(&self.conn, Direction::In, line);
        }
    }

    fn log_step(&self, name: &str, id: PacketId) {
        self.log_packet(format_args!("{name} pi={id}"));
    }
}
