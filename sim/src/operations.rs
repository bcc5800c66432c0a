//! Operations of the clients, as the seed says.

use serde_json::{Value, json};

use crate::model::{ConsumerModel, Publication, Status, StreamModel};
use crate::plan::{ConsumerPlan, Kept, Kind, Shared, StreamPlan};
use crate::taste::{Management, Operation};
use crate::world::{Asked, CLIENTS, Delivery, World};

/// Streams that are there at once, at most.
const STREAMS: usize = 3;
/// Consumers of a stream, at most; a work queue has one.
const CONSUMERS: usize = 3;
/// Subjects of a stream.
const SUBJECTS: u64 = 5;
/// Ids that publishers give to messages of a stream.
const IDS: u64 = 30;
/// Deliveries that clients remember.
const IN_HAND: usize = 200;

impl World {
    /// One operation of a client, or time that passes.
    pub(crate) fn operate(&mut self) -> Result<(), String> {
        self.counts.operations += 1;
        let client = self.rng.below(CLIENTS as u64) as usize;
        let Some(stream) = self.some_stream() else {
            return self.make_stream(client);
        };
        match self.taste.operation(&mut self.rng) {
            Operation::Publish => self.publish(client, &stream),
            Operation::PublishMany => self.publish_many(client, &stream),
            Operation::Batch => self.publish_batch(client, &stream, 0),
            Operation::FastBatch => self.publish_fast(client, &stream),
            Operation::Fetch => self.fetch(client, &stream),
            Operation::Answer => self.answer(client),
            Operation::Manage => self.manage(client, &stream)?,
            Operation::Wait => self.pass_time()?,
        }
        Ok(())
    }

    fn manage(&mut self, client: usize, stream: &str) -> Result<(), String> {
        let is_counter = self.streams.get(stream).is_some_and(|model| model.plan.kind == Kind::Counters);
        let what = self.taste.management(&mut self.rng);
        if self.extras.one_in(12) {
            self.update_consumer(client, stream);
            return Ok(());
        }
        match what {
            Management::MakeConsumer => self.make_consumer(client, stream),
            Management::RemoveConsumer => self.remove_consumer(client, stream),
            Management::Unpin => self.unpin(client, stream),
            Management::Pause => self.pause(client, stream),
            // A total is what the last message says: nothing of a counter is removed.
            Management::Purge | Management::Delete | Management::Update if is_counter => {
                self.read(client, stream);
            }
            Management::Purge => self.purge(client, stream),
            Management::Delete => self.delete(client, stream),
            Management::Update => self.update(client, stream),
            Management::Read => self.read(client, stream),
            Management::ReadLast => self.read_last(client, stream),
            Management::MakeCopy => self.make_copy(client),
            Management::RemoveCopy => self.remove_copy(client),
            Management::MakeStream => self.make_stream(client)?,
            Management::RemoveStream => self.remove_stream(client, stream),
            Management::Wait => self.pass_time()?,
        }
        Ok(())
    }

    fn some_stream(&mut self) -> Option<String> {
        let there: Vec<&String> = self
            .streams
            .iter()
            .filter(|(_, one)| one.status == Status::There)
            .map(|(name, _)| name)
            .collect();
        let at = self.rng.below(there.len().max(1) as u64) as usize;
        there.get(at).map(|name| (*name).clone())
    }

    pub(crate) fn api(&mut self, client: usize, subject: &str, body: &Value, asked: Asked) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.ask(client, &format!("$JS.API.{subject}"), &[], body.as_bytes(), asked);
    }

    /// A new message for a stream: its number, subject and payload.
    pub(crate) fn message(
        &mut self,
        stream: &str,
        batch: Option<u64>,
        msg_id: Option<String>,
    ) -> (u64, String, Vec<u8>) {
        let id = self.number();
        let subject = format!("{stream}.{}", self.rng.below(SUBJECTS));
        let mut payload = format!("{id} ").into_bytes();
        let filling = match self.rng.below(20) {
            0 => self.rng.below(30_000),
            1..4 => self.rng.below(2_000),
            _ => self.rng.below(60),
        };
        payload.resize(payload.len() + filling as usize, b'x');
        let (asked, life) = (self.clock.elapsed(), self.lives);
        if let Some(model) = self.streams.get_mut(stream) {
            let size = (subject.len() + payload.len()) as u64;
            let mut publication = Publication::asked(subject.clone(), size, asked, life);
            publication.may_go = !model.keeps_new(&subject);
            publication.batch = batch;
            if let Some(msg_id) = &msg_id {
                model.with_id.entry(msg_id.clone()).or_default().push(id);
            }
            publication.msg_id = msg_id;
            model.publications.insert(id, publication);
        }
        (id, subject, payload)
    }

    /// An id that stands for few messages of a stream, sometimes.
    pub(crate) fn some_msg_id(&mut self) -> Option<String> {
        (self.rng.below(4) == 0).then(|| format!("id-{}", self.rng.below(IDS)))
    }

    fn publish_many(&mut self, client: usize, stream: &str) {
        for _ in 0..1 + self.rng.below(12) {
            self.publish(client, stream);
        }
    }

    /// An atomic batch: all of it is stored, or nothing. Each message has up to `more` bytes beside
    /// the usual ones.
    pub(crate) fn publish_batch(&mut self, client: usize, stream: &str, more: u64) {
        if self.streams.get(stream).is_some_and(|model| model.plan.kind == Kind::Counters) {
            return self.publish(client, stream);
        }
        let batch = self.number();
        let length = 2 + self.rng.below(6);
        let mut ids = Vec::new();
        for at in 1..=length {
            let (id, subject, mut payload) = self.message(stream, Some(batch), None);
            let filling = self.rng.below(more + 1);
            payload.resize(payload.len() + filling as usize, b'y');
            self.publication(stream, id).into_iter().for_each(|one| one.size += filling);
            ids.push(id);
            let mut headers =
                vec![("Nats-Batch-Id", format!("batch-{batch}")), ("Nats-Batch-Sequence", at.to_string())];
            if at < length {
                self.say(client, &subject, "", &headers, &payload);
                continue;
            }
            headers.push(("Nats-Batch-Commit", "1".into()));
            let asked = Asked::Commit { stream: stream.to_owned(), batch, ids: ids.clone() };
            self.ask(client, &subject, &headers, &payload, asked);
        }
    }

    /// A consumer of a stream that is there.
    fn some_consumer(&mut self, stream: &str) -> Option<String> {
        let model = self.streams.get(stream)?;
        let there = |one: &&ConsumerModel| one.status == Status::There;
        let names: Vec<String> =
            model.consumers.iter().filter(there).map(|one| one.plan.name.clone()).collect();
        let at = self.rng.below(names.len().max(1) as u64) as usize;
        names.get(at).cloned()
    }

    fn fetch(&mut self, client: usize, stream: &str) {
        let Some(consumer) = self.some_consumer(stream) else { return self.make_consumer(client, stream) };
        let known = self.streams.get_mut(stream).and_then(|model| model.consumer(&consumer));
        let (is_push, shared) = known.map_or((false, None), |known| (known.plan.is_push, known.plan.shared));
        if is_push {
            return;
        }
        let mut request = json!({ "batch": 1 + self.rng.below(12) });
        match shared {
            Some(Shared::Overflow) if self.rng.below(2) == 0 => {
                request["min_pending"] = json!(1 + self.rng.below(4));
                request["group"] = json!("A");
            }
            Some(_) => request["group"] = json!("A"),
            None => {}
        }
        match self.rng.below(3) {
            0 => request["no_wait"] = json!(true),
            1 => request["expires"] = json!(50_000_000 + self.rng.below(3_000_000_000)),
            _ => {
                request["expires"] = json!(1_000_000_000);
                request["max_bytes"] = json!(100 + self.rng.below(3_000));
            }
        }
        let number = self.number();
        let reply = crate::world::reply(client, self.lives, number);
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}");
        self.say(client, &subject, &reply, &[], request.to_string().as_bytes());
    }

    /// Answers one of the deliveries that clients have, or forgets it.
    fn answer(&mut self, client: usize) {
        while self.in_hand.len() > IN_HAND {
            self.in_hand.pop_front();
        }
        let at = self.rng.below(self.in_hand.len().max(1) as u64) as usize;
        let Some(delivery) = self.in_hand.get(at).cloned() else { return };
        match self.rng.below(12) {
            0..5 => self.confirm(client, &delivery),
            5..8 => self.acknowledge(client, &delivery, b"+ACK"),
            8 => self.acknowledge(client, &delivery, b"+TERM"),
            9 => self.say(client, &delivery.ack, "", &[], b"-NAK"),
            10 => self.say(client, &delivery.ack, "", &[], br#"-NAK {"delay":200000000}"#),
            _ => self.say(client, &delivery.ack, "", &[], b"+WPI"),
        }
        self.in_hand.remove(at);
    }

    fn acknowledge(&mut self, client: usize, delivery: &Delivery, word: &[u8]) {
        self.may_go_by(delivery);
        self.say(client, &delivery.ack, "", &[], word);
    }

    /// Acknowledges, and waits for the answer.
    pub(crate) fn confirm(&mut self, client: usize, delivery: &Delivery) {
        self.may_go_by(delivery);
        self.ask(client, &delivery.ack, &[], b"+ACK", Asked::Confirm(delivery.clone()));
    }

    /// An acknowledgement may remove what it is of.
    fn may_go_by(&mut self, delivery: &Delivery) {
        let Some(model) = self.streams.get_mut(&delivery.stream) else { return };
        if let Some(consumer) = model.consumer(&delivery.consumer) {
            let highest = consumer.acked.entry(delivery.seq).or_default();
            *highest = delivery.number.max(*highest);
        }
        if model.plan.kept == Kept::Limits {
            return;
        }
        let Some(id) = model.given.get(&delivery.seq).copied() else { return };
        let is_needed = model.publications.get(&id).is_some_and(|one| model.is_needed(delivery.seq, one));
        if let Some(one) = model.publications.get_mut(&id).filter(|_| !is_needed) {
            one.may_go = true;
        }
    }

    fn make_stream(&mut self, client: usize) -> Result<(), String> {
        let is_alive = |one: &&StreamModel| one.status != Status::Gone;
        if self.streams.values().filter(is_alive).count() >= STREAMS {
            return self.pass_time();
        }
        let name = format!("S{}", self.number());
        let mut plan = StreamPlan::draw(&mut self.rng, name.clone());
        self.extras.change_stream(&mut plan);
        let body = plan.body();
        self.streams.insert(name.clone(), StreamModel::new(plan));
        let subject = format!("STREAM.CREATE.{name}");
        self.api(client, &subject, &body, Asked::MakeStream { stream: name });
        Ok(())
    }

    fn remove_stream(&mut self, client: usize, stream: &str) {
        if let Some(model) = self.streams.get_mut(stream) {
            model.status = Status::Leaving;
            model.let_go(None, None);
        }
        let asked = Asked::RemoveStream { stream: stream.to_owned() };
        self.api(client, &format!("STREAM.DELETE.{stream}"), &Value::Null, asked);
    }

    fn make_consumer(&mut self, client: usize, stream: &str) {
        let name = format!("C{}", self.number());
        let Some(model) = self.streams.get_mut(stream) else { return };
        let alive = model.consumers.iter().filter(|one| one.status != Status::Gone).count();
        if alive >= if model.plan.kept == Kept::WorkQueue { 1 } else { CONSUMERS } {
            return;
        }
        let mut plan = ConsumerPlan::draw(&mut self.rng, name.clone(), model.plan.kept);
        plan.filters = self.extras.filters(stream);
        let body = plan.body(stream);
        let subject = plan.is_push.then(|| plan.deliver_subject.clone());
        model.consumers.push(ConsumerModel {
            plan,
            status: Status::Making,
            acked: Default::default(),
            confirmed: Default::default(),
            delivered: Default::default(),
            there_since: None,
            last: 0,
            made_in: self.lives,
            paused: None,
            update: None,
        });
        subject.iter().for_each(|subject| self.listen(subject));
        let asked = Asked::MakeConsumer { stream: stream.to_owned(), consumer: name.clone() };
        self.api(client, &format!("CONSUMER.CREATE.{stream}.{name}"), &body, asked);
    }

    /// Changes a consumer: what it has delivered and heard of stays.
    fn update_consumer(&mut self, client: usize, stream: &str) {
        let Some(name) = self.some_consumer(stream) else { return };
        let crowds = self.crowds_pauses(stream, &name);
        let known = self.streams.get_mut(stream).and_then(|model| model.consumer(&name));
        // Of two that are on their way at once nobody knows which is the last.
        let Some(known) = known.filter(|known| known.update.is_none() && !crowds) else { return };
        let Some(plan) = self.extras.changed(&known.plan) else { return };
        // Compat: without `pause_until` it goes on.
        known.paused = None;
        let mut body = plan.body(stream);
        // Else one that is removed meanwhile would be made anew.
        body["action"] = json!("update");
        known.update = Some(plan);
        let asked = Asked::UpdateConsumer { stream: stream.to_owned(), consumer: name.clone() };
        self.api(client, &format!("CONSUMER.CREATE.{stream}.{name}"), &body, asked);
    }

    fn remove_consumer(&mut self, client: usize, stream: &str) {
        let Some(name) = self.some_consumer(stream) else { return };
        if let Some(model) = self.streams.get_mut(stream) {
            if model.plan.kept == Kept::Interest {
                model.let_go(None, None);
            }
            model.consumer(&name).into_iter().for_each(|one| one.status = Status::Leaving);
        }
        let asked = Asked::RemoveConsumer { stream: stream.to_owned(), consumer: name.clone() };
        self.api(client, &format!("CONSUMER.DELETE.{stream}.{name}"), &Value::Null, asked);
    }

    /// Stops the deliveries of a consumer for a while, or lets them go on.
    fn pause(&mut self, client: usize, stream: &str) {
        let Some(consumer) = self.some_consumer(stream) else { return };
        let until = (self.rng.below(3) > 0).then(|| self.clock.now() + self.rng.below(5_000_000_000) as i64);
        self.ask_to_pause(client, stream, consumer, until);
    }

    /// Has another client get what a consumer delivers.
    fn unpin(&mut self, client: usize, stream: &str) {
        let Some(consumer) = self.some_consumer(stream) else { return };
        let subject = format!("CONSUMER.UNPIN.{stream}.{consumer}");
        // Of a consumer that is not shared it is refused.
        self.api(client, &subject, &json!({ "group": "A" }), Asked::Unpin { stream: stream.to_owned() });
    }

    /// Stops the deliveries of a consumer until a time of day; without one they go on.
    pub(crate) fn ask_to_pause(&mut self, client: usize, stream: &str, consumer: String, until: Option<i64>) {
        let known = self.streams.get_mut(stream).and_then(|model| model.consumer(&consumer));
        let is_changing = known.as_ref().is_some_and(|known| known.update.is_some());
        known.into_iter().for_each(|known| known.paused = None);
        let mut text = Vec::new();
        let body = until.map(|until| {
            myelin_stdx::rfc3339::write(&mut text, until);
            json!({ "pause_until": String::from_utf8_lossy(&text) })
        });
        let subject = format!("CONSUMER.PAUSE.{stream}.{consumer}");
        let is_alone = !self.crowds_pauses(stream, &consumer) && !is_changing;
        let asked = Asked::Pause { stream: stream.to_owned(), consumer, until, is_alone };
        self.api(client, &subject, &body.unwrap_or(Value::Null), asked);
    }

    fn purge(&mut self, client: usize, stream: &str) {
        let (how, pick) = (self.rng.below(4), self.rng.below(SUBJECTS));
        let subject = format!("{stream}.{pick}");
        let filter = (how == 1).then_some(subject.as_str());
        let keeps = filter.is_some() && self.extras.one_in(2);
        let Some(model) = self.streams.get_mut(stream) else { return };
        let below = model.given.keys().next_back().copied().unwrap_or(1) / 2 + 1;
        if how == 3 {
            // What is published from now on comes behind all that is known.
            model.let_go_below(below);
        } else {
            model.let_go(filter, None);
            model.purges += 1;
        }
        // What had been acknowledged when the whole stream, or a subject, was purged.
        let has_to = |one: &Publication| {
            one.stored.is_some() && how < 2 && !keeps && filter.is_none_or(|filter| filter == one.subject)
        };
        let gone = model.publications.iter().filter(|(_, one)| has_to(one)).map(|(id, _)| *id).collect();
        let body = match how {
            0 => Value::Null,
            1 if keeps => json!({ "filter": subject, "keep": 1 + pick }),
            1 => json!({ "filter": subject }),
            2 => json!({ "keep": 1 + pick }),
            _ => json!({ "seq": below }),
        };
        let asked = Asked::Purge { stream: stream.to_owned(), gone, is_counted: how != 3 };
        self.api(client, &format!("STREAM.PURGE.{stream}"), &body, asked);
    }

    /// A sequence that the clients know of.
    fn some_seq(&mut self, stream: &str) -> Option<(u64, u64)> {
        let given = &self.streams.get(stream)?.given;
        let (first, last) = (*given.keys().next()?, *given.keys().next_back()?);
        let at = first + self.rng.below(last - first + 1);
        given.range(at..).next().map(|(seq, id)| (*seq, *id))
    }

    fn delete(&mut self, client: usize, stream: &str) {
        let Some((seq, id)) = self.some_seq(stream) else { return };
        let model = self.streams.get_mut(stream);
        model.and_then(|model| model.publications.get_mut(&id)).into_iter().for_each(|one| one.may_go = true);
        let body = json!({ "seq": seq, "no_erase": self.rng.below(2) == 0 });
        let asked = Asked::Delete { stream: stream.to_owned(), id };
        self.api(client, &format!("STREAM.MSG.DELETE.{stream}"), &body, asked);
    }

    fn update(&mut self, client: usize, stream: &str) {
        let Some(model) = self.streams.get_mut(stream).filter(|model| model.update.is_none()) else { return };
        let plan = model.plan.changed(&mut self.rng);
        let body = plan.body();
        model.narrow(plan.limits);
        model.update = Some(plan);
        self.api(
            client,
            &format!("STREAM.UPDATE.{stream}"),
            &body,
            Asked::Update { stream: stream.to_owned() },
        );
    }

    fn read(&mut self, client: usize, stream: &str) {
        let Some((seq, _)) = self.some_seq(stream) else { return };
        let body = json!({ "seq": seq });
        let stream = stream.to_owned();
        if self.rng.below(2) == 0 {
            let subject = format!("STREAM.MSG.GET.{stream}");
            self.api(client, &subject, &body, Asked::Get { stream, seq });
        } else {
            let subject = format!("DIRECT.GET.{stream}");
            self.api(client, &subject, &body, Asked::Direct { stream, seq });
        }
    }

    /// Reads the last message of a subject.
    fn read_last(&mut self, client: usize, stream: &str) {
        let subject = format!("{stream}.{}", self.rng.below(SUBJECTS));
        let Some(model) = self.streams.get(stream) else { return };
        let of_it = |id: &u64| model.publications.get(id).is_some_and(|one| one.subject == subject);
        let last = model.given.iter().rev().take(100).find(|(_, id)| of_it(id));
        let least = last.map(|(seq, _)| *seq);
        let api = format!("DIRECT.GET.{stream}.{subject}");
        self.api(client, &api, &Value::Null, Asked::Last { stream: stream.to_owned(), subject, least });
    }

    /// Lets time pass, in which the server does what is due.
    fn pass_time(&mut self) -> Result<(), String> {
        let nanos = match self.rng.below(10) {
            0 => self.rng.below(5_000_000_000),
            1..4 => self.rng.below(300_000_000),
            _ => self.rng.below(10_000_000),
        };
        self.go_on_for(nanos)
    }
}
