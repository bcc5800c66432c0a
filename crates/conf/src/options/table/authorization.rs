//! `authorization{}`, users and permissions.

use super::{BlockTable, OptionEntry};

pub(super) static AUTHORIZATION: BlockTable = BlockTable {
    title: "authorization",
    entries: &[
        OptionEntry::new(&["user", "username"], "text", "", "The single user.").live(),
        OptionEntry::new(&["pass", "password"], "text", "", "Its password, plain or bcrypt.").live(),
        OptionEntry::new(&["token"], "text", "", "The token that all clients send.").live(),
        OptionEntry::new(&["timeout"], "seconds or duration", "2", "Time for a client to authenticate.")
            .live(),
        OptionEntry::new(&["users"], "list", "", "Users of the global account.").live(),
        OptionEntry::new(
            &["default_permissions", "default_permission", "permissions"],
            "block",
            "",
            "Permissions of users who have none of their own.",
        )
        .live(),
        OptionEntry::new(
            &["auth_callout", "auth_hook"],
            "block",
            "",
            "A service that decides who may connect.",
        )
        .live(),
        OptionEntry::new(&["proxy_required"], "boolean", "false", "Users must come through a trusted proxy.")
            .live(),
    ],
};

pub(super) static AUTH_CALLOUT: BlockTable = BlockTable {
    title: "authorization.auth_callout",
    entries: &[
        OptionEntry::new(&["issuer"], "public key", "", "The account that signs the answers; required.")
            .live(),
        OptionEntry::new(&["account", "acc"], "text", "$G", "The account the service listens in.").live(),
        OptionEntry::new(&["auth_users", "users"], "list", "", "Users the service connects as; required.")
            .live(),
        OptionEntry::new(&["xkey", "key"], "public key", "", "Curve key that requests are sealed for.")
            .live(),
        OptionEntry::new(&["allowed_accounts"], "list", "", "The only accounts that users may be put into.")
            .live(),
    ],
};

pub(super) static USER: BlockTable = BlockTable {
    title: "users[]",
    entries: &[
        OptionEntry::new(&["user", "username"], "text", "", "Name, unique over all accounts.").live(),
        OptionEntry::new(&["pass", "password"], "text", "", "Password, plain or bcrypt.").live(),
        OptionEntry::new(&["nkey"], "public key", "", "Instead of name and password.").live(),
        OptionEntry::new(
            &["permissions", "permission", "authorization"],
            "block",
            "",
            "What the user may do.",
        )
        .live(),
        OptionEntry::new(
            &["allowed_connection_types", "connection_types", "clients"],
            "list",
            "",
            "Kinds of connection the user may use.",
        )
        .live(),
        OptionEntry::new(
            &["proxy_required"],
            "boolean",
            "false",
            "The user must come through a trusted proxy.",
        )
        .live(),
    ],
};

pub(super) static PERMISSIONS: BlockTable = BlockTable {
    title: "permissions",
    entries: &[
        OptionEntry::new(&["publish", "pub", "import"], "subject, list or block", "", "Where to publish.")
            .live(),
        OptionEntry::new(
            &["subscribe", "sub", "export"],
            "subject, list or block",
            "",
            "What to subscribe to; entries may be `\"subject queue\"`.",
        )
        .live(),
        OptionEntry::new(
            &["allow_responses", "publish_allow_responses"],
            "boolean or block",
            "false",
            "May answer the requests it receives.",
        )
        .live(),
    ],
};

pub(super) static SUBJECT_PERMISSION: BlockTable = BlockTable {
    title: "permissions.publish, permissions.subscribe",
    entries: &[
        OptionEntry::new(&["allow"], "subject or list", "", "Allowed; nothing else is.").live(),
        OptionEntry::new(&["deny"], "subject or list", "", "Refused, also where allowed.").live(),
    ],
};

pub(super) static RESPONSES: BlockTable = BlockTable {
    title: "permissions.allow_responses",
    entries: &[
        OptionEntry::new(
            &["max", "max_msgs", "max_messages", "max_responses"],
            "number",
            "1",
            "Answers to one request; negative is no limit.",
        )
        .live(),
        OptionEntry::new(
            &["expires", "expiration", "ttl"],
            "duration",
            "2m",
            "How long; negative is for ever.",
        )
        .live(),
    ],
};
