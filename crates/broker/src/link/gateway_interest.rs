//! Interest of another cluster, as one of its servers tells it.
//!
//! Servers since 2.9 tell everything. Older ones get messages *optimistically*: they say what
//! nobody wants there, and begin to tell everything once that is too much.
//!
//! Interest in accounts that are not here is kept: they may appear.

use super::gateway_end::InterestMode;
use super::interest_part::InterestKey;
use super::{Link, lossy};
use crate::account::Account;
use crate::log::Level;
use myelin_subject::{is_subset, matches};
use myelin_wire::error::CloseReason;
use myelin_wire::peer::parser::PeerInterest;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Subjects of an account at most that an older server says nobody wants: more are sent.
const MOST_UNWANTED: usize = 16 * 1024;
/// Memory that one subject or account takes beside its text, about.
const EACH: usize = 96;

/// Interest in accounts that are not here: by account, the subjects or subjects and queue groups.
#[derive(Default)]
pub(super) struct HeldInterest(BTreeMap<Box<str>, BTreeSet<Box<[u8]>>>);

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
        let held = std::str::from_utf8(interest.account).ok().and_then(|name| self.held.0.get_mut(name));
        if let Some(held) = held {
            held.remove(&InterestKey { subject: interest.subject, queue: interest.queue }.key()[..]);
            return;
        }
        self.unsubscribe(interest);
    }

    /// The other cluster has an account, or does not have it any more.
    pub fn account_wanted(&mut self, name: &[u8], is_wanted: bool) {
        let (Some(gateway), Ok(name)) = (self.conn.gateway(), std::str::from_utf8(name)) else { return };
        gateway.change(name, |account| {
            account.is_unwanted = !is_wanted;
            account.unwanted.clear();
        });
        self.outdate(name);
    }

    /// The other cluster tells all of its interest in an account from now on, or has told it.
    pub fn all_interest_follows(&mut self, name: &str, is_complete: bool) {
        let Some(gateway) = self.conn.gateway() else { return };
        gateway.change(name, |account| {
            account.is_unwanted = false;
            account.mode = Some(InterestMode::Transitioning);
            if is_complete {
                account.mode = Some(InterestMode::InterestOnly);
                account.unwanted.clear();
            }
        });
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
        gateway.change(name, |account| {
            if !is_unwanted {
                account.unwanted.retain(|known| !(matches(subject, known) || is_subset(known, subject)));
            } else if account.unwanted.len() < MOST_UNWANTED {
                account.unwanted.insert(subject.into());
            }
        });
        if let Some(account) = self.broker.account(name)
            && myelin_subject::is_well_formed(subject)
        {
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
        if !self.interest.reserve(name.len() + key.len() + EACH) {
            return Err(CloseReason::MaximumSubscriptions);
        }
        held.insert(key[..].into());
        Ok(())
    }
}
