//! Figures of whole pages: every number of `/varz`, `/subsz` and `/routez` is a gauge.
//!
//! Compat: what is shown and how it is called is decided as prometheus-nats-exporter does, by the
//! keys of the page, so that a key that is added there is a metric here.

use serde_json::{Map, Value};

use super::exposition::{Exposition, Family, Labels, Number};
use jiff::Timestamp;

/// Numbers that the exporter leaves out, and all that is in them.
const SKIPPED: [&str; 9] = [
    "leaf",
    "trusted_operators_claim",
    "cluster_tls_timeout",
    "cluster_cluster_port",
    "cluster_auth_timeout",
    "gateway_port",
    "gateway_auth_timeout",
    "gateway_tls_timeout",
    "gateway_connect_retries",
];

/// Keys whose text is shown, as a label of a gauge that is 1; a moment is a gauge, in milliseconds.
const TEXTS: [&str; 8] =
    ["server_id", "server_name", "version", "domain", "leader", "name", "start", "config_load_time"];

/// Adds the figures of a page, as names that begin with `begin`.
pub(super) fn add(page: &[u8], begin: &str, labels: &Labels, out: &mut Exposition) {
    if let Ok(page) = serde_json::from_slice(page) {
        Walk { begin, labels, out }.object(&page, "");
    }
}

struct Walk<'a> {
    begin: &'a str,
    labels: &'a Labels,
    out: &'a mut Exposition,
}

impl Walk<'_> {
    fn object(&mut self, object: &Map<String, Value>, path: &str) {
        for (key, value) in object {
            let Some(name) = name(path, key).filter(|name| !SKIPPED.contains(&name.as_str())) else {
                continue;
            };
            match value {
                Value::Object(inner) => self.object(inner, &name),
                Value::Number(number) => {
                    let negative = || number.as_i64().map_or_else(|| number.as_f64().into(), Number::Signed);
                    let value = number.as_u64().map_or_else(negative, Number::Unsigned);
                    self.push(&name, |family, labels| family.with(labels, value));
                }
                Value::String(text) if TEXTS.contains(&key.as_str()) => self.text(&name, text),
                _ => {}
            }
        }
    }

    fn text(&mut self, name: &str, text: &str) {
        self.push(name, |family, labels| match text.parse::<Timestamp>() {
            Ok(moment) => family.with(labels, moment.as_millisecond()),
            Err(_) => family.with(&labels.and([("value", text)]), 1_u64),
        });
    }

    fn push(&mut self, name: &str, fill: impl FnOnce(Family, &Labels) -> Family) {
        let full = format!("{}_{name}", self.begin);
        if !self.out.has(&full) {
            self.out.push(fill(Family::gauge(full, name.to_owned()), self.labels));
        }
    }
}

/// Name of a figure: keys with `_` between them, and instead of each `/`, never two in a row.
/// `None`: the name of a metric cannot hold this.
fn name(path: &str, key: &str) -> Option<String> {
    let parts = path.split('_').chain(key.split(['_', '/'])).filter(|part| !part.is_empty());
    let name = parts.collect::<Vec<_>>().join("_");
    let is_valid = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (is_valid && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(page: &str) -> Vec<String> {
        let mut out = Exposition::default();
        add(page.as_bytes(), "x", &Labels::new("a", "b"), &mut out);
        out.into_text().lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn numbers_and_a_few_texts_are_figures() {
        let page = r#"{"n":1,"f":0.5,"name":"\"}","host":"h","on":true,"list":[1],"start":"1970-01-01T00:00:01.5Z",
            "http_req_stats":{"/":2,"/debug/vars":3},"leaf":{"port":4},"cluster":{"name":"c","tls_timeout":1},"ä":5}"#;
        let expected = [
            "x_n{a=\"b\"} 1",
            "x_f{a=\"b\"} 0.5",
            "x_name{a=\"b\",value=\"\\\"}\"} 1",
            "x_start{a=\"b\"} 1500",
            "x_http_req_stats{a=\"b\"} 2",
            "x_http_req_stats_debug_vars{a=\"b\"} 3",
            "x_cluster_name{a=\"b\",value=\"c\"} 1",
        ];
        assert_eq!(lines(page), expected);
    }

    #[test]
    fn of_two_keys_with_one_name_the_first_counts() {
        assert_eq!(lines(r#"{"a_b":1,"a":{"b":2}}"#), ["x_a_b{a=\"b\"} 1"]);
    }
}
