//! Connections that have nothing to do.

use crate::connection::address::Address;
use crate::error::BenchError;
use crate::meter::Meter;
use crate::mqtt::client::MqttClient;

/// Resident bytes per idle connection of a server that runs already and has had no connections.
///
/// # Errors
/// When a client was refused, or the server's process cannot be read.
pub fn memory_per_connection(address: &Address, meter: Meter, count: usize) -> Result<f64, BenchError> {
    let connect = |number: usize| MqttClient::connect(address, &format!("idle-{number}"), true);
    let first = connect(count)?;
    let before = meter.resident_at_rest()?;
    let clients = (0..count).map(connect).collect::<Result<Vec<_>, BenchError>>()?;
    let after = meter.resident_at_rest()?;
    drop((first, clients));
    Ok(after.saturating_sub(before) as f64 / count as f64)
}
