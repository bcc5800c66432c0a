//! `/healthz` while JetStream runs: all is well, then folders appear in its store that it knows
//! nothing of.

use std::fs;

use myelin_compat::implementation::reference_program;
use myelin_monitor::{Health, Standing, StoredAccount, StoredStream, StreamFailure};

use super::recorded::{recorded_situation, reference};
use crate::fixture::{Fixed, text};

/// Queries of `/healthz`, each with the status and the body of its answer.
type Expected<'a> = [(&'a str, u16, &'a str)];

const OK: &str = r#"{"status":"ok"}"#;

/// Stream ONE of account A lies in the store, and nothing else.
const WELL: &Expected = &[
    ("", 200, OK),
    ("?details=1", 200, OK),
    ("?account=A", 200, OK),
    ("?account=A&stream=ONE", 200, OK),
    ("?account=A&stream=ONE&consumer=con", 200, OK),
    ("?account=B", 404, r#"{"status":"unavailable","error":"JetStream account \"B\" not found"}"#),
    (
        "?account=nope&details=1",
        404,
        r#"{"status":"error","errors":[{"type":"ACCOUNT","account":"nope","error":"JetStream account \"nope\" not found"}]}"#,
    ),
    (
        "?account=A&stream=%22%3Cx%09",
        404,
        r#"{"status":"unavailable","error":"JetStream stream \"\\\"\u003cx\\t\" not found on account \"A\""}"#,
    ),
    (
        "?account=A&stream=NO&consumer=con&details=1",
        404,
        r#"{"status":"error","errors":[{"type":"STREAM","account":"A","stream":"NO","error":"JetStream stream \"NO\" not found on account \"A\""}]}"#,
    ),
    (
        "?account=A&stream=ONE&consumer=no",
        404,
        r#"{"status":"unavailable","error":"JetStream consumer \"no\" not found for stream \"ONE\" on account \"A\""}"#,
    ),
    (
        "?account=A&stream=ONE&consumer=no&details=1",
        404,
        r#"{"status":"error","errors":[{"type":"CONSUMER","account":"A","stream":"ONE","consumer":"no","error":"JetStream consumer \"no\" not found for stream \"ONE\" on account \"A\""}]}"#,
    ),
    ("?js-enabled-only=1&account=nope", 200, OK),
    ("?js-enabled=1&account=nope", 200, OK),
    ("?js-server-only=1&account=nope", 200, OK),
    (
        "?js-meta-only=1&account=nope",
        404,
        r#"{"status":"unavailable","error":"JetStream account \"nope\" not found"}"#,
    ),
    (
        "?js-server-only=1&stream=x",
        400,
        r#"{"status":"error","error":"\"account\" must not be empty when checking stream health"}"#,
    ),
    (
        "?js-meta-only=1&account=A&consumer=x&details=1",
        400,
        r#"{"status":"error","errors":[{"type":"BAD_REQUEST","error":"\"stream\" must not be empty when checking consumer health"}]}"#,
    ),
];

/// Besides, a stream GHOST of account A that does not run, and an account ZED that does not exist.
const ILL: &Expected = &[
    (
        "",
        503,
        r#"{"status":"unavailable","error":"JetStream stream 'A \u003e GHOST' could not be recovered"}"#,
    ),
    (
        "?details=1",
        503,
        r#"{"status":"error","errors":[{"type":"STREAM","account":"A","stream":"GHOST","error":"JetStream stream 'A \u003e GHOST' could not be recovered"},{"type":"ACCOUNT","account":"ZED","error":"JetStream account 'ZED' could not be resolved"}]}"#,
    ),
    (
        "?account=A",
        503,
        r#"{"status":"unavailable","error":"JetStream stream 'A \u003e GHOST' could not be recovered"}"#,
    ),
    ("?account=A&stream=ONE", 200, OK),
    (
        "?account=A&stream=GHOST&consumer=c",
        503,
        r#"{"status":"unavailable","error":"JetStream stream 'A \u003e GHOST' could not be recovered"}"#,
    ),
    (
        "?account=A&stream=GHOST&details=1",
        503,
        r#"{"status":"error","errors":[{"type":"STREAM","account":"A","stream":"GHOST","error":"JetStream stream 'A \u003e GHOST' could not be recovered"}]}"#,
    ),
    (
        "?account=A&stream=GHOST&consumer=c&details=1",
        404,
        r#"{"status":"error","errors":[{"type":"CONSUMER","account":"A","stream":"GHOST","consumer":"c","error":"JetStream consumer \"c\" not found for stream \"GHOST\" on account \"A\""}]}"#,
    ),
    (
        "?account=A&stream=NO",
        404,
        r#"{"status":"unavailable","error":"JetStream stream \"NO\" not found on account \"A\""}"#,
    ),
    (
        "?account=ZED&stream=S",
        503,
        r#"{"status":"unavailable","error":"JetStream account 'ZED' could not be resolved"}"#,
    ),
    (
        "?account=ZED&details=1",
        503,
        r#"{"status":"error","errors":[{"type":"ACCOUNT","account":"ZED","error":"JetStream account 'ZED' could not be resolved"}]}"#,
    ),
    (
        "?account=ZED&stream=S&details=1",
        404,
        r#"{"status":"error","errors":[{"type":"STREAM","account":"ZED","stream":"S","error":"JetStream stream \"S\" not found on account \"ZED\""}]}"#,
    ),
    ("?js-enabled-only=1", 200, OK),
    ("?js-server-only=1", 200, OK),
];

fn stream(name: &str, failure: Option<StreamFailure>) -> StoredStream {
    StoredStream { name: name.to_owned(), failure, lost: 0 }
}

fn account(name: &str, standing: Standing, streams: Vec<StoredStream>) -> StoredAccount {
    StoredAccount { name: name.to_owned(), standing, streams }
}

fn with(stored: Vec<StoredAccount>) -> Fixed {
    let mut source = recorded_situation();
    source.jetstream.as_mut().unwrap().stored = stored;
    source
}

fn well() -> Fixed {
    with(vec![account("A", Standing::Valid, vec![stream("ONE", None)])])
}

fn ill() -> Fixed {
    let streams = vec![stream("GHOST", Some(StreamFailure::NotRecovered)), stream("ONE", None)];
    let unknown = account("ZED", Standing::Unknown, vec![stream("S", None)]);
    with(vec![account("A", Standing::Valid, streams), unknown])
}

fn check(source: &Fixed, expected: &Expected) {
    for (options, status, body) in expected {
        let answer = source.ask(&format!("/healthz{options}"));
        assert_eq!((answer.status, text(&answer).as_str()), (*status, *body), "{options}");
    }
}

#[test]
fn what_is_asked_for_must_be_in_the_store() {
    check(&well(), WELL);
}

#[test]
fn what_is_in_the_store_must_run() {
    check(&ill(), ILL);
}

#[test]
fn the_reference_says_the_same() {
    let Some(program) = reference_program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let reference = reference(program, folder.path());
    let check = |expected: &Expected| {
        for (options, status, body) in expected {
            let (head, theirs) = reference.exchange(&format!("/healthz{options}"));
            assert_eq!((&head[9..12], theirs.as_str()), (status.to_string().as_str(), *body), "{options}");
        }
    };
    check(WELL);
    for stream in ["A/streams/GHOST", "ZED/streams/S"] {
        fs::create_dir_all(folder.path().join("store/jetstream").join(stream)).unwrap();
    }
    check(ILL);
}

#[test]
fn a_stream_that_cannot_write_is_reported_with_the_reason() {
    let failure = StreamFailure::Write("no space left on device".to_owned());
    let source = with(vec![account("A", Standing::Valid, vec![stream("ONE", Some(failure))])]);
    let plain = r#"{"status":"unavailable","error":"JetStream stream 'A \u003e ONE' write error: no space left on device"}"#;
    check(&source, &[("?account=A&stream=ONE&consumer=con", 503, plain)]);
    // The consumer is there, but nobody looks for it.
    let answer = source.ask("/healthz?account=A&stream=ONE&consumer=con&details=1");
    assert_eq!(answer.status, 404);
}

#[test]
fn what_a_stream_has_lost_is_told_by_a_healthy_server() {
    let hurt = |name: &str, lost| StoredStream { lost, ..stream(name, None) };
    let others = vec![hurt("ONE", 2), hurt("TWO", 0)];
    let source =
        with(vec![account("A", Standing::Valid, others), account("B", Standing::Valid, vec![hurt("S", 7)])]);
    let one = r#"{"account":"A","stream":"ONE","messages":2}"#;
    let of_b = r#"{"account":"B","stream":"S","messages":7}"#;
    let told = |lost: &[&str]| format!(r#"{{"status":"ok","lost":[{}]}}"#, lost.join(","));
    check(
        &source,
        &[
            ("", 200, &told(&[one, of_b])),
            ("?details=1", 200, &told(&[one, of_b])),
            ("?account=A", 200, &told(&[one])),
            ("?account=A&stream=TWO", 200, OK),
            ("?js-enabled-only=1", 200, OK),
        ],
    );
}

#[test]
fn work_that_waits_for_room_on_the_disk_is_reported_behind_the_streams() {
    let text = "JetStream waits for room on the disk: bytes of erased messages are still in 2 files";
    let mut source = well();
    source.jetstream.as_mut().unwrap().waits_for_room = Some(text.to_owned());
    let plain = format!(r#"{{"status":"unavailable","error":"{text}"}}"#);
    check(&source, &[("", 503, &plain), ("?js-enabled-only=1", 200, OK), ("?js-server-only=1", 200, OK)]);
    let mut source = ill();
    source.jetstream.as_mut().unwrap().waits_for_room = Some(text.to_owned());
    let answer = source.ask("/healthz?details=1");
    let page: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let errors = page["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 3);
    assert_eq!(errors[2], serde_json::json!({"type": "JETSTREAM", "error": text}));
}

/// An expired account is nobody's fault but matters to those who ask for it. The reference has the
/// same words.
#[test]
fn an_expired_account_is_reported_only_when_asked_for() {
    let expired = account("OLD", Standing::Expired, vec![stream("S", Some(StreamFailure::NotRecovered))]);
    let source = with(vec![expired]);
    check(
        &source,
        &[
            ("", 200, OK),
            ("?details=1", 200, OK),
            ("?account=OLD", 503, r#"{"status":"unavailable","error":"JetStream account 'OLD' is expired"}"#),
            (
                "?account=OLD&stream=NO&details=1",
                503,
                r#"{"status":"error","errors":[{"type":"ACCOUNT","account":"OLD","error":"JetStream account 'OLD' is expired"}]}"#,
            ),
        ],
    );
}

#[test]
fn a_server_that_does_not_listen_is_not_asked_for_streams() {
    let source = Fixed { health: Health::NotReady("no listener".to_owned()), ..ill() };
    check(&source, &[("?js-server-only=1", 500, r#"{"status":"error","error":"no listener"}"#)]);
}

#[test]
fn the_log_has_the_first_failure_or_their_number() {
    let source = ill();
    source.ask("/healthz");
    source.ask("/healthz?details=1");
    source.ask("/healthz?account=%22%C3%A9");
    let expected = [
        r#"Healthcheck failed: "JetStream stream 'A > GHOST' could not be recovered""#,
        "Healthcheck failed: 2 errors",
        r#"Healthcheck failed: "JetStream account \"\\\"é\" not found""#,
    ];
    assert_eq!(*source.warnings.lock().unwrap(), expected);
}
