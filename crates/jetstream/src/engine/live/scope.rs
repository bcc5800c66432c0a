//! Scope of a stream: what it is called, whose it is and on which server, for as long as it is
//! open.

use crate::engine::host::Host;
use myelin_broker::Account;
use myelin_jsapi::advisory::Advisory;
use myelin_store::Timestamp;
use myelin_streams::consumer::account_hash as hash;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::Arc;
use std::time::Instant;

/// Names, account and host of one stream, none of which ever changes.
pub(super) struct StreamScope {
    pub(super) name: Box<str>,
    /// The JetStream domain; empty for none.
    pub(super) domain: Box<str>,
    pub(super) server_name: Box<str>,
    pub(super) server_id: Box<str>,
    /// When the stream was created, which tells it from another one of its name.
    pub(super) created: Timestamp,
    /// When it was opened, by the clock that only goes forward.
    pub(super) opened: Instant,
    pub(super) account: Arc<Account>,
    pub(super) host: Arc<dyn Host>,
}

impl StreamScope {
    /// Subjects on which direct gets from `stream` are asked for.
    pub(super) fn direct_subjects(&self, stream: &str) -> Vec<String> {
        let mut prefixes = vec!["$JS.API".to_owned()];
        if !self.domain.is_empty() {
            prefixes.push(format!("$JS.{}.API", self.domain));
        }
        let both = |prefix: &String| {
            let subject = format!("{prefix}.DIRECT.GET.{stream}");
            [format!("{subject}.>"), subject]
        };
        prefixes.iter().flat_map(both).collect()
    }

    /// Adds an advisory to `out` if somebody in the stream's account listens to it.
    pub(super) fn add_advisory(&self, advisory: &Advisory, out: &mut MessageBuf) {
        if self.account.has_interest(advisory.subject.as_bytes()) {
            out.push(advisory_msg(advisory));
        }
    }

    /// Publishes an advisory in the system account, if there is one.
    pub(super) fn publish_to_system(&self, advisory: impl FnOnce() -> Advisory) {
        if let Some(system) = self.host.system_account() {
            let (advisory, mut out) = (advisory(), MessageBuf::default());
            out.push(advisory_msg(&advisory));
            self.host.publish(&system, out);
        }
    }
}

fn advisory_msg(advisory: &Advisory) -> MessageRef<'_> {
    MessageRef { subject: advisory.subject.as_bytes(), payload: &advisory.body, ..MessageRef::default() }
}

/// Hash that tells a stream from another one of its name: the reference's, of the time when it was
/// made.
pub(super) fn identity(created: Timestamp) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(created)).unwrap_or_default();
    hash(&time.to_string())
}
