//! Changes of streams' configurations as they are assigned: that waits for the disk, and the thread
//! of the API does not. What else is assigned in the stream's account is carried out behind it, in
//! order: another stream may take the room, or the subject, that this one gives up.

use super::Meta;
use super::reconcile::SeenAssignment;
use crate::engine::JetStream;
use crate::engine::account::AccountStreams;
use crate::engine::api_future::run_on_api;
use crate::engine::live::LiveStream;
use myelin_stdx::sync::lock;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Assignments that wait until a change in their account is through, in order.
#[derive(Default)]
pub(super) struct Changing(Mutex<BTreeMap<String, VecDeque<SeenAssignment>>>);

impl Changing {
    /// Has an assignment wait in whose account a stream is being changed; gives any other one back.
    pub(super) fn pass(&self, seen: SeenAssignment) -> Option<SeenAssignment> {
        match lock(&self.0).get_mut(&seen.assignment.key.account) {
            Some(waiting) => {
                waiting.push_back(seen);
                None
            }
            None => Some(seen),
        }
    }

    /// Whether a stream of an account is being changed.
    pub(super) fn is_in(&self, account: &str) -> bool {
        lock(&self.0).contains_key(account)
    }

    fn begin(&self, account: &str) {
        let before = lock(&self.0).insert(account.to_owned(), VecDeque::new());
        debug_assert!(before.is_none(), "one change in an account at a time");
    }

    fn end(&self, account: &str) -> VecDeque<SeenAssignment> {
        lock(&self.0).remove(account).unwrap_or_default()
    }
}

/// A change of a stream that goes on. However it ends, what waits for it is carried out.
struct StreamUpdateUnderWay {
    meta: Arc<Meta>,
    account: String,
}

impl Drop for StreamUpdateUnderWay {
    fn drop(&mut self) {
        let account = std::mem::take(&mut self.account);
        // What comes before that goes on to wait behind the others.
        self.meta.on_api(move |meta, jetstream| {
            let waiting = meta.faults.changing.end(&account);
            waiting.into_iter().for_each(|seen| meta.carry_out(jetstream, seen));
        });
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
        self.faults.changing.begin(&seen.assignment.key.account);
        let under_way = StreamUpdateUnderWay { meta, account: seen.assignment.key.account.clone() };
        let host = Arc::clone(&jetstream.host);
        run_on_api(&host, async move {
            let updated = account.update(&jetstream, &live, seen.assignment.config.clone()).await;
            let done = updated.map(|()| live);
            under_way.meta.conclude(&jetstream, &account, &seen, (true, done));
        });
    }
}
