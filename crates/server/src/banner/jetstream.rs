//! JetStream's block of the banner: where it would store, and how much.
//!
//! Only says what is configured. Nothing is stored yet, and the last line says that.

use crate::logging::Logger;
use crate::{lifecycle, process};
use myelin_conf::options::{JetStreamOptions, StoreCipher};
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

/// Bytes of memory and of disk where the system does not say what it has.
const UNKNOWN_MEMORY: u64 = 256 * 1024 * 1024;
const UNKNOWN_DISK: u64 = 1024 * 1024 * 1024 * 1024;

/// The folder under the store directory.
const FOLDER: &str = "jetstream";

/// Prints the block if JetStream is configured.
pub(crate) fn print(log: &Logger, options: &JetStreamOptions) {
    if !options.enabled {
        return;
    }
    log.info("Starting JetStream");
    if options.store_dir.is_none() {
        log.warn("Temporary storage directory used, data could be lost on system reboot");
    }
    let limits = Limits::of(options);
    if options.max_memory_store.is_none() || options.max_file_store.is_none() {
        let Limits { memory, disk } = &limits;
        log.debug(format_args!("JetStream creating dynamic configuration - {memory} memory, {disk} disk"));
    }
    block(log, options, &limits);
    log.warn("JetStream is not part of this version of Myelin: streams are not available, core messaging is");
}

fn block(log: &Logger, options: &JetStreamOptions, limits: &Limits) {
    log.info("         https://docs.nats.io/jetstream");
    log.info("");
    log.info("---------------- JETSTREAM ----------------");
    if options.strict {
        log.info("  Strict:          true");
    }
    log.info(format_args!("  Max Memory:      {}", limits.memory));
    log.info(format_args!("  Max Storage:     {}", limits.disk));
    log.info(format_args!("  Store Directory: \"{}\"", directory(options).display()));
    if let Some(domain) = &options.domain {
        log.info(format_args!("  Domain:          {domain}"));
    }
    if options.encryption_key.is_some() {
        let cipher = match options.cipher {
            StoreCipher::ChaCha => "ChaCha20-Poly1305",
            StoreCipher::Aes => "AES-GCM",
        };
        log.info(format_args!("  Encryption:      {cipher}"));
    }
    log.info(format_args!("  API Level:       {}", lifecycle::API_LEVEL));
    log.info("-------------------------------------------");
}

fn directory(options: &JetStreamOptions) -> PathBuf {
    let parent = options.store_dir.clone().unwrap_or_else(|| std::env::temp_dir().join("nats"));
    parent.join(FOLDER)
}

/// What may be stored.
struct Limits {
    memory: Bytes,
    disk: Bytes,
}

impl Limits {
    /// As configured, else three quarters of what this machine has.
    fn of(options: &JetStreamOptions) -> Self {
        let most = |bytes: u64| bytes / 4 * 3;
        let memory = || process::memory_of_machine().map_or(UNKNOWN_MEMORY, most);
        let disk = || free_space(&directory(options)).map_or(UNKNOWN_DISK, most);
        Self {
            memory: Bytes(options.max_memory_store.unwrap_or_else(memory)),
            disk: Bytes(options.max_file_store.unwrap_or_else(disk)),
        }
    }
}

/// Free bytes of the disk that holds `path`, or would.
fn free_space(path: &Path) -> Option<u64> {
    let present = path.ancestors().find(|ancestor| ancestor.exists())?;
    let disk = rustix::fs::statvfs(present).ok()?;
    Some(disk.f_bavail * disk.f_frsize)
}

/// A number of bytes as the banner shows it: `17.66 GB`, in powers of 1024.
#[derive(Debug, Clone, Copy)]
struct Bytes(u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KB", "MB", "GB", "TB", "PB", "EB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let power = self.0.ilog2() / 10;
        let scaled = self.0 as f64 / (1u64 << (10 * power)) as f64;
        write!(f, "{scaled:.2} {}", UNITS[power as usize - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_the_largest_unit_that_fits() {
        for (bytes, shown) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KB"),
            (1_000_000_000, "953.67 MB"),
            (20_000_000_000, "18.63 GB"),
            (u64::MAX, "16.00 EB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), shown);
        }
    }

    #[test]
    fn the_disk_of_a_folder_that_is_not_there_yet_is_its_parents() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("a/b/jetstream");
        // The same disk, however much others write to it meanwhile.
        assert!(free_space(&absent).unwrap() > 0);
    }
}
