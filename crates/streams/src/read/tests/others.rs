//! Reads of other kinds: too much, too cold, by message get, and for STREAM.INFO.

use super::*;

fn msg(body: &'static str) -> MessageRef<'static> {
    MessageRef {
        subject: b"$JS.API.DIRECT.GET.S",
        reply: b"in.box",
        payload: body.as_bytes(),
        ..MessageRef::default()
    }
}

#[test]
fn nobody_is_answered_who_gave_no_reply() {
    let mut out = MessageBuf::default();
    let msg = MessageRef { reply: b"", ..msg("{}") };
    assert!(Requests::default().ask(&Bench::in_memory().readable(), &msg, &mut out).is_none());
    assert!(out.is_empty());
}

#[test]
fn more_than_1024_subjects_are_too_many() {
    let mut bench = Bench::in_memory();
    for n in 0..1024 {
        bench.put(&format!("k.{n}"), "", "", 1);
    }
    assert_eq!(bench.ask(r#"{"multi_last":["k.*"]}"#).len(), 1025);
    bench.put("k.last", "", "", 1);
    for body in [r#"{"multi_last":["k.*"]}"#, r#"{"multi_last":["k.*"],"up_to_seq":1025}"#] {
        let answer = bench.ask(body);
        assert_eq!(answer, [("NATS/1.0 413 Too Many Results\r\n\r\n".to_owned(), String::new())]);
    }
    assert_eq!(bench.ask(r#"{"multi_last":["k.*"],"up_to_seq":1024}"#).len(), 1025);
}

#[test]
fn a_shard_waits_for_nothing() {
    let mut bench = Bench::in_files();
    for n in 1..=5 {
        bench.put("a", "", "payload", n);
    }
    let readable = bench.readable();
    bench.disk.cool_after(0);
    for body in [
        r#"{"seq":3}"#,
        r#"{"last_by_subj":"a"}"#,
        r#"{"next_by_subj":"*"}"#,
        r#"{"start_time":"1970-01-01T00:00:00.000000003Z"}"#,
        r#"{"seq":3,"batch":2}"#,
        r#"{"multi_last":["a"]}"#,
    ] {
        let mut out = MessageBuf::default();
        let mut batch = Requests::default().ask(&readable, &msg(body), &mut out).unwrap();
        assert_eq!(batch.reply(), b"in.box");
        assert_eq!(batch.fill(&mut out, 1000, Wait::Forbidden), AnswerProgress::Waits, "{body}");
        assert!(out.is_empty());
        assert_eq!(batch.fill(&mut out, 1000, Wait::Allowed), AnswerProgress::Done, "{body}");
        assert_eq!(out.get(0).unwrap().payload, b"payload");
        assert_eq!(batch.fill(&mut out, 1000, Wait::Allowed), AnswerProgress::Done, "and nothing more");
        assert!(out.len() <= 3);
    }
}

#[test]
fn a_batch_sees_what_comes_meanwhile() {
    let mut bench = Bench::in_memory();
    for n in 1..=3 {
        bench.put("a", "", "", n);
    }
    let mut out = MessageBuf::default();
    let readable = bench.readable();
    let mut batch = Requests::default().ask(&readable, &msg(r#"{"seq":1,"batch":2}"#), &mut out).unwrap();
    assert_eq!(batch.fill(&mut out, 1, Wait::Forbidden), AnswerProgress::More);
    bench.put("a", "", "", 4);
    assert_eq!(batch.fill(&mut out, 1, Wait::Forbidden), AnswerProgress::Done);
    let end = out.get(2).unwrap().headers;
    assert_eq!(end, b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 2\r\nNats-Last-Sequence: 2\r\n\r\n");
}

fn get(bench: &Bench, body: &str) -> Result<(Seq, String, Vec<u8>), GetRefused> {
    let mut request = GetRequest::default();
    request.read(body.as_bytes()).unwrap();
    check_message_get(&request).map_err(GetRefused::Api)?;
    let (reader, mut buffer) = (bench.stream.reader(), Vec::new());
    let message = message_get(&reader, &request, Wait::Allowed, &mut buffer)?;
    Ok((message.seq, String::from_utf8(message.subject.to_vec()).unwrap(), message.headers.to_vec()))
}

#[test]
fn message_get_finds_one_message() {
    let mut bench = Bench::in_files();
    for n in 1..=4 {
        bench.put(["a", "b"][n % 2], "NATS/1.0\r\nH: 1\r\n\r\n", "x", n as Timestamp);
    }
    let found = |body| {
        get(&bench, body).map(|(seq, ..)| seq).map_err(|refused| match refused {
            GetRefused::Api(error) => error.err_code,
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(found(r#"{"seq":2}"#), Ok(2));
    assert_eq!(found(r#"{"last_by_subj":"b"}"#), Ok(3));
    assert_eq!(found(r#"{"last_by_subj":"*"}"#), Ok(4));
    assert_eq!(found(r#"{"next_by_subj":"b","seq":2}"#), Ok(3));
    assert_eq!(found(r#"{"next_by_subj":"a"}"#), Ok(2));
    assert_eq!(found(r#"{"start_time":"1970-01-01T00:00:00.000000002Z"}"#), Ok(2));
    assert_eq!(found(r#"{"start_time":"1970-01-01T00:00:00.000000002Z","next_by_subj":"b"}"#), Ok(3));
    assert_eq!(found(r#"{"seq":2,"batch":-1,"multi_last":["a"]}"#), Ok(2), "both mean nothing here");
    for body in [r#"{"seq":9}"#, r#"{"last_by_subj":"c"}"#, r#"{"next_by_subj":"b","seq":4}"#] {
        assert_eq!(found(body), Err(10037), "{body}");
    }
    for body in [
        "{}",
        r#"{"multi_last":["a"]}"#,
        r#"{"seq":1,"batch":1}"#,
        r#"{"seq":1,"max_bytes":1}"#,
        r#"{"seq":1,"last_by_subj":"a"}"#,
        r#"{"last_by_subj":"a","next_by_subj":"a"}"#,
    ] {
        assert_eq!(found(body), Err(10003), "{body}");
    }
    assert!(!get(&bench, r#"{"seq":2}"#).unwrap().2.is_empty());
    assert!(get(&bench, r#"{"seq":2,"no_hdr":true}"#).unwrap().2.is_empty());
}

#[test]
fn the_contents_of_a_stream() {
    let mut bench = Bench::in_memory();
    let reader = bench.stream.reader();
    let empty = contents(&reader, true);
    assert_eq!((empty.first_seq, empty.last_seq, empty.first_time, empty.last_time), (1, 0, None, None));
    for n in 1..=8 {
        bench.put(["a", "b.x", "b.y"][n % 3], "", "x", n as Timestamp * 10);
    }
    [4, 8].into_iter().for_each(|seq| bench.delete(seq));
    let full = contents(&reader, true);
    assert_eq!((full.messages, full.subjects, full.num_deleted), (6, 3, 2));
    assert_eq!(full.deleted, [4..=4, 8..=8], "also behind the last message");
    assert_eq!((full.first_time, full.last_seq, full.last_time), (Some(10), 8, Some(80)));
    assert_eq!(contents(&reader, false).deleted, []);
    [1, 2].into_iter().for_each(|seq| bench.delete(seq));
    assert_eq!(contents(&reader, false).first_time, Some(30), "of the first that is left");
    bench.stream.purge(&mut myelin_store::Purge::default(), 100, 90).unwrap();
    let purged = contents(&reader, true);
    assert_eq!((purged.first_seq, purged.last_seq, purged.num_deleted), (9, 8, 0));
    assert_eq!((purged.first_time, purged.last_time), (None, Some(80)));
}

#[test]
fn pages_of_subjects() {
    let mut bench = Bench::in_memory();
    for n in 0..10_000 {
        bench.put(&format!("s.{n:05}"), "", "", 1);
    }
    bench.put("s.00007", "", "", 1);
    bench.put("t", "", "", 1);
    let reader = bench.stream.reader();
    let page = |offset| subject_page(&reader, b"s.*", offset);
    assert_eq!((page(0).total, page(0).subjects.len()), (10_000, 10_000));
    assert_eq!(page(0).subjects[7], (Box::from(&b"s.00007"[..]), 2));
    let tail = page(9_998);
    assert_eq!((tail.total, &*tail.subjects[0].0, tail.subjects.len()), (10_000, &b"s.09998"[..], 2));
    assert_eq!((page(10_001).total, page(10_001).subjects.len()), (10_000, 0));
    assert_eq!(subject_page(&reader, b"t", 0).subjects, [(Box::from(&b"t"[..]), 1)]);
    assert_eq!(subject_page(&reader, b"none.*", 0), SubjectPage::default());
}

#[test]
fn what_is_erased_meanwhile_is_passed_over() {
    let end = |pending: u64, last: u64| {
        format!("NATS/1.0 204 EOB\r\nNats-Num-Pending: {pending}\r\nNats-Last-Sequence: {last}\r\n")
    };
    for body in [r#"{"seq":1,"batch":9,"next_by_subj":"k.*"}"#, r#"{"multi_last":["k.*"]}"#] {
        let mut bench = Bench::in_memory();
        for n in 1..=5 {
            bench.put(&format!("k.{n}"), "", &n.to_string(), n);
        }
        let mut out = MessageBuf::default();
        let readable = bench.readable();
        let mut batch = Requests::default().ask(&readable, &msg(body), &mut out).unwrap();
        assert_eq!(batch.fill(&mut out, 1, Wait::Allowed), AnswerProgress::More);
        bench.stream.erase(2, 9).unwrap();
        bench.stream.erase(3, 9).unwrap();
        assert_eq!(batch.fill(&mut out, 9999, Wait::Allowed), AnswerProgress::Done);
        let said: Vec<_> = out.iter().map(|msg| msg.payload).collect();
        assert_eq!(said, [b"1", b"4", b"5", &b""[..]], "{body}");
        let headers = String::from_utf8_lossy(out.get(3).unwrap().headers).into_owned();
        assert!(headers.starts_with(&end(0, 5)), "{body}: {headers}");
    }
}
