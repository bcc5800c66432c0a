//! The listener of monitoring: pages, and the dashboard beside them.

use crate::http::{Dashboard, DashboardParts, Scheme, Security, Site};
use crate::logging::Logger;
use crate::monitoring::Monitor;
use crate::shard::{Permits, ShardThread};
use crate::tls::Current;
use crate::{listener, os_error, supervise};
use hyper::http::uri::Authority;
use myelin_auth::ConnectionType;
use myelin_broker::ListenerInfo;
use myelin_conf::options::Options;
use myelin_monitor::Pages;
use std::fmt::Arguments;
use std::net::SocketAddr;
use std::sync::Arc;

/// Listens where the options say so, with TLS if there is any. Says where that is.
///
/// # Errors
/// Why the server cannot start.
pub(super) fn start(
    options: &Options,
    (tls, permits): (Option<&Arc<Current>>, &Permits),
    (monitor, shards): (&Arc<Monitor>, &[ShardThread]),
    log: &Arc<Logger>,
) -> Result<Option<(Scheme, SocketAddr)>, String> {
    let security = tls.map(|terms| Security { terms: Arc::clone(terms), permits: permits.clone() });
    let scheme = if security.is_some() { Scheme::Https } else { Scheme::Http };
    let port = options.monitoring.https_port.or(options.monitoring.port);
    let Some(port) = port else { return Ok(None) };
    let host = options.monitoring_host();
    let listener = listener::bind(host, port.to_bind()).map_err(|error| {
        let reason = os_error::listening(host, port.to_bind(), &error);
        format!("Can't start monitoring: can't listen to the monitor port: {reason}")
    })?;
    let address = listener.local_addr().map_err(|error| format!("no monitor address: {error}"))?;
    log.info(format_args!("Starting {scheme} monitor on {}", os_error::with_port(host, address.port())));
    let is_open = security.is_none() && !address.ip().is_loopback();
    if options.monitoring.dashboard && is_open {
        log.warn("Dashboard not configured with TLS: passwords go over the network as they are");
    }
    let (pages, source) = (Pages::under(&options.monitoring.base_path), Arc::clone(monitor));
    let known = pages.clone();
    let app = move |path: &str, query: &str| pages.respond(path, query, &*source);
    let complaints = Arc::clone(log);
    let complain = move |line: Arguments<'_>| complaints.error(line);
    let site = Site::new(Arc::new(app), Arc::new(complain), security)
        .map_err(|error| format!("cannot start threads for monitoring: {error}"))?
        .with_efforts(Arc::new(move |path: &str| known.effort(path)))
        .with_dashboard(dashboard(options, (host, address.port(), scheme), (monitor, shards)));
    supervise::spawn_guarding(site.serve(listener, std::future::pending()));
    Ok(Some((scheme, address)))
}

/// The dashboard behind the listener at this host and port.
fn dashboard(
    options: &Options,
    (host, port, scheme): (&str, u16, Scheme),
    (monitor, shards): (&Arc<Monitor>, &[ShardThread]),
) -> Dashboard {
    let [asked, told, lets] = [(); 3].map(|()| Arc::clone(monitor));
    Dashboard::new(DashboardParts {
        base: options.monitoring.shown_base_path().to_owned(),
        is_enabled: Box::new(move || asked.has_dashboard()),
        takes_clients: Box::new(move || told.takes_clients()),
        lets_in_anybody: Box::new(move || lets.lets_in_anybody()),
        names: names(options, host),
        shards: shards.iter().map(|shard| shard.mailbox.clone()).collect(),
        listener_info: Arc::new(ListenerInfo {
            via: ConnectionType::Websocket,
            host: host.to_owned(),
            port,
            is_secure: scheme == Scheme::Https,
            ping_interval: None,
            auth_timeout: None,
        }),
        max_control_line: options.limits.max_control_line as usize,
    })
}

/// Names that the configuration has for this machine: where its pages are, and where its clients
/// are told to find it.
fn names(options: &Options, host: &str) -> Vec<String> {
    let told = options.server.client_advertise.as_deref();
    let told = told.and_then(|told| told.parse::<Authority>().ok());
    [host.to_owned()].into_iter().chain(told.map(|told| told.host().to_owned())).collect()
}
