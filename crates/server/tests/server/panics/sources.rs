//! The list of threads and tasks, read from the sources.

use super::{clients, ends, identities, pages, streams};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Calls that start a thread or a task.
const STARTS: &[&str] = &[
    "thread::Builder",
    "thread::spawn",
    "thread::scope",
    "tokio::spawn",
    "task::spawn",
    ".spawn(",
    ".spawn_on(",
    "spawn_local(",
    "spawn_blocking(",
    "JoinSet",
    "control.spawn(",
    "handle().spawn(",
];

/// Where that is allowed: the one place, and what only looks like it.
const PLACE: &str = "server/src/supervise/mod.rs";

/// Calls with the name of a start that are none, or one by `supervise::Tasks`.
const NO_STARTS: &[&str] = &[".spawn()", "connections.spawn(self.clone().attend("];

/// Runtimes whose threads run nothing but what has a row of its own.
const RUNTIMES: &[&str] = &["control", "pages"];

/// Rooms of other programs than the server.
const OTHER_PROGRAMS: &[&str] = &["cli", "lab", "loadgen"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace is there")
}

/// All sources of the server and the floors below it, without their tests.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![crates()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            let name = path.strip_prefix(crates()).expect("it is below").to_string_lossy().into_owned();
            let is_test =
                name.ends_with("tests.rs") || name.contains("/tests/") || name.contains("/examples/");
            let is_other = OTHER_PROGRAMS.contains(&name.as_str());
            if path.is_dir() && !is_other && !name.ends_with("/target") {
                folders.push(path);
            } else if name.ends_with(".rs") && name.contains("/src/") && !is_test {
                let text = fs::read_to_string(&path).expect("a text");
                let (code, _) = text.split_once("#[cfg(test)]\nmod tests {").unwrap_or((&text, ""));
                let (code, _) = code.split_once("#[cfg(all(test, not(loom)))]").unwrap_or((code, ""));
                found.push((name, code.to_owned()));
            }
        }
    }
    assert!(found.len() > 500, "{}", found.len());
    found
}

/// The rows of the table: the part as the code knows it, and its name.
fn rows() -> Vec<(String, String)> {
    let table = fs::read_to_string(crates().join("server/src/supervise/table.rs")).expect("it is there");
    let row = |line: &str| {
        let (part, rest) = line.trim().strip_prefix("Self::")?.split_once(" => rule(\"")?;
        Some((part.to_owned(), rest.split_once('"')?.0.to_owned()))
    };
    let rows: Vec<_> = table.lines().filter_map(row).collect();
    assert!(rows.len() > 30, "{rows:?}");
    rows
}

#[test]
fn threads_and_tasks_are_started_in_one_place() {
    for (name, code) in sources().iter().filter(|(name, _)| name != PLACE) {
        let lines = code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        for (at, line) in lines {
            let starts = STARTS.iter().find(|start| line.contains(**start));
            // Through the one place, by its own functions.
            let is_ours = line.contains("supervise::") || NO_STARTS.iter().any(|other| line.contains(*other));
            assert!(starts.is_none() || is_ours, "{name}:{}: {line}: use crate::supervise", at + 1);
        }
    }
}

/// Tasks that are started without a guard have one inside.
#[test]
fn tasks_that_guard_themselves_do() {
    const GUARDS: &[&str] = &["supervise::guarded(", "supervise::persist(", "persist(SupervisedPart::"];
    let sources = sources();
    for (name, code) in sources.iter().filter(|(_, code)| code.contains("supervise::spawn_guarding")) {
        // The task may be in the next file.
        let elsewhere = [
            "server/src/lifecycle.rs",
            "server/src/lifecycle/pages.rs",
            "server/src/mqtt.rs",
            "server/src/shard/mod.rs",
        ];
        let elsewhere = elsewhere.contains(&name.as_str());
        assert!(elsewhere || GUARDS.iter().any(|guard| code.contains(guard)), "{name}");
    }
    for name in ["listener.rs", "http/mod.rs", "shard/reader.rs", "shard/drain.rs"] {
        let (_, code) =
            sources.iter().find(|(file, _)| *file == format!("server/src/{name}")).expect("it is there");
        assert!(GUARDS.iter().any(|guard| code.contains(guard)), "{name}");
    }
}

#[test]
fn every_row_is_used_and_every_runtime_known() {
    let sources = sources();
    let code: String =
        sources.iter().filter(|(name, _)| !name.contains("/supervise/")).map(|s| s.1.as_str()).collect();
    for (part, name) in rows() {
        assert!(code.contains(&format!("Part::{part}")), "nothing is started as {name}");
    }
    for (file, code) in &sources {
        for (_, rest) in
            code.match_indices(".thread_name(\"").map(|(at, found)| (at, &code[at + found.len()..]))
        {
            let name = rest.split('"').next().unwrap_or_default();
            assert!(RUNTIMES.contains(&name), "{file}: {name}");
        }
    }
}

#[test]
fn every_row_has_a_case() {
    let names: BTreeSet<_> = rows().into_iter().map(|(_, name)| name).collect();
    let cases = [clients::CASES, ends::CASES, identities::CASES, pages::CASES, streams::CASES].concat();
    let covered: BTreeSet<_> = cases.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(covered.len(), cases.len(), "each in one place");
    assert_eq!(names, covered);
}
