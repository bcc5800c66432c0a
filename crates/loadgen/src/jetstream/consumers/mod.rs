//! Workloads of consumers and of what clients build on them: streams are filled and read,
//! everything is counted.
//!
//! This file owns what a workload is, `run` the stream that it reads and what a run gives. The
//! rooms: `receiving` runs connections that receive, `push` and `pull` are what a client does on
//! one, `delivery` takes their subjects apart, `ledger` counts them, `replay`,
//! `publish_while_reading`, `kv`, `latency`, `many_consumers`, `pending` and `origins` are the
//! workloads. Publishing is that of the rows about streams.

pub mod delivery;
pub(crate) mod kv;
pub(crate) mod latency;
pub(crate) mod ledger;
pub(crate) mod many_consumers;
pub mod origins;
pub(crate) mod pending;
pub(crate) mod publish_while_reading;
pub mod pull;
pub(crate) mod push;
pub(crate) mod receiving;
pub(crate) mod replay;
pub(crate) mod run;

pub use run::{ConsumerOutcome, SIZE, Scale};

use std::fmt;

use crate::connection::address::Address;
use crate::error::BenchError;
use crate::jetstream::consumers::pull::{Acks, How};
use crate::jetstream::consumers::run::{ConsumerRun, Filled, fill_plain};
use crate::jetstream::stream::LoadStorage;
use crate::meter::Meter;
use crate::pubsub::publisher::Until;

/// Workload of consumers, mirrors or sources on one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerLoad {
    /// An ordered consumer, pushed to, reads the stream.
    Ordered(LoadStorage),
    /// Clients of one pull consumer share the stream.
    Pull {
        /// How they ask.
        how: How,
        /// How many they are.
        clients: usize,
        /// Acknowledgements of the messages.
        acks: Acks,
    },
    /// A durable push consumer reads the stream, each message is acknowledged.
    Push,
    /// An ordered consumer reads the few messages that its filter lets through.
    Sparse,
    /// Publishers, and as many ordered consumers, at once.
    Together {
        /// Publishers, and consumers.
        pairs: usize,
        /// Where the stream keeps messages.
        storage: LoadStorage,
        /// Bytes of each payload.
        size: usize,
        /// Whether the server syncs before it acknowledges.
        synced: bool,
    },
    /// How much of a publisher's rate is left while 100 consumers read the stream.
    Beside,
    /// 16 clients put random keys.
    KvPut,
    /// 16 clients get random keys.
    KvGet,
    /// A watch over all keys, then over their updates.
    KvWatch,
    /// Messages from a publisher to a consumer, at a fixed rate.
    Latency {
        /// Messages per second.
        rate: u64,
        /// Whether the consumer is pulled from, or pushed to.
        is_pull: bool,
    },
    /// Many consumers, few of which have something to do.
    Crowd,
    /// Many messages are delivered, then acknowledged in an order without locality.
    Pending,
    /// Mirrors and sources.
    Copy(origins::Copying),
}

impl fmt::Display for ConsumerLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}, {} B", self.size())
    }
}

/// A server that is ready for runs of a load, with the stream that they read.
#[derive(Debug)]
pub struct Stage {
    load: ConsumerLoad,
    scale: Scale,
    filled: Option<Filled>,
}

impl ConsumerLoad {
    /// Whether the server syncs before it acknowledges.
    pub fn is_synced(self) -> bool {
        matches!(self, Self::Together { synced: true, .. })
    }

    /// Whether every run needs a server of its own: memory that was used once may never be given
    /// back.
    pub fn wants_fresh_server(self) -> bool {
        matches!(self, Self::Crowd | Self::Pending | Self::Copy(origins::Copying::Resting))
    }

    /// Bytes of its payloads.
    fn size(self) -> usize {
        if let Self::Together { size, .. } = self { size } else { SIZE }
    }

    /// Fills the stream that is read, if there is one that every run can read.
    pub fn stage(self, address: &Address, scale: Scale) -> Result<Stage, BenchError> {
        let filled = match self {
            Self::Ordered(storage) => Some(fill_plain(address, storage, scale.replayed())?),
            Self::Copy(origins::Copying::Mirror | origins::Copying::Source) => {
                Some(fill_plain(address, LoadStorage::File, scale.replayed())?)
            }
            Self::Copy(_) => None,
            Self::Pull { .. } | Self::Push => Some(fill_plain(address, LoadStorage::File, scale.replayed())?),
            Self::Sparse => Some(replay::fill_sparse(address, scale.sparse())?),
            Self::KvPut | Self::KvGet | Self::KvWatch => Some(kv::fill(address, scale.keys())?),
            Self::Together { .. } | Self::Beside | Self::Latency { .. } | Self::Crowd | Self::Pending => None,
        };
        Ok(Stage { load: self, scale, filled })
    }
}

impl Stage {
    /// Runs the load once. Loads that do not count while they work take a number of messages for a
    /// moment. `meter` is the server's process, if it is known.
    pub fn run(
        &self,
        address: &Address,
        until: Until,
        meter: Option<Meter>,
    ) -> Result<ConsumerOutcome, BenchError> {
        let run = ConsumerRun { address, until, meter };
        match (self.load, &self.filled) {
            (ConsumerLoad::Ordered(_), Some(filled)) => replay::push(filled, false, run),
            (ConsumerLoad::Push, Some(filled)) => replay::push(filled, true, run),
            (ConsumerLoad::Pull { how, clients, acks }, Some(filled)) => {
                replay::pull(filled, how, clients, acks, run)
            }
            (ConsumerLoad::Sparse, Some(filled)) => replay::sparse(filled, run),
            (ConsumerLoad::KvPut, Some(filled)) => kv::put(filled, run),
            (ConsumerLoad::KvGet, Some(filled)) => kv::get(filled, run),
            (ConsumerLoad::KvWatch, Some(filled)) => kv::watch(filled, run),
            (ConsumerLoad::Latency { rate, is_pull }, _) => latency::run(rate, is_pull, run),
            (ConsumerLoad::Together { pairs, storage, size, .. }, _) => {
                publish_while_reading::together(pairs, storage, size, run)
            }
            (ConsumerLoad::Beside, _) => publish_while_reading::beside(self.scale.replayed_by_many(), run),
            (ConsumerLoad::Crowd, _) => many_consumers::run(self.scale.consumers(), run),
            (ConsumerLoad::Pending, _) => pending::run(self.scale.pending(), run),
            (ConsumerLoad::Copy(copying), filled) => origins::run(copying, filled.as_ref(), self.scale, run),
            (load, None) => unreachable!("{load:?} has a stream that is read"),
        }
        .map(|outcome| outcome.with_bytes(self.load.size()))
    }
}
