//! The store that a command looks into.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use myelin_disk::Disk;
use myelin_disk::real::RealDisk;
use myelin_store::keys::Keys;

use crate::store::import::INSIDE;
use crate::store::keys::KeyArguments;

/// Which store, and how to open it.
#[derive(Debug, Args)]
pub(super) struct PlaceArguments {
    /// The store's directory, or the `store_dir` of the server that has it
    directory: PathBuf,
    #[command(flatten)]
    keys: KeyArguments,
}

/// Names in the directory of a store, also of a damaged one, by which it is known.
const MARKS: [&str; 3] = ["store", "store.copy", "streams"];

/// Where to look.
pub(super) struct StorePlace {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) root: PathBuf,
    pub(super) keys: Option<Keys>,
}

impl PlaceArguments {
    pub(super) fn place(&self) -> io::Result<StorePlace> {
        let root = inside(std::path::absolute(&self.directory)?);
        Ok(StorePlace { disk: Arc::new(RealDisk), root, keys: self.keys.keys()? })
    }
}

/// The store in a directory that operators know by another name: a server makes its own inside of
/// `store_dir`.
fn inside(directory: PathBuf) -> PathBuf {
    let is_store = |path: &Path| MARKS.iter().any(|mark| path.join(mark).exists());
    if is_store(&directory) {
        return directory;
    }
    let below = [directory.join(INSIDE), directory.join("myelin")];
    below.into_iter().find(|path| is_store(path)).unwrap_or(directory)
}
