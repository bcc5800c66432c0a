//! Changes of `gateway{}`.

use super::{Changes, NotReloadable};
use crate::options::{GatewayOptions, Options, TlsOptions};
use std::time::Duration;

impl Changes<'_> {
    /// Of it only other certificates are reloaded.
    pub(super) fn gateway(&mut self) {
        if without_certificates(&self.old.gateway) == without_certificates(&self.new.gateway) {
            return;
        }
        let shown = |options: &Options| {
            let gateway = &options.gateway;
            let port = gateway.listener.port.map_or(0, super::Port::to_number);
            format!("{{{} {} {port}}}", gateway.name.as_deref().unwrap_or_default(), gateway.listener.host)
        };
        let (old, new) = (shown(self.old), shown(self.new));
        self.refuse(NotReloadable::Field { field: "Gateway", old, new });
    }
}

/// The rest of TLS beside certificates: its time limit, and how it knows who comes in.
type TlsRules = (Option<Duration>, bool, bool);

/// The options without certificates, and the rest of TLS: of the gateway, and of other clusters.
/// Compat: their order does not matter.
fn without_certificates(
    options: &GatewayOptions,
) -> (GatewayOptions, Option<TlsRules>, Vec<Option<TlsRules>>) {
    let rules = |tls: &TlsOptions| (tls.timeout, tls.verify_and_map, tls.verify_known_urls);
    let mut options = options.clone();
    options.gateways.sort_by(|a, b| a.name.cmp(&b.name));
    let own = options.tls.take().map(|tls| rules(&tls));
    // Compat: other clusters have the time limit only.
    let of_remote = |tls: TlsOptions| (tls.timeout, false, false);
    let remotes = options.gateways.iter_mut().map(|remote| remote.tls.take().map(of_remote)).collect();
    (options, own, remotes)
}
