//! `STREAM.SNAPSHOT` and `STREAM.RESTORE`.

use super::{
    Call, CallResponse, client_info, leaf_node_info, respond_to_any, told_client, with_service_account,
};
use crate::engine::backup::{BackupContext, Restore, RestoreOrder, Snapshot, SnapshotOrder, has_room};
use crate::engine::live::LiveStream;
use crate::engine::meta::{Meta, RestoredPlace};
use myelin_broker::{ConnKind, Level};
use myelin_jsapi::ApiError;
use myelin_jsapi::advisory::ClientInfo;
use myelin_jsapi::advisory::backup as advisory;
use myelin_jsapi::api::info::StreamState;
use myelin_jsapi::api::request::{RestoreRequest, SnapshotRequest, is_empty};
use myelin_jsapi::api::response::{StreamRestore, StreamSnapshot};
use myelin_jsapi::config::{self, StreamConfig};
use myelin_streams::backup::archive_writer::ArchiveWriter;
use std::sync::Arc;

/// How often a moment is looked for in which all is released that a stream was given.
const LOOKS: usize = 4;

impl Call {
    /// The answer comes before the advisory, and both before the first piece.
    pub(super) async fn snapshot_stream(&mut self, name: &str) -> CallResponse {
        let prepared = match self.admit() {
            Ok(()) => self.prepare_snapshot(name).await,
            Err(error) => Err(error),
        };
        let (request, stream, answer, source) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return respond_to_any::<StreamSnapshot>(Err(error)),
        };
        let context = self.context(name);
        let state = answer.state.clone().unwrap_or_default();
        let mut response = respond_to_any(Ok(answer));
        let client = context.client.as_ref();
        context.add_advisory(&mut response.behind, |header| {
            advisory::snapshot_create(header, stream.name(), &state, client)
        });
        let account = self.account.account().name();
        let line = format_args!("Starting snapshot for stream '{account} > {name}'");
        self.jetstream.host.log(Level::Info, line);
        let order = SnapshotOrder {
            deliver: request.deliver_subject,
            chunk: request.chunk_size,
            window: request.window_size,
            bytes: state.bytes,
            stream: Arc::downgrade(&stream),
        };
        self.then.push(Box::new(move || drop(Snapshot::begin(context, &order, source))));
        response
    }

    async fn prepare_snapshot(
        &self,
        name: &str,
    ) -> Result<(SnapshotRequest, Arc<LiveStream>, StreamSnapshot, ArchiveWriter), ApiError> {
        if is_empty(self.body()) {
            return Err(ApiError::BAD_REQUEST);
        }
        let stream = self.find(name).await?;
        let request = SnapshotRequest::read(self.body(), self.is_strict())?;
        let (state, source) = self.archive(&stream, !request.no_consumers).await?;
        let config = (*stream.config()).clone();
        let answer = StreamSnapshot { config: Some(config), state: Some(state) };
        Ok((request, stream, answer, source))
    }

    /// State of a stream and what writes its archive, both of one moment in which all that it was
    /// given is released.
    async fn archive(
        &self,
        stream: &Arc<LiveStream>,
        with_consumers: bool,
    ) -> Result<(StreamState, ArchiveWriter), ApiError> {
        let refused = |error: ApiError| ApiError::stream_snapshot(error.description);
        let leadership = stream.consumers().leadership()?;
        for looks in 0.. {
            let mut guard = stream.lock_core().ok_or(ApiError::STREAM_NOT_FOUND)?;
            let core = guard.parts().0;
            let (ticket, reader) = (core.store().ticket(), core.reader());
            if !reader.release().is_released(ticket) {
                if looks < LOOKS {
                    drop(guard);
                    stream.released_through(&reader, ticket, leadership).await.map_err(refused)?;
                    continue;
                }
                // Who publishes without end leaves no such moment: nothing is stored meanwhile.
                self.jetstream.make_durable(core).map_err(refused)?;
            }
            let state = stream.state(false);
            let consumers = if with_consumers { stream.consumers().states() } else { Vec::new() };
            let source = ArchiveWriter::new(&stream.reader(), &state, consumers, self.jetstream.host.now());
            return Ok((state, source));
        }
        unreachable!("the last look makes the moment")
    }

    pub(super) fn restore_stream(&mut self, name: &str) -> Result<StreamRestore, ApiError> {
        let asked = self.restored_config(name)?;
        let limits = self.account.all_limits(&self.jetstream);
        let config = config::restore(&asked, &*self.account, &limits)?;
        let place = RestoredPlace { replicas: config.num_replicas, ..RestoredPlace::default() };
        self.receive_backup(config, place)
    }

    /// Begins with a restore in a cluster: the stream comes to this server without other replicas,
    /// is assigned to it when it is whole, and goes to the servers that are chosen for it now.
    pub(super) async fn restore_assigned(
        &mut self,
        meta: &Meta,
        name: &str,
    ) -> Result<StreamRestore, ApiError> {
        let (asked, limits) = (self.restored_config(name)?, self.limits_in_cluster());
        let config = self.beside_others(meta, |others| config::restore(&asked, others, &limits))?;
        let (facts, asking) = (meta.facts_for(&self.jetstream, &config).await, self.asking_clusters());
        let servers = meta.place_stream(&config, &facts, &asking)?;
        let place = RestoredPlace { replicas: config.num_replicas, asking, servers };
        self.receive_backup(StreamConfig { num_replicas: 1, ..config }, place)
    }

    /// The configuration that a restore asks for.
    fn restored_config(&self, name: &str) -> Result<StreamConfig, ApiError> {
        let mut config = RestoreRequest::read(self.body(), self.is_strict())?.config;
        if config.name.is_empty() {
            name.clone_into(&mut config.name);
        }
        if config.name != name {
            return Err(ApiError::STREAM_MISMATCH);
        }
        if name.contains(['\\', '/']) {
            return Err(ApiError::STREAM_NAME_CONTAINS_PATH_SEPARATORS);
        }
        Ok(config)
    }

    /// Waits for a backup of a stream, whose configuration was checked.
    fn receive_backup(
        &mut self,
        config: StreamConfig,
        place: RestoredPlace,
    ) -> Result<StreamRestore, ApiError> {
        if !has_room(&self.jetstream) {
            return Err(ApiError::stream_restore("too many streams are being restored"));
        }
        let context = self.context(&config.name);
        let wanted = RestoreOrder {
            jetstream: Arc::clone(&self.jetstream),
            account: Arc::clone(&self.account),
            config,
            place,
        };
        let deliver_subject = Restore::begin(context, wanted, &mut self.out);
        Ok(StreamRestore { deliver_subject })
    }

    fn context(&self, stream: &str) -> BackupContext {
        BackupContext {
            account: Arc::clone(&self.request.account),
            host: Arc::clone(&self.jetstream.host),
            domain: self.jetstream.settings.domain.clone(),
            stream: stream.to_owned(),
            client: self.client(),
        }
    }

    /// Client that asks, as advisories show it.
    pub(super) fn client(&self) -> Option<ClientInfo> {
        let request = &*self.request;
        let conn = request.origin.as_deref()?;
        let (server, cluster) = (&self.jetstream.settings.server_name, self.jetstream.host.cluster());
        let client = match conn.kind() {
            ConnKind::Client => client_info(conn, server, cluster),
            ConnKind::LeafNode => leaf_node_info(client_info(conn, server, cluster)),
            ConnKind::Route | ConnKind::Gateway => return Some(told_client(conn, request)),
        };
        let is_own = client.account == request.account.name();
        Some(if is_own { client } else { with_service_account(client, request) })
    }
}
