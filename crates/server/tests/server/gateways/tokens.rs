//! Accounts of tokens in clusters that are joined by gateways: preloaded, kept by all servers,
//! asked for elsewhere, and limited everywhere together.

use super::answers::imported_answers;
use super::{Site, joined};
use crate::eventually;
use crate::raw::Raw;
use crate::resolving::{BEARER, OPEN, issued, login, text};
use crate::routes::tokens::servers;
use crate::routes::{MIXES, Ours, Reference, ServerKind, free_port, messages};
use myelin_compat::identity::Identities;
use std::time::{Duration, Instant};

const LIMITED: &str = r#""limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":2,"leaf":-1}"#;

fn identities() -> Identities {
    issued(&[
        r#"op operator by O:op for O:op {"name":"op"}"#.to_owned(),
        format!(r#"sys account by O:op for A:sys {{"nats":{{{OPEN}}}}}"#),
        format!(r#"app account by O:op for A:app {{"nats":{{{OPEN}}}}}"#),
        format!(r#"two account by O:op for A:app {{"iat":"+5","nats":{{{LIMITED}}}}}"#),
        format!(
            r#"svc account by O:op for A:svc {{"nats":{{{OPEN},"exports":[{{"subject":"svc.>","type":"service"}}]}}}}"#
        ),
        format!(
            r#"uses account by O:op for A:uses {{"nats":{{{OPEN},"imports":[{{"account":"@key:A:svc@","subject":"svc.>","local_subject":"my.>","type":"service"}}]}}}}"#
        ),
        r#"gone generic by O:op for O:op {"nats":{"accounts":["@key:A:app@"]}}"#.to_owned(),
        format!("s user by A:sys for U:s {BEARER}"),
        format!("bob user by A:app for U:bob {BEARER}"),
        format!("serves user by A:svc for U:serves {BEARER}"),
        format!("asks user by A:uses for U:asks {BEARER}"),
    ])
}

/// Clusters of one server each, with directories of their own.
struct Lab {
    ids: Identities,
    folder: tempfile::TempDir,
    ports: [u16; 3],
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { ids: identities(), folder, ports: [free_port(), free_port(), free_port()] }
    }

    /// Starts the cluster number `at` of those with a `resolver`; `knows`: accounts that it knows
    /// from its start.
    fn start(&self, kind: ServerKind, at: usize, (resolver, knows): (&str, &[&str])) -> Option<Site> {
        let dir = self.folder.path().join(format!("{resolver}{at}"));
        let resolver = match resolver {
            "MEMORY" => "MEMORY".to_owned(),
            "full" => format!("{{ type: full, dir: {dir:?}, allow_delete: true, interval: 2s }}"),
            _ => format!("{{ type: cache, dir: {dir:?} }}"),
        };
        let preload: String = knows.iter().map(|name| format!("@key:A:{name}@: \"@{name}@\"\n")).collect();
        let more = format!(
            "operator: \"@op@\"\nsystem_account: @key:A:sys@\nresolver: {resolver}\n\
             resolver_preload {{\n@key:A:sys@: \"@sys@\"\n{preload}}}\n"
        );
        let names = ["A", "B", "C"];
        let others = names.into_iter().zip(self.ports).enumerate().filter(|(other, _)| *other < at);
        let others: Vec<_> = others.map(|(_, other)| other).collect();
        let (name, port) = (names[at], self.ports[at]);
        Site::start(kind, (&format!("{name}1"), name, port), &others, "", &text(&self.ids, &more))
    }

    /// Clusters that all dial each other.
    fn start_all(&self, kinds: &[ServerKind], resolver: (&str, &[&str])) -> Option<Vec<Site>> {
        kinds.iter().enumerate().map(|(at, kind)| self.start(*kind, at, resolver)).collect()
    }

    fn client(&self, site: &Site, user: &str) -> Raw {
        let mut raw = Raw::open(site.server.address());
        let connect = format!(
            "CONNECT {{\"jwt\":\"@{user}@\",\"verbose\":false,\"headers\":true,\"no_responders\":true}}\r\n"
        );
        raw.send(&text(&self.ids, &connect));
        raw.barrier();
        raw
    }

    fn enters(&self, site: &Site) -> bool {
        login(&site.server, &self.ids, "bob").1 == "PONG"
    }

    /// A member of the system account whom all these sites answer.
    fn operator(&self, sites: &[Site]) -> Raw {
        let mut raw = self.client(&sites[0], "s");
        raw.subscribe("inbox", 1);
        raw.barrier();
        eventually("all servers answer", || {
            answers(&mut raw, "$SYS.REQ.SERVER.PING.IDZ", "", sites.len()).len() == sites.len()
        });
        raw
    }
}

/// Texts with which servers answer a request of an operator, so many of them or what comes within a
/// second.
fn answers(raw: &mut Raw, subject: &str, body: &str, count: usize) -> Vec<String> {
    raw.barrier();
    raw.send(&format!("PUB {subject} inbox {}\r\n{body}\r\n", body.len()));
    let (mut texts, deadline) = (Vec::new(), Instant::now() + Duration::from_secs(1));
    while texts.len() < count && Instant::now() < deadline {
        texts.extend(raw.barrier().iter().map(|message| message.text().to_owned()));
    }
    texts
}

const THREE: [[ServerKind; 3]; 3] =
    [[Ours, Ours, Ours], [Ours, Reference, Ours], [Reference, Ours, Reference]];

/// Interest in an account is kept where nobody has needed it yet, and is true when somebody does.
#[test]
fn clients_of_an_account_with_a_token_hear_each_other() {
    for kinds in MIXES {
        let lab = Lab::new();
        let Some(sites) = lab.start_all(&kinds, ("MEMORY", &["app", "svc", "uses"])) else { continue };
        for (here, there) in [(0, 1), (1, 0)] {
            let mut waits = lab.client(&sites[here], "bob");
            waits.send("SUB early 91\r\nSUB work group 92\r\n");
            waits.barrier();
            let mut comes = lab.client(&sites[there], "bob");
            joined(&mut comes, &mut waits);
            comes.send("PUB early 1\r\n!\r\nPUB work 1\r\n?\r\n");
            let mut sids = [waits.message().sid, waits.message().sid];
            sids.sort();
            assert_eq!(sids, ["91", "92"], "{kinds:?}");
            messages::plain_and_wild(&mut comes, &mut waits);
            messages::requests(&mut comes, &mut lab.client(&sites[here], "bob"));
        }
    }
}

/// A service that the account of a token imports answers from another cluster.
#[test]
fn a_service_of_an_account_with_a_token_answers_another_cluster() {
    for kinds in MIXES {
        let lab = Lab::new();
        let Some(sites) = lab.start_all(&kinds, ("MEMORY", &["app", "svc", "uses"])) else { continue };
        for (here, there) in [(0, 1), (1, 0)] {
            let mut serves = lab.client(&sites[there], "serves");
            serves.subscribe("svc.>", 1);
            joined(&mut lab.client(&sites[here], "serves"), &mut serves);
            let mut asks = lab.client(&sites[here], "asks");
            imported_answers(&mut asks, &mut serves, 5);
        }
    }
}

#[test]
fn a_token_that_is_not_here_is_asked_for_in_another_cluster() {
    for kinds in MIXES {
        let lab = Lab::new();
        let Some(keeps) = lab.start(kinds[0], 0, ("full", &["app"])) else { continue };
        let Some(asks) = lab.start(kinds[1], 1, ("cache", &[])) else { continue };
        eventually("the account is found", || lab.enters(&asks));
        joined(&mut lab.client(&keeps, "bob"), &mut lab.client(&asks, "bob"));
    }
}

/// A cluster that was not there when a token came gets it from another one.
#[test]
fn clusters_that_keep_all_tokens_give_each_other_what_they_lack() {
    for kinds in MIXES {
        let lab = Lab::new();
        let Some(first) = lab.start(kinds[0], 0, ("full", &["app"])) else { continue };
        let Some(second) = lab.start(kinds[1], 1, ("full", &[])) else { continue };
        let file = lab.folder.path().join("full1").join(text(&lab.ids, "@key:A:app@.jwt"));
        eventually("the token has come", || file.exists());
        drop((first, second));
        let Some(second) = lab.start(kinds[1], 1, ("full", &[])) else { continue };
        assert!(lab.enters(&second), "{kinds:?}: what it has got it has for itself");
    }
}

/// An account that one operator pushes is there in all clusters; another token of it with a limit
/// holds for all of them together, and when it is deleted nobody is left in it.
#[test]
fn what_becomes_of_a_token_becomes_of_it_in_all_clusters() {
    for kinds in THREE {
        let lab = Lab::new();
        let Some(sites) = lab.start_all(&kinds, ("full", &[])) else { continue };
        let mut operator = lab.operator(&sites);
        let all = ["A1", "B1", "C1"];
        let mut push = |what: &str| {
            let body = text(&lab.ids, what);
            let updated = answers(&mut operator, "$SYS.REQ.CLAIMS.UPDATE", &body, 3);
            assert_eq!(servers(&updated), all, "{kinds:?} {what}: {updated:?}");
            assert!(updated.iter().all(|text| text.contains("jwt updated")), "{kinds:?}: {updated:?}");
        };
        assert!(!lab.enters(&sites[2]), "nobody knows the account yet");
        push("@app@");
        let mut bobs: Vec<Raw> = sites.iter().map(|site| lab.client(site, "bob")).collect();
        let [one, two, three] = &mut bobs[..] else { panic!("three clients") };
        joined(one, two);
        joined(two, three);
        joined(three, one);
        drop(bobs);
        push("@two@");
        let connz = text(&lab.ids, "/connz?acc=@key:A:app@");
        let mut held: Vec<Raw> = Vec::new();
        // Those that have just gone count until all servers know it, and the newest has to go then.
        eventually("two are let in, and no third", || {
            let is_in = |site: &Site| site.server.page(&connz)["num_connections"] == 1;
            if !sites[..2].iter().all(is_in) {
                held = sites[..2].iter().map(|site| login(&site.server, &lab.ids, "bob").0).collect();
                return false;
            }
            !lab.enters(&sites[2]) && !lab.enters(&sites[0])
        });
        let gone = answers(&mut operator, "$SYS.REQ.CLAIMS.DELETE", &text(&lab.ids, "@gone@"), 3);
        assert_eq!(servers(&gone), all, "{kinds:?}: {gone:?}");
        held.into_iter().for_each(|raw| drop(raw.rest()));
    }
}
