//! `/jsz`: JetStream as a whole, and on request its accounts, their streams and the consumers of
//! those.

mod detail;

use serde::Serialize;

use crate::query::{BadQuery, Query, quoted};
use crate::response::PageResponse;
use crate::snapshot::{
    JetStreamAccount, JetStreamConfig, JetStreamSnapshot, JetStreamStats, MetaGroup, PageHeader,
    SnapshotSource, StreamParts, VarzJetStreamLimits,
};
use crate::text::utc;
use crate::window::{DEFAULT_LIMIT, PageWindow};
use detail::AccountDetail;
use myelin_wire::json::{is_false, is_zero};

pub(crate) fn answer(query: &Query, source: &dyn SnapshotSource) -> Result<PageResponse, BadQuery> {
    source.count_request("/jsz");
    let options = JszOptions::read(query)?;
    let page_header = source.page_header();
    let Some(jetstream) = source.jetstream() else {
        return if options.leader_only { Err(BadQuery::NotLeader) } else { Ok(disabled(&page_header)) };
    };
    if options.leader_only && !jetstream.leads_meta {
        return Err(BadQuery::NotLeader);
    }
    let mut accounts = source.jetstream_accounts();
    accounts.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let mut page = Jsz::of(&page_header, &jetstream, Sums::over(&accounts, options.raft));
    let shown = options.shown(&accounts);
    page.account_details = shown.iter().map(|account| options.detail(account, source)).collect();
    Ok(PageResponse::page(&page))
}

/// One account alone.
///
/// # Errors
/// When there is none of this name, or it has no JetStream, in the reference's words.
pub(crate) fn of_account(query: &Query, source: &dyn SnapshotSource) -> Result<PageResponse, String> {
    let options = JszOptions::read(query).map_err(|bad| bad.to_string())?;
    let name = options.account;
    if source.jetstream().is_none() {
        return Err("jetstream not enabled".to_owned());
    }
    if !source.has_account(name) {
        return Err(format!("account {} not found", quoted(name)));
    }
    let accounts = source.jetstream_accounts();
    match accounts.iter().find(|account| account.name == name) {
        None => Err(format!("account {} not jetstream enabled", quoted(name))),
        Some(account) => Ok(PageResponse::page(&options.detail(account, source))),
    }
}

/// Compat: a server without JetStream shows zeros, those of a configuration too.
fn disabled(page_header: &PageHeader) -> PageResponse {
    let nothing = JetStreamSnapshot::default();
    PageResponse::page(&Jsz {
        disabled: true,
        limits: None,
        ..Jsz::of(page_header, &nothing, Sums::default())
    })
}

/// Options of the page.
struct JszOptions<'a> {
    /// The one account to show, if there is such an account.
    account: &'a str,
    accounts: bool,
    streams: bool,
    parts: StreamParts,
    /// Names of groups, and how many streams and consumers are led here.
    raft: bool,
    leader_only: bool,
    /// Streams that are led elsewhere are not listed.
    stream_leader_only: bool,
    /// `None` for all accounts.
    window: Option<PageWindow>,
}

impl<'a> JszOptions<'a> {
    /// The options are looked at in the reference's order, so that of two bad ones the same is
    /// reported.
    fn read(query: &'a Query) -> Result<Self, BadQuery> {
        let [accounts, streams] = [query.flag("accounts")?, query.flag("streams")?];
        let [consumers, direct_consumers] = [query.flag("consumers")?, query.flag("direct-consumers")?];
        let config = query.flag("config")?;
        let [offset, limit] = [query.int("offset")?, query.int("limit")?];
        let [leader_only, raft] = [query.flag("leader-only")?, query.flag("raft")?];
        let stream_leader_only = query.flag("stream-leader-only")?;
        let (account, streams) = (query.text("acc"), streams || consumers);
        Ok(Self {
            account,
            accounts: accounts || (streams && account.is_empty()),
            streams,
            // Hidden consumers are listed beside the others or not at all.
            parts: StreamParts { config, consumers, direct_consumers: consumers && direct_consumers },
            raft,
            leader_only,
            stream_leader_only,
            window: window(offset, limit),
        })
    }

    /// The accounts to show: the one that was named, else those inside the window, else none.
    ///
    /// Compat: a name that no account has counts as none, and then offset and limit apply.
    fn shown<'b>(&self, accounts: &'b [JetStreamAccount]) -> &'b [JetStreamAccount] {
        if let Some(at) = accounts.iter().position(|account| account.name == self.account) {
            return &accounts[at..=at];
        }
        match self.window {
            _ if !self.accounts => &[],
            Some(window) => window.of(accounts),
            None => accounts,
        }
    }

    fn detail<'b>(&self, account: &'b JetStreamAccount, source: &dyn SnapshotSource) -> AccountDetail<'b> {
        let mut streams = if self.streams { source.streams(&account.name, self.parts) } else { Vec::new() };
        streams.retain(|stream| !self.stream_leader_only || stream.is_led_here);
        streams.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        AccountDetail::of(account, streams, self.raft)
    }
}

/// Compat: unlike elsewhere, a negative limit shows everything, whatever the offset.
fn window(offset: i64, limit: i64) -> Option<PageWindow> {
    let limit = u64::try_from(limit).ok()?;
    Some(PageWindow {
        offset: u64::try_from(offset).unwrap_or(0),
        limit: if limit == 0 { DEFAULT_LIMIT } else { limit },
    })
}

/// Sums over all accounts, whichever are shown.
#[derive(Serialize, Default)]
struct Sums {
    streams: usize,
    #[serde(skip_serializing_if = "is_zero")]
    streams_leader: usize,
    consumers: usize,
    #[serde(skip_serializing_if = "is_zero")]
    consumers_leader: usize,
    messages: u64,
    bytes: u64,
}

impl Sums {
    fn over(accounts: &[JetStreamAccount], raft: bool) -> Self {
        let mut sums = Self::default();
        for account in accounts {
            if raft {
                sums.streams_leader += account.streams_led;
                sums.consumers_leader += account.consumers_led;
            }
            sums.streams += account.streams;
            sums.consumers += account.consumers;
            sums.messages += account.messages;
            sums.bytes += account.bytes;
        }
        sums
    }
}

#[derive(Serialize)]
struct Jsz<'a> {
    #[serde(flatten)]
    stats: &'a JetStreamStats,
    server_id: &'a str,
    now: String,
    #[serde(skip_serializing_if = "is_false")]
    disabled: bool,
    config: &'a JetStreamConfig,
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<&'a VarzJetStreamLimits>,
    #[serde(flatten)]
    sums: Sums,
    #[serde(skip_serializing_if = "Option::is_none")]
    meta_cluster: Option<&'a MetaGroup>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    account_details: Vec<AccountDetail<'a>>,
    total: usize,
}

impl<'a> Jsz<'a> {
    fn of(page_header: &'a PageHeader, jetstream: &'a JetStreamSnapshot, sums: Sums) -> Self {
        Self {
            stats: &jetstream.stats,
            server_id: &page_header.server_id,
            now: utc(page_header.now),
            disabled: false,
            config: &jetstream.config,
            limits: Some(&jetstream.limits),
            sums,
            meta_cluster: jetstream.meta.as_ref(),
            account_details: Vec::new(),
            total: jetstream.stats.accounts,
        }
    }
}
