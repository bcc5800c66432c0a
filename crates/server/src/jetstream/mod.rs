//! JetStream's threads, and what it needs from outside: time, the disk, the shards.
//!
//! Nine threads, none of which delivers a message: *disk* runs the journal's rounds, *upkeep* runs
//! the store's jobs, *api* answers requests, *sync* makes durable what they change, which *api*
//! does not wait for, *reads* gets what is not in memory, *backups* makes and takes in backups,
//! *alarms* knows when something is due, *due* works on it where that may wait, and *marks* states
//! how far the streams have come. What they have for clients they post to a shard.
//!
//! Whether there is JetStream is `Current`: a reload that switches it off leaves its store open
//! and at rest.

mod alarms;
mod capacity;
mod disk;
mod formation;
mod host;
mod on_demand;
mod settings;
mod spare_memory;

use crate::logging::Logger;
use crate::monitoring::Count;
use crate::shard::Mailbox;
use host::Threads;
use myelin_auth::operator::Accounts;
use myelin_broker::Broker;
use myelin_conf::options::Options;
use myelin_disk::real::RealDisk;
use myelin_jetstream::{AccountStreams, JetStream};
use myelin_natsfiles::directory::NatsDirectory;
use myelin_natsfiles::keys::Keys;
use myelin_stdx::entropy::OsEntropy;
use myelin_stdx::nkey::Role;
use myelin_stdx::sync::{read_lock, write_lock};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

/// A server that ends waits at most so long for others to lead what it leads.
const HAND_OVER: Duration = Duration::from_secs(2);

pub(crate) use capacity::{Capacity, directory, is_beside, prepare};
pub(crate) use host::now;
pub(crate) use settings::{account_limits, limits_of_claims};

/// A running JetStream.
pub(crate) struct RunningJetStream {
    jetstream: Arc<JetStream>,
    threads: Arc<Threads>,
    handles: Vec<JoinHandle<()>>,
    directory: PathBuf,
    /// A reload has switched it off: no account may use it, and its store stays open.
    rests: bool,
}

/// The JetStream that accounts may use, for whoever asks at any time: a reload switches it on and
/// off.
#[derive(Default)]
pub(crate) struct Current(RwLock<Option<Arc<JetStream>>>);

impl Current {
    /// JetStream as it is now, if it is on.
    pub(crate) fn get(&self) -> Option<Arc<JetStream>> {
        read_lock(&self.0).clone()
    }

    /// Does something with it, and what is [set](Self::set) afterwards waits until that is done.
    pub(crate) fn inspect(&self, act: impl FnOnce(&Arc<JetStream>)) {
        if let Some(jetstream) = &*read_lock(&self.0) {
            act(jetstream);
        }
    }

    pub(crate) fn set(&self, jetstream: Option<&Arc<JetStream>>) {
        *write_lock(&self.0) = jetstream.cloned();
    }
}

impl RunningJetStream {
    /// Opens the store in its directory, which must be [prepared](prepare), brings its streams back
    /// and starts the threads.
    ///
    /// # Errors
    /// The store cannot be used, or is open in another process; or the configured accounts are
    /// promised more than the server has.
    pub(crate) fn start(
        options: &Options,
        capacity: Capacity,
        broker: &Arc<Broker>,
        mailboxes: Vec<Mailbox>,
        log: &Arc<Logger>,
    ) -> Result<Self, String> {
        let settings = settings::settings(options, capacity, &broker.info());
        settings::check_promises(options, &settings.limits)
            .map_err(|error| format!("Error enabling jetstream on configured accounts: {error}"))?;
        let store = settings::store(options)?;
        let (threads, queues) = Threads::new(broker, mailboxes, log, settings.request_queue_limit);
        threads.set_placement(&options.jetstream);
        let entropy = Arc::new(OsEntropy);
        let disk = Arc::new(RealDisk);
        let host = Arc::clone(&threads);
        let jetstream =
            JetStream::open(settings, disk, store, entropy, host).map_err(|error| error.to_string())?;
        let handles =
            queues.start(&jetstream, log).map_err(|error| format!("cannot start a thread: {error}"))?;
        let directory = directory(&options.jetstream);
        let running = Self { jetstream, threads, handles, directory, rests: false };
        running.recall_accounts(broker);
        running.set_accounts(options, broker);
        running.jetstream.scrub_weekly();
        running.log_foreign_files(&running.directory, log);
        Ok(running)
    }

    /// Says what nats-server has left in the directory: nobody touches it, and nobody serves it.
    fn log_foreign_files(&self, root: &Path, log: &Logger) {
        let found =
            NatsDirectory::open(Arc::new(RealDisk), root, Keys::default()).and_then(|all| all.streams());
        let is_ours = |(account, stream): &(String, String)| {
            self.jetstream.account(account).is_some_and(|account| account.stream(stream).is_some())
        };
        // What cannot be read is nobody's store.
        let others = found.unwrap_or_default().iter().filter(|stream| !is_ours(stream)).count();
        if others > 0 {
            let root = root.display();
            let into = root.to_string();
            let into = into.strip_suffix("/jetstream").unwrap_or(&into);
            log.warn(format_args!(
                "{others} streams of nats-server in \"{root}\" are not served, and stay as they are: \
                 stop this server and run `myelin store import {root} --into {into}` to take them over"
            ));
        }
    }

    /// Lets accounts use JetStream as the options say: at the start, and after each reload.
    /// Compat: one that is promised more than there is keeps what it has, and the log says so.
    fn set_accounts(&self, options: &Options, broker: &Broker) {
        for account in broker.accounts() {
            let claims = broker.trusted().and_then(|trusted| trusted.get(account.name()));
            let limits = match &claims {
                Some(claims) => limits_of_claims(claims),
                None => account_limits(options, account.name()),
            };
            let _ = self.jetstream.enable(&account, limits);
        }
        self.jetstream.enable_refused();
    }

    /// Lets accounts use JetStream as the options say, and takes it from accounts that are gone.
    /// Called once more when all that changes is heard, so that what changed in between is not
    /// missed.
    pub(crate) fn sync_accounts(&self, options: &Options, broker: &Broker) {
        self.set_accounts(options, broker);
        let there = broker.accounts();
        for account in self.jetstream.accounts() {
            let name = account.account().name();
            if !there.iter().any(|account| account.name() == name) {
                self.jetstream.disable(name);
            }
        }
    }

    /// Whether these options want another store, which takes a restart.
    pub(crate) fn requires_restart(&self, options: &Options) -> bool {
        options.jetstream.enabled && directory(&options.jetstream) != self.directory
    }

    /// Takes JetStream away from all accounts. What they have stays, and goes on where it was when
    /// they may use it again.
    pub(crate) fn suspend(&mut self, log: &Logger) {
        if std::mem::replace(&mut self.rests, true) {
            return;
        }
        log.info("Initiating JetStream Shutdown...");
        // In a cluster others go on. This server follows, and has all when it is to serve again.
        self.hand_over();
        self.jetstream.announce_shutdown();
        for account in self.jetstream.accounts() {
            self.jetstream.disable(account.account().name());
        }
        log.info("JetStream Shutdown");
    }

    /// Lets accounts use it again, with what these options allow. Says whether it rested.
    pub(crate) fn resume(&mut self, options: &Options, broker: &Broker) -> bool {
        if self.rests {
            self.jetstream.lead_again();
        }
        self.set_limits(options);
        self.set_accounts(options, broker);
        self.forget_accounts(broker);
        std::mem::take(&mut self.rests)
    }

    /// Lets go of accounts that are gone and have no streams here. Compat: those that have some go
    /// on with them until the next start.
    fn forget_accounts(&self, broker: &Broker) {
        let there: Vec<_> = broker.accounts();
        let there: BTreeSet<&str> = there.iter().map(|account| account.name()).collect();
        let accounts = self.jetstream.accounts();
        let is_gone = |account: &&Arc<AccountStreams>| !there.contains(account.account().name());
        let gone: Vec<String> = accounts
            .iter()
            .filter(|account| is_gone(account) && account.has_no_streams())
            .map(|account| account.account().name().to_owned())
            .collect();
        drop(accounts);
        gone.iter().for_each(|name| self.jetstream.disable(name));
    }

    /// Asks for the tokens of accounts that have streams in the store: who mirrors and who listens
    /// to them must not wait until somebody of the account comes.
    fn recall_accounts(&self, broker: &Broker) {
        let now = SystemTime::now();
        for key in self.jetstream.unopened() {
            if broker.trusted().is_some() && Role::Account.owns(&key) {
                // Why not is in the log already; the streams stay where they are.
                let _ = Accounts::account(broker, &key, now);
            }
        }
    }

    /// Limits of the server, after a reload. Where nothing is said of the room, it stays what it
    /// was at the start.
    fn set_limits(&self, options: &Options) {
        let now = self.jetstream.limits();
        let capacity = Capacity {
            memory: options.jetstream.max_memory_store.unwrap_or(now.max_memory),
            disk: options.jetstream.max_file_store.unwrap_or(now.max_store),
        };
        self.jetstream.set_limits(settings::server_limits(&options.jetstream, capacity));
    }

    /// JetStream, for monitoring.
    pub(crate) fn jetstream(&self) -> &Arc<JetStream> {
        &self.jetstream
    }

    /// Counts what waits for its threads, by the name of the queue.
    pub(crate) fn queues(&self) -> Vec<(&'static str, Count)> {
        self.threads.queues()
    }

    /// The server is about to end, and its clients are still there: others lead before that.
    pub(crate) fn hand_over(&self) {
        self.jetstream.hand_over(HAND_OVER);
    }

    /// The server is about to end, and its shards still run.
    pub(crate) fn announce_shutdown(&self) {
        self.jetstream.announce_shutdown();
    }

    /// Ends the threads and makes everything durable. The shards must have ended: nothing comes in
    /// any more.
    pub(crate) fn stop(self, log: &Logger) {
        let tell = |what: &str| {
            if !self.rests {
                log.info(what);
            }
        };
        tell("Initiating JetStream Shutdown...");
        self.threads.stop();
        self.jetstream.wake_watermarks();
        for handle in self.handles {
            if handle.join().is_err() {
                log.error("a thread of JetStream has ended in a panic");
            }
        }
        if self.threads.end_on_demand().is_err() {
            log.error("a thread of JetStream has ended in a panic");
        }
        if let Err(error) = self.jetstream.close() {
            log.error(format_args!("JetStream could not write everything: {error}"));
        }
        tell("JetStream Shutdown");
    }
}
