//! Consumers that nobody uses any more: they end on the thread of the API, all due ones together.
//!
//! In a group the end of each waits for a commit. A client that is gone may leave a thousand, and
//! one after the other they would keep that thread for seconds.

use super::StreamConsumers;
use super::live::LiveConsumer;
use crate::engine::CallScope;
use crate::engine::waits::{block_on, together};
use myelin_wire::message_buf::MessageBuf;
use std::sync::Arc;

impl StreamConsumers {
    /// Ends a consumer that nobody uses.
    pub(super) fn end_unused(&self, live: Arc<LiveConsumer>) {
        let Some(me) = self.me.upgrade() else { return };
        if !self.log.add_unused(live) {
            return;
        }
        let scope = CallScope::Stream(self.account.name().into(), Box::from(&*self.stream));
        self.host.spawn_api(scope, Box::new(move || me.end_all_unused()));
    }

    /// Ends those that nobody uses still.
    fn end_all_unused(&self) {
        let mut unused = self.log.take_unused();
        unused.retain(|live| {
            let is_unused = live.act(|core, turn| {
                core.due(turn);
                std::mem::take(&mut turn.effects.is_over)
            });
            if is_unused != Some(true) {
                live.keep_alive();
            }
            is_unused == Some(true)
        });
        let ends = unused.iter().map(|live| async move {
            let mut out = MessageBuf::default();
            // What was not written is in the log of the server already.
            if self.end(live, false, &mut out).await.is_err() {
                live.end_later();
            }
            out
        });
        for out in block_on(together(ends)) {
            self.host.publish(&self.account, out);
        }
    }
}
