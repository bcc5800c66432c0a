//! Every thread and task of the server by name, what a panic in it costs, and what happens then.
//!
//! The policy is stated here and nowhere else: the functions of the module above act by it. Who
//! adds a thread or a task adds a row, and a case that makes it panic in `tests/server/panics.rs`,
//! which reads this file.

/// Policy of the server after a panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// The work in hand is given up; the thread or task goes on with the next.
    GoesOn,
    /// The task is begun anew, a moment later.
    BeginsAnew,
    /// The task ends, and with it the one thing that it served.
    Ends,
    /// The process ends with this code.
    EndsProcess(i32),
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// The name in the log; of a thread, also that which the system shows.
    pub(crate) name: &'static str,
    pub(crate) policy: Policy,
    /// Cost of a panic, as a sentence of the log.
    pub(crate) cost: &'static str,
}

const fn rule(name: &'static str, policy: Policy, cost: &'static str) -> Rule {
    Rule { name, policy, cost }
}

/// A thread, a task, or a piece of work in one that is guarded by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SupervisedPart {
    Main,
    Control,
    Reload,
    Log,
    Shard,
    Mail,
    Flush,
    Flusher,
    Timers,
    Housekeeper,
    Connection,
    Link,
    Dial,
    Drain,
    Pongs,
    Login,
    Handshake,
    Removal,
    Accept,
    AcceptWebSocket,
    Upgrade,
    Monitoring,
    HttpConnection,
    Page,
    Meter,
    Otlp,
    OtlpSpans,
    JsDisk,
    JsMarks,
    JsUpkeep,
    JsReads,
    JsBackups,
    JsApi,
    JsConsumer,
    JsSync,
    JsAlarms,
    JsDue,
    System,
    SystemPages,
    Activations,
    Bootstrap,
    SoughtAccounts,
    TokenFiles,
    HttpClient,
    OcspStaple,
    OcspCache,
    OcspWait,
}

/// The exit code after a panic that the process does not outlive. Compat: that of a Go program.
pub(crate) const PANICKED: i32 = 2;

/// The exit code when what is acknowledged can no longer be made durable.
pub(crate) const JOURNAL_FAILED: i32 = 1;

impl SupervisedPart {
    /// The part's row.
    #[rustfmt::skip]
    pub(crate) const fn rule(self) -> Rule {
        use Policy::{BeginsAnew, Ends, EndsProcess, GoesOn};
        match self {
            Self::Main => rule("main", EndsProcess(PANICKED), "signals and reloads would not be heard"),
            Self::Control => rule("control", EndsProcess(PANICKED), "nobody could connect any more"),
            Self::Reload => rule("reload", GoesOn, "part of the new configuration may be in force: reload again"),
            Self::Log => rule("log", GoesOn, "the lines that were being written may be lost"),
            Self::Shard => rule("shard", EndsProcess(PANICKED), "its connections would not be served"),
            Self::Mail => rule("mail", GoesOn, "one message from another thread to a shard is lost"),
            Self::Flush => rule("flush", GoesOn, "what was being handed out at that moment may be lost"),
            Self::Flusher => rule("flusher", BeginsAnew, "nothing is lost"),
            Self::Timers => rule("timers", BeginsAnew, "one connection may be looked at late"),
            Self::Housekeeper => rule("housekeeper", BeginsAnew, "nothing is lost"),
            Self::Connection => rule("connection", Ends, "one client connection is closed"),
            Self::Link => rule("link", Ends, "one link to another server is closed"),
            Self::Dial => rule("dial", BeginsAnew, "another server is dialled late"),
            Self::Drain => rule("drain", Ends, "one client connection is closed"),
            Self::Pongs => rule("pongs", Ends, "one client connection is closed"),
            Self::Login => rule("login", Ends, "one client connection is closed"),
            Self::Handshake => rule("handshake", Ends, "one client connection is closed"),
            Self::Removal => rule("removal", Ends, "subscriptions of one ended connection may remain"),
            Self::Accept => rule("accept", BeginsAnew, "one new connection may be closed"),
            Self::AcceptWebSocket => rule("accept-websocket", BeginsAnew, "one new connection may be closed"),
            Self::Upgrade => rule("upgrade", Ends, "one new WebSocket connection is closed"),
            Self::Monitoring => rule("monitoring", BeginsAnew, "open connections to monitoring are closed"),
            Self::HttpConnection => rule("http", Ends, "one connection to monitoring is closed"),
            Self::Page => rule("pages", Ends, "one monitoring page is answered with an error"),
            Self::Meter => rule("meter", BeginsAnew, "the processor's use is shown late"),
            Self::Otlp => rule("otlp", BeginsAnew, "one push of metrics is lost"),
            Self::OtlpSpans => rule("otlp-spans", BeginsAnew, "spans of messages that were on their way are lost"),
            Self::JsDisk => rule("js-disk", EndsProcess(JOURNAL_FAILED), "nothing could be made durable any more"),
            Self::JsMarks => rule("js-marks", GoesOn, "how far streams have come is stated late"),
            Self::JsUpkeep => rule("js-upkeep", GoesOn, "upkeep of one stream is given up, and tried again later"),
            Self::JsReads => rule("js-reads", GoesOn, "one read for a client or consumer is given up"),
            Self::JsBackups => rule("js-backups", GoesOn, "one backup or restore is given up"),
            Self::JsApi => rule("js-api", GoesOn, "one request to the JetStream API is not answered"),
            Self::JsConsumer => rule("js-consumer", GoesOn, "one consumer is opened anew"),
            Self::JsSync => rule("js-sync", GoesOn, "a change of a stream is refused, or the server ends"),
            Self::JsAlarms => rule("js-alarms", GoesOn, "what was due is tried again in a second"),
            Self::JsDue => rule("js-due", GoesOn, "what was due is tried again in a second"),
            Self::System => rule("system", GoesOn, "one event or answer of the system account is lost"),
            Self::SystemPages => rule("sys-pages", GoesOn, "one request to the system account is not answered"),
            Self::Activations => rule("activations", BeginsAnew, "activations of imports end or begin late"),
            Self::Bootstrap => rule("bootstrap", BeginsAnew, "the system account's token is fetched late"),
            Self::SoughtAccounts => rule("sought-accounts", BeginsAnew, "accounts are found late"),
            Self::TokenFiles => rule("token-files", BeginsAnew, "expired account tokens are removed late"),
            Self::HttpClient => rule("http-client", Ends, "one request to another server fails"),
            Self::OcspStaple => rule("ocsp-staple", BeginsAnew, "the OCSP proof is renewed late"),
            Self::OcspCache => rule("ocsp-cache", BeginsAnew, "the OCSP cache is saved late"),
            Self::OcspWait => rule("ocsp-wait", Ends, "the start or reload that waited for it fails"),
        }
    }
}
