//! Receivers that do not keep up: others go on, memory stays bounded, the end has a name.

use crate::process::Server;
use crate::raw::Raw;
use std::thread;
use std::time::{Duration, Instant};

const MIB: u64 = 1024 * 1024;

/// `count` messages of a thousand bytes to `subject`.
fn batch(subject: &str, count: usize) -> String {
    format!("PUB {subject} 1000\r\n{}\r\n", "x".repeat(1000)).repeat(count)
}

#[test]
fn a_subscriber_that_never_reads_is_cut_off_and_the_others_go_on() {
    // A write deadline beyond a test's patience: what ends the connection is its pending bytes.
    let server = Server::with_config("max_pending: 8MB\nmax_payload: 1MB\nwrite_deadline: \"5m\"\n");
    let mut stuck = Raw::connect(&server);
    let mut reader = Raw::connect(&server);
    for sub in [&mut stuck, &mut reader] {
        sub.subscribe("flood", 1);
        sub.barrier();
    }
    let mut publisher = Raw::connect(&server);
    let (before, sockets) = (server.memory(), server.descriptors());
    let mut peak = 0;
    for _ in 0..100 {
        publisher.send(&batch("flood", 1000));
        publisher.barrier();
        // Read in step, so that only the stuck one falls behind.
        assert_eq!(reader.barrier().len(), 1000);
        peak = peak.max(server.memory());
    }
    server.wait_for_close("Slow Consumer (Pending Bytes)");
    server.wait_for_log("Slow Consumer Detected: MaxPending of 8388608 Exceeded");
    assert_eq!(server.page("/varz")["slow_consumers"], 1);
    // The peer has not read anything yet, and its socket is closed all the same.
    crate::eventually("the socket is closed", || server.descriptors() < sockets);
    assert_eq!(server.page("/varz")["slow_consumers"], 1);
    let rest = stuck.rest().len() as u64;
    assert!(rest < 16 * MIB, "{rest} bytes");
    let grown = peak.saturating_sub(before);
    assert!(grown < 64 * MIB, "grew by {} MiB for a limit of 8 MB", grown / MIB);
}

#[test]
fn a_subscriber_that_only_pauses_loses_nothing() {
    let server = Server::start();
    let (mut publisher, mut late) = (Raw::connect(&server), Raw::connect(&server));
    late.subscribe("flood", 1);
    late.barrier();
    for _ in 0..20 {
        publisher.send(&batch("flood", 1000));
        publisher.barrier();
    }
    assert_eq!(late.barrier().len(), 20_000);
    assert_eq!(server.page("/varz")["slow_consumers"], 0);
}

#[test]
fn a_socket_that_takes_nothing_for_the_write_deadline_is_closed() {
    let server = Server::with_config("write_deadline: \"300ms\"\nmax_pending: 500MB\n");
    let (mut publisher, mut stuck) = (Raw::connect(&server), Raw::connect(&server));
    stuck.subscribe("flood", 1);
    stuck.barrier();
    // More than the sockets' buffers hold, less than would make it a slow consumer by bytes.
    for _ in 0..40 {
        publisher.send(&batch("flood", 1000));
        publisher.barrier();
    }
    server.wait_for_close("Slow Consumer (Write Deadline)");
    server.wait_for_log("Slow Consumer Detected: WriteDeadline of 300ms exceeded");
    assert_eq!(publisher.barrier(), []);
}

#[test]
fn a_hundred_receivers_that_do_not_read_do_not_stop_the_one_that_does() {
    let server = Server::with_config("max_pending: 2MB\nmax_payload: 1MB\nwrite_deadline: \"5m\"\n");
    let idle = server.descriptors();
    let stuck: Vec<Raw> = (0..100)
        .map(|_| {
            let mut raw = Raw::connect(&server);
            raw.subscribe("flood", 1);
            raw.barrier();
            raw
        })
        .collect();
    let (mut publisher, mut other) = (Raw::connect(&server), Raw::connect(&server));
    other.subscribe("quiet", 1);
    other.barrier();
    let flood = thread::spawn(move || {
        for _ in 0..30 {
            publisher.send(&batch("flood", 300));
            publisher.barrier();
        }
    });
    let mut slowest = Duration::ZERO;
    let mut talker = Raw::connect(&server);
    let mut rounds = 0;
    while !flood.is_finished() || rounds < 100 {
        let begun = Instant::now();
        talker.publish("quiet", "x");
        assert_eq!(other.message().text(), "x");
        slowest = slowest.max(begun.elapsed());
        rounds += 1;
    }
    flood.join().unwrap();
    assert!(slowest < Duration::from_secs(5), "a message took {slowest:?}");
    crate::eventually("the stuck ones are cut off", || server.connections() == 2);
    crate::eventually("their sockets are closed", || server.descriptors() <= idle + 10);
    assert_eq!(server.page("/varz")["slow_consumers"], 100);
    drop(stuck);
}
