//! Interest of another cluster, as one of its servers tells it.
//!
//! Servers since 2.9 tell everything. Older ones get messages *optimistically*: they say what
//! nobody wants there, and begin to tell everything once that is too much.
//!
//! Interest in accounts that are not here is kept: they may appear.

use super::gateway_end::{InterestMode, OptimisticChange};
use super::interest_part::InterestKey;
use super::{Link, lossy};
use crate::account::Account;
use crate::log::Level;
use myelin_subject::is_well_formed;
use myelin_wire::error::CloseReason;
use myelin_wire::peer::parser::PeerInterest;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

/// Memory that one subject or account takes beside its text, about.
const EACH: usize = 96;

/// Interest in accounts that are not here: by account, the subjects or subjects and queue groups.
#[derive(Default)]
pub(super) struct HeldInterest(BTreeMap<Box<str>, BTreeSet<Box<[u8]>>>);

/// Accounts in which a leaf node or another server of the cluster has become interested in a
/// subject in this batch: answers of other clusters may come before those know of it.
#[derive(Default)]
pub(super) struct YoungAccounts(SmallVec<[Arc<Account>; 1]>);

impl YoungAccounts {
    #[inline]
    pub(super) fn subscribed(&mut self, account: &Arc<Account>) {
        if account.announced.gateways().is_some()
            && !self.0.last().is_some_and(|last| Arc::ptr_eq(last, account))
        {
            self.0.push(Arc::clone(account));
        }
    }

    /// Marks them as young at this moment.
    #[inline]
    pub(super) fn note(&mut self, now: Instant) {
        if !self.0.is_empty() {
            self.0.drain(..).for_each(|account| account.subscribed_at(now));
        }
    }
}

impl Link {
    /// The other cluster has begun to be interested in something.
    ///
    /// # Errors
    /// When it has brought more than a link may: the link must end.
    pub fn subscribe_gateway(&mut self, interest: &PeerInterest<'_>) -> Result<(), CloseReason> {
        let interest = &PeerInterest { weight: 1, ..*interest };
        if self.is_about_optimism(interest) {
            self.change_unwanted(interest, false);
            return Ok(());
        }
        let known = self.told.take().filter(|told| told.name().as_bytes() == interest.account);
        match known.or_else(|| self.find(interest.account)) {
            Some(account) => {
                self.told = Some(account);
                self.subscribe(interest)
            }
            None if self.broker.trusted().is_some() => self.subscribe(interest),
            None => self.hold(interest),
        }
    }

    /// The other cluster is interested no more.
    pub fn unsubscribe_gateway(&mut self, interest: &PeerInterest<'_>) {
        if self.is_about_optimism(interest) {
            return self.change_unwanted(interest, true);
        }
        let was_held = self.let_go(interest);
        // It may have appeared since.
        if !was_held || self.find(interest.account).is_some() {
            self.unsubscribe(interest);
        }
    }

    /// The other cluster has an account, or does not have it any more.
    pub fn account_wanted(&mut self, name: &[u8], is_wanted: bool) {
        let (Some(gateway), Ok(name)) = (self.conn.gateway(), std::str::from_utf8(name)) else { return };
        gateway.change(name, &OptimisticChange::Account { is_unwanted: !is_wanted });
        self.outdate(name);
    }

    /// The other cluster tells all of its interest in an account from now on, or has told it.
    pub fn all_interest_follows(&mut self, name: &str, is_complete: bool) {
        let Some(gateway) = self.conn.gateway() else { return };
        gateway.change(name, &OptimisticChange::AllTold { is_complete });
        if !gateway.tells_all {
            self.outdate(name);
        }
    }

    /// Takes interest in accounts that have appeared here.
    pub fn take_known_accounts(&mut self) {
        let held = std::mem::take(&mut self.held.0);
        for (name, keys) in held {
            if self.broker.account(&name).is_none() {
                self.held.0.insert(name, keys);
                continue;
            }
            for key in keys {
                self.interest.release(held_cost(&name, &key));
                let InterestKey { subject, queue } = InterestKey::of_key(&key);
                let account = name.as_bytes();
                // More than a link may bring it could not have brought before.
                let _ = self.subscribe(&PeerInterest { account, subject, queue, weight: 1, leaf: None });
            }
        }
    }

    /// Whether it is of an older server that only says what is not wanted.
    fn is_about_optimism(&self, interest: &PeerInterest<'_>) -> bool {
        let Some(gateway) = self.conn.gateway().filter(|gateway| !gateway.tells_all) else { return false };
        let mode = gateway.mode(&lossy(interest.account));
        interest.queue.is_none() && mode.is_none_or(|mode| mode == InterestMode::Optimistic)
    }

    /// Takes note of what is not wanted by an older server, or is again.
    fn change_unwanted(&self, interest: &PeerInterest<'_>, is_unwanted: bool) {
        let (Some(gateway), Ok(name)) = (self.conn.gateway(), std::str::from_utf8(interest.account)) else {
            return;
        };
        let subject = interest.subject;
        // Of an account that is not here nothing is sent.
        let Some(account) = self.broker.account(name) else { return };
        if is_well_formed(subject) {
            gateway.change(
                name,
                &match is_unwanted {
                    true => OptimisticChange::Unwanted(subject),
                    false => OptimisticChange::Wanted(subject),
                },
            );
            account.touch_remote(subject);
        }
    }

    fn outdate(&self, name: &str) {
        self.broker.account(name).iter().for_each(|account: &Arc<Account>| account.invalidate_all());
    }

    /// Keeps interest in an account that is not here.
    fn hold(&mut self, interest: &PeerInterest<'_>) -> Result<(), CloseReason> {
        let Ok(name) = std::str::from_utf8(interest.account) else { return Ok(()) };
        let key = InterestKey { subject: interest.subject, queue: interest.queue }.key();
        if !self.held.0.contains_key(name) {
            let line = format_args!("Interest of another cluster in account {name:?}, which is not here");
            self.broker.complain(Level::Debug, &self.conn, "Interest in an account that is not here", line);
        }
        let held = self.held.0.entry(name.into()).or_default();
        if held.contains(&key[..]) {
            return Ok(());
        }
        if !self.interest.reserve(held_cost(name, &key)) {
            return Err(CloseReason::MaximumSubscriptions);
        }
        held.insert(key[..].into());
        Ok(())
    }

    /// Forgets interest in an account that is not here; false if there was none.
    fn let_go(&mut self, interest: &PeerInterest<'_>) -> bool {
        let Ok(name) = std::str::from_utf8(interest.account) else { return false };
        let Some(held) = self.held.0.get_mut(name) else { return false };
        let key = InterestKey { subject: interest.subject, queue: interest.queue }.key();
        let was_held = held.remove(&key[..]);
        let is_empty = held.is_empty();
        if was_held {
            self.interest.release(held_cost(name, &key));
        }
        if is_empty {
            self.held.0.remove(name);
        }
        was_held
    }
}

/// Memory that interest in an account that is not here takes, about.
fn held_cost(name: &str, key: &[u8]) -> usize {
    name.len() + key.len() + EACH
}
