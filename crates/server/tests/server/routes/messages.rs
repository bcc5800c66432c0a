//! Messages between clients of two servers.

use super::{MIXES, Message, Ours, Reference};
use super::{Raw, cluster, pairs, take, wait_for_interest};
use crate::eventually;

/// Clients of the first and of the second server.
fn clients(members: &[super::Member]) -> (Raw, Raw) {
    (members[0].client(), members[1].client())
}

/// Messages of `a` reach subscriptions of `b`, each once, as they were sent.
pub(crate) fn plain_and_wild(a: &mut Raw, b: &mut Raw) {
    b.send("SUB plain 1\r\nSUB wild.*.> 2\r\n");
    wait_for_interest(a, b);
    a.send("PUB plain 2\r\nhi\r\nPUB plain re 2\r\nhi\r\nPUB wild.a.b.c 0\r\n\r\n");
    a.send("HPUB plain 15 17\r\nNATS/1.0\r\nA\r\n\r\nhi\r\n");
    a.send("PUB nobody 2\r\nhi\r\n");
    a.barrier();
    let got: Vec<_> = take(b, 4)
        .into_iter()
        .map(|m| (m.subject.clone(), m.sid.clone(), m.reply.clone(), m.text().to_owned()))
        .collect();
    let plain = |reply: Option<&str>, text: &str| {
        ("plain".to_owned(), "1".to_owned(), reply.map(str::to_owned), text.to_owned())
    };
    let wild = ("wild.a.b.c".to_owned(), "2".to_owned(), None, String::new());
    let expected = [plain(None, "hi"), plain(Some("re"), "hi"), wild, plain(None, "NATS/1.0\r\nA\r\n\r\nhi")];
    assert_eq!(got, expected);
    assert!(b.barrier().is_empty(), "each message once");
}

#[test]
fn a_message_reaches_subscribers_of_another_server() {
    for members in pairs("") {
        let (mut a, mut b) = clients(&members);
        plain_and_wild(&mut a, &mut b);
    }
}

/// A message of 900 KB of `a` reaches `b` whole.
pub(crate) fn large(a: &mut Raw, b: &mut Raw) {
    b.subscribe("large", 1);
    wait_for_interest(a, b);
    let body: String = (0..900_000).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
    a.publish("large", &body);
    assert_eq!(b.message().text(), body);
}

#[test]
fn a_large_message_arrives_whole() {
    for members in pairs("") {
        let (mut a, mut b) = clients(&members);
        large(&mut a, &mut b);
    }
}

/// Requests of `a` are answered by `b`.
pub(crate) fn requests(a: &mut Raw, b: &mut Raw) {
    b.subscribe("service", 1);
    wait_for_interest(a, b);
    for turn in 0..20 {
        // The inbox is announced ahead of the request.
        a.send(&format!("SUB inbox.{turn} {turn}\r\nPUB service inbox.{turn} 1\r\n?\r\n"));
        let request = b.message();
        let reply = request.reply.expect("requests have a reply");
        b.publish(&reply, "!");
        let answer = a.message();
        assert_eq!((answer.subject.as_str(), answer.text()), (reply.as_str(), "!"));
    }
}

#[test]
fn a_request_finds_its_service_and_its_way_back() {
    for members in pairs("") {
        let (mut a, mut b) = clients(&members);
        requests(&mut a, &mut b);
    }
}

/// A reply goes straight to whoever waits for it, at a third server: by a link that the request has
/// not come over, and not by the requester's server.
#[test]
fn a_reply_comes_back_another_way() {
    for kinds in
        [[Ours, Ours, Ours], [Ours, Reference, Ours], [Reference, Ours, Ours], [Ours, Ours, Reference]]
    {
        let Some(members) = cluster(&kinds, "") else { continue };
        let mut clients: Vec<_> = members.iter().map(super::Member::client).collect();
        let [a, b, c] = &mut clients[..] else { panic!("three clients") };
        b.subscribe("service", 1);
        c.subscribe("inbox", 1);
        wait_for_interest(a, b);
        wait_for_interest(b, c);
        for turn in 0..20 {
            a.send("PUB service inbox 1\r\n?\r\n");
            let reply = b.message().reply.expect("requests have a reply");
            b.publish(&reply, &turn.to_string());
            let answer = c.message();
            assert_eq!((answer.subject.as_str(), answer.text()), ("inbox", &*turn.to_string()), "{kinds:?}");
        }
        assert!(a.barrier().is_empty() && c.barrier().is_empty(), "{kinds:?}: each answer once");
    }
}

#[test]
fn nobody_answers_a_request_that_nobody_hears_anywhere() {
    for members in pairs("") {
        let (mut a, mut b) = clients(&members);
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
            !a.barrier().is_empty()
        });
    }
}

#[test]
fn one_member_of_a_group_gets_a_message_wherever_it_is() {
    for members in pairs("") {
        let (mut a, mut b) = clients(&members);
        a.send("SUB work q 1\r\n");
        a.barrier();
        b.send("SUB work q 1\r\nSUB work q 2\r\nSUB work other 3\r\nSUB work 4\r\n");
        wait_for_interest(&mut a, &mut b);
        const COUNT: usize = 600;
        for at in 0..COUNT {
            a.publish("work", &at.to_string());
        }
        let mut here: Vec<_> = a.barrier().into_iter().map(|m| m.text().to_owned()).collect();
        let (mut there, mut others, mut plain) = (Vec::new(), 0, Vec::new());
        // One to the other group and one to the plain subscription for each, and those of the
        // group.
        for message in take(&mut b, COUNT * 3 - here.len()) {
            match message.sid.as_str() {
                "3" => others += 1,
                "4" => plain.push(message.text().to_owned()),
                _ => there.push(message.text().to_owned()),
            }
        }
        assert!(b.barrier().is_empty());
        assert_eq!((others, plain.len()), (COUNT, COUNT));
        let in_order: Vec<_> = (0..COUNT).map(|at| at.to_string()).collect();
        assert_eq!(plain, in_order, "the order of the publisher");
        let share = here.len();
        here.append(&mut there);
        here.sort_by_key(|text| text.parse::<usize>().expect("numbers"));
        assert_eq!(here, in_order, "each message to one member");
        assert!((COUNT / 6..COUNT / 2).contains(&share), "one member of three is here: {share}");
    }
}

/// The members of a group on one server leave while messages are on their way to them: another
/// member gets these, also one on the server from which they come.
#[test]
fn a_group_whose_members_leave_loses_nothing() {
    const ROUNDS: usize = 40;
    for kinds in MIXES {
        let Some(members) = cluster(&kinds, "") else { continue };
        for [here, there] in [[0, 1], [1, 0]] {
            let [mut stays, mut publisher] = [members[here].client(), members[here].client()];
            let [mut leaves, mut probe] = [members[there].client(), members[there].client()];
            let mut beside = [members[here].client(), members[there].client()];
            // Compat: who listens beside the group may hear it again from a nats-server.
            let hears = if kinds == [Ours, Ours] { "SUB work 1\r\n" } else { "" };
            beside.iter_mut().for_each(|client| client.send(hears));
            beside.iter_mut().for_each(|client| assert!(client.barrier().is_empty()));
            stays.send("SUB work q 1\r\n");
            stays.barrier();
            let (mut got, mut heard) = (Vec::new(), [Vec::new(), Vec::new()]);
            for round in 0..ROUNDS {
                let lines = |line: &dyn Fn(usize) -> String| (2..22).map(line).collect::<String>();
                leaves.send(&lines(&|sid| format!("SUB work q {sid}\r\n")));
                // What was on its way to a member that has left may come behind the PONG.
                got.extend(leaves.barrier());
                wait_for_interest(&mut publisher, &mut probe);
                let published = |at: usize| format!("PUB work 4\r\n{:04}\r\n", round * 3 + at);
                leaves.send(&lines(&|sid| format!("UNSUB {sid}\r\n")));
                publisher.send(&(0..3).map(published).collect::<String>());
                publisher.barrier();
                got.extend(leaves.barrier());
            }
            eventually("each message comes", || {
                got.extend(stays.barrier());
                got.extend(leaves.barrier());
                got.len() >= 3 * ROUNDS
            });
            stays.send("UNSUB 1\r\n");
            stays.barrier();
            for (client, heard) in beside.iter_mut().zip(&mut heard).filter(|_| !hears.is_empty()) {
                eventually("those beside the group hear it", || {
                    heard.extend(client.barrier());
                    heard.len() >= 3 * ROUNDS
                });
            }
            let all: Vec<_> = (0..3 * ROUNDS).map(|at| format!("{at:04}")).collect();
            let texts = |messages: &[Message]| {
                let mut texts: Vec<_> = messages.iter().map(|message| message.text().to_owned()).collect();
                texts.sort();
                texts
            };
            assert_eq!(texts(&got), all, "{kinds:?}: each message to one member");
            for heard in heard.iter().filter(|_| !hears.is_empty()) {
                assert_eq!(texts(heard), all, "each message once beside the group");
            }
        }
    }
}

#[test]
fn a_message_goes_one_hop() {
    for kinds in [[Ours, Ours, Ours], [Ours, Reference, Ours], [Reference, Ours, Reference]] {
        let Some(members) = cluster(&kinds, "") else { continue };
        let mut clients: Vec<_> = members.iter().map(super::Member::client).collect();
        let [a, b, c] = &mut clients[..] else { panic!("three clients") };
        for client in [&mut *a, &mut *b, &mut *c] {
            client.subscribe("all", 1);
        }
        wait_for_interest(a, b);
        wait_for_interest(a, c);
        for at in 0..100 {
            a.publish("all", &at.to_string());
        }
        for client in [a, b, c] {
            let got: Vec<_> = take(client, 100).iter().map(|m| m.text().to_owned()).collect();
            let expected: Vec<_> = (0..100).map(|at| at.to_string()).collect();
            assert_eq!(got, expected);
            assert!(client.barrier().is_empty());
        }
    }
}

#[test]
fn accounts_are_apart_on_all_servers() {
    let accounts = "accounts { A { users [{user: a, password: a}] }\n B { users [{user: b, password: b}] } }";
    for members in pairs(accounts) {
        let login = |member: &super::Member, user: &str| {
            let mut raw = Raw::open(member.server.address());
            raw.send(&format!("CONNECT {{\"verbose\":false,\"user\":\"{user}\",\"pass\":\"{user}\"}}\r\n"));
            raw.barrier();
            raw
        };
        let (mut a0, mut a1) = (login(&members[0], "a"), login(&members[1], "a"));
        let (mut b0, mut b1) = (login(&members[0], "b"), login(&members[1], "b"));
        a1.subscribe("s", 1);
        b1.subscribe("s", 1);
        wait_for_interest(&mut a0, &mut a1);
        wait_for_interest(&mut b0, &mut b1);
        a0.publish("s", "a");
        b0.publish("s", "b");
        assert_eq!((a1.message().text(), b1.message().text()), ("a", "b"));
        assert!(a1.barrier().is_empty() && b1.barrier().is_empty());
    }
}

#[test]
fn a_limit_of_messages_counts_over_servers() {
    for members in pairs("") {
        let (mut a, mut b) = clients(&members);
        b.send("SUB few 1\r\nUNSUB 1 3\r\n");
        wait_for_interest(&mut a, &mut b);
        for _ in 0..10 {
            a.publish("few", "x");
        }
        a.barrier();
        take(&mut b, 3);
        // Whatever comes now comes behind all of these.
        b.subscribe("end", 2);
        wait_for_interest(&mut a, &mut b);
        assert!(b.barrier().is_empty());
    }
}
