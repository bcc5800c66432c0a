//! Random accounts with exports, imports and mappings against a plain twin, over short subjects:
//! who receives what, under which name, before and after the accounts are made others.

use super::net::{Net, Peer, login, user};
use crate::imports::{
    Access, AccountConfig, Export, Import, ServiceExport, ServiceImport, StreamExport, StreamImport,
};
use myelin_auth::{AuthConfig, Method, Users};
use myelin_subject::{Mappings, WeightedDestination, is_subset, matches};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use std::sync::Arc;

const ACCOUNTS: [&str; 3] = ["A", "B", "C"];
const SUBJECTS: [&str; 8] = ["a", "b", "a.b", "a.c", "b.a", "x.a", "x.a.b", "c"];
const PATTERNS: [&str; 9] = [">", "a", "a.*", "x.>", "*.b", "b.*", "*", "y.*", "*.a"];
const EXPORTED: [&str; 6] = ["a", "a.*", "a.>", ">", "*.b", "a.b"];
/// Subjects of imports: the exporter's, and the importer's for it.
const IMPORTED: [(&str, &str); 10] = [
    ("a", "a"),
    ("a", "x"),
    ("a.*", "a.*"),
    ("a.*", "b.$1"),
    ("a.*", "$1.a"),
    ("a.b", "c"),
    ("a.>", "x.a.>"),
    (">", "x.>"),
    (">", ">"),
    ("*.b", "y.$1"),
];
const MAPPED: [(&str, &str); 3] = [("a", "b"), ("b.*", "a.$1"), ("x.a", "a.b")];

fn access() -> impl Strategy<Value = Access> {
    prop_oneof![
        3 => Just(Access::default()),
        1 => select(&ACCOUNTS[..]).prop_map(|name| Access { accounts: vec![name.to_owned()], ..Access::default() }),
        1 => Just(Access { token_required: true, ..Access::default() }),
    ]
}

fn export() -> impl Strategy<Value = Export> {
    (select(&EXPORTED[..]), access(), any::<bool>()).prop_map(|(subject, access, is_stream)| {
        if is_stream {
            return Export::Stream(StreamExport { subject: subject.to_owned(), access });
        }
        Export::Service(Arc::new(ServiceExport { access, ..ServiceExport::public(subject) }))
    })
}

fn import() -> impl Strategy<Value = Import> {
    (select(&ACCOUNTS[..]), select(&IMPORTED[..]), any::<bool>()).prop_map(
        |(account, (subject, to), is_stream)| {
            let (account, subject, to) = (account.to_owned(), subject.to_owned(), to.to_owned());
            if is_stream {
                return Import::Stream(StreamImport { account, subject, to, ..StreamImport::default() });
            }
            Import::Service(Arc::new(ServiceImport { account, subject, to, ..ServiceImport::default() }))
        },
    )
}

/// Leaves out imports that the configuration refuses: a stream imported twice, a service under a
/// subject that is taken.
fn distinct(imports: Vec<Import>) -> Vec<Import> {
    let mut distinct: Vec<Import> = Vec::new();
    for import in imports {
        let is_known = distinct.iter().any(|known| match (known, &import) {
            (Import::Stream(known), Import::Stream(new)) => {
                (&known.account, &known.subject) == (&new.account, &new.subject)
            }
            (Import::Service(known), Import::Service(new)) => {
                (&known.account, &known.to) == (&new.account, &new.to)
            }
            _ => false,
        });
        if !is_known {
            distinct.push(import);
        }
    }
    distinct
}

fn config(name: &'static str) -> impl Strategy<Value = AccountConfig> {
    let mapped = subsequence(MAPPED.to_vec(), 0..=1);
    (vec(export(), 0..4), vec(import(), 0..4), mapped).prop_map(move |(exports, imports, mapped)| {
        let mut mappings = Mappings::default();
        for (source, destination) in mapped {
            let only =
                WeightedDestination { subject: destination.to_owned(), weight: 100, cluster: String::new() };
            mappings.insert(source, &[only]).unwrap();
        }
        AccountConfig { exports, imports: distinct(imports), mappings, ..AccountConfig::named(name) }
    })
}

type World = Vec<AccountConfig>;

fn world() -> impl Strategy<Value = World> {
    (config("A"), config("B"), config("C")).prop_map(|(a, b, c)| vec![a, b, c])
}

/// One message at one subscriber: in which account, by which pattern, under which subject.
type Receipt = (usize, usize, String);

/// Twin of the accounts, written to be read: follows a message through exports, imports and
/// mappings.
struct Twin<'a> {
    world: &'a World,
    /// The patterns to which somebody in each account listens.
    listeners: &'a [Vec<usize>],
}

/// `subject`, which matches `from`, as `to`, in which `$1` is the first wildcard.
fn rename(subject: &str, from: &str, to: &str) -> String {
    let tokens: Vec<&str> = subject.split('.').collect();
    let from: Vec<&str> = from.split('.').collect();
    let stars: Vec<&str> =
        from.iter().zip(&tokens).filter(|(f, _)| **f == "*").map(|(_, token)| *token).collect();
    let mut next = 0;
    let renamed = to.split('.').map(|token| match token {
        ">" => tokens[from.len() - 1..].join("."),
        "*" => {
            next += 1;
            stars[next - 1].to_owned()
        }
        _ => match token.strip_prefix('$') {
            Some(number) => stars[number.parse::<usize>().unwrap() - 1].to_owned(),
            None => token.to_owned(),
        },
    });
    renamed.collect::<Vec<_>>().join(".")
}

/// The way back, tried out: the subject that would be renamed to this one.
fn rename_back(subject: &str, from: &str, to: &str) -> Option<String> {
    // No import takes more than one token away.
    let tokens = subject.split('.').count() + 1;
    let mut all: Vec<String> = vec![String::new()];
    let mut found = Vec::new();
    for _ in 0..tokens {
        let longer = |known: &String| {
            let names = ["a", "b", "c", "x", "y"].into_iter();
            let dot = if known.is_empty() { "" } else { "." };
            names.map(move |name| format!("{known}{dot}{name}")).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
        found.extend(
            all.iter()
                .filter(|s| matches(from.as_bytes(), s.as_bytes()) && rename(s, from, to) == subject)
                .cloned(),
        );
    }
    assert!(found.len() <= 1, "{subject} comes from {found:?}");
    found.pop()
}

impl Twin<'_> {
    fn number(name: &str) -> usize {
        ACCOUNTS.iter().position(|known| *known == name).unwrap()
    }

    fn allows<'e>(
        offers: impl Iterator<Item = (&'e String, &'e Access)> + Clone,
        importer: usize,
        subject: &str,
    ) -> bool {
        let exact = offers.clone().find(|(offered, _)| *offered == subject);
        let covers = |(offered, _): &(&String, &Access)| is_subset(subject.as_bytes(), offered.as_bytes());
        exact.or_else(|| offers.clone().find(covers)).is_some_and(|(_, access)| {
            !access.token_required
                && (access.accounts.is_empty()
                    || access.accounts.iter().any(|name| name == ACCOUNTS[importer]))
        })
    }

    fn streams(&self, account: usize) -> impl Iterator<Item = (&String, &Access)> + Clone {
        self.world[account].exports.iter().filter_map(|export| match export {
            Export::Stream(stream) => Some((&stream.subject, &stream.access)),
            Export::Service(_) => None,
        })
    }

    fn services(&self, account: usize) -> impl Iterator<Item = (&String, &Access)> + Clone {
        self.world[account].exports.iter().filter_map(|export| match export {
            Export::Service(service) => Some((&service.subject, &service.access)),
            Export::Stream(_) => None,
        })
    }

    /// The export by which a service is imported.
    fn exported_as(&self, account: usize, subject: &str) -> Option<String> {
        let exact = self.services(account).find(|(offered, _)| *offered == subject);
        let mut all = self.services(account);
        let covering = || all.find(|(offered, _)| is_subset(subject.as_bytes(), offered.as_bytes()));
        exact.or_else(covering).map(|(offered, _)| offered.clone())
    }

    /// Somebody in `account` publishes, or by the exports on the way an import brings it there.
    fn publish(&self, account: usize, subject: &str, way: &[(usize, String)], out: &mut Vec<Receipt>) {
        let mut mapped = Vec::new();
        let is_mapped = self.world[account].mappings.map(subject.as_bytes(), "", &mut || 0, &mut mapped);
        let subject = if is_mapped { String::from_utf8(mapped).unwrap() } else { subject.to_owned() };
        self.deliver(account, &subject, out);
        if way.is_empty() {
            self.export_stream(account, &subject, out);
        }
        for import in &self.world[account].imports {
            let Import::Service(import) = import else { continue };
            let ServiceImport { account: exporter, subject: there, to, .. } = &**import;
            let exporter = Self::number(exporter);
            if !Self::allows(self.services(exporter), account, there) {
                continue;
            }
            let Some(renamed) = rename_back(&subject, there, to) else { continue };
            let export = (exporter, self.exported_as(exporter, there).unwrap());
            if !way.contains(&export) {
                self.publish(exporter, &renamed, &[way, &[export]].concat(), out);
            }
        }
    }

    fn deliver(&self, account: usize, subject: &str, out: &mut Vec<Receipt>) {
        for pattern in &self.listeners[account] {
            if matches(PATTERNS[*pattern].as_bytes(), subject.as_bytes()) {
                out.push((account, *pattern, subject.to_owned()));
            }
        }
    }

    fn export_stream(&self, exporter: usize, subject: &str, out: &mut Vec<Receipt>) {
        for account in 0..ACCOUNTS.len() {
            for import in &self.world[account].imports {
                let Import::Stream(StreamImport { account: from, subject: there, to, .. }) = import else {
                    continue;
                };
                if Self::number(from) == exporter
                    && matches(there.as_bytes(), subject.as_bytes())
                    && Self::allows(self.streams(exporter), account, there)
                {
                    self.deliver(account, &rename(subject, there, to), out);
                }
            }
        }
    }
}

/// A client in each account that listens, and one that publishes.
struct Stage {
    net: Net,
    listeners: Vec<Peer>,
    publishers: Vec<Peer>,
}

fn auth() -> AuthConfig {
    AuthConfig::new(Method::Users(Users::new(ACCOUNTS.map(|name| user(name, name, None)))))
}

impl Stage {
    fn new(world: &World, patterns: &[Vec<usize>]) -> Self {
        let net = Net::with(|setup| {
            setup.accounts = world.clone();
            setup.auth = auth();
        });
        let peer = |at: usize| net.peer_as(at % 2, &format!("\"headers\":false,{}", login(ACCOUNTS[at])));
        let mut listeners: Vec<Peer> = (0..ACCOUNTS.len()).map(peer).collect();
        let publishers = (0..ACCOUNTS.len()).map(peer).collect();
        for (peer, patterns) in listeners.iter_mut().zip(patterns) {
            for pattern in patterns {
                peer.send(format!("SUB {} {pattern}\r\n", PATTERNS[*pattern]));
            }
        }
        Self { net, listeners, publishers }
    }

    fn become_another(&self, world: &World) {
        self.net
            .broker
            .set_auth_and_accounts(self.net.broker.stage_auth_and_accounts(auth(), world).unwrap());
    }

    /// Has somebody publish in each account and compares who receives it with the twin. Three
    /// times, since the first goes by a look-up, the second fills the cache and the third uses it.
    fn check(&mut self, twin: &Twin<'_>) {
        for (account, subject) in (0..ACCOUNTS.len()).flat_map(|at| SUBJECTS.map(|subject| (at, subject))) {
            let mut expected = Vec::new();
            twin.publish(account, subject, &[], &mut expected);
            expected.sort();
            for round in 0..3 {
                self.publishers[account].publish(subject, "m");
                self.net.flush_all();
                let mut received = self.receipts();
                received.sort();
                assert_eq!(received, expected, "{subject} of {}, round {round}", ACCOUNTS[account]);
            }
        }
    }

    fn receipts(&self) -> Vec<Receipt> {
        let mut all = Vec::new();
        for (account, peer) in self.listeners.iter().enumerate() {
            for line in peer.received().lines().filter(|line| *line != "m") {
                let words: Vec<&str> = line.split(' ').collect();
                let ["MSG", subject, sid, "1"] = words[..] else { panic!("{line:?} is no message") };
                all.push((account, sid.parse().unwrap(), subject.to_owned()));
            }
        }
        all
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn everybody_receives_what_the_twin_says(
        first in world(),
        second in world(),
        listeners in vec(subsequence((0..PATTERNS.len()).collect::<Vec<_>>(), 0..5), ACCOUNTS.len()),
    ) {
        let mut stage = Stage::new(&first, &listeners);
        stage.check(&Twin { world: &first, listeners: &listeners });
        for world in [&second, &first] {
            stage.become_another(world);
            stage.check(&Twin { world, listeners: &listeners });
        }
        stage.listeners.iter_mut().for_each(Peer::leave);
        let left: usize = ACCOUNTS.iter().map(|name| stage.net.broker.account(name).unwrap().subscriptions()).sum();
        prop_assert_eq!(left, 0, "shadows go with what they are shadows of");
    }
}
