//! Gateways as the monitoring pages show them.

use super::connections;
use myelin_broker::{Broker, Conn};
use myelin_conf::options::{ClusterOptions, GatewayOptions, RemoteGatewayOptions};
use myelin_mesh::gateway::{GatewayState, Gateways};
use myelin_monitor::{
    ClientLibrary, ConnSnapshot, GatewayAccountSnapshot, GatewaySnapshot, GatewayVarz, GatewaysSnapshot,
    RemoteGatewayVarz, SubSnapshot,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::tls;

/// Seconds for the other side to log in, where nothing is configured.
const AUTH_TIMEOUT: Duration = Duration::from_secs(2);

/// The gateway with its links, those over which messages go first.
pub(super) fn snapshot(gateways: &Gateways) -> GatewaysSnapshot {
    let info = gateways.config().info.clone();
    let links = gateways.outbound().into_iter().chain(gateways.inbound());
    GatewaysSnapshot {
        name: info.gateway,
        host: info.host,
        port: u16::try_from(info.port).unwrap_or_default(),
        links: links.map(|link| of_link(&link)).collect(),
    }
}

fn of_link(link: &GatewayState) -> GatewaySnapshot {
    let facts = link.facts();
    let accounts = link.conn().gateway_accounts().into_iter().map(|account| GatewayAccountSnapshot {
        name: account.name,
        mode: account.mode.name(),
        unwanted: account.unwanted,
    });
    let conn = ConnSnapshot {
        kind: "Gateway",
        transport: "",
        library: ClientLibrary::default(),
        name: facts.server_id,
        rtt: facts.rtt.unwrap_or_default(),
        subscriptions: u32::try_from(facts.subscriptions).unwrap_or(u32::MAX),
        ..connections::open(link.conn())
    };
    GatewaySnapshot {
        cluster: facts.gateway,
        is_outbound: facts.is_outbound,
        is_configured: link.remote().is_some_and(|remote| !remote.is_implicit()),
        conn,
        accounts: accounts.collect(),
    }
}

/// Interest of other clusters, by the link that brought it.
pub(super) fn interest(gateways: &Gateways, broker: &Broker) -> HashMap<u64, Vec<SubSnapshot>> {
    let links: HashSet<u64> = gateways.outbound().iter().map(|link| link.conn().cid()).collect();
    let mut found: HashMap<u64, Vec<SubSnapshot>> = HashMap::new();
    for account in broker.accounts().into_iter().chain(broker.internal_accounts()) {
        account.for_each_remote(|conn: &Arc<Conn>, subject, queue| {
            if links.contains(&conn.cid()) {
                // Compat: it has no id.
                let wanted = connections::leaf_subscription(account.name(), conn, subject, queue);
                let wanted = SubSnapshot { sid: String::new(), ..wanted };
                found.entry(conn.cid()).or_default().push(wanted);
            }
        });
    }
    found
}

/// The gateway of the options. Compat: what is said of writes is that of routes.
pub(super) fn configured(options: &GatewayOptions, cluster: &ClusterOptions) -> GatewayVarz {
    let common = GatewayVarz {
        write_deadline: cluster.write_deadline.unwrap_or_default(),
        write_timeout: cluster.write_timeout.name(),
        ..GatewayVarz::default()
    };
    let name = options.name.as_ref().filter(|_| options.listener.port.is_some());
    let (Some(name), tls) = (name, options.tls.as_ref()) else { return common };
    GatewayVarz {
        name: name.clone(),
        host: options.listener.host.clone(),
        auth_timeout: options.authorization.timeout.unwrap_or(AUTH_TIMEOUT).as_secs_f64(),
        tls_timeout: tls.and_then(|tls| tls.timeout).unwrap_or(tls::LINK_TIMEOUT).as_secs_f64(),
        tls_required: tls.is_some(),
        tls_verify: tls.is_some(),
        advertise: options.advertise.clone().unwrap_or_default(),
        connect_retries: options.connect_retries,
        gateways: options.gateways.iter().map(remote).collect(),
        reject_unknown: options.reject_unknown_cluster,
        tls_cert_not_after: tls.and_then(tls::expiry),
        ..common
    }
}

fn remote(remote: &RemoteGatewayOptions) -> RemoteGatewayVarz {
    let timeout = remote.tls.as_ref().map(|tls| tls.timeout.unwrap_or(tls::LINK_TIMEOUT));
    RemoteGatewayVarz {
        name: remote.name.clone(),
        tls_timeout: timeout.unwrap_or_default().as_secs_f64(),
        urls: remote.urls.iter().map(super::configured::host_and_port).collect(),
    }
}

/// The configured gateway with what is known of it now: its port, and learnt addresses.
pub(super) fn varz(configured: &GatewayVarz, gateways: Option<&(Arc<Gateways>, u16)>) -> GatewayVarz {
    let mut shown = configured.clone();
    let Some((gateways, port)) = gateways else { return shown };
    shown.port = Some(*port);
    for remote in &mut shown.gateways {
        if let Some(known) = gateways.remote(&remote.name) {
            remote.urls = known.addresses();
        }
    }
    shown
}
