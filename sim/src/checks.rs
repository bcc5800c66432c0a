//! Checks at rest: the streams as they are against what the clients know.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use myelin_jetstream::LiveStream;
use myelin_store::Message;

use crate::held::Held;
use crate::message::{id_of, total_of};
use crate::model::{Fate, Publication, Status, StreamModel};
use crate::plan::{Acks, Kind};
use crate::specials::has_fired;
use crate::tally::Tally;
use crate::walk::walk;
use crate::world::{Asked, World};

const SECOND: u64 = 1_000_000_000;
/// How long answers may take: a full disk is tried again every 10 seconds at least.
const LONGEST: u64 = 30_000_000_000;
/// How long nothing comes before a server counts as resting.
const QUIET: u64 = 300_000_000;
/// How long where something has failed: what could not be written is tried again after a second.
const QUIET_AFTER_TROUBLE: u64 = 1_200_000_000;
/// Attempts to get what is left in a consumer that bring nothing, until it counts as stalled.
const ROUNDS: usize = 60;

impl World {
    /// Waits until the server rests, and compares.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        self.note(|| "a look at everything begins".to_owned());
        let was_there = self.trouble.is_there();
        let was_well = self.trouble.is_well();
        self.heal();
        self.settle(LONGEST, if was_well { QUIET } else { QUIET_AFTER_TROUBLE })?;
        let mut is_through = !self.trouble.is_there();
        while !is_through {
            // What was planned may have happened only now, or happens meanwhile.
            let planned = self.trouble.planned;
            self.heal();
            self.settle(LONGEST, QUIET_AFTER_TROUBLE)?;
            is_through = self.trouble.planned == planned;
        }
        if was_there || self.trouble.is_there() {
            self.mend()?;
            self.trouble.has_failed = false;
            self.streams.values_mut().for_each(StreamModel::had_trouble);
        }
        let (streams, excused) = (&self.streams, std::mem::take(&mut self.trouble.excused));
        let unanswered = std::mem::take(&mut self.pending);
        let mut unanswered = unanswered.into_iter().filter(|(number, _)| !excused.contains(number));
        if let Some((_, asked)) = unanswered.find(|(_, asked)| is_owed(streams, asked)) {
            return Err(format!("a request was never answered: {asked:?}"));
        }
        let Some(server) = &self.server else { return Ok(()) };
        let streams = server.streams();
        let now = self.clock.elapsed();
        let mut all = self.streams.iter_mut().filter(|(_, model)| model.status == Status::There);
        let compared = all.try_for_each(|(name, model)| {
            let live = streams.stream(name).ok_or_else(|| format!("{name}: the stream is gone"))?;
            let held = contents(&live, model, now)?;
            compare(model, &held, now, self.has_jumped)?;
            nothing_is_passed_over(model, &live, &held, self.lives)?;
            pending_is_there(model, &live, &held)
        });
        drop(streams);
        if self.disk.is_off() {
            // A question to a consumer may have it write, and the next stream cannot be read then.
            return self.power_lost();
        }
        compared?;
        self.check_copies()?;
        self.trouble.end();
        Ok(())
    }

    /// Lets messages be missing that the server which ends says it has lost. The next one need not
    /// say it: a work queue lets go of what cannot be delivered any more.
    pub(crate) fn note_told_losses(&mut self) {
        let Some(server) = &self.server else { return };
        let streams = server.streams();
        for (name, model) in self.streams.iter_mut().filter(|(_, model)| model.is_damaged) {
            let lost = streams.stream(name).map(|live| live.lost_sequences()).unwrap_or_default();
            for one in model.publications.values_mut() {
                if let Fate::Stored(seq) = one.fate {
                    one.may_go |= lost.iter().any(|range| range.contains(&seq));
                }
            }
        }
    }

    /// Starts the server anew where a stream takes nothing any more, as an operator does.
    fn mend(&mut self) -> Result<(), String> {
        let Some(server) = &self.server else { return Ok(()) };
        let has_failed =
            |name: &String| server.streams().stream(name).is_some_and(|live| live.failure().is_some());
        let is_ill = self.streams.keys().chain(self.copies.keys()).any(has_failed);
        // What could not be read may have been given up.
        if is_ill || self.rng.below(2) == 0 {
            self.restart()?;
            self.settle(LONGEST, QUIET)?;
        }
        Ok(())
    }

    /// Has everything delivered and acknowledged that streams hold.
    pub(crate) fn drain(&mut self) -> Result<(), String> {
        self.clock.catch_up();
        self.check()?;
        let of_streams = self.streams.values().filter(|model| model.status == Status::There);
        let there = of_streams.flat_map(|model| {
            let consumers = model.consumers.iter().filter(|one| one.status == Status::There);
            consumers.map(|one| (model.plan.name.clone(), one.plan.name.clone()))
        });
        let there: Vec<(String, String)> = there.collect();
        for (stream, consumer) in &there {
            self.ask_to_pause(0, stream, consumer.clone(), None);
        }
        self.settle(LONGEST, QUIET)?;
        for (stream, consumer) in there {
            self.drain_consumer(&stream, &consumer)?;
        }
        self.check()
    }

    fn drain_consumer(&mut self, stream: &str, consumer: &str) -> Result<(), String> {
        let known = self.streams.get_mut(stream).and_then(|model| model.consumer(consumer));
        let plan = known.map(|known| known.plan.clone());
        let is_push = plan.as_ref().is_some_and(|plan| plan.is_push);
        if !is_push {
            self.in_hand.clear();
        }
        let (mut least, mut idle) = (u64::MAX, 0);
        while idle < ROUNDS {
            self.settle(SECOND, 0)?;
            // Others that are sent to may go on meanwhile.
            if !self.in_hand.iter().any(|one| one.stream == stream && one.consumer == consumer) {
                if !is_push {
                    let is_shared = plan.as_ref().is_some_and(|plan| plan.shared.is_some());
                    self.ask_for_many(stream, consumer, is_shared);
                }
                self.settle(SECOND, SECOND)?;
            }
            while let Some(delivery) = self.in_hand.pop_front() {
                self.confirm(0, &delivery);
            }
            self.settle(LONGEST, 0)?;
            let left = self.left_of(stream, consumer)?;
            if left == 0 {
                self.settle(LONGEST, QUIET)?;
                return self.everything_came(stream, consumer);
            }
            idle = if left < least { 0 } else { idle + 1 };
            least = least.min(left);
        }
        Err(format!("{stream} > {consumer}: it has {least} messages left, and delivers none: {plan:?}"))
    }

    /// A pull request for more than most consumers may have on their way.
    fn ask_for_many(&mut self, stream: &str, consumer: &str, is_shared: bool) {
        let number = self.number();
        let reply = crate::world::reply(0, self.lives, number);
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}");
        let group = if is_shared { r#","group":"A""# } else { "" };
        let request = format!(r#"{{"batch":50,"expires":900000000{group}}}"#);
        self.say(0, &subject, &reply, &[], request.as_bytes());
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
        let (lives, is_damaged) = (self.lives, model.is_damaged);
        let Some(known) = model.consumers.iter().find(|one| one.plan.name == consumer) else {
            return Ok(());
        };
        let is_due = |id: &u64| {
            let one = model.publications.get(id);
            one.is_none_or(|one| !one.may_be_back(known.made_in) && known.plan.wants(&one.subject))
        };
        let due: Vec<u64> = held.iter().filter(|(_, id)| is_due(id)).map(|(seq, _)| *seq).collect();
        let is_given_up = known.plan.acks == Acks::None || known.plan.max_deliver > 0;
        if is_damaged || (is_given_up && known.made_in != lives) {
            // What was on its way to a client that died with the server comes no more.
            return Ok(());
        }
        // What was on its way to a client that died, and was acknowledged with a later message.
        let is_covered = |seq: u64| {
            let is_later = || known.acked.range(seq + 1..).next().is_some();
            known.plan.acks == Acks::All && known.made_in != lives && is_later()
        };
        match due.iter().find(|seq| !known.delivered.contains_key(seq) && !is_covered(**seq)) {
            Some(seq) => {
                let plan = &known.plan;
                Err(format!("{stream} > {consumer}: {seq} was never delivered, and is there: {plan:?}"))
            }
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
            // What ends by itself may do so in between.
            let is_lasting = model.plan.limits.age == 0
                && (!self.has_jumped || matches!(model.plan.kind, Kind::Plain | Kind::Counters));
            let Some(live) = streams.stream(name).filter(|_| is_lasting) else { continue };
            let held = contents(&live, model, now)?;
            let state = live.reader().state();
            let _ = writeln!(digest, "{name} to {}: {held:?}", state.totals.last_seq);
            for consumer in live.consumers().all() {
                let info = live.consumers().info(&consumer);
                let info = info.ok_or_else(|| format!("{name} > {}: no info", consumer.name()))?;
                let places = [info.delivered.stream_seq, info.ack_floor.stream_seq];
                // A message that damage has taken counts until a start leaves it out, and where
                // that leaves none before the last sequences, consumers are behind those at once.
                // So what counts of a place there is how many messages are before it.
                let of_damaged = |place: u64| held.count_through(place);
                let [delivered, floor] = if model.is_damaged { places.map(of_damaged) } else { places };
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
        Asked::Publish { stream, .. } | Asked::Commit { stream, .. } | Asked::Fast { stream, .. } => {
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
    let (mut held, mut totals_of) = (Held::default(), BTreeMap::new());
    walk(&name, &reader, model.is_damaged, now, |message| {
        let Message { seq, subject, payload, headers, .. } = *message;
        let id = id_of(&String::from_utf8_lossy(headers), payload);
        let id = id.ok_or_else(|| format!("{name}: {seq} is what nobody has published"))?;
        let is_known = |one: &Publication| one.fate == Fate::Stored(seq);
        let is_new = !model.publications.get(&id).is_some_and(is_known);
        if is_new {
            model.give(seq, id, now)?;
        }
        if model.plan.kind == Kind::Counters {
            counted(model, &mut totals_of, id, payload)?;
        }
        if is_new && model.gone.contains(&id) {
            if model.is_damaged {
                return Ok(());
            }
            return Err(format!("{name}: {id} at {seq} was gone for good, and is there again"));
        }
        let publication = &model.publications[&id];
        if publication.subject.as_bytes() != subject {
            return Err(format!("{name}: {id} was published at {}", publication.subject));
        }
        held.add(seq, id);
        Ok(())
    })?;
    if model.is_damaged {
        forgive_lost(live, model, &held);
    } else if let Some(lost) = live.lost_sequences().first() {
        return Err(format!("{name}: it tells {lost:?} as lost, and nothing was damaged"));
    } else if held.len() as u64 != totals.messages {
        return Err(format!("{name}: it counts {} messages, and has {}", totals.messages, held.len()));
    }
    Ok(held)
}

/// Adds up a counter, whose total stands in each of its messages.
fn counted(
    model: &mut StreamModel,
    totals: &mut BTreeMap<String, i64>,
    id: u64,
    payload: &[u8],
) -> Result<(), String> {
    let (name, is_damaged) = (&model.plan.name, model.is_damaged);
    let Some(one) = model.publications.get(&id) else { return Ok(()) };
    let total = total_of(payload).ok_or_else(|| format!("{name}: {id} is no total"))?;
    let before = match totals.get_mut(&one.subject) {
        Some(before) => std::mem::replace(before, total),
        None => totals.insert(one.subject.clone(), total).unwrap_or(0),
    };
    if before + one.count.0 != total && !is_damaged {
        let (subject, adds) = (&one.subject, one.count.0);
        return Err(format!("{name}: {id} adds {adds} to {before} of {subject}, which makes {total}"));
    }
    match one.count.1 {
        Some(told) if told != total => {
            Err(format!("{name}: {id} was told the total {told}, and has {total}"))
        }
        _ => Ok(()),
    }
}

/// Checks that what awaits its acknowledgement is there, was delivered, and was not acknowledged
/// for certain.
fn pending_is_there(model: &StreamModel, live: &LiveStream, held: &Held) -> Result<(), String> {
    for known in model.consumers.iter().filter(|known| known.status == Status::There && !model.is_damaged) {
        let name = format!("{} > {}", model.plan.name, known.plan.name);
        let consumer = live.consumers().find(&known.plan.name).ok_or(format!("{name}: it is gone"))?;
        let info = live.consumers().info(&consumer).ok_or(format!("{name}: no info"))?;
        let may_wait = |seq: &&u64| **seq <= info.delivered.stream_seq && !known.confirmed.contains_key(*seq);
        let has = info.num_ack_pending;
        // Perf: the last ones, mostly, and more need not be counted.
        let most = held.keys().rev().filter(may_wait).take(has as usize).count() as u64;
        if has > most {
            return Err(format!("{name}: {has} messages await their acknowledgement, of {most} that may"));
        }
    }
    Ok(())
}

/// Checks that of what a consumer has passed all has come that is there, or is on its way to a
/// client that did not hear of it, and is waited for.
fn nothing_is_passed_over(
    model: &StreamModel,
    live: &LiveStream,
    held: &Held,
    lives: u64,
) -> Result<(), String> {
    for known in model.consumers.iter().filter(|known| known.status == Status::There && !model.is_damaged) {
        let is_given_up = known.plan.acks != Acks::Explicit || known.plan.max_deliver > 0;
        if is_given_up && known.made_in != lives {
            // What was on its way to a client that died with the server comes no more, or was
            // acknowledged with what came behind it.
            continue;
        }
        let name = format!("{} > {}", model.plan.name, known.plan.name);
        let consumer = live.consumers().find(&known.plan.name).ok_or(format!("{name}: it is gone"))?;
        let info = live.consumers().info(&consumer).ok_or(format!("{name}: no info"))?;
        let is_due = |(seq, id): &(&u64, &u64)| {
            let one = &model.publications[*id];
            // One that somebody may have removed may be back after a loss of power.
            let may_be_passed = one.may_go || one.may_be_back(known.made_in);
            !known.delivered.contains_key(*seq) && !may_be_passed && known.plan.wants(&one.subject)
        };
        let passed = held.iter().take_while(|(seq, _)| **seq <= info.delivered.stream_seq);
        let missed: Vec<u64> = passed.filter(is_due).map(|(seq, _)| *seq).collect();
        if missed.len() as u64 > info.num_ack_pending {
            let (at, awaited, plan) = (info.delivered.stream_seq, info.num_ack_pending, &known.plan);
            let some = &missed[..missed.len().min(10)];
            return Err(format!(
                "{name}: it is at {at}, and awaits {awaited}; {} before that never came, as {some:?}: {plan:?}",
                missed.len()
            ));
        }
    }
    Ok(())
}

/// Lets messages be missing of which the stream says that it has lost them.
fn forgive_lost(live: &LiveStream, model: &mut StreamModel, held: &Held) {
    let lost = live.lost_sequences();
    for one in model.publications.values_mut() {
        if let Fate::Stored(seq) = one.fate {
            one.may_go |= lost.iter().any(|range| range.contains(&seq)) && !held.contains_key(&seq);
        } else {
            // Whether it was stored before, the damage does not say.
            one.may_go |= !lost.is_empty();
        }
    }
}

/// Compares what a stream holds with what it may and must hold.
fn compare(model: &mut StreamModel, held: &Held, now: u64, has_jumped: bool) -> Result<(), String> {
    let name = model.plan.name.clone();
    let mut over = model.over_limits(now, has_jumped);
    over.sort_unstable();
    let is_loose = model.is_damaged || has_jumped || model.is_limited();
    schedules_fire(model, held, is_loose)?;
    let is_damaged = model.is_damaged;
    for (&id, one) in model.publications.iter_mut() {
        let Fate::Stored(seq) = one.fate else {
            if one.acked.is_some() && !one.may_go && !is_loose {
                return Err(format!("{name}: {id} was acknowledged with its batch, and was never there"));
            }
            continue;
        };
        if is_damaged && held.contains_key(&seq) {
            continue;
        }
        if held.contains_key(&seq) {
            if let Some(at) = one.must_go {
                return Err(format!("{name}: {id} at {seq} is there, and was removed at {at} (now {now})"));
            }
            if let Some(at) = one.missing {
                return Err(format!("{name}: {id} at {seq} was missing at {at}, and is there again"));
            }
            continue;
        }
        if !one.may_go && one.missing.is_none() && over.binary_search(&id).is_err() {
            return Err(format!("{name}: {id} at {seq} is missing, and nobody has removed it"));
        }
        if !is_damaged {
            one.missing.get_or_insert(now);
        }
    }
    batches_are_whole(model)?;
    within_limits(model, held, now, has_jumped)?;
    model.retire(now);
    Ok(())
}

/// A schedule that is gone, and that nobody has removed, has made its message.
fn schedules_fire(model: &StreamModel, held: &Held, is_loose: bool) -> Result<(), String> {
    let name = &model.plan.name;
    for (id, one) in model.publications.iter().filter(|(_, one)| one.becomes.is_some()) {
        let Fate::Stored(seq) = one.fate else { continue };
        let made = one.becomes.and_then(|made| model.publications.get(&made));
        if !is_loose && !one.may_go && !held.contains_key(&seq) && !has_fired(one, made) {
            return Err(format!("{name}: schedule {id} at {seq} is gone, and has made nothing"));
        }
    }
    Ok(())
}

/// An atomic batch is stored as a whole, or not at all.
fn batches_are_whole(model: &StreamModel) -> Result<(), String> {
    let mut batches: Vec<(u64, (usize, usize))> = Vec::new();
    for one in model.publications.values() {
        let Some(batch) = one.batch else { continue };
        match batches.last() {
            Some((last, _)) if *last >= batch => assert!(*last == batch, "batches are published in order"),
            _ => batches.push((batch, (0, 0))),
        }
        let Some((_, (stored, others))) = batches.last_mut() else { continue };
        match one.fate {
            Fate::Stored(_) => *stored += 1,
            // What was removed before anybody has seen it is not known to have been stored.
            _ if one.may_go => {}
            _ => *others += 1,
        }
    }
    let limited = model.is_limited();
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
    let refuses = model.plan.refuses_new;
    if model.update.is_some() || (refuses && (!model.plan.refuses_per_subject || model.has_changed)) {
        return Ok(());
    }
    if !refuses && limits.messages > 0 && held.len() as u64 > limits.messages {
        return Err(format!("{name}: it holds {} messages of {}", held.len(), limits.messages));
    }
    let mut of_subject = Tally::default();
    for id in held.values() {
        let one = &model.publications[id];
        *of_subject.of(&one.subject) += 1;
        if !has_jumped && !model.is_damaged && model.has_outlived(one, now) {
            return Err(format!("{name}: {id} has outlived its age: asked for at {}, now {now}", one.asked));
        }
    }
    let mut of_subject = of_subject.sorted().into_iter();
    match of_subject.find(|(_, count)| limits.per_subject > 0 && *count > limits.per_subject) {
        Some((subject, count)) => Err(format!("{name}: it holds {count} messages of {subject}")),
        None => Ok(()),
    }
}
