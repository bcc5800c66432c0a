//! Facts about other servers that are kept for a moment: what is placed by itself, and not because
//! somebody asks, does not wait for answers.

use super::Meta;
use super::gather::StreamsElsewhere;
use super::placement_facts::FactsByServer;
use crate::engine::JetStream;
use crate::engine::host::PlacementFacts;
use myelin_broker::{Service, ServiceBatch, ServiceShard};
use myelin_stdx::sync::lock;
use std::sync::Weak;
use std::time::{Duration, Instant};

/// Facts are used for so long.
const HOLDS: Duration = Duration::from_secs(5);

/// Facts that were asked for, as they come.
#[derive(Default)]
pub(super) struct KeptFacts {
    asked_at: Option<Instant>,
    /// Servers that were asked and have not answered.
    left: usize,
    found: FactsByServer,
}

/// Takes the answers.
pub(super) struct FactsService(pub(super) Weak<Meta>);

impl Service for FactsService {
    fn serve(&self, batch: &mut ServiceBatch, _: &mut ServiceShard) {
        let Some(meta) = self.0.upgrade() else { return batch.clear() };
        let mut kept = lock(&meta.kept_facts);
        let was_waiting = kept.left > 0;
        for msg in batch.iter() {
            let answer: StreamsElsewhere = serde_json::from_slice(msg.payload).unwrap_or_default();
            let read = answer.into_iter().filter_map(|(server, facts)| {
                Some((server, serde_json::from_str::<PlacementFacts>(facts.get()).ok()?))
            });
            kept.found.extend(read);
            kept.left = kept.left.saturating_sub(1);
        }
        let is_complete = was_waiting && kept.left == 0;
        drop(kept);
        batch.clear();
        if is_complete {
            meta.on_api(|meta, jetstream| meta.replace_servers(jetstream));
        }
    }
}

impl Meta {
    /// Facts about all servers, if those that are there have been asked lately and have answered,
    /// or have had their time to; else they are asked, and streams are looked at again when they
    /// have answered.
    pub(super) fn kept_facts(&self, jetstream: &JetStream) -> Option<FactsByServer> {
        let now = jetstream.host.instant();
        let mut kept = lock(&self.kept_facts);
        let age = kept.asked_at.map(|asked| now.saturating_duration_since(asked));
        match age {
            Some(age) if age < HOLDS && (kept.left == 0 || age >= HOLDS / 2) => {
                let mut facts = kept.found.clone();
                facts.insert(self.name.clone(), jetstream.facts());
                Some(facts)
            }
            Some(age) if age < HOLDS => None,
            _ => {
                kept.found.clear();
                kept.asked_at = Some(now);
                // Answers come on other threads, and wait for this one.
                kept.left = self.ask_for_facts();
                let is_alone = kept.left == 0;
                is_alone.then(|| [(self.name.clone(), jetstream.facts())].into())
            }
        }
    }
}
