//! Operations of clients of a cluster, and what they learn from answers.

use super::history::{Condition, Outcome};
use super::model::{Delivery, Look, Publication};
use super::node::{CLIENTS, Letter};
use super::plan::{Kept, LIFETIME};
use super::world::{Asked, Question, SECOND, World};

/// Nanoseconds until a delivery comes again that nobody has acknowledged.
const ACK_WAIT: u64 = 2 * SECOND;
/// Words of an answer to a condition that does not hold.
const WRONG_LAST: u64 = 10_071;

impl World {
    /// A client does something.
    pub(super) fn operate(&mut self) -> Result<(), String> {
        self.counts.operations += 1;
        let stream = self.rng.below(self.streams.len() as u64) as usize;
        if self.has_extras && self.extras.below(15) == 0 {
            self.publish_fast(stream);
        }
        if self.has_extras && self.extras.below(25) == 0 {
            self.coup(stream)?;
        }
        match self.rng.below(100) {
            0..45 => self.publish(stream),
            45..50 => self.publish_batch(stream),
            50..58 => self.publish_again(stream),
            58..70 => self.fetch(stream),
            70..86 => self.acknowledge(stream),
            86..90 => self.look(stream),
            90..92 => self.purge(stream),
            92..94 => self.delete(stream),
            94 => self.step_down(stream),
            _ => {
                let nap = [20_000_000, 300_000_000, 4 * SECOND][self.rng.below(3) as usize];
                let nap = self.rng.below(nap);
                return self.pass(nap);
            }
        }
        Ok(())
    }

    fn condition(&mut self, stream: usize, subject: u64) -> Condition {
        let model = &self.streams[stream];
        let (last, is_whole) = (model.last_told(), model.plan.kept == Kept::Limits);
        let of_subject = || {
            let is_of = |one: &&Publication| one.subject == subject;
            let seq = |one: &Publication| if let Outcome::Stored(seq) = one.outcome { seq } else { 0 };
            model.publications.iter().filter(is_of).map(seq).max().unwrap_or(0)
        };
        match self.rng.below(8) {
            0 => Condition::Last(last),
            1 if is_whole => Condition::LastOfSubject(of_subject()),
            2 if is_whole => {
                let before = of_subject();
                Condition::LastOfSubject(before.saturating_sub(self.rng.below(2)))
            }
            _ => Condition::Nothing,
        }
    }

    pub(super) fn publication(&mut self, stream: usize, batch: Option<u64>) -> usize {
        let subject = self.rng.below(self.streams[stream].plan.subjects);
        let condition = if batch.is_none() { self.condition(stream, subject) } else { Condition::Nothing };
        let has_id = batch.is_none() && self.rng.below(2) == 0;
        let filler = if self.rng.below(12) == 0 { 3000 } else { 50 };
        let filler = "x".repeat(self.rng.below(filler) as usize);
        let has_lifetime = self.streams[stream].plan.has_lifetimes && self.rng.below(2) == 0;
        let (asked, time) = (self.events, self.now);
        let model = &mut self.streams[stream];
        let name = model.publications.len();
        let payload = format!("m{name} {filler}");
        model.publications.push(Publication {
            payload,
            subject,
            has_id,
            condition,
            has_lifetime,
            time,
            batch,
            asked,
            answered: None,
            outcome: Outcome::Unknown,
            must_be_there: false,
        });
        name
    }

    /// Whether a stream keeps what is published to it.
    pub(super) fn may_publish(&self, stream: usize) -> bool {
        let model = &self.streams[stream];
        model.is_consumed || model.plan.kept != Kept::Interest
    }

    fn publish(&mut self, stream: usize) {
        if !self.may_publish(stream) {
            return;
        }
        let Some(home) = self.home() else { return };
        let to = self.leading(stream);
        if to.is_empty() {
            return;
        }
        let name = self.publication(stream, None);
        let to = self.takers(to, self.streams[stream].publications[name].has_id);
        self.send(stream, name, home, &to);
    }

    /// Servers that get a message, of those that take themselves for leaders. Without an id it is
    /// for one: another one that leads again by when it comes would store it once more.
    fn takers(&mut self, leading: Vec<usize>, has_id: bool) -> Vec<usize> {
        if has_id || leading.len() < 2 {
            return leading;
        }
        vec![leading[self.rng.below(leading.len() as u64) as usize]]
    }

    /// Publishes a message without a condition, where the stream is led.
    pub(super) fn publish_plain(&mut self, stream: usize, leader: usize) {
        let name = self.publication(stream, None);
        let one = &mut self.streams[stream].publications[name];
        (one.condition, one.has_id) = (Condition::Nothing, false);
        self.send(stream, name, leader, &[leader]);
    }

    /// Sends a message that was drawn.
    pub(super) fn send(&mut self, stream: usize, name: usize, home: usize, to: &[usize]) {
        let now = self.now;
        let model = &mut self.streams[stream];
        let one = &mut model.publications[name];
        // A copy that is the first to be stored lives from then on.
        one.time = now;
        let subject = format!("{}.{}", model.plan.name, one.subject);
        let mut headers = Vec::new();
        if one.has_id {
            headers.push(format!("Nats-Msg-Id: id{name}"));
        }
        if one.has_lifetime {
            headers.push(format!("Nats-TTL: {LIFETIME}s"));
        }
        match one.condition {
            Condition::Nothing => {}
            Condition::Last(seq) => headers.push(format!("Nats-Expected-Last-Sequence: {seq}")),
            Condition::LastOfSubject(seq) => {
                headers.push(format!("Nats-Expected-Last-Subject-Sequence: {seq}"));
            }
        }
        let payload = one.payload.clone();
        self.say_publish(home, to, (stream, vec![name]), (&subject, &headers, &payload));
    }

    fn say_publish(
        &mut self,
        home: usize,
        to: &[usize],
        (stream, names): (usize, Vec<usize>),
        (subject, headers, payload): (&str, &[String], &str),
    ) {
        // The question is noted, and its words are sent with headers.
        let asked = Asked::Publish { stream, names };
        let tag = self.ask(asked, home, &[], ("", ""));
        let letter = Letter {
            account: CLIENTS,
            subject: subject.into(),
            reply: format!("R.{tag}").into_bytes(),
            headers: block(headers),
            payload: payload.into(),
        };
        self.say(home, to, &letter);
    }

    /// All or nothing of some messages is stored.
    fn publish_batch(&mut self, stream: usize) {
        if !self.may_publish(stream) {
            return;
        }
        self.streams[stream].batches += 1;
        let Some(home) = self.home() else { return };
        let to = self.leading(stream);
        if to.is_empty() {
            return;
        }
        let to = self.takers(to, false);
        self.send_batch(stream, home, &to, 0);
    }

    /// Sends a new batch, each message with so many bytes more.
    pub(super) fn send_batch(&mut self, stream: usize, home: usize, to: &[usize], more: usize) {
        let batch = self.streams[stream].batches;
        let count = 2 + self.rng.below(6);
        let names: Vec<usize> = (0..count).map(|_| self.publication(stream, Some(batch))).collect();
        for &name in &names {
            self.streams[stream].publications[name].payload += &"z".repeat(more);
        }
        for (at, &name) in names.iter().enumerate() {
            let model = &self.streams[stream];
            let one = &model.publications[name];
            let subject = format!("{}.{}", model.plan.name, one.subject);
            let payload = one.payload.clone();
            let mut headers =
                vec![format!("Nats-Batch-Id: b{stream}.{batch}"), format!("Nats-Batch-Sequence: {}", at + 1)];
            if one.has_lifetime {
                headers.push(format!("Nats-TTL: {LIFETIME}s"));
            }
            if at + 1 == names.len() {
                headers.push("Nats-Batch-Commit: 1".to_owned());
                self.say_publish(home, to, (stream, names.clone()), (&subject, &headers, &payload));
                return;
            }
            let letter = Letter {
                account: CLIENTS,
                subject: subject.into_bytes(),
                reply: Vec::new(),
                headers: block(&headers),
                payload: payload.into_bytes(),
            };
            self.say(home, to, &letter);
        }
    }

    /// A client has heard nothing, and tries again under the same id.
    fn publish_again(&mut self, stream: usize) {
        let Some(home) = self.home() else { return };
        let to = self.leading(stream);
        let count = self.streams[stream].publications.len() as u64;
        if to.is_empty() || count == 0 {
            return;
        }
        let name = (count - 1 - self.rng.below(count.min(20))) as usize;
        let one = &self.streams[stream].publications[name];
        if one.has_id && !matches!(one.outcome, Outcome::WrongLast(_) | Outcome::Refused) {
            self.send(stream, name, home, &to);
        }
    }

    /// Asks a consumer for messages.
    pub(super) fn fetch(&mut self, stream: usize) {
        let Some(home) = self.home().filter(|_| self.streams[stream].is_consumed) else { return };
        let batch = 1 + self.rng.below(6);
        let expires = (1 + self.rng.below(5)) * SECOND;
        self.fetch_so_many(stream, home, batch, expires);
    }

    pub(super) fn fetch_so_many(&mut self, stream: usize, home: usize, batch: u64, expires: u64) {
        let name = &self.streams[stream].plan.name;
        let letter = Letter {
            account: CLIENTS,
            subject: format!("$JS.API.CONSUMER.MSG.NEXT.{name}.C").into_bytes(),
            reply: format!("D.{stream}").into_bytes(),
            headers: Vec::new(),
            payload: format!(r#"{{"batch":{batch},"expires":{expires}}}"#).into_bytes(),
        };
        let to = self.running();
        self.say(home, &to, &letter);
    }

    fn acknowledge(&mut self, stream: usize) {
        let count = self.streams[stream].hands.len() as u64;
        let Some(home) = self.home().filter(|_| count > 0) else { return };
        let at = self.rng.below(count) as usize;
        let delivery = self.streams[stream].hands.remove(at);
        self.confirm(stream, home, &delivery);
    }

    /// Acknowledges a message, and waits for the answer to that.
    pub(super) fn confirm(&mut self, stream: usize, home: usize, delivery: &Delivery) {
        self.streams[stream].settled.insert(delivery.seq);
        let to = self.running();
        let reply = String::from_utf8_lossy(&delivery.reply).into_owned();
        self.ask(Asked::Confirm { stream, seq: delivery.seq }, home, &to, (&reply, "+ACK"));
    }

    /// Asks for the last message of a subject.
    fn look(&mut self, stream: usize) {
        let Some(home) = self.home() else { return };
        let to = self.running();
        self.look_at(stream, home, &to);
    }

    /// Asks servers for the last message of a subject.
    pub(super) fn look_at(&mut self, stream: usize, home: usize, to: &[usize]) {
        let subject = self.rng.below(self.streams[stream].plan.subjects);
        let name = self.streams[stream].plan.name.clone();
        let body = format!(r#"{{"last_by_subj":"{name}.{subject}"}}"#);
        let api = format!("$JS.API.STREAM.MSG.GET.{name}");
        self.ask(Asked::Look { stream, subject }, home, to, (&api, &body));
    }

    fn purge(&mut self, stream: usize) {
        let to = self.running();
        let Some(home) = self.home() else { return };
        self.purge_at(stream, home, &to);
    }

    /// Purges what is before some message, as a client at one server asks others.
    pub(super) fn purge_at(&mut self, stream: usize, home: usize, to: &[usize]) {
        let model = &mut self.streams[stream];
        // Half of the streams keep everything: conditions on subjects say more there.
        let last = model.last_told();
        if stream.is_multiple_of(2) || last < 4 {
            return;
        }
        let below = 1 + self.rng.below(last);
        let model = &mut self.streams[stream];
        model.purge_asked = model.purge_asked.max(below);
        let name = model.plan.name.clone();
        let api = format!("$JS.API.STREAM.PURGE.{name}");
        self.ask(Asked::Purge { stream, below }, home, to, (&api, &format!(r#"{{"seq":{below}}}"#)));
    }

    fn delete(&mut self, stream: usize) {
        if stream.is_multiple_of(2) || self.streams[stream].last_told() < 2 {
            return;
        }
        let Some(home) = self.home() else { return };
        let to = self.running();
        self.delete_at(stream, home, &to);
    }

    /// Deletes some message, as a client at one server asks others.
    pub(super) fn delete_at(&mut self, stream: usize, home: usize, to: &[usize]) {
        let last = self.streams[stream].last_told();
        if stream.is_multiple_of(2) || last < 2 {
            return;
        }
        let seq = 1 + self.rng.below(last);
        self.streams[stream].deletions.insert(seq);
        let name = self.streams[stream].plan.name.clone();
        let api = format!("$JS.API.STREAM.MSG.DELETE.{name}");
        let body = format!(r#"{{"seq":{seq},"no_erase":{}}}"#, self.rng.below(2) == 0);
        self.ask(Asked::Delete { stream, seq }, home, to, (&api, &body));
    }

    fn step_down(&mut self, stream: usize) {
        let Some(home) = self.home() else { return };
        let name = self.streams[stream].plan.name.clone();
        let api = match self.rng.below(4) {
            0 => "$JS.API.META.LEADER.STEPDOWN".to_owned(),
            _ => format!("$JS.API.STREAM.LEADER.STEPDOWN.{name}"),
        };
        let to = self.running();
        self.ask(Asked::Nothing, home, &to, (&api, ""));
    }

    /// Asks for a stream or its consumer to be made.
    pub(super) fn make(&mut self, stream: usize) {
        let Some(home) = self.home() else { return };
        let (to, plan) = (self.running(), self.streams[stream].plan.clone());
        let name = &plan.name;
        if !self.streams[stream].is_made {
            let api = format!("$JS.API.STREAM.CREATE.{name}");
            self.ask(Asked::MakeStream { stream }, home, &to, (&api, &plan.request()));
        } else if plan.has_consumer && !self.streams[stream].is_consumed {
            let body = format!(
                r#"{{"stream_name":"{name}","config":{{"durable_name":"C","ack_policy":"explicit","ack_wait":{ACK_WAIT},"max_ack_pending":10000}}}}"#
            );
            let api = format!("$JS.API.CONSUMER.DURABLE.CREATE.{name}.C");
            self.ask(Asked::MakeConsumer { stream }, home, &to, (&api, &body));
        }
    }

    /// A client has its answer.
    pub(super) fn heard(&mut self, question: &Question, letter: &Letter) -> Result<(), String> {
        let text = String::from_utf8_lossy(&letter.payload).into_owned();
        self.tell(|| format!("{:?} is answered: {}", question.asked, &text[..text.len().min(200)]));
        let answer: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let is_error = !answer["error"].is_null();
        let (answered, now) = (self.events, self.now);
        match &question.asked {
            // Nobody was there who takes it; another server may have taken it before.
            Asked::Publish { .. } if letter.headers.starts_with(b"NATS/1.0 503") => {}
            Asked::Publish { stream, names } => self.published(*stream, names, &answer)?,
            Asked::MakeStream { stream } => {
                let is_there = answer["error"]["err_code"] == 10_058;
                self.streams[*stream].is_made |= !is_error || is_there;
            }
            Asked::Scale { stream, is_last } => self.streams[*stream].is_scaled |= *is_last && !is_error,
            Asked::MakeConsumer { stream } => self.streams[*stream].is_consumed |= !is_error,
            Asked::Fast { stream, names } => self.fast_ended(*stream, names, &answer)?,
            Asked::Purge { stream, below } if !is_error => self.streams[*stream].purge(*below, now),
            Asked::Delete { stream, seq } if !is_error => self.streams[*stream].delete(*seq, now),
            Asked::Look { stream, subject } => {
                let is_none = answer["error"]["err_code"] == 10_037;
                if let Some(last) = answer["message"]["seq"].as_u64().or(is_none.then_some(0)) {
                    let look = Look { subject: *subject, asked: question.at, answered, last };
                    self.streams[*stream].looks.push(look);
                }
            }
            Asked::Confirm { .. } | Asked::Purge { .. } | Asked::Delete { .. } | Asked::Nothing => {}
        }
        Ok(())
    }

    fn published(
        &mut self,
        stream: usize,
        names: &[usize],
        answer: &serde_json::Value,
    ) -> Result<(), String> {
        let (events, now) = (self.events, self.now);
        let model = &mut self.streams[stream];
        if !answer["error"].is_null() {
            self.counts.refused += 1;
            let outcome = refusal(&answer["error"]);
            for &name in names {
                let one = &mut model.publications[name];
                if one.outcome == Outcome::Unknown && outcome != Outcome::Unknown {
                    (one.outcome, one.answered) = (outcome, Some(events));
                }
            }
            return Ok(());
        }
        let Some(last) = answer["seq"].as_u64() else { return Err(format!("not an answer: {answer}")) };
        self.counts.stored += names.len() as u64;
        for (at, &name) in names.iter().enumerate() {
            let seq = last + 1 + at as u64 - names.len() as u64;
            let before = model.publications[name].outcome;
            // Ids are read from the messages that are there, also when a stream is opened anew.
            let is_anew = self.counts.deaths > 0 || self.plan.do_disks_fail;
            let may_forget = |other: u64| is_anew && model.may_go(other);
            let is_other = matches!(before, Outcome::Stored(other) if other != seq && !may_forget(other));
            let one = &mut model.publications[name];
            one.outcome = Outcome::Stored(seq);
            if is_other {
                return Err(format!("{}: message {name} is {before:?}, and {seq}", model.plan.name));
            }
            one.answered.get_or_insert(events);
            if before != Outcome::Stored(seq) {
                one.answered = Some(events);
            }
            let payload = one.payload.clone();
            model.stored(name, now);
            model.see(seq, &payload, now)?;
        }
        Ok(())
    }
}

/// Outcome of a publish that was refused. One that may be stored in spite of that is unknown.
fn refusal(error: &serde_json::Value) -> Outcome {
    if error["err_code"] != WRONG_LAST {
        return Outcome::Unknown;
    }
    let words = error["description"].as_str().unwrap_or_default();
    let last = words.rsplit(' ').next().and_then(|word| word.parse().ok());
    last.map_or(Outcome::Refused, Outcome::WrongLast)
}

/// The headers of a message as they are on the wire.
fn block(headers: &[String]) -> Vec<u8> {
    match headers {
        [] => Vec::new(),
        headers => format!("NATS/1.0\r\n{}\r\n\r\n", headers.join("\r\n")).into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_lives_from_when_it_was_sent_last() {
        let mut world = World::new(1, false);
        let name = world.publication(0, None);
        world.now = 40 * SECOND;
        world.send(0, name, 0, &[0]);
        assert_eq!(world.streams[0].publications[name].time, 40 * SECOND);
    }
}
