//! A stream on its way to another server.

use super::{Installs, MemberEvent, PIECE_BYTES, WINDOW, tell};
use myelin_broker::Level;
use myelin_replica::frame::GroupPlace;
use myelin_replica::{GroupId, Peer};
use myelin_stdx::sync::lock;
use myelin_store::InstallSource;
use myelin_streams::group::install::{InstallBody, InstallDigest, InstallMessage};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Stream on its way to another server.
pub(super) struct Outgoing {
    pub(super) key: (GroupId, Peer),
    pub(super) install: u64,
    progress: Mutex<OutgoingProgress>,
}

struct OutgoingProgress {
    /// `None` before it is drawn, while a piece is read, and when all were.
    source: Option<InstallSource>,
    place: Option<GroupPlace>,
    /// As of which entry the stream is sent.
    index: u64,
    /// Pieces that were sent, and that the other server has.
    sent: u64,
    taken: u64,
    digest: InstallDigest,
    heard: Instant,
    is_working: bool,
}

impl Outgoing {
    pub(super) fn new(key: (GroupId, Peer), install: u64, now: Instant) -> Self {
        let progress = OutgoingProgress {
            source: None,
            place: None,
            index: 0,
            sent: 0,
            taken: 0,
            digest: InstallDigest::default(),
            heard: now,
            is_working: false,
        };
        Self { key, install, progress: Mutex::new(progress) }
    }

    /// When the other server was heard last, or could have begun to answer; `None` while it has
    /// nothing to answer to: the stream is not offered yet, or pieces are read.
    pub(super) fn heard(&self) -> Option<Instant> {
        let progress = lock(&self.progress);
        (progress.place.is_some() && !progress.is_working).then_some(progress.heard)
    }

    /// Draws the stream and offers it.
    pub(super) fn begin(self: &Arc<Self>, installs: &Installs) {
        let (group, to) = self.key;
        if !installs.is_under_way(self) {
            // It was given up while it waited for the thread.
            return;
        }
        let member = installs.members.get(group);
        let Some((place, source, lifetimes_until)) = member.and_then(|member| member.install_source(to))
        else {
            return installs.end_outgoing(self, false);
        };
        let point = source.point();
        let index = point.position.index;
        installs.log(
            Level::Info,
            group,
            format_args!("is sent to server {to} as a whole, as of entry {index}"),
        );
        let mut progress = lock(&self.progress);
        (progress.source, progress.place, progress.index) = (Some(source), Some(place), index);
        progress.heard = installs.host.instant();
        drop(progress);
        self.send(installs, InstallBody::Offer { point, lifetimes_until });
    }

    fn send(&self, installs: &Installs, body: InstallBody) {
        if let Some(place) = lock(&self.progress).place {
            installs.send(self.key.1, &InstallMessage { place, install: self.install, body });
        }
    }

    /// The other server has said something.
    pub(super) fn hear(self: &Arc<Self>, installs: &Installs, body: &InstallBody) {
        let (group, to) = self.key;
        if *body == InstallBody::Done {
            installs.end_outgoing(self, true);
            installs.log(Level::Info, group, format_args!("was sent to server {to} as a whole"));
            return installs.look_at(group, to);
        }
        let &InstallBody::Taken(pieces) = body else { return };
        let mut progress = lock(&self.progress);
        progress.heard = installs.host.instant();
        progress.taken = progress.taken.max(pieces.min(progress.sent));
        let index = progress.index;
        let is_free = !std::mem::replace(&mut progress.is_working, true);
        drop(progress);
        if is_free {
            let one = Arc::clone(self);
            installs.later(move |installs| {
                tell(installs, group, MemberEvent::Installing(to, index));
                one.work(installs);
            });
        }
    }

    /// Sends as many pieces as may be under way.
    fn work(self: &Arc<Self>, installs: &Installs) {
        loop {
            let mut progress = lock(&self.progress);
            let may_send = progress.sent < progress.taken + WINDOW;
            let Some(mut source) = progress.source.take_if(|_| may_send) else {
                progress.is_working = false;
                progress.heard = installs.host.instant();
                return;
            };
            drop(progress);
            let piece = source.next_piece(PIECE_BYTES);
            let mut progress = lock(&self.progress);
            let body = match piece {
                Ok(Some(piece)) => {
                    progress.sent += 1;
                    progress.digest.add(&piece);
                    progress.source = Some(source);
                    InstallBody::Piece(progress.sent, piece)
                }
                Ok(None) => InstallBody::End(progress.sent, progress.digest),
                Err(error) => {
                    drop(progress);
                    let (group, to) = self.key;
                    let what = format_args!("cannot be sent to server {to} as a whole: {error}");
                    // What is removed has no files, as whoever removes it knows.
                    if installs.members.get(group).is_some_and(|member| !member.is_gone()) {
                        installs.log(Level::Error, group, what);
                    }
                    return self.give_up(installs);
                }
            };
            drop(progress);
            self.send(installs, body);
        }
    }

    /// Ends it without a result.
    pub(super) fn give_up(self: &Arc<Self>, installs: &Installs) {
        installs.end_outgoing(self, false);
        self.send(installs, InstallBody::GivenUp);
    }
}
