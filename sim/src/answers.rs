//! Answers and deliveries, as the clients see them: the checks that need no rest.

use serde_json::Value;

use crate::message::{id_of, total_of};
use crate::model::{Confirmation, Fate, Publication, Status, StreamModel};
use crate::plan::{Acks, Kept};
use crate::protocol::Received;
use crate::world::{Asked, Delivery, Expected, Roll, World};

/// `err_code` of a publish whose expected sequence is not the last one.
const WRONG_LAST_SEQUENCE: u64 = 10071;

/// `err_code` of what a stream that has failed answers: whether it is stored is not known.
const STORE_FAILED: u64 = 10077;
/// The window in which duplicates are known, of a stream without a limit of age, and how much later
/// than that an id may be forgotten.
const LONGEST_WINDOW: u64 = 120_000_000_000;
const WINDOW_GRACE: u64 = 2_000_000_000;
/// How long after a pause what was on its way may come.
const PAUSE_GRACE: u64 = 1_000_000;

impl World {
    /// A message has come from a consumer.
    pub(crate) fn delivered(&mut self, client: usize, received: &Received<'_>) -> Result<(), String> {
        let mut words = received.reply.split('.').skip(2);
        let mut word = || words.next();
        let (Some(stream), Some(consumer), Some(count), Some(seq), Some(delivery)) =
            (word(), word(), word(), word(), word())
        else {
            return Err(format!("a delivery has the reply {}", received.reply));
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text} is no number"));
        let (count, seq, delivery) = (number(count)?, number(seq)?, number(delivery)?);
        let id = id_of(&received.headers, received.payload);
        let id = id.ok_or("a delivery carries what nobody has published")?;
        self.counts.delivered += 1;
        self.note(|| format!("{stream} > {consumer} delivers {seq}, message {id}, for the {count}th time"));
        let (now, day) = (self.clock.elapsed(), self.clock.now());
        let turn = self.counts.turns;
        let Some(model) = self.streams.get_mut(stream) else {
            return Err(format!("{stream}: a delivery of a stream that nobody has made"));
        };
        model.give(seq, id, now)?;
        let subject = model.publications.get(&id).map_or(received.subject, |one| &one.subject);
        if subject != received.subject {
            return Err(format!("{stream}: {id} was published at {subject}, came as {}", received.subject));
        }
        let is_damaged = model.is_damaged;
        let Some(known) = model.consumer(consumer) else {
            return Err(format!("{stream}: a delivery of {consumer}, which nobody has made"));
        };
        if !known.plan.wants(received.subject) {
            let (subject, filters) = (&received.subject, &known.plan.filters);
            return Err(format!("{stream} > {consumer}: {seq} comes of {subject}, and it gets {filters:?}"));
        }
        if known.is_settled(seq, turn, client) {
            return Err(format!(
                "{stream} > {consumer}: {seq} comes again, and its acknowledgement was confirmed"
            ));
        }
        let most = known.plan.max_deliver;
        if most > 0 && count > most {
            return Err(format!("{stream} > {consumer}: {seq} comes for the {count}th time, {most} may be"));
        }
        if let Some((from, until)) = known.paused
            && now > from + PAUSE_GRACE
            && day < until
        {
            return Err(format!("{stream} > {consumer}: {seq} comes in a pause"));
        }
        let had = known.delivered.insert(seq, count).unwrap_or(0);
        if count <= had && !is_damaged {
            return Err(format!(
                "{stream} > {consumer}: {seq} comes for the {count}th time, and came {had} times before"
            ));
        }
        let before = std::mem::replace(&mut known.last, seq);
        if known.plan.acks == Acks::None {
            // Nothing is to be answered, and nothing comes twice.
            return if before < seq {
                Ok(())
            } else {
                Err(format!("{stream} > {consumer}: {seq} comes behind {before}"))
            };
        }
        let (stream, consumer) = (stream.to_owned(), consumer.to_owned());
        let ack = received.reply.to_owned();
        let delivery = Delivery { stream, consumer, seq, number: delivery, ack, at: now, is_unsure: false };
        self.in_hand.push_back(delivery);
        Ok(())
    }

    /// An answer has come.
    pub(crate) fn answered(
        &mut self,
        client: usize,
        asked: Asked,
        received: &Received<'_>,
    ) -> Result<(), String> {
        match asked {
            Asked::Publish { stream, id, expected, rolls } => {
                self.publish_answered(&stream, id, expected, received)?;
                self.rolled(&stream, id, rolls);
                Ok(())
            }
            Asked::Fast { stream, ids } => self.fast_answered(&stream, &ids, received),
            Asked::Last { stream, subject, least } => self.last_answered(&stream, &subject, least, received),
            Asked::Commit { stream, batch, ids } => self.commit_answered(&stream, batch, &ids, received),
            Asked::Get { stream, seq } => {
                let answer = json(received)?;
                let payload = answer["message"]["data"].as_str().map(str::to_owned);
                let headers = answer["message"]["hdrs"].as_str().unwrap_or_default();
                let headers = String::from_utf8_lossy(&decoded(headers)?).into_owned();
                match payload {
                    Some(data) => self.seen(&stream, seq, &headers, &decoded(&data)?),
                    None => Ok(()),
                }
            }
            Asked::Direct { stream, seq } if received.headers.starts_with("NATS/1.0\r\n") => {
                self.seen(&stream, seq, &received.headers, received.payload)
            }
            Asked::Direct { .. } => Ok(()),
            Asked::Confirm(delivery) => {
                self.confirmed(client, &delivery, received);
                Ok(())
            }
            asked => self.api_answered(asked, received),
        }
    }

    /// An acknowledgement was answered: with nothing, unless nobody is there who could.
    fn confirmed(&mut self, client: usize, delivery: &Delivery, received: &Received<'_>) {
        let confirmation = Confirmation { at: self.clock.elapsed(), turn: self.counts.turns, client };
        if received.headers.starts_with("NATS/1.0 503") {
            return;
        }
        let Some(model) = self.streams.get_mut(&delivery.stream) else { return };
        let consumer = model.consumer(&delivery.consumer);
        let is_settled = consumer.is_some_and(|consumer| consumer.confirm(delivery, confirmation));
        if model.plan.kept == Kept::WorkQueue
            && is_settled
            && let Some(id) = model.given.get(&delivery.seq)
            && let Some(one) = model.publications.get_mut(id)
        {
            one.must_go.get_or_insert(confirmation.at);
        }
    }

    /// A message was read.
    fn seen(&mut self, stream: &str, seq: u64, headers: &str, payload: &[u8]) -> Result<(), String> {
        let id =
            id_of(headers, payload).ok_or_else(|| format!("{stream}: {seq} is what nobody has published"))?;
        let now = self.clock.elapsed();
        self.streams.get_mut(stream).map_or(Ok(()), |model| model.give(seq, id, now))
    }

    fn publish_answered(
        &mut self,
        stream: &str,
        id: u64,
        expected: Expected,
        received: &Received<'_>,
    ) -> Result<(), String> {
        let (now, has_jumped) = (self.clock.elapsed(), self.has_jumped);
        // A stream that is opened anew knows the ids of what it still has.
        let has_trouble = self.trouble.is_there();
        // What the stream says that it has lost, because bytes were changed, is on its subject no
        // more; the model hears of that when it looks at everything.
        let is_damaged = self.streams.get(stream).is_some_and(|model| model.is_damaged);
        let live =
            self.server.as_ref().filter(|_| is_damaged).and_then(|server| server.streams().stream(stream));
        let lost = live.map(|live| live.lost_sequences()).unwrap_or_default();
        let is_lost = |seq: u64| lost.iter().any(|range| range.contains(&seq));
        let Some(model) = self.streams.get_mut(stream) else { return Ok(()) };
        let refused = received.headers.starts_with("NATS/1.0 503");
        let answer = if refused { Value::Null } else { json(received)? };
        let Some(seq) = answer["seq"].as_u64().filter(|_| answer["error"].is_null()) else {
            self.counts.refused += 1;
            let publication = model.publications.get_mut(&id);
            if answer["error"]["err_code"] == STORE_FAILED {
                publication.into_iter().for_each(Publication::unknown);
                return Ok(());
            }
            if let Some(one) = publication.filter(|one| one.fate == Fate::Asked) {
                one.fate = Fate::Refused;
            } else {
                return Err(format!("{stream}: message {id} was refused, and had been seen: {answer}"));
            }
            let is_wrong = answer["error"]["err_code"] == WRONG_LAST_SEQUENCE;
            if is_wrong && expected == Expected::Nothing {
                return Err(format!("{stream}: message {id} expected nothing, and was told {answer}"));
            }
            return Ok(());
        };
        if answer["duplicate"] == true {
            return duplicate_answered(model, id, seq, !has_jumped);
        }
        if model.publications[&id].msg_id.is_some()
            && !has_jumped
            && !has_trouble
            && let Some(first) = model.duplicated(id, now)
        {
            return Err(format!("{stream}: message {id} has the id of {first}, and became {seq}"));
        }
        self.counts.stored += 1;
        model.give(seq, id, now)?;
        if let Some(one) = model.publications.get_mut(&id) {
            one.count.1 = total_of(received.payload);
        }
        let is_unlimited = !model.is_limited();
        let of_subject = |other: u64| {
            let one = model.publications.get(&other);
            let stays = |one: &Publication| !one.may_go && one.ends.is_none() && is_unlimited;
            one.is_some_and(|one| stays(one) && one.subject == model.publications[&id].subject)
        };
        match expected {
            Expected::Last(last) if seq != last + 1 => {
                Err(format!("{stream}: message {id} expected {last} to be the last one, and became {seq}"))
            }
            Expected::LastOfSubject(last) if last < seq => {
                let mut between = model.given.range(last + 1..seq);
                let other = between.find(|(seq, other)| of_subject(**other) && !is_lost(**seq));
                other.map_or(Ok(()), |(other, _)| {
                    Err(format!("{stream}: message {id} expected {last} on its subject, which has {other}"))
                })
            }
            Expected::Never => Err(format!("{stream}: message {id} expected another stream, and is stored")),
            _ => Ok(()),
        }
    }

    /// A message that takes the place of others was answered for.
    fn rolled(&mut self, stream: &str, id: u64, rolls: Roll) {
        let now = self.clock.elapsed();
        // Compat: a stream that fails in between, and is opened anew, keeps what was before it.
        let is_sure = !self.trouble.may_be_met();
        let Some(model) = self.streams.get_mut(stream).filter(|_| rolls != Roll::Nothing) else { return };
        model.purges = model.purges.saturating_sub(1);
        let one = &model.publications[&id];
        let (Fate::Stored(seq), subject) = (one.fate, one.subject.clone()) else { return };
        let goes = |one: &&mut Publication| {
            is_sure
                && one.must_go.is_none()
                && matches!(one.fate, Fate::Stored(other) if other < seq)
                && (rolls == Roll::All || one.subject == subject)
        };
        model.publications.values_mut().filter(goes).for_each(|one| {
            one.must_go.get_or_insert(now);
        });
    }

    /// A fast batch has ended: all of its messages are stored, or nobody knows which.
    fn fast_answered(&mut self, stream: &str, ids: &[u64], received: &Received<'_>) -> Result<(), String> {
        let now = self.clock.elapsed();
        let Some(model) = self.streams.get_mut(stream) else { return Ok(()) };
        let refused = received.headers.starts_with("NATS/1.0 503");
        let answer = if refused { Value::Null } else { json(received)? };
        let is_whole = answer["error"].is_null() && answer["count"] == ids.len() as u64;
        for id in ids {
            let Some(one) = model.publications.get_mut(id) else { continue };
            if is_whole {
                one.acked = Some(now);
                self.counts.stored += 1;
            } else {
                one.unknown();
            }
        }
        match (answer["seq"].as_u64().filter(|_| is_whole), ids.last()) {
            (Some(seq), Some(last)) => model.give(seq, *last, now),
            _ => Ok(()),
        }
    }

    /// The last message of a subject, or none.
    fn last_answered(
        &mut self,
        stream: &str,
        subject: &str,
        least: Option<u64>,
        received: &Received<'_>,
    ) -> Result<(), String> {
        let header = |name: &str| received.headers.lines().find_map(|line| line.strip_prefix(name));
        let (now, has_jumped) = (self.clock.elapsed(), self.has_jumped);
        let seq = header("Nats-Sequence: ").and_then(|text| text.trim().parse().ok());
        if let Some(seq) = seq {
            self.seen(stream, seq, &received.headers, received.payload)?;
        } else if !received.headers.starts_with("NATS/1.0 404") {
            return Ok(());
        }
        let Some(model) = self.streams.get(stream).filter(|model| !model.is_damaged) else { return Ok(()) };
        let Some(least) = least.filter(|least| seq.is_none_or(|seq| seq < *least)) else { return Ok(()) };
        let id = model.given[&least];
        // What a later message has evicted stays missing when that one is forgotten.
        let is_gone = |one: &Publication| one.may_go || one.missing.is_some();
        let may_go = model.publications.get(&id).is_none_or(is_gone);
        if may_go || self.trouble.is_there() || model.over_limits(now, has_jumped).contains(&id) {
            return Ok(());
        }
        Err(format!("{stream}: {least} is on {subject}, and {seq:?} is said to be its last one"))
    }

    fn commit_answered(
        &mut self,
        stream: &str,
        batch: u64,
        ids: &[u64],
        received: &Received<'_>,
    ) -> Result<(), String> {
        let now = self.clock.elapsed();
        let Some(model) = self.streams.get_mut(stream) else { return Ok(()) };
        let refused = received.headers.starts_with("NATS/1.0 503");
        let answer = if refused { Value::Null } else { json(received)? };
        let Some(last) = answer["seq"].as_u64().filter(|_| answer["error"].is_null()) else {
            self.counts.refused += 1;
            for id in ids {
                let publication = model.publications.get_mut(id);
                if answer["error"]["err_code"] == STORE_FAILED {
                    publication.into_iter().for_each(Publication::unknown);
                    continue;
                }
                if let Some(one) = publication.filter(|one| one.fate == Fate::Asked) {
                    one.fate = Fate::Refused;
                } else {
                    return Err(format!("{stream}: batch {batch} was refused, and {id} had been seen"));
                }
            }
            return Ok(());
        };
        if answer["count"] != ids.len() as u64 {
            return Err(format!("{stream}: batch {batch} of {} messages is answered by {answer}", ids.len()));
        }
        for (seq, id) in (last + 1 - ids.len() as u64..).zip(ids) {
            self.counts.stored += 1;
            model.give(seq, *id, now)?;
        }
        Ok(())
    }

    fn api_answered(&mut self, asked: Asked, received: &Received<'_>) -> Result<(), String> {
        let now = self.clock.elapsed();
        let answer = if received.headers.starts_with("NATS/1.0 503") { Value::Null } else { json(received)? };
        let is_done = answer.is_object() && answer["error"].is_null();
        let has_jumped = self.has_jumped;
        if !is_done && !self.trouble.is_well() {
            // It may be done all the same: the next start tells.
            if let Asked::RemoveConsumer { stream, consumer } = &asked {
                let model = self.streams.get_mut(stream);
                if let Some(known) = model.and_then(|model| model.consumer(consumer)) {
                    // Where its end could not be written nobody serves it any more, and what was
                    // not written of its deliveries went with it.
                    known.delivered.values_mut().for_each(|count| *count = 0);
                }
            }
            return Ok(());
        }
        if let Asked::MakeCopy { copy } | Asked::RemoveCopy { copy } = &asked {
            let is_there = matches!(asked, Asked::MakeCopy { .. }) == is_done;
            if let Some(copy) = self.copies.get_mut(copy) {
                copy.status = if is_there { Status::There } else { Status::Gone };
            }
        }
        let is_well = self.trouble.is_well();
        let is_pausing =
            matches!(&asked, Asked::Pause { stream, consumer, .. } if self.is_pausing(stream, consumer));
        let (Asked::MakeStream { stream }
        | Asked::Pause { stream, .. }
        | Asked::Unpin { stream }
        | Asked::Update { stream }
        | Asked::RemoveStream { stream }
        | Asked::MakeConsumer { stream, .. }
        | Asked::UpdateConsumer { stream, .. }
        | Asked::RemoveConsumer { stream, .. }
        | Asked::Purge { stream, .. }
        | Asked::Delete { stream, .. }) = &asked
        else {
            return Ok(());
        };
        let Some(model) = self.streams.get_mut(stream) else { return Ok(()) };
        if matches!(asked, Asked::Purge { .. } | Asked::Delete { .. }) {
            model.removed_at = Some(now);
        }
        match &asked {
            Asked::MakeStream { .. } if !is_done && is_well => {
                return Err(format!("{stream}: it is not made: {answer} for {}", model.plan.body()));
            }
            Asked::MakeStream { .. } => model.status = if is_done { Status::There } else { Status::Gone },
            Asked::Pause { consumer, until, is_alone, .. } => {
                let is_known = is_done && *is_alone && !is_pausing;
                let paused = until.filter(|_| is_known).map(|until| (now, until));
                model.consumer(consumer).into_iter().for_each(|consumer| consumer.paused = paused);
            }
            Asked::RemoveStream { .. } => model.status = if is_done { Status::Gone } else { Status::There },
            Asked::Update { .. } => {
                if let Some(plan) = model.update.take().filter(|_| is_done) {
                    model.plan = plan;
                }
                model.settle_limits(now, has_jumped);
            }
            Asked::MakeConsumer { consumer, .. } | Asked::RemoveConsumer { consumer, .. } => {
                let is_made = matches!(asked, Asked::MakeConsumer { .. });
                if is_made && !is_done && is_well && model.status == Status::There {
                    return Err(format!("{stream} > {consumer}: it is not made: {answer}"));
                }
                let is_there = is_made == is_done;
                if let Some(consumer) = model.consumer(consumer) {
                    consumer.status = if is_there { Status::There } else { Status::Gone };
                    consumer.there_since.get_or_insert(now);
                }
            }
            Asked::UpdateConsumer { consumer, .. } => {
                let model_is_there = model.status == Status::There;
                let Some(known) = model.consumer(consumer) else { return Ok(()) };
                if !is_done && is_well && model_is_there && known.status == Status::There {
                    return Err(format!("{stream} > {consumer}: it is not changed: {answer}"));
                }
                if let Some(plan) = known.update.take().filter(|_| is_done) {
                    known.plan = plan;
                }
            }
            Asked::Purge { gone, is_counted, .. } => {
                model.purges = model.purges.saturating_sub(usize::from(*is_counted));
                for id in gone.iter().filter(|_| is_done) {
                    if let Some(one) = model.publications.get_mut(id) {
                        one.must_go.get_or_insert(now);
                    }
                }
            }
            Asked::Delete { id, .. } if is_done => {
                if let Some(one) = model.publications.get_mut(id) {
                    one.must_go.get_or_insert(now);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// A message was not stored, because the one at `seq` has its id.
fn duplicate_answered(model: &mut StreamModel, id: u64, seq: u64, knows_times: bool) -> Result<(), String> {
    let stream = &model.plan.name;
    let first = model.given.get(&seq).and_then(|first| model.publications.get(first));
    let one = &model.publications[&id];
    if one.msg_id.is_none() {
        return Err(format!("{stream}: message {id} has no id, and is a duplicate of {seq}"));
    }
    if first.is_some_and(|first| first.msg_id != one.msg_id) {
        return Err(format!(
            "{stream}: message {id} is said to be a duplicate of {seq}, which has another id"
        ));
    }
    let window = match model.plan.limits.age {
        0 => LONGEST_WINDOW,
        age => age.unsigned_abs(),
    };
    let is_over = |first: &Publication| first.stored.is_some_and(|at| one.asked > at + window + WINDOW_GRACE);
    if knows_times && !model.has_changed && first.is_some_and(is_over) {
        return Err(format!("{stream}: message {id} is a duplicate of {seq}, whose window is over"));
    }
    model.publications.get_mut(&id).into_iter().for_each(|one| one.fate = Fate::Refused);
    Ok(())
}

fn json(received: &Received<'_>) -> Result<Value, String> {
    serde_json::from_slice(received.payload).map_err(|error| {
        let text = String::from_utf8_lossy(received.payload).into_owned();
        format!("an answer that nobody can read: {error}: {:?} {text}", received.headers)
    })
}

/// Base64 of the API's message get.
fn decoded(text: &str) -> Result<Vec<u8>, String> {
    myelin_stdx::base64::decode(text).ok_or_else(|| format!("{text} is no base64"))
}
