//! Names of a row's work in a plan, and the workloads that they mean.
//!
//! Owns names, defaults and limits. Every key that a kind of work does not have is an error.

use myelin_loadgen::jetstream::consumers::pull::{Acks, How};
use myelin_loadgen::jetstream::fast::Flow;
use myelin_loadgen::jetstream::stream::LoadStorage;
use myelin_loadgen::jetstream::{self, StreamMode, WINDOW, consumers};
use myelin_loadgen::mqtt::Qos;
use myelin_loadgen::mqtt::messages::{Audience, MqttMessages};
use myelin_loadgen::mqtt::retained::MqttRetained;
use myelin_loadgen::mqtt::sessions::MqttSessions;
use myelin_loadgen::pubsub::request::RequestLoad;
use myelin_loadgen::pubsub::throughput::{ReceiverInterest, ThroughputLoad};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::rows::latency::{FromTo, Latency};
use crate::rows::mqtt::MqttLoad;
use crate::rows::row::Workload;
use crate::rows::subjects::SUBJECTS;

/// Messages that a batched get asks for, as `nats bench` does.
const GET_BATCH: u64 = 500;

/// The value of `work` and the settings that go with it.
#[derive(Debug, Deserialize)]
#[serde(tag = "work", rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub(crate) enum PlannedWork {
    /// Publish and subscribe without acknowledgements.
    Core {
        #[serde(default = "one")]
        publishers: usize,
        #[serde(default)]
        receivers: usize,
        /// Whether the receivers are one queue group.
        #[serde(default)]
        queue: bool,
        #[serde(default = "subjects")]
        subjects: usize,
        size: Size,
    },
    /// Clients with one request outstanding each, and services that echo.
    Request {
        #[serde(default = "one")]
        clients: usize,
        #[serde(default = "one")]
        services: usize,
        size: Size,
    },
    /// Publish into a stream.
    Publish {
        how: Publishing,
        #[serde(default = "thousand")]
        batch: usize,
        #[serde(default = "usual_flow")]
        flow: u64,
        #[serde(default = "usual_acks")]
        acks: u64,
        #[serde(default = "window")]
        window: usize,
        #[serde(default = "one")]
        clients: usize,
        #[serde(default = "one")]
        streams: usize,
        #[serde(default)]
        storage: WorkStorage,
        /// Whether the server syncs before it acknowledges.
        #[serde(default)]
        synced: bool,
        size: Size,
    },
    /// Get messages of a stream, one by one, or in batches.
    Get {
        #[serde(default)]
        batched: bool,
        #[serde(default = "one")]
        clients: usize,
        size: Size,
    },
    /// Read a stream with a consumer.
    Read {
        how: Reading,
        #[serde(default)]
        storage: WorkStorage,
        #[serde(default = "one")]
        clients: usize,
        /// Whether each message is acknowledged.
        #[serde(default)]
        acks: bool,
    },
    /// Publishers into a stream and as many ordered consumers, at once.
    Relay {
        #[serde(default = "one")]
        pairs: usize,
        #[serde(default)]
        storage: WorkStorage,
        #[serde(default)]
        synced: bool,
        size: Size,
    },
    /// Messages at planned times, and how long each takes.
    Latency {
        from_to: FromTo,
        /// Messages per second, all connections together.
        rate: u64,
        #[serde(default = "one")]
        connections: usize,
        #[serde(default)]
        storage: WorkStorage,
        #[serde(default)]
        synced: bool,
        size: Size,
    },
    /// 16 clients put random keys.
    KvPut {},
    /// 16 clients get random keys.
    KvGet {},
    /// A server that has just been started.
    Start {},
    /// Messages of MQTT.
    Mqtt {
        qos: u8,
        #[serde(default = "one")]
        publishers: usize,
        #[serde(default = "one")]
        subscribers: usize,
        /// Whether the messages are kept for a session whose client is not there.
        #[serde(default)]
        asleep: bool,
        #[serde(default = "mqtt_window")]
        window: usize,
        size: Size,
    },
    /// Sessions of MQTT that last.
    MqttSessions { sessions: usize, filters: usize },
    /// Retained messages of MQTT.
    MqttRetained { count: usize, size: Size },
    /// Idle connections that speak MQTT.
    MqttIdle {},
}

/// Bytes, as a number or with `K` or `M` behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(usize);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(usize),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(bytes) => Ok(Self(bytes)),
            Written::Text(text) => {
                let (digits, unit) = match text.strip_suffix(['K', 'M']) {
                    Some(digits) => (digits, if text.ends_with('K') { 1024 } else { 1024 * 1024 }),
                    None => (text.as_str(), 1),
                };
                let number: Option<usize> = digits.parse().ok();
                let bytes = number.and_then(|number| number.checked_mul(unit));
                bytes.map(Self).ok_or_else(|| D::Error::custom(format!("{text:?} is no size")))
            }
        }
    }
}

/// How messages get into a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Publishing {
    /// Each client waits for each acknowledgement.
    Sync,
    /// Acknowledgements come back while more is sent.
    Async,
    /// Atomic batches.
    Atomic,
    /// Fast-ingest batches.
    Fast,
}

/// How messages get out of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reading {
    /// An ordered consumer that is pushed to.
    Ordered,
    /// A durable pull consumer with pulls that overlap.
    Consume,
    /// A durable pull consumer with one batch after the other.
    Fetch,
    /// A durable push consumer, each message is acknowledged.
    Push,
}

/// Where messages are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WorkStorage {
    #[default]
    File,
    Memory,
    /// Written behind the acknowledgements.
    FileAsync,
}

impl From<WorkStorage> for LoadStorage {
    fn from(stored: WorkStorage) -> Self {
        match stored {
            WorkStorage::File => Self::File,
            WorkStorage::Memory => Self::Memory,
            WorkStorage::FileAsync => Self::FileAsync,
        }
    }
}

fn one() -> usize {
    1
}

fn thousand() -> usize {
    1000
}

fn subjects() -> usize {
    SUBJECTS
}

fn window() -> usize {
    WINDOW
}

fn mqtt_window() -> usize {
    100
}

fn usual_flow() -> u64 {
    Flow::DEFAULT.every
}

fn usual_acks() -> u64 {
    Flow::DEFAULT.acks
}

impl PlannedWork {
    /// The workload, or what is wrong with the settings.
    pub(crate) fn workload(self) -> Result<Workload, String> {
        Ok(match self {
            Self::Core { publishers, receivers, queue, subjects, size: Size(size) } => {
                at_least_one(&[publishers, subjects])?;
                let interest = if queue { ReceiverInterest::Queue } else { ReceiverInterest::Star };
                Workload::Throughput(ThroughputLoad { publishers, receivers, interest, subjects, size })
            }
            Self::Request { clients, services, size: Size(size) } => {
                at_least_one(&[clients, services])?;
                Workload::Requests(RequestLoad { clients, services, size, subjects: SUBJECTS })
            }
            Self::Publish { how, batch, flow, acks, window, clients, streams, storage, synced, size } => {
                let flow = Flow { every: flow, acks };
                let mode = match how {
                    Publishing::Sync => StreamMode::Publish { window: 1 },
                    Publishing::Async => StreamMode::Publish { window },
                    Publishing::Atomic => StreamMode::Atomic { batch },
                    Publishing::Fast => StreamMode::Fast { batch, flow },
                };
                streamed(mode, clients, streams, storage.into(), synced, size)?
            }
            Self::Get { batched, clients, size } => {
                let batch = StreamMode::GetBatch { batch: GET_BATCH };
                let mode = if batched { batch } else { StreamMode::Get { window: 1 } };
                streamed(mode, clients, 1, LoadStorage::File, false, size)?
            }
            Self::Read { how, storage, clients, acks } => {
                at_least_one(&[clients])?;
                let acks = if acks { Acks::Explicit } else { Acks::None };
                Workload::Consumers(match how {
                    Reading::Ordered => consumers::ConsumerLoad::Ordered(storage.into()),
                    Reading::Consume => consumers::ConsumerLoad::Pull { how: How::Consume, clients, acks },
                    Reading::Fetch => consumers::ConsumerLoad::Pull { how: How::Fetch, clients, acks },
                    Reading::Push => consumers::ConsumerLoad::Push,
                })
            }
            Self::Relay { pairs, storage, synced, size: Size(size) } => {
                at_least_one(&[pairs])?;
                let storage = storage.into();
                Workload::Consumers(consumers::ConsumerLoad::Together { pairs, storage, size, synced })
            }
            Self::Latency { from_to, rate, connections, storage, synced, size: Size(size) } => {
                at_least_one(&[connections, usize::try_from(rate).unwrap_or(usize::MAX)])?;
                let storage = storage.into();
                Workload::Latency(Latency { from_to, rate, connections, storage, synced, size })
            }
            Self::KvPut {} => Workload::Consumers(consumers::ConsumerLoad::KvPut),
            Self::KvGet {} => Workload::Consumers(consumers::ConsumerLoad::KvGet),
            Self::Start {} => Workload::Start,
            work => work.mqtt()?,
        })
    }
}

impl PlannedWork {
    /// The workload of a row about MQTT.
    fn mqtt(self) -> Result<Workload, String> {
        Ok(match self {
            Self::Mqtt { qos, publishers, subscribers, asleep, window, size: Size(size) } => {
                at_least_one(&[publishers, window])?;
                let qos = Qos::new(qos).ok_or("qos must be 0, 1 or 2")?;
                let audience = if asleep { Audience::Asleep } else { Audience::Awake(subscribers) };
                Workload::Mqtt(MqttLoad::Messages(MqttMessages { qos, publishers, audience, size, window }))
            }
            Self::MqttSessions { sessions, filters } => {
                at_least_one(&[sessions, filters])?;
                Workload::Mqtt(MqttLoad::Sessions(MqttSessions { count: sessions, filters }))
            }
            Self::MqttRetained { count, size: Size(size) } => {
                at_least_one(&[count])?;
                Workload::Mqtt(MqttLoad::Retained(MqttRetained { count, size }))
            }
            Self::MqttIdle {} => Workload::Mqtt(MqttLoad::Idle),
            other => return Err(format!("{other:?} is not about MQTT")),
        })
    }
}

fn streamed(
    mode: StreamMode,
    clients: usize,
    streams: usize,
    storage: LoadStorage,
    synced: bool,
    Size(size): Size,
) -> Result<Workload, String> {
    at_least_one(&[clients, streams])?;
    if !is_possible(mode) || streams > clients {
        return Err(
            "windows and acks must be at least 1, batches 2, flows 1 to 65535, streams at most as many as \
            clients"
                .into(),
        );
    }
    Ok(Workload::Streams(jetstream::StreamLoad {
        mode,
        storage,
        size,
        clients,
        streams,
        synced,
        replicas: 1,
    }))
}

/// Whether a server can be asked for it.
fn is_possible(mode: StreamMode) -> bool {
    match mode {
        StreamMode::Publish { window } | StreamMode::Get { window } => window > 0,
        StreamMode::Atomic { batch } => batch > 1,
        StreamMode::Fast { batch, flow } => batch > 1 && (1..=65_535).contains(&flow.every) && flow.acks > 0,
        StreamMode::GetBatch { .. } | StreamMode::Distinct => true,
    }
}

fn at_least_one(counts: &[usize]) -> Result<(), String> {
    if counts.contains(&0) { Err("numbers must be at least 1".into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(text: &str) -> Result<Workload, String> {
        let work: PlannedWork = toml::from_str(text).map_err(|error| error.to_string())?;
        work.workload()
    }

    #[test]
    fn settings_become_loads() {
        let Ok(Workload::Streams(load)) =
            work("work='publish'\nhow='fast'\nbatch=10\nstorage='memory'\nsize='4K'")
        else {
            panic!("no load of a stream");
        };
        let mode = StreamMode::Fast { batch: 10, flow: Flow::DEFAULT };
        assert_eq!((load.mode, load.storage, load.size), (mode, LoadStorage::Memory, 4096));
        let Ok(Workload::Throughput(load)) = work("work='core'\nreceivers=10\nqueue=true\nsize=0") else {
            panic!("no load of the core");
        };
        assert_eq!((load.receivers, load.interest), (10, ReceiverInterest::Queue));
    }

    #[test]
    fn the_impossible_is_refused() {
        for text in [
            "work='core'\nsize=1\npublishers=0",
            "work='publish'\nhow='fast'\nbatch=1\nsize=1",
            "work='publish'\nhow='sync'\nstreams=2\nsize=1",
            "work='request'\nservices=0\nsize=1",
            "work='latency'\nfrom-to='request'\nrate=0\nsize=1",
            "work='core'\nsize='1G'",
            "work='kv-get'\nsize=1",
            "work='mqtt'\nqos=3\nsize=1",
            "work='mqtt'\nqos=1\nwindow=0\nsize=1",
            "work='mqtt-sessions'\nsessions=0\nfilters=1",
        ] {
            assert!(work(text).is_err(), "{text}");
        }
    }
}
