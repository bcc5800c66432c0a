//! Statement that a start may take for a fact about a stream, from a place that is not the stream's
//! own files.

use crate::segment::HEADER_BYTES;
use crate::stream::MAX_SEQ;
use crate::{SegmentNo, Seq};

use super::format::{LogPosition, WatermarkHead, WatermarkSlot};

/// How the process before ended, as far as a stream is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// All was written and synced, and said so.
    Stop,
    /// The process was killed: what it had written is there.
    Kill,
    /// The power may have failed: what it had synced is there.
    PowerLoss,
    /// Nobody knows: there was no statement.
    Unknown,
}

/// Up to which sequence messages may have been released, whatever is found of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Nothing was released that is not found.
    Found,
    /// A number of sequences behind those that are found.
    Ahead(u64),
    /// A sequence.
    Through(Seq),
}

/// Statement of what a start may take for a fact about a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) after: After,
    /// Everything before it is there, unless it was damaged since.
    pub(crate) position: LogPosition,
    /// Which rewrite of that segment is meant. `None`: any.
    generation: Option<u64>,
    /// The last sequence that was released.
    pub(crate) last_seq: Seq,
    /// How many messages there were, if the process was stopped.
    pub(crate) messages: Option<u64>,
    /// No sequence behind it was released.
    mark: Mark,
    /// The number of the consumers' log, and where it ends at least.
    pub(crate) log: (u64, u64),
    /// Up to where that log was synced at least.
    pub(crate) log_synced: u64,
    pub(crate) consumers: u32,
}

impl Statement {
    /// Of a stream of which nothing is stated.
    pub(crate) const fn nothing(after: After, mark: Mark) -> Self {
        Self {
            after,
            position: LogPosition::START,
            generation: None,
            last_seq: 0,
            messages: None,
            mark,
            log: (0, 0),
            log_synced: 0,
            consumers: 0,
        }
    }

    /// Statement of a slot in this run of the machine.
    pub(crate) fn of(slot: &WatermarkSlot, head: &WatermarkHead, boot: u64) -> Self {
        let after = after(head.is_clean && slot.is_clean, slot.boot, boot);
        let is_whole = after != After::PowerLoss;
        let position = if is_whole { slot.written } else { slot.synced };
        Self {
            after,
            position,
            generation: (position.segment == slot.written.segment).then_some(slot.generation),
            last_seq: slot.last_seq,
            messages: (after == After::Stop).then_some(slot.messages),
            mark: match slot.reserved {
                Some(seq) => Mark::Through(seq),
                None => Mark::Ahead(head.ahead),
            },
            log: (slot.log, if is_whole { slot.log_written } else { slot.log_synced }),
            log_synced: slot.log_synced,
            consumers: slot.consumers,
        }
    }

    /// Statement about a stream that is opened a second time by one process, which has lost
    /// nothing: no message was released that is not found.
    pub(super) fn of_this_process(self) -> Self {
        Self { mark: Mark::Found, ..self }
    }

    /// The last sequence that may have been released, where the log that was found ends with
    /// `found`. What a process wrote is there after it was killed, and what it keeps in memory
    /// (`persist_mode: async`) it writes some 20 times a second.
    pub(crate) fn given_out(&self, found: Seq) -> Seq {
        let may_lack = self.after == After::PowerLoss && !myelin_stdx::planted::bug(22);
        let given = match self.mark {
            Mark::Ahead(count) if may_lack => found.saturating_add(count),
            Mark::Through(seq) if may_lack => seq,
            _ => found,
        };
        given.clamp(found, MAX_SEQ.max(found))
    }

    /// The last sequence that a copy may have shown, where it has come to `found`: also where it
    /// was stopped or killed since it owed some of them.
    pub(crate) fn shown(&self, found: Seq) -> Seq {
        match self.mark {
            Mark::Through(seq) => seq.clamp(found, MAX_SEQ.max(found)),
            Mark::Found | Mark::Ahead(_) => found,
        }
    }

    /// Where the entries of a segment that is not sealed must reach at least: `None` if nothing is
    /// known of it, or if it is an earlier one and whole.
    pub(crate) fn end_of(&self, no: SegmentNo, generation: u64) -> Option<u64> {
        let is_it = self.position.segment == no && self.generation.is_none_or(|stated| stated == generation);
        is_it.then_some(self.position.offset)
    }

    /// The last segment whose header must be there.
    pub(crate) fn last_segment(&self) -> SegmentNo {
        let LogPosition { segment, offset } = self.position;
        if offset >= HEADER_BYTES as u64 { segment } else { SegmentNo(segment.0.saturating_sub(1)) }
    }

    /// Whether a segment had come to `end`, whatever its file says now.
    pub(crate) fn covers(&self, no: SegmentNo, end: u64) -> bool {
        self.position.segment > no || (self.position.segment == no && self.position.offset >= end)
    }
}

/// How a process ended that left a head or a slot.
pub(super) fn after(is_clean: bool, boot: u64, now: u64) -> After {
    match is_clean {
        true => After::Stop,
        false if boot != 0 && boot == now => After::Kill,
        false => After::PowerLoss,
    }
}
