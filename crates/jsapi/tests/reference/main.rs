//! Requests about streams and what the real nats-server answers to them.
//!
//! `requests/*.txt` hold both, and how the server was configured. Ours must give the same bytes;
//! and where there is a reference, so must it, so that nothing is recorded that is not so.
//! `MYELIN_RECORD=1` writes the answers anew.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail as its asserts do")]

mod client;
mod ours;
mod reference;
mod requests;

use requests::{Scenario, parse};
use std::path::PathBuf;

const FILES: &[&str] = &[
    "create",
    "update",
    "neighbours",
    "origins",
    "syntax",
    "lenient",
    "limits",
    "window",
    "tight",
    "others",
    "mixed",
];

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/reference/requests/{name}.txt"))
}

fn scenario(name: &str) -> Scenario {
    parse(&std::fs::read_to_string(path(name)).unwrap())
}

#[test]
fn our_answers_are_the_references() {
    let (mut compared, mut different) = (0, Vec::new());
    for name in FILES {
        let scenario = scenario(name);
        let answers = ours::answers(&scenario);
        for (exchange, answer) in scenario.exchanges().zip(answers) {
            compared += 1;
            if exchange.answer != answer {
                let (request, recorded) = (exchange.line(), &exchange.answer);
                different.push(format!("{name}: {request}\n  recorded {recorded}\n  ours     {answer}"));
            }
        }
    }
    assert!(different.is_empty(), "{} of {compared} differ:\n{}", different.len(), different.join("\n"));
    assert!(compared > 1_000, "{compared}");
}

#[test]
fn the_reference_gives_the_recorded_answers() {
    let Some(program) = myelin_compat::implementation::reference_program() else { return };
    for name in FILES {
        let mut scenario = scenario(name);
        let answers = reference::answers(&program, &scenario);
        if std::env::var_os("MYELIN_RECORD").is_some() {
            scenario.record(answers);
            std::fs::write(path(name), scenario.to_string()).unwrap();
            continue;
        }
        for (exchange, answer) in scenario.exchanges().zip(answers) {
            assert_eq!(exchange.answer, answer, "{name}: {}", exchange.line());
        }
    }
}
