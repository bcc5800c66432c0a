//! What all shards share: accounts, the rules of authentication, who is connected, counters.

use crate::account::{Account, AccountLimits};
use crate::conn::{Commons, Conn, Endpoint, Sink, lock};
use crate::ended::{ClosedConn, PastTraffic};
use crate::log::{Level, Log};
use crate::registry::Registry;
use crate::settings::Settings;
use crate::traffic::{Counters, RouteCounts, Traffic};
use myelin_auth::AuthConfig;
use myelin_stdx::mem::Accountant;
use myelin_wire::info::Info;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};

/// Where accounts live that nobody configured.
pub(crate) const GLOBAL_ACCOUNT: &str = "$G";

/// See the head of this file.
pub struct Broker {
    settings: Settings,
    auth: Arc<AuthConfig>,
    accounts: HashMap<String, Arc<Account>>,
    info: RwLock<Info>,
    pub(crate) registry: Registry,
    commons: Arc<Commons>,
    counters: Counters,
    shards: Mutex<Vec<Arc<Traffic>>>,
    next_cid: AtomicU64,
    lame_duck: AtomicBool,
    log: Arc<dyn Log>,
}

/// Why a broker cannot be built.
#[derive(Debug, PartialEq, Eq)]
pub enum SetupError {
    /// Two accounts share a name.
    DuplicateAccount(String),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateAccount(name) => write!(f, "account {name:?} is defined twice"),
        }
    }
}

impl std::error::Error for SetupError {}

impl Broker {
    /// A broker with the given accounts beside the global one, which always exists.
    ///
    /// # Errors
    /// When two accounts share a name.
    pub fn new(
        settings: Settings,
        auth: AuthConfig,
        accounts: &[(String, AccountLimits)],
        system_account: Option<&str>,
        info: Info,
        log: Arc<dyn Log>,
    ) -> Result<Arc<Self>, SetupError> {
        let mut map = HashMap::new();
        let named = accounts.iter().map(|(name, limits)| (name.as_str(), *limits));
        let global = (GLOBAL_ACCOUNT, AccountLimits::default());
        let wanted: Vec<_> =
            named.clone().chain([global]).chain(system_account.map(|n| (n, global.1))).collect();
        for (name, limits) in wanted {
            let id = map.len() as u32;
            let account = Account::new(id, name, system_account == Some(name), limits);
            map.entry(name.to_owned()).or_insert_with(|| Arc::new(account));
        }
        for (i, (name, _)) in accounts.iter().enumerate() {
            if accounts[..i].iter().any(|(other, _)| other == name) {
                return Err(SetupError::DuplicateAccount(name.clone()));
            }
        }
        Ok(Arc::new(Self {
            settings,
            auth: Arc::new(auth),
            accounts: map,
            info: RwLock::new(info),
            registry: Registry::default(),
            commons: Arc::default(),
            counters: Counters::default(),
            shards: Mutex::default(),
            next_cid: AtomicU64::new(1),
            lame_duck: AtomicBool::new(false),
            log,
        }))
    }

    /// The limits and timings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The rules of authentication.
    pub fn auth(&self) -> &Arc<AuthConfig> {
        &self.auth
    }

    /// An account by name.
    pub fn account(&self, name: &str) -> Option<&Arc<Account>> {
        self.accounts.get(name)
    }

    /// All accounts, in no order.
    pub fn accounts(&self) -> impl Iterator<Item = &Arc<Account>> {
        self.accounts.values()
    }

    /// What INFO says to everybody. Fields about one connection are empty.
    pub fn info(&self) -> Info {
        self.info.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Changes what INFO says from now on.
    pub fn update_info(&self, update: impl FnOnce(&mut Info)) {
        update(&mut self.info.write().unwrap_or_else(std::sync::PoisonError::into_inner));
    }

    /// Enters lame duck mode: INFO says so from now on.
    pub fn enter_lame_duck(&self) {
        self.lame_duck.store(true, Relaxed);
        self.update_info(|info| info.ldm = true);
    }

    /// Makes the shared half of a new connection.
    pub fn connect(&self, endpoint: Endpoint, sink: Box<dyn Sink>) -> Arc<Conn> {
        let cid = self.next_cid.fetch_add(1, Relaxed);
        Conn::new(cid, endpoint, sink, &self.commons)
    }

    /// Living connections.
    pub fn connections(&self) -> Vec<Arc<Conn>> {
        self.registry.open()
    }

    /// Living connections, and what the ended ones of each account have moved: nothing is counted in both. An
    /// account may come several times.
    pub fn census(&self) -> (Vec<Arc<Conn>>, Vec<(String, PastTraffic)>) {
        self.registry.census()
    }

    /// Ended connections that are still remembered, oldest first.
    pub fn closed_connections(&self) -> Vec<Arc<ClosedConn>> {
        self.registry.closed()
    }

    /// Connections now, and since the start.
    pub fn connection_counts(&self) -> (usize, u64) {
        self.registry.counts()
    }

    /// Rare events.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Messages and bytes in, then out, over all shards.
    pub fn traffic(&self) -> [u64; 4] {
        let mut sum = [0; 4];
        for shard in lock(&self.shards).iter() {
            let counts = [&shard.in_msgs, &shard.in_bytes, &shard.out_msgs, &shard.out_bytes];
            for (sum, count) in sum.iter_mut().zip(counts) {
                *sum += count.get();
            }
        }
        sum
    }

    /// How the route caches of all shards do together.
    pub fn route_counts(&self) -> RouteCounts {
        let mut sum = RouteCounts::default();
        lock(&self.shards).iter().for_each(|shard| sum.join(shard.routes.get()));
        sum
    }

    /// What the data path holds in memory at the moment.
    pub fn memory(&self) -> &Accountant {
        &self.commons.memory
    }

    pub(crate) fn add_shard(&self) -> Arc<Traffic> {
        let traffic = Arc::new(Traffic::default());
        lock(&self.shards).push(Arc::clone(&traffic));
        traffic
    }

    /// Where lines go.
    pub fn log(&self) -> &dyn Log {
        &*self.log
    }

    /// A line about one connection, in the reference's form.
    pub fn log_for(&self, level: Level, conn: &Conn, line: fmt::Arguments<'_>) {
        if self.log.enabled(level) {
            self.log.write(level, format_args!("{} - cid:{} - {line}", conn.endpoint().peer, conn.cid()));
        }
    }

    pub(crate) fn info_for(&self, conn: &Conn, line: fmt::Arguments<'_>) {
        self.log_for(Level::Info, conn, line);
    }
}
