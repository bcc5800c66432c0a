//! A consumer and its twin, to which the same is done.

use super::clients::Clients;
use super::heard::{check_why, parse, told};
use super::operation::{self, Change, Operation, SUBJECTS, TICK};
use super::twin::{Ask, Said, State, Stored, Twin, Word};
use crate::consumer::{
    AckSubject, ConsumerCore, ConsumerInit, DeliverOutcome, Effects, Env as Around, SlowReceiver,
    StateHandle, TurnCtx, rules,
};
use myelin_disk::memory::MemoryDisk;
use myelin_jsapi::api::why::{ConsumerCause, Holds};
use myelin_jsapi::config::Retention;
use myelin_jsapi::consumer::config::stored::Stored as StoredConfig;
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig};
use myelin_stdx::rng::Rng;
use myelin_store::consumer::{ConsumerId, Consumers};
use myelin_store::entropy::SeededEntropy;
use myelin_store::{
    Admission, Durability, Filter, Limits, NewMessage, Purge, Seq, Storage, Store, StoreOptions, Stream,
    StreamConfig, Timestamp,
};
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// A multiple of [`TICK`].
const BEGIN: Timestamp = 1_700_000_000_000_000_000;

/// Consumer and its twin, to both of which each step is done.
pub(super) struct Env {
    twin: Twin,
    core: Option<ConsumerCore>,
    stream: Stream,
    /// Of streams in files.
    store: Option<Store>,
    consumers: Arc<Mutex<Consumers>>,
    id: ConsumerId,
    retention: Retention,
    now: Timestamp,
    seed: u64,
    /// Deliveries that clients can answer to: each as its subject says it.
    deliveries: Vec<String>,
    requests: BTreeMap<String, Request>,
    asked: u64,
    /// Confirmations that wait for a flush: they are lost with the process.
    unconfirmed: Vec<Seq>,
    /// Messages whose acknowledgement was confirmed.
    done: BTreeSet<Seq>,
    /// Messages that awaited their acknowledgement before the last deliveries.
    awaited: usize,
}

/// Pull request as far as its client knows it.
struct Request {
    left: i64,
    max_bytes: i64,
    has_ended: bool,
}

struct Eyes<'a>(&'a Clients);

impl Around for Eyes<'_> {
    fn has_interest(&self, subject: &[u8]) -> bool {
        self.0.listens(&text(subject))
    }

    fn listens(&self, subject: &[u8], _: Option<&[u8]>) -> bool {
        self.has_interest(subject)
    }

    fn is_congested(&mut self, subject: &[u8]) -> bool {
        self.0.is_behind(&text(subject))
    }

    fn awaited_receiver(&self, subject: &[u8]) -> Option<SlowReceiver> {
        self.0.is_behind(&text(subject)).then_some(SlowReceiver { conn: 1, bytes: 2, bound: 2 })
    }

    fn unique_id(&self) -> String {
        "id".into()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn agree<T: PartialEq + std::fmt::Debug>(what: &str, ours: T, twins: T) -> Result<(), String> {
    if ours == twins { Ok(()) } else { Err(format!("{what}: {ours:?}, the twin says {twins:?}")) }
}

impl Env {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::seeded(seed ^ 0x5eed);
        let is_memory = seed.is_multiple_of(2);
        let limits = Limits {
            messages: (rng.below(4) == 0).then(|| 3 + rng.below(20)),
            messages_per_subject: (rng.below(4) == 0).then(|| 1 + rng.below(4)),
            ..Limits::default()
        };
        let config = StreamConfig {
            storage: if is_memory { Storage::Memory } else { Storage::File },
            limits,
            segment_bytes: (rng.below(2) == 0).then(|| 400 + rng.below(3600) as u32),
            first_seq: if rng.below(4) == 0 { 1 + rng.below(50) } else { 1 },
            ..StreamConfig::default()
        };
        let (stream, store) = open(config, seed);
        let consumers = match &store {
            None => Consumers::in_memory(),
            Some(store) => {
                store.open_consumers(stream.id(), Durability::Written, None).expect("a healthy disk").0
            }
        };
        let retention = operation::retention(&mut rng);
        let mut env = Self {
            twin: Twin::new(ConsumerConfig::default(), retention == Retention::Limits),
            core: None,
            stream,
            store,
            consumers: Arc::new(Mutex::new(consumers)),
            id: ConsumerId(0),
            retention,
            now: BEGIN,
            seed,
            deliveries: Vec::new(),
            requests: BTreeMap::new(),
            asked: 0,
            unconfirmed: Vec::new(),
            done: BTreeSet::new(),
            awaited: 0,
        };
        env.begin(&mut rng);
        env
    }

    /// Some messages, and then the consumer.
    fn begin(&mut self, rng: &mut Rng) {
        for _ in 0..rng.below(8) {
            self.publish(&operation::messages(rng));
            self.now += rng.below(5) as i64 * TICK;
            if rng.below(4) == 0 {
                self.delete(rng.next_u64());
            }
        }
        self.stream_changed();
        let config = operation::config(rng, self.twin.last, self.now);
        let keeps_one = self.stream.config().limits.messages_per_subject == Some(1);
        self.twin.now = self.now;
        self.twin.config = config.clone();
        self.twin.create(keeps_one);
        let blob = StoredConfig::new(self.now, &config).encode();
        let mut states = self.consumers.lock().expect("nobody panicked");
        self.id = states.create("C", rules(&config), &blob).expect("the first");
        drop(states);
        let init = self.init(config);
        self.core = Some(ConsumerCore::create(init, keeps_one, self.now).expect("a healthy stream"));
        self.flush_log().expect("a healthy disk");
    }

    pub(super) fn description(&self) -> String {
        let (stream, retention) = (self.stream.config(), self.retention);
        let shown = serde_json::to_string(&self.twin.config).unwrap_or_default();
        format!("{stream:?}, {retention:?}, {shown}")
    }

    fn init(&self, config: ConsumerConfig) -> ConsumerInit {
        ConsumerInit {
            stream: "S".into(),
            config: Arc::new(config),
            created: BEGIN,
            reader: self.stream.reader(),
            state_handle: StateHandle::new(&self.consumers, self.id),
            retention: self.retention,
            largest: 1 << 20,
            seed: self.seed,
        }
    }

    // The stream.

    fn publish(&mut self, messages: &[(usize, usize)]) {
        let payload = vec![b'p'; 100_000];
        for &(subject, size) in messages {
            let (subject, payload) = (SUBJECTS[subject], &payload[..size]);
            let message = NewMessage {
                subject: subject.as_bytes(),
                payload,
                timestamp: self.now,
                ..NewMessage::default()
            };
            let mut outcomes = Vec::new();
            let appended = self.stream.append(&[message], Admission::Granted, self.now, &mut outcomes);
            appended.expect("a healthy disk");
            let seq = outcomes.remove(0).expect("nothing refuses it");
            self.twin.messages.insert(seq, Stored { subject, size, time: self.now });
        }
        // First messages wait for this.
        assert!(self.store.as_ref().is_none_or(|store| store.journal().round(&|| 1).is_ok()));
        self.stream_changed();
    }

    /// Takes over the stream's contents into the twin: they are its own model test's to check.
    fn stream_changed(&mut self) {
        let reader = self.stream.reader();
        let totals = reader.state().totals;
        let mut buffer = Vec::new();
        let mut is_there = |seq| {
            reader.get(seq, myelin_store::Wait::Allowed, &mut buffer).expect("a healthy disk").is_some()
        };
        self.twin.messages.retain(|seq, _| is_there(*seq));
        (self.twin.first, self.twin.last) = (totals.first_seq.max(1), totals.last_seq);
    }

    fn delete(&mut self, pick: u64) {
        let all = self.twin.messages.len() as u64;
        if all > 0 {
            let seq = *self.twin.messages.keys().nth((pick % all) as usize).expect("below their number");
            self.stream.delete(seq, self.now).expect("a healthy disk");
        }
        self.stream_changed();
    }

    fn purge(&mut self, filter: usize, keep: u64) {
        let patterns = operation::pattern(filter).into_iter().map(String::into_bytes).collect();
        let mut purge = Purge { filter: Some(Filter::any(patterns)), keep, ..Purge::default() };
        while self.stream.purge(&mut purge, 1000, self.now).expect("a healthy disk").more {}
        self.stream_changed();
    }

    fn trim(&mut self, count: u64) {
        let first = self.twin.first + count.min(self.twin.last + 1 - self.twin.first);
        while self.stream.compact(first, 1000, self.now).expect("a healthy disk").more {}
        self.stream_changed();
    }

    // The consumer.

    fn turn<R>(&mut self, act: impl FnOnce(&mut ConsumerCore, &mut TurnCtx<'_>) -> R) -> Result<R, String> {
        self.twin.now = self.now;
        let mut effects = Effects::default();
        let mut eyes = Eyes(&self.twin.clients);
        let core = self.core.as_mut().expect("it is open");
        let answer = act(core, &mut TurnCtx::new(self.now, &mut eyes, &mut effects));
        let said = self.heard(&effects)?;
        self.twin_said(said)?;
        self.let_go(&effects.settled)?;
        Ok(answer)
    }

    /// Compares what came out with the twin's, kind by kind.
    fn twin_said(&mut self, ours: Vec<Said>) -> Result<(), String> {
        let twins = std::mem::take(&mut self.twin.said);
        let kind = |said: &Said| match said {
            Said::Message(..) | Said::StatusMessage(..) => 0,
            Said::Confirmed(_) => 1,
            Said::Told(_) => 2,
            Said::Settled(_) => 3,
        };
        for at in 0..4 {
            let of = |all: &[Said]| -> Vec<Said> {
                let mut those: Vec<Said> = all.iter().filter(|said| kind(said) == at).cloned().collect();
                if at == 3 {
                    those.sort_by_key(|said| if let Said::Settled(seq) = said { *seq } else { 0 });
                }
                those
            };
            agree("said", of(&ours), of(&twins))?;
        }
        Ok(())
    }

    fn heard(&mut self, effects: &Effects) -> Result<Vec<Said>, String> {
        let mut said = Vec::new();
        for msg in effects.out.iter() {
            said.push(self.msg(&msg)?);
        }
        said.extend(effects.confirmations.iter().map(|msg| Said::Confirmed(text(msg.subject))));
        said.extend(effects.settled.iter().map(|seq| Said::Settled(*seq)));
        said.extend(effects.events.iter().map(told));
        Ok(said)
    }

    fn msg(&mut self, msg: &MessageRef<'_>) -> Result<Said, String> {
        if msg.to.is_empty() {
            let words: Vec<String> = text(msg.headers)
                .trim_start_matches("NATS/1.0 ")
                .lines()
                .filter(|line| !line.is_empty() && !line.starts_with("Nats-Last-Stream"))
                .map(str::to_owned)
                .collect();
            let (to, words) = (text(msg.subject), words.join(", "));
            self.check_status(&to, &words)?;
            return Ok(Said::StatusMessage(to, words));
        }
        let (to, ack) = (text(msg.to), text(msg.reply));
        self.check_delivery(&to, &ack)?;
        self.deliveries.push(ack.clone());
        let size = msg.headers.len() + msg.payload.len();
        Ok(Said::Message(to, text(msg.subject), ack, size))
    }

    /// A request has exactly one end: a status, or its last message.
    fn check_status(&mut self, to: &str, words: &str) -> Result<(), String> {
        let Some(request) = self.requests.get_mut(to) else { return Err(format!("{to} never asked")) };
        let is_more = words.starts_with("409 Batch Completed") && request.max_bytes > 0 && request.left <= 0;
        if request.has_ended && !is_more {
            return Err(format!("{to} hears {words} behind its end"));
        }
        request.has_ended |= !words.starts_with("100 ");
        Ok(())
    }

    fn check_delivery(&mut self, to: &str, ack: &str) -> Result<(), String> {
        let Some(request) = self.requests.get_mut(to) else { return Err(format!("{to} never asked")) };
        if std::mem::replace(&mut request.has_ended, request.left <= 1) {
            return Err(format!("{to} gets {ack} behind its end"));
        }
        request.left -= 1;
        let (_, seq, _) = parse(ack)?;
        if self.done.contains(&seq) {
            return Err(format!("{ack} was acknowledged, and that was confirmed"));
        }
        let pending =
            self.core.as_ref().map_or(0, |core| core.state_handle().read(|state| state.pending().len()));
        // An update may leave more of them than it allows.
        match self.twin.config.max_ack_pending {
            most if most <= 0 || pending as i64 <= most || pending <= self.awaited => Ok(()),
            _ if self.twin.config.ack_policy == AckPolicy::None => Ok(()),
            most => Err(format!("{pending} await their acknowledgement, {most} may")),
        }
    }

    /// The stream lets go of what the consumer needs no more.
    fn let_go(&mut self, seqs: &[Seq]) -> Result<(), String> {
        if !seqs.is_empty() {
            self.stream.delete_all(seqs, self.now).map_err(|error| error.to_string())?;
            self.stream_changed();
        }
        Ok(())
    }

    fn deliver(&mut self) -> Result<(), String> {
        self.twin.now = self.now;
        let why = self.why()?;
        let has_something = self.twin.has_something();
        self.awaited = self.twin.state.pending.len();
        self.twin.deliver();
        let mut said = Vec::new();
        let mut settled = Vec::new();
        for _ in 0..10_000 {
            let mut effects = Effects::default();
            let mut eyes = Eyes(&self.twin.clients);
            let core = self.core.as_mut().expect("it is open");
            let pace = core.deliver(&mut TurnCtx::new(self.now, &mut eyes, &mut effects));
            said.extend(self.heard(&effects)?);
            settled.append(&mut effects.settled);
            match pace {
                DeliverOutcome::More => {}
                DeliverOutcome::Cold(from) => self.warm(from),
                DeliverOutcome::Rests | DeliverOutcome::AtEnd | DeliverOutcome::TooFew(_) => {
                    check_why(&why, has_something, &said)?;
                    self.twin_said(said)?;
                    return self.let_go(&settled);
                }
            }
        }
        Err("it delivers for ever".into())
    }

    /// Asks what holds deliveries back, once everything can be read.
    fn why(&mut self) -> Result<Vec<(Holds, ConsumerCause)>, String> {
        self.twin.notice_removed();
        loop {
            let why = self.turn(ConsumerCore::why)?;
            let unread = why.iter().find_map(|(_, cause)| match cause {
                ConsumerCause::WaitsForDisk { seq, .. } => Some(*seq),
                _ => None,
            });
            match unread {
                Some(seq) => self.warm(seq),
                None => return Ok(why),
            }
        }
    }

    fn warm(&mut self, from: Seq) {
        let core = self.core.as_mut().expect("it is open");
        let next = self.stream.reader().warm(core.filter(), from).expect("a healthy disk");
        core.warmed(from, Some(next));
    }

    /// Half ticks give late acknowledgements their grace; deliveries are made at whole ones.
    fn pass(&mut self, ticks: u64) -> Result<(), String> {
        for _ in 0..ticks {
            self.now += TICK / 2;
            self.due(true)?;
            self.now += TICK / 2;
            self.due(false)?;
            self.deliver()?;
            self.compare()?;
        }
        Ok(())
    }

    fn due(&mut self, has_grace: bool) -> Result<(), String> {
        // When a consumer notices is its own affair, as long as it does so before it delivers.
        self.twin.notice_removed();
        self.turn(ConsumerCore::notice_removed)?;
        self.twin.due(has_grace);
        let now = self.now;
        self.turn(|core, turn| {
            if core.next_due(now).is_some_and(|at| at <= now) {
                core.due(turn);
            }
        })
    }

    fn ask(&mut self, client: u64, ask: &Ask) -> Result<(), String> {
        let reply = self.new_request(client, ask);
        self.twin.now = self.now;
        self.twin.ask(&reply, ask);
        self.turn(|core, turn| core.ask(reply.as_bytes(), body(ask).as_bytes(), turn))
    }

    fn new_request(&mut self, client: u64, ask: &Ask) -> String {
        self.asked += 1;
        let reply = format!("inbox.{client}.{}", self.asked);
        let request = Request { left: ask.batch.max(1), max_bytes: ask.max_bytes, has_ended: false };
        self.requests.insert(reply.clone(), request);
        reply
    }

    fn answer(&mut self, subject: &str, word: &Word, wants_reply: bool) -> Result<(), String> {
        let (payload, reply) = match word {
            Word::Ack(how) => ((*how).to_owned(), None),
            Word::Next(ask) => (format!("+NXT {}", body(ask)), Some(self.new_request(0, ask))),
            Word::Nak(None) => ("-NAK".to_owned(), None),
            Word::Nak(Some(delay)) if delay % (2 * TICK) == 0 => {
                (format!("-NAK {{\"delay\": {delay}}}"), None)
            }
            Word::Nak(Some(delay)) => (format!("-NAK {}ms", delay / 1_000_000), None),
            Word::Progress => ("+WPI".to_owned(), None),
            Word::Term => ("+TERM no".to_owned(), None),
            Word::Nonsense => ("what?".to_owned(), None),
        };
        let confirmed = if wants_reply { "confirmed" } else { "" };
        let reply = reply.unwrap_or_else(|| confirmed.to_owned());
        let named = parse(subject)?;
        let position = self.core.as_ref().expect("it is open").position();
        let before = self.twin.state.pending.contains_key(&named.1);
        self.twin.now = self.now;
        self.twin.answer(named, word, &reply, position);
        let settles = matches!(word, Word::Ack(_) | Word::Term);
        let is_settled = before && settles && !self.twin.state.pending.contains_key(&named.1);
        if is_settled && wants_reply {
            self.unconfirmed.push(named.1);
        }
        let ack = AckSubject::read(subject.as_bytes()).ok_or("no acknowledgement")?;
        let msg = MessageRef {
            subject: subject.as_bytes(),
            reply: reply.as_bytes(),
            payload: payload.as_bytes(),
            ..MessageRef::default()
        };
        let mut msgs = MessageBuf::default();
        msgs.push(msg);
        self.turn(|core, turn| core.acknowledge(&ack, &msg, turn))
    }

    fn flush_log(&mut self) -> Result<(), String> {
        let mut states = self.consumers.lock().expect("nobody panicked");
        states.flush(self.now).map_err(|error| error.to_string())?;
        if states.checkpoint_due() {
            states.checkpoint().map_err(|error| error.to_string())?;
        }
        if let Some(store) = &self.store {
            store.put_away(&mut states);
        }
        drop(states);
        self.twin.save();
        self.done.extend(self.unconfirmed.drain(..));
        Ok(())
    }

    fn restart(&mut self, loses: bool) -> Result<(), String> {
        if !loses {
            self.flush_log()?;
        }
        // What was said to nobody is said to nobody.
        self.unconfirmed.clear();
        self.requests.values_mut().for_each(|request| request.has_ended = true);
        let config = (**self.core.take().expect("it is open").config()).clone();
        if let Some(store) = &self.store {
            *self.consumers.lock().expect("nobody panicked") = Consumers::in_memory();
            let opened = store.open_consumers(self.stream.id(), Durability::Written, None);
            let (states, report) = opened.map_err(|error| error.to_string())?;
            if report.torn.is_some() || !report.bad.is_empty() {
                return Err(format!("the log reports {report:?}"));
            }
            let stored = states.get(self.id).ok_or("the consumer was not found")?.config().to_vec();
            agree("configuration", StoredConfig::decode(&stored)?.config, config.clone())?;
            *self.consumers.lock().expect("nobody panicked") = states;
        }
        self.core = Some(ConsumerCore::resume(self.init(config), self.now));
        self.twin.now = self.now;
        let last = self.stream.state().totals.last_seq;
        self.twin.restart(loses && self.store.is_some(), last);
        Ok(())
    }

    fn update(&mut self, change: &Change) -> Result<(), String> {
        let mut config = self.twin.config.clone();
        match change {
            Change::AckWait(wait) if config.backoff.is_empty() => config.ack_wait = *wait,
            Change::AckWait(_) => {}
            Change::Backoff(backoff) => operation::set_backoff(&mut config, backoff.clone()),
            Change::MaxDeliver(most) => config.max_deliver = *most,
            Change::MaxAckPending(most) => config.max_ack_pending = *most,
            Change::Filters(at) => operation::filters(&mut config, *at),
            Change::Pause(0) => config.pause_until = None,
            Change::Pause(ticks) => config.pause_until = Some((self.now + *ticks as i64 * TICK).into()),
            Change::HeadersOnly(only) => config.headers_only = *only,
        }
        let blob = StoredConfig::new(BEGIN, &config).encode();
        let mut states = self.consumers.lock().expect("nobody panicked");
        states.update(self.id, rules(&config), &blob).map_err(|error| error.to_string())?;
        drop(states);
        self.flush_log()?;
        self.check_position()?;
        let position = self.core.as_ref().expect("it is open").position();
        self.twin.now = self.now;
        self.twin.update(config.clone(), position);
        self.turn(|core, turn| core.update(Arc::new(config), "S", 1, turn))
    }

    /// Checks that the position has passed no undelivered message, and is behind delivered ones.
    fn check_position(&self) -> Result<(), String> {
        let position = self.core.as_ref().expect("it is open").position();
        match self.twin.next_new() {
            Some(next) if position > next => Err(format!("it stands at {position} and has not seen {next}")),
            _ if position < self.twin.stands_from() => {
                Err(format!("it stands at {position} and has seen more"))
            }
            _ => Ok(()),
        }
    }

    fn reset(&mut self, pick: u64) -> Result<(), String> {
        let seq = pick % (self.twin.last + 3);
        let twins = self.twin.reset(seq);
        let ours = self.core.as_mut().expect("it is open").reset_to(seq);
        if ours.is_ok() {
            self.done.clear();
            self.unconfirmed.clear();
        }
        agree("reset", ours, twins)
    }

    fn forget(&mut self, is_told: bool) -> Result<(), String> {
        if is_told {
            self.twin.forget_removed();
            self.turn(|core, turn| core.forget_removed(true, turn))?;
        }
        Ok(())
    }

    fn info(&mut self) -> Result<(), String> {
        self.twin.now = self.now;
        self.twin.notice_removed();
        self.twin.look_through(false);
        let info = self.turn(|core, turn| core.info("S", turn))?;
        let counted = self.twin.state.counts.len() as u64;
        let counted = if self.twin.config.max_deliver == 1 { 0 } else { counted };
        let numbers = (info.num_pending, info.num_ack_pending, info.num_redelivered, info.num_waiting);
        let twins = (
            self.twin.num_pending(),
            self.twin.state.pending.len() as u64,
            counted,
            self.twin.num_waiting() as u64,
        );
        agree("num_pending, num_ack_pending, num_redelivered, num_waiting", numbers, twins)?;
        let pair = |pair: myelin_jsapi::api::consumer::SequenceInfo| (pair.consumer_seq, pair.stream_seq);
        agree("delivered", pair(info.delivered), self.twin.state.delivered)?;
        agree("floor", pair(info.ack_floor), self.twin.state.floor)
    }

    /// Compares the stored states of the consumer and its twin.
    fn compare(&self) -> Result<(), String> {
        let core = self.core.as_ref().expect("it is open");
        let state = core.state_handle().read(|state| {
            let pair = |pair: myelin_store::consumer::SequencePair| (pair.consumer.0, pair.stream);
            let pending = state.pending().iter();
            State {
                delivered: pair(state.delivered()),
                floor: pair(state.ack_floor()),
                pending: pending.map(|(seq, one)| (seq, (one.delivery.0, one.timestamp))).collect(),
                counts: state.redelivered().clone(),
            }
        });
        agree("state", &state, &self.twin.state)?;
        self.check_position()
    }

    /// Everybody listens and acknowledges: in the end nothing is left.
    fn drain(&mut self) -> Result<(), String> {
        self.twin.clients = Clients::default();
        self.update(&Change::Pause(0))?;
        let mut seen = self.deliveries.len();
        for _ in 0..400 {
            let all = Ask { batch: 50, max_bytes: 0, expires: 5 * TICK, no_wait: false, heartbeat: 0 };
            self.ask(2, &all)?;
            self.deliver()?;
            while let Some(subject) = self.deliveries.get(seen).cloned() {
                seen += 1;
                self.answer(&subject, &Word::Ack("+ACK"), true)?;
            }
            self.pass(6)?;
            if !self.twin.is_busy() && self.core.as_ref().is_some_and(|core| core.deliverer.outstanding == 0)
            {
                return self.info();
            }
        }
        Err("something is never delivered, or cannot be acknowledged".into())
    }

    pub(super) fn run(&mut self, operation: &Operation) -> Result<(), String> {
        match operation {
            Operation::Publish(messages) => self.publish(messages),
            Operation::Delete(pick, is_told) => {
                self.delete(*pick);
                self.forget(*is_told)?;
            }
            Operation::Purge(filter, keep, is_told) => {
                self.purge(*filter, *keep);
                self.forget(*is_told)?;
            }
            Operation::Trim(count, is_told) => {
                self.trim(*count);
                self.forget(*is_told)?;
            }
            Operation::Ask(client, ask) => self.ask(*client, ask)?,
            Operation::Answer(pick, word, wants_reply) => {
                if let Some(subject) = self.pick(*pick) {
                    self.answer(&subject, word, *wants_reply)?;
                }
            }
            Operation::Stray(which, word) => {
                let seq = [0, self.twin.last + 100, u64::MAX][*which as usize];
                self.answer(&format!("$JS.ACK.S.C.1.{seq}.1.1.1"), word, true)?;
            }
            Operation::Absent(client, is_so) => set(&mut self.twin.clients.absent, *client, *is_so),
            Operation::Behind(client, is_so) => set(&mut self.twin.clients.behind, *client, *is_so),
            Operation::Pass(ticks) => self.pass(*ticks)?,
            Operation::Flush => self.flush_log()?,
            Operation::Restart(loses) => self.restart(*loses)?,
            Operation::Update(change) => self.update(change)?,
            Operation::Reset(pick) => self.reset(*pick)?,
            Operation::Info => self.info()?,
            Operation::Drain => self.drain()?,
        }
        self.deliver()?;
        self.compare()
    }

    /// Mostly one of the last deliveries.
    fn pick(&self, pick: u64) -> Option<String> {
        let all = self.deliveries.len() as u64;
        let among = if pick.is_multiple_of(4) { all } else { all.min(8) };
        (all > 0).then(|| self.deliveries[(all - 1 - pick / 4 % among) as usize].clone())
    }
}

fn open(config: StreamConfig, seed: u64) -> (Stream, Option<Store>) {
    if config.storage == Storage::Memory {
        return (Stream::in_memory(config, seed, BEGIN), None);
    }
    let options =
        StoreOptions { journal_file_bytes: 1 << 20, headroom_bytes: 1 << 20, ..StoreOptions::new("/store") };
    let entropy = Arc::new(SeededEntropy::new(seed));
    let (store, _) = Store::open(Arc::new(MemoryDisk::new()), options, entropy).expect("a healthy disk");
    let stream = store.create_stream("A", "S", b"", config, BEGIN).expect("a healthy disk");
    (stream, Some(store))
}

fn set(clients: &mut BTreeSet<String>, client: u64, is_so: bool) {
    let client = client.to_string();
    let _ = if is_so { clients.insert(client) } else { clients.remove(&client) };
}

fn body(ask: &Ask) -> String {
    let Ask { batch, max_bytes, expires, no_wait, heartbeat } = ask;
    format!(
        "{{\"batch\":{batch},\"max_bytes\":{max_bytes},\"expires\":{expires},\"no_wait\":{no_wait},\
         \"idle_heartbeat\":{heartbeat}}}"
    )
}
