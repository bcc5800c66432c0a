//! A push consumer delivers only while somebody listens to its deliver subject, and notices at once
//! when that changes.

use super::{Asker, Home};
use crate::eventually;
use crate::raw::Raw;
use serde_json::{Value, json};

/// Whether the consumer believes that somebody listens, and how many messages it has delivered.
fn stands(asker: &mut Asker) -> (bool, u64) {
    let info = asker.api("CONSUMER.INFO.S.C", &Value::Null);
    (
        info["push_bound"].as_bool().unwrap_or_default(),
        info["delivered"]["consumer_seq"].as_u64().expect("a number"),
    )
}

#[test]
fn a_push_consumer_follows_who_listens() {
    let home = Home::new();
    let server = home.start("");
    let (mut asker, mut listener) = (Asker::connect(&server), Raw::connect(&server));
    asker.create("S", &json!({ "storage": "memory" }));
    let config = json!({ "durable_name": "C", "deliver_subject": "to.me", "ack_policy": "none" });
    asker.api("CONSUMER.CREATE.S.C", &json!({ "stream_name": "S", "config": config }));
    asker.publish("S.0", "0");
    assert_eq!(stands(&mut asker), (false, 0));
    // Compat: who listens to more, or in a queue group that the consumer does not deliver to, is
    // nobody.
    for sub in ["SUB to.* 1\r\n", "SUB to.me group 1\r\n", "SUB *.me group 1\r\n"] {
        listener.send(sub);
        assert_eq!(listener.barrier().len(), 0, "{sub}");
        assert_eq!(stands(&mut asker), (false, 0), "{sub}");
        listener.send("UNSUB 1\r\n");
    }
    for n in 0..4 {
        listener.send("SUB to.me 1\r\n");
        assert_eq!(listener.message().text(), n.to_string());
        listener.send("UNSUB 1\r\n");
        listener.barrier();
        asker.publish("S.x", &(n + 1).to_string());
        assert_eq!(stands(&mut asker), (false, n + 1));
    }
    // The message that is the last of a subscription, and the end of a connection.
    listener.send("SUB to.me 1\r\nUNSUB 1 1\r\n");
    assert_eq!(listener.message().text(), "4");
    asker.publish("S.x", "5");
    assert_eq!(stands(&mut asker), (false, 5));
    listener.send("SUB to.me 1\r\n");
    assert_eq!(listener.message().text(), "5");
    drop(listener);
    eventually("nobody listens any more", || !stands(&mut asker).0);
    asker.publish("S.x", "6");
    assert_eq!(stands(&mut asker), (false, 6));
    // Another deliver subject, to which somebody listens already.
    let mut listener = Raw::connect(&server);
    listener.subscribe("to.you", 1);
    listener.barrier();
    let config = json!({ "durable_name": "C", "deliver_subject": "to.you", "ack_policy": "none" });
    asker.api("CONSUMER.CREATE.S.C", &json!({ "stream_name": "S", "config": config }));
    assert_eq!(listener.message().text(), "6");
    listener.send("UNSUB 1\r\n");
    listener.barrier();
    assert_eq!(stands(&mut asker), (false, 7));
    listener.subscribe("to.you", 2);
    asker.publish("S.x", "7");
    assert_eq!(listener.message().text(), "7");
}
