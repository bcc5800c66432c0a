//! Operators: what they see and do at another server than the one that they are connected to.

use super::accounts::{json_of, login};
use super::{Member, Ours, Reference, cluster};
use crate::eventually;
use crate::raw::Raw;
use rustix::process::Signal;
use serde_json::Value;

const ACCOUNTS: &str = "accounts { $SYS { users [{user: s, password: s}] }\n\
    A { users [{user: a, password: a}] } }\nlame_duck_duration: 30s\nlame_duck_grace_period: 1s";

fn clusters() -> Vec<Vec<Member>> {
    let kinds = [[Ours, Ours], [Ours, Reference], [Reference, Ours]];
    kinds.iter().filter_map(|kinds| cluster(kinds, ACCOUNTS)).collect()
}

/// A member of the system account on the first server that hears events of the second.
fn operator(members: &[Member], subjects: &[&str]) -> Raw {
    let mut raw = login(&members[0], "s");
    for (at, subject) in (10..).zip(subjects) {
        raw.subscribe(subject, at);
    }
    raw.subscribe("inbox", 2);
    raw.barrier();
    // The other server tells of itself once it knows.
    raw.subscribe("$SYS.SERVER.*.STATSZ", 3);
    raw.barrier();
    let heard =
        |message: &crate::raw::Message| message.sid == "3" && json_of(message)["server"]["name"] == "S1";
    eventually("the other server is heard", || raw.barrier().iter().any(heard));
    raw.send("UNSUB 3\r\n");
    raw.barrier();
    raw
}

/// The next event whose subject ends so.
fn event(raw: &mut Raw, end: &str) -> Value {
    loop {
        let message = raw.message();
        if message.sid.len() == 2 && message.subject.ends_with(end) {
            return json_of(&message);
        }
    }
}

fn ask(raw: &mut Raw, subject: &str, body: &str) -> Value {
    raw.send(&format!("PUB {subject} inbox {}\r\n{body}\r\n", body.len()));
    loop {
        let message = raw.message();
        if message.sid == "2" {
            return json_of(&message);
        }
    }
}

#[test]
fn clients_of_another_server_are_seen_to_come_and_go() {
    for members in clusters() {
        let mut raw = operator(&members, &["$SYS.ACCOUNT.A.CONNECT", "$SYS.ACCOUNT.A.DISCONNECT"]);
        let client = login(&members[1], "a");
        let connected = event(&mut raw, ".CONNECT");
        assert_eq!((&connected["server"]["name"], &connected["client"]["user"]), (&"S1".into(), &"a".into()));
        drop(client);
        let gone = event(&mut raw, ".DISCONNECT");
        assert_eq!(
            (&gone["server"]["name"], &gone["client"]["id"]),
            (&"S1".into(), &connected["client"]["id"])
        );
    }
}

#[test]
fn another_server_is_seen_to_go() {
    for (signal, what) in [(Signal::TERM, "SHUTDOWN"), (Signal::USR2, "LAMEDUCK")] {
        for members in clusters() {
            let subject = format!("$SYS.SERVER.*.{what}");
            let mut raw = operator(&members, &[&subject]);
            let _client = login(&members[1], "a");
            members[1].server.signal(signal);
            let said = event(&mut raw, what);
            assert_eq!(said["name"], "S1", "{said}");
        }
    }
}

#[test]
fn another_server_is_asked_and_ordered() {
    for members in clusters() {
        let mut raw = operator(&members, &[]);
        let client = login(&members[1], "a");
        let filter = r#"{"server_name":"S1","exact_match":true}"#;
        let id = ask(&mut raw, "$SYS.REQ.SERVER.PING.VARZ", filter)["server"]["id"].clone();
        let id = id.as_str().expect("an id").to_owned();
        let page = ask(&mut raw, &format!("$SYS.REQ.SERVER.{id}.VARZ"), "");
        assert_eq!(page["data"]["server_name"], "S1");
        let answer = ask(&mut raw, &format!("$SYS.REQ.SERVER.{id}.RELOAD"), "");
        assert_eq!((&answer["server"]["name"], answer.get("error")), (&"S1".into(), None), "{answer}");
        let page = ask(&mut raw, &format!("$SYS.REQ.SERVER.{id}.CONNZ"), r#"{"acc":"A"}"#);
        let cid = page["data"]["connections"][0]["cid"].as_u64().expect("a connection");
        let answer = ask(&mut raw, &format!("$SYS.REQ.SERVER.{id}.KICK"), &format!("{{\"cid\":{cid}}}"));
        assert_eq!((&answer["server"]["name"], answer.get("error")), (&"S1".into(), None), "{answer}");
        // Its connection ends, with whatever was said before.
        client.rest();
    }
}

/// Pages by message show links as those by HTTP do.
#[test]
fn another_server_shows_its_links() {
    for members in clusters() {
        let mut raw = operator(&members, &[]);
        let filter = r#"{"server_name":"S1","exact_match":true}"#;
        let page = ask(&mut raw, "$SYS.REQ.SERVER.PING.ROUTEZ", filter);
        let routes = page["data"]["routes"].as_array().map_or(0, Vec::len);
        assert_eq!((&page["data"]["num_routes"], routes), (&4.into(), 4), "{page}");
        let page = ask(&mut raw, "$SYS.REQ.SERVER.PING.VARZ", filter);
        assert_eq!(page["data"]["connect_urls"].as_array().map(Vec::len), Some(2), "{page}");
    }
}

/// Whoever asks about its own account is answered by all servers; about itself, by its own.
#[test]
fn an_account_is_shown_by_all_servers() {
    for members in clusters() {
        let (mut one, _two) = (login(&members[0], "a"), login(&members[1], "a"));
        one.subscribe("inbox.*", 1);
        let mut turn = 0;
        eventually("both servers answer", || {
            turn += 1;
            one.send(&format!("PUB $SYS.REQ.ACCOUNT.PING.CONNZ inbox.{turn} 0\r\n\r\n"));
            let mut names = Vec::new();
            eventually("one answers", || {
                let all = one.barrier();
                let own = all.iter().filter(|message| message.subject == format!("inbox.{turn}"));
                names.extend(own.map(|message| json_of(message)["server"]["name"].clone()));
                !names.is_empty()
            });
            let deadline = std::time::Instant::now() + std::time::Duration::from_millis(500);
            while names.len() < 2 && std::time::Instant::now() < deadline {
                let all = one.barrier();
                let own = all.iter().filter(|message| message.subject == format!("inbox.{turn}"));
                names.extend(own.map(|message| json_of(message)["server"]["name"].clone()));
            }
            names.len() == 2
        });
        one.send("PUB $SYS.REQ.USER.INFO inbox.own 0\r\n\r\n");
        let mut answers = Vec::new();
        eventually("the own server answers", || {
            answers.extend(one.barrier().into_iter().filter(|message| message.subject == "inbox.own"));
            !answers.is_empty()
        });
        assert_eq!(json_of(&answers[0])["server"]["name"], "S0");
        assert!(one.barrier().iter().all(|message| message.subject != "inbox.own"), "one answer");
    }
}
