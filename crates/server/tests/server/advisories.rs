//! Attacks on identity and isolation that were published for nats-server, each as a class and not only as its input. Those
//! that need no server are tried in `auth/tests/suite/advisories.rs`.

use crate::process::{Server, Setup};
use crate::raw::Raw;
use myelin_compat::identity::{Identities, Order};

const CONNECT: &str = "\"verbose\":false,\"pedantic\":false,\"headers\":true";

fn open(server: &Server) -> Raw {
    Raw::open(server.address())
}

/// What the server says first to a CONNECT with these fields, and a PING.
fn login(server: &Server, fields: &str) -> (Raw, String) {
    let mut raw = open(server);
    raw.send(&format!("CONNECT {{{fields}{CONNECT}}}\r\nPING\r\n"));
    let answer = raw.line();
    (raw, answer)
}

const REFUSED: &str = "-ERR 'Authorization Violation'";

/// CVE-2022-24450: a client named another account in its CONNECT, and was in it.
#[test]
fn cve_2022_24450_nobody_chooses_an_account() {
    let server = Server::with_config(
        "accounts { A { users: [{user: a, password: p}] }, B { users: [{user: b, password: p}] } }",
    );
    let (mut b, _) = login(&server, "\"user\":\"b\",\"pass\":\"p\",");
    b.subscribe(">", 1);
    b.barrier();
    for fields in [
        "\"account\":\"B\",",
        "\"account\":\"NEW\",\"new_account\":true,",
        "\"new_account\":true,",
        "\"Account\":\"B\",",
        "\"account\":\"$SYS\",",
    ] {
        let (_, answer) = login(&server, &format!("\"user\":\"a\",\"pass\":\"p\",{fields}"));
        assert_eq!(answer, REFUSED, "{fields}");
    }
    // Not by a second CONNECT either, nor by fields that only links have.
    let (mut a, answer) = login(&server, "\"user\":\"a\",\"pass\":\"p\",\"remote_account\":\"B\",");
    assert_eq!(answer, "PONG");
    a.publish("x", "y");
    a.send(&format!("CONNECT {{\"account\":\"B\",{CONNECT}}}\r\nPUB x 1\r\ny\r\n"));
    assert!(a.rest().contains(REFUSED));
    assert_eq!(b.barrier(), [], "nothing of it in the other account");
}

/// CVE-2023-47090: a configuration with nothing but the system account's users let everybody into the global account although
/// it asked for credentials.
#[test]
fn cve_2023_47090_users_of_the_system_account_open_no_other() {
    let system = "accounts { $SYS { users: [{user: s, password: p}] } }";
    for block in [
        "authorization { users: [{user: a, password: p}] }",
        "authorization { token: t }",
        "authorization { user: a, password: p }",
        "authorization { users: [{nkey: UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4}] }",
    ] {
        // Some of these the server does not even start with.
        let path = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(path.path(), format!("{system}\n{block}")).expect("it takes text");
        let check = std::process::Command::new(crate::process::PROGRAM)
            .args(["-t", "-c"])
            .arg(path.path())
            .output()
            .expect("the program starts");
        if !check.status.success() {
            continue;
        }
        let server = Server::with_config(&format!("{system}\n{block}"));
        for fields in ["", "\"user\":\"\",", "\"user\":\"x\",\"pass\":\"p\",", "\"auth_token\":\"\","] {
            assert_eq!(login(&server, fields).1, REFUSED, "{block}: {fields}");
        }
        let mut raw = open(&server);
        raw.send("PING\r\n");
        assert_eq!(raw.line(), REFUSED, "{block}");
    }
}

fn issued(orders: &[String]) -> Identities {
    let orders: Vec<_> =
        orders.iter().map(|order| Order::parse(order).expect("a test is well made")).collect();
    Identities::issue(&orders).expect("a test is well made")
}

/// CVE-2020-28466 and CVE-2022-42709: accounts that import from each other in a circle brought the server down.
#[test]
fn cve_2020_28466_and_2022_42709_circles_of_imports_end() {
    let limits = r#""limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":-1,"leaf":-1}"#;
    let account = |name: &str, from: &str| {
        let exports = r#""exports":[{"subject":"s.>","type":"service"},{"subject":"e.>","type":"stream"}]"#;
        let import = |kind: &str, subject: &str| {
            format!(
                r#"{{"account":"@key:A:{from}@","subject":"{subject}","local_subject":"{subject}","type":"{kind}"}}"#
            )
        };
        let imports = format!("\"imports\":[{},{}]", import("service", "s.>"), import("stream", "e.>"));
        format!(r#"{name} account by O:op for A:{name} {{"nats":{{{limits},{exports},{imports}}}}}"#)
    };
    let user = |name: &str| {
        format!(
            r#"u{name} user by A:{name} for U:{name} {{"nats":{{"subs":-1,"data":-1,"payload":-1,"bearer_token":true}}}}"#
        )
    };
    let names = ["a", "b", "c"];
    let mut orders = vec![
        r#"op operator by O:op for O:op {"name":"op","nats":{"system_account":"@key:A:sys@"}}"#.to_owned(),
        format!(r#"sys account by O:op for A:sys {{"nats":{{{limits}}}}}"#),
    ];
    orders.extend(names.iter().zip(["b", "c", "a"]).map(|(name, from)| account(name, from)));
    orders.extend(names.iter().map(|name| user(name)));
    let ids = issued(&orders);
    let text = |text: &str| String::from_utf8(ids.fill(text.as_bytes()).expect("keys")).expect("text");
    let preload: String =
        ["sys", "a", "b", "c"].iter().map(|name| format!("@key:A:{name}@: \"@{name}@\"\n")).collect();
    let server = Setup::default()
        .config(&text(&format!("operator: \"@op@\"\nresolver: MEM\nresolver_preload {{\n{preload}}}\n")))
        .start();
    let mut clients: Vec<Raw> = names
        .iter()
        .map(|name| {
            let (mut raw, answer) = login(&server, &text(&format!("\"jwt\":\"@u{name}@\",")));
            assert_eq!(answer, "PONG");
            raw.send("SUB s.> 1\r\nSUB e.> 2\r\n");
            raw.barrier();
            raw
        })
        .collect();
    for client in &mut clients {
        client.send("PUB s.x in.box 1\r\nq\r\nPUB e.x 1\r\ny\r\nPUB s.y 0\r\n\r\n");
        let own = client.barrier();
        assert!(own.len() <= 12, "{own:?}");
    }
    for client in &mut clients {
        assert!(client.barrier().len() <= 24, "everything comes to an end");
    }
}

/// The same in a configuration: it is not taken at all.
#[test]
fn cve_2022_42709_a_circle_in_a_file_is_refused() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let text = "accounts {
        A { exports: [{service: s}], imports: [{service: {account: B, subject: s}}] }
        B { exports: [{service: s}], imports: [{service: {account: A, subject: s}}] }
    }";
    std::fs::write(file.path(), text).expect("it takes text");
    let output = std::process::Command::new(crate::process::PROGRAM)
        .args(["-a", "127.0.0.1", "-p", "-1", "-c"])
        .arg(file.path())
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("cycle"), "{said}");
}

/// SN 2026-08 and 2026-09: a client wrote the header itself by which a service learns who asks.
#[test]
fn sn_2026_08_and_09_nobody_says_who_asks_but_the_server() {
    let server = Server::with_config(
        "accounts {
            S { users: [{user: s, password: p}], exports: [{service: svc}] }
            C { users: [{user: c, password: p}], imports: [{service: {account: S, subject: svc}, share: true}] }
         }",
    );
    let (mut service, _) = login(&server, "\"user\":\"s\",\"pass\":\"p\",");
    service.subscribe("svc", 1);
    service.barrier();
    let (mut client, _) = login(&server, "\"user\":\"c\",\"pass\":\"p\",");
    for name in ["Nats-Request-Info", "nats-request-info", "NATS-REQUEST-INFO", "Nats-Request-Info "] {
        let block = format!(
            "NATS/1.0\r\nA: b\r\n{name}: {{\"acc\":\"forged\"}}\r\n{name}: {{\"acc\":\"forged\"}}\r\n\r\n"
        );
        let size = block.len();
        client.send(&format!("HPUB svc in.box {size} {size}\r\n{block}\r\n"));
        client.barrier();
        let request = service.message();
        let text = request.text();
        assert!(!text.contains("forged") && text.contains("\"acc\":\"C\""), "{name}: {text}");
    }
}
