//! The server as one of a cluster: the listener for routes, dialling, and what clients are told of
//! the other servers.
//!
//! Which servers are dialled and which links stay is decided in the crate `mesh`; a link is served
//! by a shard (`shard/link.rs`). All of this is done on the control runtime, which never delivers a
//! message.

mod dial;
mod groups;
pub(crate) mod own_urls;
#[cfg(test)]
mod tests;

use crate::listener;
use crate::logging::Logger;
use crate::shard::{LinkSecurity, LinkWith, Mail, Mailbox};
use crate::tls::{LINK_TIMEOUT as TLS_TIMEOUT, LinkOffer, LinkTls};
use crate::{os_error, setup};
use dial::Dialler;
pub(crate) use dial::ForeignSecurity;
pub(crate) use groups::{GroupPart, takes_part};
use myelin_auth::StoredSecret;
use myelin_broker::{Broker, LinkTerms, LinkedPeer};
use myelin_conf::options::{
    ClusterOptions, LinkCompression, Options, PoolSize, SubjectPermission, TlsOptions,
};
use myelin_mesh::gateway::Gateways;
use myelin_mesh::leaf::LeafNodes;
use myelin_mesh::{CertificateRules, Dial, LinkSide, Login, Mesh, MeshConfig, MeshHost, RouteUrl};
use myelin_stdx::sync::lock;
use myelin_wire::info::Info;
use myelin_wire::peer::PEER_PROTOCOL;
use myelin_wire::peer::info::{PeerInfo, SubjectFilter};
use myelin_wire::s2::S2Level;
use myelin_wire::s2::mode::CompressionMode;
use std::fmt::Arguments;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// Time for another server to log in, where nothing is configured.
const AUTH_TIMEOUT: Duration = Duration::from_secs(2);

/// The cluster of a running server.
pub(crate) struct RunningCluster {
    pub(crate) mesh: Arc<Mesh>,
    pub(crate) address: SocketAddr,
    pub(crate) tls: Arc<LinkTls>,
    groups: Option<GroupPart>,
    accepting: JoinHandle<()>,
}

/// The accounts and links of the cluster that the options describe; `None` without a port.
/// `takes_part`: the server has internal accounts for groups of replicas.
///
/// # Errors
/// When it cannot be had together with the rest, in the reference's words where these exist.
pub(crate) fn terms(options: &Options, takes_part: bool) -> Result<Option<LinkTerms>, String> {
    let cluster = &options.cluster;
    if cluster.listener.port.is_none() {
        return Ok(None);
    }
    if takes_part {
        groups::check_names(options)?;
    }
    if options.jetstream.enabled {
        check_jetstream(options)?;
        if !takes_part {
            return Err("JetStream in a cluster needs a restart of the server".to_owned());
        }
    }
    Ok(Some(LinkTerms { pool_size: pool_size(cluster), dedicated: dedicated(options) }))
}

/// Checks that JetStream can be in the cluster, in the reference's words.
fn check_jetstream(options: &Options) -> Result<(), String> {
    let text = if options.server.name.is_none() {
        "jetstream cluster requires `server_name` to be set"
    } else if options.cluster.name.is_none() {
        "jetstream cluster requires `cluster.name` to be set"
    } else if options.cluster.routes.is_empty() {
        "JetStream cluster requires configured routes or solicited leafnode for the system account"
    } else {
        return Ok(());
    };
    Err(text.to_owned())
}

fn pool_size(cluster: &ClusterOptions) -> u32 {
    match cluster.pool_size {
        PoolSize::Single => 0,
        PoolSize::Connections(connections) => connections,
    }
}

fn dedicated(options: &Options) -> Vec<String> {
    options.cluster.pinned(options.accounts.system_account())
}

/// Makes up a name for a cluster that has none.
pub(crate) fn dynamic_name() -> String {
    myelin_stdx::id::unique(&myelin_stdx::entropy::OsEntropy, 22)
}

/// Parts of the server that the cluster needs.
pub(crate) struct ClusterParts<'a> {
    pub(crate) options: &'a Options,
    pub(crate) broker: &'a Arc<Broker>,
    pub(crate) mailboxes: &'a [Mailbox],
    pub(crate) log: &'a Arc<Logger>,
    pub(crate) control: &'a Handle,
    /// Whether the name of the cluster was made up.
    pub(crate) is_dynamic: bool,
    /// TLS between servers.
    pub(crate) tls: Option<LinkOffer>,
    /// Port of WebSocket, if there is one.
    pub(crate) websocket: Option<u16>,
    /// Leaf nodes of this server, which are told of the others.
    pub(crate) leaf_nodes: Option<&'a Arc<LeafNodes>>,
    /// Links with other clusters, of which the servers of this one tell each other, and how their
    /// servers are dialled.
    pub(crate) gateways: Option<(&'a Arc<Gateways>, ForeignSecurity)>,
    /// The server's part in groups of replicas, if it takes part.
    pub(crate) groups: Option<GroupPart>,
}

impl RunningCluster {
    /// Listens for other servers and dials those that are configured.
    ///
    /// # Errors
    /// When the port cannot be had.
    pub(crate) fn start(parts: ClusterParts<'_>) -> Result<Self, String> {
        let ClusterParts { options, broker, mailboxes, log, control, is_dynamic, tls: offer, .. } = parts;
        let (websocket, leaf_nodes, groups) = (parts.websocket, parts.leaf_nodes, parts.groups);
        let gateways = parts.gateways;
        let cluster = &options.cluster;
        let (host, port) = (&cluster.listener.host, cluster.listener.port.map_or(0, |port| port.to_bind()));
        log.info(format_args!("Cluster name is {}", broker.cluster()));
        if is_dynamic {
            log.warn("Cluster name was dynamically generated, consider setting one");
        }
        let listener = listener::bind(host, port).map_err(|error| {
            let reason = os_error::listening(host, port, &error);
            format!("Error listening on router port: {port} - {reason}")
        })?;
        let address = listener.local_addr().map_err(|error| format!("no address for routes: {error}"))?;
        let shown = os_error::with_port(host, address.port());
        log.info(format_args!("Listening for route connections on {shown}"));
        let config = config(options, (broker, leaf_nodes, groups.as_ref()), address.port(), is_dynamic)?;
        let tls = Arc::<LinkTls>::default();
        offer.iter().flat_map(|offer| &offer.notes).for_each(|note| log.warn(note));
        tls.set(offer);
        let own = own_urls::to_self(address);
        let foreign = gateways.as_ref().map(|(_, security)| Arc::clone(security));
        let dialler = Arc::new(Dialler::new(mailboxes, log, control, (own, &tls, foreign)));
        let host = Arc::new(Host {
            broker: Arc::clone(broker),
            mailboxes: mailboxes.to_vec(),
            log: Arc::clone(log),
            dialler: Arc::clone(&dialler),
            told: OnceLock::new(),
            leaf_nodes: leaf_nodes.cloned(),
            groups: groups.clone(),
        });
        let info = broker.info();
        let own = [own_urls::of(&info.host, info.port), websocket_urls(options, websocket)];
        let mesh = Mesh::new(config, own, host);
        dialler.begin(&mesh);
        gateways.iter().for_each(|(gateways, _)| mesh.set_gateways(gateways));
        let (of, offered) = (Arc::clone(&mesh), Arc::clone(&tls));
        let link = move || {
            let security = offered.get().map(|offer| LinkSecurity::Route(offer, None));
            (LinkWith::Route(Arc::clone(&of), LinkSide::Accepted), security)
        };
        let accepting = listener::accept_links(listener, ("Route", log), mailboxes.to_vec(), link);
        mesh.solicit();
        Ok(Self { mesh, address, tls, groups, accepting })
    }

    /// The configuration that new options make of the cluster.
    ///
    /// # Errors
    /// When what is advertised cannot be read.
    pub(crate) fn prepare(
        &self,
        options: &Options,
        broker: &Broker,
        leaf_nodes: Option<&Arc<LeafNodes>>,
    ) -> Result<MeshConfig, String> {
        let (_, is_dynamic) = self.mesh.cluster();
        let parts = (broker, leaf_nodes, self.groups.as_ref());
        let prepared = config(options, parts, self.address.port(), is_dynamic);
        // Compat: other words than at the start.
        prepared.map_err(|error| error.replace("Error setting route INFO with", "invalid"))
    }

    /// Whether the server takes part in groups of replicas.
    pub(crate) fn takes_part_in_groups(&self) -> bool {
        self.groups.is_some()
    }

    /// Takes over a configuration, with TLS for links from now on.
    pub(crate) fn reload(&self, prepared: MeshConfig, name: Option<&str>, offer: Option<LinkOffer>) {
        self.tls.set(offer);
        self.mesh.reload(prepared, name);
    }

    /// No link is accepted or dialled any more.
    pub(crate) fn stop(&self) {
        self.mesh.stop();
        self.accepting.abort();
    }
}

/// Configuration of the mesh, from the options.
fn config(
    options: &Options,
    (broker, leaf_nodes, groups): (&Broker, Option<&Arc<LeafNodes>>, Option<&GroupPart>),
    port: u16,
    is_dynamic: bool,
) -> Result<MeshConfig, String> {
    let cluster = &options.cluster;
    let login = cluster.authorization.user.as_ref().map(|user| {
        let password = cluster.authorization.password.as_ref().map_or("", |password| password.reveal());
        Login { user: user.clone(), password: StoredSecret::parse(password), own: password.to_owned() }
    });
    let (compression, thresholds) = compression(cluster)?;
    Ok(MeshConfig {
        info: PeerInfo {
            myelin: groups.map(|groups| groups.server.clone()),
            leafnode_urls: leaf_nodes.and_then(|nodes| nodes.address()).into_iter().collect(),
            ..peer_info(cluster, broker.info(), port)?
        },
        is_dynamic,
        pool_size: pool_size(cluster),
        dedicated: dedicated(options),
        login,
        certificates: certificates(cluster),
        compression,
        thresholds,
        permissions: setup::route_permissions(cluster).map_err(|error| error.to_string())?.map(Arc::new),
        connect_retries: cluster.connect_retries,
        connect_backoff: cluster.connect_backoff,
        connect_error_reports: options.logging.connect_error_reports,
        reconnect_error_reports: options.logging.reconnect_error_reports,
        routes: cluster.routes.iter().map(route_url).collect(),
        advertises: !cluster.no_advertise,
        ping_interval: cluster.ping_interval.unwrap_or(options.limits.ping_interval),
        ping_max: cluster.ping_max.unwrap_or(options.limits.ping_max),
        auth_timeout: auth_timeout(cluster),
    })
}

/// INFO as it is for every link.
fn peer_info(cluster: &ClusterOptions, info: Info, port: u16) -> Result<PeerInfo, String> {
    let (host, said_port) = match &cluster.advertise {
        None => (cluster.listener.host.clone(), port),
        Some(text) => myelin_conf::advertised(text, port).map_err(|error| {
            format!("Error setting route INFO with Cluster.Advertise value of {text}, err={error}")
        })?,
    };
    let place = RouteUrl { host: host.clone(), port: said_port, login: None };
    let ip = cluster.advertise.as_ref().map(|_| format!("nats-route://{}/", place.address()));
    let permissions = cluster.permissions.as_ref();
    let import = permissions.and_then(|permissions| permissions.import.as_ref());
    let export = permissions.and_then(|permissions| permissions.export.as_ref());
    Ok(PeerInfo {
        id: info.server_id,
        name: info.server_name,
        version: info.version,
        proto: PEER_PROTOCOL,
        go: info.go,
        host,
        port: i32::from(said_port),
        headers: info.headers,
        auth_required: cluster.authorization.user.is_some(),
        tls_required: cluster.tls.is_some(),
        tls_verify: cluster.tls.is_some(),
        max_payload: i64::from(info.max_payload),
        ip: ip.unwrap_or_default(),
        cluster: info.cluster,
        domain: info.domain,
        lnoc: true,
        lnocu: true,
        ln: true,
        route_pool_size: i64::from(pool_size(cluster)),
        import: import.map(filter),
        export: export.map(filter),
        ..PeerInfo::default()
    })
}

/// Time for another server to log in. Compat: with TLS a second more than the handshake may take.
pub(crate) fn auth_timeout(cluster: &ClusterOptions) -> Duration {
    let of_tls = |_: &TlsOptions| tls_timeout(cluster) + Duration::from_secs(1);
    let default = cluster.tls.as_ref().map_or(AUTH_TIMEOUT, of_tls);
    cluster.authorization.timeout.unwrap_or(default)
}

/// Time for a handshake, with or without TLS.
pub(crate) fn tls_timeout(cluster: &ClusterOptions) -> Duration {
    cluster.tls.as_ref().and_then(|tls| tls.timeout).unwrap_or(TLS_TIMEOUT)
}

/// Addresses of this server for clients of WebSocket.
fn websocket_urls(options: &Options, port: Option<u16>) -> Vec<String> {
    let (Some(port), websocket) = (port, &options.websocket) else { return Vec::new() };
    let advertise = websocket.advertise.as_ref();
    let said = advertise.and_then(|text| myelin_conf::advertised(text, port).ok());
    let (host, port) = said.unwrap_or_else(|| (websocket.listener.host.clone(), port));
    own_urls::of(&host, port)
}

/// Permissions as INFO has them.
fn filter(from: &SubjectPermission<String>) -> SubjectFilter {
    let list = |subjects: &[String]| (!subjects.is_empty()).then(|| subjects.to_vec());
    SubjectFilter { allow: from.allow.as_deref().and_then(list), deny: list(&from.deny) }
}

fn certificates(cluster: &ClusterOptions) -> CertificateRules {
    cluster.tls.as_ref().map_or_else(CertificateRules::default, |tls| CertificateRules {
        maps_user: tls.verify_and_map,
        checks_known_urls: tls.verify_known_urls,
    })
}

/// The mode of compression, and the round trips of `s2_auto`.
fn compression(cluster: &ClusterOptions) -> Result<(CompressionMode, Vec<Duration>), String> {
    cluster.compression().map(compression_of)
}

/// A mode of compression in the terms of links, and the round trips of `s2_auto`.
pub(crate) fn compression_of(from: LinkCompression) -> (CompressionMode, Vec<Duration>) {
    let mode = match from {
        LinkCompression::NotSupported => CompressionMode::NotSupported,
        LinkCompression::Off => CompressionMode::Off,
        LinkCompression::Accept => CompressionMode::Accept,
        LinkCompression::S2Auto(thresholds) => return (CompressionMode::Auto, thresholds.0),
        LinkCompression::S2Fast => CompressionMode::S2(S2Level::Fast),
        LinkCompression::S2Better => CompressionMode::S2(S2Level::Better),
        LinkCompression::S2Best => CompressionMode::S2(S2Level::Best),
    };
    (mode, Vec::new())
}

/// A configured route. Compat: without a user in it this server logs in without one, whatever the
/// cluster's own user is.
fn route_url(url: &myelin_conf::Url) -> RouteUrl {
    let login = url.login().map(|(user, password)| {
        (user, password.map(|password| password.reveal().to_owned()).unwrap_or_default())
    });
    let port = url.port().and_then(|port| port.parse().ok()).unwrap_or(0);
    RouteUrl { host: url.host().to_owned(), port, login }
}

/// Services for the mesh: dialling, the log, addresses for clients.
struct Host {
    broker: Arc<Broker>,
    mailboxes: Vec<Mailbox>,
    log: Arc<Logger>,
    dialler: Arc<Dialler>,
    /// Addresses that clients were told last, and those that clients of WebSocket were told.
    told: OnceLock<std::sync::Mutex<[Vec<String>; 2]>>,
    leaf_nodes: Option<Arc<LeafNodes>>,
    groups: Option<GroupPart>,
}

impl MeshHost for Host {
    fn dial(&self, dial: Dial) {
        self.dialler.dial(dial);
    }

    fn advertise(&self, urls: Vec<String>, websocket_urls: Vec<String>) -> bool {
        let told = self.told.get_or_init(Default::default);
        let mut told = lock(told);
        let news = [urls, websocket_urls];
        if *told == news {
            return false;
        }
        told.clone_from(&news);
        let [urls, websocket_urls] = news;
        self.broker.set_websocket_urls(websocket_urls);
        self.broker.update_info(|info| info.connect_urls = urls);
        self.mailboxes.iter().for_each(|mailbox| mailbox.post(Mail::Announce));
        true
    }

    fn advertise_leaf_nodes(&self, urls: [Vec<String>; 2]) {
        self.leaf_nodes.iter().for_each(|nodes| nodes.set_others(urls.clone(), &self.broker.cluster()));
    }

    fn spread(&self, pool_size: u32, dedicated: Vec<String>) {
        self.broker.form_cluster(LinkTerms { pool_size, dedicated });
    }

    fn renamed(&self, name: &str) {
        self.broker.set_cluster(name);
        self.log.info(format_args!("Cluster name updated to {name}"));
    }

    fn complain(&self, line: Arguments<'_>) {
        self.log.error(line);
    }

    fn peer_linked(&self, peer: &LinkedPeer) {
        self.groups.iter().for_each(|groups| groups.observer.peer_linked(peer));
    }

    fn peer_unlinked(&self, peer: &LinkedPeer) {
        self.groups.iter().for_each(|groups| groups.observer.peer_unlinked(peer));
    }

    fn route_is_own(&self, route: &RouteUrl) {
        self.groups.iter().for_each(|groups| groups.observer.route_is_own(&route.host, route.port));
    }

    fn cluster_heard(&self, cluster: &str, has_any: bool) {
        self.groups.iter().for_each(|groups| groups.observer.cluster_heard(cluster, has_any));
    }
}
