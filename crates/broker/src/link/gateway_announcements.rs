//! Interest of this cluster, told to servers of other clusters.
//!
//! A subject is told once, whoever wants it here, and so is a queue group, without the number of
//! its members. All is decided under the lock of the subject's part (`interest_part.rs`), so that
//! the last word on a link is the last state.
//!
//! Of each account the other side is told first that everything follows, and then that everything
//! was told. An account of which something is said before that was done for it is done at once.

use super::announced::Announced;
use super::gateway_end::{GatewayEnd, InterestMode, MOST_ACCOUNTS};
use super::gateway_links::GatewayLinks;
use super::interest_part::{InterestKey, InterestPart, counts_for_gateways, leaf_keys};
use crate::account::Account;
use crate::broker::Broker;
use crate::conn::Conn;
use myelin_stdx::sync::lock;
use myelin_wire::peer::encode;
use myelin_wire::peer::gateway::{ALL_SUBS_COMPLETE, ALL_SUBS_START, command};
use std::borrow::Cow;
use std::sync::Arc;

/// Lines of an account are gathered to about this size before they are said.
const CHUNK: usize = 64 * 1024;

/// The interest that a new link from another cluster has to be told.
pub struct GatewayAnnouncing {
    accounts: Vec<Arc<Account>>,
    conn: Arc<Conn>,
    /// Name of this server's gateway.
    own: String,
}

impl GatewayAnnouncing {
    /// Count of subjects that can be announced on a shard without its clients noticing.
    const SMALL: usize = 10_000;

    pub(super) fn new(broker: &Broker, conn: &Arc<Conn>) -> Self {
        let own = GatewayLinks::of(&broker.cluster).map_or("", GatewayLinks::name).to_owned();
        Self { accounts: broker.accounts(), conn: Arc::clone(conn), own }
    }

    /// Whether it takes long to tell it.
    pub fn is_long(&self) -> bool {
        self.accounts.iter().map(|account| account.announced.leaf_len()).sum::<usize>() > Self::SMALL
    }

    /// Tells it.
    pub fn run(self) {
        for account in &self.accounts {
            account.announced.tell_all(account.name(), &self.conn, &self.own);
        }
    }
}

/// Writes what is wanted of one part.
#[expect(clippy::disallowed_methods, reason = "the seed of the hash comes from outside")]
fn write_part(part: &InterestPart, account: &str, out: &mut Vec<u8>) {
    let of_others = leaf_keys(part).filter(|key| !part.local.contains_key(&key[..]));
    let of_others = of_others.filter(|key| others(part, key));
    for key in part.local.keys().map(|key| Cow::Borrowed(&**key)).chain(of_others) {
        write_line(out, account, InterestKey::of_key(&key), true);
    }
}

fn write_line(out: &mut Vec<u8>, account: &str, wish: InterestKey<'_>, is_wanted: bool) {
    let account = Some(account.as_bytes());
    match is_wanted {
        // Compat: members are not counted.
        true => encode::interest(out, account, wish.subject, wish.queue.map(|queue| (queue, 1))),
        false => encode::no_interest(out, account, wish.subject, wish.queue),
    }
}

/// Whether other servers of this cluster or leaf nodes want what a key says.
pub(super) fn others(part: &InterestPart, key: &[u8]) -> bool {
    let Some(part) = &part.leaf else { return false };
    part.remote(key).iter().any(counts_for_gateways)
}

impl Announced {
    /// Links with other clusters, where there may be any.
    #[inline]
    pub(crate) fn gateways(&self) -> Option<&GatewayLinks> {
        GatewayLinks::of(&self.cluster)
    }

    /// Whether other clusters hear of this account.
    #[inline]
    pub(super) fn has_gateways(&self) -> bool {
        self.cluster.has_gateways() && !self.is_internal()
    }

    /// Tells other clusters of a change of this server's own interest, under the part's lock.
    pub(super) fn tell_gateways_of_own(
        &self,
        account: &str,
        part: &InterestPart,
        key: &[u8],
        counts: (u32, u32),
    ) {
        let (before, now) = (counts.0 > 0, counts.1 > 0);
        if before != now && self.has_gateways() && !others(part, key) {
            self.tell_gateways(account, key, now);
        }
    }

    /// Tells other clusters that a subject or a queue group is wanted in this one, or is not any
    /// more, under the part's lock.
    pub(super) fn tell_gateways(&self, account: &str, key: &[u8], is_wanted: bool) {
        let Some(gateways) = self.gateways().filter(|gateways| !gateways.inbound().is_empty()) else {
            return;
        };
        let mut line = Vec::with_capacity(64);
        write_line(&mut line, account, InterestKey::of_key(key), is_wanted);
        for conn in gateways.inbound().iter() {
            let Some(gateway) = conn.gateway() else { continue };
            say_of(conn, gateway, (gateways.name(), account), &line);
        }
    }

    /// There is such an account from now on: other clusters need not ask what it wants.
    pub(crate) fn open_for_gateways(&self, account: &str) {
        let Some(gateways) = self.gateways().filter(|_| self.has_gateways()) else { return };
        for conn in gateways.inbound().iter() {
            let Some(gateway) = conn.gateway() else { continue };
            say_of(conn, gateway, (gateways.name(), account), b"");
        }
    }

    /// Tells one link all that is wanted in the account.
    fn tell_all(&self, account: &str, conn: &Arc<Conn>, own: &str) {
        let Some(gateway) = conn.gateway() else { return };
        {
            let mut told = lock(&gateway.told);
            if told.contains_key(account) {
                // Something was said of it meanwhile.
            } else if told.len() < MOST_ACCOUNTS {
                conn.say(&command(own, ALL_SUBS_START, account));
                told.insert(account.into(), InterestMode::Transitioning);
            }
        }
        let mut lines = Vec::new();
        self.for_each_part(|part| {
            lines.clear();
            write_part(part, account, &mut lines);
            if !lines.is_empty() && conn.close_requested().is_none() {
                conn.say(&lines);
            }
            lines.shrink_to(CHUNK);
        });
        let mut told = lock(&gateway.told);
        if let Some(mode) = told.get_mut(account)
            && *mode == InterestMode::Transitioning
        {
            *mode = InterestMode::InterestOnly;
            conn.say(&command(own, ALL_SUBS_COMPLETE, account));
        }
    }

    /// The account is there again. Sessions that have not ended yet since it was gone may want what
    /// a link has not been told that came meanwhile.
    pub(crate) fn reopen_for_gateways(&self, account: &str) {
        let Some(gateways) = self.gateways().filter(|_| self.has_gateways()) else { return };
        gateways.inbound().iter().for_each(|conn| self.tell_all(account, conn, gateways.name()));
    }

    /// There is no such account any more: if one of its name comes again, other clusters hear of it
    /// as of a new one.
    pub(crate) fn close_for_gateways(&self, account: &str) {
        let Some(gateways) = self.gateways() else { return };
        gateways.inbound().iter().filter_map(|conn| conn.gateway()).for_each(|end| end.forget_told(account));
    }
}

/// Says a line about an account, and before it that all of its interest is told, if that was not
/// said yet.
pub(super) fn say_of(conn: &Arc<Conn>, gateway: &GatewayEnd, (own, account): (&str, &str), line: &[u8]) {
    let mut told = lock(&gateway.told);
    // What an account wanted that is gone is withdrawn after it: its sessions end later.
    let is_withdrawn = line.starts_with(b"RS-");
    if is_withdrawn || told.contains_key(account) || told.len() >= MOST_ACCOUNTS {
        if !line.is_empty() {
            conn.say(line);
        }
        return;
    }
    let (start, complete) = (command(own, ALL_SUBS_START, account), command(own, ALL_SUBS_COMPLETE, account));
    conn.say(&[&start, line, &complete].concat());
    told.insert(account.into(), InterestMode::InterestOnly);
}
