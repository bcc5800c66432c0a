//! `/accountz`: which accounts there are, or one of them in detail.

use serde::Serialize;
use std::collections::BTreeMap;

use crate::answer::Answer;
use crate::exchange::{ExportSnapshot, ImportSnapshot, MappingSnapshot};
use crate::query::{BadQuery, Query};
use crate::snapshot::{AccountSnapshot, InterestSnapshot, Source};
use crate::text::utc;
use myelin_wire::json::is_false;

pub(crate) fn answer(query: &Query, source: &dyn Source) -> Result<Answer, BadQuery> {
    source.count_request("/accountz");
    let name = query.text("acc");
    let detail = if name.is_empty() {
        None
    } else {
        Some(source.account(name).ok_or_else(|| BadQuery::Account(name.to_owned()))?)
    };
    let stamp = source.stamp();
    Ok(Answer::page(&Accountz {
        server_id: &stamp.server_id,
        now: utc(stamp.now),
        system_account: source.system_account(),
        accounts: if detail.is_some() { Vec::new() } else { source.account_names() },
        account_detail: detail.as_ref().map(Detail::of),
    }))
}

#[derive(Serialize)]
struct Accountz<'a> {
    server_id: &'a str,
    now: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_account: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    accounts: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    account_detail: Option<Detail<'a>>,
}

/// One account. What accounts do not have yet (JWTs) the reference leaves out when it is empty, and so it is left out here.
#[derive(Serialize)]
struct Detail<'a> {
    account_name: &'a str,
    update_time: String,
    #[serde(skip_serializing_if = "is_false")]
    is_system: bool,
    expired: bool,
    complete: bool,
    jetstream_enabled: bool,
    leafnode_connections: usize,
    client_connections: usize,
    subscriptions: u32,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    mappings: &'a BTreeMap<String, Vec<MappingSnapshot>>,
    #[serde(skip_serializing_if = "is_empty")]
    exports: &'a [ExportSnapshot],
    #[serde(skip_serializing_if = "is_empty")]
    imports: &'a [ImportSnapshot],
    #[serde(skip_serializing_if = "str::is_empty")]
    name_tag: &'a str,
    sublist_stats: InterestSnapshot,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    responses: &'a BTreeMap<String, ImportSnapshot>,
}

fn is_empty<T>(list: &[T]) -> bool {
    list.is_empty()
}

impl<'a> Detail<'a> {
    fn of(account: &'a AccountSnapshot) -> Self {
        Self {
            account_name: &account.name,
            update_time: utc(account.updated),
            is_system: account.is_system,
            expired: false,
            complete: true,
            jetstream_enabled: account.jetstream,
            leafnode_connections: account.leafnodes,
            client_connections: account.clients,
            subscriptions: account.interest.num_subscriptions,
            mappings: &account.exchange.mappings,
            exports: &account.exchange.exports,
            imports: &account.exchange.imports,
            responses: &account.exchange.responses,
            name_tag: &account.tag,
            sublist_stats: account.interest,
        }
    }
}
