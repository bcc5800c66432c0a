//! Publishers of atomic batches, answered as the reference answers them.

use super::super::BatchLimits;
use super::*;

const NOW: Timestamp = 1_000;

/// A publisher of the stream S, as tests talk to the reference: five messages, three batches, four
/// in all, 10 ns.
struct Publisher {
    batches: AtomicBatches,
    in_flight: Arc<InFlight>,
    replies: BatchReplies,
}

impl Publisher {
    fn new(limits: BatchLimits) -> Self {
        let in_flight = Arc::new(InFlight::new(limits));
        let batches = AtomicBatches::new(Arc::clone(&in_flight), true);
        Self { batches, in_flight, replies: BatchReplies::new("S", "", false) }
    }

    fn small() -> Self {
        Self::new(BatchLimits::configured(3, 4, 5, 10))
    }

    fn take(&mut self, batch_headers: BatchHeaders<'_>, payload: &[u8]) -> (AtomicStep, Vec<String>) {
        let headers = b"NATS/1.0\r\nA: 1\r\n\r\n";
        let msg = MessageRef { subject: b"s.x", reply: b"r", headers, payload, ..MessageRef::default() };
        let mut out = MessageBuf::default();
        let step = self.batches.take(&batch_headers, msg, NOW, &mut self.replies, &mut out);
        (step, out.iter().map(|msg| String::from_utf8(msg.payload.to_vec()).unwrap()).collect())
    }

    /// Sends a message; answers what its publisher hears, in short: `ack`, an error with the
    /// advisory's reason, or a commit with the number of messages.
    fn send(&mut self, id: &str, sequence: &str, commit: Option<&str>) -> String {
        let sequence = (!sequence.is_empty()).then_some(sequence.as_bytes());
        let commit = commit.map(str::as_bytes);
        self.short(BatchHeaders { id: id.as_bytes(), sequence, commit, api_level: None })
    }

    fn short(&mut self, batch_headers: BatchHeaders<'_>) -> String {
        let (step, said) = self.take(batch_headers, b"x");
        match (step, &said[..]) {
            (AtomicStep::Held, [said]) if said.is_empty() => "ack".into(),
            (AtomicStep::Refused { err_code, reason }, [said]) => {
                let code = err_code.to_string();
                assert!(said.contains(&format!("\"err_code\":{code},")));
                reason.map_or(code.clone(), |reason| format!("{code} {}", reason.word()))
            }
            (AtomicStep::Commit(commit), []) => format!("commit {} {}", commit.count(), commit.mark_last),
            (_, said) => panic!("{said:?}"),
        }
    }
}

/// Each answer was seen on the reference with the same limits.
#[test]
fn messages_are_answered_as_by_the_reference() {
    let mut publisher = Publisher::small();
    let (id64, id65) = ("b".repeat(64), "b".repeat(65));
    let script: &[(&str, &str, Option<&str>, &str)] = &[
        (&id65, "1", None, "10179"),
        (&id65, "", None, "10179"),
        (&id64, "1", None, "ack"),
        (&id64, "2", Some("1"), "commit 2 false"),
        ("b", "", None, "10175"),
        ("b", "x", None, "10175"),
        ("b", "18446744073709551616", None, "10175"),
        ("b", "0", None, "10176"),
        ("b", "0", Some("eob"), "10199"),
        ("b", "2", None, "10176"),
        ("b", "6", None, "10199"),
        ("b", "6", Some("eob"), "10176"),
        ("b", "7", Some("eob"), "10199"),
        ("b", "2", Some("x"), "10176"),
        ("b", "1", Some("1"), "commit 1 false"),
        ("b", "1", Some("2"), "10200"),
        ("b", "2", None, "10176"),
        ("b", "1", None, "ack"),
        ("b", "2", Some(""), "10200"),
        ("b", "3", None, "10176"),
        ("b", "1", Some("eob"), "10176 incomplete"),
        ("b", "1", None, "ack"),
        ("b", "2", Some("eob"), "commit 1 true"),
        ("b", "1", None, "ack"),
        ("b", "3", None, "10176 incomplete"),
        ("b", "1", None, "ack"),
        ("b", "1", None, "10176 incomplete"),
    ];
    for (at, (id, sequence, commit, expected)) in script.iter().enumerate() {
        assert_eq!(publisher.send(id, sequence, *commit), *expected, "step {at}");
    }
    assert!(publisher.batches.is_empty());
    assert_eq!((publisher.in_flight.open(), publisher.in_flight.held_bytes()), ((0, 0), 0));
}

#[test]
fn a_batch_has_so_many_messages_and_a_mark() {
    let ends = [(None, "10199 large"), (Some("eob"), "commit 5 true"), (Some("1"), "10199 large")];
    for (commit, expected) in ends {
        let mut publisher = Publisher::small();
        for sequence in 1..=5 {
            assert_eq!(publisher.send("b", &sequence.to_string(), None), "ack");
        }
        assert_eq!(publisher.send("b", "6", commit), expected);
        assert_eq!(publisher.send("b", "7", None), "10199");
    }
}

#[test]
fn errors_are_rendered_and_the_limit_is_named() {
    let mut publisher = Publisher::small();
    let batch_headers = BatchHeaders { id: b"b", sequence: Some(b"9"), ..BatchHeaders::default() };
    let expected = r#"{"error":{"code":400,"err_code":10199,"description":"atomic publish batch is too large: 5"},"stream":"S","seq":0}"#;
    assert_eq!(publisher.take(batch_headers, b"").1, [expected]);
}

#[test]
fn a_message_may_ask_for_a_level_that_we_have() {
    let mut publisher = Publisher::small();
    let batch_headers = BatchHeaders { id: b"b", sequence: Some(b"1"), api_level: Some(b"99"), commit: None };
    assert_eq!(publisher.short(batch_headers), "10185 unsupported");
    assert_eq!(publisher.send("b", "2", None), "10176");
    assert_eq!(publisher.short(BatchHeaders { api_level: Some(b"5"), ..batch_headers }), "ack");
    assert_eq!(publisher.send("b", "2", Some("1")), "commit 2 false");
}

#[test]
fn a_commit_hands_out_what_was_sent() {
    let mut publisher = Publisher::small();
    let batch_headers =
        |sequence, commit| BatchHeaders { id: b"b", sequence: Some(sequence), commit, api_level: None };
    publisher.take(batch_headers(b"1", None), b"one");
    let (AtomicStep::Commit(commit), _) = publisher.take(batch_headers(b"2", Some(b"1")), b"two") else {
        panic!()
    };
    let headers = b"NATS/1.0\r\nA: 1\r\n\r\n";
    let msg = |payload| MessageRef { subject: b"s.x", headers, payload, ..MessageRef::default() };
    assert_eq!(commit.messages.iter().collect::<Vec<_>>(), [msg(b"one"), msg(b"two")]);
    assert!(publisher.in_flight.held_bytes() > 0, "held until the commit is done");
    let messages = commit.done();
    assert_eq!(publisher.in_flight.held_bytes(), 0);
    publisher.batches.recycle(messages);
    publisher.take(batch_headers(b"1", None), b"three");
    let (AtomicStep::Commit(commit), _) = publisher.take(batch_headers(b"2", Some(b"eob")), b"mark") else {
        panic!()
    };
    assert_eq!(commit.messages.iter().collect::<Vec<_>>(), [msg(b"three")], "nothing of the batch before");
}

#[test]
fn streams_and_servers_have_so_many_batches() {
    let mut publisher = Publisher::small();
    for id in ["1", "2", "3"] {
        assert_eq!(publisher.send(id, "1", None), "ack");
    }
    assert_eq!(publisher.send("4", "1", None), "10210");
    assert_eq!(publisher.send("4", "1", Some("x")), "10210", "before the commit is looked at");
    assert_eq!(publisher.send("4", "2", None), "10176");
    let mut other = Publisher::small();
    other.batches = AtomicBatches::new(Arc::clone(&publisher.in_flight), true);
    assert_eq!([other.send("1", "1", None), other.send("2", "1", None)], ["ack", "10210"]);
    publisher.send("3", "2", Some("1"));
    assert_eq!(other.send("2", "1", None), "ack");
    drop((publisher.batches, other.batches));
    assert_eq!(publisher.in_flight.open(), (0, 0));
}

#[test]
fn batches_without_messages_are_given_up_with_an_advisory() {
    let mut publisher = Publisher::small();
    publisher.send("a", "1", None);
    publisher.send("b", "1", None);
    assert_eq!(publisher.batches.next_due(), Some(NOW + 10));
    assert_eq!(publisher.batches.due(NOW + 9).count(), 0);
    let due: Vec<_> = publisher.batches.due(NOW + 10).collect();
    let abandoned = |id: &[u8]| Abandoned { id: id.into(), reason: AbandonReason::Timeout };
    assert_eq!(due, [abandoned(b"a"), abandoned(b"b")]);
    assert_eq!(publisher.send("a", "2", None), "10176");
}

#[test]
fn a_stream_that_acknowledges_nothing_says_nothing() {
    let mut publisher = Publisher::small();
    publisher.replies.no_ack = true;
    let batch_headers =
        |sequence| BatchHeaders { id: b"b", sequence: Some(sequence), ..BatchHeaders::default() };
    for (sequence, reason) in [(&b"1"[..], None), (b"3", Some(AbandonReason::Incomplete))] {
        let (step, said) = publisher.take(batch_headers(sequence), b"");
        assert!(said.is_empty());
        assert_eq!(matches!(step, AtomicStep::Refused { reason: r, .. } if r == reason), reason.is_some());
    }
}

#[test]
fn without_permission_there_are_no_batches() {
    let mut publisher = Publisher::small();
    publisher.send("b", "1", None);
    publisher.batches.enable(false);
    assert_eq!(publisher.in_flight.open(), (0, 0));
    assert_eq!(publisher.send("b", "2", None), "10174");
    publisher.batches.enable(true);
    assert_eq!(publisher.send("b", "2", None), "10176");
}

#[test]
fn memory_for_held_messages_has_an_end() {
    let mut publisher = Publisher::new(BatchLimits { atomic_bytes: 128 * 1024, ..BatchLimits::default() });
    let batch_headers =
        |sequence| BatchHeaders { id: b"b", sequence: Some(sequence), ..BatchHeaders::default() };
    let large = vec![0; 60_000];
    assert!(matches!(publisher.take(batch_headers(b"1"), &large).0, AtomicStep::Held));
    assert!(matches!(publisher.take(batch_headers(b"2"), &large).0, AtomicStep::Held));
    let (step, said) = publisher.take(batch_headers(b"3"), &large);
    assert!(
        matches!(step, AtomicStep::Refused { reason: Some(AbandonReason::Large), err_code: 10210 })
            && said[0].contains("10210")
    );
    assert_eq!((publisher.in_flight.open(), publisher.in_flight.held_bytes()), ((0, 0), 0));
}
