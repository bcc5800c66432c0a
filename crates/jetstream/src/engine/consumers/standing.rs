//! How consumers stand, as the API and monitoring ask them.

use super::StreamConsumers;
use super::live::LiveConsumer;
use crate::engine::waits::Promised;
use myelin_jsapi::api::consumer::ConsumerInfo;
use myelin_jsapi::consumer::config::ConsumerConfig;
use myelin_streams::consumer::{ConsumerCore, TurnCtx};
use std::sync::Arc;

impl StreamConsumers {
    /// How a consumer stands. Waits for its turn; only for threads that may.
    pub fn info(&self, live: &LiveConsumer) -> Option<ConsumerInfo> {
        self.ask_info(live).wait()
    }

    /// How a consumer stands, as soon as whoever has its turn says so.
    pub(in crate::engine) fn ask_info(&self, live: &LiveConsumer) -> Promised<ConsumerInfo> {
        self.ask_how(live, |core, stream, turn| core.info(stream, turn), |info| info)
    }

    /// How a consumer stands, with its configuration as all share it; `None`: it is gone. Waits for
    /// its turn.
    pub(in crate::engine) fn standing(
        &self,
        live: &LiveConsumer,
    ) -> Option<(Arc<ConsumerConfig>, ConsumerInfo)> {
        let look = |core: &mut ConsumerCore, stream: &str, turn: &mut TurnCtx<'_>| {
            (Arc::clone(core.config()), core.standing(stream, turn))
        };
        self.ask_how(live, look, |(_, info)| info).wait()
    }

    /// Has whoever has the turn of a consumer look how it stands; `info_of` finds that in what the
    /// look gives.
    fn ask_how<R: Send + 'static>(
        &self,
        live: &LiveConsumer,
        look: impl FnOnce(&mut ConsumerCore, &str, &mut TurnCtx<'_>) -> R + Send + 'static,
        info_of: impl FnOnce(&mut R) -> &mut ConsumerInfo + Send + 'static,
    ) -> Promised<R> {
        let stream = self.stream.to_string();
        let group = self.log.is_of_group().then(|| Arc::clone(&self.stored));
        live.query_soon(move |core, turn| {
            let mut found = look(core, &stream, turn);
            let is_replicated =
                !core.config().mem_storage && group.is_some_and(|stored| core.state_handle().is_of(&stored));
            let info = info_of(&mut found);
            if is_replicated && info.delivered.consumer_seq == 0 {
                // Compat: one with replicas has no floor before its first delivery.
                info.ack_floor.stream_seq = 0;
            }
            found
        })
    }
}
