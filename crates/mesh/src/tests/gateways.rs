//! Addresses for other clusters, as servers of a cluster tell them over routes.

use super::{KeptBytes, LinkPair, Node, dial};
use crate::PeerSession;
use crate::gateway::session::{GatewayDial, GatewaySession};
use crate::gateway::tests::gateways;
use crate::gateway::{Gateways, ToldPlace};
use myelin_broker::Endpoint;
use myelin_wire::error::CloseReason;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

fn with_gateway(name: &str) -> (Node, Arc<Gateways>) {
    let (node, gateways) = (Node::new(name, "C", false, 1), gateways(&format!("{name}:1")));
    node.mesh.set_gateways(&gateways);
    (node, gateways)
}

/// Whoever sees the last route to a server go may say so late, when there is another one already.
#[test]
fn an_address_stays_as_long_as_a_route_says_it() {
    let ((mut a, own), (mut b, _)) = (with_gateway("A"), with_gateway("B"));
    let mut first = LinkPair::new(&mut a, &mut b, dial(None));
    assert_eq!(own.urls(), ["A:1", "B:1"]);
    for session in [&mut first.dialler.0, &mut first.acceptor.0] {
        session.end(CloseReason::ReadError).expect("it was open").run();
    }
    assert_eq!(own.urls(), ["A:1"]);
    let _second = LinkPair::new(&mut a, &mut b, dial(None));
    a.mesh.note_gateway_url("NB");
    assert_eq!(own.urls(), ["A:1", "B:1"], "it is said late that the first one is gone");
}

/// A server of the cluster comes while another cluster's is on its way in.
#[test]
fn what_changes_during_the_handshake_is_told_behind_it() {
    for comes in [false, true] {
        let (mut node, own) = (Node::new("A", "A", false, 1), gateways("own:1"));
        let socket = KeptBytes::default();
        let peer = "127.0.0.1:5".parse().unwrap();
        let endpoint = Endpoint { peer, start: SystemTime::now() };
        let conn = node.broker.connect_gateway(endpoint, Box::new(socket.clone()));
        let now = Instant::now();
        let mut session = GatewaySession::open(&own, &node.broker, &conn, GatewayDial::Accepted, now);
        session.greet(&mut node.shard, now);
        if comes {
            own.note_url("S1", || Some(ToldPlace { url: "other:1".to_owned(), takes_part: true }));
        }
        let dialler = b"CONNECT {\"gateway\":\"B\"}\r\n\
                        INFO {\"server_id\":\"NB\",\"server_name\":\"B\",\"gateway\":\"B\"}\r\n";
        session.ingest(&mut node.shard, dialler, None, now);
        node.shard.flush_link(&conn);
        node.shard.flush();
        let said = String::from_utf8(socket.0.lock().unwrap().clone()).unwrap();
        let infos: Vec<_> = said.lines().filter(|line| line.starts_with("INFO ")).collect();
        let infos: Vec<_> = infos.into_iter().filter(|line| !line.contains("gateway_cmd")).collect();
        assert_eq!(infos.len(), if comes { 2 } else { 1 }, "{said}");
        assert_eq!(infos.last().unwrap().contains("other:1"), comes, "{said}");
    }
}
