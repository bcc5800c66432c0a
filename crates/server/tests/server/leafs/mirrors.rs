//! Streams of two domains that copy each other over a link that goes and comes: nothing is missing,
//! and nothing is there twice.

use super::Site;
use crate::cable::Cable;
use crate::jetstream::{Asker, Stored, publish};
use crate::routes::{MIXES, ServerKind};
use serde_json::{Value, json};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time in which copies catch up. nats-server waits longer after each request for a consumer that
/// was not answered.
const CATCH_UP: Duration = Duration::from_secs(150);

/// Waits until copies are as `is_so` says, asking now and then.
fn catch_up(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + CATCH_UP;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {CATCH_UP:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A hub and its leaf node, each with a JetStream of its own domain.
struct Pair {
    kinds: [ServerKind; 2],
    sites: [Site; 2],
    cable: Cable,
    stores: [TempDir; 2],
}

fn jetstream(domain: &str, store: &TempDir) -> String {
    let store = store.path();
    format!("jetstream {{ store_dir: {store:?}, domain: {domain} }}")
}

impl Pair {
    fn start(kinds: [ServerKind; 2]) -> Option<Self> {
        let stores = [tempfile::tempdir(), tempfile::tempdir()].map(|dir| dir.expect("a folder"));
        let hub = Site::hub(kinds[0], "HUB", "", &jetstream("hub", &stores[0]))?;
        let cable = Cable::to(hub.port);
        let port = cable.port;
        let remotes = format!(
            "reconnect: \"100ms\", remotes: [{{ url: \"nats://127.0.0.1:{port}\", \
             ignore_discovered_servers: true }}]"
        );
        let leaf = Site::start(kinds[1], "EDGE", None, &remotes, &jetstream("leaf", &stores[1]))?;
        let pair = Self { kinds, sites: [hub, leaf], cable, stores };
        pair.linked();
        Some(pair)
    }

    fn linked(&self) {
        self.sites.iter().for_each(|site| site.linked(1));
    }

    fn askers(&self) -> [Asker; 2] {
        self.sites.each_ref().map(|site| Asker::connect(&site.server))
    }

    /// Ends the hub and starts it again: what its memory had is gone.
    fn restart_hub(&mut self) {
        let Self { kinds, sites, stores, .. } = self;
        let hub = &mut sites[0];
        hub.server.signal(rustix::process::Signal::TERM);
        hub.server.wait();
        let more = jetstream("hub", &stores[0]);
        *hub = Site::start(kinds[0], "HUB", Some(hub.port), "", &more).expect("it was there before");
    }
}

/// Streams of each side.
const NAMES: [&str; 2] = ["A", "B"];

/// Makes on each side a stream, and copies of what is on the other.
fn make_streams(askers: &mut [Asker; 2]) {
    for (asker, name) in askers.iter_mut().zip(NAMES) {
        asker.create(name, &Value::Null);
    }
    let apis = ["$JS.leaf.API", "$JS.hub.API"];
    for (side, asker) in askers.iter_mut().enumerate() {
        let other = NAMES[1 - side];
        let external = json!({ "api": apis[side], "deliver": "" });
        let origin = json!({ "name": other, "external": external });
        asker.create(&format!("M{other}"), &json!({ "subjects": [], "mirror": origin }));
        let some = json!({ "name": other, "external": external, "filter_subject": format!("{other}.x.*") });
        let own = json!({ "name": NAMES[side] });
        asker.create(&format!("S{other}"), &json!({ "subjects": [], "sources": [some, own] }));
    }
}

/// Publishes so many messages on both sides, without waiting for anything.
fn publish_to_both(askers: &mut [Asker; 2], count: usize, what: &str) {
    for at in 0..count {
        for (asker, name) in askers.iter_mut().zip(NAMES) {
            let subject = format!("{name}.{}.{}", if at % 3 == 0 { "y" } else { "x" }, at % 7);
            let body = format!("{name} {what} {at}");
            asker.raw.send_bytes(&publish(&subject, "nobody", "A: b\r\n", body.as_bytes()));
        }
    }
    askers.iter_mut().for_each(|asker| drop(asker.raw.barrier()));
}

fn contents(messages: &[Stored]) -> Vec<(u64, &str, &[u8])> {
    messages.iter().map(|m| (m.seq, m.subject.as_str(), m.payload.as_slice())).collect()
}

/// Bodies of those messages whose subject begins so.
fn bodies<'a>(messages: &'a [Stored], prefix: &str) -> Vec<&'a [u8]> {
    let own = messages.iter().filter(|message| message.subject.starts_with(prefix));
    own.map(|message| message.payload.as_slice()).collect()
}

/// Messages of a stream, once there are so many: the first ones of a new stream are read when they
/// are released.
fn read(asker: &mut Asker, stream: &str, count: usize, kinds: [ServerKind; 2]) -> Vec<Stored> {
    let mut all = Vec::new();
    catch_up(&format!("{stream} has {count} messages, {kinds:?}"), || {
        all = asker.read_all(stream);
        all.len() >= count
    });
    all
}

/// Waits until everything is copied, and checks that it is there once.
fn check(askers: &mut [Asker; 2], kinds: [ServerKind; 2]) {
    for side in [0, 1] {
        let (here, other) = (1 - side, NAMES[side]);
        let counts = [side, here].map(|at| askers[at].number(NAMES[at], "messages") as usize);
        let whole = read(&mut askers[side], other, counts[0], kinds);
        let mirrored = read(&mut askers[here], &format!("M{other}"), whole.len(), kinds);
        assert_eq!(contents(&mirrored), contents(&whole), "{kinds:?}");
        let own = read(&mut askers[here], NAMES[here], counts[1], kinds);
        let wanted = bodies(&whole, &format!("{other}.x."));
        let sourced = read(&mut askers[here], &format!("S{other}"), wanted.len() + own.len(), kinds);
        assert_eq!(bodies(&sourced, &format!("{other}.")), wanted, "{kinds:?}");
        assert_eq!(bodies(&sourced, NAMES[here]), bodies(&own, ""), "{kinds:?}");
        let mirror = askers[here].api(&format!("STREAM.INFO.M{other}"), &Value::Null)["mirror"].clone();
        assert_eq!((&mirror["lag"], mirror.get("error")), (&json!(0), None), "{mirror}, {kinds:?}");
    }
}

/// Does it for all mixes of servers at once.
fn in_all_mixes(test: impl Fn(Pair) + Sync) {
    thread::scope(|scope| {
        for kinds in MIXES {
            let test = &test;
            scope.spawn(move || Pair::start(kinds).into_iter().for_each(test));
        }
    });
}

#[test]
fn streams_of_two_domains_copy_each_other_over_a_link_that_goes_and_comes() {
    in_all_mixes(|pair| {
        let mut askers = pair.askers();
        make_streams(&mut askers);
        // nats-server waits before it asks again, longer each time: with one of them, one round.
        let rounds = if matches!(pair.kinds, [ServerKind::Ours, ServerKind::Ours]) { 2 } else { 1 };
        for round in 0..rounds {
            publish_to_both(&mut askers, 300, &format!("{round} linked"));
            // In the middle of it.
            pair.cable.unplug();
            publish_to_both(&mut askers, 200, &format!("{round} alone"));
            pair.cable.plug();
            pair.linked();
            publish_to_both(&mut askers, 10, &format!("{round} linked again"));
            check(&mut askers, pair.kinds);
        }
    });
}

#[test]
fn they_go_on_where_they_were_when_the_hub_has_forgotten_them() {
    in_all_mixes(|mut pair| {
        let mut askers = pair.askers();
        make_streams(&mut askers);
        publish_to_both(&mut askers, 100, "before");
        check(&mut askers, pair.kinds);
        pair.restart_hub();
        askers[0] = Asker::connect(&pair.sites[0].server);
        publish_to_both(&mut askers, 100, "after");
        check(&mut askers, pair.kinds);
    });
}

#[test]
fn a_work_queue_loses_what_the_other_side_has_and_nothing_else() {
    in_all_mixes(|pair| {
        let mut askers = pair.askers();
        askers[0].create("W", &json!({ "retention": "workqueue" }));
        let origin = json!({ "name": "W", "external": { "api": "$JS.hub.API", "deliver": "" } });
        askers[1].create("C", &json!({ "subjects": [], "sources": [origin] }));
        let mut published = Vec::new();
        let mut publish_some = |asker: &mut Asker, count: usize| {
            for _ in 0..count {
                let body = format!("{}", published.len());
                asker.raw.send_bytes(&publish("W.a", "nobody", "", body.as_bytes()));
                published.push(body.into_bytes());
            }
            asker.raw.barrier();
        };
        publish_some(&mut askers[0], 300);
        pair.cable.unplug();
        publish_some(&mut askers[0], 100);
        pair.cable.plug();
        pair.linked();
        publish_some(&mut askers[0], 10);
        catch_up(&format!("everything is moved, {:?}", pair.kinds), || {
            askers[1].number("C", "messages") >= 410 && askers[0].number("W", "messages") == 0
        });
        let moved = read(&mut askers[1], "C", 410, pair.kinds);
        assert_eq!(bodies(&moved, ""), published, "{:?}", pair.kinds);
    });
}
