//! Banner of the server when it starts, in the reference's shape and order.

mod jetstream;

use crate::MYELIN_VERSION;
use crate::logging::Logger;
use myelin_auth::{ConnectionType, StoredSecret};
use myelin_conf::Loaded;
use myelin_conf::options::{Options, UNLIMITED_PAYLOAD, UserOptions};
use myelin_stdx::id;
use myelin_wire::REFERENCE_VERSION;
use sha2::{Digest, Sha256};

pub(crate) use jetstream::{
    announce as announce_jetstream, print as print_jetstream, print_capacity, warn_of_extension,
};

/// Payloads above this earn a warning.
const DISCOURAGED_PAYLOAD: u32 = 8 * 1024 * 1024;

/// Prints the first lines of the log.
pub(crate) fn print(log: &Logger, loaded: &Loaded, name: &str, id: &str) {
    let options = &loaded.options;
    log.info("Starting myelin-server");
    log.info(format_args!("  Version:  {REFERENCE_VERSION} (Myelin {MYELIN_VERSION})"));
    log.info("  Git:      [not set]");
    log.debug(format_args!("  Go build: myelin {MYELIN_VERSION}"));
    if let Some(cluster) = &options.cluster.name {
        log.info(format_args!("  Cluster:  {cluster}"));
    }
    log.info(format_args!("  Name:     {name}"));
    if options.jetstream.enabled {
        log.info(format_args!("  Node:     {}", node(name)));
    }
    log.info(format_args!("  ID:       {id}"));
    print_feature_flags(log, options);
    if has_plain_passwords(options) {
        log.warn("Plaintext passwords detected, use nkeys or bcrypt");
    }
    if let (Some(file), Some(digest)) = (&loaded.config_file, &loaded.config_digest) {
        log.info(format_args!("Using configuration file: {} ({digest})", file.display()));
    }
    let max_payload = options.limits.max_payload;
    if max_payload > DISCOURAGED_PAYLOAD && max_payload != UNLIMITED_PAYLOAD {
        log.warn(
            "Maximum payloads over 8.00 MB are generally discouraged and could lead to poor performance",
        );
    }
    if options.accounts.configured_system_account.is_none()
        && let Some(account) = options.accounts.system_account()
    {
        log.debug(format_args!("Created system account: {account:?}"));
    }
}

/// The server's name as one short token: how stores and clusters of the reference call it.
fn node(name: &str) -> String {
    id::short(&Sha256::digest(name)[..8])
}

fn print_feature_flags(log: &Logger, options: &Options) {
    let Some((configured, unsupported)) = options.identity.feature_flags.announced() else { return };
    let configured = if configured.is_empty() { "none".to_owned() } else { configured.join(", ") };
    log.info("  Feature flags:");
    log.info(format_args!("    Configured:    {configured}"));
    if !unsupported.is_empty() {
        log.info(format_args!("    Unsupported:   {}", unsupported.join(", ")));
    }
}

/// Compat: a token in the clear is not worth a warning, and who is known by a certificate needs no
/// password.
fn has_plain_passwords(options: &Options) -> bool {
    let from = &options.authorization;
    let maps = options.tls.as_ref().is_some_and(|tls| tls.verify_and_map);
    let is_mapped = |user: &&UserOptions| {
        let types = &user.connection_types;
        let is_client = types.is_empty() || types.contains(&ConnectionType::Standard);
        maps && is_client && user.password.reveal().is_empty()
    };
    let users = from.users.iter().filter(|user| !is_mapped(user));
    let passwords = users.map(|user| &user.password).chain(&from.password);
    passwords.map(|secret| StoredSecret::parse(secret.reveal())).any(|secret| !secret.is_slow())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen at nats-server 2.15.2.
    #[test]
    fn a_node_is_named_as_the_reference_names_it() {
        assert_eq!(node("foo"), "icujg7CJ");
    }
}
