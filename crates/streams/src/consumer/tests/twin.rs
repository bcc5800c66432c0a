//! A consumer as plainly as it can be said: maps and rows that are searched from end to end.
//!
//! Shares no code with the consumer but the configuration's type. What it would say is written down
//! as the client sees it.

mod restart;

use super::clients::Clients;
use std::collections::BTreeMap;

use myelin_store::{Seq, Timestamp};

use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig, DeliverPolicy};

/// A message of the stream.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) subject: &'static str,
    pub(super) size: usize,
    pub(super) time: Timestamp,
}

/// Effect of a consumer as its clients and the stream see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Inbox, subject, acknowledgement subject, bytes of headers and payload.
    Message(String, String, String, usize),
    /// Inbox and what the status line and headers say.
    StatusMessage(String, String),
    /// An acknowledgement was confirmed, or will be.
    Confirmed(String),
    /// Advisory, in short.
    Told(String),
    /// A message that the stream may let go of.
    Settled(Seq),
}

/// Fields of a pull request.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) batch: i64,
    pub(super) max_bytes: i64,
    pub(super) expires: i64,
    pub(super) no_wait: bool,
    pub(super) heartbeat: i64,
}

#[derive(Clone, Debug)]
struct Waiting {
    reply: String,
    left: i64,
    got: u64,
    bytes: i64,
    until: Option<Timestamp>,
    no_wait: bool,
    heartbeat: i64,
    beat_at: Option<Timestamp>,
}

/// State that outlives the process.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct State {
    pub(super) delivered: (u64, Seq),
    pub(super) floor: (u64, Seq),
    /// First delivery, last time.
    pub(super) pending: BTreeMap<Seq, (u64, Timestamp)>,
    pub(super) counts: BTreeMap<Seq, u64>,
}

/// Plain consumer: maps and rows that are searched from end to end.
pub(super) struct Twin {
    pub(super) config: ConsumerConfig,
    pub(super) keeps_all: bool,
    pub(super) messages: BTreeMap<Seq, Stored>,
    pub(super) first: Seq,
    pub(super) last: Seq,
    pub(super) now: Timestamp,
    pub(super) clients: Clients,
    pub(super) state: State,
    saved: State,
    pub(super) from: Seq,
    lasts: Vec<Seq>,
    again: Vec<Seq>,
    waiting: Vec<Waiting>,
    last_look: Timestamp,
    has_pause: bool,
    pub(super) said: Vec<Said>,
}

enum Stop {
    NobodyAsks,
    Paused,
    Full,
    NoTaker,
    Behind,
    End,
}

fn matches(filter: &str, subject: &str) -> bool {
    let (filter, subject): (Vec<_>, Vec<_>) = (filter.split('.').collect(), subject.split('.').collect());
    for (at, token) in filter.iter().enumerate() {
        match (*token, subject.get(at)) {
            (">", Some(_)) => return true,
            ("*", Some(_)) => {}
            (token, Some(other)) if token == *other => {}
            _ => return false,
        }
    }
    filter.len() == subject.len()
}

impl Twin {
    pub(super) fn new(config: ConsumerConfig, keeps_all: bool) -> Self {
        Self {
            config,
            keeps_all,
            messages: BTreeMap::new(),
            first: 1,
            last: 0,
            now: 0,
            clients: Clients::default(),
            state: State::default(),
            saved: State::default(),
            from: 1,
            lasts: Vec::new(),
            again: Vec::new(),
            waiting: Vec::new(),
            last_look: 0,
            has_pause: false,
            said: Vec::new(),
        }
    }

    fn wants(&self, subject: &str) -> bool {
        let mut filters = self.config.filters().peekable();
        filters.peek().is_none() || filters.any(|filter| matches(filter, subject))
    }

    fn wants_all(&self) -> bool {
        let filters: Vec<&str> = self.config.filters().collect();
        filters.is_empty() || filters.contains(&">")
    }

    fn wanted(&self) -> Vec<Seq> {
        self.messages.iter().filter(|(_, stored)| self.wants(stored.subject)).map(|(seq, _)| *seq).collect()
    }

    /// Begins where the configuration says.
    pub(super) fn create(&mut self, keeps_one: bool) {
        let wanted = self.wanted();
        let behind = self.last + 1;
        self.from = match self.config.deliver_policy {
            DeliverPolicy::All => self.first,
            DeliverPolicy::LastPerSubject if keeps_one => self.first,
            DeliverPolicy::Last if self.wants_all() => self.last,
            DeliverPolicy::Last => wanted.last().copied().unwrap_or(0),
            DeliverPolicy::New => behind,
            DeliverPolicy::ByStartSequence => self.config.opt_start_seq,
            DeliverPolicy::ByStartTime => {
                let at = self.seq_at_start_time();
                let first = wanted.first().filter(|seq| **seq >= at && **seq < self.last);
                first.filter(|_| !self.wants_all()).copied().unwrap_or(at)
            }
            DeliverPolicy::LastPerSubject => {
                self.lasts = self.last_of_each(self.last);
                if self.lasts.is_empty() { self.last } else { behind }
            }
        };
        self.from = self.from.max(self.first);
        let begin = self.lasts.first().copied().unwrap_or(self.from) - 1;
        self.state = State { delivered: (0, begin), floor: (0, begin), ..State::default() };
        self.saved = self.state.clone();
    }

    fn seq_at_start_time(&self) -> Seq {
        let time = self.config.opt_start_time.map_or(0, |time| time.timestamp());
        let found = self.messages.iter().find(|(_, stored)| stored.time >= time);
        found.map_or(self.last + 1, |(seq, _)| *seq)
    }

    pub(super) fn num_pending(&self) -> u64 {
        let behind = self.wanted().into_iter().filter(|seq| *seq >= self.from).count();
        // Those that it was not told of are noticed when their turn comes.
        (behind + self.lasts.len()) as u64
    }

    pub(super) fn num_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The first message that was never delivered.
    pub(super) fn next_new(&self) -> Option<Seq> {
        let last = self.lasts.iter().find(|seq| self.messages.contains_key(seq)).copied();
        last.or_else(|| self.wanted().into_iter().find(|seq| *seq >= self.from))
    }

    /// Lowest sequence at which the consumer may stand.
    pub(super) fn stands_from(&self) -> Seq {
        self.lasts.first().copied().unwrap_or(self.from)
    }

    // What is kept.

    fn settle(&mut self, seq: Seq) -> bool {
        let was_oldest = self.state.pending.first_key_value().map(|(first, _)| *first) == Some(seq);
        if self.state.pending.remove(&seq).is_none() {
            return false;
        }
        match self.state.pending.first_key_value() {
            None => self.state.floor = self.state.delivered,
            Some((oldest, (delivery, _))) if was_oldest => {
                self.state.floor = (self.state.floor.0.max(delivery - 1), self.state.floor.1.max(oldest - 1));
            }
            Some(_) => {}
        }
        true
    }

    fn give_up(&mut self, seq: Seq, counted: u64) {
        let count = self.state.counts.entry(seq).or_default();
        *count = (*count).max(counted);
        self.settle(seq);
    }

    /// The stream begins later than it did.
    pub(super) fn drop_below_first(&mut self) {
        let (first, last) = (self.first, self.first - 1);
        let counts = &self.state.counts.clone();
        self.state.counts.retain(|seq, _| *seq >= first);
        self.again.retain(|seq| *seq >= first);
        self.lasts.retain(|seq| *seq >= first);
        if last <= self.state.floor.1 {
            return;
        }
        let gone: Vec<Seq> = self.state.pending.keys().filter(|seq| **seq < first).copied().collect();
        self.tell_removed(&gone, counts);
        self.state.pending.retain(|seq, _| *seq >= first);
        self.state.delivered.1 = self.state.delivered.1.max(last);
        match self.state.pending.first_key_value() {
            None => self.state.floor = self.state.delivered,
            Some((_, (delivery, _))) => self.state.floor = (self.state.floor.0.max(delivery - 1), last),
        }
    }

    /// Compat: one that came again once is told like one that came for the first time.
    fn tell_removed(&mut self, gone: &[Seq], counts: &BTreeMap<Seq, u64>) {
        for seq in gone {
            let deliveries = counts.get(seq).copied().unwrap_or(0).max(1);
            self.told("term", self.state.pending[seq].0, *seq, deliveries);
        }
    }

    /// The consumer looks what was removed of what it waits for.
    pub(super) fn notice_removed(&mut self) {
        self.drop_below_first();
        let gone: Vec<Seq> =
            self.state.pending.keys().filter(|seq| !self.messages.contains_key(seq)).copied().collect();
        self.tell_removed(&gone, &self.state.counts.clone());
        for seq in &gone {
            self.state.counts.remove(seq);
            self.settle(*seq);
        }
        self.again.retain(|seq| !gone.contains(seq));
    }

    /// The consumer is told that messages were removed.
    pub(super) fn forget_removed(&mut self) {
        self.notice_removed();
        let messages = &self.messages;
        self.state.counts.retain(|seq, _| messages.contains_key(seq));
        self.again.retain(|seq| messages.contains_key(seq));
        self.lasts.retain(|seq| messages.contains_key(seq));
        self.from = self.from.max(self.first);
    }

    pub(super) fn save(&mut self) {
        self.saved = self.state.clone();
    }

    pub(super) fn update(&mut self, config: ConsumerConfig, position: Seq) {
        if self.config.pause_until != config.pause_until {
            self.said.push(Said::Told("pause".into()));
        }
        let had: Vec<String> = self.config.filters().map(str::to_owned).collect();
        let has: Vec<String> = config.filters().map(str::to_owned).collect();
        if had != has && self.lasts.is_empty() {
            self.from = position;
        }
        self.config = config;
        self.has_pause = self.is_paused();
        self.save();
    }

    pub(super) fn reset(&mut self, seq: Seq) -> Result<Seq, &'static str> {
        let seq = match self.config.deliver_policy {
            _ if seq == 0 => self.state.floor.1 + 1,
            DeliverPolicy::All => seq,
            DeliverPolicy::ByStartSequence if seq < self.config.opt_start_seq => {
                return Err("below start seq");
            }
            DeliverPolicy::ByStartSequence => seq,
            DeliverPolicy::ByStartTime if seq < self.seq_at_start_time() => return Err("below start time"),
            DeliverPolicy::ByStartTime => seq,
            _ => return Err("not allowed"),
        };
        self.state = State { delivered: (0, seq - 1), floor: (0, seq - 1), ..State::default() };
        self.from = seq;
        self.lasts.clear();
        self.again.clear();
        Ok(seq)
    }

    fn is_paused(&self) -> bool {
        self.config.pause_until.is_some_and(|until| self.now < until.timestamp())
    }

    fn is_full(&self) -> bool {
        let most = self.config.max_ack_pending;
        self.config.ack_policy != AckPolicy::None && most > 0 && self.state.pending.len() as i64 >= most
    }

    fn max_deliver(&self) -> u64 {
        u64::try_from(self.config.max_deliver).unwrap_or(0)
    }

    fn wait_of(&self, seq: Seq) -> i64 {
        let count = self.count(seq) as usize;
        match self.config.backoff.len() {
            0 if self.config.ack_wait == 0 => i64::MAX,
            0 => self.config.ack_wait,
            long => self.config.backoff[count.min(long - 1)],
        }
    }

    fn count(&self, seq: Seq) -> u64 {
        self.state.counts.get(&seq).copied().unwrap_or(0)
    }

    // Time.

    /// Does what is due. `has_grace`: messages whose time is over were waited for long enough.
    pub(super) fn due(&mut self, has_grace: bool) {
        if self.has_pause && !self.is_paused() {
            self.has_pause = false;
            self.said.push(Said::Told("pause".into()));
        }
        if has_grace {
            self.look_for_late();
        }
        let times = self.waiting.iter().flat_map(|one| [one.until, one.beat_at]).flatten().min();
        if times.is_some_and(|at| at <= self.now) {
            self.look_through(self.is_full());
        }
    }

    fn look_for_late(&mut self) {
        let most = self.max_deliver();
        for (seq, (_, time)) in self.state.pending.clone() {
            if self.again.contains(&seq) || time.saturating_add(self.wait_of(seq)) > self.now {
                continue;
            }
            let count = self.count(seq);
            if most > 0 && count.max(1) >= most {
                self.said.push(Said::Told(format!("max deliveries of {seq}: {}", count + 1)));
                self.give_up(seq, most);
            } else {
                self.again.push(seq);
            }
        }
    }

    // Requests.

    pub(super) fn look_through(&mut self, is_end: bool) {
        self.last_look = self.now;
        for mut one in std::mem::take(&mut self.waiting) {
            if one.until.is_some_and(|at| at < self.now) {
                self.say_left(&one, "408 Request Timeout");
            } else if is_end && one.no_wait && (one.until.is_none() || one.got > 0) {
                self.say(&one.reply, "404 No Messages");
            } else if self.clients.listens(&one.reply) {
                if one.beat_at.is_some_and(|at| at < self.now) {
                    let delivery = self.state.delivered.0;
                    let text = format!("100 Idle Heartbeat, Nats-Last-Consumer: {delivery}");
                    self.say(&one.reply, &text);
                    one.beat_at = Some(self.now + one.heartbeat);
                }
                self.waiting.push(one);
            }
        }
    }

    fn say(&mut self, to: &str, text: &str) {
        self.said.push(Said::StatusMessage(to.into(), text.into()));
    }

    fn say_left(&mut self, one: &Waiting, text: &str) {
        let (left, bytes) = (one.left, one.bytes);
        self.say(&one.reply, &format!("{text}, Nats-Pending-Messages: {left}, Nats-Pending-Bytes: {bytes}"));
    }

    pub(super) fn ask(&mut self, reply: &str, ask: &Ask) {
        if reply.is_empty() {
            return;
        }
        if ask.heartbeat > 0 && ask.heartbeat * 2 > ask.expires {
            return self.say(reply, "400 Bad Request - heartbeat value too large");
        }
        if self.config.max_batch > 0 && ask.batch > self.config.max_batch {
            let text = format!("409 Exceeded MaxRequestBatch of {}", self.config.max_batch);
            return self.say(reply, &text);
        }
        let most = self.config.max_waiting as usize;
        let there = self.num_pending() + self.again.len() as u64;
        if self.waiting.len() >= most && self.now - self.last_look > 1_000_000_000 {
            self.look_through(false);
        }
        if ask.no_wait {
            if there == 0 && ask.expires == 0 {
                return self.say(reply, "404 No Messages");
            }
            if there > 0 {
                self.look_through(false);
                let wanted: i64 = self.waiting.iter().map(|one| one.left).sum();
                if (there as i64) < wanted {
                    return self.say(reply, "408 Requests Pending");
                }
            }
        }
        if self.waiting.len() >= most {
            if ask.heartbeat == 0 {
                self.say(reply, "409 Exceeded MaxWaiting");
            }
            return;
        }
        self.waiting.push(Waiting {
            reply: reply.into(),
            left: ask.batch,
            got: 0,
            bytes: ask.max_bytes,
            until: (ask.expires != 0).then_some(self.now + ask.expires),
            no_wait: ask.no_wait,
            heartbeat: ask.heartbeat,
            beat_at: (ask.heartbeat > 0).then_some(self.now + ask.heartbeat),
        });
    }

    // Deliveries.

    pub(super) fn deliver(&mut self) {
        self.notice_removed();
        let stop = self.deliver_all();
        if !self.waiting.is_empty() {
            let is_end = matches!(stop, Stop::Paused | Stop::NoTaker | Stop::End);
            self.look_through(is_end);
        }
    }

    fn deliver_all(&mut self) -> Stop {
        if self.is_paused() {
            return Stop::Paused;
        }
        while !self.waiting.is_empty() {
            if !self.again.is_empty() {
                let seq = self.again.remove(0);
                if !self.state.pending.contains_key(&seq) {
                    continue;
                }
                let deliveries = self.count(seq) + 2;
                if self.max_deliver() > 0 && deliveries > self.max_deliver() {
                    let text = format!("max deliveries of {seq}: {}", deliveries - 1);
                    self.said.push(Said::Told(text));
                    self.give_up(seq, deliveries - 1);
                } else if !self.messages.contains_key(&seq) {
                    self.state.counts.remove(&seq);
                    self.settle(seq);
                } else if let Err(stop) = self.give(seq, deliveries) {
                    self.again.insert(0, seq);
                    return stop;
                }
                continue;
            }
            if self.is_full() {
                return Stop::Full;
            }
            let next = self.next_new();
            while self.lasts.first().is_some_and(|last| !self.messages.contains_key(last)) {
                self.lasts.remove(0);
            }
            let Some(seq) = next else { return Stop::End };
            if let Err(stop) = self.give(seq, 1) {
                return stop;
            }
        }
        Stop::NobodyAsks
    }

    fn give(&mut self, seq: Seq, deliveries: u64) -> Result<(), Stop> {
        let Stored { subject, size, time } = self.messages[&seq].clone();
        let left = if deliveries == 1 { self.num_pending() - 1 } else { self.num_pending() };
        let delivery = self.state.delivered.0 + 1;
        let ack = format!("$JS.ACK.S.C.{deliveries}.{seq}.{delivery}.{time}.{left}");
        let shown = match self.config.headers_only {
            true => format!("NATS/1.0\r\nNats-Msg-Size: {size}\r\n\r\n").len(),
            false => size,
        };
        let bytes = (subject.len() + ack.len() + shown) as i64;
        let mut one = self.choose(bytes)?;
        self.said.push(Said::Message(one.reply.clone(), subject.into(), ack, shown));
        if one.bytes > 0 {
            one.bytes -= bytes;
            if one.bytes == 0 {
                one.left = 1;
            }
        }
        one.left -= 1;
        one.got += 1;
        if one.heartbeat > 0 {
            one.beat_at = Some(self.now + one.heartbeat);
        }
        if one.left > 0 {
            self.waiting.push(one);
        } else if one.bytes > 0 {
            self.say_left(&one, "409 Batch Completed");
        }
        self.note_delivery(seq, delivery, deliveries);
        Ok(())
    }

    fn note_delivery(&mut self, seq: Seq, delivery: u64, deliveries: u64) {
        self.state.delivered = (delivery, self.state.delivered.1.max(seq));
        if deliveries == 1 {
            if self.lasts.contains(&seq) {
                self.lasts.retain(|last| *last > seq);
            } else {
                self.from = seq + 1;
            }
        }
        if self.config.ack_policy == AckPolicy::None {
            self.state.floor = self.state.delivered;
            if !self.keeps_all {
                self.said.push(Said::Settled(seq));
            }
            return;
        }
        let first = self.state.pending.get(&seq).map_or(delivery, |(first, _)| *first);
        self.state.pending.insert(seq, (first, self.now));
        if deliveries > 1 {
            self.state.counts.insert(seq, deliveries - 1);
        }
    }

    /// Request that gets so many bytes: the first in the row that can, and those that it passes
    /// over go to its end. Compat: it counts those, and gives up when there are no more than that
    /// in the row, whatever has left it meanwhile.
    fn choose(&mut self, bytes: i64) -> Result<Waiting, Stop> {
        let mut passed = 0;
        while !self.waiting.is_empty() {
            let one = self.waiting.remove(0);
            if one.until.is_some_and(|at| at < self.now) {
                self.say_left(&one, "408 Request Timeout");
            } else if one.bytes > 0 && bytes > one.bytes {
                self.say_left(&one, "409 Message Size Exceeds MaxBytes");
            } else if !self.clients.listens(&one.reply) {
                // It is dropped.
            } else if self.clients.is_behind(&one.reply) {
                self.waiting.push(one);
                passed += 1;
                if passed >= self.waiting.len() {
                    break;
                }
            } else {
                return Ok(one);
            }
        }
        Err(if passed > 0 { Stop::Behind } else { Stop::NoTaker })
    }

    // Acknowledgements.

    fn told(&mut self, what: &str, delivery: u64, seq: Seq, deliveries: u64) {
        self.said.push(Said::Told(format!("{what} {delivery} {seq} {deliveries}")));
    }

    /// Takes a client's answer to a delivery. `position`: the consumer looks at no message before.
    pub(super) fn answer(
        &mut self,
        (deliveries, seq, delivery): (u64, Seq, u64),
        word: &Word,
        reply: &str,
        position: Seq,
    ) {
        if self.config.ack_policy == AckPolicy::None {
            return;
        }
        let is_confirmed = match word {
            Word::Ack(_) => self.acknowledge(seq, delivery, position),
            Word::Next(ask) => {
                self.acknowledge(seq, delivery, position);
                return self.ask(reply, ask);
            }
            Word::Nak(delay) => {
                self.nak((deliveries, seq, delivery), *delay);
                true
            }
            Word::Progress => {
                let now = self.now;
                if let Some((_, time)) = self.state.pending.get_mut(&seq) {
                    *time = now;
                }
                true
            }
            Word::Term => {
                let is_confirmed = self.acknowledge(seq, delivery, position);
                self.told("term", delivery, seq, deliveries);
                is_confirmed
            }
            Word::Nonsense => true,
        };
        if is_confirmed && seq > 0 && !reply.is_empty() {
            self.said.push(Said::Confirmed(reply.into()));
        }
    }

    fn acknowledge(&mut self, seq: Seq, delivery: u64, position: Seq) -> bool {
        if seq >= position {
            return false;
        }
        let mut settled = Vec::new();
        match self.config.ack_policy {
            AckPolicy::None => return false,
            AckPolicy::Explicit => {
                let was_counted = self.state.counts.remove(&seq).is_some();
                if self.settle(seq) || was_counted {
                    settled.push(seq);
                }
                self.again.retain(|other| *other != seq);
            }
            _ if delivery <= self.state.floor.0 || seq <= self.state.floor.1 => {}
            _ => {
                settled.extend(self.state.pending.keys().filter(|other| **other <= seq));
                self.again.retain(|other| *other > seq);
                // The one that the client names may have been given up: then those before it count.
                if let Some(&through) = settled.last() {
                    self.state.pending.retain(|other, _| *other > through);
                    self.state.counts.retain(|other, _| *other > through);
                    self.state.floor = (delivery.min(self.state.delivered.0), through);
                }
            }
        }
        if !self.keeps_all {
            self.said.extend(settled.into_iter().map(Said::Settled));
        }
        true
    }

    fn nak(&mut self, (deliveries, seq, delivery): (u64, Seq, u64), delay: Option<i64>) {
        let is_known = delivery > self.state.floor.0 && delivery <= self.state.delivered.0 + 1;
        if !is_known || !self.state.pending.contains_key(&seq) {
            return;
        }
        self.told("nak", delivery, seq, deliveries);
        let Some(delay) = delay else {
            if !self.again.contains(&seq) {
                self.again.push(seq);
            }
            return;
        };
        self.again.retain(|other| *other != seq);
        let time = self.now - self.config.ack_wait + delay;
        if let Some((_, last)) = self.state.pending.get_mut(&seq) {
            *last = time;
        }
    }

    /// Whether there is a message that may be delivered, if somebody wants it.
    pub(super) fn has_something(&self) -> bool {
        let may_come = |seq: &Seq| {
            let is_there = self.state.pending.contains_key(seq) && self.messages.contains_key(seq);
            is_there && (self.max_deliver() == 0 || self.count(*seq) + 2 <= self.max_deliver())
        };
        self.next_new().is_some() || self.again.iter().any(may_come)
    }

    /// Whether a message has still something to come: a delivery, or an acknowledgement.
    pub(super) fn is_busy(&self) -> bool {
        !self.state.pending.is_empty() || self.next_new().is_some()
    }
}

/// Answer of a client to a delivery.
#[derive(Clone, Debug)]
pub(super) enum Word {
    Ack(&'static str),
    Next(Ask),
    Nak(Option<i64>),
    Progress,
    Term,
    Nonsense,
}
