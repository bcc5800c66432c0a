//! Order in which assignments of an account are carried out: one at a time, whichever thread looks
//! at them. A change of a stream's configuration waits for the disk, and the thread of the API does
//! not: what else is assigned in the account is carried out behind it, for another stream may take
//! the room, or the subject, that this one gives up.

use super::Meta;
use super::reconcile::SeenAssignment;
use crate::engine::JetStream;
use crate::engine::account::AccountStreams;
use crate::engine::api_future::run_on_api;
use crate::engine::live::LiveStream;
use myelin_stdx::sync::lock;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Assignments that wait until another one of their account is carried out, in order. An account
/// that has an entry is taken: two threads may look at what is assigned, and a change goes on for a
/// while.
#[derive(Default)]
pub(super) struct Changing(Mutex<BTreeMap<String, VecDeque<SeenAssignment>>>);

impl Changing {
    /// Takes the account of an assignment for it, until [`Changing::next`] finds nothing more, and
    /// gives it back. Where it is taken the assignment waits.
    fn pass(&self, seen: SeenAssignment) -> Option<SeenAssignment> {
        match lock(&self.0).entry(seen.assignment.key.account.clone()) {
            Entry::Occupied(mut taken) => {
                taken.get_mut().push_back(seen);
                None
            }
            Entry::Vacant(free) => {
                free.insert(VecDeque::new());
                Some(seen)
            }
        }
    }

    /// Whether an assignment of an account is being carried out.
    pub(super) fn is_in(&self, account: &str) -> bool {
        lock(&self.0).contains_key(account)
    }

    /// The assignment that has waited longest for an account that is taken, which goes on to be
    /// taken, for that one. Where none waits it is free.
    fn next(&self, account: &str) -> Option<SeenAssignment> {
        let mut all = lock(&self.0);
        let next = all.get_mut(account)?.pop_front();
        if next.is_none() {
            all.remove(account);
        }
        next
    }
}

/// Turn of an assignment that is carried out, and of no other one of its account. However it ends,
/// what waits for it is carried out.
pub(super) struct AccountTurn {
    meta: Arc<Meta>,
    account: String,
}

impl Drop for AccountTurn {
    fn drop(&mut self) {
        let account = std::mem::take(&mut self.account);
        let Some(next) = self.meta.faults.changing.next(&account) else { return };
        // In its own time: whoever waits behind it goes on to.
        self.meta.on_api(move |meta, jetstream| {
            let Some(meta) = meta.me.upgrade() else { return };
            let turn = Self { meta: Arc::clone(&meta), account };
            meta.act_on(jetstream, next, turn);
        });
    }
}

impl Meta {
    /// Does what an assignment says, behind others of its account that are being carried out.
    pub(super) fn carry_out(&self, jetstream: &Arc<JetStream>, seen: SeenAssignment) {
        let Some(meta) = self.me.upgrade() else { return };
        let Some(seen) = self.faults.changing.pass(seen) else { return };
        let turn = AccountTurn { meta, account: seen.assignment.key.account.clone() };
        self.act_on(jetstream, seen, turn);
    }

    /// Has a stream get the configuration that it is assigned, and then says what came of it.
    pub(super) fn change_config(
        &self,
        jetstream: &Arc<JetStream>,
        account: &Arc<AccountStreams>,
        live: Arc<LiveStream>,
        (seen, turn): (SeenAssignment, AccountTurn),
    ) {
        let (jetstream, account) = (Arc::clone(jetstream), Arc::clone(account));
        let host = Arc::clone(&jetstream.host);
        run_on_api(&host, async move {
            let updated = account.update(&jetstream, &live, seen.assignment.config.clone()).await;
            let done = updated.map(|()| live);
            turn.meta.conclude(&jetstream, &account, &seen, (true, done));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::meta::{AnswerKind, Assignment};

    fn of(account: &str, id: u64) -> SeenAssignment {
        let answer = AnswerKind::Update;
        let assignment = Assignment { id, nonce: id, answer, ..Assignment::sample(account, "S") };
        SeenAssignment { assignment: Arc::new(assignment), is_new: false, first: None, made: None }
    }

    #[test]
    fn one_assignment_of_an_account_is_carried_out_at_a_time() {
        let (changing, id) = (Changing::default(), |seen: SeenAssignment| seen.assignment.id);
        assert_eq!(changing.pass(of("A", 1)).map(id), Some(1));
        assert!(changing.pass(of("A", 2)).is_none(), "another thread looks at the same time");
        assert!(changing.pass(of("A", 3)).is_none());
        assert_eq!(changing.pass(of("B", 4)).map(id), Some(4), "another account");
        assert_eq!(changing.next("A").map(id), Some(2));
        assert!(changing.pass(of("A", 5)).is_none(), "behind what has waited");
        assert_eq!(changing.next("A").map(id), Some(3));
        assert_eq!(changing.next("A").map(id), Some(5));
        assert!(changing.next("A").is_none() && !changing.is_in("A"));
        assert_eq!(changing.pass(of("A", 6)).map(id), Some(6));
    }
}
