//! Predicates of names and subjects that all checks share, and the errors that they give.

use crate::error::ApiError;
use myelin_subject::{is_subset, overlaps};
use std::fmt::Display;

/// The error for what is wrong with a configuration.
pub(super) fn invalid<T>(text: impl Display) -> Result<T, ApiError> {
    Err(ApiError::stream_invalid_config(text))
}

/// The error for what `pedantic` does not let pass.
pub(super) fn pedantic_about<T>(text: &str) -> Result<T, ApiError> {
    Err(ApiError::pedantic(text))
}

/// Whether a stream or consumer may have this name.
#[must_use]
pub fn is_asset_name(name: &str) -> bool {
    !name.is_empty() && !name.contains([' ', '\t', '\r', '\n', '\u{c}', '.', '*', '>', '\\', '/'])
}

/// Whether some subject is matched by both.
///
/// Compat: these may be things that are no subjects, to be refused a little later. An empty token
/// is met by nothing but a `>` at or before its place.
pub(super) fn collide(a: &str, b: &str) -> bool {
    a == b || (overlaps(a.as_bytes(), b.as_bytes()) && have_tokens(a, b))
}

/// Whether everything that `subject` matches is matched by `pattern`. Compat: as [`collide`],
/// though not even an empty one lies within another.
pub(super) fn is_within(subject: &str, pattern: &str) -> bool {
    is_subset(subject.as_bytes(), pattern.as_bytes()) && have_tokens(subject, pattern)
}

/// Whether the tokens of both are something, before a `>`.
fn have_tokens(a: &str, b: &str) -> bool {
    let mut pairs = a.split('.').zip(b.split('.')).take_while(|(a, b)| *a != ">" && *b != ">");
    pairs.all(|(a, b)| !a.is_empty() && !b.is_empty())
}
