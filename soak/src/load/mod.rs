//! Every kind of load, and the tasks that give each its turns.
//!
//! A load acts in short turns and leaves behind what a client would leave behind. Between turns it
//! may be made to rest: what a turn left to the server is gone some seconds later, and the tables
//! are as they were a round before.

mod batches;
mod buckets;
mod consumers;
mod copies;
mod dedupe;
mod limits;
mod objects;
mod pages;
mod raw;
mod reads;
mod reloads;
mod removals;
mod requests;
mod retention;
mod schedules;
mod secure;
mod slow;
mod streams;
mod visitors;

use crate::Error;
use crate::world::World;
use futures_util::{Stream, StreamExt as _};
use myelin_stdx::sync::lock;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// How long one turn may take at most; a healthy one takes milliseconds, few more than a second.
const LONGEST_TURN: Duration = Duration::from_secs(30);

/// How long what is there may take to come.
const COMING: Duration = Duration::from_secs(5);

/// One kind of load.
pub(crate) trait Load: Send + 'static {
    /// Acts once. Whatever is not as it should be is an error.
    fn turn(&mut self) -> impl Future<Output = Result<(), Error>> + Send;
}

/// How often a load had its turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Tally {
    pub(crate) name: String,
    pub(crate) done: u64,
    pub(crate) failed: u64,
    /// How the last one failed.
    pub(crate) last_error: Option<String>,
}

/// All that are running.
#[derive(Debug)]
pub(crate) struct Loads {
    world: Arc<World>,
    running: Vec<(Arc<Mutex<Tally>>, JoinHandle<()>)>,
}

impl Loads {
    /// Makes what each kind needs, and starts it.
    pub(crate) async fn start(world: &Arc<World>) -> Result<Self, Error> {
        let mut loads = Self { world: Arc::clone(world), running: Vec::new() };
        limits::start(&mut loads).await?;
        removals::start(&mut loads).await?;
        retention::start(&mut loads).await?;
        consumers::start(&mut loads).await?;
        buckets::start(&mut loads).await?;
        objects::start(&mut loads).await?;
        dedupe::start(&mut loads).await?;
        copies::start(&mut loads).await?;
        batches::start(&mut loads).await?;
        schedules::start(&mut loads).await?;
        streams::start(&mut loads).await?;
        visitors::start(&mut loads).await?;
        requests::start(&mut loads).await?;
        reloads::start(&mut loads).await?;
        secure::start(&mut loads).await?;
        reads::start(&mut loads).await?;
        pages::start(&mut loads).await?;
        slow::start(&mut loads).await?;
        match loads.running.is_empty() {
            true => Err("there is no load of this name".into()),
            false => Ok(loads),
        }
    }

    fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// Whether a load is to run.
    fn wants(&self, name: &str) -> bool {
        self.world.plan().only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }

    /// Gives `load` a turn so often, until the world ends.
    fn add(&mut self, name: &str, every: Duration, mut load: impl Load) {
        let tally = Arc::new(Mutex::new(Tally { name: name.to_owned(), ..Tally::default() }));
        let (world, kept) = (Arc::clone(&self.world), Arc::clone(&tally));
        let task = tokio::spawn(async move {
            let mut clock = interval(every);
            clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                clock.tick().await;
                let _pass = world.pass().await;
                if world.is_over() {
                    return;
                }
                let error = match timeout(LONGEST_TURN, load.turn()).await {
                    Ok(Ok(())) => None,
                    Ok(Err(e)) => Some(e.to_string()),
                    Err(_) => Some(format!("no end after {} s", LONGEST_TURN.as_secs())),
                };
                lock(&kept).count(error);
            }
        });
        self.running.push((tally, task));
    }

    /// How often each had its turn so far.
    pub(crate) fn tallies(&self) -> Vec<Tally> {
        let read = |tally: &Arc<Mutex<Tally>>| lock(tally).clone();
        self.running.iter().map(|(tally, _)| read(tally)).collect()
    }

    /// Ends them all.
    pub(crate) async fn end(self) -> Result<(), Error> {
        self.world.end();
        for (_, task) in self.running {
            task.await?;
        }
        Ok(())
    }
}

/// Next item of a subscription, which must come soon.
async fn next<T>(stream: &mut (impl Stream<Item = T> + Unpin)) -> Result<T, Error> {
    let came = timeout(COMING, stream.next()).await.map_err(|_| "nothing came")?;
    came.ok_or_else(|| "the connection ended".into())
}

impl Tally {
    fn count(&mut self, error: Option<String>) {
        match error {
            None => self.done += 1,
            Some(_) => {
                self.failed += 1;
                self.last_error = error;
            }
        }
    }
}
