//! Streams that were restored on this server, alone: as soon as the cluster knows them they are
//! served, get the replicas that they are to have, and go to the servers that were chosen for them.
//! Another one of the name that was made meanwhile counts, and the restored one goes.

use super::placement_facts::FactsByServer;
use super::restored_stream::{RestoredPlace, RestoredState, RestoredStream};
use super::{AnswerKind, Asked, Assignment, LiveStream, Meta, PROPOSAL_WAIT, StreamKey};
use crate::engine::JetStream;
use crate::engine::account::AccountStreams;
use myelin_jsapi::ApiError;
use myelin_jsapi::config::StreamConfig;
use myelin_stdx::sync::lock;
use myelin_store::Timestamp;
use myelin_wire::json::compact;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::Arc;

impl Meta {
    /// Proposes a stream that was restored here, and waits until the cluster knows it. It is served
    /// then, and goes where it is to be.
    ///
    /// # Errors
    /// Another one of its name was quicker, and this one is gone. Or nobody knows yet, and it is
    /// served if and when the cluster knows it.
    pub(in crate::engine) async fn offer_restored(
        &self,
        jetstream: &JetStream,
        live: &LiveStream,
        place: RestoredPlace,
    ) -> Result<(), ApiError> {
        let key = StreamKey::new(live.account_name(), live.name());
        let (state, created) = (RestoredState::Offered, live.created());
        lock(&self.restored).push(RestoredStream { key: key.clone(), created, place, state });
        let mut out = MessageBuf::default();
        self.offer(jetstream, live, &mut out);
        self.groups.publish(out);
        let deadline = jetstream.host.instant() + PROPOSAL_WAIT;
        let outcome = || {
            if live.is_gone() {
                let last = self.view().last(&key);
                let was_it =
                    |last: &Assignment| last.created == created || self.view().has_replaced(last, created);
                let lost = Err(ApiError::STREAM_NAME_EXIST_RESTORE_FAILED);
                return Some(if last.is_some_and(|last| was_it(&last)) { Ok(()) } else { lost });
            }
            let is_over = jetstream.host.instant() >= deadline;
            match self.is_offered(&key, created) {
                false => Some(Ok(())),
                true => is_over.then_some(Err(ApiError::CLUSTER_NOT_AVAIL)),
            }
        };
        loop {
            // That this server leads no more does not matter.
            if let Some(outcome) = self.waits.until(&outcome).await {
                return outcome;
            }
        }
    }

    /// Whether a stream that was restored here is not known to the cluster.
    fn is_offered(&self, key: &StreamKey, created: Timestamp) -> bool {
        let is_it =
            |one: &RestoredStream| one.is(key, created) && matches!(one.state, RestoredState::Offered);
        lock(&self.restored).iter().any(is_it)
    }

    /// Removes the stream of this name that was restored here, if that is one that the cluster does
    /// not know, and this assignment is another one's. Answers the stream that is here then.
    pub(super) fn make_way(
        &self,
        jetstream: &Arc<JetStream>,
        (account, assignment): (&AccountStreams, &Assignment),
        local: Option<Arc<LiveStream>>,
    ) -> Option<Arc<LiveStream>> {
        let live = local?;
        let is_another = !assignment.is_removed && live.created() != assignment.created;
        if !is_another || !self.is_offered(&assignment.key, live.created()) {
            return Some(live);
        }
        if let Err(error) = account.delete_and_wait(jetstream, &live, &mut MessageBuf::default()) {
            // It stays without being served until it can be removed.
            self.note_failed(jetstream, assignment, &error);
            return Some(live);
        }
        lock(&self.restored).retain(|one| !one.is(&assignment.key, live.created()));
        None
    }

    /// Has a stream be served that was restored here, if it is one of those that are not yet, now
    /// that the cluster knows it.
    pub(super) fn serve_restored(
        &self,
        jetstream: &JetStream,
        (account, assignment): (&AccountStreams, &Assignment),
        live: &Arc<LiveStream>,
    ) {
        if live.created() != assignment.created || !self.is_offered(&assignment.key, live.created()) {
            return;
        }
        let now = jetstream.host.instant();
        let mut restored = lock(&self.restored);
        let all = restored.iter_mut().filter(|one| one.is(&assignment.key, live.created()));
        all.for_each(|one| one.state = RestoredState::Alone { due: now, tries: 0 });
        drop(restored);
        account.serve(live);
    }

    /// The stream itself, as long as it is here.
    fn restored_live(jetstream: &JetStream, one: &RestoredStream) -> Option<Arc<LiveStream>> {
        let live = jetstream.account(&one.key.account)?.stream(&one.key.stream)?;
        (live.created() == one.created).then_some(live)
    }

    /// Has restored streams that the cluster knows go where they are to be, as often as that has to
    /// be tried.
    pub(super) fn replicate_restored(&self, jetstream: &JetStream) {
        let now = jetstream.host.instant();
        let is_due = |one: &RestoredStream| match one.state {
            RestoredState::Offered => Self::restored_live(jetstream, one).is_none(),
            RestoredState::Alone { due, .. } => due <= now,
        };
        let due: Vec<_> = lock(&self.restored).extract_if(.., |one| is_due(one)).collect();
        let left: Vec<_> = due.into_iter().filter_map(|one| self.bring_on(jetstream, one)).collect();
        lock(&self.restored).extend(left);
    }

    /// Has a restored stream go where it is to be, and answers it if that may have to be tried
    /// again.
    fn bring_on(&self, jetstream: &JetStream, one: RestoredStream) -> Option<RestoredStream> {
        let live = Self::restored_live(jetstream, &one)?;
        let known = self.view().get(&one.key.account, &one.key.stream)?;
        // Once that is committed others see to it. Or somebody has asked for something else.
        let is_alone = known.peers == [self.name.as_str()] && known.config.num_replicas == 1;
        if known.created != one.created || !is_alone {
            return None;
        }
        let (place, now) = (&one.place, jetstream.host.instant());
        let config = StreamConfig { num_replicas: place.replicas, ..(*live.config()).clone() };
        let are_there = !place.servers.is_empty() && place.servers.iter().all(|server| self.has(server));
        let peers = if are_there {
            place.servers.clone()
        } else {
            let facts = match self.asks_for(&config).then(|| self.kept_facts(jetstream)) {
                None => FactsByServer::new(),
                Some(Some(facts)) => facts,
                // Others have been asked.
                Some(None) => return Some(one),
            };
            self.place_stream(&config, &facts, &place.asking).unwrap_or_default()
        };
        let is_known = !peers.is_empty();
        if is_known && !peers.contains(&self.name) {
            self.send_away(jetstream, &one.key, (config, peers));
            return Some(one.again(now));
        }
        self.ask_for_replicas(jetstream, &live, &config);
        (place.replicas > 1 || !is_known).then(|| one.again(now))
    }

    /// Asks for the replicas of a stream, as a client would: whoever leads the meta group then
    /// decides.
    fn ask_for_replicas(&self, jetstream: &JetStream, live: &LiveStream, config: &StreamConfig) {
        if config.num_replicas == live.config().num_replicas {
            return;
        }
        let (subject, payload) = (format!("$JS.API.STREAM.UPDATE.{}", live.name()), compact(config));
        let (subject, mut out) = (subject.as_bytes(), MessageBuf::default());
        out.push(MessageRef { subject, payload: &payload, ..MessageRef::default() });
        jetstream.host.publish(live.account(), out);
    }

    /// Has a stream of this server move to others.
    fn send_away(
        &self,
        jetstream: &JetStream,
        key: &StreamKey,
        (config, peers): (StreamConfig, Vec<String>),
    ) {
        let Some(known) = self.view().get(&key.account, &key.stream) else { return };
        let moved = Assignment {
            config,
            nonce: jetstream.seed(),
            asked: Asked::default(),
            answer: AnswerKind::Update,
            ..known.moved(peers, jetstream.host.now())
        };
        let mut out = MessageBuf::default();
        self.write(&moved, &mut out);
        self.groups.publish(out);
    }
}
