//! Streams out of a store directory of nats-server, into a store of ours that nobody else has open.
//!
//! Each stream is taken as a whole or not at all: one that was not finished is removed by the next
//! import, or by the server's start. What is there already is left as it is, so that an import can
//! be repeated.

use super::backup_reader::{RestoreError, RestoreTarget, add_consumer};
use super::meta_inf;
use super::records::{BlockEnd, BlockReplay};
use super::stream_builder::{StreamBuilder, declare_whole};
use super::tar::first_of;
use myelin_jsapi::config::stored::Stored;
use myelin_jsapi::config::{self, AccountLimits, Limits, ServerLimits, Storage, StreamConfig};
use myelin_jsapi::consumer::config::{
    Action, CheckContext, ConsumerConfig, ConsumerConfigLimits, MatchedRequest, ServerConsumerLimits,
};
use myelin_natsfiles::directory::{NatsDirectory, StreamFiles};
use myelin_store::{Seq, Store, StoreReport, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// Result of the import of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Messages that it has now.
    pub messages: u64,
    /// Their bytes, as the reference counts them.
    pub bytes: u64,
    /// Consumers that it has now.
    pub consumers: usize,
    /// Parts that could not be taken, and why.
    pub left: Vec<String>,
}

/// Why a stream was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotImported {
    /// There is one of this name in the account.
    IsThere,
    /// Anything else.
    Failed(String),
}

impl fmt::Display for NotImported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IsThere => f.write_str("a stream of this name is there already"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl From<RestoreError> for NotImported {
    fn from(fault: RestoreError) -> Self {
        Self::Failed(fault.to_string())
    }
}

/// Importer of streams out of a store directory of nats-server.
pub struct Importer<'a> {
    from: &'a NatsDirectory,
    store: &'a Store,
    /// Streams that the store has, by account and name.
    known: BTreeSet<(String, String)>,
}

impl<'a> Importer<'a> {
    /// Into `store`, which `report` tells of. Removes what an import before this one has not
    /// finished; answers how many streams that were.
    ///
    /// # Errors
    /// One of them cannot be removed.
    pub fn new(
        from: &'a NatsDirectory,
        store: &'a Store,
        report: &StoreReport,
        now: Timestamp,
    ) -> Result<(Self, usize), String> {
        let mut known = BTreeSet::new();
        let mut removed = 0;
        for found in &report.streams {
            let (account, name) = (found.meta.account.clone(), found.meta.name.clone());
            match Stored::decode(&found.meta.config) {
                Ok(stored) if stored.unfinished => {
                    let storage_config = crate::stream::storage_config(&stored.config, false);
                    let opened = store.open_stream(found.id, storage_config, now);
                    opened
                        .and_then(|(mut stream, _)| store.delete_stream(&mut stream))
                        .map_err(|error| format!("{account} > {name} was left unfinished: {error}"))?;
                    removed += 1;
                }
                _ => {
                    known.insert((account, name));
                }
            }
        }
        Ok((Self { from, store, known }, removed))
    }

    /// Takes one stream. `told` hears of each block that was read, by its bytes.
    ///
    /// # Errors
    /// Nothing of it is there.
    pub fn import(
        &mut self,
        account: &str,
        name: &str,
        now: Timestamp,
        told: &mut dyn FnMut(u64),
    ) -> Result<Imported, NotImported> {
        let key = (account.to_owned(), name.to_owned());
        if self.known.contains(&key) {
            return Err(NotImported::IsThere);
        }
        let files =
            self.from.stream(account, name).map_err(|error| NotImported::Failed(error.to_string()))?;
        let (config, created) = read_config(&files)?;
        let mut target = StoreTarget {
            store: self.store,
            account,
            config,
            created: created.unwrap_or(now),
            now,
            consumers: BTreeMap::new(),
        };
        let mut taken = Imported::default();
        let mut builder = None;
        let built = take(&files, &mut target, &mut builder, &mut taken, told);
        match built {
            Ok(()) => {
                self.known.insert(key);
                Ok(taken)
            }
            Err(why) => {
                if let Some(builder) = builder {
                    // The next import removes it otherwise.
                    let _ = builder.abandon(self.store);
                }
                Err(why)
            }
        }
    }
}

fn read_config(files: &StreamFiles<'_>) -> Result<(StreamConfig, Option<Timestamp>), NotImported> {
    let (config, created) = meta_inf::stream(&files.meta).map_err(NotImported::Failed)?;
    if config.name != files.name {
        return Err(NotImported::Failed(format!("its description is one of {:?}", config.name)));
    }
    let config = alone(config).map_err(NotImported::Failed)?;
    Ok((config, created))
}

/// A configuration of another server, as one that has nobody beside it keeps it.
pub(super) fn alone(mut config: StreamConfig) -> Result<StreamConfig, String> {
    if config.storage == Storage::Memory {
        return Err("it was kept in memory".to_owned());
    }
    let limits = Limits {
        account: AccountLimits::default(),
        server: ServerLimits {
            max_memory: i64::MAX,
            max_storage: i64::MAX,
            memory_reserved: 0,
            storage_reserved: 0,
            duplicate_window: 0,
        },
        has_replicas: false,
    };
    let neighbours: BTreeMap<String, Arc<StreamConfig>> = BTreeMap::new();
    // A server alone keeps one copy.
    config.num_replicas = config.num_replicas.min(1);
    config::restore(&config, &neighbours, &limits).map_err(|error| error.to_string())
}

fn take(
    files: &StreamFiles<'_>,
    target: &mut StoreTarget<'_>,
    slot: &mut Option<StreamBuilder>,
    taken: &mut Imported,
    told: &mut dyn FnMut(u64),
) -> Result<(), NotImported> {
    let words = |error: myelin_natsfiles::directory::Unreadable| NotImported::Failed(error.to_string());
    let now = target.now;
    let blocks = files.blocks().map_err(words)?;
    let index = files.index().map_err(words)?;
    // An index is believed if its last record is the last one that is there.
    let mut replay = BlockReplay::default();
    let index = match (index, blocks.last()) {
        (Some(index), Some(last)) if *last == index.last_block => {
            let block = files.block(*last).map_err(words)?;
            let checksum = block.last_chunk::<8>().copied().unwrap_or_default();
            Some(index).filter(|index| index.checksum == checksum)
        }
        _ => None,
    };
    let mut first = index.as_ref().map(|index| index.first_seq.max(1));
    for number in blocks {
        let block = match files.block(number) {
            Ok(block) => block,
            Err(error) => {
                taken.left.push(format!("messages of a block: {error}"));
                continue;
            }
        };
        let begin = *first.get_or_insert_with(|| first_of(&block, &files.name, number));
        let builder = match slot {
            Some(builder) => builder,
            None => slot.insert(target.open(begin, 0)?),
        };
        let place = (files.name.as_str(), number);
        let read = replay.block(&block, place, index.as_ref(), builder, target, now)?;
        if let BlockEnd::Cut(bad) = read {
            taken.left.push(format!("the end of block {number}.blk: {bad}"));
        }
        told(block.len() as u64);
    }
    let builder = match slot {
        Some(builder) => builder,
        None => slot.insert(target.open(first.unwrap_or(1), 0)?),
    };
    take_consumers(files, target, builder, taken)?;
    let last = index.map_or(replay.last, |index| index.last_seq.max(replay.last));
    let Some(builder) = slot.take() else { return Ok(()) };
    let built = builder.finish(last, now).map_err(|(builder, why)| {
        *slot = Some(*builder);
        NotImported::Failed(why)
    })?;
    if let Err(why) = declare_whole(target.store, &built) {
        *slot = Some(*built.undo());
        return Err(NotImported::Failed(why));
    }
    let totals = built.stream.state().totals;
    (taken.messages, taken.bytes) = (totals.messages, totals.bytes);
    Ok(())
}

fn take_consumers(
    files: &StreamFiles<'_>,
    target: &mut StoreTarget<'_>,
    builder: &mut StreamBuilder,
    taken: &mut Imported,
) -> Result<(), NotImported> {
    for name in files.consumers().map_err(|error| NotImported::Failed(error.to_string()))? {
        let done = files.consumer(&name).map_err(|error| error.to_string()).and_then(|consumer| {
            let (config, created) = meta_inf::consumer(&consumer.meta)?;
            if config.direct {
                // The server's own, for a mirror: made anew by whoever needs it.
                return Ok(false);
            }
            let state = meta_inf::state(consumer.state)?;
            add_consumer(&name, config, state, created.unwrap_or(target.now), builder, target)
                .map(|()| true)
                .map_err(|fault| fault.to_string())
        });
        match done {
            Ok(is_taken) => taken.consumers += usize::from(is_taken),
            Err(why) => taken.left.push(format!("consumer {name:?}: {why}")),
        }
    }
    Ok(())
}

/// Where a stream goes.
struct StoreTarget<'a> {
    store: &'a Store,
    account: &'a str,
    config: StreamConfig,
    created: Timestamp,
    now: Timestamp,
    consumers: BTreeMap<String, Arc<ConsumerConfig>>,
}

impl RestoreTarget for StoreTarget<'_> {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn largest(&self) -> usize {
        usize::MAX
    }

    fn open(&mut self, first: Seq, _: u64) -> Result<StreamBuilder, RestoreError> {
        let config = self.config.clone();
        let begun =
            StreamBuilder::begin(self.store, self.account, config, self.created, first, false, self.now);
        begun.map_err(RestoreError::Other)
    }

    fn consumer(
        &mut self,
        stream: &StreamConfig,
        config: ConsumerConfig,
    ) -> Result<ConsumerConfig, RestoreError> {
        let limits = ConsumerConfigLimits {
            account: AccountLimits::default(),
            server: ServerConsumerLimits { default_max_consumers: 0, ..ServerConsumerLimits::default() },
        };
        let world =
            CheckContext { stream, consumers: &self.consumers, limits: &limits, has_interest: &|_| false };
        let name = config.name.clone();
        let config = ConsumerConfig { num_replicas: config.num_replicas.min(1), ..config };
        let wanted = MatchedRequest { config, action: Action::CreateOrUpdate, pedantic: false };
        let created = myelin_jsapi::consumer::config::create(wanted, &world, &mut || name.clone())?;
        let config = created.config().clone();
        self.consumers.insert(config.name.clone(), Arc::new(config.clone()));
        Ok(config)
    }

    fn admit(&mut self, _: u64) -> Result<(), RestoreError> {
        Ok(())
    }
}
