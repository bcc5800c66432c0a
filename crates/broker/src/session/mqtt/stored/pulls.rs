//! Messages of shares (`shares.rs`): a session asks for as many as its client takes.
//!
//! Compat: none, the reference has no shares. A request ends with its messages, or with a status
//! (when it has waited for [`EXPIRES`], when the consumer has moved or is gone); one that gets no
//! word is given up a little later.

use super::api;
use super::delivery::ConsumerDelivery;
use super::outgoing::{ACK, AGAIN, AGAIN_LATER, exchange_of};
use super::share_state::{JoinedShare, PullStage, SharePull};
use super::state::{Matter, Sent, Step, StoredSession};
use crate::account::Account;
use crate::mqtt_inbox::MqttInbox;
use crate::service::{Binding, Service, ServiceShard};
use crate::service_batch::ServiceBatch;
use crate::session::Session;
use crate::shard::{Shard, StagedPublish};
use myelin_mqtt::headers::{self, TimeLeft};
use myelin_mqtt::packet::{Qos, SubscriptionId};
use myelin_mqtt::records::{MessageMark, SubscriptionRecord};
use myelin_mqtt::{shares as names, streams, topic};
use myelin_wire::header;
use myelin_wire::message_buf::MessageRef;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Messages that a session has of its shares at most: what one has, the others do not get.
const WINDOW: usize = 64;

/// Time that a request waits for messages.
const EXPIRES: Duration = Duration::from_secs(15);

/// Time after that in which the consumer is to have said so.
const GRACE: Duration = Duration::from_secs(2);

/// Time after which a consumer that has moved, or is gone, is asked for and asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// Time after which a consumer that is asked for nothing, because the client has enough to do, is
/// asked in vain: one that is not used is removed, with all that waits for the client.
const SIGN_OF_USE: Duration = Duration::from_secs(15);

/// Body of that request, for no more bytes than any message has.
const IN_VAIN: &[u8] = br#"{"batch":1,"max_bytes":1,"expires":1000000000}"#;

impl StoredSession {
    /// Messages for which the session asks one of its shares now. All of them may bring something,
    /// if only one message each: which one has some is not known.
    fn wanted_of_shares(&self, most_bytes: usize) -> usize {
        let shares = &self.sources.shares;
        let of_reader = usize::from(self.storage.max_ack_pending).max(1);
        let window = WINDOW.min(usize::from(self.in_flight.receive_max)).min(of_reader);
        let free = window.saturating_sub(self.used_by_messages());
        // Not one request for each message.
        if self.in_flight.is_full(most_bytes) || free * 2 < window {
            return 0;
        }
        let waits = |pull: &SharePull| pull.stage == PullStage::Waits;
        let pulls = shares.joined().filter_map(|(_, joined)| joined.pull.filter(waits));
        let asked: u64 = pulls.map(|pull| pull.left).sum();
        let left = free.saturating_sub(usize::try_from(asked).unwrap_or(usize::MAX));
        (window / shares.count_joined().max(1)).min(left).max(1)
    }

    /// Messages that the client has not acknowledged, or is about to get.
    fn used_by_messages(&self) -> usize {
        self.in_flight.sent.len() + self.pubrels.count() + self.sources.shares.count_own()
    }

    /// Whether a message of a share goes back to it, for others: the client takes no more, and
    /// nothing was asked for behind it, so it does not come back at once.
    fn gives_back(&self, share: &str) -> bool {
        let joined = self.sources.shares.get(share);
        let is_full = self.used_by_messages() >= usize::from(self.in_flight.receive_max);
        is_full && joined.is_some_and(|joined| joined.pull.is_none())
    }

    /// When the first of the requests is given up, or what was to come from the session's consumer.
    pub(super) fn pull_deadline(&self) -> Option<Instant> {
        let pause = self.sign_of_use();
        let due = |joined: &JoinedShare| joined.pull.map_or(joined.asked + pause, |pull| pull.until);
        let shares = &self.sources.shares;
        shares.joined().map(|(_, joined)| due(joined)).chain(shares.awaited_until()).min()
    }

    /// Time after which a share that is asked for nothing gets a sign that it is used.
    fn sign_of_use(&self) -> Duration {
        let limit = self.storage.consumer_inactive_threshold.filter(|limit| !limit.is_zero());
        limit.map_or(SIGN_OF_USE, |limit| SIGN_OF_USE.min(limit / 4))
    }

    /// Where the client has this message of a share already.
    fn in_flight_of_share(&mut self, delivery: &ConsumerDelivery<'_>) -> Option<&mut Sent> {
        let is_it = |sent: &Sent| {
            let is_same = sent.is_shared && sent.sequence == delivery.sequence;
            is_same && ConsumerDelivery::of(&sent.reply).is_some_and(|of| of.consumer == delivery.consumer)
        };
        self.in_flight.sent.values_mut().find(|sent| is_it(sent))
    }
}

impl Session {
    /// Asks the shares for messages, as far as the client takes some.
    pub(super) fn pull_shares(&mut self, shard: &mut Shard, now: Instant) {
        let most = shard.settings().max_backlog();
        let permissions = self.permissions();
        loop {
            let Some(stored) = self.stored() else { return };
            let may_have = |joined: &JoinedShare| {
                StoredSession::may_have(permissions.as_deref(), joined.pattern.as_bytes())
            };
            let mut joined = stored.sources.shares.joined();
            let idle = joined.find(|(_, joined)| joined.pull.is_none() && may_have(joined));
            let Some(share) = idle.map(|(share, _)| share.to_owned()) else { return };
            drop(joined);
            let wanted = stored.wanted_of_shares(most);
            let inbox: Arc<dyn Service> = Arc::<MqttInbox>::clone(&stored.inbox);
            if wanted == 0 || shard.is_behind(&self.conn, &inbox) {
                return;
            }
            self.pull_share(shard, &share, wanted, now);
        }
    }

    fn pull_share(&mut self, shard: &mut Shard, share: &str, wanted: usize, now: Instant) {
        debug_assert!((1..=WINDOW).contains(&wanted), "a request is for some messages");
        let Some(stored) = self.stored_mut() else { return };
        let Some((number, joined)) = stored.sources.shares.next_pull(share) else { return };
        let until = now + EXPIRES + GRACE;
        joined.asked = now;
        joined.pull = Some(SharePull { number, left: wanted as u64, stage: PullStage::Waits, until });
        let reply = format!("{}{number}", joined.inbox);
        debug_assert!(number > 0, "requests are counted from 1");
        let name = names::consumer_name(share);
        let subject = stored.storage.api(&format!("CONSUMER.MSG.NEXT.{}.{name}", streams::MESSAGES.name));
        let body = format!(r#"{{"batch":{wanted},"expires":{}}}"#, EXPIRES.as_nanos());
        let (subject, reply, payload) = (subject.as_bytes(), reply.as_bytes(), body.as_bytes());
        self.tell(shard, MessageRef { subject, reply, payload, ..MessageRef::default() }, now);
    }

    /// Gives up requests that have got no word: the consumer may be gone.
    pub(super) fn pulls_due(&mut self, shard: &mut Shard, now: Instant) {
        let Some(stored) = self.stored_mut() else { return };
        let is_due = |joined: &JoinedShare| joined.pull.is_some_and(|pull| pull.until <= now);
        stored.sources.shares.give_up_own(now);
        let mut are_lost = false;
        for (_, joined) in stored.sources.shares.joined_mut().filter(|(_, joined)| is_due(joined)) {
            joined.pull = joined.pull.filter(|pull| pull.stage != PullStage::Mended);
            if let Some(pull) = &mut joined.pull {
                (pull.stage, pull.until, are_lost) = (PullStage::Mended, now + PAUSE, true);
            }
        }
        if are_lost {
            self.look_after_shares(shard, false, now);
        }
        self.pull_shares(shard, now);
        self.show_use(shard, now);
    }

    /// Shows shares that they are used, of which the client wants nothing for the time being.
    fn show_use(&mut self, shard: &mut Shard, now: Instant) {
        let Some(stored) = self.stored_mut() else { return };
        let pause = stored.sign_of_use();
        let is_due = |joined: &JoinedShare| joined.pull.is_none() && joined.asked + pause <= now;
        let joined = stored.sources.shares.joined_mut().filter(|(_, joined)| is_due(joined));
        let mut requests = Vec::new();
        for (share, joined) in joined {
            joined.asked = now;
            let name = names::consumer_name(share);
            let request = format!("CONSUMER.MSG.NEXT.{}.{name}", streams::MESSAGES.name);
            // Requests are counted from 1: the status of this one ends none.
            requests.push((stored.storage.api(&request), format!("{}0", joined.inbox)));
        }
        for (subject, reply) in &requests {
            let (subject, reply) = (subject.as_bytes(), reply.as_bytes());
            self.tell(shard, MessageRef { subject, reply, payload: IN_VAIN, ..MessageRef::default() }, now);
        }
    }

    /// The status that ends a request. False: it is none.
    pub(super) fn pull_ended(&mut self, msg: &MessageRef<'_>, now: Instant) -> bool {
        let Some(status) = msg.headers.strip_prefix(b"NATS/1.0 ") else { return false };
        let Some(stored) = self.stored_mut() else { return false };
        let number = |joined: &JoinedShare| -> Option<u64> {
            std::str::from_utf8(msg.subject.strip_prefix(joined.inbox.as_bytes())?).ok()?.parse().ok()
        };
        let mut joined = stored.sources.shares.joined_mut();
        let ended = joined.find_map(|(_, joined)| Some((number(joined)?, joined)));
        let Some((number, joined)) = ended else { return false };
        if let Some(pull) = joined.pull.as_mut().filter(|pull| pull.number == number) {
            match status.starts_with(b"408 ") {
                true => joined.pull = None,
                false => (pull.stage, pull.until) = (PullStage::Refused, now + PAUSE),
            }
        }
        true
    }

    /// A share has brought a message.
    pub(super) fn deliver_shared(
        &mut self,
        shard: &mut Shard,
        share: &str,
        (subject, msg): (&[u8], &MessageRef<'_>),
        now: Instant,
    ) {
        let Some(delivery) = ConsumerDelivery::of(msg.reply) else { return };
        let left = headers::time_left(msg.headers, self.unix_ms(now));
        let (may_get, permissions) = (self.may_get(subject), self.permissions());
        let Some(stored) = self.stored_mut() else { return };
        let Some(joined) = stored.sources.shares.get(share) else {
            // The client has left it.
            return self.tell_consumer(shard, msg.reply, AGAIN, now);
        };
        let (granted, options, pattern) = (joined.qos, joined.options, joined.pattern.as_bytes());
        if !StoredSession::may_have(permissions.as_deref(), pattern) {
            // It was asked for before the client lost the share: another member may have it.
            return self.tell_consumer(shard, msg.reply, AGAIN, now);
        }
        let is_reserved = subject.first() == Some(&b'$') && topic::leaves_out_dollar(pattern);
        if is_reserved || left == TimeLeft::Expired || !may_get {
            return self.tell_consumer(shard, msg.reply, ACK, now);
        }
        let published = MessageMark::of(msg.headers).map_or(Qos::AtLeastOnce, |mark| mark.qos);
        let qos = published.min(granted).max(Qos::AtLeastOnce);
        let is_assigned = qos == Qos::ExactlyOnce && !stored.record.clean;
        // One that comes for the first time is not looked for.
        if !is_assigned
            && delivery.times > 1
            && let Some(sent) = stored.in_flight_of_share(&delivery)
        {
            sent.reply = msg.reply.into();
            if qos == Qos::ExactlyOnce {
                self.tell_consumer(shard, msg.reply, ACK, now);
            }
            return;
        }
        if stored.gives_back(share) {
            return self.tell_consumer(shard, msg.reply, AGAIN, now);
        }
        if is_assigned {
            return self.assign(shard, (share, subject, delivery.sequence), msg, now);
        }
        let most = shard.settings().max_backlog();
        if stored.in_flight.is_full(most) || stored.has_sent_all() {
            if qos == Qos::ExactlyOnce {
                return self.tell_consumer(shard, msg.reply, AGAIN, now);
            }
            return stored.in_flight.hold(msg, &delivery, most);
        }
        self.send_shared(shard, (subject, msg), (&delivery, qos, options, left), now);
    }

    /// Sends a message of a share to the client. One of QoS 2 is acknowledged with that: no other
    /// member may get what this one may have, nor lose what it has not.
    fn send_shared(
        &mut self,
        shard: &mut Shard,
        (subject, msg): (&[u8], &MessageRef<'_>),
        (delivery, qos, options, left): (&ConsumerDelivery<'_>, Qos, SubscriptionRecord, TimeLeft),
        now: Instant,
    ) {
        let id = self.spare_packet_id(qos);
        let Some(id) = id else { return self.tell_consumer(shard, msg.reply, AGAIN_LATER, now) };
        let flags = (false, options.as_published && headers::is_retained(msg.headers));
        let number = SubscriptionId::new(options.id);
        let properties = self.properties(msg.headers, left, number.as_slice());
        let exchange = exchange_of(qos, id);
        let payload = self.payload_now(subject, msg.payload, now);
        let staged = self.send_publish(shard, (subject, &payload), exchange, flags, &properties);
        let Some(stored) = self.stored_mut() else { return };
        if staged != StagedPublish::Staged {
            stored.in_flight.remove(id);
            if staged == StagedPublish::Dropped && qos == Qos::ExactlyOnce {
                return self.tell_consumer(shard, msg.reply, AGAIN_LATER, now);
            }
            return self.not_sent(shard, staged, (msg, delivery), now);
        }
        let (sequence, reply, size) = (delivery.sequence, msg.reply.into(), msg.payload.len());
        let sent = Sent { sequence, is_shared: true, qos, reply, is_received: false, size };
        stored.in_flight.insert(id, sent);
        if qos == Qos::ExactlyOnce {
            self.tell_consumer(shard, msg.reply, ACK, now);
        }
    }

    /// Ends a request with its share: the consumer drops it when it sees that nobody listens. Where
    /// somebody listens to everything, it does not, and what comes is given back.
    pub(super) fn end_pull(&self, joined: JoinedShare, now: Instant) {
        let Some(stored) = self.stored() else { return };
        let account = stored.store.account();
        account.unbind(&joined.binding);
        let Some(pull) = joined.pull.filter(|pull| pull.stage == PullStage::Waits) else { return };
        let subject = format!("{}{}", joined.inbox, pull.number);
        if !account.has_interest(subject.as_bytes()) {
            return;
        }
        let (account_of, binding) = (Arc::clone(account), OnceLock::new());
        let leftover = Arc::new(Leftover { account: account_of, since: now, binding });
        let service: Arc<dyn Service> = Arc::<Leftover>::clone(&leftover);
        let binding = account.bind(subject.as_bytes(), service);
        let binding = leftover.binding.get_or_init(|| binding);
        self.broker.registry.mqtt_stores.await_upkeep(account, binding, (now, pull.until));
    }

    /// Counts a message that has come from the session's consumer, if it is from a share.
    pub(super) fn count_own(&mut self, subject: &[u8], msg: &MessageRef<'_>) {
        if names::own_message(subject).is_some()
            && let Some(delivery) = ConsumerDelivery::of(msg.reply)
            && let Some(stored) = self.stored_mut()
        {
            stored.sources.shares.own_came(delivery.sequence);
        }
    }

    /// Counts a message that has come for a request.
    pub(super) fn count_pulled(&mut self, share: &str) {
        let Some(stored) = self.stored_mut() else { return };
        let joined = stored.sources.shares.get_mut(share);
        if let Some(joined) = joined
            && let Some(pull) = &mut joined.pull
        {
            pull.left = pull.left.saturating_sub(1);
            if pull.left == 0 {
                joined.pull = None;
            }
        }
    }

    /// Has a message stored for this session alone. One that another one has already is not stored
    /// again, by its id.
    fn assign(
        &mut self,
        shard: &mut Shard,
        (share, subject, sequence): (&str, &[u8], u64),
        msg: &MessageRef<'_>,
        now: Instant,
    ) {
        let Some(stored) = self.stored_mut() else { return };
        stored.sources.shares.begin_assignment();
        let to = names::own_subject(&stored.hash, share, subject);
        let mut block = Vec::new();
        header::replace(&mut block, msg.headers, b"Nats-Msg-Id", format!("{share}-{sequence}").as_bytes());
        let own = MessageRef { subject: &to, headers: &block, payload: msg.payload, ..MessageRef::default() };
        self.ask(shard, own, Matter::Assigned(msg.reply.into()), now);
    }

    pub(super) fn assigned(&mut self, shard: &mut Shard, reply: &[u8], answer: &[u8], now: Instant) -> Step {
        let outcome = api::stored_at(answer);
        if let Some(stored) = self.stored_mut() {
            let shares = &mut stored.sources.shares;
            shares.end_assignment();
            if let Ok(Some(sequence)) = outcome {
                shares.await_own(sequence, now + EXPIRES);
            }
        }
        outcome.iter().for_each(|_| self.tell_consumer(shard, reply, ACK, now));
        if let Err(fault) = outcome {
            self.log_storage_fault(&fault);
            self.tell_consumer(shard, reply, AGAIN_LATER, now);
        }
        Ok(())
    }
}

/// Rest of what a request brings whose session does not want it any more.
struct Leftover {
    account: Arc<Account>,
    /// When the session has left it.
    since: Instant,
    binding: OnceLock<Arc<Binding>>,
}

impl Service for Leftover {
    fn serve(&self, batch: &mut ServiceBatch, shard: &mut ServiceShard) {
        let mut msgs = shard.spare_buf();
        for msg in batch.iter() {
            if ConsumerDelivery::of(msg.reply).is_some() {
                msgs.push(MessageRef { subject: msg.reply, payload: AGAIN, ..MessageRef::default() });
            } else if let Some(binding) = self.binding.get() {
                // The request has ended.
                self.account.unbind(binding);
            }
        }
        shard.send(&self.account, &mut msgs, self.since);
        shard.keep_buf(msgs);
    }
}
