//! Figures of streams and consumers for `/metrics`, and how that page is configured.

use std::time::Duration;

use jiff::Timestamp;

/// Configuration of `/metrics`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetricsConfig {
    /// Beginning of names instead of the usual ones, in ASCII; empty keeps these.
    pub prefix: String,
    /// Connections that are shown one by one.
    pub max_connections: usize,
    /// Accounts that are shown.
    pub max_accounts: usize,
    /// Streams that are shown, groups of replicas, and queues.
    pub max_streams: usize,
    /// Consumers that are shown.
    pub max_consumers: usize,
}

/// How many figures are wanted at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MostFigures {
    /// Streams.
    pub streams: usize,
    /// Consumers of all of these together.
    pub consumers: usize,
}

/// Figures of one stream.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StreamFigures {
    /// Its name.
    pub name: String,
    /// Name of the server that leads it; empty for none.
    pub leader: String,
    /// Name of its group; empty where it has none.
    pub raft_group: String,
    /// Whether its messages are in memory only.
    pub is_in_memory: bool,
    /// Messages.
    pub messages: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// First and last sequence.
    pub sequences: [u64; 2],
    /// When the first message was stored, if there is one.
    pub oldest: Option<Timestamp>,
    /// Different subjects.
    pub subjects: u64,
    /// Sequences between the first and the last that have no message.
    pub holes: u64,
    /// Messages that a damaged disk took.
    pub lost: u64,
    /// Most messages and bytes; -1 for as many as there are.
    pub limits: [i64; 2],
    /// Consumers, those that are not among `consumers` included.
    pub consumer_count: u64,
    /// The stream that it mirrors.
    pub mirror: Option<SourceFigures>,
    /// The streams that it copies from.
    pub sources: Vec<SourceFigures>,
    /// Its consumers in order of their names.
    pub consumers: Vec<ConsumerFigures>,
}

/// Figures of a stream that is copied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceFigures {
    /// Its name.
    pub name: String,
    /// Prefix of the API where it is, if not here.
    pub api: String,
    /// Prefix of deliveries from there.
    pub deliver: String,
    /// Messages that are still to come.
    pub lag: u64,
    /// Nanoseconds since something came; -1: nothing yet.
    pub active: i64,
    /// Age of the oldest of the messages that are still to come, or of the last one that came: no
    /// time where none is, `None` where it is not known.
    pub lag_time: Option<Duration>,
}

/// Figures of one consumer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConsumerFigures {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Name of the server that leads it, empty for none; `None` where it has no group.
    pub leader: Option<String>,
    /// Sequences of the last delivery, of the consumer and of the stream.
    pub delivered: [u64; 2],
    /// Sequences up to which everything is acknowledged, of the consumer and of the stream.
    pub ack_floor: [u64; 2],
    /// Time since the last delivery, if there was one.
    pub since_delivery: Option<Duration>,
    /// Time since the last acknowledgement, if there was one.
    pub since_ack: Option<Duration>,
    /// Messages that are delivered and not acknowledged.
    pub ack_pending: u64,
    /// Messages that were delivered again and are not acknowledged.
    pub redelivered: u64,
    /// Requests of clients that wait for messages.
    pub waiting: u64,
    /// Messages that are yet to be delivered.
    pub pending: u64,
    /// Age of the oldest message that is yet to be delivered: no time where none is, `None` where
    /// it cannot be read.
    pub lag_time: Option<Duration>,
    /// Age of the oldest message that is delivered and not acknowledged, if there is one.
    pub unacknowledged_for: Option<Duration>,
    /// Whether it is paused.
    pub is_paused: bool,
}
