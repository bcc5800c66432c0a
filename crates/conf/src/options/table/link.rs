//! `cluster{}` and `gateway{}`.

use super::{Block, Entry};

pub(super) static CLUSTER: Block = Block {
    title: "cluster",
    entries: &[
        Entry::new(&["name"], "text", "the gateway's name", "Name without blanks; made up when absent."),
        Entry::new(&["listen"], "port or `host:port`", "", "Where routes are accepted."),
        Entry::new(&["host", "net"], "text", "0.0.0.0", "Address to bind."),
        Entry::new(&["port"], "number", "", "Port for routes; -1 lets the system choose."),
        Entry::new(&["authorization"], "block", "", "How other servers log in."),
        Entry::new(&["permissions"], "block", "", "Which interest crosses routes: `import` and `export`."),
        Entry::new(&["routes"], "list of URLs", "", "Servers of the cluster to connect to."),
        Entry::new(&["tls"], "block", "", "TLS between servers; both sides show certificates."),
        Entry::new(
            &["cluster_advertise", "advertise"],
            "`host` or `host:port`",
            "",
            "What other servers are told instead of the bound address.",
        ),
        Entry::new(
            &["no_advertise"],
            "boolean",
            "false",
            "Do not tell clients the addresses of other servers.",
        ),
        Entry::new(
            &["connect_retries"],
            "number",
            "0",
            "Further attempts to reach a server that another one told of.",
        ),
        Entry::new(&["connect_backoff"], "boolean", "false", "Wait longer after each attempt, up to 30s."),
        Entry::new(
            &["pool_size"],
            "number",
            "3",
            "Connections between two servers; negative for one as before 2.10.",
        ),
        Entry::new(
            &["accounts"],
            "name or list",
            "the system account",
            "Accounts with a connection of their own.",
        ),
        Entry::new(
            &["compression"],
            "mode, boolean or block",
            "accept",
            "How routes are compressed; `on` is `s2_fast`.",
        ),
        Entry::new(
            &["ping_interval"],
            "duration",
            "that of clients, at most 30s",
            "Quiet time before a route is pinged.",
        ),
        Entry::new(&["ping_max"], "number", "that of clients", "Unanswered pings before a route is cut off."),
        Entry::new(
            &["write_deadline"],
            "duration",
            "that of clients",
            "How long the other side may accept nothing.",
        ),
        Entry::new(&["write_timeout"], "`default`, `close` or `retry`", "retry", "What happens then."),
    ],
};

pub(super) static LINK_AUTHORIZATION: Block = Block {
    title: "cluster.authorization, gateway.authorization",
    entries: &[
        Entry::new(&["user", "username"], "text", "", "The user that other servers log in as."),
        Entry::new(&["pass", "password"], "text", "", "Its password, plain or bcrypt."),
        Entry::new(
            &["timeout"],
            "seconds or duration",
            "2",
            "Time to log in; with TLS one second more than for the handshake.",
        ),
        Entry::new(
            &["permissions", "default_permissions", "default_permission"],
            "block",
            "",
            "Deprecated; `cluster.permissions` says it.",
        ),
        Entry::new(&["token"], "text", "", "Refused here."),
        Entry::new(&["users"], "list", "", "Refused here."),
        Entry::new(&["auth_callout", "auth_hook"], "block", "", "Refused here."),
        Entry::new(&["proxy_required"], "boolean", "false", "Ignored here."),
    ],
};

pub(super) static COMPRESSION: Block = Block {
    title: "compression",
    entries: &[
        Entry::new(
            &["mode"],
            "text",
            "",
            "`off`, `accept`, `s2_auto`, `s2_fast`, `s2_better`, `s2_best`, `not supported` or `on`.",
        ),
        Entry::new(
            &["rtt_thresholds", "thresholds", "rtts", "rtt"],
            "list of durations",
            "10ms, 50ms, 100ms",
            "For `s2_auto`: up to which round trips it is uncompressed, fast, better and best.",
        ),
    ],
};

pub(super) static GATEWAY: Block = Block {
    title: "gateway",
    entries: &[
        Entry::new(&["name"], "text", "", "Name of this cluster, without blanks."),
        Entry::new(&["listen"], "port or `host:port`", "", "Where gateways are accepted."),
        Entry::new(&["host", "net"], "text", "0.0.0.0", "Address to bind."),
        Entry::new(&["port"], "number", "", "Port for gateways; required."),
        Entry::new(&["authorization"], "block", "", "How other clusters log in."),
        Entry::new(&["tls"], "block", "", "TLS between clusters; both sides show certificates."),
        Entry::new(
            &["advertise"],
            "`host` or `host:port`",
            "",
            "What other clusters are told instead of the bound address.",
        ),
        Entry::new(
            &["connect_retries"],
            "number",
            "0",
            "Further attempts to reach a cluster that another one told of.",
        ),
        Entry::new(&["connect_backoff"], "boolean", "false", "Wait longer after each attempt, up to 30s."),
        Entry::new(&["gateways"], "list", "", "Other clusters to connect to."),
        Entry::new(
            &["reject_unknown_cluster", "reject_unknown"],
            "boolean",
            "false",
            "Refuse clusters that are not in the list.",
        ),
        Entry::new(
            &["write_deadline"],
            "duration",
            "that of clients",
            "How long the other side may accept nothing.",
        ),
        Entry::new(&["write_timeout"], "`default`, `close` or `retry`", "retry", "What happens then."),
    ],
};

pub(super) static REMOTE_GATEWAY: Block = Block {
    title: "gateway.gateways[]",
    entries: &[
        Entry::new(&["name"], "text", "", "Name of the other cluster; required."),
        Entry::new(&["url"], "URL", "", "One of its servers."),
        Entry::new(&["urls"], "list of URLs", "", "Its servers."),
        Entry::new(&["tls"], "block", "that of the gateway", "TLS for this cluster."),
    ],
};
