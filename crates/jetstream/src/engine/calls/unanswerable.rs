//! Requests that nobody can answer now: each is refused in the words of its own answer.

use super::clustered::{ConsumerSteppedDown, StreamSteppedDown};
use super::{CallResponse, respond_to_any};
use crate::engine::calls::cluster::{EvacuatePeer, RemovePeer, RemovePeerOfConsumer};
use myelin_jsapi::ApiError;
use myelin_jsapi::api::consumer::response::{
    ConsumerCreate, ConsumerDelete, ConsumerInfo, ConsumerList, ConsumerNames, ConsumerPause, ConsumerReset,
    ConsumerUnpin,
};
use myelin_jsapi::api::response::{
    AccountInfo, ApiResponse, MessageDelete, MessageGet, StreamCreate, StreamDelete, StreamInfo, StreamList,
    StreamNames, StreamPurge, StreamRestore, StreamSnapshot, StreamUpdate,
};
use serde::Serialize;

/// To a request that is not understood far enough to know its type.
#[derive(Default, Serialize)]
struct Unanswered {}

impl ApiResponse for Unanswered {
    const TYPE: &'static str = "io.nats.jetstream.api.v1.error_response";
}

/// Nobody can answer now.
pub(super) fn unavailable(tokens: &[&str]) -> CallResponse {
    refused_as(tokens, ApiError::CLUSTER_NOT_AVAIL)
}

/// No server is there that has what a call is about.
pub(super) fn offline(tokens: &[&str]) -> CallResponse {
    let is_of_consumer = tokens.first() == Some(&"CONSUMER");
    refused_as(tokens, if is_of_consumer { ApiError::CONSUMER_OFFLINE } else { ApiError::STREAM_OFFLINE })
}

fn of<A: ApiResponse>(error: ApiError) -> CallResponse {
    respond_to_any::<A>(Err(error))
}

fn refused_as(tokens: &[&str], error: ApiError) -> CallResponse {
    match *tokens {
        ["INFO"] => of::<AccountInfo>(error),
        ["STREAM", "NAMES"] => of::<StreamNames>(error),
        ["STREAM", "LIST"] => of::<StreamList>(error),
        ["STREAM", "CREATE", _] => of::<StreamCreate>(error),
        ["STREAM", "UPDATE", _] => of::<StreamUpdate>(error),
        ["STREAM", "INFO", _] => of::<StreamInfo>(error),
        ["STREAM", "DELETE", _] => of::<StreamDelete>(error),
        ["STREAM", "PURGE", _] => of::<StreamPurge>(error),
        ["STREAM", "SNAPSHOT", _] => of::<StreamSnapshot>(error),
        ["STREAM", "RESTORE", _] => of::<StreamRestore>(error),
        ["STREAM", "MSG", "GET", _] => of::<MessageGet<'_>>(error),
        ["STREAM", "MSG", "DELETE", _] => of::<MessageDelete>(error),
        ["STREAM", "LEADER", ..] => of::<StreamSteppedDown>(error),
        ["STREAM", "PEER", "REMOVE", _] => of::<RemovePeer>(error),
        ["STREAM", "PEER", ..] => of::<EvacuatePeer>(error),
        ["CONSUMER", "CREATE" | "DURABLE", ..] => of::<ConsumerCreate>(error),
        ["CONSUMER", "NAMES", ..] => of::<ConsumerNames>(error),
        ["CONSUMER", "LIST", ..] => of::<ConsumerList>(error),
        ["CONSUMER", "INFO", ..] => of::<ConsumerInfo>(error),
        ["CONSUMER", "DELETE", ..] => of::<ConsumerDelete>(error),
        ["CONSUMER", "PAUSE", ..] => of::<ConsumerPause>(error),
        ["CONSUMER", "UNPIN", ..] => of::<ConsumerUnpin>(error),
        ["CONSUMER", "RESET", ..] => of::<ConsumerReset>(error),
        ["CONSUMER", "LEADER", ..] => of::<ConsumerSteppedDown>(error),
        ["CONSUMER", "PEER", ..] => of::<RemovePeerOfConsumer>(error),
        _ => of::<Unanswered>(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_refused_in_the_words_of_its_own_answer() {
        let said = |tokens: &[&str]| String::from_utf8(unavailable(tokens).body).expect("it is text");
        let names = said(&["STREAM", "NAMES"]);
        assert!(names.contains("v1.stream_names_response") && names.contains(r#""streams":null"#), "{names}");
        let consumer = said(&["CONSUMER", "INFO", "S", "C"]);
        assert!(consumer.contains("v1.consumer_info_response") && consumer.contains("10008"), "{consumer}");
        assert!(said(&["NONSENSE"]).contains("v1.error_response"));
    }
}
