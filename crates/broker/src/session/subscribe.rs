//! SUB and UNSUB.

use super::{Session, SessionState};
use crate::log::Level;
use crate::shard::Shard;
use crate::subscription::Subscription;
use myelin_wire::encode;
use myelin_wire::error::{ErrorText, Quoted};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Nobody may join this group: it is the reference's own.
const SYSTEM_QUEUE: &[u8] = b"_sys_";

/// How often an account's limit is reported.
const LIMIT_REPORT: Duration = Duration::from_secs(2);

/// A subscription that a client asks for.
#[derive(Clone, Copy)]
pub(super) struct SubRequest<'a> {
    pub(super) subject: &'a [u8],
    pub(super) queue: Option<&'a [u8]>,
    pub(super) sid: &'a [u8],
    /// Value of [`Subscription::leaves_stored`] from its first message on.
    pub(super) leaves_stored: bool,
}

impl Session {
    /// The subscription is visible to every publish that is parsed later, on any shard, before the
    /// next operation of this connection.
    pub(super) fn subscribe(
        &mut self,
        shard: &mut Shard,
        subject: &[u8],
        queue: Option<&[u8]>,
        sid: &[u8],
        now: Instant,
    ) {
        let wanted = SubRequest { subject, queue, sid, leaves_stored: false };
        match self.add_subscription(shard, wanted, now) {
            Ok(()) => self.stage_ok(shard),
            Err(text) => self.refuse_subscription(shard, &text, sid, now),
        }
    }

    /// Subscribes, unless `sid` names a subscription already.
    ///
    /// # Errors
    /// When the client may not.
    pub(super) fn add_subscription(
        &self,
        shard: &mut Shard,
        wanted: SubRequest<'_>,
        now: Instant,
    ) -> Result<(), ErrorText> {
        let SubRequest { subject, queue, sid, leaves_stored } = wanted;
        let SessionState::Ready(ready) = &self.state else { return Ok(()) };
        self.may_subscribe(shard, subject, queue)?;
        if self.conn.subscription(sid).is_some() {
            return Ok(());
        }
        if !myelin_subject::is_well_formed(subject) {
            return Err(ErrorText::InvalidSubject);
        }
        if ready.permissions.as_ref().is_some_and(|p| p.needs_delivery_filter(subject)) {
            ready.account.filter(&self.conn);
        }
        let sub = Arc::new(Subscription::new(Arc::clone(&self.conn), subject, queue, sid));
        sub.set_leaves_stored(leaves_stored);
        self.conn.remember(Arc::clone(&sub));
        ready.account.subscribed_at(now);
        ready.account.subscribe(&sub, shard);
        Ok(())
    }

    /// The checks in the reference's order; a duplicate sid at the limit is refused too.
    fn may_subscribe(&self, shard: &Shard, subject: &[u8], queue: Option<&[u8]>) -> Result<(), ErrorText> {
        let SessionState::Ready(ready) = &self.state else { return Ok(()) };
        let allowed = ready.permissions.as_ref().is_none_or(|p| p.can_subscribe(subject, queue));
        if !allowed || queue == Some(SYSTEM_QUEUE) {
            return Err(ErrorText::SubscriptionViolation(subject.into(), queue.map(Into::into)));
        }
        let settings = shard.settings();
        if settings.max_sub_tokens.is_some_and(|max| myelin_subject::token_count(subject) > max) {
            return Err(ErrorText::TooManyTokens(subject.into()));
        }
        // Compat: an account's limit counts the subscriptions of each connection, not their sum.
        let [account, own] = ready.max_subscriptions();
        let limits = [settings.max_subscriptions, account, own];
        if limits.iter().flatten().any(|max| self.conn.subscription_count() >= *max) {
            return Err(ErrorText::MaximumSubscriptions);
        }
        Ok(())
    }

    /// Tells the client and the log; a reached limit in the other order, and not over and over.
    #[cold]
    pub(super) fn refuse_subscription(&self, shard: &mut Shard, text: &ErrorText, sid: &[u8], now: Instant) {
        if let ErrorText::MaximumSubscriptions = text {
            self.report_limit(text, now);
        }
        self.stage_error(shard, text);
        self.note_refused(text, now);
        let sid = String::from_utf8_lossy(sid);
        let what = match text {
            ErrorText::SubscriptionViolation(subject, None) => format!("- Subject {}", Quoted(subject)),
            ErrorText::SubscriptionViolation(subject, Some(queue)) => {
                format!("- Subject {}, Queue: {}", Quoted(subject), Quoted(queue))
            }
            ErrorText::TooManyTokens(subject) => format!("Too Many Tokens - Subject {}", Quoted(subject)),
            _ => return,
        };
        self.log(Level::Error, format_args!("Subscription Violation {what}, SID {sid}"));
    }

    fn report_limit(&self, text: &ErrorText, now: Instant) {
        let SessionState::Ready(ready) = &self.state else { return };
        let statement = format!("{text} - {}", ready.account.name());
        if self.broker.log.limit.allows_each(LIMIT_REPORT, &statement, now) {
            self.log(Level::Error, format_args!("{text}"));
        }
    }

    pub(super) fn unsubscribe(&mut self, shard: &mut Shard, sid: &[u8], max: Option<u32>) {
        let SessionState::Ready(ready) = &self.state else { return };
        let mut ended = None;
        if let Some(sub) = self.conn.subscription(sid) {
            // `max` counts from the subscription's start, so the counts must be true now. What
            // another shard has staged in this tick is not in them: it may exceed the limit by that
            // much.
            shard.apply_counts();
            match max {
                Some(max) if u64::from(max) > sub.delivered() => {
                    sub.set_max(max);
                    // Routes that took it for unlimited must be built anew.
                    ready.account.touch(&sub);
                }
                _ => {
                    ready.account.end(&sub, Some(shard));
                    ended = Some(sub);
                }
            }
        }
        self.stage_ok(shard);
        if self.logs_protocol {
            self.log_delsubs(ended.as_slice());
        }
    }

    /// `+OK` for those who want it.
    pub(super) fn stage_ok(&self, shard: &mut Shard) {
        if self.connect.verbose {
            self.log_sent("OK");
            shard.stage_line(&self.conn, encode::OK);
        }
    }
}
