//! Record of a stream in files, beside its log: its configuration, and what a start has to know
//! before it opens the log, or where that is lost.

use super::lifecycle::on_sync_thread;
use crate::engine::JetStream;
use crate::engine::live::LiveStream;
use myelin_jsapi::ApiError;
use myelin_jsapi::config::stored::Stored;
use myelin_jsapi::config::{Storage, StreamConfig};
use myelin_store::{Seq, StreamId};
use std::sync::Arc;

/// Writes down what a stream in files is like from now on.
pub(super) async fn write_config(
    jetstream: &Arc<JetStream>,
    (live, id): (&LiveStream, StreamId),
    config: &StreamConfig,
    lifetimes_until: Seq,
) -> Result<(), ApiError> {
    if config.storage == Storage::Memory {
        return Ok(());
    }
    let blob = stored(live, config, lifetimes_until).encode();
    let store = Arc::clone(&jetstream.store);
    let written = on_sync_thread(&*jetstream.host, move || store.write_blob(id, &blob));
    let written = written.await.ok_or_else(|| ApiError::stream_update("a panic while it was written"))?;
    written.map_err(ApiError::stream_update)
}

/// Writes down that the log of a stream is that of a group, if nobody has yet, so that this is
/// known where the log is lost. For threads that may wait.
pub(in crate::engine) fn write_of_group(jetstream: &JetStream, live: &LiveStream) -> Result<(), ApiError> {
    if live.is_noted_of_group() || !live.is_stored() || !live.consumers().is_of_group() {
        return Ok(());
    }
    let (id, config, lifetimes_until) = stored_facts(live)?;
    let blob = Stored { of_group: true, ..stored(live, &config, lifetimes_until) }.encode();
    jetstream.store.write_blob(id, &blob).map_err(ApiError::stream_general)?;
    live.note_of_group(false);
    Ok(())
}

/// Number of a stream in the store, and what its record there says of it.
pub(super) fn stored_facts(live: &LiveStream) -> Result<(StreamId, Arc<StreamConfig>, Seq), ApiError> {
    let mut guard = live.lock_core().ok_or(ApiError::STREAM_NOT_FOUND)?;
    let (core, _) = guard.parts();
    Ok((core.store().id(), Arc::clone(core.config()), core.lifetimes_until()))
}

/// Record of a stream as it is from now on.
fn stored(live: &LiveStream, config: &StreamConfig, lifetimes_until: Seq) -> Stored {
    let (created, config, in_place_of) = (live.created(), config.clone(), live.in_place_of());
    let of_group = live.is_noted_of_group();
    Stored { created, config, lifetimes_until, in_place_of, of_group, ..Stored::default() }
}
