//! What a stream tells whoever listens, because publishers are not told: batches that were given up, messages that were
//! lost.

use super::LiveStream;
use super::turn::TurnResult;
use crate::advisory::{self, Advisory, Stamp};
use crate::stream::batch::Abandoned;
use myelin_broker::{Level, MessageBuf, MessageRef};
use std::sync::atomic::Ordering::Relaxed;

/// Nanoseconds between two advisories about lost messages or a full disk of one stream, and between two warnings about its overload.
const EVERY: i64 = 1_000_000_000;

impl LiveStream {
    /// Adds advisories to what a turn has to say.
    pub(super) fn advise(&self, after: &mut TurnResult) {
        self.tell_of_full_disk(after);
        if after.losses.is_empty() && after.effects.abandoned.is_empty() {
            return;
        }
        let (id, time) = (self.host.unique_id(), self.host.now());
        let stamp = Stamp { id: &id, time, domain: &self.domain };
        let losses = std::mem::take(&mut after.losses);
        let next = self.last_loss.load(Relaxed).saturating_add(EVERY);
        if !losses.is_empty() && time >= next {
            self.last_loss.store(time, Relaxed);
            self.tell(&advisory::messages_lost(stamp, &self.name, &losses), &mut after.effects.out);
        } else if !losses.is_empty() {
            self.has_untold.store(true, Relaxed);
            after.due = Some(after.due.map_or(next, |due| due.min(next)));
        }
        for Abandoned { id, reason } in std::mem::take(&mut after.effects.abandoned) {
            let of = |account| advisory::batch_abandoned(stamp, account, &self.name, &id, reason);
            self.tell(&of(""), &mut after.effects.out);
            self.tell_operators(|| of(self.account.name()));
        }
    }

    /// Tells operators that the disk is full, in the log and as an advisory, now and then while it is.
    ///
    /// Compat: the reference does in a cluster, and stops JetStream there; alone it tells publishers only, as we do besides.
    fn tell_of_full_disk(&self, after: &mut TurnResult) {
        let time = self.host.now();
        if !std::mem::take(&mut after.effects.is_full)
            || time < self.last_full.load(Relaxed).saturating_add(EVERY)
        {
            return;
        }
        self.last_full.store(time, Relaxed);
        let (account, name) = (self.account.name(), &self.name);
        self.host.log(
            Level::Error,
            format_args!(
                "JetStream out of space: '{account}' > '{name}' refuses messages until there is some"
            ),
        );
        let id = self.host.unique_id();
        let stamp = Stamp { id: &id, time, domain: &self.domain };
        self.tell_operators(|| {
            let cluster = self.host.cluster();
            advisory::out_of_storage(stamp, &self.server_name, &self.server_id, &self.name, &cluster)
        });
    }

    /// Publishes in the system account.
    fn tell_operators(&self, advisory: impl FnOnce() -> Advisory) {
        if let Some(system) = self.host.system_account() {
            let (advisory, mut out) = (advisory(), MessageBuf::default());
            out.push(letter_of(&advisory));
            self.host.publish(&system, out);
        }
    }

    fn tell(&self, advisory: &Advisory, out: &mut MessageBuf) {
        if self.account.has_interest(advisory.subject.as_bytes()) {
            out.push(letter_of(advisory));
        }
    }

    pub(super) fn warn_of_overload(&self) {
        let (account, name, now) = (self.account.name(), &self.name, self.host.now());
        if now - self.last_warning.load(Relaxed) >= EVERY {
            self.last_warning.store(now, Relaxed);
            let what = format_args!(
                "Dropping messages due to excessive stream ingest rate on '{account}' > '{name}'"
            );
            self.host.log(Level::Warn, what);
        }
    }
}

fn letter_of(advisory: &Advisory) -> MessageRef<'_> {
    MessageRef { subject: advisory.subject.as_bytes(), payload: &advisory.body, ..MessageRef::default() }
}
