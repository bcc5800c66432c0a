//! Which faults a disk can have, and when they strike.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::ops::Range;

use myelin_stdx::rng::Rng;

use super::inode::sectors;

/// Fault that happens at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// The operation fails, later ones do not. A write may be done in part. A failed sync drops
    /// what was written since the last one, as kernels do: it never becomes durable, though readers
    /// go on seeing it.
    Error(ErrorKind),
    /// As `Error`, and every later point fails as well, until [`heal`](super::FaultyDisk::heal).
    ErrorsFrom(ErrorKind),
    /// From here on there is room for so many bytes more, then `StorageFull`. `set_capacity` gives
    /// space back.
    FullAfter(u64),
    /// Power is lost: the operation is not done, a write perhaps in part, and everything fails from
    /// then on, reads included.
    Crash,
}

/// Changes without a sync that survive a loss of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// Nothing.
    None,
    /// Everything.
    All,
    /// The first so many changes of the whole disk, data and names, in the order in which they were
    /// made.
    Prefix(u64),
    /// Of data, each sector of 512 bytes as it was at some moment since the last sync; of lengths
    /// and of each directory's names the first few changes.
    Random(u64),
}

/// Verdict on a point: what it may do.
pub(super) enum PointVerdict {
    Go,
    Fail {
        error: io::Error,
        torn: Torn,
    },
    /// Power was lost earlier.
    Off(io::Error),
}

/// How a failing operation is half done.
pub(super) struct Torn {
    rng: Rng,
    crash: bool,
}

impl Torn {
    /// The parts of a write that are done: none, the sectors up to some place, or any of them.
    pub(super) fn parts(mut self, offset: u64, length: usize) -> Vec<Range<usize>> {
        let parts: Vec<Range<usize>> = sectors(offset, length).map(|(_, part)| part).collect();
        match self.rng.below(3) {
            0 => Vec::new(),
            1 => parts[..self.rng.below(parts.len() as u64 + 1) as usize].to_vec(),
            _ => parts.into_iter().filter(|_| self.rng.below(2) == 0).collect(),
        }
    }

    /// A sync that failed loses data; one that power interrupted loses only what the power cycle
    /// says.
    pub(super) fn drops_on_sync(&self) -> bool {
        !self.crash
    }
}

/// The plan, and how far it has come.
#[derive(Debug)]
pub(super) struct Faults {
    seed: u64,
    points: u64,
    plan: BTreeMap<u64, DiskFault>,
    state: Health,
}

#[derive(Clone, Copy, Debug)]
enum Health {
    Healthy,
    Failing(ErrorKind),
    Off,
}

impl Faults {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, points: 0, plan: BTreeMap::new(), state: Health::Healthy }
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn points(&self) -> u64 {
        self.points
    }

    pub(super) fn plan(&mut self, point: u64, fault: DiskFault) {
        self.plan.insert(point, fault);
    }

    pub(super) fn is_off(&self) -> bool {
        matches!(self.state, Health::Off)
    }

    pub(super) fn forget_plans(&mut self) {
        self.plan.clear();
    }

    pub(super) fn heal(&mut self) {
        if let Health::Failing(_) = self.state {
            self.state = Health::Healthy;
        }
    }

    /// For what is no point: it fails only without power.
    pub(super) fn check_power(&self) -> io::Result<()> {
        if self.is_off() { Err(power_lost()) } else { Ok(()) }
    }

    /// Counts a point and says what happens at it. `limit` is told how much room is left when the
    /// disk begins to fill.
    pub(super) fn pass(&mut self, limit: impl FnOnce(u64)) -> PointVerdict {
        if self.is_off() {
            return PointVerdict::Off(power_lost());
        }
        let point = self.points;
        self.points += 1;
        let kind = match (self.plan.get(&point).copied(), self.state) {
            (Some(DiskFault::Crash), _) => {
                self.state = Health::Off;
                return PointVerdict::Fail { error: power_lost(), torn: self.torn(point, true) };
            }
            (Some(DiskFault::Error(kind)), _) | (None, Health::Failing(kind)) => kind,
            (Some(DiskFault::ErrorsFrom(kind)), _) => {
                self.state = Health::Failing(kind);
                kind
            }
            (Some(DiskFault::FullAfter(bytes)), _) => {
                limit(bytes);
                return PointVerdict::Go;
            }
            (None, Health::Healthy | Health::Off) => return PointVerdict::Go,
        };
        let error = io::Error::new(kind, format!("planned at point {point}"));
        PointVerdict::Fail { error, torn: self.torn(point, false) }
    }

    /// Seeded by the point, so that an enumeration does not tear every write in the same way.
    fn torn(&self, point: u64, crash: bool) -> Torn {
        Torn { rng: Rng::seeded(Rng::seeded(self.seed).next_u64() ^ point), crash }
    }
}

fn power_lost() -> io::Error {
    io::Error::other("power lost")
}
