//! When descriptors, connections or patience run out.

use crate::process::{Server, Setup};
use crate::raw::Raw;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

const HALF_OPEN: usize = 5000;

/// Largest resident memory in bytes for a connection that has said nothing useful. Measured: 2.7
/// KB; the rest is room for allocators.
const MEMORY_EACH: u64 = 6 * 1024;

/// Raises this process's limit of descriptors as far as it may.
pub(crate) fn allow_descriptors(count: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < count) {
        let raised = Rlimit { current: limit.maximum.map(|most| most.min(count)), maximum: limit.maximum };
        setrlimit(Resource::Nofile, raised).expect("up to the maximum it is ours");
    }
}

/// Connects from an address of its own, so that so many connections do not use up the ports on
/// which other tests restart their servers.
pub(crate) fn connect_from_elsewhere(to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("descriptors are left");
    let from: SocketAddr = (Ipv4Addr::new(127, 0, 0, 2), 0).into();
    socket.bind(&from.into()).expect("loopback is a network");
    socket.connect(&to.into()).expect("the server listens");
    socket.into()
}

/// A server that gives strangers so many seconds, a client of it, its memory before, and clients
/// that do not say who they are, half of which have begun to.
fn half_open(patience: u32) -> (Server, Raw, u64, Vec<TcpStream>) {
    allow_descriptors(HALF_OPEN as u64 + 1000);
    let config = format!("authorization {{ user: a, password: b, timeout: {patience} }}\n");
    let server = Server::with_config(&config);
    let mut normal = Raw::open(server.address());
    normal.send("CONNECT {\"verbose\":false,\"user\":\"a\",\"pass\":\"b\"}\r\nSUB echo 1\r\n");
    normal.barrier();
    let before = server.memory();
    let mut half_open: Vec<TcpStream> = Vec::new();
    for i in 0..HALF_OPEN {
        let mut stream = connect_from_elsewhere(server.address());
        if i % 2 == 0 {
            stream.write_all(b"CONNECT {\"verbose\":false,\"user\":").expect("it has time");
        }
        half_open.push(stream);
        if i % 500 == 0 {
            normal.publish("echo", "still served");
            assert_eq!(normal.message().text(), "still served");
        }
    }
    (server, normal, before, half_open)
}

#[test]
fn half_open_clients_are_cheap() {
    let (server, mut normal, before, _half_open) = half_open(300);
    crate::eventually("all are accepted", || server.connections() as usize == HALF_OPEN + 1);
    assert_eq!(normal.barrier(), []);
    let each = server.memory().saturating_sub(before) / HALF_OPEN as u64;
    assert!(each <= MEMORY_EACH, "{each} bytes for each half-open client");
}

#[test]
fn half_open_clients_leave_in_time() {
    let (server, mut normal, _, mut half_open) = half_open(2);
    crate::eventually("all have been there", || {
        server.page("/varz")["total_connections"].as_u64() == Some(HALF_OPEN as u64 + 1)
    });
    crate::eventually("they are closed", || server.connections() == 1);
    server.wait_for_close("Authentication Timeout");
    for stream in half_open.drain(..).step_by(1000) {
        let mut raw = Raw::over(stream);
        assert!(raw.line().starts_with("INFO {"));
        assert_eq!(raw.rest(), "-ERR 'Authentication Timeout'\r\n");
    }
    normal.publish("echo", "after");
    assert_eq!(normal.message().text(), "after");
}

#[test]
fn without_descriptors_the_old_clients_go_on_and_new_ones_wait() {
    let server = Setup::default().open_files(64).start();
    let (mut publisher, mut subscriber) = (Raw::connect(&server), Raw::connect(&server));
    subscriber.subscribe("a", 1);
    subscriber.barrier();
    // The kernel takes them all; the server cannot.
    let crowd: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    server.wait_for_log("Client Accept Error");
    for i in 0..100 {
        publisher.publish("a", &i.to_string());
        assert_eq!(subscriber.message().text(), i.to_string());
    }
    drop(crowd);
    let mut late = Raw::connect(&server);
    late.publish("a", "recovered");
    late.barrier();
    assert_eq!(subscriber.message().text(), "recovered");
    let errors = server.log().matches("Client Accept Error").count();
    assert!(errors < 100, "{errors} lines about one shortage");
}

#[test]
fn the_limit_of_connections_is_told_and_a_place_becomes_free() {
    let server = Server::with_config("max_connections: 3\n");
    let mut taken: Vec<Raw> = (0..3).map(|_| Raw::connect(&server)).collect();
    assert_eq!(Raw::open(server.address()).rest(), "-ERR 'maximum connections exceeded'\r\n");
    server.wait_for_close("Maximum Connections Exceeded");
    taken.pop();
    crate::eventually("a place is free", || server.connections() == 2);
    taken.push(Raw::connect(&server));
}

#[test]
fn a_client_that_answers_no_ping_is_stale() {
    let server = Server::with_config("ping_interval: \"100ms\"\nping_max: 2\n");
    let mut silent = Raw::connect(&server);
    let mut pings = 0;
    let last = loop {
        match silent.line() {
            line if line == "PING" => pings += 1,
            line if line.starts_with("INFO") => {}
            line => break line,
        }
    };
    assert_eq!((last.as_str(), pings), ("-ERR 'Stale Connection'", 2));
    assert_eq!(silent.rest(), "");
    server.wait_for_close("Stale Connection");
}

#[test]
fn a_client_that_answers_pings_stays() {
    // Unanswered, the pings would end it after 2 s; each answer must begin the count anew.
    let server = Server::with_config("ping_interval: \"100ms\"\nping_max: 20\n");
    let mut quiet = Raw::connect(&server);
    let mut other = Raw::connect(&server);
    for _ in 0..30 {
        for raw in [&mut quiet, &mut other] {
            while raw.line() != "PING" {}
            raw.send("PONG\r\n");
        }
    }
    assert_eq!(server.connections(), 2);
}
