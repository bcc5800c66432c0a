//! Protocol log: lines for each receiver, whatever receivers share, and no secrets.

use super::net::{Net, Setup, assert_idle, login, user};
use crate::log::{Level, Log};
use crate::settings::{ProtocolLogSettings, Settings};
use myelin_stdx::sync::lock;
use myelin_wire::error::CloseReason;
use std::fmt::Arguments;
use std::sync::{Arc, Mutex};

/// Keeps all lines.
#[derive(Default)]
pub(super) struct Kept(Mutex<Vec<String>>);

impl Log for Kept {
    fn enabled(&self, _: Level) -> bool {
        true
    }

    fn write(&self, level: Level, line: Arguments<'_>) {
        lock(&self.0).push(format!("{level:?} {line}"));
    }
}

impl Kept {
    /// The lines since the last time, without what all clients of tests have in common.
    pub(super) fn take(&self) -> Vec<String> {
        let lines = std::mem::take(&mut *lock(&self.0));
        lines.iter().map(|line| line.replace("127.0.0.1:4 - cid:", "").replace(" - \"test\"", "")).collect()
    }
}

pub(super) fn traced(configure: impl FnOnce(&mut Setup)) -> (Net, Arc<Kept>) {
    let log = Arc::new(Kept::default());
    let net = Net::with(|setup| {
        setup.log = Arc::clone(&log) as Arc<dyn Log>;
        configure(setup);
    });
    (net, log)
}

#[test]
fn each_member_of_a_cohort_has_its_own_line() {
    let (net, log) = traced(|_| {});
    let (mut left, mut right, mut publisher) = (net.peer(0), net.peer(1), net.peer(0));
    left.send("SUB a 1\r\n");
    right.send("SUB a 1\r\n");
    publisher.warm_up("a", &[&left, &right]);
    log.take();
    publisher.publish("a", "x");
    net.flush(0);
    let mut lines = log.take();
    assert_eq!(lines[..2], ["Trace 3 - <<- [PUB a 1]", "Trace 3 - <<- MSG_PAYLOAD: [\"x\"]"]);
    lines[2..].sort();
    let mut expected = vec![];
    for cid in [1, 2] {
        expected.push(format!("Trace {cid} - ->> MSG_PAYLOAD: [\"x\"]"));
        expected.push(format!("Trace {cid} - ->> [MSG a 1 1]"));
    }
    assert_eq!(lines[2..], expected);
    for peer in [&left, &right] {
        assert_eq!(peer.received(), "MSG a 1 1\r\nx\r\n");
    }
    assert_idle(&net, &[&left, &right, &publisher]);
}

#[test]
fn a_last_message_ends_its_subscription_before_the_next_is_delivered() {
    let (net, log) = traced(|_| {});
    let mut peer = net.peer(0);
    peer.send("SUB a 1\r\nUNSUB 1 1\r\n");
    log.take();
    peer.publish("a", "x");
    peer.publish("a", "y");
    let expected = [
        "Trace 1 - <<- [PUB a 1]",
        "Trace 1 - <<- MSG_PAYLOAD: [\"x\"]",
        "Debug 1 - Auto-unsubscribe limit of 1 reached for sid '1'",
        "Trace 1 - ->> [MSG a 1 1]",
        "Trace 1 - ->> MSG_PAYLOAD: [\"x\"]",
        "Trace 1 - <-> [DELSUB 1]",
        "Trace 1 - <<- [PUB a 1]",
        "Trace 1 - <<- MSG_PAYLOAD: [\"y\"]",
    ];
    assert_eq!(log.take(), expected);
}

#[test]
fn a_line_is_traced_once_and_before_its_payload_has_come() {
    let (net, log) = traced(|_| {});
    let mut peer = net.peer(0);
    log.take();
    for part in ["PU", "B a 3\r\n", "x", "y"] {
        peer.send(part);
    }
    assert_eq!(log.take(), ["Trace 1 - <<- [PUB a 3]"]);
    peer.send("z\r\nPING\r\n");
    let expected = ["Trace 1 - <<- MSG_PAYLOAD: [\"xyz\"]", "Trace 1 - <<- [PING]", "Trace 1 - ->> [PONG]"];
    assert_eq!(log.take(), expected);
}

fn set_tracing(net: &Net, protocol_log: ProtocolLogSettings) {
    net.broker.set_settings(Settings { protocol_log, ..(*net.broker.settings()).clone() });
}

#[test]
fn how_much_is_traced_can_change() {
    let (net, log) = traced(|_| {});
    let mut peer = net.peer(0);
    log.take();
    peer.publish("a", "xyz");
    set_tracing(&net, ProtocolLogSettings { max_payload: Some(1), headers_only: false });
    peer.publish("a", "xyz");
    set_tracing(&net, ProtocolLogSettings { max_payload: None, headers_only: true });
    peer.publish("a", "xyz");
    let shown: Vec<_> = log.take().into_iter().filter(|line| line.contains("PAYLOAD")).collect();
    assert_eq!(shown, ["Trace 1 - <<- MSG_PAYLOAD: [\"xyz\"]", "Trace 1 - <<- MSG_PAYLOAD: [\"x...\"]"]);
}

#[test]
fn no_secret_reaches_the_log() {
    let (net, log) = traced(|setup| setup.users([user("hush", "$G", None)]));
    let mut stranger = net.stranger(0);
    stranger.connect(r#""user":"x","pass":"hush","auth_token":"hush","sig":"hush""#);
    assert_eq!(stranger.closed, Some(CloseReason::AuthenticationFailure));
    let mut cut = net.stranger(0);
    cut.send("CONNECT {\"pass\":\"hush\"\r\n");
    assert_eq!(cut.closed, Some(CloseReason::ProtocolViolation));
    let lines = log.take();
    assert!(lines.iter().all(|line| !line.contains("hush")), "{lines:#?}");
    assert!(lines.iter().any(|line| line == "Error 1 - authentication error - User \"x\""), "{lines:#?}");
    let mut known = net.stranger(0);
    known.connect(&login("hush"));
    assert!(log.take().iter().any(|line| line.contains("\"user\":\"hush\",\"pass\":\"[REDACTED]\"")));
}

#[test]
fn the_end_is_said_once() {
    let (net, log) = traced(|_| {});
    let mut peer = net.stranger(0);
    peer.send("CONNECT {\"protocol\":7}\r\n");
    let lines = log.take();
    let expected = ["Bad Client Protocol Version", "invalid client protocol"];
    let ends: Vec<_> = lines[lines.len() - 2..].iter().map(|line| line.rsplit([':', '-']).next()).collect();
    assert_eq!(ends, expected.map(|end| Some(format!(" {end}"))).each_ref().map(|end| end.as_deref()));
    assert_eq!(lines.iter().filter(|line| line.contains("connection closed")).count(), 1);
}
