//! Requests to the monitoring pages.
//!
//! Promised for any path and query: an answer comes, its status is one of a few, a page that says
//! it is JSON is JSON, a list is no longer than its limit, a refusal has a text, and the base path
//! changes nothing but the paths.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use myelin_monitor::{
    AccountSnapshot, Closed, ConnSnapshot, Health, InterestSnapshot, LeafSnapshot, PageHeader, PageResponse,
    Pages, QueueSnapshot, RouteSnapshot, RuntimeSnapshot, ServerSnapshot, SnapshotSource, SubSnapshot,
    ThreadSnapshot,
};
use myelin_wire::peer::info::SubjectFilter;
use serde_json::Value;
use std::collections::HashMap;

/// Any bytes as what stands between `GET` and `HTTP/1.1`.
pub fn monitoring(data: &[u8]) {
    let target = String::from_utf8_lossy(data);
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let answer = Pages::under("").respond(path, query, &Small);
    check(path, &answer);
    let below = Pages::under("/base").respond(&format!("/base{path}"), query, &Small);
    // The index below a base path has no slash at its end and other links.
    if !matches!(path, "" | "/") && answer.status != 404 {
        assert!(below == answer, "the same below a base path");
    }
}

fn check(path: &str, answer: &PageResponse) {
    assert!([200, 400, 404, 500, 503].contains(&answer.status), "status {}", answer.status);
    assert!(answer.status == 200 || !answer.body.is_empty(), "a reason");
    let is_json = answer.headers[0].1.starts_with("application/json");
    if is_json && !path.ends_with('z') {
        serde_json::from_slice::<Value>(&answer.body).expect("variables in JSON");
    }
    if is_json && answer.body.first() == Some(&b'{') {
        bounded(&serde_json::from_slice(&answer.body).expect("a page in JSON"));
    }
}

/// A page with a limit keeps to it.
fn bounded(page: &Value) {
    let Some(limit) = page["limit"].as_u64() else { return };
    assert!(limit > 0, "a limit of nothing");
    for list in ["connections", "subscriptions_list"] {
        let length = page[list].as_array().map_or(0, Vec::len);
        assert!(length as u64 <= limit, "{list} of {length} for {limit}");
    }
}

/// A server with two clients, one of whom has left.
struct Small;

fn conn(cid: u64) -> ConnSnapshot {
    let closed =
        (cid == 2).then(|| Closed { stop: Timestamp::UNIX_EPOCH, reason: "Client Closed".to_owned() });
    ConnSnapshot {
        cid,
        closed,
        account: "$G".to_owned(),
        authorized_user: "u".to_owned(),
        ..Default::default()
    }
}

fn sub(cid: u64) -> SubSnapshot {
    SubSnapshot { subject: "a.*".to_owned(), sid: "1".to_owned(), cid, ..SubSnapshot::default() }
}

impl SnapshotSource for Small {
    fn route_filters(&self) -> [Option<SubjectFilter>; 2] {
        [None, None]
    }

    fn remote_interest(&self) -> HashMap<u64, Vec<SubSnapshot>> {
        HashMap::new()
    }

    fn leaf_nodes(&self) -> Vec<LeafSnapshot> {
        Vec::new()
    }

    fn routes(&self) -> Vec<RouteSnapshot> {
        Vec::new()
    }

    fn page_header(&self) -> PageHeader {
        PageHeader {
            server_id: "N".to_owned(),
            server_name: "n".to_owned(),
            cluster: String::new(),
            now: Timestamp::UNIX_EPOCH,
            zone: TimeZone::UTC,
        }
    }

    fn server(&self) -> ServerSnapshot {
        ServerSnapshot::default()
    }

    fn has_account(&self, name: &str) -> bool {
        name == "$G"
    }

    fn system_account(&self) -> Option<String> {
        None
    }

    fn account_names(&self) -> Vec<String> {
        vec!["$G".to_owned()]
    }

    fn account(&self, name: &str) -> Option<AccountSnapshot> {
        self.has_account(name).then(AccountSnapshot::default)
    }

    fn accounts(&self) -> Vec<AccountSnapshot> {
        vec![AccountSnapshot::default()]
    }

    fn open_connections(&self, _: &str) -> Vec<ConnSnapshot> {
        vec![conn(1)]
    }

    fn closed_connections(&self, _: &str) -> Vec<ConnSnapshot> {
        vec![conn(2)]
    }

    fn subscriptions_of(&self, cids: &[u64]) -> HashMap<u64, Vec<SubSnapshot>> {
        cids.iter().map(|cid| (*cid, vec![sub(*cid)])).collect()
    }

    fn visit_subscriptions(&self, account: Option<&str>, visit: &mut dyn FnMut(SubSnapshot)) {
        if account.is_none_or(|name| self.has_account(name)) {
            (1..=3).for_each(|cid| visit(sub(cid)));
        }
    }

    fn interest(&self, _: Option<&str>) -> InterestSnapshot {
        InterestSnapshot::default()
    }

    fn health(&self) -> Health {
        Health::WithoutJetStream
    }

    fn queues(&self) -> Vec<QueueSnapshot> {
        vec![QueueSnapshot { name: "queue".to_owned(), pending: 1, in_progress: 0 }]
    }

    fn threads(&self) -> Vec<ThreadSnapshot> {
        vec![ThreadSnapshot { id: 1, name: "main".to_owned(), state: "running".to_owned() }]
    }

    fn runtime(&self) -> RuntimeSnapshot {
        RuntimeSnapshot::default()
    }

    fn count_request(&self, _: &'static str) {}

    fn warn(&self, _: String) {}
}
