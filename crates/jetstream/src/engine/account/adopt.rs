//! Adoption: a stream that was filled from a backup becomes one of an account's.

use super::AccountStreams;
use super::lifecycle::StreamOrigin;
use crate::engine::JetStream;
use crate::engine::consumers::OpenedConsumers;
use crate::engine::live::LiveStream;
use crate::engine::meta::{AccountView, RestoredPlace};
use myelin_jsapi::ApiError;
use myelin_jsapi::config::{self, Storage, StreamConfig};
use myelin_store::consumer::Consumers;
use myelin_streams::backup::backup_reader::RestoreError;
use myelin_streams::backup::stream_builder::{BuiltStream, StreamBuilder, declare_whole};
use std::sync::Arc;

impl AccountStreams {
    /// Checks whether a stream may be added as it was asked for: beside those of this server, and
    /// in a cluster beside those of the others, too.
    ///
    /// # Errors
    /// Why it may not, in the reference's words.
    pub(in crate::engine) fn has_place_for(
        &self,
        jetstream: &JetStream,
        asked: &StreamConfig,
    ) -> Result<(), ApiError> {
        let limits = self.all_limits(jetstream);
        config::join(asked, self, &limits)?;
        let Some(meta) = jetstream.meta() else { return Ok(()) };
        let (view, account) = (&meta.view(), self.account.name());
        config::join(asked, &AccountView { view, account }, &limits)
    }

    /// Makes a stream that was filled one of the account's, which is not served in a cluster before
    /// that knows it. One that goes to other servers reserves nothing that this one has not. `Err`
    /// has what must be removed.
    pub(in crate::engine) fn adopt(
        self: &Arc<Self>,
        jetstream: &Arc<JetStream>,
        mut built: BuiltStream,
        place: &RestoredPlace,
    ) -> Result<Arc<LiveStream>, (Box<StreamBuilder>, RestoreError)> {
        if self.limits().is_none() {
            return Err((built.undo(), ApiError::NOT_ENABLED_FOR_ACCOUNT.into()));
        }
        // Compat: nobody looks before the end.
        if built.config.num_replicas > 1 {
            return Err((built.undo(), ApiError::STREAM_REPLICAS_NOT_SUPPORTED.into()));
        }
        // Another may have been made while this one was filled.
        let asked = StreamConfig { num_replicas: place.replicas, ..built.config.clone() };
        if let Err(error) = self.has_place_for(jetstream, &asked) {
            return Err((built.undo(), error.into()));
        }
        let stays = place.has(&jetstream.settings.server_name);
        let _held = match stays.then(|| jetstream.hold(&built.config, None)).transpose() {
            Ok(held) => held,
            Err(error) => return Err((built.undo(), error.into())),
        };
        let listener = Arc::default();
        if built.config.storage == Storage::File {
            // Its log is opened anew by who hears of its rounds.
            drop(std::mem::replace(&mut built.consumers, Consumers::in_memory()));
            let whose = (self.account.name(), &built.config);
            built.consumers = match jetstream.open_consumers(&built.stream, whose, &listener) {
                Ok(consumers) => consumers.states,
                Err(error) => return Err((built.undo(), RestoreError::Other(error.to_string()))),
            };
        }
        if let Err(why) = declare_whole(&jetstream.store, &built) {
            return Err((built.undo(), RestoreError::Other(why)));
        }
        // What answers promise is as durable as what is published, and schedules and ids are looked
        // for in what is released.
        let is_released = built.stream.release().is_released(built.stream.ticket());
        if (jetstream.settings.sync_always || !is_released)
            && let Err(error) = jetstream.journal().round_now(&|| jetstream.host.now().unsigned_abs())
        {
            return Err((built.undo(), RestoreError::Other(error.to_string())));
        }
        let BuiltStream { config, stream, consumers, created, .. } = built;
        let opened = OpenedConsumers::alone(consumers);
        let origin = StreamOrigin::new(created).unserved(jetstream.meta().is_some());
        let live = self.begin(jetstream, config, stream, (opened, &listener), origin);
        jetstream.seek_origins();
        Ok(live)
    }
}
