//! How a connection ends: its subscriptions first, its last words next, its socket last.

use super::reader::ConnTask;
use crate::supervise::{self, SupervisedPart};
use myelin_wire::error::CloseReason;
use myelin_wire::websocket::close;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Patience with a connection that ends: usually, and with one that only its peer has ended.
pub(super) const LINGER: Duration = Duration::from_secs(1);
const LONGEST_LINGER: Duration = Duration::from_secs(60);
/// Unread bytes that are thrown away at the end, so that closing does not reset the connection
/// under the last error message.
const MAX_DISCARD: usize = 4 * 1024 * 1024;

impl ConnTask {
    /// The orderly end: subscriptions go first, so that nothing more is routed here; then what is
    /// staged goes out, and the peer gets a moment to take it.
    pub(super) async fn finish(&mut self, reason: CloseReason) {
        let conn = Arc::clone(&self.link.conn);
        let removal = self.session.end(&mut self.local.shard.borrow_mut(), reason, Instant::now());
        if let Some(removal) = removal {
            supervise::blocking_on(&self.local.control, SupervisedPart::Removal, || removal.run());
        }
        self.local.flush();
        // What a WebSocket has to say to who has closed it, or does not know how to speak it.
        let answer = self.frames.as_ref().and_then(|frames| frames.farewell());
        if answer.is_some() || has_last_words(reason) {
            let linger = async {
                while conn.pending() > 0 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let _ = tokio::time::timeout(patience(reason), linger).await;
            if let Some(frames) = &self.link.frames {
                frames.farewell(&answer.unwrap_or_else(|| close::farewell(reason)), &self.link);
            }
            if let Some(tls) = self.link.secure() {
                tls.farewell(&self.link.write);
            }
            self.discard_unread();
        }
        self.let_go();
    }

    /// The very end, of which nobody is told.
    pub(super) fn let_go(&self) {
        let conn = &self.link.conn;
        self.local.links.borrow_mut().remove(&conn.cid());
        conn.discard();
        self.link.end();
        self.local.mailbox.forget_one();
    }

    /// Closing a socket with unread bytes resets it, and the peer may never see the last message.
    fn discard_unread(&mut self) {
        let mut buffer = self.local.buffer.borrow_mut();
        let mut discarded = 0;
        while discarded < MAX_DISCARD
            && let Ok(n) = self.read.try_read(&mut buffer)
            && n > 0
        {
            discarded += n;
        }
    }
}

/// How long a connection that ends may take to accept what waits for it. A client that has only
/// closed its own direction may take its time: the write deadline watches over it.
fn patience(reason: CloseReason) -> Duration {
    match reason {
        CloseReason::ClientClosed => LONGEST_LINGER,
        _ => LINGER,
    }
}

/// Whether there is a peer that should still read what was said.
fn has_last_words(reason: CloseReason) -> bool {
    use CloseReason as R;
    !matches!(
        reason,
        R::ReadError | R::WriteError | R::SlowConsumerPendingBytes | R::SlowConsumerWriteDeadline
    )
}
