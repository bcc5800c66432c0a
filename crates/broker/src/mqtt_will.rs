//! A will, from CONNECT until it is published or thrown away. One with a delay outlives its
//! connection: it waits in the inbox of its session ([`crate::mqtt_inbox`]), from where whoever
//! takes the session up takes it.

use crate::account::Account;
use crate::conn::Conn;
use crate::mqtt_copy::StoredCopy;
use crate::mqtt_nats_side::NatsSide;
use crate::shard::{MqttPublish, Published, Publisher, Shard, Source};
use myelin_auth::Permissions;
use myelin_mqtt::packet::{Properties, Property, Qos, Will};
use myelin_mqtt::topic;
use myelin_wire::message_buf::MessageRef;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A will that is kept for the end.
pub(crate) struct StoredWill {
    pub(crate) topic: Box<str>,
    pub(crate) payload: Box<[u8]>,
    pub(crate) qos: Qos,
    pub(crate) is_retained: bool,
    /// Time between the end of the connection and the will, if its session lasts as long.
    pub(crate) delay: Duration,
    /// Properties, as NATS has them.
    pub(crate) nats: NatsSide,
}

impl StoredWill {
    pub(crate) fn new(will: Will<'_>, nats: NatsSide) -> Self {
        let (topic, payload) = (will.topic.into(), will.payload.into());
        let delay = delay(will.properties);
        Self { topic, payload, qos: will.qos, is_retained: will.retain, delay, nats }
    }
}

fn delay(properties: Properties<'_>) -> Duration {
    let seconds = properties.iter().find_map(|property| match property {
        Property::WillDelay(seconds) => Some(seconds),
        _ => None,
    });
    Duration::from_secs(seconds.unwrap_or_default().into())
}

/// A will that waits, with everything of its session that it is published with.
pub(crate) struct DelayedWill {
    pub(crate) will: Box<StoredWill>,
    pub(crate) due: Instant,
    pub(crate) conn: Arc<Conn>,
    pub(crate) account: Arc<Account>,
    pub(crate) permissions: Option<Arc<Permissions>>,
    /// User who has left it.
    pub(crate) user: Box<str>,
    /// Node name of this server.
    pub(crate) node: String,
}

impl Shard {
    /// Publishes the delayed will of connection `cid`, which has ended, if there is one that is due.
    pub fn mqtt_will_due(&mut self, cid: u64, now: Instant) {
        let broker = Arc::clone(self.broker());
        let Some(will) = broker.registry.mqtt_stores.due_will(cid, now) else { return };
        self.publish_delayed_will(&will, now);
    }

    /// Publishes a will, and has it stored and retained as far as that is asked for.
    pub(crate) fn publish_delayed_will(&mut self, delayed: &DelayedWill, now: Instant) {
        let DelayedWill { will, conn, account, permissions, user, node, .. } = delayed;
        let StoredWill { topic, payload, qos, is_retained, nats, .. } = &**will;
        let from = Publisher {
            conn,
            account,
            permissions: permissions.as_ref(),
            echo: true,
            verbose: false,
            no_responders: false,
            logs_protocol: false,
            now,
            is_service: false,
            is_mapped: true,
            hop: None,
            trace: None,
            source: Source::Here,
        };
        let (reply, lines) = (&nats.reply[..], &nats.lines[..]);
        let message = MqttPublish { topic, qos: *qos, payload, reply, lines };
        let mut subject = Vec::new();
        let is_published = matches!(self.publish_mqtt(from, message), Ok(Published::Done { .. }));
        if !is_published || topic::name_to_subject(topic, &mut subject).is_err() {
            return;
        }
        let subject = account.mqtt_mapped(&subject).unwrap_or(subject);
        let copy = StoredCopy { subject: &subject, qos: *qos, payload, is_retained: *is_retained, nats };
        let unix_ms = self.broker().unix_ms(now);
        let mut copies = Vec::new();
        if *is_retained {
            copies.push(copy.retained((*qos as u8) << 1 | 1, (node, user), unix_ms));
        }
        if *qos > Qos::AtMostOnce {
            copies.push(copy.message(None, unix_ms));
        }
        let mut msgs = self.spare_buf();
        for (subject, headers) in &copies {
            msgs.push(MessageRef { subject, headers, payload, ..MessageRef::default() });
        }
        self.send(account, &mut msgs, now);
        self.keep_buf(msgs);
    }
}
