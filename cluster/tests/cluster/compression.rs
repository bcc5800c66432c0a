//! Modes of compression that two servers come to, as `/routez` shows them, beside the pure choice.

use crate::programs::mixes;
use myelin_cluster_test::{Cluster, ClusterPlan, PATIENCE, wait_for};
use myelin_wire::s2::S2Level;
use myelin_wire::s2::mode::{AgreedCompression, CompressionMode, negotiate};
use std::io::{Read, Write};
use std::net::TcpStream;

/// Modes as configurations write them; two of each that does not say itself what is sent.
const MODES: [(&str, CompressionMode); 9] = [
    ("not supported", CompressionMode::NotSupported),
    ("off", CompressionMode::Off),
    ("accept", CompressionMode::Accept),
    ("accept", CompressionMode::Accept),
    ("s2_fast", CompressionMode::S2(S2Level::Fast)),
    ("s2_better", CompressionMode::S2(S2Level::Better)),
    ("s2_best", CompressionMode::S2(S2Level::Best)),
    ("s2_auto", CompressionMode::Auto),
    ("s2_auto", CompressionMode::Auto),
];

/// Name of the outcome at a round trip within the first threshold.
fn shown(agreed: AgreedCompression) -> &'static str {
    match agreed {
        AgreedCompression::Auto => AgreedCompression::S2(S2Level::Uncompressed).name(),
        agreed => agreed.name(),
    }
}

/// Modes that a server shows of its routes to another one.
fn modes_between(cluster: &Cluster, one: usize, other: usize) -> Vec<String> {
    let page = cluster.page(one, "/routez").unwrap_or_default();
    let routes = page["routes"].as_array().cloned().unwrap_or_default();
    let of_other = routes.iter().filter(|route| route["remote_name"] == *cluster.name(other));
    of_other.filter_map(|route| route["compression"].as_str().map(ToOwned::to_owned)).collect()
}

#[test]
fn every_two_modes_come_to_what_is_expected() {
    for mix in mixes() {
        let mut plan = ClusterPlan::of(&mix.programs, MODES.len());
        plan.cluster = MODES
            .iter()
            .map(|(mode, _)| {
                // So that a slow machine stays within the first threshold.
                let mode = match *mode {
                    "s2_auto" => "{ mode: s2_auto, rtt_thresholds: [ 30s, 40s, 50s ] }".to_owned(),
                    mode => format!("{mode:?}"),
                };
                format!("pool_size: -1\n  compression: {mode}")
            })
            .collect();
        let cluster = Cluster::start(&plan).unwrap_or_else(|why| panic!("{}: {why}", mix.name));
        for (one, (_, ours)) in MODES.iter().enumerate() {
            for (other, (_, theirs)) in MODES.iter().enumerate().filter(|(other, _)| *other != one) {
                let agreed = negotiate(*ours, Some(theirs.name())).expect("a name");
                let expected = shown(agreed);
                // Of two servers that dial each other at once both connections may end as the
                // second one, until one of them has dialled again.
                let found = wait_for("a route", || {
                    Some(modes_between(&cluster, one, other)).filter(|all| !all.is_empty())
                })
                .unwrap_or_else(|why| panic!("{}: {ours:?} beside {theirs:?}: {why}", mix.name));
                for found in found {
                    assert_eq!(found, expected, "{}: {ours:?} beside {theirs:?}", mix.name);
                }
            }
        }
    }
}

#[test]
fn a_mode_that_nobody_knows_ends_the_link() {
    for mix in mixes() {
        for (ours, is_refused) in [("s2_fast", true), ("accept", true), ("off", false)] {
            let mut plan = ClusterPlan::of(&mix.programs, 1);
            plan.cluster = vec![format!("compression: {ours}")];
            let cluster = Cluster::start(&plan).expect("a server");
            let mut peer = TcpStream::connect(cluster.route_address(0)).expect("it listens");
            peer.set_read_timeout(Some(PATIENCE)).expect("a time is set");
            let info = "{\"server_id\":\"PEER\",\"server_name\":\"peer\",\"version\":\"2.15.2\",\"proto\":1,\
                        \"headers\":true,\"cluster\":\"test0\",\"compression\":\"zstd\"}";
            let connect = "{\"name\":\"PEER\",\"cluster\":\"test0\",\"headers\":true,\"protocol\":1}";
            let opening = format!("CONNECT {connect}\r\nINFO {info}\r\nPING\r\n");
            peer.write_all(opening.as_bytes()).expect("it reads");
            let (mut said, mut room) = (String::new(), [0; 4096]);
            while !said.contains("PONG\r\n") {
                let count = peer.read(&mut room).expect("it answers or ends the link");
                said.push_str(&String::from_utf8_lossy(&room[..count]));
                if count == 0 {
                    break;
                }
            }
            let refusal = "-ERR 'unsupported route compression mode \"zstd\"'\r\n";
            assert_eq!(said.contains(refusal), is_refused, "{} {ours}: {said}", mix.name);
            assert_ne!(said.contains("PONG\r\n"), is_refused, "{} {ours}: {said}", mix.name);
        }
    }
}

#[test]
fn messages_pass_in_every_mode() {
    for mix in mixes() {
        for mode in ["off", "s2_fast", "s2_better", "s2_best", "s2_auto"] {
            let mut plan = ClusterPlan::of(&mix.programs, 2);
            plan.cluster = vec![format!("compression: {mode}")];
            let mut cluster = Cluster::start(&plan).expect("a cluster");
            let mut receiver = cluster.client(1).expect("a client");
            receiver.subscribe("a.>", None);
            receiver.settle().expect("it answers");
            cluster.settle().expect("interest");
            let sender = cluster.client(0).expect("a client");
            let json = br#"{"id":1,"name":"somebody","tags":["a","b","c"]}"#.repeat(4000);
            let noise: Vec<u8> =
                (0..900_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
            let payloads = [&b""[..], b"x", &json, &noise, &json[..31], &json[..1000]];
            for (n, payload) in payloads.iter().enumerate() {
                sender.publish(&format!("a.{n}"), None, payload);
            }
            receiver
                .wait_for("all messages", |all| (all.len() >= payloads.len()).then_some(()))
                .unwrap_or_else(|why| panic!("{} {mode}: {why}", mix.name));
            for (n, delivery) in receiver.deliveries(0).iter().enumerate() {
                assert_eq!(delivery.subject, format!("a.{n}"));
                assert!(delivery.payload == payloads[n], "{} {mode}: {n}", mix.name);
            }
        }
    }
}
