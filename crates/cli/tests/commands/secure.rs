//! Certificates, keys, passwords, and contexts of the `nats` command: how client and server know
//! each other.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::server::{configured, programs};
use crate::servers::Server;
use crate::{fail, myelin, succeed};

const SEED: &str = "SUAM5BJY3FTHSY2D7EYHQKC7IHYYF4IJQIB4G44PJS2ZAPVY4BGDLM34BY";
const PUBLIC: &str = "UA5YG4PGN4OK3KYINRRYFMBYUIICV45ASJ7SDQRLVSZEFNO2KSNIL6OI";

/// An authority, a server's certificate and a client's, as files.
fn certificates(directory: &Path) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    fs::write(directory.join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    let authority = Issuer::new(params, key);
    for name in ["server", "client"] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        fs::write(directory.join(format!("{name}.pem")), params.signed_by(&key, &authority).unwrap().pem())
            .unwrap();
        fs::write(directory.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
    fs::write(directory.join("user.nk"), format!("{SEED}\n")).unwrap();
}

fn secured(program: &Path, is_first: bool) -> Server {
    let directory = tempfile::tempdir().unwrap();
    certificates(directory.path());
    let file = |name: &str| directory.path().join(name).display().to_string();
    let text = format!(
        "tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?}, verify: true, handshake_first: {is_first} }}\n\
         authorization {{ users: [ {{ nkey: {PUBLIC} }} ] }}\n",
        file("server.pem"),
        file("server.key"),
        file("ca.pem"),
    );
    configured(program, directory, &text, is_first)
}

#[test]
fn certificates_and_keys_open_what_is_closed_without_them() {
    for program in programs() {
        for is_first in [false, true] {
            let server = secured(&program, is_first);
            let files = ["ca.pem", "client.pem", "client.key", "user.nk"].map(|name| server.file(name));
            let certificates = ["--tlsca", &files[0], "--tlscert", &files[1], "--tlskey", &files[2]];
            let user = ["--nkey", &files[3]];
            let publish = |flags: &[&str]| {
                let first = if is_first { &["--tlsfirst"][..] } else { &[] };
                let common = ["bench", "pub", "x", "--msgs", "20000", "--clients", "2", "--no-progress"];
                let mut command = myelin(&[&common[..], first, flags].concat());
                command.args(["-s", &server.url()]);
                command
            };
            succeed(&mut publish(&[&certificates[..], &user].concat()));
            assert!(fail(&mut publish(&certificates)).contains("Authorization Violation"));
            // Without our certificate; the alert may be lost when the server closes the connection
            // behind it.
            fail(&mut publish(&[&certificates[..2], &user].concat()));
            // Without theirs.
            assert!(fail(&mut publish(&user)).contains("encryption: "));
        }
    }
}

#[test]
fn encrypted_messages_arrive_and_streams_are_read_through_encryption() {
    for program in programs() {
        let server = secured(&program, false);
        let files = ["ca.pem", "client.pem", "client.key", "user.nk"].map(|name| server.file(name));
        let home = TempDir::new().unwrap();
        let contexts = home.path().join("nats/context");
        fs::create_dir_all(&contexts).unwrap();
        let context = serde_json::json!({
            "url": server.url(), "ca": files[0], "cert": files[1], "key": files[2], "nkey": files[3],
        });
        fs::write(contexts.join("lab.json"), context.to_string()).unwrap();
        let bench = |arguments: &[&str]| {
            let mut command = myelin(&[&["bench"], arguments, &["--no-progress", "--size", "4K"]].concat());
            command.env("XDG_CONFIG_HOME", home.path());
            command
        };
        let refused = fail(bench(&["pub", "x", "--msgs", "1", "--context", "other"]).env_remove("HOME"));
        assert!(refused.contains("unknown context"), "{refused}");
        let create = ["js", "pub", "async", "x", "--create", "--msgs", "2000", "--context", "lab"];
        succeed(&mut bench(&create));
        fs::write(home.path().join("nats/context.txt"), "lab").unwrap();
        let text = succeed(&mut bench(&["js", "ordered", "--msgs", "2000", "--clients", "2"]));
        assert_eq!(text.matches("(2,000 msgs)").count(), 2, "{text}");
        let unselected =
            bench(&["pub", "x", "--msgs", "1", "--no-context", "-s", &server.url()]).output().unwrap();
        assert_eq!(unselected.status.code(), Some(1));
    }
}

/// Both sides of a measurement come as somebody, and speak through encryption.
#[test]
fn latencies_are_measured_through_encryption() {
    for program in programs() {
        for is_first in [false, true] {
            let server = secured(&program, is_first);
            let files = ["ca.pem", "client.pem", "client.key"].map(|name| server.file(name));
            let measure = |further: &[&str]| {
                let first = if is_first { &["--tlsfirst"][..] } else { &[] };
                let mut command = myelin(&[&["bench", "latency"], further, first].concat());
                command.args(["--tlsca", &files[0], "--tlscert", &files[1], "--tlskey", &files[2]]);
                let url = server.url().replace("nats://", "tls://");
                command.args(["--nkey", &server.file("user.nk"), "-s", &url]);
                command
            };
            let modes = "request,pub-sub,js-ack,js-consume";
            let load = ["--modes", modes, "--sizes", "8B,100KB", "--rates", "300", "--clients", "2"];
            let brief = ["--warmup", "50ms", "--duration", "60ms"];
            let text = succeed(&mut measure(&[&load[..], &brief].concat()));
            assert_eq!(text.matches("  server  corrected ").count(), 8, "{text}");
            let mut responder =
                measure(&["respond", "--subject", "far"]).stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(responder.stdout.take().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line, "Waiting for requests on far.*\n");
            succeed(&mut measure(&[&["--responders", "0", "--subject", "far"][..], &brief].concat()));
            responder.kill().unwrap();
            responder.wait().unwrap();
        }
    }
}
