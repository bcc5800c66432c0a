//! Whatever is random in a broker comes from its source: equal seeds give clients equal bytes.

use super::net::{Net, Peer, login, user};
use crate::imports::{AccountConfig, Export, Import, ResponseType, ServiceExport, ServiceImport};
use myelin_auth::{AccountName, AuthConfig, ConnectionTypes, Method, NkeyUser, Users};
use myelin_stdx::entropy::SeededEntropy;
use myelin_subject::{Mappings, WeightedDestination};
use std::sync::Arc;
use std::time::Duration;

/// Account A exports a service that B imports; A has a mapping that draws its destination.
fn accounts() -> Vec<AccountConfig> {
    let threshold = Duration::from_secs(5);
    let export =
        ServiceExport { response: ResponseType::Singleton, threshold, ..ServiceExport::public("ask.>") };
    let [account, subject, to] = ["A", "ask.>", "ask.>"].map(str::to_owned);
    let import = ServiceImport { account, subject, to, ..ServiceImport::default() };
    let half = |to: &str| WeightedDestination { subject: to.to_owned(), weight: 50, cluster: String::new() };
    let mut mappings = Mappings::default();
    mappings.insert("drawn", &[half("left"), half("right")]).unwrap();
    vec![
        AccountConfig {
            exports: vec![Export::Service(Arc::new(export))],
            mappings,
            ..AccountConfig::named("A")
        },
        AccountConfig { imports: vec![Import::Service(Arc::new(import))], ..AccountConfig::named("B") },
    ]
}

/// Bytes that four clients on two shards receive with random numbers from `seed`: queue groups, a
/// mapping with weights, nonces, and requests across accounts.
fn bytes_with(seed: u64) -> Vec<String> {
    let net = Net::with(|setup| {
        setup.entropy = Arc::new(SeededEntropy::new(seed));
        let users = Users::new([user("a", "A", None), user("b", "B", None)]);
        // Somebody who signs: so INFO has a nonce.
        let signs = NkeyUser {
            nkey: "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4".to_owned(),
            account: AccountName::new("A"),
            permissions: None,
            connection_types: ConnectionTypes::default(),
            proxy_required: false,
        };
        setup.auth = AuthConfig::new(Method::Users(users.with_nkeys([signs])));
        setup.accounts = accounts();
    });
    let stranger = net.newcomer(0);
    let mut service = net.peer_as(1, &login("a"));
    service.send("SUB ask.> 1\r\nSUB left 2\r\nSUB right 3\r\nSUB q g 4\r\nSUB q g 5\r\nSUB q g 6\r\n");
    let mut requester = net.peer_as(0, &login("b"));
    let mut publisher = net.peer_as(0, &login("a"));
    requester.send("SUB inbox.* 1\r\n");
    net.flush_all();
    for n in 0..50 {
        requester.send(format!("PUB ask.{n} inbox.{n} 2\r\nhi\r\n"));
        publisher.publish("drawn", "x");
        publisher.publish("q", "x");
    }
    net.flush_all();
    let peers: [&Peer; 4] = [&stranger, &service, &requester, &publisher];
    peers.map(Peer::received).to_vec()
}

#[test]
fn equal_seeds_give_equal_bytes() {
    let first = bytes_with(1);
    assert!(first[0].contains(r#""nonce":""#), "{}", first[0]);
    assert!(first[1].contains(" _R_.") && first[1].contains("MSG left 2 ") && first[1].contains("MSG q 5 "));
    assert_eq!(bytes_with(1), first);
    let other = bytes_with(2);
    assert_ne!(other[0], first[0], "another nonce");
    assert_ne!(other[1], first[1], "other places for answers");
}
