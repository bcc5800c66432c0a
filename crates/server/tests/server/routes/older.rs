//! Clusters with older nats-servers. `MYELIN_OLDER_NATS_SERVERS` lists their programs, separated by
//! colons; without it what one of them has said is tried alone. Seen with 2.10.29 and 2.9.25, which
//! has no pools.

use super::accounts::{json_of, login};
use super::{Member, Ours, Raw, Reference, free_port, take, wait_for_interest};
use crate::eventually;
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

const ACCOUNTS: &str = "accounts {\n $SYS { users [{user: s, password: s}] }\n \
    A { users [{user: a, password: a}], exports [{service: svc}, {stream: \"st.>\"}] }\n \
    B { users [{user: b, password: b}], imports [{service: {account: A, subject: svc}}, \
    {stream: {account: A, subject: \"st.>\"}}] }\n}\n\
    lame_duck_duration: 30s\nlame_duck_grace_period: 1s";

fn older() -> Vec<PathBuf> {
    let listed = std::env::var_os("MYELIN_OLDER_NATS_SERVERS");
    if listed.is_none() {
        println!("skipped: MYELIN_OLDER_NATS_SERVERS names no older nats-server");
    }
    listed.iter().flat_map(std::env::split_paths).collect()
}

/// Two servers, of which the second dials the first, that know each other.
fn link(programs: [&Path; 2]) -> [Member; 2] {
    let ports = [free_port(), free_port()];
    let start = |at: usize| {
        let server = Member::setup(programs[at], &format!("S{at}"), ports[at], &ports[..at], ACCOUNTS);
        Member { server: server.start(), port: ports[at] }
    };
    let members = [start(0), start(1)];
    for (at, member) in members.iter().enumerate() {
        eventually("the servers know each other", || member.knows() == [format!("S{}", 1 - at)]);
    }
    members
}

/// Each of the older servers dialled by ours and dialling it. The place of ours is told.
fn pairs() -> Vec<([Member; 2], usize)> {
    let ours = Ours.program().expect("it is built");
    older().iter().flat_map(|old| [(link([&ours, old]), 0), (link([old, &ours]), 1)]).collect()
}

#[test]
fn messages_go_both_ways() {
    for (members, _) in pairs() {
        for [here, there] in [[0, 1], [1, 0]] {
            let (mut a, mut b) = (login(&members[here], "a"), login(&members[there], "a"));
            b.send("SUB plain 1\r\nSUB wild.> 2\r\nSUB svc 3\r\n");
            wait_for_interest(&mut a, &mut b);
            a.send("PUB plain 2\r\nhi\r\nPUB wild.a.b re 2\r\nhi\r\n");
            a.send("HPUB plain 15 17\r\nNATS/1.0\r\nA\r\n\r\nhi\r\n");
            let got: Vec<_> = take(&mut b, 3)
                .into_iter()
                .map(|message| (message.subject.clone(), message.reply.clone(), message.text().to_owned()))
                .collect();
            let expected = [
                ("plain", None, "hi"),
                ("wild.a.b", Some("re"), "hi"),
                ("plain", None, "NATS/1.0\r\nA\r\n\r\nhi"),
            ]
            .map(|(subject, reply, text)| (subject.to_owned(), reply.map(str::to_owned), text.to_owned()));
            assert_eq!(got, expected);
            let body = "x".repeat(900_000);
            a.publish("plain", &body);
            assert_eq!(b.message().text(), body);
            // Requests, and one that nobody hears.
            for turn in 0..20 {
                a.send(&format!("SUB inbox.{turn} {turn}\r\nPUB svc inbox.{turn} 1\r\n?\r\n"));
                let reply = b.message().reply.expect("requests have a reply");
                b.publish(&reply, "!");
                assert_eq!(a.message().text(), "!");
            }
            a.send("PUB nobody inbox.0 0\r\n\r\n");
            assert!(a.message().text().starts_with("NATS/1.0 503"));
            b.send("UNSUB 1\r\n");
            b.barrier();
            eventually("interest is gone", || {
                a.send("PUB plain inbox.0 0\r\n\r\n");
                a.barrier().iter().any(|message| message.text().starts_with("NATS/1.0 503"))
            });
        }
    }
}

#[test]
fn groups_have_members_on_both() {
    const COUNT: usize = 600;
    for (members, _) in pairs() {
        let (mut a, mut b) = (login(&members[0], "a"), login(&members[1], "a"));
        a.send("SUB work q 1\r\n");
        b.send("SUB work q 1\r\nSUB work q 2\r\n");
        wait_for_interest(&mut a, &mut b);
        wait_for_interest(&mut b, &mut a);
        for [here, there] in [[0, 1], [1, 0]] {
            let mut clients = [&mut a, &mut b];
            for at in 0..COUNT {
                clients[here].publish("work", &at.to_string());
            }
            let mut got: Vec<usize> = Vec::new();
            let mut shares = [0; 2];
            eventually("each message has come", || {
                for at in [here, there] {
                    let came = clients[at].barrier();
                    shares[at] += came.len();
                    got.extend(came.iter().map(|message| message.text().parse::<usize>().expect("a number")));
                }
                got.len() >= COUNT
            });
            got.sort_unstable();
            assert_eq!(got, (0..COUNT).collect::<Vec<_>>(), "each message to one member");
            assert!(shares.iter().all(|share| *share > 0), "both sides have members: {shares:?}");
        }
    }
}

#[test]
fn accounts_import_over_servers() {
    for (members, _) in pairs() {
        for [here, there] in [[0, 1], [1, 0]] {
            let (mut service, mut requester) = (login(&members[there], "a"), login(&members[here], "b"));
            let mut probe = login(&members[here], "a");
            service.subscribe("svc", 1);
            requester.send("SUB inbox 1\r\nSUB st.> 2\r\nSUB plain 3\r\n");
            requester.barrier();
            wait_for_interest(&mut probe, &mut service);
            requester.send("PUB svc inbox 1\r\n?\r\n");
            let request = service.message();
            service.publish(&request.reply.expect("requests have a reply"), "!");
            assert_eq!(requester.message().text(), "!");
            let mut turn = 0;
            eventually("the stream arrives", || {
                turn += 1;
                service.publish("plain", "of another account");
                service.publish("st.1", &turn.to_string());
                service.barrier();
                let came = requester.barrier();
                assert!(came.iter().all(|message| message.subject != "plain"));
                came.iter().any(|message| message.subject == "st.1")
            });
        }
    }
}

/// Says how many addresses a server tells its clients.
fn told(member: &Member) -> usize {
    let stream = TcpStream::connect(member.server.address()).expect("it listens");
    let line = Raw::over(stream).line();
    let info: Value = serde_json::from_str(line.strip_prefix("INFO ").expect("INFO")).expect("JSON");
    info["connect_urls"].as_array().map_or(0, Vec::len)
}

/// The addresses of both are told to clients, and no more that of one that goes.
#[test]
fn a_server_in_lame_duck_mode_is_known_to_the_other() {
    for leaving in [0, 1] {
        for (members, _) in pairs() {
            let (stays, leaves) = (&members[1 - leaving], &members[leaving]);
            let mut watcher = login(stays, "s");
            watcher.subscribe("$SYS.SERVER.*.LAMEDUCK", 1);
            watcher.barrier();
            eventually("both addresses are told", || told(stays) == 2);
            let _client = login(leaves, "a");
            let mut probe = login(leaves, "s");
            wait_for_interest(&mut probe, &mut watcher);
            leaves.server.signal(Signal::USR2);
            assert_eq!(json_of(&watcher.message())["name"], format!("S{leaving}"));
            eventually("one address is told", || told(stays) == 1);
        }
    }
}

/// A message that is to be traced reaches a server that does not trace, and the event says so.
#[test]
fn a_trace_ends_at_an_older_server() {
    for old in older() {
        let mut seen = Vec::new();
        for kind in [Ours, Reference] {
            let Some(program) = kind.program() else { continue };
            let members = link([&program, &old]);
            let (mut publisher, mut listener) = (login(&members[0], "a"), login(&members[1], "a"));
            publisher.subscribe("trace", 9);
            listener.subscribe("t.a", 1);
            wait_for_interest(&mut publisher, &mut listener);
            let headers = "NATS/1.0\r\nNats-Trace-Dest: trace\r\n\r\n";
            let size = headers.len();
            publisher.send(&format!("HPUB t.a {size} {}\r\n{headers}hello\r\n", size + 5));
            assert!(listener.message().text().ends_with("hello"));
            let trace = json_of(&publisher.message());
            let mut event = trace["events"][1].clone();
            event.as_object_mut().expect("an object").remove("ts");
            event.as_object_mut().expect("an object").remove("cid");
            assert!(publisher.barrier().is_empty(), "no more of it");
            seen.push(event);
        }
        assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{}: {seen:?}", old.display());
        assert!(seen[0]["error"].is_string(), "{seen:?}");
    }
}

/// CONNECT and INFO of nats-server 2.9.25, which has dialled a server without a password.
const OF_2_9: &str = "CONNECT {\"echo\":true,\"verbose\":false,\"pedantic\":false,\"tls_required\":false,\
    \"headers\":true,\"name\":\"NBI7OZX2BTFKOAUDTFRLZED3R27ZYODKDQCIMMIHO2O3ZKGFRSOSPWTX\",\
    \"cluster\":\"C\",\"lnoc\":true}\r\n\
    INFO {\"server_id\":\"NBI7OZX2BTFKOAUDTFRLZED3R27ZYODKDQCIMMIHO2O3ZKGFRSOSPWTX\",\
    \"server_name\":\"OLD\",\"version\":\"2.9.25\",\"proto\":2,\"go\":\"go1.26.8\",\"host\":\"127.0.0.1\",\
    \"port\":1,\"headers\":true,\"max_payload\":1048576,\"nonce\":\"z6IpgtJGTndyrMM\",\"cluster\":\"C\",\
    \"connect_urls\":[\"192.0.2.2:14299\"],\"lnoc\":true} \r\n";

/// Everything that is said up to a PONG.
fn until_pong(stream: &mut TcpStream) -> String {
    stream.write_all(b"PING\r\n").expect("it reads");
    let mut all = String::new();
    while !all.ends_with("PONG\r\n") {
        let mut buffer = [0; 4096];
        let n = stream.read(&mut buffer).expect("it answers");
        assert!(n > 0, "it goes on: {all}");
        all.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
    all
}

/// A server that knows neither pools nor compression nor traces has one link for all accounts, and
/// is told in its words.
#[test]
fn what_2_9_says_is_understood() {
    let mut seen = Vec::new();
    for kind in [Ours, Reference] {
        let Some(member) = Member::start(kind, "S0", free_port(), &[], ACCOUNTS) else { continue };
        let mut stream = super::hostile::peer(&member);
        stream.write_all(OF_2_9.as_bytes()).expect("it reads");
        stream.write_all(b"RS+ A t.a\r\nRS+ A t.q q 2\r\n").expect("it reads");
        until_pong(&mut stream);
        assert_eq!(member.shown("remote_name"), ["OLD"]);
        eventually("its address is told", || told(&member) == 2);
        let mut publisher = login(&member, "a");
        publisher.subscribe("trace", 9);
        let headers = "NATS/1.0\r\nNats-Trace-Dest: trace\r\n\r\n";
        publisher.send("PUB t.a re 2\r\nhi\r\nPUB t.q 2\r\nhi\r\n");
        publisher.send(&format!("HPUB t.a {} {}\r\n{headers}hi\r\n", headers.len(), headers.len() + 2));
        let mut event = json_of(&publisher.message())["events"][1].clone();
        for field in ["ts", "cid"] {
            event.as_object_mut().expect("an object").remove(field);
        }
        assert!(publisher.barrier().is_empty(), "one trace");
        let said = until_pong(&mut stream);
        let of_a: Vec<_> = said.lines().filter(|line| !line.contains("$SYS")).collect();
        let messages = of_a.iter().position(|line| line.starts_with("RMSG ")).expect("messages");
        seen.push((event, of_a[messages..].join("\n")));
        stream.write_all(b"RS- A t.a\r\n").expect("it reads");
        until_pong(&mut stream);
        eventually("nobody hears", || {
            publisher.send("PUB t.a trace 0\r\n\r\n");
            publisher.barrier().iter().any(|message| message.text().starts_with("NATS/1.0 503"))
        });
    }
    assert!(seen[0].0["error"].is_string(), "{seen:?}");
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:#?}");
}
