//! The TLS, WebSocket, OCSP and PROXY configurations of NATS's documentation (docs.nats.io), block
//! by block and as they stand there but for ports and `/path/to/`: they load, and the official
//! client works with them, on ours and on the reference. Those of accounts, and so on, are
//! elsewhere.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use async_nats::ConnectOptions;
use futures_util::StreamExt as _;
use rcgen::{DistinguishedName, DnType, SanType};
use tempfile::TempDir;

use crate::logging::programs;
use crate::process::{Server, Setup};
use crate::soon;
use crate::tls::{Lab, dial, greeted};

/// A folder with the files that the documentation has `mkcert` make.
struct Desk {
    lab: Lab,
    store: TempDir,
}

impl Desk {
    fn new() -> Self {
        let lab = Lab::new();
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        params.subject_alt_names.push(SanType::Rfc822Name("email@localhost".try_into().expect("ASCII")));
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "mkcert development certificate");
        let unit = "testuser@MacBook-Pro.local (Test User)";
        params.distinguished_name.push(DnType::OrganizationalUnitName, unit);
        lab.sign_as("client", &params);
        let copies = [
            ("server.pem", "server-cert.pem"),
            ("server.key", "server-key.pem"),
            ("client.pem", "client-cert.pem"),
            ("client.key", "client-key.pem"),
            ("ca.pem", "rootCA.pem"),
            ("server.pem", "cert.pem"),
            ("server.key", "key.pem"),
            ("server.pem", "nats.acme.example.pem"),
            ("server.key", "nats.acme.example-key.pem"),
        ];
        for (from, to) in copies {
            fs::copy(lab.file(from), lab.file(to)).expect("a folder that takes files");
        }
        Self { lab, store: tempfile::tempdir().expect("a folder") }
    }

    fn start(&self, program: &Path, config: &str, flags: &[&str]) -> Server {
        let folder = self.lab.dir.path();
        let config = config
            .replace("/path/to/store/dir", &self.store.path().display().to_string())
            .replace("/path/to/", &format!("{}/", folder.display()))
            .replace("/etc/nats/certs/", &format!("{}/", folder.display()))
            .replace("listen: 0.0.0.0:443", "listen: \"127.0.0.1:-1\"")
            .replace("port: 443", "port: -1")
            .replace("port: 8080", "port: -1");
        let setup = Setup::default().program(program).flags(flags).folder(folder);
        (if config.is_empty() { setup } else { setup.config(&config) }).start()
    }

    fn knowing(&self) -> ConnectOptions {
        ConnectOptions::new().add_root_certificates(self.lab.file("rootCA.pem"))
    }

    fn shown(&self) -> ConnectOptions {
        let file = |name: &str| self.lab.file(name);
        self.knowing().add_client_certificate(file("client-cert.pem"), file("client-key.pem"))
    }
}

/// Whether the client is let in and hears itself.
async fn works(options: ConnectOptions, url: &str) -> bool {
    let Ok(client) = soon("a verdict", options.connect(url)).await else { return false };
    let mut sub = client.subscribe("documented").await.expect("a client that lives");
    client.publish("documented", "hi".into()).await.expect("a client that lives");
    soon("a message", sub.next()).await.is_some_and(|message| message.payload == "hi")
}

fn tls(server: &Server) -> String {
    format!("tls://localhost:{}", server.address().port())
}

fn wss(server: &Server) -> String {
    let at = server.monitor("Listening for websocket clients on wss://");
    format!("wss://localhost:{}", at.port())
}

#[tokio::test]
async fn enabling_tls() {
    let desk = Desk::new();
    let simplest = "tls: {\n  cert_file: \"./server-cert.pem\"\n  key_file: \"./server-key.pem\"\n}\n";
    let limited = simplest.replace('}', "  connection_rate_limit: 1000\n}");
    for program in programs() {
        let flags = ["--tls", "--tlscert=./server-cert.pem", "--tlskey=./server-key.pem"];
        for (config, flags) in [(simplest, &[][..]), ("", &flags), (&limited, &[])] {
            let server = desk.start(&program, config, flags);
            assert!(works(desk.knowing(), &tls(&server)).await, "{} {config}", program.display());
            assert!(!works(ConnectOptions::new(), &tls(&server)).await, "{} {config}", program.display());
            server.wait_for_log("[INF] TLS required for client connections");
        }
        // Too low a value: clients are to fail, and do unless they are very quick.
        let hasty = simplest
            .replace('}', "  # clients will fail to connect (value is too low)\n  timeout: 0.0001\n}");
        let server = desk.start(&program, &hasty, &[]);
        let (mut socket, _) = greeted(&server);
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
        server.wait_for_close("TLS Handshake Failure");
    }
}

#[tokio::test]
async fn tls_first() {
    let desk = Desk::new();
    let files = "tls: {\n  cert_file: \"./server-cert.pem\"\n  key_file: \"./server-key.pem\"\n";
    for program in programs() {
        let server = desk.start(&program, &format!("{files}  handshake_first: true\n}}"), &[]);
        assert!(works(desk.knowing().tls_first(), &tls(&server)).await, "{}", program.display());
        for first in ["auto", "\"300ms\""] {
            let server = desk.start(&program, &format!("{files}\n    handshake_first: {first}\n}}"), &[]);
            assert!(works(desk.knowing().tls_first(), &tls(&server)).await, "{} {first}", program.display());
            assert!(works(desk.knowing(), &tls(&server)).await, "{} {first}", program.display());
        }
    }
}

#[tokio::test]
async fn behind_a_proxy_that_ends_tls() {
    let desk = Desk::new();
    for program in programs() {
        let server = desk.start(&program, "tls {}\nallow_non_tls: true\n", &[]);
        let (_, info) = greeted(&server);
        assert!(info.contains("\"tls_available\":true") && !info.contains("\"tls_required\":true"), "{info}");
        assert!(works(ConnectOptions::new(), &server.url()).await, "{}", program.display());
    }
}

#[tokio::test]
async fn clients_with_certificates() {
    let desk = Desk::new();
    let block = |verify: &str| {
        let files = "  cert_file: \"server-cert.pem\"\n  key_file:  \"server-key.pem\"\n  ca_file:   \"rootCA.pem\"\n";
        format!("tls {{\n{files}  {verify}\n}}\n")
    };
    let user = |name: &str| format!("authorization {{\n  users = [\n    {{user: \"{name}\"}}\n  ]\n}}\n");
    let distinguished = "OU=testuser@MacBook-Pro.local (Test User),O=mkcert development certificate";
    let map = block("verify_and_map: true");
    let by_flags =
        ["--tlsverify", "--tlscert=server-cert.pem", "--tlskey=server-key.pem", "--tlscacert=rootCA.pem"];
    for program in programs() {
        for (config, flags) in [
            (block("verify:    true"), &[][..]),
            (String::new(), &by_flags),
            (format!("{map}{}", user("email@localhost")), &[]),
            (format!("{map}{}", user(distinguished)), &[]),
        ] {
            let server = desk.start(&program, &config, flags);
            assert!(works(desk.shown(), &tls(&server)).await, "{} {config}", program.display());
            assert!(!works(desk.knowing(), &tls(&server)).await, "{} {config}", program.display());
        }
        let server = desk.start(&program, &format!("{map}{}", user("somebody else")), &[]);
        assert!(!works(desk.shown(), &tls(&server)).await, "{}", program.display());
    }
}

#[test]
fn monitoring_with_the_same_certificate() {
    let desk = Desk::new();
    let flags = ["--tls", "--tlscert=server-cert.pem", "--tlskey=server-key.pem", "-ms", "-1"];
    for program in programs() {
        let setup = Setup::default().program(&program).flags(&flags).folder(desk.lab.dir.path()).secure();
        let server = setup.start();
        let at = server.monitor("Starting https monitor on ");
        let socket = std::net::TcpStream::connect(at).expect("monitoring listens");
        let mut page = desk.lab.shake(socket, None);
        page.send("GET /varz HTTP/1.0\r\n\r\n");
        let answer = String::from_utf8_lossy(&page.until_pong_or_end()).into_owned();
        assert!(answer.starts_with("HTTP/1.0 200 OK") && answer.contains("\"tls_required\""), "{answer}");
        drop(dial(&server));
    }
}

#[tokio::test]
async fn websocket_blocks() {
    let desk = Desk::new();
    let files =
        "    tls {\n      cert_file: \"/path/to/cert.pem\"\n      key_file: \"/path/to/key.pem\"\n    }\n";
    let acme = "websocket {\n  listen: 0.0.0.0:443\n  tls {\n    cert_file: \"/etc/nats/certs/nats.acme.example.pem\"\n    \
                key_file:  \"/etc/nats/certs/nats.acme.example-key.pem\"\n  }\n  allowed_origins [\n    \
                \"https://ops.acme.example\"\n  ]\n}\n";
    // With the commas that are missing there: without, neither server reads it.
    let users = "authorization {\n  users [\n    {user: foo, password: foopwd}\n    {user: bar, password: barpwd, \
                 allowed_connection_types: [\"WEBSOCKET\"]}\n    {user: both, password: p, \
                 allowed_connection_types: [\"STANDARD\", \"WEBSOCKET\"]}\n  ]\n}\n";
    // `jwt_cookie` wants an operator, whom its page names elsewhere.
    let all = "    same_origin: true\n    allowed_origins [\n        \"http://www.example.com\"\n        \
               \"https://www.other-example.com\"\n    ]\n    compression: true\n    handshake_timeout: \"2s\"\n";
    let own = "    authorization {\n        username: \"my_user_name\"\n        password: \"my_password\"\n        \
               timeout: 2.0\n    }\n";
    let token = "    authorization {\n        token: \"my_token\"\n    }\n";
    let nobody = "    no_auth_user: \"my_username_for_apps_not_providing_credentials\"\n";
    let app =
        "authorization { users [ {user: my_username_for_apps_not_providing_credentials, password: x} ] }\n";
    let named =
        |user: &str, password: &str| desk.knowing().user_and_password(user.to_owned(), password.to_owned());
    for program in programs() {
        let block = |more: &str, around: &str| {
            let host = "    host: \"127.0.0.1\"\n";
            desk.start(
                &program,
                &format!("websocket {{\n{host}    port: 443\n{files}{more}}}\n{around}"),
                &[],
            )
        };
        let server = block("", "");
        assert!(works(desk.knowing(), &wss(&server)).await, "{}", program.display());
        assert!(works(desk.knowing(), &wss(&block(all, ""))).await, "{}", program.display());
        assert!(works(desk.knowing(), &wss(&block(nobody, app))).await, "{}", program.display());
        let server = block(own, "");
        assert!(works(named("my_user_name", "my_password"), &wss(&server)).await, "{}", program.display());
        assert!(!works(desk.knowing(), &wss(&server)).await, "{}", program.display());
        let server = block(token, "");
        assert!(
            works(desk.knowing().token("my_token".to_owned()), &wss(&server)).await,
            "{}",
            program.display()
        );
        assert!(!works(desk.knowing().token("your_token".to_owned()), &wss(&server)).await);
        let server = block("", users);
        for (user, password, over_tcp) in
            [("foo", "foopwd", true), ("bar", "barpwd", false), ("both", "p", true)]
        {
            assert!(works(named(user, password), &wss(&server)).await, "{} {user}", program.display());
            assert_eq!(works(named(user, password), &server.url()).await, over_tcp, "{user}");
        }
        let server = desk.start(&program, acme, &[]);
        assert!(works(desk.knowing(), &wss(&server)).await, "{}", program.display());
        let server = desk.start(&program, "websocket \n{\n     port: 8080\n     no_tls: true\n}\n", &[]);
        let port = server.monitor("Listening for websocket clients on ws://").port();
        assert!(
            works(ConnectOptions::new(), &format!("ws://127.0.0.1:{port}")).await,
            "{}",
            program.display()
        );
    }
}

#[tokio::test]
async fn a_proxy_says_who_comes() {
    let desk = Desk::new();
    for program in programs() {
        let server = desk.start(&program, "proxy_protocol: true\n", &[]);
        assert!(works(ConnectOptions::new(), &server.url()).await, "{}", program.display());
    }
}
