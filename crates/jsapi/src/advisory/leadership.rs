//! Advisories about who leads, and about groups of replicas that cannot go on.
//!
//! Those about streams and consumers are published in the account (`account` empty), and with the
//! account's name in the system account.

use super::consumer::ConsumerRef;
use super::{Advisory, AdvisoryHeader, advisory};
use crate::api::info::ReplicaInfo;
use serde::Serialize;

/// Fields behind those of the header, in the reference's order.
#[derive(Default, Serialize)]
struct LeadershipBody<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    account: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    stream: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    consumer: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    leader: &'a str,
    replicas: &'a [ReplicaInfo],
    #[serde(skip_serializing_if = "str::is_empty")]
    cluster: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    domain: &'a str,
}

/// A server leads a stream with replicas. `replicas`: all of them, the leader's among them.
pub fn stream_leader_elected(
    header: AdvisoryHeader<'_>,
    (account, stream): (&str, &str),
    leader: &str,
    replicas: &[ReplicaInfo],
) -> Advisory {
    let domain = header.domain;
    let body = LeadershipBody { account, stream, leader, replicas, domain, ..LeadershipBody::default() };
    advisory(format!("STREAM.LEADER_ELECTED.{stream}"), "stream_leader_elected", header, body)
}

/// A stream has too few replicas that are there to go on.
pub fn stream_quorum_lost(
    header: AdvisoryHeader<'_>,
    (account, stream): (&str, &str),
    replicas: &[ReplicaInfo],
) -> Advisory {
    let domain = header.domain;
    let body = LeadershipBody { account, stream, replicas, domain, ..LeadershipBody::default() };
    advisory(format!("STREAM.QUORUM_LOST.{stream}"), "stream_quorum_lost", header, body)
}

/// A server leads a consumer with replicas.
pub fn consumer_leader_elected(
    header: AdvisoryHeader<'_>,
    (account, of): (&str, ConsumerRef<'_>),
    leader: &str,
    replicas: &[ReplicaInfo],
) -> Advisory {
    let (domain, ConsumerRef { stream, consumer }) = (header.domain, of);
    let body =
        LeadershipBody { account, stream, consumer, leader, replicas, domain, ..LeadershipBody::default() };
    advisory(of.subject("LEADER_ELECTED"), "consumer_leader_elected", header, body)
}

/// A consumer has too few replicas that are there to go on.
pub fn consumer_quorum_lost(
    header: AdvisoryHeader<'_>,
    (account, of): (&str, ConsumerRef<'_>),
    replicas: &[ReplicaInfo],
) -> Advisory {
    let (domain, ConsumerRef { stream, consumer }) = (header.domain, of);
    let body = LeadershipBody { account, stream, consumer, replicas, domain, ..LeadershipBody::default() };
    advisory(of.subject("QUORUM_LOST"), "consumer_quorum_lost", header, body)
}

/// A server leads the meta group: for the system account.
///
/// Compat: `leader` is its peer id here, as with the reference, and no name.
pub fn domain_leader_elected(
    header: AdvisoryHeader<'_>,
    leader: &str,
    replicas: &[ReplicaInfo],
    cluster: &str,
) -> Advisory {
    let domain = header.domain;
    let body = LeadershipBody { leader, replicas, cluster, domain, ..LeadershipBody::default() };
    advisory("DOMAIN.LEADER_ELECTED".to_owned(), "domain_leader_elected", header, body)
}

/// Fields of the next one, in the reference's order.
#[derive(Serialize)]
struct ServerRemovedBody<'a> {
    server: &'a str,
    server_id: &'a str,
    cluster: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    domain: &'a str,
}

/// A server was removed from the cluster, and says so itself: for the system account.
pub fn server_removed(
    header: AdvisoryHeader<'_>,
    (server, server_id): (&str, &str),
    cluster: &str,
) -> Advisory {
    let body = ServerRemovedBody { server, server_id, cluster, domain: header.domain };
    advisory("SERVER.REMOVED".to_owned(), "server_removed", header, body)
}

/// Quorum of the meta group, before and after a server has lowered it.
#[derive(Serialize)]
struct MetaRescueBody<'a> {
    server: &'a str,
    server_id: &'a str,
    prev_quorum: usize,
    new_quorum: usize,
    cluster: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    domain: &'a str,
}

/// A server has lowered the quorum that it needs of the meta group: for the system account.
pub fn meta_rescue(
    header: AdvisoryHeader<'_>,
    (server, server_id): (&str, &str),
    (prev_quorum, new_quorum): (usize, usize),
    cluster: &str,
) -> Advisory {
    let domain = header.domain;
    let body = MetaRescueBody { server, server_id, prev_quorum, new_quorum, cluster, domain };
    advisory("SERVER.META_RESCUE".to_owned(), "meta_rescue", header, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: AdvisoryHeader<'static> =
        AdvisoryHeader { id: "B4dt3NYpbpzoBEo6Izj5dc", time: 1_795_811_514_034_704_406, domain: "" };

    #[test]
    fn advisories_of_leaders_are_as_the_reference_writes_them() {
        let replica = ReplicaInfo {
            name: "n3".to_owned(),
            lag: 1,
            peer: "BXScrY9i".to_owned(),
            ..ReplicaInfo::default()
        };
        let said = stream_leader_elected(HEADER, ("$G", "B"), "n1", &[replica]);
        assert_eq!(said.subject, "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED.B");
        let body = r#"{"type":"io.nats.jetstream.advisory.v1.stream_leader_elected","id":"B4dt3NYpbpzoBEo6Izj5dc","timestamp":"2026-11-27T20:31:54.034704406Z","account":"$G","stream":"B","leader":"n1","replicas":[{"name":"n3","current":false,"active":0,"lag":1,"peer":"BXScrY9i"}]}"#;
        assert_eq!(String::from_utf8(said.body).unwrap(), body);
        let said = consumer_quorum_lost(HEADER, ("", ConsumerRef { stream: "B", consumer: "c" }), &[]);
        assert_eq!(said.subject, "$JS.EVENT.ADVISORY.CONSUMER.QUORUM_LOST.B.c");
        let said = domain_leader_elected(HEADER, "BXScrY9i", &[], "C1");
        let body = r#"{"type":"io.nats.jetstream.advisory.v1.domain_leader_elected","id":"B4dt3NYpbpzoBEo6Izj5dc","timestamp":"2026-11-27T20:31:54.034704406Z","leader":"BXScrY9i","replicas":[],"cluster":"C1"}"#;
        assert_eq!(String::from_utf8(said.body).unwrap(), body);
    }
}
