//! A backup that arrives.
//!
//! Its sender acknowledges nothing: it waits for us. Pieces wait in order until the thread for
//! backups has worked off what came before, slice by slice; then each is answered, with nothing or
//! with why the restore has failed. Nobody sees the stream before it is whole, which the thread
//! that answers the API makes it, and what did not become whole is removed.

use super::restores::Restores;
use super::{BackupContext, friendly};
use crate::engine::api_future::run_on_api;
use crate::engine::host::{Host, Timer};
use crate::engine::live::LiveStream;
use crate::engine::meta::RestoredPlace;
use crate::engine::{AccountStreams, CallScope, JetStream};
use myelin_broker::{Binding, Level, Service, ServiceBatch, ServiceShard, Span};
use myelin_jsapi::ApiError;
use myelin_jsapi::advisory::{Action as Told, backup as advisory, stream_action};
use myelin_jsapi::api::info::StreamInfo;
use myelin_jsapi::api::response::{StreamCreate, granted, refused};
use myelin_jsapi::config::{Storage, StreamConfig, with_versions};
use myelin_jsapi::consumer::config::{
    Action, CheckContext, ConsumerConfig, ConsumerConfigLimits, MatchedRequest,
};
use myelin_stdx::sync::lock;
use myelin_store::consumer::Consumers;
use myelin_store::{Seq, Stream, Timestamp};
use myelin_streams::backup::backup_reader::{BackupReader, RestoreError, RestoreProgress, RestoreTarget};
use myelin_streams::backup::stream_builder::{BuiltStream, StreamBuilder};
use myelin_streams::stream::StorageBudget;
use myelin_streams::stream::storage_config;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
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
/// Bytes that one may say it will store: more than any disk has, and little enough that all of them
/// can be added.
const MOST_SAID: i64 = 1 << 56;

/// Order of a restore.
pub(in crate::engine) struct RestoreOrder {
    pub(in crate::engine) jetstream: Arc<JetStream>,
    pub(in crate::engine) account: Arc<AccountStreams>,
    /// Checked.
    pub(in crate::engine) config: StreamConfig,
    /// Where it is to be in a cluster.
    pub(in crate::engine) place: RestoredPlace,
}

impl RestoreOrder {
    /// The configuration as it was asked for: limits are those of its replicas, though there is one
    /// at first.
    fn as_asked(&self) -> StreamConfig {
        StreamConfig { num_replicas: self.place.replicas, ..self.config.clone() }
    }
}

/// Restore of one stream from a backup that arrives in pieces.
pub(in crate::engine) struct Restore {
    context: BackupContext,
    start: Timestamp,
    began: Instant,
    inbox: Mutex<Inbox>,
    share: Arc<Restores>,
    /// `None` when it is over.
    work: Mutex<Option<RestoreWork>>,
    binding: Mutex<Option<Arc<Binding>>>,
    me: Weak<Self>,
}

/// Pieces that have come.
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
    /// The piece cannot be answered, or may not come.
    Bad(Box<[u8]>, String),
}

/// Room that a piece takes which waits.
fn weight(reply: &[u8], bytes: &[u8]) -> usize {
    size_of::<Piece>() + reply.len() + bytes.len()
}

struct RestoreWork {
    reader: BackupReader,
    target: AccountTarget,
    /// Reply subject of the piece at hand.
    reply: Option<Box<[u8]>>,
    is_whole: bool,
}

/// Where the stream goes; gives back what it has reserved when it is dropped.
struct AccountTarget {
    wanted: RestoreOrder,
    now: Timestamp,
    consumers: BTreeMap<String, Arc<ConsumerConfig>>,
    /// Where the stream is to count.
    budgets: [Arc<StorageBudget>; 2],
    /// Bytes that count as used until the stream counts itself.
    reserved: i64,
    /// Counts as one of the restores of the server.
    share: Arc<Restores>,
    /// Bytes that are held of what has come.
    held: usize,
}

/// Whether another restore may begin: each may hold memory for what has come.
pub(in crate::engine) fn has_room(jetstream: &JetStream) -> bool {
    // Each has one reference, and its target another.
    Arc::strong_count(&jetstream.restores) <= 2 * MOST_RESTORES
}

impl Restore {
    /// Waits for a backup. Answers where its pieces are to be sent.
    pub(in crate::engine) fn begin(
        context: BackupContext,
        wanted: RestoreOrder,
        out: &mut MessageBuf,
    ) -> String {
        let subject = format!("$JS.SNAPSHOT.RESTORE.{}.{}", context.stream, context.host.unique_id());
        let now = context.host.now();
        let account = context.account.name();
        context
            .host
            .log(Level::Info, format_args!("Starting restore for stream '{account} > {}'", context.stream));
        context.add_advisory(out, |header| {
            advisory::restore_create(header, &context.stream, context.client.as_ref())
        });
        let share = Arc::clone(&wanted.jetstream.restores);
        let of_server = match wanted.config.storage {
            Storage::Memory => &wanted.jetstream.memory,
            Storage::File => &wanted.jetstream.files,
        };
        let budgets = [wanted.account.budgets().of(&wanted.as_asked()), Arc::clone(of_server)];
        let target = AccountTarget {
            wanted,
            now,
            consumers: BTreeMap::new(),
            budgets,
            reserved: 0,
            share: Arc::clone(&share),
            held: 0,
        };
        let work = RestoreWork { reader: BackupReader::default(), target, reply: None, is_whole: false };
        let me = Arc::new_cyclic(|me| Self {
            start: now,
            began: context.host.instant(),
            inbox: Mutex::new(Inbox { last: now, ..Inbox::default() }),
            share,
            work: Mutex::new(Some(work)),
            binding: Mutex::default(),
            me: Weak::clone(me),
            context,
        });
        let service = Arc::clone(&me) as Arc<dyn Service>;
        *lock(&me.binding) = Some(me.context.account.bind(subject.as_bytes(), service));
        me.alarm(now + PATIENCE);
        subject
    }

    fn host(&self) -> &dyn Host {
        &*self.context.host
    }

    fn name(&self) -> String {
        format!("{} > {}", self.context.account.name(), self.context.stream)
    }

    fn alarm(&self, at: Timestamp) {
        self.host().schedule(at, Weak::clone(&self.me) as Weak<dyn Timer>);
    }

    fn work_later(&self) {
        if let Some(me) = self.me.upgrade() {
            self.host().spawn_backup(Box::new(move || me.work()));
        }
    }

    /// One slice of work. Only on the thread for backups.
    fn work(&self) {
        let mut held = lock(&self.work);
        let Some(work) = held.as_mut() else { return };
        work.target.now = self.host().now();
        // A fault of ours that a stranger's bytes have found costs this restore, and not a place
        // for one for ever.
        let worked = catch_unwind(AssertUnwindSafe(|| self.slice(work))).unwrap_or_else(|_| {
            let reply = work.reply.take().unwrap_or_default();
            Err(RestoreOutcome::Failed(
                reply,
                RestoreError::Other("the backup cannot be understood".to_owned()),
            ))
        });
        {
            let mut inbox = lock(&self.inbox);
            inbox.last = work.target.now;
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
    fn slice(&self, work: &mut RestoreWork) -> Result<bool, RestoreOutcome> {
        if work.reply.is_none() {
            let piece = {
                let mut inbox = lock(&self.inbox);
                let piece = inbox.pieces.pop_front();
                if let Some(Piece::Bytes(reply, bytes)) = &piece {
                    inbox.waiting -= weight(reply, bytes);
                    work.target.share.release(weight(reply, bytes));
                }
                inbox.is_working = piece.is_some();
                piece
            };
            match piece {
                None => return Ok(false),
                Some(Piece::Bad(reply, why)) => {
                    return Err(RestoreOutcome::Failed(reply, RestoreError::Other(why)));
                }
                Some(Piece::End(reply)) => return Err(RestoreOutcome::Ended(reply)),
                Some(Piece::Bytes(reply, bytes)) => {
                    // Compat: whatever follows the end of a backup is taken, and looked at by
                    // nobody.
                    if !work.is_whole {
                        work.reader.feed(&bytes);
                    }
                    work.reply = Some(reply);
                }
            }
        }
        let progress = if work.is_whole {
            Ok(RestoreProgress::Whole)
        } else {
            let now = work.target.now;
            work.reader.work(&mut work.target, SLICE, now)
        };
        let progress = progress.and_then(|progress| {
            work.target.hold(work.reader.held())?;
            work.target.keep_pace()?;
            Ok(progress)
        });
        match progress {
            Err(fault) => Err(RestoreOutcome::Failed(work.reply.take().unwrap_or_default(), fault)),
            Ok(RestoreProgress::More) => Ok(true),
            Ok(progress) => {
                work.is_whole = progress == RestoreProgress::Whole;
                let mut out = MessageBuf::default();
                let reply = work.reply.take().unwrap_or_default();
                out.push(MessageRef { subject: &reply, ..MessageRef::default() });
                self.host().publish(&self.context.account, out);
                Ok(true)
            }
        }
    }

    /// Ends what can be ended on this thread; whether the stream becomes one of the account's is
    /// decided where requests are.
    fn end(&self, work: RestoreWork, outcome: RestoreOutcome) {
        let bytes = {
            let mut inbox = lock(&self.inbox);
            inbox.is_over = true;
            inbox.is_closed = true;
            inbox.pieces.clear();
            work.target.share.release(std::mem::take(&mut inbox.waiting));
            inbox.bytes
        };
        if let Some(binding) = lock(&self.binding).take() {
            self.context.account.unbind(&binding);
        }
        let RestoreWork { reader, mut target, .. } = work;
        let is_told = !matches!(outcome, RestoreOutcome::Stalled);
        let (reply, made) = match outcome {
            RestoreOutcome::Failed(reply, fault) => (reply, Err((reader.into_builder(), fault))),
            RestoreOutcome::Ended(reply) => {
                let now = target.now;
                let made = reader.finish(&mut target, now);
                for why in made.iter().flat_map(|built| &built.left) {
                    let what =
                        format_args!("Restored stream '{}' is not as it was backed up: {why}", self.name());
                    self.host().log(Level::Warn, what);
                }
                (reply, made)
            }
            RestoreOutcome::Stalled => {
                let fault = RestoreError::Other(format!("restore for stream '{}' is stalled", self.name()));
                (Box::default(), Err((reader.into_builder(), fault)))
            }
        };
        if let Some(me) = self.me.upgrade() {
            let scope =
                CallScope::Streams(self.context.account.name().into(), self.context.stream.as_str().into());
            let host = Arc::clone(&self.context.host);
            let work = async move { me.conclude(target, &reply, made, (bytes, is_told)).await };
            self.host().spawn_api(scope, Box::new(move || run_on_api(&host, work)));
        }
    }

    /// Takes the stream into service, or removes what there is of it, and says so: in a cluster as
    /// soon as that knows it. Only on the thread that answers the API.
    async fn conclude(
        &self,
        mut target: AccountTarget,
        reply: &[u8],
        made: Made,
        (bytes, is_told): (u64, bool),
    ) {
        let jetstream = Arc::clone(&target.wanted.jetstream);
        let made = match made {
            Ok(built) => target.take_in(built),
            Err((builder, fault)) => {
                self.remove(&jetstream, builder);
                Err(fault)
            }
        };
        let place = target.wanted.place.clone();
        drop(target);
        let made = match (made, jetstream.meta()) {
            (Ok((live, info)), Some(meta)) => {
                meta.offer_restored(&jetstream, &live, place).await.map(|()| info).map_err(unjoined)
            }
            (made, _) => made.map(|(_, info)| info),
        };
        self.say_how_it_ended(reply, made, (bytes, is_told));
    }

    /// Compat: there is no advisory about one whose sender is silent.
    fn say_how_it_ended(
        &self,
        reply: &[u8],
        made: Result<StreamInfo, RestoreError>,
        (bytes, is_told): (u64, bool),
    ) {
        let mut out = MessageBuf::default();
        let context = &self.context;
        if made.is_ok() {
            context.add_advisory(&mut out, |header| stream_action(header, &context.stream, Told::Create));
        }
        if is_told {
            context.add_advisory(&mut out, |header| {
                advisory::restore_complete(
                    header,
                    &context.stream,
                    self.start,
                    bytes,
                    context.client.as_ref(),
                )
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
        self.host().publish(&context.account, out);
    }

    fn remove(&self, jetstream: &JetStream, builder: Option<Box<StreamBuilder>>) {
        if let Some(Err(why)) = builder.map(|builder| builder.abandon(&jetstream.store)) {
            let name = self.name();
            let line =
                format_args!("What was restored of stream '{name}' is removed at the next start: {why}");
            self.host().log(Level::Warn, line);
        }
    }
}

/// Stream that was filled, or what is to be removed and why.
type Made = Result<BuiltStream, (Option<Box<StreamBuilder>>, RestoreError)>;

/// How it ends.
enum RestoreOutcome {
    /// The sender has said all.
    Ended(Box<[u8]>),
    Failed(Box<[u8]>, RestoreError),
    Stalled,
}

/// Why a stream cannot be one of the account's.
///
/// Compat: what is found only when it is added is a fault of the restore, what is checked before is
/// one of the request.
fn unjoined(error: ApiError) -> RestoreError {
    let late = [ApiError::STREAM_SUBJECT_OVERLAP, ApiError::STREAM_REPLICAS_NOT_SUPPORTED];
    if late.iter().any(|late| late.err_code == error.err_code) {
        return RestoreError::Other(format!("error adding stream: {error}"));
    }
    RestoreError::Api(error)
}

fn as_error(fault: RestoreError) -> ApiError {
    match fault {
        RestoreError::Api(error) => error,
        RestoreError::Other(why) => ApiError::stream_restore(why),
    }
}

impl AccountTarget {
    fn reserve(&mut self, bytes: i64) {
        for (budget, copies) in self.budgets.iter().zip(self.copies()) {
            budget.add(bytes.saturating_mul(copies));
        }
        self.reserved += bytes;
    }

    /// How often its bytes count in each budget: the account's is for all replicas.
    fn copies(&self) -> [i64; 2] {
        [self.wanted.place.replicas.max(1), 1]
    }

    /// Counts what is held now, in the place of what was before.
    fn hold(&mut self, bytes: usize) -> Result<(), RestoreError> {
        self.share.release(std::mem::take(&mut self.held));
        if !self.share.hold(bytes) {
            return Err("the server has no memory to restore so much at once".to_owned().into());
        }
        self.held = bytes;
        Ok(())
    }

    fn check_room(&self) -> Result<(), RestoreError> {
        if self.budgets.iter().all(|budget| budget.admits(0)) { Ok(()) } else { Err(self.no_room()) }
    }

    fn no_room(&self) -> RestoreError {
        match self.wanted.config.storage {
            Storage::Memory => ApiError::MEMORY_RESOURCES_EXCEEDED,
            Storage::File => ApiError::STORAGE_RESOURCES_EXCEEDED,
        }
        .into()
    }

    /// Where everything is synced before it counts, no more is taken in than is synced.
    fn keep_pace(&self) -> Result<(), RestoreError> {
        let jetstream = &self.wanted.jetstream;
        if !jetstream.settings.sync_always || self.wanted.config.storage == Storage::Memory {
            return Ok(());
        }
        let round = jetstream.journal().round_now(&|| jetstream.host.now().unsigned_abs());
        round.map(drop).map_err(|error| RestoreError::Other(error.to_string()))
    }

    /// Makes the stream one of the account's.
    fn take_in(&mut self, built: BuiltStream) -> Result<(Arc<LiveStream>, StreamInfo), RestoreError> {
        let (jetstream, account) = (&self.wanted.jetstream, &self.wanted.account);
        let live = account.adopt(jetstream, built, &self.wanted.place).map_err(|(builder, fault)| {
            // It is removed at the next start otherwise.
            let _ = builder.abandon(&jetstream.store);
            match fault {
                RestoreError::Api(error) => unjoined(error),
                other => other,
            }
        })?;
        let config = StreamConfig { num_replicas: self.wanted.place.replicas, ..(*live.config()).clone() };
        let info = StreamInfo {
            config: with_versions(&config),
            created: live.created(),
            state: live.state(false),
            domain: String::new(),
            cluster: None,
            mirror: None,
            sources: Vec::new(),
            alternates: Vec::new(),
            ts: jetstream.host.now(),
        };
        Ok((live, info))
    }
}

impl Drop for AccountTarget {
    fn drop(&mut self) {
        self.reserve(-self.reserved);
        self.share.release(self.held);
    }
}

impl RestoreTarget for AccountTarget {
    fn name(&self) -> &str {
        &self.wanted.config.name
    }

    fn largest(&self) -> usize {
        let limit = i64::from(self.wanted.config.max_msg_size);
        let most = self.wanted.jetstream.settings.max_payload;
        let most = if limit >= 0 { most.min(limit) } else { most };
        usize::try_from(most).unwrap_or(0)
    }

    fn open(&mut self, first: Seq, bytes: u64) -> Result<StreamBuilder, RestoreError> {
        let (jetstream, account) = (Arc::clone(&self.wanted.jetstream), Arc::clone(&self.wanted.account));
        let config = self.wanted.config.clone();
        account.has_place_for(&jetstream, &self.wanted.as_asked()).map_err(unjoined)?;
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let mut budgets = self.budgets.iter().zip(self.copies());
        let has_room = budgets.all(|(budget, copies)| budget.admits(bytes.saturating_mul(copies)));
        if bytes > MOST_SAID || !has_room {
            return Err(self.no_room());
        }
        self.reserve(bytes);
        if first > myelin_store::MAX_SEQ {
            return Err(format!("first sequence {first} is too high").into());
        }
        let now = self.now;
        if config.storage == Storage::Memory {
            let stream = Stream::in_memory(storage_config(&config, false), jetstream.seed(), now);
            let mut builder = StreamBuilder::new(config, now, stream, Consumers::in_memory());
            builder.start_at(first, now)?;
            return Ok(builder);
        }
        let (name, always) = (account.account().name(), jetstream.settings.sync_always);
        let made = StreamBuilder::begin(&jetstream.store, name, config, now, first, always, now);
        made.map_err(|why| RestoreError::Other(format!("error adding stream: {why}")))
    }

    fn consumer(
        &mut self,
        stream: &StreamConfig,
        config: ConsumerConfig,
    ) -> Result<ConsumerConfig, RestoreError> {
        let (jetstream, account) = (&self.wanted.jetstream, &self.wanted.account);
        let limits = ConsumerConfigLimits {
            account: account.limits().unwrap_or_default(),
            server: jetstream.limits().consumers,
        };
        let broker = Arc::clone(account.account());
        let has_interest = |subject: &str| broker.has_interest(subject.as_bytes());
        let stream = &StreamConfig { num_replicas: self.wanted.place.replicas, ..stream.clone() };
        let world =
            CheckContext { stream, consumers: &self.consumers, limits: &limits, has_interest: &has_interest };
        let name = config.name.clone();
        let wanted = MatchedRequest { config, action: Action::CreateOrUpdate, pedantic: false };
        let created = myelin_jsapi::consumer::config::create(wanted, &world, &mut || name.clone())?;
        let config = created.config().clone();
        if self.consumers.insert(config.name.clone(), Arc::new(config.clone())).is_some() {
            return Err("it is there twice".to_owned().into());
        }
        Ok(config)
    }

    fn admit(&mut self, bytes: u64) -> Result<(), RestoreError> {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        if bytes <= self.reserved {
            return Ok(());
        }
        self.reserve(bytes - self.reserved);
        self.check_room()
    }
}

impl Service for Restore {
    fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
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

impl Timer for Restore {
    fn fire(&self) {
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
            (None, Some(me)) => self.host().spawn_backup(Box::new(move || {
                let work = lock(&me.work).take();
                if let Some(work) = work {
                    me.end(work, RestoreOutcome::Stalled);
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
