//! How a feed finds its origin, and the place there to begin.
//!
//! In two steps: how far a source is may have to be read from the stream, which the reading thread does; consumers are made
//! on the thread that answers the API, where streams come and go, too.

use super::find::{self, Origin};
use super::orphans;
use super::positions::Position;
use super::read_state::Link;
use super::search::Search;
use super::source_consumer::{Durable, Name};
use super::source_reader::SourceReader;
use crate::config::{Retention, StreamConfig, StreamSource};
use crate::engine::consumers::LiveConsumer;
use crate::engine::host::Host;
use crate::engine::live::lock;
use crate::engine::{JetStream, LiveStream};
use crate::error::ApiError;
use myelin_store::{Filter, ReadError, Reader, Seq, Timestamp};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// Feeds that are about to look for their origins, each with the log that its stream had. Whoever is left when this is dropped,
/// because somebody panicked, comes again later.
struct Attempts(VecDeque<(Arc<SourceReader>, u64)>);

impl Attempts {
    /// Only on the thread that answers the API.
    fn connect(mut self, position: &Result<(), String>) {
        while let Some((feed, _)) = self.0.front() {
            feed.connect(position.clone());
            self.0.pop_front();
        }
    }
}

impl Drop for Attempts {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|(feed, _)| feed.stumble());
    }
}

/// Feeds of one stream that find out how far they are.
struct Finding {
    feeds: Attempts,
    /// Those of them that do not know it.
    unknown: Vec<usize>,
    search: Search,
    host: Arc<dyn Host>,
}

impl Finding {
    /// `None`: there is nothing to be found out, or others are about to.
    fn begin(feeds: Vec<Arc<SourceReader>>) -> Option<Self> {
        let is_free =
            |feed: &Arc<SourceReader>| !feed.is_over.load(Acquire) && !feed.is_connecting.swap(true, AcqRel);
        let mut unknown = Vec::new();
        let seen = feeds.into_iter().filter(is_free).enumerate().map(|(at, feed)| {
            let seat = lock(&feed.seat);
            let (log, is_known) = (seat.log, feed.is_mirror || seat.position.is_some());
            drop(seat);
            if !is_known {
                unknown.push(at);
            }
            (feed, log)
        });
        let feeds = Attempts(seen.collect());
        let first = Arc::clone(&feeds.0.front()?.0);
        // Behind the look at its number: a log that comes meanwhile has another one.
        let stream = first.stream.upgrade()?;
        let indexes = unknown.iter().map(|at| feeds.0[*at].0.index());
        let search = Search::new(indexes, first.positions.written(), &stream.reader());
        Some(Self { feeds, unknown, search, host: Arc::clone(&first.host) })
    }

    fn go_on_elsewhere(self) {
        let host = Arc::clone(&self.host);
        // Reading may take long; what makes consumers has a thread of its own. Others may read between two slices.
        host.read(Box::new(move || self.go_on(&|finding| finding.go_on_elsewhere())));
    }

    /// One slice, and then `again` or the end.
    fn go_on(mut self, again: &dyn Fn(Self)) {
        let looked = self.search.look();
        if matches!(looked, Ok(false)) {
            return again(self);
        }
        let Self { feeds, unknown, search, host } = self;
        if looked.is_ok() {
            for (at, position) in unknown.into_iter().zip(search.end()) {
                let (feed, log) = &feeds.0[at];
                feed.found(position, *log);
            }
        }
        let result = looked.map(drop).map_err(|error| error.to_string());
        host.run(Box::new(move || feeds.connect(&result)));
    }
}

/// Why there is no way to the origin.
enum Missed {
    /// It is looked for again later. `None`: nobody says why.
    Because(Option<ApiError>),
    /// What is stored here is not released. It will be.
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

    /// The same for all of a stream: none of them stores anything before it is known how far each is. What one stores may take
    /// the place of what tells of another.
    pub(super) fn connect_together(feeds: Vec<Arc<Self>>) {
        if let Some(finding) = Finding::begin(feeds) {
            finding.go_on_elsewhere();
        }
    }

    /// The same on the thread that answers the API: what is soon found is known when this returns.
    pub(super) fn connect_at_once(feeds: Vec<Arc<Self>>) {
        if let Some(finding) = Finding::begin(feeds) {
            finding.go_on(&|finding| finding.go_on_elsewhere());
        }
    }

    /// How far the source is in the log of this number.
    fn found(&self, position: Position, log: u64) {
        let mut seat = lock(&self.seat);
        // What was found in a log that is no more is not known of this one.
        if seat.log == log && seat.position.is_none() {
            lock(&self.standing).seq = position.seq;
            seat.enter(position);
        }
    }

    /// Finds the origin and the place to begin; on the thread that answers the API.
    fn connect(&self, position: Result<(), String>) {
        // Whoever makes the origin from here on is heard.
        self.is_connecting.store(false, Release);
        let (Some(jetstream), Some(stream)) = (self.jetstream.upgrade(), self.stream.upgrade()) else {
            return;
        };
        self.is_seeking.store(true, Release);
        jetstream.note_seeking();
        let seat = lock(&self.seat);
        let (log, is_linked, is_known) = (seat.log, seat.link.is_some(), seat.position.is_some());
        drop(seat);
        if self.is_over.load(Acquire) || is_linked {
            self.is_seeking.store(false, Release);
            return;
        }
        if position.is_ok() && !self.is_mirror && !is_known {
            // The log was opened anew meanwhile.
            return self.connect_soon();
        }
        let found = match (position, self.find(&jetstream)) {
            (Err(error), _) => Err(Some(self.failed(error)).into()),
            (_, Origin::Here(origin)) => self.link(&jetstream, &stream, &origin, log),
            (_, Origin::Refused(error)) => Err(Some(error).into()),
            (_, Origin::Nowhere) => Err(None.into()),
        };
        let now = self.host.now();
        let mut standing = lock(&self.standing);
        standing.was_tried = true;
        match found {
            Ok(()) => {
                standing.connected(now);
                self.is_seeking.store(false, Release);
                drop(standing);
                self.settle_gets();
                self.wake();
            }
            Err(Missed::Because(error)) => {
                let pause = standing.failed(error);
                drop(standing);
                self.settle_gets();
                self.ring_at(now + pause);
            }
            Err(Missed::Unreleased) => {
                drop(standing);
                self.ring_at(now + SOON);
            }
        }
    }

    /// A panic has ended its search. Must not panic itself.
    fn stumble(&self) {
        self.is_connecting.store(false, Release);
        if !self.is_over.load(Acquire) {
            let pause =
                lock(&self.standing).failed(Some(self.failed("a panic while the origin was looked for")));
            self.ring_at(self.host.now() + pause);
        }
    }

    fn find(&self, jetstream: &JetStream) -> Origin {
        find::find(jetstream, &self.account, &self.source, self.is_mirror)
    }

    /// Sees to it that a mirror that is as its origin answers direct gets for it where that does not.
    ///
    /// Compat: the reference has both answer in turn. Where the origin is at hand, nothing is won by that.
    pub(super) fn settle_gets(&self) {
        let (Some(jetstream), Some(stream)) = (self.jetstream.upgrade(), self.stream.upgrade()) else {
            return;
        };
        let account = jetstream.account(self.account.name());
        let origin = account.and_then(|account| account.stream(&self.source.name));
        let may = self.is_mirror && stream.config().mirror_direct && self.is_current.load(Acquire);
        let is_wanted = may && origin.is_none_or(|origin| !origin.config().allow_direct);
        if !is_wanted || self.is_over.load(Acquire) {
            return self.answer_no_gets();
        }
        let mut direct = lock(&self.direct);
        if direct.is_empty() {
            *direct = stream.bind_as_mirror(&self.source.name);
        }
    }

    pub(super) fn answer_no_gets(&self) {
        for binding in std::mem::take(&mut *lock(&self.direct)) {
            self.account.unbind(&binding);
        }
    }

    /// The origin is about to keep only what consumers want: has the one made that stands for this feed.
    ///
    /// # Errors
    /// There is none, so the origin must not.
    pub(super) fn hold(&self, jetstream: &JetStream, origin: &Arc<LiveStream>) -> Result<(), ApiError> {
        let Some(stream) = self.stream.upgrade() else { return Ok(()) };
        if self.is_over.load(Acquire) || self.source.consumer.is_some() {
            return Ok(());
        }
        // Who is about to find out how far it is wants everything, as far as anybody knows.
        let from = lock(&self.seat).link.as_ref().map_or(1, |link| link.cursor.position());
        // What came before goes: it must be here, as durably as this stream stores.
        jetstream.make_released(&stream)?;
        let about_to_be = StreamConfig { retention: Retention::Interest, ..(*origin.config()).clone() };
        Durable::make(jetstream, origin, &about_to_be, &self.name_in(&stream.config()), from).map(drop)
    }

    /// The origin keeps messages for another reason, or the consumer there is gone: goes on where it was.
    pub(super) fn link_anew(&self) {
        if lock(&self.seat).link.take().is_some() {
            self.connect(Ok(()));
        }
    }

    /// Whether this is the consumer that stands for it.
    pub(super) fn reads_by(&self, consumer: &Arc<LiveConsumer>) -> bool {
        let seat = lock(&self.seat);
        let durable = seat.link.as_ref().and_then(|link| link.durable.as_ref());
        durable.is_some_and(|durable| durable.is(consumer))
    }

    /// The same if the consumer has another name in this configuration of the stream.
    pub(super) fn settle_name(&self, config: &StreamConfig) {
        let Some(jetstream) = self.jetstream.upgrade() else { return };
        let durable = lock(&self.seat).link.as_ref().and_then(|link| link.durable.clone());
        let name = self.name_in(config).consumer_name(&jetstream.settings.domain);
        if durable.is_some_and(|durable| !durable.is_given() && durable.name() != name) {
            self.link_anew();
        }
    }

    fn name_in<'a>(&'a self, config: &'a StreamConfig) -> Name<'a> {
        Name { account: self.account.name(), config, source: &self.source, is_mirror: self.is_mirror }
    }

    fn failed(&self, why: impl std::fmt::Display) -> ApiError {
        if self.is_mirror {
            ApiError::mirror_consumer_setup_failed(why)
        } else {
            ApiError::source_consumer_setup_failed(why)
        }
    }

    /// Makes the way to an origin that is there, for the log that the stream had when its seat said `log`. `Because(None)` when
    /// it has another one: who opened that has the feed come again.
    fn link(
        &self,
        jetstream: &JetStream,
        stream: &LiveStream,
        origin: &Arc<LiveStream>,
        log: u64,
    ) -> Result<(), Missed> {
        let reader = origin.reader();
        let identity = origin.identity();
        let Some((own, is_new)) = self.place(&identity, log) else { return Err(None.into()) };
        let mut start =
            self.start(&reader, &stream.reader(), is_new).map_err(|error| Some(self.failed(error)))?;
        let mut filter = filter_of(&self.source);
        let durable = self.durable(jetstream, stream, origin, start)?;
        if let Some(durable) = &durable {
            // What the origin hears of is what is stored here, as durably as this stream stores.
            if !jetstream.make_released(stream).map_err(|error| Some(self.failed(error)))? {
                return Err(Missed::Unreleased);
            }
            // It must not lose what only a log had that is no more.
            if lock(&self.seat).log != log {
                return Err(None.into());
            }
            let (had, wants) = durable.place().ok_or(None)?;
            filter = wants;
            durable.catch_up(had + 1, own, &filter);
            start = start.max(had.max(own) + 1);
            // One of another name may have stood for this feed.
            orphans::sweep(jetstream, origin);
        }
        let floor = self.is_mirror.then(|| start - 1);
        let start = start.max(own + 1);
        let link = Link {
            origin: Arc::downgrade(origin),
            identity,
            cursor: reader.cursor(filter.clone(), start),
            filter,
            floor,
            durable,
        };
        let mut seat = lock(&self.seat);
        if seat.log != log || self.is_over.load(Acquire) {
            return Err(None.into());
        }
        // What was stored is known to this link. To another origin it says nothing.
        seat.unsettled.clear();
        seat.link = Some(link);
        drop(seat);
        if let Some(me) = self.me.upgrade() {
            origin.followers().add(&me);
        }
        Ok(())
    }

    /// How far it is with the origin of this identity, and whether that is another one than before. `None`: the log is not that
    /// one any more.
    fn place(&self, identity: &str, log: u64) -> Option<(Seq, bool)> {
        if self.is_mirror {
            let last = self.stream.upgrade().map_or(0, |stream| stream.reader().state().totals.last_seq);
            return Some((last, false));
        }
        let mut seat = lock(&self.seat);
        if seat.log != log {
            return None;
        }
        let position = seat.position.get_or_insert_default();
        let is_new = !position.identity.is_empty() && position.identity != identity;
        if is_new {
            *position = Position::default();
            lock(&self.standing).seq = 0;
        }
        identity.clone_into(&mut position.identity);
        let seq = position.seq;
        if is_new {
            // How far it was with the other one says nothing of this one.
            seat.past.clear();
            seat.past.push_back((0, 0, None));
        }
        Some((seq, is_new))
    }

    /// The first sequence of the origin to look at. `is_anew`: the origin was made anew.
    fn start(&self, origin: &Reader, own: &Reader, is_anew: bool) -> Result<Seq, ReadError> {
        let totals = origin.state().totals;
        let first = totals.first_seq.max(1);
        let at_time = |time| origin.seq_at(time);
        let here = own.state().totals;
        let source = &self.source;
        let start = if self.is_mirror {
            match &source.opt_start_time {
                _ if here.last_seq > 0 => here.last_seq + 1,
                _ if source.opt_start_seq > 0 => source.opt_start_seq,
                Some(time) => at_time(time.timestamp())?,
                None => first,
            }
        } else {
            let seq = lock(&self.seat).position.as_ref().map_or(0, |position| position.seq);
            let last_time = crate::read::contents(own, false).last_time;
            match (&source.opt_start_time, last_time) {
                _ if seq > 0 => seq + 1,
                _ if source.opt_start_seq > 0 => source.opt_start_seq,
                // Compat: what came before the last message here is taken to be here, or to be gone.
                (Some(time), Some(last)) if time.timestamp() < last => at_time(last)?,
                (Some(time), _) => at_time(time.timestamp())?,
                (None, Some(last)) if here.first_seq > 1 && !is_anew => at_time(last)?,
                _ => first,
            }
        };
        // Compat: one that was not given out yet is waited for.
        Ok(start.max(first))
    }

    fn durable(
        &self,
        jetstream: &JetStream,
        stream: &LiveStream,
        origin: &Arc<LiveStream>,
        start: Seq,
    ) -> Result<Option<Durable>, Option<ApiError>> {
        if let Some(given) = &self.source.consumer {
            return Durable::given(origin, &given.name, self.is_mirror).map(Some);
        }
        let config = origin.config();
        if config.retention == Retention::Limits {
            return Ok(None);
        }
        Durable::make(jetstream, origin, &config, &self.name_in(&stream.config()), start)
            .map(Some)
            .map_err(Some)
    }
}

/// What is taken of an origin.
fn filter_of(source: &StreamSource) -> Filter {
    let filters: Vec<Vec<u8>> = match source.subject_transforms.as_slice() {
        [] => vec![source.filter_subject.clone().into_bytes()],
        pairs => pairs.iter().map(|pair| pair.source.clone().into_bytes()).collect(),
    };
    if filters.iter().any(Vec::is_empty) { Filter::All } else { Filter::any(filters) }
}
