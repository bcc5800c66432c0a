//! From options to the configuration of leaf nodes and hubs.

use super::dial::{HubTerms, Means};
use super::proxy::HttpProxy;
use super::timeout::auth_timeout;
use super::{DialledRemote, HubChecks};
use crate::cluster::compression_of;
use crate::cluster::own_urls;
use crate::ocsp::PeerCheck;
use crate::tls::HubTls;
use myelin_auth::{
    AccountName, AuthConfig, ConnectionType, ConnectionTypes, Method, NkeyUser, Secret, StoredSecret, User,
    Users,
};
use myelin_broker::Broker;
use myelin_conf::options::{LeafCredentials, LeafNodeOptions, LeafRemoteOptions, LinkCompression, Options};
use myelin_mesh::leaf::config::{LeafCompression, LeafConfig, LeafJetStream};
use myelin_mesh::leaf::remote::{LeafKey, LeafRemote, LeafRemoteConfig, LeafUrl, LeafWebSocket};
use myelin_wire::peer::PEER_PROTOCOL;
use myelin_wire::peer::info::PeerInfo;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, RwLock};

/// Hint that this server's JetStream becomes a part of its hub's.
const WILL_EXTEND: &str = "will_extend";
/// Subjects by which servers of one JetStream talk.
const REPLICATION: &[u8] = b"$NRG.>";

/// Whether there are leaf nodes or hubs.
pub(crate) fn is_wanted(options: &Options) -> bool {
    options.leaf_nodes.listener.port.is_some() || !options.leaf_nodes.remotes.is_empty()
}

/// Tells clients and operators of the cluster by which others know a leaf node that is in none.
///
/// For the broker itself there is no such cluster: no mapping and no stream is meant by its name.
pub(crate) fn show_cluster(options: &Options, broker: &Broker) {
    let own = own_cluster(options, broker.name());
    if !own.is_empty() {
        broker.update_info(|info| info.cluster = own);
    }
}

/// Cluster by which others know a server that is in none.
///
/// Compat: a leaf node has its own name for that.
fn own_cluster(options: &Options, server_name: &str) -> String {
    let is_alone = options.cluster.listener.port.is_none() && options.cluster.name.is_none();
    if is_alone && !options.leaf_nodes.remotes.is_empty() { server_name.to_owned() } else { String::new() }
}

/// Checks for what leaf nodes need and this version does not have.
///
/// # Errors
/// Names it.
pub(crate) fn check(options: &Options) -> Result<(), String> {
    let lacks = |what: &str| Err(format!("{what}, which this version of Myelin does not have"));
    if options.jetstream.extension_hint == WILL_EXTEND && may_extend(options) {
        return lacks(
            "\"extension_hint: will_extend\" with a remote of the system account needs a JetStream of \
             several servers",
        );
    }
    Ok(())
}

/// Whether a hub could take this server's JetStream into its own: one that hears the system account
/// here.
pub(crate) fn may_extend(options: &Options) -> bool {
    let system = options.accounts.system_account();
    let is_of_system = |remote: &&LeafRemoteOptions| {
        remote.account.as_deref().is_some_and(|account| Some(account) == system)
    };
    let first = options.leaf_nodes.remotes.iter().find(is_of_system).filter(|_| options.jetstream.enabled);
    first.is_some_and(|remote| {
        !remote.deny_imports.iter().any(|denied| myelin_subject::is_subset(denied.as_bytes(), REPLICATION))
    })
}

/// Configuration of leaf nodes; `port`: where they are accepted.
pub(super) fn config(options: &Options, broker: &Broker, port: Option<u16>) -> Result<LeafConfig, String> {
    let leaf_nodes = &options.leaf_nodes;
    let info = broker.info();
    Ok(LeafConfig {
        info: port.map_or_else(|| Ok(PeerInfo::default()), |port| peer_info(options, broker, port))?,
        name: info.server_name.clone(),
        id: info.server_id,
        cluster: own_cluster(options, &info.server_name),
        auth: own_auth(leaf_nodes, &options.proxies.trusted).map(Arc::new),
        default_account: leaf_nodes.authorization.account.clone(),
        compression: compression(leaf_nodes.compression()?),
        min_version: leaf_nodes.min_version,
        is_isolated: leaf_nodes.isolate_leafnode_interest,
        auth_timeout: auth_timeout(leaf_nodes),
        ping_interval: options.limits.ping_interval,
        ping_max: options.limits.ping_max,
        max_payload: options.limits.max_payload,
        headers: info.headers,
        reconnect: leaf_nodes.reconnect,
        jetstream: LeafJetStream {
            is_enabled: options.jetstream.enabled,
            domain: options.jetstream.domain.clone().unwrap_or_default(),
            extends: options.jetstream.extension_hint == WILL_EXTEND,
            default_domains: options.jetstream.default_domains.clone(),
        },
    })
}

/// INFO as it is for every leaf node.
fn peer_info(options: &Options, broker: &Broker, port: u16) -> Result<PeerInfo, String> {
    let (leaf_nodes, info) = (&options.leaf_nodes, broker.info());
    let (host, said_port) = match &leaf_nodes.advertise {
        None => (leaf_nodes.listener.host.clone(), port),
        Some(text) => myelin_conf::advertised(text, port).map_err(|error| {
            format!("Error setting leafnode INFO with LeafNode.Advertise value of {text}, err={error}")
        })?,
    };
    let urls = own_urls::of(&host, said_port);
    let url = urls.first().cloned().unwrap_or_default();
    Ok(PeerInfo {
        id: info.server_id,
        name: info.server_name,
        version: info.version,
        proto: PEER_PROTOCOL,
        go: info.go,
        host,
        port: i32::from(said_port),
        headers: info.headers,
        auth_required: true,
        tls_required: leaf_nodes.tls.is_some(),
        tls_verify: leaf_nodes.tls.as_ref().is_some_and(|tls| tls.verify),
        max_payload: i64::from(info.max_payload),
        jetstream: info.jetstream,
        ip: url.clone(),
        domain: info.domain,
        api_lvl: info.api_lvl,
        info_on_connect: true,
        leafnode_urls: if leaf_nodes.no_advertise { Vec::new() } else { vec![url] },
        ..PeerInfo::default()
    })
}

fn compression(from: LinkCompression) -> LeafCompression {
    let (mode, thresholds) = compression_of(from);
    LeafCompression { mode, thresholds }
}

/// Users of leaf nodes that are not those of clients.
fn own_auth(leaf_nodes: &LeafNodeOptions, proxies: &[String]) -> Option<AuthConfig> {
    let from = &leaf_nodes.authorization;
    let account = |name: &Option<String>| name.as_deref().map_or_else(AccountName::global, AccountName::new);
    let user = |name: &str, password: StoredSecret, of: &Option<String>, proxy_required: bool| User {
        name: name.to_owned(),
        password,
        account: account(of),
        permissions: None,
        connection_types: ConnectionTypes::default(),
        proxy_required,
    };
    // Compat: who is known by a certificate needs the password, too, if there is one. A single user
    // is known by name and password, whatever its certificate says.
    let is_single = from.user.is_some() || from.nkey.is_some();
    let is_mapped = !is_single && leaf_nodes.tls.as_ref().is_some_and(|tls| tls.verify_and_map);
    let secret = |secret: &myelin_conf::Secret| StoredSecret::parse(secret.reveal());
    let users = if let Some(name) = &from.user {
        let password = from.password.as_ref().map_or_else(|| StoredSecret::Plain(Secret::new("")), secret);
        Users::new(vec![user(name, password, &from.account, from.proxy_required)])
    } else if let Some(nkey) = &from.nkey {
        let key = NkeyUser {
            nkey: nkey.clone(),
            account: account(&from.account),
            permissions: None,
            connection_types: ConnectionTypes::default(),
            proxy_required: from.proxy_required,
        };
        Users::new(Vec::new()).with_nkeys(vec![key])
    } else if !from.users.is_empty() {
        let all = from.users.iter().map(|one| {
            let needs_proxy = one.proxy_required || from.proxy_required;
            user(&one.name, secret(&one.password), &one.account, needs_proxy)
        });
        Users::new(all.collect::<Vec<_>>())
    } else {
        return None;
    };
    let proxies = proxies.to_vec().into();
    let mut config = AuthConfig { proxies, ..AuthConfig::new(Method::Users(users)) };
    if is_mapped {
        config.maps_certificates = vec![ConnectionType::Leafnode, ConnectionType::LeafnodeWs];
    }
    Some(config)
}

/// Hubs that are to be dialled; `checks`: of whether certificates were revoked, of all remotes.
pub(super) fn remotes(
    options: &Options,
    config: &LeafConfig,
    checks: &HubChecks,
) -> Result<Vec<DialledRemote>, String> {
    let seeds = RandomState::new();
    let wanted = options.leaf_nodes.remotes.iter().enumerate().filter(|(_, remote)| !remote.disabled);
    let all = wanted.map(|(at, remote)| {
        let check = checks.get(at).cloned().flatten();
        let terms = remote_config(remote, &options.leaf_nodes, check)?;
        let dialled = Arc::new(LeafRemote::new(terms, seeds.hash_one((&config.id, at))));
        Ok(DialledRemote { options: remote.clone(), remote: dialled })
    });
    all.collect()
}

fn remote_config(
    from: &LeafRemoteOptions,
    common: &LeafNodeOptions,
    check: Option<Arc<PeerCheck>>,
) -> Result<LeafRemoteConfig, String> {
    let dial_timeout = from.dial_timeout.unwrap_or(common.dial_timeout);
    let proxy = from.proxy.as_ref().map(|proxy| HttpProxy::of(proxy, dial_timeout));
    let proxy = proxy.transpose()?.flatten();
    Ok(LeafRemoteConfig {
        urls: from.targets().iter().map(leaf_url).collect(),
        no_randomize: from.no_randomize,
        account: from.account.clone().unwrap_or_else(|| myelin_conf::options::GLOBAL_ACCOUNT.to_owned()),
        key: match &from.credentials {
            LeafCredentials::None => LeafKey::None,
            LeafCredentials::File(path) => LeafKey::File(path.clone()),
            LeafCredentials::Seed(seed) => LeafKey::Seed(Secret::new(seed.reveal())),
        },
        is_hub: from.hub,
        deny_imports: from.deny_imports.clone(),
        deny_exports: from.deny_exports.clone(),
        is_isolated: from.isolate_leafnode_interest,
        asks_isolation: from.request_isolation,
        compression: compression(from.compression()?),
        first_info_timeout: from.first_info_timeout,
        dial_timeout,
        ignores_told: from.ignore_discovered_servers,
        wants_tls: from.tls.is_some() || from.urls.iter().any(|url| url.reveal().starts_with("tls://")),
        is_proxied: from.proxy.as_ref().is_some_and(|proxy| proxy.url.is_some()),
        means: Arc::new(Means {
            terms: RwLock::new(Arc::new(HubTerms { tls: Arc::new(HubTls::of(from, check)?), proxy })),
            ws_compression: from.ws_compression,
            ws_no_masking: from.ws_no_masking,
            migrates: from.jetstream_cluster_migrate,
        }),
    })
}

fn leaf_url(url: &myelin_conf::Url) -> LeafUrl {
    let login =
        url.login().map(|(user, password)| (user, password.map(|password| password.reveal().to_owned())));
    let port = url.port().and_then(|port| port.parse().ok()).unwrap_or(0);
    let web_socket = url.is_web_socket().then(|| {
        let path = url.rest.split(['?', '#']).next().unwrap_or_default().to_owned();
        LeafWebSocket { is_secure: url.scheme == "wss", path }
    });
    LeafUrl { host: url.host().to_owned(), port, login, web_socket }
}

#[cfg(test)]
mod tests {
    use super::check;

    /// Nothing that is not there is passed over: the start says what is missing.
    #[test]
    fn what_leaf_nodes_lack_is_named() {
        let remote = |more: &str| format!("leafnodes {{ remotes: [{{ {more} }}] }}");
        let extends = "accounts { S {} }\nsystem_account: S\njetstream { extension_hint: will_extend }\n";
        let cases = [(
            extends.to_owned() + &remote("url: \"nats://h:1\", account: S"),
            "needs a JetStream of several servers",
        )];
        let options =
            |text: &str| myelin_conf::load_text(text.as_bytes(), &|_| None).expect("it can be read").options;
        for (text, expected) in cases {
            let complaint = check(&options(&text)).expect_err("it is missing");
            assert!(complaint.contains(expected), "{text}: {complaint}");
        }
        assert_eq!(check(&options(&remote("url: \"nats://h:1\""))), Ok(()));
    }
}
