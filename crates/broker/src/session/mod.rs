//! A session: the protocol state of one client connection, as states that hold only valid data.
//!
//! Bytes go in through [`Session::ingest`], which stops at the end of what is whole, or earlier
//! when the caller must do something first ([`StopReason`]); answers are staged in the [`Shard`].
//! Time is passed in.
//!
//! Before there is an identity, the operations that need one do not exist: [`SessionState`] has no
//! account then.
//!
//! A session belongs to one task on one shard and never moves. `authenticate` in `auth` is the one
//! function from bytes to an identity: it decides, or says which callout service must be asked
//! (`Decision`), and the service's answer becomes an identity by `AuthRequest::judge` alone.
//!
//! A subscription is in the connection's list and in the account's index on the spot (`subscribe`),
//! so it is visible before the connection's next operation. The epoch of its first token moves, and
//! cached routes of that token are built anew when they are next used.

pub(crate) mod handshake;
mod json;
mod label;
mod message_trace;
mod mqtt;
mod protocol_log;
mod publish;
pub(crate) mod redact;
mod refusal;
mod reload;
mod subscribe;
mod timers;

use crate::account::Account;
use crate::broker::Broker;
use crate::closed::{ClosedConn, ClosedSub};
use crate::conn::Conn;
use crate::conn_details::AccessRefusal;
use crate::delivery_rights::DeliveryPermissions;
use crate::log::{Level, Span};
use crate::service::ServiceShard;
use crate::settings::Settings;
use crate::shard::Shard;
use crate::subscription::Subscription;
use bytes::Bytes;
use label::Login;
use mqtt::MqttSession;
use myelin_auth::callout::CalloutGrant;
use myelin_auth::operator::ClaimedUser;
use myelin_auth::{AuthConfig, Permissions};
use myelin_wire::connect::Connect;
use myelin_wire::encode;
use myelin_wire::error::{CloseReason, ErrorText};
use myelin_wire::parser::{self, Op, ParseError, Parsed, ParserLimits};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use timers::Timers;

pub use handshake::{AuthTask, Checked, Greeting};
pub use reload::Refreshed;

/// Characters of a nonce.
const NONCE: usize = 15;

/// Session of one client connection: its protocol state.
pub struct Session {
    conn: Arc<Conn>,
    broker: Arc<Broker>,
    state: SessionState,
    connect: Connect,
    /// The rules under which it was last let in, or is being checked.
    auth: Arc<AuthConfig>,
    limits: ParserLimits,
    timers: Timers,
    /// Nonce that INFO asks to be signed. Boxed: few servers ask, and an idle connection must stay
    /// small.
    nonce: Option<Box<[u8; NONCE]>>,
    /// A receiver of this session's messages is far behind.
    stalled: bool,
    /// After a reload, the credentials are being checked again by the rules that are in force now.
    is_rechecked: bool,
    /// Messages and payload bytes of the current batch.
    batch: (u64, u64),
    /// Whether protocol lines are logged, as of the batch's start.
    logs_protocol: bool,
    /// Whether messages may be answers to requests of other clusters, as of the batch's start: what
    /// a client answers was sent to it before.
    may_answer: bool,
    /// The line of the operation that comes next is logged already: the rest of it had not come.
    line_is_logged: bool,
    /// The log knows that the connection is over.
    end_is_logged: bool,
    /// The state of a client that speaks MQTT.
    mqtt: Option<Box<MqttSession>>,
}

enum SessionState {
    /// Authentication is required and CONNECT has not come.
    AwaitConnect,
    /// The credentials are being checked elsewhere.
    Authenticating,
    /// The client has an identity. Boxed: most of a session's life is this state, the others are
    /// small.
    Ready(Box<Ready>),
    /// Nothing more happens.
    Closed,
}

/// State of a client with an identity.
struct Ready {
    account: Arc<Account>,
    permissions: Option<Arc<Permissions>>,
    /// Whom it is or stands for, by name.
    user: Option<String>,
    /// Whether `user` is a public key.
    has_key: bool,
    /// User that came with a token.
    claims: Option<Arc<ClaimedUser>>,
    /// Grant by which a callout service has let the client in.
    callout_grant: Option<Arc<CalloutGrant>>,
    /// When what it came with comes to its end.
    expiry: Option<Instant>,
    /// CONNECT has come; without, a session lives on the defaults.
    connected: bool,
    /// The first PING after CONNECT has been answered.
    first_ping_done: bool,
    /// The client was told that the server is in lame duck mode.
    is_told_to_leave: bool,
}

impl Ready {
    /// Whom the client was let in as.
    fn login(&self) -> Option<Login<'_>> {
        match (&self.claims, &self.user) {
            (Some(claims), _) => Some(Login::Jwt(claims.subject())),
            (None, Some(key)) if self.has_key => Some(Login::Nkey(key)),
            (None, user) => user.as_deref().map(Login::User),
        }
    }

    /// Name of its account in the log.
    fn account_label(&self) -> String {
        let of_claims = self.claims.as_ref().map(|claims| claims.account().label());
        of_claims.unwrap_or_else(|| self.account.name().to_owned())
    }

    /// The largest payload that it may send.
    fn max_payload(&self, settings: &Settings) -> u32 {
        let own = self.claims.as_ref().and_then(|claims| claims.max_payload());
        let callout_grant = self.callout_grant.as_ref().and_then(|callout_grant| callout_grant.max_payload);
        own.into_iter().chain(callout_grant).fold(handshake::max_payload(settings, &self.account), u32::min)
    }

    /// How many subscriptions it may have, by its account and by itself.
    fn max_subscriptions(&self) -> [Option<usize>; 2] {
        let own = self.claims.as_ref().and_then(|claims| claims.max_subscriptions());
        let own = own.or_else(|| {
            self.callout_grant.as_ref().and_then(|callout_grant| callout_grant.max_subscriptions)
        });
        [self.account.limits().max_subscriptions, own.map(|max| max as usize)]
    }
}

/// Reason why the session stopped, with what the caller must do now.
#[derive(Debug)]
pub enum StopReason {
    /// Read more: the rest is an operation that takes at least this many bytes from its start.
    More(usize),
    /// Flush the shard, then offer the rest again.
    Flush,
    /// Flush the shard and pause this connection a little: a receiver is far behind, or a stream.
    Stall,
    /// Run the task where it may take long, then call [`Session::authenticated`] and offer the rest
    /// again.
    Authenticate(Box<AuthTask>),
    /// Read nothing more until [`Session::take_mqtt_inbox`] was called and the session does not
    /// [wait](Session::awaits_storage) any more; then offer the rest again.
    AwaitStorage,
    /// Flush the shard and end the connection.
    Close(CloseReason),
}

/// The outcome of [`Session::ingest`].
#[derive(Debug)]
pub struct Consumed {
    /// Bytes of the buffer that are dealt with.
    pub bytes: usize,
    /// Why it stopped there.
    pub why: StopReason,
}

/// Whether a session goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a closed session must be ended by its shell"]
pub enum SessionStatus {
    /// The session continues.
    Continue,
    /// Flush the shard and end the connection.
    Close(CloseReason),
}

/// Subscriptions of an ended session that are still in its account's index.
pub struct Removal {
    account: Arc<Account>,
    subs: Vec<Arc<Subscription>>,
}

impl Removal {
    /// Removals that take less than about a millisecond.
    const SMALL: usize = 4096;

    fn at_once_if_small(self, shard: &mut Shard) -> Option<Self> {
        if self.subs.len() > Self::SMALL {
            return Some(self);
        }
        self.run_on(Some(shard));
        None
    }

    /// Removes them.
    pub fn run(self) {
        self.run_on(None);
    }

    fn run_on(self, shard: Option<&mut ServiceShard>) {
        self.account.unsubscribe_all(&self.subs, shard);
    }
}

/// Outcome of one operation.
enum OpOutcome {
    Continue,
    Authenticate(Box<AuthTask>),
    Close(CloseReason),
}

impl OpOutcome {
    /// The outcome of an operation that may end the connection.
    fn of(step: Result<(), CloseReason>) -> Self {
        step.map_or_else(Self::Close, |()| Self::Continue)
    }
}

impl Session {
    /// Begins the session of a connection that was just accepted: stages INFO, registers the
    /// connection.
    pub fn open(shard: &mut Shard, conn: Arc<Conn>, now: Instant) -> (Self, SessionStatus) {
        Self::open_with(shard, conn, now, Some(Greeting::default()))
    }

    /// Begins the session of a connection that may be offered more than a plain one: stages INFO
    /// with `greeting`, registers the connection. Without a greeting there is no INFO:
    /// [`greet`](Self::greet) is to be called after the TLS handshake.
    pub fn open_with(
        shard: &mut Shard,
        conn: Arc<Conn>,
        now: Instant,
        greeting: Option<Greeting>,
    ) -> (Self, SessionStatus) {
        let broker = Arc::clone(shard.broker());
        broker.identity.set_clock(now, conn.endpoint().start);
        let settings = Arc::clone(shard.settings());
        let mut session = Self {
            limits: ParserLimits {
                max_control_line: settings.max_control_line,
                max_payload: Some(settings.max_payload),
                headers: false,
            },
            timers: Timers::new(&settings, now, &conn),
            mqtt: conn.mqtt().map(|_| Box::default()),
            conn,
            auth: broker.auth(),
            state: SessionState::AwaitConnect,
            connect: Connect::default(),
            nonce: None,
            stalled: false,
            is_rechecked: false,
            batch: (0, 0),
            logs_protocol: false,
            may_answer: false,
            line_is_logged: false,
            end_is_logged: false,
            broker,
        };
        // Once it is registered only its end takes it out again, and who panics returns no session
        // to end.
        match catch_unwind(AssertUnwindSafe(|| session.begin(shard, greeting))) {
            Ok(verdict) => (session, verdict),
            Err(panic) => {
                session.end(shard, CloseReason::InternalError, now).into_iter().for_each(Removal::run);
                resume_unwind(panic)
            }
        }
    }

    /// Registers the connection and says the first words.
    fn begin(&mut self, shard: &mut Shard, greeting: Option<Greeting>) -> SessionStatus {
        let count = self.broker.registry.add(&self.conn);
        if self.auth.needs_nonce() {
            self.nonce =
                myelin_stdx::id::nonce(self.broker.entropy()).into_bytes().try_into().ok().map(Box::new);
        }
        self.log(Level::Debug, format_args!("Client connection created"));
        if let Some(greeting) = greeting {
            self.greet(shard, greeting);
        }
        self.admit(shard, count)
    }

    fn admit(&mut self, shard: &mut Shard, count: usize) -> SessionStatus {
        if shard.settings().max_connections.is_some_and(|max| count > max) {
            let text = ErrorText::MaximumConnections;
            let verdict = self.refuse(shard, &text, CloseReason::MaximumConnections);
            self.log_rarely(Level::Error, &text.to_string(), self.timers.opened);
            return verdict;
        }
        let is_asked = self.broker.auth().at(self.conn.via()).required();
        if is_asked {
            self.timers.expect_connect(shard.settings(), &self.conn);
        }
        if is_asked || self.mqtt.is_some() {
            return SessionStatus::Continue;
        }
        self.enter_anonymously(shard, self.timers.opened)
    }

    /// Whether the client has an identity.
    pub fn is_ready(&self) -> bool {
        matches!(self.state, SessionState::Ready(_))
    }

    /// The connection that this session speaks for.
    pub fn conn(&self) -> &Arc<Conn> {
        &self.conn
    }

    /// Takes whole operations from the front of `buf`, which must begin where the last call
    /// stopped.
    ///
    /// `backing` is the shared memory in which `buf` stands, if it does: large payloads are then
    /// passed on without copying.
    pub fn ingest(
        &mut self,
        shard: &mut Shard,
        buf: &[u8],
        backing: Option<&Bytes>,
        now: Instant,
    ) -> Consumed {
        let consumed = match self.mqtt {
            None => self.operations(shard, buf, backing, now),
            Some(_) => self.packets(shard, buf, now),
        };
        let (msgs, bytes) = std::mem::take(&mut self.batch);
        if msgs > 0 {
            self.conn.traffic.in_msgs.add(msgs);
            self.conn.traffic.in_bytes.add(bytes);
            shard.count_in(msgs, bytes);
        }
        self.conn.touch(now.duration_since(self.timers.opened));
        consumed
    }

    fn operations(
        &mut self,
        shard: &mut Shard,
        buf: &[u8],
        backing: Option<&Bytes>,
        now: Instant,
    ) -> Consumed {
        let is_usual = self.begin_batch();
        let mut at = 0;
        loop {
            if shard.is_full() {
                return self.pause_at(shard, at, StopReason::Flush);
            }
            if let Some(reason) = self.conn.close_requested() {
                return Consumed { bytes: at, why: StopReason::Close(reason) };
            }
            let rest = &buf[at..];
            if rest.is_empty() {
                return self.pause_at(shard, at, StopReason::More(1));
            }
            if let SessionState::AwaitConnect = self.state
                && let Some(close) = self.gate(shard, rest[0], now)
            {
                return Consumed { bytes: at, why: StopReason::Close(close) };
            }
            if let SessionState::Ready(_) = self.state
                && is_usual
                && let Some((message, len)) = parser::plain_publish(rest, &self.limits)
            {
                at += len;
                self.publish::<false>(shard, &message, backing, now);
                continue;
            }
            let parsed = parser::next(rest, &self.limits);
            if self.logs_protocol {
                self.log_received(rest, &parsed);
            }
            let step = match parsed {
                Ok(Parsed::Op(op, len)) => {
                    at += len;
                    self.operate(shard, op, backing, now)
                }
                Ok(Parsed::Need(need)) => return self.pause_at(shard, at, StopReason::More(need)),
                Err(error) => {
                    if let ParseError::PayloadTooLarge { .. } = error {
                        self.trace_too_large(shard, rest, now);
                    }
                    OpOutcome::Close(self.parse_error(shard, error, &refusal::text(buf, at, error)))
                }
            };
            match step {
                OpOutcome::Continue => {}
                OpOutcome::Authenticate(task) => {
                    return Consumed { bytes: at, why: StopReason::Authenticate(task) };
                }
                OpOutcome::Close(reason) => return Consumed { bytes: at, why: StopReason::Close(reason) },
            }
        }
    }

    /// Stops the batch; a stall takes precedence over the reason to go on.
    fn pause_at(&mut self, shard: &mut Shard, bytes: usize, why: StopReason) -> Consumed {
        let stalled = std::mem::take(&mut self.stalled) | shard.is_held_up();
        Consumed { bytes, why: if stalled { StopReason::Stall } else { why } }
    }

    #[inline]
    fn operate(&mut self, shard: &mut Shard, op: Op<'_>, backing: Option<&Bytes>, now: Instant) -> OpOutcome {
        match op {
            Op::Pub(message) => {
                self.publish_apart(shard, &message, backing, now);
                OpOutcome::Continue
            }
            Op::Sub { subject, queue, sid } => {
                self.timers.heard(now);
                self.subscribe(shard, subject, queue, sid, now);
                OpOutcome::Continue
            }
            Op::Unsub { sid, max } => {
                self.timers.heard(now);
                self.unsubscribe(shard, sid, max);
                OpOutcome::Continue
            }
            Op::Ping => {
                self.timers.heard(now);
                self.ping(shard);
                OpOutcome::Continue
            }
            Op::Pong => {
                self.pong(now);
                OpOutcome::Continue
            }
            Op::Connect(json) => self.connect(shard, json, now),
            Op::Info(json) => match serde_json::from_slice::<serde::de::IgnoredAny>(json) {
                Ok(_) => OpOutcome::Continue,
                Err(_) => self.bad_json(&json::info_fault(json)),
            },
            Op::Ok => OpOutcome::Continue,
            Op::PeerError(text) => {
                self.log(Level::Error, format_args!("Client Error {}", String::from_utf8_lossy(text)));
                OpOutcome::Close(CloseReason::ParseError)
            }
        }
    }

    fn bad_json(&self, fault: &str) -> OpOutcome {
        self.log(Level::Error, format_args!("{fault}"));
        OpOutcome::Close(CloseReason::ProtocolViolation)
    }

    fn ping(&mut self, shard: &mut Shard) {
        self.log_sent("PONG");
        shard.stage_line(&self.conn, encode::PONG);
        let SessionState::Ready(ready) = &mut self.state else { return };
        if !ready.connected || std::mem::replace(&mut ready.first_ping_done, true) {
            return;
        }
        if self.connect.protocol >= 1 {
            self.conn.set_accepts_async_info();
            let line = self.personal_info().line();
            shard.stage_line(&self.conn, &line);
        }
    }

    /// Answers bytes that are no operation, and says why the connection ends; `text` is for the
    /// log.
    fn parse_error(&mut self, shard: &mut Shard, error: ParseError, text: &str) -> CloseReason {
        let log = |session: &Self| session.log(Level::Error, format_args!("{text}"));
        match error {
            ParseError::UnknownOperation => {
                self.stage_error(shard, &ErrorText::UnknownOperation);
                log(self);
                CloseReason::ProtocolViolation
            }
            ParseError::BadArguments | ParseError::HeadersNotSupported => {
                log(self);
                CloseReason::ProtocolViolation
            }
            ParseError::ControlLineTooLong => {
                self.stage_error(shard, &ErrorText::MaximumControlLine);
                self.log_end(CloseReason::MaximumControlLine);
                log(self);
                CloseReason::MaximumControlLine
            }
            ParseError::PayloadTooLarge { .. } => {
                log(self);
                self.stage_error(shard, &ErrorText::MaximumPayload);
                CloseReason::MaximumPayload
            }
        }
    }

    /// Stages `-ERR`.
    fn stage_error(&self, shard: &mut Shard, text: &ErrorText) {
        self.log_sent(format_args!("-ERR {text}"));
        shard.stage_error(&self.conn, text);
    }

    /// Notes what the client's permissions have refused, for whoever asks why.
    #[cold]
    fn note_refused(&self, text: &ErrorText, now: Instant) {
        let SessionState::Ready(ready) = &self.state else { return };
        let permissions = ready.permissions.as_ref();
        let denied_by = match text {
            ErrorText::PublishViolation(subject) | ErrorText::ReplyViolation(subject) => {
                permissions.and_then(|permissions| permissions.publish_denied_by(subject))
            }
            ErrorText::SubscriptionViolation(subject, queue)
            | ErrorText::SubscriptionRevoked { subject, queue, .. } => {
                permissions.and_then(|permissions| permissions.subscribe_denied_by(subject, queue.as_deref()))
            }
            _ => return,
        };
        let at = self.conn.endpoint().start + now.duration_since(self.timers.opened);
        let refusal = AccessRefusal { at, error: text.to_string(), denied_by };
        self.conn.update_details(|details| details.note_refused(refusal));
    }

    /// Stages an error that ends the connection.
    fn refuse(&self, shard: &mut Shard, text: &ErrorText, reason: CloseReason) -> SessionStatus {
        self.stage_error(shard, text);
        SessionStatus::Close(reason)
    }

    /// Tells the client something that changed for everybody, such as lame duck mode. Compat: only
    /// clients of protocol 1 that have sent a PING get an INFO out of turn, and they are told once
    /// to leave.
    pub fn announce(&mut self, shard: &mut Shard) {
        let mut info = self.personal_info();
        if let SessionState::Ready(ready) = &mut self.state
            && ready.first_ping_done
            && self.connect.protocol >= 1
        {
            let is_told = std::mem::replace(&mut ready.is_told_to_leave, info.ldm);
            info.ldm &= !is_told;
            shard.stage_line(&self.conn, &info.line());
        }
    }

    /// Ends the session: its subscriptions, its place in the account, its entry in the registry.
    /// What is staged or queued stays for the shell to flush.
    ///
    /// A very large number of subscriptions takes long to remove: then the removal is returned, to
    /// be run off the data path.
    pub fn end(&mut self, shard: &mut Shard, reason: CloseReason, now: Instant) -> Option<Removal> {
        if let SessionState::Closed = self.state {
            return None;
        }
        shard.apply_counts();
        self.conn.mark_closed(reason);
        self.end_mqtt(shard, reason, now);
        let state = std::mem::replace(&mut self.state, SessionState::Closed);
        shard.ended(&self.conn);
        self.log_end(reason);
        let subs = self.conn.take_subscriptions();
        let (subscriptions, kept) = (subs.len(), ClosedSub::of(&subs));
        // Compat: a server that stops does not care for subscriptions.
        if reason != CloseReason::ServerShutdown || self.broker.identity.is_lame_duck() {
            self.log_delsubs(&subs);
        }
        let removal = match state {
            SessionState::Ready(ready) => {
                self.leave(&ready.account);
                Removal { account: ready.account, subs }.at_once_if_small(shard)
            }
            _ => None,
        };
        let record = ClosedConn {
            cid: self.conn.cid(),
            endpoint: self.conn.endpoint(),
            via: self.conn.via(),
            stop: self.conn.endpoint().start + now.duration_since(self.timers.opened),
            reason,
            details: self.conn.details(),
            last_activity: self.conn.last_activity(),
            received: self.conn.received(),
            sent: self.conn.sent(),
            subscriptions,
            subs: kept,
            stalls: self.conn.stalls(),
        };
        self.broker.client_events().into_iter().for_each(|client_events| client_events.disconnected(&record));
        self.broker.registry.remove(record, shard.settings().max_closed_clients);
        removal
    }

    /// Gives the account its place back.
    fn leave(&self, account: &Arc<Account>) {
        account.leave();
        self.broker
            .client_events()
            .into_iter()
            .for_each(|client_events| client_events.count_changed(account));
    }

    fn log(&self, level: Level, line: std::fmt::Arguments<'_>) {
        self.broker.log_for(level, &self.conn, line);
    }

    /// Logs a line, but not a statement that was logged in the last second of anybody of this
    /// account.
    fn log_rarely(&self, level: Level, statement: &str, now: Instant) {
        let (account, suffix) = match &self.state {
            SessionState::Ready(ready) if ready.connected => {
                let suffix = Login::of(&self.connect, ready.login()).suffix().unwrap_or_default();
                (format!(" - Account:{}", ready.account_label()), suffix)
            }
            _ => Default::default(),
        };
        if self.broker.log.limit.allows(&format!("{statement}{account}"), now) {
            self.log(level, format_args!("{statement}{account}{suffix}"));
        }
    }

    /// Says once that the connection is over.
    fn log_end(&mut self, reason: CloseReason) {
        if !std::mem::replace(&mut self.end_is_logged, true) {
            self.log(Level::Debug, format_args!("Client connection closed: {}", reason.text()));
        }
    }

    fn log_delsubs(&self, subs: &[Arc<Subscription>]) {
        if self.broker.log().enabled(Level::Trace) {
            subs.iter().for_each(|sub| self.broker.log_delsub(sub));
        }
    }

    /// To be called after this session's publishes were held up for `pause` because a receiver or a
    /// stream is far behind.
    pub fn was_stalled(&self, pause: Duration, now: Instant) {
        let pause = Span(pause);
        self.log(Level::Debug, format_args!("Timed out of fast producer stall ({pause})"));
        self.log_rarely(Level::Warn, &format!("Producer was stalled for a total of {pause}"), now);
    }

    fn rights_of(permissions: Option<&Arc<Permissions>>, now: Instant) -> Option<Arc<DeliveryPermissions>> {
        permissions.map(|p| DeliveryPermissions::new(Arc::clone(p), now))
    }
}
