//! Permissions of routes: which interest crosses a link, and what a reload makes of it; accounts
//! that a reload moves from one link to another.
//!
//! Imports say what this server announces of its own interest; exports, what interest of the other
//! side it takes. Where an export denies a part of what the other side wants with wildcards, those
//! messages stay here. Rules are the cluster's, the same for all links.

use super::Link;
use super::announcements::Announcing;
use super::end::LinkEnd;
use myelin_auth::Permissions;
use std::sync::Arc;

impl LinkEnd {
    /// Whether the other side is told of interest here.
    pub(super) fn may_announce(&self, subject: &[u8]) -> bool {
        self.rules.load().as_ref().is_none_or(|rules| rules.can_publish(subject))
    }

    /// Whether a message may go to the other side, which wants it, for members of `queue` if that
    /// is one.
    pub(crate) fn may_carry(&self, subject: &[u8], queue: Option<&[u8]>) -> bool {
        if let Some(leaf) = self.leaf() {
            return leaf.may_send(subject, queue);
        }
        self.rules.load().as_ref().is_none_or(|rules| rules.can_deliver(subject, None))
    }
}

impl Link {
    /// Whether interest of the other side is taken.
    pub(super) fn may_take(&self, subject: &[u8]) -> bool {
        let may = |link: &LinkEnd| {
            link.rules.load().as_ref().is_none_or(|rules| rules.can_subscribe(subject, None))
        };
        self.conn.link().is_none_or(may)
    }

    /// Sets the rules of a link that begins.
    pub fn set_rules(&self, rules: Option<Arc<Permissions>>) {
        if let Some(link) = self.conn.link() {
            link.rules.store(rules);
        }
    }

    /// Exchanges the rules of a link that runs: the other side hears of what it may be told from
    /// now on, and of what it may not any more; what it may not want is forgotten.
    pub fn change_rules(&mut self, rules: Option<Arc<Permissions>>) {
        let Some(link) = self.conn.link() else { return };
        let before = link.rules.swap(rules.clone());
        self.interest.restrict(|subject| may_subscribe(rules.as_deref(), subject));
        Announcing::new(&self.broker, &self.conn).run_for(&|subject| {
            let (then, now) =
                (may_publish(before.as_deref(), subject), may_publish(rules.as_deref(), subject));
            (then != now).then_some(now)
        });
    }

    /// The other side takes more interest than before, by its own exports: it hears what it has
    /// not taken.
    pub fn announce_again(&self, before: Option<&Permissions>, now: Option<&Permissions>) {
        let Some(link) = self.conn.link() else { return };
        Announcing::new(&self.broker, &self.conn).run_for(&|subject| {
            let is_new = !may_subscribe(before, subject) && may_subscribe(now, subject);
            (is_new && link.may_announce(subject)).then_some(true)
        });
    }

    /// An account has links of its own from now on: what the other side wanted of it here is said
    /// there again.
    pub fn forget_account(&mut self, name: &str) {
        self.interest.forget(name);
    }

    /// An account has no links of its own any more: if it is one of this link's, what is wanted of
    /// it is said here.
    pub fn announce_account(&self, name: &str) {
        Announcing::new(&self.broker, &self.conn).of_account(name).run();
    }
}

fn may_publish(rules: Option<&Permissions>, subject: &[u8]) -> bool {
    rules.is_none_or(|rules| rules.can_publish(subject))
}

fn may_subscribe(rules: Option<&Permissions>, subject: &[u8]) -> bool {
    rules.is_none_or(|rules| rules.can_subscribe(subject, None))
}
