//! The API of one account on the shards: takes requests on shards and hands them to a thread that
//! may wait.

use super::account::AccountStreams;
use super::api_request::ApiRequest;
use myelin_broker::{Level, Reach, Service, ServiceBatch, ServiceShard, TraceRole};
use myelin_store::Timestamp;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Nanoseconds between two warnings.
const WARNING_EVERY: Timestamp = 1_000_000_000;

/// Service on the subjects of one account's API.
pub(super) struct ApiService {
    account: Weak<AccountStreams>,
    /// Requests that were dropped since the last warning, and when that was.
    dropped: AtomicU64,
    last_warning: AtomicI64,
}

impl ApiService {
    /// The service for this account.
    pub(super) fn to(account: &Arc<AccountStreams>) -> Arc<dyn Service> {
        let account = Arc::downgrade(account);
        Arc::new(Self { account, dropped: AtomicU64::new(0), last_warning: AtomicI64::new(0) })
    }

    /// Says that requests were dropped: to those who listen each time, to the log not too often.
    #[cold]
    fn report_dropped(&self, account: &AccountStreams, dropped: u64) {
        account.publish_drop_advisory(dropped);
        let host = account.host();
        self.dropped.fetch_add(dropped, Relaxed);
        if host.now() - self.last_warning.load(Relaxed) < WARNING_EVERY {
            return;
        }
        self.last_warning.store(host.now(), Relaxed);
        let all = self.dropped.swap(0, Relaxed);
        host.log(Level::Warn, format_args!("JetStream API queue limit reached, dropping {all} requests"));
    }
}

impl Service for ApiService {
    fn reach(&self) -> Reach {
        self.account.upgrade().map_or(Reach::Offered, |account| account.host().reach())
    }

    fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
        let Some(account) = self.account.upgrade() else { return };
        let mut dropped = 0;
        for (at, msg) in msgs.iter().enumerate() {
            let request = ApiRequest::new(account.account(), msg, msgs.origin(at));
            dropped += u64::from(!account.host().request(request));
        }
        if dropped > 0 {
            self.report_dropped(&account, dropped);
        }
    }

    fn trace_role(&self) -> TraceRole<'_> {
        TraceRole::System
    }

    fn wants_origin(&self) -> bool {
        true
    }
}
