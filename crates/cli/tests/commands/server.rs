//! Which servers the commands talk to, and those with a configuration file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::servers::{self, Server};

/// The programs that were found, with a line that says which were not.
pub(crate) fn programs() -> Vec<PathBuf> {
    let found: Vec<PathBuf> = [ours(), servers::reference()].into_iter().flatten().collect();
    if found.is_empty() {
        eprintln!("skipped: neither nats-server nor target/*/myelin-server was found");
    }
    found
}

/// Our server, if it was built beside the tests.
fn ours() -> Option<PathBuf> {
    let found = servers::built(["debug", "quick", "release"]);
    let found = found.or_else(|| std::env::var_os("MYELIN_SERVER").map(PathBuf::from));
    if found.is_none() {
        eprintln!("not run against our server: target/*/myelin-server was not found");
    }
    found
}

/// A server with JetStream and this in its configuration, in this directory.
pub(crate) fn configured(program: &Path, directory: TempDir, text: &str, is_tls_first: bool) -> Server {
    let port = servers::free_port();
    let file = directory.path().join("server.conf");
    let store = directory.path().join("store");
    // A text may say more about the streams.
    let streams = if text.contains("jetstream") { "" } else { "jetstream: enabled\n" };
    let listen =
        format!("listen: \"127.0.0.1:{port}\"\nstore_dir: {:?}\n{streams}", store.display().to_string());
    fs::write(&file, listen + text).unwrap();
    let mut command = Command::new(program);
    command.arg("-c").arg(&file);
    Server::run(command, port, directory, is_tls_first)
}
