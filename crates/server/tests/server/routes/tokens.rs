//! Tokens of accounts, kept in directories of several servers.

use super::{Member, Ours, Raw, Reference, ServerKind, free_port, settle};
use crate::eventually;
use crate::resolving::{BEARER, OPEN, issued, login, text};
use myelin_compat::identity::Identities;

fn identities() -> Identities {
    issued(&[
        r#"op operator by O:op for O:op {"name":"op"}"#.to_owned(),
        format!(r#"sys account by O:op for A:sys {{"nats":{{{OPEN}}}}}"#),
        format!(r#"app account by O:op for A:app {{"nats":{{{OPEN}}}}}"#),
        r#"few account by O:op for A:app {"iat":"+5","nats":{"limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":1,"leaf":-1}}}"#.to_owned(),
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
        Self { ids: identities(), folder, ports: vec![free_port(), free_port()] }
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
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(1);
            while told < 2 && std::time::Instant::now() < deadline {
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
