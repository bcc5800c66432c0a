//! `myelin-tidy`: applies the renames of `docs/renames.tsv`, or proves that nothing else was done.

use myelin_tidy::{Rename, apply, code, read, root, sources};
use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::{env, fs};

const TABLE: &str = "docs/renames.tsv";
const USAGE: &str = "myelin-tidy apply FROM-LINE | check COMMIT FROM-LINE\n  \
    the renames are those of docs/renames.tsv from that line on, the first one is 1";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["apply", from] => table(from).and_then(|renames| rename(&renames)),
        ["check", commit, from] => table(from).and_then(|renames| check(commit, &renames)),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(said) => {
            eprintln!("{said}");
            ExitCode::FAILURE
        }
    }
}

fn table(from: &str) -> Result<Vec<Rename>, String> {
    let from: usize = from.parse().map_err(|_| USAGE.to_owned())?;
    let text = fs::read_to_string(root().join(TABLE)).map_err(|error| format!("{TABLE}: {error}"))?;
    let lines: Vec<&str> = text.lines().skip(from.saturating_sub(1)).collect();
    read(&lines.join("\n"))
}

/// Moves the files, then changes the names in them.
fn rename(renames: &[Rename]) -> Result<String, String> {
    for one in renames.iter().filter(|one| one.is_path()) {
        git(&["mv", &one.old, &one.new])?;
    }
    let mut changed = 0;
    for source in sources().iter().filter(|source| source.room() != "tidy") {
        let text = apply(&source.path, &source.text, renames);
        if text != source.text {
            fs::write(root().join(&source.path), text)
                .map_err(|error| format!("{}: {error}", source.path))?;
            changed += 1;
        }
    }
    Ok(format!("{changed} files changed"))
}

/// Compares the code of a commit, renamed, with that of the work tree.
fn check(commit: &str, renames: &[Rename]) -> Result<String, String> {
    let listed = git(&["ls-tree", "-r", "--name-only", commit])?;
    let now: BTreeMap<String, String> =
        sources().into_iter().map(|source| (source.path, source.text)).collect();
    let (mut compared, mut differ) = (0, Vec::new());
    for old in listed.lines().filter(|path| path.ends_with(".rs") && !path.starts_with("tidy/")) {
        let path = moved(old, renames);
        let before = git(&["show", &format!("{commit}:{old}")])?;
        let after = now.get(&path).map(|text| code(&path, text, &[]));
        compared += 1;
        if after.as_ref().is_none_or(|after| !is_same(code(&path, &before, renames), after.clone())) {
            differ.push(path);
        }
    }
    if differ.is_empty() {
        return Ok(format!("{compared} files are the same but for {} renames", renames.len()));
    }
    Err(format!("more than renames was done in:\n  {}", differ.join("\n  ")))
}

/// Whether two files have the same code. The order of imports and of modules is that of their
/// names, and where lines are broken a comma more may stand: rustfmt's work.
fn is_same(before: Vec<String>, after: Vec<String>) -> bool {
    normal(before) == normal(after)
}

/// The code without what rustfmt puts where lines are broken, its imports and declarations of
/// modules sorted.
fn normal(code: Vec<String>) -> (Vec<String>, Vec<String>) {
    let (mut uses, mut rest) = (Vec::new(), Vec::new());
    let mut in_use = false;
    for (at, word) in code.iter().enumerate() {
        in_use |= word == "use" || (word == "mod" && code.get(at + 2).is_some_and(|end| end == ";"));
        let is_layout = matches!(word.as_str(), "," | "{" | "}" | ";");
        let is_end = word == ";";
        match in_use {
            _ if is_layout => {}
            true => uses.push(word.clone()),
            false => rest.push(word.clone()),
        }
        in_use &= !is_end;
    }
    uses.retain(|word| !matches!(word.as_str(), "mod" | "pub" | "(" | ")"));
    uses.sort();
    (uses, rest)
}

/// Where a file of before is now.
fn moved(old: &str, renames: &[Rename]) -> String {
    let mut path = old.to_owned();
    for one in renames.iter().filter(|one| one.is_path()) {
        let rest = path.strip_prefix(&one.old).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        if let Some(rest) = rest {
            path = format!("{}{rest}", one.new);
        }
    }
    path
}

fn git(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(arguments).current_dir(root()).output();
    let output = output.map_err(|error| format!("git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
