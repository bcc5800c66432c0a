//! A backup that arrives.
//!
//! Its sender acknowledges nothing: it waits for us. Pieces wait in order until the thread for backups has worked off what
//! came before, slice by slice; then each is answered, with nothing or with why the restore has failed. Nobody sees the
//! stream before it is whole, which the thread that answers the API makes it, and what did not become whole is removed.

use super::{Errand, friendly};
use crate::advisory::{Action as Told, backup as advisory, stream_action};
use crate::api::info::StreamInfo;
use crate::api::response::{StreamCreate, granted, refused};
use crate::backup::filling::{Filled, Filling};
use crate::backup::intake::{Fault, Intake, Progress, Target};
use crate::config::{self, Storage, StreamConfig, with_versions};
use crate::consumer::config::{
    Action, ConsumerConfig, Limits as ConsumerLimits, Wanted as ConsumerWanted, World,
};
use crate::engine::host::{Alarmed, Host};
use crate::engine::live::lock;
use crate::engine::{AccountStreams, JetStream};
use crate::error::ApiError;
use crate::stream::shape;
use myelin_broker::{Binding, Level, MessageBuf, MessageRef, Service, Shard, Span};
use myelin_store::consumer::Consumers;
use myelin_store::{Seq, Stream, Timestamp};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

const SECOND: Timestamp = 1_000_000_000;
/// How long a sender may be silent.
const PATIENCE: Timestamp = 5 * SECOND;
/// Decompressed bytes of one slice of work.
const SLICE: usize = 4 << 20;
/// Bytes that may wait; the reference makes its sender wait, one piece at a time.
const MOST_WAITING: usize = 64 << 20;

/// Streams that may be restored at once.
const MOST_RESTORES: usize = 32;
/// Bytes that all of them may hold of what is not stored yet.
const MOST_HELD: usize = 512 << 20;
/// Bytes that one may say it will store: more than any disk has, and little enough that all of them can be added.
const MOST_SAID: i64 = 1 << 56;

/// What all restores of the server hold. One reference is the server's, two are each restore's.
#[derive(Debug, Default)]
pub(crate) struct Restores {
    held: AtomicUsize,
}

impl Restores {
    /// Counts bytes that are held from now on. False: there is no room for them, and they are not counted.
    fn hold(&self, bytes: usize) -> bool {
        let now = self.held.fetch_add(bytes, Relaxed).saturating_add(bytes);
        if now > MOST_HELD {
            self.release(bytes);
        }
        now <= MOST_HELD
    }

    fn release(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Relaxed);
    }
}

/// What was asked for.
pub(in crate::engine) struct Wanted {
    pub(in crate::engine) jetstream: Arc<JetStream>,
    pub(in crate::engine) account: Arc<AccountStreams>,
    /// Checked.
    pub(in crate::engine) config: StreamConfig,
}

/// See the head of this file.
pub(in crate::engine) struct Restore {
    errand: Errand,
    start: Timestamp,
    began: Instant,
    inbox: Mutex<Inbox>,
    share: Arc<Restores>,
    /// `None` when it is over.
    work: Mutex<Option<Work>>,
    binding: Mutex<Option<Arc<Binding>>>,
    me: Weak<Self>,
}

/// What has come.
#[derive(Default)]
struct Inbox {
    pieces: VecDeque<Piece>,
    /// Bytes that wait.
    waiting: usize,
    /// Bytes that have come.
    bytes: u64,
    /// When something happened last.
    last: Timestamp,
    is_working: bool,
    /// The sender has said all, or has failed.
    is_closed: bool,
    is_over: bool,
}

enum Piece {
    Bytes(Box<[u8]>, Box<[u8]>),
    End(Box<[u8]>),
    /// It cannot be answered, or may not come.
    Bad(Box<[u8]>, String),
}

/// What a piece that waits takes of the room.
fn weight(reply: &[u8], bytes: &[u8]) -> usize {
    size_of::<Piece>() + reply.len() + bytes.len()
}

struct Work {
    intake: Intake,
    seat: Seat,
    /// Who sent the piece at hand.
    reply: Option<Box<[u8]>>,
    is_whole: bool,
}

/// Where the stream goes; gives back what it has reserved when it is dropped.
struct Seat {
    wanted: Wanted,
    now: Timestamp,
    consumers: BTreeMap<String, Arc<ConsumerConfig>>,
    /// Bytes that count as used until the stream counts itself.
    reserved: i64,
    /// Counts as one of the restores of the server.
    share: Arc<Restores>,
    /// Bytes that are held of what has come.
    held: usize,
}

/// Whether another restore may begin: each may hold memory for what has come.
pub(in crate::engine) fn has_room(jetstream: &JetStream) -> bool {
    // Each has one reference, and its seat another.
    Arc::strong_count(&jetstream.restores) <= 2 * MOST_RESTORES
}

impl Restore {
    /// Waits for a backup. Answers where its pieces are to be sent.
    pub(in crate::engine) fn begin(errand: Errand, wanted: Wanted, out: &mut MessageBuf) -> String {
        let subject = format!("$JS.SNAPSHOT.RESTORE.{}.{}", errand.stream, errand.host.unique_id());
        let now = errand.host.now();
        let account = errand.account.name();
        errand
            .host
            .log(Level::Info, format_args!("Starting restore for stream '{account} > {}'", errand.stream));
        errand.tell(out, |stamp| advisory::restore_create(stamp, &errand.stream, errand.client.as_ref()));
        let share = Arc::clone(&wanted.jetstream.restores);
        let seat =
            Seat { wanted, now, consumers: BTreeMap::new(), reserved: 0, share: Arc::clone(&share), held: 0 };
        let work = Work { intake: Intake::default(), seat, reply: None, is_whole: false };
        let me = Arc::new_cyclic(|me| Self {
            start: now,
            began: errand.host.instant(),
            inbox: Mutex::new(Inbox { last: now, ..Inbox::default() }),
            share,
            work: Mutex::new(Some(work)),
            binding: Mutex::default(),
            me: Weak::clone(me),
            errand,
        });
        let service = Arc::clone(&me) as Arc<dyn Service>;
        *lock(&me.binding) = Some(me.errand.account.bind(subject.as_bytes(), service));
        me.alarm(now + PATIENCE);
        subject
    }

    fn host(&self) -> &dyn Host {
        &*self.errand.host
    }

    fn name(&self) -> String {
        format!("{} > {}", self.errand.account.name(), self.errand.stream)
    }

    fn alarm(&self, at: Timestamp) {
        self.host().schedule(at, Weak::clone(&self.me) as Weak<dyn Alarmed>);
    }

    fn work_later(&self) {
        if let Some(me) = self.me.upgrade() {
            self.host().haul(Box::new(move || me.work()));
        }
    }

    /// One slice of work. Only on the thread for backups.
    fn work(&self) {
        let mut held = lock(&self.work);
        let Some(work) = held.as_mut() else { return };
        work.seat.now = self.host().now();
        // A fault of ours that a stranger's bytes have found costs this restore, and not a place for one for ever.
        let worked = catch_unwind(AssertUnwindSafe(|| self.slice(work))).unwrap_or_else(|_| {
            let reply = work.reply.take().unwrap_or_default();
            Err(Outcome::Failed(reply, Fault::Other("the backup cannot be understood".to_owned())))
        });
        {
            let mut inbox = lock(&self.inbox);
            inbox.last = work.seat.now;
        }
        match worked {
            Ok(true) => self.work_later(),
            Ok(false) => {}
            Err(outcome) => {
                let Some(work) = held.take() else { return };
                drop(held);
                self.end(work, outcome);
            }
        }
    }

    /// Answers whether there is more to do; `Err`: that it is over.
    fn slice(&self, work: &mut Work) -> Result<bool, Outcome> {
        if work.reply.is_none() {
            let piece = {
                let mut inbox = lock(&self.inbox);
                let piece = inbox.pieces.pop_front();
                if let Some(Piece::Bytes(reply, bytes)) = &piece {
                    inbox.waiting -= weight(reply, bytes);
                    work.seat.share.release(weight(reply, bytes));
                }
                inbox.is_working = piece.is_some();
                piece
            };
            match piece {
                None => return Ok(false),
                Some(Piece::Bad(reply, why)) => return Err(Outcome::Failed(reply, Fault::Other(why))),
                Some(Piece::End(reply)) => return Err(Outcome::Ended(reply)),
                Some(Piece::Bytes(reply, bytes)) => {
                    // Compat: whatever follows the end of a backup is taken, and looked at by nobody.
                    if !work.is_whole {
                        work.intake.feed(&bytes);
                    }
                    work.reply = Some(reply);
                }
            }
        }
        let progress = if work.is_whole {
            Ok(Progress::Whole)
        } else {
            let now = work.seat.now;
            work.intake.work(&mut work.seat, SLICE, now)
        };
        let progress = progress.and_then(|progress| {
            work.seat.hold(work.intake.held())?;
            work.seat.keep_pace()?;
            Ok(progress)
        });
        match progress {
            Err(fault) => Err(Outcome::Failed(work.reply.take().unwrap_or_default(), fault)),
            Ok(Progress::More) => Ok(true),
            Ok(progress) => {
                work.is_whole = progress == Progress::Whole;
                let mut out = MessageBuf::default();
                let reply = work.reply.take().unwrap_or_default();
                out.push(MessageRef { subject: &reply, ..MessageRef::default() });
                self.host().publish(&self.errand.account, out);
                Ok(true)
            }
        }
    }

    /// Ends what can be ended on this thread; whether the stream becomes one of the account's is decided where requests are.
    fn end(&self, work: Work, outcome: Outcome) {
        let bytes = {
            let mut inbox = lock(&self.inbox);
            inbox.is_over = true;
            inbox.is_closed = true;
            inbox.pieces.clear();
            work.seat.share.release(std::mem::take(&mut inbox.waiting));
            inbox.bytes
        };
        if let Some(binding) = lock(&self.binding).take() {
            self.errand.account.unbind(&binding);
        }
        let Work { intake, mut seat, .. } = work;
        let is_told = !matches!(outcome, Outcome::Stalled);
        let (reply, made) = match outcome {
            Outcome::Failed(reply, fault) => (reply, Err((intake.into_filling(), fault))),
            Outcome::Ended(reply) => {
                let now = seat.now;
                let made = intake.finish(&mut seat, now);
                for why in made.iter().flat_map(|filled| &filled.left) {
                    let what =
                        format_args!("Restored stream '{}' is not as it was backed up: {why}", self.name());
                    self.host().log(Level::Warn, what);
                }
                (reply, made)
            }
            Outcome::Stalled => {
                let fault = Fault::Other(format!("restore for stream '{}' is stalled", self.name()));
                (Box::default(), Err((intake.into_filling(), fault)))
            }
        };
        if let Some(me) = self.me.upgrade() {
            self.host().run(Box::new(move || me.conclude(seat, &reply, made, (bytes, is_told))));
        }
    }

    /// Takes the stream into service, or removes what there is of it, and says so. Only on the thread that answers the API.
    ///
    /// Compat: there is no advisory about one whose sender is silent.
    fn conclude(&self, mut seat: Seat, reply: &[u8], made: Made, (bytes, is_told): (u64, bool)) {
        let jetstream = Arc::clone(&seat.wanted.jetstream);
        let made = match made {
            Ok(filled) => seat.take_in(filled),
            Err((filling, fault)) => {
                self.remove(&jetstream, filling);
                Err(fault)
            }
        };
        drop(seat);
        let mut out = MessageBuf::default();
        let errand = &self.errand;
        if made.is_ok() {
            errand.tell(&mut out, |stamp| stream_action(stamp, &errand.stream, Told::Create));
        }
        if is_told {
            errand.tell(&mut out, |stamp| {
                advisory::restore_complete(stamp, &errand.stream, self.start, bytes, errand.client.as_ref())
            });
        }
        let took = self.host().instant().duration_since(self.began);
        let (size, name) = (friendly(bytes), self.name());
        let body = match made {
            Ok(info) => {
                let took = Span(in_whole_millis(took));
                let line = format_args!("Completed restore of {size} for stream '{name}' in {took}");
                self.host().log(Level::Info, line);
                granted(&StreamCreate { info: Some(info), did_create: false })
            }
            Err(fault) => {
                let took = Span(took);
                let line = format_args!("Restore failed for {size} for stream '{name}' in {took}: {fault}");
                self.host().log(Level::Warn, line);
                refused::<StreamCreate>(&as_error(fault))
            }
        };
        if !reply.is_empty() {
            out.push(MessageRef { subject: reply, payload: &body, ..MessageRef::default() });
        }
        self.host().publish(&errand.account, out);
    }

    fn remove(&self, jetstream: &JetStream, filling: Option<Box<Filling>>) {
        if let Some(Err(why)) = filling.map(|filling| filling.abandon(&jetstream.store)) {
            let name = self.name();
            let line =
                format_args!("What was restored of stream '{name}' is removed at the next start: {why}");
            self.host().log(Level::Warn, line);
        }
    }
}

/// What was filled, or what is to be removed and why.
type Made = Result<Filled, (Option<Box<Filling>>, Fault)>;

/// How it ends.
enum Outcome {
    /// The sender has said all.
    Ended(Box<[u8]>),
    Failed(Box<[u8]>, Fault),
    Stalled,
}

/// Why a stream cannot be one of the account's.
///
/// Compat: what is found only when it is added is a fault of the restore, what is checked before is one of the request.
fn unjoined(error: ApiError) -> Fault {
    let late = [ApiError::STREAM_SUBJECT_OVERLAP, ApiError::STREAM_REPLICAS_NOT_SUPPORTED];
    if late.iter().any(|late| late.err_code == error.err_code) {
        return Fault::Other(format!("error adding stream: {error}"));
    }
    Fault::Api(error)
}

fn as_error(fault: Fault) -> ApiError {
    match fault {
        Fault::Api(error) => error,
        Fault::Other(why) => ApiError::stream_restore(why),
    }
}

impl Seat {
    fn budgets(&self) -> [&crate::stream::Budget; 2] {
        let at = usize::from(self.wanted.config.storage == Storage::File);
        [
            self.wanted.account.budgets()[at],
            [&*self.wanted.jetstream.memory, &*self.wanted.jetstream.files][at],
        ]
    }

    fn reserve(&mut self, bytes: i64) {
        self.budgets().iter().for_each(|budget| budget.add(bytes));
        self.reserved += bytes;
    }

    /// Counts what is held now, in the place of what was before.
    fn hold(&mut self, bytes: usize) -> Result<(), Fault> {
        self.share.release(std::mem::take(&mut self.held));
        if !self.share.hold(bytes) {
            return Err("the server has no memory to restore so much at once".to_owned().into());
        }
        self.held = bytes;
        Ok(())
    }

    fn check_room(&self) -> Result<(), Fault> {
        if self.budgets().iter().all(|budget| budget.admits(0)) { Ok(()) } else { Err(self.no_room()) }
    }

    fn no_room(&self) -> Fault {
        match self.wanted.config.storage {
            Storage::Memory => ApiError::MEMORY_RESOURCES_EXCEEDED,
            Storage::File => ApiError::STORAGE_RESOURCES_EXCEEDED,
        }
        .into()
    }

    /// Where everything is synced before it counts, no more is taken in than is synced.
    fn keep_pace(&self) -> Result<(), Fault> {
        let jetstream = &self.wanted.jetstream;
        if !jetstream.settings.sync_always || self.wanted.config.storage == Storage::Memory {
            return Ok(());
        }
        let round = jetstream.journal().round_now(&|| jetstream.host.now().unsigned_abs());
        round.map(drop).map_err(|error| Fault::Other(error.to_string()))
    }

    /// Makes the stream one of the account's.
    fn take_in(&mut self, filled: Filled) -> Result<StreamInfo, Fault> {
        let (jetstream, account) = (&self.wanted.jetstream, &self.wanted.account);
        let live = account.adopt(jetstream, filled).map_err(|(filling, fault)| {
            // It is removed at the next start otherwise.
            let _ = filling.abandon(&jetstream.store);
            match fault {
                Fault::Api(error) => unjoined(error),
                other => other,
            }
        })?;
        Ok(StreamInfo {
            config: with_versions(&live.config()),
            created: live.created(),
            state: live.state(false),
            domain: String::new(),
            cluster: None,
            mirror: None,
            sources: Vec::new(),
            ts: jetstream.host.now(),
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.reserve(-self.reserved);
        self.share.release(self.held);
    }
}

impl Target for Seat {
    fn name(&self) -> &str {
        &self.wanted.config.name
    }

    fn largest(&self) -> usize {
        let limit = i64::from(self.wanted.config.max_msg_size);
        let most = self.wanted.jetstream.settings.max_payload;
        let most = if limit >= 0 { most.min(limit) } else { most };
        usize::try_from(most).unwrap_or(0)
    }

    fn open(&mut self, first: Seq, bytes: u64) -> Result<Filling, Fault> {
        let (jetstream, account) = (Arc::clone(&self.wanted.jetstream), Arc::clone(&self.wanted.account));
        let limits = account.all_limits(&jetstream);
        let config = self.wanted.config.clone();
        config::join(&config, &*account, &limits).map_err(unjoined)?;
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        if bytes > MOST_SAID || !self.budgets().iter().all(|budget| budget.admits(bytes)) {
            return Err(self.no_room());
        }
        self.reserve(bytes);
        if first > myelin_store::MAX_SEQ {
            return Err(format!("first sequence {first} is too high").into());
        }
        let now = self.now;
        if config.storage == Storage::Memory {
            let stream = Stream::in_memory(shape(&config, false), jetstream.seed(), now);
            let mut filling = Filling::new(config, now, stream, Consumers::in_memory());
            filling.start_at(first, now)?;
            return Ok(filling);
        }
        let (name, always) = (account.account().name(), jetstream.settings.sync_always);
        let made = Filling::begin(&jetstream.store, name, config, now, first, always, now);
        made.map_err(|why| Fault::Other(format!("error adding stream: {why}")))
    }

    fn consumer(&mut self, stream: &StreamConfig, config: ConsumerConfig) -> Result<ConsumerConfig, Fault> {
        let (jetstream, account) = (&self.wanted.jetstream, &self.wanted.account);
        let limits = ConsumerLimits {
            account: account.limits().unwrap_or_default(),
            server: jetstream.limits().consumers,
        };
        let broker = Arc::clone(account.account());
        let has_interest = |subject: &str| broker.has_interest(subject.as_bytes());
        let world =
            World { stream, consumers: &self.consumers, limits: &limits, has_interest: &has_interest };
        let name = config.name.clone();
        let wanted = ConsumerWanted { config, action: Action::CreateOrUpdate, pedantic: false };
        let created = crate::consumer::config::create(wanted, &world, &mut || name.clone())?;
        let config = created.config().clone();
        if self.consumers.insert(config.name.clone(), Arc::new(config.clone())).is_some() {
            return Err("it is there twice".to_owned().into());
        }
        Ok(config)
    }

    fn admit(&mut self, bytes: u64) -> Result<(), Fault> {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        if bytes <= self.reserved {
            return Ok(());
        }
        self.reserve(bytes - self.reserved);
        self.check_room()
    }
}

impl Service for Restore {
    fn serve(&self, msgs: &mut MessageBuf, _: &mut Shard) {
        let mut inbox = lock(&self.inbox);
        for msg in msgs.iter() {
            if inbox.is_closed {
                break;
            }
            let reply: Box<[u8]> = msg.reply.into();
            let name = || format!("restore for stream '{}'", self.name());
            let piece = if reply.is_empty() {
                Piece::Bad(reply, format!("{} requires reply subject for each chunk", name()))
            } else if msg.payload.is_empty() {
                Piece::End(reply)
            } else if inbox.waiting + weight(&reply, msg.payload) > MOST_WAITING {
                Piece::Bad(reply, format!("{} does not wait for its chunks to be taken", name()))
            } else if !self.share.hold(weight(&reply, msg.payload)) {
                Piece::Bad(reply, "the server has no memory to restore so much at once".to_owned())
            } else {
                inbox.waiting += weight(&reply, msg.payload);
                inbox.bytes += msg.payload.len() as u64;
                Piece::Bytes(reply, msg.payload.into())
            };
            inbox.is_closed = !matches!(piece, Piece::Bytes(..));
            inbox.pieces.push_back(piece);
        }
        inbox.last = self.host().now();
        let begins = !inbox.pieces.is_empty() && !inbox.is_working;
        inbox.is_working |= begins;
        drop(inbox);
        msgs.clear();
        if begins {
            self.work_later();
        }
    }
}

impl Alarmed for Restore {
    fn ring(&self) {
        let now = self.host().now();
        let next = {
            let mut inbox = lock(&self.inbox);
            if inbox.is_over {
                return;
            }
            let is_silent = !inbox.is_working && inbox.pieces.is_empty() && now >= inbox.last + PATIENCE;
            inbox.is_closed |= is_silent;
            if is_silent { None } else { Some((inbox.last + PATIENCE).max(now + SECOND / 10)) }
        };
        match (next, self.me.upgrade()) {
            (Some(at), _) => self.alarm(at),
            (None, Some(me)) => self.host().haul(Box::new(move || {
                let work = lock(&me.work).take();
                if let Some(work) = work {
                    me.end(work, Outcome::Stalled);
                }
            })),
            (None, None) => {}
        }
    }
}

/// Rounded to milliseconds, half of one away from zero.
///
/// Compat: of what the log says of backups, only a restore that went well is rounded.
fn in_whole_millis(span: Duration) -> Duration {
    Duration::from_millis((span + Duration::from_micros(500)).as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::{Duration, in_whole_millis};

    #[test]
    fn a_restore_took_whole_milliseconds() {
        for (nanos, millis) in [(0, 0), (499_999, 0), (500_000, 1), (1_499_999, 1), (2_500_000, 3)] {
            assert_eq!(
                in_whole_millis(Duration::from_nanos(nanos)),
                Duration::from_millis(millis),
                "{nanos}"
            );
        }
    }
}
