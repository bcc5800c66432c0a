//! Accounts that let each other have something: answers and their end, limits, changes while
//! clients are there.

use super::net::{Net, Peer, login, permissions, user};
use crate::imports::{
    AccountConfig, Export, Import, ResponseType, ServiceExport, ServiceImport, StreamExport, StreamImport,
};
use crate::service::{Service, ServiceShard, Watcher};
use crate::service_batch::ServiceBatch;
use myelin_auth::{AuthConfig, Method, Users};
use myelin_stdx::entropy::OsEntropy;
use myelin_subject::{Mappings, WeightedDestination};
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

fn service(subject: &str, response: ResponseType) -> Export {
    let threshold = Duration::from_secs(5);
    Export::Service(Arc::new(ServiceExport { response, threshold, ..ServiceExport::public(subject) }))
}

fn stream(subject: &str) -> Export {
    Export::Stream(StreamExport { subject: subject.to_owned(), ..StreamExport::default() })
}

fn service_import(account: &str, subject: &str, to: &str) -> Import {
    let [account, subject, to] = [account, subject, to].map(str::to_owned);
    Import::Service(Arc::new(ServiceImport { account, subject, to, ..ServiceImport::default() }))
}

fn stream_import(account: &str, subject: &str, to: &str) -> Import {
    let [account, subject, to] = [account, subject, to].map(str::to_owned);
    Import::Stream(StreamImport { account, subject, to, ..StreamImport::default() })
}

fn account(name: &str, exports: Vec<Export>, imports: Vec<Import>) -> AccountConfig {
    AccountConfig { exports, imports, ..AccountConfig::named(name) }
}

fn auth() -> AuthConfig {
    let c = permissions([&[], &[]], [&[], &["ev.no"]], None);
    AuthConfig::new(Method::Users(Users::new([
        user("a", "A", None),
        user("b", "B", None),
        user("c", "B", c),
    ])))
}

/// A exports services `one.>` (one answer) and `many.>`, and the stream `ev.>`; B imports them.
fn accounts() -> Vec<AccountConfig> {
    let exports = vec![
        service("one.>", ResponseType::Singleton),
        service("many.>", ResponseType::Streamed),
        stream("ev.>"),
    ];
    let imports = vec![
        service_import("A", "one.>", "one.>"),
        service_import("A", "many.>", "many.>"),
        stream_import("A", "ev.>", "ev.>"),
    ];
    vec![account("A", exports, Vec::new()), account("B", Vec::new(), imports)]
}

fn net_of(accounts: Vec<AccountConfig>) -> Net {
    Net::with(|setup| {
        setup.accounts = accounts;
        setup.auth = auth();
    })
}

fn change(net: &Net, accounts: &[AccountConfig]) {
    net.broker.set_auth_and_accounts(net.broker.stage_auth_and_accounts(auth(), accounts).unwrap());
}

fn peer(net: &Net, shard: usize, name: &str) -> Peer {
    net.peer_as(shard, &format!("{},\"no_responders\":true", login(name)))
}

/// The reply that stands in what a service has got, taking no headers or some.
fn reply(received: &str) -> String {
    let found = received.split(' ').find(|word| word.starts_with("_R_."));
    found.unwrap_or_else(|| panic!("no reply in {received:?}")).to_owned()
}

/// Asks at `subject` and answers where that leads.
fn ask(net: &Net, b: &mut Peer, a: &Peer, subject: &str) -> String {
    b.send(format!("PUB {subject} in 2\r\nhi\r\n"));
    net.flush_all();
    reply(&a.received())
}

#[test]
fn one_answer_is_all_of_a_single_response() {
    let net = net_of(accounts());
    let (mut a, mut b) = (peer(&net, 0, "a"), peer(&net, 1, "b"));
    a.send("SUB one.x 1\r\n");
    b.send("SUB in 1\r\n");
    for round in 0..4 {
        let to = ask(&net, &mut b, &a, "one.x");
        assert_eq!(net.broker.account("A").unwrap().awaited(), 1);
        assert_eq!(to.len(), "_R_.123456.123456".len());
        a.publish(&to, &format!("yes {round}"));
        a.publish(&to, "no");
        net.flush_all();
        assert_eq!(b.received(), format!("MSG in 1 5\r\nyes {round}\r\n"));
        assert_eq!(net.broker.account("A").unwrap().awaited(), 0);
    }
}

#[test]
fn answers_go_on_until_an_empty_one_and_only_in_time() {
    let net = net_of(accounts());
    let (mut a, mut b) = (peer(&net, 0, "a"), peer(&net, 1, "b"));
    a.send("SUB many.x 1\r\n");
    b.send("SUB in 1\r\n");
    let to = ask(&net, &mut b, &a, "many.x");
    for _ in 0..3 {
        // Each message gives time for the next.
        net.advance(Duration::from_secs(4));
        a.publish(&to, "m");
    }
    a.publish(&to, "");
    a.publish(&to, "late");
    net.flush_all();
    assert_eq!(b.received(), "MSG in 1 1\r\nm\r\n".repeat(3) + "MSG in 1 0\r\n\r\n");
    let to = ask(&net, &mut b, &a, "many.x");
    net.advance(Duration::from_secs(6));
    a.publish(&to, "too late");
    net.flush_all();
    assert_eq!((b.received().as_str(), net.broker.account("A").unwrap().awaited()), ("", 0));
}

#[test]
fn what_nobody_answers_is_forgotten_in_time() {
    let net = net_of(accounts());
    let (mut a, mut b) = (peer(&net, 0, "a"), peer(&net, 1, "b"));
    a.send("SUB one.> 1\r\nSUB many.> 1\r\n");
    b.send("SUB in 1\r\n");
    for _ in 0..100 {
        b.send("PUB one.x in 0\r\n\r\nPUB one.x 0\r\n\r\n");
    }
    let exporter = net.broker.account("A").unwrap();
    assert_eq!(exporter.awaited(), 100);
    let rest = || {
        for _ in 0..32 {
            net.advance(Duration::from_millis(500));
            net.rest(0);
        }
    };
    rest();
    assert_eq!(exporter.awaited(), 0);
}

#[test]
fn what_a_requester_that_is_gone_waits_for_is_forgotten_before() {
    let mut accounts = accounts();
    accounts[0].exports = vec![Export::Service(Arc::new(ServiceExport::public("one.>")))];
    let net = net_of(accounts);
    let (mut a, mut b) = (peer(&net, 0, "a"), peer(&net, 1, "b"));
    a.send("SUB one.> 1\r\n");
    b.send("SUB in 1\r\nPUB one.x in 0\r\n\r\n");
    let exporter = net.broker.account("A").unwrap();
    let rest = || {
        for _ in 0..32 {
            net.advance(Duration::from_millis(500));
            net.rest(0);
        }
    };
    rest();
    assert_eq!(exporter.awaited(), 1, "somebody waits");
    b.leave();
    rest();
    assert_eq!(exporter.awaited(), 0);
}

#[test]
fn a_request_that_reaches_nobody_leaves_nothing_behind() {
    let net = net_of(accounts());
    let mut b = peer(&net, 1, "b");
    b.send("SUB in 1\r\nPUB one.x in 0\r\n\r\n");
    net.flush_all();
    assert_eq!(b.received(), "HMSG in 1 37 37\r\nNATS/1.0 503\r\nNats-Subject: one.x\r\n\r\n\r\n");
    assert_eq!(net.broker.account("A").unwrap().awaited(), 0);
}

#[test]
fn interest_in_an_answer_is_that_of_who_waits() {
    let net = net_of(accounts());
    let (mut a, mut b) = (peer(&net, 0, "a"), peer(&net, 1, "b"));
    a.send("SUB many.x 1\r\n");
    b.send("SUB in 1\r\n");
    let to = ask(&net, &mut b, &a, "many.x");
    let exporter = net.broker.account("A").unwrap();
    assert!(exporter.has_interest(to.as_bytes()));
    b.send("UNSUB 1\r\n");
    assert!(!exporter.has_interest(to.as_bytes()));
    // And an answer that nobody receives is the last.
    b.send("SUB other 2\r\n");
    a.publish(&to, "m");
    assert_eq!(exporter.awaited(), 0);
    assert!(!exporter.has_interest(to.as_bytes()));
}

/// Answers to what it gets, and delivers under another subject than it is routed by.
struct Store(Arc<crate::Account>, std::time::Instant, Mutex<Vec<String>>);

impl Service for Store {
    fn serve(&self, msgs: &mut ServiceBatch, shard: &mut ServiceShard) {
        let mut out = MessageBuf::default();
        for msg in msgs.iter() {
            self.2.lock().unwrap().push(String::from_utf8_lossy(msg.subject).into_owned());
            let to = msg.reply;
            let subject: &[u8] = b"stored.1";
            out.push(MessageRef {
                to,
                subject,
                reply: b"$JS.ACK.S.C.1",
                payload: b"m",
                ..MessageRef::default()
            });
        }
        shard.send(&self.0, &mut out, self.1);
    }
}

#[test]
fn services_of_this_server_are_asked_and_answer_like_others() {
    let net = net_of(accounts());
    let exporter = net.broker.account("A").unwrap();
    let store = Arc::new(Store(Arc::clone(&exporter), net.now(), Mutex::default()));
    exporter.bind(b"many.*", Arc::clone(&store) as Arc<dyn Service>);
    let mut b = peer(&net, 1, "b");
    b.send("SUB in 1\r\nPUB many.x in 0\r\n\r\nPING\r\n");
    net.flush_all();
    assert_eq!(*store.2.lock().unwrap(), ["many.x"]);
    assert_eq!(b.received(), "PONG\r\nMSG stored.1 1 $JS.ACK.S.C.1 1\r\nm\r\n");
}

#[test]
fn a_limit_of_messages_holds_for_what_comes_from_other_accounts() {
    let net = net_of(accounts());
    let (mut a, mut b) = (peer(&net, 0, "a"), peer(&net, 1, "b"));
    b.send("SUB ev.x 1\r\n");
    a.warm_up("ev.x", &[&b]);
    b.send("UNSUB 1 4\r\n");
    for _ in 0..3 {
        a.publish("ev.x", "m");
        net.flush_all();
    }
    assert_eq!(b.received(), "MSG ev.x 1 1\r\nm\r\n".repeat(2));
    assert_eq!(net.broker.account("B").unwrap().subscriptions(), 0);
    assert_eq!(net.broker.account("A").unwrap().subscriptions(), 0, "its shadow has gone with it");
}

#[test]
fn deliveries_by_imports_are_counted_at_the_subscription() {
    let net = net_of(accounts());
    let (mut a, mut b) = (peer(&net, 0, "a"), peer(&net, 1, "b"));
    b.send("SUB ev.x 1\r\nSUB ev.> q 2\r\n");
    for _ in 0..5 {
        a.publish("ev.x", "m");
    }
    net.flush_all();
    let delivered = |sid: &[u8]| b.conn().subscription(sid).unwrap().delivered();
    assert_eq!((delivered(b"1"), delivered(b"2")), (5, 5));
}

/// A stream changes its subjects by listening to the new ones before it leaves the old ones.
#[test]
fn a_service_that_listens_twice_hears_an_imported_message_once() {
    struct Notes(Mutex<Vec<String>>);
    impl Service for Notes {
        fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
            let subjects = msgs.iter().map(|msg| String::from_utf8_lossy(msg.subject).into_owned());
            self.0.lock().unwrap().extend(subjects);
        }
    }
    // As it is called there, and by another name with a wildcard that the exporter's index cannot
    // tell.
    for (to, old, new) in [("ev.>", "ev.>", "ev.*"), ("far.ev.>", "far.ev.>", "far.ev.*")] {
        let mut accounts = accounts();
        accounts[1].imports = vec![stream_import("A", "ev.>", to)];
        let net = net_of(accounts);
        let mut a = peer(&net, 0, "a");
        let importer = net.broker.account("B").unwrap();
        let notes = Arc::new(Notes(Mutex::default()));
        let listen =
            |subject: &str| importer.listen(subject.as_bytes(), Arc::clone(&notes) as Arc<dyn Service>);
        let mut hears = |subject: &str| {
            a.publish(subject, "m");
            net.flush_all();
            std::mem::take(&mut *notes.0.lock().unwrap()).len()
        };
        let first = listen(old);
        assert_eq!((hears("ev.x"), hears("ev.x.y")), (1, 1));
        let second = listen(new);
        assert_eq!((hears("ev.x"), hears("ev.x.y")), (1, 1), "both at once");
        importer.unbind(&first);
        assert_eq!((hears("ev.x"), hears("ev.x.y")), (1, 0));
        importer.unbind(&second);
        assert_eq!(hears("ev.x"), 0);
    }
}

#[test]
fn what_a_user_must_not_receive_does_not_come_by_an_import_either() {
    let mut accounts = accounts();
    accounts[1].imports = vec![stream_import("A", "ev.>", "ev.>"), stream_import("A", "ev.yes", "ev.no")];
    let net = net_of(accounts);
    let (mut a, mut c) = (peer(&net, 0, "a"), peer(&net, 1, "c"));
    c.send("SUB > 1\r\n");
    for subject in ["ev.no", "ev.yes", "ev.other"] {
        (0..3).for_each(|_| a.publish(subject, "m"));
    }
    net.flush_all();
    assert_eq!(c.received(), "MSG ev.yes 1 1\r\nm\r\n".repeat(3) + &"MSG ev.other 1 1\r\nm\r\n".repeat(3));
}

#[test]
fn who_watches_learns_of_listeners_in_other_accounts() {
    struct Count(AtomicUsize);
    impl Watcher for Count {
        fn interest_changed(&self, _: Option<&mut ServiceShard>) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let net = net_of(accounts());
    let exporter = net.broker.account("A").unwrap();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let weak: Weak<dyn Watcher> = Arc::downgrade(&(Arc::clone(&count) as Arc<dyn Watcher>));
    let _watch = exporter.watch(b"ev.deliver", weak);
    let mut b = peer(&net, 1, "b");
    b.send("SUB ev.deliver 1\r\n");
    assert_eq!(count.0.load(Relaxed), 1);
    assert!(exporter.has_interest(b"ev.deliver") && exporter.has_listener(b"ev.deliver", None));
    b.send("UNSUB 1\r\n");
    assert_eq!(count.0.load(Relaxed), 2);
    assert!(!exporter.has_interest(b"ev.deliver"));
}

#[test]
fn imports_and_mappings_change_under_the_feet_of_clients() {
    let net = net_of(accounts());
    let (mut a, mut b) = (peer(&net, 0, "a"), peer(&net, 1, "b"));
    a.send("SUB one.x 1\r\nSUB two.x 2\r\n");
    b.send("SUB in 1\r\nSUB ev.x 2\r\nSUB far.ev.x 3\r\n");
    let mut play = || {
        for _ in 0..3 {
            a.publish("ev.x", "e");
            b.publish("one.x", "o");
        }
        net.flush_all();
        let requests = a.received();
        let got = b.received();
        let count = |text: &str, what: &str| text.matches(what).count();
        (
            count(&requests, "HMSG one.x 1"),
            count(&requests, "HMSG two.x 2"),
            count(&got, "MSG ev.x 2"),
            count(&got, "MSG far.ev.x 3"),
        )
    };
    assert_eq!(play(), (3, 0, 3, 0));
    // Other names on both ways.
    let mut other = accounts();
    other[0].exports.push(service("two.>", ResponseType::Singleton));
    other[1].imports = vec![service_import("A", "two.>", "one.>"), stream_import("A", "ev.>", "far.ev.>")];
    change(&net, &other);
    assert_eq!(play(), (0, 3, 0, 3));
    // What is offered no longer is had no longer.
    other[0].exports.clear();
    change(&net, &other);
    assert_eq!(play(), (0, 0, 0, 0));
    // Mappings in the exporting account.
    let mut mapped = accounts();
    let mut mappings = Mappings::default();
    let only = WeightedDestination { subject: "two.$1".to_owned(), weight: 100, cluster: String::new() };
    mappings.insert("one.*", &[only]).unwrap();
    mapped[0].mappings = mappings;
    change(&net, &mapped);
    assert_eq!(play(), (0, 3, 3, 0));
    change(&net, &accounts());
    assert_eq!(play(), (3, 0, 3, 0));
    // The account is gone, and comes back.
    change(&net, &accounts()[1..]);
    assert_eq!(play(), (0, 0, 0, 0));
}

#[test]
fn accounts_may_come_one_by_one_in_any_order() {
    let [exporter, importer] = <[AccountConfig; 2]>::try_from(accounts()).unwrap();
    let net = net_of(vec![AccountConfig::named("A"), AccountConfig::named("B")]);
    let (mut a, mut b) = (peer(&net, 0, "a"), peer(&net, 1, "b"));
    b.send("SUB ev.x 1\r\n");
    let mut hears = || {
        a.publish("ev.x", "m");
        net.flush_all();
        !b.received().is_empty()
    };
    let configure = |config: AccountConfig| {
        net.broker.configure_account(&net.broker.account(&config.name).unwrap(), config);
    };
    assert!(!hears());
    configure(importer.clone());
    assert!(!hears() && !net.broker.account("B").unwrap().holds(&importer.imports[2]));
    configure(exporter);
    assert!(hears() && net.broker.account("B").unwrap().holds(&importer.imports[2]));
    configure(AccountConfig::named("A"));
    assert!(!hears());
}

#[test]
fn an_answer_under_way_arrives_though_the_import_is_gone() {
    let net = net_of(accounts());
    let (mut a, mut b) = (peer(&net, 0, "a"), peer(&net, 1, "b"));
    a.send("SUB one.x 1\r\n");
    b.send("SUB in 1\r\n");
    let to = ask(&net, &mut b, &a, "one.x");
    let mut without = accounts();
    without[1].imports.clear();
    change(&net, &without);
    a.publish(&to, "yes");
    net.flush_all();
    assert_eq!(b.received(), "MSG in 1 3\r\nyes\r\n");
}

/// CVE-2020-28466, CVE-2022-42709: imports that go round.
#[test]
fn messages_do_not_go_round_for_ever() {
    let both = |name: &str, other: &str| {
        let exports = vec![service(">", ResponseType::Singleton), stream(">")];
        let imports = vec![service_import(other, ">", ">"), stream_import(other, ">", ">")];
        account(name, exports, imports)
    };
    let net = net_of(vec![both("A", "B"), both("B", "A")]);
    let (mut a, mut b) = (peer(&net, 0, "a"), peer(&net, 1, "b"));
    a.send("SUB x 1\r\n");
    b.send("SUB x 1\r\nSUB in 2\r\n");
    for _ in 0..3 {
        b.send("PUB x in 1\r\nm\r\n");
        net.flush_all();
        // As its own, by the stream of the other, by the request, and by the request on its way
        // back.
        assert!(a.received().len() < 1000 && b.received().len() < 1000);
    }
    let to = {
        b.send("PUB x in 1\r\nm\r\n");
        net.flush_all();
        reply(&a.received())
    };
    b.received();
    a.publish(&to, "yes");
    net.flush_all();
    assert!(b.received().len() < 1000);
}

#[test]
fn a_chain_of_accounts_has_an_end() {
    let name = |at: usize| format!("N{at}");
    let link = |at: usize| {
        let exports = vec![service("x", ResponseType::Singleton)];
        account(&name(at), exports, vec![service_import(&name(at + 1), "x", "x")])
    };
    let net = Net::with(|setup| {
        setup.accounts = (0..1000).map(link).collect();
        setup.auth = AuthConfig::new(Method::Users(Users::new([user("a", "N0", None)])));
    });
    let mut peer = peer(&net, 0, "a");
    peer.send("SUB in 1\r\nPUB x in 0\r\n\r\n");
    net.flush_all();
    assert!(peer.received().contains("503"));
}

/// CVE-2026 "Nats-Request-Info" (SN 2026-08, SN 2026-09): what is said of a requester is said by
/// the server.
#[test]
fn nobody_says_who_it_is_itself() {
    let net = net_of(accounts());
    let (mut a, mut b) = (peer(&net, 0, "a"), peer(&net, 1, "b"));
    a.send("SUB one.x 1\r\n");
    for name in [
        "Nats-Request-Info",
        "nats-request-info",
        "NATS-REQUEST-INFO",
        " Nats-Request-Info ",
        "Nats-Request-Info\t",
    ] {
        let header = format!("NATS/1.0\r\n{name}: {{\"acc\":\"A\"}}\r\n more\r\n\r\n");
        b.send(format!("HPUB one.x {0} {0}\r\n{header}\r\n", header.len()));
        net.flush_all();
        let received = a.received();
        assert_eq!(received.to_lowercase().matches("request-info").count(), 1, "{received}");
        assert!(
            received.contains("Nats-Request-Info: {\"acc\":\"B\"") && !received.contains("\"acc\":\"A\""),
            "{received}"
        );
    }
}

/// Weights draw for each message, from the cache too.
#[test]
fn weighted_mappings_spread_messages() {
    let mut mappings = Mappings::default();
    let to = |subject: &str, weight| WeightedDestination {
        subject: subject.to_owned(),
        weight,
        cluster: String::new(),
    };
    mappings.insert("in", &[to("one", 50), to("two", 25)]).unwrap();
    let net = net_of(vec![AccountConfig { mappings, ..AccountConfig::named("A") }]);
    let (mut a, mut listener) = (peer(&net, 0, "a"), peer(&net, 0, "a"));
    listener.send("SUB > 1\r\n");
    for _ in 0..4000 {
        a.publish("in", "m");
    }
    net.flush_all();
    let received = listener.received();
    let count = |subject: &str| received.matches(&format!("MSG {subject} 1 1")).count();
    let (one, two, rest) = (count("one"), count("two"), count("in"));
    assert_eq!(one + two + rest, 4000);
    assert!((1800..2200).contains(&one) && (850..1150).contains(&two), "{one} {two} {rest}");
}

/// CVE-2022-29946 and SN 2026-18 let queue groups have what their members must not see.
#[test]
fn a_queue_group_gets_by_an_import_what_its_members_may_see() {
    let net = net_of(accounts());
    let (mut a, mut b, mut c) = (peer(&net, 0, "a"), peer(&net, 1, "b"), peer(&net, 0, "c"));
    c.send("SUB ev.* q 1\r\nSUB > p 2\r\n");
    for _ in 0..3 {
        a.publish("ev.no", "m");
    }
    net.flush_all();
    assert_eq!(c.received(), "");
    // Another member may.
    b.send("SUB ev.* q 1\r\n");
    for _ in 0..20 {
        a.publish("ev.no", "m");
    }
    net.flush_all();
    assert_eq!((c.received().len(), b.received().matches("MSG ev.no 1 1").count()), (0, 20));
}

/// Memory for requests that nobody answers is bounded, and the newest of a flood is still known.
#[test]
fn a_flood_of_unanswered_requests_is_bounded() {
    use crate::imports::{Awaited, AwaitedReplies, ServiceLink};
    let net = net_of(accounts());
    let (a, b) = (net.broker.account("A").unwrap(), net.broker.account("B").unwrap());
    let import = ServiceImport {
        account: "A".into(),
        subject: "one.>".into(),
        to: "one.>".into(),
        ..Default::default()
    };
    let link = Arc::new(ServiceLink::new(&Arc::new(import), "B", &a).unwrap());
    let replies = AwaitedReplies::default();
    let mut reply = Vec::new();
    for at in 0..AwaitedReplies::<Awaited>::MOST + 100_000 {
        let awaited = Awaited {
            link: Arc::clone(&link),
            requester: Arc::clone(&b),
            reply: Box::default(),
            since: net.now() + Duration::from_micros(at as u64),
            tracked: None,
            is_trace: false,
        };
        replies.open(awaited, &mut reply, &OsEntropy, |_| {});
    }
    assert!(replies.len() <= AwaitedReplies::<Awaited>::MOST);
    assert!(replies.waiting(&reply).is_some(), "the last one is there");
}

/// Compat: of the API of JetStream in the system account, an import does not bring requests for
/// messages there; of an export of another account it does.
#[test]
fn requests_for_messages_do_not_go_to_the_system_account() {
    for system_account in [Some("A".to_owned()), None] {
        let is_system = system_account.is_some();
        let net = Net::with(|setup| {
            setup.accounts = vec![
                account("A", vec![service("$JS.API.>", ResponseType::Singleton)], Vec::new()),
                account("B", Vec::new(), vec![service_import("A", "$JS.API.>", "$JS.API.>")]),
            ];
            setup.auth = auth();
            setup.system_account = system_account;
        });
        let (mut a, mut b) = (peer(&net, 0, "a"), peer(&net, 1, "b"));
        a.send("SUB $JS.API.> 1\r\n");
        b.send("SUB in 1\r\n");
        ask(&net, &mut b, &a, "$JS.API.INFO");
        for subject in ["$JS.API.DIRECT.GET.S", "$JS.API.CONSUMER.MSG.NEXT.S.C"] {
            b.send(format!("PUB {subject} in 2\r\nhi\r\n"));
            net.flush_all();
            assert_eq!(a.received().contains(subject), !is_system, "{subject}");
            assert_eq!(b.received().contains(" 503\r\n"), is_system, "{subject}");
        }
    }
}
