//! Accounts that come into being with their tokens: found by their public key when they are first
//! needed.
//!
//! Owns which tokens of accounts are in force. Where they come from is the [`Resolver`]'s, what
//! they must be like is `auth`'s, and what comes of a change is told to whoever
//! [observes](JwtAccounts::observe). Time is passed in.
//!
//! A user who came with a token holds the account as it was then (`ClaimedUser`); the session
//! compares the two when it is refreshed. An account that is gone is unlinked (`remove_account`),
//! and its streams rest, unbound and with everything they have, until JetStream is enabled for it
//! again.

use crate::account::Account;
use crate::broker::Broker;
use crate::cluster::Cluster;
use crate::elsewhere::ConnectionCount;
use crate::imports::{self, AccountConfig};
use crate::log::Level;
use crate::sought_accounts::SoughtAccounts;
use myelin_auth::operator::{self, Accounts, Trust, TrustedAccount};
use myelin_auth::{AuthConfig, Credentials};
use myelin_stdx::sync::{lock, read_lock, write_lock};
use myelin_subject::WeightedDestination;
use myelin_wire::error::CloseReason;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, RwLock, Weak};
use std::time::{Duration, SystemTime};

/// Where tokens of accounts are found.
pub trait Resolver: Send + Sync {
    /// The token of the account with this public key. May wait for another machine.
    ///
    /// # Errors
    /// Why there is none, in the reference's words.
    fn fetch(&self, key: &str) -> Result<String, String>;
}

/// Told of every account that got a token, the first or another one; of one that is gone without
/// any.
type Observer = Box<dyn Fn(&Arc<Account>, Option<&TrustedAccount>) + Send + Sync>;

/// Accounts that come into being with their tokens, and the tokens in force.
pub struct JwtAccounts {
    trust: Arc<Trust>,
    resolver: Arc<dyn Resolver>,
    entries: RwLock<BTreeMap<String, JwtEntry>>,
    /// Accounts that are no more, for as long as anybody holds them: one that comes back is the
    /// same.
    gone: Mutex<AbsentAccounts>,
    /// By account, mappings that it has where its token gives it no JetStream: sources and where
    /// their messages go.
    defaults: HashMap<String, Vec<(String, String)>>,
    /// By importer, when one of its activations begins or ends next.
    turns: Mutex<BTreeMap<String, SystemTime>>,
    /// Held while a token is read and put into force, so that of two the later wins everywhere.
    changing: Mutex<()>,
    observer: OnceLock<Observer>,
    sought: SoughtAccounts,
    next_id: AtomicU32,
}

/// Accounts without a token, by key, for as long as anybody holds them.
#[derive(Default)]
struct AbsentAccounts {
    held: BTreeMap<String, Weak<Account>>,
    /// Entries from which on those that nobody holds are looked for.
    prune_at: usize,
}

/// Entries for which that is not worth it.
const FEW_ABSENT: usize = 64;

impl AbsentAccounts {
    fn add(&mut self, key: &str, account: &Arc<Account>) {
        if self.held.len() >= self.prune_at.max(FEW_ABSENT) {
            self.held.retain(|_, account| account.strong_count() > 0);
            self.prune_at = self.held.len() * 2;
        }
        self.held.insert(key.to_owned(), Arc::downgrade(account));
    }
}

#[derive(Clone)]
struct JwtEntry {
    account: Arc<Account>,
    trusted: Arc<TrustedAccount>,
    updated: SystemTime,
}

/// Ids of accounts are given from here on, far from those of configured ones.
const FIRST_ID: u32 = 1 << 31;
/// An expired account is asked for again after this time at the earliest.
const ASK_AGAIN: Duration = Duration::from_secs(1);

impl JwtAccounts {
    /// No accounts yet.
    pub fn new(trust: Arc<Trust>, resolver: Arc<dyn Resolver>) -> Self {
        Self {
            trust,
            resolver,
            entries: RwLock::default(),
            gone: Mutex::default(),
            defaults: HashMap::new(),
            turns: Mutex::default(),
            changing: Mutex::default(),
            observer: OnceLock::new(),
            sought: SoughtAccounts::default(),
            next_id: AtomicU32::new(FIRST_ID),
        }
    }

    /// Has accounts without JetStream map what they publish, beside what their tokens say: sources
    /// and where their messages go, by account.
    #[must_use]
    pub fn with_default_mappings(self, defaults: HashMap<String, Vec<(String, String)>>) -> Self {
        Self { defaults, ..self }
    }

    /// Whom the server believes.
    pub fn trust(&self) -> &Arc<Trust> {
        &self.trust
    }

    /// Tells `observer` of every change from now on. There is one.
    pub fn observe(&self, observer: impl Fn(&Arc<Account>, Option<&TrustedAccount>) + Send + Sync + 'static) {
        let _ = self.observer.set(Box::new(observer));
    }

    /// Accounts whose tokens are to be found before anybody of them comes.
    pub fn sought(&self) -> &SoughtAccounts {
        &self.sought
    }

    /// Has the token of an account found soon, where it is not there: other servers have something
    /// of it. Nothing to do where nobody [seeks](SoughtAccounts::begin).
    pub fn seek(&self, key: &str) {
        if self.sought.has_begun() && self.entry(key).is_none() {
            self.sought.add(key);
        }
    }

    /// Account with this key as its token in force has it.
    pub fn get(&self, key: &str) -> Option<Arc<TrustedAccount>> {
        Some(self.entry(key)?.trusted)
    }

    /// When an account last got a token.
    pub fn updated(&self, key: &str) -> Option<SystemTime> {
        Some(self.entry(key)?.updated)
    }

    /// All public keys.
    pub fn keys(&self) -> Vec<String> {
        self.read().keys().cloned().collect()
    }

    pub(crate) fn account(&self, key: &str) -> Option<Arc<Account>> {
        Some(self.entry(key)?.account)
    }

    pub(crate) fn accounts(&self) -> Vec<Arc<Account>> {
        self.read().values().map(|entry| Arc::clone(&entry.account)).collect()
    }

    fn entry(&self, key: &str) -> Option<JwtEntry> {
        self.read().get(key).cloned()
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<String, JwtEntry>> {
        read_lock(&self.entries)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<String, JwtEntry>> {
        write_lock(&self.entries)
    }

    /// Puts a token into force. Nothing happens if it is already. `configured` is the account as
    /// the configuration knows it: the system account.
    fn put(
        &self,
        key: &str,
        trusted: TrustedAccount,
        (configured, cluster): (Option<Arc<Account>>, &Arc<Cluster>),
        now: SystemTime,
    ) -> JwtEntry {
        // Held to the end: whoever expects the account meanwhile gets this one.
        let mut gone = lock(&self.gone);
        let present = self.entry(key);
        let returning = || gone.held.remove(key)?.upgrade();
        let known = present.map(|entry| entry.account).or(configured).or_else(returning);
        let account = known.unwrap_or_else(|| {
            let id = self.next_id.fetch_add(1, Relaxed);
            Arc::new(Account::new(id, false, AccountConfig::named(key), cluster))
        });
        let entry = JwtEntry { account, trusted: Arc::new(trusted), updated: now };
        self.write().insert(key.to_owned(), entry.clone());
        entry
    }
}

impl JwtAccounts {
    /// An account whose token may come later. What another server says of it stays as long as
    /// somebody holds it, and is true when the token comes.
    pub(crate) fn expected(&self, key: &str, cluster: &Arc<Cluster>) -> Arc<Account> {
        let mut gone = lock(&self.gone);
        let known = self.account(key).or_else(|| gone.held.get(key)?.upgrade());
        known.unwrap_or_else(|| {
            let id = self.next_id.fetch_add(1, Relaxed);
            let account = Arc::new(Account::new(id, false, AccountConfig::named(key), cluster));
            gone.add(key, &account);
            account
        })
    }

    fn remove(&self, key: &str) -> Option<Arc<Account>> {
        let JwtEntry { account, .. } = self.write().remove(key)?;
        lock(&self.turns).remove(key);
        let mut gone = lock(&self.gone);
        gone.add(key, &account);
        Some(account)
    }
}

impl Broker {
    /// The account with this public key comes from its token: accounts are looked up here from now
    /// on. Once.
    pub fn trust(&self, accounts: JwtAccounts) {
        let _ = self.trusted.set(accounts);
    }

    /// Accounts that come from tokens, where operators are trusted.
    pub fn trusted(&self) -> Option<&JwtAccounts> {
        self.trusted.get()
    }

    /// Lets an account be there before its token can be had. It stands for itself only.
    pub fn put_provisional(&self, key: &str, issuer: &str, now: SystemTime) {
        let Some(trusted) = self.trusted() else { return };
        let _one = lock(&trusted.changing);
        let place = (self.configured_account(key), &self.cluster);
        trusted.put(key, TrustedAccount::provisional(key, issuer), place, now);
    }

    /// Takes another token of an account into force: its limits hold at once, and its connections
    /// are to be looked at ([`Session::refresh`](crate::Session::refresh)).
    ///
    /// # Errors
    /// When the token is worth nothing, or of another account.
    pub fn update_account(&self, key: &str, token: &str, now: SystemTime) -> Result<(), String> {
        let Some(trusted) = self.trusted() else { return Err("account resolver missing".to_owned()) };
        let one = lock(&trusted.changing);
        if trusted.get(key).is_some_and(|present| present.token() == token) {
            let line = format_args!("Requested account update for [{key}], same claims detected");
            self.log().write(Level::Debug, line);
            return Ok(());
        }
        let new = TrustedAccount::read(key, token, &trusted.trust, now).map_err(|fault| fault.to_string())?;
        let is_present = trusted.account(key).is_some();
        let name = new.claims().name.clone();
        self.log().write(Level::Debug, format_args!("Updating account claims: {key}/{name}"));
        let entry = trusted.put(key, new, (self.configured_account(key), &self.cluster), now);
        self.apply(&entry, now);
        if !is_present {
            entry.account.announced.reopen_for_gateways(key);
        }
        drop(one);
        self.find_exporters(&entry.trusted, now);
        Ok(())
    }

    /// Forgets an account. Nobody is let into it any more, and it imports nothing; who is there is
    /// to be looked at. What it exports stays with those who import it until they are given another
    /// token, as in the reference.
    pub fn remove_account(&self, key: &str) {
        let Some(trusted) = self.trusted() else { return };
        let _one = lock(&trusted.changing);
        let Some(account) = trusted.remove(key) else { return };
        account.unlink();
        account.announced.close_for_gateways(account.name());
        if let Some(observer) = trusted.observer.get() {
            observer(&account, None);
        }
    }

    /// Sees to it that those from whom an account imports are there. Their imports follow when
    /// their tokens come.
    fn find_exporters(&self, trusted: &TrustedAccount, now: SystemTime) {
        for import in &trusted.claims().nats.imports {
            if let Err(error) = self.resolve(&import.account, now) {
                let (account, subject) = (&import.account, &import.subject);
                let line =
                    format_args!("Can't locate account [{account}] for import of {subject} (err={error})");
                self.log().write(Level::Error, line);
            }
        }
    }

    /// Applies a token to its account, and to those whose imports from it need an activation.
    fn apply(&self, entry: &JwtEntry, now: SystemTime) {
        let limits = entry.trusted.limits();
        self.apply_token(entry, now);
        let depends = |other: &JwtEntry| {
            let mut imports = other.trusted.claims().nats.imports.iter();
            imports.any(|import| import.account == entry.trusted.key() && !import.token.is_empty())
        };
        let others: Vec<JwtEntry> = self.trusted().map_or_else(Vec::new, |trusted| {
            trusted.read().values().filter(|other| depends(other)).cloned().collect()
        });
        others.iter().for_each(|other| self.apply_token(other, now));
        if let Some(most) = limits.connections.map(|most| most as usize)
            && entry.account.connections() > most
        {
            self.close_newest(entry.account.name(), most);
        }
        if let Some(observer) = self.trusted().and_then(|trusted| trusted.observer.get()) {
            observer(&entry.account, Some(&entry.trusted));
        }
    }

    /// Puts what a token says of limits, exports, imports and mappings into force.
    fn apply_token(&self, entry: &JwtEntry, now: SystemTime) {
        let exporter = |key: &str| self.trusted().and_then(|trusted| trusted.get(key));
        let mut config = AccountConfig::of_claims(&entry.trusted, &|import| {
            let exporter = exporter(&import.account);
            exporter
                .is_some_and(|exporter| imports::is_activated(import, entry.trusted.key(), &exporter, now))
        });
        imports::furnish(&mut config, self.system_name().as_deref());
        let Some(trusted) = self.trusted() else { return };
        if let Some(defaults) = trusted.defaults.get(entry.trusted.key()) {
            self.add_defaults(&mut config, defaults, &entry.trusted);
        }
        self.configure_account(&entry.account, config);
        let key = entry.trusted.key();
        match imports::next_turn(&entry.trusted, now) {
            Some(turn) => drop(lock(&trusted.turns).insert(key.to_owned(), turn)),
            None => drop(lock(&trusted.turns).remove(key)),
        }
    }

    fn add_defaults(
        &self,
        config: &mut AccountConfig,
        defaults: &[(String, String)],
        token: &TrustedAccount,
    ) {
        if token.jetstream().is_some() || token.jetstream_tiers().is_some() {
            let name = token.key();
            let line = format_args!("Skipping Default Domain, set for JetStream enabled account {name:?}");
            return self.log().write(Level::Warn, line);
        }
        for (source, destination) in defaults {
            let (subject, cluster) = (destination.clone(), String::new());
            // The configuration has checked the domain, of which both are made.
            let mapped =
                config.mappings.insert(source, &[WeightedDestination { subject, weight: 100, cluster }]);
            debug_assert!(mapped.is_ok(), "{source} -> {destination}");
        }
    }

    /// Has imports begin and end whose activations have done so. To be called about once a second.
    pub fn refresh_activations(&self, now: SystemTime) {
        let Some(trusted) = self.trusted() else { return };
        if !lock(&trusted.turns).values().any(|&turn| turn <= now) {
            return;
        }
        let _one = lock(&trusted.changing);
        let due: Vec<String> = {
            let mut turns = lock(&trusted.turns);
            let due = turns.extract_if(.., |_, turn| *turn <= now);
            due.map(|(key, _)| key).collect()
        };
        let due = due.iter().filter_map(|key| trusted.entry(key));
        due.for_each(|entry| self.apply_token(&entry, now));
    }

    /// Notes how many connections of an account another server has. Of those that are too many on
    /// all servers together the newest end here, as far as other servers do not have to end theirs.
    pub fn count_elsewhere(&self, account: &Account, server: &str, count: ConnectionCount) {
        account.elsewhere.set(server, count);
        let limits = account.limits();
        let own = [account.connections(), account.leaf_nodes()];
        let most = [limits.max_connections, limits.max_leaf_nodes];
        let elsewhere = [account.elsewhere.clients(), account.elsewhere.leaf_nodes()];
        let is_full = |at: usize| most[at].is_some_and(|most| own[at] + elsewhere[at] > most);
        if !is_full(0) && !is_full(1) {
            return;
        }
        let before = account.elsewhere.before(&self.info().server_id);
        let room =
            |at: usize, taken: u32| most[at].map_or(usize::MAX, |most| most.saturating_sub(taken as usize));
        let (clients, leaf_nodes) = (room(0, before.clients), room(1, before.leaf_nodes));
        if own[0] > clients {
            self.close_newest(account.name(), clients);
        }
        account.close_newest_leaf_nodes(own[1].saturating_sub(leaf_nodes));
    }

    /// Forgets the connections of a server that has gone.
    pub fn forget_elsewhere(&self, server: &str) {
        for account in self.accounts() {
            account.elsewhere.set(server, ConnectionCount::default());
        }
    }

    /// Ends the connections of an account that are too many.
    pub(crate) fn close_newest(&self, account: &str, most: usize) {
        let mut conns = self.connections();
        // Who is about to leave takes nobody's place.
        conns.retain(|conn| conn.is_in_account(account) && conn.close_requested().is_none());
        conns.sort_by_key(|conn| conn.cid());
        conns.iter().skip(most).for_each(|conn| conn.close(CloseReason::MaximumAccountConnections));
    }

    /// Whether checking these credentials may wait for another machine: for the token of an account
    /// that is not in force here.
    pub(crate) fn may_wait_for_account(
        &self,
        rules: &AuthConfig,
        credentials: &Credentials,
        now: SystemTime,
    ) -> bool {
        let (Some(trust), Some(trusted)) = (rules.trust(), self.trusted()) else { return false };
        let is_asked = |key: String| trusted.get(&key).is_none_or(|account| account.is_expired(now));
        operator::named_accounts(trust, credentials).any(is_asked)
    }

    /// The token that is in force, or one that is asked for where there is none or it has expired.
    fn resolve(&self, key: &str, now: SystemTime) -> Result<Arc<TrustedAccount>, String> {
        let missing = || "account missing".to_owned();
        let trusted = self.trusted().ok_or_else(missing)?;
        let expired = match trusted.entry(key) {
            Some(entry) if !entry.trusted.is_expired(now) => return Ok(entry.trusted),
            Some(entry) => Some(entry),
            None => None,
        };
        if let Some(entry) = &expired {
            self.log().write(Level::Debug, format_args!("Requested account [{key}] has expired"));
            if now.duration_since(entry.updated).unwrap_or_default() < ASK_AGAIN {
                let line = format_args!("Requested account update for [{key}] ignored, too soon");
                self.log().write(Level::Debug, line);
                return Err("account expired".to_owned());
            }
        }
        let token = trusted.resolver.fetch(key);
        let updated = token.and_then(|token| self.update_account(key, &token, now));
        match (updated, expired) {
            (Ok(()), _) => trusted.get(key).ok_or_else(missing),
            (Err(_), Some(_)) => Err("account expired".to_owned()),
            (Err(error), None) => Err(error),
        }
    }
}

impl Accounts for Broker {
    fn account(&self, key: &str, now: SystemTime) -> Result<Arc<TrustedAccount>, String> {
        self.resolve(key, now)
    }

    fn is_configured(&self, name: &str) -> bool {
        self.configured_account(name).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_that_nobody_holds_are_forgotten() {
        let mut absent = AbsentAccounts::default();
        let cluster = Arc::<Cluster>::default();
        let account = |at: u32| Arc::new(Account::new(at, false, AccountConfig::named("A"), &cluster));
        let held: Vec<_> = (0..100).map(account).collect();
        held.iter().enumerate().for_each(|(at, account)| absent.add(&format!("held {at}"), account));
        for at in 0..10_000 {
            absent.add(&format!("forgotten {at}"), &account(at));
        }
        assert!(absent.held.len() <= 200, "{}", absent.held.len());
        let is_there =
            |at: usize| absent.held.get(&format!("held {at}")).is_some_and(|a| a.strong_count() > 0);
        assert!((0..100).all(is_there));
    }
}
