//! Members of groups that do not take a message for which their server was chosen: others get it,
//! once, and it does not go round.

use super::peer::Peer;
use super::{address, cluster_of};
use crate::raw::{Message, Raw};
use crate::routes::wait_for_interest;
use myelin_mqtt::packet::Qos;

/// Messages of a client until this one.
fn until(raw: &mut Raw, subject: &str) -> Vec<Message> {
    let mut came = Vec::new();
    loop {
        let message = raw.message();
        if message.subject == subject {
            return came;
        }
        came.push(message);
    }
}

#[test]
fn a_message_that_no_member_takes_goes_nowhere_again() {
    let servers = cluster_of::<3>();
    let mut clients: Vec<_> = servers.iter().map(|(server, _)| Raw::connect(server)).collect();
    for raw in &mut clients {
        raw.send("SUB $K.> 1\r\nSUB first 2\r\nSUB last 3\r\n");
        raw.barrier();
    }
    // What begins with `$` is not for `#`.
    let members = servers.iter().zip(["a", "b", "c"]);
    let members = members.map(|((server, _), id)| Peer::connect5(address(server), id));
    let mut members: Vec<_> = members.collect();
    for member in &mut members {
        assert_eq!(member.subscribe_with(&[("$share/g/#", Qos::AtMostOnce)]), [0]);
    }
    for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
        let mut dialled = [from, to].map(|at| Raw::connect(&servers[at].0));
        let [from, to] = &mut dialled;
        wait_for_interest(from, to);
    }
    for at in 0..50 {
        clients[0].publish("$K.x", &at.to_string());
    }
    clients[0].publish("first", "");
    for raw in &mut clients {
        assert_eq!(until(raw, "first").len(), 50);
    }
    // What went round would have come since.
    clients[0].publish("last", "");
    for raw in &mut clients {
        assert_eq!(until(raw, "last").len(), 0);
    }
}
