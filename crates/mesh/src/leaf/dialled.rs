//! The handshake of a link that was dialled: the hub's INFO, CONNECT, and the INFO that answers it.

use super::LeafEntry;
use super::session::{LeafPhase, LeafSession};
use crate::names::check_cluster;
use myelin_auth::{Permissions, SubjectRules};
use myelin_broker::{Account, LeafPermissions, LeafTerms, Level};
use myelin_wire::REFERENCE_VERSION;
use myelin_wire::error::CloseReason;
use myelin_wire::peer::info::{PeerInfo, SubjectFilter};
use myelin_wire::peer::leaf::LeafConnect;
use myelin_wire::peer::{PEER_PROTOCOL, TRACING_PROTOCOL};
use std::sync::Arc;
use std::time::Instant;

/// Facts that a hub has said of itself.
#[derive(Debug, Default)]
pub(super) struct Heard {
    headers: bool,
    /// Imports and exports that it allows.
    filters: [Option<SubjectFilter>; 2],
    /// Whether a leaf node has said INFO already.
    pub(super) has_info: bool,
}

impl LeafSession {
    /// INFO of the hub: the first, the first once more if the link is compressed, and the answer to
    /// CONNECT.
    pub(super) fn info_of_hub(&mut self, json: &[u8], now: Instant) -> Result<(), CloseReason> {
        let info = self.parse_info(json)?;
        if matches!(self.state, LeafPhase::AwaitAnswer) {
            self.hear(&info);
            // Other news may come before the answer.
            return if info.connect_info { self.finish(&info, now) } else { Ok(()) };
        }
        if info.client_id == 0 || info.leafnode_urls.is_empty() && !info.info_on_connect {
            self.log(Level::Error, format_args!("attempted to connect to wrong port"));
            return Err(CloseReason::WrongPort);
        }
        if self.lacks_tls_for_proxy(&info) {
            let text = "Hub requires TLS but leafnode remote is not configured for TLS. When using a proxy, ensure TLS \
                        leafnode configuration matches the Hub requirements.";
            self.log(Level::Error, format_args!("TLS configuration mismatch: {text}"));
            return Err(CloseReason::TlsHandshake);
        }
        if self.wants_tls(&info) {
            // Nothing that logs this server in may be said in the clear: the rest waits.
            self.tls.postpone(json);
            return Ok(());
        }
        if self.negotiates(&info, now)? {
            return Ok(());
        }
        if let Err(text) = check_cluster(&info.cluster) {
            self.fail(format_args!("cluster name {text}"));
            return Err(CloseReason::ProtocolViolation);
        }
        self.nonce.clone_from(&info.nonce);
        self.heard.headers = self.nodes().config().headers && info.headers;
        self.known().update(|facts| {
            facts.name = if info.name.is_empty() { info.id.clone() } else { info.name.clone() };
            facts.cluster.clone_from(&info.cluster);
            facts.domain.clone_from(&info.domain);
        });
        self.link.meet(&self.known().facts().name, info.proto >= TRACING_PROTOCOL);
        self.hear(&info);
        self.say_connect()?;
        self.await_answer(now);
        // Compat: hubs before 2.10 do not answer.
        if info.info_on_connect { Ok(()) } else { self.finish(&info, now) }
    }

    /// Takes over addresses and permissions.
    fn hear(&mut self, info: &PeerInfo) {
        if !info.leafnode_urls.is_empty() || !info.ws_connect_urls.is_empty() {
            let is_web_socket = self.link.conn().is_web_socket_link();
            let urls = if is_web_socket { &info.ws_connect_urls } else { &info.leafnode_urls };
            self.remote().iter().for_each(|remote| remote.told(urls));
        }
        if info.import.is_some() || info.export.is_some() {
            self.heard.filters = [info.import.clone(), info.export.clone()];
        }
    }

    fn say_connect(&mut self) -> Result<(), CloseReason> {
        let Some(dial) = &self.dial else { return Err(CloseReason::InternalError) };
        let config = self.nodes().config();
        let (mut user, mut pass, mut auth_token) = Default::default();
        match &dial.url.login {
            Some((name, Some(password))) => (user, pass) = (name.clone(), password.clone()),
            // Compat: without a password it may be either.
            Some((name, None)) => (user, auth_token) = (name.clone(), name.clone()),
            None => {}
        }
        let (mut jwt, mut nkey, mut sig) = (String::new(), String::new(), String::new());
        if let Some(signer) = &dial.signer {
            sig = signer.pair.sign(self.nonce.as_bytes());
            jwt.clone_from(&signer.jwt);
            if jwt.is_empty() {
                nkey = signer.pair.public();
            }
        }
        let facts = self.known().facts();
        let own = self.broker().info();
        let connect = LeafConnect {
            version: REFERENCE_VERSION.to_owned(),
            nkey,
            jwt,
            sig,
            user,
            pass,
            auth_token,
            server_id: config.id.clone(),
            domain: own.domain,
            name: config.name.clone(),
            is_hub: dial.remote.config.is_hub,
            cluster: self.own_cluster(),
            headers: self.heard.headers,
            jetstream: own.jetstream,
            deny_pub: dial.remote.config.deny_imports.clone(),
            isolate: dial.remote.config.asks_isolation,
            compress_mode: facts.compression,
            remote_account: facts.account,
            protocol: PEER_PROTOCOL,
            ..LeafConnect::default()
        };
        self.say(&connect.line());
        self.log(Level::Debug, format_args!("Remote leafnode connect msg sent"));
        Ok(())
    }

    /// The hub has let this server in.
    fn finish(&mut self, info: &PeerInfo, now: Instant) -> Result<(), CloseReason> {
        let name = self.known().facts().account;
        let Some(account) = self.broker().account(&name) else {
            let text = format_args!("Unable to lookup account {name} for solicited leafnode connection");
            self.log(Level::Error, text);
            return Err(CloseReason::MissingAccount);
        };
        let cluster = self.known().facts().cluster;
        if !cluster.is_empty() && self.nodes().has_leaf_of(&name, &cluster) {
            return Err(self.found_loop());
        }
        if !account.enter_as_leaf_node() {
            self.fail(format_args!("maximum account active connections exceeded"));
            return Err(CloseReason::MaximumAccountConnections);
        }
        self.is_counted = true;
        self.known().update(|facts| facts.remote_account.clone_from(&info.remote_account));
        let permissions = self.permissions_of_hub(&account)?;
        if self.nodes().enter(self.known()) == LeafEntry::Stopping {
            return Err(CloseReason::ServerShutdown);
        }
        if self.remote().is_some_and(|remote| remote.is_removed()) {
            // A reload has done that in the meantime.
            return Err(CloseReason::ClientClosed);
        }
        self.log_domains(&account);
        let facts = self.known().facts();
        let terms = LeafTerms {
            role: self.role(),
            is_isolated: facts.is_isolated,
            cluster: facts.cluster,
            permissions,
        };
        self.announcing = Some(self.link.begin_leaf(&account, terms, self.heard.headers));
        self.is_ready_now(now);
        Ok(())
    }

    /// Permissions by what the hub has said, what is denied to it here, and what never crosses.
    fn permissions_of_hub(&self, account: &Account) -> Result<LeafPermissions, CloseReason> {
        let [import, export] = self.heard.filters.clone().map(|filter| filter.map(rules));
        let granted = match (export, import) {
            (None, None) => None,
            (export, import) => {
                let granted = Permissions::new(export, import, None).map_err(|error| {
                    self.log(Level::Error, format_args!("{error}"));
                    CloseReason::ProtocolViolation
                })?;
                Some(Arc::new(granted))
            }
        };
        let mut denials = self.denials(account);
        if let Some(remote) = self.remote() {
            denials.not_sent.extend(remote.config.deny_exports.iter().cloned());
            denials.not_taken.extend(remote.config.deny_imports.iter().cloned());
        }
        self.permissions_for(granted, denials)
    }

    /// INFO on a link that is there: the hub has other addresses, or other permissions.
    pub(super) fn later_info(&mut self, json: &[u8]) -> Result<(), CloseReason> {
        let info = self.parse_info(json)?;
        if self.remote().is_none() {
            return self.info_of_leaf_node(&info);
        }
        let before = self.heard.filters.clone();
        self.hear(&info);
        if self.heard.filters != before {
            let Some(account) = self.link.account() else { return Ok(()) };
            let permissions = self.permissions_of_hub(account)?;
            self.link.set_leaf_permissions(permissions);
        }
        Ok(())
    }
}

fn rules(filter: SubjectFilter) -> SubjectRules {
    SubjectRules { allow: filter.allow.unwrap_or_default(), deny: filter.deny.unwrap_or_default() }
}
