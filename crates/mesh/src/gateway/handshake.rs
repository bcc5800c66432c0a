//! The handshake of a link between clusters: INFO of who accepts, CONNECT and INFO of who has
//! dialled.

use super::session::{GatewayPhase, GatewaySession, Step};
use crate::members::is_kin;
use crate::names::{check_cluster, check_word};
use crate::session::LinkSession;
use myelin_broker::{GatewaySide, GatewayTerms, Level};
use myelin_wire::error::CloseReason;
use myelin_wire::peer::TRACING_PROTOCOL;
use myelin_wire::peer::gateway::{ALL_SUBS_COMPLETE, ALL_SUBS_START, GOSSIP};
use myelin_wire::peer::info::{PeerConnect, PeerInfo};
use std::time::Instant;

impl GatewaySession {
    /// Says what can be said before the other side has said anything.
    pub(super) fn begin(&mut self, now: Instant) {
        match self.dial() {
            Some((remote, _)) => {
                let name = remote.name().to_owned();
                self.timers.greeted(None, now);
                self.log(Level::Info, format_args!("Creating outbound gateway connection to {name:?}"));
            }
            None => {
                self.timers.greeted(Some(self.gateways().config().auth_timeout), now);
                self.log(Level::Info, format_args!("Processing inbound gateway connection"));
                self.told = self.gateways().info().line();
                self.say(&self.told);
            }
        }
    }

    fn parse_info(&self, json: &[u8]) -> Result<PeerInfo, CloseReason> {
        PeerInfo::parse(json).map_err(|error| {
            self.log(Level::Error, format_args!("Error reading INFO: {error}"));
            CloseReason::ProtocolViolation
        })
    }

    /// CONNECT of the server that has dialled.
    pub(super) fn connect(&mut self, json: &[u8], now: Instant) -> Step {
        let connect = PeerConnect::parse(json).map_err(|error| {
            self.log(Level::Error, format_args!("Error reading CONNECT: {error}"));
            CloseReason::ProtocolViolation
        })?;
        let config = self.gateways().config();
        let note = |line: std::fmt::Arguments<'_>| self.log(Level::Debug, line);
        if !config.admits(&connect, self.certificate.as_deref(), &note) {
            return Err(self.refuse_login());
        }
        if connect.gateway.is_empty() {
            self.fail(format_args!("attempted to connect to gateway port"));
            return Err(CloseReason::WrongPort);
        }
        if let Err(text) = check_cluster(&connect.gateway) {
            self.fail(format_args!("gateway name {text}"));
            return Err(CloseReason::WrongGateway);
        }
        if config.rejects_unknown && self.gateways().remote(&connect.gateway).is_none() {
            let (name, own) = (&connect.gateway, &config.info.gateway);
            self.log(Level::Error, format_args!("Rejecting connection from gateway {name:?}"));
            self.say(format!("-ERR 'Connection to gateway {own:?} rejected'\r\n").as_bytes());
            return Err(CloseReason::WrongGateway);
        }
        self.known().update(|facts| facts.gateway.clone_from(&connect.gateway));
        self.timers.greeted(None, now);
        self.state = GatewayPhase::AwaitInfo;
        Ok(())
    }

    /// Ends a link that has not logged in as it should.
    pub(super) fn refuse_login(&self) -> CloseReason {
        self.log(Level::Error, format_args!("authentication error"));
        self.say(b"-ERR 'Authorization Violation'\r\n");
        CloseReason::AuthenticationFailure
    }

    /// INFO of the other side.
    pub(super) fn info(&mut self, json: &[u8], now: Instant) -> Step {
        let info = self.parse_info(json)?;
        let is_first = matches!(self.state, GatewayPhase::AwaitInfo);
        match self.dial() {
            Some(_) => self.info_of_dialled(&info, is_first, now),
            None if is_first && !info.route_account.is_empty() => self.hand_over(&info, now),
            None if is_first => self.info_of_dialler(&info, now),
            // Compat: nothing that comes later is heeded.
            None => Ok(()),
        }
    }

    /// INFO of the server that was dialled.
    fn info_of_dialled(&mut self, info: &PeerInfo, is_first: bool, now: Instant) -> Step {
        let Some((remote, _)) = self.dial() else { return Ok(()) };
        let (remote, name) = (remote.clone(), remote.name().to_owned());
        let config = self.gateways().config();
        if info.gateway.is_empty() {
            self.fail(format_args!("Attempt to connect to gateway {name:?} using wrong port"));
            return Err(CloseReason::WrongPort);
        }
        if info.gateway != name {
            if !is_first && info.gateway_cmd == GOSSIP {
                self.gateways().hear_gossip(info);
                return Ok(());
            }
            let (other, own) = (&info.gateway, &config.info.gateway);
            let line =
                format_args!("Failing connection to gateway {name:?}, remote gateway name is {other:?}");
            self.log(Level::Error, line);
            let text =
                format!("Connection from {own:?} rejected, wanted to connect to {name:?}, this is {other:?}");
            self.say(format!("-ERR '{text}'\r\n").as_bytes());
            return Err(CloseReason::WrongGateway);
        }
        if !is_first && info.gateway_cmd > 0 {
            return self.command(info);
        }
        self.check_server(info)?;
        let is_news = remote.replace(&info.gateway_urls);
        if is_first {
            self.greet_back(info, now)?;
        }
        self.gateways().hear_of_members(info);
        if is_first || is_news {
            self.gateways().tell_cluster(&info.gateway, &remote.addresses());
        }
        Ok(())
    }

    /// A command about an account.
    fn command(&mut self, info: &PeerInfo) -> Step {
        let what = match info.gateway_cmd {
            ALL_SUBS_START => "start",
            ALL_SUBS_COMPLETE => "complete",
            other => {
                let name = &info.gateway;
                let line = format_args!("Received unknown command {other} from gateway {name:?}");
                self.broker().complain(Level::Warn, self.link.conn(), "Unknown gateway command", line);
                return Ok(());
            }
        };
        let Some(account) = info.command_account() else {
            self.fail(format_args!("Account absent from receive-all-subscriptions-{what} command"));
            return Err(CloseReason::ProtocolViolation);
        };
        let is_complete = info.gateway_cmd == ALL_SUBS_COMPLETE;
        let (name, done) = (&info.gateway, if is_complete { " complete" } else { "" });
        let line =
            format_args!("Gateway {name:?}: switching account {account:?} to Interest-Only mode{done}");
        self.log(Level::Debug, line);
        self.link.all_interest_follows(&account, is_complete);
        Ok(())
    }

    /// Whether the other server can be one of another cluster.
    fn check_server(&self, info: &PeerInfo) -> Step {
        if let Err(text) = check_word(&info.id).and(check_word(&info.name)) {
            self.fail(format_args!("Rejecting connection, server name {:?} {text}", info.name));
            return Err(CloseReason::ProtocolViolation);
        }
        if self.gateways().is_name_taken(&info.name) {
            let line = format_args!("Remote server has a duplicate name: {:?}", info.name);
            self.log(Level::Error, line);
            return Err(CloseReason::DuplicateServerName);
        }
        Ok(())
    }

    /// The first INFO of the server that was dialled is answered, and the link is there.
    fn greet_back(&mut self, info: &PeerInfo, now: Instant) -> Step {
        let (gateways, name) = (self.gateways().clone(), info.gateway.clone());
        let connect = gateways.connect(self.dial().and_then(|(_, url)| url.login.clone()));
        self.say(&connect.line());
        self.log(Level::Debug, format_args!("Gateway connect protocol sent to {name:?}"));
        self.say(&gateways.info().line());
        self.meet(info);
        if !gateways.enter_outbound(self.known(), &name) {
            self.dials_again = false;
            return Err(CloseReason::WrongGateway);
        }
        self.is_ready_now(info, GatewaySide::Outbound, now);
        self.log(
            Level::Info,
            format_args!("Outbound gateway connection to {name:?} ({}) registered", info.id),
        );
        Ok(())
    }

    /// The link is for an internal account: another kind of session goes on with it.
    fn hand_over(&mut self, info: &PeerInfo, now: Instant) -> Step {
        let Some(mesh) = self.gateways().mesh() else { return Err(CloseReason::WrongPort) };
        let facts = self.known().facts();
        let told = (facts.gateway.as_str(), facts.key.as_str());
        let session = LinkSession::open_foreign(&mesh, self.broker(), self.link.conn(), told, now);
        self.successor.insert(Box::new(session)).hear_foreign(info, now)
    }

    /// The INFO of the server that has dialled.
    fn info_of_dialler(&mut self, info: &PeerInfo, now: Instant) -> Step {
        self.check_server(info)?;
        // Safer than the reference: a cluster that may come in says no other name behind it.
        let claimed = self.known().facts().gateway;
        if info.gateway != claimed {
            let (name, other) = (&claimed, &info.gateway);
            self.fail(format_args!("Rejecting connection from gateway {name:?}, its INFO is of {other:?}"));
            return Err(CloseReason::WrongGateway);
        }
        self.meet(info);
        let told = std::mem::take(&mut self.told);
        if !self.gateways().enter_inbound(self.known(), &told) {
            return Err(CloseReason::ServerShutdown);
        }
        self.is_ready_now(info, GatewaySide::Inbound, now);
        let name = &info.gateway;
        self.log(
            Level::Info,
            format_args!("Inbound gateway connection from {name:?} ({}) registered", info.id),
        );
        self.gateways().hear_of(name, &info.gateway_urls);
        self.gateways().gossip_to(self.known());
        Ok(())
    }

    fn meet(&mut self, info: &PeerInfo) {
        self.known().update(|facts| {
            facts.server_id.clone_from(&info.id);
            facts.server_name.clone_from(&info.name);
        });
        self.link.meet(&info.name, info.proto >= TRACING_PROTOCOL);
        if is_kin(info) {
            self.link.meet_kin();
        }
    }

    /// The handshake is over.
    fn is_ready_now(&mut self, info: &PeerInfo, side: GatewaySide, now: Instant) {
        self.is_trusted();
        let headers = self.gateways().config().info.headers && info.headers;
        let terms = GatewayTerms { name: info.gateway.clone(), side, tells_all: info.gateway_iom };
        // The other side of an inbound link is told its headers by no message.
        self.announcing = self.link.begin_gateway(terms, headers);
        self.timers.ready(now);
        self.state = GatewayPhase::Ready;
    }
}
