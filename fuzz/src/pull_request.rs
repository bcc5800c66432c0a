//! The body of a pull request.
//!
//! Promised for any bytes: reading does not panic; where they are JSON by the strict rules, the
//! fields and the verdict are those of a plain walk over the document; and a small consumer gives
//! no more messages than asked for and there are, and ends the request exactly once, unless it may
//! wait for ever.

use myelin_jsapi::consumer::NextRequest;
use myelin_jsapi::consumer::config::AckPolicy;
use serde_json::Value;

use crate::consumer::{Bench, MESSAGES};
use crate::document::Document;

/// Any bytes as the body of a request.
pub fn pull_request(data: &[u8]) {
    let read = NextRequest::read(data);
    if data.first() == Some(&b'{')
        && let Ok(document) = serde_json::from_slice::<Document>(data)
        && let Some(expected) = twin(document)
    {
        assert_eq!(read.as_ref().ok(), expected.as_ref(), "fields");
    }
    if let Err(why) = &read {
        assert_eq!(why.status, 400, "{why}");
    }
    answer(data, read.ok());
}

fn answer(body: &[u8], request: Option<NextRequest>) {
    let mut bench = Bench::new(AckPolicy::None);
    bench.ask(b"inbox", body);
    bench.deliver();
    let delivered = bench.delivered().len();
    let most = request.as_ref().map_or(0, |request| request.batch.max(1).unsigned_abs());
    assert!(delivered <= MESSAGES && delivered as u64 <= most, "no more than asked for");
    bench.pass(i64::MAX / 4);
    bench.pass(i64::MAX / 4);
    bench.deliver();
    let is_end = |headers: &[u8]| !headers.starts_with(b"NATS/1.0 100 ");
    let ends = bench.effects.out.iter().filter(|msg| msg.to.is_empty() && is_end(msg.headers)).count();
    let is_served = delivered as u64 == most;
    assert!(ends <= 1, "one end");
    if let Some(request) = request {
        let ends_some_day = request.expires.is_some_and(|expires| expires < i64::MAX / 4);
        assert!(ends + usize::from(is_served) > 0 || !ends_some_day, "it ends");
    } else {
        assert_eq!((ends, delivered), (1, 0), "it is refused");
    }
}

/// The plain twin of [`NextRequest::read`]: `None` where it has no opinion, within it the request
/// or a refusal.
fn twin(document: Document) -> Option<Option<NextRequest>> {
    let Document::Object(fields) = document else { return None };
    let mut request = NextRequest { is_object: true, ..NextRequest::default() };
    let mut expires = 0;
    let mut is_good = true;
    for (name, value) in fields {
        let name = name.replace('ſ', "s").replace('\u{212a}', "k").to_ascii_lowercase();
        if value.as_f64() == Some(0.0) && !value.is_u64() {
            // `-0` is a whole number for Go, and `-0.0` is not: here they are one.
            return None;
        }
        if !value.is_null() {
            is_good &= set(&mut request, &mut expires, &name, &value).is_some();
        }
    }
    is_good &= request.heartbeat <= 0 || request.heartbeat.wrapping_mul(2) <= expires;
    request.expires = Some(expires).filter(|expires| *expires != 0);
    Some(is_good.then_some(request))
}

fn set(request: &mut NextRequest, expires: &mut i64, name: &str, value: &Value) -> Option<()> {
    match name {
        "expires" => *expires = value.as_i64()?,
        "batch" => request.batch = value.as_i64()?,
        "max_bytes" => request.max_bytes = value.as_i64()?,
        "no_wait" => request.no_wait = value.as_bool()?,
        "idle_heartbeat" => request.heartbeat = value.as_i64()?,
        "group" => request.group = value.as_str()?.to_owned(),
        "min_pending" => request.min_pending = value.as_i64()?,
        "min_ack_pending" => request.min_ack_pending = value.as_i64()?,
        "id" => request.id = value.as_str()?.to_owned(),
        "priority" => request.priority = value.as_i64()?,
        _ => {}
    }
    Some(())
}
