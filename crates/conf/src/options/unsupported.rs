//! The one list of what nats-server can be configured with and Myelin cannot yet, so that nothing is
//! ever ignored silently. An option that becomes supported leaves this list.

use super::field::Field;
use crate::diagnostic::Diagnostic;

/// The block a field stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Top,
    Authorization,
    User,
    Permissions,
    SubjectPermission,
    Responses,
    Account,
    AccountLimits,
    JetStream,
}

const UNSUPPORTED: &[(Scope, &[&str])] = &[
    (
        Scope::Top,
        &[
            "syslog",
            "remote_syslog",
            "https",
            "https_port",
            "proxy_protocol",
            "proxies",
            "connect_error_reports",
            "reconnect_error_reports",
            "tls",
            "allow_non_tls",
            "ocsp",
            "ocsp_cache",
            "default_sentinel",
            "mappings",
            "maps",
            "operator",
            "operators",
            "roots",
            "root",
            "root_operators",
            "root_operator",
            "trusted",
            "trusted_keys",
            "resolver",
            "account_resolver",
            "accounts_resolver",
            "resolver_tls",
            "resolver_preload",
            "resolver_pinned_accounts",
            "cluster",
            "gateway",
            "leaf",
            "leafnodes",
            "websocket",
            "ws",
            "mqtt",
            "default_js_domain",
            "server_tags",
            "server_metadata",
            "feature_flags",
        ],
    ),
    (Scope::Authorization, &["auth_callout", "auth_hook", "proxy_required"]),
    (Scope::User, &["nkey", "allowed_connection_types", "connection_types", "clients", "proxy_required"]),
    (
        Scope::Account,
        &["nkey", "imports", "exports", "jetstream", "mappings", "maps", "msg_trace", "trace_dest"],
    ),
    (Scope::AccountLimits, &["max_leafnodes", "max_leafs"]),
];

/// Flags of the command line, without dashes, that are recognised and not supported, and whether they
/// are switches, which take no argument of their own.
pub(crate) const UNSUPPORTED_FLAGS: &[(&str, bool)] = &[
    ("ms", false),
    ("https_port", false),
    ("s", true),
    ("syslog", true),
    ("r", false),
    ("remote_syslog", false),
    ("profile", false),
    ("routes", false),
    ("cluster", false),
    ("cluster_listen", false),
    ("cluster_advertise", false),
    ("no_advertise", true),
    ("connect_retries", false),
    ("cluster_name", false),
    ("help_tls", true),
    ("tls", true),
    ("tlsverify", true),
    ("tlscert", false),
    ("tlskey", false),
    ("tlscacert", false),
];

/// What to say of a feature that is not there.
pub(crate) fn text(name: &str) -> String {
    format!("\"{name}\" is not supported by this version of Myelin")
}

/// The complaint about a field that nothing reads.
pub(super) fn complaint(field: &Field<'_>, scope: Scope) -> Diagnostic {
    let is_listed = UNSUPPORTED.iter().any(|(s, names)| *s == scope && names.contains(&field.name()));
    if is_listed {
        return field.complaint(text(field.written()));
    }
    let name = field.written();
    field.complaint(match scope {
        Scope::Permissions | Scope::Responses => format!("Unknown field {name:?} parsing permissions"),
        Scope::SubjectPermission => {
            format!("Unknown field name {name:?} parsing subject permissions, only 'allow' or 'deny' are permitted")
        }
        Scope::AccountLimits => format!("Unknown field {name:?} parsing account limits"),
        _ => format!("unknown field {name:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Options, Report};
    use crate::parser::Sources;

    #[test]
    fn listed_options_are_refused_and_never_read() {
        let (_, names) = UNSUPPORTED[0];
        for name in names {
            let text = format!("{name}: 1");
            let root = Sources::new(&|_| None).parse_text(text.as_bytes(), "f").expect("valid grammar");
            let mut report = Report::default();
            Options::default().read(&root, &mut report);
            let [error] = &report.errors[..] else { panic!("{name}: {report:?}") };
            assert_eq!(error.message, super::text(name));
        }
    }

    #[test]
    fn a_listed_name_in_another_block_is_unknown() {
        let root = Sources::new(&|_| None).parse_text(b"exports: []", "f").expect("valid grammar");
        let mut report = Report::default();
        Options::default().read(&root, &mut report);
        assert_eq!(report.errors[0].to_string(), "f:1:0: unknown field \"exports\"");
    }
}
