//! Messages that go on under another subject: by the account's mappings, or into another account by
//! an import.
//!
//! A request that goes into another account leaves its reply behind: there, answers are expected at
//! a subject of that account's own, and come back by it. Each step is a publish of its own, with a
//! route of its own; the original publisher stays the same through all of them, so that it gets no
//! echo, and says what receivers learn of it.
//!
//! Budget of a step with cached routes: no allocation but for what waits for an answer and the
//! header that says who asks, no lock but those of the table of awaited answers and of the
//! requester's details.

use super::Shard;
use super::Source;
use super::fanout::traced::Marked;
use super::fanout::{self, PubMessage, Published, Publisher};
use crate::account::Account;
use crate::imports::{
    self, Awaited, Cause, INFO_HEADER, Outcome, RequestInfo, ServiceLink, StreamLink, Ticket, Tracked,
};
use crate::message_trace::MessageTrace;
use crate::protocol_log::Direction;
use crate::service::{ServiceMember, ServiceTarget};
use myelin_wire::encode;
use myelin_wire::header;
use std::borrow::Cow;
use std::sync::Arc;

/// More accounts than this no message goes through.
const MAX_HOPS: usize = 64;

/// Replies that stay as they are: acknowledgements are addressed to a consumer, and who
/// acknowledges imports that subject.
const ACKNOWLEDGEMENT: &[u8] = b"$JS.ACK.";

/// A step that a message has come by.
pub(crate) struct Hop<'a> {
    link: &'a Arc<ServiceLink>,
    /// Request information about the requester; a response has none.
    info: Option<RequestInfo>,
    /// Whether the first account of the way shares who asks.
    is_shared: bool,
    before: Option<&'a Self>,
}

impl Hop<'_> {
    /// Whether a message that has come by this may go on by `link`.
    fn allows(&self, link: &ServiceLink) -> bool {
        let mut steps = std::iter::successors(Some(self), |hop| hop.before);
        !steps.by_ref().take(MAX_HOPS).any(|hop| hop.link.shares_export_with(link)) && steps.next().is_none()
    }
}

/// Buffers that are kept from one message to the next.
#[derive(Default)]
pub(super) struct Rendering {
    pub(super) subject: Vec<u8>,
    reply: Vec<u8>,
    /// Headers and payload.
    body: Vec<u8>,
    tail: Vec<u8>,
    digits: [Vec<u8>; 2],
}

impl Rendering {
    /// Renders everything of a frame behind the sid.
    fn render_tail(&mut self, reply: &[u8], header_len: usize, body: &[u8]) {
        self.digits.iter_mut().for_each(Vec::clear);
        if header_len > 0 {
            encode::number(&mut self.digits[0], header_len);
        }
        encode::number(&mut self.digits[1], body.len());
        self.tail.clear();
        encode::tail(&mut self.tail, reply, &self.digits[0], &self.digits[1], body);
    }

    /// Renders the body of `message` with what is said of its requester, and answers the length of
    /// its headers.
    fn render_body(&mut self, message: &PubMessage<'_>, info: &RequestInfo) -> usize {
        let (headers, payload) = message.body.split_at(message.header_len);
        self.body.clear();
        header::replace(&mut self.body, headers, INFO_HEADER, &info.json());
        let header_len = self.body.len();
        self.body.extend_from_slice(payload);
        header_len
    }
}

impl Shard {
    /// Publishes a message under the subject to which the account maps it.
    #[inline(never)]
    pub(super) fn publish_mapped(
        &mut self,
        from: Publisher<'_>,
        message: PubMessage<'_>,
        memory: Rendering,
    ) -> Published {
        if from.logs_protocol && from.hop.is_none() {
            let [subject, mapped] = [message.address(), &memory.subject].map(String::from_utf8_lossy);
            // Compat: there it comes before the payload's line.
            self.broker.log_protocol_line(
                from.conn,
                Direction::In,
                format_args!("MAPPING {subject} -> {mapped}"),
            );
        }
        if let (Some(trace), None) = (from.trace, from.hop) {
            trace.mapped(&memory.subject);
        }
        let from = Publisher { is_mapped: false, ..from };
        let published = self.publish_onward(from, message.addressed_to(&memory.subject));
        self.hop_buffers.push(memory);
        published
    }

    /// Publishes a message under a subject that is drawn for each message.
    #[inline(never)]
    pub(super) fn publish_weighted(&mut self, from: Publisher<'_>, message: PubMessage<'_>) -> Published {
        let mut memory = self.hop_buffers.pop().unwrap_or_default();
        let rng = &mut self.rng;
        let mut draw = || (rng.next_u64() >> 32) as u32;
        if !from.account.imports.map(message.address(), &mut draw, &mut memory.subject) {
            // The mappings have changed in this moment.
            memory.subject.clear();
            memory.subject.extend_from_slice(message.address());
        }
        self.publish_mapped(from, message, memory)
    }

    /// Hands a message to other accounts.
    #[inline(never)]
    pub(super) fn route_imports(
        &mut self,
        from: &Publisher<'_>,
        message: &PubMessage<'_>,
        imported: &[ServiceTarget],
        outcome: &mut fanout::Outcome,
    ) {
        for receiver in imported {
            let mut memory = self.hop_buffers.pop().unwrap_or_default();
            let published = match receiver {
                ServiceTarget::Import(link) => self.route_request(from, message, link, &mut memory),
                ServiceTarget::Requesters => self.route_response(from, message, &mut memory),
                ServiceTarget::Measurers => {
                    self.tell_latency(from, message.address());
                    None
                }
                ServiceTarget::Leafs(link) => self.route_stream(from, message, link, &mut memory),
                ServiceTarget::Member(member) => self.hand_to_member(from, message, member),
                // Only what is traced comes here for one.
                ServiceTarget::Service(service) => {
                    from.trace.and_then(|trace| self.hand_traced(from, message, (service, trace)))
                }
            };
            self.hop_buffers.push(memory);
            if let Some(Published::Done { delivered, stalled }) = published {
                outcome.delivered |= delivered;
                outcome.stalled |= stalled;
            }
        }
    }

    /// Hands a message to a service that is a member of a queue group, unless it is for another
    /// group.
    fn hand_to_member(
        &mut self,
        from: &Publisher<'_>,
        message: &PubMessage<'_>,
        member: &ServiceMember,
    ) -> Option<Published> {
        let is_meant = match from.source {
            Source::Route { queues, .. } | Source::Gateway { queues, .. } => queues.contains(member.queue()),
            // Leaf nodes that are told of less than single services have chosen nobody.
            Source::Leaf { queues, .. } => queues.is_empty() || queues.contains(member.queue()),
            _ => true,
        };
        match from.trace {
            _ if !is_meant => None,
            Some(trace) => self.hand_traced(from, message, (&member.service, trace)),
            None => {
                self.queue.push(&member.service, message.msg(), from.conn);
                Some(Published::Done { delivered: true, stalled: false })
            }
        }
    }

    /// A message of a stream to leaf nodes and hubs of an account that imports it.
    ///
    /// Compat: they get requests for a service of this account, too; clients that import the stream
    /// do not.
    fn route_stream(
        &mut self,
        from: &Publisher<'_>,
        message: &PubMessage<'_>,
        link: &StreamLink,
        memory: &mut Rendering,
    ) -> Option<Published> {
        let importer = self.broker.account(link.stream.importer())?;
        link.stream.naming().write(message.address(), &mut memory.subject);
        let mut there = Publisher {
            account: &importer,
            permissions: None,
            verbose: false,
            no_responders: false,
            is_service: true,
            is_mapped: false,
            source: from.source.of_stream(),
            ..*from
        };
        if let Some(trace) = from.trace.filter(|trace| trace.is_told() && !link.stream.allows_trace()) {
            // Compat: the trace ends with the import, and the message goes on as it is.
            if trace.is_only() {
                return None;
            }
            there.trace = None;
        }
        Some(self.publish_onward(there, message.addressed_to(&memory.subject)))
    }

    /// A request into the account that exports the service.
    fn route_request(
        &mut self,
        from: &Publisher<'_>,
        message: &PubMessage<'_>,
        link: &Arc<ServiceLink>,
        memory: &mut Rendering,
    ) -> Option<Published> {
        if from.hop.is_some_and(|hop| !hop.allows(link)) {
            return None;
        }
        link.naming().write(message.address(), &mut memory.subject);
        let is_shared = from.hop.map_or(link.shares(), |hop| hop.is_shared);
        let info = self.request_info(from, link, is_shared).with_reply(message.reply);
        let header_len = memory.render_body(message, &info);
        let cause = self.sample(link, message);
        let ticket = self.expect_response(from, message, link, cause, &mut memory.reply);
        let (reply, body) = (std::mem::take(&mut memory.reply), std::mem::take(&mut memory.body));
        memory.render_tail(&reply, header_len, &body);
        let hop = Hop { link, info: Some(info), is_shared, before: from.hop };
        let asked = from.now;
        let there = PubMessage {
            reply: &reply,
            header_len,
            body: &body,
            tail: &memory.tail,
            shared_tail: None,
            ..*message
        };
        let source = from.source.of_request();
        let from = Publisher { source, ..imported(from, &link.exporter, &hop) };
        let published = match from.trace.filter(|trace| trace.is_told()) {
            None => self.publish_onward(from, there.addressed_to(&memory.subject)),
            Some(trace) => {
                self.route_traced_request(trace, from, (message.address(), &memory.subject), &there)
            }
        };
        if let (Some(ticket), Published::Done { delivered: false, .. }) = (ticket, &published)
            && let Some(awaited) = link.exporter.imports.replies.close(ticket)
        {
            self.report_unanswered(&awaited, Outcome::Unavailable, asked);
        }
        (memory.reply, memory.body) = (reply, body);
        Some(published)
    }

    /// A request that is traced, on its way from `here` to `there`, where it is called so.
    #[cold]
    fn route_traced_request(
        &mut self,
        trace: &Arc<MessageTrace>,
        there: Publisher<'_>,
        (subject, called): (&[u8], &[u8]),
        message: &PubMessage<'_>,
    ) -> Published {
        let (imports, link) = (&there.account.imports, there.hop.map(|hop| hop.link));
        let mut mapped = Vec::new();
        // Where mappings draw, one of those that could be.
        let is_mapped = imports.has_mappings() && imports.map(called, &mut || 0, &mut mapped);
        trace.imported(there.account.name(), subject, if is_mapped { &mapped } else { called });
        if !link.is_some_and(|link| link.allows_trace()) {
            if trace.is_only() {
                return Published::Done { delivered: false, stalled: false };
            }
            let marked = Marked::untraced(message);
            return self
                .publish_onward(Publisher { trace: None, ..there }, marked.of(message).addressed_to(called));
        }
        // Who answers the request learns no subject of the account that asks. What other servers
        // tell of it comes back by it.
        let mut destination = Vec::new();
        match link.filter(|_| self.broker.links.has_any()) {
            Some(link) => self.broker.await_traces(trace, link, there.now, &mut destination),
            None => {
                let id = self.broker.unique_id();
                destination = format!("_R_.{}.{}", &id[..6], &id[6..12]).into_bytes();
            }
        }
        let marked = Marked::toward(message, &destination);
        self.publish_onward(there, marked.of(message).addressed_to(called))
    }

    /// Request information that the exporting account gets.
    fn request_info(&self, from: &Publisher<'_>, link: &ServiceLink, is_shared: bool) -> RequestInfo {
        let name = from.account.name();
        let said = from.hop.and_then(|hop| hop.info.as_ref());
        let info = match said {
            Some(info) => info.through(name),
            None => RequestInfo::of(&self.broker, name, from.conn, is_shared),
        };
        let learns_server = said.is_some() && link.shares() || link.exporter.is_system();
        if !is_shared && learns_server { info.with_server(&self.broker) } else { info }
    }

    /// Whether the request is measured, and because of which headers.
    fn sample(&mut self, link: &ServiceLink, message: &PubMessage<'_>) -> Option<Cause> {
        let latency = link.latency()?;
        latency.samples(&message.body[..message.header_len], self.rng.below(100))
    }

    /// Sees to it that an answer finds its way back, and writes where it is to go: nowhere without
    /// a reply.
    fn expect_response(
        &mut self,
        from: &Publisher<'_>,
        message: &PubMessage<'_>,
        link: &Arc<ServiceLink>,
        cause: Option<Cause>,
        reply: &mut Vec<u8>,
    ) -> Option<Ticket> {
        reply.clear();
        let tracked = cause.map(|cause| Arc::new(Tracked { conn: Arc::clone(from.conn), cause }));
        if message.reply.is_empty() && tracked.is_some() {
            let (link, requester) = (Arc::clone(link), Arc::clone(from.account));
            let (reply, since, is_trace) = (Box::default(), from.now, false);
            let awaited = Awaited { link, requester, reply, since, tracked, is_trace };
            self.report_unanswered(&awaited, Outcome::BadRequest, from.now);
            return None;
        }
        if message.reply.is_empty() || message.reply.starts_with(ACKNOWLEDGEMENT) {
            reply.extend_from_slice(message.reply);
            return None;
        }
        let awaited = Awaited {
            link: Arc::clone(link),
            requester: Arc::clone(from.account),
            reply: message.reply.into(),
            since: from.now,
            // Compat: only what has one answer is measured.
            tracked: tracked.filter(|_| link.is_singleton()),
            is_trace: false,
        };
        let is_tracked = awaited.tracked.is_some();
        let ticket = self.broker.await_answer(&link.exporter, awaited, reply);
        if is_tracked && let Some(node) = self.broker.cluster.measuring_node() {
            reply.extend_from_slice(&imports::suffix(node));
        }
        Some(ticket)
    }

    /// An answer into the account of whoever waits for it.
    fn route_response(
        &mut self,
        from: &Publisher<'_>,
        message: &PubMessage<'_>,
        memory: &mut Rendering,
    ) -> Option<Published> {
        let (account, is_last) = (from.account, message.body.is_empty());
        let (ticket, awaited) =
            account.imports.replies.route_response(message.address(), is_last, from.now)?;
        let asked = awaited.since;
        let Awaited { link, requester, reply: to, tracked, .. } = awaited;
        if from.hop.is_some_and(|hop| !hop.allows(&link)) {
            return None;
        }
        let hop = Hop { link: &link, info: None, is_shared: link.shares(), before: from.hop };
        let there = Publisher { trace: None, ..imported(from, &requester, &hop) };
        let (marked, marking);
        let mut message = message;
        if let Some(trace) = from.trace.filter(|trace| trace.is_told()) {
            // Compat: traces do not go back with answers.
            trace.imported(requester.name(), message.address(), &to);
            if trace.is_only() {
                account.imports.replies.close(ticket);
                return None;
            }
            marked = Marked::untraced(message);
            marking = marked.of(message);
            message = &marking;
        }
        let is_kept = message.reply.is_empty() || message.reply.starts_with(ACKNOWLEDGEMENT);
        let published = if is_kept {
            self.publish_onward(there, message.addressed_to(&to))
        } else {
            // Who answers may ask in turn, and the requester's answer comes the same way back.
            let mut reply = std::mem::take(&mut memory.reply);
            reply.clear();
            let back = Awaited {
                link: Arc::clone(&link),
                requester: Arc::clone(account),
                reply: message.reply.into(),
                since: from.now,
                tracked: None,
                is_trace: false,
            };
            let question = self.broker.await_answer(&requester, back, &mut reply);
            memory.render_tail(&reply, message.header_len, message.body);
            let asking = PubMessage { reply: &reply, tail: &memory.tail, shared_tail: None, ..*message };
            let published = self.publish_onward(there, asking.addressed_to(&to));
            if let Published::Done { delivered: false, .. } = published {
                requester.imports.replies.close(question);
            }
            memory.reply = reply;
            published
        };
        if let Published::Done { delivered: false, .. } = published {
            account.imports.replies.close(ticket);
        }
        if let Some(tracked) = tracked {
            self.report_answered(from, message.address(), (link, requester, tracked), asked);
        }
        Some(published)
    }
}

/// Publisher in another account on behalf of `from`, where nobody asks for its permissions.
fn imported<'a>(from: &Publisher<'a>, account: &'a Arc<Account>, hop: &'a Hop<'a>) -> Publisher<'a> {
    Publisher {
        account,
        permissions: None,
        verbose: false,
        no_responders: false,
        is_service: true,
        is_mapped: true,
        hop: Some(hop),
        // What becomes of it is published here.
        source: Source::Here,
        ..*from
    }
}

impl<'a> PubMessage<'a> {
    /// The subject that decides who gets it.
    pub(super) fn address(&self) -> &'a [u8] {
        if self.to.is_empty() { self.subject } else { self.to }
    }

    /// The reply as it travels to another server, behind a prefix where answers come from another
    /// cluster. Compat: the subject that receivers see, where it is not the `address`, travels
    /// behind the reply.
    pub(super) fn reply_on_link(&self, prefix: Option<&[u8]>, address: &[u8]) -> Cow<'a, [u8]> {
        let is_renamed = !self.to.is_empty() && self.subject != address && !self.reply.is_empty();
        match (is_renamed, prefix) {
            (false, None) => Cow::Borrowed(self.reply),
            (true, prefix) => {
                Cow::Owned([prefix.unwrap_or_default(), self.reply, b"@", self.subject].concat())
            }
            (false, Some(prefix)) => Cow::Owned([prefix, self.reply].concat()),
        }
    }

    /// Addresses the message to other receivers. Where receivers are shown another subject than it
    /// is routed by, they still are.
    fn addressed_to<'b>(&self, subject: &'b [u8]) -> PubMessage<'b>
    where
        'a: 'b,
    {
        if self.to.is_empty() { PubMessage { subject, ..*self } } else { PubMessage { to: subject, ..*self } }
    }
}
