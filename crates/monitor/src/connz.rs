//! `/connz`: the clients, open or recently closed.
//!
//! The order of work is: read the options, take snapshots of all connections that the state asks
//! for, filter, sort, cut out the page, and only then ask for the subscriptions of what is left.

mod options;
mod row;
mod sort;

use serde::Serialize;

use crate::query::{BadQuery, Query};
use crate::response::PageResponse;
use crate::snapshot::{ConnSnapshot, SnapshotSource, SubSnapshot};
use crate::text::utc;
use myelin_subject::overlaps;
use options::ConnzOptions;
use row::rows;
pub(crate) use row::{ConnRow, link_row};

pub(crate) fn answer(query: &Query, source: &dyn SnapshotSource) -> Result<PageResponse, BadQuery> {
    let options = ConnzOptions::read(query)?;
    // Compat: the reference counts a request whose sort key is refused, but not one with an
    // unreadable value.
    source.count_request("/connz");
    let order = options.order()?;
    let page_header = source.page_header();
    if !options.account.is_empty() && !source.has_account(&options.account) {
        return Ok(PageResponse::page(&Connz::of_unknown_account(utc(page_header.now), &options)));
    }
    if !query.filter_subject.is_empty() && options.account.is_empty() && query.filter_subject != ">" {
        return Err(BadQuery::FilterWithoutAccount);
    }
    let (mut found, total) = select(&options, source);
    keep_listeners(&mut found, &query.filter_subject, source);
    // Perf: snapshots are large, so it is their places that are sorted.
    let mut found: Vec<&ConnSnapshot> = found.iter().collect();
    order.apply(&mut found, page_header.now);
    let page = options.window().of(&found);
    let connections = rows(page, &options, &page_header, source);
    Ok(PageResponse::page(&Connz {
        server_id: &page_header.server_id,
        now: utc(page_header.now),
        num_connections: connections.len(),
        total,
        offset: options.offset,
        limit: options.limit,
        connections: Some(connections),
    }))
}

#[derive(Serialize)]
struct Connz<'a> {
    server_id: &'a str,
    now: String,
    num_connections: usize,
    total: usize,
    offset: u64,
    limit: u64,
    connections: Option<Vec<ConnRow<'a>>>,
}

impl Connz<'_> {
    /// Compat: an unknown account is no error; it gives an answer without server id and with a null
    /// list.
    fn of_unknown_account(now: String, options: &ConnzOptions) -> Self {
        Self {
            server_id: "",
            now,
            num_connections: 0,
            total: 0,
            offset: options.offset,
            limit: options.limit,
            connections: None,
        }
    }
}

/// The connections that pass every filter, and how many there are before those on user and id.
fn select(options: &ConnzOptions, source: &dyn SnapshotSource) -> (Vec<ConnSnapshot>, usize) {
    let account = &options.account;
    let mut open = if options.state.has_open() { source.open_connections(account) } else { Vec::new() };
    let mut closed = if options.state.has_closed() { source.closed_connections(account) } else { Vec::new() };
    open.retain(|conn| options.account.is_empty() || conn.account == options.account);
    closed.retain(|conn| options.account.is_empty() || closed_account(conn) == options.account);
    let total = open.len() + closed.len();
    open.retain(|conn| options.wants(conn));
    closed.retain(|conn| options.wants(conn));
    open.append(&mut closed);
    (open, total)
}

/// Keeps of the open connections those with a subscription that may hear what `pattern` matches.
fn keep_listeners(found: &mut Vec<ConnSnapshot>, pattern: &str, source: &dyn SnapshotSource) {
    if pattern.is_empty() || pattern == ">" {
        return;
    }
    let cids: Vec<u64> = found.iter().map(|conn| conn.cid).collect();
    let subscriptions = source.subscriptions_of(&cids);
    found.retain(|conn| {
        let listens = |sub: &SubSnapshot| overlaps(pattern.as_bytes(), sub.subject.as_bytes());
        conn.closed.is_some() || subscriptions.get(&conn.cid).is_some_and(|subs| subs.iter().any(listens))
    });
}

/// Compat: the reference does not keep the name of the default account with a closed connection, so
/// that `acc=$G` never finds one.
fn closed_account(conn: &ConnSnapshot) -> &str {
    if conn.account == row::DEFAULT_ACCOUNT { "" } else { &conn.account }
}
