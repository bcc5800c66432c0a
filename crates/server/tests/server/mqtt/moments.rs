//! Moments between two steps: a subscription that begins, a client that leaves before it is
//! answered, an acknowledgement that is lost.

use super::peer::{Peer, id};
use super::{address, server};
use myelin_mqtt::packet::{
    ClientPacket, Properties, Qos, RetainHandling, SubscribeFilters, SubscribeOptions, SubscribePacket,
};

/// A message that comes by the session's consumer does not come live, too, on whatever shard its
/// publisher is.
#[test]
fn no_message_of_qos_1_comes_with_qos_0_while_its_subscription_begins() {
    const MESSAGES: u32 = 1000;
    let server = server("", "");
    let at = address(&server);
    let mut sub = Peer::connect5(at, "sub");
    // Others behind it: the longer the packet, the longer it is a subscription without being
    // stored.
    let others: Vec<String> = (0..300).map(|number| format!("other/{number}")).collect();
    let mut raw = Vec::new();
    for (filter, max_qos) in std::iter::once(("often", Qos::AtLeastOnce))
        .chain(others.iter().map(|other| (other.as_str(), Qos::AtMostOnce)))
    {
        let retain_handling = RetainHandling::DontSend;
        let options = SubscribeOptions { max_qos, retain_handling, ..SubscribeOptions::default() };
        SubscribeFilters::push(filter, options, &mut raw);
    }
    let (properties, filters) = (Properties::EMPTY, SubscribeFilters::of(&raw));
    let subscribe = ClientPacket::Subscribe(SubscribePacket { packet_id: id(1), properties, filters });
    std::thread::scope(|scope| {
        let publishers = ["one", "two"].map(|client_id| {
            scope.spawn(move || {
                let mut publisher = Peer::connect(at, client_id);
                (0..MESSAGES).for_each(|number| publisher.publish_1("often", &number.to_string()));
            })
        });
        while publishers.iter().any(|publisher| !publisher.is_finished()) {
            sub.send(&subscribe);
            // It fails where a message has no number.
            sub.finish_all();
            sub.ask_to_leave("often");
            sub.finish_all();
        }
    });
}
