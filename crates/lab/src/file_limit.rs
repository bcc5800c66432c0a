//! Connections that this program may open.

use myelin_loadgen::meter;

/// Descriptors that the driver needs besides one per connection.
const SPARE_FILES: u64 = 500;

/// Connections that a process may open besides the files that it needs otherwise, of those that are
/// wanted.
pub(crate) fn connections(wanted: usize) -> usize {
    let files = meter::raise_file_limit().saturating_sub(SPARE_FILES);
    wanted.min(usize::try_from(files).unwrap_or(usize::MAX))
}
