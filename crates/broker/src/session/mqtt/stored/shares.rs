//! Shares of which a session is a member (`$share/NAME/FILTER` with QoS 1 or 2).
//!
//! The members of a share, in whatever account's sessions and on whatever server, read one consumer
//! of the stream of messages, each as much as its client takes (`pulls.rs`): so a message goes to
//! one of them, one that is not acknowledged when its member leaves goes to another, and what comes
//! while no member is connected is kept. A message of QoS 2 must not go to two clients, whatever
//! happens to the first: it is stored again for its member alone before that gets it, and is read
//! by the session's own consumer from then on. Where the member's session ends with its connection,
//! it is not: it is sent as it comes, and acknowledged with that.
//!
//! The consumer is there as long as a session is a member, connected or not. Each member has a
//! record; whoever joins or leaves writes or removes its own, reads those of the others, and makes,
//! adapts or removes the consumer after that. A session that ends with its connection has that done
//! by whoever stays (`upkeep.rs`). Sessions that end by themselves have records that do too, and
//! the consumer ends when nobody has read it for longer than the longest of them lasts. Where two
//! do this at the same time, a consumer that is wanted may be removed: its members make it again.

use super::api::{self, ApiFault};
use super::share_state::{JoinedShare, ShareChange};
use super::state::{AddedSub, Change, ChangeAck, ChangeStep, Matter, Step, StoredSession};
use crate::log::Level as LogLevel;
use crate::mqtt_storage::MqttStorage;
use crate::session::Session;
use crate::shard::Shard;
use myelin_mqtt::packet::Qos;
use myelin_mqtt::records::{ConsumerRecord, FOR_EVER, LEVEL_ABOVE_SUFFIX, SubscriptionRecord};
use myelin_mqtt::shares::{self, Member};
use myelin_mqtt::{headers, streams, topic};
use myelin_wire::message_buf::MessageRef;
use std::sync::Arc;
use std::time::Instant;

/// Request that makes the consumer of a share, or adapts it to members with these expiries.
pub(super) fn consumer_request(
    storage: &MqttStorage,
    (share, pattern): (&str, &str),
    expiries: impl IntoIterator<Item = u32>,
) -> (String, Vec<u8>) {
    let above = topic::level_above(pattern.as_bytes());
    let above = above.and_then(|above| std::str::from_utf8(above).ok());
    let patterns = [Some(pattern), above].into_iter().flatten().map(str::to_owned);
    let consumer = api::configured(storage, shares::consumer(share, patterns));
    let own = shares::inactive_threshold(expiries);
    let inactive_threshold = match consumer.inactive_threshold {
        0 => own,
        limit if own == 0 => limit,
        limit => own.min(limit),
    };
    // Each member has its own bound: those that are stuck do not stop the others.
    let consumer = ConsumerRecord { inactive_threshold, max_ack_pending: -1, ..consumer };
    let stream = streams::MESSAGES.name;
    let request = format!("CONSUMER.CREATE.{stream}.{}", consumer.durable_name);
    (request, api::consumer(stream, &consumer))
}

/// Request that removes the consumer of a share.
pub(super) fn removal_request(share: &str) -> String {
    format!("CONSUMER.DELETE.{}.{}", streams::MESSAGES.name, shares::consumer_name(share))
}

/// Request for the members of a share.
pub(super) fn members_request(storage: &MqttStorage, share: &str) -> (String, String) {
    let pattern = shares::members_pattern(&storage.domain_token(), share, None);
    let body = serde_json::json!({ "subjects_filter": pattern }).to_string();
    (format!("STREAM.INFO.{}", streams::SESSIONS.name), body)
}

/// Request that removes the records that a session is a member.
pub(super) fn leave_request(storage: &MqttStorage, share: &str, session: &str) -> (String, String) {
    let pattern = shares::members_pattern(&storage.domain_token(), share, Some(session));
    (format!("STREAM.PURGE.{}", streams::SESSIONS.name), api::purge(&pattern))
}

impl StoredSession {
    /// Seconds that the session outlives its connection, as its shares know it.
    fn share_expiry(&self) -> u32 {
        match self.record.expiry {
            Some(seconds) => seconds,
            None if self.record.clean => 0,
            None => FOR_EVER,
        }
    }

    /// Whether messages of shares come with QoS 2.
    pub(super) fn shares_qos_2(&self) -> bool {
        self.record.shared.values().any(|options| options.qos == Qos::ExactlyOnce as u8)
    }

    /// Whether messages of shares are stored for this session alone. Where it ends with its
    /// connection they are not: what it had not sent then would be nobody's.
    fn has_own_messages(&self) -> bool {
        self.shares_qos_2() && !self.record.clean
    }

    /// Whether the reader reads such messages: also those of a share that the session has left, or
    /// has with less QoS, go to their ends.
    pub(super) fn reads_own_messages(&self) -> bool {
        let own = shares::own_pattern(&self.hash);
        let is_own = |filter: &String| filter.strip_prefix(streams::MESSAGES.subject_prefix) == Some(&own);
        self.has_own_messages()
            || self.reader().is_some_and(|reader| reader.filter_subjects.iter().any(is_own))
    }

    fn member_subject(&self, share: &str, expiry: u32) -> String {
        let member = Member { session: &self.hash, expiry };
        shares::member_subject(&self.storage.domain_token(), share, member)
    }

    fn share_changes(&self) -> &[ShareChange] {
        self.change.as_ref().map_or(&[], |change| &change.shares)
    }
}

impl Session {
    /// The change by which the session joins a share.
    pub(super) fn join_share(
        &self,
        filter: &str,
        options: SubscriptionRecord,
        was_member: bool,
    ) -> ShareChange {
        let qos = Qos::new(options.qos).unwrap_or_default();
        ShareChange { joins: Some((qos, options)), was_member, ..self.leave_share(filter) }
    }

    /// The change by which the session leaves a share.
    pub(super) fn leave_share(&self, filter: &str) -> ShareChange {
        let (share, pattern) = (shares::share_hash(filter), self.shared_pattern(filter).unwrap_or_default());
        ShareChange { share, pattern, joins: None, was_member: true, others: Vec::new() }
    }

    /// Says of the subscription of a share whether what is stored comes by its consumer.
    pub(super) fn leave_shared(&self, filter: &str, leaves: bool) {
        let above = format!("{filter}{LEVEL_ABOVE_SUFFIX}");
        self.leave_stored_by([filter.as_bytes().to_vec(), above.into_bytes()], leaves);
    }

    pub(super) fn ask_for_membership(&mut self, shard: &mut Shard, now: Instant) -> usize {
        let Some(stored) = self.stored() else { return 0 };
        let changes = stored.share_changes();
        let membership = |change: &ShareChange| {
            let joins = change.joins.map(|_| stored.member_subject(&change.share, stored.share_expiry()));
            (joins, leave_request(&stored.storage, &change.share, &stored.hash))
        };
        let asked: Vec<_> = changes.iter().map(membership).collect();
        let count = asked.len();
        for (joins, (request, body)) in asked {
            let awaited = Matter::Change(ChangeStep::Membership);
            match joins {
                Some(subject) => {
                    let subject = subject.as_bytes();
                    let msg = MessageRef { subject, payload: b"{}", ..MessageRef::default() };
                    self.ask(shard, msg, awaited, now);
                }
                None => self.ask_api(shard, &request, body.as_bytes(), awaited, now),
            }
        }
        count
    }

    pub(super) fn ask_for_members(&mut self, shard: &mut Shard, now: Instant) -> usize {
        let Some(stored) = self.stored() else { return 0 };
        let requests: Vec<_> = stored
            .share_changes()
            .iter()
            .map(|change| members_request(&stored.storage, &change.share))
            .collect();
        let count = requests.len();
        for (at, (request, body)) in requests.into_iter().enumerate() {
            self.ask_api(shard, &request, body.as_bytes(), Matter::Members(at), now);
        }
        count
    }

    pub(super) fn members_came(&mut self, shard: &mut Shard, at: usize, answer: &[u8], now: Instant) -> Step {
        let members = match api::read(answer).and_then(api::MembersAnswer::subjects) {
            Ok(members) => members,
            Err(fault) => return self.step_failed(shard, ChangeStep::Members, &fault, now),
        };
        let Some(stored) = self.stored_mut() else { return Ok(()) };
        let (session, expiry) = (stored.hash.clone(), stored.share_expiry());
        if let Some(change) = &mut stored.change
            && let Some(change_of) = change.shares.get_mut(at)
        {
            for subject in members.iter().map(String::as_str) {
                match shares::member_of(subject) {
                    Some(member) if member.session != &*session => change_of.others.push(member.expiry),
                    // As it was before its client said another time.
                    Some(member) if member.expiry != expiry => {
                        let request = format!("STREAM.PURGE.{}", streams::SESSIONS.name);
                        change.stale_members.push((request, api::purge(subject)));
                    }
                    _ => {}
                }
            }
        }
        self.step_answered(shard, now)
    }

    /// Removes consumers that nobody has any more: of shares that are left, and of those that are
    /// joined and whose members have all gone without a word, so that a new one gets nothing of
    /// theirs.
    pub(super) fn ask_for_desertion(&mut self, shard: &mut Shard, now: Instant) -> usize {
        let Some(change) = self.stored_mut().and_then(|stored| stored.change.as_mut()) else { return 0 };
        let is_deserted =
            |share: &&ShareChange| share.others.is_empty() && (share.joins.is_none() || !share.was_member);
        let deserted = change.shares.iter().filter(is_deserted);
        let removals = deserted.map(|share| (removal_request(&share.share), String::new()));
        let mut requests: Vec<_> = removals.collect();
        requests.append(&mut change.stale_members);
        for (request, body) in &requests {
            self.ask_api(shard, request, body.as_bytes(), Matter::Change(ChangeStep::Desertion), now);
        }
        requests.len()
    }

    pub(super) fn ask_for_shares(&mut self, shard: &mut Shard, now: Instant) -> usize {
        let Some(stored) = self.stored() else { return 0 };
        let wanted = stored
            .share_changes()
            .iter()
            .filter(|change| change.joins.is_some() || !change.others.is_empty());
        let requests: Vec<_> = wanted
            .map(|change| {
                let own = change.joins.map(|_| stored.share_expiry());
                let expiries = change.others.iter().copied().chain(own);
                consumer_request(&stored.storage, change.named(), expiries)
            })
            .collect();
        for (request, body) in &requests {
            self.ask_api(shard, request, body, Matter::Change(ChangeStep::Shares), now);
        }
        requests.len()
    }

    /// Takes back the shares of a SUBSCRIBE that cannot be stored.
    pub(super) fn refuse_shares(&mut self, shard: &mut Shard, refused: &[AddedSub], now: Instant) {
        for AddedSub { pattern, .. } in refused.iter().filter(|sub| sub.is_shared) {
            let Some(stored) = self.stored_mut() else { return };
            stored.record.shared.remove(pattern);
            let share = shares::share_hash(pattern);
            if let Some(change) = &mut stored.change {
                change.shares.retain(|change| change.share != share);
            }
            // It may stand there already.
            let (request, body) = leave_request(&stored.storage, &share, &stored.hash);
            self.tell_api(shard, &request, body.as_bytes(), now);
            self.end_share(&share, now);
            self.forget_again(shard, pattern);
        }
    }

    /// Takes in what shares bring, and ends what those have brought that the session has left.
    pub(super) fn settle_shares(&mut self, changes: Vec<ShareChange>, now: Instant) {
        let unique = self.broker.unique_id();
        for ShareChange { share, pattern, joins, .. } in changes {
            let Some(stored) = self.stored_mut() else { return };
            let joined = stored.sources.shares.get_mut(&share);
            match (joins, joined) {
                (None, _) => self.end_share(&share, now),
                (Some((qos, options)), Some(joined)) => (joined.qos, joined.options) = (qos, options),
                (Some((qos, options)), None) => {
                    let inbox = format!("{}{unique}.{share}.", streams::DELIVER_PREFIX);
                    let service = Arc::clone(&stored.inbox);
                    let binding = stored.store.account().bind(format!("{inbox}*").as_bytes(), service);
                    let joined =
                        JoinedShare { pattern, qos, options, inbox, binding, pull: None, asked: now };
                    stored.sources.shares.join(share, joined);
                }
            }
        }
    }

    /// Listens no more for what a share brings.
    fn end_share(&mut self, share: &str, now: Instant) {
        debug_assert!(!share.is_empty(), "every share has a name");
        let Some(stored) = self.stored_mut() else { return };
        if let Some(joined) = stored.sources.shares.leave(share) {
            self.end_pull(joined, now);
        }
    }

    /// Listens no more for what shares bring that a change leaves: from now on it is for others.
    pub(super) fn end_left_shares(&mut self, changes: &[ShareChange], now: Instant) {
        changes
            .iter()
            .filter(|change| change.joins.is_none())
            .for_each(|left| self.end_share(&left.share, now));
    }

    /// Writes that the session is a member for as long as it outlives its connection; `before` is
    /// the expiry that its shares know.
    pub(super) fn write_memberships(&mut self, shard: &mut Shard, before: Option<u32>, now: Instant) {
        let Some(stored) = self.stored() else { return };
        let expiry = stored.share_expiry();
        let lifetime = Some(expiry).filter(|seconds| *seconds != FOR_EVER);
        let mut headers = b"NATS/1.0\r\n".to_vec();
        lifetime.into_iter().for_each(|seconds| headers::write_lifetime(seconds, &mut headers));
        headers.extend_from_slice(b"\r\n");
        let of_shares: Vec<_> = stored.stored_shares().map(|(share, _)| share).collect();
        let is_other = before.is_some_and(|before| before != expiry);
        for share in &of_shares {
            let Some(stored) = self.stored() else { return };
            let subject = stored.member_subject(share, expiry);
            let stale = before.filter(|_| is_other).map(|before| stored.member_subject(share, before));
            let (subject, headers) = (subject.as_bytes(), &headers[..]);
            self.tell(shard, MessageRef { subject, headers, payload: b"{}", ..MessageRef::default() }, now);
            if let Some(stale) = stale {
                let request = format!("STREAM.PURGE.{}", streams::SESSIONS.name);
                self.tell_api(shard, &request, api::purge(&stale).as_bytes(), now);
            }
        }
        if is_other {
            // Their consumers have to last as long.
            self.look_after_shares(shard, false, now);
        }
    }
}

impl StoredSession {
    /// Shares whose messages are stored, with their filters.
    pub(super) fn stored_shares(&self) -> impl Iterator<Item = (String, &String)> {
        let stored = self.record.shared.iter().filter(|(_, options)| options.qos > 0);
        stored.map(|(filter, _)| (shares::share_hash(filter), filter))
    }
}

impl Change {
    /// Whether shares that cannot be stored are taken back, and the rest stays.
    pub(super) fn may_refuse_shares(&self, step: ChangeStep) -> bool {
        let is_of_shares = matches!(step, ChangeStep::Membership | ChangeStep::Members | ChangeStep::Shares);
        is_of_shares && matches!(self.ack, ChangeAck::Subscribe(..))
    }
}

impl Session {
    /// Notes in the log why shares cannot be stored.
    pub(super) fn log_storage_fault(&self, fault: &ApiFault) {
        self.log(LogLevel::Error, format_args!("MQTT storage: {fault}"));
    }
}
