//! `/leafz`: the leaf nodes. There are none yet.

use serde::Serialize;

use crate::answer::Answer;
use crate::query::{BadQuery, Query};
use crate::snapshot::Source;
use crate::text::utc;

/// Without leaf nodes the option `acc` changes nothing; `subs` must still be readable.
pub(crate) fn answer(query: &Query, source: &dyn Source) -> Result<Answer, BadQuery> {
    source.count_request("/leafz");
    query.flag("subs")?;
    let stamp = source.stamp();
    Ok(Answer::page(&Leafz { server_id: &stamp.server_id, now: utc(stamp.now), leafnodes: 0, leafs: [] }))
}

#[derive(Serialize)]
struct Leafz<'a> {
    server_id: &'a str,
    now: String,
    leafnodes: usize,
    leafs: [(); 0],
}
