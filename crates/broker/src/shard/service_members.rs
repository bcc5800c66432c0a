//! Services in routes, and those of them that are members of queue groups.
//!
//! A member here gets what is published here, and what another server has chosen it for; it is
//! asked before members elsewhere, which would cost a hop.

use super::Shard;
use super::fanout::{PubMessage, Published, Publisher};
use super::route::Route;
use super::source::Source;
use crate::service::{Binding, ServiceMember, ServiceTarget};
use myelin_subject::Matched;
use myelin_wire::peer::parser::QueueNames;
use std::sync::Arc;

/// Moves the services that receive the subject into the route.
#[inline]
pub(super) fn take_services(route: &mut Route, found: &mut Matched<Arc<Binding>>) {
    for binding in found.plain.drain(..) {
        if matches!(binding.receiver(), ServiceTarget::Import(link) if !link.carries(route.subject())) {
            continue;
        }
        take_service(route, &binding);
    }
    if !found.queues.is_empty() {
        take_members(route, found);
    }
}

/// A service that receives the subject twice gets the message once.
fn take_service(route: &mut Route, binding: &Binding) {
    if !route.services.iter().any(|known| known.is(binding.receiver())) {
        route.services.push(binding.receiver().clone());
    }
}

/// One member here of each group, and none elsewhere.
#[cold]
fn take_members(route: &mut Route, found: &mut Matched<Arc<Binding>>) {
    for group in &mut found.queues {
        if let Some(remote) = &mut route.remote {
            remote.forget_group(group.name());
        }
        if let Some(member) = group.members.drain(..).next() {
            take_service(route, &member);
        }
    }
    found.clear();
}

/// Queue groups that another server has chosen and in which services of this one are members.
pub(super) fn chosen<'r>(route: &'r Route, queues: &QueueNames<'_>) -> impl Iterator<Item = &'r [u8]> {
    route.services.iter().filter_map(ServiceTarget::queue).filter(|queue| queues.contains(queue))
}

impl Shard {
    /// Hands a message to a service that is a member of a queue group, unless it is for another
    /// group.
    pub(super) fn hand_to_member(
        &mut self,
        from: &Publisher<'_>,
        message: &PubMessage<'_>,
        member: &ServiceMember,
    ) -> Option<Published> {
        let is_meant = match from.source {
            Source::Route { queues, .. } => queues.contains(member.queue()),
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
}
