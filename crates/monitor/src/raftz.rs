//! `/raftz`: the Raft groups. There are none yet.

use crate::response::PageResponse;

/// Compat: a server without Raft answers 404 whatever it is asked for, and does not count the
/// request.
pub(crate) fn answer() -> PageResponse {
    PageResponse::nothing("No Raft nodes registered")
}
