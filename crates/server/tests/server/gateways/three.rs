//! Three clusters that are joined by gateways: who hears an answer.

use super::{Site, joined};
use crate::eventually;
use crate::raw::Raw;
use crate::routes::{Ours, Reference, ServerKind, free_port, wait_for_interest};

const KINDS: [[ServerKind; 3]; 5] = [
    [Ours, Ours, Ours],
    [Ours, Reference, Ours],
    [Reference, Ours, Ours],
    [Ours, Ours, Reference],
    [Reference, Reference, Reference],
];

fn start(kinds: [ServerKind; 3]) -> Option<[Site; 3]> {
    let ports = [free_port(), free_port(), free_port()];
    let a = Site::start(kinds[0], ("A1", "A", ports[0]), &[], "", "")?;
    let b = Site::start(kinds[1], ("B1", "B", ports[1]), &[("A", ports[0])], "", "")?;
    let remotes = [("A", ports[0]), ("B", ports[1])];
    let c = Site::start(kinds[2], ("C1", "C", ports[2]), &remotes, "", "")?;
    Some([a, b, c])
}

/// An answer comes back to who has asked under a mapped subject. From there it goes on to all
/// clusters in which somebody listens to the reply, also to the one that has given it, and comes
/// once to each listener.
#[test]
fn an_answer_reaches_all_who_listen_in_any_cluster() {
    for kinds in KINDS {
        let Some(sites) = start(kinds) else { continue };
        let mut asks = sites[0].client();
        let mut listens: Vec<Raw> = sites.iter().map(Site::client).collect();
        let [a, b, c] = &mut listens[..] else { panic!("three clients") };
        joined(a, b);
        joined(b, c);
        joined(c, a);
        let mut serves = sites[1].client();
        serves.subscribe("svc", 1);
        wait_for_interest(&mut asks, &mut serves);
        for (listener, site) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
            listens[listener].send("SUB inbox.> 1\r\nSUB inbox.> group 2\r\n");
            wait_for_interest(&mut sites[site].client(), &mut listens[listener]);
            listens[listener].barrier();
        }
        let turns = 10;
        for turn in 0..turns {
            // Its own subscription is young each time, so the reply is mapped.
            asks.send(&format!("SUB inbox.{turn} 7\r\nPUB svc inbox.{turn} 1\r\n?\r\n"));
            let reply = serves.message().reply.expect("a request has a reply");
            assert_eq!(reply, format!("inbox.{turn}"));
            serves.publish(&reply, &turn.to_string());
            assert_eq!(asks.message().text(), turn.to_string());
            asks.send("UNSUB 7\r\n");
        }
        let mut heard: Vec<Vec<String>> = vec![Vec::new(); 3];
        let mut grouped = 0;
        eventually("all have heard all", || {
            for (listener, heard) in listens.iter_mut().zip(&mut heard) {
                for message in listener.barrier().into_iter().filter(|one| one.subject.starts_with("inbox."))
                {
                    match message.sid.as_str() {
                        "1" => heard.push(message.text().to_owned()),
                        _ => grouped += 1,
                    }
                }
            }
            heard.iter().all(|one| one.len() >= turns) && grouped >= turns
        });
        let all: Vec<_> = (0..turns).map(|turn| turn.to_string()).collect();
        for heard in &mut heard {
            heard.sort();
        }
        assert_eq!((heard, grouped), (vec![all; 3], turns), "{kinds:?}: each once, one of the group");
    }
}
