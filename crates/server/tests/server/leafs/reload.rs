//! Remotes that come, go and change by reload, and leaf nodes whose account does.

use super::Site;
use crate::eventually;
use crate::routes::{Ours, free_port};

const ACCOUNTS: &str =
    "accounts { A { users: [{user: a, password: a}] }, B { users: [{user: b, password: b}] } }";

/// Ids of the links of a site, by account.
fn ids(site: &Site) -> Vec<(String, u64)> {
    let links = site.links().into_iter().map(|link| {
        (link["account"].as_str().unwrap_or_default().to_owned(), link["id"].as_u64().unwrap_or(0))
    });
    let mut ids: Vec<_> = links.collect();
    ids.sort_unstable();
    ids
}

#[test]
fn a_reload_touches_the_remotes_that_have_changed() {
    let hub = Site::hub(Ours, "HUB", "", ACCOUNTS).expect("it is built");
    let port = hub.port;
    let remote = |account: &str, more: &str| {
        let user = account.to_lowercase();
        format!("{{ url: \"nats://{user}:{user}@127.0.0.1:{port}\", account: {account}, {more} }}")
    };
    let inner = |remotes: &str| format!("reconnect: \"50ms\"\nremotes: [{remotes}]");
    let text = |remotes: &str| format!("server_name: EDGE\nleafnodes {{ \n{} }}\n{ACCOUNTS}", inner(remotes));
    let leaf = Site::start(Ours, "EDGE", None, &inner(&remote("A", "")), ACCOUNTS).expect("it is built");
    leaf.linked(1);
    let [(_, first)] = ids(&leaf)[..] else { panic!("one link") };
    leaf.server.reload(&text(&[remote("A", ""), remote("B", "")].join(", ")));
    leaf.linked(2);
    let [(_, same), (_, second)] = ids(&leaf)[..] else { panic!("two links") };
    assert_eq!(same, first, "the link that was there stays");
    let lines = leaf.server.reload(&text(&[remote("A", "compression: off"), remote("B", "")].join(", ")));
    let line = "account=\"A\" Compression value is: {off []}";
    assert!(lines.iter().any(|told| told.contains(line)), "{lines:?}");
    eventually("another link in the place of the first", || {
        let ids = ids(&leaf);
        ids.len() == 2 && ids[0].1 != first && ids[1].1 == second
    });
    let lines = leaf
        .server
        .reload(&text(&[remote("A", "disabled: true, compression: off"), remote("B", "")].join(", ")));
    let line = "account=\"A\" Disabled value is: true";
    assert!(lines.iter().any(|told| told.contains(line)), "{lines:?}");
    leaf.linked(1);
    assert_eq!(ids(&leaf), [("B".to_owned(), second)]);
    let refused = leaf.server.reload(&text(&remote("B", "hub: true")));
    assert!(refused.iter().any(|line| line.contains("field \"Hub\": old=false, new=true")), "{refused:?}");
    assert_eq!(ids(&leaf), [("B".to_owned(), second)], "nothing has changed");
    let lines = leaf.server.reload(&text(&remote("A", "compression: off")));
    assert!(lines.iter().any(|line| line.contains("account=\"B\" removed")), "{lines:?}");
    eventually("A instead of B", || matches!(&ids(&leaf)[..], [(account, _)] if account == "A"));
    // Nobody goes on dialling what was removed.
    eventually("B is gone at the hub", || matches!(&ids(&hub)[..], [(account, _)] if account == "A"));
}

#[test]
fn a_leaf_node_goes_with_its_account() {
    let port = free_port();
    let hub = Site::start(Ours, "HUB", Some(port), "", ACCOUNTS).expect("it is built");
    let remotes = format!(
        "reconnect: \"50ms\"\nremotes: [{{ url: \"nats://a:a@127.0.0.1:{port}\" }}, {{ url: \"nats://b:b@127.0.0.1:{port}\", account: B }}]"
    );
    let leaf = Site::start(Ours, "EDGE", None, &remotes, ACCOUNTS).expect("it is built");
    hub.linked(2);
    leaf.linked(2);
    let [_, (_, of_b)] = ids(&hub)[..] else { panic!("two links") };
    let without = format!(
        "server_name: HUB\nleafnodes {{ listen: \"127.0.0.1:{port}\" }}\n\
         accounts {{ B {{ users: [{{user: b, password: other}}] }} }}"
    );
    hub.server.reload(&without);
    // Compat: another password does not end a link that is there.
    eventually("only that of B stays", || ids(&hub) == [("B".to_owned(), of_b)]);
    eventually("A is refused", || leaf.server.log().contains("Leafnode Error 'Authorization Violation'"));
    assert_eq!(ids(&hub), [("B".to_owned(), of_b)]);
}
