//! Installs: a member that lacks what is no more in the log of its group gets the whole stream.
//!
//! Owns which streams are on their way to which servers, and from which, and what is said about
//! that, in the account for what is large. How a stream becomes pieces is for the store, where they
//! are gathered and how they take the place of a replica for `engine/account/install.rs`. Must
//! never do more than look at a table in a stream's turn: pieces are read and stored on the thread
//! for backups.
//!
//! # One install
//!
//! 1. A leader has no entries for a member any more ([`Installs::wanted`]). It draws its stream as
//!    of what is committed, keeps the entries behind that, and offers it.
//! 2. The other server makes a stream that nobody sees, and takes pieces: as many are under way as
//!    [`WINDOW`] says.
//! 3. When it has all, and what it has is what was sent, that stream takes the place of its
//!    replica, at once or not at all. Its member begins there, and the leader looks where it is.
//!
//! A member whose stream is damaged asks its leader for the first step ([`InstallBody::Wanted`]).
//!
//! Either side gives up when it hears nothing from the other for [`PATIENCE`], and the leader
//! begins anew with the next answer of that member. Who receives says now and then that it is at
//! work: making durable what has come takes a slow disk longer than that.

mod incoming;
mod outgoing;

use super::MemberEvent;
use super::members::MemberTable;
use crate::engine::host::Host;
use incoming::Incoming;
pub(in crate::engine) use incoming::InstallProgress;
use myelin_broker::{Account, Binding, Level, Service, ServiceBatch, ServiceShard};
use myelin_replica::{GroupId, Peer};
use myelin_stdx::sync::lock;
use myelin_streams::group::KeptLogBounds;
use myelin_streams::group::install::{InstallBody, InstallMessage};
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use outgoing::Outgoing;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Streams that a server sends at once, and that it takes at once.
const MOST_INSTALLS: usize = 8;
/// Pieces that one of them has under way.
const WINDOW: u64 = 8;
/// Bytes of a piece, unless one message is larger.
const PIECE_BYTES: usize = 256 << 10;
/// Silence after which the other side is taken for gone.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause after an install that came to nothing. Each further one doubles it, up to
/// [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Streams on their way to other servers, and from them.
pub(in crate::engine) struct Installs {
    me: Peer,
    account: Arc<Account>,
    host: Arc<dyn Host>,
    members: Arc<MemberTable>,
    kept_log: KeptLogBounds,
    /// Held as long as messages are to come.
    _binding: Arc<Binding>,
    next: AtomicU64,
    outgoing: Mutex<BTreeMap<(GroupId, Peer), Arc<Outgoing>>>,
    incoming: Mutex<BTreeMap<GroupId, Arc<Incoming>>>,
    /// Installs that came to nothing: when the last one did, and how many before the next success.
    failed: Mutex<BTreeMap<(GroupId, Peer), (Instant, u32)>>,
    me_weak: Weak<Self>,
}

impl Installs {
    /// Takes part from now on, in this life of the store. `account`: for what is large.
    pub(super) fn begin(
        members: &Arc<MemberTable>,
        host: &Arc<dyn Host>,
        (me, life): (Peer, u32),
        (account, kept_log): (&Arc<Account>, KeptLogBounds),
    ) -> Arc<Self> {
        Arc::new_cyclic(|me_weak| Self {
            me,
            account: Arc::clone(account),
            host: Arc::clone(host),
            members: Arc::clone(members),
            kept_log,
            _binding: account
                .bind(format!("{me}.*").as_bytes(), Arc::new(InstallService(Weak::clone(me_weak)))),
            next: AtomicU64::new(u64::from(life) << 32),
            outgoing: Mutex::default(),
            incoming: Mutex::default(),
            failed: Mutex::default(),
            me_weak: Weak::clone(me_weak),
        })
    }

    /// How far the stream is that a member here gets from another server. `tells`: see
    /// [`Incoming::progress`].
    pub(super) fn progress(&self, group: GroupId, tells: bool) -> Option<InstallProgress> {
        let one = lock(&self.incoming).get(&group).cloned()?;
        Some(one.progress(self.host.instant(), tells))
    }

    /// How much of a group's log stays for members that are behind.
    pub(super) fn kept_log(&self) -> KeptLogBounds {
        self.kept_log
    }

    /// Another member of a group that is led here lacks what is no more in the log. For turns.
    pub(in crate::engine) fn wanted(&self, group: GroupId, to: Peer) {
        let (now, key) = (self.host.instant(), (group, to));
        let is_pausing = |&(at, times): &(Instant, u32)| now.saturating_duration_since(at) < pause(times);
        if lock(&self.failed).get(&key).is_some_and(is_pausing) {
            return;
        }
        let mut outgoing = lock(&self.outgoing);
        if outgoing.contains_key(&key) || outgoing.len() >= MOST_INSTALLS {
            return;
        }
        let one = Arc::new(Outgoing::new(key, self.next.fetch_add(1, Relaxed), now));
        outgoing.insert(key, Arc::clone(&one));
        drop(outgoing);
        self.later(move |installs| one.begin(installs));
    }

    /// Asks groups for all that there is, where the replica here is damaged and is not about to get
    /// it: whoever leads gives it. For threads that may wait.
    fn ask_for_whole(&self) {
        for group in self.members.damaged() {
            let Some(member) = self.members.get(group) else { continue };
            let Some((place, members)) = member.wants_whole() else {
                self.members.set_damaged(group, false);
                continue;
            };
            if !lock(&self.incoming).contains_key(&group) {
                let message = InstallMessage { place, install: 0, body: InstallBody::Wanted };
                let others = members.into_iter().filter(|&member| member != self.me);
                others.for_each(|other| self.send(other, &message));
            }
        }
    }

    /// Another server has begun a new life: what was on its way is lost.
    pub(super) fn forget_peer(&self, peer: Peer) {
        lock(&self.outgoing).retain(|&(_, to), _| to != peer);
        lock(&self.failed).retain(|&(_, to), _| to != peer);
        let all: Vec<Arc<Incoming>> = lock(&self.incoming).values().cloned().collect();
        let of_peer = all.into_iter().filter(|one| one.from() == peer);
        of_peer.for_each(|one| self.later(move |installs| one.give_up(installs, "its sender begins anew")));
    }

    /// Time has passed: gives up what has made no progress. For threads that may wait.
    pub(super) fn passes(&self) {
        self.ask_for_whole();
        let now = self.host.instant();
        let is_late = |at: Instant| now.saturating_duration_since(at) >= PATIENCE;
        let all: Vec<Arc<Outgoing>> = lock(&self.outgoing).values().cloned().collect();
        all.iter().filter(|one| one.heard().is_some_and(is_late)).for_each(|one| one.give_up(self));
        let all: Vec<Arc<Incoming>> = lock(&self.incoming).values().cloned().collect();
        all.iter().for_each(|one| one.reassure(self));
        let silent = all.into_iter().filter(|one| one.heard().is_some_and(is_late));
        silent.for_each(|one| self.later(move |installs| one.give_up(installs, "nothing comes any more")));
        lock(&self.failed).retain(|_, (at, _)| now.saturating_duration_since(*at) < 2 * LONGEST_PAUSE);
    }

    /// Has something done on the thread for backups.
    fn later(&self, task: impl FnOnce(&Installs) + Send + 'static) {
        let installs = Weak::clone(&self.me_weak);
        self.host.spawn_backup(Box::new(move || {
            if let Some(installs) = installs.upgrade() {
                task(&installs);
            }
        }));
    }

    fn send(&self, to: Peer, message: &InstallMessage) {
        let (subject, bytes) = (format!("{to}.{}", self.me), message.encode());
        let mut out = MessageBuf::default();
        out.push(MessageRef { subject: subject.as_bytes(), payload: &bytes, ..MessageRef::default() });
        self.host.publish(&self.account, out);
    }

    fn log(&self, level: Level, group: GroupId, what: std::fmt::Arguments<'_>) {
        self.host.log(level, format_args!("JetStream: the group {:016x} {what}", group.0));
    }

    /// Whether the stream of a group is on its way to another server.
    pub(super) fn is_sending(&self, group: GroupId, to: Peer) -> bool {
        lock(&self.outgoing).contains_key(&(group, to))
    }

    /// Whether this is the install to its server that is under way.
    fn is_under_way(&self, one: &Arc<Outgoing>) -> bool {
        lock(&self.outgoing).get(&one.key).is_some_and(|other| Arc::ptr_eq(other, one))
    }

    /// An install to another server is over.
    fn end_outgoing(&self, one: &Arc<Outgoing>, is_done: bool) {
        let mut outgoing = lock(&self.outgoing);
        if outgoing.get(&one.key).is_some_and(|other| Arc::ptr_eq(other, one)) {
            outgoing.remove(&one.key);
            let mut failed = lock(&self.failed);
            let (_, times) = failed.remove(&one.key).unwrap_or((self.host.instant(), 0));
            if !is_done {
                failed.insert(one.key, (self.host.instant(), times + 1));
            }
        }
    }

    /// An install from another server is over.
    fn end_incoming(&self, one: &Arc<Incoming>) {
        let mut incoming = lock(&self.incoming);
        if incoming.get(&one.place.group).is_some_and(|other| Arc::ptr_eq(other, one)) {
            incoming.remove(&one.place.group);
        }
    }

    /// Takes a message of another server. For shards.
    fn take(&self, from: Peer, message: InstallMessage) {
        let InstallMessage { place, install, body } = message;
        let group = place.group;
        match body {
            InstallBody::Offer { .. } => self.take_offer(from, InstallMessage { place, install, body }),
            InstallBody::Piece(..) | InstallBody::End(..) => {
                let one = lock(&self.incoming).get(&group).cloned();
                match one.filter(|one| one.is(from, install)) {
                    Some(one) => one.take(self, body),
                    None => self.send(from, &InstallMessage { place, install, body: InstallBody::GivenUp }),
                }
            }
            InstallBody::Taken(_) | InstallBody::Done => {
                let one = lock(&self.outgoing).get(&(group, from)).cloned();
                match one.filter(|one| one.install == install) {
                    Some(one) => one.hear(self, &body),
                    None if body == InstallBody::Done => self.look_at(group, from),
                    None => {}
                }
            }
            InstallBody::Wanted => self.wanted(group, from),
            InstallBody::GivenUp => {
                let one = lock(&self.outgoing).get(&(group, from)).cloned();
                let one = one.filter(|one| one.install == install);
                if let Some(one) = one {
                    self.end_outgoing(&one, false);
                    // It may have what was offered: that it took it may never have been heard.
                    self.look_at(group, from);
                }
                let one = lock(&self.incoming).get(&group).cloned();
                let one = one.filter(|one| one.is(from, install));
                one.into_iter().for_each(|one| {
                    self.later(move |installs| one.give_up(installs, "its sender has given up"));
                });
            }
        }
    }

    /// Has the leader of a group find out where the log of a member ends.
    fn look_at(&self, group: GroupId, peer: Peer) {
        self.later(move |installs| tell(installs, group, MemberEvent::Installed(peer)));
    }

    fn take_offer(&self, from: Peer, message: InstallMessage) {
        let (place, install, now) = (message.place, message.install, self.host.instant());
        let is_known = self.members.get(place.group).is_some();
        let mut incoming = lock(&self.incoming);
        let other = incoming.get(&place.group).cloned();
        let has_room = incoming.len() < MOST_INSTALLS && other.is_none();
        if let Some(other) = other.filter(|other| other.from() == from) {
            // It has given that up, and will offer this one again.
            self.later(move |installs| other.give_up(installs, "its sender begins anew"));
        }
        if !is_known || !has_room {
            drop(incoming);
            return self.send(from, &InstallMessage { place, install, body: InstallBody::GivenUp });
        }
        let one = Arc::new(Incoming::new(from, (place, install), now));
        incoming.insert(place.group, Arc::clone(&one));
        drop(incoming);
        one.take(self, message.body);
    }
}

/// Pause after so many installs that came to nothing.
fn pause(times: u32) -> Duration {
    (PAUSE * (1 << times.saturating_sub(1).min(8))).min(LONGEST_PAUSE)
}

/// Takes what other servers say about installs.
struct InstallService(Weak<Installs>);

impl Service for InstallService {
    fn serve(&self, batch: &mut ServiceBatch, _: &mut ServiceShard) {
        let installs = self.0.upgrade();
        for msg in batch.iter() {
            let sender = msg.subject.rsplit(|&byte| byte == b'.').next();
            let sender = sender.and_then(|sender| Peer::parse(std::str::from_utf8(sender).ok()?));
            let (Some(from), Some(installs)) = (sender, &installs) else { continue };
            match InstallMessage::decode(msg.payload) {
                Some(message) => installs.take(from, message),
                None => {
                    let line = format_args!("JetStream: a piece of server {from} is damaged, and dropped");
                    installs.host.log(Level::Error, line);
                }
            }
        }
        batch.clear();
    }
}

/// Has the member of a group here hear something.
fn tell(installs: &Installs, group: GroupId, event: MemberEvent) {
    if let Some(live) = installs.members.get(group) {
        live.tell(event);
        live.serve_off_shard();
    }
}
