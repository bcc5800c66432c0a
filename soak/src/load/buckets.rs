//! Key-value buckets: history, lifetimes of all keys and of single ones, deletes and purges,
//! watches that come and go.

use super::{Load, Loads, next};
use crate::Error;
use crate::world::World;
use async_nats::jetstream::{self, kv, stream::StorageType};
use bytes::Bytes;
use myelin_stdx::rng::Rng;
use std::sync::Arc;
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(250);
/// Keys that are written again and again.
const KEYS: u64 = 50;
/// Writes of one turn.
const WRITES: u64 = 20;
/// Turns between two watches.
const WATCH_TURNS: u64 = 12;
const LIFE: Duration = Duration::from_secs(1);

pub(super) async fn start(loads: &mut Loads) -> Result<(), Error> {
    let history = kv::Config { history: 5, ..config("kv-history") };
    let memory = kv::Config { history: 3, storage: StorageType::Memory, ..config("kv-memory") };
    let age = kv::Config { max_age: LIFE, ..config("kv-age") };
    let ttl = kv::Config { limit_markers: Some(LIFE), ..config("kv-ttl") };
    let kinds = [(history, Keys::Same), (memory, Keys::Same), (age, Keys::Different), (ttl, Keys::Mortal)];
    for (config, keys) in kinds {
        let name = config.bucket.clone();
        if loads.wants(&name) {
            let client = loads.world().client(&name).await?;
            let store = jetstream::new(client).create_key_value(config).await?;
            let (world, rng) = (Arc::clone(loads.world()), loads.world().rng(&name));
            loads.add(&name, EVERY, Bucket { world, store, keys, rng, turns: 0 });
        }
    }
    Ok(())
}

fn config(name: &str) -> kv::Config {
    kv::Config { bucket: name.into(), history: 1, max_bytes: 8 << 20, ..kv::Config::default() }
}

#[derive(Debug, Clone, Copy)]
enum Keys {
    /// A fixed set: written, deleted, purged.
    Same,
    /// Each is new, and goes by the bucket's age.
    Different,
    /// Each is new, and goes by its own lifetime, or by the lifetime of the marker that deleted it.
    Mortal,
}

struct Bucket {
    world: Arc<World>,
    store: kv::Store,
    keys: Keys,
    rng: Rng,
    turns: u64,
}

impl Bucket {
    async fn write(&mut self) -> Result<(), Error> {
        let value = Bytes::from_static(&[b'v'; 300]);
        match self.keys {
            Keys::Same => {
                let key = format!("k.{}", self.rng.below(KEYS));
                match self.rng.below(10) {
                    0 => self.store.delete(&key).await?,
                    1 => self.store.purge(&key).await?,
                    _ => drop(self.store.put(&key, value).await?),
                }
            }
            Keys::Different => drop(self.store.put(format!("d.{}", self.world.number()), value).await?),
            Keys::Mortal => {
                let key = format!("m.{}", self.world.number());
                match self.rng.below(3) {
                    0 => {
                        self.store.put(&key, value).await?;
                        self.store.purge_with_ttl(&key, LIFE).await?;
                    }
                    _ => drop(self.store.create_with_ttl(&key, value, LIFE).await?),
                }
            }
        }
        Ok(())
    }

    /// Watches, hears a little, and goes.
    async fn watch(&mut self) -> Result<(), Error> {
        let mut watch = self.store.watch_with_history(">").await?;
        self.write().await?;
        next(&mut watch).await??;
        Ok(())
    }
}

impl Load for Bucket {
    async fn turn(&mut self) -> Result<(), Error> {
        for _ in 0..WRITES {
            self.write().await?;
        }
        self.turns += 1;
        // What a watch leaves behind is gone after 30 s: few of them, as with ordered consumers.
        if self.turns.is_multiple_of(WATCH_TURNS) {
            self.watch().await?;
        }
        if matches!(self.keys, Keys::Same) {
            self.store.get(format!("k.{}", self.rng.below(KEYS))).await?;
        }
        Ok(())
    }
}
