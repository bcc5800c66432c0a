//! Interest over servers that come, go and come back.

use super::{Member, Ours, Reference, ServerKind, cluster, free_port, settle, take, wait_for_interest};
use crate::eventually;

#[test]
fn a_server_that_joins_is_told_what_is_wanted() {
    for kinds in [[Ours, Ours], [Ours, Reference], [Reference, Ours]] {
        let port = free_port();
        let Some(first) = Member::start(kinds[0], "S0", port, &[], "") else { continue };
        let mut a = first.client();
        for at in 0..3000 {
            a.subscribe(&format!("subject.{at}"), at);
        }
        a.send("SUB group q 5000\r\n");
        a.barrier();
        let Some(second) = Member::start(kinds[1], "S1", free_port(), &[port], "") else { continue };
        let members = [first, second];
        settle(&members);
        let mut b = members[1].client();
        wait_for_interest(&mut b, &mut a);
        for at in [0, 1, 1499, 2999] {
            b.publish(&format!("subject.{at}"), "x");
        }
        b.publish("group", "x");
        b.barrier();
        let got: Vec<_> = take(&mut a, 5).into_iter().map(|message| message.sid).collect();
        assert_eq!(got, ["0", "1", "1499", "2999", "5000"]);
    }
}

#[test]
fn a_server_that_is_killed_comes_back() {
    for kinds in [[Ours, Ours], [Reference, Ours], [Ours, Reference]] {
        let Some(mut members) = cluster(&kinds, "") else { continue };
        let (mut a, mut b) = (members[0].client(), members[1].client());
        a.subscribe("stays", 1);
        a.barrier();
        b.subscribe("goes", 1);
        wait_for_interest(&mut a, &mut b);
        let port = members[1].port;
        let first = members[0].port;
        drop(b);
        drop(members.pop());
        eventually("the links are gone", || members[0].links() == 0);
        a.send("SUB inbox 2\r\n");
        eventually("what was wanted there is gone", || {
            a.send("PUB goes inbox 0\r\n\r\n");
            !a.barrier().is_empty()
        });
        let again = Member::start(kinds[1], "S1", port, &[first], "").expect("it was there");
        members.push(again);
        settle(&members);
        let mut b = members[1].client();
        wait_for_interest(&mut b, &mut a);
        b.publish("stays", "x");
        assert_eq!(a.message().subject, "stays");
    }
}

/// A server that was dialled dials again itself if the other one does not come.
#[test]
fn a_configured_server_is_dialled_until_it_is_there() {
    let (first, second) = (free_port(), free_port());
    let waiting = Member::start(Ours, "S0", first, &[second], "").expect("it starts");
    waiting.server.wait_for_log("Error trying to connect to route (attempt 1)");
    let late = Member::start(Ours, "S1", second, &[], "").expect("it starts");
    settle(&[waiting, late]);
}

#[test]
fn many_subscriptions_come_and_go() {
    for kinds in [[Ours, Ours], [Ours, Reference]] {
        churn(&kinds);
    }
}

fn churn(kinds: &[ServerKind]) {
    let Some(members) = cluster(kinds, "") else { return };
    let (mut a, mut b) = (members[0].client(), members[1].client());
    for round in 0..50 {
        for sid in 0..20 {
            a.send(&format!("SUB churn.{} {sid}\r\nSUB churn.q g 10{sid}\r\n", sid % 5));
        }
        for sid in 0..20 {
            // One subscription of each subject stays in the last round, and one of the group.
            if round < 49 || sid >= 5 {
                a.send(&format!("UNSUB {sid}\r\n"));
            }
            if round < 49 || sid > 0 {
                a.send(&format!("UNSUB 10{sid}\r\n"));
            }
        }
    }
    a.barrier();
    wait_for_interest(&mut b, &mut a);
    for subject in ["churn.0", "churn.4", "churn.q"] {
        b.publish(subject, "x");
    }
    let got: Vec<_> = take(&mut a, 3).into_iter().map(|message| message.sid).collect();
    assert_eq!(got, ["0", "4", "100"]);
}
