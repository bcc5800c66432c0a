//! One round's figures: samples of the process under load, and process and pages at rest.
//!
//! Under load a figure is the median of its samples, since files come and go with segments. At
//! rest, when every client has done what it began and the server has had time to tidy up, each
//! table has the size that belongs to what is there.

mod consumers;
mod pages;
mod process;
mod removed;

pub(crate) use removed::Held;

use crate::Error;
use crate::judge::{Figure, median};
use crate::settings::CLOSED_CLIENTS;
use crate::world::World;
use process::Sample;
use removed::Removed;

/// A removed file may stay open for so long: whoever reads it ends, and then it is closed.
pub(crate) const REMOVED_FILES_STAY: std::time::Duration = std::time::Duration::from_secs(10);

const MIB: f64 = 1024.0 * 1024.0;
/// Size of one file of a stream.
const SEGMENT_MIB: f64 = 16.0;
/// The four files that our journal writes in turn.
const JOURNAL_MIB: f64 = 4.0 * 64.0;

/// Figures that are measured, in the order of a row. The floors, and why:
/// - memory: an allocator keeps a few pages of each size for each thread;
/// - disk: a limited stream has one segment more or less from round to round, and few of the
///   streams here have large ones;
/// - the journal: it makes its files one by one, and how long that takes depends on the disk; one
///   file more than it wants to have is no growth either, but a number of them is;
/// - removed files: some are always open for a moment, at rest too; for how long is judged apart;
/// - open files and threads: pools grow by one when two want something at once;
/// - closed clients: as many as the configuration lets the server remember, for `--only` may need
///   an hour to close so many;
/// - what clients hold: one of those that were just closed may still be there;
/// - consumers: a load that is slow just then uses those of a few turns for longer;
/// - what streams hold: one turn of one load.
pub(crate) const FIGURES: [Figure; 29] = [
    figure("rss", 4.0),
    figure("fds", 8.0),
    figure("removed", 4.0),
    figure("disk", 2.0 * SEGMENT_MIB),
    figure("rss.rest", 4.0),
    figure("anon.rest", 4.0),
    figure("fds.rest", 8.0),
    figure("removed.rest", 4.0),
    figure("disk.rest", 2.0 * SEGMENT_MIB),
    figure("journal", JOURNAL_MIB),
    figure("threads", 4.0),
    figure("conns", 2.0),
    figure("subs", 8.0),
    figure("connz", 2.0),
    figure("closed", CLOSED_CLIENTS as f64),
    figure("pending", 0.0),
    figure("subsz", 8.0),
    figure("accounts", 0.0),
    figure("acc.conns", 2.0),
    figure("acc.subs", 8.0),
    figure("queued", 2.0),
    figure("streams", 0.0),
    figure("consumers", 16.0),
    figure("msgs", 500.0),
    figure("MiB", 2.0),
    figure("subjects", 500.0),
    figure("deleted", 500.0),
    figure("unacked", 100.0),
    figure("waiting", 2.0),
];

const fn figure(name: &'static str, floor: f64) -> Figure {
    Figure { name, floor }
}

/// Watches one process.
#[derive(Debug)]
pub(crate) struct Measure {
    samples: Vec<Sample>,
    removed: Removed,
}

impl Measure {
    pub(crate) fn new() -> Self {
        Self { samples: Vec::new(), removed: Removed::default() }
    }

    /// Looks at the process under load. To be called often: how long a removed file stays open is
    /// known no better than that.
    pub(crate) fn sample(&mut self, world: &World) -> Result<(), Error> {
        let sample = self.look(world)?;
        self.samples.push(sample);
        Ok(())
    }

    /// Looks at the process at rest, which belongs to no round.
    pub(crate) fn glance(&mut self, world: &World) -> Result<(), Error> {
        self.look(world).map(drop)
    }

    fn look(&mut self, world: &World) -> Result<Sample, Error> {
        let sample = Sample::of(world.pid(), &world.store())?;
        self.removed.saw(&sample.removed);
        Ok(sample)
    }

    /// The round's row, to be taken at rest. The next round begins with it.
    pub(crate) async fn row(&mut self, world: &World) -> Result<Vec<f64>, Error> {
        let busy = std::mem::take(&mut self.samples);
        let rest = self.look(world)?;
        let middle = |get: fn(&Sample) -> f64| median(&busy.iter().map(get).collect::<Vec<f64>>());
        let mut row = vec![
            middle(|sample| sample.resident as f64 / MIB),
            middle(|sample| sample.descriptors as f64),
            middle(|sample| sample.removed.len() as f64),
            middle(|sample| sample.disk() as f64 / MIB),
            rest.resident as f64 / MIB,
            rest.anonymous as f64 / MIB,
            rest.descriptors as f64,
            rest.removed.len() as f64,
            rest.disk() as f64 / MIB,
            rest.journal as f64 / MIB,
            rest.threads as f64,
        ];
        row.extend(pages::tables(world).await?);
        debug_assert_eq!(row.len(), FIGURES.len());
        Ok(row)
    }

    /// The removed files that stayed open for too long, the longest first.
    pub(crate) fn held(&self) -> Vec<Held> {
        self.removed.held()
    }

    /// How long the removed file that is open for the longest has been open, in seconds.
    pub(crate) fn longest_open(&self) -> f64 {
        self.removed.longest_open().as_secs_f64()
    }
}
