//! How long services of an account take: which requests are measured, and what is reported of them.
//!
//! Reports are the reference's `io.nats.server.metric.v1.service_latency`. They say nothing of the
//! requester but its round trip and its account, unless its import shares who asks.

use super::info::{RequestInfo, moment};
use super::latency_parts::SecondPart;
use myelin_wire::json::compact;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// How a service is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatencyConfig {
    /// Where reports go, in the exporting account.
    pub subject: String,
    /// Of a hundred requests, how many are measured; 0: only those whose headers ask for it, as
    /// they may in any case.
    pub sampling: u8,
}

/// The headers because of which a request is measured: names in Go's spelling, values.
pub(crate) type Cause = BTreeMap<String, Vec<String>>;

impl LatencyConfig {
    /// Whether a request with these headers is measured, and which of them are the cause. `drawn`
    /// is a number below 100.
    pub(crate) fn samples(&self, headers: &[u8], drawn: u64) -> Option<Cause> {
        // Compat: one in a hundred more than asked for.
        if self.sampling >= 100 || (self.sampling > 0 && drawn <= u64::from(self.sampling)) {
            return Some(Cause::new());
        }
        let headers = read(headers);
        let value = |name: &str| headers.get(name).and_then(|values| values.first()).map(String::as_str);
        let with = |keep: &dyn Fn(&str) -> bool| {
            let kept = headers.iter().filter(|(name, _)| keep(name));
            kept.map(|(name, values)| (name.clone(), values.clone())).collect::<Cause>()
        };
        if let Some(id) = value("Uber-Trace-Id") {
            let keep = |name: &str| name == "Uber-Trace-Id" || name.starts_with("Uberctx-");
            return is_sampled_by_uber(id).then(|| with(&keep));
        }
        let is_of_b3 =
            |name: &str| ["X-B3-Sampled", "X-B3-Traceid", "X-B3-Parentspanid", "X-B3-Spanid"].contains(&name);
        match value("X-B3-Sampled") {
            Some("1") => return Some(with(&is_of_b3)),
            Some("0") => return None,
            _ if headers.contains_key("X-B3-Traceid") => return Some(with(&is_of_b3)),
            _ => {}
        }
        if let Some(b3) = value("B3") {
            let parts: Vec<&str> = b3.split('-').collect();
            let is_denied = parts.get(2) == Some(&"0") || parts == ["0"];
            return (!is_denied).then(|| with(&|name| name == "B3"));
        }
        let context = value("Traceparent")?;
        let keep = |name: &str| name == "Traceparent" || name == "Tracestate";
        is_sampled_by_context(context).then(|| with(&keep))
    }
}

/// The last of four parts is a number of one or two hexadecimal digits; its lowest bit decides.
fn is_sampled_by_uber(id: &str) -> bool {
    let parts: Vec<&str> = id.split(':').collect();
    parts.len() == 4 && (1..=2).contains(&parts[3].len()) && is_odd(parts[3])
}

fn is_sampled_by_context(context: &str) -> bool {
    let parts: Vec<&str> = context.split('-').collect();
    parts.len() == 4 && parts[3].len() == 2 && is_odd(parts[3])
}

fn is_odd(hex: &str) -> bool {
    hex.bytes().all(|byte| byte.is_ascii_hexdigit()) && u8::from_str_radix(hex, 16).is_ok_and(|n| n & 1 == 1)
}

/// The headers of a block by name, in Go's spelling of names.
fn read(block: &[u8]) -> Cause {
    let mut headers = Cause::new();
    let text = String::from_utf8_lossy(block);
    for line in text.split("\r\n").skip(1) {
        let Some((name, value)) = line.split_once(':') else { continue };
        headers.entry(canonical(name)).or_default().push(value.trim().to_owned());
    }
    headers
}

/// `x-b3-sampled` as `X-B3-Sampled`.
fn canonical(name: &str) -> String {
    let mut starts = true;
    let spell = |msg: char| {
        let spelt = if starts { msg.to_ascii_uppercase() } else { msg.to_ascii_lowercase() };
        starts = msg == '-';
        spelt
    };
    name.chars().map(spell).collect()
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The request was answered after this time.
    Answered(Duration),
    /// The request had no reply subject.
    BadRequest,
    /// Whoever asked listens no longer.
    Lost,
    /// Nobody got it, or nobody got its answer.
    Unavailable,
    /// No answer came in time.
    TimedOut,
}

impl Outcome {
    fn status(self) -> (u16, &'static str) {
        match self {
            Self::Answered(_) => (200, ""),
            Self::BadRequest => (400, "Bad Request"),
            Self::Lost => (408, "Request Timeout"),
            Self::Unavailable => (503, "Service Unavailable"),
            Self::TimedOut => (504, "Service Timeout"),
        }
    }
}

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
        timestamp: moment(now),
        status,
        description,
        requestor,
        responder: Some(responder).filter(Responder::is_known),
        header: cause,
        start: moment(start),
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
            start: moment(asked),
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

    fn cause(sampling: u8, headers: &str) -> Option<String> {
        let latency = LatencyConfig { subject: "l".to_owned(), sampling };
        let block = format!("NATS/1.0\r\n{headers}\r\n\r\n");
        let found = latency.samples(block.as_bytes(), 50)?;
        Some(found.keys().cloned().collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn headers_ask_for_a_measurement() {
        let some = |text: &str| Some(text.to_owned());
        let cases = [
            ("A: 1", None),
            ("X-B3-Sampled: 1\r\nX-B3-TraceId: abc\r\nA: 1", some("X-B3-Sampled X-B3-Traceid")),
            ("X-B3-Sampled: 0\r\nX-B3-TraceId: abc", None),
            ("x-b3-traceid: abc", some("X-B3-Traceid")),
            ("B3: 80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1-05e3ac9a4f6e3b90", some("B3")),
            ("B3: 80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-0", None),
            ("b3: 0", None),
            ("Uber-Trace-Id: 1:2:3:1\r\nUberctx-X: y", some("Uber-Trace-Id Uberctx-X")),
            ("Uber-Trace-Id: 1:2:3:2", None),
            ("Uber-Trace-Id: 1:2:3", None),
            (
                "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\ntracestate: x",
                some("Traceparent Tracestate"),
            ),
            ("traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", None),
            ("traceparent: 00-a-b-+1", None),
        ];
        for (headers, expected) in cases {
            assert_eq!(cause(0, headers), expected, "{headers}");
        }
        assert_eq!((cause(100, "A: 1"), cause(50, "A: 1"), cause(49, "A: 1")), (some(""), some(""), None));
    }

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
