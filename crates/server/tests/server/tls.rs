//! Clients and monitoring over TLS, with the official client and with raw sockets.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use async_nats::ConnectOptions;
use futures_util::StreamExt as _;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::client::settle;
use crate::logging::programs;
use crate::process::{Server, Setup};
use crate::raw::{Raw, without_pings};
use crate::{PATIENCE, soon};

/// An authority, and certificates that it has signed.
pub(crate) struct Lab {
    pub(crate) dir: TempDir,
    ca: Issuer<'static, KeyPair>,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("what a test needs");
        let mut params = CertificateParams::new(Vec::new()).expect("what a test needs");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("what a test needs");
        fs::write(dir.path().join("ca.pem"), params.self_signed(&key).expect("what a test needs").pem())
            .expect("what a test needs");
        let lab = Self { dir, ca: Issuer::new(params, key) };
        lab.sign("server");
        lab
    }

    /// Writes `NAME.pem` and `NAME.key`; returns what pins the key.
    pub(crate) fn sign(&self, name: &str) -> String {
        let params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])
            .expect("what a test needs");
        self.sign_as(name, &params)
    }

    /// Writes `NAME.pem` and `NAME.key` for a certificate with these parameters; returns what pins
    /// the key.
    pub(crate) fn sign_as(&self, name: &str, params: &CertificateParams) -> String {
        let key = KeyPair::generate().expect("what a test needs");
        let cert = params.signed_by(&key, &self.ca).expect("what a test needs");
        fs::write(self.dir.path().join(format!("{name}.pem")), cert.pem()).expect("what a test needs");
        fs::write(self.dir.path().join(format!("{name}.key")), key.serialize_pem())
            .expect("what a test needs");
        use rcgen::PublicKeyData as _;
        Sha256::digest(key.subject_public_key_info()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// One of its files.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The configuration text of a server with this certificate and `more` in its block.
    pub(crate) fn block(&self, more: &str) -> String {
        let dir = self.dir.path().display();
        format!(
            "tls {{ cert_file: \"{dir}/server.pem\", key_file: \"{dir}/server.key\", {} }}\n",
            more.replace('@', &format!("{dir}/"))
        )
    }

    pub(crate) fn server(&self, more: &str) -> Server {
        Server::with_config(&self.block(more))
    }

    fn options(&self) -> ConnectOptions {
        ConnectOptions::new().add_root_certificates(self.dir.path().join("ca.pem")).require_tls(true)
    }

    pub(crate) fn config(&self, shown: Option<&str>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(self.dir.path().join("ca.pem")).expect("what a test needs"))
            .expect("what a test needs");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.expect("what a test needs").with_root_certificates(roots);
        Arc::new(match shown {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let file = |end: &str| self.dir.path().join(format!("{name}.{end}"));
                let cert = CertificateDer::from_pem_file(file("pem")).expect("what a test needs");
                let key = PrivateKeyDer::from_pem_file(file("key")).expect("what a test needs");
                builder.with_client_auth_cert(vec![cert], key).expect("what a test needs")
            }
        })
    }

    /// Parameters of TLS for somebody who shows the certificate of that name.
    pub(crate) fn serves(&self, name: &str) -> Arc<ServerConfig> {
        let file = |end: &str| self.dir.path().join(format!("{name}.{end}"));
        let cert = CertificateDer::from_pem_file(file("pem")).expect("what a test needs");
        let key = PrivateKeyDer::from_pem_file(file("key")).expect("what a test needs");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.expect("what a test needs").with_no_client_auth();
        Arc::new(builder.with_single_cert(vec![cert], key).expect("what a test needs"))
    }

    /// A client that has had its INFO and begins the handshake.
    pub(crate) fn secure(&self, server: &Server, shown: Option<&str>) -> Secure {
        let (socket, info) = greeted(server);
        assert!(info.starts_with("INFO "), "{info}");
        self.shake(socket, shown)
    }

    pub(crate) fn shake(&self, socket: TcpStream, shown: Option<&str>) -> Secure {
        let name = ServerName::try_from("localhost").expect("what a test needs");
        let connection = ClientConnection::new(self.config(shown), name).expect("what a test needs");
        Secure(StreamOwned::new(connection, socket))
    }
}

pub(crate) fn dial(server: &Server) -> TcpStream {
    let socket = TcpStream::connect(server.address()).expect("what a test needs");
    socket.set_read_timeout(Some(PATIENCE)).expect("what a test needs");
    socket.set_write_timeout(Some(PATIENCE)).expect("what a test needs");
    socket
}

/// A socket, and the INFO that was read from it, without a byte more.
pub(crate) fn greeted(server: &Server) -> (TcpStream, String) {
    let mut socket = dial(server);
    let mut info = Vec::new();
    let mut byte = [0];
    while !info.ends_with(b"\r\n") {
        assert_eq!(socket.read(&mut byte).expect("what a test needs"), 1, "no INFO");
        info.push(byte[0]);
    }
    (socket, String::from_utf8(info).expect("what a test needs"))
}

/// A raw client over TLS.
pub(crate) struct Secure(pub(crate) StreamOwned<ClientConnection, TcpStream>);

/// Whether there is a PONG in what came last, so many bytes; behind it may stand what came
/// meanwhile.
fn has_pong(read: &[u8], came: usize) -> bool {
    const PONG: &[u8] = b"PONG\r\n";
    let from = read.len().saturating_sub(came + PONG.len() - 1);
    read[from..].windows(PONG.len()).any(|bytes| bytes == PONG)
}

impl Secure {
    pub(crate) fn into_stream(self) -> StreamOwned<ClientConnection, TcpStream> {
        self.0
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).expect("what a test needs");
        self.0.flush().expect("what a test needs");
    }

    /// Everything up to the answer to a PING, but for the server's own PINGs, which come when some
    /// time has passed; an error when the server ends the connection.
    pub(crate) fn barrier(&mut self) -> std::io::Result<Vec<u8>> {
        self.0.write_all(b"PING\r\n")?;
        self.0.flush()?;
        let mut read = Vec::new();
        let mut chunk = vec![0; 64 * 1024];
        let mut came = 0;
        while !has_pong(&read, came) {
            came = self.0.read(&mut chunk)?;
            if came == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            read.extend_from_slice(&chunk[..came]);
        }
        Ok(without_pings(&read))
    }

    /// Everything up to the next PONG, or to the end.
    pub(crate) fn until_pong_or_end(&mut self) -> Vec<u8> {
        let (mut read, mut chunk) = (Vec::new(), vec![0; 4096]);
        let mut came = 0;
        while !has_pong(&read, came) {
            came = self.0.read(&mut chunk).unwrap_or_default();
            if came == 0 {
                break;
            }
            read.extend_from_slice(&chunk[..came]);
        }
        read
    }

    pub(crate) fn serves(mut self) -> bool {
        self.barrier().is_ok()
    }
}

#[tokio::test]
async fn the_official_client_notices_nothing() {
    let lab = Lab::new();
    let server = lab.server("");
    let url = format!("tls://localhost:{}", server.address().port());
    let mut clients = Vec::new();
    for _ in 0..6 {
        clients.push(soon("connecting", lab.options().connect(&url)).await.expect("welcome"));
    }
    // Six clients on all shards: each hears everybody, in order, small and large.
    let mut subs = Vec::new();
    for client in &clients {
        subs.push(client.subscribe("all.>").await.unwrap());
        settle(client).await;
    }
    let large = vec![b'x'; 900_000];
    for (number, client) in clients.iter().enumerate() {
        for count in 0..200 {
            let payload = if count == 100 { large.clone() } else { format!("{count}").into_bytes() };
            client.publish(format!("all.{number}"), payload.into()).await.unwrap();
        }
        client.flush().await.unwrap();
    }
    for sub in &mut subs {
        let mut next = [0; 6];
        for _ in 0..6 * 200 {
            let message = soon("a message", sub.next()).await.expect("alive");
            let from: usize = message.subject.strip_prefix("all.").unwrap().parse().unwrap();
            match next[from] {
                100 => assert_eq!(message.payload.len(), large.len()),
                count => assert_eq!(message.payload, format!("{count}")),
            }
            next[from] += 1;
        }
    }
    let mut service = clients[0].subscribe("ask").await.unwrap();
    settle(&clients[0]).await;
    let answering = clients[0].clone();
    tokio::spawn(async move {
        while let Some(request) = service.next().await {
            answering.publish(request.reply.unwrap(), request.payload).await.unwrap();
        }
    });
    let answer = soon("an answer", clients[1].request("ask", "why".into())).await.unwrap();
    assert_eq!(answer.payload, "why");
    let page = server.page("/connz");
    assert_eq!(page["connections"][0]["tls_version"], "1.3");
    assert_eq!(page["connections"][0]["tls_cipher_suite"], "TLS_AES_128_GCM_SHA256");
    let varz = server.page("/varz");
    assert_eq!((&varz["tls_required"], &varz["tls_timeout"]), (&true.into(), &2.into()));
    assert!(varz["tls_cert_not_after"].is_string(), "{varz}");
}

#[tokio::test]
async fn the_official_client_comes_in_by_every_mode() {
    let lab = Lab::new();
    let mut params = CertificateParams::new(Vec::new()).expect("what a test needs");
    params.subject_alt_names.push(rcgen::SanType::Rfc822Name("app@x".try_into().expect("ASCII")));
    lab.sign_as("app", &params);
    let file = |name: &str| lab.dir.path().join(name);
    let shown = || lab.options().add_client_certificate(file("app.pem"), file("app.key"));
    let anonymous = || ConnectOptions::new().add_root_certificates(file("ca.pem"));
    let users = "authorization { users: [ { user: \"app@x\", permissions: { publish: [\"a\"], subscribe: [\"a\"] } } ] }\n";
    let mutual = "verify: true, ca_file: \"@ca.pem\"";
    let mapped = "verify_and_map: true, ca_file: \"@ca.pem\"";
    let optional = "allow_non_tls: true\n";
    let mutual_first = format!("{mutual}, handshake_first: true");
    for (name, more, block, options) in [
        ("after INFO", "", "", lab.options()),
        ("first", "", "handshake_first: true", lab.options().tls_first()),
        ("first by choice", "", "handshake_first: auto", lab.options().tls_first()),
        ("after INFO by choice", "", "handshake_first: auto", lab.options()),
        ("optional, with", optional, "", lab.options()),
        ("optional, without", optional, "", anonymous()),
        ("mutual", "", mutual, shown()),
        ("mutual and first", "", mutual_first.as_str(), shown().tls_first()),
        ("mapped", users, mapped, shown()),
        ("1.3", "", "min_version: \"1.3\"", lab.options()),
        ("behind nobody", "proxy_protocol: true\n", "", lab.options()),
    ] {
        let server = Server::with_config(&format!("{more}{}", lab.block(block)));
        let scheme = if name == "optional, without" { "nats" } else { "tls" };
        let url = format!("{scheme}://localhost:{}", server.address().port());
        let client = soon(name, options.connect(&url)).await.expect(name);
        let mut sub = client.subscribe("a").await.expect(name);
        client.publish("a", "hi".into()).await.expect(name);
        assert_eq!(soon(name, sub.next()).await.expect(name).payload, "hi");
        let page = server.page("/connz?auth=1");
        let connection = &page["connections"][0];
        assert_eq!(connection["tls_version"].is_string(), scheme == "tls", "{name}");
        assert_eq!(connection["authorized_user"] == "app@x", name == "mapped", "{connection}");
    }
    // And it hears why it may not.
    let server = lab.server(mutual);
    let url = format!("tls://localhost:{}", server.address().port());
    assert!(soon("a refusal", lab.options().connect(&url)).await.is_err());
}

#[test]
fn who_does_without_is_sent_away() {
    let lab = Lab::new();
    let server = lab.server("");
    let (mut socket, info) = greeted(&server);
    assert!(info.contains("\"tls_required\":true"), "{info}");
    socket.write_all(b"CONNECT {}\r\nPING\r\n").unwrap();
    let mut rest = Vec::new();
    let _ = socket.read_to_end(&mut rest);
    assert_eq!(rest, b"", "{:?}", String::from_utf8_lossy(&rest));
    server.wait_for_close("TLS Handshake Failure");
    assert!(lab.secure(&server, None).serves());
}

#[test]
fn a_reset_is_said_in_gos_words() {
    let lab = Lab::new();
    let server = lab.server("");
    let mut socket = TcpStream::connect(server.address()).unwrap();
    // With INFO unread, the end of the connection is a reset.
    assert_eq!(socket.peek(&mut [0]).unwrap(), 1);
    socket.write_all(b"\x16\x03\x01").unwrap();
    let address = socket.local_addr().unwrap();
    drop(socket);
    let line = server.wait_for_log("TLS handshake error");
    let reason = format!("->{address}: read: connection reset by peer");
    assert!(line.contains("TLS handshake error: read tcp ") && line.ends_with(&reason), "{line}");
}

#[test]
fn who_never_begins_is_given_up() {
    let lab = Lab::new();
    let server = lab.server("timeout: \"100ms\"");
    for sent in [&b""[..], b"\x16\x03\x01"] {
        let (mut socket, _) = greeted(&server);
        socket.write_all(sent).unwrap();
        let mut rest = Vec::new();
        socket.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"");
    }
    server.wait_for_close("TLS Handshake Failure");
    assert!(!server.log().contains("[ERR]"), "{}", server.log());
    assert!(lab.secure(&server, None).serves());
    crate::eventually("everybody has left", || server.connections() == 0);
}

#[test]
fn with_verify_only_signed_certificates_come_in() {
    let (lab, stranger) = (Lab::new(), Lab::new());
    lab.sign("client");
    stranger.sign("client");
    fs::copy(stranger.dir.path().join("client.pem"), lab.dir.path().join("other.pem")).unwrap();
    fs::copy(stranger.dir.path().join("client.key"), lab.dir.path().join("other.key")).unwrap();
    let server = lab.server("verify: true, ca_file: \"@ca.pem\"");
    assert!(greeted(&server).1.contains("\"tls_required\":true,\"tls_verify\":true"));
    assert!(lab.secure(&server, Some("client")).serves());
    assert!(!lab.secure(&server, None).serves());
    server.wait_for_log("TLS handshake error: tls: client didn't provide a certificate");
    // An authority of the same name with another key is nobody that we know.
    let refused = lab.secure(&server, Some("other")).0.read(&mut [0]).unwrap_err();
    let alert = refused.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    let expected = rustls::Error::AlertReceived(rustls::AlertDescription::UnknownCA);
    assert_eq!(alert, Some(&expected), "{refused}");
    server.wait_for_log(
        "TLS handshake error: tls: failed to verify certificate: x509: certificate signed by unknown authority",
    );
    assert_eq!(server.page("/varz")["tls_verify"], true);
}

#[test]
fn an_authority_that_only_bears_a_known_name_is_unknown() {
    let (lab, other) = (Lab::new(), Lab::new());
    other.sign("client");
    for end in ["pem", "key"] {
        fs::copy(other.file(&format!("client.{end}")), lab.file(&format!("stranger.{end}"))).unwrap();
    }
    for program in programs() {
        let block = lab.block("verify: true, ca_file: \"@ca.pem\"");
        let server = Setup::default().program(&program).config(&block).start();
        let told = lab.secure(&server, Some("stranger")).barrier().unwrap_err().to_string();
        assert!(told.contains("UnknownCA"), "{} {told}", program.display());
        server.wait_for_log("certificate signed by unknown authority");
    }
}

#[test]
fn pinned_keys_are_the_only_ones() {
    let lab = Lab::new();
    let pin = lab.sign("client");
    lab.sign("other");
    let server = lab.server(&format!("verify: true, ca_file: \"@ca.pem\", pinned_certs: [\"{pin}\"]"));
    let mut client = lab.secure(&server, Some("client"));
    client.barrier().unwrap();
    let shown = server.page("/connz?auth=1")["connections"][0]["tls_peer_certs"][0].clone();
    assert_eq!(shown["spki_sha256"], pin.as_str(), "{shown}");
    assert!(!lab.secure(&server, Some("other")).serves());
    server.wait_for_log("TLS handshake error: certificate not pinned");
}

#[test]
fn where_tls_is_optional_both_kinds_are_served() {
    let lab = Lab::new();
    let server = Server::with_config(&format!("allow_non_tls: true\n{}", lab.block("timeout: \"200ms\"")));
    server.wait_for_log("TLS available for client connections");
    let (_, info) = greeted(&server);
    assert!(info.contains("\"tls_available\":true") && !info.contains("tls_required"), "{info}");
    let mut secure = lab.secure(&server, None);
    secure.send("CONNECT {\"verbose\":false}\r\nSUB a 1\r\n");
    secure.barrier().unwrap();
    let mut plain = Raw::connect(&server);
    plain.send("PUB a 2\r\nhi\r\n");
    plain.barrier();
    assert_eq!(secure.barrier().unwrap(), b"MSG a 1 2\r\nhi\r\nPONG\r\n");
    // Who says nothing for longer than a handshake may take is plain.
    let (mut late, _) = greeted(&server);
    let start = std::time::Instant::now();
    crate::eventually("the time for a handshake is over", || start.elapsed().as_millis() > 400);
    late.write_all(b"PING\r\n").unwrap();
    let mut answer = [0; 6];
    late.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"PONG\r\n");
}

#[test]
fn the_handshake_may_come_first() {
    let lab = Lab::new();
    let first = |server: &Server| {
        let mut client = lab.shake(dial(server), None);
        client.send("CONNECT {\"verbose\":false}\r\n");
        String::from_utf8(client.barrier().unwrap()).unwrap()
    };
    let server = lab.server("handshake_first: true");
    server.wait_for_log("Clients that are not using \"TLS Handshake First\" option will fail to connect");
    let said = first(&server);
    assert!(said.starts_with("INFO {") && said.contains("\"tls_required\":true"), "{said}");
    let mut held = lab.shake(dial(&server), None);
    held.barrier().unwrap();
    assert_eq!(server.page("/connz")["connections"][0]["tls_first"], true);
    let either = lab.server("handshake_first: \"100ms\"");
    assert!(first(&either).starts_with("INFO {"));
    assert!(lab.secure(&either, None).serves());
}

#[test]
fn a_secure_receiver_that_takes_nothing_is_cut_off_and_one_that_pauses_loses_nothing() {
    let lab = Lab::new();
    let config =
        format!("write_deadline: \"1s\"\nmax_pending: 500MB\nallow_non_tls: true\n{}", lab.block(""));
    let server = Server::with_config(&config);
    let batch = format!("PUB flood 1000\r\n{}\r\n", "x".repeat(1000)).repeat(1000);
    let mut publisher = Raw::connect(&server);
    let mut late = lab.secure(&server, None);
    late.send("CONNECT {\"verbose\":false}\r\nSUB flood 1\r\n");
    late.barrier().unwrap();
    for _ in 0..3 {
        publisher.send(&batch);
        publisher.barrier();
    }
    let read = late.barrier().unwrap();
    assert_eq!(read.len(), 3000 * ("MSG flood 1 1000\r\n".len() + 1002) + 6);
    drop(late);
    let mut stuck = lab.secure(&server, None);
    stuck.send("CONNECT {\"verbose\":false}\r\nSUB flood 1\r\n");
    stuck.barrier().unwrap();
    for _ in 0..40 {
        publisher.send(&batch);
        publisher.barrier();
    }
    server.wait_for_close("Slow Consumer (Write Deadline)");
    publisher.barrier();
}

#[test]
fn large_messages_and_many_small_ones_arrive_in_order() {
    let lab = Lab::new();
    let server = lab.server("");
    let mut receivers: Vec<_> = (0..4).map(|_| lab.secure(&server, None)).collect();
    for receiver in &mut receivers {
        receiver.send("CONNECT {\"verbose\":false}\r\nSUB data 1\r\n");
        receiver.barrier().unwrap();
    }
    let mut publisher = lab.secure(&server, None);
    publisher.send("CONNECT {\"verbose\":false}\r\n");
    let mut expected = Vec::new();
    for number in 0..300 {
        let size = if number % 50 == 0 { 700_000 } else { number };
        let payload = format!("{number}{}", "x".repeat(size));
        let size = payload.len();
        publisher.send(&format!("PUB data {size}\r\n{payload}\r\n"));
        expected.extend_from_slice(format!("MSG data 1 {size}\r\n{payload}\r\n").as_bytes());
    }
    publisher.barrier().unwrap();
    expected.extend_from_slice(b"PONG\r\n");
    for receiver in &mut receivers {
        assert!(receiver.barrier().unwrap() == expected);
    }
}

#[test]
fn monitoring_over_https_asks_for_no_certificate() {
    let lab = Lab::new();
    let block = lab.block("verify: true, ca_file: \"@ca.pem\"");
    let server = Setup::default().config(&format!("https: \"127.0.0.1:-1\"\n{block}")).secure().start();
    let address = server.monitor("Starting https monitor on ");
    let socket = TcpStream::connect(address).unwrap();
    let mut stream = lab.shake(socket, None).0;
    stream.write_all(b"GET /varz HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\"https_port\": -1,") && answer.contains("\"http_port\": 0,"), "{answer}");
}

#[test]
fn a_certificate_that_is_missing_stops_the_start() {
    let lab = Lab::new();
    fs::remove_file(lab.dir.path().join("server.key")).unwrap();
    let path = lab.dir.path().join("server.conf");
    fs::write(&path, format!("port: -1\n{}", lab.block(""))).unwrap();
    let output =
        std::process::Command::new(crate::process::PROGRAM).arg("-t").arg("-c").arg(&path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let expected = format!(
        "{}:2:1: error parsing X509 certificate/key pair: open {}/server.key: no such file or directory",
        path.display(),
        lab.dir.path().display()
    );
    assert!(said.contains(&expected), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_reload_changes_what_new_connections_are_offered() {
    let (old, new) = (Lab::new(), Lab::new());
    let server = old.server("");
    let mut kept = old.secure(&server, None);
    kept.barrier().unwrap();
    let lines = server.reload(&new.block("timeout: 5"));
    for text in ["Reloaded: tls = enabled", "Reloaded: tls timeout = 5"] {
        assert!(lines.iter().any(|line| line.ends_with(text)), "{text}: {lines:#?}");
    }
    assert!(!old.secure(&server, None).serves());
    assert!(new.secure(&server, None).serves());
    assert_eq!(server.page("/varz")["tls_timeout"], 5);
    kept.barrier().expect("what is open stays");
    // Without a block, clients come in the plain.
    server.reload("");
    assert!(!greeted(&server).1.contains("tls_required"));
    Raw::connect(&server).barrier();
    kept.barrier().expect("what is open stays");
}
