//! Crash enumeration of what a stream is called: both copies of its `meta`, made and written again.

use std::sync::Arc;

use myelin_disk::faulty::{FaultyDisk, Survival};
use myelin_store::entropy::SeededEntropy;
use myelin_store::{Admission, NewMessage, Notice, Reserve, Store, StoreOptions, StoreReport, StreamConfig};

use super::script::{begun, is_the_same_twice};
use crate::enumeration::{Loss, Script};

const TEXTS: u8 = 5;

/// Script that makes a stream's `meta` and writes it again.
#[derive(Clone, Debug)]
pub(super) struct Workload;

/// How often the text was written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Promises {
    /// The newest that was begun; 0 if the stream was not.
    begun: u8,
    /// The newest that is there for good.
    sure: u8,
}

impl Workload {
    fn open(disk: &FaultyDisk, turn: u64) -> Result<(Store, StoreReport), String> {
        let options = StoreOptions {
            headroom_bytes: 8 << 10,
            journal_file_bytes: 8 << 10,
            reserve: Reserve::Nothing,
            ..StoreOptions::new("/store")
        };
        let entropy = Arc::new(SeededEntropy::new(50 + turn));
        Store::open(Arc::new(disk.clone()), options, entropy).map_err(|error| error.to_string())
    }

    /// Which text the stream has; 0 if it is not there.
    fn look(disk: &FaultyDisk, turn: u64) -> Result<(u8, StoreReport), String> {
        let (store, report) = Self::open(disk, turn)?;
        let text = match &report.streams[..] {
            [] => 0,
            [found] => {
                // Nobody is shown a stream before it was opened: then its names are safe.
                let opened = store.open_stream(found.id, StreamConfig::default(), 2);
                opened.map_err(|error| error.to_string())?;
                text_of(&found.meta.config)?
            }
            _ => return Err(format!("there are {} streams", report.streams.len())),
        };
        Ok((text, report))
    }
}

/// Texts grow, so that a mixture of two would have a wrong length.
fn text(number: u8) -> Vec<u8> {
    vec![number; usize::from(number) * 700]
}

fn text_of(config: &[u8]) -> Result<u8, String> {
    let number = config.first().copied().unwrap_or(0);
    if config == text(number) { Ok(number) } else { Err("a text that nobody wrote".to_owned()) }
}

impl Script for Workload {
    type Promises = Promises;

    fn work(&self, disk: &FaultyDisk, promises: &mut Promises) {
        let Some((store, _)) = begun(disk, |turn| Self::open(disk, turn)) else { return };
        promises.begun = 1;
        let Ok(mut stream) = store.create_stream("A", "S", &text(1), StreamConfig::default(), 1) else {
            return;
        };
        promises.sure = 1;
        // By the register, as long as it knows the stream, without files and with them.
        for number in 2..=TEXTS {
            promises.begun = number;
            if store.write_blob(stream.id(), &text(number)).is_ok() {
                promises.sure = number;
            }
            if number == TEXTS / 2 {
                let message = NewMessage { subject: b"a", ..NewMessage::default() };
                let _ = stream.append(&[message], Admission::Check, 1, &mut Vec::new());
            }
        }
        let id = stream.id();
        drop((stream, store));
        // By both copies, once a start has found them durable.
        let Ok((store, _)) = Self::open(disk, 8) else { return };
        for number in TEXTS + 1..=2 * TEXTS {
            promises.begun = number;
            if store.write_blob(id, &text(number)).is_ok() {
                promises.sure = number;
            }
        }
    }

    fn recover(&self, disk: &FaultyDisk, promises: &mut Promises) {
        // What a start has shown must not go back.
        if let Ok((text, _)) = Self::look(disk, 2) {
            promises.sure = promises.sure.max(text);
        }
    }

    fn check(&self, disk: &FaultyDisk, promises: &Promises, loss: Loss) -> Result<(), String> {
        let look = |turn| {
            let (text, report) = Self::look(disk, turn)?;
            if !(promises.sure..=promises.begun).contains(&text) {
                return Err(format!("it has text {text}"));
            }
            let is_known = |notice: &Notice| {
                matches!(notice, Notice::Repaired { .. })
                    || (matches!(notice, Notice::Left { .. }) && loss == Loss::ProcessOnFullDisk)
            };
            if !report.unreadable.is_empty() || !report.notices.iter().all(is_known) {
                return Err(format!("the store says {report:?}"));
            }
            Ok(text)
        };
        if !is_the_same_twice(loss, look)? {
            return Ok(());
        }
        // A start has made both copies equal, for good.
        let (_, report) = Self::open(&disk.power_cycle(Survival::None), 6)?;
        if report.notices.is_empty() { Ok(()) } else { Err(format!("the third start says {report:?}")) }
    }
}
