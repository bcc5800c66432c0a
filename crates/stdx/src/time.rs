//! Moments as numbers.

/// Nanoseconds since 1970-01-01 UTC.
pub type Timestamp = i64;
