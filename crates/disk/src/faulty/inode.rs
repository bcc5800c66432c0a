//! One file of a faulty disk: what readers see, what the device has for certain, and the changes
//! between the two.
//!
//! A page cache sends sectors to the device when it likes: after a loss of power each sector holds
//! what it held at some moment since the last sync. Lengths are the file system's own data and go
//! in order, apart from the content.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use myelin_stdx::rng::Rng;
use roaring::RoaringBitmap;
use rustix::io::Errno;

use super::super::File;
use super::super::memory::MemoryFile;

/// Bytes that a device writes wholly or not at all.
pub(super) const SECTOR: u64 = 512;

/// Bytes in which a file system gives space to files.
pub(super) const BLOCK: u64 = 4096;

/// A change that the device may not have yet.
#[derive(Clone, Debug)]
enum InodeChange {
    Write {
        offset: u64,
        bytes: Arc<[u8]>,
    },
    /// Cut or extended to this length.
    Length(u64),
    /// At least this long.
    AtLeast(u64),
}

impl InodeChange {
    /// The length of the file after it.
    fn length_after(&self, length: u64) -> u64 {
        match self {
            Self::Write { offset, bytes } => length.max(offset + bytes.len() as u64),
            Self::Length(new) => *new,
            Self::AtLeast(least) => length.max(*least),
        }
    }

    fn apply(&self, file: &MemoryFile) -> io::Result<()> {
        match self {
            Self::Write { offset, bytes } => file.write_at(bytes, *offset),
            Self::Length(length) => file.set_len(*length),
            Self::AtLeast(length) => file.allocate(*length),
        }
    }
}

/// A file of a faulty disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    live: SharedFile,
    durable: SharedFile,
    /// With the disk-wide number of each change, in order.
    pending: Vec<(u64, InodeChange)>,
    /// Blocks that the file system has given to it.
    pub(super) blocks: RoaringBitmap,
    /// How many handles are open.
    pub(super) handles: u64,
    /// Whether it has a name.
    pub(super) linked: bool,
    /// Where the device cannot be read.
    pub(super) unreadable: Range<u64>,
}

/// Contents that copies of a disk share until one of them is changed.
///
/// Perf: most copies take the place of a disk that nobody looks at any more, and of most files
/// nothing changes: copying them all was a quarter of a simulation's instructions.
#[derive(Clone, Debug, Default)]
struct SharedFile(Arc<MemoryFile>);

impl SharedFile {
    /// For changes: the file is nobody else's from here on.
    fn own(&mut self) -> &MemoryFile {
        if Arc::get_mut(&mut self.0).is_none() {
            self.0 = Arc::new(self.0.snapshot());
        }
        &self.0
    }
}

/// How much of a file's unsynced changes a loss of power leaves.
pub(super) enum KeptWrites<'a> {
    Nothing,
    /// Changes with a smaller number.
    Before(u64),
    Everything,
    /// Each sector as it was at some moment, the length likewise.
    Some(&'a mut Rng),
}

impl Inode {
    /// An empty file with a name.
    pub(super) fn named() -> Self {
        Self { linked: true, ..Self::default() }
    }

    /// Contents as readers see them.
    pub(super) fn live(&self) -> &MemoryFile {
        &self.live.0
    }

    /// Fails as a device does where one of the bytes cannot be read.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let length = self.live.0.read_at(buffer, offset)? as u64;
        let touched =
            self.unreadable.start.max(offset)..self.unreadable.end.min(offset.saturating_add(length));
        if touched.is_empty() { Ok(length as usize) } else { Err(Errno::IO.into()) }
    }

    pub(super) fn write(&mut self, order: u64, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.change(order, InodeChange::Write { offset, bytes: bytes.into() })
    }

    pub(super) fn set_len(&mut self, order: u64, length: u64) -> io::Result<()> {
        self.change(order, InodeChange::Length(length))
    }

    pub(super) fn extend(&mut self, order: u64, length: u64) -> io::Result<()> {
        self.change(order, InodeChange::AtLeast(length))
    }

    fn change(&mut self, order: u64, change: InodeChange) -> io::Result<()> {
        change.apply(self.live.own())?;
        self.pending.push((order, change));
        Ok(())
    }

    /// Everything written so far is safe, except what an earlier failed sync dropped.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        let durable = &mut self.durable;
        self.pending.drain(..).try_for_each(|(_, change)| change.apply(durable.own()))
    }

    /// Fails a sync: what was written since the last one never reaches the device, though readers
    /// go on seeing it and later syncs succeed. The length is the file system's and not lost by it:
    /// zeros stand where the content is missing.
    pub(super) fn fail_sync(&mut self) {
        for (_, change) in &mut self.pending {
            if let InodeChange::Write { offset, bytes } = change {
                *change = InodeChange::AtLeast(*offset + bytes.len() as u64);
            }
        }
    }

    /// The numbers of the unsynced changes.
    pub(super) fn unsynced(&self) -> impl Iterator<Item = u64> {
        self.pending.iter().map(|(order, _)| *order)
    }

    /// The file after a loss of power: synced, linked and not open.
    pub(super) fn survivor(&self, left: KeptWrites<'_>) -> io::Result<Self> {
        let mut image = self.durable.clone();
        let mut whole = |until: u64| {
            let mut survived = self.pending.iter().take_while(|(order, _)| *order < until);
            survived.try_for_each(|(_, change)| change.apply(image.own()))
        };
        match left {
            KeptWrites::Nothing => {}
            KeptWrites::Before(order) => whole(order)?,
            KeptWrites::Everything => whole(u64::MAX)?,
            KeptWrites::Some(rng) => self.tear(&mut image, rng)?,
        }
        Ok(Self { durable: image.clone(), live: image, unreadable: self.unreadable.clone(), ..Self::named() })
    }

    /// Applies to `image` what happens to survive.
    fn tear(&self, image: &mut SharedFile, rng: &mut Rng) -> io::Result<()> {
        let lengths = rng.below(self.pending.len() as u64 + 1) as usize;
        let mut moments = self.moments(rng);
        if self.pending.is_empty() {
            return Ok(());
        }
        let image = image.own();
        let mut length = image.len()?;
        for (index, (_, change)) in self.pending.iter().enumerate() {
            match change {
                InodeChange::Write { offset, bytes } => {
                    for (sector, part) in sectors(*offset, bytes.len()) {
                        let left = moments.get_mut(&sector).filter(|left| **left > 0);
                        if let Some(left) = left {
                            *left -= 1;
                            image.write_at(&bytes[part.clone()], offset + part.start as u64)?;
                        }
                    }
                }
                // Cutting frees blocks; what is written there later comes into new ones.
                InodeChange::Length(new) if index < lengths => image.set_len(image.len()?.min(*new))?,
                InodeChange::Length(_) | InodeChange::AtLeast(_) => {}
            }
            if index < lengths {
                length = change.length_after(length);
            }
        }
        image.set_len(length)
    }

    /// For each sector with unsynced writes: how many of these it has seen.
    fn moments(&self, rng: &mut Rng) -> HashMap<u64, u64> {
        let mut moments = HashMap::new();
        let mut touched = Vec::new();
        for (_, change) in &self.pending {
            let InodeChange::Write { offset, bytes } = change else { continue };
            for (sector, _) in sectors(*offset, bytes.len()) {
                let writes = moments.entry(sector).or_insert(0);
                if *writes == 0 {
                    touched.push(sector);
                }
                *writes += 1;
            }
        }
        // Mostly whole, mostly lost, or mixed: an even mixture alone would hardly ever leave a long
        // run intact.
        let style = rng.below(3);
        for sector in touched {
            let writes = moments.entry(sector).or_insert(0);
            *writes = match (style, rng.below(8)) {
                (0, 1..) => *writes,
                (1, 1..) => 0,
                _ => rng.below(*writes + 1),
            };
        }
        moments
    }

    /// Changes the content behind everybody's back.
    pub(super) fn damage(&mut self, harm: impl Fn(&MemoryFile) -> io::Result<()>) -> io::Result<()> {
        harm(self.live.own())?;
        harm(self.durable.own())
    }
}

/// The sectors of `length` bytes at `offset`, each with its part of the bytes.
pub(super) fn sectors(offset: u64, length: usize) -> impl Iterator<Item = (u64, Range<usize>)> {
    let end = offset + length as u64;
    let first = offset / SECTOR;
    let behind = if length == 0 { first } else { end.div_ceil(SECTOR) };
    (first..behind).map(move |sector| {
        let from = (sector * SECTOR).max(offset) - offset;
        let to = ((sector + 1) * SECTOR).min(end) - offset;
        (sector, from as usize..to as usize)
    })
}
