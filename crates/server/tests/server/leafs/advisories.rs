//! Attacks on leaf nodes and their hubs that were published for nats-server, each as a class, from
//! both ends. The server lives, one link is lost at worst, and the others go on.

use super::Site;
use crate::PATIENCE;
use crate::eventually;
use crate::raw::Raw;
use crate::routes::{Ours, free_port, wait_for_interest};
use myelin_wire::s2::{S2Level, S2Writer};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Everything that the server says until it closes, after it has been sent this.
fn answer(mut stream: TcpStream, bytes: &[u8]) -> String {
    stream.set_read_timeout(Some(PATIENCE)).expect("a positive time");
    // It may close in the middle.
    let _ = stream.write_all(bytes);
    let mut all = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut all);
    String::from_utf8_lossy(&all).into_owned()
}

/// Bytes as a stream of S2.
fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    S2Writer::new(S2Level::Fast).write([bytes], &mut out);
    out
}

/// A hub with a leaf node that behaves, and clients of both.
struct Innocent {
    hub: Site,
    _leaf: Site,
    above: Raw,
    below: Raw,
}

impl Innocent {
    fn start(inner: &str) -> Self {
        let hub = Site::hub(Ours, "HUB", inner, "").expect("it is built");
        let leaf = Site::leaf(Ours, "EDGE", &hub, "", "").expect("it is built");
        hub.linked(1);
        leaf.linked(1);
        let (mut above, mut below) = (hub.client(), leaf.client());
        below.subscribe("alive", 1);
        wait_for_interest(&mut above, &mut below);
        Self { hub, _leaf: leaf, above, below }
    }

    /// Answer for a stranger that connects for leaf nodes and sends this.
    fn attack(&self, bytes: &[u8]) -> String {
        let stream = TcpStream::connect(("127.0.0.1", self.hub.port)).expect("it listens");
        answer(stream, bytes)
    }

    /// The other link is there, and the stranger's is not.
    fn check(&mut self, what: &str) {
        self.above.publish("alive", what);
        assert_eq!(self.below.message().text(), what);
        self.hub.linked(1);
    }
}

/// A leaf node whose hub says what `says` says, and what it has said until it gave the link up and
/// dialled again.
fn dialled(inner: &str, says: &dyn Fn(&mut TcpStream)) -> (Site, String) {
    let port = free_port();
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
    let remotes = format!("reconnect: \"100ms\"\nremotes: [{{ url: \"nats://127.0.0.1:{port}\"\n{inner} }}]");
    let leaf = Site::start(Ours, "EDGE", None, &remotes, "").expect("it is built");
    let mut stream = accepted(&listener);
    says(&mut stream);
    let said = answer(stream, b"");
    // It dials again: it has lived.
    accepted(&listener);
    leaf.client().barrier();
    (leaf, said)
}

fn accepted(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("a socket");
    let mut stream = None;
    eventually("it dials", || {
        stream = listener.accept().ok().map(|(stream, _)| stream);
        stream.is_some()
    });
    let stream = stream.expect("it has dialled");
    stream.set_nonblocking(false).expect("a socket");
    stream.set_read_timeout(Some(PATIENCE)).expect("a positive time");
    stream
}

const CONNECT: &str = "CONNECT {\"name\":\"X\",\"cluster\":\"X\",\"headers\":true}\r\n";
const CHOICE: &str = "INFO {\"server_id\":\"NX\",\"compression\":\"s2_fast\"}\r\n";
const HUB: &str = "INFO {\"server_id\":\"NX\",\"server_name\":\"X\",\"client_id\":5,\"headers\":true,\
    \"info_on_connect\":true,\"nonce\":\"abc\",\"compression\":\"COMPRESSION\"}\r\n";
const ANSWER: &str =
    "INFO {\"server_id\":\"NX\",\"client_id\":5,\"connect_info\":true,\"remote_account\":\"$G\"}\r\n";

/// SN 2026-04: who negotiated compression again, or in another order, brought the server down
/// before it had logged in.
#[test]
fn sn_2026_04_compression_is_negotiated_once() {
    let mut site = Innocent::start("compression: s2_fast");
    let bomb = packed(&vec![b'x'; 4 << 20]);
    let switched = |bytes: &[u8]| [CHOICE.as_bytes(), bytes].concat();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("twice, in the clear", switched(CHOICE.as_bytes())),
        ("twice, the second compressed", switched(&packed(CHOICE.repeat(2).as_bytes()))),
        ("interest behind it", switched(&packed(b"LS+ a\r\n"))),
        ("no stream of S2", switched(b"\x00\x00\x00\x00garbage")),
        ("a chunk longer than any", switched(b"\xff\x06\x00\x00S2sTwO\x00\xff\xff\xffgarbage")),
        ("a wrong checksum", switched(b"\xff\x06\x00\x00S2sTwO\x01\x08\x00\x00\x00\x00\x00\x00PING")),
        ("a line without an end", switched(&bomb)),
        ("unknown", b"INFO {\"compression\":\"zstd\"}\r\n".to_vec()),
        ("of another type", b"INFO {\"compression\":{}}\r\n".to_vec()),
        ("not wanted, then wanted", [b"INFO {\"compression\":\"off\"}\r\n", CHOICE.as_bytes()].concat()),
    ];
    for (what, bytes) in cases {
        // Some of them wait for more, as anybody may, for no longer than a login takes.
        let said = site.attack(&bytes);
        assert!(!said.contains("LS+") && !said.contains("connect_info"), "{what}: {said}");
        site.check(what);
    }
}

/// SN 2026-04, the other way: the hub is the attacker.
#[test]
fn sn_2026_04_a_hub_negotiates_once() {
    let hub = HUB.replace("COMPRESSION", "s2_fast");
    let cases = [
        ("twice in the clear", hub.repeat(2).into_bytes()),
        ("twice compressed", [hub.as_bytes(), &packed(hub.repeat(2).as_bytes()), b"\xfe"].concat()),
        ("the answer at once", [hub.as_bytes(), &packed(ANSWER.as_bytes())].concat()),
        ("no stream", [hub.as_bytes(), b"\xff\x06\x00\x00S2sTwO\x00\xff\xff\xff"].concat()),
        ("unknown", HUB.replace("COMPRESSION", "zstd").into_bytes()),
    ];
    for (what, bytes) in cases {
        let (leaf, _) = dialled("compression: s2_fast", &|stream| {
            stream.write_all(&bytes).expect("it reads");
        });
        assert!(leaf.links().is_empty(), "{what}");
    }
}

/// SN 2026-10: a message that made no sense brought the server down.
#[test]
fn sn_2026_10_a_malformed_message_costs_its_own_link() {
    let mut site = Innocent::start("compression: off");
    let verbs = ["LMSG", "HMSG", "RMSG", "MSG", "LS+", "LS-", "RS+", "PUB", "HPUB", "A+", "-ERR", "INFO"];
    let tails = [
        "",
        " ",
        " a",
        " a ",
        " a -1",
        " a 0",
        " a x",
        " a 99999999999999999999",
        " a + r",
        " a | q",
        " a +",
        " a + r q",
        " a b c d 0",
        " a 12 3",
        " a 3 12",
        " a 0 0",
        " + 0",
        " | 0",
        " a + + 1",
        "\0",
    ];
    for verb in verbs {
        for tail in tails {
            for end in ["\r\n", "\r\n\r\n", "\r\nx\r\n"] {
                let line = format!("{verb}{tail}{end}");
                // Enough of it that no message waits for more.
                let stranger = format!("{line}{}", "NONSENSE\r\n".repeat(4));
                assert!(!site.attack(stranger.as_bytes()).contains("LS+"), "{line:?}");
                // An end to each: what is taken is no fault.
                site.attack(format!("{CONNECT}{stranger}").as_bytes());
            }
        }
        site.check(verb);
    }
}

/// SN 2026-10, the other way.
#[test]
fn sn_2026_10_a_hub_may_send_malformed_messages() {
    let hub = HUB.replace("COMPRESSION", "off");
    for line in ["LMSG\r\n", "LMSG a\r\n", "HMSG a 12 3\r\nx", "LMSG a | q\r\n", "LMSG a + 9999999999\r\n"] {
        for before in [String::new(), hub.clone(), format!("{hub}{ANSWER}")] {
            let bytes = format!("{before}{line}NONSENSE\r\n");
            let (leaf, _) = dialled("compression: off", &|stream| {
                stream.write_all(bytes.as_bytes()).expect("it reads");
            });
            assert!(leaf.links().is_empty(), "{bytes:?}");
        }
    }
}

/// SN 2026-19: two INFOs in a handshake brought the server down, what was done against the two
/// above notwithstanding.
#[test]
fn sn_2026_19_infos_of_a_stranger_change_nothing() {
    let mut site = Innocent::start("compression: s2_fast");
    let off = "INFO {\"compression\":\"off\"}\r\n";
    for second in [
        ANSWER,
        "INFO {\"connect_info\":true}\r\n",
        "INFO {\"remote_account\":\"$SYS\"}\r\n",
        "INFO {\"import\":{\"allow\":[\">\"]},\"export\":{\"allow\":[\">\"]},\"connect_info\":true}\r\n",
        "INFO {\"tls_required\":true,\"connect_info\":true}\r\n",
    ] {
        for first in ["", off] {
            let said = site.attack(format!("{first}{second}LS+ a\r\n").as_bytes());
            assert!(said.contains("-ERR 'Authorization Violation'"), "{first}{second}: {said}");
            assert!(!said.contains("LS+"), "{said}");
        }
        site.check("after INFO");
    }
}

/// SN 2026-19, the other way: INFO that answers nothing, and many of them.
#[test]
fn sn_2026_19_infos_of_a_hub_come_in_their_order() {
    let hub = HUB.replace("COMPRESSION", "off");
    for bytes in [ANSWER.repeat(2), format!("{ANSWER}{hub}"), "INFO {}\r\n".repeat(3)] {
        let (leaf, said) = dialled("compression: off", &|stream| {
            stream.write_all(bytes.as_bytes()).expect("it reads");
        });
        assert!(!said.contains("LS+"), "{bytes}: {said}");
        assert!(leaf.links().is_empty());
    }
    // On a link that is there INFO is news, however often it comes, and what it forbids is kept to.
    let deny = "INFO {\"connect_info\":true,\"export\":{\"deny\":[\">\"]}}\r\n";
    let bytes = format!("{hub}{hub}{ANSWER}{hub}{ANSWER}{deny}PING\r\n");
    let (_, said) = dialled("compression: off", &|stream| {
        stream.write_all(bytes.as_bytes()).expect("it reads");
        let mut said = Vec::new();
        let mut byte = [0];
        while !said.ends_with(b"PONG\r\n") {
            stream.read_exact(&mut byte).expect("it answers");
            said.push(byte[0]);
        }
        let said = String::from_utf8_lossy(&said).into_owned();
        assert_eq!(said.matches("CONNECT {").count(), 1, "{said}");
        stream.write_all(b"NONSENSE\r\n").expect("it reads");
    });
    assert!(said.contains("-ERR 'Unknown Protocol Operation'"), "{said}");
}

/// SN 2026-16 and 2026-24: with `no_auth_user` what came before CONNECT was taken as that user's,
/// from routes and leaf nodes, too.
#[test]
fn sn_2026_16_and_24_nobody_is_let_in_before_connect() {
    let users = "accounts { A { users: [{user: a, password: a}] } }\nno_auth_user: a";
    let hub = Site::hub(Ours, "HUB", "compression: off", users).expect("it is built");
    let mut witness = hub.client();
    witness.subscribe(">", 1);
    witness.barrier();
    let at = SocketAddr::from(([127, 0, 0, 1], hub.port));
    for first in
        ["LS+ a", "LMSG x 1\r\ny", "HMSG x 12 13\r\nNATS/1.0\r\n\r\ny", "PUB x 1\r\ny", "SUB > 1", "PING", ""]
    {
        let mut raw = Raw::open(at);
        let _ = raw.try_send(format!("{first}\r\nLMSG x 1\r\ny\r\n").as_bytes());
        let said = raw.rest();
        assert!(said.starts_with("-ERR 'Authorization Violation'"), "{first}: {said}");
    }
    assert_eq!(witness.barrier(), [], "nothing of it was published");
    // With users of their own leaf nodes are not that user either.
    let inner = "compression: off\nauthorization { users: [{user: l, password: l, account: A}] }";
    let hub = Site::hub(Ours, "HUB", inner, users).expect("it is built");
    let at = SocketAddr::from(([127, 0, 0, 1], hub.port));
    for fields in ["", "\"user\":\"\"", "\"user\":\"a\",\"pass\":\"a\"", "\"user\":\"l\"", "\"jwt\":\"e\""] {
        let mut raw = Raw::open(at);
        raw.send(&format!("CONNECT {{{fields}}}\r\nPING\r\n"));
        let said = raw.rest();
        assert!(said.starts_with("-ERR 'Authorization Violation'"), "{fields}: {said}");
    }
}

/// SN 2026-08: a leaf node said in a header who had sent a request, and was believed.
#[test]
fn sn_2026_08_a_leaf_node_does_not_say_who_asks() {
    let accounts = "accounts {\n\
        A { users: [{user: a, password: a}], imports: [{service: {account: B, subject: ask}}] }\n\
        B { users: [{user: b, password: b}], exports: [{service: ask}] } }";
    let hub = Site::hub(Ours, "HUB", "compression: off", accounts).expect("it is built");
    let mut service = Raw::open(hub.server.address());
    service
        .send("CONNECT {\"user\":\"b\",\"pass\":\"b\",\"headers\":true,\"verbose\":false}\r\nSUB ask 1\r\n");
    service.barrier();
    let mut leaf = Raw::open(SocketAddr::from(([127, 0, 0, 1], hub.port)));
    leaf.send(
        "CONNECT {\"user\":\"a\",\"pass\":\"a\",\"name\":\"X\",\"cluster\":\"X\",\"headers\":true}\r\n",
    );
    for name in ["Nats-Request-Info", "nats-request-info", "NATS-REQUEST-INFO", "Nats-Request-Info\t"] {
        let header = format!("NATS/1.0\r\n{name}: {{\"acc\":\"FORGED\"}}\r\n\r\n");
        leaf.send(&format!("HMSG ask re {0} {0}\r\n{header}\r\n", header.len()));
        let message = service.message();
        let text = message.text();
        assert!(!text.contains("FORGED"), "{text}");
    }
    eventually("the link stays", || hub.links().len() == 1);
}
