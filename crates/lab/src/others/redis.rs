//! Redis: publish and subscribe for topics and queues, streams for logs.
//!
//! Commands are pipelined up to a limit. A stream is in memory: as its package comes, Redis writes
//! a snapshot now and then, which is turned off here because it would come at random.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use myelin_loadgen::connection::PATIENCE;
use myelin_loadgen::error::BenchError;
use redis::{Client, Connection, Pipeline, Value};

use crate::others::driver::{Broker, Place, Publisher, Sort, Subscriber};
use crate::servers::process::{Launch, Server, free_port};
use crate::servers::scratch::Scratch;

/// When pipelined commands are sent.
const COMMANDS: usize = 500;
const BYTES: usize = 256 * 1024;

/// Messages that a reader of a stream asks for.
const BATCH: usize = 500;

pub(super) fn start(program: &Path, scratch: &Scratch) -> Result<Server, BenchError> {
    let port = free_port()?;
    let room = scratch.room(&format!("redis-{port}"))?;
    let mut command = Command::new(program);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.arg("--dir").arg(room.path());
    let is_ready =
        |port| connect(port).is_ok_and(|mut connection| redis::cmd("PING").exec(&mut connection).is_ok());
    Server::run(Launch { command, port, room: Some(room), is_ready, patience: Duration::from_secs(10) })
}

fn connect(port: u16) -> Result<Connection, BenchError> {
    let client = Client::open(("127.0.0.1", port)).map_err(failed)?;
    let connection = client.get_connection().map_err(failed)?;
    connection.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    connection.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
    Ok(connection)
}

fn failed(error: redis::RedisError) -> BenchError {
    BenchError::Protocol(format!("redis: {error}"))
}

/// Running Redis server, by its port.
pub(super) struct Redis {
    port: u16,
}

impl Redis {
    pub(super) fn new(port: u16) -> Result<Self, BenchError> {
        Ok(Self { port })
    }
}

impl Broker for Redis {
    fn publisher(&self, place: &Place) -> Result<Box<dyn Publisher>, BenchError> {
        let connection = connect(self.port)?;
        Ok(Box::new(RedisSender { connection, place: place.clone(), waiting: redis::pipe(), bytes: 0 }))
    }

    fn subscriber(&self, place: &Place) -> Result<Box<dyn Subscriber>, BenchError> {
        let mut connection = connect(self.port)?;
        if place.sort == Sort::Log {
            return Ok(Box::new(Reader { connection, stream: place.name.clone(), last: "0".into() }));
        }
        let subscribe = redis::cmd("SUBSCRIBE").arg(&place.name).get_packed_command();
        connection.send_packed_command(&subscribe).map_err(failed)?;
        connection.recv_response().map_err(failed)?;
        Ok(Box::new(Listener { connection }))
    }
}

struct RedisSender {
    connection: Connection,
    place: Place,
    waiting: Pipeline,
    bytes: usize,
}

impl Publisher for RedisSender {
    fn publish(&mut self, payload: &[u8]) -> Result<(), BenchError> {
        match self.place.sort {
            Sort::Log => self.waiting.cmd("XADD").arg(&self.place.name).arg("*").arg("p").arg(payload),
            Sort::Topic | Sort::Queue => self.waiting.cmd("PUBLISH").arg(&self.place.name).arg(payload),
        }
        .ignore();
        self.bytes += payload.len();
        match self.waiting.len() >= COMMANDS || self.bytes >= BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), BenchError> {
        if !self.waiting.is_empty() {
            self.waiting.exec(&mut self.connection).map_err(failed)?;
            self.waiting.clear();
            self.bytes = 0;
        }
        Ok(())
    }
}

struct Listener {
    connection: Connection,
}

impl Subscriber for Listener {
    fn next(&mut self, take: &mut dyn FnMut(&[u8]) -> Result<(), BenchError>) -> Result<(), BenchError> {
        match self.connection.recv_response().map_err(failed)? {
            Value::Array(parts) => match parts.last() {
                Some(Value::BulkString(payload)) => take(payload),
                other => Err(BenchError::Protocol(format!("redis: a message without payload: {other:?}"))),
            },
            other => Err(BenchError::Protocol(format!("redis: not a message: {other:?}"))),
        }
    }
}

struct Reader {
    connection: Connection,
    stream: String,
    /// Id of the last message.
    last: String,
}

impl Subscriber for Reader {
    fn next(&mut self, take: &mut dyn FnMut(&[u8]) -> Result<(), BenchError>) -> Result<(), BenchError> {
        let mut read = redis::cmd("XREAD");
        read.arg("COUNT").arg(BATCH).arg("BLOCK").arg(PATIENCE.as_millis() as u64 / 2);
        read.arg("STREAMS").arg(&self.stream).arg(&self.last);
        /// Streams, each with entries of an id and pairs of field and value.
        type Answer = Option<Vec<(String, Vec<(String, (String, Vec<u8>))>)>>;
        let answer: Answer = read.query(&mut self.connection).map_err(failed)?;
        let streams = answer.ok_or_else(|| BenchError::Lost("redis: nothing more arrives".into()))?;
        for (id, (_, payload)) in streams.into_iter().flat_map(|(_, entries)| entries) {
            take(&payload)?;
            self.last = id;
        }
        Ok(())
    }
}
