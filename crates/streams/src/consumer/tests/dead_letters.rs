//! Dead messages move to another stream, and are settled when that has them.

use super::turns::{Bench, SECOND, config, stream};
use crate::consumer::{ConsumerCore, ConsumerEvent, DeadLetterNews, DeliverOutcome};
use myelin_jsapi::api::why::ConsumerCause;
use myelin_jsapi::consumer::config::ConsumerConfig;
use myelin_stdx::base64;
use myelin_store::consumer::{Death, DeliverySeq, Delta};
use myelin_store::{Seq, Wait};
use myelin_wire::message_buf::MessageRef;

fn moving(on: &str, max_deliver: i64) -> ConsumerConfig {
    let keys = [("myelin.dlq.stream", "D"), ("myelin.dlq.on", on)];
    let metadata = keys.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    ConsumerConfig { max_deliver, metadata: metadata.collect(), ..config() }
}

/// A message that has left the consumer: where it goes, and where its answer is awaited.
#[derive(Clone, Debug)]
struct Left {
    subject: String,
    reply: String,
    payload: String,
}

fn left(bench: &mut Bench) -> Vec<Left> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let confirmations = std::mem::take(&mut bench.effects.confirmations);
    let left = |msg: MessageRef<'_>| Left {
        subject: text(msg.subject),
        reply: text(msg.reply),
        payload: text(msg.payload),
    };
    confirmations.iter().map(left).collect()
}

fn seqs(letters: &[Left]) -> Vec<Seq> {
    let seq = |letter: &Left| letter.subject.rsplit('.').next().and_then(|seq| seq.parse().ok());
    letters.iter().filter_map(seq).collect()
}

fn answer(bench: &mut Bench, letter: &Left, payload: &str) {
    let (subject, payload) = (letter.reply.as_bytes(), payload.as_bytes());
    bench.turn(|core, turn| {
        core.dead_letter_answered(&MessageRef { subject, payload, ..MessageRef::default() }, turn);
    });
}

/// Answer to a look: the letter of this consumer's message 1.
fn found(subject: &str, consumer: &str) -> String {
    let headers = format!(
        "NATS/1.0\r\nMyelin-DLQ-Stream: S\r\nMyelin-DLQ-Consumer: {consumer}\r\nMyelin-DLQ-Sequence: 1\r\n\r\n"
    );
    let headers = base64::encode(headers.as_bytes());
    format!(r#"{{"message":{{"subject":"{subject}","seq":1,"hdrs":"{headers}"}}}}"#)
}

const DUPLICATE: &str = r#"{"stream":"D","seq":1,"duplicate":true}"#;
const OCCUPIED: &str = r#"{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 1"}}"#;
const NOTHING: &str = r#"{"error":{"code":404,"err_code":10037,"description":"no message found"}}"#;

fn answer_delivery(bench: &mut Bench, at: usize, body: &str) {
    let deliveries = bench.effects.out.iter().filter(|msg| !msg.to.is_empty());
    let reply = deliveries.map(|msg| msg.reply.to_vec()).nth(at).expect("it was delivered");
    let msg = MessageRef { subject: &reply, payload: body.as_bytes(), ..MessageRef::default() };
    bench.turn(|core, turn| {
        let ack = crate::consumer::AckSubject::read(msg.subject).expect("it is one");
        core.acknowledge(&ack, &msg, turn);
    });
}

fn pending(bench: &Bench) -> Vec<Seq> {
    bench.core.state_handle().read(|state| state.pending().iter().map(|(seq, _)| seq).collect())
}

/// Lets time pass until something leaves. Answers also after how many milliseconds.
fn wait(bench: &mut Bench) -> (Vec<Left>, i64) {
    let began = bench.now;
    for _ in 0..100 {
        bench.now = bench.core.next_due(bench.now).expect("something is due").max(bench.now);
        bench.turn(ConsumerCore::due);
        bench.deliver();
        let letters = left(bench);
        if !letters.is_empty() {
            return (letters, (bench.now - began) / 1_000_000);
        }
    }
    panic!("nothing leaves");
}

#[test]
fn what_is_exhausted_moves_and_is_settled_when_the_other_stream_has_it() {
    let stream = stream(&["a", "a"]);
    let mut bench = Bench::new(&stream, moving("both", 2));
    assert_eq!(bench.ask(0, "2"), [1, 2]);
    assert_eq!(bench.ask(2 * SECOND, "2"), [1, 2]);
    // Nobody asks: it dies all the same.
    bench.now += 2 * SECOND;
    bench.turn(ConsumerCore::due);
    let died: Vec<_> = bench
        .effects
        .events
        .iter()
        .filter(|event| matches!(event, ConsumerEvent::MaxDeliveries { .. }))
        .collect();
    assert_eq!(died.len(), 2, "that is told as ever");
    bench.deliver();
    let letters = left(&mut bench);
    assert_eq!(seqs(&letters), [1, 2]);
    assert_eq!(letters[0].subject, "dlq.S.C.1.1");
    assert_eq!(bench.ask(2 * SECOND, "2"), [0; 0], "it is not delivered any more");
    assert_eq!(pending(&bench), [1, 2], "it is kept");
    assert_eq!(left(&mut bench).len(), 0, "it is on its way");
    answer(&mut bench, &letters[0], r#"{"stream":"D","seq":1}"#);
    assert_eq!(pending(&bench), [2]);
    answer(&mut bench, &letters[0], r#"{"stream":"D","seq":1}"#);
    answer(&mut bench, &letters[1], r#"{"stream":"D","seq":2,"duplicate":true}"#);
    assert_eq!(pending(&bench), [2], "whose it is is looked for");
    let look = left(&mut bench);
    answer(&mut bench, &look[0], NOTHING);
    assert_eq!(pending(&bench), [0; 0], "it was there, and was removed: its id is nobody else's");
}

#[test]
fn what_a_client_terminates_moves_where_that_counts() {
    for (on, moves) in [("both", true), ("terminated", true), ("exhausted", false)] {
        let mut bench = Bench::new(&stream(&["a"]), moving(on, 5));
        assert_eq!(bench.ask(0, "1"), [1]);
        answer_delivery(&mut bench, 0, "+TERM no such customer");
        bench.deliver();
        let letters = left(&mut bench);
        assert_eq!(seqs(&letters).len(), usize::from(moves), "{on}");
        assert_eq!(pending(&bench).len(), usize::from(moves), "{on}");
    }
}

/// A client has terminated the only message, and its dead letter has left.
fn terminated() -> (Bench, Vec<Left>) {
    let mut bench = Bench::new(&stream(&["a"]), moving("both", 5));
    bench.ask(0, "1");
    answer_delivery(&mut bench, 0, "+TERM");
    bench.deliver();
    let letters = left(&mut bench);
    (bench, letters)
}

#[test]
fn who_begins_anew_moves_what_was_not_settled() {
    let (mut bench, first) = terminated();
    bench.turn(|core, turn| core.reopen("S", 9, turn.now));
    bench.deliver();
    let second = left(&mut bench);
    assert_eq!((seqs(&first), seqs(&second)), (vec![1], vec![1]));
    assert_eq!(first[0].subject, second[0].subject, "the same one");
    answer(&mut bench, &first[0], r#"{"stream":"D","seq":1}"#);
    assert_eq!(pending(&bench), [1], "an answer to another life is none");
    answer(&mut bench, &second[0], OCCUPIED);
    assert_eq!(pending(&bench), [1], "it is looked for");
    let look = left(&mut bench);
    assert_eq!(look[0].subject, "$JS.API.STREAM.MSG.GET.D");
    answer(&mut bench, &look[0], &found(&first[0].subject, "C"));
    assert_eq!(pending(&bench), [0; 0]);
}

/// As [`terminated`], with a subject that other consumers have, too.
fn terminated_beside_others() -> (Bench, Vec<Left>) {
    let mut config = moving("both", 5);
    config.metadata.insert("myelin.dlq.subject".to_owned(), "dead.all".to_owned());
    let mut bench = Bench::new(&stream(&["a"]), config);
    bench.ask(0, "1");
    answer_delivery(&mut bench, 0, "+TERM");
    bench.deliver();
    let letters = left(&mut bench);
    assert_eq!(letters[0].subject, "dead.all.1.1");
    (bench, letters)
}

#[test]
fn in_the_place_of_another_ones_letter_it_goes_to_one_of_its_own() {
    for known in [DUPLICATE, OCCUPIED] {
        let (mut bench, first) = terminated_beside_others();
        answer(&mut bench, &first[0], known);
        let look = left(&mut bench);
        assert_eq!(look[0].payload, r#"{"last_by_subj":"dead.all.1.1"}"#);
        answer(&mut bench, &look[0], &found("dead.all.1.1", "OTHER"));
        assert_eq!(pending(&bench), [1], "{known}: it is not that of this consumer");
        bench.deliver();
        let apart = left(&mut bench);
        assert_eq!(apart[0].subject, "dead.all.1/S/C.1");
        answer(&mut bench, &first[0], DUPLICATE);
        answer(&mut bench, &look[0], &found("dead.all.1.1", "OTHER"));
        assert_eq!((left(&mut bench).len(), pending(&bench)), (0, vec![1]), "late answers mean nothing");
        answer(&mut bench, &apart[0], OCCUPIED);
        let look = left(&mut bench);
        answer(&mut bench, &look[0], &found("dead.all.1/S/C.1", "C"));
        assert_eq!(pending(&bench), [0; 0], "{known}");
    }
}

#[test]
fn who_begins_anew_looks_first_whether_a_letter_has_gone_to_a_place_of_its_own() {
    for is_there in [true, false] {
        let (mut bench, _) = terminated_beside_others();
        bench.turn(|core, turn| core.reopen("S", 9, turn.now));
        bench.deliver();
        let look = left(&mut bench);
        assert_eq!(look.len(), 1);
        assert_eq!(look[0].payload, r#"{"last_by_subj":"dead.all.1/S/C.1"}"#);
        if is_there {
            answer(&mut bench, &look[0], &found("dead.all.1/S/C.1", "C"));
        } else {
            answer(&mut bench, &look[0], NOTHING);
            bench.deliver();
            let letter = left(&mut bench);
            assert_eq!(letter[0].subject, "dead.all.1.1", "an older build may have published it there");
            answer(&mut bench, &letter[0], DUPLICATE);
            let look = left(&mut bench);
            answer(&mut bench, &look[0], &found("dead.all.1.1", "C"));
        }
        assert_eq!(pending(&bench), [0; 0], "{is_there}");
    }
}

#[test]
fn a_refusal_is_told_once_and_tried_again_after_growing_pauses() {
    let mut bench = Bench::new(&stream(&["a", "a"]), moving("both", 5));
    bench.ask(0, "2");
    answer_delivery(&mut bench, 0, "+TERM");
    answer_delivery(&mut bench, 1, "+TERM");
    bench.effects.events.clear();
    bench.deliver();
    let full = r#"{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"}}"#;
    let (mut letters, mut pauses) = (left(&mut bench), Vec::new());
    for _ in 0..4 {
        assert_eq!(letters.len(), 2);
        letters.iter().for_each(|letter| answer(&mut bench, letter, full));
        let pause;
        (letters, pause) = wait(&mut bench);
        pauses.push(pause);
    }
    assert_eq!(pauses, [250, 500, 1000, 2000]);
    let why = bench.turn(|core, turn| core.why(turn));
    let waits = why.iter().find_map(|(_, cause)| match cause {
        ConsumerCause::DeadLettersWait { messages, refusal, .. } => Some((*messages, refusal.clone())),
        _ => None,
    });
    assert_eq!(waits, Some((2, Some("maximum messages exceeded (10077)".to_owned()))));
    letters.iter().for_each(|letter| answer(&mut bench, letter, r#"{"stream":"D","seq":1}"#));
    assert_eq!(pending(&bench), [0; 0]);
    let news: Vec<_> = bench.effects.events.drain(..).collect();
    let stream = "D".to_owned();
    let why = "maximum messages exceeded (10077)".to_owned();
    let expected = [
        ConsumerEvent::DeadLetters(DeadLetterNews::Refused { stream: stream.clone(), why }),
        ConsumerEvent::DeadLetters(DeadLetterNews::Taken { stream }),
    ];
    assert_eq!(news, expected);
}

#[test]
fn where_nobody_listens_that_is_why_they_wait() {
    let (mut bench, _) = terminated();
    bench.clients.are_away = true;
    let refusal = |bench: &mut Bench| {
        let why = bench.turn(ConsumerCore::why);
        why.iter().find_map(|(_, cause)| match cause {
            ConsumerCause::DeadLettersWait { refusal, .. } => Some(refusal.clone()),
            _ => None,
        })
    };
    let nobody = "nobody takes dlq.S.C.1.1: stream D is not there, or does not listen to it".to_owned();
    assert_eq!(refusal(&mut bench), Some(Some(nobody.clone())), "before its patience is over");
    bench.now += 10 * SECOND;
    bench.turn(ConsumerCore::due);
    bench.deliver();
    assert_eq!(refusal(&mut bench), Some(Some(nobody)));
}

#[test]
fn without_an_answer_it_is_published_again() {
    let (mut bench, first) = terminated();
    let (second, pause) = wait(&mut bench);
    assert!(pause > 5_000, "{pause}");
    assert_eq!(first[0].subject, second[0].subject);
}

#[test]
fn without_the_metadata_what_was_dead_is_given_up() {
    let mut bench = Bench::new(&stream(&["a"]), moving("both", 2));
    bench.ask(0, "1");
    answer_delivery(&mut bench, 0, "+TERM");
    let plain = ConsumerConfig { max_deliver: 2, ..config() };
    bench.turn(|core, turn| core.update(plain.into(), "S", 1, turn));
    assert_eq!(bench.ask(2 * SECOND, "1"), [0; 0]);
    assert_eq!(pending(&bench), [0; 0]);
    let redelivered = bench.core.state_handle().read(|state| state.redelivered().get(&1).copied());
    assert_eq!(redelivered.and_then(Death::read), Some(Death::Terminated), "and stays in its stream");
}

#[test]
fn without_the_metadata_what_a_client_has_terminated_does_not_come_again() {
    let (mut bench, _) = terminated();
    let unlimited = ConsumerConfig { max_deliver: -1, ..config() };
    bench.turn(|core, turn| core.update(unlimited.into(), "S", 1, turn));
    bench.now += 60 * SECOND;
    bench.turn(ConsumerCore::due);
    assert_eq!(pending(&bench), [0; 0], "it is settled, also where nobody asks for messages");
    assert_eq!(bench.ask(62 * SECOND, "1"), [0; 0]);
}

#[test]
fn messages_come_again_after_pauses_of_their_own() {
    let mut config = moving("both", 3);
    let backoff = "min=4s,factor=2,jitter=0".to_owned();
    config.metadata.insert("myelin.dlq.backoff".to_owned(), backoff);
    let mut bench = Bench::new(&stream(&["a"]), config);
    assert_eq!(bench.ask(0, "1"), [1]);
    // A second for the acknowledgement, and four.
    assert_eq!(bench.ask(4 * SECOND, "1"), [0; 0]);
    assert_eq!(bench.ask(2 * SECOND, "1"), [1]);
    answer_delivery(&mut bench, 0, "-NAK");
    assert_eq!(bench.ask(7 * SECOND, "1"), [0; 0]);
    assert_eq!(bench.ask(2 * SECOND, "1"), [1]);
    answer_delivery(&mut bench, 0, "-NAK");
    bench.deliver();
    assert_eq!(seqs(&left(&mut bench)), [1], "it is dead at once");
}

#[test]
fn a_client_may_ask_for_another_pause() {
    let mut config = moving("both", 3);
    config.metadata.insert("myelin.dlq.backoff".to_owned(), "min=40s,jitter=0".to_owned());
    let mut bench = Bench::new(&stream(&["a"]), config);
    assert_eq!(bench.ask(0, "1"), [1]);
    answer_delivery(&mut bench, 0, "-NAK 2s");
    assert_eq!(bench.ask(SECOND, "1"), [0; 0]);
    assert_eq!(bench.ask(2 * SECOND, "1"), [1]);
}

fn exhausted_news(bench: &mut Bench) -> Vec<(Seq, u64)> {
    let events = bench.effects.events.drain(..);
    let exhausted = events.filter_map(|event| match event {
        ConsumerEvent::MaxDeliveries { seq, deliveries } => Some((seq, deliveries)),
        _ => None,
    });
    exhausted.collect()
}

#[test]
fn what_is_dead_is_not_wanted_again() {
    let mut bench = Bench::new(&stream(&["a", "a"]), moving("both", 2));
    bench.ask(0, "2");
    bench.ask(2 * SECOND, "2");
    bench.effects.events.clear();
    answer_delivery(&mut bench, 0, "-NAK");
    assert_eq!(exhausted_news(&mut bench), [(1, 2)]);
    for late in ["-NAK", "-NAK", "-NAK 5s"] {
        answer_delivery(&mut bench, 0, late);
        assert_eq!(bench.core.redelivery.len(), 0, "{late}");
        assert_eq!(bench.effects.events, [], "{late}");
    }
    let elsewhere = ConsumerConfig { deliver_subject: "elsewhere".into(), ..moving("both", 2) };
    bench.turn(|core, turn| core.update(elsewhere.into(), "S", 1, turn));
    let queued: Vec<Seq> = bench.core.redelivery.waiting().collect();
    assert_eq!(queued, [2], "all come again but what is dead");
    let why = bench.turn(ConsumerCore::why);
    let dead = why.iter().find_map(|(_, cause)| match cause {
        ConsumerCause::DeadLettersWait { messages, .. } => Some(*messages),
        _ => None,
    });
    assert_eq!(dead, Some(1), "{why:?}");
    assert!(why.iter().all(|(_, cause)| cause.word() != "redelivery_waits"), "the other is due: {why:?}");
}

#[test]
fn deliveries_are_told_without_the_death_that_is_in_their_count() {
    let mut bench = Bench::new(&stream(&["a"]), moving("both", 2));
    bench.ask(0, "1");
    answer_delivery(&mut bench, 0, "+TERM");
    let plain = ConsumerConfig { max_deliver: 2, ..config() };
    bench.turn(|core, turn| core.update(plain.into(), "S", 1, turn));
    bench.effects.events.clear();
    bench.now += 2 * SECOND;
    bench.turn(ConsumerCore::due);
    assert_eq!(exhausted_news(&mut bench), [(1, 1)]);
}

#[test]
fn a_letter_that_is_never_taken_comes_again_after_pauses_of_its_own() {
    let mut bench = Bench::new(&stream(&["a"; 40]), moving("both", 5));
    bench.ask(0, "40");
    let refusal = r#"{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum"}}"#;
    let mut tries = 0;
    for at in 0..40 {
        answer_delivery(&mut bench, at, "+TERM");
        bench.deliver();
        for letter in left(&mut bench) {
            let is_first = letter.subject.ends_with(".1");
            tries += u32::from(is_first);
            answer(&mut bench, &letter, if is_first { refusal } else { r#"{"stream":"D","seq":1}"# });
            bench.now += SECOND / 10;
        }
        bench.now += SECOND / 10;
        bench.turn(ConsumerCore::due);
    }
    assert_eq!(pending(&bench), [1], "the others are there");
    assert!((3..7).contains(&tries), "after 0.25, 0.5, 1, 2 seconds and so on: {tries} tries in eight");
    let why = bench.turn(ConsumerCore::why);
    let waits = why.iter().find_map(|(_, cause)| match cause {
        ConsumerCause::DeadLettersWait { refusal, retry_at, .. } => Some((refusal.clone(), *retry_at)),
        _ => None,
    });
    let (refusal, retry_at) = waits.expect("it waits");
    assert_eq!(refusal.as_deref(), Some("message size exceeds maximum (10054)"));
    assert!(retry_at.is_some_and(|at| at > bench.now), "{retry_at:?}");
}

#[test]
fn who_waits_for_its_own_pauses_is_used() {
    let mut config = moving("both", 3);
    config.metadata.insert("myelin.dlq.backoff".to_owned(), "min=40s,jitter=0".to_owned());
    config.inactive_threshold = 5 * SECOND;
    let mut bench = Bench::new(&stream(&["a"]), config);
    assert_eq!(bench.ask(0, r#"{"batch":1,"no_wait":true}"#), [1]);
    bench.now += 30 * SECOND;
    // First it is seen until when it was used.
    bench.turn(ConsumerCore::due);
    bench.turn(ConsumerCore::due);
    assert!(!bench.effects.is_over, "a message comes again, which would be forgotten with it");
    bench.now += 20 * SECOND;
    bench.turn(ConsumerCore::due);
    assert!(bench.effects.is_over, "nobody has asked for it");
}

#[test]
fn only_keys_of_dead_letters_begin_them_anew() {
    let (mut bench, _) = terminated();
    let with = |key: &str, value: &str| {
        let mut config = ConsumerConfig { max_deliver: 7, ..moving("both", 7) };
        config.metadata.insert(key.to_owned(), value.to_owned());
        config
    };
    bench.turn(|core, turn| core.update(with("owner", "x").into(), "S", 2, turn));
    bench.deliver();
    assert_eq!(left(&mut bench).len(), 0, "it is on its way");
    let other = with("myelin.dlq.stream", "E");
    bench.turn(|core, turn| core.update(other.into(), "S", 3, turn));
    bench.deliver();
    assert_eq!(left(&mut bench).len(), 1, "another stream takes it");
}

#[test]
fn a_dead_message_that_is_damaged_is_told_and_passed_over() {
    const LOST: Seq = 5;
    let (_store, stream) = super::left::stream_with_losses();
    let mut bench = Bench::new(&stream, config());
    let died = |delivery, seq| {
        let (delivery, count, timestamp) = (DeliverySeq(delivery), Death::Terminated.count(1), SECOND);
        Delta::Delivered { delivery, seq, count, timestamp }
    };
    bench.core.state_handle().apply_all(&[died(1, LOST), died(2, 9)]);
    (bench.core.deliverer.next_delivery, bench.core.deliverer.outstanding) = (3, 2);
    bench.turn(|core, turn| core.update(moving("both", 5).into(), "S", 1, turn));
    let mut buffer = Vec::new();
    for _ in 0..10 {
        match bench.turn(ConsumerCore::deliver) {
            DeliverOutcome::More => {}
            DeliverOutcome::Cold(seq) => {
                let _ = stream.reader().get(seq, Wait::Allowed, &mut buffer);
            }
            _ => break,
        }
    }
    assert_eq!(seqs(&left(&mut bench)), [9]);
    assert_eq!(pending(&bench), [9]);
    let told = |event: &&ConsumerEvent| matches!(event, ConsumerEvent::Terminated(one, _) if one.seq == LOST);
    assert_eq!(bench.effects.events.iter().filter(told).count(), 1, "{:?}", bench.effects.events);
}
