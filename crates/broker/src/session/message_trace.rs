//! Messages that ask to be traced: who may ask, and what becomes of those who may not.
//!
//! Cold: a message comes here only if its headers seem to ask.

use super::{Session, SessionState, refusal};
use crate::log::Level;
use crate::message_trace::{MessageTrace, TraceWish};
use crate::service::Service;
use crate::shard::Shard;
use bytes::Bytes;
use myelin_subject::is_literal;
use myelin_wire::encode;
use myelin_wire::error::{ErrorText, Quoted};
use myelin_wire::header;
use myelin_wire::message_trace::{DESTINATION, DISABLED, TraceHeaders, names_destination};
use myelin_wire::parser::{self, Pub};
use std::sync::Arc;
use std::time::Instant;

/// Decision about a message that seems to ask for a trace.
enum TraceDecision {
    /// The message is published like any other.
    Plain,
    /// The message is published like any other, and nobody behind this server traces it either.
    Disabled,
    Traced(Box<TraceWish>),
    /// The message is not published at all.
    Dropped,
}

impl Session {
    /// Publishes a message whose headers seem to ask for a trace.
    #[cold]
    #[inline(never)]
    pub(super) fn publish_traced(
        &mut self,
        shard: &mut Shard,
        op: &Pub<'_>,
        backing: Option<&Bytes>,
        now: Instant,
    ) {
        let headers = &op.body[..op.header_len as usize];
        let spans = self.broker.spans.begin(headers);
        let asked = (op.subject, op.body.len());
        let (mut body, mut digits) = (Vec::new(), [Vec::new(), Vec::new()]);
        let (op, backing, trace) = match self.decide_trace(shard, headers, now) {
            TraceDecision::Plain => (*op, backing, spans.map(TraceWish::of_spans)),
            TraceDecision::Traced(wish) => (*op, backing, Some(TraceWish { spans, ..*wish })),
            TraceDecision::Disabled => {
                body.reserve(op.body.len() + 64);
                header::replace(&mut body, headers, DESTINATION, DISABLED);
                let header_len = body.len();
                body.extend_from_slice(&op.body[headers.len()..]);
                encode::number(&mut digits[0], header_len);
                encode::number(&mut digits[1], body.len());
                let op = Pub {
                    header_len: header_len as u32,
                    body: &body,
                    digits: (&digits[0], &digits[1]),
                    tail: &[],
                    ..*op
                };
                (op, None, spans.map(TraceWish::of_spans))
            }
            TraceDecision::Dropped => {
                if self.logs_protocol {
                    self.log_message(op);
                }
                return;
            }
        };
        let trace = trace.and_then(|wish| self.begin_trace(wish, asked, now));
        self.pass_on::<true>(shard, &op, backing, now, trace.as_ref());
        if let Some(trace) = trace
            && trace.published()
        {
            let trace: Arc<dyn Service> = trace;
            shard.wake(&trace);
        }
    }

    /// A message that is too large ends the connection; if what has come of it asks for a trace,
    /// that says so.
    #[cold]
    pub(super) fn trace_too_large(&self, shard: &mut Shard, rest: &[u8], now: Instant) {
        let Some((b"HPUB", line)) = refusal::control_line(rest) else { return };
        let words: Vec<_> =
            line.split(|b| matches!(b, b' ' | b'\t')).filter(|word| !word.is_empty()).collect();
        let ([subject, header_len, size] | [subject, _, header_len, size]) = words[..] else { return };
        let (Some(header_len), Some(size)) = (parser::size(header_len), parser::size(size)) else { return };
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { return };
        let headers = &rest[end + 1..];
        let headers = &headers[..headers.len().min(header_len as usize)];
        if let TraceDecision::Traced(wish) = self.decide_trace(shard, headers, now)
            && let Some(trace) = self.begin_trace(*wish, (subject, size as usize), now)
        {
            trace.refused("maximum payload exceeded".to_owned());
            if trace.published() {
                trace.serve(&mut Default::default(), shard);
            }
        }
    }

    /// Begins the trace of a message with this subject and size.
    fn begin_trace(
        &self,
        wish: TraceWish,
        message: (&[u8], usize),
        now: Instant,
    ) -> Option<Arc<MessageTrace>> {
        let SessionState::Ready(ready) = &self.state else { return None };
        let publisher = (&*self.conn, &ready.account);
        Some(MessageTrace::begin(&self.broker.identity, publisher, wish, message, now))
    }

    /// Decides about a message with such headers.
    fn decide_trace(&self, shard: &mut Shard, headers: &[u8], now: Instant) -> TraceDecision {
        let SessionState::Ready(ready) = &self.state else { return TraceDecision::Dropped };
        // Many have the header by which other systems trace; it means something only to accounts
        // that want it.
        if !names_destination(headers) && ready.account.config().trace.is_none() {
            return TraceDecision::Plain;
        }
        let Some(asked) = TraceHeaders::read(headers) else { return TraceDecision::Plain };
        if let Some(value) = asked.origin_account() {
            let value = Quoted(value.as_bytes());
            let what = "Message tracing disabled because of header \"Nats-Trace-Origin-Account\" with value";
            self.log(Level::Error, format_args!("{what}={value}"));
            return if asked.is_only { TraceDecision::Dropped } else { TraceDecision::Disabled };
        }
        let destination = match &asked.destination {
            Some(destination) => destination.clone(),
            None => {
                let config = ready.account.config();
                let Some(trace) = &config.trace else { return TraceDecision::Plain };
                if !trace.samples(shard.draw(100)) {
                    return TraceDecision::Disabled;
                }
                trace.subject.clone().into_bytes()
            }
        };
        if !is_literal(&destination) {
            let what = format_args!("Destination {} is not valid", Quoted(&destination));
            self.log(Level::Error, format_args!("{what}, won't be able to trace events"));
            return if asked.is_only { TraceDecision::Dropped } else { TraceDecision::Plain };
        }
        if !shard.may_publish(&ready.account, ready.permissions.as_ref(), &destination) {
            let text = ErrorText::PublishViolation((&destination[..]).into());
            self.stage_error(shard, &text);
            self.note_refused(&text, now);
            self.log(Level::Error, format_args!("Publish Violation - Subject {}", Quoted(&destination)));
            return TraceDecision::Dropped;
        }
        let wish = TraceWish { headers: asked, destination: Some(destination), spans: None };
        TraceDecision::Traced(Box::new(wish))
    }
}
