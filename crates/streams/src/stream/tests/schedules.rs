//! Streams with schedules, in virtual time.

use std::io::ErrorKind;
use std::sync::Arc;

use myelin_disk::faulty::DiskFault;
use myelin_store::{Filter, GroupPosition, Purge, Stream, Timestamp, Wait};
use myelin_wire::message_buf::MessageRef;

use super::release::{has_begun, on_disk};
use super::{Bench, NOW, block, config, error, msg};
use crate::stream::{Effects, StreamCore, StreamSettings, storage_config};
use myelin_jsapi::config::StreamConfig;

pub(super) const SECOND: Timestamp = 1_000_000_000;
pub(super) const HOUR: Timestamp = 3600 * SECOND;

pub(super) fn scheduling() -> StreamConfig {
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
pub(super) fn plan(bench: &mut Bench, subject: &str, pattern: &str, others: &[&str]) -> String {
    let pattern = format!("Nats-Schedule: {pattern}");
    let lines: Vec<&str> = [pattern.as_str()].into_iter().chain(others.iter().copied()).collect();
    bench.publish(subject, &lines, "body")
}

pub(super) const TO_A: &str = "Nats-Schedule-Target: t.a";

/// Lets time pass until `until`, and does what is due at its time.
pub(super) fn pass(bench: &mut Bench, until: Timestamp) {
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

pub(super) fn subjects(bench: &Bench) -> Vec<String> {
    stored(bench).into_iter().map(|(seq, subject, _)| format!("{seq} {subject}")).collect()
}

/// Restarts a stream after a crash: all that is not in its log is gone.
fn restart(bench: Bench, now: Timestamp) -> Bench {
    let Bench { mut core, .. } = bench;
    let config = Arc::clone(core.config());
    let fresh = Stream::in_memory(storage_config(&config, false), 1, NOW);
    let store = std::mem::replace(core.store_mut(), fresh);
    let core = StreamCore::new(config, store, StreamSettings::default(), now);
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

/// Compat: a schedule is made a rollup, and may be too large then; in a group nobody looks again.
#[test]
fn a_schedule_that_its_rollup_makes_too_large_is_refused_outside_of_groups() {
    let schedule = ["Nats-Schedule: @every 10s", TO_A];
    let length = block(&schedule).len();
    let limited = StreamConfig { max_msg_size: i32::try_from(length).unwrap() + 17, ..scheduling() };
    let mut alone = Bench::new(limited.clone());
    let too_large = error(400, 10054, "message size exceeds maximum allowed");
    assert_eq!(alone.publish("s.a", &schedule, ""), too_large);
    assert_eq!(alone.last(), 0);
    let enough = StreamConfig { max_msg_size: limited.max_msg_size + 1, ..scheduling() };
    assert_eq!(Bench::new(enough).publish("s.a", &schedule, ""), ack(1));

    let filler = format!("A: {}", "a".repeat(65_530 - length - 5));
    let headers = [schedule[0], schedule[1], &filler];
    assert!(block(&headers).len() <= 65_535);
    let too_long = error(400, 10097, "header size exceeds maximum allowed of 64k");
    assert_eq!(Bench::new(scheduling()).publish("s.a", &headers, ""), too_long);

    let mut grouped = Bench::new(limited);
    let position = GroupPosition { epoch: 1, term: 1, index: 0, chain: 0, commit: 0 };
    grouped.core.store_mut().join_group(position, grouped.now).unwrap();
    let headers = block(&schedule);
    grouped.msgs(&[MessageRef { headers: headers.as_bytes(), payload: b"", ..msg("s.a", "r") }]);
    grouped.core.committed(1, &mut grouped.effects);
    assert_eq!(grouped.said(), [format!("r {}", ack(1))]);
}

#[test]
fn a_moment_that_has_passed_comes_at_once() {
    let mut bench = Bench::new(scheduling());
    plan(&mut bench, "s.a", "@at 2020-01-01T00:00:00Z", &[TO_A]);
    assert!(bench.core.next_due().is_some_and(|due| due <= NOW));
    pass(&mut bench, NOW + 1);
    assert_eq!(subjects(&bench), ["2 t.a"]);
}

/// A schedule fired twice: what it had taken the place of could not be removed, so that it was to
/// go behind its message, and the stream was opened anew before.
#[test]
fn a_schedule_that_is_not_alone_on_its_subject_ends_with_its_message() {
    let mut failures = 0;
    for ahead in 0..12 {
        let (mut bench, store, disk) = on_disk(scheduling(), StreamSettings::default());
        has_begun(&mut bench, &store);
        plan(&mut bench, "s.a", "@at 2023-11-14T22:23:20Z", &[TO_A, "An-Earlier: one"]);
        // A line that says nothing: nothing is rolled up.
        plan(&mut bench, "s.a", "@at 2023-11-14T22:13:30Z", &[TO_A, "Nats-Rollup: "]);
        assert_eq!(bench.core.store().count_of(b"s.a"), 2);
        let point = disk.points() + ahead;
        disk.fail_at(point, DiskFault::ErrorsFrom(ErrorKind::Other));
        pass(&mut bench, NOW + 10 * SECOND);
        if disk.points() <= point {
            break;
        }
        disk.heal();
        failures += 1;
        bench.core.store().give_up("for a test");
        bench.core.reopen(&store, bench.now, &mut |_, _| {}).expect("the disk works");
        pass(&mut bench, NOW + 2 * 3600 * SECOND);
        let counts = [b"s.a", b"t.a"].map(|subject| bench.core.store().count_of(subject));
        assert_eq!(counts, [0, 1], "{ahead}: {:?}", stored(&bench));
    }
    assert!(failures > 1, "{failures}");
}

/// A schedule stayed for as long as the one that had taken its place.
#[test]
fn a_schedule_that_could_not_be_replaced_goes_when_it_is_due() {
    let mut left = 0;
    for ahead in 0..12 {
        let (mut bench, store, disk) = on_disk(scheduling(), StreamSettings::default());
        has_begun(&mut bench, &store);
        plan(&mut bench, "s.a", "@at 2023-11-14T22:13:30Z", &[TO_A]);
        disk.fail_at(disk.points() + ahead, DiskFault::ErrorsFrom(ErrorKind::Other));
        plan(&mut bench, "s.a", "@every 1h", &[TO_A]);
        disk.forget_plans();
        disk.heal();
        bench.core.store().give_up("for a test");
        bench.core.reopen(&store, bench.now, &mut |_, _| {}).expect("the disk works");
        if bench.core.store().count_of(b"s.a") < 2 {
            continue;
        }
        left += 1;
        pass(&mut bench, NOW + 20 * SECOND);
        assert_eq!(bench.core.store().count_of(b"s.a"), 1, "{ahead}: {:?}", stored(&bench));
    }
    assert!(left > 0, "what was to be replaced was left");
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
    let msg = |subject: &'static str, headers| MessageRef {
        subject: subject.as_bytes(),
        headers,
        ..MessageRef::default()
    };
    assert_eq!(bench.msgs(&[msg("s.b", first.as_bytes()), msg("t.x", second.as_bytes())]), [""; 0]);
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
        Bench::new(StreamConfig { retention: myelin_jsapi::config::Retention::Interest, ..scheduling() });
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
