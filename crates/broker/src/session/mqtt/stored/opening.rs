//! CONNECT: the account's streams, and the record of the session, which is taken up, or makes room
//! for a new one.

use super::api::{self, ApiFault, ConsumerAnswer, MessageAnswer};
use super::state::{ChangeAck, ChangeStep, Matter, Step, StoredSession};
use crate::session::Session;
use crate::shard::Shard;
use myelin_mqtt::packet::Qos;
use myelin_mqtt::records::{LEVEL_ABOVE_SUFFIX, READER, SessionRecord};
use myelin_mqtt::streams::{self, MqttStream};
use std::time::Instant;

/// Replicas of streams at most, unless the options say another number.
const MOST_REPLICAS: u32 = 3;

impl StoredSession {
    /// Subject of the session's record.
    pub(super) fn subject(&self) -> String {
        streams::session_subject(&self.storage.domain_token(), &self.hash)
    }
}

impl Session {
    pub(super) fn ask_for_streams(&mut self, shard: &mut Shard, now: Instant) -> usize {
        let Some(stored) = self.stored() else { return 0 };
        if stored.store.has_streams() {
            return 0;
        }
        let is_alone = !self.broker.links.has_any();
        let replicas = stored.storage.replicas.filter(|replicas| *replicas > 0);
        let replicas = replicas.unwrap_or(if is_alone { 1 } else { MOST_REPLICAS });
        for stream in streams::ALL {
            self.ask_for_stream(shard, stream, replicas, now);
        }
        streams::ALL.len()
    }

    pub(super) fn ask_for_stream(
        &mut self,
        shard: &mut Shard,
        stream: MqttStream,
        replicas: u32,
        now: Instant,
    ) {
        let Some(stored) = self.stored() else { return };
        let body = stream.create_request(&stored.storage.domain_token(), replicas);
        let request = format!("STREAM.CREATE.{}", stream.name);
        self.ask_api(shard, &request, &body, Matter::Stream(stream, replicas), now);
    }

    /// A stream was made, or is there as somebody else has made it. Where there are too few servers
    /// for its replicas, it gets fewer.
    pub(super) fn stream_answered(
        &mut self,
        shard: &mut Shard,
        (stream, replicas): (MqttStream, u32),
        answer: &[u8],
        now: Instant,
    ) -> Step {
        match api::outcome(answer) {
            Err(fault)
                if replicas > 1 && [api::TOO_FEW_PEERS, api::REPLICAS_ALONE].contains(&fault.err_code) =>
            {
                self.ask_for_stream(shard, stream, replicas - 1, now);
                return Ok(());
            }
            Err(fault) if fault.err_code != api::STREAM_NAME_IN_USE => {
                return Err(self.change_failed(shard, &fault));
            }
            Err(_) if stream == streams::RETAINED => {
                let request = format!("STREAM.INFO.{}", stream.name);
                self.ask_api(shard, &request, b"", Matter::RetainedConfig, now);
                return Ok(());
            }
            _ => {}
        }
        self.step_answered(shard, now)
    }

    /// A stream of retained messages that nats-server has made gets direct gets: they are read so.
    pub(super) fn retained_config_came(&mut self, shard: &mut Shard, answer: &[u8], now: Instant) -> Step {
        let config = api::read::<serde_json::Value>(answer).map(|mut info| info["config"].take());
        let mut config = match config {
            Ok(config) if config.is_object() => config,
            Ok(_) => return self.step_answered(shard, now),
            Err(fault) => return Err(self.change_failed(shard, &fault)),
        };
        if config["allow_direct"] == true {
            return self.step_answered(shard, now);
        }
        config["allow_direct"] = true.into();
        let request = format!("STREAM.UPDATE.{}", streams::RETAINED.name);
        let body = config.to_string();
        self.ask_api(shard, &request, body.as_bytes(), Matter::Change(ChangeStep::Streams), now);
        Ok(())
    }

    pub(super) fn ask_for_record(&mut self, shard: &mut Shard, now: Instant) -> usize {
        let Some(stored) = self.stored() else { return 0 };
        stored.store.set_has_streams(true);
        let request = format!("STREAM.MSG.GET.{}", streams::SESSIONS.name);
        let body = api::last_of(&stored.subject());
        self.ask_api(shard, &request, &body, Matter::Change(ChangeStep::Record), now);
        1
    }

    /// Takes the session up as it is stored; if either side of it is clean, it begins anew.
    pub(super) fn take_record(
        &mut self,
        shard: &mut Shard,
        answer: &[u8],
        now: Instant,
    ) -> Result<(), ApiFault> {
        let found: MessageAnswer = api::read(answer)?;
        let Some(found) = found.message()? else { return Ok(()) };
        let before = SessionRecord::decode(&found.payload).unwrap_or_default();
        let Some(stored) = self.stored_mut() else { return Ok(()) };
        stored.record_sequence = found.sequence;
        let Some(change) = &mut stored.change else { return Ok(()) };
        let is_present = !stored.record.clean && !before.clean && before.id == stored.record.id;
        change.removals = removals(&before, is_present).collect();
        if is_present {
            let foreign = before.cons.iter().filter(|(key, _)| *key != READER);
            let named = foreign.filter_map(|(key, consumer)| {
                consumer.as_ref().map(|consumer| (key.clone(), consumer.durable_name.clone()))
            });
            change.foreign = named.collect();
        }
        if !is_present {
            return Ok(());
        }
        change.ack = ChangeAck::Connect { is_present };
        change.revives = true;
        let reader = before.cons.into_iter().find(|(key, _)| key == READER);
        stored.record.cons.extend(reader);
        (stored.record.pubrel, stored.record.since) = (before.pubrel, before.since);
        for (pattern, qos) in before.subs {
            let is_allowed = Qos::new(qos).is_some() && self.listen_to(shard, pattern.as_bytes(), now);
            if is_allowed && let Some(stored) = self.stored_mut() {
                stored.record.subs.insert(pattern.clone(), qos);
                self.leave_stored(pattern.as_bytes(), qos > 0);
            }
        }
        Ok(())
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
        removals.len()
    }

    /// Removes what a clean session leaves, without waiting for it.
    pub(super) fn forget_record(&self, shard: &mut Shard, now: Instant) {
        let Some(stored) = self.stored() else { return };
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
