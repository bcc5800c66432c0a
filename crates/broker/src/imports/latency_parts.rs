//! Latency of services whose requester and responder are clients of two servers.
//!
//! Each server measures one part. The requester's server lets the reply of a measured request end
//! in `.<its node>.T`; so the responder's server knows that it is measured (`RemoteRequests`), and
//! tells what it has measured at `$SYS.LATENCY.M2.<node>`, in the system account. The requester's
//! server reports when it has both its own part and that one, whichever comes first
//! (`LatencyParts`).
//!
//! Budget: a request that is not measured costs a look at the last two bytes of its reply.

use hashbrown::HashMap;
use myelin_stdx::sync::lock;
use myelin_wire::peer::gateway::MappedReply;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// End of the reply of a request that another server measures.
const SUFFIX: &[u8] = b".T";
/// Replies that such a server makes, in an account: they have no other form.
const REPLIES: &[u8] = b"_R_.*.*.*.T";
/// Requests of one account, and parts, that are kept at most; what is beyond is not measured.
const MOST: usize = 64 * 1024;
/// Between two looks for what nobody needs any more.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Time for the other part to come. Compat: the reference waits for ever, and reports nothing.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether another server measures the request with this reply.
#[inline]
pub(crate) fn is_measured(reply: &[u8]) -> bool {
    reply.ends_with(SUFFIX) && reply.starts_with(b"_R_.")
}

/// End of the reply of a request that the server with this node name measures.
pub(crate) fn suffix(node: &str) -> Vec<u8> {
    [b".", node.as_bytes(), SUFFIX].concat()
}

/// The node name of the server that measures the request with this reply.
fn node_of(reply: &[u8]) -> Option<&[u8]> {
    reply.strip_suffix(SUFFIX)?.rsplit(|byte| *byte == b'.').next()
}

/// Subject at which the server that measures the request with this reply hears the other part.
pub(crate) fn told_at(reply: &[u8]) -> Option<Vec<u8>> {
    Some([b"$SYS.LATENCY.M2.", node_of(reply)?].concat())
}

/// Requests from other servers that have gone to clients here and are measured.
#[derive(Default)]
pub(crate) struct RemoteRequests(OnceLock<Mutex<Table>>);

#[derive(Default)]
struct Table {
    by_reply: HashMap<Box<[u8]>, RemoteRequest>,
    swept: Option<Instant>,
}

/// A request, by its reply.
#[derive(Clone, Copy)]
struct RemoteRequest {
    asked: Instant,
    threshold: Duration,
}

impl RemoteRequests {
    /// Notes a request. Before the first one, `listen` gets the pattern of all their replies.
    pub(crate) fn open(&self, reply: &[u8], asked: Instant, threshold: Duration, listen: impl FnOnce(&[u8])) {
        let mut is_first = false;
        let table = self.0.get_or_init(|| {
            is_first = true;
            Mutex::default()
        });
        let mut table = lock(table);
        if table.swept.is_none_or(|swept| asked.saturating_duration_since(swept) >= SWEEP_EVERY) {
            table.swept = Some(asked);
            let requests = &mut table.by_reply;
            #[expect(clippy::disallowed_methods, reason = "each is looked at by itself")]
            requests.retain(|_, request| asked.saturating_duration_since(request.asked) < request.threshold);
        }
        if table.by_reply.len() < MOST {
            table.by_reply.insert(reply.into(), RemoteRequest { asked, threshold });
        }
        drop(table);
        if is_first {
            listen(REPLIES);
        }
    }

    /// When the request was made that is answered at `reply`; its answer is no longer awaited.
    pub(crate) fn close(&self, reply: &[u8]) -> Option<Instant> {
        lock(self.0.get()?).by_reply.remove(reply).map(|request| request.asked)
    }
}

/// The responder's part, as its server tells it.
#[derive(Deserialize)]
pub(crate) struct SecondPart {
    pub(crate) account: String,
    pub(crate) req_id: String,
    pub(crate) m2: HeardPart,
}

impl SecondPart {
    /// Names the request by the reply that this server has given it. Compat: a nats-server of
    /// another cluster names the reply as it has crossed.
    pub(crate) fn unmapped(mut self) -> Self {
        if let Some(mapped) = MappedReply::of(self.req_id.as_bytes())
            && let Ok(reply) = std::str::from_utf8(mapped.reply)
        {
            self.req_id = reply.to_owned();
        }
        self
    }
}

/// Measurement of the responder's server.
#[derive(Deserialize)]
pub(crate) struct HeardPart {
    #[serde(default)]
    pub(crate) responder: Option<Box<RawValue>>,
    /// Nanoseconds.
    #[serde(default)]
    pub(crate) service: i64,
}

enum LatencyPart<F> {
    /// The requester's, and when it was answered.
    First(F, Instant),
    Second(SecondPart, Instant),
}

/// Parts that wait for the other one, by the reply of their request; `F` is the requester's.
pub(crate) struct LatencyParts<F>(Mutex<BTreeMap<Box<[u8]>, LatencyPart<F>>>);

impl<F> Default for LatencyParts<F> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<F> LatencyParts<F> {
    /// Takes the requester's part: gives both back if the other is there.
    pub(crate) fn first(&self, reply: &[u8], first: F, answered: Instant) -> Option<(F, SecondPart)> {
        let mut parts = lock(&self.0);
        if let Some(LatencyPart::Second(second, _)) = parts.remove(reply) {
            return Some((first, second));
        }
        if parts.len() < MOST {
            parts.insert(reply.into(), LatencyPart::First(first, answered));
        }
        None
    }

    /// Takes the responder's part: gives both back if the other is there. `is_own`: its reply is
    /// one that this server has made.
    pub(crate) fn second(
        &self,
        second: SecondPart,
        now: Instant,
        is_own: impl FnOnce(&SecondPart) -> bool,
    ) -> Option<(F, SecondPart)> {
        let mut parts = lock(&self.0);
        match parts.remove(second.req_id.as_bytes()) {
            Some(LatencyPart::First(first, _)) => return Some((first, second)),
            Some(LatencyPart::Second(..)) | None => {}
        }
        if parts.len() < MOST && is_own(&second) {
            parts.insert(second.req_id.as_bytes().into(), LatencyPart::Second(second, now));
        }
        None
    }

    /// Requesters' parts for which no other has come, and which are reported as they are.
    pub(crate) fn take_old(&self, now: Instant) -> Vec<F> {
        let mut parts = lock(&self.0);
        let is_old = |since: Instant| now.saturating_duration_since(since) >= PATIENCE;
        let old = parts.extract_if(.., |_, part| match part {
            LatencyPart::First(_, since) | LatencyPart::Second(_, since) => is_old(*since),
        });
        old.filter_map(|(_, part)| match part {
            LatencyPart::First(first, _) => Some(first),
            LatencyPart::Second(..) => None,
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measured_reply_names_its_server() {
        let reply = b"_R_.abcdef.123456.sQnRv29R.T";
        assert!(is_measured(reply));
        assert_eq!(told_at(reply).unwrap(), b"$SYS.LATENCY.M2.sQnRv29R");
        assert!(!is_measured(b"_R_.abcdef.123456") && !is_measured(b"_INBOX.a.T"));
        assert_eq!(suffix("sQnRv29R"), b".sQnRv29R.T");
    }

    #[test]
    fn parts_find_each_other_in_any_order() {
        let part = || SecondPart {
            account: "A".to_owned(),
            req_id: "r".to_owned(),
            m2: HeardPart { responder: None, service: 7 },
        };
        let (parts, start) = (LatencyParts::default(), Instant::now());
        assert!(parts.first(b"r", 1, start).is_none());
        let (first, second) = parts.second(part(), start, |_| true).expect("both are there");
        assert_eq!((first, second.m2.service), (1, 7));
        assert!(parts.second(part(), start, |_| true).is_none());
        assert_eq!(parts.first(b"r", 2, start).expect("both are there").0, 2);
        assert!(parts.second(part(), start, |_| false).is_none());
        assert!(parts.first(b"r", 3, start).is_none(), "that one was of no request here");
        assert!(parts.take_old(start).is_empty());
        assert_eq!(parts.take_old(start + PATIENCE), [3]);
    }

    #[test]
    fn a_part_names_its_request_however_that_has_crossed() {
        let named = |req_id: &str| {
            let told = serde_json::json!({"account": "A", "req_id": req_id, "m2": {}});
            serde_json::from_value::<SecondPart>(told).expect("it is a part").unmapped().req_id
        };
        assert_eq!(named("_R_.a.1.n.T"), "_R_.a.1.n.T");
        assert_eq!(named("_GR_.b2oh2L.I8efvK._R_.a.1.n.T"), "_R_.a.1.n.T");
        // The place of the reply is within a character.
        assert_eq!(named("_GR_.b2oh2L.I8efvKé_R_.a.1"), "_GR_.b2oh2L.I8efvKé_R_.a.1");
    }

    #[test]
    fn a_request_is_measured_once_and_not_for_ever() {
        let (requests, start) = (RemoteRequests::default(), Instant::now());
        let mut patterns = Vec::new();
        for reply in [&b"_R_.a.1.n.T"[..], b"_R_.a.2.n.T"] {
            requests.open(reply, start, Duration::from_secs(2), |pattern| patterns.push(pattern.to_vec()));
        }
        assert_eq!(patterns, [REPLIES]);
        assert_eq!(requests.close(b"_R_.a.1.n.T"), Some(start));
        assert_eq!(requests.close(b"_R_.a.1.n.T"), None);
        requests.open(b"_R_.a.3.n.T", start + Duration::from_secs(3), Duration::from_secs(2), |_| ());
        assert_eq!(requests.close(b"_R_.a.2.n.T"), None, "its time is over");
    }
}
