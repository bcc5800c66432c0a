//! Streams that an account of a hub imports, as clients of its leaf node hear them.

use super::Site;
use crate::eventually;
use crate::raw::{Message, Raw};
use crate::routes::MIXES;

const ACCOUNTS: &str = "accounts { \
     A { users: [{user: a, password: a}], \
         imports: [{stream: {account: B, subject: \"st.>\"}, prefix: \"from.b\"}] }, \
     B { users: [{user: b, password: b}], exports: [{stream: \"st.>\"}] } }";

fn client(site: &Site, user: &str) -> Raw {
    let mut raw = Raw::open(site.server.address());
    raw.send(&format!(
        "CONNECT {{\"user\":\"{user}\",\"pass\":\"{user}\",\"verbose\":false,\
         \"headers\":true,\"no_responders\":true}}\r\n"
    ));
    raw.barrier();
    raw
}

/// Messages before the one that ends it.
fn until_end(client: &mut Raw) -> Vec<(String, String)> {
    let all = std::iter::repeat_with(|| client.message());
    let all = all.take_while(|message: &Message| message.subject != "from.b.st.end");
    all.map(|message| (message.sid.clone(), message.subject.clone())).collect()
}

fn count(got: &[(String, String)], sids: &[&str]) -> usize {
    got.iter().filter(|(sid, subject)| sids.contains(&sid.as_str()) && subject == "from.b.st.one").count()
}

#[test]
fn an_imported_stream_reaches_subscribers_behind_a_leaf_node() {
    for kinds in MIXES {
        let Some(hub) = Site::hub(kinds[0], "HUB", "", ACCOUNTS) else { continue };
        let port = hub.port;
        let remotes = format!("remotes: [{{ url: \"nats://a:a@127.0.0.1:{port}\" }}]");
        let Some(leaf) = Site::start(kinds[1], "EDGE", None, &remotes, "") else { continue };
        leaf.linked(1);
        let (mut here, mut there) = (leaf.client(), client(&hub, "b"));
        here.send("SUB from.b.st.> 1\r\nSUB from.b.st.one q 2\r\nSUB from.b.st.one q 3\r\nSUB st.one 4\r\n");
        here.barrier();
        eventually("interest is known at the hub", || {
            there.publish("st.probe", "");
            there.barrier();
            !here.barrier().is_empty()
        });
        let publish = |there: &mut Raw| {
            (0..5).for_each(|_| there.publish("st.one", "x"));
            there.publish("st.end", "");
            there.barrier();
        };
        there.publish("st.end", "");
        until_end(&mut here);
        publish(&mut there);
        let got = until_end(&mut here);
        assert_eq!((count(&got, &["1"]), count(&got, &["2", "3"]), got.len()), (5, 5, 10), "{got:?}");
        // A member of the group that is near gets them all, and the other side its own once.
        let mut near = client(&hub, "a");
        near.send("SUB from.b.st.one q 7\r\n");
        near.barrier();
        publish(&mut there);
        let got = until_end(&mut here);
        assert_eq!((count(&got, &["1"]), got.len()), (5, 5), "{got:?}");
        assert_eq!(near.barrier().len(), 5);
        // Nobody is left who wants it.
        near.send("UNSUB 7\r\n");
        near.barrier();
        here.send("UNSUB 1\r\nUNSUB 2\r\nUNSUB 3\r\n");
        here.barrier();
        there.send("SUB inbox 1\r\n");
        eventually("interest is gone", || {
            there.send("PUB st.one inbox 0\r\n\r\n");
            there.barrier().iter().any(|message| message.text().starts_with("NATS/1.0 503"))
        });
    }
}
