//! Queues and threads of the server.

use super::journal::JournalSnapshot;
use myelin_stdx::histogram::HistogramCounts;
use serde::Serialize;

/// A queue between threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSnapshot {
    /// Its name, unique among queues.
    pub name: String,
    /// Entries that wait.
    pub pending: u64,
    /// Entries that were taken out and are being worked on.
    pub in_progress: u64,
}

/// A thread of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadSnapshot {
    /// The operating system's number.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// State of the thread in one or a few words: `running`, `sleeping, ep_poll`.
    pub state: String,
}

/// A panic that was caught.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PanicSnapshot {
    /// Time at which it was told, as RFC 3339 has it.
    pub at: String,
    /// Name of a part of the server, or `consumer 'ACCOUNT > STREAM > CONSUMER'`.
    pub of: String,
    /// Place in the sources.
    pub place: String,
    /// Text of the panic.
    pub says: String,
    /// Cost of the panic, and what happens now.
    pub cost: String,
}

/// Command line of a process, and the memory that it holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeSnapshot {
    /// The program and its arguments, without their secrets.
    pub command_line: Vec<String>,
    /// Bytes of address space.
    pub mapped: u64,
    /// Bytes of address space for data: heap and the stacks of threads.
    pub data: u64,
    /// Bytes of those that are in memory.
    pub resident_data: u64,
    /// Bytes of the main thread's stack.
    pub stack: u64,
    /// Bytes that are held on behalf of others, by what for.
    pub held: Vec<(&'static str, u64)>,
    /// Panics that were caught since the start.
    pub panics: u64,
    /// Panics that were caught last, the newest at the end.
    pub recent_panics: Vec<PanicSnapshot>,
    /// Statistics of the store's journal, where there is JetStream.
    pub journal: Option<JournalSnapshot>,
    /// Nanoseconds that entries of groups which the server leads waited for their commit; `None`
    /// where it is in no cluster.
    pub commit_waits: Option<HistogramCounts>,
    /// Nanoseconds by which the clock is ahead of the median of the servers that share JetStream.
    pub clock_ahead: i64,
    /// Replicas of this server that were found damaged since the start.
    pub replicas_damaged: u64,
    /// Replicas of this server that were not as most of their group since the start.
    pub replicas_disagreed: u64,
    /// Replicas among both that have got all from another server.
    pub replicas_repaired: u64,
    /// Pushes of metrics since the start that a collector took, and those that failed; `None` where
    /// nothing is pushed.
    pub pushes: Option<[u64; 2]>,
    /// Spans of messages since the start that a collector took, that it did not take, and that
    /// found no room; `None` where none are made.
    pub spans: Option<[u64; 3]>,
}
