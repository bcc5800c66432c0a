//! Fast batches of a cluster's clients: messages that are stored one by one and acknowledged
//! together, sent bit by bit to whoever leads by then.

use super::history::{Condition, Outcome};
use super::node::{CLIENTS, Letter};
use super::world::{Asked, Question, World};

/// A fast batch is acknowledged every so many messages.
const FLOW: u64 = 3;
/// Messages of a batch, at most.
const MOST: usize = 12;

/// Batch that a client has begun, and has not ended.
#[derive(Clone, Debug)]
pub(super) struct OpenFast {
    tag: u64,
    home: usize,
    names: Vec<usize>,
}

impl World {
    /// A client begins a fast batch, goes on with it, or ends it.
    pub(super) fn publish_fast(&mut self, stream: usize) {
        if !self.may_publish(stream) {
            return;
        }
        let leading = self.leading(stream);
        if leading.is_empty() {
            return;
        }
        let to = leading[self.extras.below(leading.len() as u64) as usize];
        let known = self.streams[stream].fast.take().filter(|fast| self.questions.contains_key(&fast.tag));
        let mut fast = match known {
            Some(fast) => fast,
            None => {
                let Some(home) = self.home() else { return };
                let asked = Asked::Fast { stream, names: Vec::new() };
                OpenFast { tag: self.ask(asked, home, &[], ("", "")), home, names: Vec::new() }
            }
        };
        let more = 1 + self.extras.below(4);
        let ends = self.extras.below(3) == 0 || fast.names.len() + more as usize >= MOST;
        for at in 0..more {
            let name = self.publication(stream, None);
            let model = &mut self.streams[stream];
            let one = &mut model.publications[name];
            (one.condition, one.has_id, one.has_lifetime) = (Condition::Nothing, false, false);
            fast.names.push(name);
            let operation = match fast.names.len() {
                _ if ends && at + 1 == more => 2,
                1 => 0,
                _ => 1,
            };
            let (tag, number) = (fast.tag, fast.names.len());
            let letter = Letter {
                account: CLIENTS,
                subject: format!("{}.{}", model.plan.name, one.subject).into_bytes(),
                reply: format!("R.{tag}.f{tag}.{FLOW}.fail.{number}.{operation}.$FI").into_bytes(),
                headers: Vec::new(),
                payload: one.payload.clone().into_bytes(),
            };
            self.say(fast.home, &[to], &letter);
        }
        if let Some(Question { asked: Asked::Fast { names, .. }, .. }) = self.questions.get_mut(&fast.tag) {
            names.clone_from(&fast.names);
        }
        self.streams[stream].fast = (!ends).then_some(fast);
    }

    /// A fast batch has ended: all of its messages are stored, or nobody knows which.
    pub(super) fn fast_ended(
        &mut self,
        stream: usize,
        names: &[usize],
        answer: &serde_json::Value,
    ) -> Result<(), String> {
        let is_whole = answer["error"].is_null() && answer["count"] == names.len() as u64;
        let (Some(seq), Some(&last)) = (answer["seq"].as_u64().filter(|_| is_whole), names.last()) else {
            return Ok(());
        };
        self.counts.stored += names.len() as u64;
        let (events, now) = (self.events, self.now);
        let model = &mut self.streams[stream];
        model.all_stored(names, now);
        let one = &mut model.publications[last];
        (one.outcome, one.answered) = (Outcome::Stored(seq), Some(events));
        let payload = one.payload.clone();
        model.see(seq, &payload, now)
    }
}

/// Whether an answer says that a fast batch has ended.
pub(super) fn is_end(letter: &Letter) -> bool {
    let answer: serde_json::Value = serde_json::from_slice(&letter.payload).unwrap_or_default();
    !answer["count"].is_null() || !answer["error"].is_null() || letter.headers.starts_with(b"NATS/1.0 503")
}
