//! `accounts{}`.

use super::{Block, Entry};

pub(super) static ACCOUNT: Block = Block {
    title: "accounts.NAME",
    entries: &[
        Entry::new(&["users"], "list", "", "Users of the account."),
        Entry::new(&["default_permissions"], "block", "", "Permissions of users who have none of their own."),
        Entry::new(&["limits"], "block", "", "Limits of the account."),
        Entry::new(&["nkey"], "public key", "", "The account's own key.").missing("nkeys"),
        Entry::new(&["imports"], "list", "", "Subjects of other accounts.").missing("imports and exports"),
        Entry::new(&["exports"], "list", "", "Subjects for other accounts.").missing("imports and exports"),
        Entry::new(&["mappings", "maps"], "block", "", "Subject mappings.").missing("subject mappings"),
        Entry::new(&["jetstream"], "boolean, text or block", "", "JetStream and its limits.")
            .missing("JetStream"),
        Entry::new(
            &["msg_trace", "trace_dest"],
            "subject or block",
            "",
            "Where traced messages are reported.",
        )
        .missing("message tracing"),
    ],
};

pub(super) static LIMITS: Block = Block {
    title: "accounts.NAME.limits",
    entries: &[
        Entry::new(&["max_connections", "max_conn"], "number", "-1", "Clients at once."),
        Entry::new(&["max_subscriptions", "max_subs"], "number", "-1", "Subscriptions of one client."),
        Entry::new(&["max_payload", "max_pay"], "bytes", "-1", "Largest message."),
        Entry::new(&["max_leafnodes", "max_leafs"], "number", "-1", "Leaf nodes at once."),
    ],
};
