//! `/ipqueuesz` and `/stacksz`: what goes on between and inside the threads.

use myelin_monitor::{QueueSnapshot, ThreadSnapshot};

use crate::fixture::{Fixed, text};

fn queue(name: &str, pending: u64, in_progress: u64) -> QueueSnapshot {
    QueueSnapshot { name: name.to_owned(), pending, in_progress }
}

#[test]
fn queues_without_entries_are_shown_on_request() {
    let queues = vec![queue("b idle", 0, 0), queue("a waits", 3, 0), queue("c works", 0, 1)];
    let source = Fixed { queues, ..Fixed::default() };
    let busy = "{\n   \"a waits\": {\n      \"pending\": 3\n   },\n   \"c works\": {\n      \
                \"pending\": 0,\n      \"in_progress\": 1\n   }\n}";
    assert_eq!(text(&source.ask("/ipqueuesz")), busy);
    let names = |request| source.page(request).as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names("/ipqueuesz?all=1"), ["a waits", "b idle", "c works"]);
    assert_eq!(names("/ipqueuesz?all=1&queues=idle"), ["b idle"]);
    assert_eq!(names("/ipqueuesz?queues=idle"), Vec::<String>::new());
}

#[test]
fn threads_are_shown_one_after_the_other() {
    let thread = |id, name: &str| ThreadSnapshot { id, name: name.to_owned(), state: "running".to_owned() };
    let source = Fixed { threads: vec![thread(7, "shard-0"), thread(8, "log")], ..Fixed::default() };
    let answer = source.ask("/stacksz");
    assert_eq!(text(&answer), "thread 7 [running]:\nshard-0\n\nthread 8 [running]:\nlog\n");
    assert_eq!(answer.headers[0], ("content-type", "application/json"));
}
