//! Whatever a session of MQTT 5 has beside one of 3.1.1: terms of CONNECT and CONNACK, and the
//! reason with which a connection ends.

use super::state5::{MAX_ALIAS, Mqtt5Session, RECEIVE_MAXIMUM};
use super::{MqttStage, OpOutcome, Session};
use crate::log::Level as LogLevel;
use crate::mqtt5_client::Mqtt5Client;
use crate::shard::Shard;
use myelin_mqtt::packet::{
    ConnAckPacket, ConnectPacket, DisconnectPacket, PacketLimits, Properties, Property, PropertyBuf, Qos,
    ReasonCode, ServerPacket,
};
use myelin_wire::connect::ConnectCredentials;
use myelin_wire::error::CloseReason;
use std::fmt::Display;
use std::num::{NonZeroU16, NonZeroU32};

impl Session {
    /// Takes the terms of a CONNECT of MQTT 5.
    ///
    /// # Errors
    /// When they cannot be granted.
    pub(super) fn take_terms(&mut self, packet: &ConnectPacket<'_>) -> Result<(), ReasonCode> {
        let (mut expiry, mut receive_max) = (0, u16::MAX);
        let (mut max_packet, mut max_alias, mut method) = (None, 0, None);
        for property in packet.properties.iter() {
            match property {
                Property::SessionExpiry(seconds) => expiry = seconds,
                Property::MaximumPacketSize(size) => max_packet = Some(size.get()),
                Property::TopicAliasMaximum(max) => max_alias = max,
                Property::AuthMethod(name) => method = Some(name),
                Property::ReceiveMaximum(max) => receive_max = max.get(),
                _ => {}
            }
        }
        let has_assigned_id = packet.client_id.is_empty();
        if let Some(mqtt) = &mut self.mqtt {
            mqtt.five = Some(Box::new(Mqtt5Session::new(has_assigned_id, expiry, receive_max)));
        }
        // No message is as large as what a header and the largest payload are together.
        let max_packet = max_packet.filter(|max| *max < super::MAX_PACKET);
        self.conn.mqtt().into_iter().for_each(|mqtt| mqtt.speaks_5(Mqtt5Client::new(max_packet, max_alias)));
        if method.is_some() { Err(ReasonCode::BadAuthenticationMethod) } else { Ok(()) }
    }

    /// Answers a CONNECT of MQTT 5 that is welcome.
    pub(super) fn welcome(&mut self, shard: &mut Shard, session_present: bool) {
        let Some((mqtt, five)) = self.mqtt.as_deref().and_then(|mqtt| Some((mqtt, mqtt.five.as_deref()?)))
        else {
            return;
        };
        let PacketLimits { max_packet, accepts_qos2, .. } = self.packet_limits(shard);
        let receive_maximum = NonZeroU16::new(RECEIVE_MAXIMUM).map(Property::ReceiveMaximum);
        let max_packet = max_packet.and_then(NonZeroU32::new).map(Property::MaximumPacketSize);
        let properties = [
            receive_maximum,
            (!accepts_qos2).then_some(Property::MaximumQos(Qos::AtLeastOnce)),
            max_packet,
            five.has_assigned_id.then_some(Property::AssignedClientId(&mqtt.client_id)),
            Some(Property::TopicAliasMaximum(MAX_ALIAS)),
        ];
        let mut buf = PropertyBuf::default();
        for property in properties.into_iter().flatten() {
            // All of them have a form: the client id has come in a packet, or is short.
            let _ = buf.push(property);
        }
        let reason = ReasonCode::Success;
        let ack = ConnAckPacket { session_present, reason, properties: buf.properties() };
        self.answer(shard, &ServerPacket::ConnAck(ack), format_args!("CONNACK sp={session_present} rc=0"));
    }

    /// An AUTH of a client that has not asked for an enhanced authentication: there is none.
    pub(super) fn auth_packet(&mut self) -> OpOutcome {
        self.log_packet("AUTH");
        self.dismiss(ReasonCode::BadAuthenticationMethod, "enhanced authentication is not supported")
    }

    /// Ends the connection for what the client has done.
    pub(super) fn dismiss(&mut self, reason: ReasonCode, why: impl Display) -> OpOutcome {
        self.log(LogLevel::Error, format_args!("{why}"));
        self.part_with(reason);
        OpOutcome::Close(CloseReason::ProtocolViolation)
    }

    /// State of a client of MQTT 5.
    pub(super) fn five(&self) -> Option<&Mqtt5Session> {
        self.mqtt.as_deref()?.five.as_deref()
    }

    pub(super) fn five_mut(&mut self) -> Option<&mut Mqtt5Session> {
        self.mqtt.as_deref_mut()?.five.as_deref_mut()
    }

    /// Sets the reason that the client is told at the end.
    pub(super) fn part_with(&mut self, reason: ReasonCode) {
        if let Some(five) = self.five_mut() {
            five.parting = Some(reason);
        }
    }

    /// The client has been told why the connection ends.
    pub(super) fn has_parted(&mut self) {
        if let Some(five) = self.five_mut() {
            five.has_parted = true;
        }
    }

    /// Whether a client of MQTT 5 was told why its connection ends.
    pub fn has_said_why(&self, why: CloseReason) -> bool {
        let is_ours = !matches!(why, CloseReason::ClientClosed | CloseReason::ServerShutdown);
        is_ours && self.five().is_some_and(|five| five.has_parted)
    }

    /// Tells a client of MQTT 5 why its connection ends.
    pub(super) fn part(&mut self, shard: &mut Shard, why: CloseReason) {
        let Some(mqtt) = &mut self.mqtt else { return };
        let (stage, Some(five)) = (mqtt.stage, &mut mqtt.five) else { return };
        if std::mem::replace(&mut five.has_parted, true) || stage == MqttStage::AwaitConnect {
            return;
        }
        let parting = five.parting;
        let elsewhere = self.conn.mqtt().and_then(|mqtt| mqtt.terms.elsewhere.clone());
        let is_leaving = why == CloseReason::ServerShutdown && self.broker.identity.is_lame_duck();
        let elsewhere = elsewhere.filter(|_| is_leaving);
        let mut buf = PropertyBuf::default();
        if let Some(elsewhere) = &elsewhere {
            // One that does not fit is not told.
            let _ = buf.push(Property::ServerReference(elsewhere));
        }
        let properties = buf.properties();
        match stage {
            MqttStage::Connected => {
                let reason = match parting {
                    None if !properties.is_empty() => Some(ReasonCode::UseAnotherServer),
                    parting => parting.or_else(|| of_close(why)),
                };
                let Some(reason) = reason else { return };
                let packet = ServerPacket::Disconnect(DisconnectPacket { reason, properties });
                self.answer(shard, &packet, format_args!("DISCONNECT rc={}", reason as u8));
            }
            _ => {
                let reason = parting.unwrap_or_else(|| self.refusal(why));
                let properties = Properties::EMPTY;
                let ack = ConnAckPacket { session_present: false, reason, properties };
                let line = format_args!("CONNACK sp=false rc={}", reason as u8);
                self.answer(shard, &ServerPacket::ConnAck(ack), line);
            }
        }
    }

    /// Reason in the CONNACK of a client that is not let in.
    fn refusal(&self, why: CloseReason) -> ReasonCode {
        let is_given = |of: fn(&ConnectCredentials) -> &String| !self.connect.credential(of).is_empty();
        let shows_credentials = is_given(|given| &given.user) || is_given(|given| &given.pass);
        match why {
            CloseReason::AuthenticationFailure if shows_credentials => ReasonCode::BadUserNameOrPassword,
            CloseReason::MaximumAccountConnections | CloseReason::MaximumConnections => {
                ReasonCode::QuotaExceeded
            }
            // Others fight over the client id.
            CloseReason::DuplicateClientId => ReasonCode::ServerBusy,
            CloseReason::ServerShutdown => ReasonCode::ServerUnavailable,
            CloseReason::InternalError => ReasonCode::UnspecifiedError,
            _ => ReasonCode::NotAuthorized,
        }
    }
}

/// Reason in the DISCONNECT of a connection that ends for this; none where the client has ended it,
/// or is not heard any more.
fn of_close(why: CloseReason) -> Option<ReasonCode> {
    use CloseReason as C;
    Some(match why {
        C::ClientClosed | C::ReadError | C::WriteError => return None,
        C::DuplicateClientId => ReasonCode::SessionTakenOver,
        C::ServerShutdown => ReasonCode::ServerShuttingDown,
        C::MaximumPayload => ReasonCode::PacketTooLarge,
        C::Kicked => ReasonCode::AdministrativeAction,
        C::ProtocolViolation | C::ParseError => ReasonCode::ProtocolError,
        C::AuthenticationFailure
        | C::AuthenticationExpired
        | C::Revocation
        | C::MissingAccount
        | C::ProxyRequired
        | C::ProxyNotTrusted => ReasonCode::NotAuthorized,
        C::MaximumConnections
        | C::MaximumAccountConnections
        | C::MaximumSubscriptions
        | C::SlowConsumerPendingBytes
        | C::SlowConsumerWriteDeadline => ReasonCode::QuotaExceeded,
        _ => ReasonCode::UnspecifiedError,
    })
}
