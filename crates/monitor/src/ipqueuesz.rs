//! `/ipqueuesz`: the queues between the server's threads.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::query::{BadQuery, Query};
use crate::response::PageResponse;
use crate::snapshot::{QueueSnapshot, SnapshotSource};
use myelin_wire::json::is_zero;

/// Compat: requests for this page are not counted.
pub(crate) fn answer(query: &Query, source: &dyn SnapshotSource) -> Result<PageResponse, BadQuery> {
    let all = query.flag("all")?;
    let part = query.text("queues");
    let shown = |queue: &QueueSnapshot| (all || queue.is_busy()) && queue.name.contains(part);
    let queues: BTreeMap<_, _> = source.queues().into_iter().filter(shown).map(row).collect();
    Ok(PageResponse::wide_page(&queues))
}

impl QueueSnapshot {
    fn is_busy(&self) -> bool {
        self.pending > 0 || self.in_progress > 0
    }
}

fn row(queue: QueueSnapshot) -> (String, QueueRow) {
    (queue.name, QueueRow { pending: queue.pending, in_progress: queue.in_progress })
}

#[derive(Serialize)]
struct QueueRow {
    pending: u64,
    #[serde(skip_serializing_if = "is_zero")]
    in_progress: u64,
}
