//! `cluster{}` and `gateway{}`.

use super::{BlockTable, OptionEntry};

pub(super) static CLUSTER: BlockTable = BlockTable {
    title: "cluster",
    entries: &[
        OptionEntry::new(
            &["name"],
            "text",
            "the gateway's name",
            "Name without blanks; made up when absent.",
        ),
        OptionEntry::new(&["listen"], "port or `host:port`", "", "Where routes are accepted."),
        OptionEntry::new(&["host", "net"], "text", "0.0.0.0", "Address to bind."),
        OptionEntry::new(&["port"], "number", "", "Port for routes; -1 lets the system choose."),
        OptionEntry::new(&["authorization"], "block", "", "How other servers log in."),
        OptionEntry::new(
            &["permissions"],
            "block",
            "",
            "Which interest crosses routes: `import` and `export`.",
        ),
        OptionEntry::new(&["routes"], "list of URLs", "", "Servers of the cluster to connect to."),
        OptionEntry::new(&["tls"], "block", "", "TLS between servers; both sides show certificates."),
        OptionEntry::new(
            &["cluster_advertise", "advertise"],
            "`host` or `host:port`",
            "",
            "What other servers are told instead of the bound address.",
        ),
        OptionEntry::new(
            &["no_advertise"],
            "boolean",
            "false",
            "Do not tell clients the addresses of other servers.",
        ),
        OptionEntry::new(
            &["connect_retries"],
            "number",
            "0",
            "Further attempts to reach a server that another one told of.",
        ),
        OptionEntry::new(
            &["connect_backoff"],
            "boolean",
            "false",
            "Wait longer after each attempt, up to 30s.",
        ),
        OptionEntry::new(
            &["pool_size"],
            "number",
            "3",
            "Connections between two servers; negative for one as before 2.10.",
        ),
        OptionEntry::new(
            &["accounts"],
            "name or list",
            "the system account",
            "Accounts with a connection of their own.",
        ),
        OptionEntry::new(
            &["compression"],
            "mode, boolean or block",
            "accept",
            "How routes are compressed; `on` is `s2_fast`.",
        ),
        OptionEntry::new(
            &["ping_interval"],
            "duration",
            "that of clients, at most 30s",
            "Quiet time before a route is pinged.",
        ),
        OptionEntry::new(
            &["ping_max"],
            "number",
            "that of clients",
            "Unanswered pings before a route is cut off.",
        ),
        OptionEntry::new(
            &["write_deadline"],
            "duration",
            "that of clients",
            "How long the other side may accept nothing.",
        ),
        OptionEntry::new(&["write_timeout"], "`default`, `close` or `retry`", "retry", "What happens then."),
    ],
};

pub(super) static LINK_AUTHORIZATION: BlockTable = BlockTable {
    title: "cluster.authorization, gateway.authorization",
    entries: &[
        OptionEntry::new(&["user", "username"], "text", "", "The user that other servers log in as."),
        OptionEntry::new(&["pass", "password"], "text", "", "Its password, plain or bcrypt."),
        OptionEntry::new(
            &["timeout"],
            "seconds or duration",
            "2",
            "Time to log in; with TLS one second more than for the handshake.",
        ),
        OptionEntry::new(
            &["permissions", "default_permissions", "default_permission"],
            "block",
            "",
            "Deprecated; `cluster.permissions` says it.",
        ),
        OptionEntry::new(&["token"], "text", "", "Refused here."),
        OptionEntry::new(&["users"], "list", "", "Refused here."),
        OptionEntry::new(&["auth_callout", "auth_hook"], "block", "", "Refused here."),
        OptionEntry::new(&["proxy_required"], "boolean", "false", "Ignored here."),
    ],
};

pub(super) static COMPRESSION: BlockTable = BlockTable {
    title: "compression",
    entries: &[
        OptionEntry::new(
            &["mode"],
            "text",
            "",
            "`off`, `accept`, `s2_auto`, `s2_fast`, `s2_better`, `s2_best`, `not supported` or `on`.",
        ),
        OptionEntry::new(
            &["rtt_thresholds", "thresholds", "rtts", "rtt"],
            "list of durations",
            "10ms, 50ms, 100ms",
            "For `s2_auto`: up to which round trips it is uncompressed, fast, better and best.",
        ),
    ],
};

pub(super) static GATEWAY: BlockTable = BlockTable {
    title: "gateway",
    entries: &[
        OptionEntry::new(&["name"], "text", "", "Name of this cluster, without blanks."),
        OptionEntry::new(&["listen"], "port or `host:port`", "", "Where gateways are accepted."),
        OptionEntry::new(&["host", "net"], "text", "0.0.0.0", "Address to bind."),
        OptionEntry::new(&["port"], "number", "", "Port for gateways; required."),
        OptionEntry::new(&["authorization"], "block", "", "How other clusters log in."),
        OptionEntry::new(&["tls"], "block", "", "TLS between clusters; both sides show certificates."),
        OptionEntry::new(
            &["advertise"],
            "`host` or `host:port`",
            "",
            "What other clusters are told instead of the bound address.",
        ),
        OptionEntry::new(
            &["connect_retries"],
            "number",
            "0",
            "Further attempts to reach a cluster that another one told of.",
        ),
        OptionEntry::new(
            &["connect_backoff"],
            "boolean",
            "false",
            "Wait longer after each attempt, up to 30s.",
        ),
        OptionEntry::new(&["gateways"], "list", "", "Other clusters to connect to."),
        OptionEntry::new(
            &["reject_unknown_cluster", "reject_unknown"],
            "boolean",
            "false",
            "Refuse clusters that are not in the list.",
        ),
        OptionEntry::new(
            &["write_deadline"],
            "duration",
            "that of clients",
            "How long the other side may accept nothing.",
        ),
        OptionEntry::new(&["write_timeout"], "`default`, `close` or `retry`", "retry", "What happens then."),
    ],
};

pub(super) static REMOTE_GATEWAY: BlockTable = BlockTable {
    title: "gateway.gateways[]",
    entries: &[
        OptionEntry::new(&["name"], "text", "", "Name of the other cluster; required."),
        OptionEntry::new(&["url"], "URL", "", "One of its servers."),
        OptionEntry::new(&["urls"], "list of URLs", "", "Its servers."),
        OptionEntry::new(&["tls"], "block", "that of the gateway", "TLS for this cluster."),
    ],
};
