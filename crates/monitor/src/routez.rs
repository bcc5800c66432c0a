//! `/routez`: the routes to other servers of the cluster. There are none yet.

use serde::Serialize;

use crate::answer::Answer;
use crate::query::{BadQuery, Query, Subs};
use crate::snapshot::Source;
use crate::text::utc;

pub(crate) fn answer(query: &Query, source: &dyn Source) -> Result<Answer, BadQuery> {
    Subs::read(query)?;
    // Compat: unlike most pages, this one does not count a request with an unreadable value.
    source.count_request("/routez");
    let stamp = source.stamp();
    Ok(Answer::page(&Routez {
        server_id: &stamp.server_id,
        server_name: &stamp.server_name,
        now: utc(stamp.now),
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
