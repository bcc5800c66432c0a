//! States against their twin, and what must hold of each of them.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::bytes::ByteReader;
use super::super::payload;
use super::twin::Twin;
use super::*;

fn check(state: &ConsumerState) {
    let (floor, last) = (state.ack_floor(), state.delivered());
    assert!(floor.consumer <= last.consumer && floor.stream <= last.stream, "{state:?}");
    for (seq, pending) in state.pending().iter() {
        assert!(seq > floor.stream && seq <= last.stream, "{seq} of {state:?}");
        assert!(pending.delivery <= last.consumer && pending.delivery.0 > 0, "{seq} of {state:?}");
        assert_eq!(state.pending().get(seq), Some(pending));
    }
    assert_eq!(state.pending().iter().count(), state.pending().len());
    assert_eq!(state.pending().oldest(), state.pending().iter().next());
    assert_eq!(state.pending().newest(), state.pending().iter().last());
    assert_eq!(
        state.pending().iter_from(floor.stream + 5).collect::<Vec<_>>(),
        state.pending().iter().filter(|(seq, _)| *seq >= floor.stream + 5).collect::<Vec<_>>()
    );
}

fn check_round_trip(state: &ConsumerState) {
    let mut bytes = Vec::new();
    payload::put_state(&mut bytes, state);
    let mut reader = ByteReader::new(&bytes);
    assert_eq!(payload::read_state(&mut reader, 0).as_ref(), Ok(state));
    assert!(reader.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_state_is_its_twin(rules in strategy::rules(), events in vec(strategy::anything(), 0..300)) {
        let (mut state, mut twin) = (ConsumerState::default(), Twin::default());
        for event in events {
            let delta = event.delta(&state);
            let before = state.clone();
            let applied = state.apply(rules, delta);
            twin.apply(rules, delta);
            prop_assert_eq!(&Twin::of(&state), &twin, "after {:?}", delta);
            prop_assert!(applied == Applied::Changed || state == before, "{:?} of {:?}", applied, delta);
            check(&state);
        }
        check_round_trip(&state);
    }

    /// State as the reference's store would hold it: where each redelivery is of a pending message
    /// and none is given up, our floor moves exactly as its does.
    #[test]
    fn the_floor_is_the_references(
        acks in prop_oneof![Just(AckPolicy::All), Just(AckPolicy::Explicit)],
        events in vec(strategy::growing(), 0..300),
    ) {
        let rules = AckRules { acks, max_deliver: None };
        let (mut state, mut twin) = (ConsumerState::default(), Twin { literally: true, ..Twin::default() });
        for event in events {
            // Where the reference lets all below count as acknowledged, only one message was
            // deleted: ours stay.
            let forgets_all = acks == AckPolicy::All && matches!(event, Event::Forget(_));
            if forgets_all || matches!(event, Event::DropBelow(_) | Event::AcknowledgeAny(..)) {
                continue;
            }
            let delta = event.delta(&state);
            state.apply(rules, delta);
            twin.apply(rules, delta);
            let seen = Twin { literally: true, ..Twin::of(&state) };
            prop_assert_eq!(&seen, &twin, "after {:?}", delta);
        }
    }

    #[test]
    fn any_numbers_are_harmless(rules in strategy::rules(), numbers in vec(any::<(u8, u64, u64, u64)>(), 0..50)) {
        let mut state = ConsumerState::default();
        for (what, delivery, seq, count) in numbers {
            let delivery = DeliverySeq(delivery >> (what & 63));
            let seq = seq >> (what & 63);
            state.apply(rules, match what % 8 {
                0..3 => Delta::Delivered { delivery, seq, count, timestamp: count as i64 },
                3 => Delta::Acknowledged { delivery, seq },
                4 => Delta::Skip { seq },
                5 => Delta::DropBelow { seq },
                6 => Delta::CutAbove { seq },
                _ => Delta::Forget { seq },
            });
            check_numbers(&state);
        }
    }
}

fn check_numbers(state: &ConsumerState) {
    let (floor, last) = (state.ack_floor(), state.delivered());
    assert!(floor.consumer <= last.consumer && floor.stream <= last.stream, "{state:?}");
    check_round_trip(state);
}

#[test]
fn acknowledgements_out_of_order_and_twice() {
    let rules = AckRules::default();
    let mut state = ConsumerState::default();
    for seq in 1..=4 {
        state.apply(rules, delivered(seq, seq * 10));
    }
    assert_eq!(state.apply(rules, acknowledged(3, 30)), Applied::Changed);
    assert_eq!(state.apply(rules, acknowledged(3, 30)), Applied::Unknown);
    assert_eq!(Twin::of(&state).floor, (0, 0));
    assert_eq!(state.apply(rules, acknowledged(1, 10)), Applied::Changed);
    assert_eq!(Twin::of(&state).floor, (1, 19), "up to the next that is pending");
    assert_eq!(state.apply(rules, acknowledged(1, 10)), Applied::Stale);
    assert_eq!(state.apply(rules, acknowledged(2, 20)), Applied::Changed);
    assert_eq!(Twin::of(&state).floor, (3, 39));
    assert_eq!(state.apply(rules, acknowledged(4, 40)), Applied::Changed);
    assert_eq!(Twin::of(&state).floor, (4, 40));
}

#[test]
fn a_message_is_given_up_after_max_deliver() {
    let rules = AckRules { max_deliver: std::num::NonZeroU64::new(2), ..AckRules::default() };
    let mut state = ConsumerState::default();
    let deliver = |delivery, seq, count| Delta::Delivered {
        delivery: DeliverySeq(delivery),
        seq,
        count,
        timestamp: delivery as i64,
    };
    for delta in [deliver(1, 1, 1), deliver(2, 2, 1), deliver(3, 1, 2)] {
        state.apply(rules, delta);
    }
    assert_eq!(state.pending().get(1), Some(Pending { delivery: DeliverySeq(1), timestamp: 3 }));
    state.apply(rules, deliver(4, 1, 3));
    assert_eq!(state.pending().get(1), None);
    assert_eq!(state.redelivered().get(&1), Some(&2), "until the message leaves the stream");
    assert_eq!(Twin::of(&state).floor, (1, 1));
    assert_eq!(state.apply(rules, Delta::ForgetCountsBelow { seq: 2 }), Applied::Changed);
    assert!(state.redelivered().is_empty());
}

#[test]
fn a_forged_acknowledgement_does_not_make_deaf() {
    let rules = AckRules { acks: AckPolicy::All, max_deliver: None };
    let mut state = ConsumerState::default();
    state.apply(rules, delivered(1, 1));
    assert_eq!(state.apply(rules, acknowledged(u64::MAX, 1)), Applied::Changed);
    assert_eq!(state.apply(rules, delivered(2, 2)), Applied::Changed);
    assert_eq!(state.pending().len(), 1);
}

#[test]
fn without_acknowledgements_what_is_delivered_is_done() {
    let rules = AckRules { acks: AckPolicy::None, max_deliver: None };
    let mut state = ConsumerState::default();
    assert_eq!(state.apply(rules, delivered(1, 5)), Applied::Changed);
    assert_eq!(Twin::of(&state).floor, (1, 5));
    assert_eq!(state.apply(rules, acknowledged(1, 5)), Applied::NoAckPolicy);
    assert!(state.pending().is_empty());
}

#[test]
fn impossible_states_are_refused() {
    let pair = |consumer, stream| SequencePair { consumer: DeliverySeq(consumer), stream };
    let one = |seq, delivery| (seq, Pending { delivery: DeliverySeq(delivery), timestamp: 0 });
    let build = |delivered, floor, pending: Vec<_>| {
        ConsumerState::from_parts(delivered, floor, pending, BTreeMap::new()).is_ok()
    };
    assert!(build(pair(3, 3), pair(1, 1), vec![one(2, 2), one(3, 3)]));
    assert!(!build(pair(3, 3), pair(4, 1), vec![]));
    assert!(!build(pair(3, 3), pair(1, 4), vec![]));
    assert!(!build(pair(3, 3), pair(1, 1), vec![one(1, 1)]));
    assert!(!build(pair(3, 3), pair(1, 1), vec![one(4, 2)]));
    assert!(!build(pair(3, 3), pair(1, 1), vec![one(2, 4)]));
    assert!(!build(pair(3, 3), pair(1, 1), vec![one(3, 3), one(2, 2)]));
    assert!(!build(pair(3, 3), pair(1, 1), vec![one(2, 0)]));
}
