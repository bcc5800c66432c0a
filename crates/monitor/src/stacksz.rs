//! `/stacksz`: what the threads of the process do.
//!
//! The reference dumps the stacks of its goroutines. There are none here and tasks keep no stack; a
//! thread is shown with its name and state.

use std::fmt::Write;

use crate::response::PageResponse;
use crate::snapshot::SnapshotSource;

/// Compat: requests for this page are not counted. The head of an entry has the form of Go's, so
/// that what counts the entries goes on counting.
pub(crate) fn answer(source: &dyn SnapshotSource) -> PageResponse {
    let mut text = String::new();
    for thread in source.threads() {
        let _ = writeln!(text, "thread {} [{}]:\n{}\n", thread.id, thread.state, thread.name);
    }
    if text.ends_with("\n\n") {
        text.pop();
    }
    PageResponse::text_page(text)
}
