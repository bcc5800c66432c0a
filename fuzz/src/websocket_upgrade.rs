//! The request that makes a WebSocket of a connection.
//!
//! Promised: any head is granted or refused; an answer is one HTTP head, whatever was asked for,
//! with nothing in it that the client chose but a digest of its key; where the head ends does not
//! depend on how it came.

use myelin_wire::websocket::upgrade::{CookieNames, Origin, UpgradeRules, end_of_head, negotiate};

/// Any bytes as a request, and as what stands behind a good one.
pub fn websocket_upgrade(data: &[u8]) {
    ask(data);
    let mut request = b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        .to_vec();
    request.extend_from_slice(data);
    request.extend_from_slice(b"\r\n\r\n");
    ask(&request);
}

fn ask(bytes: &[u8]) {
    let end = end_of_head(bytes, 0);
    for seen in (0..bytes.len().min(64)).filter(|seen| end.is_none_or(|end| *seen < end)) {
        assert_eq!(end_of_head(bytes, seen), end);
    }
    let head = &bytes[..end.unwrap_or(bytes.len())];
    let name = |name: &str| Some(name.to_owned());
    let listed = ["http://a", "https://b:8443"].iter().filter_map(|origin| Origin::parse(origin).ok());
    let strict = UpgradeRules {
        is_secure: false,
        same_origin: true,
        allowed_origins: listed.collect(),
        compression: true,
        headers: "X-A: b\r\n".to_owned(),
        takes_mqtt: true,
        cookies: CookieNames { jwt: name("j"), user: name("u"), pass: name("p"), token: name("t") },
    };
    for rules in [UpgradeRules::default(), strict] {
        let answer = match negotiate(head, &rules) {
            Ok(upgrade) => upgrade.answer,
            Err(refusal) => refusal.answer("Sun, 22 Nov 2026 14:21:35 GMT"),
        };
        let text = std::str::from_utf8(&answer).expect("answers are text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("HTTP/1.1 ") && head.lines().count() < 12);
        assert!(body.lines().count() <= 1 && head.bytes().all(|byte| byte != 0));
    }
}
