//! Publishes that do something: conditions, rollups, messages that end, schedules, counters, fast
//! batches.

use crate::model::{Fate, MADE, Publication};
use crate::plan::Kind;
use crate::world::{Asked, Expected, Roll, World, reply};

const SECOND: u64 = 1_000_000_000;
/// Subjects of schedules.
const SCHEDULES: u64 = 3;
/// A fast batch is acknowledged every so many messages.
const FLOW: u64 = 3;

impl World {
    /// Publishes one message to a stream, as its kind allows.
    pub(crate) fn publish(&mut self, client: usize, stream: &str) {
        let kind = self.streams.get(stream).map_or(Kind::Plain, |model| model.plan.kind);
        match (kind, self.rng.below(6)) {
            (Kind::Counters, _) => self.count(client, stream),
            (Kind::Values | Kind::Schedules, 0) => self.roll(client, stream),
            (Kind::Values | Kind::Schedules, 1) => self.publish_mortal(client, stream),
            (Kind::Schedules, 2..4) => self.schedule(client, stream),
            _ => self.publish_plain(client, stream),
        }
    }

    fn publish_plain(&mut self, client: usize, stream: &str) {
        let mut headers = Vec::new();
        let msg_id = self.some_msg_id();
        headers.extend(msg_id.clone().map(|id| ("Nats-Msg-Id", id)));
        let (id, subject, payload) = self.message(stream, None, msg_id);
        let expected = self.some_condition(stream, &subject);
        headers.extend(match expected {
            Expected::Nothing => None,
            Expected::Last(last) => Some(("Nats-Expected-Last-Sequence", last.to_string())),
            Expected::LastOfSubject(last) => Some(("Nats-Expected-Last-Subject-Sequence", last.to_string())),
            Expected::Never => Some(("Nats-Expected-Stream", "another".to_owned())),
        });
        let asked = Asked::Publish { stream: stream.to_owned(), id, expected, rolls: Roll::Nothing };
        self.ask(client, &subject, &headers, &payload, asked);
    }

    fn some_condition(&mut self, stream: &str, subject: &str) -> Expected {
        let what = self.rng.below(24);
        let Some(model) = self.streams.get(stream).filter(|_| what < 7) else { return Expected::Nothing };
        let known = |seq: Option<u64>, back: u64| seq.unwrap_or(0).saturating_sub(back);
        match what {
            0..3 => Expected::Last(known(model.given.keys().next_back().copied(), what / 2)),
            3..6 => {
                let of_it = |id: &u64| model.publications.get(id).is_some_and(|one| one.subject == subject);
                let last = model.given.iter().rev().take(200).find(|(_, id)| of_it(id));
                Expected::LastOfSubject(known(last.map(|(seq, _)| *seq), u64::from(what == 5)))
            }
            _ => Expected::Never,
        }
    }

    /// A message that takes the place of those before it.
    fn roll(&mut self, client: usize, stream: &str) {
        let rolls = if self.rng.below(4) == 0 { Roll::All } else { Roll::Subject };
        let (id, subject, payload) = self.message(stream, None, None);
        let Some(model) = self.streams.get_mut(stream) else { return };
        model.let_go((rolls == Roll::Subject).then_some(subject.as_str()), Some(id));
        model.purges += 1;
        let word = if rolls == Roll::All { "all" } else { "sub" };
        let asked = Asked::Publish { stream: stream.to_owned(), id, expected: Expected::Nothing, rolls };
        self.ask(client, &subject, &[("Nats-Rollup", word.to_owned())], &payload, asked);
    }

    /// A message that ends by itself.
    fn publish_mortal(&mut self, client: usize, stream: &str) {
        let (id, subject, payload) = self.message(stream, None, None);
        let seconds = 1 + self.rng.below(5);
        let ends = self.clock.elapsed() + seconds * SECOND;
        self.publication(stream, id).into_iter().for_each(|one| one.ends = Some(ends));
        let asked = Asked::Publish {
            stream: stream.to_owned(),
            id,
            expected: Expected::Nothing,
            rolls: Roll::Nothing,
        };
        self.ask(client, &subject, &[("Nats-TTL", format!("{seconds}s"))], &payload, asked);
    }

    /// A message that becomes another one later.
    fn schedule(&mut self, client: usize, stream: &str) {
        let (id, target, payload) = self.message(stream, None, None);
        let subject = format!("{stream}.at.{}", self.rng.below(SCHEDULES));
        let wait = 100_000_000 + self.rng.below(4 * SECOND);
        let (now, life) = (self.clock.elapsed(), self.lives);
        let mut at = Vec::new();
        myelin_stdx::rfc3339::write(&mut at, self.clock.now() + wait as i64);
        let Some(model) = self.streams.get_mut(stream) else { return };
        // A subject has one schedule, and another that is on its way may be stored behind this one.
        model.let_go(Some(&subject), None);
        let is_last = !model.publications.values().any(|other| other.is_loose() && other.subject == subject);
        let Some(one) = model.publications.get_mut(&id) else { return };
        one.may_go |= !is_last;
        let size = one.size;
        one.subject.clone_from(&subject);
        one.ends = Some(now + wait);
        one.becomes = Some(id | MADE);
        let mut made = Publication::asked(target.clone(), size, now + wait, life);
        // Only that it is made once is held; limits and others may remove it at once.
        (made.is_made, made.may_go) = (true, true);
        model.publications.insert(id | MADE, made);
        let headers = [
            ("Nats-Schedule", format!("@at {}", String::from_utf8_lossy(&at))),
            ("Nats-Schedule-Target", target),
        ];
        let asked = Asked::Publish {
            stream: stream.to_owned(),
            id,
            expected: Expected::Nothing,
            rolls: Roll::Nothing,
        };
        self.ask(client, &subject, &headers, &payload, asked);
    }

    /// An increment of a counter. Its number is in a header, for the payload is the total.
    fn count(&mut self, client: usize, stream: &str) {
        let msg_id = self.some_msg_id();
        let (id, subject, _) = self.message(stream, None, msg_id.clone());
        let adds = self.rng.below(100) as i64 - 30;
        self.publication(stream, id).into_iter().for_each(|one| one.count.0 = adds);
        let mut headers = vec![("Nats-Incr", format!("{adds:+}")), ("Sim-Id", id.to_string())];
        headers.extend(msg_id.map(|id| ("Nats-Msg-Id", id)));
        let asked = Asked::Publish {
            stream: stream.to_owned(),
            id,
            expected: Expected::Nothing,
            rolls: Roll::Nothing,
        };
        self.ask(client, &subject, &headers, b"", asked);
    }

    /// Messages that are stored one by one, and acknowledged together.
    pub(crate) fn publish_fast(&mut self, client: usize, stream: &str) {
        if self.streams.get(stream).is_none_or(|model| model.plan.kind == Kind::Counters) {
            return;
        }
        let (number, length) = (self.number(), 1 + self.rng.below(8));
        let drafts: Vec<_> = (0..length).map(|_| self.message(stream, None, None)).collect();
        let ids = drafts.iter().map(|(id, ..)| *id).collect();
        self.expect(client, number, Asked::Fast { stream: stream.to_owned(), ids });
        let inbox = reply(client, self.lives, number);
        for (at, (_, subject, payload)) in (1..).zip(drafts) {
            let operation = match at {
                _ if at == length => 2,
                1 => 0,
                _ => 1,
            };
            let reply = format!("{inbox}.f{number}.{FLOW}.fail.{at}.{operation}.$FI");
            self.say(client, &subject, &reply, &[], &payload);
        }
    }

    pub(crate) fn publication(&mut self, stream: &str, id: u64) -> Option<&mut Publication> {
        self.streams.get_mut(stream)?.publications.get_mut(&id)
    }
}

/// Whether schedules that are gone have become what they were to become.
pub(crate) fn has_fired(one: &Publication, made: Option<&Publication>) -> bool {
    one.becomes.is_none() || made.is_some_and(|made| matches!(made.fate, Fate::Stored(_)))
}
