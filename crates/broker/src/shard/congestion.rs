//! Receivers with much waiting, and the services that want to send them more.
//!
//! A client that reads slowly is cut off in the end, and what is published to it is published
//! anyway. What consumers deliver can wait in their streams instead: they ask here first, and are
//! woken when there is room (contracts.md C8).

use super::Shard;
use super::route::{ClientTarget, RouteScope, RouteTarget};
use super::source::Via;
use super::staging::Staging;
use crate::account::Account;
use crate::conn::Conn;
use crate::service::Service;
use crate::waiter::Waiter;
use std::sync::Arc;

/// The look at one receiver after the other.
struct CongestionCheck<'a> {
    staging: &'a mut Staging,
    /// Bytes that are too many.
    bound: usize,
    waiter: &'a Arc<dyn Service>,
}

impl CongestionCheck<'_> {
    /// Whether too much waits for `conn`.
    fn is_behind(&mut self, conn: &Conn) -> bool {
        conn.pending() + self.staging.staged(conn) >= self.bound && conn.close_requested().is_none()
    }

    /// Tells whether too much waits for `conn`, and if so, sees to it that the waiter is woken when
    /// that has changed.
    fn waits_for(&mut self, conn: &Conn) -> bool {
        self.is_behind(conn) && {
            // Staged bytes leave with this shard's next flush, and who writes them then looks for
            // waiters.
            let staged = self.staging.staged(conn);
            let waiter = Waiter::new(Arc::as_ptr(self.waiter).addr(), Arc::clone(self.waiter));
            conn.outbox.backlog.wait(&waiter, self.bound / 2, staged)
        }
    }

    fn target(&mut self, target: &RouteTarget) -> bool {
        match target {
            RouteTarget::Client(delivery) => self.waits_for(delivery.sub.conn()),
            RouteTarget::Cohort(shared) => shared.subs.iter().any(|sub| self.waits_for(sub.conn())),
            RouteTarget::Mqtt(mqtt) => mqtt.subs.iter().any(|sub| self.waits_for(sub.conn())),
        }
    }

    /// Whether all members of a queue group are behind; those that end are passed by anyway.
    fn group(&mut self, group: &[ClientTarget]) -> bool {
        let mut members = group.iter().map(|delivery| delivery.sub.conn());
        let mut living = members.clone().filter(|conn| conn.close_requested().is_none()).peekable();
        living.peek().is_some()
            && living.all(|conn| self.is_behind(conn))
            && members.all(|conn| conn.close_requested().is_some() || self.waits_for(conn))
    }
}

/// Receiver that a service waits for, since it was told that too much waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AwaitedReceiver {
    /// Number of the connection.
    pub cid: u64,
    /// Bytes that wait for it.
    pub pending: usize,
    /// Bytes from which on services send it nothing.
    pub bound: usize,
}

impl Account {
    /// The receiver of `subject` that `waiter` waits for since [`Shard::is_congested`] has said so.
    /// For whoever asks why nothing is sent, on any thread.
    pub fn awaited_receiver(&self, subject: &[u8], waiter: &Arc<dyn Service>) -> Option<AwaitedReceiver> {
        if self.imports.replies.owns(subject) {
            let (account, reply) = self.imports.replies.waiting(subject)?;
            return account.awaited_receiver(&reply, waiter);
        }
        let me = Waiter::new(Arc::as_ptr(waiter).addr(), Arc::clone(waiter));
        let awaited = |conn: &Conn| {
            let low = conn.outbox.backlog.low_for(&me).filter(|_| conn.close_requested().is_none())?;
            let pending = conn.pending();
            (pending >= low).then(|| AwaitedReceiver { cid: conn.cid(), pending, bound: low * 2 })
        };
        let receivers = self.receivers(subject);
        receivers.plain.iter().find_map(|sub| awaited(sub.conn())).or_else(|| {
            receivers.queues.iter().find_map(|group| {
                let living = group.members.iter().filter(|sub| sub.conn().close_requested().is_none());
                let all: Option<Vec<_>> = living.map(|sub| awaited(sub.conn())).collect();
                all?.into_iter().next()
            })
        })
    }
}

impl Shard {
    /// Whether a delivery to `subject` would go to a receiver for which
    /// [too much](crate::Settings::max_backlog) is staged or waits already: any of the plain
    /// subscriptions, or all members of a queue group. If so, `waiter` is woken, on whatever shard,
    /// when half of that is worked off or the receiver has ended. It may also be woken without
    /// need.
    pub fn is_congested(
        &mut self,
        account: &Arc<Account>,
        subject: &[u8],
        waiter: &Arc<dyn Service>,
    ) -> bool {
        if account.imports.replies.owns(subject) {
            let waiting = account.imports.replies.waiting(subject);
            return waiting.is_some_and(|(account, reply)| self.is_congested(&account, &reply, waiter));
        }
        let scope =
            RouteScope { account, permissions: None, is_mapped: false, is_imported: false, via: Via::Here };
        let route = self.routes.find(scope, subject, self.staging.cohorts());
        let bound = self.settings.max_backlog();
        let mut check = CongestionCheck { staging: &mut self.staging, bound, waiter };
        route.targets.iter().any(|target| check.target(target))
            || route.groups.iter().any(|group| check.group(group))
    }

    /// Whether [too much](crate::Settings::max_backlog) is staged or waits for `conn`. If so,
    /// `waiter` is woken as [`Self::is_congested`] says.
    pub(crate) fn is_behind(&mut self, conn: &Conn, waiter: &Arc<dyn Service>) -> bool {
        let bound = self.settings.max_backlog();
        CongestionCheck { staging: &mut self.staging, bound, waiter }.waits_for(conn)
    }

    /// Some of what waited for `conn` is written.
    #[inline]
    pub(super) fn relieved(&mut self, conn: &Conn) {
        for waiter in conn.outbox.backlog.relieved() {
            self.wake_waiter(&waiter);
        }
    }

    /// The session of `conn` is over.
    pub(crate) fn ended(&mut self, conn: &Conn) {
        for waiter in conn.outbox.backlog.end() {
            self.wake_waiter(&waiter);
        }
    }

    fn wake_waiter(&mut self, waiter: &Waiter) {
        let service = waiter.handle::<Arc<dyn Service>>().expect("nothing but services waits");
        self.queue.wake(service);
    }
}
