//! A small consumer for those who send it any bytes.

use myelin_jsapi::config::Retention;
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig};
use myelin_store::consumer::Consumers;
use myelin_store::{Admission, NewMessage, Seq, Stream, StreamConfig, Timestamp};
use myelin_streams::consumer::{
    ConsumerCore, ConsumerInit, DeliverOutcome, Effects, Env, SlowReceiver, StateHandle, TurnCtx, rules,
};
use myelin_wire::message_buf::MessageRef;
use std::sync::{Arc, Mutex};

/// Messages in its stream, from 1.
pub(crate) const MESSAGES: usize = 5;

const BEGIN: Timestamp = 1_700_000_000_000_000_000;
const MINUTE: i64 = 60_000_000_000;

pub(crate) struct Bench {
    core: ConsumerCore,
    pub(crate) effects: Effects,
    pub(crate) now: Timestamp,
}

/// State that a consumer keeps.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) delivered: Seq,
    pub(crate) floor: Seq,
    pub(crate) pending: Vec<Seq>,
}

/// Everybody listens, and nobody is behind.
struct Listeners;

impl Env for Listeners {
    fn has_interest(&self, _: &[u8]) -> bool {
        true
    }

    fn listens(&self, _: &[u8], _: Option<&[u8]>) -> bool {
        true
    }

    fn is_congested(&mut self, _: &[u8]) -> bool {
        false
    }

    fn awaited_receiver(&self, _: &[u8]) -> Option<SlowReceiver> {
        None
    }

    fn unique_id(&self) -> String {
        "id".into()
    }
}

impl Bench {
    pub(crate) fn new(ack_policy: AckPolicy) -> Self {
        let mut stream = Stream::in_memory(StreamConfig::default(), 1, BEGIN);
        let message =
            NewMessage { subject: b"a", payload: b"body", timestamp: BEGIN, ..NewMessage::default() };
        stream
            .append(&[message; MESSAGES], Admission::Check, BEGIN, &mut Vec::new())
            .expect("memory takes a few messages");
        let config = ConsumerConfig {
            name: "C".into(),
            ack_policy,
            ack_wait: MINUTE,
            max_deliver: -1,
            max_waiting: 512,
            ..ConsumerConfig::default()
        };
        let consumers = Arc::new(Mutex::new(Consumers::in_memory()));
        let id = consumers
            .lock()
            .expect("nobody else has it")
            .create("C", rules(&config), b"")
            .expect("the first");
        let opening = ConsumerInit {
            stream: "S".into(),
            config: Arc::new(config),
            created: BEGIN,
            reader: stream.reader(),
            state_handle: StateHandle::new(&consumers, id),
            retention: Retention::Limits,
            largest: 1 << 20,
            seed: 1,
        };
        let core = ConsumerCore::create(opening, false, BEGIN).expect("memory can be read");
        Self { core, effects: Effects::default(), now: BEGIN }
    }

    pub(crate) fn turn<R>(&mut self, act: impl FnOnce(&mut ConsumerCore, &mut TurnCtx<'_>) -> R) -> R {
        act(&mut self.core, &mut TurnCtx::new(self.now, &mut Listeners, &mut self.effects))
    }

    pub(crate) fn ask(&mut self, reply: &[u8], body: &[u8]) {
        self.turn(|core, turn| core.ask(reply, body, turn));
    }

    pub(crate) fn deliver(&mut self) {
        while self.turn(ConsumerCore::deliver) == DeliverOutcome::More {}
    }

    /// A while later.
    pub(crate) fn pass(&mut self, nanos: i64) {
        self.now = self.now.saturating_add(nanos);
        self.turn(ConsumerCore::due);
    }

    /// The messages that came out.
    pub(crate) fn delivered(&self) -> Vec<Seq> {
        let seq = |msg: MessageRef<'_>| {
            let token = msg.reply.split(|byte| *byte == b'.').nth(5)?;
            std::str::from_utf8(token).ok()?.parse().ok()
        };
        self.effects.out.iter().filter(|msg| !msg.to.is_empty()).filter_map(seq).collect()
    }

    pub(crate) fn state(&self) -> Kept {
        let states = self.core.state_handle().lock();
        let state = states.state(self.core.state_handle().id()).expect("it is there");
        Kept {
            delivered: state.delivered().stream,
            floor: state.ack_floor().stream,
            pending: state.pending().iter().map(|(seq, _)| seq).collect(),
        }
    }
}
