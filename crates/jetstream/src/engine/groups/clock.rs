//! Time for members: ticks, words between servers, and which of those are gone.

use super::Groups;
use super::frames::write_frame;
use super::replica::MemberEvent;
use crate::engine::group_clock::guarded;
use crate::engine::host::Timer;
use myelin_replica::frame::FrameBody;
use myelin_stdx::sync::lock;
use myelin_store::Timestamp;
use myelin_wire::message_buf::MessageBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

/// Between two beats, in nanoseconds.
const BEAT: Timestamp = 50_000_000;
/// Beats in a tick of members.
const TICK_BEATS: u64 = 2;
/// Beats between two looks of the observer.
const OBSERVER_BEATS: u64 = 40;

/// Asks other servers for support when it is time, whatever a disk has others wait for: a server
/// that is slow is not gone.
pub(super) struct PeerWords(pub(super) Weak<Groups>);

impl Timer for PeerWords {
    fn fire(&self) {
        if let Some(groups) = self.0.upgrade() {
            groups.keep_time();
            groups.ask_peers();
            groups.arm_words();
        }
    }

    fn may_wait(&self) -> bool {
        false
    }
}

impl Groups {
    /// Has the next beat come, and the next words.
    pub(super) fn begin_clock(&self) {
        self.arm_words();
        self.arm();
    }

    fn arm(&self) {
        self.host.schedule(self.host.now() + BEAT, Weak::clone(&self.me_weak) as Weak<dyn Timer>);
    }

    fn arm_words(&self) {
        self.host.schedule(self.host.now() + BEAT, Arc::downgrade(&self.words) as Weak<dyn Timer>);
    }

    /// Asks other servers for support.
    fn ask_peers(&self) {
        let due = lock(&self.peers).due(self.nanoseconds());
        let mut out = MessageBuf::default();
        due.into_iter().for_each(|(peer, ask)| write_frame(self, peer, FrameBody::Ask(ask), &mut out));
        self.publish(out);
    }

    /// Has the host go on from the time that counts: it is never far from that of most servers,
    /// whoever sets the clock of this one.
    fn keep_time(&self) {
        let (at, day) = (self.host.instant(), self.host.time_of_day());
        let median = lock(&self.peers).median_clock(day, self.nanoseconds());
        self.host.keep_time(at, guarded(day, median));
    }

    /// Nanoseconds by which the clock of this server is ahead of the median of all, if three are
    /// heard; below 0: it is behind.
    pub(in crate::engine) fn clock_ahead(&self) -> Timestamp {
        lock(&self.peers).clock_ahead()
    }

    /// Has members hear which servers are gone.
    fn look_for_lost(&self) {
        let withdrawn = lock(&self.peers).withdrawn(self.nanoseconds());
        withdrawn.into_iter().for_each(|peer| self.tell_all(MemberEvent::Lost(peer)));
    }
}

impl Timer for Groups {
    fn fire(&self) {
        self.look_for_lost();
        let beats = self.beats.fetch_add(1, Relaxed);
        if beats.is_multiple_of(TICK_BEATS) {
            self.tick();
        }
        if self.is_disk_unknown() {
            // A group that is made before that is known waits with its first election for logs that
            // it might have had.
            self.observer().into_iter().for_each(|observer| observer.looks_at_disk());
        }
        if beats.is_multiple_of(OBSERVER_BEATS) {
            self.observer().into_iter().for_each(|observer| observer.passes());
            self.installs.passes();
            for member in self.members.take_uncompared(self.host.instant()) {
                member.tell(MemberEvent::Compare);
                member.serve_off_shard();
            }
        }
        // Those that the disk has refused.
        self.me_weak.upgrade().into_iter().for_each(|groups| groups.write_votes());
        self.arm();
    }
}
