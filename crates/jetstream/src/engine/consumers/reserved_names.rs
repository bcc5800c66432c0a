//! Names in the log of a stream's consumers that are no consumers'.

/// Prefix of the names of positions of sources. No consumer's name can have a blank.
pub(in crate::engine) const POSITION_PREFIX: &str = "source of: ";

/// Whether a name in the log of consumers is that of a position.
pub(in crate::engine) fn is_position(name: &str) -> bool {
    name.starts_with(POSITION_PREFIX)
}
