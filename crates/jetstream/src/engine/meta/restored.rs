//! Streams that were restored on this server, alone: as soon as the cluster knows them they get the
//! replicas that they are to have, and go to another cluster if they are to be there.

use super::placement_facts::FactsByServer;
use super::suitability::clusters_for;
use super::{AnswerKind, Assignment, LiveStream, Meta, StreamKey};
use crate::engine::JetStream;
use myelin_jsapi::config::StreamConfig;
use myelin_stdx::sync::lock;
use myelin_wire::json::compact;
use myelin_wire::message_buf::{MessageBuf, MessageRef};

impl Meta {
    /// Proposes a stream that was restored here, and has it go where it is to be as soon as the
    /// cluster knows it.
    pub(in crate::engine) fn offer_restored(
        &self,
        jetstream: &JetStream,
        live: &LiveStream,
        (replicas, asking): (i64, Vec<String>),
    ) {
        let mut out = MessageBuf::default();
        self.offer(jetstream, live, &mut out);
        self.groups.publish(out);
        let goes = clusters_for(&live.config(), &asking).first() != Some(&&*jetstream.host.cluster());
        if replicas > 1 || goes {
            let key = StreamKey::new(live.account_name(), live.name());
            lock(&self.restored).push((key, replicas, asking));
        }
    }

    /// Has restored streams that the cluster knows go where they are to be.
    pub(super) fn replicate_restored(&self, jetstream: &JetStream) {
        let is_known = |key: &StreamKey| self.view().get(&key.account, &key.stream).is_some();
        let due: Vec<_> = lock(&self.restored).extract_if(.., |(key, ..)| is_known(key)).collect();
        for (key, replicas, asking) in due {
            let account = jetstream.account(&key.account);
            let Some(live) = account.and_then(|account| account.stream(&key.stream)) else { continue };
            let config = StreamConfig { num_replicas: replicas, ..(*live.config()).clone() };
            let own = jetstream.host.cluster();
            if clusters_for(&config, &asking).first() == Some(&&*own) {
                self.ask_for_replicas(jetstream, &live, &config);
                continue;
            }
            let facts = match self.asks_for(&config).then(|| self.kept_facts(jetstream)) {
                None => FactsByServer::new(),
                Some(Some(facts)) => facts,
                // Others have been asked.
                Some(None) => {
                    lock(&self.restored).push((key, replicas, asking));
                    continue;
                }
            };
            let peers = self.place_stream(&config, &facts, &asking).unwrap_or_default();
            match peers.first() {
                Some(first) if self.cluster_of(first) != own => {
                    self.send_away(jetstream, &key, (config, peers));
                }
                _ => self.ask_for_replicas(jetstream, &live, &config),
            }
        }
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

    /// Has a stream of this server move to those of another cluster.
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
            reply: String::new(),
            answer: AnswerKind::Update,
            ..known.moved(peers, jetstream.host.now())
        };
        let mut out = MessageBuf::default();
        self.write(&moved, &mut out);
        self.groups.publish(out);
    }
}
