//! `/gatewayz`: the links with other clusters, by the names of those.

use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

use crate::connz::{ConnRow, link_row};
use crate::query::{BadQuery, Query, Subs};
use crate::response::PageResponse;
use crate::routez::InterestList;
use crate::snapshot::{
    GatewayAccountSnapshot, GatewaySnapshot, GatewaysSnapshot, PageHeader, SnapshotSource, SubSnapshot,
    Volume,
};
use crate::text::utc;
use myelin_wire::json::is_zero;

/// Subjects that nobody wants after which an older server begins to tell all of its interest.
const INTEREST_ONLY_THRESHOLD: usize = 1000;

/// The part of the links that a request asks for.
struct LinkFilter<'a> {
    cluster: &'a str,
    account: &'a str,
    has_accounts: bool,
    subs: Subs,
}

pub(crate) fn answer(query: &Query, source: &dyn SnapshotSource) -> Result<PageResponse, BadQuery> {
    source.count_request("/gatewayz");
    let subs = Subs::read(query)?;
    let has_accounts = query.flag("accs")?;
    let (cluster, account) = (query.text("gw_name"), query.text("acc_name"));
    let has_accounts = has_accounts || !account.is_empty();
    let wanted = LinkFilter { cluster, account, has_accounts, subs };
    let page_header = source.page_header();
    let snapshot = source.gateways();
    let interest = if has_accounts { source.gateway_interest() } else { HashMap::new() };
    Ok(PageResponse::page(&Gatewayz::of(snapshot.as_ref(), &wanted, interest, &page_header)))
}

#[derive(Serialize)]
struct Gatewayz<'a> {
    server_id: &'a str,
    now: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    host: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    port: u16,
    outbound_gateways: Option<BTreeMap<&'a str, RemoteRow<'a>>>,
    inbound_gateways: BTreeMap<&'a str, Vec<RemoteRow<'a>>>,
}

#[derive(Serialize)]
struct RemoteRow<'a> {
    configured: bool,
    connection: ConnRow<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    accounts: Vec<AccountRow>,
}

#[derive(Serialize)]
struct AccountRow {
    name: String,
    interest_mode: &'static str,
    #[serde(rename = "no_interest_count", skip_serializing_if = "is_zero")]
    unwanted: usize,
    interest_only_threshold: usize,
    #[serde(rename = "num_subs", skip_serializing_if = "is_zero")]
    subscriptions: usize,
    #[serde(rename = "num_queue_subs", skip_serializing_if = "is_zero")]
    queue_subscriptions: usize,
    #[serde(flatten)]
    interest: InterestList,
}

impl<'a> Gatewayz<'a> {
    fn of(
        snapshot: Option<&'a GatewaysSnapshot>,
        wanted: &LinkFilter<'_>,
        mut interest: HashMap<u64, Vec<SubSnapshot>>,
        page_header: &'a PageHeader,
    ) -> Self {
        let (mut outbound, mut inbound) = (BTreeMap::new(), BTreeMap::<_, Vec<_>>::new());
        let links = snapshot.map_or(&[][..], |snapshot| &snapshot.links);
        for link in links.iter().filter(|link| wanted.cluster.is_empty() || link.cluster == wanted.cluster) {
            let subs = interest.remove(&link.conn.cid).unwrap_or_default();
            let row = RemoteRow::of(link, wanted, subs, page_header);
            if link.is_outbound {
                outbound.insert(&*link.cluster, row);
            } else {
                inbound.entry(&*link.cluster).or_default().push(row);
            }
        }
        // Compat: a cluster that is not there is null, if there are gateways at all.
        let is_missing = snapshot.is_some() && !wanted.cluster.is_empty() && outbound.is_empty();
        Self {
            server_id: &page_header.server_id,
            now: utc(page_header.now),
            name: snapshot.map_or("", |snapshot| &snapshot.name),
            host: snapshot.map_or("", |snapshot| &snapshot.host),
            port: snapshot.map_or(0, |snapshot| snapshot.port),
            outbound_gateways: (!is_missing).then_some(outbound),
            inbound_gateways: inbound,
        }
    }
}

impl<'a> RemoteRow<'a> {
    fn of(
        link: &'a GatewaySnapshot,
        wanted: &LinkFilter<'_>,
        interest: Vec<SubSnapshot>,
        page_header: &PageHeader,
    ) -> Self {
        let mut by_account: BTreeMap<String, AccountRow> = BTreeMap::new();
        let is_wanted =
            |name: &str| wanted.has_accounts && (wanted.account.is_empty() || name == wanted.account);
        for account in link.accounts.iter().filter(|account| is_wanted(&account.name)) {
            by_account.insert(account.name.clone(), AccountRow::of(account));
        }
        let mut subs_by_account: BTreeMap<String, Vec<SubSnapshot>> = BTreeMap::new();
        for sub in interest.into_iter().filter(|sub| is_wanted(&sub.account)) {
            subs_by_account.entry(sub.account.clone()).or_default().push(sub);
        }
        for (name, subs) in subs_by_account {
            // Compat: an account that has queue groups only is shown although it was not told of.
            let unheard = || GatewayAccountSnapshot { name: name.clone(), mode: "Optimistic", unwanted: 0 };
            let row = by_account.entry(name.clone()).or_insert_with(|| AccountRow::of(&unheard()));
            row.add(subs, wanted.subs);
        }
        let accounts = by_account.into_values().collect();
        Self { configured: link.is_configured, connection: link_row(&link.conn, page_header), accounts }
    }
}

impl AccountRow {
    fn of(account: &GatewayAccountSnapshot) -> Self {
        Self {
            name: account.name.clone(),
            interest_mode: account.mode,
            unwanted: account.unwanted,
            interest_only_threshold: INTEREST_ONLY_THRESHOLD,
            subscriptions: 0,
            queue_subscriptions: 0,
            interest: InterestList::default(),
        }
    }

    fn add(&mut self, subs: Vec<SubSnapshot>, wanted: Subs) {
        self.subscriptions = subs.len();
        self.queue_subscriptions = subs.iter().filter(|sub| !sub.queue.is_empty()).count();
        self.interest = InterestList::of(wanted, subs);
    }
}

/// The links with one cluster, in the statistics of a server.
#[derive(Serialize)]
pub(crate) struct StatszGateway<'a> {
    gwid: u64,
    name: &'a str,
    sent: Volume,
    received: Volume,
    inbound_connections: usize,
}

impl<'a> StatszGateway<'a> {
    /// One for each cluster to which messages go.
    pub(crate) fn all(snapshot: &'a GatewaysSnapshot) -> Vec<Self> {
        let outbound = snapshot.links.iter().filter(|link| link.is_outbound);
        outbound.map(|link| Self::of(link, &snapshot.links)).collect()
    }

    fn of(link: &'a GatewaySnapshot, all: &[GatewaySnapshot]) -> Self {
        let inbound = || all.iter().filter(|other| !other.is_outbound && other.cluster == link.cluster);
        Self {
            gwid: link.conn.cid,
            name: &link.cluster,
            sent: Volume { msgs: link.conn.out_msgs, bytes: link.conn.out_bytes },
            received: Volume {
                msgs: inbound().map(|other| other.conn.in_msgs).sum(),
                bytes: inbound().map(|other| other.conn.in_bytes).sum(),
            },
            inbound_connections: inbound().count(),
        }
    }
}
