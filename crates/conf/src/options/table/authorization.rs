//! `authorization{}`, users and permissions.

use super::{Block, Entry};

pub(super) static AUTHORIZATION: Block = Block {
    title: "authorization",
    entries: &[
        Entry::new(&["user", "username"], "text", "", "The single user.").live(),
        Entry::new(&["pass", "password"], "text", "", "Its password, plain or bcrypt.").live(),
        Entry::new(&["token"], "text", "", "The token that all clients send.").live(),
        Entry::new(&["timeout"], "seconds or duration", "2", "Time for a client to authenticate.").live(),
        Entry::new(&["users"], "list", "", "Users of the global account.").live(),
        Entry::new(
            &["default_permissions", "default_permission", "permissions"],
            "block",
            "",
            "Permissions of users who have none of their own.",
        )
        .live(),
        Entry::new(&["auth_callout", "auth_hook"], "block", "", "A service that decides who may connect.")
            .live(),
        Entry::new(&["proxy_required"], "boolean", "false", "Users must come through a trusted proxy.")
            .live(),
    ],
};

pub(super) static AUTH_CALLOUT: Block = Block {
    title: "authorization.auth_callout",
    entries: &[
        Entry::new(&["issuer"], "public key", "", "The account that signs the answers; required.").live(),
        Entry::new(&["account", "acc"], "text", "$G", "The account the service listens in.").live(),
        Entry::new(&["auth_users", "users"], "list", "", "Users the service connects as; required.").live(),
        Entry::new(&["xkey", "key"], "public key", "", "Curve key that requests are sealed for.").live(),
        Entry::new(&["allowed_accounts"], "list", "", "The only accounts that users may be put into.").live(),
    ],
};

pub(super) static USER: Block = Block {
    title: "users[]",
    entries: &[
        Entry::new(&["user", "username"], "text", "", "Name, unique over all accounts.").live(),
        Entry::new(&["pass", "password"], "text", "", "Password, plain or bcrypt.").live(),
        Entry::new(&["nkey"], "public key", "", "Instead of name and password.").live(),
        Entry::new(&["permissions", "permission", "authorization"], "block", "", "What the user may do.")
            .live(),
        Entry::new(
            &["allowed_connection_types", "connection_types", "clients"],
            "list",
            "",
            "Kinds of connection the user may use.",
        )
        .live(),
        Entry::new(&["proxy_required"], "boolean", "false", "The user must come through a trusted proxy.")
            .live(),
    ],
};

pub(super) static PERMISSIONS: Block = Block {
    title: "permissions",
    entries: &[
        Entry::new(&["publish", "pub", "import"], "subject, list or block", "", "Where to publish.").live(),
        Entry::new(
            &["subscribe", "sub", "export"],
            "subject, list or block",
            "",
            "What to subscribe to; entries may be `\"subject queue\"`.",
        )
        .live(),
        Entry::new(
            &["allow_responses", "publish_allow_responses"],
            "boolean or block",
            "false",
            "May answer the requests it receives.",
        )
        .live(),
    ],
};

pub(super) static SUBJECT_PERMISSION: Block = Block {
    title: "permissions.publish, permissions.subscribe",
    entries: &[
        Entry::new(&["allow"], "subject or list", "", "Allowed; nothing else is.").live(),
        Entry::new(&["deny"], "subject or list", "", "Refused, also where allowed.").live(),
    ],
};

pub(super) static RESPONSES: Block = Block {
    title: "permissions.allow_responses",
    entries: &[
        Entry::new(
            &["max", "max_msgs", "max_messages", "max_responses"],
            "number",
            "1",
            "Answers to one request; negative is no limit.",
        )
        .live(),
        Entry::new(&["expires", "expiration", "ttl"], "duration", "2m", "How long; negative is for ever.")
            .live(),
    ],
};
