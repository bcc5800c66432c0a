//! The end of a consumer's turn: its changes go to the log, or to the group of the stream, and what
//! tells of them waits.

use myelin_store::Timestamp;
use myelin_store::consumer::Flushed;
use myelin_streams::consumer::{ConsumerCore, Effects, StateHandle};
use myelin_wire::message_buf::MessageBuf;
use std::io;

/// Nanoseconds after which a log that could not be written is tried again.
pub(super) const RETRY: i64 = 1_000_000_000;

/// Keeps what a turn has to say until the group has what it decided. Answers whether there is
/// something to be proposed.
pub(super) fn hold_for_commit(core: &mut ConsumerCore, effects: &mut Effects, now: Timestamp) -> bool {
    if !core.role().leads() {
        return false;
    }
    let state_handle = core.state_handle().clone();
    let mut states = state_handle.lock();
    // Nothing is written there that could fail.
    let position = states.flush(now).unwrap_or_default();
    let must_propose = states.is_dirty();
    drop(states);
    core.hold(position, effects, now);
    must_propose
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
