//! Memory of cached routes. A route is made in the memory of the one whose place it takes, which
//! may have had thousands of receivers: it gives back what it does not need of that, as the
//! cache's budget counts what routes have, not what they have reserved.

use super::Route;
use super::shared::{MOST_RECEIVERS, SPARE};

/// Bytes that a subject may have room for beyond what it needs.
const SHORT: usize = 64;

impl Route {
    /// Gives back memory beyond twice of what it has.
    pub(super) fn give_back(&mut self) {
        shrink(&mut self.heads, SPARE);
        shrink(&mut self.name, SHORT);
        shrink(&mut self.mapped, SHORT);
        shrink(&mut self.targets, MOST_RECEIVERS);
        shrink(&mut self.groups, MOST_RECEIVERS);
    }

    /// Bytes that are reserved for heads, names and targets.
    #[cfg(test)]
    pub(super) fn reserved(&self) -> usize {
        self.heads.capacity()
            + self.name.capacity()
            + self.mapped.capacity()
            + self.targets.capacity() * size_of::<super::RouteTarget>()
    }
}

#[cfg(test)]
impl crate::shard::Shard {
    /// Bytes of cached routes: what the cache counts, and what the routes have reserved.
    pub(crate) fn route_bytes(&self) -> (usize, usize) {
        self.routes.bytes()
    }
}

fn shrink<T>(of: &mut Vec<T>, spare: usize) {
    if of.capacity() > 2 * of.len() + spare {
        of.shrink_to(of.len() + spare);
    }
}
