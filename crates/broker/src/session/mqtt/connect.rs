//! CONNECT, and the end: credentials, client ids, keep alive, wills.

use super::{MqttStage, Session};
use crate::log::{Level as LogLevel, Span};
use crate::mqtt_clients::ClaimedId;
use crate::mqtt_nats_side::NatsSide;
use crate::mqtt_will::{DelayedWill, StoredWill};
use crate::session::{OpOutcome, SessionState, SessionStatus};
use crate::shard::{MqttPublish, Shard};
use myelin_mqtt::packet::{ConnectPacket, ProtocolLevel, ReasonCode, Will};
use myelin_mqtt::records::session_hash;
use myelin_wire::connect::{Connect, ConnectCredentials};
use myelin_wire::error::{CloseReason, Quoted};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time without a packet after which a client is missed that says it sends one every so many
/// seconds: half as many more.
fn patience(keep_alive: u16) -> Option<Duration> {
    (keep_alive > 0).then(|| Duration::from_millis(u64::from(keep_alive) * 1500))
}

impl Session {
    pub(super) fn connect_packet(
        &mut self,
        shard: &mut Shard,
        packet: &ConnectPacket<'_>,
        now: Instant,
    ) -> OpOutcome {
        let client_id: Box<str> = match packet.client_id {
            "" => self.broker.unique_id().into(),
            id => id.into(),
        };
        self.conn.update_details(|details| details.set_mqtt_client(&client_id));
        let keep_alive = patience(packet.keep_alive);
        if self.logs_protocol {
            self.log_packet(connect_line(packet, &client_id, keep_alive));
        }
        let credentials = credentials_of(packet).map(Box::new);
        self.connect =
            Connect { verbose: false, pedantic: false, headers: true, credentials, ..Connect::default() };
        self.describe_client();
        let terms = match packet.level {
            ProtocolLevel::V3 => Ok(()),
            ProtocolLevel::V5 => self.take_terms(packet),
        };
        let Some(mqtt) = &mut self.mqtt else { return OpOutcome::Continue };
        mqtt.stage = MqttStage::Connecting;
        (mqtt.client_id, mqtt.keep_alive, mqtt.is_clean) = (client_id, keep_alive, packet.clean);
        mqtt.will = packet.will.map(|will| Box::new(will_of(will, &mqtt.client_id, packet.level)));
        match terms {
            Ok(()) => self.check_credentials(shard, now),
            Err(reason) => self.dismiss(reason, reason.text()),
        }
    }

    /// The rest of CONNECT, once the client is who it says.
    pub(in crate::session) fn accept_mqtt(&mut self, shard: &mut Shard, now: Instant) -> SessionStatus {
        let (SessionState::Ready(ready), Some(mqtt)) = (&mut self.state, &mut self.mqtt) else {
            return SessionStatus::Continue;
        };
        ready.connected = true;
        let claimed =
            self.broker.registry.mqtt_clients.claim(ready.account.name(), &mqtt.client_id, &self.conn, now);
        let other = match claimed {
            ClaimedId::Jailed(until) => {
                mqtt.stage = MqttStage::Jailed(until);
                return SessionStatus::Continue;
            }
            ClaimedId::Owned(other) => other,
        };
        mqtt.stage = MqttStage::Opening;
        let is_clean = mqtt.five.as_ref().map_or(mqtt.is_clean, |five| five.expiry == 0);
        if let Some(other) = other {
            let name = format!("{}{}", other.name(), other.label());
            let (name, id) = (Quoted(name.as_bytes()), Quoted(mqtt.client_id.as_bytes()));
            let line = format_args!("Replacing old client {name} since both have the same client ID {id}");
            self.broker.log_for(LogLevel::Warn, &self.conn, line);
            other.close(CloseReason::DuplicateClientId);
        }
        self.open_stored(shard, is_clean, now)
    }

    /// Tells a client that speaks MQTT that it is not let in; `false` when it speaks NATS.
    pub(in crate::session) fn deny_mqtt(&self, shard: &mut Shard) -> bool {
        let Some(mqtt) = &self.mqtt else { return false };
        // One of MQTT 5 is told at the end of the connection.
        if mqtt.stage == MqttStage::Connecting && mqtt.five.is_none() {
            self.acknowledge_connect(shard, ReasonCode::NotAuthorized, false);
        }
        true
    }

    /// When a client that speaks MQTT has to be gone, unless it sends something.
    pub(in crate::session) fn mqtt_deadline(&self) -> Option<Instant> {
        let mqtt = self.mqtt.as_deref()?;
        let own = match mqtt.stage {
            // Nobody listens to it.
            MqttStage::Connected if self.awaits_storage() => None,
            MqttStage::Jailed(until) => Some(until),
            MqttStage::Connected => mqtt.keep_alive.map(|patience| self.timers.last_heard + patience),
            MqttStage::AwaitConnect | MqttStage::Connecting | MqttStage::Opening => None,
        };
        own.into_iter().chain(self.storage_deadline()).min()
    }

    /// Does what is due at that time. Compat: a client that was silent ends like one that cannot be
    /// read.
    pub(in crate::session) fn mqtt_due(&mut self, shard: &mut Shard, now: Instant) -> SessionStatus {
        if self.storage_deadline().is_some_and(|due| due <= now) {
            return self.storage_due(shard, now);
        }
        SessionStatus::Close(match self.mqtt.as_deref().map(|mqtt| mqtt.stage) {
            Some(MqttStage::Jailed(_)) => CloseReason::DuplicateClientId,
            _ => {
                self.part_with(ReasonCode::KeepAliveTimeout);
                CloseReason::ReadError
            }
        })
    }

    /// Gives the client id free, and publishes the will of a client that did not say goodbye. That
    /// of one whose place another has taken is thrown away.
    pub(in crate::session) fn end_mqtt(&mut self, shard: &mut Shard, reason: CloseReason, now: Instant) {
        self.part(shard, reason);
        let (SessionState::Ready(ready), Some(mqtt)) = (&self.state, &mut self.mqtt) else { return };
        let is_connected = mqtt.stage == MqttStage::Connected;
        if !is_connected && mqtt.stage != MqttStage::Opening {
            return;
        }
        self.broker.registry.mqtt_clients.release(ready.account.name(), &mqtt.client_id, &self.conn);
        let will = mqtt.will.take().filter(|_| is_connected);
        let delay = match (&will, &mqtt.five) {
            (Some(will), Some(five)) => will.delay.min(Duration::from_secs(five.expiry.into())),
            _ => Duration::ZERO,
        };
        // That of MQTT 3.1.1 is not published where another has taken the client's place, as by
        // nats-server.
        if let Some(will) = will.filter(|_| reason != CloseReason::DuplicateClientId || self.speaks_5()) {
            let left = if delay.is_zero() { Some(will) } else { self.delay_will(will, now + delay) };
            left.into_iter().for_each(|will| self.publish_will(shard, &will, now));
        }
        self.end_stored(shard, reason, now);
    }
}

impl Session {
    fn publish_will(&mut self, shard: &mut Shard, will: &StoredWill, now: Instant) {
        self.begin_batch();
        let StoredWill { topic, payload, qos, is_retained, nats, .. } = will;
        let (reply, lines) = (&nats.reply[..], &nats.lines[..]);
        let message = MqttPublish { topic, qos: *qos, payload, reply, lines };
        self.certify(shard, message, (*is_retained, nats), now);
        if self.publish_message(shard, message, now) {
            self.store_will(shard, will, now);
        }
    }

    /// Leaves the will to the time when it is due, or to another connection that takes the
    /// session's place, which may be under way. Answers the will where another one has it already
    /// and begins anew, so that nothing goes on for which it would wait.
    fn delay_will(&mut self, will: Box<StoredWill>, due: Instant) -> Option<Box<StoredWill>> {
        let SessionState::Ready(ready) = &self.state else { return None };
        let mqtt = self.mqtt.as_mut()?;
        let stored = mqtt.stored.as_ref()?;
        let will = DelayedWill {
            will,
            due,
            conn: Arc::clone(&self.conn),
            account: Arc::clone(&ready.account),
            permissions: ready.permissions.clone(),
            user: ready.user.as_deref().unwrap_or_default().into(),
            node: stored.store.node.clone(),
        };
        let session = (self.conn.cid(), &*stored.hash);
        match self.broker.registry.mqtt_stores.leave_will(&stored.store, session, will) {
            Ok(()) => {
                mqtt.will_due = Some(due);
                None
            }
            Err(delayed) => Some(delayed.will).filter(|_| stored.inbox.is_followed_anew()),
        }
    }

    /// When [`Shard::mqtt_will_due`] is to be called for a connection that has ended.
    pub fn will_due(&self) -> Option<Instant> {
        self.mqtt.as_deref()?.will_due
    }
}

/// Credentials in a CONNECT; `None` where there are none.
fn credentials_of(packet: &ConnectPacket<'_>) -> Option<ConnectCredentials> {
    let user = packet.user_name.unwrap_or_default().to_owned();
    let pass = packet.password.map(String::from_utf8_lossy).unwrap_or_default().into_owned();
    if user.is_empty() && pass.is_empty() {
        return None;
    }
    // Compat: what may be a token is also taken for one.
    Some(ConnectCredentials { user, auth_token: pass.clone(), pass, ..ConnectCredentials::default() })
}

/// A will, for the end.
fn will_of(will: Will<'_>, client_id: &str, level: ProtocolLevel) -> StoredWill {
    let nats = match level {
        ProtocolLevel::V3 => NatsSide::plain(will.retain),
        ProtocolLevel::V5 => NatsSide::of_will(will.properties, will.retain, &session_hash(client_id)),
    };
    StoredWill::new(will, nats)
}

/// CONNECT in the protocol log.
fn connect_line(packet: &ConnectPacket<'_>, client_id: &str, keep_alive: Option<Duration>) -> String {
    let mut line = format!("CONNECT clientID={client_id}");
    // Writing into a string cannot fail.
    if let Some(keep_alive) = keep_alive {
        let _ = write!(line, " keepAlive={}", Span(keep_alive));
    }
    if let Some(Will { topic, qos, retain, .. }) = packet.will {
        let _ = write!(line, " will=(topic={topic} QoS={} retain={retain})", qos as u8);
    }
    if packet.clean {
        line.push_str(" clean");
    }
    if let Some(user) = packet.user_name {
        let _ = write!(line, " username={user}");
    }
    if packet.password.is_some_and(|password| !password.is_empty()) {
        line.push_str(" password=****");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_missed_after_half_as_long_again() {
        let millis = |keep_alive| patience(keep_alive).map(|time| time.as_millis());
        assert_eq!([0, 1, 2, 3].map(millis), [None, Some(1500), Some(3000), Some(4500)]);
    }
}
