//! State of a source reader: its place in the origin's log, and runs of messages on their way.
//!
//! Used inside the turn of the stream that copies, and by the thread that connects. Memory is
//! bounded by a run.

use super::origin::is_for_its_leader;
use super::positions::SourcePosition;
use super::remote_feed::FlowQuestion;
use super::remote_origin::RemoteOrigin;
use super::render::SourceRenderer;
use super::source_consumer::SourceConsumer;
use crate::engine::LiveStream;
use myelin_stdx::rng::Rng;
use myelin_store::{Cursor, Filter, LogEnd, Message, ReadError, Seq, Stream, Ticket, Timestamp, Wait};
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// A run ends at so many bytes or messages: others have their turn then.
const RUN_BYTES: usize = 128 * 1024;
const RUN_MESSAGES: usize = 1024;
/// Whoever waits keeps memory for a run of so many bytes: many may wait.
pub(super) const SPARE_BYTES: usize = 16 * 1024;
/// Positions that are kept behind the last one, and one for each file that is not synced. More
/// there are only where syncs take long: then not each is.
const PAST: usize = 12;

/// State of a source reader: its place in the origin's log, and how far the source is.
pub(super) struct ReadState {
    /// How often the log of the stream that copies was left for another one: what was found in one
    /// says nothing in the next.
    pub(super) log: u64,
    pub(super) link: Option<OriginLink>,
    /// How far a source is; `None`: not known yet.
    pub(super) position: Option<SourcePosition>,
    /// The ones before: sequence there and here, and where the log ended. `None`: that much
    /// survives anything.
    pub(super) past: VecDeque<(Seq, Seq, Option<LogEnd>)>,
    pub(super) renderer: SourceRenderer,
    /// The run, with sequence and time of each message as the origin has them.
    pub(super) msgs: MessageBuf,
    pub(super) stamps: Vec<(Seq, Timestamp)>,
    /// The bytes of the largest run that they have had.
    pub(super) largest: usize,
    /// Messages that the origin may lose when this stream has released them.
    pub(super) unacked: VecDeque<(Ticket, Vec<Seq>)>,
    /// Questions of an origin on another server, which are answered when this stream has released
    /// that.
    pub(super) questions: VecDeque<(Ticket, FlowQuestion)>,
    /// Name of the consumer that was asked for last, as it is where the origin keeps messages.
    pub(super) asked_for: String,
    pub(super) rng: Rng,
    /// How often the next message was refused. It is tried alone then.
    pub(super) refusals: u32,
}

/// A way to the origin.
pub(super) struct OriginLink {
    pub(super) identity: String,
    /// A mirror has nothing up to here, because the origin has nothing.
    pub(super) floor: Option<Seq>,
    pub(super) feed: Feed,
}

/// Where messages of the origin are taken from.
pub(super) enum Feed {
    /// The log of a stream of this server.
    Log(Box<LogFeed>),
    /// A consumer of this name on another server.
    Remote { origin: Arc<RemoteOrigin>, consumer: String },
}

/// Place in the log of a stream of this server.
pub(super) struct LogFeed {
    pub(super) origin: Weak<LiveStream>,
    pub(super) filter: Filter,
    pub(super) cursor: Cursor,
    /// Where the origin loses what is acknowledged.
    pub(super) source_consumer: Option<SourceConsumer>,
}

impl OriginLink {
    /// The log, if the origin is a stream of this server.
    pub(super) fn log(&self) -> Option<&LogFeed> {
        match &self.feed {
            Feed::Log(log) => Some(log),
            Feed::Remote { .. } => None,
        }
    }

    /// The consumer that keeps messages of the origin for this stream, on this server.
    pub(super) fn source_consumer(&self) -> Option<&SourceConsumer> {
        self.log()?.source_consumer.as_ref()
    }

    /// The origin on another server.
    pub(super) fn remote(&self) -> Option<&Arc<RemoteOrigin>> {
        match &self.feed {
            Feed::Log(_) => None,
            Feed::Remote { origin, .. } => Some(origin),
        }
    }

    /// Whether nothing more comes this way.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        match &self.feed {
            Feed::Log(log) => log.origin.upgrade().is_none_or(|origin| {
                let is_settled_here = log.source_consumer.is_some();
                origin.is_gone() || (is_settled_here && is_for_its_leader(&origin))
            }),
            Feed::Remote { origin, .. } => origin.is_over(now),
        }
    }

    /// Has the next run begin at this message of the last one. What came from another server waits
    /// until it is stored.
    pub(super) fn go_back(&mut self, seq: Seq) {
        if let Feed::Log(log) = &mut self.feed {
            log.cursor.skip_to(seq);
        }
    }
}

fn are_of_one_file(one: Option<LogEnd>, other: Option<LogEnd>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one.shares_file(other))
}

/// Where a run ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RunEnd {
    /// There is more at hand.
    Full,
    /// Nothing is left.
    All,
    /// The next message has to be read from the device.
    Cold,
    /// The next message cannot be read now, and may be later.
    Refused,
}

impl ReadState {
    /// Takes over a position that was found in the stream's files, which are all synced when they
    /// are opened.
    pub(super) fn enter(&mut self, position: SourcePosition) {
        self.past.clear();
        self.past.push_back((position.seq, position.local, None));
        self.position = Some(SourcePosition { before: Vec::new(), thrown_back: false, ..position });
    }

    /// The origin was made anew: nothing of what is there now is here; it is copied from `since`.
    pub(super) fn begin_anew(&mut self, since: Option<Timestamp>) {
        self.position = Some(SourcePosition { since, ..SourcePosition::default() });
        // How far it was with the other one says nothing of this one.
        self.past.clear();
        self.past.push_back((0, 0, None));
    }

    /// The source is at `seq` of its origin, and `store` ends behind that. Answers what is to be
    /// written down.
    pub(super) fn come_to(&mut self, seq: Seq, store: &Stream) -> &SourcePosition {
        let Self { position, past, .. } = self;
        let is_safe = |end: &Option<LogEnd>| end.is_none_or(|end| store.is_synced(end));
        // One that is safe is as far back as anybody can be thrown.
        while past.get(1).is_some_and(|(_, _, end)| is_safe(end)) {
            past.pop_front();
        }
        // The last of each file stays: what tells of the messages before it may be gone when the
        // file is sealed.
        if past.len() > PAST
            && let Some(at) = (1..past.len() - 1).find(|&at| are_of_one_file(past[at].2, past[at + 1].2))
        {
            past.remove(at);
        }
        let local = store.state().totals.last_seq;
        debug_assert!(
            past.back().is_none_or(|(_, before, _)| *before <= local),
            "positions are kept in the order in which the stream came to them"
        );
        let position = position.get_or_insert_default();
        position.thrown_back = false;
        position.before.clear();
        position.before.extend(past.iter().map(|(seq, local, _)| (*seq, *local)));
        (position.seq, position.local) = (seq, local);
        past.push_back((seq, local, Some(store.end())));
        position
    }

    /// There is nothing to be read now, and the last run was a small one.
    pub(super) fn shrink(&mut self) {
        if self.largest > SPARE_BYTES {
            (self.msgs, self.stamps, self.largest) = (MessageBuf::default(), Vec::new(), 0);
        }
    }

    /// Reads a run. An empty one: nothing is there, or not at hand.
    pub(super) fn read(&mut self) -> RunEnd {
        let end = self.fill();
        debug_assert_eq!(self.msgs.len(), self.stamps.len(), "each message of a run has its sequence");
        debug_assert!(
            self.stamps.is_sorted_by(|one, next| one.0 < next.0),
            "a run is in the order of its origin"
        );
        if let Some(OriginLink { feed: Feed::Log(log), .. }) = &mut self.link {
            // The source reader may wait for ever.
            log.cursor.pause();
        }
        self.largest = self.largest.max(self.msgs.bytes());
        end
    }

    fn fill(&mut self) -> RunEnd {
        let Self { link, renderer, msgs, stamps, rng, refusals, .. } = self;
        msgs.clear();
        stamps.clear();
        let Some(OriginLink { feed, identity, .. }) = link else { return RunEnd::All };
        let random = &mut || rng.next_u64() as u32;
        let most = if *refusals > 0 { 1 } else { RUN_MESSAGES };
        let mut put = |message: &Message<'_>, msgs: &mut MessageBuf| {
            let (subject, headers) = renderer.render(message, identity, random);
            msgs.push(MessageRef { subject, headers, payload: message.payload, ..MessageRef::default() });
            stamps.push((message.seq, message.timestamp));
        };
        match feed {
            Feed::Log(log) => fill_from_log(&mut log.cursor, most, msgs, put),
            Feed::Remote { origin, .. } => {
                let has_more = origin.read(|message| {
                    let has_room = msgs.bytes() < RUN_BYTES && msgs.len() < most;
                    if has_room {
                        put(message, msgs);
                    }
                    has_room
                });
                if has_more { RunEnd::Full } else { RunEnd::All }
            }
        }
    }
}

/// Reads a run of a log.
fn fill_from_log(
    cursor: &mut Cursor,
    most: usize,
    msgs: &mut MessageBuf,
    mut put: impl FnMut(&Message<'_>, &mut MessageBuf),
) -> RunEnd {
    let mut damaged = 0;
    while msgs.bytes() < RUN_BYTES && msgs.len() + damaged < most {
        let at = cursor.position();
        match cursor.next(Wait::Forbidden) {
            Ok(Some(message)) => put(&message, msgs),
            Ok(None) => return RunEnd::All,
            Err(ReadError::WouldWait) => return RunEnd::Cold,
            Err(ReadError::More) => return RunEnd::Full,
            // The system's troubles (too many open files, a bad moment of a disk) take nothing
            // away.
            Err(ReadError::Io(_)) => return RunEnd::Refused,
            // What is damaged there is not here.
            Err(ReadError::Damaged(_)) => {
                damaged += 1;
                cursor.skip(at.max(cursor.position()));
            }
        }
    }
    RunEnd::Full
}
