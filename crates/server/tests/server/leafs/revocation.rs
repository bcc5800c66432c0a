//! Certificates that were revoked, of leaf nodes and of hubs (`ocsp_peer`), with nats-server on
//! either side.

use super::{Site, exchange};
use crate::eventually;
use crate::responder::{Responder, Says};
use crate::routes::{MIXES, Ours, ServerKind, free_port};
use tempfile::TempDir;

/// Serial numbers of the certificates of hub and leaf node.
const SERIALS: [u64; 2] = [1, 2];

/// An authority with a responder, and files of two certificates.
struct Lab {
    responder: Responder,
    folder: TempDir,
}

impl Lab {
    fn new() -> Self {
        let responder = Responder::start("authority");
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: String, text: String| {
            std::fs::write(folder.path().join(name), text).expect("the folder takes files");
        };
        write("ca.pem".to_owned(), responder.authority.cert.pem());
        for serial in SERIALS {
            let signed = responder.authority.sign("localhost", serial, Some(&responder.url), false);
            write(format!("{serial}.pem"), signed.cert.pem());
            write(format!("{serial}.key"), signed.key.serialize_pem());
        }
        Self { responder, folder }
    }

    fn tls(&self, serial: u64, more: &str) -> String {
        let folder = self.folder.path().display();
        format!(
            "tls {{ cert_file: \"{folder}/{serial}.pem\", key_file: \"{folder}/{serial}.key\", \
             ca_file: \"{folder}/ca.pem\", timeout: 10\n{more} }}"
        )
    }

    /// Options by which what authorities answer is kept in memory.
    const NO_FILE: &str = "ocsp_cache: { type: none }\n";

    /// A hub and a leaf node with these in their `tls{}`, and beside it.
    fn pair(&self, kinds: [ServerKind; 2], inner: [&str; 2], more: &str) -> Option<[Site; 2]> {
        let more = &format!("{}{more}", Self::NO_FILE);
        let hub = Site::hub(kinds[0], "HUB", &self.tls(SERIALS[0], inner[0]), more)?;
        let remote = format!(
            "reconnect: \"200ms\"\nremotes: [{{ url: \"nats://localhost:{}\", {} }}]",
            hub.port,
            self.tls(SERIALS[1], inner[1])
        );
        let leaf = Site::start(kinds[1], "EDGE", None, &remote, more)?;
        Some([hub, leaf])
    }
}

#[test]
fn the_authority_is_asked_about_either_side() {
    for kinds in MIXES {
        let lab = Lab::new();
        let inner = ["verify: true, ocsp_peer: true", "ocsp_peer: true"];
        let Some(sites) = lab.pair(kinds, inner, "") else { continue };
        exchange(sites.each_ref(), &[300_000]);
        assert!(lab.responder.asked() >= 2, "{kinds:?}: about both");
    }
}

#[test]
fn a_leaf_node_whose_certificate_was_revoked_is_not_linked() {
    for kinds in MIXES {
        let lab = Lab::new();
        lab.responder.say(SERIALS[1], Says::Revoked);
        let Some([hub, leaf]) = lab.pair(kinds, ["verify: true, ocsp_peer: true", ""], "") else { continue };
        hub.server.wait_for_log("TLS leafnode handshake error: client not OCSP valid");
        leaf.server.wait_for_log("Leafnode connection closed: ");
        assert!(hub.links().is_empty(), "{kinds:?}");
    }
}

#[test]
fn a_hub_whose_certificate_was_revoked_is_not_linked() {
    for kinds in MIXES {
        let lab = Lab::new();
        lab.responder.say(SERIALS[0], Says::Revoked);
        let Some([hub, leaf]) = lab.pair(kinds, ["", "ocsp_peer: true"], "") else { continue };
        leaf.server.wait_for_log("TLS leafnode handshake error: server not OCSP valid");
        leaf.server.wait_for_log("Leafnode connection closed: TLS Handshake Failure");
        assert!(hub.links().is_empty() && leaf.links().is_empty(), "{kinds:?}");
    }
}

/// The check comes and goes by a reload, for links to come. In nats-server it is said to come, and
/// does not.
#[test]
fn a_reload_has_the_authority_asked() {
    for kinds in MIXES.into_iter().filter(|kinds| kinds[1] == Ours) {
        let (lab, port) = (Lab::new(), free_port());
        let text = |check: &str| {
            let url = format!("nats://localhost:{port}");
            let remote = format!("{{ url: \"{url}\", {} }}", lab.tls(SERIALS[1], check));
            format!(
                "server_name: EDGE\n{}leafnodes {{ reconnect: \"100ms\"\nremotes: [{remote}] }}",
                Lab::NO_FILE
            )
        };
        let hub = || Site::start(kinds[0], "HUB", Some(port), &lab.tls(SERIALS[0], ""), "");
        let Some(first) = hub() else { continue };
        let Some(leaf) = Site::configured(Default::default(), kinds[1], &text(""), 0) else { continue };
        leaf.linked(1);
        lab.responder.say(SERIALS[0], Says::Revoked);
        leaf.server.reload(&text("ocsp_peer: true"));
        leaf.linked(1);
        drop(first);
        let Some(second) = hub() else { continue };
        leaf.server.wait_for_log("server not OCSP valid");
        leaf.server.reload(&text(""));
        second.linked(1);
    }
}

/// No proof is shown between leaf nodes and hubs, whatever `ocsp` says, nor asked for.
#[test]
fn links_need_no_proof() {
    for kinds in MIXES {
        let lab = Lab::new();
        let Some(sites) = lab.pair(kinds, ["", ""], "ocsp { mode: always }") else { continue };
        exchange(sites.each_ref(), &[10]);
        eventually("both are ready", || {
            sites.iter().all(|site| site.server.log().contains("Server is ready"))
        });
        assert_eq!(lab.responder.asked(), 0, "{kinds:?}");
    }
}
