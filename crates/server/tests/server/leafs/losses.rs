//! Links that rest, links that are slow, and servers that end meanwhile: what was published arrives
//! whole and in order, or the log says what did not.

use super::Site;
use crate::eventually;
use crate::raw::Raw;
use crate::routes::{MIXES, Ours, Reference, ServerKind, wait_for_interest};
use myelin_stdx::rng::Rng;
use myelin_stdx::sync::lock;
use rustix::process::Signal;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

const COUNT: usize = 20_000;
/// Bytes that a slow link lets through at a time.
const STEP: usize = 512 << 10;

/// How many bytes a relay may still pass on in each direction.
struct Credit {
    left: Mutex<[usize; 2]>,
    more: Condvar,
}

impl Credit {
    fn give(&self, bytes: usize) {
        lock(&self.left).iter_mut().for_each(|left| *left = left.saturating_add(bytes));
        self.more.notify_all();
    }

    fn rest(&self) {
        *lock(&self.left) = [0; 2];
    }

    /// Gives back what was taken and not used, unless the link rests since.
    fn give_back(&self, way: usize, bytes: usize) {
        let mut left = lock(&self.left);
        if left[way] > 0 {
            left[way] = left[way].saturating_add(bytes);
        }
    }

    /// Waits until some may pass.
    fn take(&self, way: usize, most: usize) -> usize {
        let mut left =
            self.more.wait_while(lock(&self.left), |left| left[way] == 0).expect("nobody panics with it");
        let count = left[way].min(most);
        left[way] -= count;
        count
    }
}

/// Relay between a leaf node and its hub.
struct Relay {
    port: u16,
    credit: Arc<Credit>,
}

impl Relay {
    /// Its threads end with the process.
    fn to(hub: &Site) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let credit = Arc::new(Credit { left: Mutex::new([usize::MAX; 2]), more: Condvar::new() });
        let (shared, hub) = (Arc::clone(&credit), hub.port);
        thread::spawn(move || {
            for leaf in listener.incoming().flatten() {
                let Ok(hub) = TcpStream::connect(("127.0.0.1", hub)) else { continue };
                for (way, from, to) in [(0, &hub, &leaf), (1, &leaf, &hub)] {
                    let from = from.try_clone().expect("a socket");
                    let to = to.try_clone().expect("a socket");
                    let credit = Arc::clone(&shared);
                    thread::spawn(move || pass(way, from, to, &credit));
                }
            }
        });
        Self { port, credit }
    }
}

/// Passes on one direction until it ends.
fn pass(way: usize, mut from: TcpStream, mut to: TcpStream, credit: &Credit) {
    let mut room = vec![0; 64 << 10];
    loop {
        let most = credit.take(way, room.len());
        match from.read(&mut room[..most]) {
            Ok(count @ 1..) if to.write_all(&room[..count]).is_ok() => {
                credit.give_back(way, most - count);
            }
            _ => {
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
        }
    }
}

/// A hub, its leaf node behind a relay, and which of them is published to, with clients of both.
struct Flood {
    sites: [Site; 2],
    relay: Relay,
    from: Raw,
    to: Raw,
}

impl Flood {
    /// `way`: 0 from the hub to the leaf node, 1 back. `inner`: for both blocks.
    fn start(kinds: [ServerKind; 2], way: usize, inner: &str) -> Option<Self> {
        let hub = Site::hub(kinds[0], "HUB", inner, "")?;
        let relay = Relay::to(&hub);
        let remotes =
            format!("{inner}\nreconnect: \"1h\"\nremotes: [{{ url: \"nats://127.0.0.1:{}\" }}]", relay.port);
        let leaf = Site::start(kinds[1], "EDGE", None, &remotes, "")?;
        hub.linked(1);
        leaf.linked(1);
        let sites = if way == 0 { [hub, leaf] } else { [leaf, hub] };
        let [mut from, mut to] = sites.each_ref().map(Site::client);
        to.subscribe("flood", 1);
        wait_for_interest(&mut from, &mut to);
        Some(Self { sites, relay, from, to })
    }

    /// Publishes while the link rests; all of it is taken by the server.
    fn publish(&mut self) {
        self.relay.credit.rest();
        let (mut rng, mut letters) = (Rng::seeded(25), String::new());
        letters.extend((0..1 << 20).map(|_| char::from(b'a' + rng.below(26) as u8)));
        for batch in 0..COUNT / 1000 {
            let message = |at: usize| {
                let (number, filling) = (batch * 1000 + at, &letters[at * 1000..][..1000]);
                format!("PUB flood 1006\r\n{number:06}{filling}\r\n")
            };
            self.from.send(&(0..1000).map(message).collect::<String>());
            self.from.barrier();
        }
    }

    /// Numbers of the messages that have come.
    fn take(&mut self, into: &mut Vec<usize>) {
        let number = |text: &str| text[..6].parse::<usize>().expect("a number");
        into.extend(self.to.barrier().iter().map(|message| number(message.text())));
    }
}

fn assert_whole(got: &[usize], what: &str) {
    let gap = got.iter().enumerate().find(|(at, number)| at != *number);
    assert!(got.len() == COUNT && gap.is_none(), "{what}: {} of {COUNT}, first wrong {gap:?}", got.len());
}

#[test]
fn a_link_that_rests_and_is_slow_then_loses_nothing() {
    for (kinds, way) in MIXES.into_iter().flat_map(|kinds| [(kinds, 0), (kinds, 1)]) {
        for compression in ["off", "s2_fast"] {
            let Some(mut flood) = Flood::start(kinds, way, &format!("compression: {compression}")) else {
                continue;
            };
            flood.publish();
            let mut got = Vec::new();
            eventually("all messages", || {
                flood.relay.credit.give(STEP);
                flood.take(&mut got);
                got.len() >= COUNT
            });
            assert_whole(&got, &format!("{kinds:?} {way} {compression}"));
        }
    }
}

/// Whoever was answered PONG has published, also where the server ends right behind it.
#[test]
fn a_server_that_ends_hands_over_what_waits_for_a_slow_link() {
    for (kinds, way) in MIXES.into_iter().flat_map(|kinds| [(kinds, 0), (kinds, 1)]) {
        let Some(mut flood) = Flood::start(kinds, way, "compression: off") else { continue };
        // The reference resets a connection on which something has come that it has not read.
        let is_ours = kinds[way] == Ours;
        let mut back = is_ours.then(|| flood.sites[1].client());
        if is_ours {
            flood.from.subscribe("back", 2);
            wait_for_interest(back.as_mut().expect("it is ours"), &mut flood.from);
        }
        flood.publish();
        flood.sites[0].server.signal(Signal::TERM);
        let mut got = Vec::new();
        eventually("the link ends", || {
            // It has 10 s, and a loaded machine takes its time for each of these.
            flood.relay.credit.give(4 * STEP);
            back.iter_mut().for_each(|back| back.publish("back", &"y".repeat(10_000)));
            flood.take(&mut got);
            flood.sites[1].links().is_empty()
        });
        // That the link is gone says nothing of what is on its way from it to the client.
        eventually(&format!("{kinds:?} {way}: all messages"), || {
            flood.take(&mut got);
            got.len() >= COUNT
        });
        assert_whole(&got, &format!("{kinds:?} {way}"));
        assert!(flood.sites[0].server.wait().success() || kinds[way] == Reference);
    }
}

#[test]
fn what_a_link_does_not_take_when_a_server_ends_is_in_the_log() {
    for way in [0, 1] {
        let mut flood = Flood::start([Ours, Ours], way, "compression: off").expect("ours is there");
        flood.publish();
        flood.sites[0].server.signal(Signal::TERM);
        let server = &mut flood.sites[0].server;
        assert!(server.wait().success());
        let log = server.log();
        let line = log.lines().find(|line| line.contains("Slow Consumer Detected: closed with "));
        assert!(line.is_some_and(|line| line.ends_with(" total bytes.")), "{log}");
    }
}

#[test]
fn what_a_link_has_in_its_sockets_and_has_not_read_is_in_the_log() {
    for way in [0, 1] {
        let mut flood = Flood::start([Ours, Ours], way, "compression: off").expect("ours is there");
        flood.relay.credit.rest();
        // The relay reads once more in each direction, as it had begun to; then it rests.
        flood.from.send("PUB flood 6\r\n000000\r\n");
        let mut got = Vec::new();
        eventually("the first message", || {
            flood.take(&mut got);
            got == [0]
        });
        flood.from.send("PUB flood 6\r\n000001\r\n");
        flood.from.barrier();
        let server = &mut flood.sites[0].server;
        server.signal(Signal::TERM);
        assert!(server.wait().success());
        let log = server.log();
        assert!(log.contains("Slow Consumer Detected: closed before it has read to the end"), "{log}");
    }
}
