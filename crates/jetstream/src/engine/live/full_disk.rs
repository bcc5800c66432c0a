//! A full disk under a stream of a group: another member leads, this one takes nothing more until
//! there is room, and tells of both.
//!
//! What finds no room is as if the network had lost it: the member votes, hears what is committed
//! and says where its log ends, so that its leader sends it again. Where a majority is full the
//! leader refuses messages, and what is in the log already goes on with what is kept free on each
//! disk: behind it comes what makes room. Once a second a look tells whether there is room again.

use super::LiveStream;
use super::membership::JoinedMember;
use crate::engine::groups::{GroupReplica, MemberEvent};
use crate::engine::host::Timer;
use myelin_broker::Level;
use myelin_replica::frame::RestWord;
use myelin_replica::{RaftEntry, RaftRole};
use myelin_stdx::sync::lock;
use myelin_store::{ComingEntries, DecidedEntry, StoreError, Timestamp};
use myelin_streams::group::MemberFailed;
use myelin_streams::stream::StreamCore;
use std::sync::{Arc, Weak};

/// Nanoseconds between two looks.
const LOOK: Timestamp = 1_000_000_000;

/// Looks whether there is room again.
struct RoomWatch(Weak<LiveStream>);

impl Timer for RoomWatch {
    fn fire(&self) {
        if let Some(live) = self.0.upgrade() {
            live.look_for_room();
        }
    }
}

/// Whether a member has failed because the disk of its stream is full.
pub(super) fn is_full(failed: &MemberFailed) -> bool {
    matches!(failed, MemberFailed::Stream(StoreError::Full))
}

impl LiveStream {
    /// Whether its disk has no room for what its group stores.
    pub(in crate::engine) fn is_full(&self) -> bool {
        lock(&self.membership.member).as_ref().is_some_and(|joined| joined.candidacy.is_full())
    }

    /// Has a member hear its news, but for what finds no room on the disk. `is_full`: that has
    /// refused something already.
    pub(super) fn hear_all(
        &self,
        joined: &mut JoinedMember,
        core: &mut StreamCore,
        (events, is_full): (Vec<MemberEvent>, bool),
        at: (Option<RestWord>, Timestamp),
    ) -> Result<(), MemberFailed> {
        if is_full {
            self.note_full(joined);
        }
        let heard = self.hear_with_room(joined, core, events, at);
        joined.member.set_forgetful(joined.candidacy.forgetful());
        self.set_group_full(joined, core);
        heard
    }

    fn hear_with_room(
        &self,
        joined: &mut JoinedMember,
        core: &mut StreamCore,
        events: Vec<MemberEvent>,
        (end, now): (Option<RestWord>, Timestamp),
    ) -> Result<(), MemberFailed> {
        let (mut coming, mut is_full) = (ComingEntries::default(), false);
        for event in events {
            if let MemberEvent::HandOver(_) = &event {
                joined.member.propose_decided(core)?;
            }
            if let MemberEvent::Message(epoch, life, message) = &event
                && !message.entries.is_empty()
                && *epoch == joined.place.epoch
            {
                // What comes behind something that finds no room finds none either.
                is_full = is_full || self.lacks_room(joined, core, &mut coming, &message.entries);
                if is_full {
                    joined.note_leader(*life, message, now);
                    continue;
                }
            }
            joined.hear(event, end, now)?;
        }
        Ok(())
    }

    /// Whether there is no room for these entries behind those that come before them.
    fn lacks_room(
        &self,
        joined: &mut JoinedMember,
        core: &mut StreamCore,
        coming: &mut ComingEntries,
        entries: &[RaftEntry],
    ) -> bool {
        coming.extend(
            entries
                .iter()
                .filter_map(|RaftEntry { index, term, data }| DecidedEntry::from_bytes(*index, *term, data)),
        );
        let room = core.store_mut().make_room_to_follow(coming);
        if matches!(room, Ok(false) | Err(StoreError::Full)) {
            self.note_full(joined);
        }
        matches!(room, Err(StoreError::Full))
    }

    /// The disk has refused something that the group stores. For whoever has the core.
    pub(super) fn note_full(&self, joined: &mut JoinedMember) {
        if !joined.candidacy.set_full(true) {
            return;
        }
        joined.tell_others();
        if joined.member.consensus().role() != RaftRole::Leader {
            self.tell_of_full_disk("takes nothing from its leader until there is some");
        }
        self.membership.room_watch.get_or_init(|| Arc::new(RoomWatch(Weak::clone(&self.me))));
        self.look_for_room_at(self.scope.host.now());
    }

    /// Whether it is to refuse messages, as its group would not agree to them.
    fn set_group_full(&self, joined: &JoinedMember, core: &mut StreamCore) {
        let consensus = joined.member.consensus();
        let leads = consensus.role() == RaftRole::Leader;
        let voters = &consensus.members().voters;
        core.set_group_full(leads && joined.candidacy.is_majority_full(joined.groups.me, voters));
    }

    fn look_for_room_at(&self, at: Timestamp) {
        if let Some(watch) = self.membership.room_watch.get() {
            self.scope.host.schedule(at, Arc::downgrade(watch) as Weak<dyn Timer>);
        }
    }

    /// Has another member lead, and looks whether there is room again.
    fn look_for_room(self: &Arc<Self>) {
        if !self.is_full() || self.is_gone() {
            return;
        }
        if self.can_hand_over() {
            self.hand_over();
        } else if self.regains_room() {
            return self.go_on_with_room();
        }
        // Others count on it for a while only.
        self.tell(MemberEvent::Room(false));
        self.serve_off_shard();
        self.look_for_room_at(self.scope.host.now() + LOOK);
    }

    fn regains_room(&self) -> bool {
        self.lock_core().is_some_and(|mut guard| guard.parts().0.store().regains_room())
    }

    fn go_on_with_room(&self) {
        let (account, name) = (self.scope.account.name(), &self.scope.name);
        let line = format_args!("JetStream stream '{account} > {name}' has room on the disk again");
        self.scope.host.log(Level::Info, line);
        self.tell(MemberEvent::Room(true));
        self.serve_off_shard();
        if self.failure().is_some() {
            // It hears nothing; and that it has failed twice says nothing of the next time.
            lock(&self.membership.member).iter_mut().for_each(|joined| {
                joined.candidacy.set_full(false);
            });
            self.health.permit();
            self.scope.host.repair(account, name);
        }
    }
}
