//! Texts as people read them.

use super::{ConsumerCause, GroupCause, Holds, StreamCause};

const SECOND: i64 = 1_000_000_000;
const NOW: i64 = 1_700_000_000 * SECOND;

fn of_consumer(cause: &ConsumerCause) -> String {
    let told = cause.told(Holds::All, ("S", "C"), NOW);
    assert_eq!(told.cause, cause.word());
    assert!(!told.remedy.contains(['<', '>']) && !told.numbers.is_empty(), "{told:?}");
    told.says
}

fn of_stream(cause: &StreamCause) -> String {
    let told = cause.told(Holds::Some, "S", NOW);
    assert!(!told.remedy.contains(['<', '>']), "{told:?}");
    told.says
}

#[test]
fn causes_of_consumers_are_said_with_their_numbers() {
    let since = NOW - 312 * SECOND;
    let at = NOW + 90 * SECOND;
    for (cause, says) in [
        (ConsumerCause::Paused { until: at }, "it is paused until 2023-11-14T22:14:50Z (in 1m30s)"),
        (
            ConsumerCause::NoPullWaits { pending: 1, since: Some(since) },
            "nobody asks: no pull request waits, the last one 5m12s ago; to be delivered: 1 message",
        ),
        (
            ConsumerCause::NoPullWaits { pending: 2, since: None },
            "nobody asks: no pull request waits; to be delivered: 2 messages",
        ),
        (
            ConsumerCause::NobodyListens { subject: "out".into(), group: "g".into(), since: Some(since) },
            "nobody listens to out in queue group g, for 5m12s",
        ),
        (
            ConsumerCause::MaxAckPending { pending: 1000, limit: 1000, oldest: 17, since },
            "1000 messages await their acknowledgement, and 1000 may; the oldest is 17, delivered 5m12s ago",
        ),
        (
            ConsumerCause::RedeliveryWaits { messages: 1, next_at: Some(at) },
            "1 message is with a client and comes again, unless acknowledged, from 2023-11-14T22:14:50Z (in \
             1m30s) on",
        ),
        (
            ConsumerCause::RedeliveryWaits { messages: 2, next_at: None },
            "2 messages are with clients and come again, unless acknowledged, never by themselves",
        ),
        (
            ConsumerCause::DeadLettersWait {
                messages: 2,
                stream: "D".into(),
                refusal: Some("maximum messages exceeded (10077)".into()),
                retry_at: Some(at),
            },
            "2 messages are dead and have to move to stream D, which has not taken them: maximum messages exceeded \
             (10077); tried again at 2023-11-14T22:14:50Z (in 1m30s)",
        ),
        (
            ConsumerCause::CaughtUp { delivered: 2, last: 9 },
            "everything was delivered, in 2 deliveries; the last message of the stream is 9",
        ),
        (
            ConsumerCause::FilterMatchesNothing { filters: vec!["a".into(), "b".into()], messages: 3 },
            "none of the 3 messages of the stream match a, b",
        ),
    ] {
        assert_eq!(of_consumer(&cause), says);
    }
    let paused = ConsumerCause::Paused { until: at }.told(Holds::All, ("S", "C"), NOW);
    assert_eq!(paused.remedy, "nats consumer resume S C");
    assert_eq!(paused.numbers["seconds"], 90);
}

#[test]
fn causes_of_streams_are_said_with_their_numbers() {
    for (cause, says) in [
        (
            StreamCause::Full { limit: "max_msgs", used: 2, most: 2 },
            "it has 2 of 2 (max_msgs) and refuses more (discard: new)",
        ),
        (
            StreamCause::SubjectsFull { subjects: 1, first: "a".into(), most: 3 },
            "1 subject with 3 messages or more (the first is a), as many as each may have: more are refused",
        ),
        (
            StreamCause::DiscardsOldest { limit: "max_bytes", used: 9, most: 10, first_at: NOW - SECOND },
            "it has 9 of 10 (max_bytes): each message costs the oldest, which is 1s old",
        ),
        (
            StreamCause::OriginBehind { origin: "O".into(), lag: 0, active: -1, error: Some("no".into()) },
            "0 messages of O are still to come, nothing has come: no",
        ),
        (
            StreamCause::InterestGone { messages: 1, consumers: 2 },
            "no consumer wants 1 message of the work queue: nobody will ever take that (2 consumers are there)",
        ),
    ] {
        assert_eq!(of_stream(&cause), says);
    }
}

#[test]
fn servers_that_are_away_are_named() {
    let cause = |heard| GroupCause { voters: 3, heard, away: vec!["n2".into()] }.told();
    let said = cause(1);
    assert_eq!((said.cause, said.holds), ("no_quorum", Holds::All));
    let says = "no server leads the stream: 1 of 3 replicas was heard, and 2 must be there; away: n2";
    assert_eq!(said.says, says);
    assert_eq!(cause(2).cause, "no_leader");
}
