//! Gateways of the clusters that are joined: their configuration, and to which servers they lead.
//!
//! Any server of a cluster may take a gateway, and each server has one to each other cluster. So it
//! is asked where they lead.

use crate::Error;
use crate::cluster::{Cluster, ClusterPlan};
use crate::proxy::{Dialer, Proxy};
use crate::topology::Outbound;
use crate::wait::wait_for;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;

impl Cluster {
    /// A proxy in front of each server's port for other clusters.
    pub(crate) fn gateway_proxies(&self, names: &[String]) -> Result<Vec<SocketAddr>, Error> {
        if self.topology.joined.is_empty() {
            return Ok(Vec::new());
        }
        let proxies = self.servers.iter().enumerate().map(|(n, server)| {
            let dialer = Dialer::Named(names.to_vec());
            Ok(Proxy::start(n, server.ports.gateways, dialer, &self.links)?.address)
        });
        proxies.collect()
    }

    /// Configuration of a server's gateways, where it has any.
    pub(crate) fn gateway_block(&self, plan: &ClusterPlan, n: usize, proxies: &[SocketAddr]) -> String {
        let topology = &self.topology;
        let own = topology.clusters[n];
        if !topology.joined.contains(&own) {
            return String::new();
        }
        let remotes: String = topology
            .joined
            .iter()
            .filter(|cluster| **cluster != own)
            .map(|cluster| {
                let servers = (0..topology.size()).filter(|server| topology.clusters[*server] == *cluster);
                let urls: Vec<_> = servers.map(|server| format!("\"nats://{}\"", proxies[server])).collect();
                format!("    {{ name: test{cluster}, urls: [ {} ] }}\n", urls.join(", "))
            })
            .collect();
        let (listen, address) = (self.servers[n].ports.gateways, proxies[n]);
        let more = &plan.gateways[n % plan.gateways.len()];
        // Leaf nodes beside gateways want one that is named.
        let system =
            "system_account: \"$SYS\"\naccounts { $SYS { users: [ { user: sys, password: sys } ] } }\n";
        format!(
            "{system}gateway {{\n  name: test{own}\n  listen: \"{listen}\"\n  advertise: \"{address}\"\n  \
             {more}\n  gateways: [\n{remotes}  ]\n}}\n"
        )
    }

    /// Whether a server's gateway to the cluster of another leads to that one.
    pub(crate) fn has_outbound(&self, from: usize, to: usize) -> bool {
        self.outbound.get(&(from, self.topology.clusters[to])) == Some(&to)
    }

    /// Waits until each running server has a gateway to each cluster that it can reach, and no
    /// other, and remembers where they lead.
    ///
    /// # Errors
    /// A server has others.
    pub fn wait_for_gateways(&mut self) -> Result<(), Error> {
        if self.topology.joined.is_empty() {
            return Ok(());
        }
        let mut found = Outbound::new();
        let waited = wait_for("gateways", || {
            found = self.read_gateways().ok()?;
            self.is_joined(&found).then_some(())
        });
        waited.map_err(|why| format!("{why}: gateways lead to {found:?}"))?;
        self.outbound = found;
        Ok(())
    }

    /// Whether gateways lead to servers that can be reached, from all that can reach any.
    fn is_joined(&self, found: &Outbound) -> bool {
        let topology = &self.topology;
        let joined =
            self.running().into_iter().filter(|from| topology.joined.contains(&topology.clusters[*from]));
        joined.into_iter().all(|from| {
            let mut others = topology.joined.iter().filter(|cluster| **cluster != topology.clusters[from]);
            others.all(|cluster| {
                let mut servers = (0..topology.size()).filter(|to| topology.clusters[*to] == *cluster);
                match found.get(&(from, *cluster)) {
                    Some(to) => self.is_up(from, *to),
                    None => !servers.any(|to| self.is_up(from, to)),
                }
            })
        })
    }

    /// Where the gateways of all running servers lead, as `/gatewayz` says.
    fn read_gateways(&self) -> Result<Outbound, Error> {
        let pages: BTreeMap<usize, Value> = self
            .running()
            .into_iter()
            .filter(|server| self.topology.joined.contains(&self.topology.clusters[*server]))
            .map(|server| Ok((server, self.page(server, "/gatewayz")?)))
            .collect::<Result<_, Error>>()?;
        let mut found = Outbound::new();
        for (from, page) in &pages {
            for cluster in &self.topology.joined {
                let link = &page["outbound_gateways"][format!("test{cluster}")]["connection"];
                let Some(id) = link["name"].as_str() else { continue };
                // A server that has ended a moment ago is none of them.
                let there = pages.iter().find(|(_, page)| page["server_id"] == id).map(|(to, _)| *to);
                found.insert((*from, *cluster), there.ok_or("a gateway that leads nowhere")?);
            }
        }
        Ok(found)
    }
}
