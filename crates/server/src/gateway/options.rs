//! From options to the configuration of the gateway.

use crate::cluster::{GroupPart, own_urls};
use crate::tls::LINK_TIMEOUT;
use myelin_auth::StoredSecret;
use myelin_broker::Broker;
use myelin_conf::Url;
use myelin_conf::options::{GatewayOptions, Options};
use myelin_mesh::gateway::config::{ConfiguredGateway, GatewayConfig};
use myelin_mesh::{CertificateRules, Login, RouteUrl};
use myelin_wire::peer::PEER_PROTOCOL;
use myelin_wire::peer::info::PeerInfo;
use std::time::Duration;

/// Time for the other side to log in, where nothing is configured.
const AUTH_TIMEOUT: Duration = Duration::from_secs(2);

/// The name of the gateway that the options have.
pub(crate) fn name(options: &Options) -> Option<&str> {
    options.gateway.name.as_deref().filter(|_| options.gateway.listener.port.is_some())
}

/// Checks for what JetStream needs beside a gateway.
///
/// # Errors
/// Names it.
pub(crate) fn check(options: &Options) -> Result<(), String> {
    if options.jetstream.enabled && name(options).is_some() && options.cluster.listener.port.is_none() {
        // Compat: the reference wants routes as well.
        return Err("\"jetstream\" together with \"gateway\" needs \"cluster\"".to_owned());
    }
    Ok(())
}

/// Configuration of the gateway; `port`: where other clusters are accepted.
pub(super) fn config(
    options: &Options,
    (broker, groups): (&Broker, Option<&GroupPart>),
    port: u16,
) -> Result<GatewayConfig, String> {
    let (gateway, info) = (&options.gateway, broker.info());
    let name = gateway.name.clone().unwrap_or_default();
    let login = gateway.authorization.user.as_ref().map(|user| {
        let password = gateway.authorization.password.as_ref().map_or("", |password| password.reveal());
        Login { user: user.clone(), password: StoredSecret::parse(password), own: password.to_owned() }
    });
    let (host, said_port) = address(gateway, port)?;
    let url = RouteUrl { host: host.clone(), port: said_port, login: None }.address();
    let info = PeerInfo {
        id: info.server_id,
        name: info.server_name,
        version: info.version,
        proto: PEER_PROTOCOL,
        // Ours: another server of ours knows this one by it.
        go: info.go,
        host,
        port: i32::from(said_port),
        headers: info.headers,
        auth_required: gateway.authorization.user.is_some(),
        tls_required: gateway.tls.is_some(),
        tls_verify: gateway.tls.is_some(),
        max_payload: i64::from(info.max_payload),
        gateway: name.clone(),
        gateway_url: url.clone(),
        gateway_nrp: true,
        gateway_iom: true,
        domain: groups.map_or_else(String::new, |_| info.domain),
        myelin: groups.map(|groups| groups.server.clone()),
        ..PeerInfo::default()
    };
    let others = gateway.gateways.iter().filter(|remote| remote.name != name);
    let configured = |remote: &myelin_conf::options::RemoteGatewayOptions| ConfiguredGateway {
        name: remote.name.clone(),
        urls: remote.urls.iter().map(remote_url).collect(),
    };
    Ok(GatewayConfig {
        info,
        url,
        login,
        certificates: gateway.tls.as_ref().map_or_else(CertificateRules::default, |tls| CertificateRules {
            maps_user: tls.verify_and_map,
            checks_known_urls: tls.verify_known_urls,
        }),
        tls_required: gateway.tls.is_some(),
        remotes: others.map(configured).collect(),
        rejects_unknown: gateway.reject_unknown_cluster,
        connect_retries: gateway.connect_retries,
        connect_backoff: gateway.connect_backoff,
        connect_error_reports: options.logging.connect_error_reports,
        reconnect_error_reports: options.logging.reconnect_error_reports,
        ping_interval: options.limits.ping_interval,
        ping_max: options.limits.ping_max,
        auth_timeout: auth_timeout(gateway),
    })
}

/// Where other clusters are told to dial this server.
fn address(gateway: &GatewayOptions, port: u16) -> Result<(String, u16), String> {
    if let Some(text) = &gateway.advertise {
        return myelin_conf::advertised(text, port).map_err(|error| {
            format!("Error setting gateway INFO with Gateway.Advertise value of {text}, err={error}")
        });
    }
    // Compat: of a host that stands for all, the first address that others can reach.
    let found = own_urls::of(&gateway.listener.host, port).into_iter().next();
    let found = found.and_then(|url| RouteUrl::of_gossip(&url));
    Ok(found.map_or_else(|| (gateway.listener.host.clone(), port), |url| (url.host, url.port)))
}

/// Time for the other side to log in. Compat: with TLS a second more than the handshake may take.
fn auth_timeout(gateway: &GatewayOptions) -> Duration {
    let of_tls = |timeout: Option<Duration>| timeout.unwrap_or(LINK_TIMEOUT) + Duration::from_secs(1);
    let default = gateway.tls.as_ref().map_or(AUTH_TIMEOUT, |tls| of_tls(tls.timeout));
    gateway.authorization.timeout.unwrap_or(default)
}

fn remote_url(url: &Url) -> RouteUrl {
    let login = url.login().map(|(user, password)| {
        (user, password.map(|password| password.reveal().to_owned()).unwrap_or_default())
    });
    let port = url.port().and_then(|port| port.parse().ok()).unwrap_or(0);
    RouteUrl { host: url.host().to_owned(), port, login }
}
