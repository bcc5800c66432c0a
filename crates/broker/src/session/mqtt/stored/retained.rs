//! Retained messages, for those who subscribe: read by their subjects, many at once.

use super::state::{Matter, RetainedCame, RetainedRead};
use crate::log::Level as LogLevel;
use crate::session::Session;
use crate::shard::Shard;
use myelin_mqtt::packet::{Exchange, Qos};
use myelin_mqtt::records::RetainedMessage;
use myelin_mqtt::{streams, topic};
use myelin_wire::error::CloseReason;
use myelin_wire::header;
use myelin_wire::message_buf::MessageRef;
use serde::Serialize;
use std::time::Instant;

/// Retained messages that are asked for at once, and their bytes.
const AT_ONCE: u32 = 256;
const BYTES_AT_ONCE: u32 = 1024 * 1024;

/// Body of the request.
#[derive(Serialize)]
struct ReadRequest {
    seq: u64,
    next_by_subj: String,
    batch: u32,
    max_bytes: u32,
}

impl Session {
    /// Reads what is retained for a subscription and the level above it.
    pub(super) fn read_retained(&mut self, shard: &mut Shard, pattern: &str, qos: Qos, now: Instant) {
        let above = topic::level_above(pattern.as_bytes());
        let above = above.and_then(|above| std::str::from_utf8(above).ok());
        for pattern in [Some(pattern), above].into_iter().flatten() {
            self.stored_mut().into_iter().for_each(|stored| stored.reading += 1);
            let read = Box::new(RetainedRead { pattern: pattern.to_owned(), qos });
            self.read_retained_from(shard, read, 1, now);
        }
    }

    fn read_retained_from(&mut self, shard: &mut Shard, read: Box<RetainedRead>, seq: u64, now: Instant) {
        let next_by_subj = format!("{}{}", streams::RETAINED.subject_prefix, read.pattern);
        let request = ReadRequest { seq, next_by_subj, batch: AT_ONCE, max_bytes: BYTES_AT_ONCE };
        let body = myelin_wire::json::compact(&request);
        let to = format!("DIRECT.GET.{}", streams::RETAINED.name);
        self.ask_api(shard, &to, &body, Matter::Retained(read), now);
    }

    /// One of the messages has come, or their end.
    pub(super) fn retained_came(
        &mut self,
        shard: &mut Shard,
        read: Box<RetainedRead>,
        msg: &MessageRef<'_>,
        now: Instant,
    ) -> Result<RetainedCame, CloseReason> {
        let number = |name: &[u8]| -> Option<u64> {
            std::str::from_utf8(header::get(msg.headers, name)?).ok()?.trim().parse().ok()
        };
        match msg.headers.strip_prefix(b"NATS/1.0 ") {
            // A message.
            None => {
                self.deliver_retained(shard, &read, msg);
                return Ok(RetainedCame::Message(read));
            }
            Some(status) if status.starts_with(b"204") => {
                let last = number(b"Nats-Last-Sequence").unwrap_or_default();
                if number(b"Nats-Num-Pending").is_some_and(|pending| pending > 0) {
                    self.read_retained_from(shard, read, last + 1, now);
                    return Ok(RetainedCame::Slice);
                }
            }
            Some(status) if status.starts_with(b"404") => {}
            Some(status) => {
                let line = status.split(|byte| *byte == b'\r').next().unwrap_or_default();
                let line = String::from_utf8_lossy(line);
                return Err(self.storage_failed(format_args!("retained messages: {line}")));
            }
        }
        Ok(RetainedCame::End)
    }

    fn deliver_retained(&mut self, shard: &mut Shard, read: &RetainedRead, msg: &MessageRef<'_>) {
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
        if message.removes() || is_reserved || !self.may_get(subject) {
            return;
        }
        let qos = message.qos().min(read.qos);
        let id = if qos > Qos::AtMostOnce { self.spare_packet_id(qos) } else { None };
        let exchange = match (id, qos) {
            (Some(id), Qos::ExactlyOnce) => Exchange::ExactlyOnce(id),
            (Some(id), _) => Exchange::AtLeastOnce(id),
            (None, _) => Exchange::AtMostOnce,
        };
        self.send_publish(shard, (subject, &message.payload), exchange, (false, true));
    }
}
