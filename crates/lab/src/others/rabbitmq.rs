//! RabbitMQ: a topic exchange for topics, transient queues for queues, durable queues with
//! persistent messages and publisher confirms for logs. Readers of a log acknowledge each message.
//!
//! The server runs from its package with everything in a directory of its own, and with an epmd of
//! its own, so that it neither needs nor disturbs another on the machine.

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use futures_util::StreamExt;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Consumer, PublisherConfirm,
};
use myelin_loadgen::connection::PATIENCE;
use myelin_loadgen::error::BenchError;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::others::driver::{Broker, Place, Publisher, Sort, Subscriber};
use crate::servers::process::{Launch, Server, free_port};
use crate::servers::scratch::Scratch;

/// The exchange that every RabbitMQ has, on which a topic is a routing key.
const EXCHANGE: &str = "amq.topic";

/// Messages that may be unconfirmed.
const CONFIRMS: usize = 1000;

/// Messages that a reader of a log may have unacknowledged.
const PREFETCH: u16 = 1000;

pub(super) fn start(program: &Path, scratch: &Scratch) -> Result<Server, BenchError> {
    let [port, distribution, names] = [free_port()?, free_port()?, free_port()?];
    let room = scratch.room(&format!("rabbitmq-{port}"))?;
    let place = |name: &str| room.path().join(name);
    let plugins = place("enabled_plugins");
    std::fs::write(&plugins, "[].\n").map_err(BenchError::io("writing the list of plugins"))?;
    // A shell, so that epmd is a child of the process that ends with this server.
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "epmd -address 127.0.0.1 -port \"$ERL_EPMD_PORT\" & \"$1\"", "sh"]).arg(program);
    command
        .env("ERL_EPMD_PORT", names.to_string())
        .env("ERL_EPMD_ADDRESS", "127.0.0.1")
        .env("HOME", room.path())
        .env("RABBITMQ_NODENAME", format!("bench{port}@localhost"))
        .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_NODE_PORT", port.to_string())
        .env("RABBITMQ_DIST_PORT", distribution.to_string())
        .env("RABBITMQ_MNESIA_BASE", place("data"))
        .env("RABBITMQ_LOG_BASE", place("log"))
        .env("RABBITMQ_PID_FILE", place("pid"))
        .env("RABBITMQ_CONF_ENV_FILE", "/dev/null")
        .env("RABBITMQ_CONFIG_FILE", place("none"))
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", plugins);
    let is_ready = |port| TcpStream::connect(("127.0.0.1", port)).is_ok() && RabbitMq::new(port).is_ok();
    Server::run(Launch { command, port, room: Some(room), is_ready, patience: Duration::from_secs(60) })
}

/// The version in the name of the directory of its libraries.
pub(super) fn version(program: &Path) -> Option<String> {
    let directory = program.parent()?.parent()?.join("lib");
    let names =
        std::fs::read_dir(directory).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let package = std::fs::canonicalize(program).ok()?.parent()?.parent()?.file_name()?.to_str()?.to_owned();
    names
        .chain([package])
        .find_map(|name| name.strip_prefix("rabbitmq_server-").map(|version| format!("RabbitMQ {version}")))
}

fn failed(error: lapin::Error) -> BenchError {
    BenchError::Protocol(format!("rabbitmq: {error}"))
}

/// Running RabbitMQ server, by its port, and the threads that its clients run on.
pub(super) struct RabbitMq {
    runtime: Runtime,
    port: u16,
}

impl RabbitMq {
    pub(super) fn new(port: u16) -> Result<Self, BenchError> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(BenchError::io("starting the client's threads"))?;
        let broker = Self { runtime, port };
        broker.channel()?;
        Ok(broker)
    }

    /// A channel on a connection of its own, which must live as long.
    fn channel(&self) -> Result<(Connection, Channel), BenchError> {
        let uri = format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port);
        self.runtime.block_on(async {
            let connection =
                Connection::connect(&uri, ConnectionProperties::default()).await.map_err(failed)?;
            let channel = connection.create_channel().await.map_err(failed)?;
            Ok((connection, channel))
        })
    }

    async fn declare(channel: &Channel, place: &Place) -> Result<(), BenchError> {
        let options = match place.sort {
            Sort::Log => QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() },
            Sort::Queue | Sort::Topic => QueueDeclareOptions::default(),
        };
        let name = place.name.as_str().into();
        channel.queue_declare(name, options, FieldTable::default()).await.map(drop).map_err(failed)
    }
}

impl Broker for RabbitMq {
    fn publisher(&self, place: &Place) -> Result<Box<dyn Publisher>, BenchError> {
        let (connection, channel) = self.channel()?;
        self.runtime.block_on(async {
            if place.sort != Sort::Topic {
                Self::declare(&channel, place).await?;
            }
            if place.sort == Sort::Log {
                channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(failed)?;
            }
            Ok::<_, BenchError>(())
        })?;
        let handle = self.runtime.handle().clone();
        Ok(Box::new(RabbitSender {
            handle,
            channel,
            place: place.clone(),
            confirms: Vec::new(),
            _connection: connection,
        }))
    }

    fn subscriber(&self, place: &Place) -> Result<Box<dyn Subscriber>, BenchError> {
        let (connection, channel) = self.channel()?;
        let is_log = place.sort == Sort::Log;
        let consumer = self.runtime.block_on(async {
            let queue = match place.sort {
                Sort::Queue | Sort::Log => {
                    Self::declare(&channel, place).await?;
                    place.name.clone()
                }
                Sort::Topic => {
                    let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
                    let queue = channel.queue_declare("".into(), options, FieldTable::default()).await;
                    let name = queue.map_err(failed)?.name().as_str().to_owned();
                    let (to, key) = (EXCHANGE.into(), place.name.as_str().into());
                    let options = QueueBindOptions::default();
                    channel
                        .queue_bind(name.as_str().into(), to, key, options, FieldTable::default())
                        .await
                        .map_err(failed)?;
                    name
                }
            };
            channel.basic_qos(PREFETCH, BasicQosOptions::default()).await.map_err(failed)?;
            let options = BasicConsumeOptions { no_ack: !is_log, ..BasicConsumeOptions::default() };
            let (queue, tag) = (queue.as_str().into(), "bench".into());
            channel.basic_consume(queue, tag, options, FieldTable::default()).await.map_err(failed)
        })?;
        let handle = self.runtime.handle().clone();
        Ok(Box::new(Receiver { handle, consumer, is_log, _channel: channel, _connection: connection }))
    }
}

struct RabbitSender {
    handle: Handle,
    channel: Channel,
    place: Place,
    confirms: Vec<PublisherConfirm>,
    _connection: Connection,
}

impl Publisher for RabbitSender {
    fn publish(&mut self, payload: &[u8]) -> Result<(), BenchError> {
        let exchange = if self.place.sort == Sort::Topic { EXCHANGE } else { "" };
        let is_log = self.place.sort == Sort::Log;
        // 2 is persistent.
        let properties = BasicProperties::default().with_delivery_mode(if is_log { 2 } else { 1 });
        let (exchange, key) = (exchange.into(), self.place.name.as_str().into());
        let publish =
            self.channel.basic_publish(exchange, key, BasicPublishOptions::default(), payload, properties);
        let confirm = self.handle.block_on(publish).map_err(failed)?;
        if is_log {
            self.confirms.push(confirm);
        }
        if self.confirms.len() >= CONFIRMS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), BenchError> {
        let confirms = std::mem::take(&mut self.confirms);
        self.handle.block_on(async {
            for confirm in confirms {
                match confirm.await.map_err(failed)? {
                    Confirmation::Ack(_) => {}
                    other => return Err(BenchError::Lost(format!("rabbitmq: not confirmed: {other:?}"))),
                }
            }
            Ok(())
        })
    }
}

struct Receiver {
    handle: Handle,
    consumer: Consumer,
    is_log: bool,
    _channel: Channel,
    _connection: Connection,
}

impl Subscriber for Receiver {
    fn next(&mut self, take: &mut dyn FnMut(&[u8]) -> Result<(), BenchError>) -> Result<(), BenchError> {
        let consumer = &mut self.consumer;
        let delivery = self.handle.block_on(async {
            let delivery = tokio::time::timeout(PATIENCE, consumer.next()).await;
            let lost = |_| BenchError::Lost("rabbitmq: nothing more arrives".into());
            delivery.map_err(lost)?.ok_or(BenchError::Closed)?.map_err(failed)
        })?;
        // Outside, for whoever takes it may publish, which blocks as well.
        take(&delivery.data)?;
        match self.is_log {
            true => self.handle.block_on(delivery.ack(BasicAckOptions::default())).map(drop).map_err(failed),
            false => Ok(()),
        }
    }
}
