//! Account resolvers: where tokens of accounts are found. In memory, behind a URL, or in a
//! directory.
//!
//! Owns the start of operator mode: who is trusted, what is preloaded, and the system account.

mod claims;
mod directory;
mod peers;
mod sought;
mod url;

use crate::logging::Logger;
use crate::supervise::{self, SupervisedPart};
use crate::{setup, zone};
use claims::Operator;
pub(crate) use claims::{Updated, update_known};
use directory::{TokenDirectory, TokenLimits};
use myelin_auth::jwt;
use myelin_auth::operator::{Accounts, Trust};
use myelin_broker::{Broker, JwtAccounts, Resolver};
use myelin_conf::options::{AccountResolver, DeleteMode, OperatorOptions, Options};
use myelin_stdx::nkey::Role;
use myelin_stdx::sync::lock;
pub(crate) use peers::TokenPeers;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant, SystemTime};
use tokio::runtime::Handle;
use url::UrlResolver;

/// How long a lookup may take before the log complains.
const SLOW: Duration = Duration::from_secs(1);
/// How often a system account that cannot be had is asked for again.
const BOOTSTRAP: Duration = Duration::from_secs(1);
/// How often it is looked whether an activation has begun or ended.
const ACTIVATIONS: Duration = Duration::from_millis(500);

/// Where tokens of accounts are found.
enum TokenSource {
    /// Nowhere.
    None,
    Memory(Mutex<HashMap<String, String>>),
    Url(UrlResolver),
    TokenDirectory(TokenDirectory),
}

/// The resolver that the options ask for.
pub(crate) struct Tokens {
    source: TokenSource,
    /// The first operator, who may say what is kept.
    operator: Option<Operator>,
    /// Whom the server believes.
    trust: Arc<Trust>,
    log: Arc<Logger>,
    peers: OnceLock<Weak<dyn TokenPeers>>,
    terms: PeerTerms,
}

/// Terms on which other servers are asked.
#[derive(Default)]
struct PeerTerms {
    timeout: Duration,
    /// How often it is compared with them what is kept here, where everything is.
    comparison: Option<Duration>,
}

impl PeerTerms {
    fn of(options: &Options) -> Self {
        match &options.resolver.resolver {
            Some(AccountResolver::Full(full)) => {
                Self { timeout: full.timeout, comparison: Some(full.interval) }
            }
            Some(AccountResolver::Cache(cache)) => Self { timeout: cache.timeout, comparison: None },
            _ => Self::default(),
        }
    }
}

impl Tokens {
    /// Opens what the options name, and puts the preloaded tokens into it.
    fn open(
        options: &Options,
        trust: &Arc<Trust>,
        control: &Handle,
        log: &Arc<Logger>,
    ) -> Result<Self, String> {
        let source = match &options.resolver.resolver {
            None => TokenSource::None,
            Some(AccountResolver::Memory) => TokenSource::Memory(Mutex::default()),
            Some(AccountResolver::Url(url)) => {
                TokenSource::Url(UrlResolver::new(url, options.resolver.tls.as_ref(), control.clone())?)
            }
            Some(AccountResolver::Full(full)) => TokenSource::TokenDirectory(TokenDirectory::open(
                &full.dir,
                TokenLimits { most: full.limit, evicts: false, ttl: None },
                full.deletes,
            )?),
            Some(AccountResolver::Cache(cache)) => TokenSource::TokenDirectory(TokenDirectory::open(
                &cache.dir,
                TokenLimits { most: Some(cache.limit), evicts: true, ttl: cache.ttl },
                DeleteMode::Removed,
            )?),
        };
        let operator = options.operators.list.first().map(Operator::of);
        let (peers, terms) = (OnceLock::new(), PeerTerms::of(options));
        let (trust, log) = (Arc::clone(trust), Arc::clone(log));
        let tokens = Self { source, operator, trust, log, peers, terms };
        tokens.preload(options)?;
        Ok(tokens)
    }

    fn preload(&self, options: &Options) -> Result<(), String> {
        let preload = &options.resolver.preload;
        match &self.source {
            TokenSource::Memory(tokens) => {
                *lock(tokens) = preload.iter().cloned().collect();
            }
            TokenSource::TokenDirectory(directory) => {
                for (key, token) in preload {
                    // Compat: what cannot be stored is not there.
                    if let Err(error) = directory.save_if_newer(key, token) {
                        self.log.debug(format_args!("Preloaded account [{key}] not stored: {error}"));
                    }
                }
            }
            TokenSource::Url(url) => drop(url.fetch("")?),
            TokenSource::None => {}
        }
        Ok(())
    }

    /// The token of an account.
    fn find(&self, key: &str) -> Result<String, String> {
        if !Role::Account.owns(key) {
            return Err("will only fetch valid account keys".to_owned());
        }
        match &self.source {
            TokenSource::None => Err("account resolver missing".to_owned()),
            TokenSource::Memory(tokens) => {
                let tokens = lock(tokens);
                tokens.get(key).cloned().ok_or_else(|| "account missing".to_owned())
            }
            TokenSource::Url(url) => url.fetch(key),
            TokenSource::TokenDirectory(directory) => {
                directory.load(key).or_else(|_| self.ask_peers(directory, key))
            }
        }
    }
}

impl Resolver for Tokens {
    fn fetch(&self, key: &str) -> Result<String, String> {
        let began = Instant::now();
        let found = self.find(key);
        let took = began.elapsed();
        if took > SLOW {
            self.log.warn(format_args!("Account [{key}] fetch took {took:?}"));
        } else {
            self.log.debug(format_args!("Account [{key}] fetch took {took:?}"));
        }
        found.inspect_err(|error| self.log.warn(format_args!("Account fetch failed: {error}")))
    }
}

/// Operator mode in a running server.
pub(crate) struct RunningResolver {
    tokens: Arc<Tokens>,
}

/// Lets the broker know accounts by their tokens, if the options trust any operator.
///
/// # Errors
/// The resolver cannot be used, or the system account is not to be had.
pub(crate) fn start(
    options: &Options,
    broker: &Arc<Broker>,
    control: &Handle,
    log: &Arc<Logger>,
) -> Result<Option<RunningResolver>, String> {
    let auth = broker.auth();
    let Some(trust) = auth.trust() else { return Ok(None) };
    let tokens = Arc::new(Tokens::open(options, trust, control, log)?);
    let resolver: Arc<dyn Resolver> = tokens.clone();
    let accounts = JwtAccounts::new(Arc::clone(trust), resolver);
    broker.trust(accounts.with_default_mappings(setup::default_domains(options)));
    greet(options, log);
    check_preloads(options, log);
    let running = RunningResolver { tokens };
    running.load_system_account(options, broker, control, log)?;
    running.announce(log);
    running.expire_files(control);
    refresh_activations(broker, control);
    let has_others = options.cluster.listener.port.is_some() || crate::gateway::name(options).is_some();
    if options.jetstream.enabled && has_others {
        sought::find_accounts(broker, control);
    }
    Ok(Some(running))
}

/// Has activations of imports begin and end in their second.
fn refresh_activations(broker: &Arc<Broker>, control: &Handle) {
    let broker = Arc::downgrade(broker);
    supervise::spawn_guarding_on(control, async move {
        supervise::persist(SupervisedPart::Activations, || refresh_forever(&broker)).await;
    });
}

async fn refresh_forever(broker: &Weak<Broker>) {
    loop {
        tokio::time::sleep(ACTIVATIONS).await;
        let Some(broker) = broker.upgrade() else { return };
        broker.refresh_activations(SystemTime::now());
    }
}

fn greet(options: &Options, log: &Logger) {
    let operators = &options.operators.list;
    if operators.is_empty() {
        return;
    }
    log.info("Trusted Operators");
    for operator in operators {
        log.info(format_args!("  System  : {:?}", operator.audience));
        log.info(format_args!("  Operator: {:?}", operator.name));
        log.info(format_args!("  Issued  : {}", moment(operator.issued_at)));
        match operator.expires {
            0 => log.info("  Expires : Never"),
            expires => log.info(format_args!("  Expires : {}", moment(expires))),
        }
    }
    if options.accounts.configured_system_account.is_none() {
        log.warn("Trusted Operators should utilize a System Account");
    }
}

/// A second of the epoch in the local zone, as Go prints times.
fn moment(second: i64) -> String {
    let Ok(time) = jiff::Timestamp::from_second(second) else { return second.to_string() };
    time.to_zoned(zone::local()).strftime("%Y-%m-%d %H:%M:%S %z %Z").to_string()
}

/// Says of preloaded tokens what is wrong with them.
fn check_preloads(options: &Options, log: &Logger) {
    if options.operators.list.is_empty() {
        return;
    }
    let now = jiff::Timestamp::now().as_second();
    for (key, token) in &options.resolver.preload {
        let Ok(claims) = jwt::account(token) else {
            log.error(format_args!("Preloaded account [{key}] not valid"));
            continue;
        };
        let issues = claims.issues(now);
        if issues.are_blocking() {
            log.warn(format_args!("Account [{key}] has validation issues:"));
            issues.iter().for_each(|issue| log.warn(format_args!("  - {}", issue.description)));
        }
    }
}

/// Asks for the token of the system account until it is there.
async fn fetch_system_account(tokens: &Arc<Tokens>, broker: &Arc<Broker>, key: &str) {
    loop {
        tokio::time::sleep(BOOTSTRAP).await;
        let (tokens, broker, key) = (Arc::clone(tokens), Arc::clone(broker), key.to_owned());
        let ask = move || {
            let now = SystemTime::now();
            tokens.find(&key).and_then(|token| broker.update_account(&key, &token, now)).is_ok()
        };
        if supervise::blocking(SupervisedPart::Bootstrap, ask).await == Some(true) {
            return;
        }
    }
}

/// Looks for files whose time is over, for ever.
async fn expire_files(tokens: &Arc<Tokens>, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        let tokens = Arc::clone(tokens);
        let look = move || {
            if let TokenSource::TokenDirectory(directory) = &tokens.source {
                directory.expire(SystemTime::now());
            }
        };
        // A look that fails is made again.
        supervise::blocking(SupervisedPart::TokenFiles, look).await;
    }
}

impl RunningResolver {
    /// Tokens, for requests of the system account.
    pub(crate) fn tokens(&self) -> &Arc<Tokens> {
        &self.tokens
    }

    /// The system account comes from its token. Where tokens come from elsewhere one that cannot be
    /// had is stood in for, so that it can be brought by the system account itself.
    fn load_system_account(
        &self,
        options: &Options,
        broker: &Arc<Broker>,
        control: &Handle,
        log: &Arc<Logger>,
    ) -> Result<(), String> {
        let Some(key) = &options.accounts.configured_system_account else { return Ok(()) };
        let now = SystemTime::now();
        let is_elsewhere = !matches!(self.tokens.source, TokenSource::Memory(_) | TokenSource::None);
        let operator = match &options.operators.list[..] {
            [operator] if is_elsewhere && key != "$SYS" => Some(operator),
            _ => None,
        };
        let Some(operator) = operator else {
            let is_configured = options.accounts.list.iter().any(|account| account.name == *key);
            if is_configured {
                return Ok(());
            }
            let found = Accounts::account(&**broker, key, now);
            return found.map(drop).map_err(|error| format!("error resolving system account: {error}"));
        };
        let found = self.tokens.find(key).and_then(|token| broker.update_account(key, &token, now));
        if found.is_err() {
            self.bootstrap(key, operator, broker, control, log);
        }
        Ok(())
    }

    fn bootstrap(
        &self,
        key: &str,
        operator: &OperatorOptions,
        broker: &Arc<Broker>,
        control: &Handle,
        log: &Arc<Logger>,
    ) {
        broker.put_provisional(key, &operator.issuer, SystemTime::now());
        log.info("Using bootstrapping system account");
        let (tokens, broker, log) = (Arc::clone(&self.tokens), Arc::clone(broker), Arc::clone(log));
        let key = key.to_owned();
        supervise::spawn_guarding_on(control, async move {
            supervise::persist(SupervisedPart::Bootstrap, || fetch_system_account(&tokens, &broker, &key))
                .await;
            log.info("System account fetched and updated");
        });
    }

    fn announce(&self, log: &Logger) {
        if let TokenSource::TokenDirectory(directory) = &self.tokens.source {
            let what = if directory.evicts() { "some" } else { "all" };
            let path = directory.path().display();
            log.info(format_args!("Managing {what} jwt in exclusive directory {path}"));
        }
    }

    /// Takes files away whose time is over.
    fn expire_files(&self, control: &Handle) {
        let TokenSource::TokenDirectory(directory) = &self.tokens.source else { return };
        let (interval, tokens) = (directory.sweep_interval(), Arc::clone(&self.tokens));
        supervise::spawn_guarding_on(control, async move {
            supervise::persist(SupervisedPart::TokenFiles, || expire_files(&tokens, interval)).await;
        });
    }

    /// Applies a reload: other tokens in memory, other files in the directory.
    pub(crate) fn reload(&self, options: &Options, broker: &Broker, log: &Logger) {
        let now = SystemTime::now();
        match &self.tokens.source {
            TokenSource::Memory(_) => {
                if let Err(error) = self.tokens.preload(options) {
                    log.error(error);
                }
                check_preloads(options, log);
                self.renew(options, broker, log, now);
            }
            TokenSource::TokenDirectory(directory) => {
                for key in directory.reload() {
                    let known = broker.trusted().is_some_and(|trusted| trusted.get(&key).is_some());
                    let Some(token) = directory.load(&key).ok().filter(|_| known) else { continue };
                    if let Err(error) = broker.update_account(&key, &token, now) {
                        let what = format_args!(
                            "DirResolver - Update for account {key:?} resulted in error {error}"
                        );
                        log.error(what);
                    }
                }
            }
            TokenSource::Url(_) | TokenSource::None => {}
        }
    }

    /// Every account that is known gets the token that is in memory now; without one it is no more.
    /// Those go first: nobody must find one that is about to go.
    fn renew(&self, options: &Options, broker: &Broker, log: &Logger, now: SystemTime) {
        let Some(trusted) = broker.trusted() else { return };
        let system = options.accounts.configured_system_account.as_deref();
        let remove = |key: &str, why: &str| {
            if system != Some(key) {
                log.info(format_args!("Reloaded: deleting account [{why}]: {key:?}"));
                broker.remove_account(key);
            }
        };
        let (found, gone): (Vec<_>, Vec<_>) = trusted
            .keys()
            .into_iter()
            .map(|key| (self.tokens.find(&key), key))
            .partition(|(token, _)| token.is_ok());
        gone.iter().for_each(|(_, key)| remove(key, "removed"));
        for (token, key) in found {
            if token.and_then(|token| broker.update_account(&key, &token, now)).is_err() {
                remove(&key, "bad claims");
            }
        }
    }
}
