//! Wills of MQTT 5: delays, what ends them, and what is stored of them.

use super::peer::{Peer, will};
use super::peer5::{hello5, with};
use super::stored::Asking;
use super::{address, cluster, server};
use crate::eventually;
use myelin_mqtt::packet::{ConnectPacket, Property, Qos, ReasonCode, Will};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Connects with a will on `wills/<client id>`, and leaves it.
fn leave_will(at: SocketAddr, client_id: &str, (delay, expiry): (u32, u32)) -> Instant {
    let peer = with_will(at, client_id, (delay, expiry), true);
    let left = Instant::now();
    drop(peer);
    left
}

fn with_will(at: SocketAddr, client_id: &str, (delay, expiry): (u32, u32), clean: bool) -> Peer {
    let (delay, expiry) = (with(&[Property::WillDelay(delay)]), with(&[Property::SessionExpiry(expiry)]));
    let topic = format!("wills/{client_id}");
    let will = will(&topic, "bye");
    let will = will.map(|will| Will { properties: delay.properties(), qos: Qos::AtLeastOnce, ..will });
    let properties = expiry.properties();
    Peer::enter(at, &ConnectPacket { will, properties, clean, ..hello5(client_id) })
}

fn watcher(at: SocketAddr) -> Peer {
    let mut watcher = Peer::connect5(at, "watcher");
    assert_eq!(watcher.subscribe_with(&[("wills/#", Qos::AtLeastOnce)]), [1]);
    watcher
}

#[test]
fn a_will_comes_after_its_delay_or_with_the_end_of_its_session() {
    let server = server("", "");
    let at = address(&server);
    let mut watcher = watcher(at);
    for (client_id, times) in [("delay", (1, 1000)), ("expiry", (1000, 1))] {
        let left = leave_will(at, client_id, times);
        let came = watcher.take5();
        assert_eq!((came.topic, came.qos), (format!("wills/{client_id}"), 1));
        assert!(left.elapsed() >= Duration::from_secs(1), "{:?}", left.elapsed());
    }
    leave_will(at, "now", (1000, 0));
    assert_eq!(watcher.take5().topic, "wills/now");
}

#[test]
fn a_will_that_waits_is_not_published_if_its_session_goes_on() {
    let server = server("", "");
    let at = address(&server);
    let mut watcher = watcher(at);
    leave_will(at, "back", (1, 1000));
    leave_will(at, "gone", (1, 1000));
    let (_back, is_present) = Peer::resume5(at, ("back", false), &[]);
    assert!(is_present);
    // That of another, which was left later, comes.
    assert_eq!(watcher.take5().topic, "wills/gone");
    assert_eq!(watcher.all_came(), []);
    // A session that begins anew ends the one before: the will is due.
    let left = leave_will(at, "anew", (1000, 1000));
    let (_anew, is_present) = Peer::resume5(at, ("anew", true), &[]);
    assert!(!is_present);
    assert_eq!(watcher.take5().topic, "wills/anew");
    assert!(left.elapsed() < Duration::from_secs(500));
}

#[test]
fn a_will_that_waits_is_not_published_if_its_session_goes_on_elsewhere() {
    let servers = cluster();
    let [one, two] = [&servers[0].0, &servers[1].0].map(address);
    let mut watcher = watcher(one);
    leave_will(one, "back", (2, 1000));
    let (_back, is_present) = Peer::resume5(two, ("back", false), &[]);
    assert!(is_present);
    leave_will(one, "gone", (2, 1000));
    assert_eq!(watcher.take5().topic, "wills/gone");
    assert_eq!(watcher.all_came(), []);
}

/// On two shards the first connection may end before the second one has its session.
#[test]
fn no_will_is_lost_however_close_its_session_begins_anew() {
    const CLIENTS: usize = 8;
    const TIMES: usize = 40;
    let server = server("", "");
    let at = address(&server);
    let mut watcher = watcher(at);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                for time in 0..TIMES {
                    let client_id = format!("{client}-{time}");
                    let _first = with_will(at, &client_id, (1000, 1000), true);
                    let (_second, is_present) = Peer::resume5(at, (&client_id, true), &[]);
                    assert!(!is_present);
                }
            });
        }
    });
    let mut topics: Vec<String> = (0..CLIENTS * TIMES).map(|_| watcher.take5().topic).collect();
    topics.sort();
    topics.dedup();
    assert_eq!(topics.len(), CLIENTS * TIMES, "each once");
    assert_eq!(watcher.all_came(), []);
}

#[test]
fn a_client_whose_place_another_takes_leaves_its_will_unless_that_waits() {
    let server = server("", "");
    let at = address(&server);
    let mut watcher = watcher(at);
    for (client_id, delay, clean, comes) in
        [("now", 0, false, true), ("waits", 1000, false, false), ("anew", 1000, true, true)]
    {
        let mut first = with_will(at, client_id, (delay, 1000), true);
        let (_second, is_present) = Peer::resume5(at, (client_id, clean), &[]);
        assert_eq!(is_present, !clean);
        assert_eq!(first.parting().0, ReasonCode::SessionTakenOver);
        if comes {
            assert_eq!(watcher.take5().topic, format!("wills/{client_id}"));
        }
        assert_eq!(watcher.all_came(), []);
    }
}

#[test]
fn a_will_is_stored_and_retained_with_its_properties() {
    let server = server("", "");
    let at = address(&server);
    let mut watcher = watcher(at);
    for (client_id, delay) in [("now", 0), ("later", 1)] {
        let properties = with(&[
            Property::WillDelay(delay),
            Property::ContentType("t"),
            Property::User(("a", "1")),
            Property::ResponseTopic("r"),
        ]);
        let expiry = with(&[Property::SessionExpiry(1000)]);
        let topic = format!("wills/{client_id}");
        let will = will(&topic, "bye");
        let (qos, retain) = (Qos::AtLeastOnce, true);
        let will = will.map(|will| Will { properties: properties.properties(), qos, retain, ..will });
        let connect = ConnectPacket { will, properties: expiry.properties(), ..hello5(client_id) };
        drop(Peer::enter(at, &connect));
        let came = watcher.take5();
        let expected = ["ContentType(\"t\")", "User((\"a\", \"1\"))", "ResponseTopic(\"r\")"];
        assert_eq!(
            (came.topic, came.properties, came.retain),
            (topic.clone(), expected.map(str::to_owned).to_vec(), false)
        );
        let mut asking = Asking::new(&server);
        eventually("it is retained", || {
            asking.last("$MQTT_rmsgs", &format!("$MQTT.rmsgs.wills.{client_id}")).1 == "bye"
        });
        let mut later = Peer::connect5(at, "reader");
        later.listen5(&[&topic]);
        let kept = later.came5();
        assert_eq!((kept.retain, kept.properties.len()), (true, 3));
        later.quit5(&[]);
    }
}
