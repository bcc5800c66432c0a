//! Publishing for services: acknowledgements, answers, republished messages, deliveries.
//!
//! Perf: deliveries, of which there are thousands in a buffer, mostly go to one client each time:
//! who that is, is found once for each address of the buffer (`AddressTargets`), and the frames
//! that the buffer holds are staged as they are. Rows `c-ordered-*`, `c-fetch-none`.

use super::route::{RouteScope, RouteTarget};
use super::routed::may_ask_for_trace;
use super::rules::{Access, access};
use super::source::Via;
use super::{PubMessage, Publisher, Shard};
use crate::account::Account;
use crate::log::Level;
use crate::message_trace::TraceWish;
use crate::subscription::Subscription;
use myelin_auth::Permissions;
use myelin_wire::encode;
use myelin_wire::message_buf::{Framed, MessageBuf, MessageRef};
use myelin_wire::message_trace;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Instant;

/// Buffers that are kept from one message to the next.
#[derive(Default)]
pub(super) struct Rendering {
    pub(super) body: Vec<u8>,
    pub(super) tail: Vec<u8>,
    header_len: Vec<u8>,
    size: Vec<u8>,
}

impl Rendering {
    /// Headers and payload in one piece, and everything of a frame behind the sid.
    fn render<'a>(&'a mut self, msg: &MessageRef<'a>) -> (&'a [u8], &'a [u8]) {
        let MessageRef { reply, headers, payload, .. } = *msg;
        self.tail.clear();
        self.header_len.clear();
        self.size.clear();
        if !headers.is_empty() {
            encode::number(&mut self.header_len, headers.len());
        }
        encode::number(&mut self.size, headers.len() + payload.len());
        self.body.clear();
        let body = if headers.is_empty() {
            payload
        } else {
            self.body.extend_from_slice(headers);
            self.body.extend_from_slice(payload);
            &self.body
        };
        encode::tail(&mut self.tail, reply, &self.header_len, &self.size, body);
        (body, &self.tail)
    }
}

/// Receivers of each address of a buffer, as far as that was asked.
struct AddressTargets(SmallVec<[Option<AddressTarget>; 4]>);

/// Receiver of an address.
enum AddressTarget {
    /// One subscription, and nobody else, for all messages.
    Sole(Sole),
    /// Receivers that are to be found for each message.
    Others,
}

/// The only subscription that gets what goes to an address.
struct Sole {
    sub: Arc<Subscription>,
    /// `<sid> `
    sid: SmallVec<[u8; 16]>,
    headers: bool,
    /// Messages that it got.
    messages: u64,
}

impl Sole {
    /// Whether it gets the frame as it is.
    fn takes(&self, frame: &Framed<'_>) -> bool {
        self.headers || frame.header_len == 0
    }
}

impl Shard {
    /// A number below `below`.
    pub(crate) fn draw(&mut self, below: u64) -> u64 {
        self.rng.below(below)
    }

    /// Whether who has these permissions may publish to `subject`, mapped or not.
    pub(crate) fn may_publish(
        &self,
        account: &Arc<Account>,
        permissions: Option<&Arc<Permissions>>,
        subject: &[u8],
    ) -> bool {
        let scope = RouteScope { account, permissions, is_mapped: false, is_imported: false, via: Via::Here };
        access(scope, subject) == Access::Allowed
    }

    /// An empty buffer for what a service has to say, with the memory of those before.
    pub fn spare_buf(&mut self) -> MessageBuf {
        self.queue.spare()
    }

    /// Takes the memory of a buffer back.
    pub fn keep_buf(&mut self, msgs: MessageBuf) {
        self.queue.recycle_buf(msgs);
    }

    /// Publishes messages of a service in `account`, in order, and empties the buffer. What
    /// subscribers get is staged.
    pub fn send(&mut self, account: &Arc<Account>, msgs: &mut MessageBuf, now: Instant) {
        self.send_with(None, account, msgs, now);
    }

    /// Publishes the requests of auth callout, which nobody but the server may, in `account`, and
    /// empties the buffer.
    pub fn send_auth_request(&mut self, account: &Arc<Account>, msgs: &mut MessageBuf, now: Instant) {
        let rights = self.broker.callouts().map(|callouts| Arc::clone(callouts.rights()));
        self.send_with(rights.as_ref(), account, msgs, now);
    }

    fn send_with(
        &mut self,
        permissions: Option<&Arc<Permissions>>,
        account: &Arc<Account>,
        msgs: &mut MessageBuf,
        now: Instant,
    ) {
        let conn = Arc::clone(self.broker.services());
        let logs_protocol = self.broker.log().enabled(Level::Trace);
        // Perf: one look for each buffer, and none for each message, where there are no spans.
        let makes_spans = self.broker.spans.is_on();
        let is_watched = logs_protocol || makes_spans;
        let from = Publisher { permissions, logs_protocol, ..Publisher::internal(&conn, account, now) };
        let mut rendering = std::mem::take(&mut self.rendering);
        let mut receivers = AddressTargets((0..msgs.addresses()).map(|_| None).collect());
        for at in 0..msgs.len() {
            let framed = msgs.framed(at);
            if let Some(framed) = &framed
                && !(is_watched && (logs_protocol || may_have_spans(framed)))
                && self.deliver(account, &mut receivers, msgs, framed)
            {
                continue;
            }
            let Some(msg) = msgs.get(at) else { break };
            let MessageRef { to, subject, reply, headers, .. } = msg;
            let (body, tail) = match &framed {
                Some(framed) => (framed.body, framed.tail),
                None => rendering.render(&msg),
            };
            let message =
                PubMessage { to, subject, reply, header_len: headers.len(), body, tail, shared_tail: None };
            if makes_spans && may_ask_for_trace(&message) {
                self.send_with_spans(from, message, &msg);
                continue;
            }
            // A service is refused nothing, and to pause it is its own business.
            let _ = self.publish_onward(from, message);
        }
        for receiver in receivers.0.into_iter().flatten() {
            if let AddressTarget::Sole(sole) = receiver {
                sole.sub.count(sole.messages);
            }
        }
        msgs.clear();
        self.rendering = rendering;
    }

    /// Publishes a message of a service that seems to have a span of another system's.
    #[cold]
    #[inline(never)]
    fn send_with_spans(&mut self, from: Publisher<'_>, message: PubMessage<'_>, msg: &MessageRef<'_>) {
        let Some(spans) = self.broker.spans.begin(msg.headers) else {
            let _ = self.publish_onward(from, message);
            return;
        };
        self.broker.spans.await_acknowledgement(&spans, msg.reply);
        self.publish_told(from, message, TraceWish::of_spans(spans.of_service(msg)));
    }

    /// Stages a frame for the only one who gets it. False: it is to be published like others.
    #[inline]
    fn deliver(
        &mut self,
        account: &Arc<Account>,
        receivers: &mut AddressTargets,
        msgs: &MessageBuf,
        framed: &Framed<'_>,
    ) -> bool {
        let Some(address) = framed.address else { return false };
        let Some(known) = receivers.0.get_mut(address) else { return false };
        let receiver = known.get_or_insert_with(|| self.receiver(account, msgs.address(address)));
        let AddressTarget::Sole(sole) = receiver else { return false };
        if !sole.takes(framed) {
            return false;
        }
        let parts = [framed.head, &sole.sid, framed.tail];
        let size = framed.body.len();
        let placed = self.staging.parts(sole.sub.conn(), parts, size, &mut self.pool, &self.settings);
        if placed.stalled {
            self.count_stall(u64::from(placed.dropped));
        }
        sole.messages += 1;
        true
    }

    /// Finds the receiver of `to`.
    #[inline(never)]
    fn receiver(&mut self, account: &Arc<Account>, to: &[u8]) -> AddressTarget {
        let scope =
            RouteScope { account, permissions: None, is_mapped: false, is_imported: false, via: Via::Here };
        let route = self.routes.find(scope, to, self.staging.cohorts());
        match &route.targets[..] {
            [RouteTarget::Client(delivery)]
                if route.access == Access::Allowed
                    && route.groups.is_empty()
                    && route.services.is_empty()
                    && route.remote.is_none()
                    && !delivery.careful
                    // Each subject that it is shown would be looked at.
                    && !delivery.sub.conn().is_filtered() =>
            {
                let mut sid = SmallVec::from_slice(delivery.sub.sid());
                sid.push(b' ');
                let headers = delivery.sub.conn().headers();
                AddressTarget::Sole(Sole { sub: Arc::clone(&delivery.sub), sid, headers, messages: 0 })
            }
            _ => AddressTarget::Others,
        }
    }
}

/// Whether the headers of a frame seem to have a span of another system's.
#[cold]
#[inline(never)]
fn may_have_spans(framed: &Framed<'_>) -> bool {
    framed.header_len > 0 && message_trace::may_ask(&framed.body[..framed.header_len])
}
