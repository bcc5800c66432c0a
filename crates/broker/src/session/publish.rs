//! PUB and HPUB: from the parsed operation to the shard's fan-out.

use super::{Session, SessionState};
use crate::log::Level;
use crate::message_trace::MessageTrace;
use crate::shard::{PubMessage, Published, Publisher, Shard, Source};
use bytes::Bytes;
use myelin_wire::encode;
use myelin_wire::error::{ErrorText, Quoted};
use myelin_wire::message_trace;
use myelin_wire::parser::Pub;
use std::sync::Arc;
use std::time::Instant;

/// Tails from this size on are not copied per receiver if they stand in memory that can be shared.
const SHARE_TAIL: usize = 16 * 1024;

/// Large enough, and not a small part of what sharing it would keep in memory.
fn is_worth_sharing(tail: &[u8], memory: &Bytes) -> bool {
    tail.len() >= SHARE_TAIL && tail.len() >= memory.len() / 4
}

impl Session {
    /// Looks whether the messages of a batch that begins are logged, or may be answers to requests
    /// of other clusters. Answers whether they are as usual: neither.
    pub(super) fn begin_batch(&mut self) -> bool {
        self.logs_protocol = self.broker.log().enabled(Level::Trace);
        self.may_answer =
            matches!(&self.state, SessionState::Ready(ready) if ready.account.gateway_replies.is_any());
        !self.logs_protocol && !self.may_answer
    }

    /// Publishes what an operation says. `MAY_ANSWER`: it may be an answer to a request of another
    /// cluster.
    ///
    /// Budget: with a cached route and a regular control line no allocation, no lock, no system
    /// call.
    #[inline(always)]
    pub(super) fn publish<const MAY_ANSWER: bool>(
        &mut self,
        shard: &mut Shard,
        op: &Pub<'_>,
        backing: Option<&Bytes>,
        now: Instant,
    ) {
        self.timers.heard(now);
        if op.header_len > 0 && message_trace::may_ask(&op.body[..op.header_len as usize]) {
            return self.publish_traced(shard, op, backing, now);
        }
        self.pass_on::<MAY_ANSWER>(shard, op, backing, now, None);
    }

    /// Publishes what an operation says that took the long way through the parser.
    #[inline(never)]
    pub(super) fn publish_apart(
        &mut self,
        shard: &mut Shard,
        op: &Pub<'_>,
        backing: Option<&Bytes>,
        now: Instant,
    ) {
        match self.may_answer {
            true => self.publish::<true>(shard, op, backing, now),
            false => self.publish::<false>(shard, op, backing, now),
        }
    }

    /// Publishes a message of which is known whether it is traced, and whether it may be an answer
    /// to a request of another cluster.
    ///
    /// Perf: always inlined, because the compiler makes a call of it for the sake of traced
    /// messages: 2 ns of 25 for all others.
    #[inline(always)]
    pub(super) fn pass_on<const MAY_ANSWER: bool>(
        &mut self,
        shard: &mut Shard,
        op: &Pub<'_>,
        backing: Option<&Bytes>,
        now: Instant,
        trace: Option<&Arc<MessageTrace>>,
    ) {
        let SessionState::Ready(ready) = &self.state else { return };
        self.batch.0 += 1;
        self.batch.1 += op.body.len() as u64;
        if self.connect.pedantic || self.logs_protocol {
            self.inspect(shard, op);
        }
        let rendered;
        let (tail, backing) = if op.tail.is_empty() {
            let mut tail = Vec::with_capacity(op.body.len() + op.reply.len() + 24);
            let header_len = if op.header_len > 0 { op.digits.0 } else { &[] };
            encode::tail(&mut tail, op.reply, header_len, op.digits.1, op.body);
            rendered = tail;
            (&rendered[..], None)
        } else {
            (op.tail, backing.filter(|memory| is_worth_sharing(op.tail, memory)))
        };
        let shared_tail = backing.map(|memory| memory.slice_ref(tail));
        let from = Publisher {
            conn: &self.conn,
            account: &ready.account,
            permissions: ready.permissions.as_ref(),
            echo: self.connect.echo,
            verbose: self.connect.verbose,
            no_responders: self.connect.no_responders,
            logs_protocol: self.logs_protocol,
            now,
            is_service: false,
            is_mapped: true,
            hop: None,
            trace,
            source: Source::Here,
            asker: None,
        };
        let message = PubMessage {
            to: &[],
            subject: op.subject,
            reply: op.reply,
            header_len: op.header_len as usize,
            body: op.body,
            tail,
            shared_tail: shared_tail.as_ref(),
        };
        // Perf: a call wants both in memory: a fifth of the instructions of a message that nobody
        // listens to.
        let published =
            if MAY_ANSWER { shard.publish_onward(from, message) } else { shard.publish(from, message) };
        match published {
            Published::Done { stalled, .. } => self.stalled |= stalled,
            Published::Refused(text) => self.refuse_publish(shard, (op, trace), &text, now),
        }
    }

    /// Does what pedantic clients and the protocol log want of every message.
    #[inline(never)]
    fn inspect(&self, shard: &mut Shard, op: &Pub<'_>) {
        if self.connect.pedantic && !myelin_subject::is_literal(op.subject) {
            self.stage_error(shard, &ErrorText::InvalidPublishSubject);
        }
        if self.logs_protocol {
            self.log_message(op);
        }
    }

    #[cold]
    fn refuse_publish(
        &self,
        shard: &mut Shard,
        (op, trace): (&Pub<'_>, Option<&Arc<MessageTrace>>),
        text: &ErrorText,
        now: Instant,
    ) {
        trace.iter().for_each(|trace| trace.refused(text.to_string()));
        let what = match text {
            ErrorText::ReplyViolation(reply) => format!("Reply {}", Quoted(reply)),
            _ => format!("Subject {}", Quoted(op.subject)),
        };
        self.stage_error(shard, text);
        self.note_refused(text, now);
        self.log(Level::Error, format_args!("Publish Violation - {what}"));
    }
}
