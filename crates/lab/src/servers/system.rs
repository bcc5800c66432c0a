//! Server programs that rows are measured on: what kind they are, where they are found, what they
//! say about themselves.
//!
//! Starts nothing but `--version`. How a kind is started and talked to is that of `process` and,
//! for what does not speak NATS, of `others`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A server program with the name that reports use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct System {
    pub(crate) name: String,
    pub(crate) kind: SystemKind,
    /// The binary; of Kafka, the directory of its jars.
    pub(crate) program: PathBuf,
}

/// Kind of a system, by the protocol that it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SystemKind {
    Nats,
    Redis,
    RabbitMq,
    Kafka,
    /// Speaks MQTT only.
    Mosquitto,
}

impl System {
    /// A server that speaks NATS.
    pub(crate) fn nats(name: &str, program: &Path) -> Self {
        Self { name: name.to_owned(), kind: SystemKind::Nats, program: program.to_path_buf() }
    }

    /// Bytes of the program; of a directory, of all files in it.
    pub(crate) fn size(&self) -> Option<u64> {
        let about = fs::metadata(&self.program).ok()?;
        let files = if about.is_dir() { fs::read_dir(&self.program).ok() } else { None };
        match files {
            // Of a script nobody wants to know it.
            None => self.loaded_size().map(|_| about.len()),
            Some(files) => {
                Some(files.flatten().filter_map(|file| file.metadata().ok()).map(|about| about.len()).sum())
            }
        }
    }

    /// Bytes of the program that are loaded to run it: what it has besides is for debuggers.
    pub(crate) fn loaded_size(&self) -> Option<u64> {
        loaded(&fs::read(&self.program).ok()?)
    }
}

/// The bytes of the segments of an ELF file of 64 bits that are loaded.
fn loaded(file: &[u8]) -> Option<u64> {
    const LOADED: u32 = 1;
    let number = |at: usize| Some(u64::from_le_bytes(file.get(at..at + 8)?.try_into().ok()?));
    let short = |at: usize| Some(usize::from(u16::from_le_bytes(file.get(at..at + 2)?.try_into().ok()?)));
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, size, count) = (usize::try_from(number(0x20)?).ok()?, short(0x36)?, short(0x38)?);
    (0..count).try_fold(0_u64, |sum, place| {
        let at = table.checked_add(place * size)?;
        let sort = u32::from_le_bytes(file.get(at..at.checked_add(4)?)?.try_into().ok()?);
        sum.checked_add(if sort == LOADED { number(at.checked_add(0x20)?)? } else { 0 })
    })
}

/// Where a program is: the path itself if it has a slash, else beside this program, on `PATH`, or
/// where Go installs.
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
    fn what_is_loaded_of_a_program_is_less_than_the_file() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let size = loaded(&own).unwrap();
        assert!(size > 100_000 && size < own.len() as u64, "{size}");
        assert_eq!((loaded(b"#!/bin/sh\n"), loaded(&own[..0x38])), (None, None));
    }

    #[test]
    fn programs_are_found_by_name_and_by_path() {
        assert!(find("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(find("/bin/sh"), Some(PathBuf::from("/bin/sh")));
        assert_eq!((find("/no/such/program"), find("no-such-program")), (None, None));
        let own = std::env::current_exe().unwrap();
        assert_eq!(find(own.file_name().unwrap().to_str().unwrap()), Some(own));
    }
}
