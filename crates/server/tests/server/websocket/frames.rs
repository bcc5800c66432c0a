//! Frames both ways.

use super::peer::{
    BINARY, CLOSE, COMPRESSED, DEFLATE, FIN, PING, Peer, TEXT, deflate, frame, header, packed,
};
use super::{address, server, servers};

const CONNECT: &[u8] = b"CONNECT {\"verbose\":false}\r\nPING\r\n";

/// Bytes that are sent after INFO, and how the connection ends: the lines, pongs, and the close
/// frame. `is_reference`: the reference does so, too; it ends some connections without a close
/// frame, or with one that may be lost.
struct Case {
    name: &'static str,
    headers: &'static str,
    sent: Vec<u8>,
    lines: &'static [&'static str],
    close: Option<(u16, &'static str)>,
    is_reference: bool,
}

fn cases() -> Vec<Case> {
    let fault = |name, sent, text| Case {
        name,
        headers: "",
        sent,
        lines: &["PONG"],
        close: Some((1002, text)),
        is_reference: false,
    };
    let before = |bytes: Vec<u8>| [frame(BINARY, CONNECT), bytes].concat();
    let closes = |name, payload: &[u8], close| Case {
        name,
        headers: "",
        sent: [frame(BINARY, CONNECT), frame(CLOSE, payload)].concat(),
        lines: &["PONG"],
        close: Some(close),
        is_reference: true,
    };
    let bye = frame(CLOSE, b"\x03\xe8");
    let fine = |name, headers, sent: Vec<Vec<u8>>| Case {
        name,
        headers,
        sent: [sent.concat(), bye.clone()].concat(),
        lines: &["PONG"],
        close: Some((1000, "")),
        is_reference: true,
    };
    let unmasked = [header(BINARY, 6, 0), b"PING\r\n".to_vec()].concat();
    let pressed = deflate(CONNECT);
    let first = BINARY | COMPRESSED;
    vec![
        fine("binary", "", vec![frame(BINARY, CONNECT)]),
        fine("text", "", vec![frame(TEXT, CONNECT)]),
        fine(
            "fragments",
            "",
            vec![frame(1, &CONNECT[..7]), frame(0, &CONNECT[7..8]), frame(0, b""), frame(FIN, &CONNECT[8..])],
        ),
        Case {
            sent: [unmasked.clone(), header(CLOSE, 2, 0), vec![3, 0xe8]].concat(),
            ..fine("no mask if agreed", "Nats-No-Masking: true\r\n", Vec::new())
        },
        fine("compressed", DEFLATE, vec![packed(CONNECT)]),
        fine(
            "compressed fragments",
            DEFLATE,
            vec![frame(first & !FIN, &pressed[..9]), frame(FIN, &pressed[9..])],
        ),
        fine("compressed and not", DEFLATE, vec![packed(&CONNECT[..9]), frame(BINARY, &CONNECT[9..])]),
        fault("no mask", before(unmasked), "mask bit missing"),
        fault("reserved bit 2", before(frame(BINARY | 0x20, b"")), "RSV2 and RSV3 must be clear"),
        fault("reserved bit 3", before(frame(BINARY | 0x10, b"")), "RSV2 and RSV3 must be clear"),
        fault(
            "not agreed",
            before(packed(b"")),
            "compressed frame received without negotiated permessage-deflate",
        ),
        fault("opcode", before(frame(FIN | 3, b"")), "unknown opcode 3"),
        fault("continuation of nothing", before(frame(FIN, b"x")), "invalid continuation frame"),
        fault(
            "nested",
            before([frame(2, b""), frame(2, b"")].concat()),
            "new message started before final frame for previous message was received",
        ),
        fault(
            "long ping",
            before(frame(PING, &[0; 126])),
            "control frame length bigger than maximum allowed of 125 bytes",
        ),
        fault("split ping", before(frame(PING & !FIN, b"")), "control frame does not have final bit set"),
        fault(
            "length",
            before([header(BINARY, 1 << 63, 0x80), vec![0; 4]].concat()),
            "invalid 64-bit payload length",
        ),
        fault("half a status", before(frame(CLOSE, b"x")), "close frame payload cannot be 1 byte"),
        fault("a status that is none", before(frame(CLOSE, b"\x03\xed")), "invalid close status code 1005"),
        closes("close", b"\x03\xe8", (1000, "")),
        closes("close with words", b"\x0f\xa0so long", (4000, "so long")),
        closes("close without a word", b"", (0, "")),
        closes("close without sense", b"\x03\xe8\xff", (1007, "invalid utf8 body in close frame")),
        Case {
            name: "what does not inflate",
            headers: DEFLATE,
            sent: [packed(CONNECT), frame(first, &[0xff; 9])].concat(),
            lines: &["PONG"],
            close: Some((1007, "flate: corrupt input")),
            is_reference: false,
        },
        Case {
            name: "compression begins once",
            headers: DEFLATE,
            sent: [packed(CONNECT), frame(first & !FIN, b""), frame(FIN | COMPRESSED, b"")].concat(),
            lines: &["PONG"],
            close: Some((1002, "invalid continuation frame")),
            is_reference: false,
        },
        Case {
            name: "payload",
            headers: "",
            sent: [frame(BINARY, CONNECT), frame(BINARY, b"PUB a 101\r\n")].concat(),
            lines: &["PONG", "-ERR 'Maximum Payload Violation'"],
            close: Some((1009, "Maximum Message Payload Exceeded")),
            is_reference: true,
        },
        Case {
            name: "protocol",
            headers: "",
            sent: [frame(BINARY, CONNECT), frame(BINARY, b"FOO\r\n")].concat(),
            lines: &["PONG", "-ERR 'Unknown Protocol Operation'"],
            close: Some((1002, "Protocol Violation")),
            is_reference: false,
        },
    ]
}

#[test]
fn connections_end_like_the_references() {
    let servers = servers("compression: true", "max_payload: 100");
    for case in cases() {
        for (i, server) in servers.iter().enumerate() {
            if i > 0 && !case.is_reference {
                continue;
            }
            // At once, and in pieces that are not frames.
            for size in [case.sent.len(), 3] {
                let mut peer = Peer::open(address(server), case.headers);
                for piece in case.sent.chunks(size) {
                    // It may have ended it already.
                    let _ = peer.try_send(piece);
                }
                let rest = peer.rest();
                let close = rest.closed_with();
                let seen = (rest.lines(), close.as_ref().map(|(status, text)| (*status, text.as_str())));
                let lines: Vec<String> = case.lines.iter().map(|line| (*line).to_owned()).collect();
                assert_eq!(seen, (lines, case.close), "{} on server {i} by {size}", case.name);
            }
        }
    }
}

#[test]
fn faults_are_in_the_log() {
    let server = server("", "");
    let mut peer = Peer::open(address(&server), "");
    peer.send(&[header(BINARY, 6, 0), b"PING\r\n".to_vec()].concat());
    assert_eq!(peer.rest().closed_with(), Some((1002, "mask bit missing".to_owned())));
    assert!(server.wait_for_log("read error: mask bit missing").contains(" - wid:"));
    server.wait_for_close("Read Error");
}

#[test]
fn pings_are_answered_between_and_within_messages() {
    let server = server("", "");
    let mut peer = Peer::open(address(&server), "");
    peer.info();
    let bytes = [
        frame(PING, b"one"),
        frame(2, &CONNECT[..10]),
        frame(PING, b""),
        frame(FIN, &CONNECT[10..]),
        frame(0x8a, b"nobody asked"),
        frame(CLOSE, b"\x03\xe8"),
    ];
    peer.send(&bytes.concat());
    let rest = peer.rest();
    assert_eq!(rest.lines(), ["PONG"]);
    assert_eq!(rest.pongs, [b"one".to_vec(), Vec::new()]);
}

/// A pattern that is not all the same and compresses somewhat.
fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| ((i * i) >> 7) as u8).collect()
}

#[test]
fn messages_of_every_size_come_through() {
    let server = server("compression: true", "max_payload: 3000000");
    let browser = "User-Agent: Mozilla/5.0\r\n";
    let safari = "User-Agent: Mozilla/5.0 Version/17 Safari/600\r\n";
    for headers in ["", DEFLATE, browser, &format!("{browser}{DEFLATE}"), &format!("{safari}{DEFLATE}")] {
        let mut peer = Peer::open(address(&server), headers);
        peer.greet("");
        peer.say("SUB a 1\r\n");
        let compresses = headers.contains("deflate");
        for len in [0, 1, 50, 64, 65, 125, 126, 4096, 65535, 65536, 300_000, 3_000_000] {
            let body = pattern(len);
            let text = [format!("PUB a {len}\r\n").as_bytes(), &body, b"\r\n"].concat();
            // In frames that cut it anywhere.
            if compresses {
                peer.send(&packed(&text));
            } else {
                text.chunks(100_000).for_each(|piece| peer.send(&frame(BINARY, piece)));
            }
            assert_eq!(peer.line(), format!("MSG a 1 {len}"));
            let came = peer.take(len + 2);
            assert!(came[..len] == body && came[len..] == *b"\r\n", "{len} with {headers}");
        }
        let is_browser = headers.contains("Mozilla");
        for (first, len) in &peer.seen {
            let may_be_long = !is_browser || (headers.contains("Safari") && first & COMPRESSED != 0);
            assert!(may_be_long || *len <= 4096, "{len} with {headers}");
        }
        let is_compressed = peer.seen.iter().any(|(first, _)| first & COMPRESSED != 0);
        assert_eq!(is_compressed, compresses);
    }
}

#[test]
fn a_frame_holds_all_that_is_sent_together() {
    let server = server("", "");
    let mut peer = Peer::connect(address(&server), "");
    let before = peer.seen.len();
    peer.say(&format!("SUB a 1\r\n{}PING\r\n", "PUB a 1\r\nx\r\n".repeat(100)));
    for _ in 0..100 {
        assert_eq!((peer.line(), peer.line()), ("MSG a 1 1".to_owned(), "x".to_owned()));
    }
    assert_eq!(peer.line(), "PONG");
    assert!(peer.seen.len() - before <= 2, "{:?}", &peer.seen[before..]);
}

#[test]
fn who_is_behind_gets_everything_once_it_reads() {
    for headers in ["", DEFLATE, "User-Agent: Mozilla/5.0\r\n"] {
        let server = server("compression: true", "");
        let mut slow = Peer::open(address(&server), headers);
        slow.greet("");
        slow.say("SUB a 1\r\nPING\r\n");
        assert_eq!(slow.line(), "PONG");
        let mut fast = Peer::connect(address(&server), "");
        let body = pattern(100_000);
        let count = 60;
        for i in 0..count {
            fast.send(&frame(
                BINARY,
                &[format!("PUB a.{i} 0\r\n\r\n").as_bytes(), b"PUB a 100000\r\n", &body, b"\r\n"].concat(),
            ));
            // Answered in the middle of it all.
            slow.send(&frame(PING, &[i]));
        }
        fast.say("PING\r\n");
        assert_eq!(fast.line(), "PONG");
        let (mut pongs, mut messages) = (0, 0);
        let mut content = Vec::new();
        let message = [&b"MSG a 1 100000\r\n"[..], &body, b"\r\n"].concat();
        while messages < count {
            let (first, payload) = slow.frame().expect("alive");
            match first {
                super::peer::PONG => pongs += 1,
                _ => content.extend(slow.content(first, payload).into_iter().flatten()),
            }
            while content.len() >= message.len() || content.starts_with(b"PING\r\n") {
                // Where it takes long, the server asks whether somebody is there.
                let is_ping = content.starts_with(b"PING\r\n");
                let piece: Vec<u8> = content.drain(..if is_ping { 6 } else { message.len() }).collect();
                assert!(is_ping || piece == message, "{headers}");
                messages += u8::from(!is_ping);
            }
        }
        assert!(pongs <= usize::from(count));
    }
}
