//! Overwriting: what held erased messages in a file that was replaced becomes zeros.
//!
//! Owns the last step of erasing in packed segments. A frame holds other messages, too, so this
//! begins when nobody reads the old file any more. The file has no name by then: a crash leaves its
//! bytes in blocks that belong to no file.

use std::ops::Range;
use std::sync::Arc;

use super::{JobEnv, JobError};
use crate::damage::Damage;
use crate::stream::Segment;

/// Bytes of zeros written at once.
const ZEROS: usize = 1 << 16;

/// Ranges that are to be overwritten.
#[derive(Debug)]
pub(crate) struct Overwriting {
    /// As it was before it was replaced. It holds its file open.
    pub(crate) segment: Arc<Segment>,
    /// Of its file.
    pub(crate) ranges: Vec<Range<u64>>,
    /// How many erased messages are there.
    pub(crate) messages: u64,
}

impl Overwriting {
    /// Whether nobody else can read the file.
    pub(crate) fn is_free(&self) -> bool {
        Arc::strong_count(&self.segment) == 1
    }

    pub(super) fn run(&self, env: &JobEnv) -> Result<(), JobError> {
        env.check()?;
        let segment = &*self.segment;
        let sealed = segment.sealed().ok_or(JobError::Damage(segment.no, Damage::Content("segment")))?;
        let file = sealed.pin()?;
        let zeros = vec![0; ZEROS];
        for range in &self.ranges {
            for at in range.clone().step_by(ZEROS) {
                let length = zeros.len().min((range.end - at) as usize);
                file.write_at(&zeros[..length], at)?;
            }
        }
        Ok(file.sync()?)
    }
}
