//! A backup that is being sent.
//!
//! So many pieces may be on their way at once; each acknowledgement lets another one leave. Pieces
//! are made on the thread for backups, a slice at a time. The receiver that does not acknowledge
//! for five seconds has lost the backup, and so has one that goes away.

use super::{BackupContext, friendly};
use crate::engine::host::{Host, Timer};
use crate::engine::live::LiveStream;
use myelin_broker::{Binding, Level, Service, ServiceBatch, ServiceShard, Span, Watch, Watcher};
use myelin_jsapi::advisory::backup as advisory;
use myelin_stdx::sync::lock;
use myelin_store::Timestamp;
use myelin_streams::backup::archive_writer::ArchiveWriter;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::{Arc, Mutex, Weak};

const SECOND: Timestamp = 1_000_000_000;
/// How long a receiver may take for an acknowledgement.
const PATIENCE: Timestamp = 5 * SECOND;
/// How long a backup waits for somebody to listen before it begins.
const WAIT_FOR_INTEREST: Timestamp = 2 * SECOND;
/// Bytes that are read for one slice of work.
const SLICE: usize = 2 << 20;

/// Error of a backup whose stream was deleted meanwhile.
const GONE: &str = "stream was deleted";

const DEFAULT_CHUNK: usize = 128 << 10;
const DEFAULT_WINDOW: usize = 8 << 20;
const LEAST: usize = 1 << 10;
const LARGEST_CHUNK: usize = 1 << 20;
const LARGEST_WINDOW: usize = 32 << 20;

/// Order of a backup.
pub(in crate::engine) struct SnapshotOrder {
    pub(in crate::engine) deliver: String,
    /// Bytes of a piece, and of all that are on their way; 0: not said.
    pub(in crate::engine) chunk: i64,
    pub(in crate::engine) window: i64,
    /// Bytes of the stream.
    pub(in crate::engine) bytes: u64,
    pub(in crate::engine) stream: Weak<LiveStream>,
}

/// Backup of one stream that is being sent, with the window of pieces on their way.
pub(in crate::engine) struct Snapshot {
    context: BackupContext,
    deliver: Box<[u8]>,
    /// Prefix of the subjects of acknowledgements.
    ack: String,
    chunk: usize,
    bytes: u64,
    stream: Weak<LiveStream>,
    start: Timestamp,
    began: std::time::Instant,
    flow: Mutex<SendWindow>,
    /// `None` when it is over.
    source: Mutex<Option<ArchiveWriter>>,
    binding: Mutex<Option<Arc<Binding>>>,
    watch: Mutex<Option<Watch>>,
    me: Weak<Self>,
}

/// Window that lets pieces leave.
struct SendWindow {
    /// Pieces that may leave now.
    slots: usize,
    most: usize,
    /// Pieces that have left.
    sent: u64,
    /// When the last one did.
    last: Timestamp,
    /// Whether somebody works on it, or will.
    is_working: bool,
    /// Whether anybody has listened.
    was_heard: bool,
    state: SendState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SendState {
    /// Nobody listens yet.
    Waiting,
    Running,
    Over,
}

/// Why a backup ends before it is whole.
enum SnapshotFailure {
    NoInterest,
    NoFlow,
    Failed(String),
}

fn clamp(asked: i64, default: usize, largest: usize) -> usize {
    match asked {
        0 => default,
        asked => usize::try_from(asked).unwrap_or(0).clamp(LEAST, largest),
    }
}

impl Snapshot {
    /// Begins to send. `source` says what.
    pub(in crate::engine) fn begin(
        context: BackupContext,
        order: &SnapshotOrder,
        source: ArchiveWriter,
    ) -> Arc<Self> {
        let chunk = clamp(order.chunk, DEFAULT_CHUNK, LARGEST_CHUNK);
        let window = clamp(order.window, DEFAULT_WINDOW, LARGEST_WINDOW).max(chunk);
        let most = window / chunk;
        let ack = format!("$JS.SNAPSHOT.ACK.{}.{}", context.stream, context.host.unique_id());
        let now = context.host.now();
        let began = context.host.instant();
        let deliver = order.deliver.as_bytes().into();
        let flow = SendWindow {
            slots: most,
            most,
            sent: 0,
            last: now,
            is_working: false,
            was_heard: false,
            state: SendState::Waiting,
        };
        let me = Arc::new_cyclic(|me| Self {
            deliver,
            ack,
            chunk,
            bytes: order.bytes,
            stream: Weak::clone(&order.stream),
            start: now,
            began,
            flow: Mutex::new(flow),
            source: Mutex::new(Some(source)),
            binding: Mutex::default(),
            watch: Mutex::default(),
            me: Weak::clone(me),
            context,
        });
        let account = &me.context.account;
        let subject = format!("{}.>", me.ack);
        // The account holds it from here on, until it is over.
        *lock(&me.binding) = Some(account.bind(subject.as_bytes(), Arc::clone(&me) as Arc<dyn Service>));
        let watcher: Weak<dyn Watcher> = Weak::clone(&me.me) as Weak<dyn Watcher>;
        let watch = account.watch(&me.deliver, watcher);
        *lock(&me.watch) = Some(watch);
        if me.is_heard() {
            me.run();
        } else {
            me.alarm(now + WAIT_FOR_INTEREST);
        }
        me
    }

    fn host(&self) -> &dyn Host {
        &*self.context.host
    }

    /// Whether somebody listens to this very subject.
    ///
    /// Compat: who listens with wildcards does not count. The official client asks with a subject
    /// that its inbox for answers matches, and listens for pieces only after the answer.
    fn is_heard(&self) -> bool {
        let is_heard = self.context.account.has_listener(&self.deliver, None);
        lock(&self.flow).was_heard |= is_heard;
        is_heard
    }

    fn alarm(&self, at: Timestamp) {
        self.host().schedule(at, Weak::clone(&self.me) as Weak<dyn Timer>);
    }

    /// Somebody listens, or has had the time to.
    fn run(&self) {
        {
            let mut flow = lock(&self.flow);
            if flow.state != SendState::Waiting {
                return;
            }
            flow.state = SendState::Running;
            flow.last = self.host().now();
        }
        self.alarm(self.host().now() + PATIENCE);
        self.send_more();
    }

    /// Has the next pieces made, if any may leave and nobody is at it.
    fn send_more(&self) {
        {
            let mut flow = lock(&self.flow);
            if flow.state != SendState::Running || flow.slots == 0 || flow.is_working {
                return;
            }
            flow.is_working = true;
        }
        self.make_later();
    }

    fn make_later(&self) {
        if let Some(me) = self.me.upgrade() {
            self.host().spawn_backup(Box::new(move || me.make()));
        }
    }

    /// Makes and sends pieces for one slice. Only on a thread that may wait.
    fn make(&self) {
        let mut held = lock(&self.source);
        let slots = {
            let flow = lock(&self.flow);
            if flow.state == SendState::Over { 0 } else { flow.slots }
        };
        let Some(source) = held.as_mut() else { return };
        if slots == 0 {
            lock(&self.flow).is_working = false;
            return;
        }
        let built = source.fill(self.chunk * slots, SLICE);
        // Compat: nats-server then says nothing, and the receiver waits. What is left to be read
        // may be gone or not: it would be a backup of a part that looks whole.
        let is_gone = self.stream.upgrade().is_none_or(|stream| stream.is_gone());
        let failed = if is_gone { Some(GONE.to_owned()) } else { built.err().map(|error| error.to_string()) };
        if let Some(why) = failed {
            drop(held);
            return self.end(Some(SnapshotFailure::Failed(why)));
        }
        let mut out = MessageBuf::default();
        let is_last = self.cut(source, slots, &mut out);
        self.context.host.publish(&self.context.account, out);
        drop(held);
        if is_last {
            return self.end(None);
        }
        let goes_on = {
            let mut flow = lock(&self.flow);
            flow.is_working = flow.slots > 0 && flow.state == SendState::Running;
            flow.is_working
        };
        if goes_on {
            self.make_later();
        }
    }

    /// Takes up to `slots` pieces of what is ready. Answers whether the last one is among them, or
    /// there is none left.
    fn cut(&self, source: &mut ArchiveWriter, slots: usize, out: &mut MessageBuf) -> bool {
        let is_over = source.is_over();
        let ready = source.ready();
        let mut at = 0;
        let mut count = 0;
        let mut flow = lock(&self.flow);
        while count < slots && ready.len() - at >= self.chunk {
            let number = flow.sent + 1;
            let reply = format!("{}.{}.{number}", self.ack, self.chunk);
            let payload = &ready[at..at + self.chunk];
            out.push(MessageRef {
                subject: &self.deliver,
                reply: reply.as_bytes(),
                payload,
                ..MessageRef::default()
            });
            at += self.chunk;
            count += 1;
            flow.sent = number;
        }
        flow.slots -= count;
        if count > 0 {
            flow.last = self.host().now();
        }
        let is_last = is_over && ready.len() - at < self.chunk && count < slots;
        // Compat: what is left is sent without a subject for an acknowledgement.
        if is_last && ready.len() > at {
            out.push(MessageRef { subject: &self.deliver, payload: &ready[at..], ..MessageRef::default() });
            at = ready.len();
        }
        ready.drain(..at);
        is_last
    }

    /// Ends it, with a status for the receiver.
    fn end(&self, why: Option<SnapshotFailure>) {
        let sent = {
            let mut flow = lock(&self.flow);
            if std::mem::replace(&mut flow.state, SendState::Over) == SendState::Over {
                return;
            }
            flow.sent
        };
        let (status, error) = match why {
            // Compat: the status of a good end is missing where everything went into one piece.
            None if sent == 0 => (String::new(), String::new()),
            None => ("NATS/1.0 204\r\n\r\n".to_owned(), String::new()),
            Some(SnapshotFailure::NoInterest) => {
                ("NATS/1.0 408 No Interest\r\n\r\n".to_owned(), "no interest".to_owned())
            }
            Some(SnapshotFailure::NoFlow) => {
                ("NATS/1.0 408 No Flow Response\r\n\r\n".to_owned(), "no flow response".to_owned())
            }
            Some(SnapshotFailure::Failed(why)) => (format!("NATS/1.0 500 {}\r\n\r\n", one_line(&why)), why),
        };
        let mut out = MessageBuf::default();
        out.push(MessageRef { subject: &self.deliver, headers: status.as_bytes(), ..MessageRef::default() });
        let context = &self.context;
        let (stream, client) = (context.stream.as_str(), context.client.as_ref());
        context.add_advisory(&mut out, |header| {
            advisory::snapshot_complete(header, stream, self.start, client, &error)
        });
        self.host().publish(&context.account, out);
        self.log(&error);
        lock(&self.watch).take();
        if let Some(binding) = lock(&self.binding).take() {
            context.account.unbind(&binding);
        }
        // It may be in use: then whoever uses it drops it.
        if let Ok(mut source) = self.source.try_lock() {
            source.take();
        }
    }

    fn log(&self, error: &str) {
        let took = Span(self.host().instant().duration_since(self.began));
        let name = format!("{} > {}", self.context.account.name(), self.context.stream);
        if error.is_empty() {
            let size = friendly(self.bytes);
            let line = format_args!("Completed snapshot of {size} for stream '{name}' in {took}");
            self.host().log(Level::Info, line);
        } else {
            let line = format_args!("Snapshot for stream '{name}' failed after {took}: {error}");
            self.host().log(Level::Warn, line);
        }
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

impl Service for Snapshot {
    /// Acknowledgements.
    fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
        {
            let mut flow = lock(&self.flow);
            flow.slots = (flow.slots + msgs.len()).min(flow.most);
        }
        msgs.clear();
        self.send_more();
    }
}

impl Watcher for Snapshot {
    fn interest_changed(&self, _: Option<&mut ServiceShard>) {
        let is_heard = self.is_heard();
        let (state, was_heard) = {
            let flow = lock(&self.flow);
            (flow.state, flow.was_heard)
        };
        match (is_heard, state) {
            (true, SendState::Waiting) => self.run(),
            (false, SendState::Running) if was_heard => {
                // Ending unbinds and ends the watch itself, neither of which may be done from
                // within a change.
                if let Some(me) = self.me.upgrade() {
                    self.host().spawn_backup(Box::new(move || me.end(Some(SnapshotFailure::NoInterest))));
                }
            }
            _ => {}
        }
    }
}

impl Timer for Snapshot {
    fn fire(&self) {
        let now = self.host().now();
        let (state, is_stuck, last) = {
            let flow = lock(&self.flow);
            (flow.state, flow.slots == 0 && !flow.is_working && now >= flow.last + PATIENCE, flow.last)
        };
        match state {
            SendState::Waiting => self.run(),
            SendState::Running if is_stuck => self.end(Some(SnapshotFailure::NoFlow)),
            SendState::Running => self.alarm((last + PATIENCE).max(now + SECOND / 10)),
            SendState::Over => {}
        }
    }
}
