//! The server's part in groups of replicas: what other servers are told of it, and who hears which
//! of them are linked.

use myelin_broker::{Broker, PeerObserver};
use myelin_conf::options::Options;
use myelin_wire::peer::groups::{GroupServer, INTERNAL_ACCOUNTS};
use std::sync::Arc;

/// The server's part in groups of replicas.
#[derive(Clone)]
pub(crate) struct GroupPart {
    /// Terms that stand in INFO.
    pub(crate) server: GroupServer,
    /// Whoever drives the members: hears of links.
    pub(crate) observer: Arc<dyn PeerObserver>,
}

impl GroupPart {
    /// Makes the accounts by which the members of groups talk. To be called before anybody can
    /// subscribe.
    pub(crate) fn prepare(broker: &Broker) {
        broker.make_internal_accounts(&INTERNAL_ACCOUNTS);
    }
}

/// Whether a server with these options takes part in groups: it has JetStream, and is in a cluster.
pub(crate) fn takes_part(options: &Options) -> bool {
    options.jetstream.enabled && options.cluster.listener.port.is_some()
}

/// Checks that no account is called as one of the server's own.
pub(super) fn check_names(options: &Options) -> Result<(), String> {
    let configured = options.accounts.list.iter().map(|account| account.name.as_str());
    let pinned = options.cluster.pinned_accounts.iter().map(String::as_str);
    let mut named = configured.chain(pinned).chain(options.accounts.system_account());
    match named.find(|name| INTERNAL_ACCOUNTS.contains(name)) {
        None => Ok(()),
        Some(name) => Err(format!(
            "account {name:?}: the name is reserved for what servers say to each other about replicated streams"
        )),
    }
}
