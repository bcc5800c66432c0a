//! Limits of the server and of accounts.

use super::net::{Net, Peer, Setup, login, user};
use crate::elsewhere::ConnectionCount;
use crate::imports::AccountConfig;
use crate::imports::AccountLimits;
use myelin_wire::error::CloseReason;

#[test]
fn connections_of_the_server_are_limited() {
    let net = Net::with(|setup| setup.settings.max_connections = Some(2));
    let (_first, mut second) = (net.peer(0), net.peer(1));
    let third = net.newcomer(0);
    let text = third.received();
    assert!(text.starts_with("INFO {") && text.ends_with("\r\n-ERR 'maximum connections exceeded'\r\n"));
    assert_eq!(third.closed, Some(CloseReason::MaximumConnections));
    second.leave();
    assert_eq!(net.newcomer(0).closed, None);
    assert_eq!(net.broker.connection_counts(), (2, 4));
}

#[test]
fn subscriptions_of_a_connection_are_limited() {
    let net = Net::with(|setup| setup.settings.max_subscriptions = Some(2));
    let mut peer = net.peer(0);
    // A subject that is refused takes no place; a duplicate sid at the limit is refused.
    peer.send("SUB a..b 1\r\nSUB a 1\r\nSUB a 2\r\nSUB a 3\r\nSUB a 1\r\nUNSUB 1\r\nSUB a 4\r\n");
    net.flush(0);
    let full = "-ERR 'maximum subscriptions exceeded'\r\n".repeat(2);
    assert_eq!(peer.received(), "-ERR 'Invalid Subject'\r\n".to_owned() + &full);
    assert_eq!(peer.conn().subscription_count(), 2);
}

#[test]
fn tokens_of_a_subscription_are_limited() {
    let net = Net::with(|setup| setup.settings.max_sub_tokens = Some(3));
    let mut peer = net.peer(0);
    peer.send("SUB a.b.c 1\r\nSUB a.b.c.d 2\r\nSUB ... 3\r\n");
    net.flush(0);
    let text = |subject| {
        format!("-ERR 'Permissions Violation for Subscription to \"{subject}\", too many tokens'\r\n")
    };
    assert_eq!(peer.received(), text("a.b.c.d") + &text("..."));
}

fn account(limits: AccountLimits) -> impl FnOnce(&mut Setup) {
    move |setup| {
        setup.accounts.push(AccountConfig { limits, ..AccountConfig::named("A") });
        setup.users([user("a", "A", None), user("b", "B", None)]);
    }
}

#[test]
fn connections_of_an_account_are_limited() {
    let net = Net::with(account(AccountLimits { max_connections: Some(1), ..AccountLimits::default() }));
    let mut first = net.peer_as(0, &login("a"));
    let mut refused = net.stranger(1);
    refused.connect(&login("a"));
    assert_eq!(refused.received(), "-ERR 'maximum account active connections exceeded'\r\n");
    assert_eq!(refused.closed, Some(CloseReason::MaximumAccountConnections));
    // Its place is free when it moves to another account, or leaves.
    first.connect(&login("b"));
    let mut next = net.peer_as(1, &login("a"));
    assert_eq!(next.closed, None);
    next.leave();
    assert_eq!(net.broker.account("A").unwrap().connections(), 0);
    assert_eq!(net.peer_as(0, &login("a")).closed, None);
}

#[test]
fn connections_on_other_servers_count_too() {
    let net = Net::with(account(AccountLimits { max_connections: Some(3), ..AccountLimits::default() }));
    net.broker.update_info(|info| info.server_id = "S9".to_owned());
    let account = net.broker.account("A").unwrap();
    let elsewhere = |server: &str, clients| {
        let count = ConnectionCount { clients, leaf_nodes: 1 };
        net.broker.count_elsewhere(&account, server, count);
    };
    let [older, newer] = [net.peer_as(0, &login("a")), net.peer_as(1, &login("a"))];
    elsewhere("S1", 1);
    let mut refused = net.stranger(1);
    refused.connect(&login("a"));
    assert_eq!(refused.closed, Some(CloseReason::MaximumAccountConnections));
    let closing = || [&older, &newer].map(|peer| peer.conn().close_requested());
    assert_eq!(closing(), [None; 2], "three are not too many");
    // Of those that are too many together the newest ends.
    elsewhere("S2", 1);
    assert_eq!(closing(), [None, Some(CloseReason::MaximumAccountConnections)]);
    assert_eq!(account.servers_elsewhere(), 2);
    net.broker.forget_elsewhere("S1");
    net.broker.forget_elsewhere("S2");
    assert_eq!(account.servers_elsewhere(), 0);
    assert_eq!(net.peer_as(0, &login("a")).closed, None);
}

/// Three servers let in two clients each before any has heard of another, and there is room for
/// four. All hear of the others' counts as they were before any client was ended, and again as they
/// are then: those that are too many end, and no more.
#[test]
fn servers_that_let_in_too_many_at_one_moment_end_as_many_as_that() {
    let limits = AccountLimits { max_connections: Some(4), ..AccountLimits::default() };
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let ids = ["S1", "S2", "S3"];
        let mut servers = ids.map(|id| {
            let net = Net::with(account(limits));
            net.broker.update_info(|info| info.server_id = id.to_owned());
            let peers = vec![net.peer_as(0, &login("a")), net.peer_as(1, &login("a"))];
            (net, peers)
        });
        for _ in 0..2 {
            let counts = servers.each_ref().map(|(_, peers)| peers.len() as u32);
            for from in order {
                let count = ConnectionCount { clients: counts[from], leaf_nodes: 0 };
                for (net, _) in servers.iter().filter(|(net, _)| net.broker.info().server_id != ids[from]) {
                    let account = net.broker.account("A").unwrap();
                    net.broker.count_elsewhere(&account, ids[from], count);
                }
            }
            for (_, peers) in &mut servers {
                let is_told = |peer: &mut Peer| peer.conn().close_requested().is_some();
                peers.extract_if(.., is_told).for_each(|mut peer| peer.leave());
            }
        }
        let left = servers.each_ref().map(|(_, peers)| peers.len());
        assert_eq!(left, [2, 2, 0], "{order:?}");
    }
}

#[test]
fn an_accounts_subscription_limit_counts_per_connection() {
    let net = Net::with(account(AccountLimits { max_subscriptions: Some(1), ..AccountLimits::default() }));
    for shard in [0, 1] {
        let mut peer = net.peer_as(shard, &login("a"));
        peer.send("SUB a 1\r\nSUB b 2\r\n");
        net.flush(shard);
        assert_eq!(peer.received(), "-ERR 'maximum subscriptions exceeded'\r\n");
    }
    assert_eq!(net.broker.account("A").unwrap().subscriptions(), 2, "one of each");
}

#[test]
fn an_accounts_payload_limit_holds_for_its_connections_only() {
    let net = Net::with(account(AccountLimits { max_payload: Some(4), ..AccountLimits::default() }));
    let (mut a, mut b) = (net.peer_as(0, &login("a")), net.peer_as(0, &login("b")));
    for peer in [&mut a, &mut b] {
        peer.send("SUB x 1\r\n");
        peer.publish("x", "1234");
        peer.publish("x", "12345");
    }
    net.flush(0);
    let four = "MSG x 1 4\r\n1234\r\n";
    assert_eq!(a.received(), four.to_owned() + "-ERR 'Maximum Payload Violation'\r\n");
    assert_eq!(a.closed, Some(CloseReason::MaximumPayload));
    assert_eq!(b.received(), four.to_owned() + "MSG x 1 5\r\n12345\r\n");
}
