//! Addresses of this cluster, as its servers tell them.

use super::config::GatewayConfig;
use super::remote::GatewayRemote;
use super::{GatewayHost, Gateways, ToldPlace};
use crate::certificate::CertificateRules;
use myelin_wire::peer::info::PeerInfo;
use std::sync::Arc;
use std::time::Duration;

struct NoHost;

impl GatewayHost for NoHost {
    fn dial(&self, _: Arc<GatewayRemote>, _: bool) {}
}

/// Gateways of a cluster A without others, of a server at this address.
pub(crate) fn gateways(url: &str) -> Arc<Gateways> {
    let config = GatewayConfig {
        info: PeerInfo { gateway: "A".into(), ..PeerInfo::default() },
        url: url.into(),
        login: None,
        certificates: CertificateRules::default(),
        tls_required: false,
        remotes: Vec::new(),
        rejects_unknown: false,
        connect_retries: 0,
        connect_backoff: false,
        connect_error_reports: 1,
        reconnect_error_reports: 1,
        ping_interval: Duration::from_secs(1),
        ping_max: 2,
        auth_timeout: Duration::from_secs(1),
    };
    Gateways::new(config, Arc::new(NoHost))
}

/// A server that says another address, or none any more, takes back the one that it has said.
#[test]
fn an_address_goes_with_the_server_that_has_told_it() {
    let gateways = gateways("own:1");
    let urls = |server: &str, url: Option<&str>| {
        let told = |url: &str| ToldPlace { url: url.to_owned(), takes_part: false };
        gateways.note_url(server, || url.map(told));
        gateways.urls()
    };
    assert_eq!(urls("S1", Some("a:1")), ["a:1", "own:1"]);
    assert_eq!(urls("S2", Some("a:1")), ["a:1", "own:1"]);
    assert_eq!(urls("S1", Some("b:1")), ["a:1", "b:1", "own:1"]);
    assert_eq!(urls("S1", Some("b:1")), ["a:1", "b:1", "own:1"]);
    assert_eq!(urls("S2", None), ["b:1", "own:1"]);
    assert_eq!(urls("S2", None), ["b:1", "own:1"]);
    assert_eq!(urls("S1", None), ["own:1"]);
}
