//! `STREAM.MSG.GET` and `STREAM.MSG.DELETE`.

use super::{Call, CallResponse};
use crate::engine::LiveStream;
use myelin_jsapi::ApiError;
use myelin_jsapi::api::request::{MessageDeleteRequest, MessageGetRequest};
use myelin_jsapi::api::response::{MessageDelete, MessageGet, StoredMessage, granted, refused};
use myelin_jsapi::config::Storage;
use myelin_jsapi::get_request::GetRequest;
use myelin_jsapi::json::Moment;
use myelin_store::segment::Totals;
use myelin_store::{Seq, StreamReader, Ticket, Wait};
use myelin_streams::read::{self, GetRefused};

impl Call {
    pub(super) async fn delete_message(&mut self, name: &str) -> Result<MessageDelete, ApiError> {
        let request = MessageDeleteRequest::read(self.body(), self.is_strict())?;
        let stream = self.find(name).await?;
        let config = stream.config();
        if config.sealed {
            return Err(ApiError::STREAM_SEALED);
        }
        if config.deny_delete {
            return Err(ApiError::stream_msg_delete_failed("message delete not permitted"));
        }
        let leadership = stream.consumers().leadership()?;
        let (reader, ticket) = self.remove_message(&stream, &request, config.storage)?;
        stream.released_through(&reader, ticket, leadership).await?;
        stream.consumers().forget_removed(true);
        Ok(MessageDelete { success: true })
    }

    /// Removes a message. Answers what has to be released before that counts.
    fn remove_message(
        &self,
        stream: &LiveStream,
        request: &MessageDeleteRequest,
        storage: Storage,
    ) -> Result<(StreamReader, Ticket), ApiError> {
        let mut guard = stream.lock_core().ok_or(ApiError::STREAM_NOT_FOUND)?;
        let (core, effects) = guard.parts();
        check_seq(request.seq, &core.state().totals, storage)?;
        let now = self.jetstream.host.now();
        let removed = match request.no_erase {
            true => core.delete(request.seq, now, effects),
            false => core.erase(request.seq, now, effects),
        };
        if !removed.map_err(ApiError::stream_msg_delete_failed)? {
            return Err(ApiError::sequence_not_found(request.seq));
        }
        Ok((core.reader(), core.store().ticket()))
    }

    /// Compat: a message that was got is neither counted nor told to the audit; an error is.
    pub(super) async fn get_message(&mut self, name: &str) -> CallResponse {
        let read = match self.admit() {
            Ok(()) => self.read_message(name).await,
            Err(error) => Err(error),
        };
        match read {
            Ok(body) => CallResponse { is_audited: false, ..CallResponse::audited(body, false) },
            Err(error) => CallResponse::audited(refused::<MessageGet<'_>>(&error), true),
        }
    }

    async fn read_message(&self, name: &str) -> Result<Vec<u8>, ApiError> {
        let request = MessageGetRequest::read(self.body(), self.is_strict())?;
        let request = GetRequest {
            seq: request.seq,
            last_for: request.last_by_subj.into_bytes(),
            next_for: request.next_by_subj.into_bytes(),
            start_time: request.start_time.map(Moment::timestamp),
            no_headers: request.no_hdr,
            ..GetRequest::default()
        };
        let stream = self.find(name).await?;
        let mut buffer = Vec::new();
        match read::message_get(&stream.reader(), &request, Wait::Allowed, &mut buffer) {
            Ok(message) => {
                let message = StoredMessage {
                    subject: message.subject,
                    seq: message.seq,
                    hdrs: message.headers,
                    data: message.payload,
                    time: message.timestamp,
                };
                Ok(granted(&MessageGet { message: Some(message) }))
            }
            Err(GetRefused::Api(error)) => Err(error),
            // This thread may wait.
            Err(GetRefused::Waits) => Err(ApiError::NO_MESSAGE_FOUND),
        }
    }
}

/// Compat: the words for sequences before the first and behind the last message are those of the
/// reference's files; its memory has none.
fn check_seq(seq: Seq, totals: &Totals, storage: Storage) -> Result<(), ApiError> {
    match storage {
        Storage::File if seq < totals.first_seq => {
            Err(ApiError::stream_msg_delete_failed("no message found"))
        }
        Storage::File if seq > totals.last_seq => Err(ApiError::stream_msg_delete_failed("stream store EOF")),
        _ => Ok(()),
    }
}
