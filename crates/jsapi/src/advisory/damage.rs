//! Advisories about replicas that have lost something which others of their group have, or that are
//! not as those are. Ours: the reference has no such repair.
//!
//! They are published in the account (`account` empty), and with the account's name in the system
//! account.

use super::{Advisory, AdvisoryHeader, advisory};
use serde::Serialize;

/// Whatever is told of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaNews {
    /// Damaged: it neither leads nor answers until it has all from another server.
    Damaged,
    /// Another one than most of its group, though their logs are the same: a bug. The same follows.
    Disagreed,
    /// Damaged, or another one, before, and as whole now as the one from which it has everything.
    Repaired,
}

/// The clock of a server is not as those of most: by so many nanoseconds ahead, or behind.
pub fn clock_off(header: AdvisoryHeader<'_>, ahead: i64, (server, cluster): (&str, &str)) -> Advisory {
    #[derive(Serialize)]
    struct ClockBody<'a> {
        server: &'a str,
        cluster: &'a str,
        ahead: i64,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
    }
    let body = ClockBody { server, cluster, ahead, domain: header.domain };
    advisory("SERVER.CLOCK_OFF".to_owned(), "server_clock_off", header, body)
}

/// The replica of a stream on a server is damaged, or was repaired.
pub fn stream_replica(
    header: AdvisoryHeader<'_>,
    news: ReplicaNews,
    (account, stream): (&str, &str),
    (server, cluster): (&str, &str),
) -> Advisory {
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
    let (token, kind) = match news {
        ReplicaNews::Damaged => ("DAMAGED", "stream_replica_damaged"),
        ReplicaNews::Disagreed => ("DISAGREED", "stream_replica_disagreed"),
        ReplicaNews::Repaired => ("REPAIRED", "stream_replica_repaired"),
    };
    let body = DamageBody { account, stream, server, cluster, domain: header.domain };
    advisory(format!("STREAM.REPLICA_{token}.{stream}"), kind, header, body)
}
