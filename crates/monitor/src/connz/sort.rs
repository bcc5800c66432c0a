//! The orders that `/connz` can be asked for.

use std::cmp::Reverse;

use jiff::{SignedDuration, Timestamp};

use crate::snapshot::ConnSnapshot;

/// Key that `sort=` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SortKey {
    Cid,
    Subscriptions,
    Pending,
    MsgsTo,
    MsgsFrom,
    BytesTo,
    BytesFrom,
    Last,
    Idle,
    Uptime,
    Stop,
    Reason,
    RoundTrip,
}

impl SortKey {
    /// The order of this name. An empty name is by id, and so is `start`: ids are given out in that
    /// order.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "" | "cid" | "start" => Self::Cid,
            "subs" => Self::Subscriptions,
            "pending" => Self::Pending,
            "msgs_to" => Self::MsgsTo,
            "msgs_from" => Self::MsgsFrom,
            "bytes_to" => Self::BytesTo,
            "bytes_from" => Self::BytesFrom,
            "last" => Self::Last,
            "idle" => Self::Idle,
            "uptime" => Self::Uptime,
            "stop" => Self::Stop,
            "reason" => Self::Reason,
            "rtt" => Self::RoundTrip,
            _ => return None,
        })
    }

    /// The name of an order that only closed connections have.
    pub(super) fn needs_closed(self) -> Option<&'static str> {
        match self {
            Self::Stop => Some("stop"),
            Self::Reason => Some("reason"),
            _ => None,
        }
    }

    /// Sorts; connections that are equal in this order follow their ids.
    ///
    /// Compat: everything is largest first, except id, uptime and reason.
    pub(super) fn apply(self, list: &mut [&ConnSnapshot], now: Timestamp) {
        list.sort_unstable_by_key(|conn| conn.cid);
        match self {
            Self::Cid => {}
            Self::Subscriptions => list.sort_by_key(|conn| Reverse(conn.subscriptions)),
            Self::Pending => list.sort_by_key(|conn| Reverse(conn.pending_bytes)),
            Self::MsgsTo => list.sort_by_key(|conn| Reverse(conn.out_msgs)),
            Self::MsgsFrom => list.sort_by_key(|conn| Reverse(conn.in_msgs)),
            Self::BytesTo => list.sort_by_key(|conn| Reverse(conn.out_bytes)),
            Self::BytesFrom => list.sort_by_key(|conn| Reverse(conn.in_bytes)),
            Self::Last => list.sort_by_key(|conn| Reverse(conn.last_activity)),
            Self::Idle => list.sort_by_key(|conn| conn.last_activity),
            Self::Uptime => list.sort_by_key(|conn| uptime(conn, now)),
            Self::Stop => list.sort_by_key(|conn| Reverse(conn.closed.as_ref().map(|closed| closed.stop))),
            Self::Reason => list.sort_by(|a, b| reason(a).cmp(reason(b))),
            Self::RoundTrip => list.sort_by_key(|conn| Reverse(conn.rtt)),
        }
    }
}

fn uptime(conn: &ConnSnapshot, now: Timestamp) -> SignedDuration {
    conn.closed.as_ref().map_or(now, |closed| closed.stop).duration_since(conn.start)
}

fn reason(conn: &ConnSnapshot) -> &str {
    conn.closed.as_ref().map_or("", |closed| &closed.reason)
}
