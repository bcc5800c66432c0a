//! Effects of a consumer that wait until what they tell of counts as stored: written and synced, or
//! committed by the group of the stream.
//!
//! Owns their order, and how late deliveries left that waited. What waits was never sent: where it
//! never will be, nobody is told anything of it but that the leader has changed.

use super::core::{ConsumerCore, DeliveryMode, TurnCtx};
use super::effects::{ConsumerEvent, Effects};
use super::redelivery::ack_wait;
use super::status::StatusMessage;
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig};
use myelin_store::Timestamp;
use myelin_store::consumer::Flushed;
use myelin_wire::message_buf::MessageBuf;
use std::collections::{HashSet, VecDeque};

/// Queue of effects that wait.
#[derive(Default)]
pub(super) struct HeldEffects {
    waiting: VecDeque<HeldTurn>,
}

/// Effects of one turn.
struct HeldTurn {
    /// What must be released before; `None`: nothing.
    position: Option<Flushed>,
    out: MessageBuf,
    events: Vec<ConsumerEvent>,
    /// When its deliveries were decided, if it has any.
    decided: Option<Timestamp>,
}

impl ConsumerCore {
    /// Keeps answers to acknowledgements until `position` is released, behind what waits already.
    pub fn hold_confirmations(&mut self, position: Option<Flushed>, confirmations: MessageBuf) {
        let (events, decided) = (Vec::new(), None);
        self.held.waiting.push_back(HeldTurn { position, out: confirmations, events, decided });
    }

    /// In a group: keeps what a turn has to say until `position` is released, behind what waits
    /// already. What consumers say whose deliveries await no acknowledgement does not wait: they
    /// are told of what they got, and nothing of it is promised.
    pub fn hold(&mut self, position: Option<Flushed>, effects: &mut Effects, now: Timestamp) {
        let mut out = MessageBuf::default();
        let waits = matches!(self.config().ack_policy, AckPolicy::Explicit | AckPolicy::All);
        if waits {
            out.append(&mut effects.out);
        }
        out.append(&mut effects.confirmations);
        let events = std::mem::take(&mut effects.events);
        if out.is_empty() && events.is_empty() {
            return;
        }
        let decided = waits.then_some(now);
        self.held.waiting.push_back(HeldTurn { position, out, events, decided });
        self.redelivery.hold_from(self.held.first_decided());
    }

    /// Moves what is released to `effects`. Answers whether something waits.
    pub fn release_held(
        &mut self,
        is_released: impl Fn(Option<Flushed>) -> bool,
        effects: &mut Effects,
        now: Timestamp,
    ) -> bool {
        let was_empty = self.held.waiting.is_empty();
        while let Some(held) = self.held.waiting.pop_front_if(|held| is_released(held.position)) {
            let HeldTurn { mut out, mut events, decided, .. } = held;
            effects.out.append(&mut out);
            effects.events.append(&mut events);
            if let Some(decided) = decided {
                let config = &self.deliverer.config;
                self.redelivery.sent_late(decided, now, shortest_wait(config));
            }
        }
        if !was_empty {
            self.redelivery.hold_from(self.held.first_decided());
        }
        !self.held.waiting.is_empty()
    }

    /// Whether something waits.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        !self.held.waiting.is_empty()
    }

    /// What waits is never sent: another replica leads. Clients that asked for messages are told
    /// that, whether they still wait or have their messages among what is not sent.
    ///
    /// Compat: with the reference the new leader tells them, which knows of each request.
    pub(super) fn give_up_leading(&mut self, turn: &mut TurnCtx<'_>) {
        const TEXT: &str = "Leadership Change";
        let held = std::mem::take(&mut self.held);
        self.redelivery.hold_from(None);
        let DeliveryMode::Pull(pull) = &self.deliverer.mode else { return };
        let mut told: HashSet<Vec<u8>> = pull.waiting_replies().map(<[u8]>::to_vec).collect();
        self.end(TEXT, turn);
        for msg in held.waiting.iter().flat_map(|held| held.out.iter()) {
            // An answer to an acknowledgement has no headers, and no address of its own.
            let reply = if msg.to.is_empty() && !msg.headers.is_empty() { msg.subject } else { msg.to };
            if !reply.is_empty() && told.insert(reply.to_vec()) {
                turn.effects.push_status(reply, &StatusMessage::Plain(409, TEXT));
            }
        }
    }
}

impl HeldEffects {
    /// When the first deliveries were decided that wait.
    pub(super) fn first_decided(&self) -> Option<Timestamp> {
        self.waiting.iter().find_map(|held| held.decided)
    }
}

/// How long after its delivery a message is delivered again, at least.
fn shortest_wait(config: &ConsumerConfig) -> i64 {
    let waits = (0..config.backoff.len().max(1) as u64).map(|count| ack_wait(config, count));
    waits.min().unwrap_or(i64::MAX)
}
