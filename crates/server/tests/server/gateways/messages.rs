//! Messages between clients of two clusters.

use super::{Site, joined, pairs};
use crate::raw::Raw;
use crate::routes::{MIXES, free_port, messages, wait_for_interest};

#[test]
fn a_message_reaches_subscribers_of_another_cluster() {
    for [one, two] in pairs("") {
        for (here, there) in [(&one, &two), (&two, &one)] {
            let (mut a, mut b) = (here.client(), there.client());
            joined(&mut a, &mut b);
            messages::plain_and_wild(&mut a, &mut b);
        }
    }
}

#[test]
fn a_large_message_arrives_whole() {
    for [one, two] in pairs("") {
        let (mut a, mut b) = (one.client(), two.client());
        messages::large(&mut a, &mut b);
        messages::large(&mut b, &mut a);
    }
}

#[test]
fn a_request_finds_its_service_and_its_way_back() {
    for [one, two] in pairs("") {
        for (here, there) in [(&one, &two), (&two, &one)] {
            let (mut a, mut b) = (here.client(), there.client());
            joined(&mut a, &mut b);
            messages::requests(&mut a, &mut b);
        }
    }
}

#[test]
fn a_queue_group_is_served_in_its_own_cluster_first() {
    for [one, two] in pairs("") {
        for (here, there) in [(&one, &two), (&two, &one)] {
            let (mut a, mut b, mut c) = (here.client(), there.client(), here.client());
            b.send("SUB work.* group 1\r\n");
            c.send("SUB work.* group 2\r\nSUB work.* other 3\r\n");
            wait_for_interest(&mut a, &mut b);
            c.barrier();
            for turn in 0..20 {
                a.publish(&format!("work.{turn}"), "x");
            }
            a.barrier();
            let mut got: Vec<_> = (0..40).map(|_| c.message().sid).collect();
            got.sort();
            assert_eq!(got, [vec!["2".to_owned(); 20], vec!["3".to_owned(); 20]].concat());
            c.send("UNSUB 2\r\n");
            c.barrier();
            for turn in 0..20 {
                a.publish(&format!("work.{turn}"), "far");
            }
            a.barrier();
            for turn in 0..20 {
                let message = b.message();
                assert_eq!((message.subject, message.sid), (format!("work.{turn}"), "1".to_owned()));
            }
            assert!(b.barrier().is_empty(), "nothing of what was served at home");
        }
    }
}

#[test]
fn what_nobody_wants_does_not_cross() {
    for [one, two] in pairs("") {
        let (mut a, mut b) = (one.client(), two.client());
        b.subscribe("wanted", 1);
        wait_for_interest(&mut a, &mut b);
        let before = two.server.page("/varz")["in_msgs"].as_u64();
        for turn in 0..1000 {
            a.publish(&format!("unwanted.{turn}"), "x");
        }
        a.barrier();
        a.publish("wanted", "x");
        b.message();
        let after = two.server.page("/varz")["in_msgs"].as_u64();
        assert!(after.unwrap() - before.unwrap() < 20, "{before:?} {after:?}");
    }
}

/// A server that knows no headers gets messages without them.
#[test]
fn headers_are_left_out_where_a_cluster_has_none() {
    for kinds in MIXES {
        let ports = [free_port(), free_port()];
        let one = Site::start(kinds[0], ("A1", "A", ports[0]), &[], "", "");
        let without = "no_header_support: true";
        let two = Site::start(kinds[1], ("B1", "B", ports[1]), &[("A", ports[0])], "", without);
        let (Some(one), Some(two)) = (one, two) else { continue };
        let (mut a, mut b) = (one.client(), login_without_headers(&two));
        b.send("SUB plain 1\r\nSUB work group 2\r\n");
        joined(&mut a, &mut b);
        a.send("HPUB plain re 15 17\r\nNATS/1.0\r\nA\r\n\r\nhi\r\nHPUB work 15 17\r\nNATS/1.0\r\nA\r\n\r\nho\r\n");
        for (sid, reply, text) in [("1", Some("re"), "hi"), ("2", None, "ho")] {
            let message = b.message();
            assert_eq!(
                (&*message.sid, message.reply.as_deref(), message.text()),
                (sid, reply, text),
                "{kinds:?}"
            );
        }
    }
}

fn login_without_headers(site: &Site) -> Raw {
    let mut raw = Raw::open(site.server.address());
    raw.send("CONNECT {\"verbose\":false}\r\n");
    raw.barrier();
    raw
}
