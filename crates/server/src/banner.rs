//! What the server says of itself when it starts, in the reference's shape.

use crate::MYELIN_VERSION;
use crate::logging::Logger;
use myelin_conf::Loaded;
use myelin_wire::REFERENCE_VERSION;

/// Prints the first lines of the log.
pub(crate) fn print(log: &Logger, loaded: &Loaded, name: &str, id: &str) {
    log.info("Starting myelin-server");
    log.info(format_args!("  Version:  {REFERENCE_VERSION} (Myelin {MYELIN_VERSION})"));
    log.info("  Git:      [not set]");
    log.info(format_args!("  Name:     {name}"));
    log.info(format_args!("  ID:       {id}"));
    if let (Some(file), Some(digest)) = (&loaded.config_file, &loaded.config_digest) {
        log.info(format_args!("Using configuration file: {} ({digest})", file.display()));
    }
    if loaded.options.jetstream.enabled {
        log.warn(
            "JetStream is not part of this version of Myelin: streams are not available, core messaging is",
        );
    }
}
