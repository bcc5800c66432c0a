//! The handshake of a link that was accepted: INFO, CONNECT, credentials to an account.

use super::LeafEntry;
use super::config::version_numbers;
use super::reload::LeafAdmission;
use super::session::{LeafPhase, LeafSession, LeafStep, Step};
use crate::names::check_cluster;
use myelin_auth::callout::ClientInfo;
use myelin_auth::{Credentials, Identity, Method, Permissions, Reject, Secret, SubjectRules};
use myelin_broker::{
    Account, LeafDenials, LeafDialler, LeafLogin, LeafPermissions, LeafRole, LeafTerms, Level, Shard,
};
use myelin_wire::error::CloseReason;
use myelin_wire::peer::TRACING_PROTOCOL;
use myelin_wire::peer::info::{PeerInfo, SubjectFilter};
use myelin_wire::peer::leaf::LeafConnect;
use std::sync::Arc;
use std::time::Instant;

/// Whom a refused leaf node claimed to be. Compat: of a token nobody is told whose it is.
fn blamed(connect: &LeafConnect) -> Option<(&'static str, &str)> {
    let token = if connect.jwt.is_empty() { &connect.auth_token } else { "" };
    let token = if token.is_empty() { "" } else { "[REDACTED]" };
    let named = [("Nkey", &*connect.nkey), ("User", &*connect.user), ("Token", token)];
    named.into_iter().find(|(_, name)| !name.is_empty())
}

impl LeafSession {
    /// Says what is to be said first: who has dialled waits.
    pub(super) fn begin(&mut self, now: Instant) {
        let config = self.nodes().config();
        let Some(dial) = &self.dial else {
            self.timers.greeted(Some(config.auth_timeout), now);
            self.log(Level::Info, format_args!("Leafnode connection created "));
            self.nonce = self.link.nonce();
            return self.say_first_info();
        };
        let account = &dial.remote.config.account;
        self.log(Level::Info, format_args!("Leafnode connection created for account: {account} "));
        self.timers.greeted(Some(dial.remote.config.first_info_timeout), now);
    }

    /// INFO with a nonce: again when the link has begun to be compressed.
    pub(super) fn say_first_info(&self) {
        let info = PeerInfo {
            client_id: self.link.conn().cid(),
            nonce: self.nonce.clone(),
            compression: self.compression_name().to_owned(),
            ..self.nodes().info(self.own_cluster_as_hub())
        };
        self.say(&info.line());
    }

    /// Compat: a hub that is no cluster's says no name, even if it is a leaf node of others.
    fn own_cluster_as_hub(&self) -> String {
        self.own_cluster()
    }

    /// INFO of the server that has dialled, which only says how it compresses.
    pub(super) fn info_of_dialler(&mut self, json: &[u8], now: Instant) -> Result<(), CloseReason> {
        let info = self.parse_info(json)?;
        self.heard.has_info = true;
        if self.has_agreed() {
            if info.connect_info || !info.remote_account.is_empty() {
                self.say(b"-ERR 'Authorization Violation'\r\n");
                return Err(CloseReason::ProtocolViolation);
            }
            return Ok(());
        }
        if self.negotiates(&info, now)? {
            let timeout = self.nodes().config().auth_timeout;
            self.timers.greeted(Some(timeout), now);
        }
        Ok(())
    }

    /// INFO of a leaf node behind its CONNECT. Compat: of the first nothing is heeded, of others
    /// only whether the cluster has a name that can be.
    pub(super) fn info_of_leaf_node(&mut self, info: &PeerInfo) -> Result<(), CloseReason> {
        let is_first = !std::mem::replace(&mut self.heard.has_info, true);
        match check_cluster(&info.cluster) {
            Err(text) if !is_first => {
                self.fail(format_args!("cluster name {text}"));
                Err(CloseReason::ProtocolViolation)
            }
            _ => Ok(()),
        }
    }

    /// Whether the leaf node has said enough of itself for another link of it to be known as such.
    pub(super) fn may_have_duplicates(&self) -> bool {
        let facts = self.known().facts();
        self.dial.is_none() && !facts.name.is_empty() && !facts.remote_account.is_empty()
    }

    pub(super) fn parse_info(&self, json: &[u8]) -> Result<PeerInfo, CloseReason> {
        PeerInfo::parse(json).map_err(|error| {
            self.log(Level::Error, format_args!("Error reading INFO: {error}"));
            CloseReason::ProtocolViolation
        })
    }

    /// CONNECT of a leaf node.
    pub(super) fn connect(&mut self, shard: &mut Shard, json: &[u8], now: Instant) -> Step {
        let connect = LeafConnect::parse(json).map_err(|error| {
            self.log(Level::Error, format_args!("Error reading CONNECT: {error}"));
            CloseReason::ProtocolViolation
        })?;
        let user = blamed(&connect).map_or("", |(_, user)| user);
        self.link.leaf_introduced(&connect.name, &connect.version, user);
        // Compat: nobody chooses an account by its name.
        if !connect.account.is_empty() {
            return Err(self.deny_login(&connect, None));
        }
        let own = |text: &String| (!text.is_empty()).then(|| text.clone());
        let credentials = Credentials {
            user: own(&connect.user),
            pass: own(&connect.pass).map(Secret::new),
            token: own(&connect.auth_token).map(Secret::new),
            jwt: own(&connect.jwt).map(Secret::new),
            nkey: own(&connect.nkey),
            sig: own(&connect.sig),
            proxy_signature: own(&connect.proxy_sig),
            certificate: self.tls.certificate.clone(),
        };
        let auth = self.nodes().config().auth.clone();
        let elapsed = now.saturating_duration_since(self.timers.opened());
        // Compat: a callout service is told neither cluster nor domain, nor the account over there.
        let client_info = ClientInfo {
            id: self.link.conn().cid(),
            name: connect.name.clone(),
            lang: connect.lang.clone(),
            version: connect.version.clone(),
            protocol: i64::from(connect.protocol),
            tls: None,
        };
        let shown = (credentials, self.nonce.clone());
        let login = LeafLogin::new(self.broker(), self.link.conn(), auth, shown, client_info, elapsed);
        if login.is_slow() {
            self.state = LeafPhase::Checking(Box::new(connect));
            self.timers.named();
            return Ok(LeafStep::Check(Box::new(login)));
        }
        let outcome = login.run_at_once();
        self.logged_in(shard, &connect, outcome, now)?;
        Ok(LeafStep::On)
    }

    /// The credentials of a leaf node were checked.
    pub(super) fn logged_in(
        &mut self,
        shard: &mut Shard,
        connect: &LeafConnect,
        outcome: Result<Identity, Reject>,
        now: Instant,
    ) -> Result<(), CloseReason> {
        let identity = outcome.map_err(|reject| {
            if reject.is_reported() {
                self.log(Level::Debug, format_args!("{reject}"));
            }
            self.deny_login(connect, Some(&reject))
        })?;
        let Some(account) = self.broker().account(&self.account_of(&identity)) else {
            return Err(self.deny_login(connect, None));
        };
        self.known().update(|facts| facts.account = account.name().to_owned());
        self.check_connect(connect)?;
        let is_new = account.enter_as_leaf_node();
        if !is_new {
            self.fail(format_args!("maximum account active connections exceeded"));
            return Err(CloseReason::MaximumAccountConnections);
        }
        self.is_counted = true;
        self.note(connect, account.name(), &identity);
        self.link.meet(&connect.name, connect.protocol >= TRACING_PROTOCOL);
        self.admission = LeafAdmission::of(&identity, &connect.deny_pub);
        self.reckon_expiry();
        let role = self.role();
        let denials = self.denials_of_dialler(&account);
        let permissions = self.permissions_for(identity.permissions.clone(), denials)?;
        match self.nodes().enter(self.known()) {
            LeafEntry::Stopping => return Err(CloseReason::ServerShutdown),
            LeafEntry::Replaced => {
                self.log(Level::Warn, format_args!("Replacing connection from same server"));
            }
            LeafEntry::New => {}
        }
        self.link.leaf_logged_in(&connect.version, &account, &identity);
        self.log_domains(&account);
        self.say_permissions(identity.permissions.as_deref());
        let terms = LeafTerms {
            role,
            is_isolated: self.known().facts().is_isolated,
            cluster: connect.cluster.clone(),
            permissions,
        };
        let headers = self.nodes().config().headers && connect.headers;
        self.announcing = Some(self.link.begin_leaf(&account, terms, headers));
        self.is_ready_now(now);
        shard.flush_link(self.link.conn());
        Ok(())
    }

    /// Notes what a leaf node has said of itself.
    fn note(&self, connect: &LeafConnect, account: &str, identity: &Identity) {
        self.known().update(|facts| {
            facts.name.clone_from(&connect.name);
            facts.cluster.clone_from(&connect.cluster);
            facts.domain.clone_from(&connect.domain);
            facts.account = account.to_owned();
            facts.remote_account.clone_from(&connect.remote_account);
            facts.is_spoke = connect.is_hub;
            facts.asked_compression.clone_from(&connect.compress_mode);
            facts.is_isolated |= connect.isolate;
            facts.proxy = identity.proxy.as_ref().map(|key| key.to_string());
            if facts.compression.is_empty() {
                let mode =
                    if connect.compress_mode.is_empty() { "not supported" } else { &connect.compress_mode };
                mode.clone_into(&mut facts.compression);
            }
        });
    }

    /// Where nobody has to log in, leaf nodes may have an account of their own.
    fn account_of(&self, identity: &Identity) -> String {
        let config = self.nodes().config();
        let is_open = config.auth.is_none() && matches!(self.broker().auth().method, Method::Open);
        let default = config.default_account.clone().filter(|_| is_open);
        default.unwrap_or_else(|| identity.account.as_str().to_owned())
    }

    fn deny_login(&self, connect: &LeafConnect, reject: Option<&Reject>) -> CloseReason {
        match blamed(connect) {
            Some((what, name)) => {
                self.log(Level::Error, format_args!("authentication error - {what} {name:?}"));
            }
            None => self.log(Level::Error, format_args!("authentication error")),
        }
        self.say(b"-ERR 'Authorization Violation'\r\n");
        self.link.leaf_refused(reject, &connect.jwt)
    }

    /// Ends the link of a leaf node that has said something else before its login.
    pub(super) fn deny_stranger(&self) -> CloseReason {
        self.log(Level::Error, format_args!("authentication error"));
        self.say(b"-ERR 'Authorization Violation'\r\n");
        if self.dial.is_some() {
            return CloseReason::AuthenticationFailure;
        }
        self.link.leaf_refused(None, "")
    }

    /// Whether what a leaf node says of itself can be.
    fn check_connect(&self, connect: &LeafConnect) -> Result<(), CloseReason> {
        if !connect.lang.is_empty() {
            self.fail(format_args!("attempted to connect to leaf node port"));
            return Err(CloseReason::WrongPort);
        }
        if let Err(text) = check_cluster(&connect.cluster) {
            self.fail(format_args!("cluster name {text}"));
            return Err(CloseReason::ProtocolViolation);
        }
        let own = self.own_cluster();
        if !own.is_empty() && own == connect.cluster {
            self.fail(format_args!("remote leafnode has same cluster name"));
            return Err(CloseReason::ClusterNamesIdentical);
        }
        if !connect.gateway.is_empty() {
            let name = &connect.gateway;
            self.fail(format_args!("Rejecting connection from gateway {name:?} on the leafnode port"));
            return Err(CloseReason::WrongGateway);
        }
        let oldest = self.nodes().config().min_version;
        if let Some(oldest) = oldest
            && version_numbers(&connect.version).is_none_or(|version| version < oldest)
        {
            let [major, minor, patch] = oldest;
            // Compat: INFO comes first, so that the other side knows what the error is about.
            self.say_permissions(None);
            let text = format_args!("\"{major}.{minor}.{patch}\"");
            self.fail(format_args!("connection rejected since minimum version required is {text}"));
            return Err(CloseReason::MinimumVersionRequired);
        }
        Ok(())
    }

    /// Answers CONNECT: what may cross the link.
    fn say_permissions(&self, permissions: Option<&Permissions>) {
        let info = PeerInfo { connect_info: true, ..self.info_of_permissions(permissions) };
        self.say(&info.line());
    }

    /// Says on a link that is there what may cross it from now on.
    pub(super) fn say_other_permissions(&self, permissions: Option<&Permissions>) {
        let mut info = self.info_of_permissions(permissions);
        if info.import.is_none() && info.export.is_none() {
            // Compat: without a word the other side keeps what it has heard before.
            let all = || Some(SubjectFilter { allow: Some(vec![">".to_owned()]), deny: None });
            (info.import, info.export) = (all(), all());
        }
        self.say(&info.line());
    }

    fn info_of_permissions(&self, permissions: Option<&Permissions>) -> PeerInfo {
        let (account, is_system) = {
            let name = self.known().facts().account;
            let system = self.broker().account(&name).is_some_and(|account| account.is_system());
            (name, system)
        };
        let filter = |rules: SubjectRules| {
            let list = |list: Vec<String>| (!list.is_empty()).then_some(list);
            let filter = SubjectFilter { allow: list(rules.allow), deny: list(rules.deny) };
            (filter != SubjectFilter::default()).then_some(filter)
        };
        PeerInfo {
            client_id: self.link.conn().cid(),
            remote_account: account,
            acc_is_sys: is_system,
            import: permissions.and_then(|permissions| filter(permissions.subscribe_rules())),
            export: permissions.and_then(|permissions| filter(permissions.publish_rules())),
            ..self.nodes().info(self.own_cluster_as_hub())
        }
    }

    /// Subjects that the link does not carry where the other side has dialled, with those that it
    /// has said not to want.
    pub(super) fn denials_of_dialler(&self, account: &Account) -> LeafDenials {
        let mut denials = self.denials(account);
        denials.not_sent.extend(self.admission.declined().iter().cloned());
        denials
    }

    /// Subjects of JetStream that the link does not carry. Compat: a hub takes those that it does
    /// not ask for.
    pub(super) fn denials(&self, account: &Account) -> LeafDenials {
        let (config, domain) = (self.nodes().config(), self.known().facts().domain);
        let mut denials = config.jetstream.denials(account, &domain);
        if self.role() == LeafRole::Hub {
            denials.not_asked = std::mem::take(&mut denials.not_taken);
        }
        denials
    }

    /// Permissions of the link, of what is granted to the server that has dialled.
    pub(super) fn permissions_for(
        &self,
        granted: Option<Arc<Permissions>>,
        denials: LeafDenials,
    ) -> Result<LeafPermissions, CloseReason> {
        let dialler = if self.dial.is_some() { LeafDialler::Here } else { LeafDialler::There };
        LeafPermissions::new(dialler, granted, denials).map_err(|error| {
            self.log(Level::Error, format_args!("{error}"));
            CloseReason::ProtocolViolation
        })
    }
}
