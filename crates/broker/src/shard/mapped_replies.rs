//! Mapped replies: which are mapped on their way to another cluster, and what is to be done with
//! those that come from there.

use crate::account::Account;
use crate::cluster::Cluster;
use crate::link::gateway_links::GatewayLinks;
use crate::link::remote_sub::RemoteSub;
use myelin_subject::Matched;
use myelin_wire::peer::gateway::MappedReply;
use myelin_wire::peer::parser::Routed;
use std::sync::Arc;
use std::time::Instant;

/// Answers of services: they are awaited at one server only.
const ANSWER: &[u8] = b"_R_.";

/// Whether answers to this reply are those of a service that another account has asked.
pub(super) fn is_of_service(reply: &[u8]) -> bool {
    reply.starts_with(ANSWER)
}

/// Text in front of a reply, if answers might come from another cluster before that knows of the
/// interest in them. Compat: of clients, subscriptions of the last two seconds are such.
pub(super) fn prefix_of<'c>(
    cluster: &'c Cluster,
    account: &Account,
    reply: &[u8],
    now: Instant,
) -> Option<&'c [u8]> {
    let gateways = GatewayLinks::of(cluster)?;
    let own = gateways.own();
    if reply.is_empty() || MappedReply::of(reply).is_some() {
        return None;
    }
    let is_young = || account.gateway_replies.may_be_young(gateways.time(now)) && is_awaited(account, reply);
    (is_of_service(reply) || is_young()).then_some(&*own.prefix)
}

/// Whether a client of this server, a leaf node or another server of the cluster waits for answers
/// to `reply`.
fn is_awaited(account: &Account, reply: &[u8]) -> bool {
    let mut matched = Matched::new();
    account.interest.collect(reply, &mut matched);
    if !matched.is_empty() {
        return true;
    }
    let mut remote = Matched::<Arc<RemoteSub>>::new();
    account.collect_remote(reply, &mut remote);
    let is_of_cluster = |sub: &Arc<RemoteSub>| sub.conn().gateway().is_none();
    remote.plain.iter().any(is_of_cluster)
        || remote.queues.iter().any(|group| group.members.iter().any(is_of_cluster))
}

/// A message whose reply is as receivers see it, and the reply as it has come, if that is mapped.
pub(super) fn unmapped<'a>(routed: &Routed<'a>) -> (Routed<'a>, &'a [u8]) {
    match MappedReply::of(routed.reply) {
        Some(mapped) => (Routed { reply: mapped.reply, tail: &[], ..*routed }, routed.reply),
        None => (*routed, &[]),
    }
}
