//! CONNECT: the record of the session, which is taken up, or makes room for a new one.

use super::api::{self, ApiFault, ConsumerAnswer, MessageAnswer};
use super::share_state::ShareChange;
use super::state::{Change, ChangeAck, ChangeStep, Matter, Step, StoredSession};
use crate::session::Session;
use crate::session::mqtt::options5::{WantedSub, wishes};
use crate::shard::Shard;
use myelin_mqtt::headers;
use myelin_mqtt::packet::Qos;
use myelin_mqtt::records::{ConsumerRecord, FOR_EVER, LEVEL_ABOVE_SUFFIX, READER, SessionRecord};
use myelin_mqtt::streams;
use myelin_wire::message_buf::MessageRef;
use std::time::{Duration, Instant};

/// CONNECT is begun anew so often, at most.
const MOST_REPEATS: u32 = 3;

/// Time that consumers outlive the session: they are made before anybody listens to them.
const CONSUMERS_OUTLIVE: Duration = Duration::from_secs(60);

impl StoredSession {
    /// Nanoseconds after which a consumer of the session that nobody uses is removed; 0 is never.
    pub(super) fn inactive_threshold(&self) -> i64 {
        let expiry = self.record.expiry.filter(|seconds| ![0, FOR_EVER].contains(seconds));
        let own = expiry.map(|seconds| Duration::from_secs(seconds.into()) + CONSUMERS_OUTLIVE);
        let threshold = own.into_iter().chain(self.storage.consumer_inactive_threshold).min();
        threshold.map_or(0, |time| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX))
    }

    /// A consumer as the options and the client want it.
    pub(super) fn configured(&self, consumer: ConsumerRecord) -> ConsumerRecord {
        let consumer = api::configured(&self.storage, consumer);
        let max_ack_pending = consumer.max_ack_pending.min(self.in_flight.receive_max.into());
        ConsumerRecord { max_ack_pending, inactive_threshold: self.inactive_threshold(), ..consumer }
    }

    /// Subject of the session's record.
    pub(super) fn subject(&self) -> String {
        streams::session_subject(&self.storage.domain_token(), &self.hash)
    }

    /// Header block with which the record takes the place of the one that is known; with the
    /// seconds after which it is removed, if it is.
    pub(super) fn record_headers(&self, lifetime: Option<u32>) -> Vec<u8> {
        let sequence = self.record_sequence;
        let first = format!("NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: {sequence}\r\n");
        let mut block = first.into_bytes();
        lifetime.into_iter().for_each(|seconds| headers::write_lifetime(seconds, &mut block));
        block.extend_from_slice(b"\r\n");
        block
    }
}

impl Session {
    pub(super) fn ask_for_record(&mut self, shard: &mut Shard, now: Instant) -> usize {
        let Some(stored) = self.stored() else { return 0 };
        stored.store.leave_streams(self.conn.cid());
        let request = format!("STREAM.MSG.GET.{}", streams::SESSIONS.name);
        let body = api::last_of(&stored.subject());
        self.ask_api(shard, &request, &body, Matter::Change(ChangeStep::Record), now);
        // Records of MQTT 5 end by themselves, and leave what was not released.
        if !self.speaks_5() {
            return 1;
        }
        let request = format!("STREAM.MSG.GET.{}", streams::HELD.name);
        let body = api::last_of(&self.held_subject("*"));
        self.ask_api(shard, &request, &body, Matter::Held, now);
        2
    }

    pub(super) fn held_came(&mut self, shard: &mut Shard, answer: &[u8], now: Instant) -> Step {
        let has_held = match api::read(answer).and_then(MessageAnswer::message) {
            Ok(found) => found.is_some(),
            Err(fault) => return Err(self.change_failed(shard, &fault)),
        };
        if let Some(change) = self.stored_mut().and_then(|stored| stored.change.as_mut()) {
            change.has_held = has_held;
        }
        self.step_answered(shard, now)
    }

    /// Takes the session up as it is stored; if either side of it is clean, it begins anew.
    pub(super) fn take_record(
        &mut self,
        shard: &mut Shard,
        answer: &[u8],
        now: Instant,
    ) -> Result<(), ApiFault> {
        let found: MessageAnswer = api::read(answer)?;
        let Some(found) = found.message()? else {
            self.remove_all_held(self.speaks_5());
            return Ok(());
        };
        let before = SessionRecord::decode(&found.payload).unwrap_or_default();
        let begins_anew = self.mqtt.as_deref().is_none_or(|mqtt| mqtt.is_clean);
        let goes_on = !begins_anew && !before.clean && !before.has_ended(self.unix_ms(now) / 1000);
        let Some(stored) = self.stored_mut() else { return Ok(()) };
        stored.record_sequence = found.sequence;
        let Some(change) = &mut stored.change else { return Ok(()) };
        let is_present = goes_on && before.id == stored.record.id;
        change.removals = removals(&before, is_present).collect();
        if is_present {
            let foreign = before.cons.iter().filter(|(key, _)| *key != READER);
            let named = foreign.filter_map(|(key, consumer)| {
                consumer.as_ref().map(|consumer| (key.clone(), consumer.durable_name.clone()))
            });
            change.foreign = named.collect();
        }
        if !is_present {
            self.remove_all_held(true);
            self.leave_all(&before);
            return Ok(());
        }
        (stored.acks.may_hold, stored.held.get_or_insert_default().inherits) = (true, true);
        (change.ack, change.revives) = (ChangeAck::Connect { is_present }, true);
        let reader = before.cons.into_iter().find(|(key, _)| key == READER);
        stored.record.cons.extend(reader);
        (stored.record.pubrel, stored.record.since) = (before.pubrel, before.since);
        for (pattern, qos) in before.subs {
            let options = before.opts.get(&pattern).copied().unwrap_or_default();
            let wanted = WantedSub::plain(pattern.as_bytes());
            let wanted = WantedSub { wishes: wishes(options), leaves_stored: qos > 0, ..wanted };
            let is_allowed = Qos::new(qos).is_some() && self.listen(shard, wanted, now).is_ok();
            if is_allowed && let Some(stored) = self.stored_mut() {
                stored.record.subs.insert(pattern.clone(), qos);
                stored.record.set_options(&pattern, options);
                self.leave_stored(pattern.as_bytes(), qos > 0);
            }
        }
        for (filter, options) in before.shared {
            if self.join_again(shard, &filter, options, now)
                && let Some(stored) = self.stored_mut()
            {
                stored.record.shared.insert(filter.clone(), options);
                if options.qos > 0 {
                    self.leave_shared(&filter, true);
                    self.change_shares(vec![self.join_share(&filter, options, true)]);
                }
            }
        }
        Ok(())
    }

    /// Leaves the shares of the session before, which has ended.
    fn leave_all(&mut self, before: &SessionRecord) {
        let stored = before.shared.iter().filter(|(_, options)| options.qos > 0);
        let left: Vec<_> = stored.map(|(filter, _)| self.leave_share(filter)).collect();
        self.change_shares(left);
    }

    fn change_shares(&mut self, shares: Vec<ShareChange>) {
        if let Some(change) = self.stored_mut().and_then(|stored| stored.change.as_mut()) {
            change.shares.extend(shares);
        }
    }

    /// Whether a CONNECT may be begun anew whose record has changed while it was under way: the end
    /// of the session before was still to be stored.
    pub(super) fn may_open_again(&self) -> bool {
        let change = self.stored().and_then(|stored| stored.change.as_ref());
        change.is_some_and(|change| change.is_opening() && change.repeats < MOST_REPEATS)
    }

    pub(super) fn open_again(&mut self, shard: &mut Shard, now: Instant) -> Step {
        let Some(stored) = self.stored_mut() else { return Ok(()) };
        let repeats = stored.change.as_ref().map_or(0, |change| change.repeats) + 1;
        debug_assert!(repeats <= MOST_REPEATS, "it was asked for");
        let SessionRecord { origin, id, clean, expiry, .. } = &stored.record;
        let (origin, id) = (origin.clone(), id.clone());
        let fresh = SessionRecord { origin, id, clean: *clean, expiry: *expiry, ..SessionRecord::default() };
        let taken_up = std::mem::replace(&mut stored.record, fresh);
        stored.record_sequence = 0;
        for name in taken_up.subs.keys().chain(taken_up.shared.keys()) {
            self.forget_again(shard, name);
        }
        self.begin_change(shard, Change { repeats, ..Change::opening() }, now)
    }

    /// Asks how far consumers of nats-server have come: where the reader goes on.
    pub(super) fn ask_for_floors(&mut self, shard: &mut Shard, now: Instant) -> usize {
        let change = self.stored_mut().and_then(|stored| stored.change.as_mut());
        let foreign = change.map(|change| std::mem::take(&mut change.foreign)).unwrap_or_default();
        let asked = foreign.len();
        for (key, name) in foreign {
            let request = format!("CONSUMER.INFO.{}.{name}", streams::MESSAGES.name);
            self.ask_api(shard, &request, b"", Matter::Floor(key), now);
        }
        asked
    }

    pub(super) fn take_floor(&mut self, shard: &mut Shard, key: &str, answer: &[u8], now: Instant) -> Step {
        let floor = match api::read(answer).and_then(ConsumerAnswer::floor) {
            Ok(floor) => floor,
            Err(fault) => return Err(self.change_failed(shard, &fault)),
        };
        if let (Some(floor), Some(stored)) = (floor, self.stored_mut())
            && let Some(change) = &mut stored.change
        {
            change.floor = Some(change.floor.map_or(floor, |other| other.min(floor)));
            let pattern =
                key.strip_suffix(LEVEL_ABOVE_SUFFIX).map_or(key.to_owned(), |above| format!("{above}.>"));
            let since = stored.record.since.entry(pattern).or_insert(floor);
            *since = floor.min(*since);
        }
        self.step_answered(shard, now)
    }

    pub(super) fn ask_for_removal(&mut self, shard: &mut Shard, now: Instant) -> usize {
        let change = self.stored_mut().and_then(|stored| stored.change.as_mut());
        let removals = change.map(|change| std::mem::take(&mut change.removals)).unwrap_or_default();
        for request in &removals {
            self.ask_api(shard, request, b"", Matter::Change(ChangeStep::Removal), now);
        }
        let change = self.stored().and_then(|stored| stored.change.as_ref());
        // One of version 3.1.1 has not asked.
        let is_held = change.is_some_and(|change| change.has_held) || !self.speaks_5();
        let removes_held = is_held && change.is_some_and(|change| change.removes_held);
        if removes_held {
            let (request, body) = self.removal_of_held();
            let removal = Matter::Change(ChangeStep::Removal);
            self.ask_api(shard, &request, body.as_bytes(), removal, now);
        }
        removals.len() + usize::from(removes_held)
    }

    /// Writes when the session ends, whose client of MQTT 5 has left: its record is removed then by
    /// its lifetime, and its consumers because nobody uses them. `before` is the expiry that they
    /// know.
    pub(super) fn write_end(&mut self, shard: &mut Shard, before: Option<u32>, now: Instant) {
        let ends = self.unix_ms(now) / 1000;
        let Some(stored) = self.stored_mut().filter(|stored| stored.record_sequence > 0) else { return };
        let expiry = stored.record.expiry.unwrap_or(FOR_EVER);
        debug_assert!(expiry > 0, "a session that ends with its connection leaves no record");
        if expiry == FOR_EVER && before == Some(FOR_EVER) {
            return;
        }
        if before != stored.record.expiry {
            self.tell_consumers(shard, now);
        }
        let Some(stored) = self.stored_mut() else { return };
        let lifetime = Some(expiry).filter(|seconds| *seconds != FOR_EVER);
        stored.record.ends = lifetime.map_or(u64::MAX, |seconds| ends + u64::from(seconds));
        let headers = stored.record_headers(lifetime);
        let (subject, payload) = (stored.subject(), stored.record.encode());
        let (subject, headers) = (subject.as_bytes(), &headers[..]);
        self.tell(shard, MessageRef { subject, headers, payload: &payload, ..MessageRef::default() }, now);
        self.write_memberships(shard, before, now);
    }

    /// Tells the session's consumers how long they outlive its connection.
    fn tell_consumers(&mut self, shard: &mut Shard, now: Instant) {
        let Some(stored) = self.stored_mut() else { return };
        let threshold = stored.inactive_threshold();
        let consumers = [
            (streams::MESSAGES, stored.record.cons.get_mut(READER).and_then(Option::as_deref_mut)),
            (streams::OUT, stored.record.pubrel.as_deref_mut()),
        ];
        let mut requests = Vec::new();
        for (stream, consumer) in consumers {
            if let Some(consumer) = consumer {
                consumer.inactive_threshold = threshold;
                let request = format!("CONSUMER.CREATE.{}.{}", stream.name, consumer.durable_name);
                requests.push((request, api::consumer(stream.name, consumer)));
            }
        }
        for (request, body) in requests {
            self.tell_api(shard, &request, &body, now);
        }
    }

    /// Has messages removed that the session before has not released.
    fn remove_all_held(&mut self, removes: bool) {
        if let Some(change) = self.stored_mut().and_then(|stored| stored.change.as_mut()) {
            change.removes_held = removes;
        }
    }

    fn removal_of_held(&self) -> (String, String) {
        (format!("STREAM.PURGE.{}", streams::HELD.name), api::purge(&self.held_subject("*")))
    }

    /// Removes what a clean session leaves, without waiting for it.
    pub(super) fn forget_record(&self, shard: &mut Shard, now: Instant) {
        let Some(stored) = self.stored() else { return };
        if stored.acks.may_hold {
            let (request, body) = self.removal_of_held();
            self.tell_api(shard, &request, body.as_bytes(), now);
        }
        for request in removals(&stored.record, false) {
            self.tell_api(shard, &request, b"", now);
        }
        if stored.record_sequence > 0 {
            let request = format!("STREAM.MSG.DELETE.{}", streams::SESSIONS.name);
            self.tell_api(shard, &request, api::remove(stored.record_sequence).as_bytes(), now);
        }
    }
}

/// Requests that remove the consumers of a session; if it goes on, those that it does not have any
/// more.
fn removals(record: &SessionRecord, goes_on: bool) -> impl Iterator<Item = String> {
    let consumers = record.cons.iter().filter(move |(key, _)| !goes_on || *key != READER);
    let consumers = consumers.filter_map(|(_, consumer)| consumer.as_ref());
    let messages = consumers.map(|consumer| (streams::MESSAGES.name, &consumer.durable_name));
    let pubrel = record.pubrel.as_ref().filter(|_| !goes_on);
    let pubrels = pubrel.map(|consumer| (streams::OUT.name, &consumer.durable_name));
    messages.chain(pubrels).map(|(stream, name)| format!("CONSUMER.DELETE.{stream}.{name}"))
}
