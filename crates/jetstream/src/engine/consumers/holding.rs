//! The end of a consumer's turn: its changes go to the log, or to the group of the stream, and what
//! tells of them waits.

use myelin_jsapi::consumer::config::AckPolicy;
use myelin_store::Timestamp;
use myelin_store::consumer::Flushed;
use myelin_streams::consumer::{ConsumerCore, Effects, StateHandle, TurnCtx};
use myelin_wire::message_buf::MessageBuf;
use std::io;

/// Text of the status that ends requests for messages of a consumer that is gone.
pub(super) const DELETED: &str = "Consumer Deleted";

/// Nanoseconds after which a log that could not be written is tried again.
pub(super) const RETRY: i64 = 1_000_000_000;

/// Moment at which the group of a stream is to hear what a consumer has decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Proposing {
    /// Nothing was decided.
    #[default]
    Never,
    /// Nobody waits for it, and whoever hears it again notices by its number: how far consumers in
    /// memory are that nobody acknowledges.
    ///
    /// Perf: a thousand of these hear of one message.
    MuchLater,
    /// Nobody waits for it: acknowledgements without an answer, as a rule.
    ///
    /// Perf: a client that acknowledges one message after the other would have the group agree to
    /// each of them.
    Later,
    /// Somebody waits.
    Now,
}

impl Proposing {
    /// Nanoseconds for which what nobody waits for is gathered. Acknowledgements: as long as it
    /// takes at most, as a rule, until messages are synced.
    pub(super) fn gathered(self) -> i64 {
        if self == Self::MuchLater { 100_000_000 } else { 5_000_000 }
    }
}

/// Keeps what a turn has to say until the group has what it decided. Answers when that is to be
/// proposed.
pub(super) fn hold_for_commit(core: &mut ConsumerCore, effects: &mut Effects, now: Timestamp) -> Proposing {
    if !core.role().leads() {
        return Proposing::Never;
    }
    let state_handle = core.state_handle().clone();
    let mut states = state_handle.lock();
    // Nothing is written there that could fail.
    let position = states.flush(now).unwrap_or_default();
    let is_dirty = states.is_dirty();
    drop(states);
    let is_awaited = core.hold(position, effects, now);
    let is_watching = core.config().mem_storage && core.config().ack_policy == AckPolicy::None;
    match is_dirty {
        false => Proposing::Never,
        true if is_awaited => Proposing::Now,
        true if is_watching => Proposing::MuchLater,
        true => Proposing::Later,
    }
}

/// Writes what a turn has changed, and keeps answers to acknowledgements until that is stored.
/// Those that could not be written are in `unwritten`. Answers when to try again.
pub(super) fn hold_confirmations(
    core: &mut ConsumerCore,
    unwritten: &mut MessageBuf,
    effects: &mut Effects,
    flush: impl FnOnce(&StateHandle, bool) -> io::Result<Option<Flushed>>,
    now: Timestamp,
) -> Option<Timestamp> {
    if !effects.confirmations.is_empty() {
        unwritten.append(&mut effects.confirmations);
    }
    match flush(core.state_handle(), !unwritten.is_empty()) {
        Ok(position) if !unwritten.is_empty() => {
            core.hold_confirmations(position, std::mem::take(unwritten));
            None
        }
        Ok(_) => None,
        Err(_) => Some(now.saturating_add(RETRY)),
    }
}

/// Sends what a consumer had to say before it was gone, as far as that counts as stored, and tells
/// clients that came too late. `wait`: has the consumer woken by the next release.
pub(super) fn say_last(core: &mut ConsumerCore, wait: impl FnOnce(), turn: &mut TurnCtx<'_>) {
    let state_handle = core.state_handle().clone();
    let is_stored = |position: Option<_>| position.is_none_or(|at| state_handle.lock().is_released(at));
    if core.say_last(DELETED, is_stored, turn) {
        wait();
        // It may have come just before somebody waited for it.
        core.release_held(is_stored, turn.effects, turn.now);
    }
}
