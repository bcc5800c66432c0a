//! The segment that grows, and what is known of it when it is closed.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::append_file::AppendFile;
use crate::index::{SubjectId, SubjectState};
use crate::segment::Totals;
use crate::{Seq, Timestamp};

use super::segment_view::{Segment, Times};
use super::table::Rows;

/// The segment that grows.
#[derive(Clone, Debug)]
pub(crate) struct Active {
    pub(crate) segment: Arc<Segment>,
    pub(crate) file: Arc<AppendFile>,
}

/// A segment that was closed, with what its footer will say. Everything is as of the moment of
/// closing: the stream has gone on since.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) active: Active,
    pub(crate) rows: Arc<Rows>,
    /// Of the stream.
    pub(crate) totals: Totals,
    /// Subjects that changed while the segment was active, in their state at its end.
    pub(crate) touched: Vec<(SubjectId, SubjectState)>,
    /// Of the index that `rows` and `touched` take their numbers from.
    pub(crate) index_epoch: u64,
    /// Sequences that were removed while it was active, in no order.
    pub(crate) deleted: Vec<RangeInclusive<Seq>>,
    /// Of the messages in `rows`.
    pub(crate) times: Times,
    /// Lifetimes of its messages.
    pub(crate) expiries: Vec<(Seq, Timestamp)>,
    pub(crate) origin: SegmentOrigin,
    /// Last index of the group's log that stands in it or before it; 0 without a group.
    pub(crate) last_index: u64,
}

/// Where a closed segment comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentOrigin {
    /// This process wrote all of it.
    Written,
    /// The segment was found on disk: what stood behind its end before is not known.
    Recovered,
}

impl Closed {
    /// Marks the segment as one that recovery found, in the log of a group up to `last_index`.
    pub(crate) fn recovered(self, last_index: u64) -> Self {
        Self { origin: SegmentOrigin::Recovered, last_index, ..self }
    }
}
