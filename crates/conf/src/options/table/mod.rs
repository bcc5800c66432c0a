//! The one table of everything that can stand in a configuration file: for each block, each option
//! with its other names, what it takes, and whether it works here.
//!
//! `read_block` looks every field up here before anything reads it, so an option that is not in
//! this table is an unknown field, and none is ever ignored in silence. `docs/configuration.md` is
//! printed from it (`page`). To add an option: its line here, then an arm in the `set` of its
//! group.

mod accounts;
mod authorization;
mod exchange;
mod hint;
mod jetstream;
mod leaf;
mod link;
mod operators;
mod page;
mod service;
mod tls;
mod top;

use std::fmt;

pub use page::page;

/// Class of an option: what becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The option does what it does in nats-server. Within a block whose feature is missing: it is
    /// read and checked.
    Works,
    /// The option is accepted with one warning, for there is nothing here that it could change.
    /// Why.
    NoMeaning(&'static str),
    /// The option is read and checked, and then stops the start: the feature that it needs does not
    /// exist yet. The feature, as in "needs X".
    Missing(&'static str),
}

impl Class {
    /// Feature that does not exist yet, if that depends on the option.
    pub(crate) fn feature(self) -> Option<&'static str> {
        match self {
            Self::Missing(feature) => Some(feature),
            Self::Works | Self::NoMeaning(_) => None,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Class::Works => f.write_str("works"),
            Class::NoMeaning(why) => write!(f, "no meaning here: {why}"),
            Class::Missing(feature) => write!(f, "missing: {feature}"),
        }
    }
}

/// One option of a block.
#[derive(Debug)]
pub struct OptionEntry {
    /// In lower case. The first is the name, the others are aliases.
    pub names: &'static [&'static str],
    /// Value that it takes, for the documentation.
    pub takes: &'static str,
    /// The default as one would write it; empty for none.
    pub default: &'static str,
    /// Purpose of the option, in one sentence.
    pub about: &'static str,
    /// Class: what becomes of the option here.
    pub class: Class,
    /// Whether a reload may change it.
    pub reloads: bool,
}

impl OptionEntry {
    /// An option that works and needs a restart to change.
    const fn new(
        names: &'static [&'static str],
        takes: &'static str,
        default: &'static str,
        about: &'static str,
    ) -> Self {
        Self { names, takes, default, about, class: Class::Works, reloads: false }
    }

    /// A reload may change it.
    const fn live(self) -> Self {
        Self { reloads: true, ..self }
    }

    const fn class(self, class: Class) -> Self {
        Self { class, ..self }
    }

    const fn missing(self, feature: &'static str) -> Self {
        self.class(Class::Missing(feature))
    }
}

/// The options of one kind of block.
#[derive(Debug)]
pub struct BlockTable {
    /// Where it stands, as a title of the documentation: `accounts.NAME.limits`.
    pub title: &'static str,
    /// Its options, in the order of the documentation.
    pub entries: &'static [OptionEntry],
}

/// All blocks with their options, in the order of the documentation.
pub fn blocks() -> impl Iterator<Item = &'static BlockTable> {
    BlockKind::ALL.iter().map(|kind| kind.block())
}

/// A kind of block: which options may stand in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockKind {
    Top,
    Authorization,
    AuthCallout,
    User,
    Permissions,
    SubjectPermission,
    Responses,
    Account,
    AccountLimits,
    Export,
    Latency,
    Import,
    ImportSource,
    MappingDestination,
    /// With the option that the block belongs to, which its diagnostics name.
    MessageTrace(&'static str),
    AccountJetStream,
    Metrics,
    Otlp,
    Resolver,
    Proxies,
    TrustedProxy,
    JetStream,
    JetStreamLimits,
    JetStreamBatch,
    JetStreamTpm,
    Cluster,
    Gateway,
    RemoteGateway,
    LinkAuthorization,
    LeafNodes,
    LeafAuthorization,
    LeafUser,
    LeafRemote,
    LeafProxy,
    LinkCompression,
    WebSocket,
    Mqtt,
    SimpleAuthorization,
    Tls,
    OcspPeer,
}

impl BlockKind {
    /// All blocks, in the order of the documentation.
    pub(crate) const ALL: &[BlockKind] = &[
        BlockKind::Top,
        BlockKind::Authorization,
        BlockKind::AuthCallout,
        BlockKind::User,
        BlockKind::Permissions,
        BlockKind::SubjectPermission,
        BlockKind::Responses,
        BlockKind::Account,
        BlockKind::AccountLimits,
        BlockKind::Export,
        BlockKind::Latency,
        BlockKind::Import,
        BlockKind::ImportSource,
        BlockKind::MappingDestination,
        BlockKind::MessageTrace("msg_trace"),
        BlockKind::AccountJetStream,
        BlockKind::Metrics,
        BlockKind::Otlp,
        BlockKind::Resolver,
        BlockKind::Proxies,
        BlockKind::TrustedProxy,
        BlockKind::JetStream,
        BlockKind::JetStreamLimits,
        BlockKind::JetStreamBatch,
        BlockKind::JetStreamTpm,
        BlockKind::Cluster,
        BlockKind::Gateway,
        BlockKind::RemoteGateway,
        BlockKind::LinkAuthorization,
        BlockKind::LeafNodes,
        BlockKind::LeafAuthorization,
        BlockKind::LeafUser,
        BlockKind::LeafRemote,
        BlockKind::LeafProxy,
        BlockKind::LinkCompression,
        BlockKind::WebSocket,
        BlockKind::Mqtt,
        BlockKind::SimpleAuthorization,
        BlockKind::Tls,
        BlockKind::OcspPeer,
    ];

    pub(crate) fn block(self) -> &'static BlockTable {
        match self {
            BlockKind::Top => &top::TOP,
            BlockKind::Authorization => &authorization::AUTHORIZATION,
            BlockKind::AuthCallout => &authorization::AUTH_CALLOUT,
            BlockKind::User => &authorization::USER,
            BlockKind::Permissions => &authorization::PERMISSIONS,
            BlockKind::SubjectPermission => &authorization::SUBJECT_PERMISSION,
            BlockKind::Responses => &authorization::RESPONSES,
            BlockKind::Account => &accounts::ACCOUNT,
            BlockKind::AccountLimits => &accounts::LIMITS,
            BlockKind::Export => &exchange::EXPORT,
            BlockKind::Latency => &exchange::LATENCY,
            BlockKind::Import => &exchange::IMPORT,
            BlockKind::ImportSource => &exchange::IMPORT_SOURCE,
            BlockKind::MappingDestination => &exchange::MAPPING_DESTINATION,
            BlockKind::MessageTrace(_) => &exchange::MESSAGE_TRACE,
            BlockKind::AccountJetStream => &exchange::JETSTREAM,
            BlockKind::Metrics => &service::METRICS,
            BlockKind::Otlp => &service::OTLP,
            BlockKind::Resolver => &operators::RESOLVER,
            BlockKind::Proxies => &operators::PROXIES,
            BlockKind::TrustedProxy => &operators::TRUSTED_PROXY,
            BlockKind::JetStream => &jetstream::JETSTREAM,
            BlockKind::JetStreamLimits => &jetstream::LIMITS,
            BlockKind::JetStreamBatch => &jetstream::BATCH,
            BlockKind::JetStreamTpm => &jetstream::TPM,
            BlockKind::Cluster => &link::CLUSTER,
            BlockKind::Gateway => &link::GATEWAY,
            BlockKind::RemoteGateway => &link::REMOTE_GATEWAY,
            BlockKind::LinkAuthorization => &link::LINK_AUTHORIZATION,
            BlockKind::LeafNodes => &leaf::LEAF_NODES,
            BlockKind::LeafAuthorization => &leaf::LEAF_AUTHORIZATION,
            BlockKind::LeafUser => &leaf::LEAF_USER,
            BlockKind::LeafRemote => &leaf::LEAF_REMOTE,
            BlockKind::LeafProxy => &leaf::LEAF_PROXY,
            BlockKind::LinkCompression => &link::COMPRESSION,
            BlockKind::WebSocket => &service::WEBSOCKET,
            BlockKind::Mqtt => &service::MQTT,
            BlockKind::SimpleAuthorization => &service::SIMPLE_AUTHORIZATION,
            BlockKind::Tls => &tls::TLS,
            BlockKind::OcspPeer => &tls::OCSP_PEER,
        }
    }

    /// The option of that name, which is in lower case.
    pub(crate) fn find(self, name: &str) -> Option<&'static OptionEntry> {
        self.block().entries.iter().find(|entry| entry.names.contains(&name))
    }

    /// The text about a field that does not belong here: the reference's words, and behind them
    /// what was probably meant.
    pub(crate) fn unknown(self, name: &str) -> String {
        self.unknown_words(name) + &hint::meant(self, name)
    }

    fn unknown_words(self, name: &str) -> String {
        match self {
            BlockKind::Permissions | BlockKind::Responses => {
                format!("Unknown field {name:?} parsing permissions")
            }
            BlockKind::SubjectPermission => format!(
                "Unknown field name {name:?} parsing subject permissions, only 'allow' or 'deny' are permitted"
            ),
            BlockKind::AccountLimits => format!("Unknown field {name:?} parsing account limits"),
            BlockKind::Tls => format!("error parsing tls config, unknown field {name:?}"),
            BlockKind::OcspPeer => format!("error parsing tls peer config, unknown field [{name:?}]"),
            BlockKind::AuthCallout => format!("Unknown field {name:?} parsing authorization callout"),
            BlockKind::MappingDestination => format!("Unknown field {name:?} for mapping destination"),
            BlockKind::MessageTrace(of) => {
                format!("Unknown field {name:?} parsing account message trace map/struct {of:?}")
            }
            _ => format!("unknown field {name:?}"),
        }
    }
}

/// Text about an option or a flag whose feature is missing.
pub(crate) fn missing_text(name: &str, feature: &str) -> String {
    format!("{name:?} needs {feature}, which this version of Myelin does not have")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::options::{Diagnostics, Options};
    use crate::parser::Sources;
    use crate::{changes, load_text};

    #[test]
    fn no_name_stands_twice_in_a_block() {
        for scope in BlockKind::ALL {
            let mut seen = HashSet::new();
            let names = scope.block().entries.iter().flat_map(|entry| entry.names);
            let twice: Vec<_> = names.filter(|name| !seen.insert(**name)).collect();
            assert!(twice.is_empty(), "{scope:?}: {twice:?}");
        }
    }

    fn report(text: &str) -> Diagnostics {
        let root = Sources::new(&|_| None).parse_text(text.as_bytes(), "f").expect("valid grammar");
        let mut report = Diagnostics::default();
        Options::default().read(&root, &mut report);
        report
    }

    /// A configuration with `text` in a block of that kind.
    fn within(scope: BlockKind, text: &str) -> String {
        let (before, after) = match scope {
            BlockKind::Top => ("", ""),
            BlockKind::Authorization => ("authorization {", "}"),
            BlockKind::User => ("authorization { users: [{user: a, ", "}]}"),
            BlockKind::Permissions => ("cluster { permissions {", "}}"),
            BlockKind::SubjectPermission => ("cluster { permissions { publish {", "}}}"),
            BlockKind::Responses => ("authorization { permissions { allow_responses {", "}}}"),
            BlockKind::Account => ("accounts { A {", "}}"),
            BlockKind::AccountLimits => ("accounts { A { limits {", "}}}"),
            BlockKind::AuthCallout => ("authorization { auth_callout {", "}}"),
            BlockKind::Export => ("accounts { A { exports: [{", "}]}}"),
            BlockKind::Latency => ("accounts { A { exports: [{service: a, latency: {", "}}]}}"),
            BlockKind::Import => ("accounts { A { imports: [{", "}]}}"),
            BlockKind::ImportSource => ("accounts { A { imports: [{stream: {", "}}]}}"),
            BlockKind::MappingDestination => ("mappings { a: [{", "}]}"),
            BlockKind::MessageTrace(_) => ("accounts { A { msg_trace {", "}}}"),
            BlockKind::AccountJetStream => ("accounts { A { jetstream {", "}}}"),
            BlockKind::Metrics => ("metrics {", "}"),
            BlockKind::Otlp => ("otlp {", "}"),
            BlockKind::Resolver => ("resolver {", "}"),
            BlockKind::Proxies => ("proxies {", "}"),
            BlockKind::TrustedProxy => ("proxies { trusted: [{", "}]}"),
            BlockKind::JetStream => ("jetstream {", "}"),
            BlockKind::JetStreamLimits => ("jetstream { limits {", "}}"),
            BlockKind::JetStreamBatch => ("jetstream { limits { batch {", "}}}"),
            BlockKind::JetStreamTpm => ("jetstream { tpm {", "}}"),
            BlockKind::Cluster => ("cluster {", "}"),
            BlockKind::LinkAuthorization => ("gateway { authorization {", "}}"),
            BlockKind::Gateway => ("gateway {", "}"),
            BlockKind::RemoteGateway => ("gateway { gateways: [{", "}]}"),
            BlockKind::LeafNodes => ("leafnodes {", "}"),
            BlockKind::LeafAuthorization => ("leafnodes { authorization {", "}}"),
            BlockKind::LeafUser => ("leafnodes { authorization { users: [{", "}]}}"),
            BlockKind::LeafRemote => ("leafnodes { remotes: [{", "}]}"),
            BlockKind::LeafProxy => ("leafnodes { remotes: [{ proxy {", "}}]}"),
            BlockKind::LinkCompression => ("cluster { compression {", "}}"),
            BlockKind::WebSocket => ("websocket {", "}"),
            BlockKind::SimpleAuthorization => ("mqtt { authorization {", "}}"),
            BlockKind::Mqtt => ("mqtt {", "}"),
            BlockKind::Tls => ("tls {", "}"),
            BlockKind::OcspPeer => ("tls { ocsp_peer {", "}}"),
        };
        format!("{before}{text}{after}")
    }

    /// A date suits hardly any option, so a reader complains about it; an option that is in the
    /// table but read by nobody is found out.
    #[test]
    fn every_option_is_read_by_somebody() {
        // Whatever they are, they are ignored with a warning.
        let takes_all = ["consumer_replicas", "ca_certs_match"];
        for &scope in BlockKind::ALL {
            for name in scope.block().entries.iter().flat_map(|entry| entry.names) {
                let text = within(scope, &format!("{name}: 2026-01-02T03:04:05Z"));
                let report = report(&text);
                let unread = report.errors.iter().find(|error| error.message.contains("nobody reads"));
                assert!(unread.is_none(), "{text}: {unread:?}");
                let unknown = report.errors.iter().find(|error| error.message.contains("nknown field"));
                // Compat: this block calls a field of the wrong type unknown.
                assert!(unknown.is_none() || scope == BlockKind::OcspPeer, "{text}: {unknown:?}");
                let complains = !report.errors.is_empty() || !report.missing.is_empty();
                assert!(complains || takes_all.contains(name), "{text} takes a date");
            }
        }
    }

    /// Pairs of configurations that differ in one option, for every option at the top whose feature
    /// exists.
    const CHANGED: &[(&str, &str, &str)] = &[
        ("listen", "", "listen: 4999"),
        ("host", "", "host: '127.0.0.1'"),
        ("proxy_protocol", "", "proxy_protocol: true"),
        ("ocsp", "", "ocsp: true"),
        ("ocsp_cache", "", "ocsp_cache: false"),
        ("port", "", "port: 4999"),
        ("server_name", "", "server_name: x"),
        ("client_advertise", "", "client_advertise: x"),
        ("pidfile", "", "pidfile: x"),
        ("ports_file_dir", "", "ports_file_dir: x"),
        ("lame_duck_duration", "", "lame_duck_duration: '60s'"),
        ("lame_duck_grace_period", "", "lame_duck_grace_period: '5s'"),
        ("debug", "", "debug: true"),
        ("trace", "", "trace: true"),
        ("trace_verbose", "", "trace_verbose: true"),
        ("trace_headers", "", "trace_headers: true"),
        ("max_traced_msg_len", "", "max_traced_msg_len: 9"),
        ("logtime", "", "logtime: false"),
        ("logtime_utc", "", "logtime_utc: true"),
        ("logfile", "", "logfile: x"),
        ("logfile_size_limit", "", "logfile_size_limit: 1000"),
        ("logfile_max_num", "", "logfile_max_num: 9"),
        ("syslog", "", "syslog: true"),
        ("remote_syslog", "", "remote_syslog: 'udp://h:1'"),
        ("http", "", "http: 8222"),
        ("https", "", "https: 8222"),
        ("http_port", "", "http_port: 8222"),
        ("https_port", "", "https_port: 8222"),
        ("http_base_path", "", "http_base_path: x"),
        ("metrics", "", "metrics: true"),
        ("dashboard", "", "dashboard: true"),
        ("otlp", "", "otlp { endpoint: 'http://127.0.0.1:4318' }"),
        ("max_control_line", "", "max_control_line: 999"),
        ("max_payload", "", "max_payload: 999"),
        ("max_pending", "", "max_pending: 9999999"),
        ("max_connections", "", "max_connections: 9"),
        ("max_subscriptions", "", "max_subscriptions: 9"),
        ("max_sub_tokens", "", "max_sub_tokens: 9"),
        ("max_closed_clients", "", "max_closed_clients: 9"),
        ("ping_interval", "", "ping_interval: '9s'"),
        ("ping_max", "", "ping_max: 9"),
        ("write_deadline", "", "write_deadline: '9s'"),
        ("write_timeout", "", "write_timeout: retry"),
        ("no_fast_producer_stall", "", "no_fast_producer_stall: true"),
        ("no_header_support", "", "no_header_support: true"),
        ("connect_error_reports", "", "connect_error_reports: 9"),
        ("reconnect_error_reports", "", "reconnect_error_reports: 9"),
        ("feature_flags", "", "feature_flags { js_ack_fc_v2: true }"),
        ("server_tags", "", "server_tags: x"),
        ("server_metadata", "", "server_metadata { a: b }"),
        ("authorization", "", "authorization { token: x }"),
        ("accounts", "", "accounts { A {} }"),
        (
            "no_auth_user",
            "authorization { users: [{user: a, password: b}] }",
            "authorization { users: [{user: a, password: b}] }, no_auth_user: a",
        ),
        ("system_account", "accounts { A {} }", "accounts { A {} }, system_account: A"),
        ("no_system_account", "", "no_system_account: true"),
        ("operator", "", "operator: '@operator@', resolver: MEM"),
        ("trusted", "", "trusted: OCT3BVOPUYX43THNLFDGRESQ3PN2WTZWL35S5GQVU7E7U4242QJBI3NE"),
        (
            "default_sentinel",
            "operator: '@operator@', resolver: MEM",
            "operator: '@operator@', resolver: MEM, default_sentinel: '@user@'",
        ),
        ("resolver", "", "resolver: MEM"),
        ("resolver_preload", "resolver: MEM", "resolver: MEM, resolver_preload { a: '@account@' }"),
        ("resolver_tls", "resolver: MEM", "resolver: MEM, resolver_tls { insecure: true }"),
        ("resolver_pinned_accounts", "", "resolver_pinned_accounts: [a]"),
        ("tls", "", "tls { cert_file: a, key_file: b }"),
        ("allow_non_tls", "", "allow_non_tls: true"),
        ("jetstream", "", "jetstream: true"),
        ("store_dir", "jetstream: true", "jetstream: true, store_dir: x"),
        ("mappings", "", "mappings { a: b }"),
        ("cluster", "", "cluster { name: x }"),
        ("gateway", "", "gateway { name: x, port: -1 }"),
        ("websocket", "", "websocket { port: -1, no_tls: true }"),
        (
            "mqtt",
            "jetstream: true, mqtt { port: 1883 }",
            "jetstream: true, mqtt { port: 1883, ack_wait: 5s }",
        ),
        ("leafnodes", "leafnodes { port: -1 }", "leafnodes { port: -1, compression: off }"),
        ("default_js_domain", "accounts: [A]", "accounts: [A], default_js_domain { A: x }"),
        (
            "proxies",
            "",
            "proxies { trusted: [{key: OCT3BVOPUYX43THNLFDGRESQ3PN2WTZWL35S5GQVU7E7U4242QJBI3NE}] }",
        ),
    ];

    /// Tokens that Go's library has made stand for `@operator@` and the like.
    fn with_tokens(text: &str) -> String {
        let vectors = include_str!("../../../../auth/tests/vectors/go.txt");
        let tokens = vectors.lines().filter_map(|line| line.split_once(' '));
        tokens.fold(text.to_owned(), |text, (name, token)| text.replace(&format!("@{name}@"), token))
    }

    #[test]
    fn a_reload_changes_what_the_table_says() {
        let options = |text: &str| load_text(with_tokens(text).as_bytes(), &|_| None).expect(text).options;
        let bound =
            crate::BoundPorts { client: 4222, websocket: None, mqtt: None, cluster: None, leaf: None };
        for (name, old, new) in CHANGED {
            let entry = BlockKind::Top.find(name).expect(name);
            let (old, new) = (options(old), options(new));
            assert_ne!(old, new, "{name} changes nothing");
            assert_eq!(changes(&old, &new, bound).is_ok(), entry.reloads, "{name}");
        }
        let is_idle = |entry: &OptionEntry| matches!(entry.class, Class::Missing(_) | Class::NoMeaning(_));
        let mut left = BlockKind::Top.block().entries.iter().filter(|entry| !is_idle(entry));
        let untried = left.find(|entry| CHANGED.iter().all(|(name, ..)| !entry.names.contains(name)));
        assert!(untried.is_none(), "{untried:?}");
    }

    #[test]
    fn an_option_of_another_block_is_unknown() {
        let report = report("exports: []");
        let place = "f:1:0: unknown field \"exports\"; it is an option of accounts.NAME";
        assert_eq!(report.errors[0].to_string(), place);
    }

    #[test]
    fn a_missing_feature_is_named_unless_it_is_switched_off() {
        for alone in
            ["cluster {}", "cluster { name: x }", "cluster { name: x, port: 0, routes: ['nats://h:1'] }"]
        {
            assert!(report(alone).missing.is_empty(), "{alone}");
        }
        for all in ["compression: s2_fast", "permissions { import: a }", "tls { cert_file: a, key_file: b }"]
        {
            assert!(report(&format!("cluster {{ port: 6222, {all} }}")).missing.is_empty(), "{all}");
        }
        let report = report("jetstream { tpm { keys_file: a, encryption_password: b } }");
        let [missing] = &report.missing[..] else { panic!("{report:?}") };
        let text = "which this version of Myelin does not have";
        assert!(missing.to_string().contains(": \"tpm\" needs "), "{missing}");
        assert!(missing.to_string().ends_with(text), "{missing}");
    }
}
