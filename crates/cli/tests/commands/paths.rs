//! Ways to a server and through it that are not the usual ones: proxies, prefixes, domains; and
//! what is refused before any of them is gone.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use crate::server::{configured, programs};
use crate::servers::Server;
use crate::{fail, myelin, succeed};

/// A SOCKS5 proxy that connects everybody to this port, whatever they ask for, and gives its own.
fn proxy(server: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            thread::spawn(move || pass_on(client, server));
        }
    });
    port
}

fn pass_on(mut client: TcpStream, server: u16) {
    let mut two = [0; 2];
    client.read_exact(&mut two).unwrap();
    client.read_exact(&mut vec![0; usize::from(two[1])]).unwrap();
    client.write_all(b"\x05\x00").unwrap();
    let mut head = [0; 5];
    client.read_exact(&mut head).unwrap();
    let mut name = vec![0; usize::from(head[4]) + 2];
    client.read_exact(&mut name).unwrap();
    assert!(name.starts_with(b"server.invalid"), "{name:?}");
    client.write_all(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x00").unwrap();
    let server = TcpStream::connect(("127.0.0.1", server)).unwrap();
    let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
    let _ = std::io::copy(&mut &server, &mut &client);
}

#[test]
fn a_proxy_leads_to_a_server_of_any_name() {
    for program in programs() {
        let server = Server::with_streams(&program, &[]);
        let proxy = format!("socks5://127.0.0.1:{}", proxy(server.port));
        let common = ["--server", "nats://server.invalid:4222", "--socks-proxy", &proxy];
        succeed(&mut myelin(
            &[&["bench", "pub", "x", "--msgs", "1000", "--no-progress"], &common[..]].concat(),
        ));
        succeed(&mut myelin(&[&["bench", "latency", "--duration", "50ms"], &common[..]].concat()));
        succeed(&mut myelin(&[&["stream", "ls"], &common[..]].concat()));
    }
}

/// All that `bench latency` can measure.
const EVERYTHING: [&str; 10] = [
    "bench",
    "latency",
    "--modes",
    "request,pub-sub,js-ack,js-consume",
    "--rates",
    "500",
    "--duration",
    "60ms",
    "--warmup",
    "20ms",
];

#[test]
fn inboxes_and_domains_are_those_that_are_asked_for() {
    for program in programs() {
        let text = "jetstream { domain: hub }\n\
             authorization { users: [ { user: joe, password: pw, \
             permissions: { publish: \">\", subscribe: [ \"_ME.>\", \"latency.>\" ] } } ] }\n";
        let server = configured(&program, tempfile::tempdir().unwrap(), text, false);
        let url = server.url_of("joe:pw@");
        let measure = |further: &[&str]| {
            myelin(&[&EVERYTHING[..], &["--server", &url, "--inbox-prefix", "_ME"], further].concat())
        };
        for further in [&["--js-domain", "hub"][..], &["--js-api-prefix", "$JS.hub.API"], &[]] {
            let text = succeed(&mut measure(further));
            assert_eq!(text.matches("  driver alone, round trips").count(), 4, "{text}");
        }
        assert!(fail(&mut measure(&["--js-domain", "spoke"])).contains("JetStream is not enabled"));
        let usual = fail(&mut myelin(&[&EVERYTHING[..], &["--server", &url]].concat()));
        assert!(usual.contains("Permissions Violation"), "{usual}");
    }
}

#[test]
fn names_that_would_break_a_line_are_refused_before_anybody_is_asked() {
    for (line, what) in [
        (&["bench", "pub", "a b"][..], "subject"),
        (&["bench", "sub", ""], "subject"),
        (&["bench", "service", "serve", "a\tb"], "subject"),
        (&["bench", "service", "request", "a\r\nPUB x 0"], "subject"),
        (&["bench", "js", "pub", "sync", "a b"], "subject"),
        (&["bench", "js", "pub", "fast", "a b"], "subject"),
        (&["bench", "js", "get", "sync", "--stream", "a.b"], "stream name"),
        (&["bench", "js", "fetch", "--consumer", "a b"], "consumer name"),
        (&["bench", "oldjs", "ordered", "a b"], "subject"),
        (&["bench", "kv", "put", "--bucket", "a b"], "bucket name"),
        (&["bench", "latency", "--subject", "a b"], "subject"),
        (&["bench", "latency", "respond", "--subject", "a b"], "subject"),
        (&["bench", "latency", "--inbox-prefix", "a b"], "prefix of inboxes"),
    ] {
        // Nobody listens there; who is asked nevertheless complains about that.
        let error = fail(myelin(line).args(["--server", "nats://127.0.0.1:1"]));
        assert!(error.contains(&format!("the {what} ")), "{line:?}: {error}");
    }
}

#[test]
fn what_a_queue_group_is_pushed_is_shared_to_the_last_message() {
    for program in programs() {
        let server = Server::with_streams(&program, &[]);
        let url = server.url();
        let bench = |line: &str| {
            let mut command = myelin(&["bench"]);
            command.args(line.split(' ')).args(["--no-progress", "--server", &url]);
            command
        };
        succeed(&mut bench("js pub async x --create --msgs 3000 --storage memory"));
        for line in ["push x --clients 3 --msgs 3000", "push x --clients 2 --msgs 3000 --no-ack"] {
            let text = succeed(&mut bench(&format!("oldjs {line}")));
            assert!(text.contains("durable push consumer (old API) aggregated"), "{text}");
        }
        // More than the window of flow control, so that it must be answered.
        let text = succeed(&mut bench("oldjs ordered x --msgs 3000 --clients 2"));
        assert_eq!(text.matches("(3,000 msgs)").count(), 2, "{text}");
        let unknown = fail(&mut bench("oldjs ordered nowhere --msgs 5"));
        assert!(unknown.contains("no stream matches subject"), "{unknown}");
        let left = succeed(&mut myelin(&["stream", "info", "benchstream", "--server", &url]));
        assert!(left.contains("benchstream"), "{left}");
    }
}
