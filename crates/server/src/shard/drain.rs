//! A blocked outbox: waits for the socket and writes on, until it is empty or the peer is given up.

use super::Local;
use super::link::Link;
use myelin_broker::{Conn, Drained, Level};
use myelin_wire::error::CloseReason;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::time::{Instant, timeout_at};

/// Holds the claim of `conn`'s outbox from beginning to end, and ends when the connection does.
pub(super) async fn run(local: Rc<Local>, conn: Arc<Conn>, link: Rc<Link>) {
    let settings = Arc::clone(local.shard.borrow().settings());
    let deadline = settings.write_deadline;
    let mut last_progress = Instant::now();
    loop {
        tokio::select! {
            ready = timeout_at(last_progress + deadline, link.write.writable()) => match ready {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return conn.close(CloseReason::WriteError),
                Err(_) if settings.retry_writes => {
                    last_progress = Instant::now();
                    continue;
                }
                Err(_) => return give_up(&local, &conn),
            },
            () = link.ended() => return,
        }
        match local.shard.borrow_mut().drain(&conn) {
            Drained::Empty | Drained::Failed => return,
            Drained::Blocked { progress: true } => last_progress = Instant::now(),
            Drained::Blocked { progress: false } => {}
        }
    }
}

/// Ends a peer that took nothing for the whole write deadline.
fn give_up(local: &Local, conn: &Arc<Conn>) {
    local.broker.counters().slow_consumers.fetch_add(1, Relaxed);
    let (deadline, pending) = (local.broker.settings().write_deadline, conn.pending());
    let chunks = conn.pending_chunks();
    local.broker.log_for(
        Level::Info,
        conn,
        format_args!("Slow Consumer Detected: WriteDeadline of {deadline:?} exceeded with {chunks} chunks of {pending} total bytes."),
    );
    conn.close(CloseReason::SlowConsumerWriteDeadline);
    conn.discard();
}
