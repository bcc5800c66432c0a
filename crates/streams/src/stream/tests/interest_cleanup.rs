//! Messages that go because their consumers have settled them, or are gone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use myelin_disk::faulty::FaultyDisk;
use myelin_store::{Filter, Purge, Seq, Store, StoreOptions};
use myelin_wire::message_buf::MessageRef;

use super::interest::{Consumers, interested};
use super::release::{on_disk, on_disk_with, refuse_reads, state_first_mark};
use super::upkeep::pass;
use super::{Bench, config, msg};
use myelin_jsapi::config::{Retention, StreamConfig};

const SECOND: i64 = 1_000_000_000;

fn with(retention: Retention, patterns: &[&'static str]) -> (Bench, Arc<Consumers>) {
    let consumers = Consumers::want(patterns);
    let config = StreamConfig { retention, ..config() };
    let mut bench = Bench::with(config, interested(&consumers));
    pass(&mut bench, 0);
    (bench, consumers)
}

/// A work queue in files, which has messages on these subjects, so many times.
fn work_queue_on_disk(subjects: &[&str], rounds: usize) -> (Bench, Arc<Consumers>, Store, FaultyDisk) {
    let consumers = Consumers::want(&[">"]);
    let config = StreamConfig { retention: Retention::WorkQueue, ..config() };
    let (mut bench, store, disk) = on_disk(config, interested(&consumers));
    pass(&mut bench, 0);
    bench.fill(subjects, rounds);
    state_first_mark(&mut bench, &store);
    (bench, consumers, store, disk)
}

impl Bench {
    fn acknowledge(&mut self, consumers: &Consumers, seqs: &[Seq]) {
        consumers.settle(seqs.iter().copied());
        self.core.acknowledged(seqs, self.now, &mut self.effects);
    }

    fn reconcile(&mut self) {
        self.effects.clear();
        self.core.reconcile(self.now, &mut self.effects);
    }

    fn remove_all_settled(&mut self) -> Result<(), String> {
        while self.core.remove_some_settled(self.now, &mut self.effects)? {}
        Ok(())
    }

    /// A consumer of these subjects is gone.
    fn consumer_left(&mut self, patterns: &[&str], is_awaited: bool) {
        let filter = Filter::any(patterns.iter().map(|pattern| pattern.as_bytes().to_vec()).collect());
        self.effects.clear();
        self.core.consumer_left(&filter, is_awaited, self.now, &mut self.effects);
    }

    fn fill(&mut self, subjects: &[&str], rounds: usize) {
        let refs: Vec<_> = subjects.iter().map(|subject| msg(subject, "")).collect();
        (0..rounds).for_each(|_| drop(self.msgs(&refs)));
    }
}

#[test]
fn a_panic_while_settled_messages_go_leaves_them_to_the_next_slice() {
    let (mut bench, consumers) = with(Retention::WorkQueue, &[">"]);
    bench.fill(&["a"], 3);
    consumers.panic_once();
    let acknowledged = catch_unwind(AssertUnwindSafe(|| bench.acknowledge(&consumers, &[1, 2])));
    assert!(acknowledged.is_err());
    assert!(bench.core.next_due().is_some_and(|at| at <= bench.now), "they have a time");
    pass(&mut bench, 0);
    assert_eq!(bench.stored(), [3]);
}

#[test]
fn what_is_settled_goes() {
    for retention in [Retention::WorkQueue, Retention::Interest] {
        let (mut bench, consumers) = with(retention, &[">"]);
        bench.fill(&["a", "b"], 2);
        bench.acknowledge(&consumers, &[2, 4]);
        assert_eq!(bench.stored(), [1, 3]);
        // Twice, and what never was.
        bench.acknowledge(&consumers, &[2, 1, 1, 99, 0]);
        assert_eq!(bench.stored(), [3]);
        assert_eq!(bench.core.next_due().filter(|&at| at <= bench.now), None);
        let charged_bytes = bench.core.state().totals.bytes as i64;
        assert_eq!(bench.core.settings.account.used(), charged_bytes);
    }
    let (mut bench, consumers) = with(Retention::Limits, &[">"]);
    bench.fill(&["a"], 2);
    bench.acknowledge(&consumers, &[1]);
    bench.reconcile();
    pass(&mut bench, 0);
    assert_eq!(bench.stored(), [1, 2]);
}

#[test]
fn what_another_consumer_needs_stays_until_it_is_settled_there_too() {
    let (mut bench, consumers) = with(Retention::Interest, &[">"]);
    bench.fill(&["a"], 3);
    bench.core.acknowledged(&[1, 2], bench.now, &mut bench.effects);
    assert_eq!(bench.stored(), [1, 2, 3]);
    bench.acknowledge(&consumers, &[1]);
    assert_eq!(bench.stored(), [2, 3]);
}

#[test]
fn many_go_with_one_write_and_too_many_in_slices() {
    let (mut bench, consumers, _store, disk) = work_queue_on_disk(&["a"; 100], 25);
    let before = disk.points();
    bench.acknowledge(&consumers, &(1..=500).collect::<Vec<_>>());
    assert_eq!(bench.core.state().totals.messages, 2000);
    assert!(disk.points() - before <= 2, "{} writes", disk.points() - before);
    bench.effects.clear();
    bench.acknowledge(&consumers, &(501..=2500).collect::<Vec<_>>());
    assert_eq!(bench.core.state().totals.messages, 1000);
    assert!(bench.effects.due_changed && bench.core.next_due().is_some_and(|at| at <= bench.now));
    pass(&mut bench, 0);
    assert_eq!(bench.core.state().totals.messages, 0);
}

#[test]
fn what_a_device_refuses_to_read_is_looked_at_again() {
    let (mut bench, consumers, _store, disk) = work_queue_on_disk(&["a"], 3);
    refuse_reads(&disk, true);
    bench.acknowledge(&consumers, &[1, 2]);
    assert_eq!(bench.core.state().totals.messages, 3);
    assert!(bench.core.next_due().is_some_and(|at| at > bench.now));
    refuse_reads(&disk, false);
    pass(&mut bench, 2 * SECOND);
    assert_eq!(bench.core.state().totals.messages, 1);
}

/// A second would take as long as the clock needs to be where it was.
#[test]
fn what_was_put_off_is_looked_at_when_the_clock_was_set_back() {
    let (mut bench, consumers, _store, disk) = work_queue_on_disk(&["a"], 3);
    refuse_reads(&disk, true);
    bench.acknowledge(&consumers, &[1, 2]);
    refuse_reads(&disk, false);
    bench.now -= 3600 * SECOND;
    // All alarms go off then.
    bench.core.run_due(bench.now, &mut bench.effects);
    pass(&mut bench, SECOND);
    assert_eq!(bench.stored(), [3]);
}

/// The second consumer of a work queue got what the first had acknowledged, because the disk had
/// failed when it was to go.
#[test]
fn what_was_settled_is_not_for_a_consumer_that_is_made_before_it_goes() {
    for is_opened_anew in [false, true] {
        let (mut bench, consumers, store, disk) = work_queue_on_disk(&["a"], 3);
        refuse_reads(&disk, true);
        bench.acknowledge(&consumers, &[1, 2]);
        refuse_reads(&disk, false);
        assert_eq!(bench.stored(), [1, 2, 3]);
        consumers.replace();
        if is_opened_anew {
            bench.core.store().give_up("for a test");
            bench.core.reopen(&store, bench.now, &mut |_, _| {}).unwrap();
        }
        pass(&mut bench, 2 * SECOND);
        assert_eq!(bench.stored(), [3], "opened anew: {is_opened_anew}");
    }
}

/// A consumer was removed that had acknowledged what could not be removed then, and the process
/// ended: nobody knew of it any more.
#[test]
fn what_was_settled_goes_before_its_consumer_does() {
    let (mut bench, consumers, _store, disk) = work_queue_on_disk(&["a"], 3);
    refuse_reads(&disk, true);
    bench.acknowledge(&consumers, &[1, 2]);
    bench.remove_all_settled().unwrap_err();
    assert!(bench.effects.due_changed && bench.core.next_due().is_some_and(|at| at > bench.now));
    refuse_reads(&disk, false);
    // Whatever its time is.
    bench.remove_all_settled().unwrap();
    assert_eq!(bench.stored(), [3]);
    consumers.settle([3]);
    bench.core.begin_round(&Filter::All, bench.now);
    bench.remove_all_settled().unwrap();
    assert_eq!(bench.stored(), [0; 0], "so does what a look at all messages finds");
    bench.core.store().give_up("for a test");
    let refused = bench.remove_all_settled();
    assert_eq!(refused, Err("for a test".to_owned()), "what went may be back");
}

#[test]
fn a_look_at_all_messages_that_cannot_find_some_is_repeated() {
    let consumers = Consumers::want(&[">"]);
    let queue = StreamConfig { retention: Retention::WorkQueue, ..config() };
    // Nothing of a sealed segment is in memory.
    let options = StoreOptions { segment_bytes: Some(2048), table_bytes: 0, ..StoreOptions::new("/store") };
    let (mut bench, store, disk) = on_disk_with(options, queue, interested(&consumers));
    bench.fill(&["a"], 200);
    state_first_mark(&mut bench, &store);
    while let Some(job) = bench.core.next_job(bench.now) {
        bench.core.finish(job.run(), bench.now, &mut bench.effects);
    }
    consumers.settle(1..=10);
    refuse_reads(&disk, true);
    bench.reconcile();
    pass(&mut bench, 0);
    assert_eq!(bench.core.state().totals.messages, 200, "{:?}", bench.core.next_due());
    refuse_reads(&disk, false);
    pass(&mut bench, 2 * SECOND);
    assert_eq!(bench.core.state().totals.messages, 190);
    pass(&mut bench, 2 * SECOND);
    assert!(bench.core.next_due().is_none_or(|at| at > bench.now + 2 * SECOND), "all was found");
}

#[test]
fn what_is_still_to_be_copied_stays_in_a_work_queue_though_it_was_settled() {
    let (mut bench, consumers) = with(Retention::WorkQueue, &[">"]);
    bench.fill(&["a"], 3);
    consumers.copy_soon([1, 2]);
    bench.acknowledge(&consumers, &[1, 3]);
    assert_eq!(bench.stored(), [1, 2]);
    consumers.copy_soon([2]);
    bench.acknowledge(&consumers, &[1]);
    assert_eq!(bench.stored(), [2]);
}

#[test]
fn on_a_full_disk_it_is_tried_again() {
    let (mut bench, consumers, store, disk) = work_queue_on_disk(&["a"; 100], 10);
    store.headroom().release().unwrap();
    disk.set_capacity(Some(disk.used()));
    // What the log's file has reserved is filled up.
    let payload = vec![b'x'; 1 << 20];
    let mut size = payload.len();
    while size > 100 {
        let said = bench.msgs(&[MessageRef { payload: &payload[..size], ..msg("b", "r") }]);
        size = if said[0].contains("insufficient resources") { size / 2 } else { size };
    }
    let messages = bench.core.state().totals.messages;
    bench.acknowledge(&consumers, &(1..=500).collect::<Vec<_>>());
    bench.acknowledge(&consumers, &[501]);
    assert_eq!(bench.core.state().totals.messages, messages);
    assert!(bench.effects.failed.is_none() && bench.core.next_due().is_some_and(|at| at > bench.now));
    disk.set_capacity(None);
    pass(&mut bench, 2 * SECOND);
    assert_eq!(bench.core.state().totals.messages, messages - 501);
}

#[test]
fn a_stream_that_is_opened_anew_finds_what_was_settled() {
    let consumers = Consumers::want(&[">"]);
    let config = StreamConfig { retention: Retention::WorkQueue, ..config() };
    let (mut bench, store, _disk) = on_disk(config, interested(&consumers));
    bench.fill(&["a", "b"], 2);
    bench.core.store().give_up("for a test");
    bench.acknowledge(&consumers, &[1, 4]);
    assert!(bench.effects.failed.is_some());
    bench.core.reopen(&store, bench.now, &mut |_, _| {}).unwrap();
    assert_eq!(bench.stored(), [1, 2, 3, 4]);
    pass(&mut bench, 0);
    assert_eq!(bench.stored(), [2, 3]);
}

#[test]
fn a_reconciliation_removes_what_nobody_needs() {
    let (mut bench, consumers) = with(Retention::Interest, &["a", "b"]);
    bench.fill(&["a", "b", "a"], 2);
    consumers.settle([1, 3]);
    consumers.change(&["a"]);
    bench.reconcile();
    // At once: who changed a consumer and asks next sees it.
    assert_eq!(bench.stored(), [4, 6]);
    pass(&mut bench, 0);
    assert_eq!(bench.core.next_due().filter(|&at| at <= bench.now), None);
}

#[test]
fn a_work_queue_keeps_what_nobody_wants() {
    let (mut bench, consumers) = with(Retention::WorkQueue, &["a"]);
    bench.fill(&["a", "b"], 2);
    consumers.settle([1, 2]);
    bench.reconcile();
    pass(&mut bench, 0);
    assert_eq!(bench.stored(), [2, 3, 4]);
    consumers.change(&[]);
    bench.reconcile();
    pass(&mut bench, 0);
    assert_eq!(bench.stored(), [2, 3, 4]);
}

#[test]
fn without_consumers_everything_goes_at_once() {
    let (mut bench, consumers) = with(Retention::Interest, &[">"]);
    bench.fill(&["a", "b"], 2000);
    consumers.change(&[]);
    bench.reconcile();
    bench.core.due(bench.now, &mut bench.effects);
    let totals = bench.core.state().totals;
    assert_eq!((totals.messages, totals.first_seq), (0, 4001));
    bench.reconcile();
    pass(&mut bench, 0);
    let (mut empty, _) = with(Retention::Interest, &[]);
    empty.reconcile();
    pass(&mut empty, 0);
}

#[test]
fn many_messages_are_looked_at_in_slices() {
    let (mut bench, consumers) = with(Retention::Interest, &[">"]);
    bench.fill(&["a", "b", "c", "a"], 1000);
    consumers.settle((1..=4000).filter(|seq| seq % 3 == 0));
    bench.reconcile();
    assert!(bench.effects.due_changed, "the rest follows");
    let mut slices = 1;
    while bench.core.next_due().is_some_and(|at| at <= bench.now) {
        let before = bench.core.state().totals.messages;
        bench.core.due(bench.now, &mut bench.effects);
        assert!(before - bench.core.state().totals.messages <= 1000);
        slices += 1;
    }
    assert!(slices >= 4, "{slices}");
    assert_eq!(bench.stored(), (1..=4000).filter(|seq| seq % 3 != 0).collect::<Vec<_>>());
}

#[test]
fn many_subjects_are_looked_at_in_slices() {
    let (mut bench, consumers) = with(Retention::Interest, &[">"]);
    let subjects: Vec<_> = (0..2500).map(|at| format!("s.{at}")).collect();
    bench.fill(&subjects.iter().map(String::as_str).collect::<Vec<_>>(), 1);
    consumers.settle((1..=2500).filter(|seq| seq % 2 == 0));
    bench.reconcile();
    bench.core.due(bench.now, &mut bench.effects);
    assert!(bench.core.state().totals.messages > 1250);
    pass(&mut bench, 0);
    assert_eq!(bench.stored(), (1..=2500).filter(|seq| seq % 2 == 1).collect::<Vec<_>>());
}

#[test]
fn a_subject_may_go_while_it_is_looked_at() {
    let (mut bench, consumers) = with(Retention::Interest, &[">"]);
    bench.fill(&["b"; 10], 1);
    bench.fill(&["a"; 100], 15);
    consumers.settle(1..=10);
    bench.reconcile();
    bench.core.due(bench.now, &mut bench.effects);
    let mut purge = Purge { filter: Some(Filter::new(b"a")), ..Purge::default() };
    while bench.core.purge(&mut purge, bench.now, &mut bench.effects).unwrap().more {}
    pass(&mut bench, 0);
    assert_eq!(bench.core.state().totals.messages, 0, "`b` is looked at from its first message on");
}

#[test]
fn what_changes_behind_the_look_is_looked_at_again() {
    let (mut bench, consumers) = with(Retention::Interest, &[">"]);
    bench.fill(&["a", "b"], 1500);
    bench.reconcile();
    bench.core.due(bench.now, &mut bench.effects);
    bench.core.due(bench.now, &mut bench.effects);
    // `a` has been passed.
    consumers.change(&["b"]);
    bench.reconcile();
    pass(&mut bench, 0);
    assert_eq!(bench.core.state().totals.messages, 1500);
}

#[test]
fn what_is_stored_during_a_look_is_let_alone() {
    let (mut bench, consumers) = with(Retention::Interest, &[">"]);
    bench.fill(&["a", "b"], 1500);
    bench.reconcile();
    bench.core.due(bench.now, &mut bench.effects);
    bench.fill(&["b"], 1);
    // As if its consumer was not asked in time.
    consumers.settle([3001]);
    pass(&mut bench, 0);
    assert_eq!(bench.last(), 3001);
    assert!(bench.stored().contains(&3001));
}

#[test]
fn an_update_to_interest_removes_what_nobody_needs() {
    for (patterns, left) in [(&["a"][..], &[3, 5][..]), (&[], &[])] {
        let (mut bench, consumers) = with(Retention::Limits, patterns);
        bench.fill(&["a", "b"], 3);
        bench.acknowledge(&consumers, &[1]);
        let interest = Arc::new(StreamConfig { retention: Retention::Interest, ..config() });
        bench.core.update(Arc::clone(&interest), bench.now, &mut bench.effects).unwrap();
        pass(&mut bench, 0);
        assert_eq!(bench.stored(), left);
        // And one that changes nothing of it has nothing looked at.
        bench.core.update(interest, bench.now, &mut bench.effects).unwrap();
        bench.core.due(bench.now, &mut bench.effects);
        assert!(bench.core.next_due().is_none_or(|at| at > bench.now));
    }
}

#[test]
fn what_a_round_has_passed_is_looked_at_once_more() {
    let (mut bench, consumers) = with(Retention::Interest, &[">"]);
    bench.fill(&["a"; 100], 40);
    bench.reconcile();
    assert!(bench.core.next_due().is_some_and(|at| at <= bench.now), "the round is not through");
    // These are behind it.
    consumers.settle(1..=10);
    bench.reconcile();
    pass(&mut bench, 0);
    assert_eq!(bench.core.state().totals.messages, 3990);
}

/// One message each on so many subjects, of which the consumers that are left want all.
fn with_subjects(count: usize) -> (Bench, Arc<Consumers>) {
    let (mut bench, consumers) = with(Retention::Interest, &["s.>"]);
    let subjects: Vec<_> = (0..count).map(|at| format!("s.{at}.x")).collect();
    bench.fill(&subjects.iter().map(String::as_str).collect::<Vec<_>>(), 1);
    consumers.take_asked();
    (bench, consumers)
}

#[test]
fn only_messages_that_a_consumer_wanted_are_looked_at_when_it_is_gone() {
    for (patterns, looked_at) in [
        (&["s.7.x"][..], 1),
        (&["s.7.x", "s.70.*", "t.>"], 2),
        (&["s.1499.>", "none"], 1),
        (&["s.*.x"], 1500),
        (&[], 1500),
    ] {
        let (mut bench, consumers) = with_subjects(1500);
        consumers.settle(1..=1500);
        bench.consumer_left(patterns, true);
        pass(&mut bench, 0);
        assert_eq!(consumers.take_asked(), looked_at, "{patterns:?}");
        assert_eq!(bench.core.state().totals.messages, 1500 - looked_at as u64, "and they are gone");
    }
}

#[test]
fn what_one_consumer_wanted_goes_before_whoever_has_removed_it_asks() {
    let (mut bench, consumers) = with_subjects(100);
    consumers.settle(1..=100);
    bench.consumer_left(&["s.7.*"], true);
    assert_eq!(bench.core.state().totals.messages, 99);
    bench.consumer_left(&["s.8.*"], false);
    assert_eq!(bench.core.state().totals.messages, 99, "nobody waits for it");
    assert!(bench.effects.due_changed && bench.core.next_due().is_some_and(|at| at <= bench.now));
}

#[test]
fn one_round_serves_all_consumers_that_end_together() {
    let (mut bench, consumers) = with_subjects(500);
    (0..50).for_each(|_| bench.consumer_left(&[], false));
    assert_eq!(consumers.take_asked(), 0);
    pass(&mut bench, 0);
    assert_eq!(consumers.take_asked(), 500);
    // With what came while the round waited, and without what came behind it.
    bench.consumer_left(&["s.1.x"], false);
    bench.fill(&["s.2.x"], 1);
    bench.consumer_left(&["s.2.x"], false);
    bench.fill(&["s.2.x"], 1);
    pass(&mut bench, 0);
    assert_eq!(consumers.take_asked(), 3);
}

#[test]
fn consumers_that_end_during_a_round_share_the_next_one() {
    let (mut bench, consumers) = with_subjects(1500);
    bench.consumer_left(&[], true);
    assert_eq!(consumers.take_asked(), 1000, "a slice");
    // Both are in the slice that is done.
    consumers.settle([2, 11]);
    (0..50).for_each(|_| ["s.1.x", "s.10.x"].iter().for_each(|one| bench.consumer_left(&[one], false)));
    pass(&mut bench, 0);
    assert_eq!(consumers.take_asked(), 500 + 2);
    assert_eq!(bench.core.state().totals.messages, 1498);
}

#[test]
fn a_slice_ends_when_many_consumers_were_asked() {
    let (mut bench, consumers) = with_subjects(100);
    consumers.ask_many(2000);
    bench.consumer_left(&[], true);
    assert_eq!(consumers.take_asked(), 10);
    pass(&mut bench, 0);
    assert_eq!(consumers.take_asked(), 90);
    // One question may cost more than a slice.
    consumers.ask_many(1_000_000);
    bench.consumer_left(&["s.1.*", "s.2.*"], true);
    assert_eq!(consumers.take_asked(), 1);
    pass(&mut bench, 0);
    assert_eq!(consumers.take_asked(), 1);
    bench.acknowledge(&consumers, &[1, 2, 3]);
    assert_eq!(consumers.take_asked(), 1);
    pass(&mut bench, 0);
    assert_eq!((consumers.take_asked(), bench.core.state().totals.messages), (2, 97));
}
