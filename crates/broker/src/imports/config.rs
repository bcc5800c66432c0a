//! Configuration of an account, by whoever sets it up: a configuration file or a JWT.
//!
//! Plain data. Names are those of NATS's configuration. Nothing here is checked beyond its types:
//! an import that nobody offers, or that this account must not have, is there and does nothing (see
//! `link`).

use myelin_subject::Mappings;
use std::sync::Arc;
use std::time::Duration;

/// How long an answer of a service may take unless its export says otherwise.
pub const DEFAULT_RESPONSE_THRESHOLD: Duration = Duration::from_secs(120);

/// One account.
#[derive(Debug, Clone, Default)]
pub struct AccountConfig {
    /// Its name: that of the configuration, or the public key of a JWT.
    pub name: String,
    /// Limits of the account.
    pub limits: AccountLimits,
    /// Subjects that other accounts may import.
    pub exports: Vec<Export>,
    /// Subjects that the account takes from others.
    pub imports: Vec<Import>,
    /// Under which other subjects its clients' messages go.
    pub mappings: Mappings,
    /// Where messages are reported that other systems trace.
    pub trace: Option<TraceDestination>,
    /// Services of it are asked about logins: nobody but the server may put such questions.
    pub is_asked: bool,
}

impl AccountConfig {
    /// An account that has a name and nothing else.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

/// Limits of an account; `None` is unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AccountLimits {
    /// Client connections at once, on all servers of the cluster together.
    pub max_connections: Option<usize>,
    /// Subscriptions of each connection at once.
    pub max_subscriptions: Option<usize>,
    /// Leaf nodes and hubs at once.
    pub max_leaf_nodes: Option<usize>,
    /// Largest payload in bytes, below the server's own limit.
    pub max_payload: Option<u32>,
}

/// Where an account has messages reported that other systems trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceDestination {
    /// A subject without wildcards.
    pub subject: String,
    /// Of a hundred messages, so many; 100 are all.
    pub sampling: u8,
}

impl TraceDestination {
    /// Whether a message is one of those. `drawn` is a number below 100.
    ///
    /// Compat: of a hundred it is one more.
    pub(crate) fn samples(&self, drawn: u64) -> bool {
        self.sampling >= 100 || drawn <= u64::from(self.sampling)
    }
}

/// Something that an account offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Export {
    /// Messages to listen to.
    Stream(StreamExport),
    /// Requests to be answered. Shared with what imports it.
    Service(Arc<ServiceExport>),
}

/// Accounts that may import something.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// Names of accounts; none listed means everybody, unless one of the others holds.
    pub accounts: Vec<String>,
    /// Only imports that are [activated](StreamImport::is_activated).
    pub token_required: bool,
    /// The token of the subject, counted from 1, that must be the importer's name.
    pub account_token_position: Option<usize>,
}

/// An exported stream of messages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamExport {
    /// Pattern.
    pub subject: String,
    /// Accounts that may import it.
    pub access: Access,
}

/// How many messages answer a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResponseType {
    /// One.
    #[default]
    Singleton,
    /// Many; an empty one is the last.
    Streamed,
    /// One in pieces; an empty one is the last.
    Chunked,
}

/// How a service is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatencyConfig {
    /// Where reports go, in the exporting account.
    pub subject: String,
    /// Of a hundred requests, how many are measured; 0: only those whose headers ask for it, as
    /// they may in any case.
    pub sampling: u8,
}

/// An exported service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceExport {
    /// Pattern.
    pub subject: String,
    /// Accounts that may import it.
    pub access: Access,
    /// Kind of response to one request.
    pub response: ResponseType,
    /// How long an answer may take, and the next one behind it.
    pub threshold: Duration,
    /// How requests are measured, if they are.
    pub latency: Option<LatencyConfig>,
    /// Whether traces may follow requests.
    pub allow_trace: bool,
}

impl ServiceExport {
    /// A public service with one answer.
    pub fn public(subject: &str) -> Self {
        Self {
            subject: subject.to_owned(),
            access: Access::default(),
            response: ResponseType::default(),
            threshold: DEFAULT_RESPONSE_THRESHOLD,
            latency: None,
            allow_trace: false,
        }
    }
}

/// Something that another account offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Import {
    /// Messages to listen to.
    Stream(StreamImport),
    /// Requests that the other account answers. Shared with what becomes of it.
    Service(Arc<ServiceImport>),
}

impl Import {
    /// The account that exports it.
    pub fn account(&self) -> &str {
        match self {
            Self::Stream(stream) => &stream.account,
            Self::Service(service) => &service.account,
        }
    }
}

/// An imported stream of messages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamImport {
    /// The account that exports it.
    pub account: String,
    /// Subject in the exporting account: a pattern.
    pub subject: String,
    /// Subject in the importing account: that pattern, or one in which `$1` or `{{wildcard(1)}}` is
    /// its first wildcard.
    pub to: String,
    /// Whether it has an activation token that the other account accepts.
    pub is_activated: bool,
    /// Whether traces may come along.
    pub allow_trace: bool,
}

/// An imported service.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceImport {
    /// The account that answers.
    pub account: String,
    /// Subject in the exporting account: a pattern.
    pub subject: String,
    /// Subject in the importing account: that pattern, or one in which `$1` is the first wildcard
    /// of the other.
    pub to: String,
    /// Whether the other account learns who asks.
    pub share: bool,
    /// Whether it has an activation token that the other account accepts.
    pub is_activated: bool,
}
