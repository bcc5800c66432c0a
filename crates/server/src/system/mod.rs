//! The system account: what it is asked, and what it is told.
//!
//! Owns the bindings on `$SYS.>` and two threads. *system* tells events and answers what takes no
//! time; *sys-pages* renders what takes longer, and steps back when shards have work. Both post
//! what they have to say to a shard. On shards only two things happen: a request is copied into a
//! queue, and before an event is even noted it is looked whether anybody listens.
//!
//! Nothing here is known to anybody outside of the system account, but for what `broker` lets every
//! account import.
//!
//! `broker` tells its `ClientEvents` which clients come and go; `monitor::request` makes pages of
//! messages; what every account may ask is an import that `broker/src/imports/system.rs` adds to
//! its configuration.

mod accounts;
mod claims;
mod control;
mod counts;
mod envelope;
mod events;
mod gather;
mod gatherings;
mod intake;
mod limited_accounts;
mod log;
mod orders;
mod peers;
mod publisher;
mod request;
mod requests;
mod running;
mod schedule;
mod tokens;
mod user;

use crate::logging::Logger;
use crate::monitoring::Monitor;
use crate::ocsp::OcspFinding;
use crate::resolver::Tokens;
use crate::shard::Mailbox;
use crate::supervise::{self, SupervisedPart};
use events::ClosedClient;
use gatherings::Gathering;
use jiff::Timestamp;
use myelin_broker::{Account, Broker, Conn};
use myelin_stdx::sync::lock;
use orders::Orders;
use peers::{PeerMessage, PeerNames};
use request::SystemRequest;
use schedule::EventSchedule;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(crate) use orders::Reloaded;
pub(crate) use running::{RunningSystem, SystemParts};

/// Requests and events that wait, at most: more are dropped.
const QUEUED: usize = 16_384;
/// Of these, requests of other accounts: their number must not keep the system account's own
/// waiting.
const GUESTS: usize = 1024;
/// Of these, requests of one account.
const GUESTS_OF_ONE: usize = 64;
/// Bytes of one of these, headers included: options are short.
const GUEST_SIZE: usize = 16 * 1024;
/// How long the end of the server waits for its own announcement.
const FAREWELL: Duration = Duration::from_secs(1);

/// Requests of other accounts that wait.
#[derive(Default)]
struct Guests {
    all: usize,
    by_account: HashMap<String, usize>,
}

impl Guests {
    /// Takes a place; false where there is none.
    fn enter(&mut self, account: &str) -> bool {
        if self.all >= GUESTS || self.by_account.get(account).is_some_and(|&own| own >= GUESTS_OF_ONE) {
            return false;
        }
        self.all += 1;
        *self.by_account.entry(account.to_owned()).or_default() += 1;
        true
    }

    /// Gives a place back.
    fn leave(&mut self, account: &str) {
        self.all = self.all.saturating_sub(1);
        if let Some(own) = self.by_account.get_mut(account) {
            *own -= 1;
            if *own == 0 {
                self.by_account.remove(account);
            }
        }
    }
}

/// Work for one of the threads.
enum Job {
    SystemRequest(SystemRequest),
    Connected(String, Arc<Conn>),
    Disconnected(String, Box<ClosedClient>),
    AuthFailed(Arc<Account>, String, Box<ClosedClient>),
    Count,
    /// A leaf node has joined an account, of this name.
    LeafNode(String, String),
    /// Something that another server says.
    Peer(PeerMessage),
    /// Other servers are to be asked how many connections of an account they have.
    AskCounts(String),
    Gather(Gathering),
    Ocsp(String, OcspFinding),
    /// The server enters lame duck mode.
    LameDuck,
    /// The server ends: say so, then end as well.
    Stop,
}

/// System account: answers its requests and publishes its events.
pub(crate) struct System {
    broker: Arc<Broker>,
    monitor: Arc<Monitor>,
    log: Arc<Logger>,
    account: Arc<Account>,
    id: String,
    mailboxes: Vec<Mailbox>,
    orders: Orders,
    /// Where tokens of accounts are kept, in operator mode.
    tokens: Option<Arc<Tokens>>,
    /// Accounts whose connections have changed since it was told.
    changed: Mutex<BTreeSet<String>>,
    events: Sender<Job>,
    pages: Sender<Job>,
    queued: AtomicUsize,
    guests: Mutex<Guests>,
    /// The server ends: what waits is not answered any more.
    is_ending: AtomicBool,
    drops: Drops,
    peers: PeerNames,
}

/// Messages that were dropped since that was last said.
#[derive(Default)]
struct Drops {
    count: AtomicU64,
    /// The second when it was said.
    told: AtomicI64,
}

impl System {
    /// Whether anybody in the system account listens.
    fn is_heard(&self, subject: &str) -> bool {
        self.account.is_heard(subject.as_bytes())
    }

    /// Puts work before the thread that tells events.
    fn note(&self, job: Job) {
        self.post(&self.events, job);
    }

    /// Puts a request before a thread.
    fn ask(&self, to: &Sender<Job>, ask: SystemRequest) {
        if let Some(account) = &ask.guest {
            let is_large = ask.headers.len() + ask.body.len() > GUEST_SIZE;
            if is_large || !lock(&self.guests).enter(account) {
                return self.drop_one();
            }
        }
        self.post(to, Job::SystemRequest(ask));
    }

    fn post(&self, to: &Sender<Job>, job: Job) {
        let is_too_much = self.queued.fetch_add(1, Relaxed) >= QUEUED;
        if is_too_much {
            self.taken(&job);
            self.drop_one();
        } else if let Err(SendError(job)) = to.send(job) {
            self.taken(&job);
        }
    }

    /// Counts what waits no longer.
    fn taken(&self, job: &Job) {
        match job {
            Job::Stop | Job::LameDuck => return,
            Job::SystemRequest(SystemRequest { guest: Some(account), .. }) => {
                lock(&self.guests).leave(account)
            }
            _ => {}
        }
        self.queued.fetch_sub(1, Relaxed);
    }

    /// Says that something was dropped, once a second at most.
    #[cold]
    fn drop_one(&self) {
        self.drops.count.fetch_add(1, Relaxed);
        let now = Timestamp::now().as_second();
        if self.drops.told.swap(now, Relaxed) != now {
            let all = self.drops.count.swap(0, Relaxed);
            self.log.warn(format_args!("System account queue limit reached, dropping {all} messages"));
        }
    }

    /// Notes an account whose connections have changed; true if nobody is on the way to tell of
    /// any.
    fn mark_changed(&self, account: &str) -> bool {
        let mut changed = lock(&self.changed);
        let is_first = changed.is_empty();
        changed.insert(account.to_owned());
        is_first
    }

    fn take_changed(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.changed)).into_iter().collect()
    }

    /// The thread that tells events.
    fn run_events(&self, jobs: &Receiver<Job>) {
        let mut pace = EventSchedule::new(Instant::now());
        loop {
            let job = match jobs.recv_timeout(pace.left(Instant::now())) {
                Ok(job) => job,
                Err(RecvTimeoutError::Timeout) => {
                    supervise::guard(SupervisedPart::System, || {
                        self.publish_periodic(&mut pace, Instant::now())
                    });
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let is_last = matches!(job, Job::Stop);
            self.taken(&job);
            if matches!(job, Job::SystemRequest(_)) && self.is_ending.load(Relaxed) {
                continue;
            }
            supervise::guard(SupervisedPart::System, || {
                self.work(job, &mut pace);
                if !is_last {
                    self.publish_periodic(&mut pace, Instant::now());
                }
            });
            if is_last {
                return;
            }
        }
    }

    /// The thread that renders pages.
    fn run_pages(&self, jobs: &Receiver<Job>) {
        // What other accounts ask waits until nothing of the operator's does.
        let mut guests: VecDeque<Job> = VecDeque::new();
        loop {
            let next = if guests.is_empty() { jobs.recv().ok() } else { jobs.try_recv().ok() };
            if self.is_ending.load(Relaxed) {
                return;
            }
            match next {
                Some(Job::SystemRequest(ask)) if ask.guest.is_some() => {
                    guests.push_back(Job::SystemRequest(ask))
                }
                Some(job @ Job::SystemRequest(_)) => self.answer_one(&job),
                Some(_) => return,
                None => match guests.pop_front() {
                    Some(job) => self.answer_one(&job),
                    None => return,
                },
            }
        }
    }

    fn answer_one(&self, job: &Job) {
        self.taken(job);
        if let Job::SystemRequest(ask) = job {
            supervise::guard(SupervisedPart::SystemPages, || self.answer(ask));
        }
    }

    fn work(&self, job: Job, pace: &mut EventSchedule) {
        match job {
            Job::SystemRequest(ask) if ask.is_statsz() => self.answer_statsz(&ask, pace),
            Job::SystemRequest(ask) => self.answer(&ask),
            Job::Connected(subject, conn) => self.publish_connect(&subject, &conn),
            Job::Disconnected(subject, departed) => {
                self.publish_disconnect(&self.account, &subject, &departed)
            }
            Job::AuthFailed(account, subject, departed) => {
                self.publish_disconnect(&account, &subject, &departed)
            }
            Job::Count => pace.changes_wait = true,
            Job::LeafNode(subject, name) => {
                self.publish_event(&self.account, &subject, &self.about_account(&name))
            }
            Job::Peer(message) => self.hear_peer(&message, pace),
            Job::AskCounts(account) => self.ask_counts(&account),
            Job::Gather(gathering) => self.gather(gathering, pace),
            Job::Ocsp(subject, finding) => self.publish_ocsp(&subject, finding),
            Job::LameDuck => self.publish_server_event("LAMEDUCK"),
            Job::Stop => self.announce_shutdown(),
        }
    }

    fn announce_shutdown(&self) {
        self.publish_server_event("SHUTDOWN");
        self.wait_until_published(FAREWELL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_account_takes_the_places_of_others() {
        let mut guests = Guests::default();
        let taken = (0..GUESTS).filter(|_| guests.enter("A")).count();
        assert_eq!(taken, GUESTS_OF_ONE);
        assert!(guests.enter("B"), "B is not kept out by A");
        guests.leave("A");
        assert!(guests.enter("A") && !guests.enter("A"));
        (0..GUESTS_OF_ONE).for_each(|_| guests.leave("A"));
        guests.leave("B");
        assert!(guests.by_account.is_empty() && guests.all == 0);
        let all = (0..GUESTS).filter(|account| guests.enter(&account.to_string())).count();
        assert!(all == GUESTS && !guests.enter("one more"));
    }
}
