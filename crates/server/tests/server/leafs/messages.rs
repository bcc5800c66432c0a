//! Messages between clients of a hub and of its leaf node.

use super::{Site, pairs, wait_for_interest};
use crate::eventually;
use crate::raw::Raw;
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
            b.send("SUB plain 1\r\nSUB wild.*.> 2\r\n");
            wait_for_interest(&mut a, &mut b);
            a.send("PUB plain 2\r\nhi\r\nPUB plain re 2\r\nhi\r\nPUB wild.a.b.c 0\r\n\r\n");
            a.send("HPUB plain 15 17\r\nNATS/1.0\r\nA\r\n\r\nhi\r\nPUB nobody 2\r\nhi\r\n");
            a.barrier();
            let got: Vec<_> = take(&mut b, 4)
                .into_iter()
                .map(|m| (m.subject.clone(), m.sid.clone(), m.reply.clone(), m.text().to_owned()))
                .collect();
            let plain = |reply: Option<&str>, text: &str| {
                ("plain".to_owned(), "1".to_owned(), reply.map(str::to_owned), text.to_owned())
            };
            let wild = ("wild.a.b.c".to_owned(), "2".to_owned(), None, String::new());
            let expected =
                [plain(None, "hi"), plain(Some("re"), "hi"), wild, plain(None, "NATS/1.0\r\nA\r\n\r\nhi")];
            assert_eq!(got, expected);
            assert!(b.barrier().is_empty(), "each message once");
        }
    }
}

#[test]
fn a_large_message_arrives_whole() {
    for sites in pairs("", "") {
        for (mut a, mut b) in each_way(&sites) {
            b.subscribe("large", 1);
            wait_for_interest(&mut a, &mut b);
            let body: String = (0..900_000).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
            a.publish("large", &body);
            assert_eq!(b.message().text(), body);
        }
    }
}

#[test]
fn a_request_finds_its_service_and_its_way_back() {
    for sites in pairs("", "") {
        for (mut a, mut b) in each_way(&sites) {
            b.subscribe("service", 1);
            wait_for_interest(&mut a, &mut b);
            for turn in 0..20 {
                a.send(&format!("SUB inbox.{turn} {turn}\r\nPUB service inbox.{turn} 1\r\n?\r\n"));
                let reply = b.message().reply.expect("requests have a reply");
                b.publish(&reply, "!");
                let answer = a.message();
                assert_eq!((answer.subject.as_str(), answer.text()), (reply.as_str(), "!"));
            }
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
