//! Accounts that are needed here before anybody of them comes: the others of a cluster that shares
//! JetStream have clients of them, or streams of theirs are to be here.

use crate::supervise::{self, SupervisedPart};
use myelin_auth::operator::Accounts;
use myelin_broker::Broker;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;

/// When an account is sought again that was not found, at first and at last.
const RETRIES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(300)];
/// Accounts that are asked for at once: each may wait for other servers.
const AT_ONCE: usize = 8;
/// Accounts that are sought again at most: others are when they are named again.
const MOST_MISSED: usize = 16 * 1024;

/// An account that was not found.
struct Missed {
    due: Instant,
    pause: Duration,
}

/// Finds them from now on.
pub(super) fn find_accounts(broker: &Arc<Broker>, control: &Handle) {
    let Some(trusted) = broker.trusted() else { return };
    let wake = Arc::new(Notify::new());
    let waker = Arc::clone(&wake);
    trusted.sought().begin(move || waker.notify_one());
    let broker = Arc::downgrade(broker);
    supervise::spawn_guarding_on(control, async move {
        supervise::persist(SupervisedPart::SoughtAccounts, || find_for_ever(&broker, &wake)).await;
    });
}

async fn find_for_ever(broker: &Weak<Broker>, wake: &Notify) {
    let mut missed = BTreeMap::<String, Missed>::new();
    loop {
        let due = missed.values().map(|missed| missed.due).min();
        tokio::select! {
            () = wake.notified() => {}
            () = sleep_until(due) => {}
        }
        let Some(broker) = broker.upgrade() else { return };
        let now = Instant::now();
        let named = broker.trusted().map(|trusted| trusted.sought().take()).unwrap_or_default();
        let again = missed.iter().filter(|(_, missed)| missed.due <= now).map(|(key, _)| key.clone());
        let keys: Vec<String> = named.into_iter().chain(again).collect();
        for some in keys.chunks(AT_ONCE) {
            find(&broker, some, &mut missed).await;
        }
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Asks for some accounts at once, and notes those that cannot be had now.
async fn find(broker: &Arc<Broker>, keys: &[String], missed: &mut BTreeMap<String, Missed>) {
    let asked = keys.iter().map(|key| {
        let (broker, key) = (Arc::clone(broker), key.clone());
        // Why not is in the log already.
        let ask = move || Accounts::account(&*broker, &key, SystemTime::now()).is_ok();
        supervise::blocking_on(&Handle::current(), SupervisedPart::SoughtAccounts, ask)
    });
    let asked: Vec<_> = asked.collect();
    for (key, found) in keys.iter().zip(asked) {
        if found.await.ok().flatten() == Some(true) {
            missed.remove(key);
            continue;
        }
        let pause = missed.get(key).map_or(RETRIES[0], |before| (before.pause * 2).min(RETRIES[1]));
        if missed.len() < MOST_MISSED || missed.contains_key(key) {
            missed.insert(key.clone(), Missed { due: Instant::now() + pause, pause });
        }
    }
}
