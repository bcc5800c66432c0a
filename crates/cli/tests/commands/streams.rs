//! `myelin stream` and `myelin consumer`: made, changed, looked at and read.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::server::programs;
use crate::servers::Server;
use crate::{fail, myelin, succeed};

/// A server with streams, and commands that ask it.
pub(crate) struct Asked {
    pub(crate) server: Server,
}

impl Asked {
    pub(crate) fn of(program: &Path) -> Self {
        Self { server: Server::with_streams(program, &[]) }
    }

    /// `myelin` with these words.
    pub(crate) fn line(&self, line: &str) -> Command {
        self.words(&line.split(' ').collect::<Vec<_>>())
    }

    pub(crate) fn words(&self, words: &[&str]) -> Command {
        let mut command = myelin(words);
        command.args(["-s", &self.server.url()]);
        command
    }

    /// Standard output of a command that succeeds.
    #[track_caller]
    pub(crate) fn said(&self, line: &str) -> String {
        succeed(&mut self.line(line))
    }

    #[track_caller]
    pub(crate) fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.said(line)).unwrap()
    }
}

#[test]
fn streams_are_made_and_changed_by_flags_and_files() {
    for program in programs() {
        let asked = Asked::of(&program);
        let made = asked.said("stream add S --subjects a.>,b --max-age 1h --max-msgs 5 --no-ack --defaults");
        assert!(
            made.starts_with("Stream S was created\n") && made.contains("Maximum age: 1h0m0s\n"),
            "{made}"
        );
        let config = |name: &str| asked.json(&format!("stream info {name} --json"))["config"].clone();
        let first = config("S");
        assert_eq!((&first["subjects"], &first["no_ack"]), (&json!(["a.>", "b"]), &json!(true)), "{first}");
        assert_eq!((&first["storage"], &first["allow_direct"]), (&json!("file"), &json!(true)), "{first}");
        assert!(fail(&mut asked.line("stream add S --subjects other")).contains("already in use"));

        let tried = asked.said("stream edit S --max-msgs 7 --metadata a=b --dry-run");
        assert!(tried.starts_with("- max_msgs: 5\n+ max_msgs: 7\n"), "{tried}");
        assert_eq!(config("S"), first);
        assert!(
            fail(asked.line("stream edit S --max-msgs 7").stdin(std::process::Stdio::null()))
                .contains("--force")
        );
        asked.said("stream edit S --max-msgs 7 -f");
        assert_eq!(config("S")["max_msgs"], 7);
        assert_eq!(asked.said("stream edit S --max-msgs 7 -f"), "No difference\n");

        let file = asked.server.file("T.json");
        std::fs::write(&file, json!({ "config": { "name": "T", "storage": "memory" } }).to_string()).unwrap();
        let made = asked.json(&format!("stream add --config {file} --subjects t --max-msgs 3 --json"));
        assert_eq!((&made["config"]["storage"], &made["config"]["max_msgs"]), (&json!("memory"), &json!(3)));
        assert_eq!(asked.said("stream ls --names --subject t"), "T\n");
    }
}

#[test]
fn messages_of_a_stream_are_looked_at() {
    for program in programs() {
        let asked = Asked::of(&program);
        asked.said("stream add S --subjects a.>");
        for number in 1..=5 {
            asked.said(&format!("pub a.{number} hello{number} -H K:v"));
        }
        let got = asked.said("stream get S 2");
        assert!(got.starts_with("[2] S > a.2, received ") && got.ends_with("\nK: v\n\nhello2\n"), "{got}");
        assert!(asked.said("stream get S -S a.4").ends_with("hello4\n"));
        let json = asked.json("stream get S 3 --json");
        assert_eq!((&json["subject"], &json["data"]), (&json!("a.3"), &json!("aGVsbG8z")));
        assert!(fail(&mut asked.line("stream get S 9")).contains("no message found"));

        assert_eq!(asked.said("stream view S --raw"), "hello1\nhello2\nhello3\nhello4\nhello5\n");
        let page = asked.said("stream view S 2 --id 2");
        assert!(
            page.contains("[2] S > a.2, ") && page.ends_with("The next page begins with --id 4\n"),
            "{page}"
        );
        assert!(!page.contains("hello4"), "{page}");
        assert_eq!(asked.said("stream view S --raw --subject a.3"), "hello3\n");
        assert_eq!(asked.said("stream view S --raw --since 1h --subject a.3"), "hello3\n");
        assert_eq!(asked.said("stream view S --subject a.9"), "");
        asked.said("stream rmm S 3 -f");
        assert_eq!(asked.said("stream view S --raw --id 2"), "hello2\nhello4\nhello5\n");
        asked.said("stream add W --subjects w --retention work");
        asked.said("consumer add W C");
        asked.said("pub w one");
        assert_eq!(asked.said("stream view W --raw"), "one\n", "a work queue is looked at, too");
        assert_eq!(asked.json("stream info W --json")["state"]["messages"], 1);
        asked.said("stream add E --subjects e");
        assert_eq!(asked.said("stream view E") + &asked.said("stream view E --since 1m"), "");
    }
}

#[test]
fn consumers_are_made_changed_and_removed() {
    for program in programs() {
        let asked = Asked::of(&program);
        asked.said("stream add S --subjects a.>");
        let made =
            asked.said("consumer add S C --pull --filter a.1 --max-deliver 4 --backoff 1s,2s --defaults");
        assert!(made.starts_with("          Consumer: ") || made.contains("Consumer: S > C\n"), "{made}");
        let config = |name: &str| asked.json(&format!("consumer info S {name} --json"))["config"].clone();
        let first = config("C");
        let expected = (&json!("a.1"), &json!("explicit"), &json!([1_000_000_000, 2_000_000_000]));
        assert_eq!((&first["filter_subject"], &first["ack_policy"], &first["backoff"]), expected, "{first}");
        asked.said("consumer edit S C --filter a.2,a.3 --max-pending 9 -f");
        let second = config("C");
        assert_eq!(
            (&second["filter_subjects"], &second["max_ack_pending"]),
            (&json!(["a.2", "a.3"]), &json!(9))
        );
        assert!(second["filter_subject"].is_null(), "{second}");
        asked.said("consumer add S P --target out --deliver new");
        assert_eq!(config("P")["ack_policy"], "none");
        let ephemeral = asked.json("consumer add S --ephemeral --deliver 1h --json");
        assert!(ephemeral["config"]["durable_name"].is_null(), "{ephemeral}");

        assert!(asked.said("consumer ls S").starts_with("Name "));
        assert!(asked.said("consumer report S").contains("\nC         Pull  explicit    1.00s"));
        assert!(asked.said("consumer pause S C 1h -f").starts_with("Paused S > C until 20"));
        assert!(asked.said("consumer info S C").contains("Paused until: 20"));
        assert_eq!(asked.said("consumer resume S C -f"), "Consumer S > C is not paused\n");
        asked.said("consumer rm S P -f");
        assert!(!asked.said("consumer ls S --names").lines().any(|name| name == "P"));
        assert!(fail(&mut asked.line("consumer info S P")).contains("consumer not found"));
    }
}

#[test]
fn consumers_deliver_and_are_told() {
    for program in programs() {
        let asked = Asked::of(&program);
        asked.said("stream add S --subjects a.>");
        asked.said("consumer add S C");
        for number in 1..=6 {
            asked.said(&format!("pub a.{number} hello{number}"));
        }
        let info = |key: &str| asked.json("consumer info S C --json")[key].clone();
        let next = asked.said("consumer next S C --count 2");
        assert!(next.contains("subj: a.2 / tries: 1 / cons seq: 2 / str seq: 2 / pending: 4"), "{next}");
        assert_eq!(next.matches("Acknowledged message").count(), 2, "{next}");
        assert_eq!(info("ack_floor")["stream_seq"], 2);
        assert_eq!(asked.said("consumer next S C --no-ack --raw"), "hello3\n");
        assert_eq!(info("num_ack_pending"), 1);
        asked.said("consumer next S C --term --raw");
        assert!(asked.said("consumer next S C --nak").contains("Asked for another delivery"));
        assert_eq!(asked.said("consumer sub S C --raw --count 2"), "hello5\nhello6\n");
        assert!(fail(&mut asked.line("consumer next S C --wait 100ms")).contains("no message came in time"));

        assert!(fail(&mut asked.line("consumer next S nobody")).contains("consumer not found"));
        asked.said("consumer add S F --max-pull-batch 1 --max-pull-expire 1s --filter a.1,a.2");
        assert_eq!(asked.said("consumer next S F --count 2 --raw"), "hello1\nhello2\n", "within its limits");

        asked.said("consumer add S P --target out --ack explicit --flow-control --heartbeat 1s");
        let pushed = asked.said("consumer sub S P --raw --count 6");
        assert!(fail(&mut asked.line("consumer next S P")).contains("use sub"));
        assert_eq!(pushed, "hello1\nhello2\nhello3\nhello4\nhello5\nhello6\n");
        assert_eq!(asked.json("consumer info S P --json")["num_ack_pending"], 0);
    }
}

#[test]
fn no_name_steers_the_terminal() {
    for program in programs() {
        let asked = Asked::of(&program);
        let hostile = "\u{1b}[2J\u{9b}31m";
        succeed(&mut asked.words(&["stream", "add", "S", "--subjects", "a.>", "--description", hostile]));
        succeed(&mut asked.words(&["consumer", "add", "S", "C", "--description", hostile]));
        let mut socket = TcpStream::connect(("127.0.0.1", asked.server.port)).unwrap();
        let publish = format!("CONNECT {{\"verbose\":false}}\r\nPUB a.{hostile} 1\r\nx\r\nPING\r\n");
        socket.write_all(publish.as_bytes()).unwrap();
        let answer = BufReader::new(socket).lines().nth(1).unwrap().unwrap();
        assert_eq!(answer, "PONG");
        for line in [
            "stream ls",
            "stream info S",
            "stream info S --json",
            "consumer ls S",
            "consumer info S C",
            "stream get S 1",
            "stream view S",
            "consumer next S C",
        ] {
            let said = asked.said(line);
            assert!(said.contains("[2J") && !said.contains(['\u{1b}', '\u{9b}']), "{line}: {said:?}");
        }
        let refused = fail(&mut asked.words(&["stream", "add", &format!("X{}", "\u{7f}")]));
        assert!(!refused.contains('\u{7f}'), "{refused:?}");
    }
}

#[test]
fn a_shell_gets_names_that_are_there() {
    for program in programs() {
        let asked = Asked::of(&program);
        asked.said("stream add ORDERS --subjects o.>");
        succeed(&mut asked.words(&["stream", "add", "O$(reboot)", "--subjects", "p"]));
        asked.said("consumer add ORDERS billing");
        asked.said("kv add CONF");
        asked.said("kv put CONF web.port 1");
        asked.said("object add FILES");
        let url = asked.server.url();
        let names = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let typed = [&["__complete", "--", "myelin", "-s", &url][..], &words].concat();
            succeed(&mut myelin(&typed))
        };
        assert_eq!(names("stream info O"), "OBJ_FILES\nORDERS\n", "the other one would be run");
        assert_eq!(names("consumer next --count 3 ORDERS "), "billing\n");
        assert_eq!(names("kv ls "), "CONF\n");
        assert_eq!(names("kv get CONF w"), "web.port\n");
        assert_eq!(names("object ls F"), "FILES\n");
        assert_eq!(names("stream "), "");
        assert_eq!(
            succeed(&mut myelin(&["__complete", "--", "myelin", "-s", "127.0.0.1:1", "stream", "info", ""])),
            ""
        );
    }
}
