//! `leafnodes{}`.

use super::{Block, Entry};

pub(super) static LEAF_NODES: Block = Block {
    title: "leafnodes",
    entries: &[
        Entry::new(&["listen"], "port or `host:port`", "", "Where leaf nodes are accepted."),
        Entry::new(&["host", "net"], "text", "0.0.0.0", "Address to bind."),
        Entry::new(&["port"], "number", "", "Port for leaf nodes; -1 lets the system choose."),
        Entry::new(&["authorization"], "block", "", "Who may connect as a leaf node."),
        Entry::new(&["remotes"], "list", "", "Servers to connect to as a leaf node."),
        Entry::new(
            &["reconnect", "reconnect_delay", "reconnect_interval"],
            "duration",
            "1s",
            "Wait between two attempts to connect.",
        ),
        Entry::new(&["dial_timeout"], "duration", "1s", "Time for the TCP connection to a remote."),
        Entry::new(&["tls"], "block", "", "TLS for leaf nodes that connect."),
        Entry::new(
            &["leafnode_advertise", "advertise"],
            "`host` or `host:port`",
            "",
            "What leaf nodes are told instead of the bound address.",
        ),
        Entry::new(
            &["no_advertise"],
            "boolean",
            "false",
            "Do not tell leaf nodes the addresses of other servers.",
        ),
        Entry::new(
            &["min_version", "minimum_version"],
            "version",
            "",
            "Oldest version of a leaf node; at least 2.8.0.",
        ),
        Entry::new(
            &["compression"],
            "mode, boolean or block",
            "s2_auto",
            "How links are compressed; `on` is `s2_auto`.",
        ),
        Entry::new(
            &["isolate_leafnode_interest", "isolate"],
            "boolean",
            "false",
            "Do not tell leaf nodes what others are interested in.",
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

pub(super) static LEAF_AUTHORIZATION: Block = Block {
    title: "leafnodes.authorization",
    entries: &[
        Entry::new(&["user", "username"], "text", "", "The single user."),
        Entry::new(&["pass", "password"], "text", "", "Its password, plain or bcrypt."),
        Entry::new(&["nkey"], "public key", "", "The single key, instead of a user."),
        Entry::new(&["account"], "text", "$G", "Account of the single user or key."),
        Entry::new(&["users"], "list", "", "Users, instead of a single one."),
        Entry::new(
            &["timeout"],
            "seconds or duration",
            "2",
            "Time to log in; with TLS one second more than for the handshake.",
        ),
        Entry::new(&["proxy_required"], "boolean", "false", "Leaf nodes must come through a trusted proxy."),
    ],
};

pub(super) static LEAF_USER: Block = Block {
    title: "leafnodes.authorization.users[]",
    entries: &[
        Entry::new(&["user", "username"], "text", "", "Name, unique in the list."),
        Entry::new(&["pass", "password"], "text", "", "Password, plain or bcrypt."),
        Entry::new(&["account"], "text", "$G", "Account of the leaf node."),
        Entry::new(
            &["proxy_required"],
            "boolean",
            "false",
            "The leaf node must come through a trusted proxy.",
        ),
    ],
};

pub(super) static LEAF_REMOTE: Block = Block {
    title: "leafnodes.remotes[]",
    entries: &[
        Entry::new(
            &["url", "urls"],
            "URL or list",
            "",
            "Servers of the remote: `nats-leaf://`, `tls://`, `ws://`, `wss://`; port 7422 when absent.",
        ),
        Entry::new(&["no_randomize", "dont_randomize"], "boolean", "false", "Try them in this order."),
        Entry::new(&["account", "local"], "text", "$G", "Account of this server that the link belongs to."),
        Entry::new(&["creds", "credentials"], "path", "", "File of a JWT and a seed to log in with."),
        Entry::new(&["nkey", "seed"], "seed", "", "Seed of a user's key to log in with."),
        Entry::new(&["tls"], "block", "", "TLS for the remote."),
        Entry::new(&["hub"], "boolean", "false", "This server is the hub although it connects."),
        Entry::new(
            &["deny_imports", "deny_import"],
            "subject or list",
            "",
            "What is not taken from the remote.",
        ),
        Entry::new(
            &["deny_exports", "deny_export"],
            "subject or list",
            "",
            "What is not sent to the remote.",
        ),
        Entry::new(
            &["ws_compression", "ws_compress", "websocket_compression", "websocket_compress"],
            "boolean",
            "false",
            "Ask for compressed WebSocket frames.",
        ),
        Entry::new(
            &["ws_no_masking", "websocket_no_masking"],
            "boolean",
            "false",
            "Send WebSocket frames without mask.",
        ),
        Entry::new(
            &["jetstream_cluster_migrate", "js_cluster_migrate"],
            "boolean or block",
            "false",
            "Move leaders of streams away while the link is down; `leader_migrate_delay` says after how long.",
        ),
        Entry::new(
            &["isolate_leafnode_interest", "isolate"],
            "boolean",
            "false",
            "Do not tell the remote what others here are interested in.",
        ),
        Entry::new(&["request_isolation"], "boolean", "false", "Ask the remote for the same."),
        Entry::new(
            &["compression"],
            "mode, boolean or block",
            "s2_auto",
            "How the link is compressed; `on` is `s2_auto`.",
        ),
        Entry::new(&["first_info_timeout"], "duration", "1s", "Time for the remote to send INFO."),
        Entry::new(&["dial_timeout"], "duration", "that of `leafnodes`", "Time for the TCP connection."),
        Entry::new(&["disabled"], "boolean", "false", "Do not connect."),
        Entry::new(&["proxy"], "block", "", "HTTP proxy to go through."),
        Entry::new(
            &["ignore_discovered_servers"],
            "boolean",
            "false",
            "Connect to the servers of `urls` only.",
        ),
    ],
};

pub(super) static LEAF_PROXY: Block = Block {
    title: "leafnodes.remotes[].proxy",
    entries: &[
        Entry::new(&["url"], "URL", "", "`http` or `https`, with a host."),
        Entry::new(&["username"], "text", "", "User, together with `password`."),
        Entry::new(&["password"], "text", "", "Password of the user."),
        Entry::new(&["timeout"], "duration", "`dial_timeout`", "Time for the tunnel."),
        Entry::new(&["tls"], "block", "", "TLS for an `https` proxy."),
    ],
};
