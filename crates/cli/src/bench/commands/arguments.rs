//! The arguments of the benchmarks, which are those of `nats bench`, with its defaults.
//!
//! Owns what can be asked for. Flags that a group of commands shares may stand before or behind the
//! command. What is ours alone says so in its help.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use myelin_loadgen::target_server::ConnectionFlags;
use myelin_loadgen::units::{Bytes, Time};
use myelin_loadgen::workloads::fast::{BatchEnd, Gap};

/// Arguments of every benchmark.
#[derive(Args, Clone, Debug)]
pub(crate) struct Common {
    /// Number of connections; they share a few threads
    #[arg(long, global = true, default_value_t = 1)]
    pub(crate) clients: usize,
    /// Number of messages
    #[arg(long, global = true, default_value_t = 100_000)]
    pub(crate) msgs: u64,
    /// Size of the messages
    #[arg(long, global = true, default_value = "128B")]
    pub(crate) size: Bytes,
    /// Show a bar for each client (the default)
    #[arg(long, global = true, overrides_with = "no_progress")]
    pub(crate) progress: bool,
    /// Show no bars
    #[arg(long, global = true, overrides_with = "progress")]
    pub(crate) no_progress: bool,
    /// Save the figures of each client to this file
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Ours: process id of the server, to print its CPU time per message
    #[arg(long, global = true, value_name = "PID")]
    pub(crate) server_pid: Option<u32>,
    /// Ours: the run fails when no message has come for so long after the first one; 0s waits for
    /// ever
    #[arg(long, global = true, default_value = "30s", value_name = "DURATION")]
    pub(crate) patience: Time,
    #[command(flatten)]
    pub(crate) flags: ConnectionFlags,
}

/// How fast a benchmark goes.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Throttle {
    /// Messages per second of all clients together; 0 for as many as they can
    #[arg(long, default_value_t = 0, value_name = "RATE")]
    pub(crate) throughput: u64,
    /// Run for about so long: the number of messages follows from --throughput
    #[arg(long, default_value = "0s", value_name = "DURATION")]
    pub(crate) duration: Time,
}

/// Subjects and payloads of published messages.
#[derive(Args, Clone, Debug)]
pub(crate) struct MessageContent {
    /// Publish each message on SUBJECT.NUMBER, where the number is that of the message
    #[arg(long)]
    pub(crate) multisubject: bool,
    /// Number of subjects in rotation; 0 for a new one for each message
    #[arg(long, default_value_t = 100_000, value_name = "COUNT")]
    pub(crate) multisubjectmax: u64,
    /// Choose the subject of each message at random
    #[arg(long)]
    pub(crate) multisubjectrandomize: bool,
    #[command(flatten)]
    pub(crate) body: Body,
}

/// Headers and payload.
#[derive(Args, Clone, Debug)]
pub(crate) struct Body {
    /// File with the payload of all messages
    #[arg(long, value_name = "FILE")]
    pub(crate) payload: Option<PathBuf>,
    /// Header line of all messages, K:V
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    pub(crate) headers: Vec<String>,
}

/// `bench pub`
#[derive(Args, Debug)]
pub(crate) struct BenchPub {
    /// Subject
    pub(crate) subject: String,
    /// Sleep after each message
    #[arg(long, default_value = "0s", value_name = "DURATION")]
    pub(crate) sleep: Time,
    #[command(flatten)]
    pub(crate) content: MessageContent,
    #[command(flatten)]
    pub(crate) throttle: Throttle,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `bench sub`
#[derive(Args, Debug)]
pub(crate) struct BenchSub {
    /// Subject
    pub(crate) subject: String,
    /// Subscribe to SUBJECT.*
    #[arg(long)]
    pub(crate) multisubject: bool,
    /// Ours: check subject and payload of every message; the publisher must be `myelin bench pub`
    /// without --payload
    #[arg(long)]
    pub(crate) verify: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `bench service …`
#[derive(Args, Debug)]
pub(crate) struct BenchService {
    /// Sleep between requests, or before each reply
    #[arg(long, global = true, default_value = "0s", value_name = "DURATION")]
    pub(crate) sleep: Time,
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: ServiceCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// Answer requests until interrupted
    Serve {
        /// Subject
        subject: String,
    },
    /// Send requests, each client one after the other
    Request {
        /// Subject
        subject: String,
        #[command(flatten)]
        body: Body,
        #[command(flatten)]
        throttle: Throttle,
    },
}

/// Arguments of every benchmark of a stream.
#[derive(Args, Debug)]
pub(crate) struct OnStream {
    /// Stream to use
    #[arg(long, global = true, default_value = "benchstream")]
    pub(crate) stream: String,
    /// Sleep after each message
    #[arg(long, global = true, default_value = "0s", value_name = "DURATION")]
    pub(crate) sleep: Time,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `bench js …`
#[derive(Args, Debug)]
pub(crate) struct JetStream {
    #[command(flatten)]
    pub(crate) on: OnStream,
    #[command(subcommand)]
    pub(crate) command: JetStreamCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JetStreamCommand {
    /// Publish into a stream
    #[command(subcommand)]
    Pub(StoreCommand),
    /// Read a stream with an ephemeral ordered consumer for each client
    Ordered {
        /// Messages that may be asked for and not received
        #[arg(long, default_value_t = 500)]
        batch: u64,
        #[command(flatten)]
        selection: Selection,
    },
    /// Read a stream with a durable consumer that all clients share, as messages come
    Consume(Consumer),
    /// Read a stream with a durable consumer that all clients share, batch by batch
    Fetch(Consumer),
    /// Read a stream without a consumer
    #[command(subcommand)]
    Get(GetCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Each message waits for the acknowledgement of the one before
    Sync(StreamPublishing),
    /// Each batch of messages waits for the acknowledgements of the one before
    Async {
        /// Messages in a batch
        #[arg(long, default_value_t = 500)]
        batch: u64,
        #[command(flatten)]
        store: StreamPublishing,
    },
    /// Atomic batches: all messages are stored, or none
    #[command(visible_alias = "batch")]
    Atomic {
        /// Messages in a batch
        #[arg(long, default_value_t = 500)]
        batch: u64,
        #[command(flatten)]
        store: StreamPublishing,
    },
    /// Fast-ingest batches: the server says how often it acknowledges
    Fast(Box<Fast>),
}

/// `bench js pub fast`
#[derive(Args, Debug)]
pub(crate) struct Fast {
    /// The most messages per acknowledgement
    #[arg(long, default_value_t = 500)]
    pub(crate) batch: u64,
    /// Ours: --batch, by the name that the protocol has for it
    #[arg(long, value_name = "COUNT")]
    pub(crate) flow: Option<u64>,
    /// Acknowledgements that may be outstanding
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub(crate) max_outstanding_acks: u16,
    /// Ours: how long an acknowledgement may take before the server is asked for it, and then
    /// before the run fails [default: --timeout]
    #[arg(long, value_name = "DURATION")]
    pub(crate) ack_timeout: Option<Time>,
    /// Ours: what the server does when messages are missing; the run fails either way
    #[arg(long, value_enum, default_value = "fail")]
    pub(crate) gap: Gap,
    /// Ours: how a batch ends, by its last message or behind it
    #[arg(long, value_enum, default_value = "close")]
    pub(crate) end: BatchEnd,
    /// Ours: messages in a batch; 0 for all of a client in one
    #[arg(long, default_value_t = 0, value_name = "COUNT")]
    pub(crate) batch_length: u64,
    #[command(flatten)]
    pub(crate) store: StreamPublishing,
}

/// Subject, stream and messages of a benchmark that publishes into a stream.
#[derive(Args, Debug)]
pub(crate) struct StreamPublishing {
    /// Subject
    pub(crate) subject: String,
    /// Create the stream first, or make sure that it is as these flags say
    #[arg(long)]
    pub(crate) create: bool,
    #[command(flatten)]
    pub(crate) keeping: Keeping,
    /// Give each message an id, by which the server knows duplicates
    #[arg(long)]
    pub(crate) dedup: bool,
    /// How long the server remembers ids
    #[arg(long, default_value = "2m", value_name = "DURATION")]
    pub(crate) dedupwindow: Time,
    /// The server may acknowledge before it writes (streams without replicas)
    #[arg(long)]
    pub(crate) persistasync: bool,
    #[command(flatten)]
    pub(crate) content: MessageContent,
    #[command(flatten)]
    pub(crate) throttle: Throttle,
}

/// How a stream or a bucket is kept.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Keeping {
    /// Where messages are kept
    #[arg(long, value_enum, default_value = "file")]
    pub(crate) storage: StorageChoice,
    /// Number of replicas
    #[arg(long, default_value_t = 1)]
    pub(crate) replicas: u64,
    /// How large it may become
    #[arg(long, default_value = "1GB", value_name = "SIZE")]
    pub(crate) maxbytes: Bytes,
    /// Remove all messages first
    #[arg(long)]
    pub(crate) purge: bool,
}

/// Where messages are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StorageChoice {
    Memory,
    File,
}

impl StorageChoice {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::File => "file",
        }
    }
}

/// Which messages are read.
#[derive(Args, Clone, Debug)]
pub(crate) struct Selection {
    /// Remove all messages first
    #[arg(long)]
    pub(crate) purge: bool,
    /// Read messages on these subjects only
    #[arg(long = "filter", value_name = "SUBJECT")]
    pub(crate) filters: Vec<String>,
}

/// `bench js consume` and `bench js fetch`
#[derive(Args, Debug)]
pub(crate) struct Consumer {
    /// Name of the consumer; only the default one is created
    #[arg(long, default_value = CONSUMER)]
    pub(crate) consumer: String,
    /// Messages that each client may have asked for and not received
    #[arg(long, default_value_t = 500)]
    pub(crate) batch: u64,
    /// How messages are acknowledged
    #[arg(long, value_enum, default_value = "explicit")]
    pub(crate) acks: AckMode,
    /// Wait for the server's answer to each acknowledgement
    #[arg(long, overrides_with = "no_doubleack")]
    pub(crate) doubleack: bool,
    #[arg(long, hide = true, overrides_with = "doubleack")]
    pub(crate) no_doubleack: bool,
    #[command(flatten)]
    pub(crate) selection: Selection,
}

/// The consumer that is created.
pub(crate) const CONSUMER: &str = "nats-bench";

/// The bucket that is created.
pub(crate) const BUCKET: &str = "benchbucket";

/// How messages of a consumer are acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AckMode {
    Explicit,
    None,
    All,
}

impl AckMode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Explicit => "explicit",
            Self::None => "none",
            Self::All => "all",
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum GetCommand {
    /// One message per request, by sequence
    Sync,
    /// Many messages per request
    Batch {
        /// Messages in a batch
        #[arg(long, default_value_t = 500)]
        batch: u64,
        /// Get messages on this subject only
        #[arg(long, default_value = ">", value_name = "SUBJECT")]
        filter: String,
    },
}

/// `bench kv …`
#[derive(Args, Debug)]
pub(crate) struct KeyValue {
    /// Bucket to use; only the default one is created
    #[arg(long, global = true, default_value = BUCKET)]
    pub(crate) bucket: String,
    /// Sleep after each message
    #[arg(long, global = true, default_value = "0s", value_name = "DURATION")]
    pub(crate) sleep: Time,
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: KeyValueCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyValueCommand {
    /// Put values under keys
    Put {
        #[command(flatten)]
        keeping: Keeping,
        /// Values that are kept of each key
        #[arg(long, default_value_t = 1)]
        history: u8,
        /// Choose keys below this number at random; 0 for one key after the other
        #[arg(long, default_value_t = 0, value_name = "COUNT")]
        randomize: u64,
        #[command(flatten)]
        throttle: Throttle,
    },
    /// Get the values of keys
    Get {
        /// Choose keys below this number at random; 0 for one key after the other
        #[arg(long, default_value_t = 0, value_name = "COUNT")]
        randomize: u64,
    },
}

/// `bench oldjs …`
#[derive(Args, Debug)]
pub(crate) struct OldJetStream {
    #[command(flatten)]
    pub(crate) on: OnStream,
    #[command(subcommand)]
    pub(crate) command: OldCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OldCommand {
    /// Read a stream with an ephemeral ordered push consumer for each client
    Ordered {
        /// Subject; the stream is the one that has it
        subject: String,
        /// Read SUBJECT.*
        #[arg(long)]
        multisubject: bool,
    },
    /// Read a stream with a durable push consumer that all clients share
    Push {
        /// The most messages that may be unacknowledged, for each client
        #[arg(long, default_value_t = 500)]
        maxacks: u64,
        #[command(flatten)]
        durable: OldDurable,
    },
    /// Read a stream with a durable pull consumer that all clients share, batch by batch
    Pull {
        /// Messages in a batch
        #[arg(long, default_value_t = 500)]
        batch: u64,
        #[command(flatten)]
        durable: OldDurable,
    },
}

/// `bench oldjs push` and `bench oldjs pull`
#[derive(Args, Debug)]
pub(crate) struct OldDurable {
    /// Taken, as the original wants it, and not needed
    pub(crate) subject: String,
    /// Name of the consumer; only the default one is created, and removed
    #[arg(long, default_value = CONSUMER)]
    pub(crate) consumer: String,
    /// Acknowledge each message (the default)
    #[arg(long, overrides_with = "no_ack")]
    pub(crate) ack: bool,
    /// Acknowledge nothing
    #[arg(long, overrides_with = "ack")]
    pub(crate) no_ack: bool,
    /// Wait for the server's answer to each acknowledgement
    #[arg(long, overrides_with = "no_doubleack")]
    pub(crate) doubleack: bool,
    #[arg(long, hide = true, overrides_with = "doubleack")]
    pub(crate) no_doubleack: bool,
}
