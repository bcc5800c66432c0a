//! Causes of a connection, from the pages `/connz` and `/varz` of the server that has it.

use super::{cause, text};
use crate::monitoring;
use myelin_loadgen::error::BenchError;
use serde_json::{Value, json};
use std::time::Duration;

/// Bytes that wait for a client from which on consumers deliver nothing more to it, at most.
const MAX_BACKLOG: u64 = 1 << 20;

/// Causes that hold a connection back, in the shape of the server's answers.
pub(super) fn why(cid: u64, monitor: &str, timeout: Duration) -> Result<Value, BenchError> {
    let page = |path: &str| monitoring::json(monitor, path, timeout);
    let connz = page(&format!("connz?cid={cid}&state=any&auth=1&subs=1&refused=1"))?;
    let Some(conn) = connz["connections"].as_array().and_then(|all| all.first()) else {
        return Err(BenchError::Usage(format!(
            "the server knows no connection {cid}, open or closed lately"
        )));
    };
    let varz = page("varz")?;
    let max_pending = varz["max_pending"].as_u64().unwrap_or(64 << 20);
    Ok(json!({ "cid": cid, "server": varz["server_name"], "causes": causes(conn, max_pending) }))
}

fn causes(conn: &Value, max_pending: u64) -> Vec<Value> {
    let reason = text(conn, "reason");
    if !reason.is_empty() {
        let says = format!("it was closed at {}: {reason}", text(conn, "stop"));
        let numbers = json!({ "reason": reason, "stop": conn["stop"] });
        let (word, remedy) = closing(reason);
        let closed = cause(word, "all", numbers, says, remedy);
        return std::iter::once(closed).chain(refusals(conn)).collect();
    }
    let mut causes = Vec::new();
    let pending = conn["pending_bytes"].as_u64().unwrap_or_default();
    if pending > 0 {
        let bound = MAX_BACKLOG.min(max_pending / 4);
        let holds = if pending >= bound { "all" } else { "some" };
        let says = format!(
            "it does not read what it has got: {pending} bytes wait; from {bound} on consumers deliver nothing \
             more to it, and at {max_pending} it is closed as a slow consumer"
        );
        let numbers = json!({ "bytes": pending, "bound": bound, "max_pending": max_pending });
        let remedy = "look at the client: it works more slowly than messages come, or its network is slow";
        causes.push(cause("receiver_behind", holds, numbers, says, remedy));
    }
    causes.extend(refusals(conn));
    let stalls = conn["stalls"].as_u64().unwrap_or_default();
    if stalls > 0 {
        let says = format!("it was held back {stalls} times while it published: receivers were behind");
        let remedy = "find the receivers with much pending (/connz?sort=pending)";
        causes.push(cause("stalls_publishers", "some", json!({ "stalls": stalls }), says, remedy));
    }
    if conn["subscriptions"].as_u64() == Some(0) {
        let says = "it has no subscriptions: nothing can come to it".to_owned();
        let remedy = "if it should receive: look whether its subscriptions were refused (permissions)";
        causes.push(cause("no_subscriptions", "nothing", json!({}), says, remedy));
    }
    let idle = text(conn, "idle");
    if idle.contains(['m', 'h', 'd']) && !idle.ends_with("ms") {
        let says = format!("nothing has come from it or gone to it for {idle}");
        let remedy = "nothing, if there is nothing to say";
        causes.push(cause("idle", "nothing", json!({ "idle": idle }), says, remedy));
    }
    causes
}

/// Publishes and subscriptions that its permissions have refused, if there were any.
fn refusals(conn: &Value) -> Option<Value> {
    let refused = &conn["refused"];
    let (count, last) = (refused["count"].as_u64()?, refused["last"].as_array()?.last()?);
    let by = match last["denied_by"].as_str() {
        Some(rule) => format!("the deny rule {rule:?} covers it"),
        None => "no allow rule covers it".to_owned(),
    };
    let (at, error) = (text(last, "at"), text(last, "error"));
    let says = format!(
        "its permissions have refused {count} publishes or subscriptions; the last at {at}: {error}: {by}"
    );
    let remedy = "allow the subject in the permissions of its user, or have the client leave it";
    let numbers = json!({ "count": count, "last": refused["last"] });
    Some(cause("denied", "some", numbers, says, remedy))
}

/// The word of a reason for which a connection was closed, and what mends it.
fn closing(reason: &str) -> (&'static str, &'static str) {
    const REASONS: [(&str, &str, &str); 9] = [
        (
            "Slow Consumer",
            "slow_consumer",
            "have the client read faster, or raise max_pending and write_deadline",
        ),
        ("Stale Connection", "stale", "it did not answer PING: look at its host and the network between"),
        ("Authentication", "authentication", "look at its credentials, and at the server's log"),
        ("Authorization", "authentication", "look at its credentials, and at the server's log"),
        ("Credentials", "authentication", "its credentials were revoked: give it others"),
        ("Maximum Payload", "max_payload", "send smaller messages, or raise max_payload"),
        ("Maximum Connections", "max_connections", "raise max_connections, or close others"),
        ("Maximum Subscriptions", "max_subscriptions", "raise max_subscriptions, or unsubscribe"),
        ("Protocol Violation", "protocol", "look at the client's library"),
    ];
    let known = REASONS.iter().find(|(begin, ..)| reason.contains(begin));
    known.map_or(("closed", "nothing, if the client meant to; else look at its log"), |(_, word, remedy)| {
        (*word, *remedy)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_what_is_behind_and_why_it_was_closed() {
        let words = |conn: &Value| -> Vec<String> {
            causes(conn, 400).iter().map(|cause| text(cause, "cause").to_owned()).collect()
        };
        let well = json!({ "cid": 7, "idle": "3s", "pending_bytes": 0, "subscriptions": 2 });
        assert_eq!(words(&well), [""; 0]);
        let slow = json!({ "cid": 7, "idle": "3m1s", "pending_bytes": 100, "stalls": 2, "subscriptions": 0 });
        assert_eq!(words(&slow), ["receiver_behind", "stalls_publishers", "no_subscriptions", "idle"]);
        assert_eq!(causes(&slow, 400)[0]["holds"], "all");
        assert_eq!(causes(&slow, 4000)[0]["holds"], "some");
        let last = json!([{ "at": "then", "error": "Permissions Violation for Publish to \"a\"", "denied_by": "a.>" }]);
        let refused =
            json!({ "cid": 7, "idle": "3s", "subscriptions": 2, "refused": { "count": 9, "last": last } });
        assert_eq!(words(&refused), ["denied"]);
        let says = causes(&refused, 400)[0]["says"].clone();
        assert!(says.as_str().is_some_and(|says| says.contains("the deny rule \"a.>\" covers it")), "{says}");
        let closed = json!({ "cid": 7, "reason": "Slow Consumer (Pending Bytes)", "stop": "then" });
        assert_eq!(words(&closed), ["slow_consumer"]);
        assert_eq!(words(&json!({ "reason": "Client Closed" })), ["closed"]);
        // What was refused is known of one that is closed, too.
        let last = json!([{ "at": "then", "error": "no", "denied_by": "a.>" }]);
        let closed = json!({ "reason": "Client Closed", "refused": { "count": 1, "last": last } });
        assert_eq!(words(&closed), ["closed", "denied"]);
    }
}
