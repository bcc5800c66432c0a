//! `myelin kv` and `myelin object`, beside the official command where it is installed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::server::programs;
use crate::servers;
use crate::streams::Asked;
use crate::{fail, succeed, texts};

/// The official command, if it is installed, asking the same server.
fn official(asked: &Asked, line: &str) -> Option<Command> {
    let mut command = Command::new(servers::installed("nats")?);
    command.args(["-s", &asked.server.url()]).args(line.split(' ')).env("XDG_CONFIG_HOME", "/nowhere");
    Some(command)
}

#[test]
fn keys_have_values_histories_and_revisions() {
    for program in programs() {
        let asked = Asked::of(&program);
        assert_eq!(asked.said("kv ls"), "No buckets\n");
        assert!(asked.said("kv add CONF --history 5 --ttl 1h").contains("Maximum age: 1h0m0s\n"));
        assert_eq!(asked.said("kv put CONF a.b one"), "one\n");
        asked.said("kv put CONF a.b two");
        assert_eq!(asked.said("kv get CONF a.b --raw"), "two");
        assert!(asked.said("kv get CONF a.b").starts_with("CONF > a.b revision: 2 created @ 20"));
        assert_eq!(asked.said("kv get CONF a.b --raw --revision 1"), "one");
        asked.said("kv put CONF c three");
        assert!(
            fail(&mut asked.line("kv get CONF c --revision 1")).contains("key not found"),
            "of another key"
        );
        assert!(fail(&mut asked.line("kv create CONF c x")).contains("key exists, with revision 3"));
        assert!(fail(&mut asked.line("kv update CONF c x 2")).contains("wrong last sequence"));
        asked.said("kv update CONF c four 3");
        asked.said("kv del CONF c -f");
        assert!(fail(&mut asked.line("kv get CONF c")).contains("key not found"));
        assert_eq!(asked.said("kv ls CONF"), "a.b\n");
        asked.said("kv create CONF c five");
        assert_eq!(asked.said("kv ls CONF c"), "c\n");
        assert!(asked.said("kv ls CONF -v --display-value").contains("  6         five\n"));
        let history = asked.json("kv history CONF c --json");
        let operations: Vec<_> =
            history.as_array().unwrap().iter().map(|entry| &entry["operation"]).collect();
        assert_eq!(operations, ["PUT", "PUT", "DELETE", "PUT"]);
        assert!(asked.said("kv history CONF a.b").contains("\na.b  1         PUT  20"));
        asked.said("kv purge CONF a.b -f");
        assert_eq!(asked.json("kv history CONF a.b --json").as_array().unwrap().len(), 1);
        assert!(fail(&mut asked.line("kv put CONF a..b x")).contains("is no key"));
        assert!(fail(&mut asked.line("kv put A.B a x")).contains("is no name of a bucket"));
        asked.said("kv rm CONF -f");
        assert!(fail(&mut asked.line("kv get CONF c")).contains("stream not found"));
    }
}

#[test]
fn a_bucket_that_is_not_read_directly_and_a_mirror_have_the_same_values() {
    for program in programs() {
        let asked = Asked::of(&program);
        asked.said("kv add B --history 3");
        asked.said("kv put B k v1");
        asked.said("kv put B k v2");
        asked.said("stream edit KV_B --no-allow-direct -f");
        assert_eq!(asked.said("kv get B k --raw"), "v2");
        assert_eq!(asked.said("kv get B k --raw --revision 1"), "v1");
        assert!(fail(&mut asked.line("kv get B none")).contains("key not found"));
        asked.said("kv add M --mirror B");
        asked.said("kv put M k v3");
        assert_eq!(asked.said("kv get B k --raw"), "v3");
        let seen = asked.said("kv watch M --count 1 --json");
        assert!(seen.contains("\"key\":\"k\""), "{seen}");
        asked.said("kv add S --source B");
        assert!(asked.said("kv watch S k --count 1").contains(" PUT S > k: "));
    }
}

#[test]
fn values_are_watched_as_they_come() {
    for program in programs() {
        let asked = Asked::of(&program);
        asked.said("kv add B");
        asked.said("kv put B a one");
        let mut watch = asked.line("kv watch B --count 3").stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(|line| line.unwrap());
        assert!(lines.next().unwrap().ends_with("] PUT B > a: one"));
        asked.said("kv put B b two");
        asked.said("kv del B a -f");
        assert!(lines.next().unwrap().ends_with("] PUT B > b: two"));
        assert!(lines.next().unwrap().ends_with("] DELETE B > a"));
        assert!(watch.wait().unwrap().success());
    }
}

#[test]
fn both_commands_read_what_the_other_wrote() {
    for program in programs() {
        let asked = Asked::of(&program);
        asked.said("kv add OURS --history 3 --marker-ttl 1m --compress");
        let Some(mut put) = official(&asked, "kv put OURS a.b theirs") else {
            eprintln!("not compared with the official command: nats was not found");
            return;
        };
        succeed(&mut put);
        assert_eq!(asked.said("kv get OURS a.b --raw"), "theirs");
        asked.said("kv put OURS a.b ours");
        assert_eq!(succeed(&mut official(&asked, "kv get OURS a.b --raw").unwrap()), "ours");
        asked.said("kv purge OURS a.b -f");
        assert!(!official(&asked, "kv get OURS a.b").unwrap().output().unwrap().status.success());
        succeed(&mut official(&asked, "kv add THEIRS --history 3").unwrap());
        let config = |stream: &str| asked.json(&format!("stream info {stream} --json"))["config"].clone();
        asked.said("kv add SAME --history 3");
        let (mut ours, mut theirs) = (config("KV_SAME"), config("KV_THEIRS"));
        for differs in ["name", "subjects"] {
            (ours[differs], theirs[differs]) = (json!(null), json!(null));
        }
        assert_eq!(ours, theirs);

        asked.said("object add FILES");
        let file = asked.server.file("in");
        fs::write(&file, vec![7; 300_000]).unwrap();
        asked.said(&format!("object put FILES {file} --name x/ours.bin"));
        succeed(
            &mut official(&asked, &format!("object put FILES {file} --name theirs --no-progress")).unwrap(),
        );
        let out = asked.server.file("out");
        succeed(
            &mut official(&asked, &format!("object get FILES x/ours.bin -O {out} --no-progress")).unwrap(),
        );
        assert_eq!(fs::read(&out).unwrap(), vec![7; 300_000]);
        asked.said(&format!("object get FILES theirs -O {out} -f"));
        let info = |name: &str| asked.json(&format!("object info FILES {name} --json"));
        let (ours, theirs) = (info("x/ours.bin"), info("theirs"));
        for same in ["size", "chunks", "digest", "bucket"] {
            assert_eq!(ours[same], theirs[same], "{same}");
        }
    }
}

#[test]
fn objects_go_in_and_out_in_pieces() {
    for program in programs() {
        let asked = Asked::of(&program);
        asked.said("object add FILES --description ours");
        let (file, out) = (asked.server.file("in"), asked.server.file("out"));
        let bytes: Vec<u8> =
            (0..1_000_003_u32).map(|number| (number.wrapping_mul(number) >> 7) as u8).collect();
        fs::write(&file, &bytes).unwrap();
        let put = asked
            .said(&format!("object put FILES {file} --name big --chunk-size 10K -H A:b --description d"));
        assert!(put.contains("Chunks: 98\n") && put.contains("Headers: A: b\n"), "{put}");
        assert!(asked.said(&format!("object get FILES big -O {out}")).starts_with("Wrote 977 KiB to "));
        assert_eq!(fs::read(&out).unwrap(), bytes);
        let refused = fail(asked.line(&format!("object get FILES big -O {out}")).stdin(Stdio::null()));
        assert!(refused.contains("--force"), "{refused}");

        let empty = asked.line("object put FILES --name empty").stdin(Stdio::null()).output().unwrap();
        assert!(empty.status.success(), "{:?}", texts(&empty));
        assert_eq!(asked.said("object get FILES empty -O -"), "");
        fs::write(&file, b"small").unwrap();
        asked.said(&format!("object put FILES {file} --name big -f"));
        assert_eq!(asked.said("object get FILES big -O -"), "small");
        assert_eq!(asked.said("object ls FILES --names"), "big\nempty\n");
        let state = || asked.json("stream info OBJ_FILES --json")["state"]["messages"].clone();
        assert_eq!(state(), 3, "what was replaced has gone");

        asked.said("object rm FILES empty -f");
        assert!(asked.said("object watch FILES --count 2").contains("] DEL FILES > empty\n"));
        assert!(fail(&mut asked.line("object get FILES empty")).contains("object not found"));
        // A piece is missing: nothing gets the file's name.
        let last = asked.json("stream info OBJ_FILES --json")["state"]["first_seq"].to_string();
        let request = format!("{{\"seq\":{last}}}");
        succeed(&mut asked.words(&["request", "$JS.API.STREAM.MSG.DELETE.OBJ_FILES", &request, "--raw"]));
        let lost = asked.server.file("lost");
        let said = fail(&mut asked.line(&format!("object get FILES big -O {lost}")));
        assert!(said.contains("0 of its 1 pieces are there") && !fs::exists(&lost).unwrap(), "{said}");
        asked.said("object rm FILES -f");
        assert_eq!(asked.said("object ls"), "No buckets\n");
    }
}

#[test]
fn an_object_whose_bytes_are_others_is_refused() {
    for program in programs() {
        let asked = Asked::of(&program);
        asked.said("object add FILES");
        let file = asked.server.file("in");
        fs::write(&file, b"right").unwrap();
        asked.said(&format!("object put FILES {file} --name x"));
        let info = asked.json("object info FILES x --json");
        let subject = format!("$O.FILES.C.{}", info["nuid"].as_str().unwrap());
        let first = "{\"seq\":1}";
        succeed(&mut asked.words(&["request", "$JS.API.STREAM.MSG.DELETE.OBJ_FILES", first, "--raw"]));
        succeed(&mut asked.words(&["request", &subject, "wrong", "--raw"]));
        let out = asked.server.file("out");
        let said = fail(&mut asked.line(&format!("object get FILES x -O {out}")));
        assert!(said.contains("not those that were stored") && !fs::exists(&out).unwrap(), "{said}");
    }
}
