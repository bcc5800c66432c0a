//! A session whose server got another configuration: new limits, and whether its client may still
//! be here.

use super::{Session, SessionState, SessionStatus};
use crate::conn::Conn;
use crate::log::Level;
use crate::shard::Shard;
use crate::subscription::Subscription;
use crate::token_ends::TokenOwner;
use myelin_auth::callout::{AccountGrant, CalloutGrant};
use myelin_auth::operator::{ClaimedUser, Withdrawn};
use myelin_auth::{AuthConfig, Identity, Method, Permissions, Reject};
use myelin_wire::error::{CloseReason, ErrorText, Quoted};
use std::sync::Arc;
use std::time::Instant;

use super::handshake::AuthTask;

/// The outcome of [`Session::refresh`].
#[derive(Debug)]
pub enum Refreshed {
    /// Nothing is left to do.
    Continue,
    /// Read nothing more, run the task where it may take long, then call
    /// [`Session::authenticated`].
    Authenticate(Box<AuthTask>),
    /// Flush the shard and end the connection.
    Close(CloseReason),
}

impl From<SessionStatus> for Refreshed {
    fn from(verdict: SessionStatus) -> Self {
        match verdict {
            SessionStatus::Continue => Self::Continue,
            SessionStatus::Close(reason) => Self::Close(reason),
        }
    }
}

impl Session {
    /// Applies what was replaced in the broker; costs nothing when nothing was. A client that is no
    /// longer known, or belongs to another account now, has to connect again; one whose secret is
    /// no longer right is told so. Whoever stays has its new permissions and loses the
    /// subscriptions that they forbid.
    pub fn refresh(&mut self, shard: &mut Shard, now: Instant) -> Refreshed {
        self.refresh_limits(shard);
        let auth = self.broker.auth();
        let is_same = Arc::ptr_eq(&auth, &self.auth);
        if let SessionStatus::Close(reason) = self.refresh_claims(shard, is_same, now) {
            return Refreshed::Close(reason);
        }
        if is_same {
            return Refreshed::Continue;
        }
        match &self.state {
            SessionState::Ready(_) if self.has_lost_proxy(&auth) => {
                Refreshed::Close(self.rejected(shard, &Reject::ProxyNotTrusted))
            }
            SessionState::Ready(ready) if self.has_moved(ready.account.name(), &auth) => {
                Refreshed::Close(CloseReason::ClientClosed)
            }
            SessionState::Ready(_) => {
                let task = self.auth_task(now);
                if task.is_slow() {
                    self.is_rechecked = true;
                    return Refreshed::Authenticate(task);
                }
                self.admitted_again(shard, task.run_at_once(), now).into()
            }
            // Who is being checked by the old rules is looked at again when that is done.
            SessionState::AwaitConnect | SessionState::Authenticating | SessionState::Closed => {
                Refreshed::Continue
            }
        }
    }

    fn refresh_limits(&mut self, shard: &Shard) {
        let settings = shard.settings();
        self.limits.max_control_line = settings.max_control_line;
        self.limits.max_payload = Some(match &self.state {
            SessionState::Ready(ready) => ready.max_payload(settings),
            _ => settings.max_payload,
        });
    }

    /// Applies the account's present token, if the client came with one. One without an account is
    /// looked at anew where the rules are others (`is_same` is false), which may be under way.
    fn refresh_claims(&mut self, shard: &mut Shard, is_same: bool, now: Instant) -> SessionStatus {
        let SessionState::Ready(ready) = &self.state else { return SessionStatus::Continue };
        if ready.callout_grant.is_some() && self.is_account_gone(ready.account.name()) {
            return self.expired(shard, TokenOwner::Account, now);
        }
        if let Some((callout_grant, account_grant)) = ready.callout_grant.clone().and_then(|callout_grant| {
            let account_grant = callout_grant.account_grant.clone()?;
            Some((callout_grant, account_grant))
        }) {
            let current =
                self.broker.trusted().and_then(|trusted| trusted.get(account_grant.account().key()));
            let other = current.filter(|current| !Arc::ptr_eq(current, account_grant.account()));
            return match other.map(|other| account_grant.under(&other)) {
                None => SessionStatus::Continue,
                Some(Ok(account_grant)) => {
                    self.replace_account_grant(shard, &callout_grant, account_grant, now);
                    SessionStatus::Continue
                }
                Some(Err(withdrawn)) => self.withdrawn(shard, &withdrawn, now),
            };
        }
        let Some(claims) = ready.claims.clone() else { return SessionStatus::Continue };
        let current = self.broker.trusted().and_then(|trusted| trusted.get(claims.account().key()));
        let Some(current) = current else {
            // Compat: an account that is taken away is one that has expired.
            let is_settled = is_same && !self.is_rechecked;
            return if is_settled {
                self.expired(shard, TokenOwner::Account, now)
            } else {
                SessionStatus::Continue
            };
        };
        if Arc::ptr_eq(&current, claims.account()) {
            return SessionStatus::Continue;
        }
        match claims.under(&current) {
            Ok(claims) => {
                self.replace_claims(shard, Arc::new(claims), now);
                SessionStatus::Continue
            }
            Err(withdrawn) => self.withdrawn(shard, &withdrawn, now),
        }
    }

    /// Ends who may not be in the account any more.
    fn withdrawn(&self, shard: &mut Shard, why: &Withdrawn, now: Instant) -> SessionStatus {
        match why {
            Withdrawn::Bearer => SessionStatus::Close(self.violation(shard)),
            Withdrawn::Revoked => {
                let verdict = self.refuse(shard, &ErrorText::UserRevoked, CloseReason::Revocation);
                self.log_rarely(Level::Debug, &ErrorText::UserRevoked.to_string(), now);
                verdict
            }
            // Compat: without a word, for who signed is nobody now.
            Withdrawn::Signer => SessionStatus::Close(CloseReason::AuthenticationFailure),
        }
    }

    /// Whether the account came from a token and is no more.
    fn is_account_gone(&self, name: &str) -> bool {
        self.broker.trusted().is_some() && self.broker.account(name).is_none()
    }

    fn replace_claims(&mut self, shard: &mut Shard, claims: Arc<ClaimedUser>, now: Instant) {
        let expiry = self.expiry_of(Some(&claims), None, now);
        self.conn.update_details(|details| details.set_claims(&claims));
        let permissions = claims.permissions();
        let SessionState::Ready(ready) = &mut self.state else { return };
        (ready.claims, ready.expiry) = (Some(claims), expiry);
        self.replace_permissions(shard, permissions, now);
        self.refresh_limits(shard);
    }

    /// Replaces what the account's token says of a user whom a callout service has let in.
    fn replace_account_grant(
        &mut self,
        shard: &mut Shard,
        callout_grant: &CalloutGrant,
        account_grant: AccountGrant,
        now: Instant,
    ) {
        let permissions = account_grant.permissions();
        let callout_grant = CalloutGrant { account_grant: Some(account_grant), ..callout_grant.clone() };
        let expiry = self.expiry_of(None, Some(&callout_grant), now);
        let SessionState::Ready(ready) = &mut self.state else { return };
        (ready.callout_grant, ready.expiry) = (Some(Arc::new(callout_grant)), expiry);
        self.replace_permissions(shard, permissions, now);
        self.refresh_limits(shard);
    }

    fn replace_permissions(
        &mut self,
        shard: &mut Shard,
        permissions: Option<Arc<Permissions>>,
        now: Instant,
    ) {
        let SessionState::Ready(ready) = &mut self.state else { return };
        let is_same = match (&ready.permissions, &permissions) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            ready.permissions.clone_from(&permissions);
            self.conn.set_rights(Self::rights_of(permissions.as_ref(), now));
            self.prune(shard, permissions.as_deref(), now);
        }
    }

    /// Whether the client came through a proxy that is trusted no more, be it the last one.
    fn has_lost_proxy(&self, auth: &AuthConfig) -> bool {
        self.conn.look(|details| {
            details.proxy().is_some_and(|key| !auth.proxies.iter().any(|known| **known == *key))
        })
    }

    /// Whether the user is in another account now or in none. Compat: such clients are closed
    /// without a word.
    fn has_moved(&self, account: &str, auth: &AuthConfig) -> bool {
        // Who was let in by a service is asked about again.
        if matches!(&self.state, SessionState::Ready(ready) if ready.callout_grant.is_some()) {
            return false;
        }
        let Method::Users(users) = &auth.at(self.conn.via()).method else { return false };
        let (key, name) = (self.connect.nkey(), self.connect.user());
        if !key.is_empty() && users.have_nkeys() {
            return users.by_nkey(key).is_none_or(|user| user.account.as_str() != account);
        }
        !name.is_empty() && users.get(name).is_none_or(|user| user.account.as_str() != account)
    }

    /// Goes on after a client that is connected was checked again.
    pub(super) fn admitted_again(
        &mut self,
        shard: &mut Shard,
        outcome: Result<Identity, Reject>,
        now: Instant,
    ) -> SessionStatus {
        self.is_rechecked = false;
        let identity = match outcome {
            Ok(identity) => identity,
            Err(reject) => return SessionStatus::Close(self.rejected(shard, &reject)),
        };
        let account = self.broker.account(identity.account.as_str());
        let SessionState::Ready(ready) = &self.state else { return SessionStatus::Continue };
        if account.is_none_or(|account| !Arc::ptr_eq(&account, &ready.account)) {
            return SessionStatus::Close(CloseReason::ClientClosed);
        }
        let expiry = self.expiry_of(identity.claims.as_deref(), identity.callout_grant.as_deref(), now);
        let SessionState::Ready(ready) = &mut self.state else { return SessionStatus::Continue };
        if ready.user != identity.user {
            ready.user.clone_from(&identity.user);
            self.conn.update_details(|details| details.set_user(identity.user.as_deref()));
        }
        ready.claims.clone_from(&identity.claims);
        ready.callout_grant.clone_from(&identity.callout_grant);
        ready.expiry = expiry;
        self.conn.update_details(|details| details.set_credentials(&identity));
        self.refresh_limits(shard);
        let SessionState::Ready(ready) = &mut self.state else { return SessionStatus::Continue };
        if ready.permissions.is_none() && identity.permissions.is_none() {
            return SessionStatus::Continue;
        }
        ready.permissions.clone_from(&identity.permissions);
        self.conn.set_rights(Self::rights_of(identity.permissions.as_ref(), now));
        self.prune(shard, identity.permissions.as_deref(), now);
        SessionStatus::Continue
    }

    /// Ends the subscriptions that `permissions` forbid, and outdates the routes of the others,
    /// which may have new rules for deliveries.
    fn prune(&mut self, shard: &mut Shard, permissions: Option<&Permissions>, now: Instant) {
        let SessionState::Ready(ready) = &self.state else { return };
        shard.apply_counts();
        for sub in self.conn.subscriptions() {
            if permissions.is_none_or(|p| p.can_subscribe(sub.subject(), sub.queue())) {
                ready.account.touch(&sub);
            } else if ready.account.end(&sub, Some(&mut *shard)) {
                let text = revoked(&sub);
                shard.stage_error(&self.conn, &text);
                self.note_refused(&text, now);
                self.log_removed(&sub, &self.conn);
            }
        }
    }

    fn log_removed(&self, sub: &Subscription, conn: &Conn) {
        let queue = sub.queue().map(|queue| format!(" using queue {}", Quoted(queue))).unwrap_or_default();
        let user = conn.look(|details| details.user.clone());
        let user = Quoted(user.as_deref().unwrap_or("N/A").as_bytes());
        let (subject, sid) = (Quoted(sub.subject()), Quoted(sub.sid()));
        let line = format_args!("Removed sub {subject}{queue} (sid {sid}) for User {user} - not authorized");
        self.broker.log().write(Level::Info, line);
    }

    /// Answers that someone asked for the end of this connection, and tells the client where it
    /// should know.
    pub fn kicked(&mut self, shard: &mut Shard) -> SessionStatus {
        let reason = self.conn.close_requested().unwrap_or(CloseReason::ClientClosed);
        let text = match reason {
            CloseReason::MaximumConnections => ErrorText::MaximumConnections,
            CloseReason::MaximumAccountConnections => ErrorText::MaximumAccountConnections,
            _ => return SessionStatus::Close(reason),
        };
        self.log(Level::Error, format_args!("{text}"));
        self.refuse(shard, &text, reason)
    }
}

fn revoked(sub: &Subscription) -> ErrorText {
    ErrorText::SubscriptionRevoked {
        subject: sub.subject().into(),
        queue: sub.queue().map(Into::into),
        sid: sub.sid().into(),
    }
}
