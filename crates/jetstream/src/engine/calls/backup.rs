//! `STREAM.SNAPSHOT` and `STREAM.RESTORE`.

use super::{Call, Said, client_info, from_abroad};
use crate::advisory::ClientInfo;
use crate::advisory::backup as advisory;
use crate::api::request::{RestoreRequest, SnapshotRequest, is_empty};
use crate::api::response::{StreamRestore, StreamSnapshot, granted};
use crate::backup::source::Source;
use crate::config;
use crate::engine::backup::{Errand, Order, Restore, Snapshot, Wanted, has_room};
use crate::engine::live::LiveStream;
use crate::error::ApiError;
use myelin_broker::{Level, MessageBuf, MessageRef};
use std::sync::Arc;

impl Call<'_> {
    /// The answer comes before the advisory, and both before the first piece.
    pub(super) fn snapshot_stream(&mut self, name: &str) -> Said {
        let prepared = self.admit().and_then(|()| self.prepare_snapshot(name));
        let (request, stream, answer, source) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return self.say_to_all::<StreamSnapshot>(|_| Err(error)),
        };
        let errand = self.errand(name);
        let state = answer.state.clone().unwrap_or_default();
        let body = granted(&answer);
        let mut out = MessageBuf::default();
        if !self.request.reply.is_empty() {
            out.push(MessageRef { subject: &self.request.reply, payload: &body, ..MessageRef::default() });
        }
        let client = errand.client.as_ref();
        errand.tell(&mut out, |stamp| advisory::snapshot_create(stamp, stream.name(), &state, client));
        errand.host.publish(&errand.account, out);
        let account = self.account.account().name();
        let line = format_args!("Starting snapshot for stream '{account} > {name}'");
        self.jetstream.host.log(Level::Info, line);
        let order = Order {
            deliver: request.deliver_subject,
            chunk: request.chunk_size,
            window: request.window_size,
            bytes: state.bytes,
            stream: Arc::downgrade(&stream),
        };
        Snapshot::begin(errand, &order, source);
        Said { body, is_error: false, is_audited: true, is_said: true }
    }

    fn prepare_snapshot(
        &self,
        name: &str,
    ) -> Result<(SnapshotRequest, Arc<LiveStream>, StreamSnapshot, Source), ApiError> {
        if is_empty(self.body()) {
            return Err(ApiError::BAD_REQUEST);
        }
        let stream = self.find(name)?;
        let request = SnapshotRequest::read(self.body(), self.is_strict())?;
        let mut loan = stream.borrow().ok_or(ApiError::STREAM_NOT_FOUND)?;
        // Nothing is stored meanwhile: the numbers and what can be read are of one moment.
        self.jetstream
            .make_durable(loan.parts().0)
            .map_err(|error| ApiError::stream_snapshot(error.description))?;
        let state = stream.state(false);
        let consumers = if request.no_consumers { Vec::new() } else { stream.consumers().states() };
        let source = Source::new(&stream.reader(), &state, consumers, self.jetstream.host.now());
        drop(loan);
        let config = (*stream.config()).clone();
        let answer = StreamSnapshot { config: Some(config), state: Some(state) };
        Ok((request, stream, answer, source))
    }

    pub(super) fn restore_stream(&mut self, name: &str) -> Result<StreamRestore, ApiError> {
        let mut request = RestoreRequest::read(self.body(), self.is_strict())?;
        if request.config.name.is_empty() {
            name.clone_into(&mut request.config.name);
        }
        if request.config.name != name {
            return Err(ApiError::STREAM_MISMATCH);
        }
        if name.contains(['\\', '/']) {
            return Err(ApiError::STREAM_NAME_CONTAINS_PATH_SEPARATORS);
        }
        let limits = self.account.all_limits(self.jetstream);
        let config = config::restore(&request.config, &**self.account, &limits)?;
        if !has_room(self.jetstream) {
            return Err(ApiError::stream_restore("too many streams are being restored"));
        }
        let errand = self.errand(name);
        let wanted =
            Wanted { jetstream: Arc::clone(self.jetstream), account: Arc::clone(self.account), config };
        let deliver_subject = Restore::begin(errand, wanted, &mut self.out);
        Ok(StreamRestore { deliver_subject })
    }

    fn errand(&self, stream: &str) -> Errand {
        Errand {
            account: Arc::clone(&self.request.account),
            host: Arc::clone(&self.jetstream.host),
            domain: self.jetstream.settings.domain.clone(),
            stream: stream.to_owned(),
            client: self.client(),
        }
    }

    /// Who asks, as advisories show it.
    pub(super) fn client(&self) -> Option<ClientInfo> {
        let request = self.request;
        request.origin.as_deref().map(|conn| {
            let (server, cluster) = (&self.jetstream.settings.server_name, self.jetstream.host.cluster());
            let client = client_info(conn, server, cluster);
            if client.account == request.account.name() { client } else { from_abroad(client, request) }
        })
    }
}
