//! How a connection ends: its subscriptions first, its last words next, its socket last.

use super::reader::{AfterBatch, ConnTask};
use crate::supervise::{self, SupervisedPart};
use myelin_broker::{Conn, StopReason};
use myelin_wire::error::CloseReason;
use myelin_wire::websocket::close;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Patience with a connection that ends: usually, and with one that only its peer has ended.
pub(super) const LINGER: Duration = Duration::from_secs(1);
const LONGEST_LINGER: Duration = Duration::from_secs(60);
/// Patience with a peer that takes what waits for it bit by bit when this server ends.
pub(super) const LINGER_AT_SHUTDOWN: Duration = Duration::from_secs(10);
/// Patience with a client that was refused a payload, before its connection is reset.
const BEFORE_RESET: Duration = Duration::from_millis(100);
/// Bytes of a refused message that nobody is reset for. Compat: as many the reference reads at once
/// from a client that has sent little before.
const FIRST_READ: usize = 512;
/// Unread bytes that are thrown away at the end, so that closing does not reset the connection
/// under the last error message.
const MAX_DISCARD: usize = 4 * 1024 * 1024;

impl ConnTask {
    /// The orderly end: subscriptions go first, so that nothing more is routed here; then what is
    /// staged goes out, and the peer gets a moment to take it.
    pub(super) async fn finish(&mut self, reason: CloseReason) {
        let conn = Arc::clone(&self.link.conn);
        let removal = self.session.end(&mut self.local.shard.borrow_mut(), reason, Instant::now());
        if let Some(due) = self.session.will_due() {
            self.local.timers.enter(due, conn.cid());
        }
        if let Some(removal) = removal {
            supervise::blocking_on(&self.local.control, SupervisedPart::Removal, || removal.run());
        }
        self.local.flush();
        // What a WebSocket has to say to who has closed it, or does not know how to speak it.
        let answer = self.frames.as_ref().and_then(|frames| frames.farewell());
        if answer.is_some() || has_last_words(reason) {
            wait_until_taken(&conn, patience(reason)).await;
            if let Some(frames) = self.link.frames() {
                frames.farewell(&answer.unwrap_or_else(|| close::farewell(reason)), &self.link);
            }
            if let Some(tls) = self.link.secure() {
                tls.farewell(&self.link.write);
            }
            if reason == CloseReason::MaximumPayload && self.held_back().len() > FIRST_READ {
                self.reset().await;
            } else if self.session.has_said_why(reason) {
                self.hear_out().await;
            } else {
                self.discard_unread();
            }
        }
        self.let_go();
    }

    /// Says what follows a batch of bytes in the shard's buffer. The rest of what a client has sent
    /// is held, also where it is closed.
    pub(super) fn after_batch(
        &mut self,
        why: StopReason,
        (from, end): (usize, usize),
    ) -> Result<AfterBatch, CloseReason> {
        let next = self.after_ingest(why);
        if next.is_err() {
            self.hold(from, end, 1);
        }
        next
    }

    /// The very end, of which nobody is told.
    pub(super) fn let_go(&self) {
        let conn = &self.link.conn;
        self.local.links.borrow_mut().remove(&conn.cid());
        conn.discard();
        self.link.end();
        self.local.mailbox.forget_one();
    }

    /// Resets the connection, unless the peer ends it by itself within a moment: it has read then
    /// why.
    ///
    /// Compat: the reference closes a socket in which most of a refused payload is unread, which
    /// resets it at once. Clients tell that from an orderly end. Some systems throw away what the
    /// client has not read yet when a reset comes; the moment is for them.
    async fn reset(&mut self) {
        if tokio::time::timeout(BEFORE_RESET, self.discard_to_end()).await.is_err() {
            // An error means that there is nothing to reset any more.
            let _ = rustix::net::connect_unspec(self.read.as_ref());
        }
    }

    /// Leaves a client of MQTT 5 a moment to read why the connection ends and to close it. Closing
    /// at once would reset the connection while the client still sends, and it might never see it.
    async fn hear_out(&mut self) {
        let _ = rustix::net::shutdown(self.read.as_ref(), rustix::net::Shutdown::Write);
        // Whoever does not close it is not waited for.
        let _ = tokio::time::timeout(LINGER, self.discard_to_end()).await;
    }

    /// Reads and throws away what the peer sends until it ends the connection.
    async fn discard_to_end(&mut self) {
        let mut discarded = 0;
        while discarded < MAX_DISCARD && self.read.readable().await.is_ok() {
            let read = self.read.try_read(&mut self.local.buffer.borrow_mut());
            match read {
                Ok(0) => return,
                Ok(n) => discarded += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
        std::future::pending().await
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

/// Waits until a peer has taken what waits for it: at most for `longest`, and at most for `pause`
/// while it takes nothing.
pub(super) async fn wait_until_taken(conn: &Conn, (longest, pause): (Duration, Duration)) {
    let began = Instant::now();
    let (mut pending, mut since) = (conn.pending(), began);
    while pending > 0 && began.elapsed() < longest && since.elapsed() < pause {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let left = conn.pending();
        if left < pending {
            since = Instant::now();
        }
        pending = left;
    }
}

/// Time that a connection which ends may take for what waits for it, and time in which it may take
/// nothing meanwhile. A client that has only closed its own direction may take its time: the write
/// deadline watches over it.
fn patience(reason: CloseReason) -> (Duration, Duration) {
    match reason {
        CloseReason::ClientClosed => (LONGEST_LINGER, LONGEST_LINGER),
        CloseReason::ServerShutdown => (LINGER_AT_SHUTDOWN, LINGER),
        _ => (LINGER, LINGER),
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
