//! Messages between clients of a hub and of its leaf node.

use super::{Site, pairs, wait_for_interest};
use crate::eventually;
use crate::raw::Raw;
use crate::routes::messages::{large, plain_and_wild, requests};
use crate::routes::take;

/// Clients of both, in both orders.
fn each_way(sites: &[Site; 2]) -> [(Raw, Raw); 2] {
    let [hub, leaf] = sites;
    [(hub.client(), leaf.client()), (leaf.client(), hub.client())]
}

#[test]
fn a_message_reaches_subscribers_on_the_other_side() {
    for sites in pairs("", "") {
        for (mut a, mut b) in each_way(&sites) {
            plain_and_wild(&mut a, &mut b);
        }
    }
}

#[test]
fn a_large_message_arrives_whole() {
    for sites in pairs("", "") {
        for (mut a, mut b) in each_way(&sites) {
            large(&mut a, &mut b);
        }
    }
}

#[test]
fn a_request_finds_its_service_and_its_way_back() {
    for sites in pairs("", "") {
        for (mut a, mut b) in each_way(&sites) {
            requests(&mut a, &mut b);
        }
    }
}

#[test]
fn nobody_answers_a_request_that_nobody_hears_on_either_side() {
    for sites in pairs("", "") {
        for (mut a, mut b) in each_way(&sites) {
            b.subscribe("here", 1);
            wait_for_interest(&mut a, &mut b);
            a.send("SUB inbox 7\r\nPUB none inbox 0\r\n\r\nPUB here inbox 0\r\n\r\n");
            let told = a.message();
            assert!(told.text().starts_with("NATS/1.0 503"), "{told:?}");
            assert_eq!(b.message().subject, "here");
            assert!(a.barrier().is_empty(), "somebody hears the second request");
            b.send("UNSUB 1\r\n");
            b.barrier();
            eventually("interest is gone", || {
                a.send("PUB here inbox 0\r\n\r\n");
                a.barrier().iter().any(|message| message.text().starts_with("NATS/1.0 503"))
            });
        }
    }
}

#[test]
fn a_queue_group_has_one_member_and_rather_one_that_is_near() {
    for sites in pairs("", "") {
        for ((mut a, mut b), near) in each_way(&sites).into_iter().zip(&sites) {
            b.send("SUB work q 1\r\nSUB work q 2\r\n");
            wait_for_interest(&mut a, &mut b);
            for _ in 0..20 {
                a.publish("work", "far");
            }
            a.barrier();
            assert_eq!(take(&mut b, 20).len(), 20);
            assert!(b.barrier().is_empty(), "one member for each message");
            let mut near = near.client();
            near.send("SUB work q 3\r\n");
            near.barrier();
            for _ in 0..20 {
                a.publish("work", "near");
            }
            a.barrier();
            assert_eq!(take(&mut near, 20).len(), 20);
            wait_for_interest(&mut a, &mut b);
            assert!(b.barrier().is_empty(), "who is near is preferred");
        }
    }
}
