//! Lines that servers of two clusters say to each other: a test plays one of them.

use super::Site;
use crate::raw::Raw;
use crate::routes::{Ours, Reference, ServerKind, free_port};
use serde_json::{Value, json};
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};

fn sites(inner: &str, more: &str) -> Vec<Site> {
    let site = |kind: ServerKind| Site::start(kind, ("A1", "A", free_port()), &[], inner, more);
    [Ours, Reference].into_iter().filter_map(site).collect()
}

fn json_of(line: &str, verb: &str) -> Value {
    let text = line.trim().strip_prefix(verb).unwrap_or_else(|| panic!("no {verb}: {line}"));
    serde_json::from_str(text).expect("JSON")
}

pub(super) const CONNECT: &str = r#"CONNECT {"echo":false,"verbose":false,"pedantic":false,"tls_required":false,"headers":false,"name":"NB","cluster":"","gateway":"B"}"#;
pub(super) const INFO: &str = r#"INFO {"server_id":"NB","server_name":"B1","version":"2.15.2","proto":3,"go":"go","host":"127.0.0.1","port":1,"headers":true,"max_payload":1048576,"gateway":"B","gateway_urls":[],"gateway_url":"","gateway_nrp":true,"gateway_iom":true} "#;

#[test]
fn info_says_what_the_reference_says() {
    let mut said = Vec::new();
    for site in sites("", "") {
        let stream = TcpStream::connect(("127.0.0.1", site.port)).unwrap();
        let mut info = json_of(&Raw::over(stream).line(), "INFO ");
        let url = format!("127.0.0.1:{}", site.port);
        let fields = info.as_object_mut().unwrap();
        for own in ["server_id", "go", "git_commit"] {
            fields.remove(own);
        }
        assert_eq!(fields["gateway_urls"], json!([url]));
        assert_eq!((&fields["gateway_url"], &fields["port"]), (&json!(url), &json!(site.port)));
        for port in ["gateway_urls", "gateway_url", "port"] {
            fields.remove(port);
        }
        said.push(info);
    }
    assert!(said.windows(2).all(|two| two[0] == two[1]), "{said:#?}");
    assert_eq!(said[0]["gateway_iom"], json!(true));
}

/// Lines up to a PONG, without those about `$SYS`.
pub(super) fn said(raw: &mut Raw) -> Vec<String> {
    raw.send("PING\r\n");
    let mut lines = Vec::new();
    loop {
        let line = raw.line();
        match line.trim_end() {
            "PONG" => return lines,
            "PING" => raw.send("PONG\r\n"),
            line if line.contains("$SYS") || line.contains("\"JFNZUw==\"") => {}
            line => lines.push(line.to_owned()),
        }
    }
}

fn has(lines: &[String], part: &str) -> Option<usize> {
    lines.iter().position(|line| line.contains(part))
}

#[test]
fn whoever_has_dialled_hears_all_interest_and_its_changes() {
    for site in sites("", "") {
        let mut client = site.client();
        client.send("SUB plain 1\r\nSUB plain 2\r\nSUB work q 3\r\nSUB work q 4\r\n");
        client.barrier();
        let mut peer = site.dial();
        peer.send(&format!("{CONNECT}\r\n{INFO}\r\n"));
        let mut lines = Vec::new();
        crate::eventually("everything is told", || {
            lines.extend(said(&mut peer));
            has(&lines, r#""gateway_cmd":3,"gateway_cmd_payload":"JEc=""#).is_some()
                && has(&lines, "RS+ $G work q 1").is_some()
        });
        let start = has(&lines, r#""gateway_cmd":2,"gateway_cmd_payload":"JEc=""#).expect("a beginning");
        let plain = has(&lines, "RS+ $G plain").expect("the subject");
        let end = has(&lines, r#""gateway_cmd":3,"gateway_cmd_payload":"JEc=""#).expect("an end");
        assert!(start < plain && plain < end, "{lines:?}");
        client.send("UNSUB 1\r\nUNSUB 3\r\nSUB new 5\r\n");
        client.barrier();
        crate::eventually("a change is told", || !said(&mut peer).is_empty());
        client.send("UNSUB 2\r\nUNSUB 4\r\n");
        client.barrier();
        let mut gone = Vec::new();
        crate::eventually("the end of interest is told", || {
            gone.extend(said(&mut peer));
            gone.len() >= 2
        });
        gone.sort();
        assert_eq!(gone, ["RS- $G plain", "RS- $G work q"]);
    }
}

#[test]
fn strangers_lose_their_connection() {
    let client = r#"CONNECT {"verbose":false,"lang":"go","version":"1"}"#;
    for site in sites("reject_unknown_cluster: true", "") {
        let cases = [
            (client, "attempted to connect to gateway port"),
            (CONNECT, "Connection to gateway \"A\" rejected"),
            ("RS+ $G foo", "Authorization Violation"),
            ("PING", "Authorization Violation"),
            (INFO, "Authorization Violation"),
        ];
        for (line, expected) in cases {
            let mut peer = site.dial();
            peer.send(&format!("{line}\r\n"));
            assert!(peer.rest().contains(expected), "{line}");
        }
    }
    let login = "authorization { user: gate, password: keep }";
    for site in sites(login, "") {
        for (connect, is_let_in) in [
            (CONNECT.to_owned(), false),
            (CONNECT.replacen('{', r#"{"user":"gate","pass":"wrong","#, 1), false),
            (CONNECT.replacen('{', r#"{"user":"gate","pass":"keep","#, 1), true),
        ] {
            let mut peer = site.dial();
            peer.send(&format!("{connect}\r\n{INFO}\r\n"));
            if is_let_in {
                said(&mut peer);
            } else {
                assert!(peer.rest().contains("Authorization Violation"));
            }
        }
    }
}

/// Lines that nobody says over a link end it, and nothing else.
#[test]
fn what_makes_no_sense_ends_the_link() {
    // The reference lets some of it pass.
    for site in sites("", "").into_iter().take(1) {
        let mut client = site.client();
        client.subscribe("mine", 1);
        client.barrier();
        for line in ["RS+ $G foo", "RS- $G foo", "RMSG $G a x", "RMSG $G", "LS+ x $G foo", "nonsense"] {
            let mut peer = site.dial();
            peer.send(&format!("{CONNECT}\r\n{INFO}\r\n"));
            said(&mut peer);
            peer.send(&format!("{line}\r\n"));
            peer.rest();
        }
        client.publish("mine", "still here");
        assert_eq!(client.message().text(), "still here");
    }
}

/// A server that dials a test.
pub(super) fn dialling(kind: ServerKind, more: &str) -> Option<(Site, Raw, TcpListener)> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("it is there");
    let port = listener.local_addr().expect("it is there").port();
    let site = Site::start(kind, ("A1", "A", free_port()), &[("B", port)], "", more)?;
    let (stream, _) = listener.accept().expect("it is there");
    Some((site, Raw::over(stream), listener))
}

#[test]
fn connect_says_what_the_reference_says() {
    let mut documents = Vec::new();
    for kind in [Ours, Reference] {
        let Some((_site, mut raw, _)) = dialling(kind, "") else { continue };
        raw.send(&format!("{INFO}\r\n"));
        let mut connect = json_of(&raw.line(), "CONNECT ");
        connect.as_object_mut().unwrap().remove("name");
        documents.push(connect);
        assert_eq!(json_of(&raw.line(), "INFO ")["gateway"], json!("A"));
    }
    assert!(documents.windows(2).all(|two| two[0] == two[1]), "{documents:#?}");
}

#[test]
fn another_cluster_than_the_one_that_was_dialled_is_refused() {
    for kind in [Ours, Reference] {
        for (info, expected) in [
            (
                INFO.replace(r#""gateway":"B""#, r#""gateway":"C""#),
                r#"Connection from "A" rejected, wanted to connect to "B", this is "C""#,
            ),
            (INFO.replace(r#""gateway":"B","#, ""), r#"Attempt to connect to gateway "B" using wrong port"#),
        ] {
            let Some((_site, mut raw, _)) = dialling(kind, "") else { continue };
            raw.send(&format!("{info}\r\n"));
            assert!(raw.rest().contains(expected), "{kind:?} {expected}");
        }
    }
}

#[test]
fn an_older_server_gets_what_it_does_not_refuse() {
    let old = INFO.replace(r#","gateway_iom":true"#, "");
    for kind in [Ours, Reference] {
        let Some((site, mut raw, _)) = dialling(kind, "") else { continue };
        raw.send(&format!("{old}\r\n"));
        raw.line();
        raw.line();
        let mut client = site.client();
        let mut crossing = |raw: &mut Raw, subject: &str| {
            client.publish(subject, "x");
            client.barrier();
            said(raw).iter().any(|line| line.starts_with(&format!("RMSG $G {subject} ")))
        };
        crate::eventually("the link is there", || crossing(&mut raw, "first"));
        raw.send("RS- $G first\r\n");
        said(&mut raw);
        assert!(!crossing(&mut raw, "first") && crossing(&mut raw, "second"), "{kind:?}");
        let page = site.server.page("/gatewayz?acc_name=$G");
        let account = &page["outbound_gateways"]["B"]["accounts"][0];
        let shown = [&account["interest_mode"], &account["no_interest_count"]];
        assert_eq!(shown, [&json!("Optimistic"), &json!(1)], "{kind:?}: {page}");
        raw.send("RS+ $G first\r\n");
        said(&mut raw);
        assert!(crossing(&mut raw, "first"));
        raw.send("A- $G\r\n");
        said(&mut raw);
        assert!(!crossing(&mut raw, "first"));
        raw.send("A+ $G\r\n");
        said(&mut raw);
        assert!(crossing(&mut raw, "first"));
        let command = |number: u8| {
            format!(
                "INFO {{\"gateway\":\"B\",\"gateway_cmd\":{number},\"gateway_cmd_payload\":\"JEc=\"}}\r\n"
            )
        };
        raw.send("RS- $G other\r\n");
        raw.send(&command(2));
        raw.send("RS+ $G third\r\n");
        said(&mut raw);
        assert!(crossing(&mut raw, "first"), "{kind:?}: not everything was told");
        raw.send(&command(3));
        said(&mut raw);
        assert!(!crossing(&mut raw, "first") && crossing(&mut raw, "third"), "{kind:?}");
        raw.send("RS- $G third\r\n");
        said(&mut raw);
        assert!(!crossing(&mut raw, "third"));
    }
}

/// A server that was dialled and says nothing, or nothing any more, is given up.
#[test]
fn a_server_that_falls_silent_is_given_up() {
    for kind in [Ours, Reference] {
        for says in ["", INFO] {
            let often = "ping_interval: \"500ms\"\nping_max: 1";
            let Some((site, mut raw, _listener)) = dialling(kind, often) else { continue };
            if !says.is_empty() {
                raw.send(&format!("{says}\r\n"));
            }
            let said = raw.rest();
            assert!(says.is_empty() || said.contains("PING"), "{kind:?}: {said}");
            site.server.wait_for_log("Gateway connection closed: Stale Connection");
        }
    }
}

#[test]
fn jetstream_with_a_gateway_and_without_a_cluster_ends_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.conf");
    let store = folder.path().display();
    let text = format!(
        "server_name: A1\nport: -1\njetstream {{ store_dir: \"{store}\" }}\n\
         gateway {{ name: A, listen: \"127.0.0.1:{}\" }}\n",
        free_port()
    );
    std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
    let output = std::process::Command::new(crate::process::PROGRAM).arg("-c").arg(&path).output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(log.contains("\"jetstream\" together with \"gateway\" needs \"cluster\""), "{log}");
}
