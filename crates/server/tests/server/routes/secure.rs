//! TLS between servers, with nats-server on either side.

use super::hostile::peer;
use super::{MIXES, Member, Ours, Reference, ServerKind, free_port, settle, two, wait_for_interest};
use crate::process::Setup;
use crate::responder::{Responder, Says};
use crate::tls::Lab;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use sha2::{Digest as _, Sha256};
use std::io::{Read as _, Write as _};

/// A message goes from a client of the one to a client of the other.
fn exchange(members: &[Member]) {
    let (mut a, mut b) = (members[0].client(), members[1].client());
    b.subscribe("plain", 1);
    wait_for_interest(&mut a, &mut b);
    let body: String = (0..300_000).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
    a.publish("plain", &body);
    assert_eq!(b.message().text(), body);
}

/// A lab whose authority has signed for the routes, and another that knows nobody of it.
fn labs() -> (Lab, Lab) {
    (Lab::new(), Lab::new())
}

#[test]
fn links_are_encrypted() {
    let (lab, _) = labs();
    let block = lab.block("ca_file: \"@ca.pem\"");
    for kinds in MIXES {
        for compression in ["accept", "s2_fast"] {
            let inner = format!("{block} compression: {compression}");
            let Some(members) = two(kinds, [&inner, &inner]) else { continue };
            settle(&members);
            exchange(&members);
            for (member, side) in members.iter().zip(["server", "client"]) {
                let log = member.server.log();
                let begins = format!("Starting TLS route {side} handshake");
                for line in
                    [&begins[..], "TLS handshake complete", "TLS version 1.3, cipher suite TLS_AES_128"]
                {
                    assert!(log.contains(line), "{kinds:?} {line}: {log}");
                }
                let expected = if compression == "accept" { "off" } else { "s2_fast" };
                assert_eq!(member.shown("compression"), [expected; 4], "{kinds:?}");
            }
        }
    }
}

/// Both show a certificate, whatever is configured, and each has to trust the other's.
#[test]
fn a_server_of_another_authority_is_not_linked() {
    let (lab, stranger) = labs();
    let (known, unknown) = (lab.block("ca_file: \"@ca.pem\""), stranger.block("ca_file: \"@ca.pem\""));
    let shown = CertificateDer::from_pem_file(lab.file("server.pem")).expect("the lab signs");
    let fingerprint: String = Sha256::digest(&shown).iter().map(|byte| format!("{byte:02x}")).collect();
    for kinds in MIXES {
        let Some([a, b]) = two(kinds, [&known, &unknown]) else { continue };
        let text = "TLS route handshake error: tls: failed to verify certificate: x509: certificate signed by \
                    unknown authority";
        b.server.wait_for_log(text);
        // Which certificate it was stands behind.
        b.server.wait_for_log(&format!("(CN=rcgen self signed cert SHA-256: {fingerprint})"));
        b.server.wait_for_log("Router connection closed: TLS Handshake Failure");
        a.server.wait_for_log("TLS route handshake error: remote error: tls: ");
        assert_eq!([a.links(), b.links()], [0, 0]);
    }
    // `insecure` is about what the dialled server shows only.
    let insecure = stranger.block("insecure: true");
    for kinds in MIXES {
        let Some([a, b]) = two(kinds, [&known, &insecure]) else { continue };
        b.server.wait_for_log("TLS certificate chain and hostname of solicited routes will not be verified.");
        a.server.wait_for_log("TLS route handshake error: tls: failed to verify certificate");
        assert_eq!(a.links(), 0);
    }
}

/// A certificate has to bear the name of the route, or for an address that of the first route that
/// has a name.
#[test]
fn a_certificate_bears_the_name_of_the_route() {
    let (lab, _) = labs();
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    params.is_ca = rcgen::IsCa::NoCa;
    lab.sign_as("server", &params);
    let block = lab.block("ca_file: \"@ca.pem\"");
    for kinds in MIXES {
        let ports = [free_port(), free_port()];
        let Some(a) = Member::with(kinds[0], "S0", ports[0], &[], &block) else { continue };
        let by_address = format!("{block} routes: [\"nats://127.0.0.1:{}\"]", ports[0]);
        let Some(b) = Member::with(kinds[1], "S1", ports[1], &[], &by_address) else { continue };
        b.server.wait_for_log(
            "TLS route handshake error: tls: failed to verify certificate: x509: cannot validate certificate for \
             127.0.0.1 because it doesn't contain any IP SANs (CN=rcgen self signed cert SHA-256: ",
        );
        assert_eq!(b.links(), 0);
        drop(b);
        let by_name = format!("{block} routes: [\"nats://localhost:{}\"]", ports[0]);
        let Some(b) = Member::with(kinds[1], "S1", ports[1], &[], &by_name) else { continue };
        settle(&[a, b]);
    }
}

#[test]
fn keys_are_pinned() {
    let (lab, _) = labs();
    let pin = lab.sign("server");
    let other = lab.sign("other");
    let block = |pin: &str| lab.block(&format!("ca_file: \"@ca.pem\", pinned_certs: [\"{pin}\"]"));
    let plain = lab.block("ca_file: \"@ca.pem\"");
    for kinds in MIXES {
        let Some(members) = two(kinds, [&block(&pin), &block(&pin)]) else { continue };
        settle(&members);
        for inner in [[&block(&other)[..], &plain], [&plain, &block(&other)]] {
            let Some(members) = two(kinds, inner) else { continue };
            let at = usize::from(inner[0] == plain);
            members[at].server.wait_for_log("TLS route handshake error: certificate not pinned");
            assert_eq!(members[at].links(), 0);
        }
    }
}

/// A name in the certificate is the cluster's user, or that of a configured route.
#[test]
fn certificates_let_servers_in() {
    let (lab, _) = labs();
    let block = |more: &str| lab.block(&format!("ca_file: \"@ca.pem\", {more}"));
    let plain = block("");
    for kinds in MIXES {
        for (rule, more, is_in) in [
            ("verify_and_map: true", "authorization { user: localhost, password: x }", true),
            ("verify_and_map: true", "authorization { user: nobody, password: x }", false),
            ("verify_and_map: true", "", false),
            ("verify_cert_and_check_known_urls: true", "routes: [\"nats://localhost:1\"]", true),
            ("verify_cert_and_check_known_urls: true", "routes: [\"nats://elsewhere:1\"]", false),
        ] {
            let inner = format!("{} {more}", block(rule));
            let Some(members) = two(kinds, [&inner, &plain]) else { continue };
            if is_in {
                settle(&members);
            } else {
                members[0].server.wait_for_log("authentication error");
                assert_eq!(members[0].links(), 0, "{kinds:?} {rule}");
            }
        }
    }
}

#[test]
fn who_does_not_begin_a_handshake_is_closed() {
    let (lab, _) = labs();
    let block = lab.block("ca_file: \"@ca.pem\", timeout: \"300ms\"");
    let Some(member) = Member::with(Ours, "S0", free_port(), &[], &block) else { return };
    let mut silent = peer(&member);
    member.server.wait_for_log("TLS route handshake error: read tcp");
    assert_eq!(silent.read(&mut [0]).expect("the end"), 0);
    let mut plain = peer(&member);
    plain.write_all(b"CONNECT {}\r\n").expect("it reads");
    member
        .server
        .wait_for_log("TLS route handshake error: tls: first record does not look like a TLS handshake");
}

/// An authority that answers for the certificates of servers.
pub(crate) struct Proofs {
    pub(crate) responder: Responder,
    folder: tempfile::TempDir,
}

impl Proofs {
    pub(crate) fn new() -> Self {
        let responder = Responder::start("authority");
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("ca.pem"), responder.authority.cert.pem()).expect("a file");
        Self { responder, folder }
    }

    /// TLS with a certificate of this number; `must`: that is to be shown with a proof.
    pub(crate) fn block(&self, (serial, must): (u64, bool)) -> String {
        let url = &self.responder.url;
        let signed = self.responder.authority.sign("localhost", serial, Some(url), must);
        let path = self.folder.path().join(serial.to_string());
        let [cert, key] = ["pem", "key"].map(|kind| path.with_extension(kind));
        std::fs::write(&cert, signed.cert.pem()).expect("a file");
        std::fs::write(&key, signed.key.serialize_pem()).expect("a file");
        let ca = self.folder.path().join("ca.pem");
        let [cert, key, ca] = [cert, key, ca].map(|path| path.display().to_string());
        format!("tls {{ cert_file: \"{cert}\", key_file: \"{key}\", ca_file: \"{ca}\", timeout: 10 }}\n")
    }

    /// A server with such a certificate, which dials the ports.
    fn start(
        &self,
        kind: ServerKind,
        (serial, must): (u64, bool),
        (port, routes): (u16, &[u16]),
        ocsp: &str,
    ) -> Option<Member> {
        let dialled: Vec<_> = routes.iter().map(|port| format!("\"nats://localhost:{port}\"")).collect();
        let inner = format!("{}routes: [{}]", self.block((serial, must)), dialled.join(", "));
        let text = super::config(&format!("S{serial}"), port, &[], &inner, ocsp);
        let setup = Setup::default().program(&kind.program()?).config(&text).flags(&["-D"]);
        Some(Member { server: setup.start(), port })
    }
}

const ALWAYS: &str = "ocsp { mode: always }";

/// Where servers show proofs, each wants one of the other. Who dials shows it with its certificate,
/// which the TLS library cannot, neither send nor read: so a nats-server turns Myelin away that
/// dials, and Myelin asks the authority about who dials.
#[test]
fn servers_show_each_other_proofs() {
    for kinds in [[Reference, Reference], [Ours, Ours], [Ours, Reference], [Reference, Ours]] {
        let (lab, ports) = (Proofs::new(), [free_port(), free_port()]);
        let Some(a) = lab.start(kinds[0], (1, false), (ports[0], &[]), ALWAYS) else { continue };
        let asked = lab.responder.asked();
        let Some(b) = lab.start(kinds[1], (2, false), (ports[1], &ports[..1]), ALWAYS) else { continue };
        if kinds == [Reference, Ours] {
            a.server.wait_for_log("TLS route handshake error: Router peer missing OCSP Staple");
            assert_eq!(a.links(), 0);
            continue;
        }
        let members = [a, b];
        settle(&members);
        exchange(&members);
        // For the own proof, and where ours is dialled for that of the other.
        let of_peers = usize::from(kinds[0] == Ours);
        assert!(lab.responder.asked() > asked + of_peers - 1, "{kinds:?}");
    }
}

#[test]
fn a_server_that_shows_no_good_proof_is_not_linked() {
    for kinds in MIXES {
        let (lab, ports) = (Proofs::new(), [free_port(), free_port()]);
        // No proof at all.
        let Some(a) = lab.start(kinds[0], (1, false), (ports[0], &[]), "") else { continue };
        let Some(b) = lab.start(kinds[1], (2, false), (ports[1], &ports[..1]), ALWAYS) else { continue };
        b.server.wait_for_log("TLS route handshake error: Router peer missing OCSP Staple");
        assert_eq!([a.links(), b.links()], [0, 0], "{kinds:?}");
        drop((a, b));
        // A proof of the wrong.
        lab.responder.say(3, Says::Revoked);
        let Some(a) = lab.start(kinds[0], (3, true), (ports[0], &[]), "ocsp: true") else { continue };
        let Some(b) = lab.start(kinds[1], (4, false), (ports[1], &ports[..1]), ALWAYS) else { continue };
        let text = "TLS route handshake error: bad status for OCSP Staple from Router peer: revoked";
        b.server.wait_for_log(text);
        assert_eq!([a.links(), b.links()], [0, 0], "{kinds:?}");
    }
}

/// Certificates that are to be shown with a proof (`must`): a nats-server links by its own dials.
/// Where Myelin dials, too, it says at the start that others see no proof then.
#[test]
fn servers_that_must_show_proofs_are_linked_where_the_reference_dials() {
    const MUST: &str = "ocsp { mode: must }";
    for kinds in [[Ours, Ours], [Ours, Reference]] {
        let (lab, ports) = (Proofs::new(), [free_port(), free_port()]);
        let routes = if kinds[1] == Ours { &ports[..0] } else { &ports[1..] };
        let Some(a) = lab.start(kinds[0], (1, true), (ports[0], routes), MUST) else { continue };
        let Some(b) = lab.start(kinds[1], (2, true), (ports[1], &ports[..1]), MUST) else { continue };
        let members = [a, b];
        settle(&members);
        exchange(&members);
        let dials = if kinds[1] == Ours { 1 } else { 0 };
        members[dials].server.wait_for_log("No OCSP Staple is shown to servers that are dialled");
    }
}

/// A certificate that was revoked does not let in who dials with it.
#[test]
fn a_server_that_dials_is_asked_about() {
    let (lab, ports) = (Proofs::new(), [free_port(), free_port()]);
    lab.responder.say(2, Says::Revoked);
    let a = lab.start(Ours, (1, false), (ports[0], &[]), ALWAYS).expect("it starts");
    let b = lab.start(Ours, (2, false), (ports[1], &ports[..1]), "").expect("it starts");
    a.server.wait_for_log("TLS route handshake error: Router peer not OCSP valid");
    assert_eq!(b.links(), 0);
    // Without proofs of its own a server asks nobody.
    drop(a);
    let a = lab.start(Ours, (1, false), (ports[0], &[]), "").expect("it starts");
    settle(&[a, b]);
}
