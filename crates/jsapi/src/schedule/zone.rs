//! Time zones by name.
//!
//! Compat: Go's rules: a name is a path below the system's zones, written exactly so; nothing and
//! `UTC` are UTC, `Local` is the server's own.

use jiff::tz::TimeZone;

/// Names that are longer are none.
const LONGEST: usize = 255;

/// The zone of this name.
pub(super) fn find(name: &[u8]) -> Option<TimeZone> {
    let name = std::str::from_utf8(name).ok().filter(|name| name.len() <= LONGEST)?;
    match name {
        "" => None,
        "UTC" => Some(TimeZone::UTC),
        "Local" => Some(TimeZone::system()),
        _ if name.contains("..") || name.starts_with(['/', '\\']) => None,
        // Others would take a name in upper or lower case.
        _ => TimeZone::get(name).ok().filter(|zone| zone.iana_name() == Some(name)),
    }
}
