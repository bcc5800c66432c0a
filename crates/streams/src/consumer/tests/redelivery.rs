//! Messages that come again: their order, and when to look for more.

use std::collections::BTreeMap;

use myelin_store::consumer::{ConsumerState, DeliverySeq, Pending, SequencePair};
use myelin_store::{Seq, Timestamp};

use crate::consumer::redelivery::{Redelivery, ack_wait};
use myelin_jsapi::consumer::config::ConsumerConfig;

const MS: i64 = 1_000_000;

fn state(times: &[(Seq, Timestamp)], counts: &[(Seq, u64)]) -> ConsumerState {
    let pending = times
        .iter()
        .zip(1..)
        .map(|(&(seq, timestamp), delivery)| (seq, Pending { delivery: DeliverySeq(delivery), timestamp }));
    let last = times.last().map_or(0, |(seq, _)| *seq);
    let delivered = SequencePair { consumer: DeliverySeq(times.len() as u64), stream: last };
    let counts: BTreeMap<Seq, u64> = counts.iter().copied().collect();
    ConsumerState::from_parts(delivered, SequencePair::default(), pending, counts).unwrap()
}

fn taken(redelivery: &mut Redelivery) -> Vec<Seq> {
    std::iter::from_fn(|| redelivery.take()).collect()
}

#[test]
fn what_was_taken_out_and_comes_again_is_behind_the_others() {
    let mut redelivery = Redelivery::default();
    [1, 2, 3, 2].into_iter().for_each(|seq| redelivery.add(seq));
    redelivery.remove(1);
    assert_eq!(redelivery.len(), 2);
    redelivery.add(1);
    assert_eq!(taken(&mut redelivery), [2, 3, 1]);
    assert!(redelivery.is_empty());
}

#[test]
fn what_was_not_delivered_is_the_next() {
    let mut redelivery = Redelivery::default();
    [1, 2, 3].into_iter().for_each(|seq| redelivery.add(seq));
    let first = redelivery.take().unwrap();
    redelivery.put_back(first);
    redelivery.retain(|seq| seq != 2);
    assert_eq!(taken(&mut redelivery), [1, 3]);
    (0..1000).for_each(|seq| redelivery.add(seq));
    (0..990).for_each(|seq| redelivery.remove(seq));
    assert_eq!(taken(&mut redelivery), (990..1000).collect::<Vec<_>>());
}

#[test]
fn a_look_finds_what_has_waited_for_too_long_and_says_when_to_look_again() {
    let config = ConsumerConfig { ack_wait: 100 * MS, max_deliver: 3, ..ConsumerConfig::default() };
    let state = state(&[(1, 0), (2, 50 * MS), (3, 0), (4, 0), (5, 70 * MS)], &[(4, 3)]);
    let mut redelivery = Redelivery::default();
    redelivery.add(3);
    let found = redelivery.scan_due(&state, &config, 100 * MS);
    let exhausted: Vec<Seq> = found.exhausted.iter().map(|(seq, ..)| *seq).collect();
    assert_eq!(exhausted, [4], "it was delivered as often as it may be");
    assert_eq!(redelivery.next_due(), Some(151 * MS), "an acknowledgement may be late by a millisecond");
    assert_eq!(taken(&mut redelivery), [3, 1]);
    redelivery.expect(120 * MS);
    assert_eq!(redelivery.next_due(), Some(121 * MS));
    redelivery.expect(130 * MS);
    assert_eq!(redelivery.next_due(), Some(121 * MS), "the earliest counts");
}

#[test]
fn a_long_row_is_looked_through_in_slices() {
    let config = ConsumerConfig { ack_wait: MS, ..ConsumerConfig::default() };
    let times: Vec<(Seq, Timestamp)> = (1..=70_000).map(|seq| (seq, 0)).collect();
    let state = state(&times, &[]);
    let mut redelivery = Redelivery::default();
    redelivery.scan_due(&state, &config, 10 * MS);
    assert!(redelivery.len() < 70_000);
    assert_eq!(redelivery.next_due(), Some(10 * MS), "it goes on at once");
    redelivery.scan_due(&state, &config, 10 * MS);
    assert_eq!(redelivery.len(), 70_000);
    assert_eq!(redelivery.next_due(), None);
}

/// A client wants one again that the look has passed, before all others are due.
#[test]
fn a_look_forgets_nothing_that_comes_up_between_its_slices() {
    let config = ConsumerConfig { ack_wait: 25_000 * MS, ..ConsumerConfig::default() };
    let times: Vec<(Seq, Timestamp)> = (1..=70_000).map(|seq| (seq, 0)).collect();
    let state = state(&times, &[]);
    let mut redelivery = Redelivery::default();
    redelivery.scan_due(&state, &config, 10 * MS);
    redelivery.expect(1000 * MS);
    assert_eq!(redelivery.next_due(), Some(10 * MS), "it goes on at once");
    redelivery.scan_due(&state, &config, 10 * MS);
    assert_eq!(redelivery.next_due(), Some(1001 * MS));
    redelivery.scan_due(&state, &config, 1001 * MS);
    redelivery.scan_due(&state, &config, 1001 * MS);
    assert_eq!(redelivery.next_due(), Some(25_001 * MS));
}

#[test]
fn pauses_grow_with_each_delivery_and_the_last_stays() {
    let config = ConsumerConfig { ack_wait: 1, backoff: vec![1, 5, 9], ..ConsumerConfig::default() };
    let waits: Vec<i64> = [0, 1, 2, 3, u64::MAX].map(|count| ack_wait(&config, count)).into();
    assert_eq!(waits, [1, 5, 9, 9, 9]);
    let plain = ConsumerConfig { ack_wait: 7, ..ConsumerConfig::default() };
    assert_eq!(ack_wait(&plain, 3), 7);
}
