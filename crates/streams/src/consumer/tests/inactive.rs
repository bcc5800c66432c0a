//! Consumers that nobody uses end after their time, and those that somebody uses do not.

use super::turns::{Bench, SECOND, config, stream};
use crate::consumer::{AckSubject, ConsumerCore};
use myelin_jsapi::consumer::config::ConsumerConfig;
use myelin_wire::message_buf::MessageRef;
use std::sync::Arc;

const TENTH: i64 = SECOND / 10;

impl Bench {
    /// Whether it has ended so many nanoseconds later.
    fn is_over_in(&mut self, pause: i64) -> bool {
        self.now += pause;
        // Once for what a client may still work on.
        self.turn(ConsumerCore::due);
        self.turn(ConsumerCore::due);
        self.effects.is_over
    }

    /// Says this of the first message.
    fn say(&mut self, pause: i64, word: &str) {
        self.now += pause;
        let ack = AckSubject::read(b"$JS.ACK.S.C.1.1.1.1.1").expect("it is one");
        let msg = MessageRef { payload: word.as_bytes(), ..MessageRef::default() };
        self.turn(|core, turn| core.acknowledge(&ack, &msg, turn));
    }

    fn listen(&mut self, pause: i64, are_away: bool) {
        self.now += pause;
        self.clients.are_away = are_away;
        self.turn(ConsumerCore::listen);
    }
}

fn pull(inactive_threshold: i64) -> ConsumerConfig {
    ConsumerConfig { inactive_threshold, ..config() }
}

fn push(inactive_threshold: i64) -> ConsumerConfig {
    ConsumerConfig { deliver_subject: "d".into(), ..pull(inactive_threshold) }
}

#[test]
fn a_consumer_is_used_while_somebody_acknowledges_its_messages() {
    for word in ["+ACK", "-NAK", "+TERM", "what?"] {
        let mut bench = Bench::new(&stream(&["a"]), pull(5 * SECOND));
        assert_eq!(bench.ask(0, "1"), [1]);
        bench.say(4 * SECOND, word);
        assert!(!bench.is_over_in(5 * SECOND - TENTH), "{word}");
        assert!(bench.is_over_in(TENTH), "{word}");

        let mut bench = Bench::new(&stream(&["a"]), push(5 * SECOND));
        bench.listen(0, false);
        assert_eq!(bench.deliver(), [1]);
        // A client that drains works off what it has.
        bench.listen(SECOND, true);
        bench.say(3 * SECOND, word);
        assert!(!bench.is_over_in(5 * SECOND - TENTH), "{word}");
        assert!(bench.is_over_in(TENTH), "{word}");
    }
}

#[test]
fn an_acknowledgement_of_a_client_that_listens_begins_no_time() {
    let mut bench = Bench::new(&stream(&["a"]), push(5 * SECOND));
    bench.listen(0, false);
    assert_eq!(bench.deliver(), [1]);
    bench.say(SECOND, "+ACK");
    assert!(!bench.is_over_in(60 * SECOND));
}

/// One of a nightly job, which was last used hours ago.
#[test]
fn a_consumer_that_is_given_a_time_has_all_of_it() {
    for (before, after) in
        [(pull(0), pull(5 * SECOND)), (pull(3600 * SECOND), pull(5 * SECOND)), (push(0), push(5 * SECOND))]
    {
        let mut bench = Bench::new(&stream(&["a"]), before);
        bench.listen(600 * SECOND, true);
        bench.turn(|core, turn| core.update(Arc::new(after), "S", 1, turn));
        assert!(!bench.is_over_in(0));
        assert!(!bench.is_over_in(5 * SECOND - TENTH));
        assert!(bench.is_over_in(TENTH));
    }
}
