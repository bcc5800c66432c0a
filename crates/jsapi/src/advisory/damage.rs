//! Advisories about replicas that have lost something which others of their group have. Ours: the
//! reference has no such repair.
//!
//! They are published in the account (`account` empty), and with the account's name in the system
//! account.

use super::{Advisory, AdvisoryHeader, advisory};
use serde::Serialize;

#[derive(Serialize)]
struct DamageBody<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    account: &'a str,
    stream: &'a str,
    server: &'a str,
    cluster: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    domain: &'a str,
}

/// The replica of a stream on a server is damaged: it neither leads nor answers until it has all
/// from another server.
pub fn stream_replica_damaged(
    header: AdvisoryHeader<'_>,
    (account, stream): (&str, &str),
    (server, cluster): (&str, &str),
) -> Advisory {
    let body = DamageBody { account, stream, server, cluster, domain: header.domain };
    advisory(format!("STREAM.REPLICA_DAMAGED.{stream}"), "stream_replica_damaged", header, body)
}

/// A replica that was damaged has all from another server.
pub fn stream_replica_repaired(
    header: AdvisoryHeader<'_>,
    (account, stream): (&str, &str),
    (server, cluster): (&str, &str),
) -> Advisory {
    let body = DamageBody { account, stream, server, cluster, domain: header.domain };
    advisory(format!("STREAM.REPLICA_REPAIRED.{stream}"), "stream_replica_repaired", header, body)
}
