//! The release position by itself.

use super::*;

/// As a stream does it.
impl Release {
    fn entered(&self, last_seq: Seq) -> Option<Need> {
        match self.at_once(last_seq) {
            Entered::Passes(batch) => batch.release(),
            Entered::Waits => self.need(),
        }
    }

    fn marked(&self, mark: Seq) -> (bool, Option<Need>) {
        (self.set_mark(mark), self.need())
    }
}

#[test]
fn batches_are_released_in_order_across_segments() {
    let release = Release::new(4);
    release.appended(SegmentNo(1), 100, 5);
    release.appended(SegmentNo(1), 200, 7);
    release.appended(SegmentNo(2), 150, 9);
    assert!(!release.durable(SegmentNo(2), 150), "the first segment is not synced yet");
    assert_eq!(release.seq(), 4);
    assert!(release.durable(SegmentNo(1), 100));
    assert_eq!(release.seq(), 5);
    assert!(release.is_released(Ticket(1)) && !release.is_released(Ticket(2)));
    assert!(release.durable(SegmentNo(1), 200));
    assert_eq!(release.seq(), 9, "the second segment was synced before");
    assert!(release.is_released(release.last_ticket()));
}

#[test]
fn what_was_truncated_is_not_released_by_older_batches() {
    let release = Release::new(0);
    release.appended(SegmentNo(1), 100, 9);
    release.durable(SegmentNo(1), 100);
    release.appended(SegmentNo(1), 200, 12);
    release.truncated(5);
    release.appended(SegmentNo(2), 50, 7);
    assert_eq!(release.seq(), 5);
    release.durable(SegmentNo(1), 200);
    assert_eq!(release.seq(), 5);
    release.durable(SegmentNo(2), 50);
    assert_eq!(release.seq(), 7);
}

#[test]
fn a_weaker_mode_releases_what_waited_and_stays_there() {
    let release = Release::new(0);
    release.appended(SegmentNo(1), 100, 3);
    assert!(release.all(), "something waited");
    assert_eq!((release.seq(), release.ticket()), (3, release.last_ticket()));
    assert_eq!(release.entered(8), None);
    release.durable(SegmentNo(1), 100);
    assert_eq!(release.seq(), 8);
}

#[test]
fn a_sync_between_append_and_entry_is_not_missed() {
    let release = Release::new(0);
    release.durable(SegmentNo(1), 300);
    release.appended(SegmentNo(1), 300, 3);
    assert!(release.durable(SegmentNo(1), 300));
    assert_eq!(release.seq(), 3);
}

/// Whoever waited for such a batch would wait for ever: nobody is told of it.
#[test]
fn a_batch_that_is_released_at_once_is_never_seen_waiting() {
    const BATCHES: u64 = 2_000_000;
    for mark in [Seq::MAX, 1] {
        let release = Release::new(0);
        if mark < Seq::MAX {
            // What is near the mark takes the longer way.
            release.begin_mark(0, 1);
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for seq in 1..=BATCHES {
                    if mark < Seq::MAX {
                        release.set_mark(seq);
                    }
                    release.entered(seq);
                }
            });
            while release.seq() < BATCHES {
                assert!(release.is_released(release.last_ticket()));
            }
        });
    }
}

#[test]
fn what_the_catalog_could_not_follow_is_never_released() {
    let release = Release::new(4);
    drop(release.at_once(9));
    assert_eq!((release.seq(), release.last_ticket()), (4, Ticket(0)));
    release.appended(SegmentNo(1), 100, 9);
    assert_eq!(release.entered(10), None, "what comes later is behind it");
    assert_eq!((release.seq(), release.ticket(), release.last_ticket()), (4, Ticket(0), Ticket(2)));
}

#[test]
fn what_had_to_wait_is_counted_for_the_catalog_until_it_follows() {
    let release = Release::new(0);
    release.entered(1);
    assert!(!release.has_unfollowed(), "the catalog has followed before");
    release.appended(SegmentNo(1), 100, 2);
    release.appended(SegmentNo(1), 200, 3);
    release.appended(SegmentNo(1), 300, 4);
    assert!(!release.has_unfollowed());
    assert!(release.durable(SegmentNo(1), 100) && release.durable(SegmentNo(1), 200));
    assert!(release.has_unfollowed());
    assert_eq!(release.to_follow(), Some(2));
    release.followed(2);
    assert_eq!(release.to_follow(), Some(0));
    assert!(release.durable(SegmentNo(1), 300));
    let Entered::Passes(next) = release.at_once(5) else { panic!("nothing waits") };
    assert_eq!(next.unfollowed(), 1, "what is before it goes first");
    next.followed(1);
    assert_eq!((next.release(), release.seq(), release.has_unfollowed()), (None, 5, false));
}

#[test]
fn what_is_proposed_waits_for_the_commit_and_for_what_was_before_it() {
    let release = Release::new(0);
    release.appended(SegmentNo(1), 100, 2);
    release.proposed(7, false, 3);
    release.proposed(8, false, 5);
    assert!(!release.committed(7), "what was before the group waits for its sync");
    assert!(release.durable(SegmentNo(1), 100));
    assert_eq!((release.seq(), release.is_released(Ticket(3))), (3, false));
    assert!(!release.durable(SegmentNo(2), 1000), "a sync is not what it waits for");
    assert!(!release.all(), "nor does another durability let it through");
    assert!(release.committed(9));
    assert_eq!(release.seq(), 5);
    release.proposed(9, false, 6);
    assert!(release.committed(9), "it was committed before");
    assert_eq!((release.seq(), release.ticket()), (6, release.last_ticket()));
}

#[test]
fn what_was_taken_back_is_passed_over_and_its_tickets_are_not_given_again() {
    let release = Release::new(0);
    release.proposed(1, false, 1);
    release.proposed(2, false, 2);
    release.proposed(3, false, 3);
    assert_eq!(release.take_back(2), Some(Ticket(2)));
    assert_eq!((release.last_ticket(), release.last_seq()), (Ticket(1), 1));
    assert_eq!(release.take_back(2), None);
    release.proposed(2, false, 2);
    assert_eq!(release.last_ticket(), Ticket(4));
    assert!(release.committed(1));
    assert!(!release.is_released(Ticket(2)) && release.take_back(2).is_some());
    assert_eq!((release.last_ticket(), release.ticket()), (Ticket(1), Ticket(1)));
}

#[test]
fn nobody_waits_where_the_mark_moves_in_time() {
    let release = Release::new(10);
    release.begin_mark(10, 4096);
    assert_eq!(release.entered(10 + 512), None);
    assert_eq!(release.entered(10 + 513), Some(Need::Soon));
    assert_eq!(release.entered(10 + 4096), None, "it was asked for");
    assert_eq!((release.seq(), release.is_released(release.last_ticket())), (4106, true));
    assert_eq!(release.marked(20_000), (false, None));
    assert_eq!(release.entered(12_052), None);
    assert_eq!(release.entered(12_054), Some(Need::Soon), "at half of the way");
}

#[test]
fn what_is_behind_the_mark_waits_for_it_in_order() {
    let release = Release::new(10);
    release.begin_mark(10, 100);
    assert_eq!(release.entered(110), Some(Need::Soon));
    assert_eq!(release.entered(111), Some(Need::Now));
    assert_eq!(release.entered(300), None, "it was asked for");
    // An entry without a message, behind one that waits.
    assert_eq!(release.entered(300), None);
    assert_eq!((release.seq(), release.ticket()), (110, Ticket(1)));
    assert!(release.waits_for_mark());
    assert_eq!(release.lower_mark(0), None, "not while somebody waits");
    assert_eq!(release.marked(200), (true, Some(Need::Now)));
    assert_eq!((release.seq(), release.ticket()), (111, Ticket(2)));
    assert_eq!(release.marked(1000), (true, None));
    assert_eq!((release.seq(), release.ticket()), (300, Ticket(4)));
    assert!(!release.waits_for_mark());
}

#[test]
fn a_mark_at_rest_lets_nothing_pass_but_what_is_no_message() {
    let release = Release::new(10);
    release.marked(5000);
    assert_eq!(release.lower_mark(0), Some(10));
    assert_eq!(release.lower_mark(0), None);
    assert_eq!(release.entered(10), Some(Need::Soon));
    assert!(release.is_released(release.last_ticket()));
    assert_eq!(release.entered(11), Some(Need::Now));
    assert_eq!(release.seq(), 10);
    assert_eq!(release.last_seq(), 11);
}

#[test]
fn a_stronger_mode_comes_behind_what_waits_for_the_mark() {
    let release = Release::new(0);
    release.marked(0);
    release.entered(1);
    release.appended(SegmentNo(1), 100, release.seq());
    release.appended(SegmentNo(2), 50, 2);
    assert!(!release.durable(SegmentNo(1), 100) && !release.durable(SegmentNo(2), 50));
    assert!(release.marked(1).0);
    assert_eq!(release.seq(), 2, "what is synced needs no mark");
}

#[test]
fn a_truncation_takes_a_mark_along_that_is_not_stated() {
    let release = Release::new(50);
    release.begin_mark(50, 100);
    release.truncated(20);
    assert_eq!(release.entered(120), Some(Need::Soon));
    assert_eq!(release.entered(121), Some(Need::Now));
    assert_eq!(release.seq(), 120);
}
