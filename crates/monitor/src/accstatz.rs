//! `/accstatz`: connections and traffic of each account.

use serde::Serialize;

use crate::query::{BadQuery, Query};
use crate::response::PageResponse;
use crate::snapshot::{AccountSnapshot, SnapshotSource, Volume};
use crate::text::utc;
use myelin_wire::json::compact;

pub(crate) fn answer(query: &Query, source: &dyn SnapshotSource) -> Result<PageResponse, BadQuery> {
    page(query, source).map(|(answer, _)| answer)
}

/// Renders the page, and tells whether it shows no account.
pub(crate) fn page(query: &Query, source: &dyn SnapshotSource) -> Result<(PageResponse, bool), BadQuery> {
    source.count_request("/accstatz");
    let unused = query.flag("unused")?;
    let page_header = source.page_header();
    let accounts = match &query.accounts[..] {
        [] if !unused => source.accounts_in_use(),
        [] => source.accounts(),
        named => named.iter().filter_map(|name| source.account(name)).collect(),
    };
    let shown = accounts.iter().filter(|account| unused || account.is_in_use());
    let account_statz: Vec<_> = shown.map(AccountRow::of).collect();
    let is_empty = account_statz.is_empty();
    let page = Accstatz { server_id: &page_header.server_id, now: utc(page_header.now), account_statz };
    Ok((PageResponse::page(&page), is_empty))
}

/// One account on one line, without the head of a page.
pub(crate) fn row(account: &AccountSnapshot) -> Vec<u8> {
    compact(&AccountRow::of(account))
}

impl AccountSnapshot {
    fn is_in_use(&self) -> bool {
        self.clients > 0 || self.leafnodes > 0
    }
}

#[derive(Serialize)]
struct Accstatz<'a> {
    server_id: &'a str,
    now: String,
    account_statz: Vec<AccountRow<'a>>,
}

#[derive(Serialize)]
struct AccountRow<'a> {
    acc: &'a str,
    name: &'a str,
    conns: usize,
    leafnodes: usize,
    total_conns: usize,
    num_subscriptions: u32,
    sent: Data,
    received: Data,
    slow_consumers: u64,
}

impl<'a> AccountRow<'a> {
    fn of(account: &'a AccountSnapshot) -> Self {
        Self {
            acc: &account.name,
            name: &account.tag,
            conns: account.clients,
            leafnodes: account.leafnodes,
            total_conns: account.clients + account.leafnodes,
            num_subscriptions: account.interest.num_subscriptions,
            sent: Data::of(account.sent, account.sent_to_leafs),
            received: Data::of(account.received, account.received_from_leafs),
            slow_consumers: account.slow_consumers,
        }
    }
}

/// Traffic of all links, then the part of each kind that is not a client.
#[derive(Serialize)]
struct Data {
    #[serde(flatten)]
    all: Volume,
    gateways: Volume,
    routes: Volume,
    leafs: Volume,
}

impl Data {
    fn of(clients: Volume, leafs: Volume) -> Self {
        let all = Volume { msgs: clients.msgs + leafs.msgs, bytes: clients.bytes + leafs.bytes };
        Self { all, gateways: Volume::default(), routes: Volume::default(), leafs }
    }
}
