//! What the server says of itself when it starts, in the reference's shape.

use crate::MYELIN_VERSION;
use crate::logging::Logger;
use myelin_auth::StoredSecret;
use myelin_conf::Loaded;
use myelin_conf::options::Options;
use myelin_wire::REFERENCE_VERSION;

/// Payloads above this earn a warning.
const DISCOURAGED_PAYLOAD: u32 = 8 * 1024 * 1024;

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
    let options = &loaded.options;
    if options.limits.max_payload > DISCOURAGED_PAYLOAD {
        log.warn(
            "Maximum payloads over 8.00 MB are generally discouraged and could lead to poor performance",
        );
    }
    if has_plain_passwords(options) {
        log.warn("Plaintext passwords detected, use nkeys or bcrypt");
    }
    if options.jetstream.enabled {
        log.warn(
            "JetStream is not part of this version of Myelin: streams are not available, core messaging is",
        );
    }
}

fn has_plain_passwords(options: &Options) -> bool {
    let from = &options.authorization;
    let of_users = from.users.iter().map(|user| &user.password);
    let all = of_users.chain(&from.password).chain(&from.token);
    all.map(|secret| StoredSecret::parse(secret.reveal())).any(|secret| !secret.is_slow())
}
