//! How a source reader follows an origin on another server, behind a leaf node or a hub.
//!
//! It asks for a consumer there that begins behind what is stored here, and takes what that
//! delivers as it takes what it reads of a log. The request goes out when somebody is known to take
//! it: where the link is away, it goes when that is back. A consumer that is silent for three
//! seconds, or of which something is lost, is given up for another one. So it does not matter what
//! was on its way when a link ended: what is stored here says where to go on.

use super::connect::Missed;
use super::read_state::{Feed, OriginLink, ReadState};
use super::remote_feed::RemoteFeed;
use super::remote_origin::{Follower, RemoteOrigin, RemoteSearch, Wanted};
use super::remote_request::{Asking, RemoteConsumer, RemoteRefusal, RemoteRequest};
use super::source_consumer::{SourceConsumer, deliver_prefix};
use super::source_reader::SourceReader;
use crate::engine::{CallScope, JetStream, LiveStream};
use myelin_broker::{ServiceShard, Watcher};
use myelin_stdx::sync::lock;
use myelin_streams::stream::StreamCore;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::{Arc, Weak};

impl SourceReader {
    /// Asks for a consumer of the origin; its answer may come while the stream has the log that the
    /// read state says. On the thread that answers the API.
    pub(super) fn ask(&self, jetstream: &JetStream, stream: &LiveStream, log: u64) -> Result<(), Missed> {
        let Some(me) = self.me.upgrade() else { return Err(None.into()) };
        let mut remote = lock(&self.remote);
        // Where nobody takes requests any more, what was on its way is lost.
        let is_pending = |asked: &&Arc<RemoteOrigin>| {
            asked.patience() > self.host.now() && self.account.has_interest(asked.request())
        };
        if let Some(patience) = remote.asked.as_ref().filter(is_pending).map(|asked| asked.patience()) {
            drop(remote);
            // The alarm that brought it here was another one.
            self.schedule_at(patience);
            return Ok(());
        }
        remote.asked = None;
        let token = token(jetstream);
        let wanted = Wanted {
            inbox: format!("$JSC.R.{token}"),
            deliver_subject: self.deliver_subject(&token),
            is_mirror: self.is_mirror,
            is_given: self.source.consumer.is_some(),
            is_near: self.source.external.is_none(),
            log,
        };
        let request = self.request(jetstream, stream, &remote, &wanted);
        let watcher = Arc::downgrade(&me) as Weak<dyn Watcher>;
        remote.watch = Some(self.account.watch(request.subject.as_bytes(), watcher));
        if !self.account.has_interest(request.subject.as_bytes()) {
            return Err(None.into());
        }
        let follower = Arc::downgrade(&me) as Weak<dyn Follower>;
        let asked = RemoteOrigin::ask(&self.account, &self.host, follower, &request, wanted);
        let patience = asked.patience();
        remote.asked = Some(asked);
        drop(remote);
        self.schedule_at(patience);
        Ok(())
    }

    fn request(
        &self,
        jetstream: &JetStream,
        stream: &LiveStream,
        remote: &RemoteSearch,
        wanted: &Wanted,
    ) -> RemoteRequest {
        let position = lock(&self.read_state).position.clone().unwrap_or_default();
        let is_old = remote.is_old;
        let (source, is_mirror, identity) = (&self.source, self.is_mirror, position.identity.as_str());
        let asking = Asking { source, is_mirror, identity, is_old };
        if let Some(given) = &source.consumer {
            return asking.reset(&given.name);
        }
        let start = self.start(&stream.reader());
        let deliver_subject = wanted.deliver_subject.clone();
        let name = stream.config();
        let mut config =
            self.name_in(&name).consumer_config(&jetstream.settings.domain, deliver_subject, start);
        config.name.clone_into(&mut lock(&self.read_state).asked_for);
        if is_old {
            config.sourcing = false;
            config.name = format!("{}_{}", config.name, token(jetstream));
        }
        asking.create(&config)
    }

    fn deliver_subject(&self, token: &str) -> String {
        match &self.source.consumer {
            Some(given) => given.deliver_subject.clone(),
            None => deliver_prefix(&self.source, self.is_mirror) + token,
        }
    }

    /// Takes the answer of the server there. On the thread that answers the API.
    fn enter(&self, origin: &Arc<RemoteOrigin>, answer: Result<RemoteConsumer, RemoteRefusal>) {
        if self.search.is_over() {
            return;
        }
        let mut remote = lock(&self.remote);
        if remote.asked.take_if(|asked| Arc::ptr_eq(asked, origin)).is_none() {
            // Another one was asked for since.
            return;
        }
        remote.watch = None;
        let found = match answer {
            Ok(consumer) => {
                drop(remote);
                self.follow(origin, &consumer)
            }
            Err(RemoteRefusal::OtherStream) => {
                drop(remote);
                let since = self.since_anew();
                lock(&self.read_state).begin_anew(since);
                return self.connect_soon();
            }
            Err(RemoteRefusal::TooNew) if !remote.is_old => {
                remote.is_old = true;
                drop(remote);
                return self.connect_soon();
            }
            Err(refusal) => {
                drop(remote);
                Err(Missed::Because(match refusal {
                    RemoteRefusal::Because(error) => Some(error),
                    _ => None,
                }))
            }
        };
        self.conclude(found);
    }

    /// Takes what this consumer delivers from now on.
    fn follow(&self, origin: &Arc<RemoteOrigin>, consumer: &RemoteConsumer) -> Result<(), Missed> {
        let mut identity = consumer.identity.clone();
        if identity.is_empty() {
            // A server that does not say.
            let read_state = lock(&self.read_state);
            identity =
                read_state.position.as_ref().map_or(String::new(), |position| position.identity.clone());
        }
        let Some((own, is_new)) = self.place(&identity, origin.log()) else { return Err(None.into()) };
        if is_new {
            // It was asked for one behind what is here of the stream before.
            return Err(Missed::Unreleased);
        }
        let feed = RemoteFeed::new(consumer.delivery, own, consumer.pending);
        let floor = self.is_mirror.then_some(consumer.seq);
        let link = OriginLink {
            identity,
            floor,
            feed: Feed::Remote { origin: Arc::clone(origin), consumer: consumer.name.clone() },
        };
        origin.follow(feed);
        let mut read_state = lock(&self.read_state);
        if read_state.log != origin.log() || self.search.is_over() {
            return Err(None.into());
        }
        read_state.unacked.clear();
        read_state.questions.clear();
        read_state.link = Some(link);
        Ok(())
    }

    /// Notes that the first `done` messages of a run are stored, and what may be answered when they
    /// are released.
    pub(super) fn note_remote(&self, read_state: &mut ReadState, core: &StreamCore, done: usize) {
        let Some(Feed::Remote { origin, .. }) = read_state.link.as_ref().map(|link| &link.feed) else {
            return;
        };
        origin.stored(done);
        let mut has_questions = false;
        while let Some(question) = origin.answerable() {
            has_questions = true;
            read_state.questions.push_back((core.store().ticket(), question));
        }
        if let Some(stream) = self.stream.upgrade().filter(|_| has_questions) {
            stream.sourcing_marks().note_unacked();
        }
    }

    /// Answers questions of flow control before which everything is released. Not inside a turn.
    pub(super) fn answer_questions(&self, stream: &LiveStream) {
        let mut out = MessageBuf::default();
        let mut read_state = lock(&self.read_state);
        // With the lock in hand: tickets are of the log that is read now.
        let reader = stream.reader();
        let is_released = |(ticket, _): &mut (_, _)| reader.release().is_released(*ticket);
        while let Some((_, question)) = read_state.questions.pop_front_if(is_released) {
            let headers = question.answer();
            let (subject, headers) = (&*question.subject, headers.as_bytes());
            out.push(MessageRef { subject, headers, ..MessageRef::default() });
        }
        if !read_state.questions.is_empty() {
            stream.sourcing_marks().note_unacked();
        }
        drop(read_state);
        if !out.is_empty() {
            self.host.publish(&self.account, out);
        }
    }

    /// Forgets what it was about to follow.
    pub(super) fn stop_asking(&self) {
        *lock(&self.remote) = RemoteSearch::default();
    }

    /// Has the consumer there deleted: the stream copies something else, or is gone.
    pub(super) fn delete_remote(&self, consumer: &str) {
        if self.source.consumer.is_none() {
            let asking =
                Asking { source: &self.source, is_mirror: self.is_mirror, identity: "", is_old: false };
            asking.delete(consumer).publish(&self.account, &*self.host, "");
        }
    }

    /// As [`delete_remote`](Self::delete_remote), where nothing is heard of what was asked for.
    pub(super) fn delete_asked(&self) {
        let asked_for = std::mem::take(&mut lock(&self.read_state).asked_for);
        if !asked_for.is_empty() {
            self.delete_remote(&asked_for);
        }
    }

    /// Lets go of a consumer on this server. One that another server of the cluster has made for
    /// the same stream, when it led that, is deleted as there. What is this server's own is seen to
    /// by what is written about it, and what clients have made is theirs.
    pub(super) fn let_go_of(&self, consumer: &SourceConsumer) {
        consumer.release();
        let is_clustered = self.jetstream.upgrade().is_some_and(|jetstream| jetstream.meta().is_some());
        if is_clustered && !consumer.is_client_made() && !consumer.is_own() {
            self.delete_remote(consumer.name());
        }
    }
}

/// A token that nobody has guessed or used.
fn token(jetstream: &JetStream) -> String {
    jetstream.host.unique_id().chars().rev().take(8).collect()
}

impl Follower for SourceReader {
    fn answered(&self, origin: Arc<RemoteOrigin>, answer: Result<RemoteConsumer, RemoteRefusal>) {
        let Some(me) = self.me.upgrade() else { return };
        let Some(stream) = self.stream.upgrade() else { return };
        let scope = CallScope::Stream(self.account.name().into(), stream.name().into());
        self.host.spawn_api(scope, Box::new(move || me.enter(&origin, answer)));
    }
}

impl Watcher for SourceReader {
    fn interest_changed(&self, _: Option<&mut ServiceShard>) {
        lock(&self.status).failures = 0;
        self.connect_soon();
    }
}
