//! `/routez`: the routes to other servers of the cluster. There are none yet.

use serde::Serialize;

use crate::query::{BadQuery, Query, Subs};
use crate::response::PageResponse;
use crate::snapshot::SnapshotSource;
use crate::text::utc;

pub(crate) fn answer(query: &Query, source: &dyn SnapshotSource) -> Result<PageResponse, BadQuery> {
    Subs::read(query)?;
    // Compat: unlike most pages, this one does not count a request with an unreadable value.
    source.count_request("/routez");
    let page_header = source.page_header();
    Ok(PageResponse::page(&Routez {
        server_id: &page_header.server_id,
        server_name: &page_header.server_name,
        now: utc(page_header.now),
        num_routes: 0,
        routes: [],
    }))
}

#[derive(Serialize)]
struct Routez<'a> {
    server_id: &'a str,
    server_name: &'a str,
    now: String,
    num_routes: usize,
    routes: [(); 0],
}
