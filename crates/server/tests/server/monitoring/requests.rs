//! Requests that both servers are asked.

use super::pair::Order;

/// Every page with many queries: the request, the order of its rows, and keys whose values are not
/// compared.
pub(super) fn requests() -> Vec<(String, Order, &'static [&'static str])> {
    let mut list = Vec::new();
    let mut add = |page: &str, queries: &[&str], order: Order, ignored: &'static [&'static str]| {
        list.extend(queries.iter().map(|query| (format!("/{page}{query}"), order, ignored)));
    };
    add("varz", &["", "?x=1"], Order::Any, &["subscriptions"]);
    add("connz", CONNZ, Order::Kept, &[]);
    add("connz", CONNZ_IN_ANY_ORDER, Order::Any, &[]);
    add("routez", &["", "?subs=1", "?subs=Detail", "?subs=x"], Order::Any, &[]);
    add("gatewayz", &["", "?accs=1&gw_name=x", "?acc_name=A&subs=detail", "?accs=x"], Order::Any, &[]);
    add("leafz", &["", "?subs=1&acc=A", "?subs=x"], Order::Any, &[]);
    add("subsz", SUBSZ, Order::Any, SERVICES);
    add("subscriptionsz", &["", "?subs=1&acc=A&test=bar"], Order::Any, SERVICES);
    add("accountz", &["", "?acc=A", "?acc=$G", "?acc=$SYS", "?acc=nope"], Order::Any, SERVICES);
    add("accstatz", &["", "?unused=1", "?unused=0", "?unused=x"], Order::Any, SERVICES);
    add("jsz", JSZ, Order::Any, &[]);
    add("healthz", HEALTHZ, Order::Any, &[]);
    add("raftz", &["", "?acc=A", "?group=x"], Order::Any, &[]);
    add("ipqueuesz", &["", "?all=0", "?all=x", "?all=1&queues=none"], Order::Any, &[]);
    add("debug/vars", &["", "?x"], Order::Any, &[]);
    add("", &["nope", "debug", "varz/", "?x"], Order::Any, &[]);
    list
}

/// Keys whose values count what the reference subscribes to and imports for its own services, which
/// are still to come here, and its caches, which are one for each account.
pub(super) const SERVICES: &[&str] = &[
    "subscriptions",
    "num_subscriptions",
    "num_cache",
    "num_inserts",
    "num_removes",
    "num_matches",
    "cache_hit_rate",
    "max_fanout",
    "avg_fanout",
];

const CONNZ: &[&str] = &[
    "",
    "?auth=1",
    "?auth=true&subs=1",
    "?subs=detail",
    "?subs=DETAIL&auth=1",
    "?state=open",
    "?state=closed&sort=cid",
    "?state=closed&sort=stop",
    "?state=closed&sort=stop&auth=1&subs=1",
    "?state=closed&sort=cid&auth=1&subs=detail",
    "?state=all&sort=cid",
    "?state=ANY&sort=start&limit=3&offset=2",
    "?sort=cid",
    "?sort=start",
    "?sort=msgs_from",
    "?sort=bytes_from",
    "?sort=bytes_to",
    "?user=a&auth=1",
    "?user=nobody",
    "?acc=B",
    "?acc=A&user=a&state=all",
    "?acc=nope",
    "?acc=$G",
    "?acc=$G&state=closed",
    "?offset=1",
    "?offset=1&limit=1",
    "?offset=100",
    "?offset=-1&limit=-1",
    "?limit=0",
    "?limit=2",
    "?cid=4000000000",
    "?cid=0",
    "?cid=x",
    "?mqtt_client=x",
    "?sort=stop",
    "?sort=reason&state=open",
    "?sort=nope",
    "?state=nope",
    "?auth=nope",
];

/// Rows that may be equal in the order asked for.
const CONNZ_IN_ANY_ORDER: &[&str] = &[
    "?sort=pending",
    "?sort=subs",
    "?sort=msgs_to",
    "?sort=last",
    "?sort=idle",
    "?sort=uptime",
    "?sort=rtt",
    "?state=closed&sort=reason",
];

const SUBSZ: &[&str] = &[
    "",
    "?acc=A",
    "?acc=nope",
    "?subs=1&acc=nope",
    "?subs=1&test=foo.x",
    "?subs=1&test=foo.x&acc=A",
    "?subs=1&test=foo.x.y&acc=A",
    "?subs=1&test=a&acc=B&limit=1",
    "?test=foo.*",
    "?subs=x",
    "?limit=x",
    "?offset=x",
    "?limit=0&offset=-3",
];

const JSZ: &[&str] = &[
    "",
    "?acc=A",
    "?accounts=1",
    "?streams=1&consumers=1&direct-consumers=1&config=1&raft=1",
    "?limit=1&offset=1",
    "?leader-only=1",
    "?stream-leader-only=1",
    "?accounts=x",
    "?limit=x",
];

const HEALTHZ: &[&str] = &[
    "",
    "?js-enabled=1",
    "?js-enabled-only=1",
    "?js-server-only=1",
    "?js-meta-only=1",
    "?details=1",
    "?account=A&stream=S&consumer=C",
    "?stream=S",
    "?consumer=C&details=1",
    "?account=nope",
    "?details=x",
];
