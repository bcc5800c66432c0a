//! `leafnodes{}`.

use super::{BlockTable, OptionEntry};

pub(super) static LEAF_NODES: BlockTable = BlockTable {
    title: "leafnodes",
    entries: &[
        OptionEntry::new(&["listen"], "port or `host:port`", "", "Where leaf nodes are accepted."),
        OptionEntry::new(&["host", "net"], "text", "0.0.0.0", "Address to bind."),
        OptionEntry::new(&["port"], "number", "", "Port for leaf nodes; -1 lets the system choose."),
        OptionEntry::new(&["authorization"], "block", "", "Who may connect as a leaf node."),
        OptionEntry::new(&["remotes"], "list", "", "Servers to connect to as a leaf node."),
        OptionEntry::new(
            &["reconnect", "reconnect_delay", "reconnect_interval"],
            "duration",
            "1s",
            "Wait between two attempts to connect.",
        ),
        OptionEntry::new(&["dial_timeout"], "duration", "1s", "Time for the TCP connection to a remote."),
        OptionEntry::new(&["tls"], "block", "", "TLS for leaf nodes that connect."),
        OptionEntry::new(
            &["leafnode_advertise", "advertise"],
            "`host` or `host:port`",
            "",
            "What leaf nodes are told instead of the bound address.",
        ),
        OptionEntry::new(
            &["no_advertise"],
            "boolean",
            "false",
            "Do not tell leaf nodes the addresses of other servers.",
        ),
        OptionEntry::new(
            &["min_version", "minimum_version"],
            "version",
            "",
            "Oldest version of a leaf node; at least 2.8.0.",
        ),
        OptionEntry::new(
            &["compression"],
            "mode, boolean or block",
            "s2_auto",
            "How links are compressed; `on` is `s2_auto`.",
        ),
        OptionEntry::new(
            &["isolate_leafnode_interest", "isolate"],
            "boolean",
            "false",
            "Do not tell leaf nodes what others are interested in.",
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

pub(super) static LEAF_AUTHORIZATION: BlockTable = BlockTable {
    title: "leafnodes.authorization",
    entries: &[
        OptionEntry::new(&["user", "username"], "text", "", "The single user."),
        OptionEntry::new(&["pass", "password"], "text", "", "Its password, plain or bcrypt."),
        OptionEntry::new(&["nkey"], "public key", "", "The single key, instead of a user."),
        OptionEntry::new(&["account"], "text", "$G", "Account of the single user or key."),
        OptionEntry::new(&["users"], "list", "", "Users, instead of a single one."),
        OptionEntry::new(
            &["timeout"],
            "seconds or duration",
            "2",
            "Time to log in; with TLS one second more than for the handshake.",
        ),
        OptionEntry::new(
            &["proxy_required"],
            "boolean",
            "false",
            "Leaf nodes must come through a trusted proxy.",
        ),
    ],
};

pub(super) static LEAF_USER: BlockTable = BlockTable {
    title: "leafnodes.authorization.users[]",
    entries: &[
        OptionEntry::new(&["user", "username"], "text", "", "Name, unique in the list."),
        OptionEntry::new(&["pass", "password"], "text", "", "Password, plain or bcrypt."),
        OptionEntry::new(&["account"], "text", "$G", "Account of the leaf node."),
        OptionEntry::new(
            &["proxy_required"],
            "boolean",
            "false",
            "The leaf node must come through a trusted proxy.",
        ),
    ],
};

pub(super) static LEAF_REMOTE: BlockTable = BlockTable {
    title: "leafnodes.remotes[]",
    entries: &[
        OptionEntry::new(
            &["url", "urls"],
            "URL or list",
            "",
            "Servers of the remote: `nats-leaf://`, `tls://`, `ws://`, `wss://`; port 7422 when absent.",
        ),
        OptionEntry::new(&["no_randomize", "dont_randomize"], "boolean", "false", "Try them in this order."),
        OptionEntry::new(
            &["account", "local"],
            "text",
            "$G",
            "Account of this server that the link belongs to.",
        ),
        OptionEntry::new(&["creds", "credentials"], "path", "", "File of a JWT and a seed to log in with."),
        OptionEntry::new(&["nkey", "seed"], "seed", "", "Seed of a user's key to log in with."),
        OptionEntry::new(&["tls"], "block", "", "TLS for the remote."),
        OptionEntry::new(&["hub"], "boolean", "false", "This server is the hub although it connects."),
        OptionEntry::new(
            &["deny_imports", "deny_import"],
            "subject or list",
            "",
            "What is not taken from the remote.",
        ),
        OptionEntry::new(
            &["deny_exports", "deny_export"],
            "subject or list",
            "",
            "What is not sent to the remote.",
        ),
        OptionEntry::new(
            &["ws_compression", "ws_compress", "websocket_compression", "websocket_compress"],
            "boolean",
            "false",
            "Ask for compressed WebSocket frames.",
        ),
        OptionEntry::new(
            &["ws_no_masking", "websocket_no_masking"],
            "boolean",
            "false",
            "Send WebSocket frames without mask.",
        ),
        OptionEntry::new(
            &["jetstream_cluster_migrate", "js_cluster_migrate"],
            "boolean or block",
            "false",
            "Move leaders of streams away while the link is down; `leader_migrate_delay` says after how long.",
        ),
        OptionEntry::new(
            &["isolate_leafnode_interest", "isolate"],
            "boolean",
            "false",
            "Do not tell the remote what others here are interested in.",
        ),
        OptionEntry::new(&["request_isolation"], "boolean", "false", "Ask the remote for the same."),
        OptionEntry::new(
            &["compression"],
            "mode, boolean or block",
            "s2_auto",
            "How the link is compressed; `on` is `s2_auto`.",
        ),
        OptionEntry::new(&["first_info_timeout"], "duration", "1s", "Time for the remote to send INFO."),
        OptionEntry::new(
            &["dial_timeout"],
            "duration",
            "that of `leafnodes`",
            "Time for the TCP connection.",
        ),
        OptionEntry::new(&["disabled"], "boolean", "false", "Do not connect."),
        OptionEntry::new(&["proxy"], "block", "", "HTTP proxy to go through."),
        OptionEntry::new(
            &["ignore_discovered_servers"],
            "boolean",
            "false",
            "Connect to the servers of `urls` only.",
        ),
    ],
};

pub(super) static LEAF_PROXY: BlockTable = BlockTable {
    title: "leafnodes.remotes[].proxy",
    entries: &[
        OptionEntry::new(&["url"], "URL", "", "`http` or `https`, with a host."),
        OptionEntry::new(&["username"], "text", "", "User, together with `password`."),
        OptionEntry::new(&["password"], "text", "", "Password of the user."),
        OptionEntry::new(&["timeout"], "duration", "`dial_timeout`", "Time for the tunnel."),
        OptionEntry::new(&["tls"], "block", "", "TLS for an `https` proxy."),
    ],
};
