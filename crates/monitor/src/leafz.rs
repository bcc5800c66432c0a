//! `/leafz`: the leaf nodes. There are none yet.

use serde::Serialize;

use crate::query::{BadQuery, Query};
use crate::response::PageResponse;
use crate::snapshot::SnapshotSource;
use crate::text::utc;

/// Without leaf nodes the option `acc` changes nothing; `subs` must still be readable.
pub(crate) fn answer(query: &Query, source: &dyn SnapshotSource) -> Result<PageResponse, BadQuery> {
    source.count_request("/leafz");
    query.flag("subs")?;
    let page_header = source.page_header();
    Ok(PageResponse::page(&Leafz {
        server_id: &page_header.server_id,
        now: utc(page_header.now),
        leafnodes: 0,
        leafs: [],
    }))
}

#[derive(Serialize)]
struct Leafz<'a> {
    server_id: &'a str,
    now: String,
    leafnodes: usize,
    leafs: [(); 0],
}
