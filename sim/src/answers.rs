//! Answers and deliveries, as the clients see them: the checks that need no rest.

use serde_json::Value;

use crate::model::{Fate, Status, StreamModel};
use crate::plan::Kept;
use crate::protocol::Received;
use crate::world::{Asked, Delivery, World};

/// `err_code` of a publish whose expected sequence is not the last one.
const WRONG_LAST_SEQUENCE: u64 = 10071;

/// The number that a payload begins with.
pub(crate) fn id_of(payload: &[u8]) -> Option<u64> {
    let text = payload.split(|byte| *byte == b' ').next()?;
    std::str::from_utf8(text).ok()?.parse().ok()
}

impl World {
    /// A message has come from a consumer.
    pub(crate) fn delivered(&mut self, received: &Received) -> Result<(), String> {
        let words: Vec<&str> = received.reply.split('.').collect();
        let [_, _, stream, consumer, count, seq, ..] = words[..] else {
            return Err(format!("a delivery has the reply {}", received.reply));
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text} is no number"));
        let (count, seq) = (number(count)?, number(seq)?);
        let id = id_of(&received.payload).ok_or("a delivery carries what nobody has published")?;
        self.counts.delivered += 1;
        let now = self.clock.elapsed();
        let Some(model) = self.streams.get_mut(stream) else {
            return Err(format!("{stream}: a delivery of a stream that nobody has made"));
        };
        model.give(seq, id, now)?;
        let subject = &model.publications[&id].subject;
        if *subject != received.subject {
            return Err(format!("{stream}: {id} was published at {subject}, came as {}", received.subject));
        }
        let Some(known) = model.consumer(consumer) else {
            return Err(format!("{stream}: a delivery of {consumer}, which nobody has made"));
        };
        if known.confirmed.contains_key(&seq) {
            return Err(format!(
                "{stream} > {consumer}: {seq} comes again, and its acknowledgement was confirmed"
            ));
        }
        let most = known.plan.max_deliver;
        if most > 0 && count > most {
            return Err(format!("{stream} > {consumer}: {seq} comes for the {count}th time, {most} may be"));
        }
        let had = known.delivered.entry(seq).or_default();
        *had = count.max(*had);
        let (stream, consumer) = (stream.to_owned(), consumer.to_owned());
        self.in_hand.push_back(Delivery { stream, consumer, seq, ack: received.reply.clone() });
        Ok(())
    }

    /// An answer has come.
    pub(crate) fn answered(&mut self, asked: Asked, received: &Received) -> Result<(), String> {
        match asked {
            Asked::Publish { stream, id, expected } => self.publish_answered(&stream, id, expected, received),
            Asked::Commit { stream, batch, ids } => self.commit_answered(&stream, batch, &ids, received),
            Asked::Get { stream, seq } => {
                let answer = json(received)?;
                let payload = answer["message"]["data"].as_str().map(str::to_owned);
                match payload {
                    Some(data) => self.seen(&stream, seq, &decoded(&data)?),
                    None => Ok(()),
                }
            }
            Asked::Direct { stream, seq } if received.headers.starts_with("NATS/1.0\r\n") => {
                self.seen(&stream, seq, &received.payload)
            }
            Asked::Direct { .. } => Ok(()),
            asked => self.api_answered(asked, received),
        }
    }

    /// A message was read.
    fn seen(&mut self, stream: &str, seq: u64, payload: &[u8]) -> Result<(), String> {
        let id = id_of(payload).ok_or_else(|| format!("{stream}: {seq} is what nobody has published"))?;
        let now = self.clock.elapsed();
        self.streams.get_mut(stream).map_or(Ok(()), |model| model.give(seq, id, now))
    }

    fn publish_answered(
        &mut self,
        stream: &str,
        id: u64,
        expected: Option<u64>,
        received: &Received,
    ) -> Result<(), String> {
        let (now, has_jumped) = (self.clock.elapsed(), self.has_jumped);
        let Some(model) = self.streams.get_mut(stream) else { return Ok(()) };
        let refused = received.headers.starts_with("NATS/1.0 503");
        let answer = if refused { Value::Null } else { json(received)? };
        let Some(seq) = answer["seq"].as_u64().filter(|_| answer["error"].is_null()) else {
            self.counts.refused += 1;
            let publication = model.publications.get_mut(&id);
            if let Some(one) = publication.filter(|one| one.fate == Fate::Asked) {
                one.fate = Fate::Refused;
            } else {
                return Err(format!("{stream}: message {id} was refused, and had been seen: {answer}"));
            }
            let is_wrong = answer["error"]["err_code"] == WRONG_LAST_SEQUENCE;
            if is_wrong && expected.is_none() {
                return Err(format!("{stream}: message {id} expected nothing, and was told {answer}"));
            }
            return Ok(());
        };
        if answer["duplicate"] == true {
            return duplicate_answered(model, id, seq);
        }
        if model.publications[&id].msg_id.is_some()
            && !has_jumped
            && let Some(first) = model.duplicated(id, now)
        {
            return Err(format!("{stream}: message {id} has the id of {first}, and became {seq}"));
        }
        self.counts.stored += 1;
        model.give(seq, id, now)?;
        match expected {
            Some(expected) if seq != expected + 1 => Err(format!(
                "{stream}: message {id} expected {expected} to be the last one, and became {seq}"
            )),
            _ => Ok(()),
        }
    }

    fn commit_answered(
        &mut self,
        stream: &str,
        batch: u64,
        ids: &[u64],
        received: &Received,
    ) -> Result<(), String> {
        let now = self.clock.elapsed();
        let Some(model) = self.streams.get_mut(stream) else { return Ok(()) };
        let refused = received.headers.starts_with("NATS/1.0 503");
        let answer = if refused { Value::Null } else { json(received)? };
        let Some(last) = answer["seq"].as_u64().filter(|_| answer["error"].is_null()) else {
            self.counts.refused += 1;
            for id in ids {
                let publication = model.publications.get_mut(id);
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

    fn api_answered(&mut self, asked: Asked, received: &Received) -> Result<(), String> {
        let now = self.clock.elapsed();
        // The acknowledgement of an acknowledgement is empty.
        if let Asked::Confirm { stream, consumer, seq } = &asked {
            if received.headers.starts_with("NATS/1.0 503") {
                return Ok(());
            }
            let Some(model) = self.streams.get_mut(stream) else { return Ok(()) };
            if model.plan.kept == Kept::WorkQueue
                && let Some(id) = model.given.get(seq)
                && let Some(one) = model.publications.get_mut(id)
            {
                one.must_go.get_or_insert(now);
            }
            if let Some(consumer) = model.consumer(consumer) {
                consumer.confirmed.entry(*seq).or_insert(now);
            }
            return Ok(());
        }
        let answer = if received.headers.starts_with("NATS/1.0 503") { Value::Null } else { json(received)? };
        let is_done = answer.is_object() && answer["error"].is_null();
        let has_jumped = self.has_jumped;
        let (Asked::MakeStream { stream }
        | Asked::Update { stream }
        | Asked::RemoveStream { stream }
        | Asked::MakeConsumer { stream, .. }
        | Asked::RemoveConsumer { stream, .. }
        | Asked::Purge { stream, .. }
        | Asked::Delete { stream, .. }) = &asked
        else {
            return Ok(());
        };
        let Some(model) = self.streams.get_mut(stream) else { return Ok(()) };
        match &asked {
            Asked::MakeStream { .. } => model.status = if is_done { Status::There } else { Status::Gone },
            Asked::RemoveStream { .. } => model.status = if is_done { Status::Gone } else { Status::There },
            Asked::Update { .. } => {
                if let Some(plan) = model.update.take().filter(|_| is_done) {
                    model.plan = plan;
                }
                model.settle_limits(now, has_jumped);
            }
            Asked::MakeConsumer { consumer, .. } | Asked::RemoveConsumer { consumer, .. } => {
                let is_made = matches!(asked, Asked::MakeConsumer { .. });
                let is_there = is_made == is_done;
                if let Some(consumer) = model.consumer(consumer) {
                    consumer.status = if is_there { Status::There } else { Status::Gone };
                }
            }
            Asked::Purge { gone, .. } => {
                model.purges -= 1;
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
fn duplicate_answered(model: &mut StreamModel, id: u64, seq: u64) -> Result<(), String> {
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
    model.publications.get_mut(&id).into_iter().for_each(|one| one.fate = Fate::Refused);
    Ok(())
}

fn json(received: &Received) -> Result<Value, String> {
    serde_json::from_slice(&received.payload).map_err(|error| {
        let text = String::from_utf8_lossy(&received.payload).into_owned();
        format!("an answer that nobody can read: {error}: {:?} {text}", received.headers)
    })
}

/// Base64 of the API's message get.
fn decoded(text: &str) -> Result<Vec<u8>, String> {
    myelin_stdx::base64::decode(text).ok_or_else(|| format!("{text} is no base64"))
}
