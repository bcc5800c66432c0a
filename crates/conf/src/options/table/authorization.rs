//! `authorization{}`, users and permissions.

use super::{Block, Entry};

pub(super) static AUTHORIZATION: Block = Block {
    title: "authorization",
    entries: &[
        Entry::new(&["user", "username"], "text", "", "The single user."),
        Entry::new(&["pass", "password"], "text", "", "Its password, plain or bcrypt."),
        Entry::new(&["token"], "text", "", "The token that all clients send."),
        Entry::new(&["timeout"], "seconds or duration", "2", "Time for a client to authenticate."),
        Entry::new(&["users"], "list", "", "Users of the global account."),
        Entry::new(
            &["default_permissions", "default_permission", "permissions"],
            "block",
            "",
            "Permissions of users who have none of their own.",
        ),
        Entry::new(&["auth_callout", "auth_hook"], "block", "", "A service that decides who may connect.")
            .missing("auth callout"),
        Entry::new(&["proxy_required"], "boolean", "false", "Users must come through a trusted proxy.")
            .missing("trusted proxies"),
    ],
};

pub(super) static AUTH_CALLOUT: Block = Block {
    title: "authorization.auth_callout",
    entries: &[
        Entry::new(&["issuer"], "public key", "", "The account that signs the answers; required."),
        Entry::new(&["account", "acc"], "text", "$G", "The account the service listens in."),
        Entry::new(&["auth_users", "users"], "list", "", "Users the service connects as; required."),
        Entry::new(&["xkey", "key"], "public key", "", "Curve key that requests are sealed for."),
        Entry::new(&["allowed_accounts"], "list", "", "The only accounts that users may be put into."),
    ],
};

pub(super) static USER: Block = Block {
    title: "users[]",
    entries: &[
        Entry::new(&["user", "username"], "text", "", "Name, unique over all accounts."),
        Entry::new(&["pass", "password"], "text", "", "Password, plain or bcrypt."),
        Entry::new(&["nkey"], "public key", "", "Instead of name and password.").missing("nkeys"),
        Entry::new(&["permissions", "permission", "authorization"], "block", "", "What the user may do."),
        Entry::new(
            &["allowed_connection_types", "connection_types", "clients"],
            "list",
            "",
            "Kinds of connection the user may use.",
        ),
        Entry::new(&["proxy_required"], "boolean", "false", "The user must come through a trusted proxy.")
            .missing("trusted proxies"),
    ],
};

pub(super) static PERMISSIONS: Block = Block {
    title: "permissions",
    entries: &[
        Entry::new(&["publish", "pub", "import"], "subject, list or block", "", "Where to publish."),
        Entry::new(
            &["subscribe", "sub", "export"],
            "subject, list or block",
            "",
            "What to subscribe to; entries may be `\"subject queue\"`.",
        ),
        Entry::new(
            &["allow_responses", "publish_allow_responses"],
            "boolean or block",
            "false",
            "May answer the requests it receives.",
        ),
    ],
};

pub(super) static SUBJECT_PERMISSION: Block = Block {
    title: "permissions.publish, permissions.subscribe",
    entries: &[
        Entry::new(&["allow"], "subject or list", "", "Allowed; nothing else is."),
        Entry::new(&["deny"], "subject or list", "", "Refused, also where allowed."),
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
        ),
        Entry::new(&["expires", "expiration", "ttl"], "duration", "2m", "How long; negative is for ever."),
    ],
};
