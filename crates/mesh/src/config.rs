//! Configuration of the cluster: the server's own place in it, logins and routes.

use crate::certificate::{self, CertificateRules};
use myelin_auth::{ClientCertificate, Permissions, Secret, StoredSecret};
use myelin_wire::peer::info::{PeerConnect, PeerInfo};
use myelin_wire::s2::mode::CompressionMode;
use std::fmt::Arguments;
use std::sync::Arc;
use std::time::Duration;

/// Address of another server, as it was configured or told of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RouteUrl {
    /// Name or address, without brackets.
    pub host: String,
    /// Port of the other server's cluster.
    pub port: u16,
    /// User and password with which to log in there.
    pub login: Option<(String, String)>,
}

impl RouteUrl {
    /// `host:port`, with brackets where the host is an address of IPv6.
    pub fn address(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// The URL as the log shows it.
    pub fn redacted(&self) -> String {
        match &self.login {
            Some((user, _)) => format!("nats-route://{user}:xxxxx@{}", self.address()),
            None => format!("nats-route://{}", self.address()),
        }
    }

    /// Reads what gossip says of a server: `nats-route://host:port/`.
    pub fn of_gossip(text: &str) -> Option<Self> {
        let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
        let authority = rest.split('/').next()?;
        let authority = authority.rsplit_once('@').map_or(authority, |(_, authority)| authority);
        let (host, port) = authority.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().ok().filter(|port| *port > 0)?;
        (!host.is_empty()).then(|| Self { host: host.to_owned(), port, login: None })
    }

    /// Whether both lead to the same port.
    pub fn is_same_place(&self, other: &Self) -> bool {
        self.port == other.port && self.host.eq_ignore_ascii_case(&other.host)
    }
}

/// User whom other servers log in as.
#[derive(Debug, Clone)]
pub struct Login {
    /// Name.
    pub user: String,
    /// As configured: in the clear, or a bcrypt hash.
    pub password: StoredSecret,
    /// The text with which this server logs in elsewhere.
    pub own: String,
}

impl Login {
    /// Whether another server may come in.
    pub(crate) fn admits(&self, connect: &PeerConnect) -> bool {
        self.user == connect.user && self.password.agrees_with(&Secret::new(connect.pass.as_str()))
    }
}

/// Configuration of the cluster.
#[derive(Debug, Clone)]
pub struct MeshConfig {
    /// INFO as it is for every link; the cluster's name is the one to begin with.
    pub info: PeerInfo,
    /// The cluster's name was made up: it gives way to one that was given.
    pub is_dynamic: bool,
    /// Links that share accounts; 0 for one link in the manner of old servers.
    pub pool_size: u32,
    /// Accounts with links of their own.
    pub dedicated: Vec<String>,
    /// `None` lets every server in.
    pub login: Option<Login>,
    /// Whether certificates decide who may come in.
    pub certificates: CertificateRules,
    /// Compression of links, as it is configured.
    pub compression: CompressionMode,
    /// Round trips up to which `s2_auto` has its levels.
    pub thresholds: Vec<Duration>,
    /// Rules for what may cross links, here; INFO has them as they are written.
    pub permissions: Option<Arc<Permissions>>,
    /// Further attempts to reach a server that another one told of.
    pub connect_retries: u32,
    /// Whether attempts come less and less often.
    pub connect_backoff: bool,
    /// One of so many failed attempts is an error in the log, before there was ever a link.
    pub connect_error_reports: u32,
    /// The like, where there was a link.
    pub reconnect_error_reports: u32,
    /// Servers to dial.
    pub routes: Vec<RouteUrl>,
    /// Whether clients are told of other servers.
    pub advertises: bool,
    /// Time between two PINGs.
    pub ping_interval: Duration,
    /// Unanswered PINGs that are tolerated.
    pub ping_max: u32,
    /// Time for the other side to log in, where that is asked for.
    pub auth_timeout: Duration,
}

impl MeshConfig {
    /// Configuration with one link to each server, without logins, permissions or compression.
    /// Times and counts are those that options have by default.
    pub fn plain(info: PeerInfo) -> Self {
        Self {
            info,
            is_dynamic: false,
            pool_size: 0,
            dedicated: Vec::new(),
            login: None,
            certificates: CertificateRules::default(),
            compression: CompressionMode::Off,
            thresholds: Vec::new(),
            permissions: None,
            connect_retries: 0,
            connect_backoff: false,
            connect_error_reports: 3600,
            reconnect_error_reports: 1,
            routes: Vec::new(),
            advertises: true,
            ping_interval: Duration::from_secs(30),
            ping_max: 2,
            auth_timeout: Duration::from_secs(2),
        }
    }

    /// Whether there are several links to each server.
    pub(crate) fn is_pooled(&self) -> bool {
        self.pool_size > 0
    }

    /// Whether a server that says this, and has shown this certificate, may come in.
    pub(crate) fn admits(
        &self,
        connect: &PeerConnect,
        certificate: Option<&ClientCertificate>,
        note: &dyn Fn(Arguments<'_>),
    ) -> bool {
        let rules = (self.certificates, self.login.as_ref());
        certificate::admits(rules, self.routes.iter(), (connect, certificate), note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gossip_names_hosts_in_every_form() {
        let place = |text| RouteUrl::of_gossip(text).map(|url| url.address());
        assert_eq!(place("nats-route://10.0.0.1:6222/").as_deref(), Some("10.0.0.1:6222"));
        assert_eq!(place("nats-route://[fd00::2]:6222/").as_deref(), Some("[fd00::2]:6222"));
        assert_eq!(place("nats://u:p@h:1").as_deref(), Some("h:1"));
        for bad in ["", "nats-route://", "h", "h:", "h:0", "h:70000", ":1", "nats-route:///x"] {
            assert_eq!(place(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let url = RouteUrl { host: "h".into(), port: 1, login: Some(("u".into(), "secret".into())) };
        assert_eq!(url.redacted(), "nats-route://u:xxxxx@h:1");
    }
}
