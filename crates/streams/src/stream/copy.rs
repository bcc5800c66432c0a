//! Messages that come from other streams: a mirror stores them as they are there, a stream with
//! sources behind what it has.
//!
//! They pass the checks that the reference makes of them, which are fewer than those of a publish:
//! what their origin has admitted is not judged again. The first message that cannot be stored ends
//! the call: whoever feeds the stream comes again with it. Nobody is told by an acknowledgement.

use myelin_store::{Discard, GAP_MAX, Seq, Timestamp};
use myelin_wire::message_buf::{MessageBuf, MessageRef};

use super::admit::{Ingest, REQUEST_INFO};
use super::append_run::{MsgDraft, MsgVerdict, SPARE_MESSAGES};
use super::core::StreamCore;
use super::dedupe::KnownId;
use super::effects::Effects;
use super::msg_headers::{Key, MsgHeaders};
use myelin_jsapi::ApiError;

/// Messages of another stream, as they are to be stored but for what this stream does to each.
pub struct SourcedMsgs<'a> {
    /// The messages, without replies.
    pub msgs: &'a MessageBuf,
    /// For a mirror the sequence and the time of each; for a stream with sources nothing.
    pub stamps: &'a [(Seq, Timestamp)],
}

/// How far a call came.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SourcedResult {
    /// Messages from the front that are stored, or need not be.
    pub done: usize,
    /// Why the next one is not.
    pub refused: Option<ApiError>,
}

/// One call.
struct Copying<'a> {
    copies: &'a SourcedMsgs<'a>,
    ingest: Ingest<'a>,
    done: SourcedResult,
    /// The last sequence that the run will have, for a mirror.
    last: Seq,
    /// Whether each message goes by itself: a refused one must not be overtaken by the next.
    is_single: bool,
}

impl StreamCore {
    /// Stores messages of another stream, in order.
    pub fn copy(&mut self, copies: &SourcedMsgs<'_>, now: Timestamp, effects: &mut Effects) -> SourcedResult {
        let due = self.next_due();
        self.drop_run();
        self.ids.tidy(now, SPARE_MESSAGES + copies.msgs.len());
        let limits = &self.rules.limits;
        let may_refuse = limits.discard == Discard::New
            && (limits.messages.is_some() || limits.bytes.is_some() || limits.messages_per_subject.is_some());
        let mut copying = Copying {
            copies,
            ingest: Ingest { msgs: copies.msgs, now, effects, traces: None, closing: None, is_copy: true },
            done: SourcedResult::default(),
            last: self.store.totals().last_seq,
            is_single: may_refuse,
        };
        for (at, msg) in copies.msgs.iter().enumerate() {
            let taken = self.take_copy(at, msg, &mut copying);
            let is_rollup = taken.as_ref().is_ok_and(|is_rollup| *is_rollup);
            let ends = taken.is_err();
            if (ends || is_rollup || copying.is_single) && !self.store_copies(&mut copying) {
                break;
            }
            if let Err(error) = taken {
                copying.done.refused = Some(error);
                break;
            }
        }
        self.store_copies(&mut copying);
        let Copying { ingest, done, .. } = copying;
        self.drop_run();
        self.scratch.shrink();
        let effects = ingest.effects;
        self.keep_up_expiry(now, effects);
        effects.due_changed |= self.next_due().is_some_and(|at| due.is_none_or(|due| at < due));
        self.note_failure(effects);
        done
    }

    /// Sees to it that a mirror goes on behind `floor`: the origin has nothing before. An empty one
    /// begins there.
    ///
    /// # Errors
    /// Nothing has changed, unless the stream has failed.
    pub fn pass_to(&mut self, floor: Seq, now: Timestamp) -> Result<(), ApiError> {
        let totals = self.store.totals();
        if floor <= totals.last_seq {
            return Ok(());
        }
        let passed = match totals.messages {
            0 => self.store.compact(floor + 1, usize::MAX, now).map(drop),
            _ => self.store.skip(floor, now),
        };
        passed.map_err(ApiError::stream_store_failed)
    }

    /// Puts one message into the run. Answers whether others go with it (a rollup), which must be
    /// seen by the next.
    fn take_copy(
        &mut self,
        at: usize,
        msg: MessageRef<'_>,
        copying: &mut Copying<'_>,
    ) -> Result<bool, ApiError> {
        let stamp = copying.copies.stamps.get(at).copied();
        if let Some((seq, _)) = stamp {
            if seq <= copying.last {
                // It was there before.
                self.store_copies(copying);
                copying.done.done = at + 1;
                return Ok(false);
            }
            self.pass_gap(seq, copying)?;
        }
        if self.rules.allows_counters && self.may_evict_counters() {
            self.store_copies(copying);
        }
        let mut draft = MsgDraft::default();
        self.transform(msg.subject, &mut draft);
        self.ask_interest(msg, &mut draft);
        let msg_headers = MsgHeaders::scan(msg.headers);
        self.clean(msg.headers, &msg_headers, &[REQUEST_INFO], &mut draft);
        if stamp.is_none() {
            // What the origin counted is added to what is counted here; a mirror says what its
            // origin says. If what it was added to is refused below, it comes again with that.
            self.count(msg, &msg_headers, &mut draft)?;
        }
        self.rules.check_form(&self.run.apply(&draft, msg))?;
        if stamp.is_none()
            && let Some(seq) = self.copied_before(&msg_headers, copying)
        {
            self.run.push(at, draft, MsgVerdict::Duplicate(seq));
            return Ok(false);
        }
        draft.rollup = self.rules.rollup_of_copy(&msg_headers);
        let size = self.rules.size(&self.run.apply(&draft, msg));
        if self.find_room(size, !draft.is_unwanted).is_err() && self.run.has_drafts() {
            // What waits may evict as much as it brings.
            self.store_copies(copying);
        }
        self.find_room(size, !draft.is_unwanted)?;
        draft.expires = self.rules.expiry_of_copy(&msg_headers);
        if stamp.is_none() && msg_headers.has(Key::MsgId) {
            draft.id = self.ids.begin(msg_headers.get(Key::MsgId), copying.ingest.now);
        }
        if !draft.is_unwanted {
            self.run.bytes += size;
        }
        let is_rollup = draft.rollup.is_some();
        if let Some(stamp) = stamp {
            self.run.push_stamp(stamp);
            copying.last = stamp.0;
        }
        self.run.push(at, draft, MsgVerdict::Store);
        Ok(is_rollup)
    }

    /// Sees to the sequences that the origin does not have any more. Those near together are passed
    /// over with the message.
    fn pass_gap(&mut self, seq: Seq, copying: &mut Copying<'_>) -> Result<(), ApiError> {
        let is_next = seq == copying.last + 1;
        if is_next || (seq - copying.last <= GAP_MAX && !self.rules.is_interest) {
            return Ok(());
        }
        self.store_copies(copying);
        if copying.done.refused.is_some() {
            // Told already; the call ends.
            return Ok(());
        }
        self.store.skip(seq - 1, copying.ingest.now).map_err(ApiError::stream_store_failed)?;
        copying.last = seq - 1;
        Ok(())
    }

    /// The sequence of the message, if it came before, from wherever.
    fn copied_before(&mut self, msg_headers: &MsgHeaders<'_>, copying: &mut Copying<'_>) -> Option<Seq> {
        let id = msg_headers.get(Key::MsgId);
        if id.is_empty() {
            return None;
        }
        let mut known = self.ids.find(id, copying.ingest.now);
        if known == KnownId::Pending {
            self.store_copies(copying);
            known = self.ids.find(id, copying.ingest.now);
        }
        match known {
            KnownId::Stored(seq) => Some(seq),
            KnownId::No | KnownId::Pending => None,
        }
    }

    /// Stores the run and notes how far that is. False: some message of it was refused.
    fn store_copies(&mut self, copying: &mut Copying<'_>) -> bool {
        if copying.done.refused.is_some() {
            // What came behind it comes again.
            self.forget_drafts();
            return false;
        }
        if self.run.is_empty() {
            return true;
        }
        self.store_drafts(&mut copying.ingest);
        self.answer(&mut copying.ingest);
        for entry in self.run.entries() {
            match &entry.verdict {
                MsgVerdict::Refuse(error) => {
                    copying.done.refused = Some((**error).clone());
                    break;
                }
                _ => copying.done.done = entry.msg + 1,
            }
        }
        self.run.clear();
        copying.last = self.store.totals().last_seq;
        copying.done.refused.is_none()
    }
}
