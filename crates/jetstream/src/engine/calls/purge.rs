//! `STREAM.PURGE`.

use super::Call;
use crate::engine::LiveStream;
use crate::engine::waits::once_more;
use myelin_jsapi::ApiError;
use myelin_jsapi::api::request::PurgeRequest;
use myelin_jsapi::api::response::StreamPurge;
use myelin_store::{Filter, Purge, RemovalProgress, StreamReader, Ticket};

impl Call {
    /// Compat: a filter that is no valid subject matches nothing.
    pub(super) async fn purge_stream(&mut self, name: &str) -> Result<StreamPurge, ApiError> {
        let request = PurgeRequest::read(self.body(), self.is_strict())?;
        let stream = self.find(name).await?;
        let config = stream.config();
        if config.sealed {
            return Err(ApiError::STREAM_SEALED);
        }
        if config.deny_purge {
            return Err(ApiError::stream_purge_failed("stream purge not permitted"));
        }
        let filter = (!request.filter.is_empty()).then(|| Filter::new(request.filter.as_bytes()));
        let mut purge = Purge { filter, below: request.seq, keep: request.keep, through: 0 };
        let has_filter = purge.filter.is_some();
        let mut purged = 0;
        let leadership = stream.consumers().leadership()?;
        loop {
            // The core goes back between slices: publishers need not wait for all of it, nor for
            // the disk.
            let (progress, reader, ticket) = self.purge_slice(&stream, &mut purge)?;
            purged += progress.removed.messages;
            if progress.more {
                once_more().await;
                continue;
            }
            stream.released_through(&reader, ticket, leadership).await?;
            if purged > 0 {
                // Compat: one message of some subjects is told of, more are not.
                stream.consumers().forget_removed(has_filter && purged == 1);
            }
            // Who wants nothing but what is gone has nothing left up to there.
            let spares_none = purge.keep == 0 || myelin_stdx::planted::bug(35);
            if has_filter && purge.below == 0 && spares_none {
                stream.consumers().skip_purged(request.filter.as_bytes(), purge.through);
            }
            return Ok(StreamPurge { success: true, purged });
        }
    }

    /// Removes a slice. Answers what has to be released before it counts.
    fn purge_slice(
        &self,
        stream: &LiveStream,
        purge: &mut Purge,
    ) -> Result<(RemovalProgress, StreamReader, Ticket), ApiError> {
        let mut guard = stream.lock_core().ok_or(ApiError::STREAM_NOT_FOUND)?;
        let now = self.jetstream.host.now();
        let (core, effects) = guard.parts();
        let progress = core.purge(purge, now, effects).map_err(ApiError::stream_general)?;
        Ok((progress, core.reader(), core.store().ticket()))
    }
}
