//! Delivery to other servers: what a route leads to beyond this one.
//!
//! A message goes once over each link whose other side wants it, with the names of the queue groups
//! for which a member over there was chosen. Members here and there are drawn by their number, so
//! that each client in a group has the same chance wherever in the cluster it is connected. Members
//! behind another server's leaf nodes have their turn where no client is one.
//!
//! Budget per link and message: the bytes are copied once into the link's chunk; no lock, no
//! allocation.

use super::asking_cluster::asks_jetstream;
use super::fanout::{Fanout, Publisher};
use super::mapped_replies::prefix_of;
use super::route::{ClientTarget, Route};
use super::service_members::chosen;
use super::source::Via;
use super::staging::{FrameParts, Placed};
use crate::account::Account;
use crate::conn::Conn;
use crate::link::leaf_end::LeafRole;
use crate::link::remote_sub::RemoteSub;
use crate::service::Binding;
use crate::subscription::Subscription;
use bytes::Bytes;
use myelin_stdx::rng::Rng;
use myelin_subject::{Matched, Subscribed};
use myelin_wire::encode;
use myelin_wire::peer::parser::{PASSED_ON, QueueNames};
use myelin_wire::peer::{encode as peer, leaf};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Receivers of a subject on other servers.
#[derive(Default)]
pub(super) struct RemoteTargets {
    links: Vec<RemoteTarget>,
    /// Queue groups with members over there.
    groups: Vec<SpreadGroup>,
    /// Renderings of `RMSG <account> <subject> `.
    heads: Vec<u8>,
    /// Whether it is a request to JetStream, of which servers of ours are told who has sent it.
    is_request: bool,
}

/// One link.
struct RemoteTarget {
    conn: Arc<Conn>,
    head: Range<u32>,
    /// Whether anybody over there wants the message beside queue groups.
    is_plain: bool,
    /// The other side is a server of another cluster.
    is_gateway: bool,
}

/// A queue group with members on other servers.
struct SpreadGroup {
    name: Box<[u8]>,
    /// Members here.
    members: SmallVec<[ClientTarget; 2]>,
    /// Clients of other servers.
    remotes: Weights,
    /// Members behind leaf nodes of other servers. Compat: clients are preferred, here and there.
    leaves: Weights,
    /// Links with other clusters that have members. Compat: their turn comes last.
    clusters: SmallVec<[u32; 2]>,
}

/// Places of links, and how many members are there.
#[derive(Default)]
struct Weights(SmallVec<[(u32, u32); 2]>);

impl Weights {
    fn add(&mut self, link: u32, weight: u32) {
        match self.0.iter_mut().find(|(known, _)| *known == link) {
            Some((_, known)) => *known = known.saturating_add(weight),
            None => self.0.push((link, weight)),
        }
    }

    fn total(&self) -> u64 {
        self.0.iter().map(|(_, weight)| u64::from(*weight)).sum()
    }

    fn links(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|(link, _)| *link)
    }
}

impl RemoteTargets {
    /// Receivers of `subject`; `None` if there are none.
    pub(super) fn of(
        account: &Account,
        subject: &[u8],
        matched: &mut Matched<Arc<RemoteSub>>,
        via: Via,
    ) -> Option<Box<Self>> {
        // What comes over a route goes to no other, only to leaf nodes.
        if matches!(via, Via::Route | Via::Import) && !account.announced.has_leafs() {
            return None;
        }
        account.collect_remote(subject, matched);
        let optimistic = optimistic_links(account, subject, via);
        if matched.is_empty() && optimistic.is_empty() {
            return None;
        }
        restrict(matched, subject, via);
        let may_carry =
            |sub: &Arc<RemoteSub>| sub.conn().link().is_none_or(|link| link.may_carry(subject, sub.queue()));
        matched.plain.retain(|sub| may_carry(sub));
        matched.queues.iter_mut().for_each(|group| group.members.retain(|sub| may_carry(sub)));
        let mut found = Box::new(Self { is_request: asks_jetstream(subject), ..Self::default() });
        for sub in matched.plain.drain(..) {
            let at = found.link(account, subject, sub.conn());
            found.links[at].is_plain = true;
        }
        for conn in &optimistic {
            let at = found.link(account, subject, conn);
            found.links[at].is_plain = true;
        }
        for group in matched.queues.iter_mut().filter(|group| !group.members.is_empty()) {
            let mut spread = SpreadGroup {
                name: group.name().into(),
                members: SmallVec::new(),
                remotes: Weights::default(),
                leaves: Weights::default(),
                clusters: SmallVec::new(),
            };
            for sub in group.members.drain(..) {
                let at = found.link(account, subject, sub.conn()) as u32;
                if found.links[at as usize].is_gateway {
                    spread.clusters.push(at);
                    continue;
                }
                let weights = if sub.is_leaf() { &mut spread.leaves } else { &mut spread.remotes };
                weights.add(at, sub.weight());
            }
            found.groups.push(spread);
        }
        // Peers see the names always in this order.
        found.groups.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        debug_assert!(
            found.groups.windows(2).all(|pair| pair[0].name < pair[1].name),
            "a group is there once"
        );
        matched.clear();
        (!found.links.is_empty()).then_some(found)
    }

    fn link(&mut self, account: &Account, subject: &[u8], conn: &Arc<Conn>) -> usize {
        if let Some(at) = self.links.iter().position(|link| Arc::ptr_eq(&link.conn, conn)) {
            return at;
        }
        let start = self.heads.len() as u32;
        match conn.leaf() {
            Some(_) => leaf::message_head(&mut self.heads, subject),
            None => {
                let named = conn.link().and_then(|link| link.named(account.name()));
                peer::message_head(&mut self.heads, named, subject);
            }
        }
        let head = start..self.heads.len() as u32;
        let is_gateway = conn.gateway().is_some();
        self.links.push(RemoteTarget { conn: Arc::clone(conn), head, is_plain: false, is_gateway });
        self.links.len() - 1
    }

    /// Forgets a group that has members here, which have got the message already.
    pub(super) fn forget_group(&mut self, queue: &[u8]) {
        self.groups.retain(|group| *group.name != *queue);
        if self.groups.is_empty() {
            // What is not wanted beside groups is wanted by nobody else over there.
            self.links.retain(|link| link.is_plain);
        }
    }

    /// Members here of groups that have others there.
    pub(super) fn members_here(&self) -> impl Iterator<Item = &ClientTarget> {
        self.groups.iter().flat_map(|group| &group.members)
    }

    /// Takes the members here of a group that has others there; gives them back when it has none.
    pub(super) fn join(
        &mut self,
        queue: &[u8],
        members: SmallVec<[ClientTarget; 2]>,
    ) -> Option<SmallVec<[ClientTarget; 2]>> {
        match self.groups.iter_mut().find(|group| *group.name == *queue) {
            Some(group) => {
                group.members = members;
                None
            }
            None => Some(members),
        }
    }

    /// One of the links that are not about to end, by the number of members there.
    fn draw(&self, weights: &Weights, from: &Publisher<'_>, rng: &mut Rng) -> Option<u32> {
        self.draw_among(weights, |_| true, from, rng)
    }

    /// One of those links that are meant.
    fn draw_among(
        &self,
        weights: &Weights,
        is_meant: impl Fn(&Conn) -> bool,
        from: &Publisher<'_>,
        rng: &mut Rng,
    ) -> Option<u32> {
        let open = |(link, _): &&(u32, u32)| {
            let conn = &self.links[*link as usize].conn;
            is_meant(conn) && conn.close_requested().is_none() && !from.comes_from(conn)
        };
        let total = weights.0.iter().filter(open).map(|(_, weight)| u64::from(*weight)).sum();
        let mut draw = rng.below(total);
        let mut candidates = weights.0.iter().filter(open);
        let found = candidates.find(|(_, weight)| match draw.checked_sub(u64::from(*weight)) {
            Some(left) => {
                draw = left;
                false
            }
            None => true,
        });
        found.map(|(link, _)| *link)
    }

    /// The link to the nearest cluster of those that have members.
    fn nearest(&self, links: &[u32], from: &Publisher<'_>) -> Option<u32> {
        let open = links.iter().copied().filter(|link| {
            let conn = &self.links[*link as usize].conn;
            conn.close_requested().is_none() && !from.comes_from(conn)
        });
        open.min_by_key(|link| {
            let gateway = self.links[*link as usize].conn.gateway();
            gateway.map_or(u64::MAX, |gateway| gateway.round_trip())
        })
    }

    /// Bytes that it takes, about.
    pub(super) fn cost(&self) -> usize {
        let members: usize = self.groups.iter().map(|group| group.members.len()).sum();
        size_of::<Self>()
            + self.heads.len()
            + self.links.len() * size_of::<RemoteTarget>()
            + self.groups.len() * size_of::<SpreadGroup>()
            + members * size_of::<ClientTarget>()
    }
}

/// Whether no other server gets `subject`, and what it gets is not asked of each subject.
pub(super) fn is_for_nobody(
    account: &Account,
    subject: &[u8],
    matched: &mut Matched<Arc<RemoteSub>>,
    via: Via,
) -> bool {
    if matches!(via, Via::Route | Via::Import) && !account.announced.has_leafs() {
        return true;
    }
    account.collect_remote(subject, matched);
    let sends_some =
        |conn: &Arc<Conn>| conn.gateway().is_some_and(|gateway| gateway.sends_some_anyway(account.name()));
    let is_optimistic = || {
        let gateways = account.announced.gateways();
        gateways.is_some_and(|gateways| gateways.outbound().iter().any(sends_some))
    };
    let is_wanted = !matched.is_empty() || is_optimistic();
    matched.clear();
    !is_wanted
}

/// Links to clusters of older servers, which say what they do not want.
fn optimistic_links(account: &Account, subject: &[u8], via: Via) -> SmallVec<[Arc<Conn>; 2]> {
    let is_passed_on = matches!(via, Via::Here | Via::Leaf | Via::Hub);
    let Some(gateways) = account.announced.gateways().filter(|_| is_passed_on) else {
        return SmallVec::new();
    };
    let wants = |conn: &&Arc<Conn>| {
        conn.gateway().is_some_and(|gateway| gateway.sends_anyway(account.name(), subject))
    };
    gateways.outbound().iter().filter(wants).cloned().collect()
}

/// Takes out what a message that has come in this way does not go to.
fn restrict(matched: &mut Matched<Arc<RemoteSub>>, subject: &[u8], via: Via) {
    let goes = |sub: &Arc<RemoteSub>| match (via, sub.conn().leaf()) {
        (Via::Here | Via::Leaf, _) | (Via::Gateway, Some(_)) => true,
        // All clusters are linked with each other.
        (Via::Gateway, None) => sub.conn().gateway().is_none(),
        (Via::Hub, None) => sub.conn().gateway().is_some(),
        // Compat: answers of services, also to the hub.
        (Via::Route, Some(leaf)) => leaf.role == LeafRole::Hub || subject.starts_with(b"_R_."),
        (Via::Hub | Via::Import, Some(_)) => true,
        (Via::Route | Via::Import, None) => false,
    };
    matched.plain.retain(goes);
    matched.queues.iter_mut().for_each(|group| group.members.retain(|sub| goes(sub)));
    if via == Via::Route {
        // Groups that the other server has chosen have their turn where no member is here.
        matched.queues.clear();
    }
}

/// Leaves out clients and services here: they have got the message by shadows of their own.
pub(super) fn leave_to_shadows(
    remote: Option<&mut RemoteTargets>,
    matched: &mut Matched<Arc<Subscription>>,
    services: &mut Matched<Arc<Binding>>,
) {
    if let Some(remote) = remote {
        matched.queues.iter().for_each(|group| remote.forget_group(group.name()));
    }
    matched.clear();
    services.clear();
}

/// Tail of a message, which shows so many bytes of headers.
fn tail_of(reply: &[u8], header_len: Option<usize>, body: &[u8]) -> Vec<u8> {
    let (mut tail, mut digits, mut size) = (Vec::with_capacity(body.len() + 64), Vec::new(), Vec::new());
    if let Some(header_len) = header_len {
        encode::number(&mut digits, header_len);
    }
    encode::number(&mut size, body.len());
    encode::tail(&mut tail, reply, &digits, &size, body);
    tail
}

/// Links over which a message was passed on.
pub(super) type Passed = SmallVec<[Arc<Conn>; 2]>;

/// Groups for which a link was chosen: the places of link and group.
type Chosen = SmallVec<[(u32, u32); 8]>;

impl Fanout<'_> {
    /// Stages the message for other servers, and for the members here of groups that have others
    /// there.
    #[inline(never)]
    pub(super) fn remote<const LOGGED: bool>(
        &mut self,
        route: &Route,
        remote: &RemoteTargets,
        rng: &mut Rng,
    ) {
        if remote.groups.is_empty() {
            for link in &remote.links {
                if !self.from.comes_from(&link.conn) {
                    self.whole::<LOGGED>(remote, link, route.subject());
                }
            }
            return;
        }
        let mut chosen = Chosen::new();
        for (at, group) in remote.groups.iter().enumerate() {
            if self.from.has_chosen(&group.name)
                && let Some(link) = self.choose::<LOGGED>(route, remote, group, rng)
            {
                chosen.push((link, at as u32));
            }
        }
        for (at, link) in remote.links.iter().enumerate() {
            let mine = |(link, _): &&(u32, u32)| *link == at as u32;
            let mut groups =
                chosen.iter().filter(mine).map(|(_, group)| &*remote.groups[*group as usize].name);
            let mut groups = groups.by_ref().peekable();
            let is_wanted = groups.peek().is_some() || link.is_plain && !self.from.comes_from(&link.conn);
            if is_wanted && link.conn.close_requested().is_none() {
                let head = &remote.heads[link.head.start as usize..link.head.end as usize];
                self.stage_remote(&link.conn, head, groups, route.subject());
            }
        }
    }

    /// Stages the message for a link on which it names no queue groups.
    ///
    /// Perf: what nearly all messages need, and nothing rendered for it: `cluster-1:1-16`.
    #[inline(always)]
    fn whole<const LOGGED: bool>(&mut self, remote: &RemoteTargets, link: &RemoteTarget, address: &[u8]) {
        let conn = &link.conn;
        if conn.close_requested().is_some() {
            return;
        }
        let head = &remote.heads[link.head.start as usize..link.head.end as usize];
        let message = self.message;
        let has_headers = message.header_len > 0;
        let is_of_leaf = head[0] == b'R' && !self.from.leaf_origin().is_empty() && !link.is_gateway;
        let is_as_it_came = message.to.is_empty() && (!has_headers || conn.headers()) && !is_of_leaf;
        let is_as_it_came = is_as_it_came && (message.reply.is_empty() || !self.may_map(link.is_gateway));
        if LOGGED
            || !is_as_it_came
            || remote.is_request
            || self.shared_tail.is_some()
            || self.from.trace.is_some()
        {
            return self.stage_remote(conn, head, std::iter::empty(), address);
        }
        let payload = message.body.len();
        let placed = if has_headers {
            let parts = [b"H", &head[1..], message.tail];
            self.staging.parts(conn, parts, payload, self.pool, self.settings)
        } else {
            self.staging.parts(conn, [head, message.tail], payload, self.pool, self.settings)
        };
        self.note(placed);
    }

    /// One member of a group gets the message: one here, or the link to another is answered.
    fn choose<const LOGGED: bool>(
        &mut self,
        route: &Route,
        remote: &RemoteTargets,
        group: &SpreadGroup,
        rng: &mut Rng,
    ) -> Option<u32> {
        let here = group.members.len() as u64;
        let is_here = rng.below(here + group.remotes.total()) < here;
        if is_here && self.group_here::<LOGGED>(route, &group.members, rng) {
            return None;
        }
        if let Some(link) = remote.draw(&group.remotes, self.from, rng) {
            return Some(link);
        }
        // All links to clients are about to end, or there are none.
        if here > 0 && self.group_here::<LOGGED>(route, &group.members, rng) {
            return None;
        }
        remote.draw(&group.leaves, self.from, rng).or_else(|| remote.nearest(&group.clusters, self.from))
    }

    /// Whether the reply may be another one on a link than here.
    #[inline(always)]
    fn may_map(&self, is_gateway: bool) -> bool {
        is_gateway || !self.from.whole_reply().is_empty()
    }

    /// A member here.
    fn group_here<const LOGGED: bool>(
        &mut self,
        route: &Route,
        members: &[ClientTarget],
        rng: &mut Rng,
    ) -> bool {
        match self.from.trace {
            None => self.queue_group::<LOGGED>(route, members, rng),
            Some(trace) => self.trace_group(trace, route, members, rng),
        }
    }

    /// Stages a message from another server of the cluster for leaf nodes that want it, but for
    /// those to which it was passed on.
    #[inline(never)]
    pub(super) fn remote_beside<const LOGGED: bool>(
        &mut self,
        route: &Route,
        remote: &RemoteTargets,
        passed: &[Arc<Conn>],
    ) {
        for link in &remote.links {
            let is_passed = passed.iter().any(|conn| Arc::ptr_eq(conn, &link.conn));
            if !is_passed && !self.from.comes_from(&link.conn) {
                self.whole::<LOGGED>(remote, link, route.subject());
            }
        }
    }

    /// The queue groups that another server has chosen here. Answers the links over which the
    /// message was passed on for some of them.
    #[inline(always)]
    pub(super) fn chosen_groups<const LOGGED: bool>(
        &mut self,
        route: &Route,
        queues: &QueueNames<'_>,
        rng: &mut Rng,
    ) -> Passed {
        let mut served = SmallVec::<[&[u8]; 4]>::new();
        for group in &route.groups {
            let queue = group.first().and_then(|first| first.sub.queue());
            if let Some(queue) = queue.filter(|queue| queues.contains(queue))
                && self.queue_group::<LOGGED>(route, group, rng)
            {
                served.push(queue);
            }
        }
        served.extend(chosen(&route.services, queues));
        self.pass_on(queues.iter().filter(|queue| !served.contains(queue)), rng)
    }

    /// Passes a message from another server on for queue groups that it has chosen here and that
    /// have no member here, to leaf nodes and servers that have one. Answers over which links: who
    /// else wants the message behind them has it with that.
    ///
    /// The server that it comes from is the last choice: it has chosen this one by lot, and may
    /// have members itself.
    ///
    /// That happens once: else a message that no member takes would go round for ever. What was
    /// passed on to this server goes to its leaf nodes at most. Compat: who wants it on a
    /// nats-server, or a leaf node, beside the groups gets it again, as from the reference; a link
    /// over which nobody does is preferred.
    pub(super) fn pass_on<'g>(&mut self, groups: impl Iterator<Item = &'g [u8]>, rng: &mut Rng) -> Passed {
        let mut groups = groups.peekable();
        if groups.peek().is_some() { self.pass_on_for(groups, rng) } else { Passed::new() }
    }

    #[cold]
    #[inline(never)]
    fn pass_on_for<'g>(&mut self, groups: impl Iterator<Item = &'g [u8]>, rng: &mut Rng) -> Passed {
        let mut passed = Passed::new();
        let (message, from) = (self.message, self.from);
        let address = if message.to.is_empty() { message.subject } else { message.to };
        let remote = RemoteTargets::of(from.account, address, &mut Matched::new(), Via::Here);
        let Some(remote) = remote else { return passed };
        let goes_on = !from.is_passed_on();
        let mut chosen = Chosen::new();
        for name in groups {
            let group = remote.groups.iter().position(|group| *group.name == *name);
            let Some(at) = group.filter(|at| chosen.iter().all(|(_, known)| *known != *at as u32)) else {
                continue;
            };
            let is_open = |link: &u32| {
                let conn = &remote.links[*link as usize].conn;
                !from.comes_from(conn) && conn.close_requested().is_none()
            };
            let is_origin = |link: &u32| {
                let conn = &remote.links[*link as usize].conn;
                Arc::ptr_eq(conn, from.conn) && conn.close_requested().is_none()
            };
            let is_hub = |conn: &Conn| conn.leaf().is_some_and(|leaf| leaf.role == LeafRole::Spoke);
            let is_plain = |link: &u32| remote.links[*link as usize].is_plain;
            let rank = |link: &u32| (is_hub(&remote.links[*link as usize].conn), is_plain(link));
            let group = &remote.groups[at];
            // Compat: leaf nodes of this server are preferred to other servers, by their members. A
            // hub, which the reference counts as one, comes last: it has got the message from the
            // other server, for those who want it beside groups.
            let is_own = |conn: &Conn| conn.leaf().is_some_and(|leaf| leaf.role == LeafRole::Hub);
            let own = remote.draw_among(&group.leaves, is_own, from, rng);
            let elsewhere = || {
                let link = group.remotes.links().filter(is_open).min_by_key(is_plain);
                let link = link.or_else(|| group.leaves.links().filter(is_open).min_by_key(rank));
                link.or_else(|| group.remotes.links().chain(group.leaves.links()).find(is_origin))
            };
            let link = if goes_on { own.or_else(elsewhere) } else { own };
            chosen.extend(link.map(|link| (link, at as u32)));
        }
        for (at, link) in remote.links.iter().enumerate() {
            let mine = chosen.iter().filter(|(link, _)| *link == at as u32);
            let mut names = mine.map(|(_, group)| &*remote.groups[*group as usize].name).peekable();
            if names.peek().is_some() {
                let names = names.chain(link.conn.leaf().is_none().then_some(PASSED_ON));
                let head = &remote.heads[link.head.start as usize..link.head.end as usize];
                self.stage_remote(&link.conn, head, names, address);
                passed.push(Arc::clone(&link.conn));
            }
        }
        passed
    }

    /// Stages the message for one link.
    #[inline(never)]
    fn stage_remote<'g>(
        &mut self,
        conn: &Arc<Conn>,
        cached: &[u8],
        groups: impl Iterator<Item = &'g [u8]>,
        address: &[u8],
    ) {
        match self.from.trace.filter(|trace| trace.is_told()) {
            // Other servers see for themselves that another system traces the message.
            None => {
                let _ = match self.with_asker(conn, address) {
                    None => {
                        let message = (self.message, self.shared_tail);
                        self.stage_routed((conn, cached), groups, address, message)
                    }
                    Some(asked) => {
                        let message = (&asked.of(self.message), None);
                        self.stage_routed((conn, cached), groups, address, message)
                    }
                };
            }
            Some(trace) => self.trace_remote(trace, (conn, cached), groups, address),
        }
    }

    /// Stages these bytes of the message for one link; false where they are dropped.
    pub(super) fn stage_routed<'g>(
        &mut self,
        (conn, cached): (&Arc<Conn>, &[u8]),
        groups: impl Iterator<Item = &'g [u8]>,
        address: &[u8],
        (message, shared_tail): (&super::fanout::PubMessage<'_>, Option<&Bytes>),
    ) -> bool {
        let has_headers = message.header_len > 0 && conn.headers();
        let reply = self.reply_for(conn, message, address);
        let is_renamed = matches!(reply, Cow::Owned(_));
        let reply = &*reply;
        let mut head = std::mem::take(self.head);
        head.clear();
        let is_of_leaf = self.from.write_head(conn, &mut head, cached, has_headers);
        let mut groups = groups.peekable();
        let is_grouped = groups.peek().is_some();
        if is_grouped {
            peer::queue_words(&mut head, reply, groups);
        }
        let says_none = is_of_leaf && !has_headers;
        let is_as_it_came = !is_renamed && (message.header_len > 0) == has_headers && !says_none;
        let placed = if is_as_it_came {
            // Behind the names of groups the reply is not said again.
            let skipped = if is_grouped && !reply.is_empty() { reply.len() + 1 } else { 0 };
            debug_assert!(skipped == 0 || message.tail.starts_with(reply), "a tail begins with its reply");
            let shared = shared_tail.map(|shared| shared.slice(skipped..));
            let frame = FrameParts {
                head: &head,
                tail: &message.tail[skipped..],
                shared_tail: shared.as_ref(),
                payload: message.body.len(),
            };
            self.stage_frame(conn, frame, message.body, message.header_len)
        } else {
            let (body, header_len) = match has_headers {
                true => (message.body, message.header_len),
                false => (&message.body[message.header_len..], 0),
            };
            let shown = (has_headers || says_none).then_some(header_len);
            let tail = tail_of(if is_grouped { &[] } else { reply }, shown, body);
            let frame = FrameParts { head: &head, tail: &tail, shared_tail: None, payload: body.len() };
            self.stage_frame(conn, frame, body, header_len)
        };
        *self.head = head;
        self.note(placed)
    }

    /// The reply of the message on a link.
    fn reply_for<'m>(
        &self,
        conn: &Arc<Conn>,
        message: &super::fanout::PubMessage<'m>,
        address: &[u8],
    ) -> Cow<'m, [u8]> {
        let whole = self.from.whole_reply();
        if !whole.is_empty() {
            return Cow::Owned(whole.to_vec());
        }
        let prefix = conn
            .gateway()
            .and_then(|_| prefix_of(&self.broker.cluster, self.from.account, message.reply, self.from.now));
        message.reply_on_link(prefix, address)
    }

    /// Stages a frame for a link, and logs it where protocol lines are logged.
    fn stage_frame(
        &mut self,
        conn: &Arc<Conn>,
        frame: FrameParts<'_>,
        body: &[u8],
        header_len: usize,
    ) -> Placed {
        let placed = self.staging.frame(conn, frame, self.pool, self.settings);
        if self.from.logs_protocol && !placed.dropped {
            self.broker.log_delivery(conn, (frame.head, frame.tail), body, header_len);
        }
        placed
    }
}
