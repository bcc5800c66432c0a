//! Which requests to a service are measured, because of which headers, and how a request can end.
//!
//! What is reported of them is in `latency.rs`.

use super::config::LatencyConfig;
use std::collections::BTreeMap;
use std::time::Duration;

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
    pub(super) fn status(self) -> (u16, &'static str) {
        match self {
            Self::Answered(_) => (200, ""),
            Self::BadRequest => (400, "Bad Request"),
            Self::Lost => (408, "Request Timeout"),
            Self::Unavailable => (503, "Service Unavailable"),
            Self::TimedOut => (504, "Service Timeout"),
        }
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
}
