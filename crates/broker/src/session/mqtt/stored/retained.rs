//! Retained messages, for those who subscribe: read by their subjects, many at once.
//!
//! A stream finds the last messages of up to 1024 subjects by its index of subjects. Where there
//! are more, it is walked through instead. Nothing more is read while much waits for the client,
//! and few subscriptions read at once: what waits for a client is no more than a slice for each of
//! these, however many filters it has subscribed to.

use super::state::{
    AddedSub, Matter, RetainedCame, RetainedRead, RetainedWait, RetainedWay, StoredSession, WaitingRetained,
};
use crate::log::Level as LogLevel;
use crate::mqtt_inbox::MqttInbox;
use crate::service::Service;
use crate::session::Session;
use crate::shard::{Shard, StagedPublish};
use myelin_mqtt::headers::{self, TimeLeft};
use myelin_mqtt::packet::{Exchange, PropertyBuf, Qos, ReasonCode, SubscriptionId};
use myelin_mqtt::records::RetainedMessage;
use myelin_mqtt::{streams, topic};
use myelin_wire::error::CloseReason;
use myelin_wire::header;
use myelin_wire::message_buf::MessageRef;
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;

/// Retained messages that are asked for at once, as far as their bytes are no more than may wait
/// for a client.
///
/// Perf: behind each slice the stream counts what is left, which takes it milliseconds among a
/// million messages.
const AT_ONCE: u32 = 8192;

/// Reads of one session that are under way at once: each of them may bring as much as may wait.
const READS_AT_ONCE: usize = 8;

/// Everything.
const ALL: &str = ">";

/// Body of the request.
#[derive(Serialize)]
struct ReadRequest<'a> {
    seq: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    next_by_subj: &'a str,
    #[serde(skip_serializing_if = "<[&str]>::is_empty")]
    multi_last: &'a [&'a str],
    batch: u32,
    max_bytes: usize,
}

impl Session {
    /// Has what is retained for a subscription, and for the level above it, read in its turn.
    pub(super) fn await_retained(&mut self, sub: &AddedSub) {
        let (pattern, qos, id) = (sub.pattern.as_str(), sub.qos, SubscriptionId::new(sub.options.id));
        let above = topic::level_above(pattern.as_bytes());
        let above = above.and_then(|above| std::str::from_utf8(above).ok());
        for pattern in [Some(pattern), above].into_iter().flatten() {
            let way = if pattern == ALL { RetainedWay::Walk } else { RetainedWay::Index };
            let read = Box::new(RetainedRead { pattern: pattern.to_owned(), qos, id, way });
            if let Some(stored) = self.stored_mut() {
                stored.waiting.get_or_insert_default().reads.push_back((read, 1));
            }
        }
    }

    fn read_retained_from(&mut self, shard: &mut Shard, read: Box<RetainedRead>, seq: u64, now: Instant) {
        let subject = format!("{}{}", streams::RETAINED.subject_prefix, read.pattern);
        let subject = [subject.as_str()];
        let (next_by_subj, multi_last) = match read.way {
            RetainedWay::Index => ("", &subject[..]),
            // The stream has no other subjects, and need not look at each.
            RetainedWay::Walk if read.pattern == ALL => (ALL, &[][..]),
            RetainedWay::Walk => (subject[0], &[][..]),
        };
        let (batch, max_bytes) = (AT_ONCE, shard.settings().max_backlog());
        let request = ReadRequest { seq, next_by_subj, multi_last, batch, max_bytes };
        let body = myelin_wire::json::compact(&request);
        let to = format!("DIRECT.GET.{}", streams::RETAINED.name);
        self.ask_api(shard, &to, &body, Matter::Retained(read), now);
    }

    /// One of the messages has come, or their end.
    pub(super) fn retained_came(
        &mut self,
        shard: &mut Shard,
        mut read: Box<RetainedRead>,
        msg: &MessageRef<'_>,
        now: Instant,
    ) -> Result<RetainedCame, CloseReason> {
        let number = |name: &[u8]| -> Option<u64> {
            std::str::from_utf8(header::get(msg.headers, name)?).ok()?.trim().parse().ok()
        };
        match msg.headers.strip_prefix(b"NATS/1.0 ") {
            // A message.
            None => {
                self.deliver_retained(shard, &read, msg, now);
                return Ok(RetainedCame::Message(read));
            }
            Some(status) if status.starts_with(b"204") => {
                let last = number(b"Nats-Last-Sequence").unwrap_or_default();
                if number(b"Nats-Num-Pending").is_some_and(|pending| pending > 0) {
                    let is_behind = self.is_client_behind(shard);
                    if let Some(stored) = self.stored_mut().filter(|stored| is_behind || stored.has_waiting())
                    {
                        stored.waiting.get_or_insert_default().reads.push_front((read, last + 1));
                        return Ok(RetainedCame::End);
                    }
                    self.read_retained_from(shard, read, last + 1, now);
                    return Ok(RetainedCame::Slice);
                }
            }
            Some(status) if status.starts_with(b"404") => {}
            Some(status) if status.starts_with(b"413") && read.way == RetainedWay::Index => {
                read.way = RetainedWay::Walk;
                self.read_retained_from(shard, read, 1, now);
                return Ok(RetainedCame::Slice);
            }
            Some(status) => {
                let line = status.split(|byte| *byte == b'\r').next().unwrap_or_default();
                let line = String::from_utf8_lossy(line);
                self.part_with(ReasonCode::ImplementationSpecific);
                return Err(self.storage_failed(format_args!("retained messages: {line}")));
            }
        }
        Ok(RetainedCame::End)
    }

    fn deliver_retained(
        &mut self,
        shard: &mut Shard,
        read: &RetainedRead,
        msg: &MessageRef<'_>,
        now: Instant,
    ) {
        let subject = header::get(msg.headers, b"Nats-Subject").unwrap_or_default();
        let Some(subject) = subject.strip_prefix(streams::RETAINED.subject_prefix.as_bytes()) else { return };
        let message = match RetainedMessage::decode(msg.headers, msg.payload) {
            Ok(message) => message,
            Err(fault) => {
                let subject = String::from_utf8_lossy(subject);
                return self.log(LogLevel::Warn, format_args!("Retained message on {subject}: {fault}"));
            }
        };
        let is_reserved = subject.first() == Some(&b'$') && topic::leaves_out_dollar(read.pattern.as_bytes());
        let left = headers::time_left(msg.headers, self.unix_ms(now));
        let is_over = message.removes() || left == TimeLeft::Expired;
        if is_over || is_reserved || !self.may_get(subject) {
            return;
        }
        let qos = message.qos().min(read.qos);
        let properties = self.properties(msg.headers, left, read.id.as_slice());
        let Some(stored) = self.stored_mut() else { return };
        let waits = stored.has_sent_retained() || stored.has_waiting();
        let has_to_wait = qos > Qos::AtMostOnce && waits;
        if has_to_wait || !self.send_retained(shard, (subject, &message.payload), qos, &properties) {
            let (subject, payload) = (subject.into(), (*message.payload).into());
            let waiting = RetainedWait { subject, payload, qos, properties };
            if let Some(stored) = self.stored_mut() {
                stored.waiting.get_or_insert_default().messages.push_back(waiting);
            }
        }
    }

    /// Sends retained messages that have waited, as many as the client takes, and goes on to read
    /// others behind the last one.
    pub(super) fn send_waiting_retained(&mut self, shard: &mut Shard, now: Instant) {
        while let Some(stored) = self.stored_mut().filter(|stored| !stored.has_sent_retained())
            && let Some(next) = stored.waiting.as_mut().and_then(|waiting| waiting.messages.pop_front())
        {
            let RetainedWait { subject, payload, qos, properties } = &next;
            if !self.send_retained(shard, (subject, payload), *qos, properties) {
                if let Some(stored) = self.stored_mut() {
                    stored.waiting.get_or_insert_default().messages.push_front(next);
                }
                return;
            }
        }
        let can_go_on = |stored: &StoredSession| {
            let waits = |WaitingRetained { messages, reads }: &WaitingRetained| {
                messages.is_empty() && !reads.is_empty()
            };
            stored.reading < READS_AT_ONCE && stored.waiting.as_deref().is_some_and(waits)
        };
        if !self.stored().is_some_and(can_go_on) || self.is_client_behind(shard) {
            return;
        }
        let Some(stored) = self.stored_mut() else { return };
        let Some(waiting) = &mut stored.waiting else { return };
        let most = waiting.reads.len().min(READS_AT_ONCE - stored.reading);
        let begun: Vec<_> = waiting.reads.drain(..most).collect();
        if waiting.reads.is_empty() {
            stored.waiting = None;
        }
        stored.reading += begun.len();
        for (read, seq) in begun {
            self.read_retained_from(shard, read, seq, now);
        }
    }

    /// Whether so much waits for the client that nothing more is read for it. If so, the session's
    /// inbox is woken when that has changed.
    pub(super) fn is_client_behind(&self, shard: &mut Shard) -> bool {
        let Some(stored) = self.stored() else { return false };
        let inbox: Arc<dyn Service> = Arc::<MqttInbox>::clone(&stored.inbox);
        shard.is_behind(&self.conn, &inbox)
    }

    /// Sends a retained message. False: the client is too far behind and gets it later.
    fn send_retained(
        &mut self,
        shard: &mut Shard,
        (subject, payload): (&[u8], &[u8]),
        qos: Qos,
        properties: &PropertyBuf,
    ) -> bool {
        let id = if qos > Qos::AtMostOnce { self.spare_packet_id(qos) } else { None };
        let exchange = match (id, qos) {
            (Some(id), Qos::ExactlyOnce) => Exchange::ExactlyOnce(id),
            (Some(id), _) => Exchange::AtLeastOnce(id),
            (None, _) => Exchange::AtMostOnce,
        };
        let staged = self.send_publish(shard, (subject, payload), exchange, (false, true), properties);
        if staged != StagedPublish::Staged
            && let (Some(id), Some(stored)) = (id, self.stored_mut())
        {
            stored.in_flight.remove(id);
        }
        let is_done = staged != StagedPublish::Dropped;
        if !is_done {
            self.await_client(shard);
        }
        is_done
    }
}
