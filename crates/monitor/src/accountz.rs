//! `/accountz`: which accounts there are, or one of them in detail.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::imports::{ExportSnapshot, ImportSnapshot, MappingSnapshot};
use crate::query::{BadQuery, Query};
use crate::response::PageResponse;
use crate::snapshot::{
    AccountClaims, AccountSnapshot, ClaimsIssue, InterestSnapshot, PageHeader, SnapshotSource,
};
use crate::text::{moment_in, utc};
use myelin_wire::json::is_false;

pub(crate) fn answer(query: &Query, source: &dyn SnapshotSource) -> Result<PageResponse, BadQuery> {
    source.count_request("/accountz");
    let name = query.text("acc");
    let detail = if name.is_empty() {
        None
    } else {
        Some(source.account(name).ok_or_else(|| BadQuery::Account(name.to_owned()))?)
    };
    let page_header = source.page_header();
    Ok(PageResponse::page(&Accountz {
        server_id: &page_header.server_id,
        now: utc(page_header.now),
        system_account: source.system_account(),
        accounts: if detail.is_some() { Vec::new() } else { source.account_names() },
        account_detail: detail.as_ref().map(|account| Detail::of(account, &page_header)),
    }))
}

/// One account alone.
pub(crate) fn detail(name: &str, source: &dyn SnapshotSource) -> Result<PageResponse, BadQuery> {
    let account = source.account(name).ok_or_else(|| BadQuery::Account(name.to_owned()))?;
    Ok(PageResponse::page(&Detail::of(&account, &source.page_header())))
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

/// One account. What it does not have the reference leaves out when it is empty, and so it is left
/// out here.
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
    jwt: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    issuer_key: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name_tag: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    decoded_jwt: Option<&'a serde_json::Value>,
    #[serde(skip_serializing_if = "<[ClaimsIssue]>::is_empty")]
    validation_result_jwt: &'a [ClaimsIssue],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    revoked_user: BTreeMap<&'a str, String>,
    sublist_stats: InterestSnapshot,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    responses: &'a BTreeMap<String, ImportSnapshot>,
}

fn is_empty<T>(list: &[T]) -> bool {
    list.is_empty()
}

impl<'a> Detail<'a> {
    fn of(account: &'a AccountSnapshot, page_header: &PageHeader) -> Self {
        let claims = account.claims.as_ref();
        let text = |get: fn(&AccountClaims) -> &str| claims.map_or("", get);
        let revoked = claims.map(|claims| &claims.revoked).into_iter().flatten();
        Self {
            account_name: &account.name,
            update_time: utc(account.updated),
            is_system: account.is_system,
            expired: claims.is_some_and(|claims| claims.is_expired),
            complete: claims.is_none_or(|claims| claims.is_complete),
            jetstream_enabled: account.jetstream,
            leafnode_connections: account.leafnodes,
            client_connections: account.clients,
            subscriptions: account.interest.num_subscriptions,
            mappings: &account.exchange.mappings,
            exports: &account.exchange.exports,
            imports: &account.exchange.imports,
            responses: &account.exchange.responses,
            jwt: text(|claims| &claims.jwt),
            issuer_key: text(|claims| &claims.issuer_key),
            name_tag: &account.tag,
            tags: claims.map_or(&[], |claims| &claims.tags),
            decoded_jwt: claims.map(|claims| &claims.decoded).filter(|decoded| !decoded.is_null()),
            validation_result_jwt: claims.map_or(&[], |claims| &claims.issues),
            revoked_user: revoked
                .map(|(key, at)| (key.as_str(), moment_in(*at, &page_header.zone)))
                .collect(),
            sublist_stats: account.interest,
        }
    }
}
