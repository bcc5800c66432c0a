//! The system account of a running server: its threads, from start to end.

use super::intake::RequestIntake;
use super::log::LogOffer;
use super::orders::Orders;
use super::peers::{PeerIntake, PeerNames};
use super::{Drops, Job, System};
use crate::logging::Logger;
use crate::monitoring::Monitor;
use crate::process;
use crate::resolver::Tokens;
use crate::shard::Mailbox;
use crate::supervise::{self, SupervisedPart};
use myelin_broker::Broker;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A running system account.
pub(crate) struct RunningSystem {
    system: Arc<System>,
    threads: Vec<JoinHandle<()>>,
    log: LogOffer,
}

/// Parts of the server that the system account needs.
pub(crate) struct SystemParts {
    pub(crate) broker: Arc<Broker>,
    pub(crate) monitor: Arc<Monitor>,
    pub(crate) log: Arc<Logger>,
    pub(crate) mailboxes: Vec<Mailbox>,
    pub(crate) orders: Orders,
    pub(crate) tokens: Option<Arc<Tokens>>,
}

impl RunningSystem {
    /// Answers and tells from now on; nothing without a system account.
    ///
    /// # Errors
    /// The operating system gives no threads.
    pub(crate) fn start(parts: SystemParts) -> std::io::Result<Option<Self>> {
        let SystemParts { broker, monitor, log, mailboxes, orders, tokens } = parts;
        let Some(account) = broker.system_account() else { return Ok(None) };
        let ((events, told), (pages, asked)) = (channel(), channel());
        let system = Arc::new(System {
            id: broker.info().server_id,
            account,
            monitor,
            log,
            mailboxes,
            orders,
            tokens,
            changed: Mutex::default(),
            events,
            pages,
            queued: AtomicUsize::new(0),
            guests: Mutex::default(),
            is_ending: AtomicBool::new(false),
            drops: Drops::default(),
            peers: PeerNames::of(&broker),
            broker,
        });
        let (teller, renderer) = (Arc::clone(&system), Arc::clone(&system));
        let threads = vec![
            supervise::thread(SupervisedPart::System, move || teller.run_events(&told))?,
            supervise::thread(SupervisedPart::SystemPages, move || {
                process::step_back();
                renderer.run_pages(&asked);
            })?,
        ];
        let waiting = Arc::downgrade(&system);
        let count = move || waiting.upgrade().map_or(0, |system| system.queued.load(Relaxed));
        system.monitor.watch_queue("System recvQ", Box::new(count));
        RequestIntake::open(&system);
        PeerIntake::open(&system);
        system.know_token_peers();
        system.broker.set_client_events(Arc::clone(&system) as Arc<dyn myelin_broker::ClientEvents>);
        let mut running = Self { system, threads, log: LogOffer::default() };
        running.offer_log();
        Ok(Some(running))
    }

    /// Answers who asks for the log's last lines while the dashboard is served.
    pub(crate) fn offer_log(&mut self) {
        self.log.switch(&self.system, self.system.monitor.has_dashboard());
    }

    /// Where findings about certificates go.
    pub(crate) fn system(&self) -> &Arc<System> {
        &self.system
    }

    /// Tells that the server enters lame duck mode.
    pub(crate) fn enter_lame_duck(&self) {
        let _ = self.system.events.send(Job::LameDuck);
    }

    /// Tells that the server ends, and ends. Shards must still run.
    pub(crate) fn stop(self) {
        self.system.is_ending.store(true, Relaxed);
        let _ = self.system.events.send(Job::Stop);
        let _ = self.system.pages.send(Job::Stop);
        for thread in self.threads {
            if thread.join().is_err() {
                self.system.log.error("a thread of the system account has ended in a panic");
            }
        }
    }
}
