//! Corners of links: wrong ports, names that there are twice, peers without headers and peers that
//! answer nothing, as the reference has them.

use super::accounts::login;
use super::hostile::peer;
use super::{MIXES, Member, Ours, Reference, free_port, pairs, wait_for_interest};
use crate::eventually;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// Greeting of a peer that is let in, with one link for all accounts.
fn greeting(headers: bool) -> String {
    format!(
        "CONNECT {{\"name\":\"NX\",\"cluster\":\"C\",\"headers\":{headers}}}\r\n\
         INFO {{\"server_id\":\"NX\",\"server_name\":\"X\",\"cluster\":\"C\",\"headers\":{headers},\
         \"proto\":3,\"ip\":\"nats-route://127.0.0.1:1/\",\"port\":1}}\r\n"
    )
}

/// Lines up to a PONG; messages among them.
fn until_pong(stream: &mut TcpStream) -> Vec<String> {
    stream.write_all(b"PING\r\n").expect("it reads");
    let mut all = String::new();
    while !all.ends_with("PONG\r\n") {
        let mut buffer = [0; 4096];
        let n = stream.read(&mut buffer).expect("it answers");
        assert!(n > 0, "it goes on: {all}");
        all.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
    all.split("\r\n").map(str::to_owned).collect()
}

#[test]
fn headers_are_taken_off_for_a_server_that_knows_none() {
    let mut seen = Vec::new();
    for kind in [Ours, Reference] {
        let Some(member) = Member::start(kind, "S0", free_port(), &[], "") else { continue };
        let mut stream = peer(&member);
        stream
            .write_all(format!("{}RS+ $G h.a\r\nRS+ $G h.q q 1\r\n", greeting(false)).as_bytes())
            .expect("it reads");
        until_pong(&mut stream);
        let mut client = member.client();
        client.send(
            "HPUB h.a 15 17\r\nNATS/1.0\r\nA\r\n\r\nhi\r\nHPUB h.q re 15 17\r\nNATS/1.0\r\nA\r\n\r\nhi\r\n",
        );
        client.send("HPUB h.a 15 15\r\nNATS/1.0\r\nA\r\n\r\n\r\n");
        client.barrier();
        let said = until_pong(&mut stream);
        let begin = said.iter().position(|line| line.starts_with("RMSG ")).expect("messages");
        seen.push(said[begin..].to_vec());
    }
    assert_eq!(seen[0][..4], ["RMSG $G h.a 2", "hi", "RMSG $G h.q + re q 2", "hi"]);
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:?}");
}

#[test]
fn a_server_that_answers_no_ping_is_stale() {
    for kind in [Ours, Reference] {
        let inner = "ping_interval: \"200ms\", ping_max: 1";
        let Some(member) = Member::with(kind, "S0", free_port(), &[], inner) else { continue };
        let mut stream = peer(&member);
        stream.write_all(greeting(true).as_bytes()).expect("it reads");
        eventually("the link is there", || member.links() == 1);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        let rest = String::from_utf8_lossy(&rest).into_owned();
        assert!(
            rest.contains("PING\r\n") && rest.ends_with("-ERR 'Stale Connection'\r\n"),
            "{kind:?}: {rest}"
        );
        member.server.wait_for_log("Router connection closed: Stale Connection");
        let varz = member.server.page("/varz");
        assert_eq!(varz["stale_connection_stats"]["routes"], 1, "{kind:?}: {varz}");
        assert_eq!(member.links(), 0);
    }
}

#[test]
fn a_name_that_there_is_twice_is_refused() {
    for kinds in MIXES {
        let ports = [free_port(), free_port()];
        let Some(a) = Member::start(kinds[0], "S0", ports[0], &[], "") else { continue };
        let Some(b) = Member::start(kinds[1], "S0", ports[1], &ports[..1], "") else { continue };
        // Whoever hears of it first says so.
        eventually("the name is refused", || {
            [&a, &b].iter().any(|member| member.server.log().contains("closed: Duplicate Server Name"))
        });
        eventually("no link is left", || [a.links(), b.links()] == [0, 0]);
    }
}

/// A route that leads to a port for clients does not come up, and harms nobody.
#[test]
fn a_route_to_a_port_for_clients_does_not_come_up() {
    for kinds in MIXES {
        let Some(a) = Member::start(kinds[0], "S0", free_port(), &[], "") else { continue };
        let port = a.server.address().port();
        let Some(b) = Member::with(kinds[1], "S1", free_port(), &[port], "") else { continue };
        b.server.wait_for_log("Router connection closed: ");
        assert_eq!(a.links(), 0, "{kinds:?}");
        a.client().barrier();
        b.client().barrier();
    }
}

/// An operator is told by each server how many subscriptions of an account hear a subject.
#[test]
fn subscriptions_of_an_account_are_counted_by_each_server() {
    let accounts =
        "accounts {\n $SYS { users [{user: s, password: s}] }\n A { users [{user: a, password: a}] }\n}";
    for members in pairs(accounts) {
        let (mut one, mut two) = (login(&members[0], "a"), login(&members[1], "a"));
        one.send("SUB foo 1\r\n");
        one.barrier();
        two.send("SUB foo 1\r\nSUB foo q 2\r\n");
        wait_for_interest(&mut one, &mut two);
        let mut operator = login(&members[0], "s");
        operator.subscribe("inbox.*", 1);
        operator.barrier();
        let mut turn = 0;
        eventually("both servers count", || {
            turn += 1;
            let body = "{\"acc\":\"A\",\"subject\":\"foo\"}";
            operator.send(&format!("PUB $SYS.REQ.ACCOUNT.NSUBS inbox.{turn} {}\r\n{body}\r\n", body.len()));
            let (mut counts, deadline) =
                (Vec::new(), std::time::Instant::now() + std::time::Duration::from_millis(500));
            while counts.len() < 2 && std::time::Instant::now() < deadline {
                let all = operator.barrier();
                let own = all.iter().filter(|message| message.subject == format!("inbox.{turn}"));
                counts.extend(own.map(|message| message.text().parse().ok()));
            }
            counts.sort_unstable();
            counts == [Some(1_u64), Some(2)]
        });
    }
}
