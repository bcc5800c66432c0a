//! Requests and what becomes of them, as nats-server 2.15.2 answered them.

use super::*;

const FINE: &str = "Host: localhost:80\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";

fn ask(line: &str, headers: &str, rules: &UpgradeRules) -> Result<Upgrade, UpgradeRefusal> {
    let head = format!("{line}\r\n{headers}\r\n");
    assert_eq!(end_of_head(head.as_bytes(), 0), Some(head.len()));
    negotiate(head.as_bytes(), rules)
}

fn get(more: &str, rules: &UpgradeRules) -> Result<Upgrade, UpgradeRefusal> {
    ask("GET / HTTP/1.1", &format!("{FINE}{more}"), rules)
}

/// The status and the reason of a refusal.
fn refused(outcome: Result<Upgrade, UpgradeRefusal>) -> (String, Option<String>) {
    let refusal = outcome.unwrap_err();
    let answer = String::from_utf8(refusal.answer("NOW")).unwrap();
    let line = answer.lines().next().unwrap().strip_prefix("HTTP/1.1 ").unwrap().to_owned();
    (line, refusal.reason)
}

#[test]
fn a_request_is_granted_in_the_references_words() {
    let rules =
        UpgradeRules { headers: "X-A: b\r\n".to_owned(), compression: true, ..UpgradeRules::default() };
    let upgrade = get("", &rules).unwrap();
    assert_eq!(
        String::from_utf8(upgrade.answer).unwrap(),
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nX-A: b\r\n\r\n"
    );
    assert!(upgrade.is_masked && upgrade.extensions == Extensions::default() && upgrade.cookies.is_empty());
    let upgrade = get(
        "sec-websocket-extensions: foo, Permessage-Deflate ; client_max_window_bits\r\nNats-No-Masking: true\r\n",
        &rules,
    )
    .unwrap();
    assert_eq!(
        String::from_utf8(upgrade.answer).unwrap(),
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\
         Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n\
         Nats-No-Masking: true\r\nX-A: b\r\n\r\n"
    );
    assert!(!upgrade.is_masked && upgrade.extensions.compresses);
    let plain = get("Sec-WebSocket-Extensions: permessage-deflate\r\n", &UpgradeRules::default()).unwrap();
    assert!(!plain.extensions.compresses);
}

#[test]
fn refusals_are_the_references() {
    let rules = UpgradeRules::default();
    let bad = |reason: &str| ("400 Bad Request".to_owned(), Some(reason.to_owned()));
    let start =
        |from: usize, until: usize| FINE.split_inclusive("\r\n").take(until).skip(from).collect::<String>();
    let line = "GET / HTTP/1.1";
    for (line, headers, expected) in [
        ("GET / HTTP/1.0", start(1, 5), bad("'Host' missing in request")),
        (line, start(0, 1), bad("invalid value for header 'Upgrade'")),
        (line, start(0, 2), bad("invalid value for header 'Connection'")),
        (line, start(0, 3), bad("key missing")),
        (line, start(0, 3) + "Sec-WebSocket-Key: abc\r\n", bad("invalid websocket key")),
        (line, start(0, 4) + "Sec-WebSocket-Version: 12\r\n", bad("invalid version")),
        (
            "POST / HTTP/1.1",
            FINE.to_owned(),
            ("405 Method Not Allowed".to_owned(), Some("request method must be GET".to_owned())),
        ),
        (
            "GET /a/mqtt?b HTTP/1.1",
            FINE.to_owned(),
            ("404 Not Found".to_owned(), Some("mqtt websocket endpoint not enabled".to_owned())),
        ),
        (line, start(1, 5), ("400 Bad Request: missing required Host header".to_owned(), None)),
        (line, "Host: a b\r\n".to_owned(), ("400 Bad Request: malformed Host header".to_owned(), None)),
        (
            line,
            "Host: a\r\nHost: a\r\n".to_owned(),
            ("400 Bad Request: too many Host headers".to_owned(), None),
        ),
        (line, "Host a\r\n".to_owned(), ("400 Bad Request".to_owned(), None)),
        ("GARBAGE", String::new(), ("400 Bad Request".to_owned(), None)),
        (
            "GET / HTTP/9.9",
            String::new(),
            ("505 HTTP Version Not Supported: unsupported protocol version".to_owned(), None),
        ),
        (line, "A: b\r\n".repeat(101), ("431 Request Header Fields Too Large".to_owned(), None)),
    ] {
        assert_eq!(refused(ask(line, &headers, &rules)), expected, "{line} {headers}");
    }
    let refusal = get("", &rules).and(ask("POST / HTTP/1.1", FINE, &rules)).unwrap_err();
    assert_eq!(
        String::from_utf8(refusal.answer("Sun, 22 Nov 2026 14:21:35 GMT")).unwrap(),
        "HTTP/1.1 405 Method Not Allowed\r\nContent-Type: text/plain; charset=utf-8\r\nSec-Websocket-Version: 13\r\n\
         X-Content-Type-Options: nosniff\r\nDate: Sun, 22 Nov 2026 14:21:35 GMT\r\nContent-Length: 19\r\n\
         Connection: close\r\n\r\nMethod Not Allowed\n"
    );
}

#[test]
fn paths_lead_to_what_is_behind_them() {
    for (target, expected) in [
        ("/", UpgradeTarget::Client),
        ("/any?x=/leafnode", UpgradeTarget::Client),
        ("/leafnode", UpgradeTarget::LeafNode),
        ("/a/leafnode?b", UpgradeTarget::LeafNode),
        ("http://leafnode", UpgradeTarget::Client),
        ("http://host/leafnode", UpgradeTarget::LeafNode),
        ("/mqtt", UpgradeTarget::Mqtt),
        ("/a/mqtt?b", UpgradeTarget::Mqtt),
        ("/mqtt/a", UpgradeTarget::Client),
    ] {
        let rules = UpgradeRules { takes_mqtt: true, ..UpgradeRules::default() };
        let upgrade = ask(&format!("GET {target} HTTP/1.1"), FINE, &rules).unwrap();
        assert_eq!(upgrade.target, expected, "{target}");
        let answer = String::from_utf8(upgrade.answer).unwrap();
        let is_mqtt = answer.contains("\r\nSec-WebSocket-Protocol: mqtt\r\n");
        assert_eq!(is_mqtt, expected == UpgradeTarget::Mqtt, "{answer}");
    }
}

#[test]
fn origins_are_compared_by_scheme_host_and_port() {
    let from = |origin: &str, rules: &UpgradeRules| -> Option<String> {
        let outcome = get(&format!("Origin: {origin}\r\n"), rules);
        outcome.err().map(|refusal| refusal.reason.unwrap())
    };
    let same = UpgradeRules { same_origin: true, ..UpgradeRules::default() };
    for fine in ["http://localhost", "http://LOCALHOST:80/x", "http://user@localhost"] {
        assert_eq!(from(fine, &same), None, "{fine}");
    }
    for bad in ["https://localhost", "http://localhost:81", "http://localhost.evil.com", "http://evil.com"] {
        assert_eq!(from(bad, &same), Some("origin not allowed: not same origin".to_owned()), "{bad}");
        assert_eq!(from(bad, &UpgradeRules::default()), None, "{bad}");
    }
    assert_eq!(
        from("null", &same),
        Some(r#"origin not allowed: parse "null": invalid URI for request"#.to_owned())
    );
    assert!(get("", &same).is_ok(), "not from a page");
    let allowed = ["http://example.com", "https://[::1]:8443", "https://b.com"];
    let allowed_origins = allowed.iter().map(|origin| Origin::parse(origin).unwrap()).collect();
    let listed = UpgradeRules { allowed_origins, ..UpgradeRules::default() };
    for fine in ["http://example.com:80", "https://[::1]:8443", "https://b.com:443"] {
        assert_eq!(from(fine, &listed), None, "{fine}");
    }
    for bad in ["https://example.com", "http://example.com:8080", "http://b.com"] {
        assert_eq!(from(bad, &listed), Some("origin not allowed: not in the allowed list".to_owned()));
    }
    let older = get("Sec-WebSocket-Origin: http://a\r\n", &listed);
    assert_eq!(refused(older).0, "403 Forbidden");
    let both = UpgradeRules { same_origin: true, is_secure: true, ..listed };
    assert_eq!(from("https://localhost", &both), Some("origin not allowed: not same origin".to_owned()));
}

#[test]
fn cookies_have_what_connect_leaves_out() {
    let name = |name: &str| Some(name.to_owned());
    let rules = UpgradeRules {
        cookies: CookieNames { jwt: name("j"), user: name("u"), pass: name("p"), token: None },
        ..UpgradeRules::default()
    };
    let found = |more: &str| get(more, &rules).unwrap().cookies;
    let cookies = found("Cookie: x=1; u=me; p=\"a b\"\r\nCookie: j=e.y.J\r\n");
    assert_eq!(
        (cookies.user.as_deref(), cookies.pass.as_deref(), cookies.jwt.as_deref(), cookies.token),
        (Some("me"), Some("a b"), Some("e.y.J"), None)
    );
    assert_eq!(found("Cookie: u=a; u=b\r\n").user.as_deref(), Some("b"));
    assert_eq!(found("Cookie: u=a=b\r\n").user.as_deref(), Some("a=b"));
    assert!(found("Cookie: u=a\\b; p=\"\"\"; =; ;\r\n").is_empty());
    assert_eq!(format!("{cookies:?}", cookies = found("Cookie: p=secret\r\n")), "Cookies");
}

#[test]
fn who_a_client_is_behind_a_proxy_and_what_it_likes() {
    let rules = UpgradeRules { compression: true, ..UpgradeRules::default() };
    let ip = |value: &str| get(&format!("X-Forwarded-For: {value}\r\n"), &rules).unwrap().client_ip;
    assert_eq!(ip("1.2.3.4"), Some([1, 2, 3, 4].into()));
    assert_eq!(ip("::1").map(|ip| ip.is_ipv6()), Some(true));
    assert_eq!((ip("1.2.3.4, 5.6.7.8"), ip("me"), ip("")), (None, None, None));
    let extensions = |agent: &str| {
        let extensions = get(&format!("User-Agent: {agent}\r\n"), &rules).unwrap().extensions;
        (extensions.is_browser, extensions.takes_whole_messages)
    };
    assert_eq!(extensions("curl/8"), (false, false));
    assert_eq!(extensions("Mozilla/5.0 (X11) Chrome/120 Safari/537.36"), (true, false));
    assert_eq!(extensions("Mozilla/5.0 (Macintosh) Version/17.1 Safari/605.1.15"), (true, true));
}

#[test]
fn the_end_of_a_head_is_found_wherever_it_was_cut() {
    let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nmore";
    for seen in 0..head.len() - 4 {
        assert_eq!(end_of_head(&head[..seen], 0), None);
        assert_eq!(end_of_head(head, seen), Some(head.len() - 4), "{seen}");
    }
    assert_eq!(end_of_head(b"GET / HTTP/1.1\n\n", 0), Some(16));
}
