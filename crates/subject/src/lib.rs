//! Subject names and patterns, the interest index, mappings and transforms.
//!
//! Pure rules and data structures: nothing here reads a clock or a socket, and no answer depends on
//! a random source other than one that is passed in.

mod interest;
mod pattern;
mod transform;

pub use interest::{EpochStamp, Interest, Matched, Member, QueueGroup, Sought, Subscribed};
pub use pattern::{
    has_empty_token, has_wildcard, intersection, is_literal, is_subset, is_valid_pattern, is_well_formed,
    matches, overlaps, token_count,
};
pub use transform::{
    DestinationFault, MappingError, Mappings, NotTransformed, Transform, TransformError, WeightedDestination,
    numbered, prefixed, starred,
};
