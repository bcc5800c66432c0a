//! The handshake: INFO, CONNECT, credentials to identity, account limits.

use super::json::connect_fault;
use super::label::{Login, label};
use super::{Ready, Session, State, Step, Verdict};
use crate::account::Account;
use crate::conn::{ConnDetails, TlsDetails};
use crate::log::Level;
use crate::settings::Settings;
use crate::shard::Shard;
use myelin_auth::{AuthConfig, ConnectionType, Credentials, Identity, Reject, Secret, authenticate};
use myelin_wire::connect::Connect;
use myelin_wire::error::{CloseReason, ErrorText};
use myelin_wire::info::Info;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// Credentials on their way to an identity. May take 100 ms (bcrypt): run it off the data path.
pub struct AuthTask {
    config: Arc<AuthConfig>,
    credentials: Credentials,
    via: ConnectionType,
}

impl AuthTask {
    /// Whether checking takes as long as a bcrypt hash does.
    pub(super) fn is_slow(&self) -> bool {
        self.config.at(self.via).is_slow(&self.credentials)
    }

    /// Checks the credentials.
    ///
    /// # Errors
    /// When they are not those of anybody who may connect.
    pub fn run(self) -> Result<Identity, Reject> {
        authenticate(self.config.at(self.via), &self.credentials, self.via)
    }
}

impl fmt::Debug for AuthTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuthTask")
    }
}

impl Session {
    /// Stages the first INFO. After a handshake that came first it says that TLS is required, also where
    /// clients may do without.
    pub fn greet(&self, shard: &mut Shard, after_handshake: bool) {
        let info = self.info();
        let line = Info {
            auth_required: self.broker.auth().advertised_at(self.conn.via()),
            tls_required: info.tls_required || after_handshake,
            ..info
        }
        .line();
        shard.say(&self.conn, &line);
    }

    /// The transport has become TLS. Compat: the time to authenticate begins with that.
    pub fn secured(&mut self, shard: &Shard, tls: TlsDetails, now: Instant) {
        let (version, suite) = (tls.version, &tls.cipher_suite);
        self.log(Level::Debug, format_args!("TLS handshake complete"));
        self.log(Level::Debug, format_args!("TLS version {version}, cipher suite {suite}"));
        self.conn.update_details(|details| details.tls = Some(tls));
        self.timers.expect_connect_from(shard.settings(), now, &self.conn);
    }

    fn info(&self) -> Info {
        let mut info = Info {
            client_id: self.conn.cid(),
            client_ip: self.conn.endpoint().peer.ip().to_string(),
            ..self.broker.info()
        };
        self.conn.entrance().into_iter().for_each(|entrance| entrance.show(&mut info));
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
            State::Ready(ready) => Info {
                remote_account: ready.account.name().to_owned(),
                acc_is_sys: ready.account.is_system(),
                ..info
            },
            _ => info,
        }
    }

    /// Looks at the first byte of a client that has not authenticated. Anything but CONNECT ends it,
    /// unless there is a user for clients without credentials.
    pub(super) fn gate(&mut self, shard: &mut Shard, first: u8, now: Instant) -> Option<CloseReason> {
        if matches!(first, b'C' | b'c') {
            return None;
        }
        if self.anonymous().is_none() {
            return Some(self.violation(shard));
        }
        self.timers.connected(shard.settings(), now, &self.conn);
        match self.enter_anonymously(shard, now) {
            Verdict::Go => {
                // Compat: this counts as CONNECT with the defaults.
                if let State::Ready(ready) = &mut self.state {
                    ready.connected = true;
                }
                // Compat: and so a CONNECT that comes later does not name the client in the log.
                self.conn.set_label("");
                None
            }
            Verdict::Close(reason) => Some(reason),
        }
    }

    /// Gives a client without CONNECT its identity, where that is allowed.
    pub(super) fn enter_anonymously(&mut self, shard: &mut Shard, now: Instant) -> Verdict {
        match self.anonymous() {
            Some(identity) => self.enter(shard, identity, now),
            None => Verdict::Close(self.violation(shard)),
        }
    }

    /// Who a client without credentials is.
    fn anonymous(&self) -> Option<Identity> {
        let via = self.conn.via();
        self.broker.auth().at(via).anonymous(via)
    }

    pub(super) fn violation(&self, shard: &mut Shard) -> CloseReason {
        match Login::of(&self.connect, None).blame() {
            None => self.log(Level::Error, format_args!("authentication error")),
            Some(login) => self.log(Level::Error, format_args!("authentication error - {login}")),
        }
        self.say_error(shard, &ErrorText::AuthorizationViolation);
        CloseReason::AuthenticationFailure
    }

    pub(super) fn connect(&mut self, shard: &mut Shard, json: &[u8], now: Instant) -> Step {
        if self.connect.read(json).is_err() {
            return self.bad_json(&connect_fault(json));
        }
        if let Some(entrance) = self.conn.entrance() {
            entrance.complete(&mut self.connect);
        }
        self.introduce(now);
        if matches!(&self.state, State::Ready(ready) if ready.connected) {
            // A second CONNECT may lead to another account: nothing of the first may stay.
            shard.settle();
            self.leave_account(shard);
        }
        self.timers.connected(shard.settings(), now, &self.conn);
        let task = self.auth_task();
        if task.is_slow() {
            self.state = State::Authenticating;
            self.timers.expect_verdict(shard.settings(), now, &self.conn);
            return Step::Authenticate(task);
        }
        match self.authenticated(shard, task.run(), now) {
            Verdict::Go => Step::Go,
            Verdict::Close(reason) => Step::Close(reason),
        }
    }

    /// The check of CONNECT's credentials by the rules now in force, which from here on count for this session.
    pub(super) fn auth_task(&mut self) -> AuthTask {
        self.auth = self.broker.auth();
        let (config, via) = (Arc::clone(&self.auth), self.conn.via());
        AuthTask { config, credentials: credentials(&self.connect), via }
    }

    /// Notes for monitoring what the client says of itself, whether it is let in or not.
    fn introduce(&self, now: Instant) {
        // Until a PING measures it, the time to CONNECT is what is known of the round trip.
        let estimate = now.duration_since(self.opened);
        self.conn.update_details(|details| {
            details.rtt.get_or_insert(estimate);
            describe(details, &self.connect);
        });
    }

    fn leave_account(&mut self, shard: &mut Shard) {
        if let State::Ready(ready) = std::mem::replace(&mut self.state, State::AwaitConnect) {
            let subs = self.conn.take_subscriptions();
            self.trace_ends(&subs);
            subs.iter().for_each(|sub| _ = ready.account.unsubscribe(sub, Some(&mut *shard)));
            ready.account.leave();
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
    ) -> Verdict {
        if let State::Closed = self.state {
            return Verdict::Close(CloseReason::ClientClosed);
        }
        if matches!(&self.state, State::Ready(ready) if ready.connected) {
            return self.admitted_again(shard, outcome, now);
        }
        self.timers.connected(shard.settings(), now, &self.conn);
        // Compat: naming an account is an error since accounts follow from credentials.
        let names_account = self.connect.new_account || !self.connect.account.is_empty();
        let Some(identity) = outcome.ok().filter(|_| !names_account) else {
            return Verdict::Close(self.violation(shard));
        };
        if let Verdict::Close(reason) = self.enter(shard, identity, now) {
            return Verdict::Close(reason);
        }
        self.accept(shard)
    }

    /// Binds the session to the account of its identity.
    fn enter(&mut self, shard: &mut Shard, identity: Identity, now: Instant) -> Verdict {
        let Some(account) = self.broker.account(identity.account.as_str()) else {
            return Verdict::Close(self.violation(shard));
        };
        // Without authentication a client is in its account before its first CONNECT, and stays.
        let is_there = matches!(&self.state, State::Ready(ready) if Arc::ptr_eq(&ready.account, &account));
        if !is_there && !account.enter() {
            let text = ErrorText::MaximumAccountConnections;
            let reason = CloseReason::MaximumAccountConnections;
            self.state = State::AwaitConnect;
            let verdict = self.refuse(shard, &text, reason);
            // Compat: it is said twice.
            self.log_rarely(Level::Error, &text.to_string(), now);
            self.log_end(reason);
            self.log(Level::Error, format_args!("{text}"));
            return verdict;
        }
        self.log_overrides(&account);
        self.limits.max_payload = Some(max_payload(shard.settings(), &account));
        self.conn.set_rights(Self::rights_of(identity.permissions.as_ref(), now));
        self.conn.update_details(|details| {
            details.user.clone_from(&identity.user);
            details.account = account.name().to_owned();
        });
        self.state = State::Ready(Box::new(Ready {
            account,
            permissions: identity.permissions,
            user: identity.user,
            connected: false,
            first_ping_done: self.timers.first_ping_done,
        }));
        Verdict::Go
    }

    /// What CONNECT says of headers. Subscriptions from before it may be in routes that took the opposite
    /// for granted.
    fn set_headers(&self, headers: bool) {
        if self.conn.headers() == headers {
            return;
        }
        self.conn.set_headers(headers);
        if let State::Ready(ready) = &self.state {
            self.conn.subscriptions().iter().for_each(|sub| ready.account.interest.touch(sub));
        }
    }

    /// The rest of CONNECT, once the client is who it says.
    fn accept(&mut self, shard: &mut Shard) -> Verdict {
        let headers = self.connect.headers && shard.settings().headers;
        self.limits.headers = headers;
        self.set_headers(headers);
        self.conn.set_no_responders(self.connect.no_responders);
        if let State::Ready(ready) = &mut self.state {
            ready.connected = true;
            let login = Login::of(&self.connect, ready.user.as_deref());
            self.conn.set_label(&label(&self.connect, ready.account.name(), login));
        }
        if !(0..=1).contains(&self.connect.protocol) {
            let text = ErrorText::InvalidClientProtocol;
            return self.refuse_connect(shard, &text, CloseReason::BadClientProtocolVersion);
        }
        if self.connect.no_responders && !headers {
            let text = ErrorText::NoRespondersRequiresHeaders;
            return self.refuse_connect(shard, &text, CloseReason::NoRespondersRequiresHeaders);
        }
        self.say_ok(shard);
        Verdict::Go
    }

    fn refuse_connect(&mut self, shard: &mut Shard, text: &ErrorText, reason: CloseReason) -> Verdict {
        let verdict = self.refuse(shard, text, reason);
        self.log_end(reason);
        self.log(Level::Error, format_args!("{text}"));
        verdict
    }

    /// Says where the server's limits are below those of the account.
    fn log_overrides(&self, account: &Account) {
        let (settings, limits) = (self.broker.settings(), account.limits());
        if limits.max_payload.is_some_and(|limit| settings.max_payload < limit) {
            let what = format_args!("Max Payload set to {}", settings.max_payload);
            self.log(Level::Debug, format_args!("{what} from server overrides account or user config"));
        }
        if let (Some(limit), Some(max)) = (limits.max_subscriptions, settings.max_subscriptions)
            && max < limit
        {
            let what = format_args!("Max Subscriptions set to {max}");
            self.log(Level::Debug, format_args!("{what} from server overrides account or user config"));
        }
    }
}

/// The largest payload in an account.
pub(super) fn max_payload(settings: &Settings, account: &Account) -> u32 {
    account.limits().max_payload.map_or(settings.max_payload, |max| max.min(settings.max_payload))
}

/// Compat: the user is who the client says it is, also when that turns out to be wrong.
fn describe(details: &mut ConnDetails, connect: &Connect) {
    let named = [&connect.nkey, &connect.user].into_iter().find(|name| !name.is_empty());
    let token = || (!connect.auth_token.is_empty()).then(|| "[REDACTED]".to_owned());
    details.user = named.cloned().or_else(token);
    details.name.clone_from(&connect.name);
    details.lang.clone_from(&connect.lang);
    details.version.clone_from(&connect.version);
}

fn credentials(connect: &Connect) -> Credentials {
    let given = |s: &String| (!s.is_empty()).then(|| s.clone());
    Credentials {
        user: given(&connect.user),
        pass: given(&connect.pass).map(Secret::new),
        token: given(&connect.auth_token).map(Secret::new),
        // Compat: outside operator mode a JWT is thrown away unread.
        jwt: None,
        nkey: given(&connect.nkey),
        sig: given(&connect.sig),
    }
}
