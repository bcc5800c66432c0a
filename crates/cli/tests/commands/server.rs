//! Which servers the commands talk to, and those with a configuration file.

use std::path::PathBuf;

use crate::servers;
pub(crate) use crate::servers::configured;

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
