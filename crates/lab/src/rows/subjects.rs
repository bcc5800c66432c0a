//! Subjects of rows.

/// Subjects in rotation where a row does not say otherwise.
pub(crate) const SUBJECTS: usize = 64;
