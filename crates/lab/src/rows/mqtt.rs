//! Rows about MQTT: messages of every QoS, sessions that last, retained messages, idle connections.
//!
//! Owns the servers' configurations and what is measured. Messages are measured on a server that
//! has been warmed up; the other loads on a server of their own for each round, because memory that
//! was used once may never be given back.

use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use myelin_loadgen::error::BenchError;
use myelin_loadgen::metric::Metric;
use myelin_loadgen::mqtt::client::{self, MqttClient};
use myelin_loadgen::mqtt::idle;
use myelin_loadgen::mqtt::messages::MqttMessages;
use myelin_loadgen::mqtt::retained::MqttRetained;
use myelin_loadgen::mqtt::sessions::MqttSessions;
use myelin_loadgen::pubsub::publisher::Until;
use rustix::process::Signal;

use crate::others;
use crate::round::Round;
use crate::servers::process::{Launch, Server, free_port};
use crate::servers::scratch::Scratch;
use crate::servers::system::{System, SystemKind};

/// How long a server with many sessions may take to start.
const PATIENCE: Duration = Duration::from_secs(120);

/// Load of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MqttLoad {
    Messages(MqttMessages),
    Sessions(MqttSessions),
    Retained(MqttRetained),
    /// Memory of connections.
    Idle,
}

impl fmt::Display for MqttLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Messages(load) => write!(f, "{load}"),
            Self::Sessions(load) => {
                write!(f, "{} sessions that last, {} filters of QoS 1 each", load.count, load.filters)
            }
            Self::Retained(load) => write!(f, "{} retained messages of {} B", load.count, load.size),
            Self::Idle => write!(f, "memory of idle connections that speak MQTT"),
        }
    }
}

impl MqttLoad {
    /// Whether every round has a server of its own.
    pub(crate) fn wants_fresh_server(self) -> bool {
        !matches!(self, Self::Messages(_))
    }

    /// Starts a server, whose address is that of its listener for MQTT.
    pub(crate) fn server(system: &System, scratch: &Scratch) -> Result<Server, BenchError> {
        if system.kind != SystemKind::Nats {
            return others::start(system, scratch);
        }
        let (port, mqtt) = (free_port()?, free_port()?);
        let room = scratch.room(&format!("server-{mqtt}"))?;
        let text = format!(
            "server_name: mqtt-{mqtt}\nlisten: \"127.0.0.1:{port}\"\nmqtt {{ listen: \"127.0.0.1:{mqtt}\" }}\n\
             jetstream {{ store_dir: {:?}, limits {{ default_max_consumers: -1 }} }}\n",
            room.path().join("streams").display()
        );
        std::fs::write(room.path().join("server.conf"), text)
            .map_err(BenchError::io("writing the server's configuration"))?;
        in_room(&system.program, room, mqtt)
    }

    /// Does the load once, on the running server or on one of its own.
    pub(crate) fn measure(
        self,
        system: &System,
        server: &Server,
        scratch: &Scratch,
        until: Until,
        connections: usize,
    ) -> Result<Round, BenchError> {
        match self {
            Self::Messages(load) => {
                let mut round = Round::of_mqtt(&load.run(server.address(), until, Some(server.meter()))?);
                let resident = server.meter().resident()? as f64 / f64::from(1 << 20);
                round.readings.push((Metric::LoadedMemory, resident));
                Ok(round)
            }
            Self::Sessions(load) => sessions(load, Self::server(system, scratch)?, system),
            Self::Retained(load) => retained(load, &Self::server(system, scratch)?),
            Self::Idle => {
                let server = Self::server(system, scratch)?;
                let bytes = idle::memory_per_connection(server.address(), server.meter(), connections)?;
                Ok(Round::without_cpu(vec![(Metric::ConnectionMemory, bytes)]))
            }
        }
    }
}

/// Starts a server by the configuration in a directory.
fn in_room(program: &Path, room: Scratch, port: u16) -> Result<Server, BenchError> {
    let mut command = Command::new(program);
    command.arg("-c").arg(room.path().join("server.conf"));
    Server::run(Launch { command, port, room: Some(room), is_ready: client::is_served, patience: PATIENCE })
}

/// Sessions are made; then the server ends and starts, and one of them is taken up.
fn sessions(load: MqttSessions, server: Server, system: &System) -> Result<Round, BenchError> {
    let before = server.meter().resident_at_rest()?;
    let made = load.make(server.address(), false, Some(server.meter()))?;
    let resident = server.meter().resident_at_rest()?.saturating_sub(before);
    let count = load.count as f64;
    let mut figures = vec![
        (Metric::SessionRate, Some(made.rate(load.count))),
        (Metric::SessionMemory, Some(resident as f64 / count)),
        (Metric::Cpu, made.cpu.map(|cpu| cpu.scheduled.as_secs_f64() * 1e6 / count)),
    ];
    drop(made.clients);
    if system.kind == SystemKind::Nats {
        let port = server.address().port;
        let room = server.stop(Signal::TERM)?;
        let start = Instant::now();
        let server = in_room(&system.program, room, port)?;
        let client = MqttClient::connect(server.address(), &MqttSessions::id(0), false)?;
        if !client.has_session() {
            return Err(BenchError::Lost("a session was not there after a restart".into()));
        }
        figures.push((Metric::RestartTime, Some(start.elapsed().as_secs_f64() * 1e3)));
    }
    Ok(Round::of(&figures, made.cpu))
}

/// Retained messages are published, and read by clients that come later: some, then all.
fn retained(load: MqttRetained, server: &Server) -> Result<Round, BenchError> {
    load.publish(server.address())?;
    let before = server.meter().resident_at_rest()?;
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let some = milliseconds(load.read_some(server.address())?);
    let all = milliseconds(load.read_all(server.address())?);
    let grown = server.meter().most_resident()?.saturating_sub(before) as f64 / f64::from(1 << 20);
    let readings = [(Metric::RetainedSome, some), (Metric::RetainedAll, all), (Metric::PeakMemory, grown)];
    let loaded = before as f64 / f64::from(1 << 20);
    Ok(Round::without_cpu([readings.as_slice(), &[(Metric::LoadedMemory, loaded)]].concat()))
}
