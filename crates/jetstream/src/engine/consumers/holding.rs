//! The end of a consumer's turn: its changes go to the log, or to the group of the stream, and what
//! tells of them waits.

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
    /// Nobody waits for it: acknowledgements without an answer, as a rule.
    ///
    /// Perf: a client that acknowledges one message after the other would have the group agree to
    /// each of them.
    Later,
    /// Somebody waits.
    Now,
}

/// Keeps what a turn has to say until the group has what it decided. Answers when that is to be
/// proposed.
pub(super) fn hold_for_commit(core: &mut ConsumerCore, effects: &mut Effects, now: Timestamp) -> Proposing {
    if !core.role().leads() {
        return Proposing::Never;
    }
    let is_awaited =
        !effects.out.is_empty() || !effects.confirmations.is_empty() || !effects.events.is_empty();
    let state_handle = core.state_handle().clone();
    let mut states = state_handle.lock();
    // Nothing is written there that could fail.
    let position = states.flush(now).unwrap_or_default();
    let is_dirty = states.is_dirty();
    drop(states);
    core.hold(position, effects, now);
    match (is_dirty, is_awaited) {
        (false, _) => Proposing::Never,
        (true, false) => Proposing::Later,
        (true, true) => Proposing::Now,
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
