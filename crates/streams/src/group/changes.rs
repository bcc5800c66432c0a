//! Changes of members: what a stream's log says of them, and who takes the next step.
//!
//! Owns the note in which the log has the members. Each replica counts those of the last such note
//! that is committed; its leader writes the next one, one at a time, until just those that are
//! wanted vote. A leader that is to go asks to be allowed to hand over first: who publishes to it
//! is to be told. Must never take a step while another one is on its way.

use myelin_replica::{Consensus, Members, Peer};
use myelin_store::{Stream, Timestamp};

use super::{GroupMember, MemberFailed};
use crate::stream::StreamCore;

/// Key of the note.
const KEY: &[u8] = b"group.members";
/// Key of a second note that says the same behind the end of a change. When it is committed, who
/// begins anew knows that the first one is: an entry says what was committed before it. Those that
/// are gone could not be asked any more.
const SETTLED: &[u8] = b"group.settled";

/// Members as the log has them, or those of the beginning where it says nothing. `None`: it says
/// something that this version does not understand.
pub(super) fn members_of(store: &Stream, voters: &[Peer]) -> Option<Members> {
    store.note(KEY).map_or_else(|| Some(Members::of(voters)), Members::from_bytes)
}

/// Whether this member alone is a majority by a log, committed or not, in a change of members: from
/// when that begins until whoever begins anew knows that there are no others any more.
///
/// Perf: asked at each commit, most of which have no change under way.
pub(super) fn stands_alone(me: Peer, store: &Stream) -> bool {
    let (said, decided) = (store.note(KEY), store.decided_note(KEY));
    if said == decided && said == store.note(SETTLED) {
        return false;
    }
    let is_alone = |members: Members| members.voters == [me] || members.outgoing == [me];
    [said, decided].into_iter().flatten().filter_map(Members::from_bytes).any(is_alone)
}

impl GroupMember {
    /// Has just these peers vote, as soon as may be, and nobody else be a member. Counts while this
    /// member leads.
    pub fn want_members(&mut self, wanted: &[Peer]) {
        self.wanted = wanted.to_vec();
    }

    /// Whether just these peers are members, all of them vote, and who was a member before is not
    /// needed any more.
    #[must_use]
    pub fn has_members(&self, wanted: &[Peer]) -> bool {
        self.is_settled && *self.consensus.members() == Members::of(wanted)
    }

    /// Counts the members that the log has, as far as it is committed.
    pub(super) fn follow_members(&mut self, store: &Stream) -> Result<(), MemberFailed> {
        if let Some(members) = store.note(KEY)
            && members != self.members
        {
            self.members = members.to_vec();
            let members = Members::from_bytes(members);
            let members = members.ok_or_else(|| {
                let reason = "the log says who is a member in a way that is not known here".to_owned();
                myelin_replica::Broken { reason }
            })?;
            self.consensus.set_members(&members)?;
        }
        let settled = store.note(SETTLED).unwrap_or_default();
        self.is_settled = settled == self.members;
        self.note_standing(store);
        Ok(())
    }

    /// Takes the next step of a change, if this member leads and there is one. Answers whether
    /// another one is to lead before that: this one is no member when the change is through.
    pub(super) fn change_members(&mut self, stream: &mut StreamCore, now: Timestamp) -> bool {
        let leads = stream.role().leads() && self.leads();
        if leads && !self.consensus.members().votes(self.me) {
            // It was elected while it was one, and its log has said more since.
            return true;
        }
        let is_free = leads
            && self.unproposed.is_empty()
            && self.consensus.can_propose()
            && [KEY, SETTLED].iter().all(|key| stream.store().decided_note(key) == stream.store().note(key));
        let members = self.consensus.members();
        let is_done = members.is_settled() && self.is_settled;
        if !is_free || is_done && (self.wanted.is_empty() || self.has_members(&self.wanted)) {
            return false;
        }
        if members.is_settled() && !self.is_settled {
            self.say(stream, SETTLED, &self.members.clone(), now);
            return false;
        }
        if members.is_joint() && !members.voters.contains(&self.me) {
            // Those that vote without this member have to be enough to elect one of them.
            let is_ready = |voter: &&Peer| !self.forgetful.contains(voter);
            return members.voters.iter().filter(is_ready).count() >= members.quorum();
        }
        // Who may have lost entries votes for nobody yet: no majority is to need it.
        let has_log = |learner| !self.forgetful.contains(&learner) && self.consensus.has_log(learner);
        if let Some(next) = members.next(&self.wanted, has_log) {
            self.say(stream, KEY, &next.to_bytes(), now);
        }
        false
    }

    /// Where this member alone is a majority its log is the only one that counts: nobody is to know
    /// of an entry that a loss of power can take from it.
    fn note_standing(&mut self, store: &Stream) {
        self.unpersisted.keep_to_itself(stands_alone(self.me, store));
    }

    fn say(&mut self, stream: &mut StreamCore, key: &[u8], members: &[u8], now: Timestamp) {
        // On a full disk it is tried again with the next turn.
        let _ = stream.store_mut().propose_notes(&[(key, members)], now);
        self.unproposed.extend(stream.store_mut().take_decided());
        self.note_standing(stream.store());
    }
}

/// The member that has the most of the log of those that vote when a change is through. Where
/// several have as much it is the next one by id, so that leadership goes round. One whose server
/// is there goes before all others.
pub(super) fn heir(consensus: &Consensus, me: Peer, is_there: impl Fn(Peer) -> bool) -> Option<Peer> {
    let voters = &consensus.members().voters;
    let others = consensus.status().members.into_iter();
    let others = others.filter(|member| member.peer != me && voters.contains(&member.peer));
    let order = |peer: Peer| (peer > me, std::cmp::Reverse(peer));
    let heir = others
        .max_by_key(|member| (is_there(member.peer), member.is_active, member.matched, order(member.peer)));
    heir.map(|heir| heir.peer)
}
