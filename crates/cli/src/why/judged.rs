//! Causes as far as `CONSUMER.INFO` and `STREAM.INFO` show them, for servers that know no others.

use super::cause;
use serde_json::{Value, json};

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// Causes of a consumer, in the order in which a server meets them.
pub(super) fn consumer(info: &Value) -> Vec<Value> {
    let config = &info["config"];
    let (pending, unacknowledged) = (number(&info["num_pending"]), number(&info["num_ack_pending"]));
    let mut causes = Vec::new();
    // Where nothing is there, nothing is held back.
    let holds = if pending > 0 { "all" } else { "nothing" };
    if info["paused"] == true {
        let left = json!({ "seconds": number(&info["pause_remaining"]) / 1_000_000_000 });
        causes.push(cause("paused", holds, left, "it is paused".into(), "nats consumer resume"));
    }
    let is_push = config["deliver_subject"].as_str().is_some_and(|subject| !subject.is_empty());
    if is_push && info["push_bound"] != true {
        let subject = config["deliver_subject"].as_str().unwrap_or_default();
        let says = format!("nobody listens to {subject}");
        let remedy = "subscribe to that very subject, with its queue group if it has one";
        causes.push(cause("nobody_listens", holds, json!({ "subject": subject }), says, remedy));
    }
    if !is_push && number(&info["num_waiting"]) == 0 {
        let says = format!("nobody asks: no pull request waits; to be delivered: {pending}");
        let remedy = "start the application, or look why it does not ask for messages";
        causes.push(cause("no_pull_waits", holds, json!({ "pending": pending }), says, remedy));
    }
    let limit = number(&config["max_ack_pending"]);
    if limit > 0 && unacknowledged >= limit && config["ack_policy"] != "none" {
        let numbers = json!({ "pending": unacknowledged, "limit": limit });
        let says = format!("{unacknowledged} await their acknowledgement, and {limit} may");
        causes.push(cause("max_ack_pending", holds, numbers, says, "acknowledge, or raise max_ack_pending"));
    }
    if unacknowledged > 0 {
        let says = format!("{unacknowledged} are with clients and come again, unless acknowledged");
        let numbers = json!({ "messages": unacknowledged });
        causes.push(cause("redelivery_waits", "some", numbers, says, "acknowledge them"));
    }
    if pending == 0 {
        let says = "everything was delivered, or nothing matches its filter".to_owned();
        let delivered = json!({ "delivered": info["delivered"]["consumer_seq"] });
        causes.insert(0, cause("caught_up", "nothing", delivered, says, "nothing"));
    }
    // As our own server has them: first of all what holds everything back.
    let order = ["all", "some", "nothing"];
    causes.sort_by_key(|cause| order.iter().position(|&holds| cause["holds"] == holds));
    causes
}

/// Causes of a stream.
pub(super) fn stream(info: &Value) -> Vec<Value> {
    let (config, state) = (&info["config"], &info["state"]);
    let mut causes = Vec::new();
    let copies = info["mirror"].as_object().map(|_| &info["mirror"]).into_iter();
    for copy in copies.chain(info["sources"].as_array().into_iter().flatten()) {
        let (name, lag) = (copy["name"].as_str().unwrap_or_default(), number(&copy["lag"]));
        if lag > 0 || copy["error"].is_object() || number(&copy["active"]) < 0 {
            let says = format!("messages of {name} are still to come: {lag}");
            let numbers = json!({ "origin": name, "lag": lag, "error": copy["error"]["description"] });
            causes.push(cause("origin_behind", "some", numbers, says, "see that the origin can be reached"));
        }
    }
    if config["mirror"].is_object() {
        let says = "it is a mirror and takes no messages from anybody else".to_owned();
        let origin = json!({ "origin": config["mirror"]["name"] });
        causes.push(cause("mirror", "all", origin, says, "publish to the origin"));
    }
    if config["sealed"] == true {
        let says = "it is sealed: it takes no messages any more".to_owned();
        causes.push(cause("sealed", "all", json!({}), says, "make another stream"));
    }
    for (limit, used) in [("max_msgs", "messages"), ("max_bytes", "bytes")] {
        let (most, used) = (number(&config[limit]), number(&state[used]));
        let usual = if limit == "max_bytes" { used / number(&state["messages"]).max(1) } else { 1 };
        if most <= 0 || used + usual <= most {
            continue;
        }
        let numbers = json!({ "name": limit, "used": used, "limit": most });
        causes.push(if config["discard"] == "new" {
            let says = format!("it has {used} of {most} ({limit}) and refuses more");
            cause("full", "all", numbers, says, "raise the limit, purge, or set discard to old")
        } else {
            let says = format!("it has {used} of {most} ({limit}): each message costs the oldest");
            cause(
                "discards_oldest",
                "some",
                numbers,
                says,
                "nothing, if that is wanted; else raise the limit",
            )
        });
    }
    if number(&state["last_seq"]) == 0 && !config["mirror"].is_object() {
        let says = "nothing was ever stored".to_owned();
        let subjects = json!({ "subjects": config["subjects"] });
        causes.push(cause("nothing_published", "nothing", subjects, says, "publish to one of its subjects"));
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(causes: &[Value]) -> Vec<&str> {
        causes.iter().map(|cause| cause["cause"].as_str().unwrap()).collect()
    }

    #[test]
    fn infos_show_some_causes() {
        let config = json!({ "ack_policy": "explicit", "max_ack_pending": 2 });
        let mut info = json!({ "config": config, "num_pending": 3, "num_waiting": 0, "num_ack_pending": 0 });
        assert_eq!(words(&consumer(&info)), ["no_pull_waits"]);
        info["num_ack_pending"] = json!(2);
        info["num_waiting"] = json!(1);
        assert_eq!(words(&consumer(&info)), ["max_ack_pending", "redelivery_waits"]);
        info["num_pending"] = json!(0);
        info["num_waiting"] = json!(0);
        assert_eq!(
            words(&consumer(&info)),
            ["redelivery_waits", "caught_up", "no_pull_waits", "max_ack_pending"]
        );
        info["num_ack_pending"] = json!(0);
        info["num_waiting"] = json!(1);
        assert_eq!(words(&consumer(&info)), ["caught_up"]);
        info["config"]["deliver_subject"] = json!("out");
        info["num_pending"] = json!(1);
        assert_eq!(words(&consumer(&info)), ["nobody_listens"]);

        let state = json!({ "messages": 2, "bytes": 20, "last_seq": 2 });
        let mut info = json!({ "config": { "max_msgs": 2, "discard": "new" }, "state": state });
        assert_eq!(words(&stream(&info)), ["full"]);
        info["config"] = json!({ "max_bytes": 25, "discard": "old", "sealed": true });
        assert_eq!(words(&stream(&info)), ["sealed", "discards_oldest"]);
        info["mirror"] = json!({ "name": "S", "lag": 4, "active": 1 });
        info["config"] = json!({ "mirror": { "name": "S" } });
        assert_eq!(words(&stream(&info)), ["origin_behind", "mirror"]);
    }
}
