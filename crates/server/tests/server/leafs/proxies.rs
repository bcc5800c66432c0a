//! Leaf nodes that reach their hub through a proxy of HTTP, with nats-server on either side.

use super::{Site, dialling, exchange};
use crate::eventually;
use crate::routes::{MIXES, Ours, Reference, free_port};
use crate::tls::Lab;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use tokio_rustls::TlsAcceptor;

/// Proxy that lets through whoever has the credentials, if any are wanted. It ends with the test.
struct Proxy {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn start(credentials: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let seen = Arc::clone(&seen);
                thread::spawn(move || serve(stream, credentials, &seen));
            }
        });
        Self { port, requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("nobody panics with it").clone()
    }

    fn remote(&self, more: &str) -> String {
        format!("proxy {{ url: \"http://127.0.0.1:{}\"\n{more} }}", self.port)
    }
}

/// Port of TLS in front of a proxy, with the certificate of the lab. It ends with the test.
fn secure(proxy: &Proxy, lab: &Lab) -> u16 {
    let cert = CertificateDer::from_pem_file(lab.file("server.pem")).expect("the lab signs");
    let key = PrivateKeyDer::from_pem_file(lab.file("server.key")).expect("the lab signs");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the library has some")
        .with_no_client_auth()
        .with_single_cert(vec![cert], key)
        .expect("they belong together");
    let (acceptor, plain) = (TlsAcceptor::from(Arc::new(config)), proxy.port);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    listener.set_nonblocking(true).expect("a mode is set");
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("it is a listener");
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut near = acceptor.accept(stream).await.ok()?;
                    let mut far = tokio::net::TcpStream::connect(("127.0.0.1", plain)).await.ok()?;
                    tokio::io::copy_bidirectional(&mut near, &mut far).await.ok()
                });
            }
        });
    });
    port
}

/// A proxy that is reached by TLS; inside of the tunnel there may be TLS, too, and WebSocket.
#[test]
fn a_proxy_may_have_tls() {
    let lab = Lab::new();
    let (shown, trusting) = (lab.block(""), lab.block("ca_file: \"@ca.pem\""));
    let ca = lab.file("ca.pem");
    for kinds in MIXES {
        for (scheme, at_hub, remote) in
            [("nats", "", ""), ("nats", &shown[..], &trusting[..]), ("ws", "", "")]
        {
            let proxy = Proxy::start("dTpwdw==");
            let front = secure(&proxy, &lab);
            let web = free_port();
            let more = format!("websocket {{ listen: \"127.0.0.1:{web}\", no_tls: true }}");
            let Some(hub) = Site::hub(kinds[0], "HUB", at_hub, &more) else { continue };
            let port = if scheme == "ws" { web } else { hub.port };
            let tls = format!("tls {{ ca_file: \"{}\" }}", ca.display());
            let block = format!(
                "proxy {{ url: \"https://localhost:{front}\", username: u, password: pw\n{tls} }}\n{remote}"
            );
            let url = format!("{scheme}://127.0.0.1:{port}");
            let Some(leaf) = dialling(kinds[1], &url, &block) else { continue };
            exchange([&hub, &leaf], &[10, 300_000]);
            assert!(proxy.requests()[0].starts_with(&format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n")));
            assert_eq!(leaf.links()[0]["port"], front, "{kinds:?}");
            // Both sides learn of the end of a link through a tunnel.
            drop(hub);
            leaf.linked(0);
        }
    }
}

/// Whether the proxy is known is the leaf node's business.
#[test]
fn a_proxy_of_another_authority_opens_no_tunnel() {
    let lab = Lab::new();
    for kind in [Ours, Reference] {
        let proxy = Proxy::start("");
        let front = secure(&proxy, &lab);
        let url = format!("nats://127.0.0.1:{}", free_port());
        let block = format!("proxy {{ url: \"https://localhost:{front}\" }}");
        let Some(leaf) = dialling(kind, &url, &block) else { continue };
        leaf.server.wait_for_log(
            "(attempt 1): proxy TLS handshake failed: tls: failed to verify certificate: x509: certificate \
             signed by unknown authority",
        );
        assert!(proxy.requests().is_empty(), "{kind:?}");
        let plain =
            format!("proxy {{ url: \"https://127.0.0.1:{}\", tls {{ insecure: true }} }}", proxy.port);
        let Some(leaf) = dialling(kind, &url, &plain) else { continue };
        leaf.server.wait_for_log("(attempt 1): proxy TLS handshake failed: ");
    }
}

fn serve(mut client: TcpStream, credentials: &str, seen: &Mutex<Vec<String>>) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    seen.lock().expect("nobody panics with it").push(head.clone());
    if !credentials.is_empty() && !head.contains(&format!("Proxy-Authorization: Basic {credentials}\r\n")) {
        return client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").ok();
    }
    let target: SocketAddr = head.split(' ').nth(1)?.parse().ok()?;
    let hub = TcpStream::connect(target).ok()?;
    client.write_all(b"HTTP/1.0 200 Connection established\r\nVia: test\r\n\r\n").ok()?;
    let (mut up, mut down) = (client.try_clone().ok()?, hub.try_clone().ok()?);
    let (mut to_client, mut to_hub) = (client, hub);
    thread::spawn(move || {
        let _ = std::io::copy(&mut up, &mut to_hub);
        let _ = to_hub.shutdown(Shutdown::Both);
    });
    let _ = std::io::copy(&mut down, &mut to_client);
    to_client.shutdown(Shutdown::Both).ok()
}

#[test]
fn hubs_are_reached_through_a_proxy() {
    let lab = Lab::new();
    let (shown, trusting) = (lab.block(""), lab.block("ca_file: \"@ca.pem\""));
    for kinds in MIXES {
        for (scheme, at_hub, remote) in
            [("nats", "", ""), ("nats", &shown[..], &trusting[..]), ("ws", "", "ws_compression: true")]
        {
            let proxy = Proxy::start("dTpwdw==");
            let web = free_port();
            let more =
                format!("websocket {{ listen: \"127.0.0.1:{web}\", no_tls: true, compression: true }}");
            let Some(hub) = Site::hub(kinds[0], "HUB", at_hub, &more) else { continue };
            let port = if scheme == "ws" { web } else { hub.port };
            let remote = format!("{}\n{remote}", proxy.remote("username: u, password: pw"));
            let Some(leaf) = dialling(kinds[1], &format!("{scheme}://127.0.0.1:{port}"), &remote) else {
                continue;
            };
            exchange([&hub, &leaf], &[300_000]);
            let expected = format!(
                "CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: Go-http-client/1.1\r\n\
                 Proxy-Authorization: Basic dTpwdw==\r\n\r\n"
            );
            assert_eq!(proxy.requests()[0], expected, "{kinds:?}");
            // The link's address is the proxy's.
            assert_eq!(leaf.links()[0]["port"], proxy.port, "{kinds:?}");
        }
    }
}

/// Behind a proxy the remote has to say how the hub is known.
#[test]
fn a_hub_with_tls_behind_a_proxy_needs_tls_in_the_remote() {
    let lab = Lab::new();
    for kinds in MIXES {
        let proxy = Proxy::start("");
        let Some(hub) = Site::hub(kinds[0], "HUB", &lab.block(""), "") else { continue };
        let url = format!("nats://127.0.0.1:{}", hub.port);
        let Some(leaf) = dialling(kinds[1], &url, &proxy.remote("")) else { continue };
        leaf.server.wait_for_log("TLS configuration mismatch: Hub requires TLS but leafnode remote is not");
        leaf.server.wait_for_log("Leafnode connection closed: TLS Handshake Failure");
        assert!(hub.links().is_empty(), "{kinds:?}");
    }
}

#[test]
fn a_proxy_that_opens_no_tunnel_is_in_the_log() {
    for kind in [Ours, Reference] {
        let port = free_port();
        let failed = |remote: &str, expected: &str| {
            let Some(leaf) = dialling(kind, &format!("nats://127.0.0.1:{port}"), remote) else { return };
            let what = format!("remote server \"127.0.0.1:{port}\" (attempt 1)");
            leaf.server.wait_for_log(&format!("Error trying to connect as leafnode to {what}: {expected}"));
        };
        let proxy = Proxy::start("dTpwdw==");
        let refused = "proxy CONNECT failed: 407 Proxy Authentication Required";
        failed(&proxy.remote(""), refused);
        failed(&proxy.remote("username: u, password: other"), refused);
        eventually("both have asked", || proxy.requests().len() >= 2);
        // Of a hub that is not there the proxy says nothing.
        failed(&Proxy::start("").remote(""), "failed to read proxy response: unexpected EOF");
        let nobody = free_port();
        failed(
            &format!("proxy {{ url: \"http://127.0.0.1:{nobody}\" }}"),
            &format!("failed to connect to proxy: dial tcp 127.0.0.1:{nobody}: connect: connection refused"),
        );
        let garbage = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let at = garbage.local_addr().expect("it is bound").port();
        thread::spawn(move || {
            for mut stream in garbage.incoming().map_while(Result::ok) {
                let mut request = [0; 512];
                let _ = stream.read(&mut request);
                let _ = stream.write_all(b"garbage\r\n\r\n");
            }
        });
        failed(
            &format!("proxy {{ url: \"http://127.0.0.1:{at}\" }}"),
            "failed to read proxy response: malformed HTTP response \"garbage\"",
        );
    }
}
