//! Messages that come over routes: to clients and services of this server, and to its leaf nodes.
//!
//! Permissions, mappings and imports were applied where the message was published. Queue groups get
//! it if the other server has chosen them for this one. To another server of the cluster a message
//! goes on only for such a group that has no member here any more.

use super::Shard;
use super::asker::TakenAsker;
use super::fanout::traced::Marked;
use super::fanout::{PubMessage, Published, Publisher};
use super::mapped_replies;
use super::route::{RouteScope, RouteTarget};
use super::rules::Access;
use super::source::{Source, Via};
use crate::account::Account;
use crate::conn::Conn;
use crate::imports;
use crate::log::Level;
use crate::message_trace::spans::SpanOrigin;
use crate::message_trace::{MessageTrace, TraceWish};
use crate::service::Service;
use bytes::Bytes;
use myelin_subject::is_literal;
use myelin_wire::encode;
use myelin_wire::error::Quoted;
use myelin_wire::message_trace::{self, TraceHeaders};
use myelin_wire::peer::gateway::MappedReply;
use myelin_wire::peer::parser::Routed;
use std::fmt::Arguments;
use std::sync::Arc;
use std::time::Instant;

/// Memory that is kept from one message to the next.
#[derive(Default)]
pub(crate) struct RoutedBuffers {
    tail: Vec<u8>,
    /// Whether protocol lines are logged, as of the batch's start.
    pub(crate) logs_protocol: bool,
}

impl RoutedBuffers {
    /// The tail with which receivers get a message of a peer, whose reply they see as `reply`; and
    /// that tail in memory that they can share, where it is long and stands in `backing`.
    #[inline(always)]
    pub(super) fn tail_of<'t>(
        &'t mut self,
        routed: &Routed<'t>,
        reply: &[u8],
        backing: Option<&Bytes>,
    ) -> (&'t [u8], Option<Bytes>) {
        if routed.tail.is_empty() || reply.len() != routed.reply.len() {
            self.tail.clear();
            encode::tail(&mut self.tail, reply, routed.digits.0, routed.digits.1, routed.body);
            return (&self.tail, None);
        }
        let is_shared = routed.tail.len() >= SHARE_TAIL;
        (routed.tail, backing.filter(|_| is_shared).map(|memory| memory.slice_ref(routed.tail)))
    }
}

/// Tails from this size on are shared by their receivers if they stand in memory of their own.
const SHARE_TAIL: usize = 16 * 1024;

/// Tails from this size on may be copied once for many receivers.
const MOST_PLAIN: usize = 4 * 1024;

/// Replies behind which the subject may stand that receivers are to see.
const ACKNOWLEDGEMENT: &[u8] = b"$JS.ACK.";

/// Dots in front of that subject. Compat: names of streams and consumers may contain `@`.
const DOTS: usize = 8;

impl Shard {
    /// Routes one message that has come over `conn`.
    #[inline(never)]
    pub(crate) fn publish_routed(
        &mut self,
        conn: &Arc<Conn>,
        account: &Arc<Account>,
        (routed, backing): (&Routed<'_>, Option<&Bytes>),
        buffers: &mut RoutedBuffers,
        now: Instant,
    ) {
        if buffers.logs_protocol || !self.publish_plain_from(account, routed, Via::Route) {
            self.publish_routed_with_care((conn, account), (routed, backing), buffers, now);
        }
    }

    /// Routes a message that goes as it came, along a route that is known, to clients that need no
    /// more than that. If it is not like that nothing is done, and the answer is false.
    ///
    /// Perf: nearly all messages; nothing is made for them that only others need (row `routed` of
    /// docs/count.md).
    #[inline(always)]
    pub(super) fn publish_plain_from(
        &mut self,
        account: &Arc<Account>,
        routed: &Routed<'_>,
        via: Via,
    ) -> bool {
        // Replies that may stand for more than they say begin like this.
        let is_special = matches!(routed.reply.first(), Some(b'$' | b'_')) && !is_inbox(routed.reply);
        let is_whole = (1..MOST_PLAIN).contains(&routed.tail.len());
        if is_special || !is_whole || routed.header_len > 0 || !routed.queues.is_empty() {
            return false;
        }
        let scope = RouteScope { account, permissions: None, is_mapped: false, is_imported: false, via };
        let Some(route) = self.routes.cached(scope, routed.subject) else { return false };
        let is_simple = |target: &RouteTarget| matches!(target, RouteTarget::Client(one) if !one.careful);
        if route.access != Access::Allowed
            || !route.services.is_empty()
            || route.remote.is_some()
            || route.targets.is_empty()
            || !route.targets.iter().all(is_simple)
        {
            return false;
        }
        self.deliveries += route.targets.len();
        let (mut is_stalled, mut drops) = (false, 0);
        for target in &route.targets {
            let RouteTarget::Client(one) = target else { continue };
            let parts = [&route.head(one)[1..], routed.tail];
            let payload = routed.body.len();
            let placed = self.staging.parts(one.sub.conn(), parts, payload, &mut self.pool, &self.settings);
            if placed.stalled {
                is_stalled = true;
                drops += u64::from(placed.dropped);
            }
        }
        self.touched.delivered(route);
        if is_stalled {
            self.count_stall(drops);
        }
        true
    }

    /// Routes a message that may be anything.
    #[inline(never)]
    fn publish_routed_with_care(
        &mut self,
        (conn, account): (&Arc<Conn>, &Arc<Account>),
        (routed, backing): (&Routed<'_>, Option<&Bytes>),
        buffers: &mut RoutedBuffers,
        now: Instant,
    ) {
        if let Some(mapped) = MappedReply::of(routed.subject) {
            return self.publish_answer(conn, account, (routed, mapped), now);
        }
        let asked = TakenAsker::of(conn, routed);
        let routed = &asked.as_ref().map_or(*routed, |request| request.message(routed));
        let (unmapped, whole_reply) = mapped_replies::unmapped(routed);
        let (to, subject, reply) = addressed(&unmapped);
        let logs_protocol = buffers.logs_protocol;
        let (tail, shared_tail) = buffers.tail_of(&unmapped, reply, backing);
        let from = Publisher {
            logs_protocol,
            source: Source::Route { queues: &routed.queues, origin: routed.origin, whole_reply },
            asker: asked.as_ref().map(TakenAsker::asker),
            ..Publisher::internal(conn, account, now)
        };
        if !whole_reply.is_empty() {
            let address = if to.is_empty() { subject } else { to };
            self.remember(&from, (address, reply));
        }
        let message = message_of(routed, (to, subject, reply), (tail, shared_tail.as_ref()));
        if may_ask_for_trace(&message) {
            return self.publish_routed_traced(from, message);
        }
        // There is nobody to be told that nobody listens: the other server thought that somebody
        // does. Perf: a copy of the whole way, without what only clients' messages need; with the
        // parser's quick way `cluster-1:1-16` takes 0.68 times the CPU.
        let published = self.publish(from, message);
        if imports::is_measured(reply)
            && let Published::Done { delivered: true, .. } = published
        {
            self.note_remote_request(account, (message.address(), reply), now);
        }
    }

    /// Routes a message whose headers seem to ask for a trace.
    ///
    /// Compat: where the trace goes was allowed by the server where the message was published, and
    /// so was how many are traced.
    #[cold]
    #[inline(never)]
    pub(super) fn publish_routed_traced(&mut self, from: Publisher<'_>, message: PubMessage<'_>) {
        let headers = &message.body[..message.header_len];
        let spans = self.broker.spans.begin(headers);
        let (asked, config) = (TraceHeaders::read(headers), from.account.config());
        let told = asked.as_ref().and_then(|asked| match &asked.destination {
            Some(destination) => Some(destination.clone()),
            None => config.trace.as_ref().map(|trace| trace.subject.clone().into_bytes()),
        });
        let (Some(asked), Some(destination)) = (asked, told) else {
            return self.publish_routed_with_spans(from, message, spans);
        };
        let complain = |line: Arguments<'_>| {
            self.broker.complain(Level::Error, from.conn, "Messages that cannot be traced", line);
        };
        let is_old = asked.origin_account().is_some();
        if let Some(value) = asked.origin_account() {
            let (value, name) = (Quoted(value.as_bytes()), "\"Nats-Trace-Origin-Account\"");
            let what = "Message tracing disabled because of header";
            complain(format_args!("{what} {name} with value={value}"));
        } else if !is_literal(&destination) {
            let what = format_args!("Destination {} is not valid", Quoted(&destination));
            complain(format_args!("{what}, won't be able to trace events"));
        } else {
            let wish = TraceWish { headers: asked, destination: Some(destination), spans };
            return self.publish_told(from, message, wish);
        }
        if asked.is_only {
            return;
        }
        let marked = is_old.then(|| Marked::untraced(&message));
        let message = marked.as_ref().map_or(message, |marked| marked.of(&message));
        self.publish_routed_with_spans(from, message, spans);
    }

    /// Routes a message of which a collector is told, or nobody.
    fn publish_routed_with_spans(
        &mut self,
        from: Publisher<'_>,
        message: PubMessage<'_>,
        spans: Option<SpanOrigin>,
    ) {
        match spans {
            Some(spans) => self.publish_told(from, message, TraceWish::of_spans(spans)),
            None => {
                let _ = self.publish_noting(from, message);
            }
        }
    }

    /// Publishes a message with a trace.
    pub(super) fn publish_told(&mut self, from: Publisher<'_>, message: PubMessage<'_>, wish: TraceWish) {
        let (shown, publisher) = ((message.address(), message.body.len()), (&**from.conn, from.account));
        let trace = MessageTrace::begin(&self.broker.identity, publisher, wish, shown, from.now);
        let _ = self.publish_noting(Publisher { trace: Some(&trace), ..from }, message);
        if trace.published() {
            let trace: Arc<dyn Service> = trace;
            self.wake(&trace);
        }
    }
}

/// The subject that decides who gets a message, if that is not the one which receivers see; that
/// one; and the reply.
pub(super) fn addressed<'a>(routed: &Routed<'a>) -> (&'a [u8], &'a [u8], &'a [u8]) {
    if routed.reply.starts_with(ACKNOWLEDGEMENT)
        && let Some(at) = shown_at(routed.reply)
        && at + 1 < routed.reply.len()
    {
        return (routed.subject, &routed.reply[at + 1..], &routed.reply[..at]);
    }
    (&[], routed.subject, routed.reply)
}

/// A message of a peer as it is published here: addressed, and with a tail as receivers see it.
#[inline(always)]
pub(super) fn message_of<'m>(
    routed: &Routed<'m>,
    (to, subject, reply): (&'m [u8], &'m [u8], &'m [u8]),
    (tail, shared_tail): (&'m [u8], Option<&'m Bytes>),
) -> PubMessage<'m> {
    let header_len = routed.header_len as usize;
    PubMessage { to, subject, reply, header_len, body: routed.body, tail, shared_tail }
}

/// Whether the headers of a message seem to ask for a trace.
#[inline(always)]
pub(super) fn may_ask_for_trace(message: &PubMessage<'_>) -> bool {
    let headers = &message.body[..message.header_len];
    !headers.is_empty() && message_trace::may_ask(headers)
}

/// Whether a reply is an inbox as clients make them.
#[inline(always)]
fn is_inbox(reply: &[u8]) -> bool {
    reply.starts_with(b"_INBOX.")
}

/// Where the subject stands behind an acknowledgement: at the first `@` that is not in one of the
/// names.
fn shown_at(reply: &[u8]) -> Option<usize> {
    let mut dots = 0;
    reply.iter().position(|byte| {
        dots += usize::from(*byte == b'.');
        *byte == b'@' && dots >= DOTS
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_wire::peer::parser::{self, Parsed, PeerLimits, PeerOp};

    #[test]
    fn only_an_acknowledgement_shows_another_subject() {
        let limits = PeerLimits {
            max_line: 1000,
            max_payload: 1000,
            is_dedicated: false,
            names_origin: false,
            is_leaf: false,
        };
        let ack = "$JS.ACK.S@1.C@2.1.2.3.4.5";
        let cases = [
            (format!("{ack}@orders.new"), ("to", "orders.new", ack)),
            (format!("{ack}@a@b"), ("to", "a@b", ack)),
            (ack.to_owned(), ("", "to", ack)),
            (format!("{ack}@"), ("", "to", &*format!("{ack}@"))),
            ("_INBOX.a.b.c.d.e.f.g.h@i".into(), ("", "to", "_INBOX.a.b.c.d.e.f.g.h@i")),
        ];
        for (reply, expected) in cases {
            let frame = format!("RMSG $G to {reply} 2\r\nhi\r\n");
            let Ok(Parsed::Op(PeerOp::Message(routed), _)) = parser::next(frame.as_bytes(), &limits) else {
                panic!("{frame}");
            };
            let (to, subject, reply) = addressed(&routed);
            let expected = [expected.0, expected.1, expected.2].map(str::as_bytes);
            assert_eq!([to, subject, reply], expected, "{frame}");
        }
    }
}
