//! Advisories of a stream on what publishers are not told: batches that were given up, messages
//! that were dropped.

use super::LiveStream;
use super::turn::TurnResult;
use myelin_broker::Level;
use myelin_jsapi::advisory::{self, AdvisoryHeader};
use myelin_streams::stream::batch::Abandoned;

impl LiveStream {
    /// Adds advisories to what a turn has to say.
    pub(super) fn add_advisories(&self, after: &mut TurnResult) {
        self.report_full_disk(after);
        if after.drops.is_empty() && after.effects.abandoned.is_empty() {
            return;
        }
        let (id, time) = (self.scope.host.unique_id(), self.scope.host.now());
        let header = AdvisoryHeader { id: &id, time, domain: &self.scope.domain };
        let drops = std::mem::take(&mut after.drops);
        if !drops.is_empty() {
            match self.reports.drops.pass(time) {
                Ok(()) => {
                    let lost = advisory::messages_lost(header, &self.scope.name, &drops);
                    self.scope.add_advisory(&lost, &mut after.effects.out);
                }
                Err(next) => {
                    self.reports.put_off_drops();
                    after.due = Some(after.due.map_or(next, |due| due.min(next)));
                }
            }
        }
        for Abandoned { id, reason } in std::mem::take(&mut after.effects.abandoned) {
            let of = |account| advisory::batch_abandoned(header, account, &self.scope.name, &id, reason);
            self.scope.add_advisory(&of(""), &mut after.effects.out);
            self.scope.publish_to_system(|| of(self.scope.account.name()));
        }
    }

    /// Tells operators that the disk is full, in the log and as an advisory, now and then while it
    /// is.
    ///
    /// Compat: the reference does in a cluster, and stops JetStream there; alone it tells
    /// publishers only, as we do besides.
    fn report_full_disk(&self, after: &mut TurnResult) {
        let is_full = std::mem::take(&mut after.effects.is_full);
        if is_full && self.reports.full_disk.pass(self.scope.host.now()).is_ok() {
            self.tell_of_full_disk("refuses messages until there is some");
        }
    }

    /// `cost`: what the stream does not do meanwhile.
    pub(super) fn tell_of_full_disk(&self, cost: &str) {
        let time = self.scope.host.now();
        let (account, name) = (self.scope.account.name(), &self.scope.name);
        let line = format_args!("JetStream out of space: '{account}' > '{name}' {cost}");
        self.scope.host.log(Level::Error, line);
        let id = self.scope.host.unique_id();
        let header = AdvisoryHeader { id: &id, time, domain: &self.scope.domain };
        self.scope.publish_to_system(|| {
            let cluster = self.scope.host.cluster();
            advisory::out_of_storage(
                header,
                &self.scope.server_name,
                &self.scope.server_id,
                &self.scope.name,
                &cluster,
            )
        });
    }

    pub(super) fn log_overload(&self) {
        let (account, name, now) = (self.scope.account.name(), &self.scope.name, self.scope.host.now());
        if self.reports.overload.pass(now).is_ok() {
            let what = format_args!(
                "Dropping messages due to excessive stream ingest rate on '{account}' > '{name}'"
            );
            self.scope.host.log(Level::Warn, what);
        }
    }
}
