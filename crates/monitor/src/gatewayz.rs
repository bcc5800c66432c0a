//! `/gatewayz`: the connections to other clusters. There are none yet.

use serde::Serialize;

use crate::query::{BadQuery, Query, Subs};
use crate::response::PageResponse;
use crate::snapshot::SnapshotSource;
use crate::text::utc;

/// Without gateways the options `gw_name` and `acc_name` change nothing; the others must still be
/// readable.
pub(crate) fn answer(query: &Query, source: &dyn SnapshotSource) -> Result<PageResponse, BadQuery> {
    source.count_request("/gatewayz");
    Subs::read(query)?;
    query.flag("accs")?;
    let page_header = source.page_header();
    Ok(PageResponse::page(&Gatewayz {
        server_id: &page_header.server_id,
        now: utc(page_header.now),
        outbound_gateways: Nobody {},
        inbound_gateways: Nobody {},
    }))
}

#[derive(Serialize)]
struct Gatewayz<'a> {
    server_id: &'a str,
    now: String,
    outbound_gateways: Nobody,
    inbound_gateways: Nobody,
}

/// An empty object.
#[derive(Serialize)]
struct Nobody {}
