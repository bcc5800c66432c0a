//! Removing files that no manifest lists any more.
//!
//! A job of its own, so that it begins after the catalog has let go of the segments. A crash in the
//! middle is no harm: recovery removes what the manifest covers and does not list.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::{JobEnv, JobError};
use crate::SegmentNo;
use crate::stream::Segment;

/// Files that are to be removed.
#[derive(Debug, Default)]
pub(crate) struct Removal {
    /// Segments as the stream knew them, for those who still read them.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Numbers of all of them.
    pub(crate) numbers: Vec<SegmentNo>,
    /// Bases.
    pub(crate) files: Vec<PathBuf>,
}

impl Removal {
    pub(crate) fn is_empty(&self) -> bool {
        self.numbers.is_empty() && self.files.is_empty()
    }

    pub(super) fn run(&self, env: &JobEnv) -> Result<(), JobError> {
        let store_env = &env.files.store_env;
        // Before they go, since this waits for a round that is on its way: on a slow device for
        // seconds, in which the journal would keep removed files open.
        store_env.journal.forget_segments(env.shared.id, &self.numbers);
        // A cursor may be inside one of them: it reads on in the file that it holds.
        for sealed in self.segments.iter().filter(|segment| Arc::strong_count(segment) > 1) {
            if let Some(file) = sealed.sealed() {
                let _ = file.pin();
            }
        }
        let segments = self.numbers.iter().map(|no| env.files.segment_path(*no));
        for path in segments.chain(self.files.iter().cloned()) {
            env.check()?;
            match store_env.disk.remove_file(&path) {
                // Removed by an attempt before.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => store_env.handles.forget(&path),
            }
        }
        // Nobody holds what is removed but those who read it now.
        for segment in &self.segments {
            store_env.slots.forget(segment);
            store_env.blocks.forget(segment);
        }
        Ok(())
    }
}
