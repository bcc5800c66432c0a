//! Tests of configuration through its public face, and against nats-server where there is one.
//!
//! `MYELIN_RECORD=1 cargo test -p myelin-conf` writes down again what nats-server says of the
//! corpus.

mod conflicts;
mod corpus;
mod differential;
mod docs;
mod flags;
mod options;
mod page;
mod reference;
mod tls;
mod trust;
mod verdict;

use myelin_conf::{Invocation, LoadError, Loaded};

/// Runs `load` with these arguments and no environment.
fn load(args: &[&str]) -> Result<Invocation, LoadError> {
    load_with(args, &|_| None)
}

fn load_with(args: &[&str], env: &dyn Fn(&str) -> Option<String>) -> Result<Invocation, LoadError> {
    let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
    myelin_conf::load(&args, env)
}

/// Configuration that a server with these arguments would run with.
fn run(args: &[&str]) -> Loaded {
    match load(args) {
        Ok(Invocation::Run(loaded)) => *loaded,
        other => panic!("{args:?} does not run: {other:?}"),
    }
}

/// A configuration file that lives as long as the value.
struct ConfigFile {
    dir: tempfile::TempDir,
}

impl ConfigFile {
    fn new(text: impl AsRef<[u8]>) -> Self {
        let dir = tempfile::tempdir().expect("a directory for the test");
        let file = Self { dir };
        std::fs::write(file.path(), text).expect("a file for the test");
        file
    }

    fn path(&self) -> String {
        self.dir.path().join("case.conf").to_str().expect("a path of plain letters").to_owned()
    }
}
