//! Imports of accounts on hubs and leaf nodes: streams of a hub as clients of its leaf node hear
//! them, and where messages do not go once more.

use super::Site;
use super::shapes::{TRIPLES, cluster};
use crate::eventually;
use crate::raw::{Message, Raw};
use crate::routes::{MIXES, ServerKind, free_port, wait_for_interest};

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

/// Accounts of a server whose A imports services and a stream of B.
const IMPORTING: &str = "accounts { \
     A { users: [{user: a, password: a}], imports: [\
         {service: {account: B, subject: \"svc.>\"}}, {stream: {account: B, subject: \"st.>\"}}] }, \
     B { users: [{user: b, password: b}], exports: [{service: \"svc.>\"}, {stream: \"st.>\"}] } }";

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

/// Waits until a hub knows that so many links want `subject`.
fn wanted(hub: &Site, subject: &str, links: usize) {
    eventually("interest of links", || {
        let page = hub.server.page("/leafz?subs=1");
        let all = page["leafs"].as_array().cloned().unwrap_or_default();
        let wants = |link: &serde_json::Value| {
            let list = link["subscriptions_list"].as_array();
            list.is_some_and(|list| list.iter().any(|one| one == subject))
        };
        all.iter().filter(|link| wants(link)).count() == links
    });
}

/// Publishes five messages and no more.
fn publish_five(from: &mut Raw, subject: &str) {
    (0..5).for_each(|_| from.send(&format!("PUB {subject} answers 1\r\nx\r\n")));
    from.barrier();
}

fn count_of(got: &[Message], end: &str) -> usize {
    got.iter().filter(|message| message.subject.ends_with(end)).count()
}

/// How many messages have come under `subject`.
fn seen(to: &mut Raw, subject: &str) -> usize {
    count_of(&to.barrier(), subject)
}

/// Messages that have come to `to` before `mark`, which `from` publishes.
fn until_mark(from: &mut Raw, to: &mut Raw, mark: &str) -> Vec<Message> {
    to.send(&format!("SUB {mark} {mark}\r\n"));
    let mut got = to.barrier();
    eventually("a mark", || {
        from.publish(mark, "");
        from.barrier();
        got.extend(to.barrier());
        got.iter().any(|message| message.subject == mark)
    });
    got
}

/// A hub and a cluster of two that is its leaf node on each server, where A imports from B.
fn clustered([hub, one, two]: [ServerKind; 3]) -> Option<(Site, [Site; 2])> {
    let hub = Site::hub(hub, "HUB", "", "")?;
    let remotes = format!("remotes: [{{ url: \"nats://127.0.0.1:{}\", account: A }}]", hub.port);
    let sites = cluster([one, two], "EDGE", [&remotes, &remotes], IMPORTING)?;
    sites.iter().for_each(|site| site.linked(1));
    Some((hub, sites))
}

#[test]
fn a_service_that_a_clustered_leaf_node_imports_is_asked_once() {
    for kinds in TRIPLES {
        let Some((hub, sites)) = clustered(kinds) else { continue };
        wanted(&hub, "svc.>", 2);
        let mut asks = hub.client();
        let mut service = client(&sites[0], "b");
        service.send("SUB svc.> 1\r\n");
        let mut far = client(&sites[1], "b");
        wait_for_interest(&mut far, &mut service);
        publish_five(&mut asks, "svc.one");
        // Each server has taken them when it has what was published behind them.
        for site in &sites {
            wait_for_interest(&mut asks, &mut client(site, "a"));
        }
        far.publish("svc.end", "");
        let all = std::iter::repeat_with(|| service.message());
        let asked = all.take_while(|message| message.subject != "svc.end").count();
        assert_eq!(asked, 5, "{kinds:?}");
    }
}

/// A queue group behind an import and a mapping, in a cluster of which each server is a leaf node.
#[test]
fn a_queue_group_of_a_clustered_leaf_node_is_asked_once() {
    let accounts = "accounts { \
         A { users: [{user: a, password: a}], mappings { \"A.>\": \">\" }, exports: [{service: \"A.>\"}] }, \
         G { users: [{user: g, password: g}], imports: [{service: {account: A, subject: \"A.>\"}}] } }";
    for kinds in TRIPLES {
        let hub_accounts = "accounts { G { users: [{user: g, password: g}] } }";
        let Some(hub) = Site::hub(kinds[0], "HUB", "", hub_accounts) else { continue };
        let remotes = format!("remotes: [{{ url: \"nats://g:g@127.0.0.1:{}\", account: G }}]", hub.port);
        let Some(sites) = cluster([kinds[1], kinds[2]], "EDGE", [&remotes, &remotes], accounts) else {
            continue;
        };
        sites.iter().for_each(|site| site.linked(1));
        wanted(&hub, "A.>", 2);
        let (mut asks, mut service) = (client(&hub, "g"), client(&sites[0], "a"));
        service.send("SUB PING q 1\r\nSUB end 2\r\n");
        let mut far = client(&sites[1], "a");
        wait_for_interest(&mut far, &mut service);
        publish_five(&mut asks, "A.PING");
        for site in &sites {
            wait_for_interest(&mut asks, &mut client(site, "g"));
        }
        far.publish("end", "");
        let all = std::iter::repeat_with(|| service.message());
        let asked = all.take_while(|message| message.subject != "end").count();
        assert_eq!(asked, 5, "{kinds:?}");
    }
}

#[test]
fn a_stream_that_a_clustered_leaf_node_imports_goes_to_its_hub_once() {
    for kinds in TRIPLES {
        let Some((hub, sites)) = clustered(kinds) else { continue };
        let mut listens = hub.client();
        listens.send("SUB st.> 1\r\n");
        let (mut from, mut far) = (client(&sites[0], "b"), client(&sites[1], "b"));
        far.send("SUB st.> 1\r\n");
        wait_for_interest(&mut from, &mut far);
        for site in &sites {
            wait_for_interest(&mut client(site, "a"), &mut listens);
        }
        publish_five(&mut from, "st.one");
        let mut got = 0;
        eventually("the other server has them", || {
            got += seen(&mut far, "st.one");
            got == 5
        });
        let mut got = Vec::new();
        for (site, mark) in sites.iter().zip(["mark.0", "mark.1"]) {
            got.extend(until_mark(&mut client(site, "a"), &mut listens, mark));
        }
        assert_eq!(count_of(&got, "st.one"), 5, "{kinds:?}");
    }
}

#[test]
fn what_comes_by_an_import_does_not_go_back_to_the_hub_it_is_from() {
    let hub_accounts = "accounts { \
         A { users: [{user: a, password: a}], exports: [{service: \"svc.>\"}, {stream: \"st.>\"}] }, \
         B { users: [{user: b, password: b}], imports: [\
             {service: {account: A, subject: \"svc.>\"}}, {stream: {account: A, subject: \"st.>\"}}] } }";
    for kinds in MIXES {
        let Some(hub) = Site::hub(kinds[0], "HUB", "", hub_accounts) else { continue };
        let remote = |user: &str, account: &str| {
            format!("{{ url: \"nats://{user}:{user}@127.0.0.1:{}\", account: {account} }}", hub.port)
        };
        let remotes = format!("remotes: [{}, {}]", remote("a", "A"), remote("b", "B"));
        let Some(leaf) = Site::start(kinds[1], "EDGE", None, &remotes, IMPORTING) else { continue };
        leaf.linked(2);
        let [mut hub_a, mut hub_b] = ["a", "b"].map(|user| client(&hub, user));
        let [mut leaf_a, mut leaf_b] = ["a", "b"].map(|user| client(&leaf, user));
        for (client, subject) in
            [(&mut hub_a, "st.>"), (&mut leaf_a, "st.>"), (&mut hub_b, "svc.>"), (&mut leaf_b, "svc.>")]
        {
            client.subscribe(subject, 1);
        }
        wanted(&hub, "svc.>", 2);
        wait_for_interest(&mut leaf_a, &mut hub_a);
        wait_for_interest(&mut leaf_b, &mut hub_b);
        wait_for_interest(&mut hub_a, &mut leaf_a);
        wait_for_interest(&mut hub_b, &mut leaf_b);
        publish_five(&mut hub_a, "svc.one");
        publish_five(&mut hub_b, "st.one");
        let mut got = [0; 2];
        eventually("the leaf node has them", || {
            got[0] += seen(&mut leaf_b, "svc.one");
            got[1] += seen(&mut leaf_a, "st.one");
            got.iter().all(|count| *count >= 5)
        });
        // What the leaf node had sent on would come before these.
        let back =
            [until_mark(&mut leaf_b, &mut hub_b, "mark.b"), until_mark(&mut leaf_a, &mut hub_a, "mark.a")];
        assert_eq!(back.map(|all| count_of(&all, ".one")), [0, 0], "{kinds:?}");
        got[0] += seen(&mut leaf_b, "svc.one");
        got[1] += seen(&mut leaf_a, "st.one");
        assert_eq!(got, [5, 5], "{kinds:?}");
    }
}

#[test]
fn what_comes_by_an_import_goes_on_to_a_hub_of_another_cluster() {
    for kinds in TRIPLES {
        for is_named in [true, false] {
            let hub = |at: usize| {
                let port = free_port();
                let name = format!("cluster {{ name: C{at}, listen: \"127.0.0.1:{port}\" }}");
                let more = if is_named { name } else { String::new() };
                Site::hub(kinds[at], &format!("HUB{at}"), "", &more)
            };
            let (Some(one), Some(two)) = (hub(0), hub(1)) else { continue };
            let remote = |hub: &Site, account: &str| {
                format!("{{ url: \"nats://127.0.0.1:{}\", account: {account} }}", hub.port)
            };
            let remotes = format!("remotes: [{}, {}]", remote(&one, "A"), remote(&two, "B"));
            let Some(leaf) = Site::start(kinds[2], "EDGE", None, &remotes, IMPORTING) else { continue };
            leaf.linked(2);
            wanted(&one, "svc.>", 1);
            let (mut asks, mut service) = (one.client(), two.client());
            service.send("SUB svc.> 1\r\n");
            let (mut leaf_a, mut leaf_b) = (client(&leaf, "a"), client(&leaf, "b"));
            wait_for_interest(&mut leaf_b, &mut service);
            publish_five(&mut asks, "svc.one");
            wait_for_interest(&mut asks, &mut leaf_a);
            leaf_b.publish("svc.end", "");
            leaf_b.barrier();
            let all = std::iter::repeat_with(|| service.message());
            let asked = all.take_while(|message| message.subject != "svc.end");
            let asked = asked.filter(|message| message.subject == "svc.one").count();
            // Compat: hubs that say no cluster's name may be of one.
            assert_eq!(asked, if is_named { 5 } else { 0 }, "{kinds:?}");
        }
    }
}

/// Accounts of a server whose A imports a service of B, and whose C imports what B is asked as a
/// stream.
const ASKED: &str = "accounts { \
     A { users: [{user: a, password: a}], imports: [{service: {account: B, subject: \"st.>\"}}, \
         {stream: {account: B, subject: \"st.>\"}, prefix: \"own\"}] }, \
     B { users: [{user: b, password: b}], exports: [{service: \"st.>\"}, {stream: \"st.>\"}] }, \
     C { users: [{user: c, password: c}], \
         imports: [{stream: {account: B, subject: \"st.>\"}, prefix: \"from.b\"}] } }";

const PLAIN: &str =
    "accounts { A { users: [{user: a, password: a}] }, C { users: [{user: c, password: c}] } }";

/// Two servers of which the second dials, in two accounts. The first one listed has these accounts.
fn asked(kinds: [ServerKind; 2], is_hub: bool) -> Option<[Site; 2]> {
    let [of_hub, of_leaf] = if is_hub { [ASKED, PLAIN] } else { [PLAIN, ASKED] };
    let hub = Site::hub(kinds[0], "HUB", "", of_hub)?;
    let remote = |user: &str, account: &str| {
        format!("{{ url: \"nats://{user}:{user}@127.0.0.1:{}\", account: {account} }}", hub.port)
    };
    let remotes = format!("remotes: [{}, {}]", remote("a", "A"), remote("c", "C"));
    let leaf = Site::start(kinds[1], "EDGE", None, &remotes, of_leaf)?;
    hub.linked(2);
    leaf.linked(2);
    Some(if is_hub { [hub, leaf] } else { [leaf, hub] })
}

/// Waits until what B publishes comes to `far` by the import.
fn wait_for_stream(from: &mut Raw, far: &mut Raw) {
    eventually("the stream comes over the link", || {
        from.publish("st.probe", "");
        from.barrier();
        !far.barrier().is_empty()
    });
    from.publish("st.end", "");
    while far.message().subject != "from.b.st.end" {}
}

/// Compat: what is asked of a service goes on by a stream import to leaf nodes and hubs, and not to
/// clients here.
#[test]
fn what_a_service_is_asked_goes_on_to_other_servers_by_a_stream() {
    for (kinds, is_hub) in MIXES.into_iter().flat_map(|kinds| [(kinds, true), (kinds, false)]) {
        let Some([here, there]) = asked(kinds, is_hub) else { continue };
        let [mut asks, mut service, mut near] = ["a", "b", "c"].map(|user| client(&here, user));
        let [mut far_asks, mut far] = ["a", "c"].map(|user| client(&there, user));
        near.subscribe("from.b.st.>", 1);
        far.subscribe("from.b.st.>", 1);
        service.subscribe("st.one", 1);
        drop([&mut near, &mut far, &mut service].map(Raw::barrier));
        wait_for_stream(&mut service, &mut far);
        near.barrier();
        let mut end = |service: &mut Raw, far: &mut Raw| {
            service.publish("st.end", "");
            let far = until_end(far);
            let near = until_end(&mut near);
            [far, near].map(|got| got.iter().filter(|(_, subject)| subject == "from.b.st.one").count())
        };
        publish_five(&mut asks, "st.one");
        assert_eq!(service.barrier().len(), 5);
        assert_eq!(end(&mut service, &mut far), [5, 0], "{kinds:?} {is_hub}");
        // What has come over a link itself: to leaf nodes, not back to a hub without a name.
        wait_for_interest(&mut far_asks, &mut asks);
        publish_five(&mut far_asks, "st.one");
        let mut heard = 0;
        eventually("the service is asked", || {
            heard += service.barrier().len();
            heard == 5
        });
        assert_eq!(end(&mut service, &mut far), [if is_hub { 5 } else { 0 }, 0], "{kinds:?} {is_hub}");
    }
}

/// A leaf node that imports what it asks for itself: not over the link on which it has asked.
#[test]
fn what_a_leaf_node_asks_does_not_come_back_to_it() {
    for kinds in MIXES {
        let Some([hub, leaf]) = asked(kinds, true) else { continue };
        let (mut asks, mut service) = (client(&leaf, "a"), client(&hub, "b"));
        asks.subscribe("own.st.>", 1);
        service.subscribe("st.one", 1);
        drop([&mut asks, &mut service].map(Raw::barrier));
        eventually("the stream comes over the link", || {
            service.publish("st.probe", "");
            service.barrier();
            !asks.barrier().is_empty()
        });
        publish_five(&mut asks, "st.one");
        let mut heard = 0;
        eventually("the service is asked", || {
            heard += service.barrier().len();
            heard == 5
        });
        service.publish("st.end", "");
        let all = std::iter::repeat_with(|| asks.message()).take_while(|got| got.subject != "own.st.end");
        assert_eq!(all.filter(|got| got.subject == "own.st.one").count(), 0, "{kinds:?}");
    }
}

/// Accounts of a hub that is asked by a stream of T and answered by a service of T.
const ANSWERED: &str = "accounts { \
     T { users: [{user: t, password: t}], exports: [{stream: \"ten.>\"}, {service: \"REPLY.ten.>\"}] }, \
     S { users: [{user: s, password: s}], imports: [{stream: {account: T, subject: \"ten.>\"}}, \
         {service: {account: T, subject: \"REPLY.ten.>\"}}] } }";

/// A leaf node in both accounts, whose links go to these ports.
fn in_both(kind: ServerKind, ports: [u16; 2]) -> Option<Site> {
    let remote = |user: &str, account: &str, port: u16| {
        format!("{{ url: \"nats://{user}:{user}@127.0.0.1:{port}\", account: {account} }}")
    };
    let remotes = format!("remotes: [{}, {}]", remote("t", "T", ports[0]), remote("s", "S", ports[1]));
    let accounts =
        "accounts { T { users: [{user: t, password: t}] }, S { users: [{user: s, password: s}] } }";
    Site::start(kind, "EDGE", None, &remotes, accounts)
}

/// Asks from T of a leaf node, and has it answered in its S: both by imports of its hub.
fn ask_and_answer(leaf: &Site, what: &str) {
    let [mut asks, mut answers] = ["t", "s"].map(|user| client(leaf, user));
    for subscription in ["SUB ten.event 1\r\n", "UNSUB 1\r\nSUB ten.event q 1\r\n"] {
        answers.send(subscription);
        answers.barrier();
        asks.send("SUB REPLY.ten.one 1\r\n");
        asks.barrier();
        let mut replies = Vec::new();
        eventually("a request is answered", || {
            asks.send("PUB ten.event REPLY.ten.one 4\r\nping\r\n");
            asks.barrier();
            for request in answers.barrier() {
                answers.publish(&request.reply.expect("it is asked"), "pong");
            }
            answers.barrier();
            replies.extend(asks.barrier());
            !replies.is_empty()
        });
        assert!(replies.iter().all(|reply| reply.text().ends_with("pong")), "{what}: {replies:?}");
        asks.send("UNSUB 1\r\n");
        asks.barrier();
    }
}

#[test]
fn a_hub_carries_requests_and_answers_between_two_accounts_of_its_leaf_node() {
    for kinds in MIXES {
        let Some(hub) = Site::hub(kinds[0], "HUB", "", ANSWERED) else { continue };
        let Some(leaf) = in_both(kinds[1], [hub.port; 2]) else { continue };
        leaf.linked(2);
        ask_and_answer(&leaf, &format!("{kinds:?}"));
    }
    for kinds in TRIPLES {
        let Some(hubs) = cluster([kinds[0], kinds[1]], "C", ["", ""], ANSWERED) else { continue };
        let Some(leaf) = in_both(kinds[2], [hubs[0].port, hubs[1].port]) else { continue };
        leaf.linked(2);
        ask_and_answer(&leaf, &format!("cluster {kinds:?}"));
    }
}
