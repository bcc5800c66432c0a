//! JetStream's block of the banner: where it would store, and how much.
//!
//! Only says what is configured.

use crate::jetstream::{Capacity, directory};
use crate::lifecycle;
use crate::logging::Logger;
use myelin_conf::options::{JetStreamOptions, StoreCipher};
use std::fmt::{self, Display};

/// Prints the block if JetStream is configured.
pub(crate) fn print(log: &Logger, options: &JetStreamOptions) {
    if !options.enabled {
        return;
    }
    log.info("Starting JetStream");
    if options.store_dir.is_none() {
        log.warn("Temporary storage directory used, data could be lost on system reboot");
    }
    let capacity = Capacity::of(options);
    if options.max_memory_store.is_none() || options.max_file_store.is_none() {
        let (memory, disk) = (Bytes(capacity.memory), Bytes(capacity.disk));
        log.debug(format_args!("JetStream creating dynamic configuration - {memory} memory, {disk} disk"));
    }
    block(log, options, capacity);
}

fn block(log: &Logger, options: &JetStreamOptions, capacity: Capacity) {
    log.info("         https://docs.nats.io/jetstream");
    log.info("");
    log.info("---------------- JETSTREAM ----------------");
    if options.strict {
        log.info("  Strict:          true");
    }
    log.info(format_args!("  Max Memory:      {}", Bytes(capacity.memory)));
    log.info(format_args!("  Max Storage:     {}", Bytes(capacity.disk)));
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
}
