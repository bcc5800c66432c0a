//! `/raftz`: the groups of replicas of which the server is a member, by account.

use crate::query::Query;
use crate::response::PageResponse;
use crate::snapshot::{RaftGroup, SnapshotSource};
use std::collections::BTreeMap;

/// Compat: a server without groups answers 404 whatever it is asked for. Requests are not counted.
/// Without an account the system account's are shown: the meta group.
pub(crate) fn answer(query: &Query, source: &dyn SnapshotSource) -> PageResponse {
    match shown(query, source) {
        None => PageResponse::nothing("No Raft nodes registered"),
        Some(shown) => PageResponse::wide_page(&shown),
    }
}

/// The groups that are asked for, by account and name; `None` where there are none at all.
pub(crate) fn shown(
    query: &Query,
    source: &dyn SnapshotSource,
) -> Option<BTreeMap<String, BTreeMap<String, RaftGroup>>> {
    let groups = source.raft_groups();
    let system = source.system_account().unwrap_or_default();
    let account = if query.text("acc").is_empty() { &system } else { query.text("acc") };
    let name = query.text("group");
    if groups.is_empty() {
        return None;
    }
    let mut shown = BTreeMap::<_, BTreeMap<_, _>>::new();
    for one in groups {
        if one.account == account && (name.is_empty() || one.name == name) {
            shown.entry(one.account).or_default().insert(one.name, one.group);
        }
    }
    Some(shown)
}
