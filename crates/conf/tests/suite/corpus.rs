//! The corpus: configurations, what nats-server says of each, and where we differ on purpose.
//!
//! `good`, `bad`, `odd` and `accounts` have one case per line, with `⏎ ␍ ␉ ␀` for newline, carriage
//! return, tab and NUL. The `.expected` file beside has one line per case: the reference's verdict,
//! and, where ours is another on purpose, ` ;; ` our verdict ` ;; ` the reason. `files` are whole
//! files that include others.

use std::fs;
use std::path::PathBuf;

use crate::verdict::Verdict;
use crate::{ConfigFile, reference};

/// A line of an `.expected` file.
struct Expected {
    reference: String,
    /// Our verdict and the reason, where it is not the reference's.
    ours: Option<(String, String)>,
}

impl Expected {
    fn parse(line: &str) -> Self {
        let mut parts = line.split(" ;; ").map(str::to_owned);
        let reference = parts.next().expect("a line has a beginning");
        Self { reference, ours: parts.next().zip(parts.next()) }
    }

    fn ours(&self) -> &str {
        self.ours.as_ref().map_or(&self.reference, |(ours, _)| ours)
    }

    fn line(&self) -> String {
        match &self.ours {
            Some((ours, reason)) => format!("{} ;; {ours} ;; {reason}\n", self.reference),
            None => format!("{}\n", self.reference),
        }
    }
}

fn corpus(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name)
}

fn read_cases(name: &str) -> Vec<String> {
    let text = fs::read_to_string(corpus(&format!("{name}.cases"))).expect("the corpus is there");
    let symbols = [('⏎', "\n"), ('␍', "\r"), ('␉', "\t"), ('␀', "\0")];
    let decode =
        |line: &str| symbols.iter().fold(line.to_owned(), |text, (symbol, c)| text.replace(*symbol, c));
    text.lines().map(decode).collect()
}

fn read_expected(name: &str) -> Vec<Expected> {
    let text = fs::read_to_string(corpus(&format!("{name}.expected"))).unwrap_or_default();
    text.lines().map(Expected::parse).collect()
}

/// Every case of the corpus with its expectation and the file that holds it.
fn for_each_case(name: &str, mut check: impl FnMut(usize, &str, &str, &Expected)) {
    let (cases, expected) = (read_cases(name), read_expected(name));
    assert_eq!(cases.len(), expected.len(), "{name}: a case has no expectation; record them");
    for (at, (case, expected)) in cases.iter().zip(&expected).enumerate() {
        let file = ConfigFile::new(case);
        check(at + 1, case, &file.path(), expected);
    }
}

fn check_ours(name: &str) {
    let mut wrong = Vec::new();
    for_each_case(name, |line, case, path, expected| {
        let verdict = Verdict::of_myelin(path);
        if !verdict.agrees_with(&Verdict::parse(expected.ours())) {
            wrong.push(format!("{name}:{line}: {case:?}\n    expected {}, got {verdict}", expected.ours()));
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn check_reference(name: &str) {
    let Some(program) = reference::find() else { return };
    let ask =
        |path: &str| Verdict::of_reference(&reference::run(&program, &["-t", "-c", path]), path).to_string();
    if std::env::var_os("MYELIN_RECORD").is_some() {
        let mut old = read_expected(name).into_iter();
        let lines = read_cases(name).into_iter().map(|case| {
            let reference = ask(&ConfigFile::new(case).path());
            Expected { reference, ours: old.next().and_then(|expected| expected.ours) }.line()
        });
        fs::write(corpus(&format!("{name}.expected")), lines.collect::<String>())
            .expect("the corpus is writable");
        return;
    }
    for_each_case(name, |line, case, path, expected| {
        assert_eq!(ask(path), expected.reference, "{name}:{line}: {case:?}");
    });
}

#[test]
fn good_configurations_are_valid_with_the_same_digest() {
    check_ours("good");
}

#[test]
fn bad_configurations_are_refused_at_the_same_place() {
    check_ours("bad");
}

#[test]
fn odd_configurations_get_the_same_verdict() {
    check_ours("odd");
}

#[test]
fn the_reference_says_what_is_recorded_of_good() {
    check_reference("good");
}

#[test]
fn the_reference_says_what_is_recorded_of_bad() {
    check_reference("bad");
}

#[test]
fn the_reference_says_what_is_recorded_of_odd() {
    check_reference("odd");
}

#[test]
fn accounts_and_all_about_trust_get_the_same_verdict() {
    check_ours("accounts");
}

#[test]
fn the_reference_says_what_is_recorded_of_accounts() {
    check_reference("accounts");
}

/// Files that include others, with what is to be said of each, positions in included files too.
const FILES: &[(&str, &str)] = &[
    ("accounts", "sha256:161c9d74b3fe8e95ab73cd12ae7d8867e05716a438ae4fba1a0c5a1892c0cfbf"),
    ("json", "sha256:7d81700ba59863c01a7267bab74bd6a521f0e2d1ae4f782e097b24f616323c80"),
    ("server", "sha256:b551a3bfbdc1bf745f63edff0f243ea0aa62b59c4040d5c2a3b0134243f2493d"),
    ("typical_tools", "sha256:0f7190367bee57cae81e970815c42d94aef79f79614a915ed08405c8e0e93a96"),
    ("includes_missing", "open tests/corpus/files/nested/nothing.conf: no such file or directory"),
    ("includes_broken", "error on line 3"),
    ("includes_unknown", "nested/unknown.conf:2:3: unknown field \"unknown_there\""),
    ("includes_unknown", "files/includes_unknown.conf:5:1: unknown field \"unknown_here\""),
];

#[test]
fn whole_files_get_the_same_verdict() {
    for (name, said) in FILES {
        let path = format!("tests/corpus/files/{name}.conf");
        let text = match crate::load(&["-t", "-c", &path]) {
            Ok(command) => command.to_string(),
            Err(error) => error.to_string(),
        };
        // Ours names the file as well.
        let said = said.replace("error on line 3", "nested/broken.conf:3:1: Parse error on line 3");
        assert!(text.contains(&said), "{name}: {text}");
    }
}

#[test]
fn the_reference_says_the_same_of_whole_files() {
    let Some(program) = reference::find() else { return };
    for (name, said) in FILES {
        let path = format!("tests/corpus/files/{name}.conf");
        let output = reference::run(&program, &["-t", "-c", &path]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(said), "{name}: {text}");
    }
}
