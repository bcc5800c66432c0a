//! Latency of services whose requester and responder are clients of two servers.
//!
//! Each server measures one part. The requester's server lets the reply of a measured request end
//! in `.<its node>.T`; so the responder's server knows that it is measured (`RemoteRequests`), and
//! tells what it has measured at `$SYS.LATENCY.M2.<node>`, in the system account. The requester's
//! server reports when it has both its own part and that one, whichever comes first (`LatencyParts`).
//!
//! Budget: a request that is not measured costs a look at the last two bytes of its reply.

use super::info::{RequestInfo, moment};
use super::link::ServiceLink;
use super::replies::Tracked;
use crate::account::Account;
use crate::conn::lock;
use hashbrown::HashMap;
use myelin_wire::json::compact;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

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

/// What stands behind the reply of a request that the server with this node name measures.
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
            table
                .by_reply
                .retain(|_, request| asked.saturating_duration_since(request.asked) < request.threshold);
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

/// Part of a report that the responder's server tells, in the reference's order.
#[derive(Serialize)]
struct Told<'a> {
    account: &'a str,
    req_id: String,
    m2: ToldPart,
}

#[derive(Serialize)]
struct ToldPart {
    r#type: &'static str,
    id: &'static str,
    timestamp: &'static str,
    status: u16,
    responder: RequestInfo,
    start: String,
    service: u64,
    system: u64,
    total: u64,
}

/// What the requester's server is told of a request that was answered here after `time`.
pub(crate) fn told(
    account: &str,
    reply: &[u8],
    responder: RequestInfo,
    (asked, time): (SystemTime, Duration),
) -> Vec<u8> {
    let total = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    compact(&Told {
        account,
        req_id: String::from_utf8_lossy(reply).into_owned(),
        m2: ToldPart {
            r#type: "",
            id: "",
            timestamp: "0001-01-01T00:00:00Z",
            status: 200,
            service: total.saturating_sub(responder.rtt()),
            responder,
            start: moment(asked),
            system: 0,
            total,
        },
    })
}

/// The responder's part, as its server tells it.
#[derive(Deserialize)]
pub(crate) struct SecondPart {
    pub(crate) account: String,
    pub(crate) req_id: String,
    m2: HeardPart,
}

#[derive(Deserialize)]
struct HeardPart {
    #[serde(default)]
    responder: Option<Box<RawValue>>,
    #[serde(default)]
    service: i64,
}

impl SecondPart {
    /// Who responded, in the words of its server, and how long it took.
    pub(crate) fn into_responder(self) -> (Responder, Duration) {
        let service = Duration::from_nanos(self.m2.service.max(0).unsigned_abs());
        (self.m2.responder.map_or(Responder::Unknown, Responder::Elsewhere), service)
    }
}

/// A responder in a report.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Responder {
    /// A client of this server.
    Here(RequestInfo),
    /// A client of another, as that one tells it.
    Elsewhere(Box<RawValue>),
    Unknown,
}

impl Responder {
    /// Round trip in nanoseconds; 0 where it is not known.
    pub(crate) fn rtt(&self) -> u64 {
        #[derive(Deserialize)]
        struct RoundTrip {
            #[serde(default)]
            rtt: i64,
        }
        match self {
            Self::Here(info) => info.rtt(),
            Self::Elsewhere(info) => {
                serde_json::from_str(info.get()).map_or(0, |RoundTrip { rtt }| rtt.max(0).unsigned_abs())
            }
            Self::Unknown => 0,
        }
    }

    pub(crate) fn is_known(&self) -> bool {
        !matches!(self, Self::Unknown)
    }
}

/// The requester's part of a report.
pub(crate) struct FirstPart {
    pub(crate) link: Arc<ServiceLink>,
    pub(crate) requester: Arc<Account>,
    pub(crate) tracked: Arc<Tracked>,
    pub(crate) asked: Instant,
    pub(crate) answered: Instant,
}

enum Part {
    First(FirstPart),
    Second(SecondPart, Instant),
}

/// Parts that wait for the other one, by the reply of their request.
#[derive(Default)]
pub(crate) struct LatencyParts(Mutex<HashMap<Box<[u8]>, Part>>);

impl LatencyParts {
    /// Takes the requester's part: gives both back if the other is there.
    pub(crate) fn first(&self, reply: &[u8], first: FirstPart) -> Option<(FirstPart, SecondPart)> {
        let mut parts = lock(&self.0);
        if let Some(Part::Second(second, _)) = parts.remove(reply) {
            return Some((first, second));
        }
        if parts.len() < MOST {
            parts.insert(reply.into(), Part::First(first));
        }
        None
    }

    /// Takes the responder's part: gives both back if the other is there. `is_awaited`: the
    /// response is still to come.
    pub(crate) fn second(
        &self,
        second: SecondPart,
        now: Instant,
        is_awaited: impl FnOnce(&SecondPart) -> bool,
    ) -> Option<(FirstPart, SecondPart)> {
        let mut parts = lock(&self.0);
        match parts.remove(second.req_id.as_bytes()) {
            Some(Part::First(first)) => return Some((first, second)),
            Some(Part::Second(..)) | None => {}
        }
        if parts.len() < MOST && is_awaited(&second) {
            parts.insert(second.req_id.as_bytes().into(), Part::Second(second, now));
        }
        None
    }

    /// Requesters' parts for which no other has come, and which are reported as they are.
    pub(crate) fn take_old(&self, now: Instant) -> Vec<FirstPart> {
        let mut parts = lock(&self.0);
        let is_old = |since: Instant| now.saturating_duration_since(since) >= PATIENCE;
        let old = parts.extract_if(|_, part| match part {
            Part::First(first) => is_old(first.answered),
            Part::Second(_, since) => is_old(*since),
        });
        old.filter_map(|(_, part)| match part {
            Part::First(first) => Some(first),
            Part::Second(..) => None,
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
    fn what_is_told_is_heard() {
        let responder = RequestInfo::brief("A", Duration::from_nanos(10));
        let told = told("A", b"_R_.a.b.n.T", responder, (SystemTime::UNIX_EPOCH, Duration::from_nanos(30)));
        let text = r#"{"account":"A","req_id":"_R_.a.b.n.T","m2":{"type":"","id":"","timestamp":"0001-01-01T00:00:00Z","status":200,"responder":{"acc":"A","rtt":10},"start":"1970-01-01T00:00:00Z","service":20,"system":0,"total":30}}"#;
        assert_eq!(String::from_utf8(told.clone()).unwrap(), text);
        let heard: SecondPart = serde_json::from_slice(&told).unwrap();
        let (responder, service) = heard.into_responder();
        assert_eq!((responder.rtt(), service), (10, Duration::from_nanos(20)));
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
