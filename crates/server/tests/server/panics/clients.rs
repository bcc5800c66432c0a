//! Panics in the parts that serve clients.

use super::{Stage, knock};
use crate::eventually;
use crate::process::Setup;
use crate::raw::{CONNECT, Raw};
use crate::tls::Lab;
use crate::websocket::{self, peer};
use rustix::process::Signal;

pub(super) const CASES: &[&str] = &[
    "mail",
    "flush",
    "flusher",
    "timers",
    "housekeeper",
    "connection",
    "link",
    "dial",
    "drain",
    "pongs",
    "login",
    "handshake",
    "removal",
    "accept",
    "accept-websocket",
    "upgrade",
    "reload",
    "log",
];

/// bcrypt of `s3cret` at the lowest cost there is.
const HASH: &str = "$2a$04$9UpCYmgpngibC5TWIA1N5..UW.EEjCWuiBFMXI5dPyz4m6OwM6zay";

/// More than sockets and buffers take.
const MUCH: usize = 32 << 20;

#[test]
fn a_shard_goes_on_after_a_panic_in_what_it_does_each_tick() {
    let stage = Stage::start(Setup::default().config("ping_interval: 1, ping_max: 1\n"));
    let mut talker = Raw::connect(&stage.server);
    talker.subscribe("own", 1);
    for part in ["flush", "flusher"] {
        stage.strike(part, |_| {
            talker.publish("own", part);
            let heard = talker.barrier();
            assert_eq!(heard.iter().map(|m| m.text()).collect::<Vec<_>>(), [part], "nothing is lost");
        });
        stage.serves_beside(&mut talker);
    }
    // Connections that came to nothing count nowhere.
    stage.strike("mail", |server| knock(server.address(), b""));
    stage.strike("timers", |server| knock(server.address(), b""));
    stage.strike("housekeeper", |_| drop(talker.barrier()));
    assert_eq!(stage.panics(), 5);
    drop(talker);
    stage.serves();
    // PINGs come, and those who do not answer go.
    let silent = Raw::connect(&stage.server);
    let heard = silent.rest();
    assert!(heard.contains("PING\r\n") && heard.contains("Stale Connection"), "{heard:?}");
    stage.server.wait_for_close("Stale Connection");
}

#[test]
fn a_connection_that_panics_goes_alone_and_leaves_nothing_behind() {
    let stage = Stage::start(Setup::default());
    let (mut bystander, mut victim) = (Raw::connect(&stage.server), Raw::connect(&stage.server));
    victim.subscribe("a", 1);
    victim.barrier();
    bystander.subscribe("b", 1);
    bystander.barrier();
    stage.strike("connection", |_| drop(victim.try_send(b"PING\r\n")));
    victim.rest();
    stage.server.wait_for_close("Internal Error");
    assert_eq!(stage.server.connections(), 1);
    let subscriptions = stage.server.page("/subsz")["num_subscriptions"].as_u64();
    bystander.publish("b", "hello");
    assert_eq!(bystander.message().text(), "hello");
    drop(bystander);
    stage.serves();
    assert_eq!(stage.server.page("/subsz")["num_subscriptions"].as_u64(), subscriptions.map(|n| n - 1));
}

#[test]
fn a_writer_that_panics_costs_the_one_whom_it_wrote_to() {
    let stage = Stage::start(Setup::default().config("max_pending: 256MB\nwrite_deadline: \"60s\"\n"));
    let (mut reader, mut lazy) = (Raw::connect(&stage.server), Raw::connect(&stage.server));
    for client in [&mut reader, &mut lazy] {
        client.subscribe("much", 1);
        client.barrier();
    }
    let mut publisher = Raw::connect(&stage.server);
    let piece = "x".repeat(512 << 10);
    let mut sent = 0;
    stage.strike("drain", |_| {
        assert!(sent < 64 * MUCH, "its socket takes anything");
        publisher.publish("much", &piece);
        publisher.barrier();
        sent += piece.len();
        assert_eq!(reader.message().body.len(), piece.len());
    });
    stage.server.wait_for_close("Internal Error");
    publisher.publish("much", "last");
    assert_eq!(reader.message().text(), "last");
    drop((reader, lazy, publisher));
    stage.serves();
}

#[test]
fn pongs_that_nobody_can_send_end_their_websocket() {
    let stage = Stage::start(
        Setup::default().config(&websocket::config("", "max_pending: 256MB\nwrite_deadline: \"60s\"\n")),
    );
    let mut lazy = peer::Peer::connect(websocket::address(&stage.server), "");
    lazy.say("SUB much 1\r\n");
    let mut publisher = Raw::connect(&stage.server);
    let piece = "x".repeat(512 << 10);
    eventually("its socket is full", || {
        publisher.publish("much", &piece);
        publisher.barrier();
        let page = stage.server.page("/connz");
        let pending =
            page["connections"].as_array().expect("a list").iter().map(|c| c["pending_bytes"].as_u64());
        pending.flatten().any(|pending| pending > 0)
    });
    stage.strike("pongs", |_| {
        // It may have taken some of that meanwhile.
        publisher.publish("much", &piece);
        publisher.barrier();
        drop(lazy.try_send(&peer::frame(peer::PING, b"are you there")));
    });
    stage.server.wait_for_close("Internal Error");
    drop((lazy, publisher));
    stage.serves();
}

#[test]
fn a_login_that_panics_costs_its_client() {
    let config =
        format!("authorization {{ users: [ {{ user: u, password: \"{HASH}\" }} ] }}\nno_auth_user: n\n");
    let config = config.replace(" ] }", " , { user: n, password: n } ] }");
    let stage = Stage::start(Setup::default().config(&config));
    let connect = CONNECT.replace("{\"verbose\"", "{\"user\":\"u\",\"pass\":\"s3cret\",\"verbose\"");
    let mut refused = Vec::new();
    stage.strike("login", |server| {
        let mut client = Raw::open(server.address());
        client.send(&format!("{connect}\r\nPING\r\n"));
        refused.push(client);
    });
    // Which of those that were there at once, nobody knows.
    stage.server.wait_for_close("Internal Error");
    drop(refused);
    let mut client = Raw::open(stage.server.address());
    client.send(&format!("{connect}\r\n"));
    client.barrier();
}

#[test]
fn a_handshake_that_panics_costs_its_client() {
    let lab = Lab::new();
    let stage = Stage::start(Setup::default().config(&lab.block("")));
    stage.strike("handshake", |server| {
        let mut client = lab.secure(server, None);
        assert!(client.barrier().is_err());
    });
    let mut client = lab.secure(&stage.server, None);
    client.barrier().expect("it is served");
}

#[test]
fn a_removal_that_panics_costs_nobody_who_is_there() {
    let stage = Stage::start(Setup::default());
    stage.strike("removal", |server| {
        let mut many = Raw::connect(server);
        (0..5000).for_each(|n| many.subscribe(&format!("many.{n}"), n));
        many.barrier();
    });
    stage.serves();
}

#[test]
fn a_link_that_panics_is_one_that_has_ended() {
    let free =
        || std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it is bound");
    let (own, other) = (free(), free());
    let config = format!("cluster {{ name: C, listen: \"{own}\", routes: [\"nats://{other}\"] }}\n");
    let stage = Stage::start(Setup::default().config(&config));
    stage.strike("link", |_| knock(own, b"CONNECT {\"cluster\":\"C\"}\r\n"));
    stage.strike("dial", |_| std::thread::yield_now());
    stage.serves();
    let config = format!("cluster {{ name: C, listen: \"{other}\" }}\n");
    let late = Setup::default().config(&config).start();
    eventually("the links are there", || late.page("/routez")["num_routes"] == 4);
}

#[test]
fn who_accepts_goes_on_accepting() {
    let stage = Stage::start(Setup::default().config(&websocket::config("", "")));
    let upgrades = websocket::address(&stage.server);
    stage.strike("accept", |server| knock(server.address(), b""));
    stage.strike("accept-websocket", |_| knock(upgrades, b""));
    stage.strike("upgrade", |_| knock(upgrades, b"GET / HTTP/1.1\r\n"));
    stage.serves();
    peer::Peer::connect(upgrades, "");
}

#[test]
fn a_reload_that_panics_is_one_that_failed() {
    let stage = Stage::start(Setup::default().config("max_payload: 1000\n"));
    stage.strike("reload", |server| server.signal(Signal::HUP));
    stage.server.wait_for_log("Failed to reload server configuration: it ended in a panic");
    let lines = stage.server.reload("max_payload: 2000\n");
    assert!(lines.iter().any(|line| line.contains("Reloaded server configuration")), "{lines:?}");
    stage.serves();
}

#[test]
fn the_log_goes_on_after_a_panic() {
    let stage = Stage::start(Setup::default().config("").flags(&["-D"]));
    stage.strike("log", |server| knock(server.address(), b""));
    let before = stage.server.log_len();
    knock(stage.server.address(), b"");
    stage.server.wait_for_log_after(before, "Client connection closed");
    stage.serves();
}
