//! Comparison of a stream with those of the other members of its group: what a member says and
//! hears of it, and what follows. Who is right is for [`Agreement`](super::agreement::Agreement) to
//! say.

use super::LiveStream;
use super::agreement::{Consequence, word_of};
use super::membership::JoinedMember;
use crate::engine::groups::write_frame;
use myelin_broker::Level;
use myelin_replica::frame::{FrameBody, StateStep, StateWord};
use myelin_replica::{Peer, RaftRole};
#[cfg(test)]
use myelin_stdx::sync::lock;
use myelin_store::StateDigest;
use myelin_wire::message_buf::MessageBuf;

impl JoinedMember {
    /// Compares the stream of this member, which leads, with those of the others.
    pub(super) fn compare_states(&mut self) {
        self.agreement.is_due();
        let consensus = self.member.consensus();
        if consensus.role() != RaftRole::Leader || self.candidacy.is_damaged() {
            return;
        }
        let (index, me) = (consensus.last().1, self.groups.me);
        let mut others = consensus.members().all_voters();
        others.retain(|&peer| peer != me);
        self.agreement.begin(index, &others);
        if !others.is_empty() {
            self.member.draw_state_at(index);
        }
    }

    /// Whether others vote in the group.
    pub(super) fn has_other_voters(&self) -> bool {
        self.member.consensus().members().all_voters().iter().any(|&voter| voter != self.groups.me)
    }

    /// Another member asks for the state of this one, says its own, or how this one differs.
    pub(super) fn hear_state(&mut self, peer: Peer, word: StateWord) {
        let consensus = self.member.consensus();
        let is_of_leader = consensus.leader() == Some(peer) && consensus.role() == RaftRole::Follower;
        let StateWord { step, index, messages, others } = word;
        let state = StateDigest { index, messages, others };
        match step {
            StateStep::Ask if is_of_leader && !self.candidacy.is_damaged() => {
                self.member.draw_state_at(index)
            }
            StateStep::Drawn if consensus.role() == RaftRole::Leader => self.hear_drawn(peer, state),
            StateStep::Differs if is_of_leader => {
                let own = self.agreement.own.filter(|own| own.index == index && *own != state);
                let replace = own.map(|own| Consequence::Replace { own, wanted: state });
                self.agreement.consequences.extend(replace);
            }
            StateStep::Ask | StateStep::Drawn | StateStep::Differs => {}
        }
    }

    /// A member, this one or another, has said its state to this one, which leads.
    fn hear_drawn(&mut self, peer: Peer, state: StateDigest) {
        let voters = self.member.consensus().members().all_voters();
        self.agreement.hear((peer, state), (self.groups.me, &voters));
    }

    /// Takes what the stream has drawn, plans the next comparison, and writes what is to be said.
    fn advance_agreement(&mut self, out: &mut MessageBuf) {
        let leads = self.member.consensus().role() == RaftRole::Leader;
        if let Some(state) = self.member.take_drawn_state() {
            self.agreement.own = Some(state);
            if leads {
                self.hear_drawn(self.groups.me, state);
            } else if let Some(leader) = self.member.consensus().leader() {
                self.agreement.words.push((leader, word_of(StateStep::Drawn, state)));
            }
        }
        if !leads {
            self.agreement.follow();
        } else if let Some(pause) = self.agreement.plan(self.member.consensus().last().1) {
            self.groups.compare_later(self.place.group, pause);
        }
        for (peer, word) in self.agreement.words.drain(..) {
            write_frame(&self.groups, peer, FrameBody::State(self.place, word), out);
        }
    }
}

impl LiveStream {
    /// The entry as of which its state was drawn last.
    #[cfg(test)]
    pub(in crate::engine) fn compared_at(&self) -> Option<u64> {
        lock(&self.membership.member).as_ref()?.agreement.own.map(|own| own.index)
    }

    /// Brings comparisons with other replicas on, and sees to what they have shown. For whoever has
    /// the core.
    pub(super) fn look_at_agreement(&self, joined: &mut JoinedMember, out: &mut MessageBuf) {
        joined.advance_agreement(out);
        for consequence in joined.agreement.consequences.drain(..) {
            self.see_to(consequence);
        }
    }

    fn see_to(&self, consequence: Consequence) {
        let (account, name) = (self.scope.account.name(), &self.scope.name);
        let totals = self.reader().state().totals;
        let (first, last) = (totals.first_seq, totals.last_seq);
        let has = format!("it has {} messages, {first} to {last}", totals.messages);
        let log = |what: std::fmt::Arguments<'_>| {
            let line = format_args!("JetStream stream '{account} > {name}' {what} ({has})");
            self.scope.host.log(Level::Error, line);
        };
        match consequence {
            Consequence::Replace { own, wanted } => {
                let StateDigest { index, messages, .. } = own;
                let part = if messages == wanted.messages { "consumers or settings" } else { "messages" };
                log(format_args!("has other {part} than most of its group as of entry {index}"));
                self.note_disagreement();
            }
            Consequence::Told(peer, index) => {
                log(format_args!("is another one on server {peer} as of entry {index}, which gets it anew"));
            }
            Consequence::HandOver(peer, index) => {
                log(format_args!("is not as on most servers as of entry {index}: server {peer} is to lead"));
                if let Some(me) = self.me.upgrade() {
                    self.scope.host.spawn_sync(Box::new(move || me.hand_over_to(Some(peer))));
                }
            }
        }
    }
}
