//! OCSP in the running program, on ours and on the reference: proofs that it shows, and clients
//! that it asks about.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex};

use myelin_stdx::base64;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::version::{TLS12, TLS13};
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme,
    StreamOwned, SupportedProtocolVersion,
};
use tempfile::TempDir;

use crate::logging::programs;
use crate::process::{Server, Setup};
use crate::responder::{Responder, Says, Signed};
use crate::tls::{Secure, greeted};

/// An authority with a responder, and a server's certificate from it.
pub(crate) struct Lab {
    pub(crate) responder: Responder,
    dir: TempDir,
}

impl Lab {
    pub(crate) fn new(must_staple: bool) -> Self {
        let responder = Responder::start("authority");
        let dir = tempfile::tempdir().expect("what a test needs");
        fs::write(dir.path().join("ca.pem"), responder.authority.cert.pem()).expect("what a test needs");
        let lab = Self { responder, dir };
        lab.renew(1, must_staple);
        lab
    }

    /// Writes another certificate of the server's.
    fn renew(&self, serial: u64, must_staple: bool) {
        let signed =
            self.responder.authority.sign("localhost", serial, Some(&self.responder.url), must_staple);
        fs::write(self.dir.path().join("server.pem"), signed.cert.pem()).expect("what a test needs");
        fs::write(self.dir.path().join("server.key"), signed.key.serialize_pem()).expect("what a test needs");
    }

    /// Puts its authority behind the certificate.
    fn extend(&self) {
        let path = self.dir.path().join("server.pem");
        let chain = fs::read_to_string(&path).expect("a file") + &self.responder.authority.cert.pem();
        fs::write(path, chain).expect("what a test needs");
    }

    pub(crate) fn config(&self, tls: &str, more: &str) -> String {
        let dir = self.dir.path().display();
        let more = more.replace('@', &format!("{dir}/"));
        format!(
            "tls {{ cert_file: \"{dir}/server.pem\", key_file: \"{dir}/server.key\", ca_file: \"{dir}/ca.pem\", \
             timeout: 20, {tls} }}\n{more}"
        )
    }

    fn start(&self, program: &Path, tls: &str, more: &str) -> Server {
        Setup::default().program(program).config(&self.config(tls, more)).flags(&["-D"]).start()
    }

    pub(crate) fn client(&self, serial: u64) -> Signed {
        self.responder.authority.sign("client", serial, Some(&self.responder.url), false)
    }
}

/// Takes any certificate, and keeps the proof that came with it.
#[derive(Debug)]
struct Curious(Arc<Mutex<Vec<u8>>>);

impl ServerCertVerifier for Curious {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        proof: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        proof.clone_into(&mut self.0.lock().expect("what a test needs"));
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

/// A client with this certificate, and the proof that it is shown.
pub(crate) fn connect(server: &Server, shown: Option<&Signed>) -> (Secure, Arc<Mutex<Vec<u8>>>) {
    let (socket, _): (TcpStream, _) = greeted(server);
    shake(socket, shown, &[&TLS13, &TLS12])
}

fn shake(
    socket: TcpStream,
    shown: Option<&Signed>,
    versions: &[&'static SupportedProtocolVersion],
) -> (Secure, Arc<Mutex<Vec<u8>>>) {
    let proof = Arc::<Mutex<Vec<u8>>>::default();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("what a test needs");
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(Curious(Arc::clone(&proof))));
    let config = match shown {
        None => builder.with_no_client_auth(),
        Some(Signed { cert, key }) => {
            let key = PrivateKeyDer::try_from(key.serialize_der()).expect("what a test needs");
            builder.with_client_auth_cert(vec![cert.der().clone()], key).expect("what a test needs")
        }
    };
    let name = ServerName::try_from("localhost").expect("what a test needs");
    let connection = ClientConnection::new(Arc::new(config), name).expect("what a test needs");
    (Secure(StreamOwned::new(connection, socket)), proof)
}

/// The proof that a client is shown.
fn proof(server: &Server) -> Vec<u8> {
    let (mut client, proof) = connect(server, None);
    client.barrier().expect("what a test needs");
    let proof = proof.lock().expect("what a test needs");
    proof.clone()
}

/// A server that dials the port for routes is shown a proof, too. The reference wants one of it in
/// turn, which TLS as a client does not send here.
#[test]
fn other_servers_are_shown_a_proof() {
    let lab = Lab::new(true);
    let block = lab.config("", "");
    let config = format!("server_name: S\ncluster {{ name: C, listen: \"127.0.0.1:-1\"\n{block} }}\n");
    for program in programs() {
        let server = Setup::default().program(&program).config(&config).start();
        server.wait_for_log("OCSP Stapling enabled for Router connections");
        let address = server.monitor("Listening for route connections on ");
        let socket = TcpStream::connect(address).expect("it listens");
        socket.set_read_timeout(Some(crate::PATIENCE)).expect("a time is set");
        let (mut peer, proof) = shake(socket, Some(&lab.client(7)), &[&TLS13]);
        let mut begin = [0; 5];
        let read = peer.0.read_exact(&mut begin);
        assert!(!proof.lock().expect("a proof").is_empty(), "{}", program.display());
        let is_ours = program == Path::new(crate::process::PROGRAM);
        assert_eq!(read.is_ok() && begin == *b"INFO ", is_ours, "{}: {read:?}", program.display());
    }
}

#[test]
fn proofs_are_fetched_shown_and_kept() {
    for program in programs() {
        let lab = Lab::new(false);
        // Nobody has asked for one.
        let server = lab.start(&program, "", "");
        assert_eq!((proof(&server), lab.responder.asked()), (Vec::new(), 0));
        drop(server);
        for (mode, must) in [("mode: always", false), ("mode: must", true), ("mode: auto", true)] {
            let lab = Lab::new(must);
            let more = format!("ocsp {{ {mode} }}\njetstream {{ store_dir: \"@store\" }}\n");
            let server = lab.start(&program, "", &more);
            server.wait_for_log("[INF] OCSP Stapling enabled for Client connections");
            let line = server.wait_for_log("Found OCSP status for Client certificate at");
            assert!(line.contains("server.pem': good, next update 20"), "{line}");
            let shown = proof(&server);
            assert!(!shown.is_empty(), "{} {mode}", program.display());
            let kept: Vec<_> = fs::read_dir(lab.dir.path().join("store/ocsp")).unwrap().flatten().collect();
            assert_eq!(kept.len(), 1, "{}", program.display());
            assert_eq!(fs::read(kept[0].path()).unwrap(), shown);
            assert_eq!((kept[0].file_name().len(), lab.responder.asked()), (64, 1));
            // The next server need not ask.
            drop(server);
            let server = lab.start(&program, "", &more);
            assert_eq!((proof(&server), lab.responder.asked()), (shown, 1));
        }
        let lab = Lab::new(true);
        let server = lab.start(&program, "", "ocsp: false");
        // The reference says so, too, but before it has a log.
        if program == Path::new(crate::process::PROGRAM) {
            server.wait_for_log("server.pem' has MustStaple but OCSP is disabled");
        }
        assert_eq!((proof(&server), lab.responder.asked()), (Vec::new(), 0));
        // Another responder than the certificate's.
        let other = Lab::new(false);
        let lab = Lab::new(false);
        let dir = lab.dir.path();
        fs::copy(other.dir.path().join("server.pem"), dir.join("server.pem")).unwrap();
        fs::copy(other.dir.path().join("server.key"), dir.join("server.key")).unwrap();
        fs::copy(other.dir.path().join("ca.pem"), dir.join("ca.pem")).unwrap();
        let server =
            lab.start(&program, "", &format!("ocsp {{ mode: always, url: \"{}\" }}", other.responder.url));
        assert!(!proof(&server).is_empty());
        assert_eq!((lab.responder.asked(), other.responder.asked()), (0, 1));
    }
}

#[test]
fn without_a_proof_there_is_no_start() {
    for program in programs() {
        let lab = Lab::new(true);
        for (says, mode, why) in [
            (Says::Revoked, "always", "found existing OCSP status for certificate at '@server.pem': revoked"),
            (Says::Revoked, "must", "found existing OCSP status for certificate at '@server.pem': revoked"),
            (
                Says::Nonsense,
                "auto",
                "bad OCSP status update for certificate at '@server.pem': exhausted ocsp servers: ",
            ),
            (
                Says::Forged,
                "auto",
                "bad OCSP status update for certificate at '@server.pem': exhausted ocsp servers: ",
            ),
            (Says::Outdated, "auto", "invalid ocsp NextUpdate, is past time: 20"),
        ] {
            lab.responder.say(1, says);
            let path = lab.dir.path().join("server.conf");
            fs::write(&path, lab.config("", &format!("port: -1\nocsp {{ mode: {mode} }}"))).unwrap();
            let output = std::process::Command::new(&program).arg("-c").arg(&path).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let why = why.replace('@', &format!("{}/", lab.dir.path().display()));
            assert!(said.contains(&why), "{} {mode} {why}: {said}", program.display());
            assert_eq!(output.status.code(), Some(1));
        }
    }
}

#[test]
fn a_reload_brings_a_proof_with_a_certificate() {
    for program in programs() {
        let lab = Lab::new(false);
        let server = lab.start(&program, "", "ocsp { mode: auto }");
        assert!(proof(&server).is_empty());
        lab.renew(2, true);
        server.reload(&lab.config("", "ocsp { mode: auto }"));
        assert!(!proof(&server).is_empty(), "{}", program.display());
        // A server that runs goes on without one.
        lab.renew(3, true);
        lab.responder.say(3, Says::Nonsense);
        server.reload(&lab.config("", "ocsp { mode: auto }"));
        server.wait_for_log("[WRN] Can't restart OCSP features: bad OCSP status update for certificate at");
        assert!(proof(&server).is_empty(), "{}", program.display());
    }
}

#[test]
fn clients_are_asked_about() {
    for program in programs() {
        let lab = Lab::new(false);
        let more = "ocsp_cache { local_store: \"@cache\", save_interval: 1 }";
        let server = lab.start(&program, "verify: true, ocsp_peer: true", more);
        server.wait_for_log("[INF] OCSP peer cache online, type [local]");
        lab.responder.say(6, Says::Revoked);
        lab.responder.say(7, Says::Unknown);
        let good = lab.client(5);
        for _ in 0..2 {
            let (mut client, _) = connect(&server, Some(&good));
            client.barrier().expect("is good");
        }
        assert_eq!(lab.responder.asked(), 1, "{}", program.display());
        for serial in [6, 7] {
            let (mut client, _) = connect(&server, Some(&lab.client(serial)));
            assert!(client.barrier().is_err(), "{}", program.display());
        }
        server.wait_for_log("[ERR] ");
        assert!(server.log().contains("TLS handshake error: client not OCSP valid"));
        server.wait_for_close("TLS Handshake Failure");
        let varz = server.page("/varz");
        assert_eq!(varz["tls_ocsp_peer_verify"], true);
        let cache = &varz["ocsp_peer_cache"];
        let numbers = ["cache_hits", "cache_misses", "cached_responses", "cached_revoked_responses"];
        assert_eq!(cache["cache_type"], "local");
        assert_eq!(numbers.map(|key| cache[key].as_i64()), [Some(1), Some(3), Some(3), Some(1)], "{cache}");
        let file = lab.dir.path().join("cache/cache.json");
        crate::eventually("answers are kept", || {
            fs::read_to_string(&file).is_ok_and(|text| text.matches("resp_status").count() == 3)
        });
        // Either server goes on with what the other has kept.
        drop(server);
        let asked = lab.responder.asked();
        for other in programs() {
            let server = lab.start(&other, "verify: true, ocsp_peer: true", more);
            let (mut client, _) = connect(&server, Some(&good));
            client.barrier().expect("is good");
            assert_eq!(lab.responder.asked(), asked, "{} after {}", other.display(), program.display());
        }
    }
}

/// Payloads of the messages in `text`: the lines that are objects of JSON.
fn bodies(text: &[u8]) -> Vec<serde_json::Value> {
    let text = String::from_utf8_lossy(text);
    let lines = text.split("\r\n").filter(|line| line.starts_with('{'));
    lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn what_is_found_is_told_to_the_system_account() {
    for program in programs() {
        let lab = Lab::new(false);
        let more = "accounts { SYS { users: [ {user: sys, password: p} ] } }\nsystem_account: SYS\nno_auth_user: sys";
        let server = lab.start(&program, "verify: true, ocsp_peer: true", more);
        lab.responder.say(6, Says::Revoked);
        let (mut sys, _) = connect(&server, Some(&lab.client(5)));
        sys.send("CONNECT {\"verbose\":false}\r\nSUB $SYS.SERVER.*.OCSP.> 1\r\n");
        sys.barrier().expect("is good");
        let revoked = lab.client(6);
        let (mut client, _) = connect(&server, Some(&revoked));
        assert!(client.barrier().is_err());
        // A message may come in two pieces, with a PONG before.
        let mut read = Vec::new();
        crate::eventually("both events", || {
            read.extend(sys.barrier().expect("is good"));
            bodies(&read).len() == 2
        });
        let heard = bodies(&read);
        let [link, rejected] = &heard[..] else { panic!("{heard:?}") };
        let raw = base64::encode(revoked.cert.der());
        for (event, kind, names) in [
            (
                link,
                "ocsp_peer_link_invalid",
                vec!["type", "id", "timestamp", "link", "peer", "server", "reason"],
            ),
            (
                rejected,
                "ocsp_peer_reject",
                vec!["type", "id", "timestamp", "kind", "peer", "server", "reason"],
            ),
        ] {
            let fields = event.as_object().expect("an object");
            assert_eq!(fields.keys().collect::<Vec<_>>(), names, "{}", program.display());
            assert_eq!(event["type"], format!("io.nats.server.advisory.v1.{kind}"));
            let peer = &event["peer"];
            let shown = [&peer["subject"], &peer["issuer"]].map(|name| name.as_str().unwrap_or_default());
            assert_eq!(shown, ["CN=client", "CN=authority"], "{}: {peer}", program.display());
            assert_eq!(peer["raw"], raw, "{}", program.display());
        }
        assert_eq!(rejected["kind"], "Client", "{}", program.display());
    }
}

#[test]
fn who_only_warns_lets_them_in() {
    for program in programs() {
        let lab = Lab::new(false);
        let peer = "verify: true, ocsp_peer { verify: true, warn_only: true }";
        let server = lab.start(&program, peer, "ocsp_cache: false");
        lab.responder.say(6, Says::Revoked);
        let (mut client, _) = connect(&server, Some(&lab.client(6)));
        client.barrier().expect("is warned of");
        server.wait_for_log("[WRN] OCSP verify fail for [CN=client] but WarnOnly is true so allowing");
        assert_eq!(server.page("/varz")["ocsp_peer_cache"], serde_json::Value::Null);
        let path = lab.dir.path().join("server.conf");
        fs::write(&path, lab.config("ocsp_peer: true", "port: -1")).unwrap();
        let output = std::process::Command::new(&program).arg("-c").arg(&path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let why = "OCSP peer verification for client connections requires TLS verify (mTLS) to be enabled";
        assert!(said.contains(why), "{} {said}", program.display());
    }
}

/// Answer of a listener that a client asks for a page, or why there is none.
fn page(mut client: Secure) -> Result<String, String> {
    let asked = client.0.write_all(b"GET /varz HTTP/1.0\r\n\r\n").and_then(|()| client.0.flush());
    let mut answer = Vec::new();
    let read = asked.and_then(|()| client.0.read_to_end(&mut answer));
    match read {
        // Whoever has answered may close without a word.
        Err(error) if answer.is_empty() => Err(error.to_string()),
        _ => Ok(String::from_utf8_lossy(&answer).into_owned()),
    }
}

/// Each listener with TLS shows a proof of its own, and turns away whom an authority does not vouch
/// for, with an alert.
#[test]
fn every_listener_shows_a_proof_and_asks() {
    for program in programs() {
        let lab = Lab::new(false);
        lab.responder.say(6, Says::Revoked);
        let dir = lab.dir.path().display();
        let block = lab.config("verify: true, ocsp_peer: true", "");
        let more = format!(
            "https: \"127.0.0.1:-1\"\nwebsocket {{ host: \"127.0.0.1\", port: -1\n{block} }}\nocsp {{ mode: always }}\n\
             ocsp_cache {{ local_store: \"{dir}/cache\" }}"
        );
        let config = lab.config("verify: true, handshake_first: true, ocsp_peer: true", &more);
        let server = Setup::default().program(&program).config(&config).secure().start();
        let (good, revoked) = (lab.client(5), lab.client(6));
        let listeners = [
            server.address(),
            server.monitor("Starting https monitor on "),
            server.monitor("Listening for websocket clients on wss://"),
        ];
        for (at, first) in listeners.into_iter().zip(["INFO {", "HTTP/1.0 200 OK", "HTTP/1."]) {
            for version in [&TLS12, &TLS13] {
                let dial = || {
                    let socket = TcpStream::connect(at).expect("it listens");
                    socket.set_read_timeout(Some(crate::PATIENCE)).expect("a timeout");
                    socket
                };
                let (client, proof) = shake(dial(), Some(&good), &[version]);
                let answer = page(client).expect("is good");
                assert!(answer.starts_with(first), "{} {first}: {answer}", program.display());
                assert!(!proof.lock().expect("nobody panics").is_empty(), "{} {first}", program.display());
                let (client, _) = shake(dial(), Some(&revoked), &[version]);
                let told = page(client).expect_err("is revoked");
                let alert = Error::AlertReceived(AlertDescription::BadCertificate).to_string();
                assert_eq!(told, alert, "{} {first} {version:?}", program.display());
                // Who shows none is no stranger less.
                let (client, _) = shake(dial(), None, &[version]);
                assert!(page(client).is_err(), "{} {first}", program.display());
            }
        }
        for start in ["monitoring: TLS handshake error from ", "websocket: TLS handshake error from "] {
            crate::eventually("the log says why", || {
                let is_it = |line: &str| line.contains(start) && line.ends_with(": client not OCSP valid");
                server.log().lines().any(is_it)
            });
        }
    }
}

#[test]
fn a_websocket_of_its_own_is_enough_for_proofs_and_questions() {
    for program in programs() {
        let lab = Lab::new(true);
        // The reference looks for it in the files of the client listener, or here.
        lab.extend();
        lab.responder.say(6, Says::Revoked);
        let block = lab.config("verify: true, ocsp_peer: true", "");
        let websocket =
            format!("websocket {{ host: \"127.0.0.1\", port: -1\n{block} }}\nocsp_cache: false\n");
        let server = Setup::default().program(&program).config(&websocket).start();
        let at = server.monitor("Listening for websocket clients on wss://");
        let meet =
            |shown: &Signed| shake(TcpStream::connect(at).expect("it listens"), Some(shown), &[&TLS13]);
        let (client, proof) = meet(&lab.client(5));
        assert!(page(client).is_ok() && !proof.lock().expect("nobody panics").is_empty());
        assert!(page(meet(&lab.client(6)).0).is_err(), "{}", program.display());
        assert_eq!(server.page("/varz")["websocket"]["tls_ocsp_peer_verify"], true, "{}", program.display());
        // A reload goes on with both.
        lab.renew(2, true);
        lab.extend();
        server.reload(&websocket);
        let (client, proof) = meet(&lab.client(5));
        assert!(page(client).is_ok() && !proof.lock().expect("nobody panics").is_empty());
        assert!(page(meet(&lab.client(6)).0).is_err(), "{}", program.display());
    }
}

/// As the documentation has it: a directory of stores alone, without streams, keeps proofs.
#[test]
fn proofs_are_kept_where_stores_are() {
    for program in programs() {
        let lab = Lab::new(true);
        let server = lab.start(&program, "", "ocsp: true\n\nstore_dir: \"@store\"\n");
        assert!(!proof(&server).is_empty(), "{}", program.display());
        let kept = fs::read_dir(lab.dir.path().join("store/ocsp")).expect("a folder").count();
        assert_eq!(kept, 1, "{}", program.display());
    }
}
