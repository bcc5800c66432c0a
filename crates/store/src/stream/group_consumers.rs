//! Records of consumers in the log of a stream's group: from the image of the consumers on, they
//! stay at hand, and the segments that hold them stay open. A restart reads them again with the
//! entries that are read one by one, which is why a segment is sealed only when the image has them.

use std::borrow::Cow;

use crate::Timestamp;
use crate::record::{ConsumerRecord, Control};

use super::Stream;
use super::errors::StoreError;

impl Stream {
    /// Proposes what consumers say, as one entry of the group's log. Nothing if there is nothing.
    ///
    /// # Errors
    /// Nothing has changed, unless the stream has failed: it has no group, or the disk is full.
    pub fn propose_consumers(
        &mut self,
        records: &[ConsumerRecord<'_>],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let controls: Vec<Control<'_>> = records
            .iter()
            .map(|ConsumerRecord { consumer, kind, payload }| {
                let payload = Cow::Borrowed(&**payload);
                Control::Consumer(ConsumerRecord { consumer: *consumer, kind: *kind, payload })
            })
            .collect();
        let index = self.propose_controls(&controls, now)?;
        if let (Some(group), Some(index)) = (&mut self.group, index) {
            records.iter().for_each(|record| group.consumers.note(index, record.clone().into_owned()));
        }
        Ok(())
    }

    /// Entries behind `applied` that are committed and have records of consumers, in order.
    pub fn committed_consumers(
        &self,
        applied: u64,
    ) -> impl Iterator<Item = (u64, &[ConsumerRecord<'static>])> {
        let group = self.group.as_ref();
        let commit = group.map_or(0, |group| group.position().commit.min(group.position().index));
        let entries = group.into_iter().flat_map(move |group| group.consumers.behind(applied));
        entries.take_while(move |(index, _)| *index <= commit)
    }

    /// An image has all records of consumers up to `index`, durably: a start needs no others, and
    /// segments up to there may be sealed.
    pub fn consumers_imaged(&mut self, index: u64) {
        if let Some(group) = &mut self.group {
            group.consumers.forget_through(index);
        }
    }

    /// The last index up to which segments may be sealed: it is committed, and other files have
    /// what consumers and notes say up to there.
    pub(super) fn sealable_index(&self) -> u64 {
        self.group.as_ref().map_or(u64::MAX, |group| {
            let consumers = group.consumers.iter().next().map_or(u64::MAX, |(index, _)| index);
            let first = consumers.min(group.notes.first_unwritten().unwrap_or(u64::MAX));
            let releasable = if myelin_stdx::planted::bug(113) { u64::MAX } else { group.tail.releasable() };
            releasable.min(first - 1)
        })
    }
}
