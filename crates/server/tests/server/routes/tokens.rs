//! Tokens of accounts, kept in directories of several servers.

use super::{Member, Ours, Raw, Reference, ServerKind, free_port, settle};
use crate::eventually;
use crate::resolving::{BEARER, OPEN, issued, login, text};
use myelin_compat::identity::Identities;
use serde_json::Value;
use std::time::{Duration, Instant};

fn identities() -> Identities {
    issued(&[
        r#"op operator by O:op for O:op {"name":"op"}"#.to_owned(),
        format!(r#"sys account by O:op for A:sys {{"nats":{{{OPEN}}}}}"#),
        format!(r#"app account by O:op for A:app {{"nats":{{{OPEN}}}}}"#),
        r#"few account by O:op for A:app {"iat":"+5","nats":{"limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":1,"leaf":-1}}}"#.to_owned(),
        r#"three account by O:op for A:app {"iat":"+5","nats":{"limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":3,"leaf":-1}}}"#.to_owned(),
        format!(r#"stranger account by O:stranger for A:app {{"iat":"+5","nats":{{{OPEN}}}}}"#),
        r#"gone generic by O:op for O:op {"nats":{"accounts":["@key:A:app@"]}}"#.to_owned(),
        format!("s user by A:sys for U:s {BEARER}"),
        format!("bob user by A:app for U:bob {BEARER}"),
    ])
}

/// Servers with directories of their own.
struct Lab {
    ids: Identities,
    folder: tempfile::TempDir,
    ports: Vec<u16>,
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { ids: identities(), folder, ports: (0..3).map(|_| free_port()).collect() }
    }

    /// Starts server number `at`; `preload`: it knows the account from its start.
    fn start(&self, kind: ServerKind, at: usize, resolver: &str, preload: bool) -> Option<Member> {
        let dir = self.folder.path().join(format!("{resolver}{at}"));
        let app = if preload { "@key:A:app@: \"@app@\"\n" } else { "" };
        let more = format!(
            "operator: \"@op@\"\nsystem_account: @key:A:sys@\n\
             resolver {{ type: {resolver}, dir: \"{}\"{} }}\n\
             resolver_preload {{\n@key:A:sys@: \"@sys@\"\n{app}}}\n",
            dir.display(),
            if resolver == "full" { ", allow_delete: true, interval: 2s" } else { "" },
        );
        let more = text(&self.ids, &more);
        Member::start(kind, &format!("S{at}"), self.ports[at], &self.ports[..at], &more)
    }

    fn enters(&self, member: &Member) -> bool {
        login(&member.server, &self.ids, "bob").1 == "PONG"
    }

    fn operator(&self, member: &Member) -> Raw {
        let (mut raw, answer) = login(&member.server, &self.ids, "s");
        assert_eq!(answer, "PONG");
        raw.subscribe("inbox", 1);
        raw.barrier();
        raw
    }
}

const MIXES: [[ServerKind; 2]; 3] = [[Ours, Ours], [Ours, Reference], [Reference, Ours]];

#[test]
fn a_token_that_is_not_here_is_asked_for() {
    for kinds in MIXES {
        let lab = Lab::new();
        let Some(first) = lab.start(kinds[0], 0, "full", true) else { continue };
        let Some(second) = lab.start(kinds[1], 1, "cache", false) else { continue };
        let members = [first, second];
        settle(&members);
        eventually("the account is found", || lab.enters(&members[1]));
        assert!(lab.enters(&members[0]));
    }
}

/// A token that no trusted operator has signed is not kept: it would be found there for ever.
#[test]
fn a_token_of_a_stranger_is_not_kept() {
    let lab = Lab::new();
    let file = |folder: &str| {
        let file = lab.folder.path().join(folder).join(text(&lab.ids, "@key:A:app@.jwt"));
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("it can be made");
        file
    };
    let (asked, kept) = (file("full0"), file("cache1"));
    std::fs::write(&asked, text(&lab.ids, "@stranger@")).expect("the folder takes files");
    let first = lab.start(Ours, 0, "full", false).expect("ours");
    let members = [first, lab.start(Ours, 1, "cache", false).expect("ours")];
    settle(&members);
    let refused = "Account fetch failed: account validation failed";
    eventually("the token is found, and not believed", || {
        !lab.enters(&members[1]) && members[1].server.log().contains(refused)
    });
    assert!(!kept.exists());
    std::fs::write(&asked, text(&lab.ids, "@app@")).expect("the folder takes files");
    eventually("the account is found", || lab.enters(&members[1]));
}

#[test]
fn servers_that_keep_all_tokens_give_each_other_what_they_lack() {
    for kinds in MIXES {
        let lab = Lab::new();
        let Some(first) = lab.start(kinds[0], 0, "full", true) else { continue };
        let Some(second) = lab.start(kinds[1], 1, "full", false) else { continue };
        let members = [first, second];
        settle(&members);
        let file = lab.folder.path().join("full1").join(text(&lab.ids, "@key:A:app@.jwt"));
        eventually("the token has come", || file.exists());
        // What it has got it has for itself.
        drop(members);
        let Some(second) = lab.start(kinds[1], 1, "full", false) else { continue };
        assert!(lab.enters(&second));
    }
}

#[test]
fn what_becomes_of_a_token_becomes_of_it_everywhere() {
    for kinds in MIXES {
        let lab = Lab::new();
        let Some(first) = lab.start(kinds[0], 0, "full", true) else { continue };
        let Some(second) = lab.start(kinds[1], 1, "full", true) else { continue };
        let members = [first, second];
        settle(&members);
        let mut raw = lab.operator(&members[0]);
        let token = text(&lab.ids, "@few@");
        let mut told = 0;
        eventually("both have taken it", || {
            raw.send(&format!("PUB $SYS.REQ.CLAIMS.UPDATE inbox {}\r\n{token}\r\n", token.len()));
            told = 0;
            let deadline = Instant::now() + Duration::from_secs(1);
            while told < 2 && Instant::now() < deadline {
                told += raw.barrier().iter().filter(|message| message.text().contains("jwt updated")).count();
            }
            told == 2
        });
        // One connection, as the new token has it.
        for member in &members {
            eventually("the new limit holds", || {
                let (_bob, answer) = login(&member.server, &lab.ids, "bob");
                answer == "PONG" && !lab.enters(member)
            });
        }
    }
}

/// Texts with which servers answer a request of an operator, so many of them.
fn answers(raw: &mut Raw, subject: &str, body: &str, count: usize) -> Vec<String> {
    raw.send(&format!("PUB {subject} inbox {}\r\n{body}\r\n", body.len()));
    (0..count).map(|_| raw.message().text().to_owned()).collect()
}

/// Names of the servers that have answered.
pub(crate) fn servers(answers: &[String]) -> Vec<String> {
    let name = |text: &String| {
        serde_json::from_str::<Value>(text).ok()?["server"]["name"].as_str().map(str::to_owned)
    };
    let mut names: Vec<_> = answers.iter().filter_map(name).collect();
    names.sort();
    names
}

/// Requests about tokens reach every server of a cluster, and so does what they change.
#[test]
fn requests_about_tokens_reach_all_servers() {
    for kinds in [[Ours, Ours, Ours], [Ours, Reference, Ours], [Reference, Ours, Reference]] {
        let lab = Lab::new();
        let started = kinds.iter().enumerate().map(|(at, kind)| lab.start(*kind, at, "full", true));
        let Some(members) = started.collect::<Option<Vec<_>>>() else { continue };
        settle(&members);
        let mut raw = lab.operator(&members[0]);
        let all = ["S0", "S1", "S2"];
        eventually("all are asked", || {
            raw.send("PUB $SYS.REQ.CLAIMS.LIST inbox 0\r\n\r\n");
            let (mut lists, deadline) = (Vec::new(), Instant::now() + Duration::from_secs(1));
            while lists.len() < 3 && Instant::now() < deadline {
                lists.extend(raw.barrier().iter().map(|message| message.text().to_owned()));
            }
            servers(&lists) == all
        });
        let app = text(&lab.ids, "@key:A:app@");
        let lists = answers(&mut raw, "$SYS.REQ.CLAIMS.LIST", "", 3);
        assert!(lists.iter().all(|list| list.contains(&app)), "{kinds:?}: {lists:?}");
        let updated = answers(&mut raw, "$SYS.REQ.CLAIMS.UPDATE", &text(&lab.ids, "@three@"), 3);
        assert_eq!(servers(&updated), all, "{kinds:?}: {updated:?}");
        assert!(updated.iter().all(|answer| answer.contains("jwt updated")), "{kinds:?}: {updated:?}");
        let subject = format!("$SYS.REQ.ACCOUNT.{app}.CLAIMS.LOOKUP");
        let found = answers(&mut raw, &subject, "", 3);
        let three = text(&lab.ids, "@three@");
        assert!(found.iter().all(|token| *token == three), "{kinds:?}: {found:?}");
        // All that a server has, and then nothing, which is the end. Of nats-servers one answers.
        let answering =
            kinds.iter().filter(|kind| **kind == Ours).count() + usize::from(kinds.contains(&Reference));
        let packs = answers(&mut raw, "$SYS.REQ.CLAIMS.PACK", &"0".repeat(32), 3 * answering);
        let tokens = packs.iter().filter(|pack| pack.ends_with(&format!("|{three}"))).count();
        let ends = packs.iter().filter(|pack| pack.is_empty()).count();
        assert_eq!((tokens, ends), (answering, answering), "{kinds:?}: {packs:?}");
        // One on each: the limit is one of all servers together.
        let bobs: Vec<_> = members.iter().map(|member| login(&member.server, &lab.ids, "bob").0).collect();
        let gone = answers(&mut raw, "$SYS.REQ.CLAIMS.DELETE", &text(&lab.ids, "@gone@"), 3);
        assert_eq!(servers(&gone), all, "{kinds:?}: {gone:?}");
        assert!(gone.iter().all(|answer| answer.contains("deleted 1 accounts")), "{kinds:?}: {gone:?}");
        // Its clients have to go, everywhere, and nobody comes in.
        bobs.into_iter().for_each(|bob| drop(bob.rest()));
        for (at, member) in members.iter().enumerate() {
            eventually("the account is gone", || !lab.enters(member));
            let file = lab.folder.path().join(format!("full{at}")).join(format!("{app}.jwt"));
            assert!(!file.exists(), "{kinds:?} {at}");
        }
    }
}
