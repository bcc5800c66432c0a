//! `/gatewayz`: the connections to other clusters. There are none yet.

use serde::Serialize;

use crate::answer::Answer;
use crate::query::{BadQuery, Query, Subs};
use crate::snapshot::Source;
use crate::text::utc;

/// Without gateways the options `gw_name` and `acc_name` change nothing; the others must still be readable.
pub(crate) fn answer(query: &Query, source: &dyn Source) -> Result<Answer, BadQuery> {
    source.count_request("/gatewayz");
    Subs::read(query)?;
    query.flag("accs")?;
    let stamp = source.stamp();
    Ok(Answer::page(&Gatewayz {
        server_id: &stamp.server_id,
        now: utc(stamp.now),
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
