//! Where MQTT's sessions and messages are stored: in streams of each account, which is asked for
//! everything by requests to its own API, wherever its streams are.
//!
//! An account has an [`MqttStore`] while it has MQTT sessions: the one place to which answers come,
//! from where each goes to the session that asked.

use crate::account::Account;
use crate::mqtt_inbox::MqttInbox;
use crate::mqtt_streams::stream_found;
use crate::mqtt_streams::{MqttStreams, SessionRequest, StreamsTurn};
use crate::mqtt_will::DelayedWill;
use crate::service::{Binding, Service, ServiceShard};
use crate::service_batch::ServiceBatch;
use arc_swap::ArcSwap;
use myelin_mqtt::records::{SessionRecord, session_hash};
use myelin_mqtt::streams::{self, MqttStream};
use myelin_stdx::sync::lock;
use myelin_wire::error::CloseReason;
use myelin_wire::message_buf::MessageRef;
use std::collections::{HashMap, hash_map::Entry};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

/// How MQTT's sessions and messages are stored.
#[derive(Debug, Clone)]
pub struct MqttStorage {
    /// The JetStream domain that holds them, if not the account's own.
    pub domain: Option<String>,
    /// Time for JetStream to answer.
    pub api_timeout: Duration,
    /// Time for a client to acknowledge a message.
    pub ack_wait: Duration,
    /// Messages on their way to one session.
    pub max_ack_pending: u16,
    /// Replicas of the streams; `None` for as many as there are servers, up to three.
    pub replicas: Option<u32>,
    /// Whether consumers live in memory.
    pub consumers_in_memory: bool,
    /// Time after which a consumer that nobody uses is removed.
    pub consumer_inactive_threshold: Option<Duration>,
    /// Whether who asks for QoS 2 is granted 1.
    pub downgrades_qos_2: bool,
}

impl Default for MqttStorage {
    fn default() -> Self {
        Self {
            domain: None,
            api_timeout: Duration::from_secs(5),
            ack_wait: streams::ACK_WAIT,
            max_ack_pending: streams::MAX_ACK_PENDING,
            replicas: None,
            consumers_in_memory: false,
            consumer_inactive_threshold: None,
            downgrades_qos_2: false,
        }
    }
}

impl MqttStorage {
    /// Subject of a request to the API.
    pub(crate) fn api(&self, request: &str) -> String {
        match &self.domain {
            Some(domain) => format!("$JS.{domain}.API.{request}"),
            None => format!("$JS.API.{request}"),
        }
    }

    /// The domain with its dot, as subjects of sessions have it.
    pub(crate) fn domain_token(&self) -> String {
        self.domain.as_ref().map(|domain| format!("{domain}.")).unwrap_or_default()
    }
}

/// Stores of all accounts.
#[derive(Default)]
pub(crate) struct MqttStores {
    storage: ArcSwap<MqttStorage>,
    by_account: Mutex<HashMap<Box<str>, Arc<MqttStore>>>,
    /// Wills that wait, by the numbers of their connections.
    waiting: Mutex<HashMap<u64, WaitingWill>>,
    /// Where answers are awaited about shares of sessions that may have ended.
    upkeeps: Mutex<Vec<AwaitedUpkeep>>,
}

/// Answers about shares that are awaited.
struct AwaitedUpkeep {
    account: Arc<Account>,
    binding: Arc<Binding>,
    until: Instant,
}

/// A will that waits, in the inbox of a session that has ended.
struct WaitingWill {
    store: Arc<MqttStore>,
    /// Hash of the client id.
    hash: String,
    inbox: Arc<MqttInbox>,
}

/// Store of one account, as its MQTT sessions reach it.
pub(crate) struct MqttStore {
    account: Arc<Account>,
    /// Node name of this server, as records say it.
    pub(crate) node: String,
    /// Beginning of the subjects on which answers come, with its dot.
    answers: String,
    /// Beginning of the subjects of records of sessions.
    records: String,
    /// Bindings for answers, and for records of sessions.
    bindings: OnceLock<[Arc<Binding>; 2]>,
    inboxes: Mutex<Inboxes>,
    streams: Mutex<MqttStreams>,
}

/// Inboxes of sessions.
#[derive(Default)]
struct Inboxes {
    /// By the numbers of their connections.
    by_cid: HashMap<u64, Arc<MqttInbox>>,
    /// Connections by the hashes of their client ids.
    owners: HashMap<String, u64>,
}

/// Hands answers to the sessions that asked, and ends sessions that another server takes up.
struct Answers(Weak<MqttStore>);

impl MqttStores {
    /// How everything is stored.
    pub(crate) fn storage(&self) -> Arc<MqttStorage> {
        self.storage.load_full()
    }

    pub(crate) fn set_storage(&self, storage: MqttStorage) {
        self.storage.store(Arc::new(storage));
    }

    /// Has answers for the session of connection `cid` come to `inbox`, until it
    /// [leaves](Self::leave). `unique` is a name that no store has had before. Answers the will
    /// that waits for the session.
    pub(crate) fn enter(
        &self,
        account: &Arc<Account>,
        (server, unique): (&str, &str),
        (cid, hash, begins_anew): (u64, &str, bool),
        inbox: &Arc<MqttInbox>,
    ) -> (Arc<MqttStore>, Option<Box<DelayedWill>>) {
        let records = format!("{}{}", streams::SESSIONS.subject_prefix, self.storage().domain_token());
        let mut by_account = lock(&self.by_account);
        let store = by_account.entry(account.name().into()).or_insert_with(|| {
            let node = session_hash(server);
            Arc::new(MqttStore {
                answers: format!("{}{node}.{unique}.", streams::ANSWERS_PREFIX),
                node,
                account: Arc::clone(account),
                records,
                bindings: OnceLock::new(),
                inboxes: Mutex::default(),
                streams: Mutex::default(),
            })
        });
        let store = Arc::clone(store);
        let will = lock(&store.inboxes).enter((cid, hash, begins_anew), inbox);
        drop(by_account);
        if let Some(will) = &will {
            self.stop_waiting(will.conn.cid());
        }
        // Another session that came at the same time may be the one that binds; this waits for it.
        store.bindings.get_or_init(|| {
            let service: Arc<dyn Service> = Arc::new(Answers(Arc::downgrade(&store)));
            [&store.answers, &store.records]
                .map(|prefix| account.bind(format!("{prefix}>").as_bytes(), Arc::clone(&service)))
        });
        (store, will)
    }

    /// Leaves the will of connection `cid`, which has ended, to the time when it is due, or to
    /// whoever takes up the session. Until then the session does not leave the store: by its record
    /// the server hears of another one that does.
    ///
    /// # Errors
    /// The will, if another connection has the session already.
    pub(crate) fn leave_will(
        &self,
        store: &Arc<MqttStore>,
        (cid, hash): (u64, &str),
        will: DelayedWill,
    ) -> Result<(), DelayedWill> {
        let mut waiting = lock(&self.waiting);
        let inboxes = lock(&store.inboxes);
        let owns = inboxes.owners.get(hash) == Some(&cid);
        let Some(inbox) = inboxes.by_cid.get(&cid).filter(|_| owns).cloned() else { return Err(will) };
        inbox.leave_will(will);
        drop(inboxes);
        let (store, hash) = (Arc::clone(store), hash.to_owned());
        waiting.insert(cid, WaitingWill { store, hash, inbox });
        Ok(())
    }

    /// Notes until when answers about shares are awaited at `binding`. Those that have not come in
    /// time are not awaited any more.
    pub(crate) fn await_upkeep(
        &self,
        account: &Arc<Account>,
        binding: &Arc<Binding>,
        (now, until): (Instant, Instant),
    ) {
        let (account, binding) = (Arc::clone(account), Arc::clone(binding));
        let mut upkeeps = lock(&self.upkeeps);
        let (late, mut awaited): (Vec<_>, _) =
            std::mem::take(&mut *upkeeps).into_iter().partition(|upkeep| upkeep.until <= now);
        awaited.push(AwaitedUpkeep { account, binding, until });
        *upkeeps = awaited;
        drop(upkeeps);
        // One that has had all its answers is not there any more, and stays so.
        late.iter().for_each(|upkeep| upkeep.account.unbind(&upkeep.binding));
    }

    /// The will that connection `cid` has left, if it is due.
    pub(crate) fn due_will(&self, cid: u64, now: Instant) -> Option<Box<DelayedWill>> {
        if lock(&self.waiting).get(&cid)?.inbox.waits_for_will(now) {
            return None;
        }
        self.stop_waiting(cid)?.take_will()
    }

    /// Nobody waits any more for the will that connection `cid` has left: its session leaves the
    /// store. Answers the session's inbox.
    fn stop_waiting(&self, cid: u64) -> Option<Arc<MqttInbox>> {
        let WaitingWill { store, hash, inbox } = lock(&self.waiting).remove(&cid)?;
        self.leave(&store, (cid, &hash));
        Some(inbox)
    }

    /// Ends what `enter` began. The last session takes the store with it.
    pub(crate) fn leave(&self, store: &Arc<MqttStore>, (cid, hash): (u64, &str)) {
        let is_last = {
            let mut by_account = lock(&self.by_account);
            let mut inboxes = lock(&store.inboxes);
            inboxes.leave((cid, hash));
            let is_last = inboxes.by_cid.is_empty();
            if is_last
                && let Entry::Occupied(entry) = by_account.entry(store.account.name().into())
                && Arc::ptr_eq(entry.get(), store)
            {
                entry.remove();
            }
            is_last
        };
        if is_last && let Some(bindings) = store.bindings.get() {
            bindings.iter().for_each(|binding| store.account.unbind(binding));
        }
    }
}

impl MqttStore {
    /// The account.
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Where the answer to request `number` of the session of connection `cid` comes.
    pub(crate) fn answer_subject(&self, cid: u64, number: u64) -> String {
        format!("{}{cid}.{number}", self.answers)
    }

    /// The session's connection and its request of which this is the answer.
    pub(crate) fn asked(&self, subject: &[u8]) -> Option<(u64, u64)> {
        let rest = subject.strip_prefix(self.answers.as_bytes())?;
        let (cid, number) = std::str::from_utf8(rest).ok()?.split_once('.')?;
        Some((cid.parse().ok()?, number.parse().ok()?))
    }

    /// Ends a session of this server of which another one has written the record.
    fn end_what_another_has(&self, msg: MessageRef<'_>) {
        let hash = msg.subject.strip_prefix(self.records.as_bytes()).map(std::str::from_utf8);
        let Some(Ok(hash)) = hash else { return };
        let inbox = lock(&self.inboxes).owner(hash);
        let Some(inbox) = inbox else { return };
        // One that says when the session ends is the last word of a server that it has left.
        let is_taken_up = |record: SessionRecord| record.origin != self.node && record.ends == 0;
        if SessionRecord::decode(msg.payload).is_ok_and(is_taken_up) {
            // One that waits is not published: the session goes on there.
            drop(inbox.take_will());
            inbox.conn().close(CloseReason::DuplicateClientId);
        }
    }

    /// Task of a session that needs the streams.
    pub(crate) fn streams_turn(&self, request: SessionRequest) -> StreamsTurn {
        lock(&self.streams).turn(request)
    }

    /// A stream is there; who has waited for the last one goes on.
    pub(crate) fn found(&self, stream: MqttStream) {
        let waited = lock(&self.streams).found(stream);
        for request in waited {
            self.wake(request);
        }
    }

    /// A stream is gone.
    pub(crate) fn forget_streams(&self) {
        lock(&self.streams).forget();
    }

    /// A session has ended: if it has asked for streams, the next one does.
    pub(crate) fn leave_streams(&self, cid: u64) {
        let mut next = lock(&self.streams).leave(cid);
        while let Some(request) = next.filter(|request| !self.wake(*request)) {
            // It has gone, too.
            next = lock(&self.streams).leave(request.0);
        }
    }

    /// Has a session look for the streams again. False: it is not there any more.
    fn wake(&self, (cid, number): SessionRequest) -> bool {
        let Some(inbox) = lock(&self.inboxes).by_cid.get(&cid).cloned() else { return false };
        let subject = self.answer_subject(cid, number);
        inbox.put(std::iter::once(MessageRef { subject: subject.as_bytes(), ..MessageRef::default() }));
        true
    }

    /// Takes the answer to a session that has gone: it may say that a stream is there.
    fn late_answer(&self, msg: MessageRef<'_>) {
        if lock(&self.streams).has_all() {
            return;
        }
        if let Some(stream) = stream_found(msg.payload) {
            self.found(stream);
        }
    }
}

impl Inboxes {
    /// Answers the will that waits for the session.
    fn enter(
        &mut self,
        (cid, hash, begins_anew): (u64, &str, bool),
        inbox: &Arc<MqttInbox>,
    ) -> Option<Box<DelayedWill>> {
        self.by_cid.insert(cid, Arc::clone(inbox));
        let before = self.owners.insert(hash.to_owned(), cid)?;
        let other = self.by_cid.get(&before)?;
        other.follow(begins_anew);
        other.take_will()
    }

    fn leave(&mut self, (cid, hash): (u64, &str)) {
        self.by_cid.remove(&cid);
        // Another connection may be the client by now.
        if self.owners.get(hash) == Some(&cid) {
            self.owners.remove(hash);
        }
    }

    fn owner(&self, hash: &str) -> Option<Arc<MqttInbox>> {
        self.by_cid.get(self.owners.get(hash)?).cloned()
    }
}

impl Service for Answers {
    fn serve(&self, batch: &mut ServiceBatch, _: &mut ServiceShard) {
        let Some(store) = self.0.upgrade() else { return };
        for msg in batch.iter() {
            let asked = store.asked(msg.subject);
            let inbox = asked.and_then(|(cid, _)| lock(&store.inboxes).by_cid.get(&cid).cloned());
            match (asked, inbox) {
                (_, Some(inbox)) => inbox.put(std::iter::once(msg)),
                (None, None) => store.end_what_another_has(msg),
                (Some(_), None) => store.late_answer(msg),
            }
        }
    }
}
