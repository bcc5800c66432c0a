//! How a feed finds its origin, and the place there to begin.
//!
//! In two steps: how far a source is may have to be read from the stream, which the reading thread does; consumers are made
//! on the thread that answers the API, where streams come and go, too.

use super::durable::{Durable, Owner};
use super::feed::Feed;
use super::find::{self, Origin};
use super::positions::Position;
use super::search::Search;
use super::seat::Link;
use crate::config::{Retention, StreamConfig, StreamSource};
use crate::engine::host::Host;
use crate::engine::live::lock;
use crate::engine::{JetStream, LiveStream};
use crate::error::ApiError;
use myelin_store::{Filter, ReadError, Reader, Seq, Timestamp};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// Feeds of one stream that find out how far they are.
struct Finding {
    /// Each with the log that its stream had.
    feeds: Vec<(Arc<Feed>, u64)>,
    /// Those of them that do not know it.
    unknown: Vec<usize>,
    search: Search,
    host: Arc<dyn Host>,
}

impl Finding {
    /// `None`: there is nothing to be found out, or others are about to.
    fn begin(feeds: Vec<Arc<Feed>>) -> Option<Self> {
        let is_free =
            |feed: &Arc<Feed>| !feed.is_over.load(Acquire) && !feed.is_connecting.swap(true, AcqRel);
        let feeds: Vec<_> = feeds.into_iter().filter(is_free).collect();
        let first = Arc::clone(feeds.first()?);
        let mut unknown = Vec::new();
        let seen = feeds.into_iter().enumerate().map(|(at, feed)| {
            let seat = lock(&feed.seat);
            let (log, is_known) = (seat.log, feed.is_mirror || seat.position.is_some());
            drop(seat);
            if !is_known {
                unknown.push(at);
            }
            (feed, log)
        });
        let feeds: Vec<_> = seen.collect();
        // Behind the look at its number: a log that comes meanwhile has another one.
        let stream = first.stream.upgrade()?;
        let indexes = unknown.iter().map(|at| feeds[*at].0.index());
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
                let (feed, log) = &feeds[at];
                feed.found(position, *log);
            }
        }
        let result = looked.map(drop).map_err(|error| error.to_string());
        host.run(Box::new(move || {
            feeds.into_iter().for_each(|(feed, _)| feed.connect(result.clone()));
        }));
    }
}

const SECOND: Timestamp = 1_000_000_000;
/// The longest time until an origin that was not there is looked for again. One that is made is noticed at once.
const LONGEST: Timestamp = 30 * SECOND;

impl Feed {
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
        let sign = if self.is_mirror { "M" } else { "S" };
        let found = match (position, find::find(&jetstream, &self.account, &self.source, sign)) {
            (Err(error), _) => Err(Some(self.failed(error))),
            (_, Origin::Here(origin)) => self.link(&jetstream, &stream, &origin, log),
            (_, Origin::Refused(error)) => Err(Some(error)),
            (_, Origin::Nowhere) => Err(None),
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
            Err(error) => {
                standing.failed(error);
                let pause = SECOND << standing.failures.min(5).saturating_sub(1);
                drop(standing);
                self.settle_gets();
                self.ring_at(now + pause.min(LONGEST));
            }
        }
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
    pub(super) fn hold(&self, jetstream: &JetStream, origin: &Arc<LiveStream>) {
        let Some(from) = lock(&self.seat).link.as_ref().map(|link| link.cursor.position()) else { return };
        if self.source.consumer.is_none() {
            let stream = StreamConfig { retention: Retention::Interest, ..(*origin.config()).clone() };
            let source = (&self.source, self.index.as_str(), from);
            // What fails now is told when the way is made anew.
            let _ = Durable::make(jetstream, origin, &stream, &self.owner(), source);
        }
    }

    /// The origin keeps messages for another reason: goes on where it was, with a consumer or without.
    pub(super) fn link_anew(&self) {
        let link = lock(&self.seat).link.take();
        let is_limited = |link: &Link| {
            link.origin.upgrade().is_some_and(|origin| origin.config().retention == Retention::Limits)
        };
        let Some(link) = link else { return };
        if is_limited(&link)
            && let Some(durable) = &link.durable
        {
            durable.end();
        }
        self.connect(Ok(()));
    }

    fn owner(&self) -> Owner<'_> {
        Owner { account: self.account.name(), config: &self.config, is_mirror: self.is_mirror }
    }

    fn failed(&self, why: impl std::fmt::Display) -> ApiError {
        if self.is_mirror {
            ApiError::mirror_consumer_setup_failed(why)
        } else {
            ApiError::source_consumer_setup_failed(why)
        }
    }

    /// Makes the way to an origin that is there, for the log that the stream had when its seat said `log`. `Err(None)` when it
    /// has another one: who opened that has the feed come again.
    fn link(
        &self,
        jetstream: &JetStream,
        stream: &LiveStream,
        origin: &Arc<LiveStream>,
        log: u64,
    ) -> Result<(), Option<ApiError>> {
        let reader = origin.reader();
        let identity = origin.identity();
        let Some((own, is_new)) = self.place(&identity, log) else { return Err(None) };
        let mut start =
            self.start(&reader, &stream.reader(), is_new).map_err(|error| Some(self.failed(error)))?;
        let mut filter = filter_of(&self.source);
        let durable = self.durable(jetstream, origin, start)?;
        if let Some(durable) = &durable {
            // What the origin hears of is what is stored here, as durably as this stream stores.
            jetstream.make_released(stream).map_err(|error| Some(self.failed(error)))?;
            // It must not lose what only a log had that is no more.
            if lock(&self.seat).log != log {
                return Err(None);
            }
            let (had, wants) = durable.place().ok_or(None)?;
            filter = wants;
            durable.catch_up(had + 1, own, &filter);
            start = start.max(had.max(own) + 1);
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
            return Err(None);
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
        origin: &Arc<LiveStream>,
        start: Seq,
    ) -> Result<Option<Durable>, Option<ApiError>> {
        if let Some(given) = &self.source.consumer {
            return Durable::given(origin, &given.name, self.is_mirror).map(Some);
        }
        let stream = origin.config();
        if stream.retention == Retention::Limits {
            return Ok(None);
        }
        let source = (&self.source, self.index.as_str(), start);
        Durable::make(jetstream, origin, &stream, &self.owner(), source).map(Some).map_err(Some)
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
