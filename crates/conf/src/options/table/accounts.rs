//! `accounts{}`.

use super::{BlockTable, OptionEntry};

pub(super) static ACCOUNT: BlockTable = BlockTable {
    title: "accounts.NAME",
    entries: &[
        OptionEntry::new(&["users"], "list", "", "Users of the account.").live(),
        OptionEntry::new(
            &["default_permissions"],
            "block",
            "",
            "Permissions of users who have none of their own.",
        )
        .live(),
        OptionEntry::new(&["limits"], "block", "", "Limits of the account.").live(),
        OptionEntry::new(&["nkey"], "public key", "", "The account's own key.").live(),
        OptionEntry::new(&["imports"], "list", "", "Subjects of other accounts.").live(),
        OptionEntry::new(&["exports"], "list", "", "Subjects for other accounts.").live(),
        OptionEntry::new(&["mappings", "maps"], "block", "", "Subject mappings.").live(),
        OptionEntry::new(&["jetstream"], "boolean, text or block", "", "JetStream and its limits.").live(),
        OptionEntry::new(
            &["msg_trace", "trace_dest"],
            "subject or block",
            "",
            "Where traced messages are reported.",
        )
        .live(),
    ],
};

pub(super) static LIMITS: BlockTable = BlockTable {
    title: "accounts.NAME.limits",
    entries: &[
        OptionEntry::new(&["max_connections", "max_conn"], "number", "-1", "Clients at once.").live(),
        OptionEntry::new(&["max_subscriptions", "max_subs"], "number", "-1", "Subscriptions of one client.")
            .live(),
        OptionEntry::new(&["max_payload", "max_pay"], "bytes", "-1", "Largest message.").live(),
        OptionEntry::new(&["max_leafnodes", "max_leafs"], "number", "-1", "Leaf nodes at once.").live(),
    ],
};
