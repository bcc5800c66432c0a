//! `bench js`: one workload against a server that is running, in streams made for it and deleted afterwards.
//!
//! Owns the arguments, which resemble those of `nats bench js`, and what is printed. The work is the same as the table's.

use clap::{Args, Subcommand};

use crate::bench::Reached;
use crate::bench::commands::{Share, print_rates};
use crate::bench::error::BenchError;
use crate::bench::jetstream::fast::Flow;
use crate::bench::jetstream::stream::Storage;
use crate::bench::jetstream::{Extent, Load, Mode, Outcome};
use crate::bench::process::Meter;
use crate::bench::publisher::Until;

/// Messages of a stream that is read.
const STORED: u64 = 100_000;

/// `myelin bench js …`
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Publish into streams
    #[command(subcommand)]
    Pub(PublishCommand),
    /// Read from a stream of 100,000 messages
    #[command(subcommand)]
    Get(GetCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum PublishCommand {
    /// Each client waits for each acknowledgement
    Sync(Common),
    /// Acknowledgements come back while more is sent
    Async {
        #[command(flatten)]
        common: Common,
        /// Messages of a client that may be unacknowledged
        #[arg(long, default_value_t = 4096, value_name = "COUNT")]
        window: usize,
    },
    /// Atomic batches
    Batch {
        #[command(flatten)]
        common: Common,
        /// Messages in a batch
        #[arg(long, default_value_t = 1000, value_name = "COUNT")]
        batch: usize,
    },
    /// Fast-ingest batches
    Fast {
        #[command(flatten)]
        common: Common,
        /// Messages in a batch
        #[arg(long, default_value_t = 1000, value_name = "COUNT")]
        batch: usize,
        /// The most messages per acknowledgement
        #[arg(long, default_value_t = Flow::DEFAULT.every, value_name = "COUNT")]
        flow: u64,
        /// Acknowledgements that may be outstanding
        #[arg(long, default_value_t = Flow::DEFAULT.acks, value_name = "COUNT")]
        acks: u64,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum GetCommand {
    /// One message per request
    Sync {
        #[command(flatten)]
        common: Common,
        /// Requests of a client that may be unanswered
        #[arg(long, default_value_t = 1, value_name = "COUNT")]
        window: usize,
    },
    /// Many messages per request
    Batch {
        #[command(flatten)]
        common: Common,
        /// Messages in a batch
        #[arg(long, default_value_t = 500, value_name = "COUNT")]
        batch: u64,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Common {
    #[command(flatten)]
    reached: Reached,
    #[command(flatten)]
    load: crate::bench::Load,
    /// Where the streams keep their messages
    #[arg(long, default_value = "file", value_enum)]
    storage: Storage,
    /// Number of streams; clients are spread over them
    #[arg(long, default_value_t = 1)]
    streams: usize,
}

impl Command {
    /// Runs the workload and prints what it gave.
    pub(crate) fn run(&self) -> Result<(), BenchError> {
        let (role, common, mode) = self.parts();
        let Common { reached, load: amount, storage, streams } = common;
        let (clients, storage, streams) = (reached.clients, *storage, *streams);
        if !mode.is_possible() || clients == 0 || streams == 0 || streams > clients {
            let text = "windows, flows, clients and streams must be at least 1, batches 2, streams at most as many as clients";
            return Err(BenchError::Usage(text.into()));
        }
        println!(
            "Starting JetStream {role} benchmark [clients={clients}, msg-size={} B, msgs={}, storage={storage:?}, streams={streams}]",
            amount.size, amount.msgs
        );
        let load = Load { mode, storage, size: amount.size, clients, streams, synced: false };
        let extent = Extent { until: Until::Messages(amount.msgs), stored: mode.stored(), subjects: 0 };
        let outcome = load.run(&reached.server, extent, reached.server_pid.map(Meter::of))?;
        print(role, &outcome);
        Ok(())
    }

    fn parts(&self) -> (&'static str, &Common, Mode) {
        match self {
            Self::Pub(PublishCommand::Sync(common)) => {
                ("synchronous publisher", common, Mode::Publish { window: 1 })
            }
            Self::Pub(PublishCommand::Async { common, window }) => {
                ("asynchronous publisher", common, Mode::Publish { window: *window })
            }
            Self::Pub(PublishCommand::Batch { common, batch }) => {
                ("batch publisher", common, Mode::Atomic { batch: *batch })
            }
            Self::Pub(PublishCommand::Fast { common, batch, flow, acks }) => {
                let flow = Flow { every: *flow, acks: *acks };
                ("fast batch publisher", common, Mode::Fast { batch: *batch, flow })
            }
            Self::Get(GetCommand::Sync { common, window }) => {
                ("direct getter", common, Mode::Get { window: *window })
            }
            Self::Get(GetCommand::Batch { common, batch }) => {
                ("batched direct getter", common, Mode::GetBatch { batch: *batch })
            }
        }
    }
}

impl Mode {
    /// Whether a command may ask for it.
    fn is_possible(self) -> bool {
        match self {
            Self::Publish { window } | Self::Get { window } => window > 0,
            Self::Atomic { batch } => batch > 1,
            Self::Fast { batch, flow } => batch > 1 && (1..=65_535).contains(&flow.every) && flow.acks > 0,
            Self::GetBatch { batch } => (1..=STORED).contains(&batch),
            Self::Distinct => false,
        }
    }

    /// How many messages are stored before they are read: whole batches.
    fn stored(self) -> u64 {
        match self {
            Self::GetBatch { batch } => STORED / batch * batch,
            _ => STORED,
        }
    }
}

fn print(role: &str, outcome: &Outcome) {
    let done = &outcome.done;
    let share =
        Share { messages: done.messages, payload_bytes: done.payload_bytes, elapsed: outcome.elapsed };
    print_rates(&format!("JetStream {role}"), &[share], outcome.cpu);
    if let [Some(median), Some(p90), Some(p99), Some(p999)] =
        [0.5, 0.9, 0.99, 0.999].map(|quantile| outcome.latency(quantile))
    {
        println!(" latencies p50 {median:.2}us | p90 {p90:.2}us | p99 {p99:.2}us | p99.9 {p999:.2}us");
    }
}
