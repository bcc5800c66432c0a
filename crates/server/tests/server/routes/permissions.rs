//! Permissions of routes: which interest crosses, and what a reload makes of it.

use super::{MIXES, config, settle, two, wait_for_interest};
use crate::eventually;

const RULES: &str = "permissions { import: [\"in.>\", \"probe.*\"], export: { allow: [\"out.>\", \"probe.*\"], deny: \"out.secret\" } }";

/// The first server has rules: it announces what it may import, and takes interest in what it may
/// export.
#[test]
fn interest_crosses_where_it_may() {
    for kinds in MIXES {
        let Some(members) = two(kinds, [RULES, ""]) else { continue };
        settle(&members);
        let (mut ruled, mut free) = (members[0].client(), members[1].client());
        ruled.send("SUB in.a 1\r\nSUB other.a 2\r\n");
        free.send("SUB out.* 1\r\nSUB other.b 2\r\nSUB out.secret 3\r\n");
        wait_for_interest(&mut free, &mut ruled);
        wait_for_interest(&mut ruled, &mut free);
        free.send("PUB other.a 0\r\n\r\nPUB in.a 0\r\n\r\n");
        assert_eq!(ruled.message().subject, "in.a", "{kinds:?}");
        ruled.send("PUB other.b 0\r\n\r\nPUB out.secret 0\r\n\r\nPUB out.b 0\r\n\r\n");
        assert_eq!(free.message().subject, "out.b", "{kinds:?}");
        assert!(ruled.barrier().is_empty() && free.barrier().is_empty());
        // What the other side said of itself, and the rules of this one.
        let page = members[0].server.page("/routez");
        assert_eq!(page["import"]["allow"][0], "in.>", "{kinds:?} {page}");
        assert_eq!(page["export"]["deny"][0], "out.secret");
        let page = members[1].server.page("/routez");
        assert!(page.get("import").is_none());
        assert_eq!(page["routes"][0]["export"]["allow"][0], "out.>", "{kinds:?} {page}");
    }
}

/// Interest that was there before is announced, and taken back.
#[test]
fn a_reload_changes_what_crosses() {
    for kinds in MIXES {
        let Some(members) = two(kinds, [RULES, ""]) else { continue };
        settle(&members);
        let (mut ruled, mut free) = (members[0].client(), members[1].client());
        ruled.send("SUB in.a 1\r\nSUB other.a 2\r\n");
        free.send("SUB out.a 1\r\nSUB other.b 2\r\n");
        wait_for_interest(&mut free, &mut ruled);
        wait_for_interest(&mut ruled, &mut free);
        let rules = RULES.replace("in.>", "other.>").replace("out.>", "other.>");
        let lines = members[0].server.reload(&config("S0", members[0].port, &[], &rules, ""));
        assert!(lines.iter().any(|line| line.contains("Reloaded: cluster")), "{lines:?}");
        eventually("interest in what may be imported now", || {
            free.send("PUB in.a 0\r\n\r\nPUB other.a 0\r\n\r\n");
            free.barrier();
            let got: Vec<_> = ruled.barrier().into_iter().map(|message| message.subject).collect();
            got == ["other.a"]
        });
        eventually("interest in what may be exported now", || {
            ruled.send("PUB out.a 0\r\n\r\nPUB other.b 0\r\n\r\n");
            ruled.barrier();
            let got: Vec<_> = free.barrier().into_iter().map(|message| message.subject).collect();
            got == ["other.b"]
        });
        settle(&members);
    }
}
