//! A stream on its way from another server.

use super::{Installs, WINDOW};
use crate::engine::groups::IncomingReplica;
use myelin_broker::Level;
use myelin_replica::Peer;
use myelin_replica::frame::GroupPlace;
use myelin_stdx::sync::lock;
use myelin_streams::group::install::{InstallBody, InstallDigest, InstallMessage};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A disk that is at one thing for longer is not waited for: the other server keeps what comes
/// meanwhile.
const LONGEST_WORK: Duration = Duration::from_secs(1800);

/// Time between two lines of the log about one stream that is on its way.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// How far a stream is that is on its way from another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct InstallProgress {
    /// Where it comes from.
    pub(in crate::engine) from: Peer,
    /// Bytes that have come.
    pub(in crate::engine) bytes: u64,
    /// How much of it that is, as far as sequences tell.
    pub(in crate::engine) percent: u64,
    /// For how long it has been on its way.
    pub(in crate::engine) time: Duration,
    /// Whether the log is to say so: nothing was said for a while.
    pub(in crate::engine) is_due: bool,
}

/// Stream on its way from another server.
pub(super) struct Incoming {
    from: Peer,
    pub(super) place: GroupPlace,
    install: u64,
    inbox: Mutex<IncomingInbox>,
    /// Pieces that have come.
    work: Mutex<IncomingWork>,
}

struct IncomingInbox {
    bodies: VecDeque<InstallBody>,
    heard: Instant,
    /// When something was taken up or done last.
    progressed: Instant,
    is_working: bool,
    is_over: bool,
    arrived: Arrived,
}

/// Part of a stream that has been taken.
struct Arrived {
    began: Instant,
    told: Instant,
    bytes: u64,
    percent: u64,
}

#[derive(Default)]
struct IncomingWork {
    staged: Option<Box<dyn IncomingReplica>>,
    taken: u64,
    digest: InstallDigest,
}

impl Incoming {
    pub(super) fn new(from: Peer, (place, install): (GroupPlace, u64), now: Instant) -> Self {
        let inbox = IncomingInbox {
            bodies: VecDeque::new(),
            heard: now,
            progressed: now,
            is_working: false,
            is_over: false,
            arrived: Arrived { began: now, told: now, bytes: 0, percent: 0 },
        };
        Self { from, place, install, inbox: Mutex::new(inbox), work: Mutex::default() }
    }

    pub(super) fn from(&self) -> Peer {
        self.from
    }

    /// Whether it is this one.
    pub(super) fn is(&self, from: Peer, install: u64) -> bool {
        (self.from, self.install) == (from, install)
    }

    /// How far it is. `tells`: whoever asks tells that, if it is due.
    pub(super) fn progress(&self, now: Instant, tells: bool) -> InstallProgress {
        let arrived = &mut lock(&self.inbox).arrived;
        let is_due = now.saturating_duration_since(arrived.told) >= TELL_EVERY;
        if tells && is_due {
            arrived.told = now;
        }
        let time = now.saturating_duration_since(arrived.began);
        InstallProgress { from: self.from, bytes: arrived.bytes, percent: arrived.percent, time, is_due }
    }

    /// When something came last; `None` while that is worked on.
    pub(super) fn heard(&self) -> Option<Instant> {
        let inbox = lock(&self.inbox);
        (!inbox.is_working).then_some(inbox.heard)
    }

    /// Says that this server is there and at work, if it is: what it does with what has come may
    /// take longer than the other one waits for a word.
    pub(super) fn reassure(&self, installs: &Installs) {
        let inbox = lock(&self.inbox);
        let since = installs.host.instant().saturating_duration_since(inbox.progressed);
        let is_at_work = inbox.is_working && !inbox.is_over && since < LONGEST_WORK;
        drop(inbox);
        if is_at_work {
            // Nothing more than before.
            self.answer(installs, InstallBody::Taken(0));
        }
    }

    /// Takes something that was said, for the thread that works on it.
    pub(super) fn take(self: &Arc<Self>, installs: &Installs, body: InstallBody) {
        let mut inbox = lock(&self.inbox);
        inbox.heard = installs.host.instant();
        // A sender that does not wait for answers is none of ours.
        if inbox.is_over || inbox.bodies.len() as u64 > 2 * WINDOW {
            return;
        }
        inbox.bodies.push_back(body);
        let is_free = !std::mem::replace(&mut inbox.is_working, true);
        if is_free {
            inbox.progressed = inbox.heard;
        }
        drop(inbox);
        if is_free {
            let one = Arc::clone(self);
            installs.later(move |installs| one.work(installs));
        }
    }

    fn answer(&self, installs: &Installs, body: InstallBody) {
        let (place, install) = (self.place, self.install);
        installs.send(self.from, &InstallMessage { place, install, body });
    }

    fn work(self: &Arc<Self>, installs: &Installs) {
        loop {
            let mut inbox = lock(&self.inbox);
            let body = inbox.bodies.pop_front().filter(|_| !inbox.is_over);
            inbox.progressed = installs.host.instant();
            let Some(body) = body else {
                inbox.is_working = false;
                return;
            };
            drop(inbox);
            let mut work = lock(&self.work);
            match self.do_what(installs, &mut work, body) {
                Ok(Some(answer)) => self.answer(installs, answer),
                // The thread of the API goes on.
                Ok(None) => return,
                Err(why) => {
                    drop(work);
                    return self.give_up(installs, &why);
                }
            }
        }
    }

    /// Does what something that was said asks for. Answers what to answer; `None`: the stream is
    /// whole, and is about to take its place.
    fn do_what(
        self: &Arc<Self>,
        installs: &Installs,
        work: &mut IncomingWork,
        body: InstallBody,
    ) -> Result<Option<InstallBody>, String> {
        let missing = || "a piece is missing".to_owned();
        match body {
            InstallBody::Offer { point, lifetimes_until } => {
                let member = installs.members.get(self.place.group);
                let member = member.ok_or("its stream is gone")?;
                work.staged = Some(member.begin_install(self.place, point, lifetimes_until)?);
                Ok(Some(InstallBody::Taken(0)))
            }
            InstallBody::Piece(number, piece) if number == work.taken + 1 => {
                let staged = work.staged.as_mut().ok_or_else(missing)?;
                staged.take(&piece)?;
                work.taken = number;
                let percent = staged.percent();
                let arrived = &mut lock(&self.inbox).arrived;
                (arrived.bytes, arrived.percent) = (arrived.bytes + piece.len() as u64, percent);
                work.digest.add(&piece);
                Ok(Some(InstallBody::Taken(number)))
            }
            InstallBody::End(pieces, digest) if (pieces, digest) == (work.taken, work.digest) => {
                let mut staged = work.staged.take().ok_or_else(missing)?;
                staged.finish()?;
                let scope = staged.scope();
                let (one, installs_weak) = (Arc::clone(self), installs.me_weak.clone());
                let conclude = move || {
                    if let Some(installs) = installs_weak.upgrade() {
                        one.conclude(&installs, staged);
                    }
                };
                installs.host.spawn_api(scope, Box::new(conclude));
                Ok(None)
            }
            _ => Err(missing()),
        }
    }

    /// The stream takes its place, on the thread of the API.
    fn conclude(self: &Arc<Self>, installs: &Installs, staged: Box<dyn IncomingReplica>) {
        if lock(&self.inbox).is_over {
            return;
        }
        match staged.replace() {
            Ok(()) => {
                self.end(installs);
                self.answer(installs, InstallBody::Done);
            }
            Err(why) => self.give_up(installs, &why),
        }
    }

    fn end(self: &Arc<Self>, installs: &Installs) {
        let mut inbox = lock(&self.inbox);
        (inbox.is_over, inbox.is_working) = (true, false);
        inbox.bodies.clear();
        drop(inbox);
        installs.end_incoming(self);
    }

    /// Ends it without a result: what has come is removed.
    pub(super) fn give_up(self: &Arc<Self>, installs: &Installs, why: &str) {
        self.end(installs);
        let staged = lock(&self.work).staged.take();
        drop(staged);
        let from = self.from;
        let what = format_args!("does not get its stream from server {from}: {why}");
        installs.log(Level::Warn, self.place.group, what);
        self.answer(installs, InstallBody::GivenUp);
    }
}
