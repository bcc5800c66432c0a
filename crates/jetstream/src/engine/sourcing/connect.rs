//! How a source reader finds its origin, and the place there to begin.
//!
//! In two steps: how far a source is may have to be read from the stream, which the reading thread
//! does; consumers are made on the thread that answers the API, where streams come and go, too.

use super::origin::{self, FoundOrigin};
use super::orphans;
use super::position_search::{Finding, PositionSearch};
use super::positions::SourcePosition;
use super::read_state::{Feed, LogFeed, OriginLink};
use super::remote_request;
use super::source_consumer::{SourceConsumer, SourceConsumerName, Start};
use super::source_reader::SourceReader;
use crate::engine::consumers::LiveConsumer;
use crate::engine::host::Host;
use crate::engine::live::Downstream;
use crate::engine::{CallScope, JetStream, LiveStream, wakeup};
use myelin_jsapi::ApiError;
use myelin_jsapi::config::{Retention, StreamConfig, StreamSource};
use myelin_stdx::sync::lock;
use myelin_store::{Filter, Seq, StreamReader, Timestamp};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

/// Source readers that are about to look for their origins, each with the log that its stream had.
/// Whoever is left when this is dropped, because somebody panicked, comes again later.
struct ConnectAttempts(VecDeque<(Arc<SourceReader>, u64)>);

impl ConnectAttempts {
    /// Only on the thread that answers the API.
    fn connect(mut self, position: &Result<(), String>) {
        while let Some((source_reader, _)) = self.0.front() {
            source_reader.connect(position.clone());
            self.0.pop_front();
        }
    }
}

impl Drop for ConnectAttempts {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|(source_reader, _)| source_reader.abort_search());
    }
}

/// Source readers of one stream that find out how far they are.
struct PositionLookup {
    source_readers: ConnectAttempts,
    /// Readers of them that do not know it.
    unknown: Vec<usize>,
    search: PositionSearch,
    host: Arc<dyn Host>,
}

impl PositionLookup {
    /// `None`: there is nothing to be found out, or others are about to.
    fn begin(source_readers: Vec<Arc<SourceReader>>) -> Option<Self> {
        let is_free = |source_reader: &Arc<SourceReader>| source_reader.search.begin();
        let mut unknown = Vec::new();
        let seen = source_readers.into_iter().filter(is_free).enumerate().map(|(at, source_reader)| {
            let read_state = lock(&source_reader.read_state);
            let (log, is_known) = (read_state.log, source_reader.is_mirror || read_state.position.is_some());
            drop(read_state);
            if !is_known {
                unknown.push(at);
            }
            (source_reader, log)
        });
        let source_readers = ConnectAttempts(seen.collect());
        let first = Arc::clone(&source_readers.0.front()?.0);
        // Behind the look at its number: a log that comes meanwhile has another one.
        let stream = first.stream.upgrade()?;
        let indexes = unknown.iter().map(|at| source_readers.0[*at].0.index());
        let search = PositionSearch::new(indexes, first.positions.written(), &stream.reader());
        Some(Self { source_readers, unknown, search, host: Arc::clone(&first.host) })
    }

    fn continue_in_background(self) {
        let host = Arc::clone(&self.host);
        // Reading may take long; what makes consumers has a thread of its own. Others may read
        // between two slices.
        host.spawn_read(Box::new(move || self.continue_search(&|lookup| lookup.continue_in_background())));
    }

    /// One slice, and then `again` or the end.
    fn continue_search(mut self, again: &dyn Fn(Self)) {
        let looked = self.search.scan_slice();
        if matches!(looked, Ok(false)) {
            return again(self);
        }
        let Self { source_readers, unknown, search, host } = self;
        if looked.is_ok() {
            for (at, finding) in unknown.into_iter().zip(search.end()) {
                let (source_reader, log) = &source_readers.0[at];
                source_reader.found(finding, *log);
            }
        }
        let result = looked.map(drop).map_err(|error| error.to_string());
        // It makes and changes consumers at the origins, wherever these are.
        host.spawn_api(CallScope::Server, Box::new(move || source_readers.connect(&result)));
    }
}

/// Why there is no way to the origin.
pub(super) enum Missed {
    /// The origin is looked for again later. `None`: nobody says why.
    Because(Option<ApiError>),
    /// The messages stored here are not released, or the origin's log was opened anew meanwhile:
    /// soon there is one.
    Unreleased,
}

impl From<Option<ApiError>> for Missed {
    fn from(why: Option<ApiError>) -> Self {
        Self::Because(why)
    }
}

/// When to look again what is released.
const SOON: Timestamp = 10_000_000;

impl SourceReader {
    /// Looks for the origin, where one may wait.
    pub(super) fn connect_soon(&self) {
        self.me.upgrade().into_iter().for_each(|me| Self::connect_together(vec![me]));
    }

    /// Looks for the origins of all source readers of a stream: none of them stores anything before
    /// it is known how far each is. What one stores may take the place of what tells of another.
    pub(super) fn connect_together(source_readers: Vec<Arc<Self>>) {
        if let Some(lookup) = PositionLookup::begin(source_readers) {
            lookup.continue_in_background();
        }
    }

    /// Looks for the origins on the thread that answers the API: what is soon found is known when
    /// this returns.
    pub(super) fn connect_at_once(source_readers: Vec<Arc<Self>>) {
        if let Some(lookup) = PositionLookup::begin(source_readers) {
            lookup.continue_search(&|lookup| lookup.continue_in_background());
        }
    }

    /// How far the source is in the log of this number. What was not written down is, while the
    /// log still says it.
    fn found(&self, finding: Finding, log: u64) {
        let Some(stream) = self.stream.upgrade() else { return };
        let mut read_state = lock(&self.read_state);
        // What was found in a log that is no more is not known of this one.
        if read_state.log != log || read_state.position.is_some() {
            return;
        }
        let (position, is_written) = match finding {
            Finding::Written(position) => (position, true),
            Finding::Read(position) => (position, false),
            Finding::Nothing => {
                let since = self.since(&stream.reader());
                (SourcePosition { since, ..SourcePosition::default() }, false)
            }
        };
        if !is_written {
            self.positions.write(&self.index, &position);
        }
        lock(&self.status).seq = position.seq;
        read_state.enter(position);
    }

    /// Time from which on an origin is copied of which nothing is known.
    ///
    /// Compat: what came before the last message here is taken to be here, or to be gone. What was
    /// passed over after a loss of power that took everything was no message.
    fn since(&self, own: &StreamReader) -> Option<Timestamp> {
        let is_trimmed = own.state().totals.first_seq > self.positions.first();
        let had_others = is_trimmed || self.source.opt_start_time.is_some();
        had_others.then(|| myelin_streams::read::contents(own, false).last_time).flatten()
    }

    /// Finds the origin and the place to begin; on the thread that answers the API.
    fn connect(&self, position: Result<(), String>) {
        // Whoever makes the origin from here on is heard.
        if !self.search.look() {
            return;
        }
        let (Some(jetstream), Some(stream)) = (self.jetstream.upgrade(), self.stream.upgrade()) else {
            return;
        };
        jetstream.note_seeking();
        lock(&self.status).not_before = 0;
        let read_state = lock(&self.read_state);
        let (log, is_linked, is_known) =
            (read_state.log, read_state.link.is_some(), read_state.position.is_some());
        drop(read_state);
        if self.search.is_over() || is_linked {
            return self.search.found();
        }
        if position.is_ok() && !self.is_mirror && !is_known {
            // The log was opened anew meanwhile.
            return self.connect_soon();
        }
        let found = match (position, self.find(&jetstream)) {
            (Err(error), _) => Err(Some(self.failed(error)).into()),
            (_, FoundOrigin::Here(origin)) => self.link(&jetstream, &stream, &origin, log),
            (_, FoundOrigin::Elsewhere) => match self.ask(&jetstream, &stream, log) {
                // The answer concludes it.
                Ok(()) => return self.search.found(),
                missed => missed,
            },
            (_, FoundOrigin::Refused(error)) => Err(Some(error).into()),
            (_, FoundOrigin::Nowhere) => Err(None.into()),
        };
        self.conclude(found);
    }

    /// Goes on where the origin was found, and comes again later where it was not.
    pub(super) fn conclude(&self, found: Result<(), Missed>) {
        let now = self.host.now();
        let is_here = lock(&self.read_state).link.as_ref().is_some_and(|link| link.log().is_some());
        let mut status = lock(&self.status);
        status.was_tried = true;
        match found {
            Ok(()) => {
                status.connected(now, is_here);
                self.search.found();
                drop(status);
                self.update_direct_gets();
                self.wake();
            }
            Err(Missed::Because(error)) => {
                let again_at = status.failed(error, now);
                drop(status);
                self.update_direct_gets();
                self.schedule_at(again_at);
            }
            Err(Missed::Unreleased) => {
                drop(status);
                self.schedule_at(now + SOON);
            }
        }
    }

    /// A panic has ended its search. Must not panic itself.
    fn abort_search(&self) {
        if self.search.abort() {
            let why = Some(self.failed("a panic while the origin was looked for"));
            let again_at = lock(&self.status).failed(why, self.host.now());
            self.schedule_at(again_at);
        }
    }

    fn find(&self, jetstream: &JetStream) -> FoundOrigin {
        origin::find(jetstream, &self.account, &self.source, self.is_mirror)
    }

    /// Sees to it that a mirror that is as its origin answers direct gets for it where that does
    /// not.
    ///
    /// Compat: the reference has both answer in turn. Where the origin is at hand, nothing is won
    /// by that.
    pub(super) fn update_direct_gets(&self) {
        let (Some(jetstream), Some(stream)) = (self.jetstream.upgrade(), self.stream.upgrade()) else {
            return;
        };
        let account = jetstream.account(self.account.name());
        let origin = account.and_then(|account| account.stream(&self.source.name));
        let may = self.is_mirror && stream.config().mirror_direct && self.is_current.load(Acquire);
        let is_wanted = may && origin.is_none_or(|origin| !origin.config().allow_direct);
        if !is_wanted || self.search.is_over() {
            return self.stop_direct_gets();
        }
        let mut direct = lock(&self.direct);
        if direct.is_empty() {
            *direct = stream.bind_as_mirror(&self.source.name);
        }
    }

    pub(super) fn stop_direct_gets(&self) {
        for binding in std::mem::take(&mut *lock(&self.direct)) {
            self.account.unbind(&binding);
        }
    }

    /// Connects anew if the source consumer has another name in this configuration of the stream.
    pub(super) fn relink_if_renamed(&self, config: &StreamConfig) {
        let Some(jetstream) = self.jetstream.upgrade() else { return };
        let source_consumer =
            lock(&self.read_state).link.as_ref().and_then(|link| link.source_consumer().cloned());
        let name = self.name_in(config).consumer_name(&jetstream.settings.domain);
        if source_consumer.is_some_and(|source_consumer| {
            !source_consumer.is_client_made() && source_consumer.name() != name
        }) {
            self.relink();
        }
    }

    pub(super) fn name_in<'a>(&'a self, config: &'a StreamConfig) -> SourceConsumerName<'a> {
        SourceConsumerName {
            account: self.account.name(),
            config,
            source: &self.source,
            is_mirror: self.is_mirror,
        }
    }

    fn failed(&self, why: impl std::fmt::Display) -> ApiError {
        remote_request::failed(self.is_mirror, why)
    }

    /// Makes the way to an origin that is there, for the log that the stream had when the read
    /// state said `log`. `Because(None)` when it has another one: who opened that has the source
    /// reader come again.
    fn link(
        &self,
        jetstream: &JetStream,
        stream: &LiveStream,
        origin: &Arc<LiveStream>,
        log: u64,
    ) -> Result<(), Missed> {
        let Some(me) = self.me.upgrade().map(|me| me as Arc<dyn Downstream>) else {
            return Err(None.into());
        };
        // Before the look at its log: whoever opens another one says so to those who are known.
        origin.downstreams().add(&me);
        let reader = origin.reader();
        let identity = origin.identity();
        let Some((own, _)) = self.place(&identity, log) else { return Err(None.into()) };
        let mut start = self.start_in(&reader, stream)?;
        let mut filter = filter_of(&self.source);
        let source_consumer = self.source_consumer(jetstream, stream, origin, start)?;
        if let Some(source_consumer) = &source_consumer {
            // What the origin hears of is what is stored here, as durably as this stream stores.
            if !jetstream.make_released(stream).map_err(|error| Some(self.failed(error)))? {
                return Err(Missed::Unreleased);
            }
            // It must not lose what only a log had that is no more.
            if lock(&self.read_state).log != log {
                return Err(None.into());
            }
            let (had, wants) = source_consumer.place().ok_or(None)?;
            filter = wants;
            source_consumer.catch_up(had + 1, own, &filter);
            start = start.max(had.max(own) + 1);
            // One of another name may have stood for this source reader.
            orphans::sweep(jetstream, origin);
        }
        let floor = self.is_mirror.then(|| start - 1);
        let start = start.max(own + 1);
        let log_feed = LogFeed {
            origin: Arc::downgrade(origin),
            cursor: reader.cursor(filter.clone(), start),
            filter,
            source_consumer,
        };
        let link = OriginLink { identity, floor, feed: Feed::Log(Box::new(log_feed)) };
        let mut read_state = lock(&self.read_state);
        if read_state.log != log || self.search.is_over() {
            link.source_consumer().into_iter().for_each(SourceConsumer::release);
            return Err(None.into());
        }
        // What was stored is known to this link. To another origin it says nothing.
        read_state.unacked.clear();
        read_state.link = Some(link);
        drop(read_state);
        if !origin.downstreams().has(&me) {
            self.unlink();
            return Err(Missed::Unreleased);
        }
        Ok(())
    }

    /// How far it is with the origin of this identity, and whether that is another one than before.
    /// `None`: the log is not that one any more.
    pub(super) fn place(&self, identity: &str, log: u64) -> Option<(Seq, bool)> {
        if self.is_mirror {
            let last = self.stream.upgrade().map_or(0, |stream| stream.reader().last_logged());
            return Some((last, false));
        }
        let mut read_state = lock(&self.read_state);
        if read_state.log != log {
            return None;
        }
        let position = read_state.position.get_or_insert_default();
        let is_new = !position.identity.is_empty() && position.identity != identity;
        if is_new {
            read_state.begin_anew(self.since_anew());
            lock(&self.status).seq = 0;
        }
        let position = read_state.position.get_or_insert_default();
        identity.clone_into(&mut position.identity);
        Some((position.seq, is_new))
    }

    /// From when on an origin is copied that was made anew.
    pub(super) fn since_anew(&self) -> Option<Timestamp> {
        self.source.opt_start_time.as_ref()?;
        self.since(&self.stream.upgrade()?.reader())
    }

    /// Where to begin at the origin.
    pub(super) fn start(&self, own: &StreamReader) -> Start {
        let source = &self.source;
        if self.is_mirror {
            let last = own.state().totals.last_seq;
            return match &source.opt_start_time {
                _ if last > 0 => Start::At(last + 1),
                _ if source.opt_start_seq > 0 => Start::At(source.opt_start_seq),
                Some(time) => Start::Since(time.timestamp()),
                None => Start::First,
            };
        }
        let read_state = lock(&self.read_state);
        let known = read_state.position.as_ref();
        let (seq, since) = known.map_or((0, None), |position| (position.seq, position.since));
        match (&source.opt_start_time, since) {
            _ if seq > 0 => Start::At(seq + 1),
            _ if source.opt_start_seq > 0 => Start::At(source.opt_start_seq),
            (Some(time), since) => Start::Since(time.timestamp().max(since.unwrap_or(Timestamp::MIN))),
            (None, Some(since)) => Start::Since(since),
            (None, None) => Start::First,
        }
    }

    /// The message of the origin's log at which to begin.
    fn start_in(&self, origin: &StreamReader, stream: &LiveStream) -> Result<Seq, Option<ApiError>> {
        let first = origin.state().totals.first_seq.max(1);
        Ok(match self.start(&stream.reader()) {
            Start::First => first,
            // Compat: one that was not given out yet is waited for.
            Start::At(seq) => seq.max(first),
            Start::Since(time) => origin.seq_at(time).map_err(|error| Some(self.failed(error)))?.max(first),
        })
    }

    fn source_consumer(
        &self,
        jetstream: &JetStream,
        stream: &LiveStream,
        origin: &Arc<LiveStream>,
        start: Seq,
    ) -> Result<Option<SourceConsumer>, Option<ApiError>> {
        if let Some(given) = &self.source.consumer {
            return SourceConsumer::given(origin, &given.name, self.is_mirror).map(Some);
        }
        let config = origin.config();
        if config.retention == Retention::Limits {
            return Ok(None);
        }
        SourceConsumer::make(jetstream, origin, &config, &self.name_in(&stream.config()), start)
            .map(Some)
            .map_err(Some)
    }
}

/// Filter of what is copied from an origin.
fn filter_of(source: &StreamSource) -> Filter {
    let filters: Vec<Vec<u8>> = match source.subject_transforms.as_slice() {
        [] => vec![source.filter_subject.clone().into_bytes()],
        pairs => pairs.iter().map(|pair| pair.source.clone().into_bytes()).collect(),
    };
    if filters.iter().any(Vec::is_empty) { Filter::All } else { Filter::any(filters) }
}

impl Downstream for SourceReader {
    fn wake(&self) {
        wakeup::wake(&*self.host, &self.me);
    }

    fn make_source_consumer(&self, origin: &Arc<LiveStream>) -> Result<(), ApiError> {
        let (Some(stream), Some(jetstream)) = (self.stream.upgrade(), self.jetstream.upgrade()) else {
            return Ok(());
        };
        if self.search.is_over() || self.source.consumer.is_some() {
            return Ok(());
        }
        // Who is about to find out how far it is wants everything, as far as anybody knows.
        let read_state = lock(&self.read_state);
        let log = read_state.link.as_ref().and_then(OriginLink::log);
        let from = log.map_or(1, |log| log.cursor.position());
        drop(read_state);
        // What came before goes: it must be here, as durably as this stream stores.
        jetstream.make_released(&stream)?;
        let about_to_be = StreamConfig { retention: Retention::Interest, ..(*origin.config()).clone() };
        SourceConsumer::make(&jetstream, origin, &about_to_be, &self.name_in(&stream.config()), from)
            .map(drop)
    }

    fn relink(&self) {
        if self.unlink() {
            self.connect(Ok(()));
        }
    }

    fn reads_by(&self, consumer: &Arc<LiveConsumer>) -> bool {
        let read_state = lock(&self.read_state);
        let source_consumer = read_state.link.as_ref().and_then(OriginLink::source_consumer);
        source_consumer.is_some_and(|source_consumer| source_consumer.is(consumer))
    }

    fn lose_origin(&self) {
        self.unlink();
        self.connect_soon();
    }
}
