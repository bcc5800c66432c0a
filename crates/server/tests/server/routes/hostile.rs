//! Peers that mean no good: they lose their link, and the server lives.

use super::{Member, Ours, Reference, free_port};
use crate::PATIENCE;
use crate::process::Setup;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// A peer that says what a test wants.
pub(super) fn peer(member: &Member) -> TcpStream {
    let mut connected = None;
    // Clients are let in a moment before other servers are.
    crate::eventually("it listens for other servers", || {
        connected = TcpStream::connect(("127.0.0.1", member.port)).ok();
        connected.is_some()
    });
    let stream = connected.expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a positive time");
    stream
}

pub(super) const CONNECT: &str = "CONNECT {\"name\":\"NX\",\"cluster\":\"C\",\"headers\":true}\r\n";
pub(super) const INFO: &str = "INFO {\"server_id\":\"NX\",\"server_name\":\"X\",\"cluster\":\"C\",\
    \"headers\":true,\"route_pool_size\":3,\"ip\":\"nats-route://127.0.0.1:1/\",\"port\":1}\r\n";

/// Everything the server says until it closes.
fn said(mut stream: TcpStream) -> String {
    let mut all = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut all);
    String::from_utf8_lossy(&all).into_owned()
}

#[test]
fn what_makes_no_sense_ends_the_link() {
    let member = Member::start(Ours, "S0", free_port(), &[], "").expect("it starts");
    let cases: Vec<(String, &str)> = vec![
        ("nonsense\r\n".into(), "Authorization Violation"),
        ("GET / HTTP/1.1\r\n\r\n".into(), "Authorization Violation"),
        ("\r\n\r\n".into(), "Authorization Violation"),
        ("CRAP\r\n".into(), "Unknown Protocol Operation"),
        (format!("{CONNECT}nonsense\r\n"), "Unknown Protocol Operation"),
        ("RS+ $G foo\r\n".into(), "Authorization Violation"),
        ("PING\r\n".into(), "Authorization Violation"),
        ("RMSG $G a 60000000\r\nhalf".into(), "Authorization Violation"),
        (format!("{CONNECT}RMSG $G a 60000000\r\nhalf"), "Authorization Violation"),
        ("CONNECT {\"lang\":\"go\"}\r\n".into(), "attempted to connect to route port"),
        ("CONNECT nonsense\r\n".into(), ""),
        ("CONNECT {\"cluster\":\"X\"}\r\n".into(), "cluster name \"X\" does not match \"C\""),
        ("CONNECT {\"cluster\":\"_\"}\r\n".into(), "is reserved"),
        (format!("{CONNECT}INFO nonsense\r\n"), ""),
        (
            format!("{CONNECT}INFO {{\"route_pool_size\":1,\"route_pool_idx\":9}}\r\n"),
            "Invalid route pool index",
        ),
        (format!("{CONNECT}INFO {{\"route_pool_size\":100000000000}}\r\n"), "Invalid route pool size"),
        (format!("{CONNECT}INFO {{\"route_pool_size\":{}}}\r\n", i64::MAX), "Invalid route pool size"),
        (
            format!("{CONNECT}INFO {{\"route_pool_size\":3,\"route_account\":\"none\"}}\r\n"),
            "Unable to lookup account \"none\": account missing",
        ),
        (
            format!("{CONNECT}INFO {{\"route_pool_size\":3,\"route_account\":\"$G\"}}\r\n"),
            "No route for account \"$G\"",
        ),
        (format!("{CONNECT}{INFO}RMSG $G a 999999999\r\n"), "Maximum Payload Violation"),
        (format!("{CONNECT}{INFO}RMSG $G a -1\r\n"), ""),
        (format!("{CONNECT}{INFO}HMSG $G a 9 2\r\nhi\r\n"), ""),
        (format!("{CONNECT}{INFO}RS+ $G\r\n"), ""),
        (format!("{CONNECT}{INFO}RMSG $G a 2\r\nhixx"), "Unknown Protocol Operation"),
        (format!("INFO {}", "x".repeat(70_000)), "Authorization Violation"),
        (format!("CONNECT {}", "x".repeat(70_000)), "maximum control line exceeded"),
    ];
    for (bytes, expected) in cases {
        let mut stream = peer(&member);
        // It may close in the middle.
        let _ = stream.write_all(bytes.as_bytes());
        let said = said(stream);
        // Of some of it the other side is not told.
        let is_told = if expected.is_empty() { !said.contains("-ERR") } else { said.contains(expected) };
        assert!(is_told, "{bytes:.60}: {said}");
    }
    member.client().barrier();
    assert_eq!(member.links(), 0);
}

#[test]
fn half_a_frame_waits_and_costs_nothing() {
    let member = Member::start(Ours, "S0", free_port(), &[], "").expect("it starts");
    let mut streams: Vec<_> = (0..3)
        .map(|place| {
            let mut stream = peer(&member);
            let info = INFO.replace("\"port\":1", &format!("\"port\":1,\"route_pool_idx\":{place}"));
            stream
                .write_all(format!("{CONNECT}{info}RMSG $G a 60000000\r\nhalf").as_bytes())
                .expect("it reads");
            stream
        })
        .collect();
    crate::eventually("the links are there", || member.links() == 3);
    let before = member.server.memory();
    assert!(before < 300 * 1024 * 1024, "what is announced takes no memory before it comes: {before}");
    member.client().barrier();
    streams.clear();
    crate::eventually("the links are gone", || member.links() == 0);
}

/// Interest that is not well formed, and messages for accounts that are not there, cost the link
/// nothing.
#[test]
fn what_cannot_be_used_is_passed_by() {
    let member = Member::start(Ours, "S0", free_port(), &[], "").expect("it starts");
    let mut stream = peer(&member);
    let ops = "RS+ $G a..b\r\nRS+ none a\r\nRS- none a\r\nRS- $G never\r\nRMSG none a 1\r\nx\r\n\
               A+ none\r\nLS- x $G a\r\nRS+ $G ok q 4000000000\r\nRS+ $G ok q 0\r\nPING\r\n";
    stream.write_all(format!("{CONNECT}{INFO}{ops}").as_bytes()).expect("it reads");
    let mut all = String::new();
    while !all.ends_with("PONG\r\n") {
        let mut buffer = [0; 4096];
        let n = stream.read(&mut buffer).expect("it answers");
        assert!(n > 0, "it goes on: {all}");
        all.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
    assert!(all.contains("-ERR 'Invalid Subscription'"), "{all}");
    member.server.wait_for_log("Unknown account \"none\" for remote subject \"a\"");
    assert_eq!(member.links(), 1);
}

/// A server whose link takes nothing loses none of its messages; or, where that is configured, the
/// link.
#[test]
fn a_link_that_pauses_loses_nothing() {
    const COUNT: usize = 20_000;
    for closes in [false, true] {
        let (port, policy) = (free_port(), if closes { ", write_timeout: close" } else { "" });
        let config = format!(
            "server_name: S0\nwrite_deadline: \"200ms\"\n\
             cluster {{ name: C, listen: \"127.0.0.1:{port}\"{policy} }}\n"
        );
        let member = Member { server: Setup::default().config(&config).start(), port };
        let mut stream = peer(&member);
        // One link for all accounts.
        let info = INFO.replace("\"route_pool_size\":3,", "");
        stream.write_all(format!("{CONNECT}{info}RS+ $G flood\r\n").as_bytes()).expect("it reads");
        crate::eventually("interest is there", || {
            member.server.page("/routez")["routes"][0]["subscriptions"] == 1
        });
        let mut publisher = member.client();
        for _ in 0..COUNT / 1000 {
            publisher.send(&format!("PUB flood 1000\r\n{}\r\n", "x".repeat(1000)).repeat(1000));
            publisher.barrier();
        }
        if closes {
            member.server.wait_for_log("Router connection closed: Slow Consumer (Write Deadline)");
            crate::eventually("the link is gone", || member.links() == 0);
        } else {
            member.server.wait_for_log("Slow Consumer State: WriteDeadline");
            let mut buffer = vec![0; 1 << 20];
            let (mut got, mut held) = (0, Vec::new());
            while got < COUNT {
                let n = stream.read(&mut buffer).expect("it is not cut off");
                assert!(n > 0, "{got} of {COUNT} have come");
                held.extend_from_slice(&buffer[..n]);
                let whole = held.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                got += held[..whole]
                    .split(|byte| *byte == b'\n')
                    .filter(|line| line.starts_with(b"RMSG "))
                    .count();
                held.drain(..whole);
            }
            assert_eq!(member.links(), 1);
        }
        let varz = member.server.page("/varz");
        assert!(varz["slow_consumer_stats"]["routes"].as_u64() >= Some(1), "{varz}");
        assert_eq!(varz["slow_consumer_stats"]["clients"], 0);
    }
}

/// Strangers that begin a line and do not end it, or say nothing at all, are told to go when their
/// time is over, and take no more memory than they may.
#[test]
fn strangers_cost_little_and_not_for_long() {
    const STRANGERS: u64 = 100;
    let inner = "authorization { user: u, password: p, timeout: 1 }";
    for kind in [Ours, Reference] {
        let Some(member) = Member::with(kind, "S0", free_port(), &[], inner) else { continue };
        let before = member.server.memory();
        let half = format!("CONNECT {{\"name\":\"{}", "x".repeat(3_500));
        let mut streams: Vec<_> = (0..STRANGERS)
            .map(|at| {
                let mut stream = peer(&member);
                let bytes = if at % 2 == 0 { half.as_bytes() } else { b"" };
                let _ = stream.write_all(bytes);
                stream
            })
            .collect();
        if kind == Ours {
            let grown = member.server.memory().saturating_sub(before);
            assert!(grown < STRANGERS * 128 * 1024, "{grown} bytes for {STRANGERS} strangers");
        }
        for stream in streams.drain(..) {
            let said = said(stream);
            assert!(said.ends_with("-ERR 'Authentication Timeout'\r\n"), "{kind:?}: {said}");
        }
        member.server.wait_for_log("Router connection closed: Authentication Timeout");
        assert_eq!(member.links(), 0);
    }
}

/// A server that is let in and brings interest and messages of accounts that are not there takes no
/// memory for them and a few lines of the log, and keeps its link.
#[test]
fn accounts_that_are_not_there_take_no_memory() {
    const ACCOUNTS: usize = 200_000;
    let member = Member::start(Ours, "S0", free_port(), &[], "").expect("it starts");
    let mut stream = peer(&member);
    let info = INFO.replace("\"route_pool_size\":3,", "");
    stream.write_all(format!("{CONNECT}{info}PING\r\n").as_bytes()).expect("it reads");
    let mut answered = stream.try_clone().expect("a second handle");
    let mut wait_for_pong = move || {
        let mut all = Vec::new();
        while !all.ends_with(b"PONG\r\n") {
            let mut buffer = [0; 4096];
            let n = answered.read(&mut buffer).expect("it answers");
            assert!(n > 0, "it goes on");
            all.extend_from_slice(&buffer[..n]);
        }
    };
    wait_for_pong();
    let before = member.server.memory();
    let mut lines = String::new();
    for at in 0..ACCOUNTS {
        lines.push_str(&format!("RS+ account-{at} foo.{at}\r\nRMSG account-{at} foo.{at} 1\r\nx\r\n"));
        if lines.len() > 1 << 20 {
            stream.write_all(lines.as_bytes()).expect("it reads");
            lines.clear();
        }
    }
    lines.push_str("PING\r\n");
    stream.write_all(lines.as_bytes()).expect("it reads");
    wait_for_pong();
    let grown = member.server.memory().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes for {ACCOUNTS} accounts that are not there");
    assert_eq!(member.links(), 1);
    member.client().barrier();
    // The first is named, and the rest counted: every ten seconds, and at the end.
    drop((stream, wait_for_pong));
    let mut lines: Vec<String> = Vec::new();
    crate::eventually("all are counted", || {
        let log = member.server.log();
        lines = log.lines().filter(|line| line.contains("Unknown account")).map(str::to_owned).collect();
        let counts = lines.iter().filter_map(|line| line.strip_suffix(" more")?.rsplit(' ').next());
        let counts: Vec<usize> = counts.filter_map(|count| count.parse().ok()).collect();
        lines.len() - counts.len() + counts.iter().sum::<usize>() == ACCOUNTS
    });
    assert!(lines[0].contains("Unknown account \"account-0\" for remote subject \"foo.0\""), "{lines:?}");
    assert!(lines.len() < 50, "{lines:?}");
}

/// Peer that is dialled and does not answer: the link ends, and is tried again.
#[test]
fn a_listener_that_is_no_server_is_given_up() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let member = Member::start(Ours, "S0", free_port(), &[port], "").expect("it starts");
    let (mut first, _) = listener.accept().expect("it dials");
    first.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("it reads");
    member.server.wait_for_log("Router connection closed: ");
    let (mut second, _) = listener.accept().expect("it dials again");
    second.set_read_timeout(Some(PATIENCE)).expect("a positive time");
    // One that ends in the middle of its INFO.
    second.write_all(b"INFO {\"server_id\":").expect("it reads");
    second.shutdown(std::net::Shutdown::Write).expect("it is open");
    let mut rest = Vec::new();
    let _ = second.read_to_end(&mut rest);
    let (third, _) = listener.accept().expect("it dials again");
    assert_eq!(member.links(), 0);
    drop(third);
    member.client().barrier();
}
