//! Two looks at a server, and what went on between them.
//!
//! Owns how connections are sorted, and the text of a table. Knows neither terminals nor servers.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use myelin_loadgen::units::{binary, grouped};
use serde_json::Value;

use crate::screen::one_line;
use crate::table::{Columns, number, size, text};

/// Order of connections; the largest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SortKey {
    /// Messages in a second
    Msgs,
    /// Bytes in a second
    Bytes,
    /// Subscriptions
    Subs,
    /// Bytes that wait
    Pending,
    /// Number of the connection, the first one first
    Cid,
}

/// Answers of a server at one moment.
pub(super) struct Look {
    pub(super) at: Instant,
    pub(super) varz: Value,
    pub(super) connz: Value,
}

/// A connection, and what it did in a second.
struct Busy<'l> {
    info: &'l Value,
    /// Messages and bytes, from the client and to it.
    from: [f64; 2],
    to: [f64; 2],
}

impl SortKey {
    /// The key that a person presses for it.
    pub(super) fn pressed(key: u8) -> Option<Self> {
        match key {
            b'm' => Some(Self::Msgs),
            b'b' => Some(Self::Bytes),
            b's' => Some(Self::Subs),
            b'p' => Some(Self::Pending),
            b'c' => Some(Self::Cid),
            _ => None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Msgs => "messages",
            Self::Bytes => "bytes",
            Self::Subs => "subscriptions",
            Self::Pending => "pending bytes",
            Self::Cid => "number",
        }
    }

    /// Measure by which connections are sorted: more is first.
    fn weight(self, busy: &Busy<'_>) -> f64 {
        let count = |name: &str| busy.info[name].as_f64().unwrap_or_default();
        match self {
            Self::Msgs => busy.from[0] + busy.to[0],
            Self::Bytes => busy.from[1] + busy.to[1],
            Self::Subs => count("subscriptions"),
            Self::Pending => count("pending_bytes"),
            Self::Cid => -count("cid"),
        }
    }
}

/// How much a counter grew in a second. One that began anew has no rate.
fn rate(before: &Value, now: &Value, passed: Duration) -> f64 {
    let (before, now) = (before.as_f64().unwrap_or_default(), now.as_f64().unwrap_or_default());
    (now - before).max(0.0) / passed.as_secs_f64().max(1e-3)
}

/// The table of `now`, with the rates since `before` and this many connections.
pub(super) fn text_of(before: &Look, now: &Look, key: SortKey, rows: usize) -> String {
    let passed = now.at.duration_since(before.at);
    let mut text = head(before, now, passed, key);
    let mut columns = Columns::new(&[
        "CID",
        "Name",
        "Account",
        "Host",
        "Subs",
        "Pending",
        "Msgs/s To",
        "Msgs/s From",
        "Bytes/s To",
        "Bytes/s From",
        "Lang",
        "Version",
        "Uptime",
    ]);
    for busy in sorted(before, now, passed, key).into_iter().take(rows) {
        let info = busy.info;
        columns.row([
            crate::table::text(&info["cid"]),
            crate::table::text(&info["name"]),
            crate::table::text(&info["account"]),
            format!("{}:{}", crate::table::text(&info["ip"]), info["port"]),
            number(&info["subscriptions"]),
            size(&info["pending_bytes"]),
            count(busy.to[0]),
            count(busy.from[0]),
            binary(busy.to[1]),
            binary(busy.from[1]),
            crate::table::text(&info["lang"]),
            crate::table::text(&info["version"]),
            crate::table::text(&info["uptime"]),
        ]);
    }
    text += &columns.text_or("No connections");
    text
}

fn count(rate: f64) -> String {
    grouped(rate.round() as u64)
}

fn head(before: &Look, now: &Look, passed: Duration, key: SortKey) -> String {
    let varz = &now.varz;
    let of = |name: &str| rate(&before.varz[name], &varz[name], passed);
    let name = one_line(&text(&varz["server_name"]));
    format!(
        "{name}, version {}, up {}, sorted by {}\n\
         CPU {}%  Memory {}  Slow consumers {}  Connections {}  Subscriptions {}\n\
         In {} msgs/s, {}/s  Out {} msgs/s, {}/s\n\n",
        one_line(&text(&varz["version"])),
        one_line(&text(&varz["uptime"])),
        key.word(),
        varz["cpu"].as_f64().unwrap_or_default(),
        size(&varz["mem"]),
        number(&varz["slow_consumers"]),
        number(&varz["connections"]),
        number(&varz["subscriptions"]),
        count(of("in_msgs")),
        binary(of("in_bytes")),
        count(of("out_msgs")),
        binary(of("out_bytes")),
    )
}

fn sorted<'l>(before: &Look, now: &'l Look, passed: Duration, key: SortKey) -> Vec<Busy<'l>> {
    let connections = |look: &'l Value| look["connections"].as_array().map_or(&[][..], Vec::as_slice);
    let earlier: HashMap<u64, &Value> = before.connz["connections"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|info| Some((info["cid"].as_u64()?, info)))
        .collect();
    let busy = |info: &'l Value| {
        // One that has come since began with nothing.
        let then = info["cid"].as_u64().and_then(|cid| earlier.get(&cid)).copied().unwrap_or(&Value::Null);
        let of = |name: &str| rate(&then[name], &info[name], passed);
        Busy { info, from: [of("in_msgs"), of("in_bytes")], to: [of("out_msgs"), of("out_bytes")] }
    };
    let mut all: Vec<Busy<'l>> = connections(&now.connz).iter().map(busy).collect();
    all.sort_by(|a, b| key.weight(b).total_cmp(&key.weight(a)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn look(at: Instant, connections: Value) -> Look {
        let varz = json!({ "server_name": "n\u{1b}[1m", "in_msgs": 10, "cpu": 1.5 });
        Look { at, varz, connz: json!({ "connections": connections }) }
    }

    #[test]
    fn connections_are_sorted_by_what_they_did_since() {
        let start = Instant::now();
        let row = |cid: u64, messages: u64, subs: u64| {
            json!({ "cid": cid, "name": "c\u{1b}[2J", "ip": "::1", "port": 1, "in_msgs": messages, "in_bytes": 1,
                "out_msgs": 0, "out_bytes": 0, "subscriptions": subs, "pending_bytes": 0 })
        };
        let before = look(start, json!([row(1, 1000, 1), row(2, 0, 2)]));
        let now =
            look(start + Duration::from_secs(2), json!([row(1, 1010, 1), row(2, 600, 2), row(3, 40, 0)]));
        let order = |key| -> Vec<u64> {
            sorted(&before, &now, Duration::from_secs(2), key)
                .iter()
                .map(|busy| busy.info["cid"].as_u64().unwrap())
                .collect()
        };
        assert_eq!(order(SortKey::Msgs), [2, 3, 1]);
        assert_eq!(order(SortKey::Subs), [2, 1, 3]);
        assert_eq!(order(SortKey::Cid), [1, 2, 3]);
        let text = text_of(&before, &now, SortKey::Msgs, 2);
        assert!(text.contains(" 300 ") && text.contains(" 20 ") && !text.contains('\u{1b}'), "{text}");
        assert_eq!(text.lines().count(), 4 + 1 + 2, "no more rows than there is room for: {text}");
        assert!(text.starts_with("n\\u{1b}[1m, ") && text.contains("\nCPU 1.5%  "), "{text}");
    }
}
