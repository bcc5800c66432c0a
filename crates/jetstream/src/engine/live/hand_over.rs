//! Handing over: another member leads from here on, and no publish is lost on the way.
//!
//! Publishes that come meanwhile are held. Before another server takes them this one goes on to
//! receive: nobody hears "no responders" in between. Then each publisher that waits for an answer
//! is told that nobody has taken its message, and sends it again: to the new leader. What that one
//! has got, too, is its own to answer ([`recent_publishes`](super::recent_publishes)).
//!
//! A stream that becomes a group holds publishes in the same way until its own member is elected.
//! Had it nothing bound meanwhile, a message of another server that is on its way by then would be
//! dropped, and nobody would answer its publisher.

use super::LiveStream;
use super::held_publishes::{AskedLeader, HandOverReason, HandOverSteps};
use super::membership::JoinedMember;
use super::recent_publishes::{PublishCounts, PublishKey};
use super::turn::StreamWork;
use crate::engine::consumers::left_requests::LeftRequests;
use crate::engine::groups::{GroupReplica, MemberEvent};
use crate::engine::host::Timer;
use myelin_broker::ServiceBatch;
use myelin_replica::Peer;
use myelin_stdx::sync::lock;
use myelin_streams::ReplicaRole;
use myelin_wire::message_buf::{MessageBuf, MessageRef};

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// A hand-over that takes longer is given up: the library gives it up after so long, too.
const LONGEST: Duration = Duration::from_secs(1);
/// A group that is not led so long after it was founded waits for a disk, perhaps for long:
/// publishers are told before they give up by themselves.
const LONGEST_FOUNDING: Duration = Duration::from_secs(3);
/// Other servers hear so soon of each other whom a message is for: an answer of the new leader to a
/// message that both have got comes before the refusal of the old one.
const SETTLING: Duration = Duration::from_millis(15);
/// Longest wait for word of the new leader's subjects: a mirror has none.
const UNHEARD: Duration = Duration::from_millis(200);
/// Nanoseconds between two looks, at first.
const LOOK: i64 = 2_000_000;
/// Longest pause between two looks whether a leader still leads. Each of them is a turn of its
/// stream, and a server that is cut off may be in doubt about thousands.
const LONGEST_LOOK: i64 = 100_000_000;
/// Compat: as the reference says that nobody is there to take a message; clients try again.
const NOBODY: &[u8] = b"NATS/1.0 503\r\n\r\n";

/// Looks at a hand-over now and then.
struct HandOverWatch(Weak<LiveStream>);

impl Timer for HandOverWatch {
    fn fire(&self) {
        if let Some(live) = self.0.upgrade()
            && !live.advance_hand_over()
        {
            live.look_again();
        }
    }
}

impl HandOverSteps {
    /// Nanoseconds until the next look.
    fn pause(&mut self) -> i64 {
        self.looks += 1;
        match self.reason {
            HandOverReason::Doubt => (LOOK << (self.looks - 1).min(8)).min(LONGEST_LOOK),
            HandOverReason::Heir | HandOverReason::Founding => LOOK,
        }
    }
}

impl LiveStream {
    /// Has another member lead, if this one does and there is one. Only for threads that may wait.
    pub(in crate::engine) fn hand_over(self: &Arc<Self>) {
        self.hand_over_to(None);
    }

    /// Has a certain member lead, or any other where none is named, if this one does. Only for
    /// threads that may wait.
    pub(in crate::engine) fn hand_over_to(self: &Arc<Self>, heir: Option<Peer>) {
        // What is held because of a doubt waits for the heir then.
        let has_heir = || lock(&self.membership.member).as_ref().is_some_and(JoinedMember::has_heir);
        if !self.role().leads()
            || heir.is_none() && !has_heir()
            || !self.membership.hand_over.begin() && !self.membership.hand_over.is_in_doubt()
        {
            return;
        }
        self.note_hand_over(HandOverReason::Heir);
        self.consumers.stop_delivering();
        self.propose_rest();
        self.tell(MemberEvent::HandOver(heir));
        self.serve_off_shard();
        self.watch_hand_over();
    }

    /// Says whether the stream's member takes no lead from now on. One that leads does until it
    /// hands over.
    pub(in crate::engine) fn set_aside(&self, is_aside: bool) {
        let mut membership = lock(&self.membership.member);
        let Some(joined) = &mut *membership else { return };
        if is_aside {
            joined.groups.set_aside(joined.place.group, self.scope.account.name());
        }
        // A member that has failed hears nothing, and is opened anew.
        let is_news = std::mem::replace(&mut joined.candidacy.is_aside, is_aside) != is_aside;
        drop(membership);
        if is_news {
            self.tell(MemberEvent::SetAside(is_aside));
            self.serve_off_shard();
        }
    }

    /// Has the stream follow, as it is about to become a group, with what is published to it held
    /// until it leads that: what has come before is stored as by a stream alone. Only for threads
    /// that may wait.
    pub(super) fn follow_to_found(self: &Arc<Self>) {
        self.membership.hand_over.begin();
        self.serve_off_shard();
        self.set_role(ReplicaRole::Follower);
        // From here on it is over as soon as the stream leads.
        self.note_hand_over(HandOverReason::Founding);
        self.watch_hand_over();
    }

    /// Doubts whether the stream leads still: what has begun to be held waits for that.
    pub(super) fn doubt(self: &Arc<Self>) {
        self.note_hand_over(HandOverReason::Doubt);
        self.watch_hand_over();
    }

    fn note_hand_over(&self, reason: HandOverReason) {
        let began = self.scope.host.instant();
        let anew = HandOverSteps { began, reason, looks: 0, followed: None, heard: None, asked: None };
        let mut steps = lock(&self.membership.hand_over.steps);
        // Somebody may have asked for another leader in the moment in which the doubt began.
        let has_heir = steps.as_ref().is_some_and(|steps| steps.reason == HandOverReason::Heir);
        if reason != HandOverReason::Doubt || !has_heir {
            *steps = Some(anew);
        }
    }

    fn watch_hand_over(self: &Arc<Self>) {
        self.membership.hand_over.watch.get_or_init(|| Arc::new(HandOverWatch(Arc::downgrade(self))));
        self.look_again();
    }

    /// Whether another member is about to lead, or can: this one leads, and enough others are
    /// there to elect one.
    pub(in crate::engine) fn can_hand_over(&self) -> bool {
        if self.membership.hand_over.is_under_way() {
            return true;
        }
        let membership = lock(&self.membership.member);
        let Some(joined) = membership.as_ref().filter(|_| self.role().leads()) else { return false };
        let groups = &joined.groups;
        let voters = &joined.member.consensus().members().voters;
        let others = voters.iter().filter(|&&peer| peer != groups.me && groups.is_there(peer)).count();
        (others + 1) * 2 > voters.len() && others > 0 && joined.has_heir()
    }

    /// Whether its log is that of a group.
    pub(in crate::engine) fn is_of_group(&self) -> bool {
        self.membership.is_taken()
    }

    fn look_again(&self) {
        let pause = lock(&self.membership.hand_over.steps).as_mut().map_or(LOOK, HandOverSteps::pause);
        if let Some(watch) = self.membership.hand_over.watch.get() {
            let timer = Arc::downgrade(watch) as Weak<dyn Timer>;
            self.scope.host.schedule(self.scope.host.now() + pause, timer);
        }
    }

    /// Looks how far it is. Answers whether it is over.
    fn advance_hand_over(self: &Arc<Self>) -> bool {
        let now = self.scope.host.instant();
        let waits_for_heir = |steps: &HandOverSteps| steps.reason == HandOverReason::Heir;
        let may_go_on = !lock(&self.membership.hand_over.steps).as_ref().is_some_and(waits_for_heir);
        let is_sure = may_go_on && self.leads_surely();
        let has_heir = lock(&self.membership.member).as_ref().is_none_or(JoinedMember::has_heir);
        let mut steps = lock(&self.membership.hand_over.steps);
        let Some(HandOverSteps { began, reason, followed, heard, asked, .. }) = &mut *steps else {
            return true;
        };
        let passed = |since: Instant| now.saturating_duration_since(since);
        let reason = *reason;
        let longest = if reason == HandOverReason::Heir { LONGEST } else { LONGEST_FOUNDING };
        if reason != HandOverReason::Founding && !self.role().leads() && self.has_another_leader() {
            let followed = *followed.get_or_insert(now);
            if self.is_wanted_elsewhere() || passed(followed) >= UNHEARD {
                heard.get_or_insert(now);
                lock(&self.membership.hand_over.left).iter().for_each(|left| left.close());
            }
        }
        let is_over = heard.is_some_and(|heard| passed(heard) >= SETTLING)
            || reason != HandOverReason::Heir && is_sure
            || reason == HandOverReason::Heir && !has_heir && self.role().leads()
            || passed(*began) >= longest;
        if !is_over || asked.as_ref().is_some_and(|asked| !asked.is_over(now)) {
            return false;
        }
        if asked.is_none() && heard.is_some() && !self.role().leads() {
            let asked = Arc::clone(asked.insert(Arc::new(AskedLeader::new(now))));
            drop(steps);
            return self.ask_next_leader(asked);
        }
        let taken = asked.as_ref().map(|asked| asked.taken()).unwrap_or_default();
        *steps = None;
        drop(steps);
        self.end_hand_over(taken);
        true
    }

    /// Receives nothing any more, and asks the next leader what it has taken of what is held.
    /// Answers that the hand-over goes on.
    fn ask_next_leader(&self, asked: Arc<AskedLeader>) -> bool {
        // Nobody may begin to lead in between, and lose what it is bound to.
        let changing = lock(&self.membership.changing);
        if !self.role().leads() {
            self.refuse_publishes();
        }
        drop(changing);
        let held = self.membership.hand_over.keys();
        let leader = self.group_status().and_then(|status| status.leader);
        let watcher = self.membership.watcher.get().and_then(Weak::upgrade);
        match (leader, watcher) {
            (Some(leader), Some(watcher)) if !held.is_empty() => {
                watcher.ask_taken((self.scope.account.name(), &self.scope.name), leader, (asked, held));
            }
            _ => asked.answer(Vec::new()),
        }
        false
    }

    fn has_another_leader(&self) -> bool {
        self.group_status().is_some_and(|status| status.leader.is_some())
    }

    /// Leads from now on: the leader before may hold publishes that come here, too.
    pub(super) fn begin_to_take(&self) {
        if self.is_of_group() {
            self.membership.hand_over.recent.begin(self.scope.host.instant());
        }
    }

    /// Passes over publishes that the leader before has refused.
    pub(super) fn pass_over_refused(&self, msgs: &mut ServiceBatch) {
        let refused = self.membership.hand_over.recent.note(msgs, self.scope.host.instant());
        if refused.is_empty() {
            return;
        }
        let mut taken = ServiceBatch::default();
        for (at, msg) in msgs.iter().enumerate() {
            if refused.binary_search(&at).is_ok() {
                msgs.trace(at).into_iter().for_each(|trace| self.give_up_trace(trace, "stream closed"));
            } else {
                taken.push_traced(msg, msgs.trace(at));
            }
        }
        *msgs = taken;
    }

    /// The leader before holds these publishes: those that have come here, too, are not refused.
    pub(in crate::engine) fn settle_held(&self, held: Vec<PublishKey>) -> Vec<PublishKey> {
        self.membership.hand_over.recent.settle(held, self.scope.host.instant())
    }

    /// Whether another server receives what is published to the stream.
    fn is_wanted_elsewhere(&self) -> bool {
        let config = self.config();
        config
            .subjects
            .first()
            .is_some_and(|subject| self.scope.account.is_wanted_elsewhere(subject.as_bytes()))
    }

    /// Publishers whose messages are held are told, but for those whose messages another leader has
    /// `taken`; or the stream takes them: it leads still, or again.
    fn end_hand_over(self: &Arc<Self>, taken: Vec<PublishKey>) {
        // Nobody may begin to lead in between, and lose what it is bound to.
        let changing = lock(&self.membership.changing);
        if !self.role().leads() {
            self.refuse_publishes();
        }
        drop(changing);
        self.consumers.go_on_delivering();
        self.tell_left_requests();
        if self.leads_surely() {
            return self.submit_and_wait(StreamWork::TakeHeld);
        }
        let (mut taken, mut refused) = (PublishCounts::from_iter(taken), MessageBuf::default());
        for msgs in self.membership.hand_over.take() {
            for msg in msgs.iter().filter(|msg| !msg.reply.is_empty()) {
                if !PublishKey::of(&msg).is_some_and(|key| taken.take(&key)) {
                    refused.push(MessageRef { subject: msg.reply, headers: NOBODY, ..MessageRef::default() });
                }
            }
            self.ingress.forget(&msgs);
            self.give_up_traces(&msgs);
        }
        if !refused.is_empty() {
            self.scope.host.publish(&self.scope.account, refused);
        }
    }

    /// Goes on to receive requests for messages while it is handed over, for the next leader to
    /// serve.
    pub(super) fn leave_requests(&self) -> Option<Arc<LeftRequests>> {
        let left = self.membership.hand_over.is_under_way().then(|| self.consumers.leave_requests());
        if left.is_some() {
            self.forget_asked();
        }
        let before = left.clone().and_then(|left| lock(&self.membership.hand_over.left).replace(left));
        before.into_iter().for_each(|before| self.tell_requests(&before));
        left
    }

    /// Tells who has asked for messages meanwhile that the leader has changed.
    pub(super) fn tell_left_requests(&self) {
        let left = lock(&self.membership.hand_over.left).take();
        left.into_iter().for_each(|left| self.tell_requests(&left));
    }

    fn tell_requests(&self, left: &LeftRequests) {
        let told = left.end(&self.consumers);
        if !told.is_empty() {
            self.scope.host.publish(&self.scope.account, told);
        }
    }

    /// Holds what is published from here on, as while it is handed over.
    #[cfg(test)]
    pub(in crate::engine) fn hold_publishes(&self) {
        self.membership.hand_over.begin();
    }

    /// Stores what was held.
    #[cfg(test)]
    pub(in crate::engine) fn store_held(&self) {
        self.submit_and_wait(StreamWork::TakeHeld);
    }

    /// Ends with receiving, unless another server is to begin first.
    pub(super) fn unbind_unless_handing_over(&self) {
        if !self.membership.hand_over.is_under_way() {
            self.refuse_publishes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubt_that_lasts_is_looked_at_ever_less_often() {
        let looks = |reason| {
            let began = Instant::now();
            let (followed, heard, asked) = (None, None, None);
            let mut steps = HandOverSteps { began, reason, looks: 0, followed, heard, asked };
            let (mut passed, mut looks) = (0, 0);
            while passed < 3_000_000_000 {
                passed += steps.pause();
                looks += 1;
            }
            looks
        };
        assert!((30..40).contains(&looks(HandOverReason::Doubt)));
        assert_eq!(looks(HandOverReason::Heir), 1500);
    }
}
