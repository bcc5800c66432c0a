//! A source that counts no requests: those that come by messages are none of `http_req_stats`.

use crate::leafz::LeafSnapshot;
use crate::routez::RouteSnapshot;
use crate::snapshot::GatewaysSnapshot;
use crate::snapshot::{
    AccountSnapshot, ClusterHealth, ConnSnapshot, Health, InterestSnapshot, JetStreamAccount,
    JetStreamSnapshot, MetricsConfig, MostFigures, PageHeader, QueueSnapshot, RaftGroupSnapshot,
    RuntimeSnapshot, ServerSnapshot, SnapshotSource, StoredAccount, StreamFigures, StreamParts,
    StreamSnapshot, SubSnapshot, ThreadSnapshot,
};
use myelin_wire::peer::info::SubjectFilter;
use std::collections::HashMap;

/// Source of snapshots that counts no requests.
pub(crate) struct Uncounted<'a>(pub(crate) &'a dyn SnapshotSource);

impl SnapshotSource for Uncounted<'_> {
    fn page_header(&self) -> PageHeader {
        self.0.page_header()
    }

    fn server(&self) -> ServerSnapshot {
        self.0.server()
    }

    fn has_account(&self, name: &str) -> bool {
        self.0.has_account(name)
    }

    fn system_account(&self) -> Option<String> {
        self.0.system_account()
    }

    fn account_names(&self) -> Vec<String> {
        self.0.account_names()
    }

    fn account(&self, name: &str) -> Option<AccountSnapshot> {
        self.0.account(name)
    }

    fn accounts(&self) -> Vec<AccountSnapshot> {
        self.0.accounts()
    }

    fn accounts_in_use(&self) -> Vec<AccountSnapshot> {
        self.0.accounts_in_use()
    }

    fn open_connections(&self, account: &str) -> Vec<ConnSnapshot> {
        self.0.open_connections(account)
    }

    fn closed_connections(&self, account: &str) -> Vec<ConnSnapshot> {
        self.0.closed_connections(account)
    }

    fn subscriptions_of(&self, cids: &[u64]) -> HashMap<u64, Vec<SubSnapshot>> {
        self.0.subscriptions_of(cids)
    }

    fn visit_subscriptions(&self, account: Option<&str>, visit: &mut dyn FnMut(SubSnapshot)) {
        self.0.visit_subscriptions(account, visit);
    }

    fn interest(&self, account: Option<&str>) -> InterestSnapshot {
        self.0.interest(account)
    }

    fn health(&self) -> Health {
        self.0.health()
    }

    fn jetstream(&self) -> Option<JetStreamSnapshot> {
        self.0.jetstream()
    }

    fn jetstream_accounts(&self) -> Vec<JetStreamAccount> {
        self.0.jetstream_accounts()
    }

    fn streams(&self, account: &str, parts: StreamParts) -> Vec<StreamSnapshot> {
        self.0.streams(account, parts)
    }

    fn stream_figures(&self, account: &str, most: MostFigures) -> Vec<StreamFigures> {
        self.0.stream_figures(account, most)
    }

    fn metrics(&self) -> Option<MetricsConfig> {
        self.0.metrics()
    }

    fn stored_accounts(&self, account: Option<&str>) -> Vec<StoredAccount> {
        self.0.stored_accounts(account)
    }

    fn raft_groups(&self) -> Vec<RaftGroupSnapshot> {
        self.0.raft_groups()
    }

    fn cluster_health(&self) -> Option<ClusterHealth> {
        self.0.cluster_health()
    }

    fn waits_for_room(&self) -> Option<String> {
        self.0.waits_for_room()
    }

    fn has_consumer(&self, account: &str, stream: &str, consumer: &str) -> bool {
        self.0.has_consumer(account, stream, consumer)
    }

    fn route_filters(&self) -> [Option<SubjectFilter>; 2] {
        self.0.route_filters()
    }

    fn remote_interest(&self) -> HashMap<u64, Vec<SubSnapshot>> {
        self.0.remote_interest()
    }

    fn leaf_nodes(&self) -> Vec<LeafSnapshot> {
        self.0.leaf_nodes()
    }

    fn gateways(&self) -> Option<GatewaysSnapshot> {
        self.0.gateways()
    }

    fn gateway_interest(&self) -> HashMap<u64, Vec<SubSnapshot>> {
        self.0.gateway_interest()
    }

    fn routes(&self) -> Vec<RouteSnapshot> {
        self.0.routes()
    }

    fn queues(&self) -> Vec<QueueSnapshot> {
        self.0.queues()
    }

    fn threads(&self) -> Vec<ThreadSnapshot> {
        self.0.threads()
    }

    fn runtime(&self) -> RuntimeSnapshot {
        self.0.runtime()
    }

    fn count_request(&self, _: &'static str) {}

    fn warn(&self, text: String) {
        self.0.warn(text);
    }
}
