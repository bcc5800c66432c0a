//! Checks at rest: the streams as they are against what the clients know.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use myelin_jetstream::LiveStream;
use myelin_store::{Filter, Message};

use crate::answers::id_of;
use crate::model::{Fate, Status, StreamModel};
use crate::world::{Asked, World};

/// How long answers may take: a full disk is tried again every 10 seconds at least.
const LONGEST: u64 = 30_000_000_000;
/// How long nothing comes before a server counts as resting.
const QUIET: u64 = 300_000_000;
/// Requests for what is left in a consumer, until it counts as stalled.
const ROUNDS: usize = 400;

/// Contents of a stream: the number of each message by its sequence.
type Held = BTreeMap<u64, u64>;

impl World {
    /// Waits until the server rests, and compares.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        self.disk.set_capacity(None);
        self.note(|| "a look at everything begins".to_owned());
        self.settle(LONGEST, QUIET)?;
        let streams = &self.streams;
        let mut unanswered = std::mem::take(&mut self.pending).into_values();
        if let Some(asked) = unanswered.find(|asked| is_owed(streams, asked)) {
            return Err(format!("a request was never answered: {asked:?}"));
        }
        let Some(server) = &self.server else { return Ok(()) };
        let streams = server.streams();
        let now = self.clock.elapsed();
        let mut all = self.streams.iter_mut().filter(|(_, model)| model.status == Status::There);
        all.try_for_each(|(name, model)| {
            let live = streams.stream(name).ok_or_else(|| format!("{name}: the stream is gone"))?;
            let held = contents(&live, model, now)?;
            compare(model, &held, now, self.has_jumped)
        })
    }

    /// Has everything delivered and acknowledged that streams hold.
    pub(crate) fn drain(&mut self) -> Result<(), String> {
        self.check()?;
        let of_streams = self.streams.values().filter(|model| model.status == Status::There);
        let there = of_streams.flat_map(|model| {
            let consumers = model.consumers.iter().filter(|one| one.status == Status::There);
            consumers.map(|one| (model.plan.name.clone(), one.plan.name.clone()))
        });
        let there: Vec<(String, String)> = there.collect();
        for (stream, consumer) in there {
            self.drain_consumer(&stream, &consumer)?;
        }
        self.check()
    }

    fn drain_consumer(&mut self, stream: &str, consumer: &str) -> Result<(), String> {
        for _ in 0..ROUNDS {
            self.in_hand.clear();
            let number = self.number();
            let reply = format!("{}.{number}", crate::world::inbox(0, self.lives));
            let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}");
            self.say(0, &subject, &reply, &[], br#"{"batch":50,"expires":900000000}"#);
            self.settle(1_000_000_000, 1_000_000_000)?;
            while let Some(delivery) = self.in_hand.pop_front() {
                self.confirm(0, &delivery);
            }
            self.settle(LONGEST, QUIET)?;
            if self.left_of(stream, consumer)? == 0 {
                return self.everything_came(stream, consumer);
            }
        }
        Err(format!("{stream} > {consumer}: it has messages left, and delivers none"))
    }

    /// How many messages a consumer has to deliver, or to hear an acknowledgement of.
    fn left_of(&self, stream: &str, consumer: &str) -> Result<u64, String> {
        let missing = || format!("{stream} > {consumer}: the consumer is gone");
        let live = self.server.as_ref().and_then(|server| server.streams().stream(stream));
        let consumers = Arc::clone(live.ok_or_else(missing)?.consumers());
        let consumer = consumers.find(consumer).ok_or_else(missing)?;
        let info = consumers.info(&consumer).ok_or_else(missing)?;
        Ok(info.num_pending + info.num_ack_pending)
    }

    /// Whether a consumer has delivered all that is there.
    fn everything_came(&mut self, stream: &str, consumer: &str) -> Result<(), String> {
        let live = self.server.as_ref().and_then(|server| server.streams().stream(stream));
        let (Some(live), now) = (live, self.clock.elapsed()) else { return Ok(()) };
        let Some(model) = self.streams.get_mut(stream) else { return Ok(()) };
        let held = contents(&live, model, now)?;
        let Some(known) = model.consumer(consumer) else { return Ok(()) };
        match held.keys().find(|seq| !known.delivered.contains_key(seq)) {
            Some(seq) => Err(format!("{stream} > {consumer}: {seq} was never delivered, and is there")),
            None => Ok(()),
        }
    }

    /// Contents of all streams and places of their consumers, in words that are equal before and
    /// after a restart.
    pub(crate) fn digest(&mut self) -> Result<String, String> {
        let mut digest = String::new();
        let Some(server) = &self.server else { return Ok(digest) };
        let (streams, now) = (server.streams(), self.clock.elapsed());
        for (name, model) in &mut self.streams {
            let Some(live) = streams.stream(name).filter(|_| model.plan.limits.age == 0) else { continue };
            let held = contents(&live, model, now)?;
            let state = live.reader().state();
            let _ = writeln!(digest, "{name} to {}: {held:?}", state.totals.last_seq);
            for consumer in live.consumers().all() {
                let info = live.consumers().info(&consumer);
                let info = info.ok_or_else(|| format!("{name} > {}: no info", consumer.name()))?;
                let (delivered, floor) = (info.delivered.stream_seq, info.ack_floor.stream_seq);
                let _ = writeln!(
                    digest,
                    "{name} > {}: {delivered} {floor} {} {}",
                    consumer.name(),
                    info.num_pending,
                    info.num_ack_pending
                );
            }
        }
        Ok(digest)
    }
}

/// Whether a request has to be answered. Compat: an acknowledgement of what awaits none has no
/// answer, nor has what waited in a stream when that was removed.
fn is_owed(streams: &BTreeMap<String, StreamModel>, asked: &Asked) -> bool {
    match asked {
        Asked::Confirm { .. } => false,
        Asked::Publish { stream, .. } | Asked::Commit { stream, .. } => {
            streams.get(stream).is_some_and(|model| model.status == Status::There)
        }
        _ => true,
    }
}

/// Reads what a stream holds, and whether each message is as it was published.
fn contents(live: &LiveStream, model: &mut StreamModel, now: u64) -> Result<Held, String> {
    let name = model.plan.name.clone();
    let reader = live.reader();
    let totals = reader.state().totals;
    let mut held = Held::new();
    let mut buffer = Vec::new();
    let mut from = totals.first_seq;
    loop {
        let next = reader.next_seq(&Filter::All, from);
        let Some(seq) = next.map_err(|error| format!("{name}: no message behind {from}: {error}"))? else {
            break;
        };
        from = seq + 1;
        let read = reader.get(seq, myelin_store::Wait::Allowed, &mut buffer);
        let read = read.map_err(|error| format!("{name}: {seq} cannot be read: {error}"))?;
        let Some(Message { subject, payload, .. }) = read else { continue };
        let id = id_of(payload).ok_or_else(|| format!("{name}: {seq} is what nobody has published"))?;
        model.give(seq, id, now)?;
        let publication = &model.publications[&id];
        if publication.subject.as_bytes() != subject {
            return Err(format!("{name}: {id} was published at {}", publication.subject));
        }
        held.insert(seq, id);
    }
    if held.len() as u64 != totals.messages {
        return Err(format!("{name}: it counts {} messages, and has {}", totals.messages, held.len()));
    }
    Ok(held)
}

/// Compares what a stream holds with what it may and must hold.
fn compare(model: &mut StreamModel, held: &Held, now: u64, has_jumped: bool) -> Result<(), String> {
    let name = model.plan.name.clone();
    let over: BTreeSet<u64> = model.over_limits(now, has_jumped).into_iter().collect();
    for (&id, one) in &mut model.publications {
        let Fate::Stored(seq) = one.fate else { continue };
        if held.contains_key(&seq) {
            if let Some(at) = one.must_go {
                return Err(format!("{name}: {id} at {seq} is there, and was removed at {at} (now {now})"));
            }
            if let Some(at) = one.missing {
                return Err(format!("{name}: {id} at {seq} was missing at {at}, and is there again"));
            }
            continue;
        }
        if !one.may_go && !over.contains(&id) {
            return Err(format!("{name}: {id} at {seq} is missing, and nobody has removed it"));
        }
        one.missing.get_or_insert(now);
    }
    batches_are_whole(model)?;
    within_limits(model, held, now, has_jumped)
}

/// An atomic batch is stored as a whole, or not at all.
fn batches_are_whole(model: &StreamModel) -> Result<(), String> {
    let mut batches: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
    for one in model.publications.values() {
        let Some(batch) = one.batch else { continue };
        let (stored, others) = batches.entry(batch).or_default();
        match one.fate {
            Fate::Stored(_) => *stored += 1,
            // What was removed before anybody has seen it is not known to have been stored.
            _ if one.may_go => {}
            _ => *others += 1,
        }
    }
    let limited =
        model.least.messages + model.least.per_subject + model.least.bytes > 0 || model.least.age > 0;
    match batches.iter().find(|(_, (stored, others))| *stored > 0 && *others > 0) {
        Some((batch, (stored, others))) if !limited => {
            let of_it: Vec<String> = model
                .publications
                .iter()
                .filter(|(_, one)| one.batch == Some(*batch))
                .map(|(id, one)| format!("{id} {:?}", one.fate))
                .collect();
            let name = &model.plan.name;
            Err(format!("{name}: of batch {batch} {stored} are stored, and {others} are not: {of_it:?}"))
        }
        _ => Ok(()),
    }
}

fn within_limits(model: &StreamModel, held: &Held, now: u64, has_jumped: bool) -> Result<(), String> {
    let (name, limits) = (&model.plan.name, model.plan.limits);
    if model.update.is_some() || model.plan.refuses_new {
        return Ok(());
    }
    if limits.messages > 0 && held.len() as u64 > limits.messages {
        return Err(format!("{name}: it holds {} messages of {}", held.len(), limits.messages));
    }
    let mut of_subject: BTreeMap<&str, u64> = BTreeMap::new();
    for id in held.values() {
        let one = &model.publications[id];
        *of_subject.entry(&one.subject).or_default() += 1;
        if !has_jumped && model.has_outlived(one.asked, now) {
            return Err(format!("{name}: {id} has outlived its age: asked for at {}, now {now}", one.asked));
        }
    }
    match of_subject.iter().find(|(_, count)| limits.per_subject > 0 && **count > limits.per_subject) {
        Some((subject, count)) => Err(format!("{name}: it holds {count} messages of {subject}")),
        None => Ok(()),
    }
}
