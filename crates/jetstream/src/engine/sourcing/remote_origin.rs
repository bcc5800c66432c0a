//! Origin of a mirror or source on another server: one consumer there, from the request for it to
//! the last thing that it has sent.
//!
//! Each consumer that is asked for has subjects of its own, so nothing comes here of the one
//! before. An origin listens until it is dropped; the consumer there ends, too, when it has no
//! listener for a while. What comes is put into a [`RemoteFeed`] on the shard of the link, and the
//! turn of the stream that copies takes it from there.

use super::remote_feed::{FlowQuestion, RemoteFeed};
use super::remote_request::{RemoteConsumer, RemoteRefusal, RemoteRequest, read_answer};
use crate::engine::host::Host;
use myelin_broker::{Account, Binding, Service, ServiceBatch, ServiceShard, Watch};
use myelin_stdx::sync::lock;
use myelin_store::{Message, Timestamp};
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

const SECOND: Timestamp = 1_000_000_000;
/// Time that an answer may take from behind a leaf node or a hub, and in this server's cluster.
const ANSWER: Timestamp = 10 * SECOND;
const ANSWER_NEAR: Timestamp = 2 * SECOND;
/// Time for which a consumer may be silent that gives a sign of life each second. What it has is
/// asked for again, so nothing is lost by giving one up that lives.
const SILENCE: Timestamp = 3 * SECOND;

/// Mirror or source that follows an origin on another server.
pub(super) trait Follower: Service {
    /// The request for the consumer was answered. Called on a shard.
    fn answered(&self, origin: Arc<RemoteOrigin>, answer: Result<RemoteConsumer, RemoteRefusal>);
}

/// Search of a source reader for an origin on another server.
#[derive(Default)]
pub(super) struct RemoteSearch {
    /// The consumer that was asked for, until the answer.
    pub(super) asked: Option<Arc<RemoteOrigin>>,
    /// Watch on who takes requests, until there is an answer.
    pub(super) watch: Option<Watch>,
    /// Whether the server there does not know consumers for mirrors and sources.
    pub(super) is_old: bool,
}

/// Wishes beside those in the request itself.
pub(super) struct Wanted {
    /// Where the answer is to come, and what the consumer delivers.
    pub(super) inbox: String,
    pub(super) deliver_subject: String,
    pub(super) is_mirror: bool,
    /// Whether somebody has made the consumer.
    pub(super) is_given: bool,
    /// Whether the origin is in this server's cluster.
    pub(super) is_near: bool,
    /// The log of the stream that copies, of which the request knows how far it is.
    pub(super) log: u64,
}

/// How far it is with the consumer.
enum Phase {
    Asked,
    Answered,
    Follows(RemoteFeed),
}

/// One consumer of an origin on another server.
pub(super) struct RemoteOrigin {
    account: Arc<Account>,
    follower: Weak<dyn Follower>,
    host: Arc<dyn Host>,
    /// Subject of the request.
    request: Box<str>,
    wanted: Wanted,
    phase: Mutex<Phase>,
    bindings: Mutex<Vec<Arc<Binding>>>,
    /// When it was asked for, or something came of it last.
    heard: AtomicI64,
}

impl RemoteOrigin {
    /// Asks for a consumer.
    pub(super) fn ask(
        account: &Arc<Account>,
        host: &Arc<dyn Host>,
        follower: Weak<dyn Follower>,
        request: &RemoteRequest,
        wanted: Wanted,
    ) -> Arc<Self> {
        let origin = Arc::new(Self {
            account: Arc::clone(account),
            follower,
            host: Arc::clone(host),
            request: request.subject.as_str().into(),
            wanted,
            phase: Mutex::new(Phase::Asked),
            bindings: Mutex::default(),
            heard: AtomicI64::new(host.now()),
        });
        let inbox = &origin.wanted.inbox;
        let service = Arc::new(AnswerService(Arc::downgrade(&origin)));
        lock(&origin.bindings).push(account.bind(inbox.as_bytes(), service));
        request.publish(account, &**host, inbox);
        origin
    }

    /// Takes what the consumer delivers from now on.
    pub(super) fn follow(self: &Arc<Self>, feed: RemoteFeed) {
        *lock(&self.phase) = Phase::Follows(feed);
        self.heard.store(self.host.now(), Relaxed);
        self.unbind();
        let service = Arc::new(DeliveryService(Arc::downgrade(self)));
        let binding = self.account.listen(self.wanted.deliver_subject.as_bytes(), service);
        lock(&self.bindings).push(binding);
    }

    /// Subject of the request for the consumer.
    pub(super) fn request(&self) -> &[u8] {
        self.request.as_bytes()
    }

    /// Number of the log of which the request knew how far it was.
    pub(super) fn log(&self) -> u64 {
        self.wanted.log
    }

    /// Until when it may say nothing.
    pub(super) fn patience(&self) -> Timestamp {
        let may_be_silent = match *lock(&self.phase) {
            Phase::Asked | Phase::Answered if self.wanted.is_near => ANSWER_NEAR,
            Phase::Asked | Phase::Answered => ANSWER,
            Phase::Follows(_) => SILENCE,
        };
        self.heard().saturating_add(may_be_silent)
    }

    /// When something came of it last.
    pub(super) fn heard(&self) -> Timestamp {
        self.heard.load(Relaxed)
    }

    /// Whether nothing more comes of it.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        now >= self.patience() || self.with_feed(|feed| feed.is_over())
    }

    /// Visits messages of the feed, see [`RemoteFeed::read`].
    pub(super) fn read(&self, visit: impl FnMut(&Message<'_>) -> bool) -> bool {
        self.with_feed(|feed| feed.read(visit))
    }

    /// Passes [`RemoteFeed::stored`] on.
    pub(super) fn stored(&self, count: usize) {
        self.with_feed(|feed| feed.stored(count));
    }

    /// Takes a question of the feed, see [`RemoteFeed::answerable`].
    pub(super) fn answerable(&self) -> Option<FlowQuestion> {
        self.with_feed(RemoteFeed::answerable)
    }

    /// Messages that are not stored here, see [`RemoteFeed::lag`].
    pub(super) fn lag(&self) -> u64 {
        self.with_feed(|feed| feed.lag())
    }

    /// When the first of these was stored there, if it has come.
    pub(super) fn next_stored(&self) -> Option<Timestamp> {
        self.with_feed(|feed| feed.next_stored())
    }

    fn with_feed<R: Default>(&self, act: impl FnOnce(&mut RemoteFeed) -> R) -> R {
        match &mut *lock(&self.phase) {
            Phase::Follows(feed) => act(feed),
            Phase::Asked | Phase::Answered => R::default(),
        }
    }

    fn unbind(&self) {
        std::mem::take(&mut *lock(&self.bindings)).iter().for_each(|binding| self.account.unbind(binding));
    }
}

impl Drop for RemoteOrigin {
    fn drop(&mut self) {
        self.unbind();
    }
}

impl RemoteRequest {
    /// Sends the request; its answer goes to `reply`, if anywhere.
    pub(super) fn publish(&self, account: &Arc<Account>, host: &dyn Host, reply: &str) {
        let mut out = MessageBuf::default();
        out.push(MessageRef {
            subject: self.subject.as_bytes(),
            reply: reply.as_bytes(),
            headers: self.headers.as_bytes(),
            payload: &self.body,
            ..MessageRef::default()
        });
        host.publish(account, out);
    }
}

/// Receives the answer to a request.
struct AnswerService(Weak<RemoteOrigin>);

impl Service for AnswerService {
    fn serve(&self, batch: &mut ServiceBatch, _: &mut ServiceShard) {
        let Some(origin) = self.0.upgrade() else { return };
        let Some(msg) = batch.msgs.get(0) else { return };
        let is_first = {
            let mut phase = lock(&origin.phase);
            let is_first = matches!(*phase, Phase::Asked);
            if is_first {
                *phase = Phase::Answered;
            }
            is_first
        };
        let Some(follower) = origin.follower.upgrade().filter(|_| is_first) else { return };
        let Wanted { is_mirror, is_given, .. } = origin.wanted;
        let answer = read_answer(msg.headers, msg.payload, is_mirror, is_given);
        follower.answered(origin, answer);
    }
}

/// Receives what the consumer delivers.
struct DeliveryService(Weak<RemoteOrigin>);

impl Service for DeliveryService {
    fn serve(&self, batch: &mut ServiceBatch, shard: &mut ServiceShard) {
        let Some(origin) = self.0.upgrade().filter(|_| !batch.msgs.is_empty()) else { return };
        origin.with_feed(|feed| batch.msgs.iter().for_each(|msg| feed.take(&msg)));
        origin.heard.store(origin.host.now(), Relaxed);
        if let Some(follower) = origin.follower.upgrade() {
            shard.wake(&(follower as Arc<dyn Service>));
        }
    }
}
