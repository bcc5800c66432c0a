//! The mappings of one account: what is published under a name is routed under another.
//!
//! A name may have several destinations with weights, and others for servers of certain clusters.
//! The first mapping that fits a subject decides; its result is not mapped again.

use std::fmt;

use super::error::TransformError;
use super::wildcards::numbered;
use super::{Tokens, Transform};
use crate::pattern::{has_wildcard, is_valid_pattern, tokens};

/// One of the destinations of a mapping, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedDestination {
    /// The destination, as for a [`Transform`].
    pub subject: String,
    /// Of a hundred messages, how many go there: 0 to 100.
    pub weight: u8,
    /// Only for servers of this cluster; empty for all that no cluster is named for.
    pub cluster: String,
}

/// Why a mapping cannot be added. Displays as the reference's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappingError {
    /// Source or destination is wrong.
    Transform(TransformError),
    /// One destination is there twice.
    Duplicate(String),
    /// One weight is more than 100.
    Weight,
    /// The weights of one cluster add up to more than 100.
    TotalWeight,
}

impl fmt::Display for MappingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transform(error) => error.fmt(f),
            Self::Duplicate(subject) => write!(f, "duplicate entry for {subject:?}"),
            Self::Weight => f.write_str("individual weights need to be <= 100"),
            Self::TotalWeight => f.write_str("total weight needs to be <= 100"),
        }
    }
}

impl std::error::Error for MappingError {}

impl From<TransformError> for MappingError {
    fn from(error: TransformError) -> Self {
        Self::Transform(error)
    }
}

/// The mappings of one account, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct Mappings {
    list: Vec<Mapping>,
}

#[derive(Clone, Debug)]
struct Mapping {
    source: Box<str>,
    /// The unnamed cluster is always there, and first.
    clusters: Vec<(Box<str>, Choice)>,
}

/// Destinations in the order of their weights.
#[derive(Clone, Debug)]
struct Choice {
    /// Each with the sum of the weights up to its own.
    destinations: Vec<(u8, Transform)>,
}

impl Mappings {
    /// Whether there are none, so that subjects need not be looked at.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The sources, in the order in which they are tried.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|mapping| &*mapping.source)
    }

    /// For each source, in that order, where its messages go: the cluster, the sum of the weights
    /// up to this destination, and the destination.
    pub fn destinations(&self) -> impl Iterator<Item = (&str, Vec<(&str, u8, &str)>)> {
        self.list.iter().map(|mapping| {
            let clusters = mapping.clusters.iter();
            let all = clusters.flat_map(|(cluster, choice)| {
                choice.destinations.iter().map(|(sum, transform)| (&**cluster, *sum, transform.destination()))
            });
            (&*mapping.source, all.collect())
        })
    }

    /// Adds a mapping, or replaces the one with this source in its place.
    ///
    /// Weights that add up to less than 100 leave the rest of the messages under their own subject,
    /// except when `source` itself is among the destinations: then the rest is lost. This holds for
    /// each cluster by itself.
    ///
    /// # Errors
    /// When a subject is invalid, a destination occurs twice (also in two clusters) or weights are
    /// too large. An empty destination is invalid. Compat: the reference takes it and crashes when
    /// used.
    pub fn insert(&mut self, source: &str, destinations: &[WeightedDestination]) -> Result<(), MappingError> {
        let mapping = Mapping::new(source, destinations)?;
        match self.list.iter_mut().find(|other| *other.source == *source) {
            Some(other) => *other = mapping,
            None => self.list.push(mapping),
        }
        Ok(())
    }

    /// Takes out the mapping with this source; false when there is none. The last takes its place
    /// in the order, as in the reference.
    pub fn remove(&mut self, source: &str) -> bool {
        let found = self.list.iter().position(|mapping| *mapping.source == *source);
        found.map(|at| self.list.swap_remove(at)).is_some()
    }

    /// Maps `subject` into `out`, replacing what is there; false when no mapping fits it.
    ///
    /// `out` is left empty when the weights lose the message: it then has no subject and reaches
    /// nobody. `cluster` is the name of the server's own cluster, empty when it has none. `random`
    /// gives numbers of 32 random bits; it is called only for weights and for `random` functions.
    pub fn map(
        &self,
        subject: &[u8],
        cluster: &str,
        random: &mut impl FnMut() -> u32,
        out: &mut Vec<u8>,
    ) -> bool {
        out.clear();
        let tokens: Tokens<'_> = tokens(subject).collect();
        let fits = |mapping: &&Mapping| covers(mapping.source.as_bytes(), subject, &tokens);
        let Some(mapping) = self.list.iter().find(fits) else { return false };
        if let Some(transform) = mapping.choice(cluster).draw(random) {
            transform.rewrite_tokens(self.partition_key(mapping, subject), &tokens, random, out);
        }
        true
    }

    /// Bytes that a partition of the whole subject hashes.
    ///
    /// Compat: nothing, when the first mapping is literal and fits. (The reference splits the
    /// subject only once a mapping does not fit by plain comparison, and hashes what it has split.)
    fn partition_key<'a>(&self, mapping: &Mapping, subject: &'a [u8]) -> &'a [u8] {
        let is_first = self.list.first().is_some_and(|first| std::ptr::eq(first, mapping));
        if is_first && mapping.source.as_bytes() == subject && !has_wildcard(subject) { b"" } else { subject }
    }
}

impl Mapping {
    fn new(source: &str, destinations: &[WeightedDestination]) -> Result<Self, MappingError> {
        if !is_valid_pattern(source.as_bytes()) {
            return Err(TransformError::InvalidSubject.into());
        }
        let mut clusters = vec![(Box::from(""), Vec::new())];
        for (at, destination) in destinations.iter().enumerate() {
            let WeightedDestination { subject, weight, cluster } = destination;
            if destinations[..at].iter().any(|before| before.subject == *subject) {
                return Err(MappingError::Duplicate(subject.clone()));
            }
            if *weight > 100 {
                return Err(MappingError::Weight);
            }
            let place = clusters.iter().position(|(name, _)| **name == **cluster).unwrap_or_else(|| {
                clusters.push((cluster.as_str().into(), Vec::new()));
                clusters.len() - 1
            });
            let list = &mut clusters[place].1;
            if total(list) + weight > 100 {
                return Err(MappingError::TotalWeight);
            }
            Transform::validate(source, subject)?;
            list.push((*weight, Transform::new(source, subject)?));
        }
        let keeps_rest = !destinations.iter().any(|destination| destination.subject == source);
        let choices =
            clusters.into_iter().map(|(name, list)| Ok((name, Choice::new(source, list, keeps_rest)?)));
        Ok(Self { source: source.into(), clusters: choices.collect::<Result<_, MappingError>>()? })
    }

    /// The destinations for servers of `cluster`.
    fn choice(&self, cluster: &str) -> &Choice {
        let own = self.clusters.iter().find(|(name, _)| **name == *cluster);
        &own.unwrap_or(&self.clusters[0]).1
    }
}

impl Choice {
    fn new(source: &str, mut list: Vec<(u8, Transform)>, keeps_rest: bool) -> Result<Self, MappingError> {
        let rest = 100 - total(&list);
        if rest > 0 && keeps_rest {
            list.push((rest, Transform::new(source, &numbered(source))?));
        }
        list.sort_by_key(|&(weight, _)| weight);
        let mut sum = 0;
        for (weight, _) in &mut list {
            sum += *weight;
            *weight = sum;
        }
        Ok(Self { destinations: list })
    }

    /// Draws a destination; none when the message is lost.
    fn draw(&self, random: &mut impl FnMut() -> u32) -> Option<&Transform> {
        if let [(100, only)] = &*self.destinations {
            return Some(only);
        }
        let drawn = (u64::from(random()) * 100) >> 32;
        self.destinations.iter().find(|(sum, _)| drawn < u64::from(*sum)).map(|(_, transform)| transform)
    }
}

/// The sum of weights, which are at most 100 in all.
fn total(list: &[(u8, Transform)]) -> u8 {
    list.iter().map(|(weight, _)| weight).sum()
}

/// Whether a mapping from `source` fits `subject`, which has these tokens.
///
/// Compat: not quite the rule of subscriptions. A source token that only begins with `*` is a
/// wildcard too; the subject's own `*` fits only a `*`, its `>` nothing but `>`.
fn covers(source: &[u8], subject: &[u8], subject_tokens: &[&[u8]]) -> bool {
    if source == subject && !has_wildcard(source) {
        return true;
    }
    let mut own = subject_tokens.iter();
    for token in tokens(source) {
        let fits = match (token, own.next()) {
            (_, None) => false,
            (b">", Some(_)) => return true,
            (_, Some(&(b"" | b">"))) => false,
            (token, Some(&b"*")) => token == b"*",
            (token, Some(own)) => token.first() == Some(&b'*') || token == *own,
        };
        if !fits {
            return false;
        }
    }
    own.next().is_none()
}
