//! The API's documents: what requests say and what answers look like, byte for byte as the
//! reference's.
//!
//! Pure data. Who asks, whether they may, and what is then done to streams is decided elsewhere.

pub mod consumer;
pub mod info;
pub mod request;
pub mod response;
pub mod scrub;
pub mod why;

use crate::json::rfc3339;
use myelin_stdx::time::Timestamp;
use serde::Serializer;

/// Entries in one answer that lists names.
pub const NAMES_LIMIT: usize = 1024;

/// Entries in one answer that lists streams.
pub const LIST_LIMIT: usize = 256;

/// Subjects that one answer about a stream names.
pub const SUBJECTS_LIMIT: usize = 100_000;

/// Removed sequences that one answer about a stream lists.
///
/// Compat: the reference lists all. A gap may be as wide as sequences are high, and whoever makes
/// one would have the server run out of memory; a million are some 10 MB of JSON.
pub const DELETED_LIMIT: usize = 1_000_000;

/// For `serialize_with`: nanoseconds as RFC 3339; 0 is Go's zero time.
pub(crate) fn moment<S: Serializer>(moment: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rfc3339(*moment))
}
