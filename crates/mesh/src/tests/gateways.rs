//! Addresses for other clusters, as servers of a cluster tell them over routes.

use super::{LinkPair, Node, dial};
use crate::gateway::Gateways;
use crate::gateway::tests::gateways;
use myelin_wire::error::CloseReason;
use std::sync::Arc;

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
