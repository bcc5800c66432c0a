//! Checks that no message comes back to where it came from.

use super::{OtherStreams, StreamConfig, collide, invalid};
use crate::error::ApiError;
use hashbrown::HashSet;
use std::collections::VecDeque;
use std::sync::Arc;

/// Streams that are looked at; more is taken for a cycle. Compat: the reference knows no bound, and
/// by its way of looking a stream that is reached over many ways is looked at as often.
const MOST: usize = 10_000;

/// Follows mirrors and sources breadth first. Compat: two ways to one stream can count as a cycle,
/// by their order.
pub(super) fn check(config: &StreamConfig, all: &dyn OtherStreams) -> Result<(), ApiError> {
    let mut visited = HashSet::new();
    let mut waiting = VecDeque::from([Arc::new(config.clone())]);
    let mut looked = 0;
    while let Some(config) = waiting.pop_front() {
        looked += 1;
        visited.insert(config.name.clone());
        for source in config.sources.iter().filter(|source| source.external.is_none()) {
            if visited.contains(&source.name) {
                if overlaps_filter(&config.subjects, &source.filter_subject) {
                    return invalid("detected cycle");
                }
            } else {
                waiting.extend(all.find(&source.name));
            }
        }
        if let Some(mirror) = config.mirror.as_ref().filter(|mirror| mirror.external.is_none()) {
            if visited.contains(&mirror.name) {
                return invalid("detected cycle");
            }
            waiting.extend(all.find(&mirror.name));
        }
        if looked + waiting.len() > MOST {
            return invalid("detected cycle");
        }
    }
    Ok(())
}

fn overlaps_filter(subjects: &[String], filter: &str) -> bool {
    filter.is_empty() || subjects.iter().any(|subject| collide(subject, filter))
}
