//! Sessions with many filters: one consumer reads for all of them, with no more filters than it
//! compares messages with in little time.

use super::peer::{Peer, lasting};
use super::stored::Asking;
use super::{address, server};
use crate::eventually;
use myelin_mqtt::packet::Qos;

/// Filters of consumers of stored messages, without the stream's prefix.
fn filters(asking: &mut Asking) -> Vec<String> {
    let answer = asking.ask("CONSUMER.LIST.$MQTT_msgs", "");
    let config = &answer["consumers"][0]["config"];
    let many = config["filter_subjects"].as_array().into_iter().flatten();
    let all = many.chain(Some(&config["filter_subject"])).filter_map(|filter| filter.as_str());
    all.map(|filter| filter.replace("$MQTT.msgs.", "")).collect()
}

/// Topics of devices, each with a filter of its own.
fn topics(numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|number| format!("site/7/device/{number}")).collect()
}

fn subscribe(peer: &mut Peer, topics: &[String]) {
    let filters: Vec<_> = topics.iter().map(|topic| (&**topic, Qos::AtLeastOnce)).collect();
    assert_eq!(peer.subscribe_with(&filters), vec![1; topics.len()]);
}

/// Takes so many messages, which are acknowledged, and sees that there are no others.
fn take(peer: &mut Peer, count: usize) -> Vec<String> {
    let mut texts = Vec::new();
    eventually("they have come", || {
        for (text, number) in peer.all_came() {
            peer.puback(number);
            texts.push(text);
        }
        texts.len() >= count
    });
    assert!(peer.all_came().is_empty());
    texts
}

#[test]
fn nothing_is_lost_or_comes_twice_however_many_filters_there_are() {
    let server = server("", "");
    let at = address(&server);
    let mut asking = Asking::new(&server);
    let mut publisher = Peer::connect(at, "publisher");
    let mut peer = Peer::dial(at);
    assert!(!peer.resume(&lasting("many")));
    let (mut had, mut round) = (0, 0);
    for count in [63, 64, 65, 1000, 65, 64] {
        // On its way while the filters change, to the first and the last of those that stay.
        let stays = had.min(count).max(1) - 1;
        let mut wanted = Vec::new();
        let mut publish = |numbers: &[usize], wanted: &mut Vec<String>| {
            for number in numbers {
                round += 1;
                publisher.publish_1(&format!("site/7/device/{number}"), &round.to_string());
                wanted.push(format!("PUBLISH site/7/device/{number} {round} q1"));
            }
        };
        if had > 0 {
            peer.disconnect();
            assert_eq!(peer.rest(), b"");
            publish(&[0, stays], &mut wanted);
            // These are nobody's.
            publish(&[5000], &mut Vec::new());
            peer = Peer::dial(at);
            assert!(peer.resume(&lasting("many")));
        }
        // They are not acknowledged before the filters have changed.
        let mut came = Vec::new();
        eventually("they have come", || {
            came.extend(peer.all_came());
            came.len() == wanted.len()
        });
        if count > had {
            subscribe(&mut peer, &topics(had..count));
        } else {
            let left = topics(count..had);
            peer.unsubscribe(&left.iter().map(String::as_str).collect::<Vec<_>>());
        }
        publish(&[0, count - 1], &mut wanted);
        publish(&[count, 5000], &mut Vec::new());
        came.iter().for_each(|(_, number)| peer.puback(*number));
        let mut came: Vec<_> = came.into_iter().map(|(text, _)| text).collect();
        came.extend(take(&mut peer, wanted.len() - came.len()));
        came.sort();
        wanted.sort();
        assert_eq!(came, wanted, "{had} filters, then {count}");
        let filters = filters(&mut asking);
        if count <= 64 {
            assert_eq!(filters.len(), count);
        } else {
            assert_eq!(filters, ["site.7.device.>"]);
        }
        had = count;
    }
    // What none of the filters begins like is not kept for the session while it sleeps.
    subscribe(&mut peer, &topics(64..1000));
    peer.disconnect();
    assert_eq!(peer.rest(), b"");
    publisher.publish_1("site/8/device/1", "nobody");
    assert_eq!(asking.messages("$MQTT_msgs"), 0);
    publisher.publish_1("site/7/device/999", "kept");
    assert_eq!(asking.messages("$MQTT_msgs"), 1);
}
