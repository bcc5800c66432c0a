//! Plays every file of `compat/transcripts/` against each server that is present; each pair is a
//! test.
//!
//! `cargo test -p myelin-compat --test transcripts [-- [--list] [WORD…]]`: a WORD selects the tests
//! whose name has it, for example `reference` or `publish`. `COMPAT_SIDE=reference` (or `myelin`)
//! plays against one server only, and does not build the other.

use myelin_compat::implementation::{self, Implementation};
use myelin_compat::player;
use myelin_compat::transcript::Transcript;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

struct Test {
    name: String,
    file: PathBuf,
    implementation: Implementation,
}

/// How a server's program is found.
type Find = fn() -> Result<Implementation, String>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (options, filters): (Vec<_>, Vec<_>) = words.into_iter().partition(|word| word.starts_with('-'));
    let selected = |test: &Test| filters.is_empty() || filters.iter().any(|word| test.name.contains(word));
    let tests: Vec<Test> = all_tests().into_iter().filter(selected).collect();
    if options.iter().any(|option| option == "--list") {
        tests.iter().for_each(|test| println!("{}: test", test.name));
        return ExitCode::SUCCESS;
    }
    let failed = run(&tests);
    println!("\ntranscripts: {} passed, {failed} failed", tests.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Every transcript for every server found; says which server is not.
fn all_tests() -> Vec<Test> {
    let wanted = std::env::var("COMPAT_SIDE").ok();
    let mut tests = Vec::new();
    let sides: [(&str, Find); 2] =
        [("reference", implementation::reference), ("myelin", implementation::myelin)];
    for (side, find) in sides {
        if wanted.as_deref().is_some_and(|wanted| wanted != side) {
            continue;
        }
        match find() {
            Ok(implementation) => tests.extend(files().into_iter().map(|file| {
                let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                Test { name: format!("{side}::{stem}"), file, implementation: implementation.clone() }
            })),
            Err(reason) => println!("{side}: skipped, {reason}"),
        }
    }
    tests
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts");
    let entries = fs::read_dir(&folder).expect("the folder of the transcripts can be read");
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.expect("its entries can be read").path()).collect();
    files.sort();
    files
}

/// Runs the tests on a few threads (they wait more than they work) and returns how many failed.
fn run(tests: &[Test]) -> usize {
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let started = Instant::now();
                    let outcome = play(test);
                    let mut failed = failed.lock().expect("no thread panics with the lock");
                    let millis = started.elapsed().as_millis();
                    match outcome {
                        Ok(None) => println!("test {} ... ok ({millis} ms)", test.name),
                        Ok(Some(lacks)) => println!("test {} ... skipped: no {lacks} yet", test.name),
                        Err(reason) => {
                            *failed += 1;
                            println!("test {} ... FAILED ({millis} ms)\n  {reason}", test.name);
                        }
                    }
                }
            });
        }
    });
    failed.into_inner().expect("no thread panics with the lock")
}

/// Plays a transcript; answers what the server lacks for it.
fn play(test: &Test) -> Result<Option<String>, String> {
    let at = |reason: &dyn std::fmt::Display| format!("{}: {reason}", test.file.display());
    let source = fs::read_to_string(&test.file).map_err(|e| at(&e))?;
    let transcript = Transcript::parse(&source).map_err(|e| at(&e))?;
    if let Some(lacks) = transcript.lacks(test.implementation.side) {
        return Ok(Some(lacks.to_owned()));
    }
    let mut outcome = player::play(&transcript, &test.implementation);
    for _ in 1..attempts(test) {
        let Err(failure) = &outcome else { break };
        println!("test {} ... again, after {failure}", test.name);
        outcome = player::play(&transcript, &test.implementation);
    }
    outcome.map_err(|failure| at(&failure))?;
    Ok(None)
}

/// How often a transcript may be tried. The reference hears of some things (who listens, what was
/// delivered) on goroutines of their own, and now and then shows a state from before: that it can
/// answer as written is what is proved of it. Myelin has to answer so every time.
fn attempts(test: &Test) -> usize {
    if test.name.starts_with("reference::") { 6 } else { 1 }
}
