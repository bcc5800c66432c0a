//! Times of remotes: how long a hub is waited for, and when it is dialled again.

use super::Site;
use crate::eventually;
use crate::routes::{Ours, Reference, ServerKind};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const TWO_SECONDS: Duration = Duration::from_secs(2);

/// INFO of a hub.
const INFO: &str = "INFO {\"server_id\":\"NH\",\"server_name\":\"hub\",\"version\":\"2.15.2\",\"proto\":3,\
                    \"headers\":true,\"max_payload\":1048576,\"client_id\":5,\"nonce\":\"abc\",\
                    \"info_on_connect\":true}\r\n";

/// A leaf node whose hub is at that port of this machine, with these in its `leafnodes{}` and in
/// its remote.
fn leaf(kind: ServerKind, port: u16, block: &str, remote: &str) -> Option<Site> {
    let remotes = format!("{block}\nremotes: [{{ url: \"nats://127.0.0.1:{port}\"\n{remote} }}]");
    Site::start(kind, "EDGE", None, &remotes, "")
}

/// Does the same with both programs at once.
fn both(run: impl Fn(ServerKind) + Sync) {
    let run = &run;
    thread::scope(|scope| {
        for kind in [Ours, Reference] {
            scope.spawn(move || run(kind));
        }
    });
}

/// A hub that a test plays.
struct Played(TcpListener);

impl Played {
    fn new() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        listener.set_nonblocking(true).expect("a socket");
        Self(listener)
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("it listens")
    }

    /// The next connection of a leaf node.
    fn accept(&self) -> TcpStream {
        let mut accepted = None;
        eventually("a leaf node dials", || {
            accepted = self.0.accept().ok();
            accepted.is_some()
        });
        let (stream, _) = accepted.expect("it has come");
        stream.set_nonblocking(false).expect("a socket");
        stream.set_read_timeout(Some(crate::PATIENCE)).expect("a positive time");
        stream
    }
}

/// Reads until the other side ends the connection.
fn until_end(stream: &mut TcpStream) {
    let mut room = [0; 1024];
    loop {
        match stream.read(&mut room) {
            Ok(0) => return,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
            read => drop(read.expect("the other side ends it")),
        }
    }
}

#[test]
fn a_connection_to_a_hub_is_waited_for_as_long_as_configured() {
    // Neither taken nor refused is what comes when the queue of a listener is full.
    let full = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = full.local_addr().expect("it listens");
    let moment = Duration::from_millis(500);
    let queued = std::iter::from_fn(|| TcpStream::connect_timeout(&address, moment).ok());
    let queued: Vec<_> = queued.take(20_000).collect();
    let line = format!("dial tcp {address}: i/o timeout");
    both(|kind| {
        let port = address.port();
        // The time of a remote goes before that of all.
        let Some(short) = leaf(kind, port, "dial_timeout: \"1h\"", "dial_timeout: \"200ms\"") else { return };
        short.server.wait_for_log(&line);
        let start = Instant::now();
        let Some(long) = leaf(kind, port, "dial_timeout: \"2s\"", "") else { return };
        long.server.wait_for_log(&line);
        assert!(start.elapsed() >= TWO_SECONDS, "{kind:?}");
    });
    drop(queued);
}

#[test]
fn a_hub_that_says_nothing_is_given_up_in_time_and_dialled_again() {
    both(|kind| {
        let hub = Played::new();
        let (start, block) = (Instant::now(), "reconnect: \"50ms\"");
        let Some(_leaf) = leaf(kind, hub.address().port(), block, "first_info_timeout: \"2s\"") else {
            return;
        };
        until_end(&mut hub.accept());
        assert!(start.elapsed() >= TWO_SECONDS, "{kind:?}");
        hub.accept();
    });
}

#[test]
fn a_hub_is_dialled_again_after_the_configured_time() {
    both(|kind| {
        let hub = Played::new();
        let Some(_leaf) = leaf(kind, hub.address().port(), "reconnect: \"2s\"", "") else { return };
        let first = hub.accept();
        let start = Instant::now();
        drop(first);
        hub.accept();
        assert!(start.elapsed() >= TWO_SECONDS, "{kind:?}");
    });
}

#[test]
fn a_hub_that_wants_a_later_version_is_dialled_again_after_five_seconds() {
    both(|kind| {
        let hub = Played::new();
        let Some(_leaf) = leaf(kind, hub.address().port(), "reconnect: \"50ms\"", "") else { return };
        let mut first = hub.accept();
        let start = Instant::now();
        let error = "-ERR 'connection rejected since minimum version required is \"3.0.0\"'\r\n";
        first.write_all(INFO.as_bytes()).expect("it reads");
        first.read_exact(&mut [0; 8]).expect("CONNECT");
        first.write_all(error.as_bytes()).expect("it reads");
        first.shutdown(std::net::Shutdown::Write).expect("it is open");
        until_end(&mut first);
        hub.accept();
        assert!(start.elapsed() >= Duration::from_secs(5), "{kind:?}");
    });
}
