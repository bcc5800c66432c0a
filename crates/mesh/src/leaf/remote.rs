//! A hub that this server dials: its addresses, how to log in there, and when to dial again.

use super::config::LeafCompression;
use crate::names::check_word;
use myelin_auth::KeyPair;
use myelin_stdx::rng::Rng;
use myelin_stdx::sync::lock;
use std::any::Any;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Address of a hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafUrl {
    /// Name or address, without brackets.
    pub host: String,
    /// Port for leaf nodes.
    pub port: u16,
    /// User, and password unless the user is a token.
    pub login: Option<(String, Option<String>)>,
    /// Present where it is a WebSocket.
    pub web_socket: Option<LeafWebSocket>,
}

/// WebSocket behind an address of a hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafWebSocket {
    /// Whether TLS is below it.
    pub is_secure: bool,
    /// Path of the URL.
    pub path: String,
}

impl LeafUrl {
    /// `host:port`, with brackets where the host is an address of IPv6.
    pub fn address(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// Reads `host:port` as hubs tell it.
    fn told(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().ok().filter(|port| *port > 0)?;
        // A host is a word of what is said to proxies.
        let is_host = !host.is_empty() && check_word(host).is_ok();
        is_host.then(|| Self { host: host.to_owned(), port, login: None, web_socket: None })
    }
}

/// Key that logs this server in at a hub, beside a user in the URL.
#[derive(Debug, Clone)]
pub enum LeafKey {
    /// Nothing.
    None,
    /// A file of a JWT and a seed, read anew for each link.
    File(PathBuf),
    /// The seed of a key.
    Seed(myelin_auth::Secret),
}

/// Key that signs a hub's nonce, and the token that it belongs to.
#[derive(Debug)]
pub struct LeafSigner {
    /// The token; empty where the key is known by itself.
    pub jwt: String,
    /// The key.
    pub pair: KeyPair,
}

/// Configuration of a hub.
#[derive(Debug, Clone)]
pub struct LeafRemoteConfig {
    /// Its addresses.
    pub urls: Vec<LeafUrl>,
    /// Whether they are tried in this order.
    pub no_randomize: bool,
    /// The account here.
    pub account: String,
    /// How to log in.
    pub key: LeafKey,
    /// This server is the hub, although it dials.
    pub is_hub: bool,
    /// Subjects of messages that are not taken.
    pub deny_imports: Vec<String>,
    /// Subjects of messages that are not sent.
    pub deny_exports: Vec<String>,
    /// Whether the other side does not hear of what leaf nodes of this server want.
    pub is_isolated: bool,
    /// Whether the other side is asked not to tell what other leaf nodes want.
    pub asks_isolation: bool,
    /// Compression of the link.
    pub compression: LeafCompression,
    /// Time for the hub to say INFO.
    pub first_info_timeout: Duration,
    /// Time for the TCP connection.
    pub dial_timeout: Duration,
    /// Whether addresses that the hub tells of are not dialled.
    pub ignores_told: bool,
    /// Whether there has to be TLS, whatever the hub says.
    pub wants_tls: bool,
    /// Whether the hub is reached through a proxy of HTTP.
    pub is_proxied: bool,
    /// Means of the shell to reach the hub, of which nothing is known here.
    pub means: Arc<dyn Any + Send + Sync>,
}

/// A hub to dial.
#[derive(Debug)]
pub struct LeafRemote {
    /// Configuration of the hub.
    pub config: LeafRemoteConfig,
    state: Mutex<RemoteState>,
}

#[derive(Debug)]
struct RemoteState {
    /// Addresses to dial, the next one first.
    urls: Vec<LeafUrl>,
    /// To wait before the next attempt.
    delay: Duration,
    is_removed: bool,
}

impl LeafRemote {
    /// A hub that was never dialled. Its addresses are tried in an order that `seed` decides,
    /// unless they may not be.
    pub fn new(config: LeafRemoteConfig, seed: u64) -> Self {
        let mut urls = config.urls.clone();
        if !config.no_randomize {
            let mut rng = Rng::seeded(seed);
            for at in (1..urls.len()).rev() {
                urls.swap(at, rng.below(at as u64 + 1) as usize);
            }
        }
        let state = RemoteState { urls, delay: Duration::ZERO, is_removed: false };
        Self { config, state: Mutex::new(state) }
    }

    /// The address to dial next.
    pub fn next_url(&self) -> Option<LeafUrl> {
        let mut state = lock(&self.state);
        if state.urls.is_empty() {
            return None;
        }
        state.urls.rotate_left(1);
        state.urls.last().cloned()
    }

    /// How long to wait before the next attempt; said once.
    pub fn take_delay(&self) -> Duration {
        std::mem::take(&mut lock(&self.state).delay)
    }

    /// Has the next attempt wait.
    pub(crate) fn delay(&self, delay: Duration) {
        lock(&self.state).delay = delay;
    }

    /// Nobody goes on dialling it.
    pub fn remove(&self) {
        lock(&self.state).is_removed = true;
    }

    /// Whether it is to be dialled no more.
    pub fn is_removed(&self) -> bool {
        lock(&self.state).is_removed
    }

    /// The hub has told its addresses, which are tried before those that are configured. They have
    /// no user: the first of those configured counts for them. Compat: of WebSockets they have no
    /// path either, whatever the configured ones have.
    pub(crate) fn told(&self, urls: &[String]) {
        if self.config.ignores_told {
            return;
        }
        let configured = &self.config.urls;
        let login = configured.iter().find_map(|url| url.login.clone());
        let web_socket = configured.iter().find_map(|url| url.web_socket.as_ref());
        let web_socket =
            web_socket.map(|known| LeafWebSocket { is_secure: known.is_secure, path: String::new() });
        let told = urls.iter().filter_map(|text| LeafUrl::told(text));
        let is_new = |url: &LeafUrl| !configured.iter().any(|known| known.address() == url.address());
        let told = told.filter(is_new);
        let told = told.map(|url| LeafUrl { login: login.clone(), web_socket: web_socket.clone(), ..url });
        lock(&self.state).urls = told.chain(configured.iter().cloned()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_wire::s2::mode::CompressionMode;

    fn url(port: u16, login: Option<&str>) -> LeafUrl {
        let login = login.map(|user| (user.to_owned(), None));
        LeafUrl { host: "h".into(), port, login, web_socket: None }
    }

    fn remote(urls: Vec<LeafUrl>, ignores_told: bool) -> LeafRemote {
        seeded(urls, ignores_told, None)
    }

    /// A remote whose addresses are shuffled by that seed, if by any.
    fn seeded(urls: Vec<LeafUrl>, ignores_told: bool, seed: Option<u64>) -> LeafRemote {
        let config = LeafRemoteConfig {
            urls,
            no_randomize: seed.is_none(),
            account: "$G".into(),
            key: LeafKey::None,
            is_hub: false,
            deny_imports: Vec::new(),
            deny_exports: Vec::new(),
            is_isolated: false,
            asks_isolation: false,
            compression: LeafCompression { mode: CompressionMode::Off, thresholds: Vec::new() },
            first_info_timeout: Duration::from_secs(1),
            dial_timeout: Duration::from_secs(1),
            ignores_told,
            wants_tls: false,
            is_proxied: false,
            means: Arc::new(()),
        };
        LeafRemote::new(config, seed.unwrap_or(1))
    }

    fn ports(remote: &LeafRemote, count: usize) -> Vec<u16> {
        (0..count).filter_map(|_| remote.next_url()).map(|url| url.port).collect()
    }

    #[test]
    fn addresses_take_turns_and_those_that_were_told_come_first() {
        let hub = remote(vec![url(1, None), url(2, Some("u"))], false);
        assert_eq!(ports(&hub, 3), [1, 2, 1]);
        hub.told(&["h:9".to_owned(), "h:2".to_owned(), "nonsense".to_owned(), "h\r\nX: y:8".to_owned()]);
        assert_eq!(hub.next_url(), Some(url(9, Some("u"))), "with the user of the others");
        assert_eq!(ports(&hub, 3), [1, 2, 9]);
        let stubborn = remote(vec![url(1, None)], true);
        stubborn.told(&["h:9".to_owned()]);
        assert_eq!(ports(&stubborn, 2), [1, 1]);
    }

    #[test]
    fn addresses_of_web_sockets_are_told_without_a_path() {
        let web_socket = |path: &str| Some(LeafWebSocket { is_secure: true, path: path.into() });
        let hub = remote(vec![LeafUrl { web_socket: web_socket("/a"), ..url(1, Some("u")) }], false);
        hub.told(&["h:9".to_owned()]);
        assert_eq!(hub.next_url(), Some(LeafUrl { web_socket: web_socket(""), ..url(9, Some("u")) }));
        assert_eq!(ports(&hub, 2), [1, 9]);
        hub.told(&[]);
        assert_eq!(ports(&hub, 2), [1, 1], "the others have gone");
    }

    #[test]
    fn the_order_of_addresses_is_left_to_chance() {
        let mut orders = Vec::new();
        for seed in 0..200 {
            let hub = seeded([1, 2, 3].map(|port| url(port, None)).to_vec(), false, Some(seed));
            let order = ports(&hub, 3);
            assert_eq!(ports(&hub, 3), order, "they take turns in that order");
            orders.push(order);
        }
        orders.sort();
        orders.dedup();
        let each_once = |order: &Vec<u16>| (1..=3).all(|port| order.contains(&port));
        assert_eq!((orders.len(), orders.iter().all(each_once)), (6, true), "{orders:?}");
    }

    #[test]
    fn a_delay_holds_once() {
        let hub = remote(vec![url(1, None)], false);
        hub.delay(Duration::from_secs(30));
        assert_eq!([hub.take_delay(), hub.take_delay()], [Duration::from_secs(30), Duration::ZERO]);
    }
}
