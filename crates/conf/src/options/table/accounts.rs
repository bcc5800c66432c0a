//! `accounts{}`.

use super::{Block, Class, Entry};

pub(super) static ACCOUNT: Block = Block {
    title: "accounts.NAME",
    entries: &[
        Entry::new(&["users"], "list", "", "Users of the account.").live(),
        Entry::new(&["default_permissions"], "block", "", "Permissions of users who have none of their own.")
            .live(),
        Entry::new(&["limits"], "block", "", "Limits of the account.").live(),
        Entry::new(&["nkey"], "public key", "", "The account's own key.").live(),
        Entry::new(&["imports"], "list", "", "Subjects of other accounts.").live(),
        Entry::new(&["exports"], "list", "", "Subjects for other accounts.").live(),
        Entry::new(&["mappings", "maps"], "block", "", "Subject mappings.").live(),
        Entry::new(&["jetstream"], "boolean, text or block", "", "JetStream and its limits.").live(),
        Entry::new(
            &["msg_trace", "trace_dest"],
            "subject or block",
            "",
            "Where traced messages are reported.",
        )
        .live(),
    ],
};

pub(super) static LIMITS: Block = Block {
    title: "accounts.NAME.limits",
    entries: &[
        Entry::new(&["max_connections", "max_conn"], "number", "-1", "Clients at once.").live(),
        Entry::new(&["max_subscriptions", "max_subs"], "number", "-1", "Subscriptions of one client.").live(),
        Entry::new(&["max_payload", "max_pay"], "bytes", "-1", "Largest message.").live(),
        Entry::new(&["max_leafnodes", "max_leafs"], "number", "-1", "Leaf nodes at once.")
            .class(Class::NoMeaning("there are no leaf nodes"))
            .live(),
    ],
};
