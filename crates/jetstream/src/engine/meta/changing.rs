//! Streams whose configuration is being changed as it is assigned: that waits for the disk, and the
//! thread of the API does not. What else is assigned to such a stream is carried out behind it.

use super::Meta;
use super::assignment::StreamKey;
use super::reconcile::SeenAssignment;
use crate::engine::JetStream;
use crate::engine::account::AccountStreams;
use crate::engine::api_future::run_on_api;
use crate::engine::live::LiveStream;
use myelin_stdx::sync::lock;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Assignments that wait until a change of their stream is through, in order.
#[derive(Default)]
pub(super) struct Changing(Mutex<BTreeMap<StreamKey, VecDeque<SeenAssignment>>>);

impl Changing {
    /// Has an assignment wait whose stream is being changed; gives any other one back.
    pub(super) fn pass(&self, seen: SeenAssignment) -> Option<SeenAssignment> {
        match lock(&self.0).get_mut(&seen.assignment.key) {
            Some(waiting) => {
                waiting.push_back(seen);
                None
            }
            None => Some(seen),
        }
    }

    fn begin(&self, key: &StreamKey) {
        let before = lock(&self.0).insert(key.clone(), VecDeque::new());
        debug_assert!(before.is_none(), "one change of a stream at a time");
    }

    fn end(&self, key: &StreamKey) -> VecDeque<SeenAssignment> {
        lock(&self.0).remove(key).unwrap_or_default()
    }
}

/// A change of a stream that goes on. However it ends, what waits for it is carried out.
struct StreamUpdateUnderWay {
    meta: Arc<Meta>,
    key: StreamKey,
}

impl Drop for StreamUpdateUnderWay {
    fn drop(&mut self) {
        let waiting = self.meta.changing.end(&self.key);
        if !waiting.is_empty() {
            self.meta.on_api(move |meta, jetstream| {
                waiting.into_iter().for_each(|seen| meta.carry_out(jetstream, seen));
            });
        }
    }
}

impl Meta {
    /// Has a stream get the configuration that it is assigned, and then says what came of it.
    pub(super) fn change_config(
        &self,
        jetstream: &Arc<JetStream>,
        account: &Arc<AccountStreams>,
        live: Arc<LiveStream>,
        seen: SeenAssignment,
    ) {
        let Some(meta) = self.me.upgrade() else { return };
        let (jetstream, account) = (Arc::clone(jetstream), Arc::clone(account));
        let key = seen.assignment.key.clone();
        self.changing.begin(&key);
        let under_way = StreamUpdateUnderWay { meta, key };
        let host = Arc::clone(&jetstream.host);
        run_on_api(&host, async move {
            let updated = account.update(&jetstream, &live, seen.assignment.config.clone()).await;
            let done = updated.map(|()| live);
            under_way.meta.conclude(&jetstream, &account, &seen, (true, done));
        });
    }
}
