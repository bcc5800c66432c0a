//! Requests that nobody can answer now: each is refused in the words of its own answer.

use myelin_jsapi::ApiError;
use myelin_jsapi::api::consumer::response::{
    ConsumerCreate, ConsumerDelete, ConsumerInfo, ConsumerList, ConsumerNames, ConsumerPause, ConsumerReset,
    ConsumerUnpin,
};
use myelin_jsapi::api::response::{
    AccountInfo, ApiResponse, MessageDelete, MessageGet, StreamCreate, StreamDelete, StreamInfo, StreamList,
    StreamNames, StreamPurge, StreamRestore, StreamSnapshot, StreamUpdate, refused,
};
use myelin_jsapi::api::scrub::Scrub;
use myelin_jsapi::api::why::{WhyConsumer, WhyStream};
use serde::Serialize;

/// Answers that say nothing but why not, each of its own type.
macro_rules! nothing_but_why {
    ($($answer:ident: $name:literal,)*) => {
        $(#[derive(Default, Serialize)]
        struct $answer {}

        impl ApiResponse for $answer {
            const TYPE: &'static str = concat!("io.nats.jetstream.api.v1.", $name, "_response");
        })*
    };
}

nothing_but_why! {
    // To a request that is not understood far enough to know its type.
    Unanswered: "error",
    StreamStays: "stream_leader_stepdown",
    ConsumerStays: "consumer_leader_stepdown",
    PeerStays: "stream_remove_peer",
    PeerOfConsumerStays: "consumer_remove_peer",
    PeerIsNotLeft: "stream_evacuate_peer",
    PeerOfConsumerIsNotLeft: "consumer_evacuate_peer",
    MoveGoesOn: "stream_cancel_move",
}

/// Body of the answer to a request that is refused for this error.
pub(super) fn refusal(tokens: &[&str], error: &ApiError) -> Vec<u8> {
    match *tokens {
        ["INFO"] => refused::<AccountInfo>(error),
        ["STREAM", "NAMES"] => refused::<StreamNames>(error),
        ["STREAM", "LIST"] => refused::<StreamList>(error),
        ["STREAM", "CREATE", _] => refused::<StreamCreate>(error),
        ["STREAM", "UPDATE", _] => refused::<StreamUpdate>(error),
        ["STREAM", "INFO", _] => refused::<StreamInfo>(error),
        ["STREAM", "DELETE", _] => refused::<StreamDelete>(error),
        ["STREAM", "PURGE", _] => refused::<StreamPurge>(error),
        ["STREAM", "SNAPSHOT", _] => refused::<StreamSnapshot>(error),
        ["STREAM", "RESTORE", _] => refused::<StreamRestore>(error),
        ["STREAM", "MSG", "GET", _] => refused::<MessageGet<'_>>(error),
        ["STREAM", "MSG", "DELETE", _] => refused::<MessageDelete>(error),
        ["STREAM", "LEADER", ..] => refused::<StreamStays>(error),
        ["STREAM", "CANCEL_MOVE", _] => refused::<MoveGoesOn>(error),
        ["STREAM", "PEER", "EVACUATE", _] => refused::<PeerIsNotLeft>(error),
        ["CONSUMER", "PEER", "EVACUATE", ..] => refused::<PeerOfConsumerIsNotLeft>(error),
        ["STREAM", "PEER", ..] => refused::<PeerStays>(error),
        ["CONSUMER", "CREATE" | "DURABLE", ..] => refused::<ConsumerCreate>(error),
        ["CONSUMER", "NAMES", ..] => refused::<ConsumerNames>(error),
        ["CONSUMER", "LIST", ..] => refused::<ConsumerList>(error),
        ["CONSUMER", "INFO", ..] => refused::<ConsumerInfo>(error),
        ["CONSUMER", "DELETE", ..] => refused::<ConsumerDelete>(error),
        ["CONSUMER", "PAUSE", ..] => refused::<ConsumerPause>(error),
        ["CONSUMER", "UNPIN", ..] => refused::<ConsumerUnpin>(error),
        ["CONSUMER", "RESET", ..] => refused::<ConsumerReset>(error),
        ["CONSUMER", "LEADER", ..] => refused::<ConsumerStays>(error),
        ["CONSUMER", "PEER", ..] => refused::<PeerOfConsumerStays>(error),
        ["MYELIN", "WHY", "CONSUMER", ..] => refused::<WhyConsumer>(error),
        ["MYELIN", "WHY", "STREAM", ..] => refused::<WhyStream>(error),
        ["MYELIN", "SCRUB", ..] => refused::<Scrub>(error),
        _ => refused::<Unanswered>(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_refused_in_the_words_of_its_own_answer() {
        let said = |tokens: &[&str]| {
            String::from_utf8(refusal(tokens, &ApiError::CLUSTER_NOT_AVAIL)).expect("it is text")
        };
        let names = said(&["STREAM", "NAMES"]);
        assert!(names.contains("v1.stream_names_response") && names.contains(r#""streams":null"#), "{names}");
        let consumer = said(&["CONSUMER", "INFO", "S", "C"]);
        assert!(consumer.contains("v1.consumer_info_response") && consumer.contains("10008"), "{consumer}");
        assert!(said(&["NONSENSE"]).contains("v1.error_response"));
    }
}
