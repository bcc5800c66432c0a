//! Changes of a stored session, step by step: CONNECT, SUBSCRIBE and UNSUBSCRIBE. Each step asks
//! for what it needs, if anything, and the next one comes when all answers are there. The client
//! gets its acknowledgement at the end, when everything that it stands for is stored.

use super::api::{self, ApiFault};
use super::state::{AddedSub, Change, ChangeAck, ChangeStep, Matter, Step};
use crate::log::Level as LogLevel;
use crate::session::Session;
use crate::session::mqtt::MqttStage;
use crate::session::mqtt::options5::WantedSub;
use crate::session::mqtt::subscribe::FAILURE;
use crate::shard::Shard;
use myelin_mqtt::cover::cover;
use myelin_mqtt::packet::{
    PacketId, Properties, Qos, ReasonCode, RetainHandling, ServerPacket, SubAckPacket, UnsubAckPacket,
};
use myelin_mqtt::records::{ConsumerRecord, LEVEL_ABOVE_SUFFIX, READER, SubscriptionRecord};
use myelin_mqtt::{shares, streams, topic};
use myelin_wire::error::CloseReason;
use myelin_wire::message_buf::MessageRef;
use std::sync::Arc;
use std::time::Instant;

/// Place of the reader's binding behind that of PUBRELs.
const READER_BINDING: usize = 1;

impl Session {
    /// Notes subscriptions that are granted. The client is told when they are stored.
    pub(in crate::session::mqtt) fn store_subscriptions(
        &mut self,
        shard: &mut Shard,
        (id, codes): (PacketId, Vec<u8>),
        mut granted: Vec<AddedSub>,
        now: Instant,
    ) -> Step {
        let Some(stored) = self.stored_mut() else { return Ok(()) };
        let (mut is_new, mut shares) = (false, Vec::<(String, SubscriptionRecord, bool)>::new());
        for sub in &mut granted {
            let AddedSub { pattern, qos, is_shared, options, .. } = &*sub;
            if *is_shared {
                let before = stored.record.shared.insert(pattern.clone(), *options);
                is_new |= before != Some(*options);
                let was_member = before.is_some_and(|before| before.qos > 0);
                // Of one that is named twice, the last counts.
                match shares.iter_mut().find(|(filter, ..)| filter == pattern) {
                    Some((_, last, _)) => *last = *options,
                    None => shares.push((pattern.clone(), *options, was_member)),
                }
                sub.handling = RetainHandling::DontSend;
                continue;
            }
            let options_before = stored.record.opts.get(pattern).copied().unwrap_or_default();
            stored.record.set_options(pattern, *options);
            let before = stored.record.subs.insert(pattern.clone(), *qos as u8);
            is_new |= before != Some(*qos as u8) || options_before != *options;
            if before.unwrap_or_default() == 0 {
                stored.record.since.remove(pattern);
                sub.begins = true;
            }
            if before.is_some() && sub.handling == RetainHandling::SendIfNew {
                sub.handling = RetainHandling::DontSend;
            }
        }
        let mut change = Change::new(ChangeStep::Position, ChangeAck::Subscribe(id, codes));
        change.writes = is_new && !stored.record.clean;
        for sub in granted.iter().filter(|sub| !sub.is_shared) {
            self.leave_stored(sub.pattern.as_bytes(), sub.is_read());
        }
        for (filter, options, was_member) in shares {
            self.leave_shared(&filter, options.qos > 0);
            match options.qos > 0 {
                true => change.shares.push(self.join_share(&filter, options, was_member)),
                false if was_member => change.shares.push(self.leave_share(&filter)),
                false => {}
            }
        }
        // Whoever begins anew, also after a crash, leaves the shares that the record names.
        change.writes |= is_new && !change.shares.is_empty();
        self.end_left_shares(&change.shares, now);
        change.added = granted;
        self.begin_change(shard, change, now)
    }

    /// Notes the ends of subscriptions.
    pub(in crate::session::mqtt) fn store_unsubscriptions(
        &mut self,
        shard: &mut Shard,
        (id, codes): (PacketId, Vec<u8>),
        patterns: &[String],
        now: Instant,
    ) -> Step {
        let Some(stored) = self.stored_mut() else { return Ok(()) };
        let mut change = Change::new(ChangeStep::Position, ChangeAck::Unsubscribe(id, codes));
        let mut left = Vec::new();
        for pattern in patterns {
            let shared = stored.record.shared.remove(pattern);
            left.extend(shared.filter(|options| options.qos > 0).map(|_| pattern));
            let was_there = stored.record.subs.remove(pattern).is_some() || shared.is_some();
            change.writes |= was_there && !stored.record.clean;
            stored.record.since.remove(pattern);
            stored.record.opts.remove(pattern);
        }
        change.shares = left.into_iter().map(|filter| self.leave_share(filter)).collect();
        change.writes |= !change.shares.is_empty();
        self.end_left_shares(&change.shares, now);
        self.begin_change(shard, change, now)
    }

    /// Says of a subscription whether what is stored comes to it by the session's consumer.
    pub(super) fn leave_stored(&self, pattern: &[u8], leaves: bool) {
        let above = topic::level_above(pattern);
        let above = above.map(|above| [above, LEVEL_ABOVE_SUFFIX.as_bytes()].concat());
        self.leave_stored_by([Some(pattern.to_vec()), above].into_iter().flatten(), leaves);
    }

    /// Says it of the subscriptions of these names.
    pub(super) fn leave_stored_by(&self, sids: impl IntoIterator<Item = Vec<u8>>, leaves: bool) {
        let Some(stored) = self.stored() else { return };
        for sid in sids {
            if let Some(sub) = self.conn.subscription(&sid)
                && sub.leaves_stored() != leaves
            {
                sub.set_leaves_stored(leaves);
                stored.store.account().touch(&sub);
            }
        }
    }

    pub(super) fn begin_change(&mut self, shard: &mut Shard, change: Change, now: Instant) -> Step {
        if let Some(stored) = self.stored_mut() {
            stored.change = Some(Box::new(change));
        }
        self.proceed(shard, now)
    }

    /// Goes on with the change until it waits for an answer, or is done.
    pub(super) fn proceed(&mut self, shard: &mut Shard, now: Instant) -> Step {
        loop {
            let Some(change) = self.stored_mut().and_then(|stored| stored.change.as_mut()) else {
                return Ok(());
            };
            let step = change.step;
            change.step = step.next();
            let asked = match step {
                ChangeStep::Streams => self.ask_for_streams(shard, now),
                ChangeStep::Record => self.ask_for_record(shard, now),
                ChangeStep::Floors => self.ask_for_floors(shard, now),
                ChangeStep::Position => self.ask_for_position(shard, now),
                ChangeStep::PubRels => self.ask_for_pubrels(shard, now),
                ChangeStep::Reader => self.ask_for_reader(shard, now),
                ChangeStep::Membership => self.ask_for_membership(shard, now),
                ChangeStep::Members => self.ask_for_members(shard, now),
                ChangeStep::Desertion => self.ask_for_desertion(shard, now),
                ChangeStep::Shares => self.ask_for_shares(shard, now),
                ChangeStep::Removal => self.ask_for_removal(shard, now),
                ChangeStep::Write => self.write_record(shard, now),
                ChangeStep::Done => return self.change_done(shard, now),
            };
            if asked > 0 {
                let change = self.stored_mut().and_then(|stored| stored.change.as_mut());
                change.into_iter().for_each(|change| change.missing = asked);
                return Ok(());
            }
        }
    }

    /// One of the answers of a step has come.
    pub(super) fn step_answered(&mut self, shard: &mut Shard, now: Instant) -> Step {
        let Some(change) = self.stored_mut().and_then(|stored| stored.change.as_mut()) else {
            return Ok(());
        };
        change.missing = change.missing.saturating_sub(1);
        if change.missing == 0 { self.proceed(shard, now) } else { Ok(()) }
    }

    pub(super) fn change_answered(
        &mut self,
        shard: &mut Shard,
        step: ChangeStep,
        answer: &[u8],
        now: Instant,
    ) -> Step {
        let taken = match step {
            ChangeStep::Record => self.take_record(shard, answer, now),
            ChangeStep::Position => self.take_position(answer),
            ChangeStep::PubRels => self.pubrels_came(shard, answer, now),
            ChangeStep::Reader => api::outcome(answer).map(drop),
            ChangeStep::Membership | ChangeStep::Shares => api::outcome(answer).map(drop),
            ChangeStep::Write => self.record_written(answer),
            // What is gone already is gone.
            _ => Ok(()),
        };
        match taken {
            Ok(()) => self.step_answered(shard, now),
            Err(fault) => self.step_failed(shard, step, &fault, now),
        }
    }

    /// A step was answered with an error.
    pub(super) fn step_failed(
        &mut self,
        shard: &mut Shard,
        step: ChangeStep,
        fault: &ApiFault,
        now: Instant,
    ) -> Step {
        if self.refuse_added(shard, step, fault, now) {
            return self.step_answered(shard, now);
        }
        match fault.err_code == api::WRONG_SEQUENCE && self.may_open_again() {
            true => self.open_again(shard, now),
            false => Err(self.change_failed(shard, fault)),
        }
    }

    /// Takes back the subscriptions of a SUBSCRIBE for which there can be no consumer, by limits
    /// for example. False: it was another change that failed, or another step.
    fn refuse_added(&mut self, shard: &mut Shard, step: ChangeStep, fault: &ApiFault, now: Instant) -> bool {
        let Some(stored) = self.stored_mut() else { return false };
        let Some(change) = &mut stored.change else { return false };
        let of_shares = change.may_refuse_shares(step);
        let ChangeAck::Subscribe(_, codes) = &mut change.ack else { return false };
        let failure = if stored.record.expiry.is_some() { fault.reason() as u8 } else { FAILURE };
        if !of_shares && !matches!(step, ChangeStep::PubRels | ChangeStep::Reader) {
            return false;
        }
        let is_stored = |code: &&mut u8| **code == 1 || **code == 2;
        codes.iter_mut().filter(is_stored).for_each(|code| *code = failure);
        let added = std::mem::take(&mut change.added);
        let (refused, left): (Vec<_>, _) = added.into_iter().partition(AddedSub::is_stored);
        change.added = left;
        // One that was never bound was never there; another one keeps what it can, and is asked for
        // the rest at the next change.
        if step == ChangeStep::PubRels && stored.sources.bindings[0].is_none() {
            stored.record.pubrel = None;
        } else if step == ChangeStep::Reader && stored.sources.bindings[READER_BINDING].is_none() {
            stored.record.cons.remove(READER);
        }
        for AddedSub { pattern, .. } in &refused {
            stored.record.subs.remove(pattern);
            stored.record.since.remove(pattern);
            stored.record.opts.remove(pattern);
        }
        self.log_storage_fault(fault);
        self.refuse_shares(shard, &refused, now);
        for AddedSub { pattern, .. } in refused.iter().filter(|sub| !sub.is_shared) {
            self.forget_filter(shard, WantedSub::plain(pattern.as_bytes()));
        }
        true
    }

    /// Says why a change cannot be, and ends the connection.
    pub(super) fn change_failed(&mut self, shard: &mut Shard, fault: &ApiFault) -> CloseReason {
        if fault.err_code == api::STREAM_NOT_FOUND {
            // Whoever comes next makes it.
            self.stored().into_iter().for_each(|stored| stored.store.forget_streams());
        }
        let change = self.stored().and_then(|stored| stored.change.as_ref());
        match change.is_some_and(|change| change.is_opening()) {
            true if self.speaks_5() => self.part_with(ReasonCode::ServerUnavailable),
            true => self.acknowledge_connect(shard, ReasonCode::ServerUnavailable, false),
            // A client of MQTT 5 is told that it was not its fault.
            false => self.part_with(ReasonCode::ImplementationSpecific),
        }
        self.storage_failed(fault)
    }

    fn ask_for_position(&mut self, shard: &mut Shard, now: Instant) -> usize {
        let Some(stored) = self.stored() else { return 0 };
        let Some(change) = &stored.change else { return 0 };
        // Of one that is asked for again, what was stored for it meanwhile is still to come.
        if stored.reader().is_none() || !change.added.iter().any(AddedSub::begins_to_read) {
            return 0;
        }
        let request = format!("STREAM.INFO.{}", streams::MESSAGES.name);
        self.ask_api(shard, &request, b"", Matter::Change(ChangeStep::Position), now);
        1
    }

    fn take_position(&mut self, answer: &[u8]) -> Result<(), ApiFault> {
        let info: api::StreamAnswer = api::read(answer)?;
        if let Some(fault) = info.error {
            return Err(fault);
        }
        let Some(stored) = self.stored_mut() else { return Ok(()) };
        let Some(change) = &stored.change else { return Ok(()) };
        for sub in change.added.iter().filter(|sub| sub.begins_to_read()) {
            stored.record.since.entry(sub.pattern.clone()).or_insert(info.state.last_seq);
        }
        Ok(())
    }

    fn ask_for_reader(&mut self, shard: &mut Shard, now: Instant) -> usize {
        let unique = self.broker.unique_id();
        let Some(stored) = self.stored_mut() else { return 0 };
        let revives = stored.change.as_ref().is_some_and(|change| change.revives);
        let read = stored.record.subs.iter().filter(|(_, qos)| **qos > 0).map(|(pattern, _)| pattern);
        let own = stored.reads_own_messages().then(|| shares::own_pattern(&stored.hash));
        let with_above = read.flat_map(|pattern| {
            let above = topic::level_above(pattern.as_bytes());
            let above = above.and_then(|above| std::str::from_utf8(above).ok());
            [Some(pattern.as_str()), above].into_iter().flatten()
        });
        let prefix = streams::MESSAGES.subject_prefix;
        let filters: Vec<_> = cover(with_above.chain(own.as_deref()))
            .into_iter()
            .map(|pattern| format!("{prefix}{pattern}"))
            .collect();
        let name = streams::MESSAGES.name;
        let before = stored.reader().cloned();
        let Some(before) = before.filter(|_| !filters.is_empty()) else {
            if filters.is_empty() {
                let Some(Some(reader)) = stored.record.cons.remove(READER) else { return 0 };
                if let Some(binding) = stored.sources.bindings[READER_BINDING].take() {
                    stored.store.account().unbind(&binding);
                }
                let request = format!("CONSUMER.DELETE.{name}.{}", reader.durable_name);
                self.ask_api(shard, &request, b"", Matter::Change(ChangeStep::Removal), now);
                return 1;
            }
            let reader = ConsumerRecord::of_subscription(&stored.hash, ">", &unique, &unique);
            let floor = stored.change.as_ref().and_then(|change| change.floor);
            let policy = if floor.is_some() { "by_start_sequence" } else { "new" };
            let reader = ConsumerRecord {
                filter_subject: String::new(),
                deliver_policy: policy.to_owned(),
                opt_start_seq: floor.map_or(0, |floor| floor + 1),
                ..reader
            };
            let reader = stored.configured(reader);
            // The record says how the consumer is called: without it, it would never be removed.
            stored.change.iter_mut().for_each(|change| change.writes = true);
            return self.ask_reader(shard, ConsumerRecord { filter_subjects: filters, ..reader }, now);
        };
        if before.filter_subjects == filters && !revives {
            return 0;
        }
        let ConsumerRecord { ack_wait, max_ack_pending, inactive_threshold, .. } =
            stored.configured(before.clone());
        let filter_subjects = filters;
        let reader =
            ConsumerRecord { ack_wait, max_ack_pending, inactive_threshold, filter_subjects, ..before };
        self.ask_reader(shard, reader, now)
    }

    fn ask_reader(&mut self, shard: &mut Shard, reader: ConsumerRecord, now: Instant) -> usize {
        let request = format!("CONSUMER.CREATE.{}.{}", streams::MESSAGES.name, reader.durable_name);
        let body = api::consumer(streams::MESSAGES.name, &reader);
        if let Some(stored) = self.stored_mut() {
            stored.record.cons.insert(READER.to_owned(), Some(Box::new(reader)));
        }
        self.ask_api(shard, &request, &body, Matter::Change(ChangeStep::Reader), now);
        1
    }

    fn ask_for_pubrels(&mut self, shard: &mut Shard, now: Instant) -> usize {
        let unique = self.broker.unique_id();
        let Some(stored) = self.stored_mut() else { return 0 };
        let Some(change) = &stored.change else { return 0 };
        let is_wanted =
            stored.shares_qos_2() || stored.record.subs.values().any(|qos| *qos == Qos::ExactlyOnce as u8);
        let consumer = match &stored.record.pubrel {
            Some(consumer) if change.revives => {
                ConsumerRecord { inactive_threshold: stored.inactive_threshold(), ..(**consumer).clone() }
            }
            None if is_wanted => {
                let consumer = ConsumerRecord::of_pubrels(&stored.hash);
                // Two connections of one client never listen to the same.
                let prefix = streams::DELIVER_PUBREL_PREFIX;
                let deliver_subject = format!("{prefix}{}.{unique}", stored.hash);
                let inactive_threshold = stored.inactive_threshold();
                let consumer = api::configured(&stored.storage, consumer);
                ConsumerRecord { deliver_subject, inactive_threshold, ..consumer }
            }
            _ => return 0,
        };
        let request = format!("CONSUMER.CREATE.{}.{}", streams::OUT.name, consumer.durable_name);
        let body = api::consumer(streams::OUT.name, &consumer);
        if let Some(stored) = self.stored_mut() {
            let is_new = stored.record.pubrel.replace(Box::new(consumer)).is_none();
            stored.change.iter_mut().for_each(|change| change.writes |= is_new);
        }
        self.ask_api(shard, &request, &body, Matter::Change(ChangeStep::PubRels), now);
        1
    }

    /// The consumer of PUBRELs is there. Those that a server had sent before it crashed are asked
    /// for: else they came after `ack_wait`, and the message of one before it a second time.
    fn pubrels_came(&mut self, shard: &mut Shard, answer: &[u8], now: Instant) -> Result<(), ApiFault> {
        let pending = api::read(answer).and_then(api::ConsumerAnswer::pending)?;
        let consumer = self.stored().and_then(|stored| stored.record.pubrel.as_deref());
        if let Some(consumer) = consumer.filter(|_| pending > 0) {
            let request = format!("CONSUMER.RESET.{}.{}", streams::OUT.name, consumer.durable_name);
            self.tell_api(shard, &request, b"", now);
        }
        Ok(())
    }

    /// Has what the consumers deliver come, once the client knows of its session: PUBRELs first.
    fn bind_consumers(&mut self) {
        let Some(stored) = self.stored_mut() else { return };
        let consumers = [stored.record.pubrel.as_deref(), stored.reader()];
        let subjects = consumers.map(|consumer| consumer.map(|consumer| consumer.deliver_subject.clone()));
        for (binding, subject) in stored.sources.bindings.iter_mut().zip(subjects) {
            if let (None, Some(subject)) = (&binding, subject) {
                let inbox = Arc::clone(&stored.inbox);
                *binding = Some(stored.store.account().bind(subject.as_bytes(), inbox));
            }
        }
    }

    /// Writes the record, unless another server has written it meanwhile.
    fn write_record(&mut self, shard: &mut Shard, now: Instant) -> usize {
        let Some(stored) = self.stored() else { return 0 };
        if !stored.change.as_ref().is_some_and(|change| change.writes) {
            return 0;
        }
        let headers = stored.record_headers(None);
        let (subject, payload) = (stored.subject(), stored.record.encode());
        let msg = MessageRef {
            subject: subject.as_bytes(),
            headers: &headers,
            payload: &payload,
            ..MessageRef::default()
        };
        self.ask(shard, msg, Matter::Change(ChangeStep::Write), now);
        1
    }

    fn record_written(&mut self, answer: &[u8]) -> Result<(), ApiFault> {
        let sequence = api::outcome(answer)?;
        if let Some(stored) = self.stored_mut() {
            stored.record_sequence = sequence;
        }
        Ok(())
    }

    fn change_done(&mut self, shard: &mut Shard, now: Instant) -> Step {
        let Some(change) = self.stored_mut().and_then(|stored| stored.change.take()) else {
            return Ok(());
        };
        match change.ack {
            ChangeAck::Connect { is_present } => {
                if let Some(mqtt) = &mut self.mqtt {
                    mqtt.stage = MqttStage::Connected;
                }
                self.timers.heard(now);
                match self.speaks_5() {
                    true => self.welcome(shard, is_present),
                    false => self.acknowledge_connect(shard, ReasonCode::Success, is_present),
                }
                self.log(LogLevel::Debug, format_args!("Client connected"));
            }
            ChangeAck::Subscribe(id, codes) => {
                let ack = SubAckPacket { packet_id: id, properties: Properties::EMPTY, codes: &codes };
                self.answer(shard, &ServerPacket::SubAck(ack), format_args!("SUBACK pi={id}"));
            }
            ChangeAck::Unsubscribe(id, codes) => {
                let ack = UnsubAckPacket { packet_id: id, properties: Properties::EMPTY, codes: &codes };
                self.answer(shard, &ServerPacket::UnsubAck(ack), format_args!("UNSUBACK pi={id}"));
            }
        }
        for sub in change.added.iter().filter(|sub| sub.handling != RetainHandling::DontSend) {
            self.await_retained(sub);
        }
        self.send_waiting_retained(shard, now);
        self.bind_consumers();
        self.settle_shares(change.shares, now);
        self.pull_shares(shard, now);
        self.rest();
        Ok(())
    }
}
