//! The store that a command looks into.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use myelin_store::Disk;
use myelin_store::disk::real::RealDisk;
use myelin_store::keys::Keys;

use super::keys::KeyArguments;

/// Which store, and how to open it.
#[derive(Debug, Args)]
pub(super) struct PlaceArguments {
    /// The store's directory
    directory: PathBuf,
    #[command(flatten)]
    keys: KeyArguments,
}

/// Where to look.
pub(super) struct Place {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) root: PathBuf,
    pub(super) keys: Option<Keys>,
}

impl PlaceArguments {
    pub(super) fn place(&self) -> io::Result<Place> {
        let root = std::path::absolute(&self.directory)?;
        Ok(Place { disk: Arc::new(RealDisk), root, keys: self.keys.keys()? })
    }
}
