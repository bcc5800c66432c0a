//! Messages between clusters: those that come from another one, and replies that are mapped so that
//! they come back to where they are awaited.

use super::Shard;
use super::asker::TakenAsker;
use super::asking_cluster::{AskingRequest, asks_jetstream};
use super::fanout::{PubMessage, Published, Publisher, is_reserved_reply, may_respond};
use super::mapped_replies::{is_of_service, prefix_of, unmapped};
use super::route::{ClientTarget, Route, RouteScope, RouteTarget};
use super::routed::{RoutedBuffers, addressed, may_ask_for_trace, message_of};
use super::rules::{Access, access};
use super::source::{Source, Via};
use crate::account::Account;
use crate::conn::Conn;
use crate::gateway_replies::{MOST_RECEIVERS, MappedRequest};
use crate::imports;
use crate::link::end::LinkEnd;
use crate::link::gateway_links::GatewayLinks;
use crate::subscription::Subscription;
use bytes::Bytes;
use myelin_subject::Matched;
use myelin_wire::encode;
use myelin_wire::peer::gateway::MappedReply;
use myelin_wire::peer::parser::Routed;
use myelin_wire::peer::{encode as peer, leaf};
use std::sync::Arc;
use std::time::Instant;

impl Shard {
    /// Routes one message that has come from another cluster over `conn`.
    #[inline(never)]
    pub(crate) fn publish_from_gateway(
        &mut self,
        conn: &Arc<Conn>,
        account: &Arc<Account>,
        (routed, backing): (&Routed<'_>, Option<&Bytes>),
        buffers: &mut RoutedBuffers,
        now: Instant,
    ) {
        if let Some(mapped) = MappedReply::of(routed.subject) {
            return self.publish_answer(conn, account, (routed, mapped), now);
        }
        if !buffers.logs_protocol && self.publish_plain_from(account, routed, Via::Gateway) {
            return;
        }
        let asked = TakenAsker::of(conn, routed);
        let routed = &asked.as_ref().map_or(*routed, |request| request.message(routed));
        let asking = conn.gateway().filter(|_| asks_jetstream(routed.subject));
        let asking = asking.map(|gateway| AskingRequest::of(routed, &gateway.name));
        let routed = &asking.as_ref().map_or(*routed, |request| request.message(routed));
        let (unmapped, whole) = unmapped(routed);
        let (to, subject, reply) = addressed(&unmapped);
        let logs_protocol = buffers.logs_protocol;
        let (tail, shared_tail) = buffers.tail_of(&unmapped, reply, backing);
        let from = Publisher {
            logs_protocol,
            source: Source::Gateway { queues: &routed.queues, whole_reply: whole },
            asker: asked.as_ref().map(TakenAsker::asker),
            ..Publisher::internal(conn, account, now)
        };
        if !whole.is_empty() {
            let address = if to.is_empty() { subject } else { to };
            self.remember(&from, (address, reply));
        }
        let message = message_of(routed, (to, subject, reply), (tail, shared_tail.as_ref()));
        if may_ask_for_trace(&message) {
            return self.publish_routed_traced(from, message);
        }
        let _ = self.publish_noting(from, message);
    }

    /// Routes an answer that has come back under a mapped subject: on to the server of this cluster
    /// that awaits it, or to whoever awaits it here.
    pub(super) fn publish_answer(
        &mut self,
        conn: &Arc<Conn>,
        account: &Arc<Account>,
        (routed, mapped): (&Routed<'_>, MappedReply<'_>),
        now: Instant,
    ) {
        let cluster = Arc::clone(&self.broker.cluster);
        let Some(own) = GatewayLinks::of(&cluster).map(GatewayLinks::own) else { return };
        if mapped.cluster != own.cluster || mapped.is_nested() {
            return;
        }
        let is_of_beyond = conn.gateway().is_some() || conn.leaf().is_some();
        if is_of_beyond
            && mapped.server != own.server
            && let Some(route) = self.route_to(account, mapped.server)
        {
            return self.pass_answer_on(&route, account, routed);
        }
        let (unmapped, whole) = unmapped(routed);
        // What a stream delivers shows the subject under which it was stored.
        let (to, subject, reply) = addressed(&Routed { subject: mapped.reply, ..unmapped });
        let mut tail = Vec::with_capacity(routed.body.len() + reply.len() + 24);
        encode::tail(&mut tail, reply, routed.digits.0, routed.digits.1, routed.body);
        let from = Publisher {
            source: Source::Answer { whole_reply: whole, is_of_service: is_of_service(mapped.reply) },
            ..Publisher::internal(conn, account, now)
        };
        if !whole.is_empty() {
            self.remember(&from, (mapped.reply, reply));
        }
        let message = message_of(routed, (to, subject, reply), (&tail, None));
        let _ = self.publish_onward(from, message);
    }

    /// Routes an answer of a leaf node or a hub to a request of another cluster, under a mapped
    /// subject: straight to the server that awaits it. False where this server has no gateway to
    /// that cluster: its own hub may have one. A nested one goes nowhere.
    #[cold]
    #[inline(never)]
    pub(super) fn publish_answer_of_leaf(
        &mut self,
        conn: &Arc<Conn>,
        account: &Arc<Account>,
        (routed, mapped): (&Routed<'_>, MappedReply<'_>),
        now: Instant,
    ) -> bool {
        if mapped.is_nested() {
            return true;
        }
        let cluster = Arc::clone(&self.broker.cluster);
        let Some(gateways) = GatewayLinks::of(&cluster) else { return false };
        if mapped.cluster == gateways.own().cluster {
            self.publish_answer(conn, account, (routed, mapped), now);
        } else {
            let Some(link) = gateways.outbound_to(mapped.cluster) else { return false };
            if link.close_requested().is_some() {
                return false;
            }
            let prefix = prefix_of(&cluster, account, routed.reply, now).unwrap_or_default();
            let reply = [prefix, routed.reply].concat();
            let body = (routed.header_len as usize, routed.body);
            self.stage_directly(&link, Some(account.name().as_bytes()), (routed.subject, &reply), body);
        }
        true
    }

    /// Remembers where answers to a request with a mapped reply are to go, before it is delivered.
    #[cold]
    #[inline(never)]
    pub(super) fn remember(&mut self, from: &Publisher<'_>, (address, reply): (&[u8], &[u8])) {
        let whole = from.whole_reply();
        // The subject that receivers see may stand behind the reply.
        if let Some(mapped) = MappedReply::of(whole)
            && let Some(whole) = whole.get(..whole.len() - mapped.reply.len() + reply.len())
        {
            let receivers = self.receivers(from, address);
            let hub = matches!(from.source, Source::Leaf { .. }).then_some(from.conn);
            let request = MappedRequest { whole, receivers, hub };
            if from.account.gateway_replies.remember(reply, request, from.now) {
                self.broker.note_mapped(from.account);
            }
        }
    }

    /// Connections of the clients that may get a request. `None` where they are not known: there
    /// are many, or the account maps the subject.
    ///
    /// Perf: members of a large queue group are not walked along for each request, only where the
    /// route has to be made, which walks along them anyway.
    fn receivers(&mut self, from: &Publisher<'_>, address: &[u8]) -> Option<Box<[u64]>> {
        if from.account.imports.has_mappings() {
            return None;
        }
        let scope = RouteScope {
            account: from.account,
            permissions: None,
            is_mapped: false,
            is_imported: false,
            via: from.via(),
        };
        if let Some(route) = self.routes.cached(scope, address) {
            return few(receivers_of(route));
        }
        let mut matched = Matched::<Arc<Subscription>>::new();
        from.account.interest.collect(address, &mut matched);
        few(matched.plain.iter().chain(matched.queues.iter().flat_map(|group| &group.members)))
    }

    /// The route to the server of this short name that carries what concerns an account.
    fn route_to(&self, account: &Account, server: &[u8]) -> Option<Arc<Conn>> {
        let place = account.place_on_links();
        let leads = |link: &LinkEnd| link.leads_to(server) && link.carries(account.name(), place);
        self.broker.links.all().iter().find(|conn| conn.link().is_some_and(leads)).cloned()
    }

    /// Sends an answer on over a route, as it has come.
    fn pass_answer_on(&mut self, route: &Arc<Conn>, account: &Account, routed: &Routed<'_>) {
        let named = route.link().and_then(|link| link.named(account.name()));
        self.stage_directly(
            route,
            named,
            (routed.subject, routed.reply),
            (routed.header_len as usize, routed.body),
        );
    }

    /// Stages a message for one link.
    fn stage_directly(
        &mut self,
        conn: &Arc<Conn>,
        named: Option<&[u8]>,
        (subject, reply): (&[u8], &[u8]),
        (header_len, body): (usize, &[u8]),
    ) {
        let (header_len, body) = if conn.headers() { (header_len, body) } else { (0, &body[header_len..]) };
        let (mut head, mut tail, mut digits) = (Vec::with_capacity(64), Vec::new(), Vec::new());
        match conn.leaf() {
            Some(_) => leaf::message_head(&mut head, subject),
            None => peer::message_head(&mut head, named, subject),
        }
        if header_len > 0 {
            head[0] = b'H';
            encode::number(&mut digits, header_len);
        }
        let mut size = Vec::with_capacity(10);
        encode::number(&mut size, body.len());
        encode::tail(&mut tail, reply, &digits, &size, body);
        let placed = self.staging.parts(conn, [&head, &tail], body.len(), &mut self.pool, &self.settings);
        if placed.stalled {
            self.count_stall(u64::from(placed.dropped));
        }
    }

    /// Whether whoever publishes this may: what it may not is refused on the usual way.
    fn may_answer(&self, from: &Publisher<'_>, message: &PubMessage<'_>) -> bool {
        let scope = RouteScope {
            account: from.account,
            permissions: from.permissions,
            is_mapped: false,
            is_imported: from.hop.is_some(),
            via: Via::Here,
        };
        let is_reserved = !from.is_service && is_reserved_reply(message.reply);
        let access = access(scope, message.address());
        !is_reserved
            && (access == Access::Allowed || from.is_service || may_respond(from, message.subject, access))
    }

    /// Publishes what may be an answer to a request of another cluster.
    #[cold]
    #[inline(never)]
    pub(super) fn publish_answering(&mut self, from: Publisher<'_>, message: PubMessage<'_>) -> Published {
        let answered = self.publish_to_requester(&from, &message);
        answered.unwrap_or_else(|| self.publish(from, message))
    }

    /// Publishes an answer to a request that has come from another cluster: straight to the server
    /// that awaits it, or back over the link with the hub that has sent the request. `None` where
    /// the subject is no such reply, the publisher has not got the request, or the cluster is cut
    /// off.
    fn publish_to_requester(&mut self, from: &Publisher<'_>, message: &PubMessage<'_>) -> Option<Published> {
        // Leaf nodes see the mapped reply, and what other servers send is no answer of anybody
        // here: it would go back and forth.
        let responder = match from.source {
            Source::Here | Source::Request { .. } => (!from.is_service).then(|| from.conn.cid()),
            _ => return None,
        };
        let (whole, hub) = from.account.gateway_replies.find(message.address(), responder, from.now)?;
        let mapped = MappedReply::of(&whole)?;
        let cluster = Arc::clone(&self.broker.cluster);
        let conn = match hub {
            Some(hub) => hub.upgrade().filter(|hub| may_send_to(hub, mapped.reply))?,
            None => GatewayLinks::of(&cluster)?.outbound_to(mapped.cluster)?,
        };
        // A right to answer is counted: it is asked for last, and what goes the usual way asks
        // there.
        if conn.close_requested().is_some() || !self.may_answer(from, message) {
            return None;
        }
        if from.verbose {
            self.stage_line(from.conn, encode::OK);
        }
        let prefix = conn.gateway().and_then(|_| prefix_of(&cluster, from.account, message.reply, from.now));
        let reply = message.reply_on_link(prefix, message.address());
        let named = Some(from.account.name().as_bytes());
        self.stage_directly(&conn, named, (&whole, &reply), (message.header_len, message.body));
        if imports::is_measured(message.address()) {
            self.tell_latency(from, message.address());
        }
        Some(Published::Done { delivered: true, stalled: false })
    }
}

/// Clients to which a route leads, those of queue groups all.
fn receivers_of(route: &Route) -> impl Iterator<Item = &Arc<Subscription>> {
    let plain = route.targets.iter().flat_map(|target| match target {
        RouteTarget::Client(one) => std::slice::from_ref(&one.sub),
        RouteTarget::Cohort(cohort) => &cohort.subs[..],
        RouteTarget::Mqtt(mqtt) => &mqtt.subs[..],
    });
    let shared = route.remote.iter().flat_map(|remote| remote.members_here());
    let members = route.groups.iter().flatten().chain(shared);
    plain.chain(members.map(|member: &ClientTarget| &member.sub))
}

/// Subscriptions that are looked at for one request at most.
const MOST_SUBSCRIPTIONS: usize = 4 * MOST_RECEIVERS;

/// Connections of subscriptions, unless there are many of the ones or the others.
fn few<'s>(subs: impl Iterator<Item = &'s Arc<Subscription>>) -> Option<Box<[u64]>> {
    let mut found = Vec::with_capacity(MOST_RECEIVERS);
    for (at, cid) in subs.map(|sub| sub.conn().cid()).enumerate() {
        if at == MOST_SUBSCRIPTIONS {
            return None;
        }
        // Neighbours are often of one connection.
        if found.last() == Some(&cid) || found.contains(&cid) {
            continue;
        }
        if found.len() == MOST_RECEIVERS {
            return None;
        }
        found.push(cid);
    }
    Some(found.into())
}

/// Whether an answer may go over a link with a leaf node or a hub.
fn may_send_to(conn: &Conn, reply: &[u8]) -> bool {
    conn.leaf().is_some_and(|leaf| leaf.may_send(reply, None))
}
