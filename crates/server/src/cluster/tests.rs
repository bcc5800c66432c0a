//! Servers that take part in groups, several in one process with sockets, threads and monitoring as
//! any server has them, and a nats-server among them.

use super::GroupPart;
use crate::lifecycle::{Control, Server, log_config};
use crate::logging::Logger;
use crate::shard::Mail;
use myelin_broker::{LinkedPeer, PeerObserver, Service, ServiceBatch, ServiceShard};
use myelin_compat::implementation::reference_program;
use myelin_monitor::SnapshotSource;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use myelin_wire::peer::groups::{BULK_ACCOUNT, GroupServer, INTERNAL_ACCOUNTS, RAFT_ACCOUNT};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::collections::BTreeSet;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// News that a member hears.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// A link for an account to a store has begun.
    Linked(String, String),
    Unlinked(String, String),
    /// Subject and payload, with the account.
    Frame(&'static str, String),
}

/// Hears of links and frames of one server.
struct Ears {
    heard: Mutex<Sender<Heard>>,
    account: &'static str,
}

impl Ears {
    fn tell(&self, heard: Heard) {
        let _ = self.heard.lock().unwrap().send(heard);
    }
}

impl PeerObserver for Ears {
    fn peer_linked(&self, peer: &LinkedPeer) {
        self.tell(Heard::Linked(peer.said().account.clone(), peer.said().store.clone()));
    }

    fn peer_unlinked(&self, peer: &LinkedPeer) {
        self.tell(Heard::Unlinked(peer.said().account.clone(), peer.said().store.clone()));
    }
}

impl Service for Ears {
    fn serve(&self, batch: &mut ServiceBatch, _: &mut ServiceShard) {
        for MessageRef { subject, payload, .. } in batch.iter() {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            self.tell(Heard::Frame(self.account, format!("{} {}", text(subject), text(payload))));
        }
    }
}

/// A server that takes part in groups.
struct Member {
    store: String,
    server: Server,
    control: Control,
    heard: Receiver<Heard>,
}

impl Member {
    /// A server that dials the one on `route`, with more in its `cluster{}`.
    fn start(name: &str, route: Option<u16>, inner: &str) -> Self {
        Self::start_in("C", name, route, (inner, ""))
    }

    /// A server of a cluster that dials another one's gateway, with more in its `gateway{}`.
    fn start_joined(cluster: &str, name: &str, route: Option<u16>, (inner, others): (&str, &str)) -> Self {
        let gateway =
            format!("gateway {{ name: {cluster}, listen: \"127.0.0.1:-1\"\n{inner}\ngateways: [{others}] }}");
        Self::start_in(cluster, name, route, ("", &gateway))
    }

    fn start_in(cluster: &str, name: &str, route: Option<u16>, (inner, more): (&str, &str)) -> Self {
        let routes = route.map_or(String::new(), |port| format!("routes: [\"nats://127.0.0.1:{port}\"]"));
        let text = format!(
            "server_name: {name}\nlisten: \"127.0.0.1:-1\"\n\
             cluster {{ name: {cluster}, listen: \"127.0.0.1:-1\"\n{routes}\n{inner} }}\n{more}\n"
        );
        let loaded = myelin_conf::load_text(text.as_bytes(), &|_| None).unwrap();
        let log = Arc::new(Logger::open(&log_config(&loaded.options)).unwrap());
        let control = Control::start().unwrap();
        let (heard, is_heard) = channel();
        let ears = |account| Arc::new(Ears { heard: Mutex::new(heard.clone()), account });
        let store = format!("S{name}");
        let server = GroupServer { store: store.clone(), incarnation: 7, servers: Vec::new() };
        let groups = GroupPart { server, observer: ears("") };
        let server = Server::start(loaded, (&log, &control), Some(groups)).unwrap();
        for account in INTERNAL_ACCOUNTS {
            let own = server.broker.internal_account(account).unwrap();
            own.bind(format!("{store}.*").as_bytes(), ears(account));
        }
        Self { store, server, control, heard: is_heard }
    }

    fn port(&self) -> u16 {
        self.server.cluster.as_ref().unwrap().address.port()
    }

    /// Another cluster of which this one is, for `gateways` of a configuration.
    fn gateway(&self, login: &str) -> String {
        let config = self.server.gateways.as_ref().unwrap().gateways.config();
        format!("{{ name: {}, url: \"nats://{login}{}\" }}", config.info.gateway, config.url)
    }

    /// Waits until it has links to all of these for each internal account, and to no other.
    fn is_linked_to(&self, others: &[&Member]) {
        let wanted: BTreeSet<_> = others
            .iter()
            .flat_map(|other| INTERNAL_ACCOUNTS.map(|account| (account.to_owned(), other.store.clone())))
            .collect();
        let mesh = &self.server.cluster.as_ref().unwrap().mesh;
        let linked = || -> BTreeSet<_> {
            let peers = INTERNAL_ACCOUNTS.iter().flat_map(|account| mesh.linked_peers(account));
            peers.map(|peer| (peer.said().account.clone(), peer.said().store.clone())).collect()
        };
        let deadline = Instant::now() + PATIENCE;
        while linked() != wanted {
            let left = deadline.saturating_duration_since(Instant::now());
            let heard = self.heard.recv_timeout(left);
            assert!(heard.is_ok(), "{}: {:?} instead of {wanted:?}", self.store, linked());
        }
    }

    /// Sends frames until one has come.
    fn reaches(&self, other: &Member, account: &'static str) {
        let subject = format!("{}.{}", other.store, self.store);
        let expected = Heard::Frame(account, format!("{subject} vote"));
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut out = MessageBuf::default();
            out.push(MessageRef { subject: subject.as_bytes(), payload: b"vote", ..MessageRef::default() });
            let own = self.server.broker.internal_account(account).unwrap();
            self.server.shards[0].mailbox.post(Mail::Publish(own, out));
            // What is sent before the other's interest has come is lost.
            match other.heard.recv_timeout(Duration::from_millis(20)) {
                Ok(heard) if heard == expected => return,
                Ok(_) => {}
                Err(_) => assert!(Instant::now() < deadline, "{subject} in {account}"),
            }
        }
    }

    fn stop(self) {
        self.server.stop();
        drop(self.control);
    }
}

#[test]
fn members_find_each_other_lose_each_other_and_find_each_other_again() {
    let a = Member::start("A", None, "");
    let b = Member::start("B", Some(a.port()), "");
    // The third is heard of by gossip.
    let d = Member::start("D", Some(a.port()), "");
    let links = [(&a, [&b, &d]), (&b, [&a, &d]), (&d, [&a, &b])];
    links.iter().for_each(|(member, others)| member.is_linked_to(others));
    for account in INTERNAL_ACCOUNTS {
        for (member, others) in &links {
            others.iter().for_each(|other| member.reaches(other, account));
        }
    }
    b.stop();
    a.is_linked_to(&[&d]);
    d.is_linked_to(&[&a]);
    let b = Member::start("B", Some(d.port()), "");
    for (member, others) in [(&a, [&b, &d]), (&b, [&a, &d]), (&d, [&a, &b])] {
        member.is_linked_to(&others);
        others.iter().for_each(|other| member.reaches(other, RAFT_ACCOUNT));
    }
    [a, b, d].into_iter().for_each(Member::stop);
}

/// A `tls{}` that both sides of a link may have, with the folder of its files.
fn tls() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    write("ca.pem", params.self_signed(&key).unwrap().pem());
    let authority = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    write("own.pem", params.signed_by(&key, &authority).unwrap().pem());
    write("own.key", key.serialize_pem());
    let at = folder.path().display();
    let tls = format!(
        "tls {{ cert_file: \"{at}/own.pem\", key_file: \"{at}/own.key\", ca_file: \"{at}/ca.pem\" }}\n"
    );
    (folder, tls)
}

/// Two members with these in their `cluster{}`, of which the second logs in so, talk to each other.
fn talk(one: &str, login: &str, other: &str) {
    let a = Member::start("A", None, one);
    let b = Member::start("B", None, &format!("{other}\nroutes: [\"nats://{login}127.0.0.1:{}\"]", a.port()));
    a.is_linked_to(&[&b]);
    b.is_linked_to(&[&a]);
    for account in INTERNAL_ACCOUNTS {
        a.reaches(&b, account);
        b.reaches(&a, account);
    }
    [a, b].into_iter().for_each(Member::stop);
}

#[test]
fn members_talk_with_every_kind_of_route() {
    talk("pool_size: -1", "", "");
    talk("", "", "pool_size: -1");
    talk("pool_size: -1", "", "pool_size: -1");
    talk("compression: s2_fast", "", "compression: s2_best");
    talk("permissions { import: [\"a\"], export: [\"a\"] }", "", "");
    talk("authorization { user: u, password: p }\nno_advertise: true", "u:p@", "");
    let (_folder, tls) = tls();
    talk(&tls, "", &tls);
    talk(&format!("{tls}compression: s2_fast"), "", &format!("{tls}pool_size: -1"));
}

/// Two clusters, the second of which logs in so, are linked, each member with each other one.
fn talk_across(inner: &str, login: &str) {
    let a = Member::start_joined("A", "A1", None, (inner, ""));
    let to_a = a.gateway(login);
    let b = Member::start_joined("B", "B1", None, (inner, &to_a));
    // Heard of over the routes and gateways of others.
    let c = Member::start_joined("A", "A2", Some(a.port()), (inner, ""));
    let d = Member::start_joined("B", "B2", Some(b.port()), (inner, &to_a));
    let all = [&a, &b, &c, &d];
    for member in all {
        let others: Vec<_> = all.into_iter().filter(|other| other.store != member.store).collect();
        member.is_linked_to(&others);
    }
    for account in INTERNAL_ACCOUNTS {
        for (one, other) in [(&a, &b), (&a, &d), (&b, &c), (&d, &c), (&a, &c), (&d, &b)] {
            one.reaches(other, account);
            other.reaches(one, account);
        }
    }
    let clusters = |member: &Member| -> BTreeSet<_> {
        let peers = member.server.cluster.as_ref().unwrap().mesh.linked_peers(RAFT_ACCOUNT);
        peers.iter().map(|peer| (peer.said().name.clone(), peer.said().cluster.clone())).collect()
    };
    let named = |named: [(&str, &str); 3]| named.map(|(name, of)| (name.to_owned(), of.to_owned())).into();
    assert_eq!(clusters(&a), named([("A2", "A"), ("B1", "B"), ("B2", "B")]));
    // Those are no routes.
    assert!(a.server.monitor.routes().iter().all(|route| route.remote_name == "A2"));
    // The gateway of one is lost, and of another one that is new there is word of others.
    b.stop();
    a.is_linked_to(&[&c, &d]);
    c.is_linked_to(&[&a, &d]);
    let b = Member::start_joined("B", "B1", Some(d.port()), (inner, &to_a));
    for (member, others) in [(&a, [&b, &c, &d]), (&b, [&a, &c, &d]), (&c, [&a, &b, &d])] {
        member.is_linked_to(&others);
        others.iter().for_each(|other| member.reaches(other, RAFT_ACCOUNT));
    }
    [a, b, c, d].into_iter().for_each(Member::stop);
}

#[test]
fn members_of_clusters_that_gateways_join_find_each_other() {
    talk_across("", "");
    talk_across("authorization { user: u, password: p }", "u:p@");
    let (_folder, tls) = tls();
    talk_across(&tls, "");
}

#[test]
fn links_of_members_are_routes_and_their_accounts_are_nowhere() {
    let a = Member::start("A", None, "");
    let b = Member::start("B", Some(a.port()), "");
    a.is_linked_to(&[&b]);
    b.is_linked_to(&[&a]);
    // What comes there shows that its interest has come here.
    INTERNAL_ACCOUNTS.iter().for_each(|account| a.reaches(&b, account));
    let monitor = &a.server.monitor;
    let routes = monitor.routes();
    let accounts: BTreeSet<_> = routes.iter().filter_map(|route| route.account.as_deref()).collect();
    assert!(INTERNAL_ACCOUNTS.iter().all(|account| accounts.contains(account)), "{accounts:?}");
    let names = monitor.account_names();
    assert!(INTERNAL_ACCOUNTS.iter().all(|account| !names.iter().any(|name| name == account)), "{names:?}");
    assert!(INTERNAL_ACCOUNTS.iter().all(|account| !monitor.has_account(account)));
    let wanted: Vec<_> = monitor.remote_interest().into_values().flatten().map(|sub| sub.subject).collect();
    assert_eq!(wanted.iter().filter(|subject| *subject == "SB.*").count(), 2, "{wanted:?}");
    let cluster = a.server.cluster.as_ref().unwrap();
    let reloaded = cluster.prepare(&a.server.loaded.options, &a.server.broker, None).unwrap();
    assert_eq!(reloaded.info, cluster.mesh.config().info, "a reload leaves the part in groups as it is");
    [a, b].into_iter().for_each(Member::stop);
}

#[test]
fn names_of_internal_accounts_are_reserved_where_there_are_groups() {
    let options = |text: &str| {
        let text = format!("cluster {{ name: C, listen: \"127.0.0.1:-1\" {text}");
        myelin_conf::load_text(text.as_bytes(), &|_| None).unwrap().options
    };
    let reserved = "account \"$RAFT\": the name is reserved for what servers say to each other about \
                    replicated streams";
    for text in [
        "}\naccounts { A {}, \"$RAFT\" {} }",
        "}\naccounts { \"$RAFT\" {} }\nsystem_account: \"$RAFT\"",
        ", accounts: [\"$RAFT\"] }\naccounts { A {} }",
    ] {
        let options = options(text);
        assert_eq!(super::terms(&options, true).unwrap_err(), reserved, "{text}");
        assert!(super::terms(&options, false).is_ok(), "without groups it is a name like others");
    }
    assert!(super::terms(&options("}\naccounts { A {} }"), true).is_ok());
}

/// A nats-server, which is ended with the test.
struct Reference(Child);

impl Drop for Reference {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_nats_server_among_members_notices_nothing() {
    let Some(program) = reference_program() else { return };
    let a = Member::start("A", None, "");
    let folder = tempfile::tempdir().unwrap();
    let (config, log) = (folder.path().join("n.conf"), folder.path().join("n.log"));
    let text = format!(
        "server_name: N\nlisten: \"127.0.0.1:-1\"\n\
         cluster {{ name: C, listen: \"127.0.0.1:-1\", routes: [\"nats://127.0.0.1:{}\"] }}\n",
        a.port()
    );
    std::fs::write(&config, text).unwrap();
    let args = ["-c".as_ref(), config.as_os_str(), "-l".as_ref(), log.as_os_str(), "-DV".as_ref()];
    let _reference = Reference(Command::new(program).args(args).spawn().unwrap());
    let b = Member::start("B", Some(a.port()), "");
    a.is_linked_to(&[&b]);
    b.is_linked_to(&[&a]);
    // Also over links that have come of gossip.
    let mesh = |member: &Member| Arc::clone(&member.server.cluster.as_ref().unwrap().mesh);
    let deadline = Instant::now() + PATIENCE;
    for mesh in [mesh(&a), mesh(&b)] {
        let with_reference = || {
            let links = mesh.links().into_iter().filter(|link| link.facts().remote_name == "N");
            links.count()
        };
        // Three of the pool and the system account's.
        while with_reference() < 4 {
            assert!(Instant::now() < deadline, "{} links", with_reference());
            std::thread::yield_now();
        }
    }
    a.reaches(&b, RAFT_ACCOUNT);
    b.reaches(&a, BULK_ACCOUNT);
    for member in [&a, &b] {
        let links = mesh(member).links();
        let to_reference = links.iter().map(|link| link.facts()).filter(|facts| facts.remote_name == "N");
        let accounts: BTreeSet<_> = to_reference.filter_map(|facts| facts.account).collect();
        assert_eq!(accounts, ["$SYS".to_owned()].into());
    }
    let said = std::fs::read_to_string(&log).unwrap();
    for word in ["$RAFT", "$BULK", "[ERR]", "[WRN]"] {
        let lines: Vec<_> = said.lines().filter(|line| line.contains(word)).collect();
        assert!(lines.is_empty(), "{lines:?}");
    }
    assert!(said.contains("Registering remote route"), "{said}");
    [a, b].into_iter().for_each(Member::stop);
}
