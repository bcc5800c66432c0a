//! Fan-out: one published message to everything that its route names.
//!
//! Order within one message: plain subscriptions first, then one member of each queue group.

mod logged;
pub(super) mod traced;

use super::Shard;
use super::asking_cluster::ServedMessage;
use super::route::{ClientTarget, CohortTarget, Route, RouteScope, RouteTarget};
use super::rules::Access;
use super::service_import::Hop;
use super::service_queue::ServiceQueue;
use super::source::Source;
use super::staging::{FrameParts, Placed, Staging};
use crate::account::Account;
use crate::broker::Broker;
use crate::conn::Conn;
use crate::log::Level;
use crate::message_trace::MessageTrace;
use crate::protocol_log::Direction;
use crate::service::ServiceTarget;
use crate::settings::Settings;
use crate::subscription::{Admission, Subscription};
use bytes::Bytes;
use myelin_auth::Permissions;
use myelin_stdx::rng::Rng;
use myelin_stdx::sync::lock;
use myelin_wire::encode;
use myelin_wire::error::ErrorText;
use myelin_wire::message_buf::MessageRef;
use myelin_wire::peer::parser::QueueNames;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use traced::trace_denied;

/// A message of at least this size for at least so many targets is copied once and shared: a copy
/// for each could be gigabytes.
const COPY_ONCE: usize = 4 * 1024;
const MANY: usize = 16;

/// A message as it came, ready to be passed on.
#[derive(Clone, Copy)]
pub(crate) struct PubMessage<'a> {
    /// The subject that decides who gets it, where that is not `subject`; else empty.
    pub(crate) to: &'a [u8],
    /// Subject that receivers see.
    pub(crate) subject: &'a [u8],
    pub(crate) reply: &'a [u8],
    pub(crate) header_len: usize,
    /// Header block and payload.
    pub(crate) body: &'a [u8],
    /// Everything of the frame behind the sid.
    pub(crate) tail: &'a [u8],
    /// The tail in memory that receivers can share, if it is worth it.
    pub(crate) shared_tail: Option<&'a Bytes>,
}

impl<'a> PubMessage<'a> {
    pub(super) fn msg(&self) -> MessageRef<'a> {
        let (headers, payload) = self.body.split_at(self.header_len);
        MessageRef { to: self.to, subject: self.subject, reply: self.reply, headers, payload }
    }
}

/// Publisher of a message: a client, a service, or another account.
#[derive(Clone, Copy)]
pub(crate) struct Publisher<'a> {
    pub(crate) conn: &'a Arc<Conn>,
    pub(crate) account: &'a Arc<Account>,
    pub(crate) permissions: Option<&'a Arc<Permissions>>,
    pub(crate) echo: bool,
    pub(crate) verbose: bool,
    pub(crate) no_responders: bool,
    /// Whether protocol lines are logged, as of the batch's start.
    pub(crate) logs_protocol: bool,
    pub(crate) now: Instant,
    /// A service, or another account by an import: it may publish and reply to any subject.
    pub(crate) is_service: bool,
    /// Whether the account's subject mappings apply.
    pub(crate) is_mapped: bool,
    /// How the message came from other accounts, if it did.
    pub(crate) hop: Option<&'a Hop<'a>>,
    /// The trace of the message, if it has one.
    pub(crate) trace: Option<&'a Arc<MessageTrace>>,
    /// Where the message comes from, if not from this server.
    pub(crate) source: Source<'a>,
    /// Name and the like of its sender, as the link says over which it has come, if it does.
    pub(crate) asker: Option<&'a [u8]>,
}

impl<'a> Publisher<'a> {
    /// A publisher that is no client: a service, or a server to whose clients a message was
    /// published. It may publish anything, and mappings are for what clients publish.
    pub(super) fn internal(conn: &'a Arc<Conn>, account: &'a Arc<Account>, now: Instant) -> Self {
        Self {
            conn,
            account,
            permissions: None,
            echo: true,
            verbose: false,
            no_responders: false,
            logs_protocol: false,
            now,
            is_service: true,
            is_mapped: false,
            hop: None,
            trace: None,
            source: Source::Here,
            asker: None,
        }
    }

    /// A client that speaks MQTT.
    pub(crate) fn mqtt(
        conn: &'a Arc<Conn>,
        account: &'a Arc<Account>,
        permissions: Option<&'a Arc<Permissions>>,
        now: Instant,
    ) -> Self {
        Self { permissions, is_service: false, is_mapped: true, ..Self::internal(conn, account, now) }
    }
}

/// Result of a publish.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Published {
    /// Passed on to whoever listens. `stalled`: one of them is far behind and the publisher should
    /// pause.
    Done { delivered: bool, stalled: bool },
    /// Not allowed; nobody got it.
    Refused(ErrorText),
}

/// How one fan-out went.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) delivered: bool,
    pub(super) stalled: bool,
    /// Receivers that lose the message because they are far behind.
    drops: u64,
}

/// Leaves a message for the services of this server among its receivers. Answers the others, which
/// are behind imports, or want to know of its trace.
#[inline(always)]
fn serve(
    queue: &mut ServiceQueue,
    receivers: &[ServiceTarget],
    from: &Publisher<'_>,
    msg: MessageRef<'_>,
    outcome: &mut Outcome,
) -> SmallVec<[ServiceTarget; 1]> {
    let mut others = SmallVec::new();
    for receiver in receivers.iter().filter(|receiver| from.reaches(receiver)) {
        match receiver {
            ServiceTarget::Service(service) if from.trace.is_none() => {
                queue.push(service, msg, from.conn);
                outcome.delivered = true;
            }
            other => others.push(other.clone()),
        }
    }
    others
}

impl Shard {
    /// Routes one message. What receivers get is staged; nothing is written before the flush.
    ///
    /// Perf: always inlined into the one place where clients' messages come from: a call, with all
    /// that it is told copied for it, is 10 ns of 30 where nobody listens.
    #[inline(always)]
    pub(crate) fn publish(&mut self, from: Publisher<'_>, message: PubMessage<'_>) -> Published {
        let scope = RouteScope {
            account: from.account,
            permissions: from.permissions,
            is_mapped: from.is_mapped && from.account.imports.has_mappings(),
            is_imported: from.hop.is_some(),
            via: from.via(),
        };
        let routed_by = if message.to.is_empty() { message.subject } else { message.to };
        let route = self.routes.find(scope, routed_by, self.staging.cohorts());
        match route.access {
            Access::Allowed => {}
            Access::Mapped => {
                let mut memory = self.hop_buffers.pop().unwrap_or_default();
                memory.subject.clone_from(&route.mapped);
                return self.publish_mapped(from, message, memory);
            }
            Access::Drawn => return self.publish_weighted(from, message),
            Access::Servers if from.is_service => {
                return Published::Done { delivered: false, stalled: false };
            }
            access if from.is_service || may_respond(&from, message.subject, access) => {}
            _ => return Published::Refused(ErrorText::PublishViolation(message.subject.into())),
        }
        if !from.is_service && is_reserved_reply(message.reply) {
            return Published::Refused(ErrorText::ReplyViolation(message.reply.into()));
        }
        let settings = &*self.settings;
        if from.verbose {
            self.staging.line(from.conn, encode::OK, &mut self.pool, settings);
            if from.logs_protocol {
                self.broker.log_protocol_line(from.conn, Direction::Out, "OK");
            }
        }
        if let Some(trace) = from.trace.filter(|trace| trace.is_told()) {
            trace_denied(trace, from.account, routed_by, scope.is_imported);
        }
        // What another server has chosen a group for may have to be passed on.
        if route.is_empty() && from.routed().is_none_or(QueueNames::is_empty) {
            if from.no_responders && !message.reply.is_empty() {
                self.stage_no_responders(&from, &message);
            }
            return Published::Done { delivered: false, stalled: false };
        }
        self.deliveries += route.targets.len();
        let copied;
        let mut shared_tail = message.shared_tail;
        if shared_tail.is_none() && message.tail.len() >= COPY_ONCE && route.targets.len() >= MANY {
            copied = from.conn.share(Bytes::copy_from_slice(message.tail));
            shared_tail = Some(&copied);
        }
        let mut fanout = Fanout {
            from: &from,
            message: &message,
            shared_tail,
            is_plain: from.echo
                && message.to.is_empty()
                && message.header_len == 0
                && shared_tail.is_none()
                && from.trace.is_none()
                && !from.logs_protocol,
            stripped: None,
            head: &mut self.head,
            staging: &mut self.staging,
            pool: &mut self.pool,
            broker: &self.broker,
            settings,
            finished: &mut self.finished,
            outcome: Outcome::default(),
        };
        fanout.run_as_needed(route, &mut self.rng);
        let mut outcome = fanout.outcome;
        let pauses = !settings.no_fast_producer_stall;
        if !route.targets.is_empty() && !from.trace.is_some_and(|trace| trace.is_only()) {
            self.touched.delivered(route);
        }
        // Perf: most messages have no such receivers, and nothing is made for theirs.
        if !route.services.is_empty() {
            let served = ServedMessage::of(message.msg(), from.asker);
            self.broker.hear_acknowledgement(from.conn, &served.msg());
            let imported = serve(&mut self.queue, &route.services, &from, served.msg(), &mut outcome);
            if !imported.is_empty() {
                self.end_finished(from.account);
                let message = PubMessage { shared_tail, ..message };
                self.route_imports(&from, &message, &imported, &mut outcome);
            }
        }
        if !self.finished.is_empty() {
            self.end_finished(from.account);
        }
        if !outcome.delivered && from.no_responders && !message.reply.is_empty() {
            self.stage_no_responders(&from, &message);
        }
        if outcome.stalled {
            self.count_stall(outcome.drops);
        }
        Published::Done { delivered: outcome.delivered, stalled: outcome.stalled && pauses }
    }

    /// Publishes a message that the shard itself passes on.
    #[inline(never)]
    pub(crate) fn publish_onward(&mut self, from: Publisher<'_>, message: PubMessage<'_>) -> Published {
        let may_answer = from.account.gateway_replies.may_have(message.address());
        if may_answer { self.publish_answering(from, message) } else { self.publish(from, message) }
    }

    /// Counts a message of which a receiver is far behind, and how many lose it for that.
    #[cold]
    pub(super) fn count_stall(&self, drops: u64) {
        let counters = self.broker.counters();
        counters.stalls.fetch_add(u64::from(!self.settings.no_fast_producer_stall), Relaxed);
        counters.stall_drops.fetch_add(drops, Relaxed);
    }

    /// Ends what had its last message.
    fn end_finished(&mut self, account: &Account) {
        let mut finished = std::mem::take(&mut self.finished);
        for sub in finished.drain(..) {
            match sub.shadowed() {
                None => account.end(&sub, Some(&mut *self)),
                Some((own, stream)) => {
                    let home = self.broker.account(stream.importer());
                    home.is_some_and(|home| home.end(own, Some(&mut *self)))
                }
            };
        }
        self.finished = finished;
    }

    #[cold]
    fn stage_no_responders(&mut self, from: &Publisher<'_>, message: &PubMessage<'_>) {
        self.stage_no_responders_at(from.account, from.conn, (message.subject, message.reply));
    }

    pub(super) fn stage_no_responders_at(
        &mut self,
        account: &Arc<Account>,
        conn: &Arc<Conn>,
        (subject, reply): (&[u8], &[u8]),
    ) {
        if let Some(sub) = self.routes.own_subscription(account, reply, conn) {
            let mut frame = Vec::with_capacity(64 + subject.len());
            encode::no_responders(&mut frame, reply, sub.sid(), subject);
            self.stage_line(conn, &frame);
        }
    }
}

/// Whether the publisher may answer to `subject` because it was sent a message with that reply.
#[cold]
pub(super) fn may_respond(from: &Publisher<'_>, subject: &[u8], access: Access) -> bool {
    if matches!(access, Access::Reserved | Access::Servers) {
        return false;
    }
    let Some(rights) = from.conn.rights() else { return false };
    rights.grants.as_ref().is_some_and(|grants| lock(grants).may_publish(subject, from.now))
}

/// Replies that clients must not use.
#[inline]
pub(super) fn is_reserved_reply(reply: &[u8]) -> bool {
    matches!(reply.first(), Some(b'_' | b'$')) && has_reserved_prefix(reply)
}

fn has_reserved_prefix(reply: &[u8]) -> bool {
    [&b"_R_."[..], b"$JS.ACK.", b"_GR_.", b"$GR."]
        .iter()
        .any(|prefix| reply.starts_with(prefix) && reply.len() > prefix.len())
}

/// One message on its way to several targets.
pub(super) struct Fanout<'a> {
    pub(super) from: &'a Publisher<'a>,
    pub(super) message: &'a PubMessage<'a>,
    /// The message's, or that of a copy made for many receivers.
    pub(super) shared_tail: Option<&'a Bytes>,
    /// All that a receiver needs is the head of its frame and the message's tail, unless it is
    /// [careful](ClientTarget::careful).
    is_plain: bool,
    /// The tail without headers, rendered when the first receiver needs it.
    stripped: Option<Vec<u8>>,
    /// Where heads are rendered for a message that shows another subject than the route's.
    pub(super) head: &'a mut Vec<u8>,
    pub(super) staging: &'a mut Staging,
    pub(super) pool: &'a mut super::pool::Pool,
    pub(super) broker: &'a Broker,
    pub(super) settings: &'a Settings,
    /// Subscriptions that have had their last message.
    finished: &'a mut Vec<Arc<Subscription>>,
    pub(super) outcome: Outcome,
}

/// Perf: what is `LOGGED` is compiled apart, so that the protocol log costs one look per message
/// while it is off.
impl Fanout<'_> {
    #[inline(always)]
    fn run_as_needed(&mut self, route: &Route, rng: &mut Rng) {
        let from = self.from;
        if let Some(trace) = from.trace {
            self.run_traced(trace, route, rng);
        } else if from.logs_protocol {
            match from.source {
                Source::Here | Source::Answer { .. } => self.run_logged(route, rng),
                Source::Route { queues, .. } => self.run_routed::<true>(route, queues, rng),
                _ => self.run_leaf::<true>(route, rng),
            }
        } else {
            match from.source {
                Source::Here | Source::Answer { .. } => self.run::<false>(route, rng),
                Source::Route { queues, .. } => self.run_routed::<false>(route, queues, rng),
                _ => self.run_leaf::<false>(route, rng),
            }
        }
    }

    #[inline(always)]
    fn run<const LOGGED: bool>(&mut self, route: &Route, rng: &mut Rng) {
        for target in &route.targets {
            match target {
                RouteTarget::Client(delivery) => self.client::<LOGGED>(route, delivery),
                RouteTarget::Cohort(shared) => self.cohort::<LOGGED>(route, shared),
                RouteTarget::Mqtt(mqtt) => self.mqtt::<LOGGED>(mqtt),
            }
        }
        for group in &route.groups {
            self.queue_group::<LOGGED>(route, group, rng);
        }
        if let Some(remote) = &route.remote {
            self.remote::<LOGGED>(route, remote, rng);
        }
    }

    /// The loop for a message from another server, which has chosen queue groups.
    #[inline(never)]
    fn run_routed<const LOGGED: bool>(&mut self, route: &Route, queues: &QueueNames<'_>, rng: &mut Rng) {
        if self.from.is_passed_on() {
            return self.run_passed_on::<LOGGED>(route, queues, rng);
        }
        for target in &route.targets {
            match target {
                RouteTarget::Client(delivery) => self.client::<LOGGED>(route, delivery),
                RouteTarget::Cohort(shared) => self.cohort::<LOGGED>(route, shared),
                RouteTarget::Mqtt(mqtt) => self.mqtt::<LOGGED>(mqtt),
            }
        }
        if queues.is_empty() {
            if let Some(remote) = &route.remote {
                self.remote::<LOGGED>(route, remote, rng);
            }
            return;
        }
        let passed = self.chosen_groups::<LOGGED>(route, queues, rng);
        if let Some(remote) = &route.remote {
            self.remote_beside::<LOGGED>(route, remote, &passed);
        }
    }

    /// The loop for a message that no member of its groups took on the server that was chosen: to
    /// members here, and else to those behind leaf nodes of this server.
    #[cold]
    #[inline(never)]
    fn run_passed_on<const LOGGED: bool>(&mut self, route: &Route, queues: &QueueNames<'_>, rng: &mut Rng) {
        self.chosen_groups::<LOGGED>(route, queues, rng);
    }

    /// The loop for a message from a leaf node or a hub, which has chosen queue groups, or for one
    /// that has come on by an import.
    #[inline(never)]
    fn run_leaf<const LOGGED: bool>(&mut self, route: &Route, rng: &mut Rng) {
        for target in &route.targets {
            match target {
                RouteTarget::Client(delivery) => self.client::<LOGGED>(route, delivery),
                RouteTarget::Cohort(shared) => self.cohort::<LOGGED>(route, shared),
                RouteTarget::Mqtt(mqtt) => self.mqtt::<LOGGED>(mqtt),
            }
        }
        for group in &route.groups {
            let queue = group.first().and_then(|first| first.sub.queue());
            if queue.is_some_and(|queue| self.from.has_chosen(queue)) {
                self.queue_group::<LOGGED>(route, group, rng);
            }
        }
        if let Some(remote) = &route.remote {
            self.remote::<LOGGED>(route, remote, rng);
        }
    }

    #[cold]
    #[inline(never)]
    fn run_logged(&mut self, route: &Route, rng: &mut Rng) {
        self.run::<true>(route, rng);
    }

    #[inline(always)]
    fn client<const LOGGED: bool>(&mut self, route: &Route, delivery: &ClientTarget) {
        if self.is_plain && !delivery.careful {
            self.deliver_plain(route, delivery);
        } else {
            self.client_with_care::<LOGGED>(route, delivery);
        }
    }

    #[inline(never)]
    fn client_with_care<const LOGGED: bool>(&mut self, route: &Route, delivery: &ClientTarget) {
        if self.is_own_echo(delivery.sub.conn()) || self.is_withheld(&delivery.sub) {
            if !delivery.careful {
                delivery.sub.uncount();
            }
            return;
        }
        if !delivery.careful || self.admit(&delivery.sub) {
            self.deliver::<LOGGED>(&delivery.sub, route.head(delivery));
        }
        if LOGGED {
            self.end_finished();
        }
    }

    /// Perf: what nearly all messages need, for nearly all receivers, and not a call more.
    #[inline(always)]
    fn deliver_plain(&mut self, route: &Route, delivery: &ClientTarget) -> bool {
        let parts = [&route.head(delivery)[1..], self.message.tail];
        let placed =
            self.staging.parts(delivery.sub.conn(), parts, self.message.body.len(), self.pool, self.settings);
        self.note(placed)
    }

    /// Whether the connection gets the message.
    #[inline(always)]
    pub(super) fn note(&mut self, placed: Placed) -> bool {
        if placed.stalled {
            self.outcome.stalled = true;
            self.outcome.drops += u64::from(placed.dropped);
        }
        self.outcome.delivered |= !placed.dropped;
        !placed.dropped
    }

    fn is_own_echo(&self, conn: &Arc<Conn>) -> bool {
        !self.from.echo && Arc::ptr_eq(conn, self.from.conn)
    }

    /// Whether the receiver may not see the subject that the message shows: the route knows only
    /// where it goes.
    ///
    /// Compat: only connections with a subscription that a deny rule cuts into are looked at,
    /// whatever subscription gets the message. Safer than the reference: where the message goes
    /// must not be denied either.
    #[inline]
    pub(super) fn is_withheld(&self, sub: &Subscription) -> bool {
        !self.message.to.is_empty() && sub.conn().is_filtered() && {
            let rights = sub.conn().rights();
            rights.is_some_and(|rights| !rights.permissions.can_deliver(self.message.subject, sub.queue()))
        }
    }

    /// The look at a subscription with a delivery limit or a memory for replies.
    #[cold]
    fn admit(&mut self, sub: &Arc<Subscription>) -> bool {
        match sub.admit() {
            Admission::Exhausted => {
                let max = sub.max();
                let line = format_args!("Auto-unsubscribe limit [{max}] exceeded");
                self.broker.log_for(Level::Debug, sub.conn(), line);
                // Its last message came from another shard, or the limit came late: it ends now.
                self.finished.push(Arc::clone(sub));
                return false;
            }
            Admission::DeliverLast => {
                self.log_last(sub);
                self.finished.push(Arc::clone(sub));
            }
            Admission::Deliver => {}
        }
        let reply = self.message.reply;
        if !reply.is_empty()
            && let Some(rights) = sub.conn().rights()
            && let Some(grants) = &rights.grants
            && !rights.permissions.can_publish(reply)
        {
            lock(grants).grant(reply, self.from.now);
        }
        true
    }

    #[inline(never)]
    fn cohort<const LOGGED: bool>(&mut self, route: &Route, shared: &CohortTarget) {
        if self.message.to.is_empty() {
            return self.members::<LOGGED>(shared, route.shared_head(shared));
        }
        let mut head = std::mem::take(self.head);
        head.clear();
        // The sid is the same for all.
        encode::head(&mut head, self.message.subject, shared.subs[0].sid());
        self.members::<LOGGED>(shared, &head);
        *self.head = head;
    }

    /// Stages the message for all members of a cohort.
    fn members<const LOGGED: bool>(&mut self, shared: &CohortTarget, head: &[u8]) {
        // What is traced goes to each member alone.
        if !LOGGED && (self.from.echo || !self.publisher_is_in(shared)) {
            let frame =
                Self::frame((self.message, self.shared_tail), &mut self.stripped, head, shared.headers);
            if let Some(stalled) = self.staging.cohort_frame(shared.cohort, frame, self.settings) {
                self.outcome.delivered = true;
                self.outcome.stalled |= stalled;
                return;
            }
        }
        for sub in &shared.subs {
            if self.is_own_echo(sub.conn()) {
                sub.uncount();
            } else {
                self.stage::<LOGGED>(sub.conn(), head);
            }
        }
    }

    /// Whether the publisher, which wants no echo, is a member of the cohort.
    fn publisher_is_in(&mut self, shared: &CohortTarget) -> bool {
        self.staging.cohorts().contains(shared.cohort, self.from.conn)
    }

    /// One member gets the message: a random one, or the next that can take it. False: none can.
    #[inline(never)]
    pub(super) fn queue_group<const LOGGED: bool>(
        &mut self,
        route: &Route,
        group: &[ClientTarget],
        rng: &mut Rng,
    ) -> bool {
        let start = if group.len() == 1 { 0 } else { rng.below(group.len() as u64) as usize };
        for delivery in group[start..].iter().chain(&group[..start]) {
            let conn = delivery.sub.conn();
            if self.is_plain && !delivery.careful && conn.close_requested().is_none() {
                if self.deliver_plain(route, delivery) {
                    delivery.sub.count(1);
                    return true;
                }
                continue;
            }
            if self.is_own_echo(conn) || conn.close_requested().is_some() || self.is_withheld(&delivery.sub) {
                continue;
            }
            if delivery.careful && !self.admit(&delivery.sub) {
                continue;
            }
            let staged = match delivery.careful && conn.mqtt().is_some() {
                false => self.deliver::<LOGGED>(&delivery.sub, route.head(delivery)),
                true => self.mqtt5_member::<LOGGED>(route.subject(), &delivery.sub),
            };
            if LOGGED {
                self.end_finished();
            }
            if staged {
                if !delivery.careful {
                    delivery.sub.count(1);
                }
                return true;
            }
        }
        false
    }

    /// Stages the message for one subscription whose head in the route is `cached`; `false` when it
    /// was dropped there.
    fn deliver<const LOGGED: bool>(&mut self, sub: &Subscription, cached: &[u8]) -> bool {
        if self.message.to.is_empty() {
            return self.stage::<LOGGED>(sub.conn(), cached);
        }
        let mut head = std::mem::take(self.head);
        head.clear();
        encode::head(&mut head, self.message.subject, sub.sid());
        let staged = self.stage::<LOGGED>(sub.conn(), &head);
        *self.head = head;
        staged
    }

    /// Stages the message for one connection; `false` when it was dropped there.
    fn stage<const LOGGED: bool>(&mut self, conn: &Arc<Conn>, head: &[u8]) -> bool {
        let headers = self.message.header_len > 0 && conn.headers();
        let frame = Self::frame((self.message, self.shared_tail), &mut self.stripped, head, headers);
        let placed = self.staging.frame(conn, frame, self.pool, self.settings);
        if LOGGED && !placed.dropped {
            self.trace(conn, head);
        }
        self.note(placed)
    }

    /// The frame for receivers that take headers, or for those that do not.
    #[inline]
    fn frame<'f>(
        (message, shared_tail): (&PubMessage<'f>, Option<&'f Bytes>),
        stripped: &'f mut Option<Vec<u8>>,
        head: &'f [u8],
        headers: bool,
    ) -> FrameParts<'f> {
        if message.header_len > 0 && !headers {
            let payload = &message.body[message.header_len..];
            let tail = stripped.get_or_insert_with(|| {
                let mut tail = Vec::with_capacity(payload.len() + message.reply.len() + 16);
                let mut size = Vec::with_capacity(10);
                encode::number(&mut size, payload.len());
                encode::tail(&mut tail, message.reply, &[], &size, payload);
                tail
            });
            return FrameParts { head: &head[1..], tail, shared_tail: None, payload: payload.len() };
        }
        let head = if message.header_len > 0 { head } else { &head[1..] };
        FrameParts { head, tail: message.tail, shared_tail, payload: message.body.len() }
    }
}
