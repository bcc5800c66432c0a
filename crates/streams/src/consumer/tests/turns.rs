//! Turns of a whole consumer: what is passed over, who is sent away, what comes again.

use std::sync::{Arc, Mutex};

use myelin_store::consumer::Consumers;
use myelin_store::{Admission, NewMessage, Seq, Stream, StreamConfig};

use super::spoken::lines;
use crate::consumer::{
    ConsumerCore, ConsumerInit, DeliverOutcome, Effects, Env, SlowReceiver, StateHandle, TurnCtx, rules,
};
use myelin_jsapi::config::Retention;
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig};

pub(super) const SECOND: i64 = 1_000_000_000;

/// Everybody listens or nobody, and is behind or not.
#[derive(Default)]
pub(super) struct Clients {
    pub(super) are_behind: bool,
    pub(super) are_away: bool,
}

impl Env for Clients {
    fn has_interest(&self, _: &[u8]) -> bool {
        !self.are_away
    }

    fn listens(&self, _: &[u8], _: Option<&[u8]>) -> bool {
        !self.are_away
    }

    fn is_congested(&mut self, _: &[u8]) -> bool {
        self.are_behind
    }

    fn awaited_receiver(&self, _: &[u8]) -> Option<SlowReceiver> {
        self.are_behind.then_some(SlowReceiver { conn: 7, bytes: 2000, bound: 1000 })
    }

    fn unique_id(&self) -> String {
        "id".into()
    }
}

pub(super) struct Bench {
    pub(super) core: ConsumerCore,
    pub(super) effects: Effects,
    pub(super) clients: Clients,
    pub(super) now: i64,
}

pub(super) fn stream(subjects: &[&str]) -> Stream {
    stream_with_pauses(subjects, 0)
}

/// So long passes between two messages.
pub(super) fn stream_with_pauses(subjects: &[&str], pause: i64) -> Stream {
    let mut stream = Stream::in_memory(StreamConfig::default(), 1, 1);
    let times = std::cell::Cell::new(1);
    let message = |subject: &&'static str| NewMessage {
        subject: subject.as_bytes(),
        payload: &[b'p'; 100],
        timestamp: times.replace(times.get() + pause),
        ..NewMessage::default()
    };
    let subjects: Vec<&'static str> =
        subjects.iter().map(|subject| &*String::leak((*subject).into())).collect();
    let messages: Vec<NewMessage<'_>> = subjects.iter().map(message).collect();
    stream.append(&messages, Admission::Granted, 1, &mut Vec::new()).unwrap();
    stream
}

pub(super) fn config() -> ConsumerConfig {
    ConsumerConfig {
        name: "C".into(),
        ack_policy: AckPolicy::Explicit,
        ack_wait: SECOND,
        max_deliver: -1,
        max_waiting: 512,
        ..ConsumerConfig::default()
    }
}

fn init(stream: &Stream, config: ConsumerConfig, state_handle: StateHandle) -> ConsumerInit {
    ConsumerInit {
        stream: "S".into(),
        config: Arc::new(config),
        created: 1,
        reader: stream.reader(),
        state_handle,
        retention: Retention::Limits,
        largest: 300,
        seed: 1,
    }
}

impl Bench {
    pub(super) fn new(stream: &Stream, config: ConsumerConfig) -> Self {
        let consumers = Arc::new(Mutex::new(Consumers::in_memory()));
        let id = consumers.lock().unwrap().create("C", rules(&config), b"").unwrap();
        let init = init(stream, config, StateHandle::new(&consumers, id));
        Self::with(ConsumerCore::create(init, false, 1).unwrap())
    }

    fn with(core: ConsumerCore) -> Self {
        Self { core, effects: Effects::default(), clients: Clients::default(), now: SECOND }
    }

    pub(super) fn turn<R>(&mut self, act: impl FnOnce(&mut ConsumerCore, &mut TurnCtx<'_>) -> R) -> R {
        act(&mut self.core, &mut TurnCtx::new(self.now, &mut self.clients, &mut self.effects))
    }

    /// Messages that come after so many nanoseconds to who asks like this.
    pub(super) fn ask(&mut self, pause: i64, body: &str) -> Vec<Seq> {
        self.now += pause;
        self.effects = Effects::default();
        self.turn(ConsumerCore::due);
        self.turn(|core, turn| core.ask(b"inbox", body.as_bytes(), turn));
        self.deliver()
    }

    /// How many messages were delivered so far.
    pub(super) fn deliveries(&self) -> usize {
        self.effects.out.iter().filter(|msg| !msg.to.is_empty()).count()
    }

    pub(super) fn deliver(&mut self) -> Vec<Seq> {
        while self.turn(ConsumerCore::deliver) == DeliverOutcome::More {}
        let number = |subject: &[u8]| {
            let subject = String::from_utf8_lossy(subject).into_owned();
            subject.split('.').nth(5).unwrap().parse().unwrap()
        };
        let messages = self.effects.out.iter().filter(|msg| !msg.to.is_empty());
        messages.map(|msg| number(msg.reply)).collect()
    }
}

/// Each subject is asked about once, so that a search for a rare one is done in slices: wherever
/// they end.
#[test]
fn a_search_in_slices_passes_over_nothing() {
    const RARE: Seq = 3_000;
    let subjects: Vec<String> =
        (1..=RARE).map(|seq| if seq == RARE { "rare.one".into() } else { format!("x.{seq}") }).collect();
    let stream = stream(&subjects.iter().map(String::as_str).collect::<Vec<_>>());
    let mut sliced = 0;
    for start in (1..1_600).step_by(1) {
        let config = ConsumerConfig { opt_start_seq: start, filter_subject: "rare.*".into(), ..config() };
        let mut bench = Bench::new(&stream, config);
        bench.turn(|core, turn| core.ask(b"inbox", b"1", turn));
        while bench.turn(ConsumerCore::deliver) == DeliverOutcome::More {
            sliced += 1;
        }
        assert_eq!(bench.deliver(), [RARE], "from {start}");
    }
    assert!(sliced > 0, "else this tests nothing");
}

#[test]
fn who_does_not_want_to_wait_is_sent_away_only_where_nothing_is() {
    let stream = stream(&["a", "a", "a"]);
    let mut bench = Bench::new(&stream, config());
    bench.clients.are_behind = true;
    assert_eq!(bench.ask(0, r#"{"batch":3,"no_wait":true}"#), [0; 0]);
    assert_eq!(lines(&bench.effects), [""; 0], "it is behind, and there is something");
    bench.clients.are_behind = false;
    assert_eq!(bench.deliver(), [1, 2, 3]);
    assert_eq!(bench.ask(0, r#"{"batch":3,"no_wait":true}"#), [0; 0]);
    assert_eq!(lines(&bench.effects), ["inbox: 404 No Messages"]);

    let slow = ConsumerConfig { rate_limit_bps: 8 * 100, ack_wait: 60 * SECOND, ..config() };
    let mut bench = Bench::new(&stream, slow);
    assert_eq!(bench.ask(0, r#"{"batch":3,"no_wait":true}"#).len(), 2);
    assert_eq!(lines(&bench.effects), [""; 0], "it is too early for the next, which is there");
    bench.now += 10 * SECOND;
    bench.turn(ConsumerCore::due);
    assert_eq!(bench.deliver(), [1, 2, 3]);
}

/// One goes out of the count as another comes in: the other is waited for all the same.
#[test]
fn what_is_delivered_beside_one_that_is_given_up_comes_again() {
    let stream = stream(&["a", "a"]);
    let mut bench = Bench::new(&stream, ConsumerConfig { max_deliver: 2, ..config() });
    assert_eq!(bench.ask(0, "1"), [1]);
    assert_eq!(bench.ask(2 * SECOND, "1"), [1]);
    // The first has come as often as it may, and goes when somebody asks.
    assert_eq!(bench.ask(2 * SECOND, "1"), [2]);
    assert_eq!(bench.ask(2 * SECOND, "1"), [2]);
}

/// The power went between the sync of the consumers' log and that of the stream's.
#[test]
fn a_stream_that_has_lost_its_end_is_delivered_from_there() {
    let mut bench = Bench::new(&stream(&["a", "a", "a"]), config());
    assert_eq!(bench.ask(0, "3"), [1, 2, 3]);
    let state_handle = bench.core.state_handle().clone();
    let shorter = stream(&["a"]);
    let mut resumed =
        Bench::with(ConsumerCore::resume(init(&shorter, config(), state_handle.clone()), SECOND));
    assert_eq!(resumed.ask(0, "1"), [0; 0], "the first one is still waited for");
    let core = ConsumerCore::resume(init(&stream(&["a", "a"]), config(), state_handle), SECOND);
    assert_eq!(Bench::with(core).ask(0, "1"), [2]);
}
