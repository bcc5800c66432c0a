//! Sessions that last: many clients that connect and subscribe, a few at a time.

use std::thread;
use std::time::{Duration, Instant};

use crate::connection::address::Address;
use crate::error::BenchError;
use crate::meter::{CpuTime, Meter, cpu_of};
use crate::mqtt::Qos;
use crate::mqtt::client::MqttClient;
use crate::pubsub::throughput::joined;

/// Clients that connect at the same time.
const TOGETHER: usize = 8;

/// Load of sessions with subscriptions of QoS 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MqttSessions {
    /// Sessions.
    pub count: usize,
    /// Filters of each, different from those of all others.
    pub filters: usize,
}

/// Sessions that were made.
#[derive(Debug)]
pub struct MadeSessions {
    /// Their connections, unless they were told to leave.
    pub clients: Vec<MqttClient>,
    /// Time for all of them.
    pub elapsed: Duration,
    /// The server's CPU time, where its process was known.
    pub cpu: Option<CpuTime>,
}

impl MqttSessions {
    /// Client id of a session.
    pub fn id(number: usize) -> String {
        format!("session-{number}")
    }

    /// Makes them. With `leaving` each client disconnects as soon as it has subscribed.
    ///
    /// # Errors
    /// When a client was refused.
    pub fn make(
        &self,
        address: &Address,
        leaving: bool,
        meter: Option<Meter>,
    ) -> Result<MadeSessions, BenchError> {
        let before = cpu_of(meter.as_slice())?;
        let start = Instant::now();
        let made = thread::scope(|scope| {
            let share = |first: usize| {
                scope.spawn(move || {
                    let numbers = (first..self.count).step_by(TOGETHER);
                    numbers.filter_map(|number| self.one(address, number, leaving).transpose()).collect()
                })
            };
            let sharing: Vec<_> = (0..TOGETHER.min(self.count)).map(share).collect();
            sharing.into_iter().map(joined).collect::<Result<Vec<Vec<MqttClient>>, BenchError>>()
        })?;
        let elapsed = start.elapsed();
        let cpu = cpu_of(meter.as_slice())?.zip(before).map(|(after, before)| after.since(before));
        Ok(MadeSessions { clients: made.into_iter().flatten().collect(), elapsed, cpu })
    }

    fn one(&self, address: &Address, number: usize, leaving: bool) -> Result<Option<MqttClient>, BenchError> {
        let mut client = MqttClient::connect(address, &Self::id(number), false)?;
        let filters: Vec<String> =
            (0..self.filters).map(|filter| format!("fleet/{number}/{filter}/+")).collect();
        client.subscribe(&filters, Qos::AtLeastOnce)?;
        match leaving {
            true => client.leave().map(|()| None),
            false => Ok(Some(client)),
        }
    }
}

impl MadeSessions {
    /// Sessions per second, of so many.
    pub fn rate(&self, count: usize) -> f64 {
        count as f64 / self.elapsed.as_secs_f64()
    }
}
