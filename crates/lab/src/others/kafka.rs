//! Kafka: a topic with one partition for everything, one broker without replicas.
//!
//! The program is a directory with the jars of `org.apache.kafka:kafka_2.13` and what they need;
//! the server runs as broker and controller in one (KRaft). Messages are produced in batches, one
//! batch under way. Clients fetch as soon as there is a byte.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use myelin_loadgen::connection::PATIENCE;
use myelin_loadgen::error::BenchError;
use rskafka::chrono::DateTime;
use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::others::driver::{Broker, Place, Publisher, Subscriber};
use crate::servers::process::{Launch, Server, free_port};
use crate::servers::scratch::Scratch;

/// When a batch is full.
const MESSAGES: usize = 1000;
const BYTES: usize = 1 << 20;

/// The most that a reader fetches at a time.
const FETCH: i32 = 8 << 20;

const TIMEOUT: i32 = 5000;

pub(super) fn start(libraries: &Path, scratch: &Scratch) -> Result<Server, BenchError> {
    let [port, controller] = [free_port()?, free_port()?];
    let room = scratch.room(&format!("kafka-{port}"))?;
    let file = room.path().join("server.properties");
    let properties = format!(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n\
        listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
        advertised.listeners=PLAINTEXT://127.0.0.1:{port}\ncontroller.listener.names=CONTROLLER\n\
        listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\nlog.dirs={}\n\
        offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n\
        transaction.state.log.min.isr=1\nmessage.max.bytes=4194304\n",
        room.path().join("logs").display()
    );
    std::fs::write(&file, properties).map_err(BenchError::io("writing the server's configuration"))?;
    let java = |class: &str| {
        let mut command = Command::new("java");
        command.arg("-Xmx1G").arg("-cp").arg(libraries.join("*")).arg(class).current_dir(room.path());
        command
    };
    let mut format = java("kafka.tools.StorageTool");
    format.args(["format", "-t", "bXllbGluLWJlbmNoLTAwMA", "-c"]).arg(&file);
    let formatted =
        format.stdin(Stdio::null()).output().map_err(BenchError::io("formatting Kafka's storage"))?;
    if !formatted.status.success() {
        let why = String::from_utf8_lossy(&formatted.stderr).into_owned();
        return Err(BenchError::Process(format!("Kafka's storage cannot be formatted: {why}")));
    }
    let mut command = java("kafka.Kafka");
    command.arg(&file);
    let is_ready = |port| TcpStream::connect(("127.0.0.1", port)).is_ok() && Kafka::new(port).is_ok();
    Server::run(Launch { command, port, room: Some(room), is_ready, patience: Duration::from_secs(60) })
}

/// The version in the name of its jar.
pub(super) fn version(libraries: &Path) -> Option<String> {
    let names =
        std::fs::read_dir(libraries).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let version = |name: String| Some(name.strip_prefix("kafka_2.13-")?.strip_suffix(".jar")?.to_owned());
    names.into_iter().find_map(version).map(|version| format!("Kafka {version}"))
}

fn failed(error: rskafka::client::error::Error) -> BenchError {
    BenchError::Protocol(format!("kafka: {error}"))
}

/// Client of a running Kafka broker, and the threads that it runs on.
pub(super) struct Kafka {
    runtime: Runtime,
    client: Client,
}

impl Kafka {
    pub(super) fn new(port: u16) -> Result<Self, BenchError> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(BenchError::io("starting the client's threads"))?;
        let client = runtime.block_on(async {
            let building = ClientBuilder::new(vec![format!("127.0.0.1:{port}")]).build();
            let client = tokio::time::timeout(Duration::from_secs(2), building).await;
            let client = client.map_err(|_| BenchError::Closed)?.map_err(failed)?;
            // A controller must be there as well.
            let topics = tokio::time::timeout(Duration::from_secs(2), client.list_topics()).await;
            topics.map_err(|_| BenchError::Closed)?.map_err(failed)?;
            Ok::<_, BenchError>(client)
        })?;
        Ok(Self { runtime, client })
    }

    /// The partition of a topic, which is made if it is not there.
    fn partition(&self, place: &Place) -> Result<Arc<PartitionClient>, BenchError> {
        self.runtime.block_on(async {
            let topics = self.client.list_topics().await.map_err(failed)?;
            if !topics.iter().any(|topic| topic.name == place.name) {
                let controller = self.client.controller_client().map_err(failed)?;
                controller.create_topic(&place.name, 1, 1, TIMEOUT).await.map_err(failed)?;
            }
            let partition = self.client.partition_client(&place.name, 0, UnknownTopicHandling::Retry).await;
            partition.map(Arc::new).map_err(failed)
        })
    }
}

impl Broker for Kafka {
    fn publisher(&self, place: &Place) -> Result<Box<dyn Publisher>, BenchError> {
        let (partition, handle) = (self.partition(place)?, self.runtime.handle().clone());
        Ok(Box::new(KafkaSender { partition, handle, batch: Vec::new(), bytes: 0 }))
    }

    fn subscriber(&self, place: &Place) -> Result<Box<dyn Subscriber>, BenchError> {
        let (partition, handle) = (self.partition(place)?, self.runtime.handle().clone());
        Ok(Box::new(Reader { partition, handle, offset: 0 }))
    }
}

struct KafkaSender {
    partition: Arc<PartitionClient>,
    handle: Handle,
    batch: Vec<Record>,
    bytes: usize,
}

impl Publisher for KafkaSender {
    fn publish(&mut self, payload: &[u8]) -> Result<(), BenchError> {
        let value = Some(payload.to_vec());
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let (headers, timestamp) = (BTreeMap::new(), DateTime::UNIX_EPOCH + since);
        self.batch.push(Record { key: None, value, headers, timestamp });
        self.bytes += payload.len();
        if self.batch.len() >= MESSAGES || self.bytes >= BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), BenchError> {
        let batch = std::mem::take(&mut self.batch);
        self.bytes = 0;
        let produce = self.partition.produce(batch, Compression::NoCompression);
        self.handle.block_on(produce).map(drop).map_err(failed)
    }
}

struct Reader {
    partition: Arc<PartitionClient>,
    handle: Handle,
    offset: i64,
}

impl Subscriber for Reader {
    fn next(&mut self, take: &mut dyn FnMut(&[u8]) -> Result<(), BenchError>) -> Result<(), BenchError> {
        let wait = i32::try_from(PATIENCE.as_millis()).unwrap_or(i32::MAX);
        let fetch = self.partition.fetch_records(self.offset, 1..FETCH, wait);
        let (records, _) = self.handle.block_on(fetch).map_err(failed)?;
        if records.is_empty() {
            return Err(BenchError::Lost("kafka: nothing more arrives".into()));
        }
        for record in records {
            if record.offset >= self.offset {
                take(record.record.value.as_deref().unwrap_or_default())?;
                self.offset = record.offset + 1;
            }
        }
        Ok(())
    }
}
