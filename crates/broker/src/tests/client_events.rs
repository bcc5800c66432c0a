//! Events about clients that come and go.

use super::net::{Net, login, user};
use crate::account::Account;
use crate::client_events::ClientEvents;
use crate::closed::ClosedConn;
use crate::conn::Conn;
use crate::log::{Level, Log};
use myelin_wire::error::CloseReason;
use std::fmt::Arguments;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Diary(Mutex<Vec<String>>);

impl Diary {
    fn write(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn read(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl ClientEvents for Diary {
    fn connected(&self, conn: &Arc<Conn>, account: &Arc<Account>) {
        let user = conn.details().user.unwrap_or_default();
        self.write(format!("{user} came to {}", account.name()));
    }

    fn disconnected(&self, record: &ClosedConn) {
        self.write(format!("{} went: {}", record.details.account, record.reason.text()));
    }

    fn leaf_node_gone(&self, conn: &Arc<Conn>, reason: CloseReason) {
        self.write(format!("{} went, a leaf node: {}", conn.details().account, reason.text()));
    }

    fn leaf_node_joined(&self, _: &Arc<Account>) {}

    fn auth_failed(&self, _: &Arc<Conn>, reason: CloseReason, _: Option<(&Arc<Account>, String)>) {
        self.write(format!("refused: {}", reason.text()));
    }

    fn count_changed(&self, account: &Arc<Account>) {
        self.write(format!("{} has {}", account.name(), account.connections()));
    }
}

fn net() -> (Net, Arc<Diary>) {
    let net = Net::with(|setup| setup.users([user("ann", "A", None), user("bob", "B", None)]));
    let diary = Arc::new(Diary::default());
    net.broker.set_client_events(Arc::clone(&diary) as Arc<dyn ClientEvents>);
    (net, diary)
}

#[test]
fn who_comes_is_told_and_who_goes() {
    let (net, diary) = net();
    let mut ann = net.peer_as(0, &login("ann"));
    assert_eq!(diary.read(), ["A has 1", "ann came to A"]);
    // Somebody else over the same connection.
    ann.connect(&login("bob"));
    assert_eq!(diary.read(), ["A has 0", "B has 1", "bob came to B"]);
    ann.leave();
    assert_eq!(diary.read(), ["B has 0", "B went: Client Closed"]);
}

#[test]
fn who_is_turned_away_was_never_there() {
    let (net, diary) = net();
    let mut eve = net.stranger(0);
    eve.connect(r#""user":"ann","pass":"wrong""#);
    assert_eq!(diary.read(), ["refused: Authentication Failure", " went: Authentication Failure"]);
}

#[test]
fn without_authentication_a_connection_counts_before_its_client_has_come() {
    let net = Net::new();
    let diary = Arc::new(Diary::default());
    net.broker.set_client_events(Arc::clone(&diary) as Arc<dyn ClientEvents>);
    let mut peer = net.stranger(0);
    assert_eq!(diary.read(), ["$G has 1"]);
    peer.connect(r#""lang":"test""#);
    assert_eq!(diary.read(), [" came to $G"]);
}

/// Panics at the first of its kind of news, once.
struct Clumsy(AtomicBool);

impl Clumsy {
    fn stumble(&self) {
        assert!(self.0.swap(true, Relaxed), "a test wants it to");
    }
}

impl Log for Clumsy {
    fn enabled(&self, level: Level) -> bool {
        level == Level::Debug
    }
    fn write(&self, _: Level, _: Arguments<'_>) {
        self.stumble();
    }
}

impl ClientEvents for Clumsy {
    fn connected(&self, _: &Arc<Conn>, _: &Arc<Account>) {}
    fn disconnected(&self, _: &ClosedConn) {}
    fn leaf_node_gone(&self, _: &Arc<Conn>, _: CloseReason) {}
    fn leaf_node_joined(&self, _: &Arc<Account>) {}
    fn auth_failed(&self, _: &Arc<Conn>, _: CloseReason, _: Option<(&Arc<Account>, String)>) {}
    fn count_changed(&self, _: &Arc<Account>) {
        self.stumble();
    }
}

/// Nobody is left of a connection whose session has panicked while it was opened, and the next one
/// is served.
fn assert_no_ghost(net: &Net) {
    let open = || net.newcomer(0);
    assert!(catch_unwind(AssertUnwindSafe(open)).is_err(), "nobody has panicked");
    let there = || (net.broker.connection_counts().0, net.broker.account("$G").unwrap().connections());
    assert_eq!(there(), (0, 0));
    assert_eq!(net.broker.closed_connections().len(), 1);
    net.flush_all();
    assert_eq!(net.broker.memory().total(), 0);
    let mut next = net.peer(0);
    assert_eq!(there(), (1, 1));
    next.leave();
    assert_eq!(there(), (0, 0));
}

#[test]
fn an_opening_that_panics_at_its_first_line_leaves_no_connection_behind() {
    assert_no_ghost(&Net::with(|setup| setup.log = Arc::new(Clumsy(AtomicBool::new(false)))));
}

#[test]
fn an_opening_that_panics_in_its_account_leaves_no_connection_behind() {
    let net = Net::new();
    net.broker.set_client_events(Arc::new(Clumsy(AtomicBool::new(false))));
    assert_no_ghost(&net);
}
