//! Links with leaf nodes and other clusters, as the exporter has them.

use super::exposition::{Family, GaugeTable, Number};
use super::scrape::Scrape;
use crate::leafz::LeafSnapshot;
use crate::snapshot::GatewaysSnapshot;

/// Links of each kind that are shown one by one.
const MAX_LINKS: usize = 1_000;

pub(super) fn add(scrape: &mut Scrape<'_>) {
    leaf_nodes(scrape);
    if let Some(gateways) = scrape.source.gateways() {
        for is_outbound in [true, false] {
            of_gateway(scrape, &gateways, is_outbound);
        }
    }
}

fn leaf_nodes(scrape: &mut Scrape<'_>) {
    let mut leafs = scrape.source.leaf_nodes();
    let begin = format!("{}_leafz", scrape.core());
    let total = Family::gauge(format!("{begin}_conn_nodes_total"), "nodes_total");
    scrape.out.push(total.with(&scrape.server, leafs.len()));
    let columns = [
        ("info", "info"),
        ("conn_rtt", "rtt"),
        ("conn_in_msgs", "in_msgs"),
        ("conn_out_msgs", "out_msgs"),
        ("conn_in_bytes", "in_bytes"),
        ("conn_out_bytes", "out_bytes"),
        ("conn_subscriptions_total", "subscriptions_total"),
    ];
    let mut rows = GaugeTable::new(&begin, columns);
    // Two links that have all labels in common would make the whole answer invalid.
    let place = |leaf: &LeafSnapshot| (leaf.account.clone(), leaf.peer, leaf.name.clone());
    leafs.sort_by_cached_key(place);
    leafs.dedup_by_key(|leaf| place(leaf));
    scrape.bound("leaf_nodes", &mut leafs, MAX_LINKS);
    for leaf in &leafs {
        let [ip, port] = [leaf.peer.ip().to_string(), leaf.peer.port().to_string()];
        let labels = scrape.server.and([
            ("account", &*leaf.account),
            ("account_id", &leaf.account),
            ("ip", &ip),
            ("port", &port),
            ("name", &leaf.name),
        ]);
        let [in_msgs, out_msgs] = leaf.msgs.map(Number::from);
        let [in_bytes, out_bytes] = leaf.bytes.map(Number::from);
        let rtt = leaf.rtt.unwrap_or_default();
        let subscriptions = leaf.subscriptions.into();
        rows.row(&labels, [1_u64.into(), rtt.into(), in_msgs, out_msgs, in_bytes, out_bytes, subscriptions]);
    }
    scrape.out.push_table(rows);
}

/// Links over which messages go, or those over which they come.
fn of_gateway(scrape: &mut Scrape<'_>, gateways: &GatewaysSnapshot, is_outbound: bool) {
    let direction = if is_outbound { "outbound" } else { "inbound" };
    let columns = [
        ("configured", "configured"),
        ("conn_start_time_seconds", "conn_start_time_seconds"),
        ("conn_last_activity_seconds", "conn_last_activity_seconds"),
        ("conn_uptime_seconds", "conn_uptime_seconds"),
        ("conn_idle_seconds", "conn_idle_seconds"),
        ("conn_rtt", "rtt"),
        ("conn_pending_bytes", "pending_bytes"),
        ("conn_in_msgs", "in_msgs"),
        ("conn_out_msgs", "out_msgs"),
        ("conn_in_bytes", "in_bytes"),
        ("conn_out_bytes", "out_bytes"),
        ("conn_subscriptions", "subscriptions"),
    ];
    let mut rows = GaugeTable::new(&format!("{}_gatewayz_{direction}_gateway", scrape.core()), columns);
    let now = scrape.header.now;
    let mut links: Vec<_> = gateways.links.iter().filter(|link| link.is_outbound == is_outbound).collect();
    scrape.bound(if is_outbound { "outbound_gateways" } else { "inbound_gateways" }, &mut links, MAX_LINKS);
    for link in links {
        let (conn, cid) = (&link.conn, link.conn.cid.to_string());
        let labels = scrape.server.and([
            ("gateway_name", &*gateways.name),
            ("cid", &cid),
            ("remote_gateway_name", &link.cluster),
        ]);
        rows.row(
            &labels,
            [
                link.is_configured.into(),
                conn.start.as_second().into(),
                conn.last_activity.as_second().into(),
                now.duration_since(conn.start).as_secs().into(),
                now.duration_since(conn.last_activity).as_secs().into(),
                conn.rtt.into(),
                conn.pending_bytes.into(),
                conn.in_msgs.into(),
                conn.out_msgs.into(),
                conn.in_bytes.into(),
                conn.out_bytes.into(),
                conn.subscriptions.into(),
            ],
        );
    }
    scrape.out.push_table(rows);
}
