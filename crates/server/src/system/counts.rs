//! Counts of accounts' connections: other servers and whoever listens are told of each change, and
//! from time to time of all.
//!
//! How many connections an account has is known at any moment. What they have moved is summed up in
//! a look at all connections of the server, which takes the longer the more there are, and has its
//! rests (`schedule.rs`). Where the connections of an account are limited the number does not wait
//! for that: other servers let clients in by it.

use super::limited_accounts::{LookedAtTraffic, is_limited};
use super::{Job, System};
use myelin_broker::Account;
use myelin_conf::options::GLOBAL_ACCOUNT;
use myelin_monitor::request;
use myelin_stdx::sync::lock;
use myelin_wire::json::compact;
use serde::Serialize;
use serde_json::value::RawValue;
use std::sync::Arc;

const CONNECTIONS: &str = "io.nats.server.advisory.v1.account_connections";

/// Traffic of an account at which nobody has looked yet.
const NOTHING: &str = r#"{"msgs":0,"bytes":0,"gateways":{"msgs":0,"bytes":0},"routes":{"msgs":0,"bytes":0},"leafs":{"msgs":0,"bytes":0}}"#;

/// Counts of an account, as the monitor's row of it.
#[derive(Serialize)]
struct Counts<'a> {
    acc: &'a str,
    name: &'a str,
    conns: usize,
    leafnodes: usize,
    total_conns: usize,
    num_subscriptions: usize,
    sent: &'a RawValue,
    received: &'a RawValue,
    slow_consumers: u64,
}

/// Compat: the first is the older form, at which servers listen.
fn connection_subjects(account: &str) -> [String; 2] {
    [format!("$SYS.SERVER.ACCOUNT.{account}.CONNS"), format!("$SYS.ACCOUNT.{account}.SERVER.CONNS")]
}

impl System {
    /// Notes on a shard that an account has more connections now, or fewer.
    pub(super) fn note_count(&self, account: &Arc<Account>) {
        let name = account.name();
        let is_limited = is_limited(account);
        if is_limited {
            self.ask_once(name);
        }
        if name == GLOBAL_ACCOUNT || !connection_subjects(name).iter().any(|subject| self.is_heard(subject)) {
            return;
        }
        let is_first = self.mark_changed(name);
        let is_urgent = is_limited
            && self.broker.is_clustered()
            && lock(&self.peers.limited.changed).insert(name.to_owned());
        if is_first || is_urgent {
            self.note(Job::Count);
        }
    }

    /// Tells other servers of the accounts with limits whose connections have changed, with the
    /// traffic of the last look. Changes that come faster than this tells of them are told as one.
    pub(super) fn publish_limited_counts(&self) {
        let names = std::mem::take(&mut *lock(&self.peers.limited.changed));
        for account in names.iter().filter_map(|name| self.broker.account(name)) {
            let [to_servers, _] = connection_subjects(account.name());
            if self.is_heard(&to_servers) {
                self.publish_event(&self.account, &to_servers, &self.connections(&self.counts_now(&account)));
            }
        }
    }

    /// Counts of an account without a look at its connections, as a JSON object.
    fn counts_now(&self, account: &Account) -> Vec<u8> {
        let moved = lock(&self.peers.limited.moved).get(account.name()).cloned();
        let nothing: Option<&RawValue> = serde_json::from_str(NOTHING).ok();
        let of = |part: fn(&LookedAtTraffic) -> &RawValue| moved.as_ref().map(part).or(nothing);
        let trusted = self.broker.trusted().and_then(|trusted| trusted.get(account.name()));
        let (conns, leafnodes) = (account.connections(), account.leaf_nodes());
        compact(&Counts {
            acc: account.name(),
            name: trusted.as_ref().map_or(account.name(), |trusted| trusted.name_tag()),
            conns,
            leafnodes,
            total_conns: conns + leafnodes,
            num_subscriptions: account.subscriptions()
                + account.own_subscriptions().0
                + account.remote_subscriptions().0,
            sent: of(|moved| &moved.sent).unwrap_or(RawValue::NULL),
            received: of(|moved| &moved.received).unwrap_or(RawValue::NULL),
            slow_consumers: moved.as_ref().map_or(0, |moved| moved.slow_consumers),
        })
    }

    /// Tells of the accounts whose connections have changed. Compat: the reference tells of each
    /// change; here those that come together are told as one.
    pub(super) fn publish_changed_counts(&self) {
        let names = self.take_changed();
        if !names.is_empty() {
            self.publish_counts(&names);
        }
    }

    /// Tells again how many there are, of all accounts that have connections: who has just begun to
    /// listen learns it.
    pub(super) fn publish_all_counts(&self) {
        let is_shown = |account: &Arc<Account>| {
            account.connections() + account.leaf_nodes() > 0
                && account.name() != GLOBAL_ACCOUNT
                && connection_subjects(account.name()).iter().any(|subject| self.is_heard(subject))
        };
        let accounts = self.broker.accounts().into_iter().filter(is_shown);
        let names: Vec<String> = accounts.map(|account| account.name().to_owned()).collect();
        if !names.is_empty() {
            self.publish_counts(&names);
        }
        // Accounts that are gone, or have no limits any more.
        let is_kept = |name: &String| self.broker.account(name).is_some_and(|account| is_limited(&account));
        lock(&self.peers.limited.moved).retain(|name, _| is_kept(name));
    }

    fn publish_counts(&self, names: &[String]) {
        for (name, stat) in request::account_stats(names, &*self.monitor) {
            self.remember_moved(&name, &stat);
            let body = self.connections(&stat);
            for subject in connection_subjects(&name) {
                if self.is_heard(&subject) {
                    self.publish_event(&self.account, &subject, &body);
                }
            }
        }
    }

    /// Keeps what an account with limits has moved for the next time when there is no look.
    fn remember_moved(&self, name: &str, stat: &[u8]) {
        let is_limited = self.broker.account(name).is_some_and(|account| is_limited(&account));
        if is_limited && let Ok(moved) = serde_json::from_slice(stat) {
            lock(&self.peers.limited.moved).insert(name.to_owned(), moved);
        }
    }

    /// How many connections an account has, as an event; `stat` is a JSON object.
    pub(super) fn connections(&self, stat: &[u8]) -> Vec<u8> {
        let mut body = compact(&self.head(CONNECTIONS));
        body.pop();
        body.push(b',');
        body.extend_from_slice(&stat[1..]);
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The monitor's words about an account are read back, and what stands for nothing has their
    /// form.
    #[test]
    fn what_was_moved_is_read_from_the_monitors_row() {
        let row = format!("{{\"acc\":\"A\",\"sent\":{NOTHING},\"received\":{NOTHING},\"slow_consumers\":3}}");
        let moved: LookedAtTraffic = serde_json::from_str(&row).unwrap();
        assert_eq!((moved.sent.get(), moved.received.get(), moved.slow_consumers), (NOTHING, NOTHING, 3));
        assert!(serde_json::from_str::<&RawValue>(NOTHING).is_ok());
    }
}
