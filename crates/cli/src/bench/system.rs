//! Server programs that rows are measured on: what kind they are, where they are found, what they say about themselves.
//!
//! Starts nothing but `--version`. How a kind is started and talked to is that of `process` and, for what does not speak
//! NATS, of `others`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::bench::plan::Workload;
use crate::bench::results::program_version;

/// A server program with the name that reports use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct System {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The binary; of Kafka, the directory of its jars.
    pub(crate) program: PathBuf,
}

/// What a program speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Nats,
    Redis,
    RabbitMq,
    Kafka,
}

impl Kind {
    /// Whether such a server can do it.
    pub(crate) fn can(self, workload: &Workload) -> bool {
        let _ = workload;
        self == Self::Nats
    }
}

impl System {
    /// A server that speaks NATS.
    pub(crate) fn nats(name: &str, program: &Path) -> Self {
        Self { name: name.to_owned(), kind: Kind::Nats, program: program.to_path_buf() }
    }

    /// What it says about itself, on one line.
    pub(crate) fn version(&self) -> String {
        program_version(&self.program)
    }

    /// Bytes of the program.
    pub(crate) fn size(&self) -> Option<u64> {
        fs::metadata(&self.program).ok().map(|about| about.len())
    }
}

/// Where a program is: the path itself if it has a slash, else beside this program, on `PATH`, or where Go installs.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.exists());
    }
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.to_path_buf()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let go = std::env::home_dir().map(|home| home.join("go/bin"));
    let places = beside.into_iter().chain(std::env::split_paths(&path)).chain(go);
    places.map(|place| place.join(program)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_name_and_by_path() {
        assert!(find("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(find("/bin/sh"), Some(PathBuf::from("/bin/sh")));
        assert_eq!((find("/no/such/program"), find("no-such-program")), (None, None));
        let own = std::env::current_exe().unwrap();
        assert_eq!(find(own.file_name().unwrap().to_str().unwrap()), Some(own));
    }
}
