//! The trace of one message: what became of it, as it is told to whoever asked.
//!
//! Made by the session that publishes a message which asks for one; the shard notes what happens on
//! the way, in order. A stream learns later what it does with the message, perhaps on another
//! thread. Whoever is the last to know something has the trace served on some shard, and there it
//! publishes itself, in the account of the publisher.
//!
//! Nothing here is made for a message that is not traced.
//!
//! A message may also have a trace of which nobody in its account is told, for the spans that a
//! collector gets: see [`spans`]. Such a trace changes nothing of the message, does not end where
//! an account does, and is complete without being served.
//!
//! On the way: `session/message_trace.rs` looks at what a header block asks for (found by
//! `wire/src/message_trace.rs`) and whether its publisher may. The fan-out of traced messages,
//! `shard/fanout/traced.rs`, is a loop of its own and fills the trace in; so does
//! `shard/service_import.rs`; a stream adds what it did (`streams/src/stream/traces.rs`). The
//! trace is a `Service`: being served is how it publishes itself.

mod acknowledgements;
pub(crate) mod spans;

use crate::account::Account;
use crate::conn::Conn;
use crate::server_info::{OwnIdentity, ServerInfo};
use crate::service::{Service, ServiceShard};
use crate::service_batch::{ServiceBatch, StoredAs, TraceRecord, Traced};
use crate::subscription::Subscription;
use myelin_stdx::rfc3339;
use myelin_stdx::sync::lock;
use myelin_wire::encoding::{self, Encoding};
use myelin_wire::json::compact;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use myelin_wire::message_trace::{HOP, TraceHeaders};
use serde::Serialize;
use spans::SpanOrigin;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Why somebody who listens does not get the message, in the reference's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Withheld {
    Echo,
    Denied,
    Closed,
    Exhausted,
    Slow,
    /// Another server gets the message and tells nothing of it.
    Untold,
    /// Another server would deliver a message that is only traced.
    Unable,
}

impl Withheld {
    fn text(self) -> &'static str {
        match self {
            Self::Echo => "Not delivered because of no echo",
            Self::Denied => "Not delivered because subscription denies this subject",
            Self::Closed => "Not delivered because client is closed",
            Self::Exhausted => "Not delivered because auto-unsubscribe exceeded",
            Self::Slow => "Not delivered because fast producer not stalled and consumer is slow",
            Self::Untold => {
                "Message delivered but remote does not support message tracing so no trace event generated from there"
            }
            Self::Unable => "Not delivered because remote does not support message tracing",
        }
    }
}

/// Trace of one message, filled in on the way and published in the end.
pub struct MessageTrace {
    server: Arc<OwnIdentity>,
    /// The publisher's; its name is that of the first event.
    account: Arc<Account>,
    /// `None`: nobody is told but a collector.
    destination: Option<Vec<u8>>,
    is_only: bool,
    /// The hop by which the message came from another server; empty for a client's.
    hop: String,
    encoding: Option<Encoding>,
    now: Instant,
    /// Time of day at `now`.
    ts: String,
    /// Origin of spans, where there are to be any.
    spans: Option<SpanOrigin>,
    story: Mutex<Story>,
}

/// Wishes about one message: who is told what becomes of it.
pub(crate) struct TraceWish {
    pub(crate) headers: TraceHeaders,
    /// Subject to which the document goes. `None`: there is none.
    pub(crate) destination: Option<Vec<u8>>,
    pub(crate) spans: Option<SpanOrigin>,
}

impl TraceWish {
    /// Spans, and nothing that a document would need.
    pub(crate) fn of_spans(spans: SpanOrigin) -> Self {
        Self { headers: TraceHeaders::of_none(), destination: None, spans: Some(spans) }
    }
}

/// Events of a trace that are known so far.
struct Story {
    request: TracedRequest,
    /// Other servers that the message has gone to.
    hops: u32,
    events: Vec<TraceEvent>,
    /// Receivers beyond those that are noted.
    left_out: u64,
    /// Moment at which the message had been everywhere, if spans need it.
    published_at: Option<Instant>,
    /// Parties that may still have something to say: the publisher, and streams.
    open: usize,
}

#[derive(Serialize)]
struct TracedRequest {
    header: BTreeMap<String, Vec<String>>,
    msgsize: usize,
}

#[derive(Serialize)]
struct TraceEvent {
    #[serde(rename = "type")]
    kind: &'static str,
    ts: String,
    #[serde(flatten)]
    what: What,
    /// Moment of the event, and of its end if that is another: as good as spans need it.
    #[serde(skip)]
    at: Instant,
    #[serde(skip)]
    until: Option<Instant>,
}

/// The fields of each kind, in the reference's order.
#[derive(Serialize)]
#[serde(untagged)]
enum What {
    Ingress {
        kind: u8,
        cid: u64,
        #[serde(skip_serializing_if = "String::is_empty")]
        name: String,
        acc: String,
        subj: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    Mapping {
        to: String,
    },
    StreamExport {
        acc: String,
        to: String,
    },
    ServiceImport {
        acc: String,
        from: String,
        to: String,
    },
    JetStream {
        stream: String,
        #[serde(skip_serializing_if = "String::is_empty")]
        subject: String,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        nointerest: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// The stream has not said yet what it did.
        #[serde(skip)]
        is_open: bool,
        /// Sequence in the stream. Compat: spans have it, documents do not.
        #[serde(skip)]
        seq: Option<u64>,
    },
    Egress {
        kind: u8,
        cid: u64,
        #[serde(skip_serializing_if = "String::is_empty")]
        name: String,
        /// Number of the hop, of another server.
        #[serde(skip_serializing_if = "String::is_empty")]
        hop: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        acc: Option<String>,
        #[serde(skip_serializing_if = "String::is_empty")]
        sub: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        queue: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'static str>,
    },
}

/// Numbers of clients and of links among the kinds of connections.
const CLIENT: u8 = 0;
const ROUTER: u8 = 1;
const GATEWAY: u8 = 2;
const LEAF: u8 = 4;

fn kind_of(conn: &Conn) -> u8 {
    match conn.is_link() {
        true if conn.leaf().is_some() => LEAF,
        true if conn.gateway().is_some() => GATEWAY,
        true => ROUTER,
        false => CLIENT,
    }
}

/// The whole document.
#[derive(Serialize)]
struct TraceReport<'a> {
    server: ServerInfo,
    request: &'a TracedRequest,
    #[serde(skip_serializing_if = "myelin_wire::json::is_zero")]
    hops: u32,
    events: &'a [TraceEvent],
}

impl MessageTrace {
    /// Begins the trace of a message of `size` bytes that `conn` publishes.
    pub(crate) fn begin(
        server: &Arc<OwnIdentity>,
        (conn, account): (&Conn, &Arc<Account>),
        wish: TraceWish,
        (subject, size): (&[u8], usize),
        now: Instant,
    ) -> Arc<Self> {
        let TraceWish { headers: asked, destination, spans } = wish;
        let is_of_service = spans.as_ref().is_some_and(SpanOrigin::is_of_service);
        let trace = Self {
            server: Arc::clone(server),
            account: Arc::clone(account),
            destination,
            is_only: asked.is_only,
            hop: asked.value(HOP).filter(|_| conn.is_link()).unwrap_or_default().to_owned(),
            encoding: Encoding::accepted(asked.value(encoding::ACCEPT).unwrap_or_default().as_bytes()),
            now,
            ts: rfc3339::of_system_time(server.wall(now)),
            spans,
            story: Mutex::new(Story {
                request: TracedRequest { header: asked.headers, msgsize: size },
                hops: 0,
                events: Vec::new(),
                left_out: 0,
                published_at: None,
                open: 1,
            }),
        };
        if is_of_service {
            return Arc::new(trace);
        }
        let (cid, acc, subj) = (conn.cid(), account.name().to_owned(), text(subject));
        let (kind, name) = (kind_of(conn), name_of(conn));
        trace.note("in", What::Ingress { kind, cid, name, acc, subj, error: None });
        Arc::new(trace)
    }

    /// Whether nobody is to get the message.
    #[must_use]
    pub fn is_only(&self) -> bool {
        self.is_only
    }

    /// Whether somebody is told of the message by a document: then the account's rules about
    /// traces hold.
    #[must_use]
    pub(crate) fn is_told(&self) -> bool {
        self.destination.is_some()
    }

    /// The moment, as far as anybody wants to know.
    fn moment(&self) -> Instant {
        self.spans.as_ref().map_or(self.now, SpanOrigin::now)
    }

    fn event(&self, kind: &'static str, what: What) -> TraceEvent {
        let ts = if self.is_told() { self.ts.clone() } else { String::new() };
        TraceEvent { kind, ts, what, at: self.moment(), until: None }
    }

    fn note(&self, kind: &'static str, what: What) {
        lock(&self.story).events.push(self.event(kind, what));
    }

    /// The message is refused.
    pub(crate) fn refused(&self, why: String) {
        if let Some(TraceEvent { what: What::Ingress { error, .. }, .. }) =
            lock(&self.story).events.first_mut()
        {
            *error = Some(why);
        }
    }

    pub(crate) fn mapped(&self, to: &[u8]) {
        self.note("sm", What::Mapping { to: text(to) });
    }

    /// Notes that the message reaches a subscription of another account, under this name.
    pub(crate) fn exported(&self, sub: &Subscription, to: &[u8]) {
        self.exported_to(&account_of(sub.conn()), to);
    }

    /// Notes that the message reaches somebody in another account, under this name.
    pub(crate) fn exported_to(&self, account: &str, to: &[u8]) {
        self.note("se", What::StreamExport { acc: account.to_owned(), to: text(to) });
    }

    /// Notes that the message is a request to another account.
    pub(crate) fn imported(&self, account: &str, from: &[u8], to: &[u8]) {
        self.note("si", What::ServiceImport { acc: account.to_owned(), from: text(from), to: text(to) });
    }

    /// Somebody listens, and gets it or not.
    pub(crate) fn reached(&self, sub: &Subscription, error: Option<Withheld>) {
        if !self.has_room(&mut lock(&self.story)) {
            return;
        }
        let acc = Some(account_of(sub.conn())).filter(|name| name != self.account.name());
        let queue = sub.queue().filter(|queue| !queue.is_empty()).map(text);
        let (cid, name) = (sub.conn().cid(), name_of(sub.conn()));
        let (sub, error) = (text(sub.subject()), error.map(Withheld::text));
        let hop = String::new();
        self.note("eg", What::Egress { kind: CLIENT, cid, name, hop, acc, sub, queue, error });
    }

    /// Number of the next hop to another server.
    pub(crate) fn next_hop(&self) -> String {
        let mut story = lock(&self.story);
        story.hops += 1;
        let dot = if self.hop.is_empty() { "" } else { "." };
        format!("{}{dot}{}", self.hop, story.hops)
    }

    /// Another server gets it by this hop, or not; an empty hop is none.
    pub(crate) fn reached_server(&self, conn: &Conn, hop: String, error: Option<Withheld>) {
        let (cid, name, sub, error) = (conn.cid(), name_of(conn), String::new(), error.map(Withheld::text));
        let (acc, queue) = (None, None);
        self.note("eg", What::Egress { kind: kind_of(conn), cid, name, hop, acc, sub, queue, error });
    }

    /// The account in which it is published, and where.
    pub(crate) fn destination(&self) -> (Arc<Account>, Box<[u8]>) {
        (Arc::clone(&self.account), self.destination.as_deref().unwrap_or_default().into())
    }

    /// A stream gets it, and is to say what it does: see [`Traced::settled`].
    pub(crate) fn handed_to(self: &Arc<Self>, stream: &str) -> Traced {
        let stream = stream.to_owned();
        let (subject, nointerest, error) = (String::new(), false, None);
        let what = What::JetStream { stream, subject, nointerest, error, is_open: true, seq: None };
        let event = self.event("js", what);
        let mut story = lock(&self.story);
        story.open += 1;
        story.events.push(event);
        Traced::new(Arc::clone(self) as Arc<dyn TraceRecord>, story.events.len() - 1)
    }

    /// The message has been everywhere. Answers what [`Traced::settled`] does.
    #[must_use]
    pub(crate) fn published(&self) -> bool {
        let mut story = lock(&self.story);
        story.published_at = self.spans.as_ref().map(SpanOrigin::now);
        self.has_closed_one(&mut story)
    }

    /// One party has said all that it has to say. Whether the document can be published now.
    fn has_closed_one(&self, story: &mut Story) -> bool {
        story.open -= 1;
        if story.open > 0 {
            return false;
        }
        self.hand_over_spans(story);
        self.is_told()
    }

    fn report(&self) -> Vec<u8> {
        let server = self.server.server_info(self.server.wall(self.now));
        let Story { request, hops, events, .. } = &*lock(&self.story);
        compact(&TraceReport { server, request, hops: *hops, events })
    }
}

impl TraceRecord for MessageTrace {
    fn is_only(&self) -> bool {
        self.is_only
    }

    fn settle(&self, event: usize, outcome: Result<StoredAs<'_>, String>) -> bool {
        let moment = self.spans.as_ref().map(SpanOrigin::now);
        let mut story = lock(&self.story);
        let Some(TraceEvent { what, until, .. }) = story.events.get_mut(event) else { return false };
        let What::JetStream { subject, nointerest, error, is_open, seq, .. } = what else { return false };
        if !std::mem::take(is_open) {
            return false;
        }
        *until = moment;
        match outcome {
            Ok(stored) => {
                (*subject, *nointerest, *seq) = (text(stored.subject), stored.is_unwanted, stored.seq);
            }
            Err(why) => *error = Some(why),
        }
        self.has_closed_one(&mut story)
    }
}

impl Service for MessageTrace {
    fn serve(&self, _: &mut ServiceBatch, shard: &mut ServiceShard) {
        let Some(destination) = &self.destination else { return };
        let report = self.report();
        let (headers, payload) = match self.encoding {
            None => (&b""[..], report),
            Some(encoding) => (encoding.headers(), encoding.encode(&report)),
        };
        let mut msgs = MessageBuf::default();
        msgs.push(MessageRef { subject: destination, headers, payload: &payload, ..MessageRef::default() });
        shard.send(&self.account, &mut msgs, self.now);
    }
}

fn name_of(conn: &Conn) -> String {
    conn.look(|details| details.name().to_owned())
}

fn account_of(conn: &Conn) -> String {
    conn.look(|details| (*details.account).to_owned())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
