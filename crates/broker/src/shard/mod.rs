//! A shard: everything of the data path that belongs to one thread.
//!
//! A session stages what it has to say here; [`Shard::flush`] moves it all into the outboxes and
//! then writes the sockets (contracts.md C5). Budget per published message with a cached route: no
//! lock, no allocation, no system call; no atomic read-modify-write but for queue groups and
//! delivery limits.
//!
//! A shard's routes, stages, cohorts and buffers belong to one thread, and nothing in them is
//! locked or atomic. What several shards share is behind short locks of its own: outboxes and
//! indexes.

mod asker;
pub(crate) mod asking_cluster;
mod cohort;
mod congestion;
mod fanout;
mod gateway;
mod latency;
mod leaf;
mod mapped_replies;
mod mqtt;
mod mqtt5;
mod mqtt_certificate;
mod mqtt_targets;
mod mqtt_will;
mod pool;
mod remote;
mod route;
mod routed;
mod rules;
mod send;
mod service_import;
mod service_members;
mod service_queue;
mod serving;
mod source;
mod staging;
mod targets;

use crate::broker::Broker;
use crate::conn::Conn;
use crate::link::end::LinkEnd;
use crate::log::Level;
use crate::outbox::{Drained, Queued};
use crate::service::Service;
use crate::settings::Settings;
use crate::subscription::Subscription;
use crate::traffic::Traffic;
use myelin_stdx::rng::Rng;
use myelin_wire::error::{CloseReason, ErrorText};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

pub use congestion::AwaitedReceiver;
pub(crate) use fanout::{PubMessage, Published, Publisher};
pub use latency::LatencyEvent;
pub(crate) use mqtt::{MqttPublish, StagedPublish};
pub(crate) use mqtt5::Mqtt5Packet;
use pool::Pool;
use route::{Routes, Touched};
pub(crate) use routed::RoutedBuffers;
use service_queue::ServiceQueue;
pub(crate) use source::Source;
use staging::Staging;

/// Staged bytes at which a session should stop and let the shard flush: enough to amortise the
/// writes, little enough for the sockets to take at once.
///
/// Perf: against 256 KiB, queue groups gain 1.4x and 16 KiB payloads 1.1x.
const FLUSH_AT: usize = 1024 * 1024;

/// Targets after which a batch should be broken off although little is staged, because they take
/// nothing.
const DELIVERIES: usize = 256 * 1024;

/// Buffers handed over in one flush beyond those that were there at its beginning: services that
/// publish to each other may never come to an end.
const SERVED_PER_FLUSH: usize = 1024;

/// Buckets of the route cache that a flush looks at, and that a quiet second does: half of them. A
/// route keeps the stream to which it leads, and with it the file of a stream that was removed.
const SWEEP_PER_FLUSH: usize = 2;
const SWEEP_AT_REST: usize = 2048;

/// Shard: routes, stages, cohorts and buffers of one thread.
pub struct Shard {
    broker: Arc<Broker>,
    /// The broker's, as of the last refresh: reading them costs nothing here.
    settings: Arc<Settings>,
    routes: Routes,
    touched: Touched,
    staging: Staging,
    queue: ServiceQueue,
    pool: Pool,
    rng: Rng,
    traffic: Arc<Traffic>,
    /// Connections whose outbox claim this flush has taken.
    claimed: VecDeque<Arc<Conn>>,
    /// Staged bytes that are enough: less than [`FLUSH_AT`] where little may be pending.
    flush_at: usize,
    /// Targets looked at since the last flush.
    deliveries: usize,
    /// Subscriptions that had their last message during a publish.
    finished: Vec<Arc<Subscription>>,
    rendering: send::Rendering,
    /// Memory for messages on their way to other accounts, one for each step of a way.
    hop_buffers: Vec<service_import::Rendering>,
    /// Kept for its memory.
    head: Vec<u8>,
}

/// A connection that is being written. Dropped only by a panic: its claim is nobody's then, and it
/// is closed.
struct Unwritten<'a>(&'a Arc<Conn>);

impl Drop for Unwritten<'_> {
    fn drop(&mut self) {
        self.0.close(CloseReason::InternalError);
    }
}

impl Shard {
    /// A shard of `broker`. `seed` decides which queue members are chosen.
    pub fn new(broker: &Arc<Broker>, seed: u64) -> Self {
        let (settings, traffic) = (broker.settings(), broker.add_shard());
        Self {
            staging: Staging::new(Arc::as_ptr(&traffic).addr()),
            traffic,
            broker: Arc::clone(broker),
            routes: Routes::new(seed),
            touched: Touched::default(),
            queue: ServiceQueue::default(),
            pool: Pool::default(),
            rng: Rng::seeded(seed),
            claimed: VecDeque::new(),
            deliveries: 0,
            flush_at: FLUSH_AT.min(settings.max_pending / 4),
            settings,
            finished: Vec::new(),
            rendering: Default::default(),
            hop_buffers: Vec::new(),
            head: Vec::new(),
        }
    }

    /// Decides anew which queue members are chosen: the same seed and the same script give the same
    /// choices.
    pub fn reseed(&mut self, seed: u64) {
        self.rng = Rng::seeded(seed);
    }

    /// The broker that all shards share.
    pub fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }

    /// The limits and timings in force on this shard.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Takes over the broker's limits and timings after they were replaced.
    pub fn refresh(&mut self) {
        self.settings = self.broker.settings();
        self.flush_at = FLUSH_AT.min(self.settings.max_pending / 4);
    }

    /// Whether anything is staged that only a flush will send.
    pub fn is_dirty(&self) -> bool {
        self.staging.is_dirty() || !self.queue.is_empty() || !self.claimed.is_empty()
    }

    /// Whether so much is staged, or so much was done, that the session should stop until a flush.
    pub fn is_full(&self) -> bool {
        self.staging.bytes() >= self.flush_at || self.deliveries >= DELIVERIES || self.queue.is_full()
    }

    /// Whether what was published last went to a service that is [behind](Service::is_behind): then
    /// its publisher is to pause.
    pub(crate) fn is_held_up(&mut self) -> bool {
        let is_behind = self.queue.take_behind();
        if is_behind {
            self.count_stall(0);
        }
        is_behind
    }

    /// Stages bytes that are no message: PONG, +OK, INFO.
    pub(crate) fn stage_line(&mut self, conn: &Arc<Conn>, line: &[u8]) {
        self.staging.line(conn, line, &mut self.pool, &self.settings);
    }

    /// Stages `-ERR`, for which MQTT has no words.
    pub(crate) fn stage_error(&mut self, conn: &Arc<Conn>, text: &ErrorText) {
        if conn.mqtt().is_some() {
            return;
        }
        let mut line = Vec::with_capacity(64);
        myelin_wire::encode::error(&mut line, text);
        self.stage_line(conn, &line);
    }

    /// Counts messages and payload bytes that came in.
    pub(crate) fn count_in(&mut self, msgs: u64, bytes: u64) {
        self.traffic.in_msgs.add(msgs);
        self.traffic.in_bytes.add(bytes);
    }

    /// Counts messages and payload bytes that came from another server.
    pub(crate) fn count_in_from_link(&mut self, msgs: u64, bytes: u64) {
        self.count_in(msgs, bytes);
        self.traffic.links[0].add(msgs);
        self.traffic.links[1].add(bytes);
    }

    /// Brings the delivery counts of subscriptions up to date, before someone asks for them.
    pub(crate) fn apply_counts(&mut self) {
        self.routes.apply_counts(&mut self.touched);
    }

    /// Sees to it that the next flush moves what a link has to say into its outbox.
    pub fn flush_link(&mut self, conn: &Arc<Conn>) {
        self.staging.touch(conn, &self.settings);
    }

    /// Sees to it that the next flush calls `service`, even if nobody sends it anything.
    pub fn wake(&mut self, service: &Arc<dyn Service>) {
        self.queue.wake(service);
    }

    /// Has `service` told when what is staged now is in the outboxes of its receivers: what another
    /// shard sends after that comes later.
    pub fn after_flush(&mut self, service: Arc<dyn Service>) {
        self.queue.after_flush(service);
    }

    /// Hands out what waits for services, and what they send each other thereby.
    fn serve(&mut self) {
        let begun = self.queue.len();
        // What the tick has brought goes in any case: a PONG behind it means that it is routed.
        for served in 0..self.queue.len() + SERVED_PER_FLUSH {
            let is_enough = self.staging.bytes() >= self.flush_at;
            if served >= begun && is_enough {
                return;
            }
            let Some((service, mut batch)) = self.queue.pop() else { return };
            if is_enough && batch.is_empty() {
                // Who was only woken goes on with its own work: connections have their turn before.
                self.queue.requeue(service, batch);
                continue;
            }
            service.serve(&mut batch, self);
            self.queue.recycle(batch);
        }
    }

    /// Has services do their work and sends everything that is staged: first all of it into the
    /// outboxes, then to the sockets.
    pub fn flush(&mut self) {
        self.deliveries = 0;
        self.serve();
        self.routes.apply_counts(&mut self.touched);
        self.staging.seal_cohorts();
        self.enqueue_all();
        self.queue.has_flushed();
        // One by one: whoever panics costs the others nothing, the next flush goes on.
        while let Some(service) = self.queue.pop_flushed() {
            service.flushed(self);
        }
        // One by one, too: a claim that nobody has in hand is held for ever.
        while let Some(conn) = self.claimed.pop_front() {
            let unwritten = Unwritten(&conn);
            self.resume(&conn);
            std::mem::forget(unwritten);
        }
        self.routes.sweep(SWEEP_PER_FLUSH, self.staging.cohorts());
        self.traffic.routes.set(self.routes.counts());
        // What services have given each other is nobody's fault who publishes next.
        self.queue.take_behind();
    }

    /// To be called now and then also when nothing happens: gives back what ended connections still
    /// hold.
    pub fn maintain(&mut self, now: Instant) {
        for ended in self.broker.forget_answers(now) {
            self.report_unanswered(&ended.awaited, ended.outcome, now);
        }
        self.report_old_parts(now);
        self.routes.apply_counts(&mut self.touched);
        self.routes.sweep(SWEEP_AT_REST, self.staging.cohorts());
        self.traffic.routes.set(self.routes.counts());
    }

    /// Goes on writing a connection whose claim this shard holds: after a flush, or on the owner
    /// shard when the socket takes bytes again. A blocked socket is handed to its owner shard.
    fn resume(&mut self, conn: &Arc<Conn>) {
        let drained = conn.drain(&mut |buffer| self.pool.put(buffer));
        self.relieved(conn);
        match drained {
            Drained::Empty => {}
            Drained::Blocked { .. } => conn.sink().wait_writable(conn),
            Drained::Failed(error) => self.give_up(conn, error),
        }
    }

    /// For the owner shard: one more attempt at a blocked outbox whose claim it was handed.
    /// Services that have waited for it are woken: then the shard [is dirty](Self::is_dirty).
    pub fn drain(&mut self, conn: &Arc<Conn>) -> Drained {
        let drained = conn.drain(&mut |buffer| self.pool.put(buffer));
        self.relieved(conn);
        if let Drained::Failed(error) = drained {
            self.give_up(conn, error);
        }
        drained
    }

    /// Ends a connection whose socket takes nothing any more.
    fn give_up(&self, conn: &Arc<Conn>, error: ErrorKind) {
        let error = match error {
            ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
            other => other.to_string(),
        };
        // Compat: the reference names the local address too, which is not known here.
        let what = format_args!("writev tcp {}: writev: {error}", conn.peer());
        self.broker.log_for(Level::Debug, conn, format_args!("Error flushing: {what}"));
        conn.close(CloseReason::WriteError);
    }

    fn enqueue_all(&mut self) {
        let (mut msgs, mut payload) = (0, 0);
        while let Some(mut stage) = self.staging.pop() {
            let load = stage.close_chunk();
            let queued = stage.conn.queue(&mut stage.segments, load);
            let link = stage.conn.link();
            let is_internal = link.is_some_and(LinkEnd::is_internal);
            // What servers say to each other for themselves counts for the link only.
            if !is_internal {
                msgs += load.msgs;
                payload += load.payload;
                if link.is_some() {
                    self.traffic.links[2].add(load.msgs);
                    self.traffic.links[3].add(load.payload);
                }
            }
            match queued {
                // First, so that the server of a client that hears of its message knows already
                // that it is committed, and finds it.
                Queued::Claimed if is_internal => self.claimed.push_front(Arc::clone(&stage.conn)),
                Queued::Claimed => self.claimed.push_back(Arc::clone(&stage.conn)),
                _ => {}
            }
            let behind = stage.overrun || stage.conn.pending() > stage.conn.max_pending(&self.settings);
            if behind && queued != Queued::Closed {
                self.cut_off(&stage.conn);
            }
        }
        debug_assert!(!self.staging.is_dirty(), "everything that is staged is in an outbox");
        self.staging.take_bytes();
        if msgs > 0 {
            self.traffic.out_msgs.add(msgs);
            self.traffic.out_bytes.add(payload);
        }
    }

    /// Ends a receiver that is too far behind.
    fn cut_off(&mut self, conn: &Arc<Conn>) {
        if conn.close_requested().is_none() {
            self.broker.counters().slow(conn.kind()).fetch_add(1, Relaxed);
            let max = conn.max_pending(&self.settings);
            let line = format_args!("Slow Consumer Detected: MaxPending of {max} Exceeded");
            self.broker.log_for(Level::Info, conn, line);
        }
        conn.close(CloseReason::SlowConsumerPendingBytes);
        conn.discard();
    }
}
