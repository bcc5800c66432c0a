//! Consumers that should not be there any more, from a page of `/jsz`.
//!
//! How many consumers there are follows from how many the loads make in the half minute that an
//! abandoned one may last, which swings with the machine. So those are taken off that are younger
//! than that: what stays longer, and what nothing ends, is counted.

use super::pages::{number, rows};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// How long a load uses a consumer before the consumer is abandoned, and how late the server may
/// be.
const USE: SignedDuration = SignedDuration::from_secs(10);

/// Number of consumers without those that may still wait for somebody to use them. The page has
/// consumers with their configurations.
pub(super) fn overdue(jsz: &Value) -> f64 {
    let streams = rows(jsz, "account_details").flat_map(|account| rows(account, "stream_detail"));
    let consumers = streams.flat_map(|stream| rows(stream, "consumer_detail"));
    let now = time(jsz, "now");
    number(jsz, "consumers") - consumers.filter(|consumer| is_awaited(consumer, now)).count() as f64
}

/// Whether a consumer ends by itself and is not yet old enough for that. Of what cannot be read
/// the answer is no.
fn is_awaited(consumer: &Value, now: Option<Timestamp>) -> bool {
    let threshold = consumer["config"]["inactive_threshold"].as_i64().unwrap_or(0);
    let (Some(created), Some(now)) = (time(consumer, "created"), now) else { return false };
    threshold > 0 && now.duration_since(created) < SignedDuration::from_nanos(threshold) + USE
}

fn time(value: &Value, name: &str) -> Option<Timestamp> {
    value[name].as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::judge;
    use crate::measure::FIGURES;
    use serde_json::json;

    const NOW: i64 = 1_800_000_000;

    fn consumer(age: i64, threshold: i64) -> Value {
        let created = Timestamp::from_second(NOW - age).expect("a time").to_string();
        let config = if threshold > 0 {
            json!({ "inactive_threshold": threshold * 1_000_000_000 })
        } else {
            json!({})
        };
        json!({ "name": "it", "created": created, "config": config })
    }

    fn page(consumers: &[Value]) -> Value {
        let now = Timestamp::from_second(NOW).expect("a time").to_string();
        json!({
            "now": now,
            "consumers": consumers.len(),
            "account_details": [{ "stream_detail": [{ "consumer_detail": consumers }] }],
        })
    }

    /// Whether the soak fails over the consumers of these rounds.
    fn grew(rounds: impl Iterator<Item = Vec<Value>>) -> bool {
        let rows: Vec<Vec<f64>> = rounds.map(|consumers| vec![overdue(&page(&consumers))]).collect();
        let figure = *FIGURES.iter().find(|figure| figure.name == "consumers").expect("it is judged");
        !judge(&[figure], &rows).is_empty()
    }

    /// Consumers that were used for a moment and are gone half a minute later, and 40 durable ones.
    fn busy(young: i64) -> Vec<Value> {
        let awaited = (0..young).map(|at| consumer(at * 35 / young, 30));
        awaited.chain((0..40).map(|_| consumer(600, 0))).collect()
    }

    #[test]
    fn counts_that_swing_with_what_is_made_are_no_growth() {
        let made = [95, 82, 137, 90, 110, 101, 84, 124, 137, 131];
        assert!(!grew(made.into_iter().map(busy)));
        assert!(!grew((0..60).map(|round| busy(60 + round))), "more of them are made in a minute");
    }

    #[test]
    fn consumers_that_never_end_are_growth() {
        let leak = |threshold: i64| {
            move |round: i64| {
                let made = [95, 82, 137, 90, 110, 101, 84, 124, 137, 131];
                let mut consumers = busy(made[round as usize]);
                // Five of each round stay.
                consumers.extend((0..5 * round).map(|at| consumer(60 * (at / 5 + 1), threshold)));
                consumers
            }
        };
        assert!(grew((0..10).map(leak(30))), "abandoned ones that nobody ends");
        assert!(grew((0..10).map(leak(0))), "durable ones that nobody deletes");
    }

    #[test]
    fn what_the_page_does_not_explain_is_counted() {
        assert_eq!(
            overdue(&page(&[consumer(10, 30), consumer(39, 30), consumer(41, 30), consumer(1, 0)])),
            2.0
        );
        let mut odd = page(&[consumer(10, 30), json!({ "name": "without a time" })]);
        assert_eq!(overdue(&odd), 1.0);
        odd["consumers"] = json!(7);
        assert_eq!(overdue(&odd), 6.0);
        odd["now"] = json!(null);
        assert_eq!(overdue(&odd), 7.0);
    }
}
