//! Waiting until every server knows what the clients of the others want.
//!
//! A server tells of its clients' subscriptions in their order. So a subscription made after all
//! others is a probe: once a message published elsewhere reaches it, the others are known there.

use crate::wait::wait_for;
use crate::{Client, Cluster, Error};

/// A probing client on one server.
struct Probe {
    server: usize,
    client: Client,
    subject: String,
}

impl Cluster {
    /// Waits until links are as they should be, and all interest that clients have been told to be
    /// in place is known to every server that may hear of it.
    ///
    /// # Errors
    /// A message does not get through.
    pub fn settle(&mut self) -> Result<(), Error> {
        self.wait_until_linked()?;
        self.wait_for_gateways()?;
        // A link that has just come up may tell of new subscriptions before it tells of the old
        // ones, once; the second probe comes behind them, on each link of its way.
        for _ in 0..2 {
            self.probe()?;
        }
        Ok(())
    }

    fn probe(&mut self) -> Result<(), Error> {
        let mut probes = Vec::new();
        for server in self.running() {
            self.fresh += 1;
            let subject = format!("probe.{}.{server}", self.fresh);
            let mut client = self.client(server)?;
            client.subscribe(&subject, None);
            probes.push(Probe { server, client, subject });
        }
        for probe in &probes {
            probe.client.settle()?;
        }
        for to in &probes {
            for from in probes.iter().filter(|from| self.hearers(to.server).contains(&from.server)) {
                let mark = from.server.to_string();
                let what = format!("interest of {} at {}", self.name(to.server), self.name(from.server));
                wait_for(&what, || {
                    from.client.publish(&to.subject, None, mark.as_bytes());
                    // Both ends have seen the message, if it has found the way.
                    let is_settled = from.client.settle().is_ok() && to.client.settle().is_ok();
                    let has_come =
                        to.client.deliveries(0).iter().any(|delivery| delivery.payload == mark.as_bytes());
                    (is_settled && has_come).then_some(())
                })?;
            }
        }
        Ok(())
    }
}
