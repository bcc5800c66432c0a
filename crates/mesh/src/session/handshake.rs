//! The handshake of a link: CONNECT and INFO, and the place that comes of it.

use super::{HANDSHAKE_PAYLOAD, LARGEST, LONGEST_LINE, LinkPhase, LinkSession, Step};
use crate::certificate::PeerCertificate;
use crate::members::is_kin;
use crate::names::{check_cluster, check_word};
use crate::peers::{Entered, Refused};
use myelin_broker::{Level, Shard};
use myelin_wire::error::CloseReason;
use myelin_wire::peer::TRACING_PROTOCOL;
use myelin_wire::peer::info::{PeerConnect, PeerInfo};
use std::time::Instant;

impl LinkSession {
    /// Notes the certificate that the other side has shown.
    pub(super) fn note_certificate(&mut self, shown: PeerCertificate) {
        self.certificate = Some(shown.names);
        self.known.update(|facts| facts.key = Some(shown.key));
    }

    /// Says what can be said before the other side has said anything.
    pub fn greet(&mut self, shard: &mut Shard, now: Instant) {
        let config = self.mesh.config();
        let needs_login = !self.making.did_solicit && config.login.is_some();
        self.timers.greeted(needs_login.then_some(config.auth_timeout), now);
        if !self.is_foreign() {
            self.say_first();
        }
        shard.flush_link(self.conn());
    }

    fn say_first(&self) {
        let facts = self.known.facts();
        if !self.making.did_solicit {
            self.log(Level::Info, format_args!("Route connection created"));
            self.say_info(0);
            return;
        }
        self.log(Level::Debug, format_args!("Route connect msg sent"));
        let (cluster, cluster_dynamic) = self.mesh.cluster();
        let config = self.mesh.config();
        let (user, pass) = facts.url.and_then(|url| url.login).unwrap_or_default();
        let connect = PeerConnect {
            echo: true,
            user,
            pass,
            tls_required: config.info.tls_required,
            headers: config.info.headers,
            name: config.info.id.clone(),
            cluster,
            cluster_dynamic,
            lnoc: true,
            ln: true,
            ..PeerConnect::default()
        };
        self.link.say(&connect.line());
        self.log(Level::Info, format_args!("Route connection created"));
        if !self.holds_info_back() {
            self.say_info(0);
        }
    }

    /// Whether INFO has to wait for the place that the link gets.
    fn holds_info_back(&self) -> bool {
        let is_pooled = self.mesh.config().pool_size > 0 && self.known.facts().account.is_none();
        self.making.did_solicit && !self.is_foreign() && (is_pooled || self.may_compress())
    }

    pub(super) fn say_info(&self, place: usize) {
        let account = self.known.facts().account;
        let mut info = self.mesh.info(place, account.as_deref(), self.making.mode);
        self.compression_name().clone_into(&mut info.compression);
        if !self.making.did_solicit {
            info.nonce = self.link.nonce();
        }
        self.link.say(&info.line());
    }

    /// CONNECT of the server that has dialled.
    pub(super) fn connect(&mut self, json: &[u8]) -> Step {
        let connect = PeerConnect::parse(json).map_err(|error| {
            self.log(Level::Error, format_args!("Error reading CONNECT: {error}"));
            CloseReason::ProtocolViolation
        })?;
        if !connect.lang.is_empty() {
            self.fail(format_args!("attempted to connect to route port"));
            return Err(CloseReason::WrongPort);
        }
        let note = |line: std::fmt::Arguments<'_>| self.log(Level::Debug, line);
        if !self.mesh.config().admits(&connect, self.certificate.as_deref(), &note) {
            self.log(Level::Error, format_args!("authentication error"));
            self.link.say(b"-ERR 'Authorization Violation'\r\n");
            return Err(CloseReason::AuthenticationFailure);
        }
        if !connect.gateway.is_empty() {
            let name = &connect.gateway;
            self.fail(format_args!("Rejecting connection from gateway {name:?} on the Route port"));
            return Err(CloseReason::WrongPort);
        }
        if let Err(text) = check_cluster(&connect.cluster) {
            let name = &connect.cluster;
            self.fail(format_args!("Rejecting connection, cluster name {name:?} {text}"));
            return Err(CloseReason::ClusterNameConflict);
        }
        if !self.mesh.agrees(&connect.cluster, connect.cluster_dynamic, &connect.name) {
            let (name, own) = (&connect.cluster, self.mesh.cluster().0);
            self.fail(format_args!("Rejecting connection, cluster name {name:?} does not match {own:?}"));
            return Err(CloseReason::ClusterNameConflict);
        }
        self.login = Some((connect.user, connect.pass));
        self.timers.named();
        self.limits.max_payload = HANDSHAKE_PAYLOAD;
        self.limits.names_origin = connect.lnocu || connect.ln;
        self.state = LinkPhase::AwaitInfo;
        Ok(())
    }

    /// The first INFO: now it is known who the other side is.
    pub(super) fn first_info(&mut self, json: &[u8], now: Instant) -> Step {
        let info = self.parse_info(json)?;
        match self.is_foreign() {
            true => self.hear_foreign(&info, now),
            false => self.first_info_of_route(&info, now),
        }
    }

    fn first_info_of_route(&mut self, info: &PeerInfo, now: Instant) -> Step {
        let config = self.mesh.config();
        self.known.update(|facts| {
            facts.remote_id.clone_from(&info.id);
        });
        if info.id == config.info.id {
            let dialled = self.known.facts().url.filter(|_| self.making.did_solicit);
            dialled.iter().for_each(|url| self.mesh.leads_to_self(url));
            return Err(CloseReason::DuplicateRoute);
        }
        self.check_names(info)?;
        if check_cluster(&info.cluster).is_err()
            || !info.cluster.is_empty() && !self.mesh.agrees(&info.cluster, info.cluster_dynamic, &info.id)
        {
            return Err(CloseReason::ClusterNameConflict);
        }
        let did_solicit = self.making.did_solicit;
        if !did_solicit && info.name == config.info.name {
            let line = format_args!("Remote server has a duplicate name: {:?}", info.name);
            self.log(Level::Error, line);
            return Err(CloseReason::DuplicateServerName);
        }
        if config.info.shares_jetstream_in_vain(info) {
            let name = &info.name;
            self.fail(format_args!(
                "JetStream of server {name:?} is not Myelin's, and cannot share a cluster and a domain with it"
            ));
            return Err(CloseReason::ProtocolViolation);
        }
        if self.negotiates(info, now)? {
            return Ok(());
        }
        let met_at = self.met_at(info);
        let account = self.known.update(|facts| {
            facts.remote_name.clone_from(&info.name);
            facts.url = facts.url.take().or(met_at);
            if !did_solicit && !info.route_account.is_empty() {
                facts.account = Some(info.route_account.clone());
            }
            facts.account.clone()
        });
        if !did_solicit {
            self.check_account(account.as_deref())?;
        }
        let mut said = info.clone();
        if did_solicit {
            said.route_account = account.clone().unwrap_or_default();
        }
        let entered = self.mesh.enter(&self.known, said, self.making);
        self.begin_if_entered(entered, (info, account), now)
    }

    /// Whether another server may be called as it says.
    pub(super) fn check_names(&self, info: &PeerInfo) -> Step {
        let fits = check_word(&info.id).and(check_word(&info.name));
        fits.map_err(|text| {
            self.fail(format_args!("Rejecting connection, server name {:?} {text}", info.name));
            CloseReason::ProtocolViolation
        })
    }

    /// Whether the account is here that the other side wants the link for.
    fn check_account(&self, account: Option<&str>) -> Step {
        let Some(account) = account.filter(|account| !self.mesh.config().is_internal(Some(account))) else {
            return Ok(());
        };
        if self.link.broker().account(account).is_some() {
            return Ok(());
        }
        self.known.update(|facts| facts.is_surplus = true);
        self.fail(format_args!("Unable to lookup account {account:?}: account missing"));
        Err(CloseReason::MissingAccount)
    }

    /// The link goes on if it has got a place.
    pub(super) fn begin_if_entered(
        &mut self,
        entered: Result<Entered, Refused>,
        (info, account): (&PeerInfo, Option<String>),
        now: Instant,
    ) -> Step {
        match entered {
            Ok(entered) => self.begin(entered, info, account, now),
            Err(Refused::Protocol(text)) => {
                self.fail(format_args!("{text}"));
                Err(CloseReason::ProtocolViolation)
            }
            Err(Refused::Duplicate) => {
                self.log(Level::Debug, format_args!("Detected duplicate remote route {:?}", info.id));
                Err(CloseReason::DuplicateRoute)
            }
        }
    }

    /// The link has its place.
    fn begin(&mut self, entered: Entered, info: &PeerInfo, account: Option<String>, now: Instant) -> Step {
        if self.holds_info_back() {
            self.say_info(entered.place);
        }
        self.known.is_introduced();
        self.limits.max_line = LONGEST_LINE;
        self.limits.max_payload = LARGEST;
        self.limits.is_dedicated = account.is_some();
        self.limits.names_origin = info.lnocu || info.ln;
        if !self.is_foreign() {
            self.link.set_server(&info.id);
        }
        self.link.meet(&info.name, info.proto >= TRACING_PROTOCOL);
        if is_kin(info) {
            self.link.meet_kin();
        }
        let config = self.mesh.config();
        // What is configured is about clients.
        let rules = config.permissions.as_ref().filter(|_| !config.is_internal(account.as_deref()));
        self.rules = rules.cloned();
        self.link.set_rules(self.rules.clone());
        self.note_filters(info);
        self.spread.dedicated.clone_from(&config.dedicated);
        self.spread.their_pool = u32::try_from(info.route_pool_size).unwrap_or(0);
        let headers = config.info.headers && info.headers;
        match self.link.begin(entered.scope, headers) {
            Ok(announcing) => self.announcing = Some(announcing),
            Err(text) => {
                self.fail(format_args!("{text}"));
                return Err(CloseReason::MissingAccount);
            }
        }
        match account {
            Some(account) => self.log(
                Level::Debug,
                format_args!("Registering remote route {:?} for account {account:?}", info.id),
            ),
            None => self.log(Level::Debug, format_args!("Registering remote route {:?}", info.id)),
        }
        self.timers.ready(now);
        if !entered.next.is_empty() {
            // Its PONG shows that the other side has let this server in.
            self.link.say(b"PING\r\n");
            self.link.log_out("PING");
            self.timers.pinged(now);
        }
        self.dial_place = None;
        self.mesh.tell_of_gateways(&self.known);
        self.state = LinkPhase::Ready(entered.next);
        Ok(())
    }
}
