//! Services that are members of queue groups, in routes.
//!
//! A member here gets what is published here, and what another server has chosen it for; it is
//! asked before members elsewhere, which would cost a hop.

use crate::service::{Binding, ServiceTarget};
use myelin_subject::Matched;
use myelin_wire::peer::parser::QueueNames;
use smallvec::SmallVec;
use std::sync::Arc;

/// Takes one member of each group that was found: for whoever publishes here the group has no
/// members elsewhere.
pub(super) fn take_members(
    services: &mut SmallVec<[ServiceTarget; 1]>,
    found: &mut Matched<Arc<Binding>>,
    mut forget_elsewhere: impl FnMut(&[u8]),
) {
    for group in &mut found.queues {
        forget_elsewhere(group.name());
        if let Some(member) = group.members.drain(..).next()
            && !services.iter().any(|known| known.is(member.receiver()))
        {
            services.push(member.receiver().clone());
        }
    }
    found.clear();
}

/// Queue groups that another server has chosen and in which services of this one are members.
pub(super) fn chosen<'s>(
    services: &'s [ServiceTarget],
    queues: &QueueNames<'_>,
) -> impl Iterator<Item = &'s [u8]> {
    services.iter().filter_map(ServiceTarget::queue).filter(|queue| queues.contains(queue))
}
