//! Bytes that the reference was seen to answer with (2.15.2, raw socket).

use super::*;

/// Messages 1 to 8 on S.b, S.c, S.a, S.b, ...: odd ones have a header; 4 is deleted. In files as of
/// the reference's default.
fn bench() -> Bench {
    let mut bench = Bench::in_files();
    for n in 1..=8 {
        let headers = if n % 2 == 1 { format!("NATS/1.0\r\nA: x{n}\r\n\r\n") } else { String::new() };
        let subject = ["S.a", "S.b", "S.c"][n % 3];
        bench.put(subject, &headers, &format!("p{n}"), n as Timestamp * 1000);
    }
    bench.delete(4);
    bench
}

fn statuses(bench: &Bench, subject: &str, headers: &str, cases: &[(&str, &str)]) {
    for (body, expected) in cases {
        let answer = bench.ask_in_slices(subject, headers, body.as_bytes(), 10_000);
        assert_eq!(answer, [(format!("NATS/1.0 {expected}\r\n\r\n"), String::new())], "{body}");
    }
}

const NOT_FOUND: &str = "404 Message Not Found";
const NO_RESULTS: &str = "404 No Results";
const EMPTY: &str = "408 Empty Request";
const BAD: &str = "408 Bad Request";
const MALFORMED: &str = "408 Malformed Request";

#[test]
fn heads_stand_behind_stored_headers() {
    let header_buf = "Nats-Stream: S\r\nNats-Subject: S.b\r\nNats-Sequence: 1\r\nNats-Time-Stamp: 1970-01-01T00:00:00.000001Z\r\n";
    let bench = bench();
    assert_eq!(
        bench.ask(r#"{"seq":1}"#),
        [(format!("NATS/1.0\r\nA: x1\r\n{header_buf}\r\n"), "p1".to_owned())]
    );
    let plain = &bench.ask(r#"{"seq":2}"#)[0].0;
    assert!(plain.starts_with("NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: S.c\r\n"), "{plain}");
    assert_eq!(
        bench.ask(r#"{"seq":1,"batch":1}"#),
        [
            (
                format!(
                    "NATS/1.0\r\nA: x1\r\n{header_buf}Nats-Num-Pending: 6\r\nNats-Last-Sequence: 0\r\n\r\n"
                ),
                "p1".to_owned()
            ),
            (
                "NATS/1.0 204 EOB\r\nNats-Num-Pending: 6\r\nNats-Last-Sequence: 1\r\n\r\n".to_owned(),
                String::new()
            ),
        ]
    );
    assert_eq!(bench.ask(r#"{"seq":1,"no_hdr":true}"#), [(String::new(), "p1".to_owned())]);
}

#[test]
fn ends_of_batches() {
    let end = |body: &str| bench().ask(body).pop().unwrap().0;
    let eob = |pending, last, more: &str| {
        format!("NATS/1.0 204 EOB\r\nNats-Num-Pending: {pending}\r\nNats-Last-Sequence: {last}\r\n{more}\r\n")
    };
    assert_eq!(end(r#"{"seq":1,"batch":3}"#), eob(4, 3, ""));
    assert_eq!(end(r#"{"seq":1,"batch":100}"#), eob(0, 8, ""));
    assert_eq!(end(r#"{"seq":1,"batch":-3}"#), eob(7, 0, ""));
    assert_eq!(end(r#"{"last_by_subj":"S.a","batch":-1}"#), eob(7, 0, ""));
    assert_eq!(end(r#"{"seq":1,"batch":3,"no_hdr":true}"#), eob(7, 3, ""));
    assert_eq!(end(r#"{"seq":1,"batch":10,"max_bytes":20}"#), eob(6, 1, ""));
    assert_eq!(end(r#"{"seq":1,"batch":5,"max_bytes":-1}"#), eob(6, 1, ""));
    assert_eq!(end(r#"{"multi_last":["S.*"],"no_hdr":true}"#), eob(0, 8, "Nats-UpTo-Sequence: 8\r\n"));
    assert_eq!(end(r#"{"multi_last":[">"],"up_to_seq":3}"#), eob(0, 3, "Nats-UpTo-Sequence: 3\r\n"));
    assert_eq!(end(r#"{"multi_last":[">"],"seq":100}"#), eob(0, 0, "Nats-UpTo-Sequence: 8\r\n"));
    assert_eq!(end(r#"{"multi_last":[">"],"batch":2}"#), eob(1, 7, "Nats-UpTo-Sequence: 8\r\n"));
}

#[test]
fn requests_that_are_refused() {
    statuses(
        &bench(),
        "",
        "",
        &[
            ("", EMPTY),
            ("{}", EMPTY),
            ("null", EMPTY),
            (r#"{"seq":null}"#, EMPTY),
            (r#"{"batch":3}"#, EMPTY),
            (r#"{"up_to_seq":3}"#, EMPTY),
            (r#"{"multi_last":[]}"#, EMPTY),
            ("{", MALFORMED),
            ("[]", MALFORMED),
            (r#""a""#, MALFORMED),
            ("1", MALFORMED),
            ("  ", MALFORMED),
            (r#"{"seq":1.0}"#, MALFORMED),
            (r#"{"seq":1e0}"#, MALFORMED),
            (r#"{"seq":-1}"#, MALFORMED),
            (r#"{"seq":"1"}"#, MALFORMED),
            (r#"{"seq":01}"#, MALFORMED),
            (r#"{"seq":1,}"#, MALFORMED),
            (r#"{"seq":1}x"#, MALFORMED),
            (r#"{"seq":18446744073709551616}"#, MALFORMED),
            (r#"{"seq":1,"batch":9223372036854775808}"#, MALFORMED),
            ("\u{feff}{\"seq\":1}", MALFORMED),
            (r#"{"last_by_subj":1}"#, MALFORMED),
            ("{\"last_by_subj\":\"a\tb\"}", MALFORMED),
            (r#"{"multi_last":"a"}"#, MALFORMED),
            (r#"{"multi_last":[1]}"#, MALFORMED),
            (r#"{"no_hdr":1,"seq":1}"#, MALFORMED),
            (r#"{"start_time":1}"#, MALFORMED),
            (r#"{"start_time":""}"#, MALFORMED),
            (r#"{"seq":1,"last_by_subj":"a"}"#, BAD),
            (r#"{"seq":1,"start_time":"2020-01-01T00:00:00Z"}"#, BAD),
            (r#"{"last_by_subj":"a","start_time":"2020-01-01T00:00:00Z"}"#, BAD),
            (r#"{"last_by_subj":"a","next_by_subj":"a"}"#, BAD),
            (r#"{"last_by_subj":"a","batch":2}"#, BAD),
            (r#"{"last_by_subj":"a","multi_last":["a"]}"#, BAD),
            (r#"{"next_by_subj":"a","multi_last":["a"]}"#, BAD),
            (r#"{"multi_last":["a"],"up_to_seq":1,"up_to_time":"2020-01-01T00:00:00Z"}"#, BAD),
        ],
    );
}

#[test]
fn requests_that_find_nothing() {
    statuses(
        &bench(),
        "",
        "",
        &[
            (r#"{"seq":4}"#, NOT_FOUND),
            (r#"{"seq":99}"#, NOT_FOUND),
            (r#"{"last_by_subj":"q"}"#, NOT_FOUND),
            (r#"{"next_by_subj":"zz"}"#, NOT_FOUND),
            (r#"{"seq":50,"batch":3}"#, NOT_FOUND),
            (r#"{"seq":18446744073709551615,"batch":2}"#, NOT_FOUND),
            (r#"{"start_time":"2050-01-01T00:00:00Z","batch":2}"#, NOT_FOUND),
            (r#"{"multi_last":["zz"]}"#, NO_RESULTS),
            (r#"{"multi_last":[""]}"#, NO_RESULTS),
            (r#"{"multi_last":[null]}"#, NO_RESULTS),
            (r#"{"multi_last":[">"],"up_to_seq":1000}"#, NO_RESULTS),
            (r#"{"multi_last":[">"],"up_to_time":"1970-01-01T00:00:00Z"}"#, NO_RESULTS),
        ],
    );
}

#[test]
fn names_and_values_are_read_as_go_reads_them() {
    let bench = bench();
    for (body, payload) in [
        (r#"{"SEQ":2}"#, "p2"),
        (r#"{"ſeq":1}"#, "p1"),
        (r#"{"\u0073eq":1}"#, "p1"),
        (r#"{"seq":1,"seq":2}"#, "p2"),
        (" \n{\"seq\":1} ", "p1"),
        (r#"{"seq":1,"zz":{}}"#, "p1"),
        (r#"{"seq":1,"multi_last":null,"start_time":null,"batch":null}"#, "p1"),
        (r#"{"start_time":"9999-01-01T00:00:00Z"}"#, "p1"),
        (r#"{"start_time":"0001-01-01T00:00:00Z"}"#, "p1"),
        (r#"{"last_by_subj":">"}"#, "p8"),
        (r#"{"last_by_subj":"S.*"}"#, "p8"),
        (r#"{"seq":2,"next_by_subj":"S.b"}"#, "p7"),
        (r#"{"seq":1,"max_bytes":1}"#, "p1"),
    ] {
        let answer = bench.ask(body);
        assert_eq!((answer.len(), &*answer[0].1), (1, payload), "{body}");
    }
}

#[test]
fn a_subject_may_stand_in_the_subject() {
    let bench = bench();
    for (subject, body, payload) in [
        (".S.a", "", "p6"),
        (".S.*", "", "p8"),
        (".>", "", "p8"),
        (".S.a", "{}", "p6"),
        (".S.a", "null", "p6"),
        (".S.a", r#"{"max_bytes":1}"#, "p6"),
        (".S.a", r#"{"no_hdr":true}"#, "p6"),
    ] {
        let answer = bench.ask_in_slices(subject, "", body.as_bytes(), 1000);
        assert_eq!((answer.len(), &*answer[0].1), (1, payload), "{subject} {body}");
    }
    statuses(&bench, ".zz", "", &[("", NOT_FOUND)]);
    let bad = [r#"{"seq":1}"#, r#"{"batch":1}"#, r#"{"up_to_seq":1}"#, r#"{"last_by_subj":"S.a"}"#];
    statuses(&bench, ".S.a", "", &bad.map(|body| (body, BAD)));
    statuses(&bench, ".S.a", "", &[("x", MALFORMED), (" ", MALFORMED)]);
}

#[test]
fn a_level_that_is_not_there_comes_before_all_else() {
    let headers = "NATS/1.0\r\nNats-Required-Api-Level: 99\r\n\r\n";
    let bench = bench();
    statuses(&bench, "", headers, &[("", "412 Required Api Level"), ("x", "412 Required Api Level")]);
    statuses(&bench, ".S.a", headers, &[("x", "412 Required Api Level")]);
}

#[test]
fn the_last_of_all_is_missing_when_just_that_was_deleted() {
    let mut bench = bench();
    bench.delete(8);
    statuses(&bench, "", "", &[(r#"{"last_by_subj":">"}"#, NOT_FOUND)]);
    assert_eq!(bench.ask(r#"{"last_by_subj":"S.*"}"#)[0].1, "p7");
}
