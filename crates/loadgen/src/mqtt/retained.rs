//! Retained messages: many are kept, and clients that come later read some and all of them.

use std::time::{Duration, Instant};

use myelin_mqtt::packet::ServerPacket;

use crate::connection::address::Address;
use crate::error::BenchError;
use crate::mqtt::Qos;
use crate::mqtt::client::{MqttClient, unexpected};
use crate::mqtt::publisher::retain;

/// Messages below one level of the topics, and those that a reader of some gets.
const TOGETHER: usize = 1000;

/// Messages without an answer while they are published.
const WINDOW: u64 = 1000;

/// Load of retained messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MqttRetained {
    /// Messages, on different topics.
    pub count: usize,
    /// Bytes of each.
    pub size: usize,
}

impl MqttRetained {
    /// Publishes all of them.
    ///
    /// # Errors
    /// When one was not acknowledged.
    pub fn publish(&self, address: &Address) -> Result<(), BenchError> {
        let mut client = MqttClient::connect(address, "keeper", true)?;
        let topics =
            (0..self.count).map(|number| format!("kept/{}/{}", number / TOGETHER, number % TOGETHER));
        retain(&mut client, topics, &vec![b'k'; self.size], WINDOW)?;
        client.leave()
    }

    /// How long a new client waits for those of one level, from its SUBSCRIBE to the last.
    ///
    /// # Errors
    /// When they do not come.
    pub fn read_some(&self, address: &Address) -> Result<Duration, BenchError> {
        read(address, "kept/0/+", self.count.min(TOGETHER))
    }

    /// How long a new client waits for all of them.
    ///
    /// # Errors
    /// When they do not come.
    pub fn read_all(&self, address: &Address) -> Result<Duration, BenchError> {
        read(address, "#", self.count)
    }
}

fn read(address: &Address, filter: &str, count: usize) -> Result<Duration, BenchError> {
    let mut client = MqttClient::connect(address, "late", true)?;
    let start = Instant::now();
    let mut come = client.subscribe(&[filter.to_owned()], Qos::AtMostOnce)?;
    while come < count {
        client.read()?;
        client.each(|packet| match packet {
            ServerPacket::Publish(message) if message.retain => {
                come += 1;
                Ok(())
            }
            other => Err(unexpected("a SUBSCRIBE", &other)),
        })?;
    }
    let elapsed = start.elapsed();
    client.leave()?;
    Ok(elapsed)
}
