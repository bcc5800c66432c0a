//! The handshake: INFO, CONNECT, credentials to identity, account limits.

use super::json::connect_fault;
use super::label::{Login, label};
use super::{OpOutcome, Ready, Session, SessionState, SessionStatus};
use crate::account::Account;
use crate::broker::Broker;
use crate::callout::PendingCallout;
use crate::conn_details::TlsDetails;
use crate::kept_details::KeptDetails;
use crate::log::Level;
use crate::settings::Settings;
use crate::shard::Shard;
use crate::token_ends::{FOREVER, TokenEnds};
use myelin_auth::callout::{CalloutGrant, ClientInfo};
use myelin_auth::operator::{ClaimedUser, ClaimsFault};
use myelin_auth::{
    Attempt, AuthConfig, ConnectionType, Credentials, Decision, Identity, Method, Reject, Secret,
    authenticate,
};
use myelin_wire::connect::Connect;
use myelin_wire::error::{CloseReason, ErrorText, Quoted};
use myelin_wire::info::Info;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Credentials on their way to an identity. May take 100 ms (bcrypt), or as long as it takes to ask
/// for an account: run it off the data path.
pub struct AuthTask {
    broker: Arc<Broker>,
    config: Arc<AuthConfig>,
    credentials: Credentials,
    nonce: Box<str>,
    peer: IpAddr,
    now: SystemTime,
    via: ConnectionType,
    /// Information for a callout service beside the credentials.
    client_info: ClientInfo,
}

/// Result of checking credentials.
#[derive(Debug)]
pub enum Checked {
    /// Identity of the client, or why it has none: for [`Session::authenticated`].
    Final(Result<Identity, Reject>),
    /// A callout service decides: see [`PendingCallout`].
    AskCallout(Box<PendingCallout>),
}

impl AuthTask {
    /// Whether checking takes longer than a look into a table.
    pub(super) fn is_slow(&self) -> bool {
        self.rules().is_slow(&self.credentials, self.via)
    }

    /// Whether checking may wait for another machine.
    pub fn may_wait(&self) -> bool {
        self.broker.may_wait_for_account(self.rules(), &self.credentials, self.now)
    }

    /// Rules of the listener by which the connection came.
    fn rules(&self) -> &AuthConfig {
        self.config.at(self.via)
    }

    /// Checks the credentials.
    pub fn run(self) -> Checked {
        let attempt = Attempt {
            credentials: &self.credentials,
            via: self.via,
            nonce: &self.nonce,
            peer: self.peer,
            now: self.now,
            entropy: self.broker.entropy(),
        };
        match authenticate(self.rules(), &attempt, &*self.broker) {
            Decision::Final(outcome) => Checked::Final(outcome),
            Decision::AskCallout(question) => {
                match PendingCallout::new(&self.broker, question, self.client_info) {
                    Ok(asking) => Checked::AskCallout(Box::new(asking)),
                    Err(reject) => Checked::Final(Err(reject)),
                }
            }
        }
    }

    /// Checks credentials where that takes no longer than a look into a table, and so no callout
    /// service is to be asked.
    pub(super) fn run_at_once(self) -> Result<Identity, Reject> {
        match self.run() {
            Checked::Final(outcome) => outcome,
            Checked::AskCallout(asking) => Err(asking.unanswered()),
        }
    }
}

impl fmt::Debug for AuthTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuthTask")
    }
}

/// Connection as the first INFO describes it. It was decided when the connection was accepted, and
/// so may differ from what a reload has decided since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Greeting {
    /// The client has to begin a TLS handshake, or has done so.
    pub tls_required: bool,
    /// The client may begin a TLS handshake.
    pub tls_available: bool,
    /// The client has to show a certificate in the TLS handshake.
    pub tls_verify: bool,
    /// The client's address is not known yet: a proxy will say it.
    pub hides_ip: bool,
}

impl Session {
    /// Stages the first INFO.
    pub fn greet(&self, shard: &mut Shard, greeting: Greeting) {
        if self.mqtt.is_some() {
            return;
        }
        let info = self.info();
        let mut line = Info {
            nonce: self.nonce().to_owned(),
            auth_required: self.broker.auth().advertised_at(self.conn.via()),
            tls_required: greeting.tls_required,
            tls_available: greeting.tls_available,
            tls_verify: greeting.tls_verify,
            client_ip: if greeting.hides_ip { String::new() } else { info.client_ip },
            ..info
        };
        // The greeting is that of the clients' own listener.
        self.conn.websocket_origin().into_iter().for_each(|websocket_origin| {
            websocket_origin.show(&mut line, &self.broker.cluster.websocket_urls())
        });
        shard.stage_line(&self.conn, &line.line());
    }

    /// Begins the time to authenticate: all that had to come before the session has come, and no
    /// TLS with it.
    pub fn arrived(&mut self, shard: &Shard, now: Instant) {
        self.timers.expect_connect_from(shard.settings(), now, &self.conn);
    }

    /// Tells a client that there are too many who want to shake hands.
    pub fn throttle(&mut self, shard: &mut Shard) -> CloseReason {
        self.stage_error(shard, &ErrorText::ConnectionThrottling);
        CloseReason::MaximumConnections
    }

    /// The transport has become TLS. Compat: the time to authenticate begins with that.
    pub fn secured(&mut self, shard: &Shard, tls: TlsDetails, now: Instant) {
        let (version, suite) = (tls.version, &tls.cipher_suite);
        self.log(Level::Debug, format_args!("TLS handshake complete"));
        self.log(Level::Debug, format_args!("TLS version {version}, cipher suite {suite}"));
        self.conn.update_details(|details| details.set_tls(Box::new(tls)));
        self.timers.expect_connect_from(shard.settings(), now, &self.conn);
    }

    fn info(&self) -> Info {
        let mut info = Info {
            client_id: self.conn.cid(),
            client_ip: self.conn.endpoint().peer.ip().to_string(),
            ..self.broker.info()
        };
        self.conn.websocket_origin().into_iter().for_each(|websocket_origin| {
            websocket_origin.show(&mut info, &self.broker.cluster.websocket_urls())
        });
        info
    }

    /// INFO with what only a connected client learns: its account and its own limits.
    pub(super) fn personal_info(&self) -> Info {
        let info = Info {
            connect_info: true,
            auth_required: self.broker.auth().at(self.conn.via()).required(),
            max_payload: self.limits.max_payload.unwrap_or(self.broker.settings().max_payload),
            ..self.info()
        };
        match &self.state {
            SessionState::Ready(ready) => Info {
                remote_account: ready.account.name().to_owned(),
                acc_is_sys: ready.account.is_system(),
                ..info
            },
            _ => info,
        }
    }

    /// Tells this client alone that the server is in lame duck mode, so that it goes elsewhere.
    pub fn announce_lame_duck(&self, shard: &mut Shard) {
        if self.is_ready() && self.conn.accepts_async_info() {
            self.log(Level::Debug, format_args!("Sending Lame Duck Mode info to client"));
            let auth_required = self.broker.auth().at(self.conn.via()).required();
            // Compat: without what else only a connected client learns.
            let line = Info { ldm: true, auth_required, ..self.info() }.line();
            shard.stage_line(&self.conn, &line);
        }
    }

    /// Looks at the first byte of a client that has not authenticated. Anything but CONNECT ends
    /// it, unless there is a user for clients without credentials.
    pub(super) fn gate(&mut self, shard: &mut Shard, first: u8, now: Instant) -> Option<CloseReason> {
        if matches!(first, b'C' | b'c') {
            return None;
        }
        if self.anonymous().is_none() {
            return Some(self.violation(shard));
        }
        self.take_name_from_certificate();
        self.timers.connected(shard.settings(), now, &self.conn);
        match self.enter_anonymously(shard, now) {
            SessionStatus::Continue => {
                // Compat: this counts as CONNECT with the defaults.
                if let SessionState::Ready(ready) = &mut self.state {
                    ready.connected = true;
                }
                // Compat: and so a CONNECT that comes later does not name the client in the log.
                self.conn.set_label("");
                self.report_connected();
                None
            }
            SessionStatus::Close(reason) => Some(reason),
        }
    }

    /// Gives a client without CONNECT its identity, where that is allowed.
    pub(super) fn enter_anonymously(&mut self, shard: &mut Shard, now: Instant) -> SessionStatus {
        match self.anonymous() {
            Some(identity) => self.enter(shard, identity, now),
            None => SessionStatus::Close(self.violation(shard)),
        }
    }

    /// Identity of a client without credentials.
    fn anonymous(&self) -> Option<Identity> {
        let via = self.conn.via();
        self.broker.auth().at(via).anonymous_with(self.conn.certificate(), via)
    }

    /// Reports a client that CONNECT has let in.
    fn report_connected(&self) {
        if let (SessionState::Ready(ready), Some(client_events)) = (&self.state, self.broker.client_events())
        {
            client_events.connected(&self.conn, &ready.account);
        }
    }

    pub(super) fn violation(&self, shard: &mut Shard) -> CloseReason {
        self.deny_login(shard, CloseReason::AuthenticationFailure, None)
    }

    fn deny_login(&self, shard: &mut Shard, reason: CloseReason, by_service: Option<String>) -> CloseReason {
        match Login::of(&self.connect, self.login()).blame() {
            None => self.log(Level::Error, format_args!("authentication error")),
            Some(login) => self.log(Level::Error, format_args!("authentication error - {login}")),
        }
        if !self.deny_mqtt(shard) {
            self.stage_error(shard, &ErrorText::AuthorizationViolation);
        }
        if let Some(client_events) = self.broker.client_events() {
            let account = by_service.is_some().then(|| self.service_account()).flatten();
            client_events.auth_failed(&self.conn, reason, account.as_ref().zip(by_service));
        }
        reason
    }

    /// Compat: who had to come through a proxy is told nothing else, only counted as something
    /// else.
    pub(super) fn rejected(&self, shard: &mut Shard, reject: &Reject) -> CloseReason {
        self.log_reject(reject);
        self.deny_login(shard, close_reason(reject), by_service(reject))
    }

    fn service_account(&self) -> Option<Arc<Account>> {
        service_account(
            &self.broker,
            self.auth.at(self.conn.via()),
            self.connect.credential(|given| &given.jwt),
        )
    }

    pub(super) fn connect(&mut self, shard: &mut Shard, json: &[u8], now: Instant) -> OpOutcome {
        if self.connect.read(json).is_err() {
            return self.bad_json(&connect_fault(json));
        }
        if let Some(websocket_origin) = self.conn.websocket_origin() {
            websocket_origin.complete(&mut self.connect);
        }
        self.note_client_details(now);
        if matches!(&self.state, SessionState::Ready(ready) if ready.connected) {
            // A second CONNECT may lead to another account: nothing of the first may stay.
            shard.apply_counts();
            self.leave_account(shard);
        }
        self.check_credentials(shard, now)
    }

    /// Checks what CONNECT has said, here or where it may take long.
    pub(super) fn check_credentials(&mut self, shard: &mut Shard, now: Instant) -> OpOutcome {
        self.timers.connected(shard.settings(), now, &self.conn);
        let task = self.auth_task(now);
        if task.is_slow() {
            self.state = SessionState::Authenticating;
            self.timers.expect_verdict(shard.settings(), now, &self.conn);
            return OpOutcome::Authenticate(task);
        }
        match self.authenticated(shard, task.run_at_once(), now) {
            SessionStatus::Continue => OpOutcome::Continue,
            SessionStatus::Close(reason) => OpOutcome::Close(reason),
        }
    }

    /// The check of CONNECT's credentials by the rules now in force, which from here on count for
    /// this session.
    pub(super) fn auth_task(&mut self, now: Instant) -> Box<AuthTask> {
        self.auth = self.broker.auth();
        self.take_name_from_certificate();
        let certificate = self.conn.certificate();
        Box::new(AuthTask {
            broker: Arc::clone(&self.broker),
            config: Arc::clone(&self.auth),
            credentials: Credentials {
                certificate,
                ..credentials(&self.connect, self.auth.at(self.conn.via()), self.mqtt.is_some())
            },
            nonce: self.nonce().into(),
            via: self.conn.via(),
            peer: self.conn.endpoint().peer.ip(),
            now: self.clock(now),
            client_info: self.client_info(),
        })
    }

    /// Information for a callout service about this client, if there is any.
    fn client_info(&self) -> ClientInfo {
        let rules = self.auth.at(self.conn.via());
        if rules.callout.is_none() && rules.trust().is_none() {
            return ClientInfo::default();
        }
        let tls = self.conn.look(|details| details.tls().map(TlsDetails::for_callout));
        ClientInfo {
            id: self.conn.cid(),
            name: self.connect.name.to_string(),
            lang: self.connect.lang.to_string(),
            version: self.connect.version.to_string(),
            protocol: self.connect.protocol,
            tls,
        }
    }

    /// Where certificates name users, the client is from here on called by the name in its own.
    fn take_name_from_certificate(&mut self) {
        let via = self.conn.via();
        let rules = self.auth.at(via);
        let Method::Users(users) = &rules.method else { return };
        if !rules.maps(via) {
            return;
        }
        let Some(certificate) = self.conn.certificate() else {
            self.log(Level::Debug, format_args!("User required in cert, no TLS connection state"));
            return;
        };
        let (user, attempts) = certificate.find(users, via);
        attempts.iter().for_each(|attempt| self.log(Level::Debug, format_args!("{attempt}")));
        let Some(user) = user else { return };
        if !self.connect.user().is_empty() {
            let name = Quoted(self.connect.user().as_bytes());
            let what = format_args!("User {name} found in connect proto, but user required from cert");
            self.broker.log().write(Level::Warn, what);
        }
        let name = user.name.clone();
        self.connect.credentials.get_or_insert_default().user = name;
    }

    /// Nonce that INFO asks to be signed; empty where nothing is.
    fn nonce(&self) -> &str {
        self.nonce.as_deref().and_then(|nonce| std::str::from_utf8(nonce).ok()).unwrap_or_default()
    }

    /// The time of the day at `now`.
    pub(super) fn clock(&self, now: Instant) -> SystemTime {
        self.conn.endpoint().start + now.saturating_duration_since(self.timers.opened)
    }

    /// Whom the client was let in as.
    fn login(&self) -> Option<Login<'_>> {
        match &self.state {
            SessionState::Ready(ready) => ready.login(),
            _ => None,
        }
    }

    /// Says why somebody is not let in, where the reference does.
    pub(super) fn log_reject(&self, reject: &Reject) {
        if reject.is_about_service() {
            let level = if reject.is_warning() { Level::Warn } else { Level::Debug };
            self.broker.log().write(level, format_args!("{reject}"));
        } else if reject.is_reported() {
            let level = if reject.is_error() { Level::Error } else { Level::Debug };
            self.log(level, format_args!("{reject}"));
        }
    }

    /// When the credentials come to their end: the user's own, or those of its account.
    pub(super) fn expiry_of(
        &self,
        claims: Option<&ClaimedUser>,
        callout_grant: Option<&CalloutGrant>,
        now: Instant,
    ) -> Option<Instant> {
        let wall = self.clock(now);
        let left = |end: SystemTime| now + end.duration_since(wall).unwrap_or_default().min(FOREVER);
        TokenEnds::of(claims, callout_grant).first().map(|(end, _)| left(end))
    }

    /// Notes for monitoring what the client says of itself, whether it is let in or not.
    fn note_client_details(&self, now: Instant) {
        // Until a PING measures it, the time to CONNECT is what is known of the round trip.
        let estimate = now.duration_since(self.timers.opened);
        self.conn.update_details(|details| details.estimate_rtt(estimate));
        self.describe_client();
    }

    pub(super) fn describe_client(&self) {
        self.conn.update_details(|details| describe(details, &self.connect));
    }

    fn leave_account(&mut self, shard: &mut Shard) {
        if let SessionState::Ready(ready) = std::mem::replace(&mut self.state, SessionState::AwaitConnect) {
            let subs = self.conn.take_subscriptions();
            self.log_delsubs(&subs);
            ready.account.unsubscribe_all(&subs, Some(&mut *shard));
            self.leave(&ready.account);
            self.keep_ping_state(&ready);
        }
    }

    fn keep_ping_state(&mut self, ready: &Ready) {
        self.timers.first_ping_done = ready.connected && ready.first_ping_done;
    }

    /// Goes on after CONNECT's credentials were checked.
    pub fn authenticated(
        &mut self,
        shard: &mut Shard,
        outcome: Result<Identity, Reject>,
        now: Instant,
    ) -> SessionStatus {
        if let SessionState::Closed = self.state {
            return SessionStatus::Close(CloseReason::ClientClosed);
        }
        if matches!(&self.state, SessionState::Ready(ready) if ready.connected) {
            return self.admitted_again(shard, outcome, now);
        }
        self.timers.connected(shard.settings(), now, &self.conn);
        // Compat: naming an account is an error since accounts follow from credentials.
        let names_account = self.connect.new_account || self.connect.names_account;
        let identity = match outcome {
            Ok(identity) if !names_account => identity,
            Ok(identity) => {
                // Compat: it was let into its account before.
                self.show(identity.account.as_str().into(), &identity);
                return SessionStatus::Close(self.violation(shard));
            }
            Err(reject) => return SessionStatus::Close(self.rejected(shard, &reject)),
        };
        if let SessionStatus::Close(reason) = self.enter(shard, identity, now) {
            return SessionStatus::Close(reason);
        }
        self.report_connected();
        if self.mqtt.is_some() { self.accept_mqtt(shard, now) } else { self.accept(shard) }
    }

    /// Binds the session to the account of its identity.
    fn enter(&mut self, shard: &mut Shard, identity: Identity, now: Instant) -> SessionStatus {
        let Some(account) = self.broker.account(identity.account.as_str()) else {
            return SessionStatus::Close(self.violation(shard));
        };
        // Without authentication a client is in its account before its first CONNECT, and stays.
        let is_there =
            matches!(&self.state, SessionState::Ready(ready) if Arc::ptr_eq(&ready.account, &account));
        // Pages and events tell of the account that has no place for it, too.
        self.show(Arc::clone(account.shared_name()), &identity);
        if !is_there && !account.enter() {
            let text = ErrorText::MaximumAccountConnections;
            let reason = CloseReason::MaximumAccountConnections;
            self.state = SessionState::AwaitConnect;
            let verdict = self.refuse(shard, &text, reason);
            // Compat: it is said twice.
            self.log_rarely(Level::Error, &text.to_string(), now);
            self.log_end(reason);
            self.log(Level::Error, format_args!("{text}"));
            return verdict;
        }
        self.conn.set_rights(Self::rights_of(identity.permissions.as_ref(), now));
        self.log_claims(&identity);
        let expiry = self.expiry_of(identity.claims.as_deref(), identity.callout_grant.as_deref(), now);
        let has_key = match &identity.callout_grant {
            Some(callout_grant) => callout_grant.has_key,
            None => identity.issuer_key.is_some() && identity.claims.is_none(),
        };
        let ready = Ready {
            account: Arc::clone(&account),
            permissions: identity.permissions,
            user: identity.user,
            has_key,
            claims: identity.claims,
            callout_grant: identity.callout_grant,
            expiry,
            connected: false,
            first_ping_done: self.timers.first_ping_done,
            is_told_to_leave: false,
        };
        self.log_overrides(&ready);
        self.limits.max_payload = Some(ready.max_payload(shard.settings()));
        // From here on the session's end gives the place in the account back, be it that an event
        // panics.
        self.state = SessionState::Ready(Box::new(ready));
        if !is_there {
            self.broker
                .client_events()
                .into_iter()
                .for_each(|client_events| client_events.count_changed(&account));
        }
        SessionStatus::Continue
    }

    /// Notes for monitoring who the client is.
    fn show(&self, account: Arc<str>, identity: &Identity) {
        self.conn.update_details(|details| {
            details.set_user(identity.user.as_deref());
            details.account = account;
            details.set_credentials(identity);
            details
                .set_expiry(identity.callout_grant.as_ref().and_then(|callout_grant| callout_grant.expires));
        });
    }

    fn log_claims(&self, identity: &Identity) {
        if let Some(user) = &identity.claims {
            let (of, by) = (user.account(), user.issuer());
            self.log(
                Level::Debug,
                format_args!(
                    "Authenticated JWT: Client {:?} (claim-name: {:?}, claim-tags: {}) signed with {by:?} by Account \
                     {:?} (claim-name: {:?}, claim-tags: {}) signed with {:?}",
                    user.subject(),
                    user.name(),
                    listed(user.tags()),
                    of.key(),
                    of.claims().name,
                    listed(of.claims().account_tags()),
                    of.issuer()
                ),
            );
        }
    }

    /// Applies what CONNECT says of headers. Subscriptions from before it may be in routes that
    /// took the opposite for granted.
    fn set_headers(&self, headers: bool) {
        if self.conn.headers() == headers {
            return;
        }
        self.conn.set_headers(headers);
        if let SessionState::Ready(ready) = &self.state {
            self.conn.subscriptions().iter().for_each(|sub| ready.account.touch(sub));
        }
    }

    /// The rest of CONNECT, once the client is who it says.
    fn accept(&mut self, shard: &mut Shard) -> SessionStatus {
        let headers = self.connect.headers && shard.settings().headers;
        self.limits.headers = headers;
        self.set_headers(headers);
        self.conn.set_no_responders(self.connect.no_responders);
        if let SessionState::Ready(ready) = &mut self.state {
            ready.connected = true;
            let login = Login::of(&self.connect, ready.login());
            self.conn.set_label(&label(&self.connect, &ready.account_label(), login));
        }
        if !(0..=1).contains(&self.connect.protocol) {
            let text = ErrorText::InvalidClientProtocol;
            return self.refuse_connect(shard, &text, CloseReason::BadClientProtocolVersion);
        }
        if self.connect.no_responders && !headers {
            let text = ErrorText::NoRespondersRequiresHeaders;
            return self.refuse_connect(shard, &text, CloseReason::NoRespondersRequiresHeaders);
        }
        self.stage_ok(shard);
        SessionStatus::Continue
    }

    fn refuse_connect(&mut self, shard: &mut Shard, text: &ErrorText, reason: CloseReason) -> SessionStatus {
        let verdict = self.refuse(shard, text, reason);
        self.log_end(reason);
        self.log(Level::Error, format_args!("{text}"));
        verdict
    }

    /// Says where the server's limits are below those of the account or the user.
    fn log_overrides(&self, ready: &Ready) {
        let (settings, limits) = (self.broker.settings(), ready.account.limits());
        let own = ready.claims.as_ref();
        let least = |account: Option<u32>, own: Option<u32>| account.into_iter().chain(own).min();
        let payload = least(limits.max_payload, own.and_then(|claims| claims.max_payload()));
        if payload.is_some_and(|limit| settings.max_payload < limit) {
            let what = format_args!("Max Payload set to {}", settings.max_payload);
            self.log(Level::Debug, format_args!("{what} from server overrides account or user config"));
        }
        let subscriptions = ready.max_subscriptions().into_iter().flatten().min();
        if let (Some(limit), Some(max)) = (subscriptions, settings.max_subscriptions)
            && max < limit
        {
            let what = format_args!("Max Subscriptions set to {max}");
            self.log(Level::Debug, format_args!("{what} from server overrides account or user config"));
        }
    }
}

/// Labels as Go prints them.
fn listed(tags: &[String]) -> String {
    let tags: Vec<_> = tags.iter().map(|tag| Quoted(tag.as_bytes()).to_string()).collect();
    format!("[{}]", tags.join(" "))
}

/// How a connection ends whose credentials were refused for this.
pub(crate) fn close_reason(reject: &Reject) -> CloseReason {
    match reject {
        Reject::ProxyRequired | Reject::AnswerNeedsProxy | Reject::Claims(ClaimsFault::ProxyRequired) => {
            CloseReason::ProxyRequired
        }
        Reject::ProxyNotTrusted => CloseReason::ProxyNotTrusted,
        _ => CloseReason::AuthenticationFailure,
    }
}

/// Why a callout service has refused credentials, if it was one that did.
pub(crate) fn by_service(reject: &Reject) -> Option<String> {
    match reject {
        Reject::Callout(why) => Some(why.clone()),
        Reject::AnswerNeedsProxy => Some(reject.to_string()),
        // Compat: without a reason.
        Reject::Unanswered(_) => Some(String::new()),
        _ => None,
    }
}

/// The account whose callout service decides about who shows this token: the configuration's, or
/// that of the token.
pub(crate) fn service_account(broker: &Broker, rules: &AuthConfig, jwt: &str) -> Option<Arc<Account>> {
    match &rules.callout {
        Some(callout) => broker.account(callout.account.as_str()),
        None => broker.account(myelin_auth::jwt::user(jwt).ok()?.account()),
    }
}

/// The largest payload in an account.
pub(super) fn max_payload(settings: &Settings, account: &Account) -> u32 {
    account.limits().max_payload.map_or(settings.max_payload, |max| max.min(settings.max_payload))
}

/// Compat: the user is who the client says it is, also when that turns out to be wrong.
fn describe(details: &mut KeptDetails, connect: &Connect) {
    let named = [connect.nkey(), connect.user()].into_iter().find(|name| !name.is_empty());
    let has_token = !connect.credential(|given| &given.auth_token).is_empty();
    details.set_user(named.or(has_token.then_some("[REDACTED]")));
    details.set_names(&connect.name, &connect.lang, &connect.version);
}

/// `speaks_mqtt`: the password may be a user's token then.
fn credentials(connect: &Connect, config: &AuthConfig, speaks_mqtt: bool) -> Credentials {
    let Some(shown) = connect.credentials.as_deref() else { return Credentials::default() };
    let given = |s: &String| (!s.is_empty()).then(|| s.clone());
    let in_password = speaks_mqtt && shown.jwt.is_empty() && myelin_auth::jwt::user(&shown.pass).is_ok();
    let token = if in_password { &shown.pass } else { &shown.jwt };
    // Compat: outside operator mode a JWT is thrown away unread, but for one in a password, which a
    // callout service is shown as such.
    let is_read = matches!(config.method, Method::Operator(_)) || in_password && config.callout.is_some();
    Credentials {
        user: given(&shown.user),
        pass: given(&shown.pass).map(Secret::new),
        token: given(&shown.auth_token).map(Secret::new),
        jwt: given(token).filter(|_| is_read).map(Secret::new),
        nkey: given(&shown.nkey),
        sig: given(&shown.sig),
        proxy_signature: given(&shown.proxy_sig),
        certificate: None,
    }
}
