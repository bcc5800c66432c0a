//! JetStream's block of the banner: where it would store, and how much.
//!
//! Only says what is configured.

use crate::jetstream::{Capacity, directory, is_beside};
use crate::lifecycle;
use crate::logging::Logger;
use myelin_conf::Bytes;
use myelin_conf::options::{JetStreamOptions, StoreCipher};

/// Says that JetStream starts, and what the operator should know of the directory.
pub(crate) fn announce(log: &Logger, options: &JetStreamOptions) {
    log.info("Starting JetStream");
    if options.store_dir.is_none() {
        log.warn("Temporary storage directory used, data could be lost on system reboot");
    }
    if is_beside(options) {
        log.warn(
            "Default storage directory is in use by another server, this one has a directory of its own",
        );
    }
}

/// Says how much may be stored where that is not configured.
pub(crate) fn print_capacity(log: &Logger, options: &JetStreamOptions, capacity: Capacity) {
    // Compat: nothing is said to be dynamic, too.
    if options.max_memory_store.unwrap_or(0) == 0 || options.max_file_store.unwrap_or(0) == 0 {
        let (memory, disk) = (Bytes(capacity.memory), Bytes(capacity.disk));
        log.debug(format_args!("JetStream creating dynamic configuration - {memory} memory, {disk} disk"));
    }
}

/// Prints the block of a JetStream that has a directory.
pub(crate) fn print(log: &Logger, options: &JetStreamOptions, capacity: Capacity) {
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

/// Says that the hub does not take this server's JetStream into its own. Compat: the second line
/// names what the reference would need for that.
pub(crate) fn warn_of_extension(log: &Logger) {
    log.info("Standalone server started in clustered mode do not support extending domains");
    let hint = "\"extension_hint: will_extend\"";
    log.info(format_args!("Manually disable standalone mode by setting the JetStream Option {hint}"));
}
