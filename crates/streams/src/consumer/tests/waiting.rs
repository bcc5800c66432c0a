//! The order in which requests are served.

use crate::consumer::waiting::{WaitQueue, WaitingRequest};
use myelin_jsapi::consumer::NextRequest;

fn request(reply: &str, body: &str) -> WaitingRequest {
    WaitingRequest::new(reply.as_bytes(), NextRequest::read(body.as_bytes()).unwrap(), 100)
}

fn order(queue: &WaitQueue) -> String {
    queue.iter().map(|request| String::from_utf8_lossy(&request.reply).into_owned()).collect()
}

fn serve(queue: &mut WaitQueue, by_priority: bool) -> bool {
    queue.front().unwrap().left -= 1;
    queue.served(by_priority).is_some()
}

#[test]
fn messages_are_dealt_out_in_turn() {
    let mut queue = WaitQueue::default();
    for (reply, body) in [("a", "2"), ("b", "1"), ("c", "3")] {
        queue.add(request(reply, body), false);
    }
    assert!(!serve(&mut queue, false));
    assert_eq!(order(&queue), "bca");
    assert!(serve(&mut queue, false), "it has all that it wanted");
    assert_eq!(order(&queue), "ca");
    queue.cycle();
    assert_eq!(order(&queue), "ac");
    queue.retain(|request| &*request.reply != b"a");
    assert_eq!((order(&queue).as_str(), queue.len()), ("c", 1));
    assert!(!serve(&mut queue, false));
    assert_eq!(order(&queue), "c");
}

#[test]
fn a_lower_priority_waits_for_the_higher_ones() {
    let mut queue = WaitQueue::default();
    let with = |priority| format!(r#"{{"batch":2,"priority":{priority}}}"#);
    queue.add(request("z", "2"), true);
    for (reply, priority) in [("a", 1), ("b", 0), ("c", 1), ("d", 0)] {
        queue.add(request(reply, &with(priority)), true);
    }
    assert_eq!(order(&queue), "bdacz", "one that says none is last");
    assert!(!serve(&mut queue, true));
    assert_eq!(order(&queue), "dbacz", "behind those of its own");
    assert!(!serve(&mut queue, true));
    assert!(serve(&mut queue, true) && serve(&mut queue, true));
    assert_eq!(order(&queue), "acz");
    assert_eq!(queue.drain().count(), 3);
    assert!(queue.is_empty());
}

#[test]
fn a_request_ends_behind_its_time_and_gives_signs_of_life() {
    let mut waiting = request("a", r#"{"batch":5,"max_bytes":7,"expires":20,"idle_heartbeat":5}"#);
    assert_eq!((waiting.left, waiting.bytes), (5, 7));
    assert!(!waiting.has_expired(120) && waiting.has_expired(121));
    assert_eq!(waiting.beat_at, Some(105));
    waiting.beat_later(103);
    assert_eq!(waiting.beat_at, Some(108));
    let patient = request("b", "");
    assert!(!patient.has_expired(i64::MAX) && patient.beat_at.is_none());
}
