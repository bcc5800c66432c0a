//! Values and objects that another domain sends here: what is published behind the name of this
//! domain's API goes to the buckets.
//!
//! Compat: there a mapping of the account does it. Here a service, so that what clients publish
//! need not be looked at for a mapping.

use super::host::Host;
use myelin_broker::{Account, Reach, Service, ServiceBatch, ServiceShard};
use myelin_wire::message_buf::MessageRef;
use std::sync::{Arc, Weak};

/// Beginnings of the subjects of buckets, as patterns.
pub(super) const BUCKETS: [&str; 2] = ["$KV.>", "$OBJ.>"];

/// Service that takes what is for buckets of one account by the name of the domain.
pub(super) struct DomainBuckets {
    account: Weak<Account>,
    host: Arc<dyn Host>,
    /// Length of what stands in front of the bucket's own subject.
    prefix: usize,
}

impl DomainBuckets {
    /// The service for this account, behind a prefix of that length.
    pub(super) fn to(account: &Arc<Account>, host: &Arc<dyn Host>, prefix: usize) -> Arc<dyn Service> {
        Arc::new(Self { account: Arc::downgrade(account), host: Arc::clone(host), prefix })
    }
}

impl Service for DomainBuckets {
    fn reach(&self) -> Reach {
        self.host.reach()
    }

    fn serve(&self, msgs: &mut ServiceBatch, shard: &mut ServiceShard) {
        let Some(account) = self.account.upgrade() else { return };
        let mut out = shard.spare_buf();
        for msg in msgs.iter() {
            let subject = msg.subject.get(self.prefix..).unwrap_or_default();
            out.push(MessageRef { to: &[], subject, ..msg });
        }
        shard.send(&account, &mut out, self.host.instant());
        shard.keep_buf(out);
    }
}
