//! Announcements: what an account's clients and services want, told to other servers.
//!
//! Other servers hear of a subject once, however many want it, and of a queue group how many
//! members it has. What is announced of a subject is written to the links under the lock of its
//! part of the account's counts (`announced.rs`). A link that begins is in the list of links first
//! and gets all parts one by one after: it may hear something twice, which does no harm, and misses
//! nothing.

use super::announced::Announced;
use super::end::LinkEnd;
use super::interest_part::{InterestKey, leaf_keys, tell_route, write_for_route};
use super::links::Links;
use crate::account::Account;
use crate::broker::Broker;
use crate::cluster::{AccountPlace, Announcer, InterestChange};
use crate::conn::Conn;
use crate::log::{Level, write_of_link};
use myelin_wire::peer::encode;
use std::sync::Arc;

/// Bytes of most lines.
const LINE: usize = 64;

impl Announcer for Links {
    fn announce(&self, change: &InterestChange<'_>) {
        let InterestChange { account, place, subject, queue, count, origin } = *change;
        for conn in self.all().iter() {
            let line = tell((account, place), conn, LINE, |link, out| {
                if !link.may_announce(subject) {
                    return;
                }
                let named = link.named(account);
                match (count, origin) {
                    (_, Some(origin)) => {
                        tell_route(out, (origin, named), InterestKey { subject, queue }, count);
                    }
                    (0, None) => encode::no_interest(out, named, subject, queue),
                    (_, None) => encode::interest(out, named, subject, queue.map(|queue| (queue, count))),
                }
            });
            self.log(conn, &line);
        }
    }
}

impl Links {
    /// A change that a link was told, in the protocol log. Compat: what a new link is told at once
    /// is not there.
    fn log(&self, conn: &Conn, line: &[u8]) {
        if !line.is_empty()
            && let Some(log) = self.protocol_log()
        {
            let line = String::from_utf8_lossy(line.trim_ascii_end());
            write_of_link(log, Level::Trace, (&conn.peer(), "rid", conn.cid()), format_args!("->> [{line}]"));
        }
    }
}

/// Tells one link what `write` writes of an account, about `room` bytes, if it is for that account,
/// and returns what it was told.
fn tell(
    (account, place): (&str, AccountPlace),
    conn: &Arc<Conn>,
    room: usize,
    write: impl FnOnce(&LinkEnd, &mut Vec<u8>),
) -> Vec<u8> {
    let mut line = Vec::new();
    if let Some(link) = conn.link()
        && link.carries(account, place)
    {
        line.reserve(room);
        write(link, &mut line);
        if !line.is_empty() {
            conn.say(&line);
        }
    }
    line
}

/// Tells a link what `choose` says of each subject: that it is wanted, or not, or nothing.
fn tell_all(
    announced: &Announced,
    account: &Account,
    conn: &Arc<Conn>,
    choose: &dyn Fn(&[u8]) -> Option<bool>,
) {
    announced.for_each_part(|part| {
        // It may get another between two parts: then the rest is told there.
        let place = account.place_on_links();
        let _ = tell((account.name(), place), conn, LINE * part.local.len(), |link, out| {
            let named = link.named(account.name());
            for (key, count) in &part.local {
                let at = key.iter().position(|byte| *byte == b' ');
                let (subject, queue) = match at {
                    Some(at) => (&key[..at], Some((&key[at + 1..], *count))),
                    None => (&key[..], None),
                };
                match choose(subject) {
                    Some(true) => encode::interest(out, named, subject, queue),
                    Some(false) => {
                        encode::no_interest(out, named, subject, queue.map(|(queue, _)| queue));
                    }
                    None => {}
                }
            }
            for key in leaf_keys(part) {
                if let Some(is_wanted) = choose(InterestKey::of_key(&key).subject) {
                    write_for_route(part, &key, named, is_wanted, out);
                }
            }
        });
    });
}

/// The interest of this server that a new link has to be told.
pub struct Announcing {
    accounts: Vec<Arc<Account>>,
    conn: Arc<Conn>,
}

impl Announcing {
    /// Count of subjects that can be announced on a shard without its clients noticing.
    const SMALL: usize = 10_000;

    pub(super) fn new(broker: &Broker, conn: &Arc<Conn>) -> Self {
        let mut accounts = broker.accounts();
        accounts.extend(broker.internal_accounts());
        accounts.retain(|account| {
            conn.link().is_some_and(|link| link.carries(account.name(), account.place_on_links()))
        });
        Self { accounts, conn: Arc::clone(conn) }
    }

    /// Restricts it to one account.
    pub(super) fn of_account(mut self, name: &str) -> Self {
        self.accounts.retain(|account| account.name() == name);
        self
    }

    /// Whether it takes long to tell it.
    pub fn is_long(&self) -> bool {
        self.accounts.iter().map(|account| account.announced.len()).sum::<usize>() > Self::SMALL
    }

    /// Tells it.
    pub fn run(self) {
        let Self { accounts, conn } = self;
        let choose = |subject: &[u8]| conn.link()?.may_announce(subject).then_some(true);
        accounts.iter().for_each(|account| tell_all(&account.announced, account, &conn, &choose));
    }

    /// Tells of what `choose` chooses: that it is wanted, or is not any more.
    pub(super) fn run_for(self, choose: &dyn Fn(&[u8]) -> Option<bool>) {
        let Self { accounts, conn } = self;
        accounts.iter().for_each(|account| tell_all(&account.announced, account, &conn, choose));
    }
}
