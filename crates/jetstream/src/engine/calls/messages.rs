//! `STREAM.MSG.GET` and `STREAM.MSG.DELETE`.

use super::{Call, CallResponse};
use myelin_jsapi::ApiError;
use myelin_jsapi::api::request::{MessageDeleteRequest, MessageGetRequest};
use myelin_jsapi::api::response::{MessageDelete, MessageGet, StoredMessage, granted, refused};
use myelin_jsapi::config::Storage;
use myelin_jsapi::get_request::GetRequest;
use myelin_jsapi::json::Moment;
use myelin_store::segment::Totals;
use myelin_store::{Seq, Wait};
use myelin_streams::read::{self, GetRefused};

/// How often a message that is being replaced is looked for: each look waits for the one that was
/// on its way.
const TRIES: usize = 8;

impl Call<'_> {
    pub(super) fn delete_message(&mut self, name: &str) -> Result<MessageDelete, ApiError> {
        let request = MessageDeleteRequest::read(self.body(), self.is_strict())?;
        let stream = self.find(name)?;
        let config = stream.config();
        if config.sealed {
            return Err(ApiError::STREAM_SEALED);
        }
        if config.deny_delete {
            return Err(ApiError::stream_msg_delete_failed("message delete not permitted"));
        }
        let mut guard = stream.lock_core().ok_or(ApiError::STREAM_NOT_FOUND)?;
        check_seq(request.seq, &guard.parts().0.state().totals, config.storage)?;
        let now = self.jetstream.host.now();
        let (core, effects) = guard.parts();
        let removed = match request.no_erase {
            true => core.delete(request.seq, now, effects),
            false => core.erase(request.seq, now, effects),
        };
        if !removed.map_err(ApiError::stream_msg_delete_failed)? {
            return Err(ApiError::sequence_not_found(request.seq));
        }
        self.jetstream.make_durable(core)?;
        drop(guard);
        stream.consumers().forget_removed(true);
        Ok(MessageDelete { success: true })
    }

    /// Compat: a message that was got is neither counted nor told to the audit; an error is.
    pub(super) fn get_message(&mut self, name: &str) -> CallResponse {
        match self.admit().and_then(|()| self.read_message(name)) {
            Ok(body) => CallResponse { body, is_error: false, is_audited: false, is_sent: false },
            Err(error) => CallResponse {
                body: refused::<MessageGet<'_>>(&error),
                is_error: true,
                is_audited: true,
                is_sent: false,
            },
        }
    }

    fn read_message(&self, name: &str) -> Result<Vec<u8>, ApiError> {
        let request = MessageGetRequest::read(self.body(), self.is_strict())?;
        let request = GetRequest {
            seq: request.seq,
            last_for: request.last_by_subj.into_bytes(),
            next_for: request.next_by_subj.into_bytes(),
            start_time: request.start_time.map(Moment::timestamp),
            no_headers: request.no_hdr,
            ..GetRequest::default()
        };
        let stream = self.find(name)?;
        let mut buffer = Vec::new();
        for _ in 0..TRIES {
            match read::message_get(&stream.reader(), &request, Wait::Allowed, &mut buffer) {
                Err(GetRefused::Unreleased) => {}
                _ => break,
            }
            // What is being stored right now is there when the turn is over, and synced where that
            // counts.
            let mut guard = stream.lock_core().ok_or(ApiError::STREAM_NOT_FOUND)?;
            self.jetstream.make_durable(guard.parts().0)?;
        }
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
            // It was replaced again before each look.
            Err(GetRefused::Waits | GetRefused::Unreleased) => Err(ApiError::NO_MESSAGE_FOUND),
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
