//! Message get: `$JS.API.STREAM.MSG.GET.<stream>`, the look-up and its rules. The answer's JSON is
//! the API's.

use myelin_store::{Message, ReadError, StreamReader, Wait};

use myelin_jsapi::ApiError;

use super::{faults, lookup};
use myelin_jsapi::get_request::GetRequest;

/// Why there is no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GetRefused {
    /// The answer.
    Api(ApiError),
    /// The message is not in memory: to be asked again where [`Wait::Allowed`] is true.
    Waits,
}

/// Whether the request means one message. Before the stream is looked up: a bad request to a stream
/// that is not there is a bad request.
///
/// # Errors
/// The answer.
pub fn check_message_get(request: &GetRequest) -> Result<(), ApiError> {
    let is_batch = request.batch > 0 || request.max_bytes > 0;
    if is_batch || request.names_no_message() || request.contradicts_itself() {
        return Err(faults::BAD_REQUEST);
    }
    Ok(())
}

/// Reads the message that a checked request means, without its headers where it asks for none.
///
/// # Errors
/// [`GetRefused`].
pub fn message_get<'b>(
    reader: &StreamReader,
    request: &GetRequest,
    wait: Wait,
    buffer: &'b mut Vec<u8>,
) -> Result<Message<'b>, GetRefused> {
    match lookup::read_one(reader, request, wait, buffer) {
        Ok(Some(message)) if request.no_headers => Ok(Message { headers: b"", ..message }),
        Ok(Some(message)) => Ok(message),
        Err(ReadError::WouldWait | ReadError::More) => Err(GetRefused::Waits),
        Err(_) if reader.is_mended() => Err(GetRefused::Api(faults::NOT_NOW)),
        // Compat: what cannot be read is not there.
        Ok(None) | Err(ReadError::Damaged(_) | ReadError::Io(_)) => {
            Err(GetRefused::Api(faults::NO_MESSAGE_FOUND))
        }
    }
}
