//! Streams with schedules, in virtual time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use myelin_broker::Letter;
use myelin_store::{Filter, Purge, Stream, Timestamp, Wait};

use super::{Bench, NOW, config, error};
use crate::config::{Discard, StreamConfig};
use crate::stream::{Budget, Change, Effects, Ledger, Page, Settings, Shot, StreamCore, shape};

const SECOND: Timestamp = 1_000_000_000;
const HOUR: Timestamp = 3600 * SECOND;

fn scheduling() -> StreamConfig {
    StreamConfig {
        subjects: vec!["s.>".into(), "t.>".into()],
        allow_msg_schedules: true,
        allow_msg_ttl: true,
        allow_rollup_hdrs: true,
        ..config()
    }
}

fn ack(seq: u64) -> String {
    format!(r#"{{"stream":"S","seq":{seq}}}"#)
}

/// Publishes a schedule.
fn plan(bench: &mut Bench, subject: &str, pattern: &str, others: &[&str]) -> String {
    let pattern = format!("Nats-Schedule: {pattern}");
    let lines: Vec<&str> = [pattern.as_str()].into_iter().chain(others.iter().copied()).collect();
    bench.publish(subject, &lines, "body")
}

const TO_A: &str = "Nats-Schedule-Target: t.a";

/// Lets time pass until `until`, and does what is due at its time.
fn pass(bench: &mut Bench, until: Timestamp) {
    while let Some(due) = bench.core.next_due().filter(|due| *due <= until) {
        bench.now = due.max(bench.now);
        bench.core.due(bench.now, &mut bench.effects);
    }
    bench.now = until;
}

/// Sequences, subjects and header lines of what is stored.
fn stored(bench: &Bench) -> Vec<(u64, String, String)> {
    let mut cursor = bench.core.reader().cursor(Filter::All, 0);
    let mut all = Vec::new();
    while let Some(message) = cursor.next(Wait::Allowed).unwrap() {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let lines = text(message.headers).replace("NATS/1.0\r\n", "").trim_end().replace("\r\n", ", ");
        all.push((message.seq, text(message.subject), lines));
    }
    all
}

fn subjects(bench: &Bench) -> Vec<String> {
    stored(bench).into_iter().map(|(seq, subject, _)| format!("{seq} {subject}")).collect()
}

/// The same stream after a crash: all that is not in its log is gone.
fn restart(bench: Bench, now: Timestamp) -> Bench {
    let Bench { mut core, .. } = bench;
    let config = Arc::clone(core.config());
    let fresh = Stream::in_memory(shape(&config, false), 1, NOW);
    let store = std::mem::replace(core.store_mut(), fresh);
    let core = StreamCore::new(config, store, Settings::default(), now);
    Bench { core, now, effects: Effects::default() }
}

#[test]
fn a_moment_comes_once_and_the_schedule_goes() {
    let mut bench = Bench::new(scheduling());
    let others = [TO_A, "A: b", "Nats-Schedule-TTL: 100s", "Nats-Msg-Id: i", "Nats-Schedule-Rollup: sub"];
    // 2023-11-14T22:13:20Z is now.
    assert_eq!(plan(&mut bench, "s.a", "@at 2023-11-14T22:14:20.25Z", &others), ack(1));
    let kept = "Nats-Schedule: @at 2023-11-14T22:14:20.25Z, Nats-Schedule-Target: t.a, A: b, Nats-Schedule-TTL: 100s, Nats-Msg-Id: i, Nats-Schedule-Rollup: sub, Nats-Rollup: sub";
    assert_eq!(stored(&bench), [(1, "s.a".into(), kept.into())]);
    let due = NOW + 60 * SECOND + SECOND / 4;
    pass(&mut bench, NOW);
    assert_eq!(bench.core.next_due(), Some(due));
    pass(&mut bench, due - 1);
    assert_eq!(subjects(&bench), ["1 s.a"]);
    pass(&mut bench, due);
    let fired = "A: b, Nats-Scheduler: s.a, Nats-Schedule-Next: purge, Nats-TTL: 100s, Nats-Rollup: sub";
    assert_eq!(stored(&bench), [(2, "t.a".into(), fired.into())]);
    let mut buffer = Vec::new();
    let message = bench.core.reader().get(2, Wait::Allowed, &mut buffer).unwrap().expect("it is there");
    assert_eq!((message.payload, message.timestamp), (&b"body"[..], due));
    assert_eq!(message.expires, Some(due + 100 * SECOND));
    let mut bench = restart(bench, due);
    pass(&mut bench, due + 10 * SECOND);
    assert_eq!(subjects(&bench), ["2 t.a"]);
}

#[test]
fn a_moment_that_has_passed_comes_at_once() {
    let mut bench = Bench::new(scheduling());
    plan(&mut bench, "s.a", "@at 2020-01-01T00:00:00Z", &[TO_A]);
    assert!(bench.core.next_due().is_some_and(|due| due <= NOW));
    pass(&mut bench, NOW + 1);
    assert_eq!(subjects(&bench), ["2 t.a"]);
}

#[test]
fn what_repeats_says_when_it_comes_next() {
    let mut bench = Bench::new(scheduling());
    plan(&mut bench, "s.a", "@every 20s", &[TO_A]);
    pass(&mut bench, NOW + 45 * SECOND);
    let lines: Vec<String> = stored(&bench).into_iter().skip(1).map(|(.., lines)| lines).collect();
    assert_eq!(
        lines,
        [
            "Nats-Scheduler: s.a, Nats-Schedule-Next: 2023-11-14T22:14:00Z",
            "Nats-Scheduler: s.a, Nats-Schedule-Next: 2023-11-14T22:14:20Z",
        ]
    );
    plan(
        &mut bench,
        "s.b",
        "0 0 0 * * *",
        &["Nats-Schedule-Target: t.b", "Nats-Schedule-Time-Zone: Europe/Berlin"],
    );
    bench
        .core
        .purge(
            &mut Purge { filter: Some(Filter::new(b"s.a")), through: 99, ..Purge::default() },
            NOW,
            &mut Effects::default(),
        )
        .unwrap();
    pass(&mut bench, NOW + HOUR);
    let last = stored(&bench).pop().expect("it came");
    assert_eq!(last.2, "Nats-Scheduler: s.b, Nats-Schedule-Next: 2023-11-16T00:00:00+01:00");
}

#[test]
fn a_year_of_a_pattern_comes_day_by_day() {
    let mut bench = Bench::new(StreamConfig { max_msgs_per_subject: 1000, ..scheduling() });
    let zone = "Nats-Schedule-Time-Zone: America/New_York";
    plan(&mut bench, "s.a", "0 30 9 * * mon-fri", &[TO_A, zone]);
    pass(&mut bench, NOW + 365 * 24 * HOUR);
    let mut cursor = bench.core.reader().cursor(Filter::new(b"t.a"), 0);
    let mut times = Vec::new();
    while let Some(message) = cursor.next(Wait::Allowed).unwrap() {
        times.push(message.timestamp);
    }
    assert_eq!(times.len(), 261);
    let zone = jiff::tz::TimeZone::get("America/New_York").unwrap();
    for time in times {
        let at = jiff::Timestamp::from_nanosecond(i128::from(time)).unwrap().to_zoned(zone.clone());
        assert_eq!((at.hour(), at.minute(), at.second(), at.subsec_nanosecond()), (9, 30, 0, 0));
        assert!(at.weekday().to_monday_one_offset() <= 5);
    }
}

/// Observed at the reference: it looks for the first line, which says nothing.
#[test]
fn an_empty_rollup_is_none() {
    let mut bench = Bench::new(scheduling());
    plan(&mut bench, "s.a", "@every 1h", &[TO_A]);
    plan(&mut bench, "s.a", "@every 1h", &[TO_A, "Nats-Rollup: "]);
    assert_eq!(subjects(&bench), ["1 s.a", "2 s.a"]);
    assert!(stored(&bench)[1].2.ends_with("Nats-Rollup: sub"));
}

#[test]
fn missed_repeats_are_one() {
    let mut bench = Bench::new(scheduling());
    plan(&mut bench, "s.a", "@every 1m", &[TO_A]);
    let mut bench = restart(bench, NOW + HOUR);
    pass(&mut bench, NOW + HOUR);
    let fired = "Nats-Scheduler: s.a, Nats-Schedule-Next: 2023-11-14T23:14:20Z";
    assert_eq!(stored(&bench)[1..], [(2, "t.a".into(), fired.into())]);
    // What was said is what holds after a crash.
    let mut bench = restart(bench, NOW + HOUR + SECOND);
    pass(&mut bench, NOW + HOUR + 59 * SECOND);
    assert_eq!(bench.last(), 2);
    pass(&mut bench, NOW + HOUR + 60 * SECOND);
    assert_eq!(bench.last(), 3);
}

#[test]
fn what_was_fired_and_taken_away_is_not_fired_again() {
    let mut bench = Bench::new(scheduling());
    plan(&mut bench, "s.a", "@every 1m", &[TO_A]);
    pass(&mut bench, NOW + 61 * SECOND);
    assert!(bench.core.delete(2, bench.now, &mut Effects::default()).unwrap());
    let mut bench = restart(bench, NOW + 100 * SECOND);
    pass(&mut bench, NOW + 119 * SECOND);
    assert_eq!(bench.last(), 2);
    pass(&mut bench, NOW + 121 * SECOND);
    assert_eq!(bench.last(), 3);
}

#[test]
fn what_was_fired_before_other_messages_is_not_fired_again() {
    let mut bench = Bench::new(scheduling());
    plan(&mut bench, "s.a", "@every 1m", &[TO_A]);
    pass(&mut bench, NOW + 61 * SECOND);
    assert!(bench.core.delete(2, bench.now, &mut Effects::default()).unwrap());
    bench.now = NOW + 90 * SECOND;
    bench.publish("t.other", &[], "x");
    let mut bench = restart(bench, NOW + 100 * SECOND);
    pass(&mut bench, NOW + 119 * SECOND);
    assert_eq!(subjects(&bench), ["1 s.a", "3 t.other"]);
    pass(&mut bench, NOW + 151 * SECOND);
    assert_eq!(subjects(&bench).len(), 3);
}

#[test]
fn newer_messages_of_its_subject_end_a_schedule() {
    let mut bench = Bench::new(scheduling());
    plan(&mut bench, "s.a", "@every 10s", &[TO_A]);
    plan(&mut bench, "s.a", "@every 30s", &[TO_A]);
    assert_eq!(subjects(&bench), ["2 s.a"]);
    pass(&mut bench, NOW + 29 * SECOND);
    assert_eq!(bench.last(), 2);
    pass(&mut bench, NOW + 30 * SECOND);
    assert_eq!(subjects(&bench), ["2 s.a", "3 t.a"]);
    bench.publish("s.a", &[], "an end");
    pass(&mut bench, NOW + HOUR);
    assert_eq!(bench.last(), 4);
    let mut bench = restart(bench, NOW + HOUR);
    pass(&mut bench, NOW + 2 * HOUR);
    assert_eq!(bench.last(), 4);
}

#[test]
fn a_schedule_that_is_removed_does_not_come() {
    for removal in 0..3 {
        let mut bench = Bench::new(scheduling());
        let ttl = if removal == 0 { "Nats-TTL: 5s" } else { "A: b" };
        plan(&mut bench, "s.a", "@at 2023-11-14T22:13:30Z", &[TO_A, ttl]);
        let mut effects = Effects::default();
        match removal {
            0 => {}
            1 => assert!(bench.core.delete(1, NOW, &mut effects).unwrap()),
            _ => drop(bench.core.purge(&mut Purge::default(), NOW, &mut effects).unwrap()),
        }
        pass(&mut bench, NOW + HOUR);
        assert_eq!((bench.last(), stored(&bench).len()), (1, 0), "{removal}");
    }
}

#[test]
fn a_zone_is_looked_at_without_a_pattern() {
    let mut bench = Bench::new(scheduling());
    let invalid = error(400, 10223, "message schedules time zone is invalid");
    for zone in ["", "Nowhere", "europe/berlin"] {
        assert_eq!(bench.publish("s.a", &[&format!("Nats-Schedule-Time-Zone: {zone}")], "x"), invalid);
    }
    assert_eq!(bench.publish("s.a", &["Nats-Schedule-Time-Zone: Europe/Berlin"], "x"), ack(1));
    let mut plain = Bench::new(config());
    let disabled = error(400, 10188, "message schedules is disabled");
    assert_eq!(plain.publish("s.a", &["Nats-Schedule-Time-Zone: Nowhere"], "x"), disabled);
}

#[test]
fn a_client_may_end_a_schedule() {
    let mut bench = Bench::new(scheduling());
    plan(&mut bench, "s.a", "@every 10s", &[TO_A]);
    bench.publish("s.plain", &[], "x");
    let invalid = error(400, 10212, "message schedules invalid scheduler");
    let end = |of: &str| format!("Nats-Scheduler: {of}");
    let next = "Nats-Schedule-Next: purge";
    assert_eq!(bench.publish("t.a", &[next, &end("s.plain")], ""), invalid);
    assert_eq!(bench.publish("t.a", &["Nats-Schedule-Next: 2030-01-01T00:00:00Z", &end("s.a")], ""), invalid);
    assert_eq!(bench.publish("t.a", &[next, &end("s.none")], ""), ack(3));
    assert_eq!(bench.publish("t.a", &[next, &end("s.a")], ""), ack(4));
    assert_eq!(subjects(&bench), ["2 s.plain", "3 t.a", "4 t.a"]);
    pass(&mut bench, NOW + HOUR);
    assert_eq!(bench.last(), 4);
}

#[test]
fn the_last_message_of_a_source_is_sampled() {
    let mut bench = Bench::new(scheduling());
    plan(&mut bench, "s.a", "@every 10s", &[TO_A, "Own: 1", "Nats-Schedule-Source: t.source"]);
    pass(&mut bench, NOW + 10 * SECOND);
    bench.publish("t.source", &["B: c", "Nats-Msg-Id: x"], "first");
    bench.publish("t.source", &["B: d"], "second");
    pass(&mut bench, NOW + 20 * SECOND);
    let lines: Vec<_> = stored(&bench).into_iter().filter(|(_, subject, _)| subject == "t.a").collect();
    assert_eq!(lines[0].2, "Own: 1, Nats-Scheduler: s.a, Nats-Schedule-Next: 2023-11-14T22:13:40Z");
    assert_eq!(lines[1].2, "B: d, Nats-Scheduler: s.a, Nats-Schedule-Next: 2023-11-14T22:13:50Z");
    let mut buffer = Vec::new();
    assert_eq!(bench.core.reader().get(5, Wait::Allowed, &mut buffer).unwrap().unwrap().payload, b"second");
}

#[test]
fn a_batch_may_plan_and_end() {
    let mut bench = Bench::new(StreamConfig { allow_atomic: true, ..scheduling() });
    plan(&mut bench, "s.a", "@every 10s", &[TO_A]);
    let member = |n: u32, commit: bool| {
        let last = if commit { "\r\nNats-Batch-Commit: 1" } else { "" };
        format!("Nats-Batch-Id: b\r\nNats-Batch-Sequence: {n}{last}")
    };
    let end = ["Nats-Schedule-Next: purge", "Nats-Scheduler: s.a"];
    let first = super::block(&["Nats-Schedule: @every 10s", TO_A, &member(1, false)]);
    let second = super::block(&[&member(2, false), end[0], end[1]]);
    let letter =
        |subject: &'static str, headers| Letter { subject: subject.as_bytes(), headers, ..Letter::default() };
    assert_eq!(bench.parcel(&[letter("s.b", first.as_bytes()), letter("t.x", second.as_bytes())]), [""; 0]);
    // Of the same batch.
    let own = bench.publish("t.x", &[&member(3, true), end[0], "Nats-Scheduler: s.b"], "");
    assert_eq!(own, r#"{"stream":"S","seq":4,"batch":"b","count":3}"#);
    assert_eq!(subjects(&bench), ["3 t.x", "4 t.x"]);
    pass(&mut bench, NOW + HOUR);
    assert_eq!(bench.last(), 4);
}

#[test]
fn where_nobody_listens_nothing_is_kept() {
    let mut bench =
        Bench::new(StreamConfig { retention: crate::config::Retention::Interest, ..scheduling() });
    assert_eq!(plan(&mut bench, "s.a", "@every 10s", &[TO_A]), ack(1));
    pass(&mut bench, NOW + HOUR);
    assert_eq!(bench.last(), 1);
}

#[test]
fn a_stream_that_refuses_tries_again() {
    let mut bench = Bench::new(scheduling());
    plan(&mut bench, "s.a", "@at 2023-11-14T22:13:30Z", &[TO_A]);
    let sealed = Arc::new(StreamConfig { sealed: true, ..scheduling() });
    bench.core.update(sealed, NOW, &mut Effects::default()).unwrap();
    pass(&mut bench, NOW + 20 * SECOND);
    assert_eq!(subjects(&bench), ["1 s.a"]);
    bench.core.update(Arc::new(scheduling()), bench.now, &mut Effects::default()).unwrap();
    pass(&mut bench, NOW + HOUR);
    assert_eq!(subjects(&bench), ["2 t.a"]);
}

#[test]
fn schedules_are_found_when_they_are_allowed() {
    let plain = config();
    let mut bench = Bench::new(StreamConfig { allow_msg_schedules: false, ..scheduling() });
    // As a mirror would have it.
    bench.publish("s.a", &["X: y"], "x");
    let (headers, mut outcomes) = (super::block(&["Nats-Schedule: @every 10s", TO_A]), Vec::new());
    let message = myelin_store::NewMessage {
        subject: b"s.b",
        headers: headers.as_bytes(),
        timestamp: NOW,
        ..Default::default()
    };
    bench.core.store_mut().append(&[message], myelin_store::Admission::Granted, NOW, &mut outcomes).unwrap();
    assert_eq!(plain.allow_msg_schedules, bench.core.config().allow_msg_schedules);
    pass(&mut bench, NOW + 25 * SECOND);
    assert_eq!(bench.last(), 2);
    bench.core.update(Arc::new(scheduling()), bench.now, &mut Effects::default()).unwrap();
    pass(&mut bench, NOW + 26 * SECOND);
    assert_eq!(subjects(&bench), ["1 s.a", "2 s.b", "3 t.a"]);
}

#[test]
fn many_schedules_come_in_slices() {
    let mut bench = Bench::new(scheduling());
    for n in 0..350 {
        plan(&mut bench, &format!("s.{n}"), "@at 2023-11-14T22:13:30Z", &[TO_A]);
    }
    bench.now = NOW + 10 * SECOND;
    bench.core.due(bench.now, &mut bench.effects);
    assert_eq!(bench.last(), 450);
    assert!(bench.core.next_due().is_some_and(|due| due <= bench.now));
    pass(&mut bench, NOW + 10 * SECOND);
    assert_eq!((bench.last(), stored(&bench).len()), (700, 350));
}

/// A ledger that outlives a crash.
#[derive(Default)]
struct Book {
    kept: Mutex<Option<Kept>>,
    refuses: AtomicBool,
    /// Every page with shots, as it was written.
    announced: Mutex<Vec<Kept>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kept {
    page: Page,
    due: BTreeMap<u64, Timestamp>,
}

impl Book {
    fn kept(&self) -> Kept {
        self.kept.lock().unwrap().clone().expect("it was begun")
    }

    /// What it was when something was last announced: a crash came in that instant.
    fn go_back(&self) -> Kept {
        let announced = self.announced.lock().unwrap().last().cloned().expect("something was announced");
        *self.kept.lock().unwrap() = Some(announced.clone());
        announced
    }

    /// Says that it was written when the stream had messages up to `through`, the last at `time`.
    fn forge(&self, (through, time): (u64, Timestamp), shots: &[Shot], due: &[(u64, Timestamp)]) {
        let page = Page { through, time, shots: shots.to_vec() };
        *self.kept.lock().unwrap() = Some(Kept { page, due: due.iter().copied().collect() });
    }
}

impl Ledger for Book {
    fn read(&self) -> Option<(Page, usize)> {
        self.kept.lock().unwrap().as_ref().map(|kept| (kept.page.clone(), kept.due.len()))
    }

    fn each(&self, visit: &mut dyn FnMut(u64, Timestamp)) {
        self.kept().due.into_iter().for_each(|(seq, due)| visit(seq, due));
    }

    fn reset(&self) {
        *self.kept.lock().unwrap() = Some(Kept::default());
    }

    fn write(&self, changes: &[Change], page: &Page) -> bool {
        let mut kept = self.kept.lock().unwrap();
        let kept = kept.as_mut().expect("it was begun");
        for change in changes {
            match *change {
                Change::Due(seq, due) => drop(kept.due.insert(seq, due)),
                Change::Gone(seq) => drop(kept.due.remove(&seq)),
            }
        }
        kept.page = page.clone();
        if !page.shots.is_empty() {
            self.announced.lock().unwrap().push(kept.clone());
        }
        !self.refuses.load(Relaxed)
    }
}

fn with_book(config: StreamConfig) -> (Bench, Arc<Book>) {
    let book = Arc::new(Book::default());
    (
        Bench::with(config, Settings { ledger: Arc::clone(&book) as Arc<dyn Ledger>, ..Settings::default() }),
        book,
    )
}

fn restart_with(bench: Bench, book: &Arc<Book>, now: Timestamp) -> Bench {
    let Bench { mut core, .. } = bench;
    let config = Arc::clone(core.config());
    let store = std::mem::replace(core.store_mut(), Stream::in_memory(shape(&config, false), 1, NOW));
    let settings = Settings { ledger: Arc::clone(book) as Arc<dyn Ledger>, ..Settings::default() };
    Bench { core: StreamCore::new(config, store, settings, now), now, effects: Effects::default() }
}

/// The stream was at work when it was due, and did not come to it.
#[test]
fn a_repeat_that_a_crash_was_quicker_than_is_not_lost() {
    let (mut bench, book) = with_book(scheduling());
    plan(&mut bench, "s.a", "@every 1m", &[TO_A]);
    pass(&mut bench, NOW + 60 * SECOND);
    // A consumer had it.
    assert!(bench.core.delete(2, bench.now, &mut Effects::default()).unwrap());
    bench.now = NOW + 120 * SECOND + 1;
    bench.publish("t.other", &[], "x");
    let mut bench = restart_with(bench, &book, NOW + 121 * SECOND);
    pass(&mut bench, NOW + 121 * SECOND);
    assert_eq!(subjects(&bench), ["1 s.a", "3 t.other", "4 t.a"]);
    // And what has come is not fired again, though it is gone and others have come meanwhile.
    assert!(bench.core.delete(4, bench.now, &mut Effects::default()).unwrap());
    bench.publish("t.other", &[], "y");
    let mut bench = restart_with(bench, &book, NOW + 150 * SECOND);
    pass(&mut bench, NOW + 179 * SECOND);
    assert_eq!(bench.last(), 5);
    pass(&mut bench, NOW + 180 * SECOND);
    assert_eq!(bench.last(), 6);
}

#[test]
fn a_start_reads_what_the_ledger_does_not_know() {
    let (mut bench, book) = with_book(scheduling());
    plan(&mut bench, "s.a", "@at 2023-11-14T22:13:30Z", &[TO_A]);
    plan(&mut bench, "s.b", "@every 10s", &["Nats-Schedule-Target: t.b"]);
    plan(&mut bench, "s.c", "@every 10s", &["Nats-Schedule-Target: t.c"]);
    assert_eq!((book.kept().page.through, book.kept().due.len()), (3, 3));
    // The last write of the ledger was lost with the power, and what it says of the first is not what the message says.
    book.forge((2, NOW + 1), &[], &[(1, NOW + 20 * SECOND), (2, NOW + 10 * SECOND)]);
    let mut bench = restart_with(bench, &book, NOW);
    pass(&mut bench, NOW + 10 * SECOND);
    assert_eq!(subjects(&bench), ["1 s.a", "2 s.b", "3 s.c", "4 t.b", "5 t.c"]);
    pass(&mut bench, NOW + 20 * SECOND);
    assert_eq!((bench.last(), book.kept().due.len()), (8, 2));
    // What fired behind the ledger's end says itself when it comes next.
    book.forge((3, NOW + 2), &[], &[(2, NOW + 10 * SECOND), (3, NOW + 10 * SECOND)]);
    let mut bench = restart_with(bench, &book, NOW + 25 * SECOND);
    pass(&mut bench, NOW + 29 * SECOND);
    assert_eq!(bench.last(), 8);
    pass(&mut bench, NOW + 30 * SECOND);
    assert_eq!(bench.last(), 10);
}

#[test]
fn a_ledger_of_messages_that_were_lost_is_not_believed() {
    let (mut bench, book) = with_book(scheduling());
    plan(&mut bench, "s.a", "@every 10s", &[TO_A]);
    let true_one = book.kept();
    book.forge((9, NOW), &[], &[(1, NOW + 100 * SECOND), (9, NOW)]);
    let bench = restart_with(bench, &book, NOW);
    assert_eq!(book.kept(), true_one);
    // Others have taken their place: one of them is younger than what the ledger knows was.
    let mut bench = bench;
    bench.now = NOW + SECOND;
    bench.publish("t.other", &[], "x");
    let true_one = Kept { page: Page { through: 2, time: NOW + SECOND, shots: vec![] }, ..true_one };
    book.forge((2, NOW + SECOND - 1), &[], &[(1, NOW + 100 * SECOND), (2, NOW)]);
    let bench = restart_with(bench, &book, NOW + SECOND);
    assert_eq!(book.kept(), true_one);
    // And this is one to believe.
    book.forge((2, NOW + SECOND), &[], &[(1, NOW + 20 * SECOND)]);
    let mut bench = restart_with(bench, &book, NOW + SECOND);
    pass(&mut bench, NOW + 20 * SECOND - 1);
    assert_eq!(subjects(&bench), ["1 s.a", "2 t.other"]);
}

#[test]
fn no_ledger_makes_a_schedule_come_before_its_time() {
    let (mut bench, book) = with_book(scheduling());
    plan(&mut bench, "s.a", "@every 1h", &[TO_A]);
    plan(&mut bench, "s.b", "@at 2023-11-14T22:14:20Z", &[TO_A]);
    book.forge((2, NOW + 1), &[], &[(1, NOW + SECOND), (2, NOW + SECOND)]);
    let mut bench = restart_with(bench, &book, NOW + SECOND);
    pass(&mut bench, NOW + 60 * SECOND - 1);
    assert_eq!(subjects(&bench), ["1 s.a", "2 s.b"]);
    pass(&mut bench, NOW + 60 * SECOND);
    assert_eq!(subjects(&bench), ["1 s.a", "3 t.a"]);
    pass(&mut bench, NOW + HOUR);
    assert_eq!(subjects(&bench), ["1 s.a", "3 t.a", "4 t.a"]);
}

/// A kill just before what was announced was stored, and just after: limits or consumers have taken that away at once.
#[test]
fn a_kill_while_a_repeat_fires_neither_loses_nor_repeats_it() {
    for is_stored in [false, true] {
        let (mut bench, book) = with_book(scheduling());
        plan(&mut bench, "s.a", "@every 10s", &[TO_A]);
        let shot = Shot { schedule: 1, at: 2, due: NOW + 10 * SECOND };
        if is_stored {
            pass(&mut bench, NOW + 10 * SECOND);
            // It was announced before, and nothing is said afterwards.
            let due = [(1, NOW + 20 * SECOND)].into();
            let page = Page { through: 1, time: NOW, shots: vec![shot] };
            assert_eq!(book.kept(), Kept { page, due });
            assert!(bench.core.delete(2, bench.now, &mut Effects::default()).unwrap());
        } else {
            book.forge((1, NOW), &[shot], &[(1, NOW + 20 * SECOND)]);
        }
        let mut bench = restart_with(bench, &book, NOW + 11 * SECOND);
        if !is_stored {
            // The number may be that of another message from now on.
            assert_eq!(book.kept().page.shots, []);
            assert_eq!(book.kept().due, [(1, NOW + 10 * SECOND)].into());
        }
        pass(&mut bench, NOW + 19 * SECOND);
        assert_eq!(bench.last(), 2, "{is_stored}");
        pass(&mut bench, NOW + 20 * SECOND);
        assert_eq!(bench.last(), 3, "{is_stored}");
    }
}

#[test]
fn a_repeat_that_cannot_be_announced_waits() {
    let (mut bench, book) = with_book(scheduling());
    plan(&mut bench, "s.a", "@every 10s", &[TO_A]);
    book.refuses.store(true, Relaxed);
    pass(&mut bench, NOW + 12 * SECOND);
    // As late as it will be tried again, at most: never with a time that has not come.
    assert_eq!((bench.last(), book.kept().due), (1, [(1, NOW + 12 * SECOND)].into()));
    book.refuses.store(false, Relaxed);
    pass(&mut bench, NOW + 14 * SECOND);
    assert_eq!(bench.last(), 2);
    let mut bench = restart_with(bench, &book, NOW + 15 * SECOND);
    pass(&mut bench, NOW + 20 * SECOND);
    assert_eq!(bench.last(), 2);
    pass(&mut bench, NOW + 23 * SECOND);
    assert_eq!(bench.last(), 3);
}

#[test]
fn a_ledger_forgets_what_is_gone() {
    let (mut bench, book) = with_book(scheduling());
    for n in 0..500 {
        plan(&mut bench, &format!("s.{n}"), "@every 1h", &[TO_A]);
    }
    plan(&mut bench, "s.0", "@every 2h", &[TO_A]);
    bench.core.purge(&mut Purge { keep: 1, ..Purge::default() }, NOW, &mut Effects::default()).unwrap();
    pass(&mut bench, NOW + HOUR);
    assert_eq!(book.kept().due, [(501, NOW + 2 * HOUR)].into());
    // Messages that say nothing need not be read again, sooner or later.
    for n in 0..600 {
        bench.publish(&format!("t.{}", n % 9), &[], "x");
    }
    assert!(book.kept().page.through > 800);
}

/// Two are due at once, and the first one is refused: what it was to have is another's.
#[test]
fn a_repeat_that_limits_refuse_is_not_lost_by_a_kill() {
    for is_gone in [false, true] {
        let config = StreamConfig {
            discard: Discard::New,
            discard_new_per_subject: true,
            max_msgs_per_subject: 1,
            ..scheduling()
        };
        let (mut bench, book) = with_book(config);
        plan(&mut bench, "s.a", "@every 10s", &[TO_A]);
        plan(&mut bench, "s.b", "@every 10s", &["Nats-Schedule-Target: t.b"]);
        bench.publish("t.a", &[], "in the way");
        pass(&mut bench, NOW + 10 * SECOND);
        assert_eq!(subjects(&bench), ["1 s.a", "2 s.b", "3 t.a", "4 t.b"]);
        let mut effects = Effects::default();
        if is_gone {
            // A consumer had it.
            assert!(bench.core.delete(4, bench.now, &mut effects).unwrap());
        }
        assert!(bench.core.delete(3, bench.now, &mut effects).unwrap());
        book.go_back();
        let mut bench = restart_with(bench, &book, NOW + 11 * SECOND);
        pass(&mut bench, NOW + 19 * SECOND);
        assert_eq!(subjects(&bench)[2..], [&["4 t.b"][is_gone.into()..], &["5 t.a"]].concat(), "{is_gone}");
    }
}

/// The ledger of a server that fired both in one run: only the messages say which of them was refused.
#[test]
fn what_a_repeat_has_fired_says_more_than_where_that_was_to_be() {
    let (mut bench, book) = with_book(scheduling());
    plan(&mut bench, "s.a", "@every 10s", &[TO_A]);
    plan(&mut bench, "s.b", "@every 10s", &["Nats-Schedule-Target: t.b"]);
    bench.now = NOW + 10 * SECOND;
    let lines = ["Nats-Scheduler: s.b", "Nats-Schedule-Next: 2023-11-14T22:13:40Z"];
    let (headers, mut outcomes) = (super::block(&lines), Vec::new());
    let message = myelin_store::NewMessage {
        subject: b"t.b",
        headers: headers.as_bytes(),
        timestamp: bench.now,
        ..Default::default()
    };
    let granted = myelin_store::Admission::Granted;
    bench.core.store_mut().append(&[message], granted, bench.now, &mut outcomes).unwrap();
    let shots = [1, 2].map(|schedule| Shot { schedule, at: schedule + 2, due: NOW + 10 * SECOND });
    book.forge((2, NOW + 1), &shots, &[(1, NOW + 20 * SECOND), (2, NOW + 20 * SECOND)]);
    let mut bench = restart_with(bench, &book, NOW + 11 * SECOND);
    pass(&mut bench, NOW + 19 * SECOND);
    assert_eq!(subjects(&bench), ["1 s.a", "2 s.b", "3 t.b", "4 t.a"]);
}

/// Where there is room for one message at a time, each is announced nevertheless.
#[test]
fn what_an_account_has_no_room_for_at_once_is_announced_one_by_one() {
    let book = Arc::new(Book::default());
    let settings = Settings {
        ledger: Arc::clone(&book) as Arc<dyn Ledger>,
        account: Arc::new(Budget::new(900)),
        ..Settings::default()
    };
    let mut bench = Bench::with(StreamConfig { max_msgs_per_subject: 1, ..scheduling() }, settings);
    plan(&mut bench, "s.a", "@every 10s", &[TO_A]);
    plan(&mut bench, "s.b", "@every 10s", &["Nats-Schedule-Target: t.b"]);
    for subject in ["t.a", "t.b"] {
        bench.publish(subject, &[], &"x".repeat(250));
    }
    pass(&mut bench, NOW + 10 * SECOND);
    assert_eq!(subjects(&bench), ["1 s.a", "2 s.b", "5 t.a", "6 t.b"]);
    let announced = book.announced.lock().unwrap();
    let shots = announced.iter().flat_map(|kept| kept.page.shots.iter().map(|shot| (shot.schedule, shot.at)));
    assert_eq!(shots.collect::<Vec<_>>(), [(1, 5), (2, 6)]);
    assert_eq!(announced.len(), 2, "they were not one run");
}

#[test]
fn a_start_needs_no_more_memory_than_there_are_schedules() {
    let (mut bench, book) = with_book(scheduling());
    for n in 0..1500 {
        plan(&mut bench, &format!("s.{n}"), "@every 1h", &[TO_A]);
    }
    // Some are behind what the ledger has.
    let due: Vec<(u64, Timestamp)> = (1..=1400).map(|seq| (seq, NOW + HOUR)).collect();
    book.forge((1400, NOW + 1500), &[], &due);
    let mut bench = restart_with(bench, &book, NOW + SECOND);
    assert_eq!(bench.core.schedules.room(), 1500);
    // All are looked at, where they are.
    pass(&mut bench, NOW + 2 * SECOND);
    assert_eq!(bench.core.schedules.room(), 1500);
}
