//! Values and objects that another domain sends here: what is published behind the name of this
//! domain's API goes to the buckets.
//!
//! Compat: there a mapping of the account does it. Here a service, so that what clients publish
//! need not be looked at for a mapping.

use super::account::AccountStreams;
use myelin_broker::{Service, ServiceBatch, ServiceShard};
use myelin_wire::message_buf::MessageRef;
use std::sync::{Arc, Weak};

/// Beginnings of the subjects of buckets, as patterns.
pub(super) const BUCKETS: [&str; 2] = ["$KV.>", "$OBJ.>"];

/// Takes what is for buckets of one account by the name of the domain.
pub(super) struct DomainBuckets {
    account: Weak<AccountStreams>,
    /// Length of what stands in front of the bucket's own subject.
    prefix: usize,
}

impl DomainBuckets {
    /// The service for this account, behind a prefix of that length.
    pub(super) fn to(account: &Arc<AccountStreams>, prefix: usize) -> Arc<dyn Service> {
        Arc::new(Self { account: Arc::downgrade(account), prefix })
    }
}

impl Service for DomainBuckets {
    fn serve(&self, msgs: &mut ServiceBatch, shard: &mut ServiceShard) {
        let Some(account) = self.account.upgrade() else { return };
        let mut out = shard.spare_buf();
        for msg in msgs.iter() {
            let subject = msg.subject.get(self.prefix..).unwrap_or_default();
            out.push(MessageRef { to: &[], subject, ..msg });
        }
        shard.send(account.account(), &mut out, account.host().instant());
        shard.keep_buf(out);
    }
}
