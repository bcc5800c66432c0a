//! Another cluster to dial: its addresses, those that were configured and those that it has told.

use crate::config::RouteUrl;
use myelin_stdx::sync::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Addresses of a cluster at most: a peer can tell as many as it likes.
const MOST_URLS: usize = 256;
/// Bytes of an address at most: a name has no more than 253.
const LONGEST_URL: usize = 512;

/// Another cluster to dial.
#[derive(Debug)]
pub struct GatewayRemote {
    name: String,
    /// Whether it is not configured: another server has told of it.
    is_implicit: bool,
    configured: Vec<RouteUrl>,
    urls: Mutex<Vec<RouteUrl>>,
    is_removed: AtomicBool,
}

impl GatewayRemote {
    pub(super) fn configured(name: &str, urls: &[RouteUrl]) -> Self {
        Self {
            name: name.to_owned(),
            is_implicit: false,
            configured: urls.to_vec(),
            urls: Mutex::new(urls.to_vec()),
            is_removed: AtomicBool::new(false),
        }
    }

    /// A cluster of which another server has told; `None` without an address.
    pub(super) fn implicit(name: &str, urls: &[String]) -> Option<Self> {
        let remote = Self { is_implicit: true, ..Self::configured(name, &[]) };
        remote.add(urls);
        let is_known = !lock(&remote.urls).is_empty();
        is_known.then_some(remote)
    }

    /// Name of its gateway.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether another server has told of it, and it is not configured.
    pub fn is_implicit(&self) -> bool {
        self.is_implicit
    }

    /// Its kind, as the log calls it.
    pub fn kind(&self) -> &'static str {
        if self.is_implicit { "implicit" } else { "explicit" }
    }

    /// Its addresses as they are known now.
    pub fn urls(&self) -> Vec<RouteUrl> {
        lock(&self.urls).clone()
    }

    /// Its addresses as gossip has them.
    pub fn addresses(&self) -> Vec<String> {
        lock(&self.urls).iter().map(RouteUrl::address).collect()
    }

    /// Takes note of more addresses.
    pub(super) fn add(&self, told: &[String]) {
        add_to(&mut lock(&self.urls), told);
    }

    /// The cluster has told its addresses: those that it told before count no more. Answers whether
    /// that has changed anything.
    pub(super) fn replace(&self, told: &[String]) -> bool {
        if told.is_empty() {
            return false;
        }
        let mut next = self.configured.clone();
        add_to(&mut next, told);
        let mut urls = lock(&self.urls);
        // Compat: a server tells them in any order.
        let is_news = urls.len() != next.len() || !next.iter().all(|url| urls.contains(url));
        *urls = next;
        is_news
    }

    /// Nobody goes on dialling it.
    pub(super) fn remove(&self) {
        self.is_removed.store(true, Relaxed);
    }

    /// Whether it is to be dialled no more.
    pub fn is_removed(&self) -> bool {
        self.is_removed.load(Relaxed)
    }
}

/// Adds addresses that a peer has told, as far as they make sense and there is room.
fn add_to(urls: &mut Vec<RouteUrl>, told: &[String]) {
    let told = told.iter().filter(|text| text.len() <= LONGEST_URL);
    for url in told.filter_map(|text| RouteUrl::of_gossip(text)) {
        if urls.len() < MOST_URLS && !urls.iter().any(|known| known.is_same_place(&url)) {
            urls.push(url);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_were_told_replace_each_other_and_not_the_configured_ones() {
        let url = RouteUrl { host: "h".into(), port: 1, login: Some(("u".into(), "p".into())) };
        let remote = GatewayRemote::configured("B", &[url]);
        assert!(remote.replace(&["h:1".into(), "h:2".into(), "nonsense".into()]), "there are more");
        assert_eq!(remote.addresses(), ["h:1", "h:2"]);
        assert!(remote.urls()[0].login.is_some(), "the configured one stays as it is");
        assert!(!remote.replace(&["h:2".into(), "h:1".into()]), "they are known");
        assert!(remote.replace(&["h:3".into()]));
        assert_eq!(remote.addresses(), ["h:1", "h:3"]);
        assert!(!remote.replace(&[]));
        assert_eq!(remote.addresses(), ["h:1", "h:3"]);
    }

    #[test]
    fn a_cluster_without_an_address_is_none() {
        assert!(GatewayRemote::implicit("B", &["nonsense".into()]).is_none());
        let many: Vec<_> = (1..1000).map(|port| format!("h:{port}")).collect();
        assert_eq!(GatewayRemote::implicit("B", &many).unwrap().urls().len(), MOST_URLS);
        let long = format!("{}:1", "h".repeat(LONGEST_URL));
        assert!(GatewayRemote::implicit("B", &[long]).is_none(), "nobody is called so");
    }
}
