//! Connections, accounts and health, as the exporter has them.

use super::exposition::{Family, GaugeTable, Number};
use super::scrape::Scrape;
use crate::healthz::{self, Depth};
use crate::snapshot::{AccountSnapshot, ConnSnapshot};
use crate::window::DEFAULT_LIMIT;
use jiff::Timestamp;
use serde_json::Value;

pub(super) fn add(scrape: &mut Scrape<'_>) {
    connections(scrape);
    accounts(scrape);
    health(scrape);
}

/// Figures of one connection, or of all together.
const TRAFFIC: [(&str, &str); 6] = [
    ("pending_bytes", "pending_bytes"),
    ("subscriptions", "subscriptions"),
    ("in_bytes", "in_bytes"),
    ("out_bytes", "out_bytes"),
    ("in_msgs", "in_msgs"),
    ("out_msgs", "out_msgs"),
];

/// Further figures of one connection.
const TIMES: [(&str, &str); 5] = [
    ("start", "epoch time at which the connection was started"),
    ("last_activity", "epoch time at which the last activity was registred"),
    ("rtt", "response time latency in microseconds"),
    ("uptime", "uptime duration in milliseconds"),
    ("idle", "idle time duration in milliseconds"),
];

/// Sums are over all connections, not over those of the page's first 1,024 as the exporter's.
fn connections(scrape: &mut Scrape<'_>) {
    let mut open = scrape.source.open_connections("");
    let begin = format!("{}_connz", scrape.core());
    let columns = [("num_connections", ""), ("total", ""), ("offset", ""), ("limit", "")];
    let mut counts = GaugeTable::new(&begin, columns.map(|(name, _)| (name, name)));
    counts.row(&scrape.server, [open.len().into(), open.len().into(), 0_u64.into(), DEFAULT_LIMIT.into()]);
    let mut sums = [0; 6];
    for conn in &open {
        for (sum, figure) in sums.iter_mut().zip(traffic(conn)) {
            *sum += figure;
        }
    }
    let mut moved = GaugeTable::new(&begin, TRAFFIC);
    moved.row(&scrape.server, sums.map(Number::from));
    open.sort_unstable_by_key(|conn| conn.cid);
    let max = scrape.config.max_connections;
    if max > 0 {
        scrape.bound("connections", &mut open, max);
        one_by_one(scrape, &open, &begin, &mut moved);
    }
    scrape.out.push_table(counts);
    scrape.out.push_table(moved);
}

fn traffic(conn: &ConnSnapshot) -> [u64; 6] {
    let subscriptions = u64::from(conn.subscriptions);
    [conn.pending_bytes, subscriptions, conn.in_bytes, conn.out_bytes, conn.in_msgs, conn.out_msgs]
}

fn one_by_one(scrape: &mut Scrape<'_>, open: &[ConnSnapshot], begin: &str, moved: &mut GaugeTable<6>) {
    let mut times = GaugeTable::new(begin, TIMES);
    let now = scrape.header.now;
    for conn in open {
        let [cid, port] = [conn.cid.to_string(), conn.port.to_string()];
        let (version, suite) = conn.tls.as_ref().map_or(("", ""), |tls| (&*tls.version, &*tls.cipher_suite));
        // Compat: the page does not name the account of clients without one.
        let account = if conn.account == "$G" { "" } else { &conn.account };
        let labels = scrape.server.and([
            ("cid", &*cid),
            ("kind", conn.kind),
            ("type", conn.transport),
            ("ip", &conn.ip),
            ("port", &port),
            ("name", &conn.name),
            ("name_tag", &conn.account_tag),
            ("account", account),
            ("account_id", account),
            ("lang", &conn.library.lang),
            ("version", &conn.library.version),
            ("tls_version", version),
            ("tls_cipher_suite", suite),
        ]);
        moved.row(&labels, traffic(conn).map(Number::from));
        let micros = u64::try_from(conn.rtt.as_micros()).unwrap_or(u64::MAX);
        times.row(
            &labels,
            [
                conn.start.as_millisecond().into(),
                conn.last_activity.as_millisecond().into(),
                micros.into(),
                whole_seconds(conn.start, now).into(),
                whole_seconds(conn.last_activity, now).into(),
            ],
        );
    }
    scrape.out.push_table(times);
}

/// Milliseconds between, of whole seconds as the page shows them.
fn whole_seconds(from: Timestamp, to: Timestamp) -> i64 {
    to.duration_since(from).as_secs() * 1_000
}

fn accounts(scrape: &mut Scrape<'_>) {
    let mut accounts = scrape.source.accounts();
    accounts.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let max = scrape.config.max_accounts;
    scrape.bound("accounts", &mut accounts, max);
    let columns = [
        "current_connections",
        "total_connections",
        "subscriptions",
        "leaf_nodes",
        "sent_messages",
        "sent_bytes",
        "received_messages",
        "received_bytes",
        "slow_consumers",
    ];
    let columns = columns.map(|name| (name, name));
    let mut traffic = GaugeTable::new(&format!("{}_accstatz", scrape.core()), columns);
    for account in &accounts {
        let labels = scrape.server.and([
            ("account", &*account.name),
            ("account_id", &account.name),
            ("account_name", &account.tag),
        ]);
        traffic.row(
            &labels,
            [
                account.clients.into(),
                (account.clients + account.leafnodes).into(),
                account.interest.num_subscriptions.into(),
                account.leafnodes.into(),
                (account.sent.msgs + account.sent_to_leafs.msgs).into(),
                (account.sent.bytes + account.sent_to_leafs.bytes).into(),
                (account.received.msgs + account.received_from_leafs.msgs).into(),
                (account.received.bytes + account.received_from_leafs.bytes).into(),
                account.slow_consumers.into(),
            ],
        );
    }
    scrape.out.push_table(traffic);
    standings(scrape, &accounts);
}

/// Limits that an account's JWT may set, with the key there.
const LIMITS: [(&str, &str); 8] = [
    ("limit_subs", "subs"),
    ("limit_data", "data"),
    ("limit_payload", "payload"),
    ("limit_imports", "imports"),
    ("limit_exports", "exports"),
    ("limit_wildcards", "wildcards"),
    ("limit_conn", "conn"),
    ("limit_leaf", "leaf"),
];

/// `/accountz?acc=` of every account.
fn standings(scrape: &mut Scrape<'_>, accounts: &[AccountSnapshot]) {
    let begin = format!("{}_accountz", scrape.core());
    let columns = [
        "client_connections",
        "leafnode_connections",
        "subscriptions",
        "is_system",
        "expired",
        "complete",
        "jetstream_enabled",
    ];
    let mut standings = GaugeTable::new(&begin, columns.map(|name| (name, name)));
    let mut limits = GaugeTable::new(&begin, LIMITS.map(|(name, _)| (name, name)));
    for account in accounts {
        let labels = scrape.server.and([("account_id", &*account.name), ("account_name", &account.tag)]);
        let claims = account.claims.as_ref();
        standings.row(
            &labels,
            [
                account.clients.into(),
                account.leafnodes.into(),
                account.interest.num_subscriptions.into(),
                account.is_system.into(),
                claims.is_some_and(|claims| claims.is_expired).into(),
                claims.is_none_or(|claims| claims.is_complete).into(),
                account.jetstream.into(),
            ],
        );
        let decoded = claims.and_then(|claims| claims.decoded.pointer("/nats/limits"));
        limits.row(&labels, LIMITS.map(|(_, key)| limit(decoded.and_then(|limits| limits.get(key)))));
    }
    scrape.out.push_table(standings);
    scrape.out.push_table(limits);
}

/// Compat: what is not said is 0.
fn limit(said: Option<&Value>) -> Number {
    match said {
        Some(Value::Bool(is_allowed)) => (*is_allowed).into(),
        Some(Value::Number(number)) => number.as_i64().unwrap_or_default().into(),
        _ => 0_u64.into(),
    }
}

fn health(scrape: &mut Scrape<'_>) {
    let depths = [
        ("healthz", Depth::Whole),
        ("healthz_js_enabled_only", Depth::JetStream),
        ("healthz_js_server_only", Depth::Server),
    ];
    for (name, depth) in depths {
        let status = healthz::status(depth, scrape.source);
        let (is_well, begin) = (status == "ok", format!("{}_{name}", scrape.core()));
        let failing = Family::gauge(format!("{begin}_status"), "status").with(&scrape.server, !is_well);
        let labels = scrape.server.and([("value", status)]);
        let value = Family::gauge(format!("{begin}_status_value"), "status").with(&labels, is_well);
        scrape.out.push(failing);
        scrape.out.push(value);
    }
}
