//! Dead letters: messages whose deliveries are over without an acknowledgement move to another
//! stream, where the consumer's metadata says so.
//!
//! A death is noted in the record (`store/src/consumer/death.rs`) and the message stays pending, so
//! its stream keeps it and it counts in `MaxAckPending`. Once the record counts as stored, its dead
//! letter is published to the other stream, whichever server leads that; when that stream says that
//! it has it, the message is settled as if it were acknowledged. Until then it is published again
//! and again, also by whoever leads or begins next.
//!
//! The other stream has it once all the same: its subject says which message it is, and it is
//! published on the condition that there is none of this subject. Where there is, and its headers
//! say that it is the letter of this message, it is there. So nothing depends on a window of time,
//! or on who remembers what.
//!
//! A subject of the metadata may be that of other consumers' letters, too, of messages with the
//! same time and sequence (of the same stream, or of a mirror). Whoever finds such a letter in the
//! place of its own publishes its own apart: under a subject that has the stream and the consumer
//! in it. The place of the metadata is tried first, as every build of the server has done, so that
//! what an older one has stored, or has on its way, is not there twice.

use super::effects::{ConsumerEvent, DeadLetterNews, Effects, Env};
use super::letter::{Letter, write_headers};
use super::letter_answer::{LetterAnswer, LetterFound, LetterPublished, Step};
use super::state_handle::StateHandle;
use myelin_jsapi::api::why::ConsumerCause;
use myelin_jsapi::consumer::config::ConsumerConfig;
use myelin_jsapi::consumer::{DeadLetterPolicy, RetryBackoff};
use myelin_store::consumer::{ConsumerState, Death};
use myelin_store::{Message, Seq, Timestamp};
use myelin_wire::message_buf::MessageRef;
use std::collections::BTreeMap;

/// Dead letters on their way, at most.
const WINDOW: usize = 1024;
/// So long an answer may take.
const PATIENCE: i64 = 5_000_000_000;
/// Pause after the first refusal, which doubles up to the longest.
const RETRY: i64 = 250_000_000;
const LONGEST_RETRY: i64 = 60_000_000_000;

/// Dead letters of one consumer.
pub(super) struct DeadLetters {
    pub(super) policy: DeadLetterPolicy,
    stream: Box<str>,
    consumer: Box<str>,
    /// Their subject, but for that of the message.
    subject: String,
    /// Beginning of the subjects on which answers come.
    replies: String,
    /// Dead messages that may be published.
    waiting: BTreeMap<Seq, DeadMessage>,
    /// Refused ones, until they may be published again: each for itself, as one that is never taken
    /// must not come again with each other one that is.
    refused: BTreeMap<Seq, (DeadMessage, Timestamp)>,
    /// When the first of them may be: perhaps too early.
    next_retry: Option<Timestamp>,
    on_their_way: BTreeMap<Seq, SentLetter>,
    /// When to look for answers that are late.
    patience: Option<Timestamp>,
    /// Refusals since one was taken.
    refusals: u32,
    /// Whether it was told that they are refused, and not yet that all are taken.
    is_told: bool,
    /// Nothing is published before.
    retry_at: Option<Timestamp>,
    /// Words of the last refusal.
    refusal: String,
}

/// Dead message that is not moved yet.
#[derive(Default)]
struct DeadMessage {
    /// Words of the client.
    said: Box<str>,
    /// Refusals of this one.
    refusals: u32,
    /// Whether another consumer's letter is in its place, so that it goes to one apart.
    is_apart: bool,
    /// Whether it may be there already: it died before this replica began to move it.
    is_sought: bool,
}

/// Dead letter that was published, or is looked for.
struct SentLetter {
    at: Timestamp,
    subject: Vec<u8>,
    step: Step,
    dead: DeadMessage,
}

impl SentLetter {
    fn token(&self) -> &'static str {
        self.step.token(self.dead.is_apart)
    }
}

impl DeadLetters {
    /// Dead letters of a consumer with this configuration, if it has any, with those that its
    /// record knows of: they may have been published before. What cannot be followed moves nothing.
    pub(super) fn of(
        config: &ConsumerConfig,
        stream: &str,
        seed: u64,
        state_handle: &StateHandle,
    ) -> Option<Box<Self>> {
        let policy = Self::policy(config)?;
        let subject = policy.subject(stream, &config.name);
        let mut letters = Box::new(Self {
            policy,
            stream: stream.into(),
            consumer: config.name.as_str().into(),
            subject,
            replies: format!("{}.{seed:x}.", replies(stream, &config.name)),
            waiting: BTreeMap::new(),
            refused: BTreeMap::new(),
            next_retry: None,
            on_their_way: BTreeMap::new(),
            patience: None,
            refusals: 0,
            is_told: false,
            retry_at: None,
            refusal: String::new(),
        });
        state_handle.read(|state| letters.load(state));
        Some(letters)
    }

    /// Policy of a configuration; none where it cannot be followed.
    pub(super) fn policy(config: &ConsumerConfig) -> Option<DeadLetterPolicy> {
        DeadLetterPolicy::read(config).ok().flatten()
    }

    fn load(&mut self, state: &ConsumerState) {
        let dead = state.redelivered().iter().filter(|(_, count)| Death::read(**count).is_some());
        let pending = dead.filter(|(seq, _)| state.pending().get(**seq).is_some());
        // What has its own place may be there; what may have gone to one apart is looked for there
        // first, as its own may be free again.
        let is_sought = !self.policy.names_consumer();
        let message = || DeadMessage { is_sought, ..DeadMessage::default() };
        self.waiting.extend(pending.map(|(seq, _)| (*seq, message())));
    }

    /// Forgets what is dead: the consumer begins anew.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.refused.clear();
        self.next_retry = None;
        self.on_their_way.clear();
        self.patience = None;
    }

    /// Pauses before a message comes again.
    pub(super) fn backoff(&self) -> Option<RetryBackoff> {
        self.policy.backoff
    }

    /// Whether messages that die so are moved.
    pub(super) fn takes(&self, death: Death) -> bool {
        match death {
            Death::Exhausted => self.policy.takes_exhausted(),
            Death::Terminated => self.policy.takes_terminated(),
        }
    }

    /// Has a dead message moved, of which a client has said this.
    pub(super) fn add(&mut self, seq: Seq, said: &str) {
        self.waiting.insert(seq, DeadMessage { said: said.into(), ..DeadMessage::default() });
    }

    /// The next one to be published, if one may be now.
    pub(super) fn next(&self) -> Option<Seq> {
        let may_go = self.retry_at.is_none() && self.on_their_way.len() < WINDOW;
        self.waiting.first_key_value().filter(|_| may_go).map(|(seq, _)| *seq)
    }

    /// Forgets a message that has not to be moved: a client has acknowledged it after all, or it
    /// was removed.
    pub(super) fn forget(&mut self, seq: Seq) {
        self.waiting.remove(&seq);
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.refused.len() + self.on_their_way.len()
    }

    /// Whether a message is one of them.
    pub(super) fn has(&self, seq: Seq) -> bool {
        self.waiting.contains_key(&seq)
            || self.refused.contains_key(&seq)
            || self.on_their_way.contains_key(&seq)
    }

    /// Words for a letter to which nobody listens.
    fn nobody_takes(&self, sent: &SentLetter) -> String {
        let subject = String::from_utf8_lossy(&sent.subject);
        format!(
            "nobody takes {subject}: stream {} is not there, or does not listen to it",
            self.policy.stream
        )
    }

    /// How they stand.
    pub(super) fn why(&self, env: &dyn Env) -> ConsumerCause {
        let has_refused = self.refusals > 0 || !self.refused.is_empty();
        let unheard = || self.on_their_way.values().find(|sent| !env.has_interest(&sent.subject));
        let refusal = if has_refused {
            Some(self.refusal.clone())
        } else {
            unheard().map(|sent| self.nobody_takes(sent))
        };
        ConsumerCause::DeadLettersWait {
            messages: self.len() as u64,
            stream: self.policy.stream.clone(),
            refusal,
            retry_at: self.retry_at.filter(|_| !self.waiting.is_empty()).or(self.next_retry),
        }
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let retry_at = self.retry_at.filter(|_| !self.waiting.is_empty());
        [retry_at, self.next_retry, self.patience].into_iter().flatten().min()
    }

    /// With the time at which the message was stored: a sequence may come again, where a stream has
    /// lost its end or was made anew. `is_apart`: with the stream and the consumer, of which no
    /// name has a slash in it, so that no other letter has this subject.
    fn write_subject(&self, message: &Message<'_>, is_apart: bool) -> Vec<u8> {
        let mut subject = Vec::with_capacity(self.subject.len() + 40);
        let mut parts = self.subject.split("{subject}");
        subject.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
        for part in parts {
            subject.extend_from_slice(message.subject);
            subject.extend_from_slice(part.as_bytes());
        }
        subject.extend_from_slice(format!(".{:x}", message.timestamp).as_bytes());
        if is_apart {
            subject.extend_from_slice(format!("/{}/{}", self.stream, self.consumer).as_bytes());
        }
        subject.extend_from_slice(format!(".{}", message.seq).as_bytes());
        subject
    }

    /// Takes note that one was not taken. Tells of it once.
    pub(super) fn refused(&mut self, seq: Seq, why: &str, now: Timestamp, effects: &mut Effects) {
        let sent = self.on_their_way.remove(&seq).map(|sent| sent.dead);
        if let Some(mut dead) = sent.or_else(|| self.waiting.remove(&seq)) {
            let at = now.saturating_add(pause(dead.refusals));
            dead.refusals += 1;
            self.refused.insert(seq, (dead, at));
            self.next_retry = Some(self.next_retry.map_or(at, |next| next.min(at)));
        }
        if self.retry_at.is_some() {
            // With others of the same moment.
            return;
        }
        self.retry_at = Some(now.saturating_add(pause(self.refusals)));
        self.refusals += 1;
        why.clone_into(&mut self.refusal);
        if !std::mem::replace(&mut self.is_told, true) {
            let (stream, why) = (self.policy.stream.clone(), why.to_owned());
            effects.events.push(ConsumerEvent::DeadLetters(DeadLetterNews::Refused { stream, why }));
        }
    }

    /// Takes note that one was taken. Tells that all are again, if some were not.
    fn taken(&mut self, seq: Seq, effects: &mut Effects) -> Option<Seq> {
        self.on_their_way.remove(&seq);
        (self.retry_at, self.refusals) = (None, 0);
        if self.refused.is_empty() && std::mem::take(&mut self.is_told) {
            let stream = self.policy.stream.clone();
            effects.events.push(ConsumerEvent::DeadLetters(DeadLetterNews::Taken { stream }));
        }
        Some(seq)
    }

    /// Has published again what has had no answer for too long.
    pub(super) fn look_for_answers(&mut self, now: Timestamp, env: &dyn Env, effects: &mut Effects) {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
        }
        if self.next_retry.is_some_and(|at| at <= now) {
            let due = self.refused.extract_if(.., |_, (_, at)| *at <= now);
            self.waiting.extend(due.map(|(seq, (dead, _))| (seq, dead)));
            // Seldom: each look goes through all of them.
            let soonest = now.saturating_add(RETRY / 5);
            self.next_retry = self.refused.values().map(|(_, at)| (*at).max(soonest)).min();
        }
        if self.patience.is_none_or(|at| at > now) {
            return;
        }
        let is_late = |sent: &SentLetter| sent.at.saturating_add(PATIENCE) <= now;
        let late: Vec<Seq> =
            self.on_their_way.iter().filter(|(_, sent)| is_late(sent)).map(|(seq, _)| *seq).collect();
        for seq in late {
            let why = match self.on_their_way.get(&seq) {
                Some(sent) if !env.has_interest(&sent.subject) => self.nobody_takes(sent),
                Some(sent) => format!(
                    "no answer: stream {} is not there, does not listen to {}, or has no leader",
                    self.policy.stream,
                    String::from_utf8_lossy(&sent.subject)
                ),
                None => continue,
            };
            self.refused(seq, &why, now, effects);
        }
        let next = self.on_their_way.values().map(|sent| sent.at.saturating_add(PATIENCE)).min();
        self.patience = next;
    }

    /// Publishes one, or looks for it. That leaves when the record of its death counts as stored.
    pub(super) fn publish(
        &mut self,
        message: &Message<'_>,
        (redelivered, last_delivered): (u64, Timestamp),
        now: Timestamp,
        effects: &mut Effects,
    ) {
        let seq = message.seq;
        let dead = self.waiting.remove(&seq).unwrap_or_default();
        self.patience.get_or_insert(now.saturating_add(PATIENCE));
        let subject = self.write_subject(message, dead.is_apart || dead.is_sought);
        if dead.is_sought {
            self.on_their_way.insert(seq, SentLetter { at: now, subject, step: Step::Publish, dead });
            return self.look_for(seq, Step::Sought, effects);
        }
        let sent = SentLetter { at: now, subject, step: Step::Publish, dead };
        let mut headers = Vec::with_capacity(message.headers.len() + 512);
        let letter = Letter {
            stream: &self.stream,
            consumer: &self.consumer,
            target: &self.policy.stream,
            id: &sent.subject,
            redelivered,
            last_delivered,
            said: &sent.dead.said,
            now,
        };
        write_headers(message, &letter, &mut headers);
        let reply = format!("{}{seq}{}", self.replies, sent.token());
        effects.confirmations.push(MessageRef {
            subject: &sent.subject,
            reply: reply.as_bytes(),
            headers: &headers,
            payload: message.payload,
            ..MessageRef::default()
        });
        self.on_their_way.insert(seq, sent);
    }

    /// Asks the stream for the last message of a letter's subject.
    fn look_for(&mut self, seq: Seq, step: Step, effects: &mut Effects) {
        let Some(sent) = self.on_their_way.get_mut(&seq) else { return };
        sent.step = step;
        let subject = format!("$JS.API.STREAM.MSG.GET.{}", self.policy.stream);
        let reply = format!("{}{seq}{}", self.replies, sent.token());
        let wanted = String::from_utf8_lossy(&sent.subject);
        let payload = serde_json::json!({ "last_by_subj": wanted }).to_string();
        effects.confirmations.push(MessageRef {
            subject: subject.as_bytes(),
            reply: reply.as_bytes(),
            payload: payload.as_bytes(),
            ..MessageRef::default()
        });
    }

    /// Takes note of an answer. Answers with the message whose dead letter is stored.
    pub(super) fn answered(
        &mut self,
        msg: &MessageRef<'_>,
        now: Timestamp,
        effects: &mut Effects,
    ) -> Option<Seq> {
        let place = std::str::from_utf8(msg.subject).ok()?.strip_prefix(&*self.replies)?;
        let (seq, token) = place.split_at(place.find('.').unwrap_or(place.len()));
        let seq: Seq = seq.parse().ok()?;
        let answer = LetterAnswer::read(msg.payload);
        let is_of_publish = [false, true].iter().any(|&is_apart| token == Step::Publish.token(is_apart));
        if is_of_publish {
            return match answer.published(&self.policy.stream, msg.payload) {
                LetterPublished::Stored => {
                    // Also one that comes when nobody waits for it any more.
                    self.waiting.remove(&seq);
                    self.refused.remove(&seq);
                    self.taken(seq, effects)
                }
                _ if self.on_their_way.get(&seq)?.token() != token => None,
                LetterPublished::Known(step) => {
                    self.look_for(seq, step, effects);
                    None
                }
                LetterPublished::Refused(why) => {
                    self.refused(seq, &why, now, effects);
                    None
                }
            };
        }
        let sent = self.on_their_way.get(&seq).filter(|sent| sent.token() == token)?;
        let (step, is_apart) = (sent.step, sent.dead.is_apart);
        match answer.found(&sent.subject, (&self.stream, &self.consumer, seq)) {
            LetterFound::Own => return self.taken(seq, effects),
            // Its id is its own: it was there, and was removed since.
            LetterFound::Nothing if step == Step::Duplicate && (is_apart || self.policy.names_consumer()) => {
                return self.taken(seq, effects);
            }
            LetterFound::Nothing | LetterFound::Another if step == Step::Sought => {
                self.publish_again(seq, false)
            }
            LetterFound::Nothing if step == Step::Occupied => {
                self.refused(seq, "no message found (10037)", now, effects);
            }
            LetterFound::Nothing | LetterFound::Another if !is_apart => self.publish_again(seq, true),
            LetterFound::Nothing | LetterFound::Another => {
                let subject = String::from_utf8_lossy(&sent.subject);
                let why = format!("{subject} has a message that is no letter of this one");
                self.refused(seq, &why, now, effects);
            }
            LetterFound::Refused(why) => self.refused(seq, &why, now, effects),
        }
        None
    }

    /// Has a letter published that is not where it was looked for.
    fn publish_again(&mut self, seq: Seq, is_apart: bool) {
        if let Some(sent) = self.on_their_way.remove(&seq) {
            self.waiting.insert(seq, DeadMessage { is_apart, is_sought: false, ..sent.dead });
        }
    }
}

/// Pause after a refusal, behind so many others.
fn pause(refusals: u32) -> i64 {
    RETRY.saturating_mul(1 << refusals.min(10)).min(LONGEST_RETRY)
}

/// Where answers to the dead letters of a consumer come, but for the tokens that say to which.
pub fn replies(stream: &str, consumer: &str) -> String {
    format!("$JS.DLQ.{stream}.{consumer}")
}
