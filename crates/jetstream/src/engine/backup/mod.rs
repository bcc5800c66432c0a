//! Backups on the wire: a stream that is sent piece by piece as fast as its receiver acknowledges,
//! and one that arrives.
//!
//! Both are services of their account for as long as they last, hold memory for what is on its way
//! and no more, and do their work in slices on threads that may wait. What they mean is in
//! [`myelin_streams::backup`].

mod restore;
mod restores;
mod snapshot;

pub(super) use restore::{Restore, RestoreOrder, has_room};
pub(super) use restores::Restores;
pub(super) use snapshot::{Snapshot, SnapshotOrder};

use super::host::Host;
use myelin_broker::Account;
use myelin_jsapi::advisory::{Advisory, AdvisoryHeader, ClientInfo};
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::Arc;

/// Context of a backup: who does it, for whom, and whom to tell.
pub(super) struct BackupContext {
    pub(super) account: Arc<Account>,
    pub(super) host: Arc<dyn Host>,
    pub(super) domain: String,
    pub(super) stream: String,
    pub(super) client: Option<ClientInfo>,
}

impl BackupContext {
    /// Adds what there is to tell, if anybody listens.
    pub(super) fn add_advisory(
        &self,
        out: &mut MessageBuf,
        make: impl FnOnce(AdvisoryHeader<'_>) -> Advisory,
    ) {
        let id = self.host.unique_id();
        let advisory = make(AdvisoryHeader { id: &id, time: self.host.now(), domain: &self.domain });
        let subject = advisory.subject.as_bytes();
        if self.account.has_interest(subject) {
            out.push(MessageRef { subject, payload: &advisory.body, ..MessageRef::default() });
        }
    }
}

/// Bytes for people, as the reference writes them: `1.50 MB`.
fn friendly(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = (bytes.ilog2() / 10).min(UNITS.len() as u32);
    let value = bytes as f64 / 1024_f64.powi(power as i32);
    format!("{value:.2} {}", UNITS[power as usize - 1])
}

#[cfg(test)]
mod tests {
    #[test]
    fn bytes_are_written_for_people() {
        let all = [0, 1023, 1024, 1536 * 1024, u64::MAX].map(super::friendly);
        assert_eq!(all, ["0 B", "1023 B", "1.00 KB", "1.50 MB", "16.00 EB"]);
    }
}
