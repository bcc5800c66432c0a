//! A broker that is dropped leaves nothing behind, whatever its accounts have of each other and
//! whoever still waits.

use super::net::{Net, Peer, login, user};
use crate::account::Account;
use crate::conn::Conn;
use crate::imports::{
    AccountConfig, Export, Import, ServiceExport, ServiceImport, StreamExport, StreamImport,
};
use crate::service::{Service, ServiceShard};
use crate::service_batch::ServiceBatch;
use std::sync::{Arc, Weak};

/// Accounts and connections of a broker, held weakly: they stand for all that it holds.
struct Held {
    accounts: Vec<Weak<Account>>,
    conns: Vec<Weak<Conn>>,
}

impl Held {
    fn of(net: &Net, peers: &[&Peer]) -> Self {
        let accounts = net.broker.accounts();
        Self {
            accounts: accounts.iter().map(Arc::downgrade).collect(),
            conns: peers.iter().map(|peer| Arc::downgrade(peer.conn())).collect(),
        }
    }

    fn assert_freed(&self) {
        let left: Vec<_> = self.accounts.iter().filter_map(Weak::upgrade).collect();
        let names: Vec<_> = left.iter().map(|account| account.name()).collect();
        assert_eq!(names, [""; 0], "accounts outlive their broker");
        let conns = self.conns.iter().filter(|conn| conn.strong_count() > 0).count();
        assert_eq!(conns, 0, "connections outlive their broker");
    }
}

/// An account that offers all to the other and takes all from it: `ask.NAME` and `tell.NAME` are
/// its own.
fn entwined(name: &str, other: &str) -> AccountConfig {
    let (ask, tell) = (format!("ask.{name}"), format!("tell.{name}"));
    let (there, heard) = (format!("ask.{other}"), format!("tell.{other}"));
    AccountConfig {
        exports: vec![
            Export::Service(Arc::new(ServiceExport::public(&ask))),
            Export::Stream(StreamExport { subject: tell, ..StreamExport::default() }),
        ],
        imports: vec![
            Import::Service(Arc::new(ServiceImport {
                account: other.to_owned(),
                subject: there.clone(),
                to: there,
                ..ServiceImport::default()
            })),
            Import::Stream(StreamImport {
                account: other.to_owned(),
                subject: heard.clone(),
                to: heard,
                ..StreamImport::default()
            }),
        ],
        ..AccountConfig::named(name)
    }
}

fn net() -> Net {
    Net::with(|setup| {
        setup.users([user("a", "A", None), user("b", "B", None), user("s", "SYS", None)]);
        setup.accounts = vec![entwined("A", "B"), entwined("B", "A")];
        setup.system_account = Some("SYS".to_owned());
    })
}

/// A service that waits for nothing.
struct Deaf;

impl Service for Deaf {
    fn serve(&self, _: &mut ServiceBatch, _: &mut ServiceShard) {}
}

/// A service that has the account that it receives from, as a stream does.
struct Owner(#[expect(dead_code, reason = "it is held, not used")] Arc<Account>);

impl Service for Owner {
    fn serve(&self, _: &mut ServiceBatch, _: &mut ServiceShard) {}
}

/// Each account waits for an answer of the other, and the system account for one of its own.
fn wait_for_each_other(net: &Net) -> [Peer; 3] {
    let mut peers = ["a", "b", "s"].map(|name| net.peer_as(usize::from(name == "b"), &login(name)));
    let [a, b, system] = &mut peers;
    a.send("SUB ask.A 1\r\nSUB tell.B 2\r\nSUB in 3\r\n");
    b.send("SUB ask.B 1\r\nSUB tell.A 2\r\nSUB in 3\r\n");
    system.send("SUB $SYS.REQ.USER.*.INFO 1\r\nSUB in 2\r\n");
    a.send("PUB ask.B in 2\r\nhi\r\nPUB tell.A 2\r\nhi\r\n");
    b.send("PUB ask.A in 2\r\nhi\r\nPUB tell.B 2\r\nhi\r\n");
    system.send("PUB $SYS.REQ.USER.INFO in 0\r\n\r\n");
    net.flush_all();
    let waits = |account: &str| net.broker.account(account).unwrap().awaited();
    assert_eq!(["A", "B", "SYS"].map(waits), [1, 1, 1]);
    peers
}

#[test]
fn a_broker_that_nobody_used_is_freed() {
    for system_account in [None, Some("SYS".to_owned())] {
        let net = Net::with(|setup| setup.system_account = system_account);
        let held = Held::of(&net, &[]);
        drop(net);
        held.assert_freed();
    }
}

#[test]
fn a_broker_whose_clients_have_left_is_freed_while_answers_are_still_waited_for() {
    let net = net();
    let mut peers = wait_for_each_other(&net);
    let held = Held::of(&net, &peers.each_ref());
    peers.iter_mut().for_each(Peer::leave);
    drop((peers, net));
    held.assert_freed();
}

#[test]
fn a_broker_whose_clients_never_left_is_freed() {
    let net = net();
    let peers = wait_for_each_other(&net);
    let held = Held::of(&net, &peers.each_ref());
    drop((peers, net));
    held.assert_freed();
}

#[test]
fn a_broker_with_services_and_other_accounts_meanwhile_is_freed() {
    let net = net();
    let a = net.broker.account("A").unwrap();
    a.bind(b"deaf", Arc::new(Deaf));
    // Hears what B publishes, by a shadow binding in its index.
    a.listen(b"tell.>", Arc::new(Deaf));
    let peers = wait_for_each_other(&net);
    let before = Held::of(&net, &peers.each_ref());
    let auth = || (*net.broker.auth()).clone();
    for accounts in
        [vec![entwined("A", "C"), entwined("C", "A")], vec![AccountConfig::named("A")], Vec::new()]
    {
        net.broker.set_auth_and_accounts(net.broker.stage_auth_and_accounts(auth(), &accounts).unwrap());
    }
    let after = Held::of(&net, &[]);
    drop((a, peers, net));
    before.assert_freed();
    after.assert_freed();
}

#[test]
fn a_broker_whose_services_have_their_account_is_freed() {
    let net = net();
    let a = net.broker.account("A").unwrap();
    a.bind(b"own", Arc::new(Owner(Arc::clone(&a))));
    a.listen(b"tell.>", Arc::new(Owner(Arc::clone(&a))));
    let held = Held::of(&net, &[]);
    drop((a, net));
    held.assert_freed();
}
