//! How long services of an account take: what is reported of requests that are measured.
//!
//! Reports are the reference's `io.nats.server.metric.v1.service_latency`. They say nothing of the
//! requester but its round trip and its account, unless its import shares who asks.

use super::info::RequestInfo;
use super::latency_parts::SecondPart;
use super::measuring::{Cause, Outcome};
use myelin_stdx::rfc3339;
use myelin_wire::json::compact;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// A measured request.
pub(crate) struct Measured<'a> {
    pub(crate) requestor: RequestInfo,
    pub(crate) responder: Responder,
    /// Time of the service itself, where its own server has measured it.
    pub(crate) service: Option<Duration>,
    pub(crate) cause: &'a Cause,
    /// When it came.
    pub(crate) asked: SystemTime,
    pub(crate) now: SystemTime,
}

#[derive(Serialize)]
struct LatencyReport<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: &'a str,
    timestamp: String,
    status: u16,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'static str,
    requestor: RequestInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    responder: Option<Responder>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    header: &'a Cause,
    start: String,
    service: u64,
    system: u64,
    total: u64,
}

/// The report on a request, under an id that no other has.
///
/// Compat: times are reckoned from the round trips of both clients, as they were measured last. The
/// system's share is what lies between two servers; one server's own is not measured.
pub(crate) fn report(id: &str, outcome: Outcome, measured: Measured<'_>) -> Vec<u8> {
    let Measured { requestor, responder, service, cause, asked, now } = measured;
    let (status, description) = outcome.status();
    let (requested, responded) = (requestor.rtt(), responder.rtt());
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let (service, system, total) = match outcome {
        Outcome::Answered(time) => {
            let time = nanoseconds(time);
            let (service, system) = match service.map(nanoseconds) {
                None => (time.saturating_sub(responded), 0),
                Some(service) => (service, time.saturating_sub(service.saturating_add(responded))),
            };
            (service, system, time.saturating_add(requested))
        }
        _ => (0, 0, 0),
    };
    let start = asked.checked_sub(Duration::from_nanos(requested)).unwrap_or(asked);
    compact(&LatencyReport {
        kind: "io.nats.server.metric.v1.service_latency",
        id,
        timestamp: rfc3339::of_system_time(now),
        status,
        description,
        requestor,
        responder: Some(responder).filter(Responder::is_known),
        header: cause,
        start: rfc3339::of_system_time(start),
        service,
        system,
        total,
    })
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

/// Message to the requester's server about a request that was answered here after `time`.
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
            start: rfc3339::of_system_time(asked),
            system: 0,
            total,
        },
    })
}

impl SecondPart {
    /// Takes the responder, in the words of its server, and how long it took.
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
    Here(Box<RequestInfo>),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_the_references() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let measured = || Measured {
            requestor: RequestInfo::brief("B", Duration::from_secs(1)),
            responder: Responder::Unknown,
            service: None,
            cause: const { &BTreeMap::new() },
            asked: at(10),
            now: at(20),
        };
        let text = |outcome| String::from_utf8(report("id", outcome, measured())).unwrap();
        let head = r#"{"type":"io.nats.server.metric.v1.service_latency","id":"id","timestamp":"1970-01-01T00:00:20Z","#;
        let tail = r#""requestor":{"acc":"B","rtt":1000000000},"start":"1970-01-01T00:00:09Z","#;
        assert_eq!(
            text(Outcome::TimedOut),
            format!(
                r#"{head}"status":504,"description":"Service Timeout",{tail}"service":0,"system":0,"total":0}}"#
            )
        );
        assert_eq!(
            text(Outcome::Answered(Duration::from_nanos(7))),
            format!(r#"{head}"status":200,{tail}"service":7,"system":0,"total":1000000007}}"#)
        );
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
}
