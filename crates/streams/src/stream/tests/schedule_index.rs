//! Index that a stream writes of its schedules, and its use at a start, in virtual time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use myelin_store::{Purge, Stream, Timestamp};

use super::schedules::{HOUR, SECOND, TO_A, pass, plan, scheduling, subjects};
use super::{Bench, NOW, block};
use crate::stream::{
    Effects, PlannedFiring, ScheduleChange, ScheduleIndex, SchedulePage, StorageBudget, StreamCore,
    StreamSettings, storage_config,
};
use myelin_jsapi::config::{Discard, StreamConfig};

/// A index that outlives a crash.
#[derive(Default)]
struct Book {
    kept: Mutex<Option<Kept>>,
    refuses: AtomicBool,
    /// Every page with shots, as it was written.
    announced: Mutex<Vec<Kept>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kept {
    page: SchedulePage,
    due: BTreeMap<u64, Timestamp>,
}

impl Book {
    fn kept(&self) -> Kept {
        self.kept.lock().unwrap().clone().expect("it was begun")
    }

    /// Goes back to the last announced state, as if a crash had come in that instant.
    fn go_back(&self) -> Kept {
        let announced = self.announced.lock().unwrap().last().cloned().expect("something was announced");
        *self.kept.lock().unwrap() = Some(announced.clone());
        announced
    }

    /// Says that it was written when the stream had messages up to `through`, the last at `time`.
    fn forge(&self, (through, time): (u64, Timestamp), firings: &[PlannedFiring], due: &[(u64, Timestamp)]) {
        let page = SchedulePage { through, time, firings: firings.to_vec() };
        *self.kept.lock().unwrap() = Some(Kept { page, due: due.iter().copied().collect() });
    }
}

impl ScheduleIndex for Book {
    fn read(&self) -> Option<(SchedulePage, usize)> {
        self.kept.lock().unwrap().as_ref().map(|kept| (kept.page.clone(), kept.due.len()))
    }

    fn each(&self, visit: &mut dyn FnMut(u64, Timestamp)) {
        self.kept().due.into_iter().for_each(|(seq, due)| visit(seq, due));
    }

    fn reset(&self) {
        *self.kept.lock().unwrap() = Some(Kept::default());
    }

    fn write(&self, changes: &[ScheduleChange], page: &SchedulePage) -> bool {
        let mut kept = self.kept.lock().unwrap();
        let kept = kept.as_mut().expect("it was begun");
        for change in changes {
            match *change {
                ScheduleChange::Due(seq, due) => drop(kept.due.insert(seq, due)),
                ScheduleChange::Gone(seq) => drop(kept.due.remove(&seq)),
            }
        }
        kept.page = page.clone();
        if !page.firings.is_empty() {
            self.announced.lock().unwrap().push(kept.clone());
        }
        !self.refuses.load(Relaxed)
    }
}

fn with_book(config: StreamConfig) -> (Bench, Arc<Book>) {
    let book = Arc::new(Book::default());
    (
        Bench::with(
            config,
            StreamSettings {
                schedule_index: Arc::clone(&book) as Arc<dyn ScheduleIndex>,
                ..StreamSettings::default()
            },
        ),
        book,
    )
}

fn restart_with(bench: Bench, book: &Arc<Book>, now: Timestamp) -> Bench {
    restart_behind(bench, book, now, None)
}

/// A start that has found messages up to `found_end`, where that is not all that the stream has.
fn restart_behind(bench: Bench, book: &Arc<Book>, now: Timestamp, found_end: Option<u64>) -> Bench {
    let Bench { mut core, .. } = bench;
    let config = Arc::clone(core.config());
    let store =
        std::mem::replace(core.store_mut(), Stream::in_memory(storage_config(&config, false), 1, NOW));
    let settings = StreamSettings {
        schedule_index: Arc::clone(book) as Arc<dyn ScheduleIndex>,
        found_end,
        ..StreamSettings::default()
    };
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
    // The last write of the index was lost with the power, and what it says of the first is not
    // what the message says.
    book.forge((2, NOW + 1), &[], &[(1, NOW + 20 * SECOND), (2, NOW + 10 * SECOND)]);
    let mut bench = restart_with(bench, &book, NOW);
    pass(&mut bench, NOW + 10 * SECOND);
    assert_eq!(subjects(&bench), ["1 s.a", "2 s.b", "3 s.c", "4 t.b", "5 t.c"]);
    pass(&mut bench, NOW + 20 * SECOND);
    assert_eq!((bench.last(), book.kept().due.len()), (8, 2));
    // What fired behind the index's end says itself when it comes next.
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
    // Others have taken their place: one of them is younger than what the index knows was.
    let mut bench = bench;
    bench.now = NOW + SECOND;
    bench.publish("t.other", &[], "x");
    let true_one =
        Kept { page: SchedulePage { through: 2, time: NOW + SECOND, firings: vec![] }, ..true_one };
    book.forge((2, NOW + SECOND - 1), &[], &[(1, NOW + 100 * SECOND), (2, NOW)]);
    let bench = restart_with(bench, &book, NOW + SECOND);
    assert_eq!(book.kept(), true_one);
    // And this is one to believe.
    book.forge((2, NOW + SECOND), &[], &[(1, NOW + 20 * SECOND)]);
    let mut bench = restart_with(bench, &book, NOW + SECOND);
    pass(&mut bench, NOW + 20 * SECOND - 1);
    assert_eq!(subjects(&bench), ["1 s.a", "2 t.other"]);
}

/// A start after a loss of power passes over sequences that may have been given out: what the index
/// knows of those is lost all the same.
#[test]
fn a_ledger_of_messages_that_were_passed_over_is_not_believed() {
    let (mut bench, book) = with_book(scheduling());
    plan(&mut bench, "s.a", "@at 2023-11-14T22:13:30Z", &[TO_A]);
    // One that was lost stood where the other's firing is planned, in an index of what was lost.
    let firing = PlannedFiring { schedule: 1, at: 9, due: NOW + HOUR };
    book.forge((9, NOW + 1), &[firing], &[(9, NOW)]);
    bench.core.store_mut().skip(4100, NOW + SECOND).unwrap();
    let mut bench = restart_behind(bench, &book, NOW + SECOND, Some(1));
    assert_eq!(book.kept().due, [(1, NOW + 10 * SECOND)].into());
    pass(&mut bench, NOW + 10 * SECOND);
    assert_eq!(subjects(&bench), ["4101 t.a"]);
}

#[test]
fn what_was_lost_with_the_power_has_not_fired() {
    let (mut bench, book) = with_book(scheduling());
    plan(&mut bench, "s.a", "@every 10s", &[TO_A]);
    let firing = PlannedFiring { schedule: 1, at: 2, due: NOW + 10 * SECOND };
    book.forge((1, NOW), &[firing], &[(1, NOW + 20 * SECOND)]);
    bench.core.store_mut().skip(4100, NOW + 11 * SECOND).unwrap();
    let mut bench = restart_behind(bench, &book, NOW + 11 * SECOND, Some(1));
    pass(&mut bench, NOW + 12 * SECOND);
    assert_eq!(subjects(&bench), ["1 s.a", "4101 t.a"]);
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

/// A kill just before what was announced was stored, and just after: limits or consumers have taken
/// that away at once.
#[test]
fn a_kill_while_a_repeat_fires_neither_loses_nor_repeats_it() {
    for is_stored in [false, true] {
        let (mut bench, book) = with_book(scheduling());
        plan(&mut bench, "s.a", "@every 10s", &[TO_A]);
        let firing = PlannedFiring { schedule: 1, at: 2, due: NOW + 10 * SECOND };
        if is_stored {
            pass(&mut bench, NOW + 10 * SECOND);
            // It was announced before, and nothing is said afterwards.
            let due = [(1, NOW + 20 * SECOND)].into();
            let page = SchedulePage { through: 1, time: NOW, firings: vec![firing] };
            assert_eq!(book.kept(), Kept { page, due });
            assert!(bench.core.delete(2, bench.now, &mut Effects::default()).unwrap());
        } else {
            book.forge((1, NOW), &[firing], &[(1, NOW + 20 * SECOND)]);
        }
        let mut bench = restart_with(bench, &book, NOW + 11 * SECOND);
        if !is_stored {
            // The number may be that of another message from now on.
            assert_eq!(book.kept().page.firings, []);
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

/// The index of a server that fired both in one run: only the messages say which of them was
/// refused.
#[test]
fn what_a_repeat_has_fired_says_more_than_where_that_was_to_be() {
    let (mut bench, book) = with_book(scheduling());
    plan(&mut bench, "s.a", "@every 10s", &[TO_A]);
    plan(&mut bench, "s.b", "@every 10s", &["Nats-Schedule-Target: t.b"]);
    bench.now = NOW + 10 * SECOND;
    let lines = ["Nats-Scheduler: s.b", "Nats-Schedule-Next: 2023-11-14T22:13:40Z"];
    let (headers, mut outcomes) = (block(&lines), Vec::new());
    let message = myelin_store::NewMessage {
        subject: b"t.b",
        headers: headers.as_bytes(),
        timestamp: bench.now,
        ..Default::default()
    };
    let granted = myelin_store::Admission::Granted;
    bench.core.store_mut().append(&[message], granted, bench.now, &mut outcomes).unwrap();
    let firings = [1, 2].map(|schedule| PlannedFiring { schedule, at: schedule + 2, due: NOW + 10 * SECOND });
    book.forge((2, NOW + 1), &firings, &[(1, NOW + 20 * SECOND), (2, NOW + 20 * SECOND)]);
    let mut bench = restart_with(bench, &book, NOW + 11 * SECOND);
    pass(&mut bench, NOW + 19 * SECOND);
    assert_eq!(subjects(&bench), ["1 s.a", "2 s.b", "3 t.b", "4 t.a"]);
}

/// Where there is room for one message at a time, each is announced nevertheless.
#[test]
fn what_an_account_has_no_room_for_at_once_is_announced_one_by_one() {
    let book = Arc::new(Book::default());
    let settings = StreamSettings {
        schedule_index: Arc::clone(&book) as Arc<dyn ScheduleIndex>,
        account: Arc::new(StorageBudget::new(900)),
        ..StreamSettings::default()
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
    let firings =
        announced.iter().flat_map(|kept| kept.page.firings.iter().map(|firing| (firing.schedule, firing.at)));
    assert_eq!(firings.collect::<Vec<_>>(), [(1, 5), (2, 6)]);
    assert_eq!(announced.len(), 2, "they were not one run");
}

#[test]
fn a_start_needs_no_more_memory_than_there_are_schedules() {
    let (mut bench, book) = with_book(scheduling());
    for n in 0..1500 {
        plan(&mut bench, &format!("s.{n}"), "@every 1h", &[TO_A]);
    }
    // Some are behind what the index has.
    let due: Vec<(u64, Timestamp)> = (1..=1400).map(|seq| (seq, NOW + HOUR)).collect();
    book.forge((1400, NOW + 1500), &[], &due);
    let mut bench = restart_with(bench, &book, NOW + SECOND);
    assert_eq!(bench.core.schedules.room(), 1500);
    // All are looked at, where they are.
    pass(&mut bench, NOW + 2 * SECOND);
    assert_eq!(bench.core.schedules.room(), 1500);
}
