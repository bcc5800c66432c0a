//! Which messages a consumer is about: subjects that do not lie within each other.
//!
//! Compat: nobody asks whether the stream has such subjects at all.

use super::invalid;
use crate::consumer::config::ConsumerConfig;
use crate::error::ApiError;
use hashbrown::HashMap;
use myelin_subject::is_valid_pattern;

pub(super) fn check(config: &ConsumerConfig) -> Result<(), ApiError> {
    let (one, several) = (&config.filter_subject, &config.filter_subjects);
    if !one.is_empty() && !several.is_empty() {
        return Err(ApiError::CONSUMER_DUPLICATE_FILTER_SUBJECTS);
    }
    if !one.is_empty() {
        return valid(one);
    }
    if several.iter().any(String::is_empty) {
        return Err(ApiError::CONSUMER_EMPTY_FILTER);
    }
    let within = FilterTree::of(several);
    several.iter().try_for_each(|filter| {
        valid(filter)?;
        if within.is_twice(filter) {
            return Err(ApiError::CONSUMER_OVERLAPPING_SUBJECT_FILTERS);
        }
        Ok(())
    })
}

fn valid(filter: &str) -> Result<(), ApiError> {
    if is_valid_pattern(filter.as_bytes()) { Ok(()) } else { invalid("invalid subject") }
}

/// Patterns by their tokens, so that many are compared without looking at each pair. A tree in a
/// row: its depth is what clients say.
struct FilterTree<'a> {
    nodes: Vec<FilterNode<'a>>,
}

#[derive(Default)]
struct FilterNode<'a> {
    /// How many patterns end here.
    ends: usize,
    next: HashMap<&'a str, usize>,
}

impl<'a> FilterTree<'a> {
    fn of(patterns: &'a [String]) -> Self {
        let mut nodes = vec![FilterNode::default()];
        for pattern in patterns {
            let mut at = 0;
            for token in pattern.split('.') {
                let end = nodes.len();
                at = *nodes[at].next.entry(token).or_insert(end);
                if at == end {
                    nodes.push(FilterNode::default());
                }
            }
            nodes[at].ends += 1;
        }
        Self { nodes }
    }

    /// Whether `pattern`, which is one of these, lies within another of them.
    fn is_twice(&self, pattern: &str) -> bool {
        let (mut around, mut here) = (0, vec![&self.nodes[0]]);
        for token in pattern.split('.') {
            around +=
                here.iter().filter_map(|node| self.behind(node, ">")).map(|node| node.ends).sum::<usize>();
            let wider = if token == "*" { None } else { Some("*") };
            let same = Some(token).filter(|token| *token != ">");
            let steps = [wider.filter(|_| token != ">"), same];
            let next = |node| steps.into_iter().flatten().filter_map(move |step| self.behind(node, step));
            here = here.iter().copied().flat_map(next).collect();
        }
        around + here.iter().map(|node| node.ends).sum::<usize>() > 1
    }

    fn behind(&self, node: &FilterNode<'a>, token: &str) -> Option<&FilterNode<'a>> {
        node.next.get(token).map(|at| &self.nodes[*at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_subject::is_subset;
    use proptest::prelude::*;

    fn overlaps(filters: &[String]) -> bool {
        let config = ConsumerConfig { filter_subjects: filters.to_vec(), ..Default::default() };
        check(&config) == Err(ApiError::CONSUMER_OVERLAPPING_SUBJECT_FILTERS)
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_comparing_all_finds(
            filters in prop::collection::vec("[ab*](\\.[ab*]){0,2}(\\.>)?|>", 0..6)
        ) {
            let within = |(at, a): (usize, &String)| {
                filters.iter().enumerate().any(|(other, b)| {
                    at != other && is_subset(a.as_bytes(), b.as_bytes())
                })
            };
            prop_assert_eq!(overlaps(&filters), filters.iter().enumerate().any(within));
        }
    }

    #[test]
    fn a_hundred_thousand_patterns_are_compared_in_time() {
        let filters: Vec<String> = (0..100_000).map(|n| format!("*.{n}")).collect();
        assert!(!overlaps(&filters));
    }

    #[test]
    fn a_filter_may_be_as_deep_as_it_is_long() {
        let deep = ["a."; 200_000].concat();
        assert!(!overlaps(&[format!("{deep}b"), format!("{deep}c")]));
        assert!(overlaps(&[format!("{deep}b"), format!("{deep}>")]));
    }
}
