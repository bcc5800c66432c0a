//! A consumer that follows delivers nothing of its own accord, and all of it when it leads again.

use super::turns::{Bench, SECOND, config, stream};
use crate::ReplicaRole;
use crate::consumer::{ConsumerCore, DeliverOutcome};
use myelin_jsapi::consumer::config::{ConsumerConfig, DeliverPolicy, StreamPlaces};
use myelin_store::{Admission, NewMessage, Purge};

impl Bench {
    fn set_role(&mut self, role: ReplicaRole) {
        self.turn(|core, turn| core.set_role(role, "S", 1, turn));
    }

    /// Pending messages and the floor of acknowledgements, as the record has them.
    fn record(&self) -> (usize, u64, u64) {
        let handle = self.core.state_handle().lock();
        let state = handle.state(self.core.state_handle().id()).expect("it is there");
        (state.pending().len(), state.ack_floor().stream, state.delivered().stream)
    }
}

#[test]
fn nothing_comes_again_from_a_follower() {
    let stream = stream(&["a", "b", "c"]);
    let mut bench = Bench::new(&stream, ConsumerConfig { inactive_threshold: 60 * SECOND, ..config() });
    assert_eq!(bench.ask(0, r#"{"batch":2,"no_wait":true}"#), [1, 2]);
    bench.set_role(ReplicaRole::Follower);
    assert_eq!(bench.core.next_due(bench.now), None, "nobody has to wake it");
    assert_eq!(bench.ask(3600 * SECOND, r#"{"batch":5,"expires":1000}"#), [0; 0]);
    assert!(bench.effects.out.is_empty() && bench.effects.events.is_empty(), "nobody is told anything");
    assert!(!bench.effects.is_over, "nobody ends it for want of use");
    assert_eq!(bench.turn(ConsumerCore::deliver), DeliverOutcome::Rests);
    assert_eq!(bench.record(), (2, 0, 2));
    bench.set_role(ReplicaRole::Leader);
    let again = bench.ask(SECOND, r#"{"batch":5,"no_wait":true}"#);
    assert_eq!(again, [1, 2, 3], "they are due since it followed");
    assert_eq!(bench.record(), (3, 0, 3));
    assert!(!bench.effects.is_over);
    bench.now += 3600 * SECOND;
    // Once for what a client may still work on.
    bench.turn(ConsumerCore::due);
    bench.turn(ConsumerCore::due);
    assert!(bench.effects.is_over, "nobody has used it since");
}

#[test]
fn a_follower_settles_nothing_by_what_its_stream_shows() {
    let mut stream = stream(&["a", "b", "c"]);
    let mut bench = Bench::new(&stream, config());
    assert_eq!(bench.ask(0, r#"{"batch":2,"no_wait":true}"#), [1, 2]);
    bench.set_role(ReplicaRole::Follower);
    stream.purge(&mut Purge::default(), usize::MAX, 2).unwrap();
    let reader = stream.reader();
    bench.turn(|core, turn| {
        core.set_reader(reader.clone());
        core.deliver(turn);
        core.due(turn);
        core.info("S", turn)
    });
    let now = bench.now;
    bench.core.reopen("S", 2, now);
    assert_eq!((bench.record(), bench.core.role()), ((2, 0, 2), ReplicaRole::Follower));
    bench.set_role(ReplicaRole::Leader);
    assert_eq!(bench.record(), (0, 3, 3), "a leader sees what is gone");
    let message = NewMessage { subject: b"d", timestamp: 2, ..NewMessage::default() };
    stream.append(&[message], Admission::Granted, 2, &mut Vec::new()).unwrap();
    assert_eq!(bench.ask(0, r#"{"batch":5,"no_wait":true}"#), [4]);
}

/// A client that reads the current values must not get those that were overwritten before.
#[test]
fn a_new_leader_goes_on_with_the_last_messages_of_subjects() {
    let mut stream = stream(&["a", "b", "b", "c", "b", "b", "d"]);
    let config = ConsumerConfig {
        deliver_policy: DeliverPolicy::LastPerSubject,
        filter_subjects: vec!["a".into(), "b".into(), "c".into()],
        places: StreamPlaces { lasts_through: 7, ..StreamPlaces::default() },
        ack_wait: 60 * SECOND,
        ..config()
    };
    let mut bench = Bench::new(&stream, config);
    // What came since is no value of then.
    for timestamp in [2, 3] {
        let message = NewMessage { subject: b"b", timestamp, ..NewMessage::default() };
        stream.append(&[message], Admission::Granted, 2, &mut Vec::new()).unwrap();
    }
    assert_eq!(bench.ask(0, r#"{"batch":1}"#), [1]);
    bench.set_role(ReplicaRole::Follower);
    bench.set_role(ReplicaRole::Leader);
    assert_eq!(bench.ask(0, r#"{"batch":1}"#), [4]);
    bench.core.reopen("S", 2, bench.now);
    assert_eq!(bench.ask(0, r#"{"batch":5,"no_wait":true}"#), [6, 8, 9]);
    bench.set_role(ReplicaRole::Follower);
    bench.set_role(ReplicaRole::Leader);
    assert_eq!(bench.ask(0, r#"{"batch":5,"no_wait":true}"#), [0; 0]);
}
