//! State of the stored half of a session: plain data, with what can be said of it alone.

use super::held::HeldMessages;
use super::kept_requests::KeptRequests;
use super::pubrels::PubRels;
use super::share_state::{ShareChange, Shares};
use super::waiting::WaitingMessages;
use crate::mqtt_inbox::MqttInbox;
use crate::mqtt_storage::{MqttStorage, MqttStore};
use crate::service::Binding;
use myelin_auth::Permissions;
use myelin_mqtt::packet::{Exchange, PacketId, PropertyBuf, Qos, ReasonCode, RetainHandling, SubscriptionId};
use myelin_mqtt::records::{ConsumerRecord, READER, SessionRecord, SubscriptionRecord, session_hash};
use myelin_mqtt::streams::MqttStream;
use myelin_mqtt::{shares, topic};
use myelin_wire::error::CloseReason;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// The stored half of a session.
pub(in crate::session::mqtt) struct StoredSession {
    pub(in crate::session::mqtt) store: Arc<MqttStore>,
    pub(in crate::session::mqtt) storage: Arc<MqttStorage>,
    pub(in crate::session::mqtt) inbox: Arc<MqttInbox>,
    /// Name of the session in subjects.
    pub(in crate::session::mqtt) hash: Box<str>,
    /// The record, as it is stored or about to be, and the sequence of the stored one: 0 for none.
    pub(in crate::session::mqtt) record: SessionRecord,
    pub(in crate::session::mqtt) record_sequence: u64,
    /// Requests, and what is done with the answers that are awaited.
    pub(in crate::session::mqtt) asked: AskedRequests,
    pub(in crate::session::mqtt) awaited: BTreeMap<u64, (Instant, Matter)>,
    pub(in crate::session::mqtt) change: Option<Box<Change>>,
    /// Reads of retained messages that are under way: these come before what the client asks next.
    pub(in crate::session::mqtt) reading: usize,
    pub(in crate::session::mqtt) acks: MqttAcks,
    /// Boxed like the next but one: most sessions never have any.
    pub(in crate::session::mqtt) held: Option<Box<HeldMessages>>,
    pub(in crate::session::mqtt) in_flight: InFlight,
    pub(in crate::session::mqtt) waiting: Option<Box<WaitingRetained>>,
    pub(in crate::session::mqtt) pubrels: PubRels,
    pub(in crate::session::mqtt) sources: Sources,
}

/// Requests of the session.
#[derive(Default)]
pub(in crate::session::mqtt) struct AskedRequests {
    /// The number of the last one.
    pub(in crate::session::mqtt) last: u64,
    /// Requests that may be sent again.
    pub(in crate::session::mqtt) kept: Option<Box<KeptRequests>>,
}

/// Where messages come from that are stored for the session.
#[derive(Default)]
pub(in crate::session::mqtt) struct Sources {
    /// Where PUBRELs are delivered to, and stored messages.
    pub(in crate::session::mqtt) bindings: [Option<Arc<Binding>>; 2],
    pub(in crate::session::mqtt) shares: Shares,
}

/// Matter that an answer is about.
pub(in crate::session::mqtt) enum Matter {
    /// A step of the change that is under way.
    Change(ChangeStep),
    /// Whether a message of QoS 2 is held for the client.
    Held,
    /// A stream of the account.
    Stream(MqttStream, StreamRequest),
    /// Another session asks for the streams: it knows them, or has gone.
    StreamsTurn,
    /// A consumer that nats-server has made for this subscription.
    Floor(String),
    /// The message of an acknowledgement is stored; with its number.
    Stored(u64),
    /// A record is stored that removes a retained message.
    Removal(u64),
    /// The message of a release.
    HeldRead(PacketId),
    /// The message of a release is stored.
    Released(PacketId),
    /// Messages of releases are removed.
    HeldRemoved(Vec<PacketId>),
    /// The members of a share of the change that is under way, by its place.
    Members(usize),
    /// A message of a share is stored for this session alone; where that is said.
    Assigned(Box<[u8]>),
    /// A message that has waited for the client.
    Postponed,
    /// A PUBREL is stored.
    PubRel(PacketId),
    /// A consumer knows that the client has had a message of QoS 2.
    Settled(Settling),
    /// A retained message, or the end of them.
    Retained(Box<RetainedRead>),
    /// Nothing follows from it.
    Nothing,
}

/// Request about a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::session::mqtt) enum StreamRequest {
    /// Whether it is there, and how.
    Info,
    /// Creation, with so many replicas.
    Create(u32),
    /// Change that gives it what it lacks.
    Update,
}

/// Acknowledgement of a message of QoS 2 that its consumer is to confirm.
pub(in crate::session::mqtt) struct Settling {
    /// Number of the message.
    pub(in crate::session::mqtt) id: PacketId,
    /// Where the acknowledgement is said.
    pub(in crate::session::mqtt) ack: Box<[u8]>,
    /// How often it was said.
    pub(in crate::session::mqtt) times: u32,
}

/// Whether the session goes on.
pub(in crate::session::mqtt) type Step = Result<(), CloseReason>;

/// A step of a change, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::session::mqtt) enum ChangeStep {
    /// The account's streams are there.
    Streams,
    /// The session's record is read.
    Record,
    /// Floors of consumers that nats-server has made are known.
    Floors,
    /// The end of the stream of messages is known, before which nothing is for a new subscription.
    Position,
    /// The consumer of PUBRELs is there: its deliveries come before messages with their numbers.
    PubRels,
    /// The consumer of messages reads what is subscribed to.
    Reader,
    /// The shares that the session has joined or left know it.
    Membership,
    /// The members of these shares are known.
    Members,
    /// Consumers of shares that nobody has any more are removed.
    Desertion,
    /// The consumers of the shares are there.
    Shares,
    /// Consumers that the session does not have any more are removed.
    Removal,
    /// The record is written.
    Write,
    /// The client is told.
    Done,
}

/// Acknowledgement at the end of a change.
pub(in crate::session::mqtt) enum ChangeAck {
    /// CONNACK, with whether the session was there.
    Connect { is_present: bool },
    /// SUBACK with its codes.
    Subscribe(PacketId, Vec<u8>),
    /// UNSUBACK with its codes.
    Unsubscribe(PacketId, Vec<u8>),
}

/// A subscription that is granted.
pub(in crate::session::mqtt) struct AddedSub {
    /// Its subject pattern; of one that shares messages with others, its filter.
    pub(in crate::session::mqtt) pattern: String,
    pub(in crate::session::mqtt) qos: Qos,
    pub(in crate::session::mqtt) is_shared: bool,
    /// Whether nothing was read for it before: what is stored already is not for it.
    pub(in crate::session::mqtt) begins: bool,
    pub(in crate::session::mqtt) handling: RetainHandling,
    pub(in crate::session::mqtt) options: SubscriptionRecord,
}

impl AddedSub {
    /// One of MQTT 3.1.1.
    pub(in crate::session::mqtt) fn plain(pattern: String, qos: Qos) -> Self {
        let (handling, options) = (RetainHandling::Send, SubscriptionRecord::default());
        Self { pattern, qos, is_shared: false, begins: false, handling, options }
    }

    /// Whether it reads what is stored for the session.
    pub(in crate::session::mqtt) fn is_read(&self) -> bool {
        self.qos > Qos::AtMostOnce && !self.is_shared
    }

    /// Whether it begins to read what is stored for the session.
    pub(in crate::session::mqtt) fn begins_to_read(&self) -> bool {
        self.begins && self.is_read()
    }

    /// Whether it is not there where nothing can be stored for it.
    pub(in crate::session::mqtt) fn is_stored(&self) -> bool {
        self.qos > Qos::AtMostOnce
    }
}

/// A change that is under way.
pub(in crate::session::mqtt) struct Change {
    pub(in crate::session::mqtt) step: ChangeStep,
    /// Answers that the step waits for.
    pub(in crate::session::mqtt) missing: usize,
    pub(in crate::session::mqtt) ack: ChangeAck,
    /// Subscriptions of this change.
    pub(in crate::session::mqtt) added: Vec<AddedSub>,
    /// Shares that the session joins or leaves.
    pub(in crate::session::mqtt) shares: Vec<ShareChange>,
    /// Requests that remove records of memberships that do not hold any more, with their bodies.
    pub(in crate::session::mqtt) stale_members: Vec<(String, String)>,
    /// Requests that remove consumers.
    pub(in crate::session::mqtt) removals: Vec<String>,
    /// Whether messages of QoS 2 are held for the client, as far as that is asked.
    pub(in crate::session::mqtt) has_held: bool,
    /// Whether these are removed: they are of a session that has ended.
    pub(in crate::session::mqtt) removes_held: bool,
    /// Consumers that nats-server has made, by the keys that the record had for them.
    pub(in crate::session::mqtt) foreign: Vec<(String, String)>,
    /// Sequence up to which all of these have delivered, and what was delivered is acknowledged.
    pub(in crate::session::mqtt) floor: Option<u64>,
    /// Whether consumers are asked for although they should be there as they are.
    pub(in crate::session::mqtt) revives: bool,
    /// Whether the record is written.
    pub(in crate::session::mqtt) writes: bool,
    /// How often it was begun anew, because the record had changed when it was written.
    pub(in crate::session::mqtt) repeats: u32,
}

impl Change {
    pub(in crate::session::mqtt) fn new(step: ChangeStep, ack: ChangeAck) -> Self {
        Self {
            step,
            missing: 0,
            ack,
            added: Vec::new(),
            shares: Vec::new(),
            stale_members: Vec::new(),
            removals: Vec::new(),
            has_held: false,
            removes_held: false,
            foreign: Vec::new(),
            floor: None,
            revives: false,
            writes: false,
            repeats: 0,
        }
    }

    /// The change that CONNECT is.
    pub(in crate::session::mqtt) fn opening() -> Self {
        let ack = ChangeAck::Connect { is_present: false };
        Self { writes: true, ..Self::new(ChangeStep::Streams, ack) }
    }

    pub(in crate::session::mqtt) fn is_opening(&self) -> bool {
        matches!(self.ack, ChangeAck::Connect { .. })
    }

    /// Whether it is a CONNECT that has not removed yet what the session before has left.
    pub(in crate::session::mqtt) fn is_early(&self) -> bool {
        self.is_opening() && self.step <= ChangeStep::Removal
    }
}

impl ChangeStep {
    pub(in crate::session::mqtt) fn next(self) -> Self {
        match self {
            Self::Streams => Self::Record,
            Self::Record => Self::Floors,
            Self::Floors => Self::Position,
            Self::Position => Self::PubRels,
            Self::PubRels => Self::Reader,
            Self::Reader => Self::Membership,
            Self::Membership => Self::Members,
            Self::Members => Self::Desertion,
            Self::Desertion => Self::Shares,
            Self::Shares => Self::Removal,
            Self::Removal => Self::Write,
            Self::Write | Self::Done => Self::Done,
        }
    }
}

/// Acknowledgements of messages that are being stored, in the order in which these came.
#[derive(Default)]
pub(in crate::session::mqtt) struct MqttAcks {
    /// Acknowledgements that are out.
    pub(in crate::session::mqtt) sent: u64,
    pub(in crate::session::mqtt) waiting: VecDeque<PendingAck>,
    /// Whether some of QoS 2 may be held until the client releases them.
    pub(in crate::session::mqtt) may_hold: bool,
}

/// An acknowledgement that waits.
pub(in crate::session::mqtt) struct PendingAck {
    pub(in crate::session::mqtt) exchange: Exchange,
    /// Messages that are not stored yet.
    pub(in crate::session::mqtt) missing: u8,
    /// How it went, for a client of MQTT 5.
    pub(in crate::session::mqtt) reason: ReasonCode,
}

impl MqttAcks {
    /// Adds one that is due when so many messages are stored; answers its number.
    pub(in crate::session::mqtt) fn push(&mut self, exchange: Exchange, missing: u8) -> u64 {
        self.waiting.push_back(PendingAck { exchange, missing, reason: ReasonCode::Success });
        self.sent + self.waiting.len() as u64
    }

    /// Adds one of a message that is not taken.
    pub(in crate::session::mqtt) fn push_refused(&mut self, exchange: Exchange, reason: ReasonCode) {
        debug_assert!(exchange != Exchange::AtMostOnce, "nobody waits for it");
        self.waiting.push_back(PendingAck { exchange, missing: 0, reason });
    }

    pub(in crate::session::mqtt) fn find(&mut self, number: u64) -> Option<&mut PendingAck> {
        let at = number.checked_sub(self.sent + 1)?;
        self.waiting.get_mut(usize::try_from(at).ok()?)
    }

    /// The next one that is due.
    pub(in crate::session::mqtt) fn pop(&mut self) -> Option<PendingAck> {
        let due = self.waiting.pop_front_if(|ack| ack.missing == 0)?;
        self.sent += 1;
        Some(due)
    }
}

/// Messages that the client has not acknowledged.
#[derive(Default)]
pub(in crate::session::mqtt) struct InFlight {
    pub(in crate::session::mqtt) sent: BTreeMap<PacketId, Sent>,
    /// Messages of QoS 1 and 2 that the client takes before it has acknowledged some.
    pub(in crate::session::mqtt) receive_max: u16,
    /// The number that was given last to a message that is not stored for the session; 0: none.
    pub(in crate::session::mqtt) last_spare: u16,
    /// Bytes of their payloads.
    pub(in crate::session::mqtt) bytes: usize,
    /// Messages that wait until fewer bytes are in flight: a client that takes them slowly is not
    /// cut off for what it asked for.
    pub(in crate::session::mqtt) waiting: Option<Box<WaitingMessages>>,
}

/// A message that was sent to the client.
pub(in crate::session::mqtt) struct Sent {
    /// Sequence in the stream of messages; 0: a retained message.
    pub(in crate::session::mqtt) sequence: u64,
    /// Whether it came by a share: the session may have the same message for itself, too.
    pub(in crate::session::mqtt) is_shared: bool,
    pub(in crate::session::mqtt) qos: Qos,
    /// Where it is acknowledged; empty: nowhere.
    pub(in crate::session::mqtt) reply: Box<[u8]>,
    /// The client has it, and waits for PUBREL.
    pub(in crate::session::mqtt) is_received: bool,
    pub(in crate::session::mqtt) size: usize,
}

impl InFlight {
    pub(in crate::session::mqtt) fn insert(&mut self, id: PacketId, sent: Sent) {
        self.bytes += sent.size;
        if let Some(before) = self.sent.insert(id, sent) {
            self.bytes -= before.size;
        }
    }

    pub(in crate::session::mqtt) fn remove(&mut self, id: PacketId) -> Option<Sent> {
        let sent = self.sent.remove(&id)?;
        self.bytes -= sent.size;
        Some(sent)
    }

    /// Removes a message that the client has, and for which PUBREL is stored.
    pub(in crate::session::mqtt) fn remove_received(&mut self, id: PacketId) -> Option<Sent> {
        self.sent.get(&id).filter(|sent| sent.is_received)?;
        self.remove(id)
    }
}

/// A read for one subscription.
pub(in crate::session::mqtt) struct RetainedRead {
    pub(in crate::session::mqtt) pattern: String,
    pub(in crate::session::mqtt) qos: Qos,
    /// Number of the subscription.
    pub(in crate::session::mqtt) id: Option<SubscriptionId>,
    pub(in crate::session::mqtt) way: RetainedWay,
}

/// How the stream finds retained messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::session::mqtt) enum RetainedWay {
    /// By its index of subjects: no more than 1024.
    Index,
    /// By a walk through all that it has.
    Walk,
}

/// Retained messages that wait until the client has acknowledged others.
#[derive(Default)]
pub(in crate::session::mqtt) struct WaitingRetained {
    pub(in crate::session::mqtt) messages: VecDeque<RetainedWait>,
    /// Reads that begin or go on, a few at once, when these are gone and the client is not
    /// behind, with the sequences at which they do.
    pub(in crate::session::mqtt) reads: VecDeque<(Box<RetainedRead>, u64)>,
}

/// A retained message that waits.
pub(in crate::session::mqtt) struct RetainedWait {
    pub(in crate::session::mqtt) subject: Box<[u8]>,
    pub(in crate::session::mqtt) payload: Box<[u8]>,
    pub(in crate::session::mqtt) qos: Qos,
    pub(in crate::session::mqtt) properties: PropertyBuf,
}

/// Wishes of the subscriptions that a stored message is for.
pub(in crate::session::mqtt) struct WantedMessage {
    /// The highest QoS.
    pub(in crate::session::mqtt) qos: Qos,
    /// Their numbers.
    pub(in crate::session::mqtt) ids: SmallVec<[SubscriptionId; 1]>,
    /// The message keeps the retain flag that it was published with.
    pub(in crate::session::mqtt) as_published: bool,
}

/// Outcome of an answer to a read.
pub(in crate::session::mqtt) enum RetainedCame {
    /// A message, and more is to come.
    Message(Box<RetainedRead>),
    /// The end of a slice; the next one is asked for.
    Slice,
    /// The end of what is retained.
    End,
}

/// Terms of a session, as its client has said them.
pub(in crate::session::mqtt) struct SessionTerms {
    /// Whether it ends with its connection.
    pub(in crate::session::mqtt) is_clean: bool,
    /// Seconds that it outlives its connection (MQTT 5).
    pub(in crate::session::mqtt) expiry: Option<u32>,
    pub(in crate::session::mqtt) receive_max: u16,
}

impl StoredSession {
    pub(in crate::session::mqtt) fn new(
        store: Arc<MqttStore>,
        storage: Arc<MqttStorage>,
        inbox: Arc<MqttInbox>,
        client_id: &str,
        terms: SessionTerms,
    ) -> Self {
        debug_assert!(terms.receive_max > 0, "no packet says 0");
        let record = SessionRecord {
            origin: store.node.clone(),
            id: client_id.to_owned(),
            clean: terms.is_clean,
            expiry: terms.expiry,
            ..SessionRecord::default()
        };
        Self {
            store,
            storage,
            inbox,
            hash: session_hash(client_id).into(),
            record,
            record_sequence: 0,
            asked: AskedRequests::default(),
            awaited: BTreeMap::new(),
            change: None,
            reading: 0,
            acks: MqttAcks::default(),
            held: None,
            in_flight: InFlight { receive_max: terms.receive_max, ..InFlight::default() },
            waiting: None,
            pubrels: PubRels::default(),
            sources: Sources::default(),
        }
    }

    /// Gives back memory that only a busy session needs: an emptied map keeps room for eleven.
    pub(in crate::session::mqtt) fn rest(&mut self) {
        if self.awaited.is_empty() {
            (self.awaited, self.asked.kept) = (BTreeMap::new(), None);
        }
        if self.in_flight.sent.is_empty() {
            self.in_flight.sent = BTreeMap::new();
        }
        if self.acks.waiting.is_empty() {
            self.acks.waiting = VecDeque::new();
        }
    }

    /// Whether retained messages wait until the client has acknowledged others.
    pub(in crate::session::mqtt) fn has_waiting(&self) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| !waiting.messages.is_empty())
    }

    /// The consumer that reads for all subscriptions.
    pub(in crate::session::mqtt) fn reader(&self) -> Option<&ConsumerRecord> {
        self.record.cons.get(READER)?.as_deref()
    }

    /// Whether the client takes no more messages of QoS 1 and 2 before it has acknowledged some.
    pub(in crate::session::mqtt) fn has_sent_all(&self) -> bool {
        self.in_flight.sent.len() + self.pubrels.count() >= usize::from(self.in_flight.receive_max)
    }

    /// Whether the client gets no more retained messages of QoS 1 and 2 before it has acknowledged
    /// some: one of MQTT 3.1.1 says no number, and has no more than of stored ones.
    pub(in crate::session::mqtt) fn has_sent_retained(&self) -> bool {
        let most = self.in_flight.receive_max.min(self.storage.max_ack_pending.max(1));
        self.in_flight.sent.len() + self.pubrels.count() >= usize::from(most)
    }

    /// Wishes of the share by which a message has become this session's.
    pub(in crate::session::mqtt) fn wanted_of_share(&self, share: &str) -> WantedMessage {
        let named = self.record.shared.iter().find(|(filter, _)| shares::share_hash(filter) == share);
        // One that the client has left meanwhile brings what it was given to the end.
        let options = named.map(|(_, options)| *options).unwrap_or_default();
        let ids = SubscriptionId::new(options.id).into_iter().collect();
        WantedMessage { qos: Qos::ExactlyOnce, ids, as_published: options.as_published }
    }

    /// Whether a filter of the session may still be subscribed to: permissions change while a
    /// client is connected, and the record knows nothing of that.
    pub(in crate::session::mqtt) fn may_have(permissions: Option<&Permissions>, pattern: &[u8]) -> bool {
        permissions.is_none_or(|permissions| permissions.can_subscribe(pattern, None))
    }

    /// Wishes of the subscriptions that read a message: that match its subject, that the client may
    /// have, and that began before the message of this sequence was stored. `is_own`: the client
    /// has published it.
    pub(in crate::session::mqtt) fn wanted(
        &self,
        subject: &[u8],
        sequence: u64,
        is_own: bool,
        permissions: Option<&Permissions>,
    ) -> Option<WantedMessage> {
        let wanted = self.record.subs.iter().filter(|(pattern, qos)| {
            if **qos == 0 {
                return false;
            }
            let is_later = || self.record.since.get(*pattern).is_none_or(|since| sequence > *since);
            let reserved = subject.first() == Some(&b'$');
            let is_for = |pattern: &[u8]| {
                myelin_subject::matches(pattern, subject)
                    && !(reserved && topic::leaves_out_dollar(pattern))
                    && Self::may_have(permissions, pattern)
            };
            let pattern = pattern.as_bytes();
            (is_for(pattern) || topic::level_above(pattern).is_some_and(is_for)) && is_later()
        });
        let mut all: Option<WantedMessage> = None;
        for (pattern, qos) in wanted {
            let options = self.record.opts.get(pattern).copied().unwrap_or_default();
            let Some(qos) = Qos::new(*qos).filter(|_| !(is_own && options.no_local)) else { continue };
            let (ids, as_published) = (SmallVec::new(), false);
            let all = all.get_or_insert(WantedMessage { qos, ids, as_published });
            all.qos = all.qos.max(qos);
            all.as_published |= options.as_published;
            all.ids.extend(SubscriptionId::new(options.id).filter(|id| !all.ids.contains(id)));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each connection of MQTT has one, however little it does.
    #[test]
    fn a_session_that_does_nothing_is_small() {
        assert!(size_of::<StoredSession>() <= 448, "{}", size_of::<StoredSession>());
        // Maps keep room for eleven.
        assert!(size_of::<Option<Box<ConsumerRecord>>>() <= 8);
        let acks = MqttAcks::default();
        assert_eq!((acks.waiting.capacity(), size_of_val(&acks)), (0, 48));
    }
}
