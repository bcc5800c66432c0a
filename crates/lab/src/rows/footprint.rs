//! Cost of a server at rest: memory per subscription and per idle connection, and its start.
//!
//! Each measurement starts a fresh server, because memory that was used once may never be given
//! back.

use std::path::Path;
use std::time::{Duration, Instant};

use myelin_loadgen::connection::Connection;
use myelin_loadgen::connection::address::Address;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::meter::Meter;
use myelin_loadgen::pubsub::receiver;

use crate::servers::process::Server;

/// Connections that share the subscriptions.
const SUBSCRIBERS: usize = 10;

/// How many of a connection's subscriptions are tried afterwards.
const PROBES: usize = 1000;

/// Resident bytes per subscription, with `count` subscriptions on different literal subjects.
pub(crate) fn per_subscription(binary: &Path, count: usize) -> Result<f64, BenchError> {
    let server = Server::start(binary)?;
    let mut connections = open(server.address(), SUBSCRIBERS)?;
    let before = server.meter().resident_at_rest()?;
    for (first, connection) in connections.iter_mut().enumerate() {
        let mine: Vec<usize> = (first..count).step_by(SUBSCRIBERS).collect();
        for some in mine.chunks(2000) {
            let lines: String = some.iter().map(|&n| format!("SUB {} {}\r\n", subject(n), n + 1)).collect();
            connection.send(lines.as_bytes())?;
        }
        connection.barrier()?;
    }
    let after = server.meter().resident_at_rest()?;
    let first = connections.swap_remove(0);
    probe(server.address(), first, count)?;
    Ok(after.saturating_sub(before) as f64 / count as f64)
}

fn subject(number: usize) -> String {
    format!("orders.{}.{}", number % 1000, number / 1000)
}

/// Publishes to subscriptions of one connection and expects every message.
fn probe(address: &Address, subscriber: Connection, count: usize) -> Result<(), BenchError> {
    let probes = PROBES.min(count / SUBSCRIBERS);
    let step = count / SUBSCRIBERS / probes * SUBSCRIBERS;
    let lines = (0..probes).map(|n| format!("PUB {} 2\r\nhi\r\n", subject(n * step)));
    let mut publisher = Connection::open(address)?;
    publisher.send(lines.collect::<String>().as_bytes())?;
    publisher.barrier()?;
    let deadline = Instant::now() + Duration::from_secs(10);
    let enough = |messages: u64| messages >= probes as u64 || Instant::now() > deadline;
    let tally = receiver::count_messages(subscriber, None, |tally| enough(tally.messages))?;
    match tally.messages == probes as u64 {
        true => Ok(()),
        false => {
            Err(BenchError::Lost(format!("{} of {probes} subscriptions got their message", tally.messages)))
        }
    }
}

/// Resident bytes per connection that has sent CONNECT and PING and nothing else.
pub(crate) fn per_connection(binary: &Path, count: usize) -> Result<f64, BenchError> {
    let server = Server::start(binary)?;
    of_connections(server.address(), server.meter(), count)
}

/// Resident bytes per idle connection of a server that runs already and has had no connections.
pub(crate) fn of_connections(address: &Address, meter: Meter, count: usize) -> Result<f64, BenchError> {
    let first = open(address, 1)?;
    let before = meter.resident_at_rest()?;
    let connections = open(address, count)?;
    let after = meter.resident_at_rest()?;
    drop((first, connections));
    Ok(after.saturating_sub(before) as f64 / count as f64)
}

/// Resident bytes after the start, and the time until a client was greeted.
pub(crate) fn start(binary: &Path) -> Result<(f64, Duration), BenchError> {
    let server = Server::start(binary)?;
    Ok((server.meter().resident_at_rest()? as f64, server.ready_after()))
}

fn open(address: &Address, count: usize) -> Result<Vec<Connection>, BenchError> {
    (0..count).map(|_| Connection::open(address)).collect()
}
