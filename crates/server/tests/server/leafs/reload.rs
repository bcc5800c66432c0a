//! Remotes that come, go and change by reload, and leaf nodes whose account does.

use super::{Site, exchange};
use crate::eventually;
use crate::routes::{MIXES, Ours, free_port, wait_for_interest};
use crate::tls::Lab;

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

/// Attempts of which the first is an error in the log, as configured first, and then each.
#[test]
fn a_reload_says_which_attempts_are_errors() {
    let port = free_port();
    let config = |more: &str| {
        let remotes = format!("remotes: [{{ url: \"nats://127.0.0.1:{port}\" }}]");
        format!("server_name: EDGE\nleafnodes {{ reconnect: \"20ms\"\n{remotes} }}\n{more}")
    };
    let setup = crate::process::Setup::default();
    let leaf = Site::configured(setup, Ours, &config("connect_error_reports: 1000000"), 0).expect("ours");
    let begins = "Error trying to connect as leafnode to remote server";
    leaf.server.wait_for_log(&format!("[ERR] {begins} \"127.0.0.1:{port}\" (attempt 1)"));
    leaf.server.wait_for_log(&format!("[DBG] {begins} \"127.0.0.1:{port}\" (attempt 2)"));
    let from = leaf.server.log().lines().count();
    leaf.server.reload(&config("connect_error_reports: 1"));
    leaf.server.wait_for_log_after(from, &format!("[ERR] {begins}"));
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

/// Interest of clients, imports and mappings from before a server has any hub is told to the first,
/// and taken back when it goes.
#[test]
fn the_first_hub_of_a_server_comes_by_a_reload() {
    let accounts =
        "accounts { A { users: [{user: a, password: a}], mappings { old: new } } }\nno_auth_user: a";
    for kinds in MIXES {
        let Some(hub) = Site::hub(kinds[0], "HUB", "", accounts) else { continue };
        let Some(leaf) = Site::start(kinds[1], "EDGE", None, "", accounts) else { continue };
        let (mut near, mut far) = (leaf.client(), hub.client());
        near.send("SUB plain 1\r\nSUB wild.* 2\r\nSUB work group 3\r\nSUB work group 4\r\nSUB new 5\r\n");
        near.barrier();
        let mut gone = leaf.client();
        gone.send("SUB plain 1\r\nSUB lost 2\r\n");
        gone.barrier();
        let remotes = format!("remotes: [{{ url: \"nats://127.0.0.1:{}\", account: A }}]", hub.port);
        let lines =
            leaf.server.reload(&format!("server_name: EDGE\nleafnodes {{ \n{remotes} }}\n{accounts}"));
        assert!(lines.iter().any(|line| line.contains("Reloaded server")), "{kinds:?}: {lines:?}");
        exchange_in([&hub, &leaf], &mut near, &mut far);
        for (subject, sids) in
            [("plain", &["1"][..]), ("wild.x", &["2"]), ("work", &["3", "4"]), ("old", &["5"])]
        {
            far.publish(subject, "here");
            far.barrier();
            let got = near.message();
            assert!(sids.contains(&&*got.sid), "{kinds:?} {subject}: {got:?}");
        }
        assert!(near.barrier().is_empty(), "{kinds:?}: each once");
        // Whoever goes is no more heard of at the hub.
        drop(gone);
        near.send("UNSUB 1\r\nUNSUB 2\r\nUNSUB 3\r\nUNSUB 4\r\nSUB inbox 9\r\n");
        near.barrier();
        far.send("SUB inbox 7\r\n");
        for subject in ["plain", "wild.x", "work", "lost"] {
            eventually("interest is gone", || {
                far.send(&format!("PUB {subject} inbox 0\r\n\r\n"));
                far.barrier().iter().any(|message| message.text().starts_with("NATS/1.0 503"))
            });
        }
    }
}

/// Links both and waits until both know of each other.
fn exchange_in([hub, leaf]: [&Site; 2], near: &mut crate::raw::Raw, far: &mut crate::raw::Raw) {
    hub.linked(1);
    leaf.linked(1);
    wait_for_interest(near, far);
    wait_for_interest(far, near);
}

/// TLS of a remote that stays, and of the hub, is another one for the next attempt, and the link
/// that is there stays.
#[test]
fn tls_is_exchanged_under_links() {
    let (lab, stranger) = (Lab::new(), Lab::new());
    for kinds in MIXES {
        let port = free_port();
        let at_hub = |lab: &Lab, more: &str| {
            let listen = format!("listen: \"127.0.0.1:{port}\"");
            format!("server_name: HUB\nleafnodes {{ {listen}\n{} }}", lab.block(more))
        };
        let at_leaf = |lab: &Lab, more: &str| {
            let ca = lab.file("ca.pem");
            let tls = format!("tls {{ ca_file: \"{}\"\n{more} }}", ca.display());
            let remote = format!("{{ url: \"nats://127.0.0.1:{port}\", {tls} }}");
            format!("server_name: EDGE\nleafnodes {{ reconnect: \"100ms\"\nremotes: [{remote}] }}")
        };
        let start = |at: usize, text: String| Site::configured(Default::default(), kinds[at], &text, port);
        let Some(hub) = start(0, at_hub(&lab, "")) else { continue };
        let Some(leaf) = start(1, at_leaf(&stranger, "")) else { continue };
        let unknown = "certificate signed by unknown authority";
        leaf.server.wait_for_log(unknown);
        leaf.server.reload(&at_leaf(&lab, ""));
        exchange([&hub, &leaf], &[10]);
        let [(_, first)] = ids(&leaf)[..] else { panic!("one link") };
        // Both ask for the handshake first from now on: the link stays as it is.
        let told = [
            (
                leaf.server.reload(&at_leaf(&lab, "handshake_first: true")),
                "TLS HandshakeFirst value is: true",
            ),
            (
                hub.server.reload(&at_hub(&stranger, "handshake_first: true")),
                "TLS HandshakeFirst value is: true",
            ),
        ];
        for (lines, expected) in told {
            assert!(lines.iter().any(|line| line.contains(expected)), "{kinds:?}: {lines:?}");
        }
        assert!(matches!(ids(&leaf)[..], [(_, id)] if id == first), "{kinds:?}: {:?}", ids(&leaf));
        // A client of a stranger's certificate is turned away, until the hub has its own again.
        let before = leaf.server.log().lines().count();
        let refused = leaf.server.reload(&at_leaf(&lab, "handshake_first: true, timeout: 5"));
        let field = "field \"TLSTimeout\": old=2, new=5";
        assert!(refused.iter().any(|line| line.contains(field)), "{kinds:?}: {refused:?}");
        let disabled = at_leaf(&lab, "handshake_first: true").replace("{ url", "{ disabled: true, url");
        leaf.server.reload(&disabled);
        leaf.linked(0);
        leaf.server.reload(&at_leaf(&lab, "handshake_first: true"));
        leaf.server.wait_for_log_after(before, unknown);
        hub.server.reload(&at_hub(&lab, "handshake_first: true"));
        exchange([&hub, &leaf], &[10]);
    }
}
