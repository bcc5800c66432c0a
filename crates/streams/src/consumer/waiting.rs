//! Pull requests that wait for messages, in the order in which they are served.
//!
//! Owns the order: a request that got a message goes behind the others, so that messages are dealt
//! out in turn; with priorities behind those of its own. Compat: the same order as the reference,
//! message by message.

use myelin_jsapi::consumer::NextRequest;
use myelin_store::Timestamp;
use std::collections::VecDeque;

/// One request.
#[derive(Debug)]
pub(super) struct WaitingRequest {
    pub(super) reply: Box<[u8]>,
    /// Messages that it still wants.
    pub(super) left: i64,
    /// Messages that it got.
    pub(super) delivered: u64,
    /// Bytes that it still takes; 0: any number.
    pub(super) bytes: i64,
    pub(super) expires: Option<Timestamp>,
    /// When the next one is due.
    pub(super) beat_at: Option<Timestamp>,
    /// Request as it came; its `id` becomes the one that its client is pinned by.
    pub(super) ask: NextRequest,
    /// The turn in which somebody was seen to listen.
    pub(super) seen_in: u64,
}

impl WaitingRequest {
    pub(super) fn new(reply: &[u8], request: NextRequest, now: Timestamp) -> Self {
        Self {
            reply: reply.into(),
            left: request.batch,
            delivered: 0,
            bytes: request.max_bytes,
            expires: request.expires.map(|nanos| now.saturating_add(nanos)),
            beat_at: (request.heartbeat > 0).then(|| now.saturating_add(request.heartbeat)),
            ask: request,
            seen_in: 0,
        }
    }

    pub(super) fn has_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|at| at < now)
    }

    /// The next sign of life is due a while from now.
    pub(super) fn beat_later(&mut self, now: Timestamp) {
        if self.ask.heartbeat > 0 {
            self.beat_at = Some(now.saturating_add(self.ask.heartbeat));
        }
    }

    fn priority(&self) -> i64 {
        // Compat: requests without a group come last.
        if self.ask.is_object { self.ask.priority } else { i64::MAX }
    }
}

/// Queue of pull requests that wait for messages, in the order in which they are served.
#[derive(Debug, Default)]
pub(super) struct WaitQueue {
    /// Boxed: with two of them, each message moves one to the end.
    requests: VecDeque<Box<WaitingRequest>>,
}

impl WaitQueue {
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Adds a request behind all, or behind those of its priority.
    pub(super) fn add(&mut self, request: WaitingRequest, by_priority: bool) {
        self.insert(Box::new(request), by_priority);
    }

    fn insert(&mut self, request: Box<WaitingRequest>, by_priority: bool) {
        if !by_priority {
            return self.requests.push_back(request);
        }
        let priority = request.priority();
        let at = self.requests.iter().position(|other| other.priority() > priority);
        self.requests.insert(at.unwrap_or(self.requests.len()), request);
    }

    /// The one that is served next.
    pub(super) fn front(&mut self) -> Option<&mut WaitingRequest> {
        self.requests.front_mut().map(|request| &mut **request)
    }

    /// Takes it out.
    pub(super) fn pop(&mut self) -> Option<Box<WaitingRequest>> {
        self.requests.pop_front()
    }

    /// The front one goes behind all others.
    pub(super) fn cycle(&mut self) {
        if self.requests.len() > 1 {
            self.requests.rotate_left(1);
        }
    }

    /// The front one got a message: it goes behind the others, or is done.
    pub(super) fn served(&mut self, by_priority: bool) -> Option<Box<WaitingRequest>> {
        let front = self.requests.front_mut()?;
        if front.left <= 0 {
            return self.requests.pop_front();
        }
        if self.requests.len() > 1
            && let Some(front) = self.requests.pop_front()
        {
            self.insert(front, by_priority);
        }
        None
    }

    /// Shows each request and drops those for which `keep` says no.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&mut WaitingRequest) -> bool) {
        self.requests.retain_mut(|request| keep(request));
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Box<WaitingRequest>> {
        self.requests.drain(..)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &WaitingRequest> {
        self.requests.iter().map(|request| &**request)
    }
}
