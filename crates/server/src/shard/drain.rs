//! A blocked outbox: waits for the socket and writes on, until it is empty or the peer is given up.

use super::ShardLocal;
use super::conn_handle::ConnHandle;
use crate::supervise::{self, SupervisedPart};
use myelin_broker::{Conn, Drained, Level, Span};
use myelin_wire::error::CloseReason;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::time::{Instant, timeout_at};

/// Holds the claim of `conn`'s outbox from beginning to end, and ends when the connection does.
/// After a panic the claim is nobody's, and nothing more could be written: then the connection
/// ends.
pub(super) async fn run(local: Rc<ShardLocal>, conn: Arc<Conn>, link: Rc<ConnHandle>) {
    let writing = pin!(write_on(&local, &conn, &link));
    if supervise::guarded(SupervisedPart::Drain, writing).await.is_none() {
        conn.close(CloseReason::InternalError);
    }
}

async fn write_on(local: &Rc<ShardLocal>, conn: &Arc<Conn>, link: &Rc<ConnHandle>) {
    let settings = Arc::clone(local.shard.borrow().settings());
    let (deadline, retries) = conn.write_terms(&settings);
    let mut last_progress = Instant::now();
    let mut slow: Option<Slow> = None;
    loop {
        tokio::select! {
            ready = timeout_at(last_progress + deadline, link.write.writable()) => match ready {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return conn.close(CloseReason::WriteError),
                Err(_) if retries => {
                    report(local, conn, if slow.is_some() { "State" } else { "Detected" });
                    slow.get_or_insert_with(|| Slow::now(conn, last_progress));
                    last_progress = Instant::now();
                    continue;
                }
                Err(_) => return give_up(local, conn),
            },
            () = link.ended() => return,
        }
        let drained = local.drain(conn);
        match drained {
            Drained::Empty => {
                if let Some(slow) = slow {
                    slow.recovered(local, conn);
                }
                return;
            }
            Drained::Failed(_) => return,
            Drained::Blocked { progress: true } => last_progress = Instant::now(),
            Drained::Blocked { progress: false } => {}
        }
    }
}

/// Bytes that waited when a peer was found to be slow, and are written on nevertheless.
struct Slow {
    since: Instant,
    chunks: usize,
    bytes: usize,
}

impl Slow {
    fn now(conn: &Conn, since: Instant) -> Self {
        Self { since, chunks: conn.pending_chunks(), bytes: conn.pending() }
    }

    fn recovered(self, local: &ShardLocal, conn: &Conn) {
        let (seconds, chunks, bytes) = (self.since.elapsed().as_secs_f64(), self.chunks, self.bytes);
        let took = format_args!("Flush took {seconds:.3}s with {chunks} chunks of {bytes} total bytes.");
        local.broker.log_for(Level::Info, conn, format_args!("Slow Consumer Recovered: {took}"));
    }
}

/// Counts and logs a peer that took nothing for the whole write deadline.
fn report(local: &ShardLocal, conn: &Conn, state: &str) {
    local.broker.counters().slow(conn.kind()).fetch_add(1, Relaxed);
    let deadline = Span(conn.write_terms(&local.broker.settings()).0);
    let (chunks, bytes) = (conn.pending_chunks(), conn.pending());
    let what = format_args!("exceeded with {chunks} chunks of {bytes} total bytes.");
    let line = format_args!("Slow Consumer {state}: WriteDeadline of {deadline} {what}");
    local.broker.log_for(Level::Info, conn, line);
}

/// Ends it.
fn give_up(local: &ShardLocal, conn: &Arc<Conn>) {
    report(local, conn, "Detected");
    conn.close(CloseReason::SlowConsumerWriteDeadline);
    conn.discard();
}
