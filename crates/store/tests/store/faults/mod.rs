//! Every kind of file of a store, damaged in every way, after a clean stop and after SIGKILL: what
//! is lost, what is said where, and what mends it.
//!
//! The store lies in real files, and each case has a copy of its own. What a case comes to stands
//! in `faults.expected`, exactly, and in the table of `docs/store.md`, in words; `MYELIN_RECORD=1`
//! writes both anew. What may never be is in `rules`: no case breaks one of them.

mod damage;
mod image;
mod look;
mod rules;
mod table;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use myelin_stdx::sync::lock;

use damage::{Damage, Target, targets};
use image::{End, Images, copy};
use look::{Check, Start};
use rules::Verdict;

/// One damage to one file.
#[derive(Clone, Debug)]
struct Case {
    file: Target,
    damage: Damage,
    end: End,
}

/// Outcome of a case.
#[derive(Debug)]
struct Outcome {
    case: Case,
    verdict: Verdict,
    /// Reports of the first start.
    start: Vec<String>,
    /// Outcome of a check of the damaged store.
    check: Check,
    mends: Mends,
}

/// Remedy that brings the store into order again. Lost messages come from backups only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mends {
    /// Nobody notices.
    Nothing,
    /// The next start, and the one after it has nothing to say.
    Start,
    /// `myelin store repair --apply`, and then the start has nothing to say.
    Repair,
    /// No remedy: the damage is told again at each start.
    Stays,
}

impl Mends {
    fn words(self) -> &'static str {
        match self {
            Self::Nothing => "needs nothing",
            Self::Start => "the start",
            Self::Repair => "`store repair`",
            Self::Stays => "stays as it is, and is told at each start",
        }
    }
}

/// The cases in the order of the table.
fn cases(images: &Images) -> Vec<Case> {
    let mut cases = Vec::new();
    for end in End::BOTH {
        for file in targets(&images.of(end)) {
            cases.extend(Damage::ALL.map(|damage| Case { file: file.clone(), damage, end }));
        }
    }
    let order =
        |case: &Case| targets(&images.of(End::Clean)).iter().position(|file| file.kind == case.file.kind);
    cases.sort_by_cached_key(|case| (order(case), case.damage, case.end));
    cases
}

/// Damages a copy, looks at it, starts with it twice. `None` if there is nothing to damage.
fn run(case: &Case, images: &Images, folder: &Path) -> Option<Outcome> {
    let root = folder.join("store");
    let _ = std::fs::remove_dir_all(&root);
    copy(&images.of(case.end), &root).expect("there is room");
    let touched = case.damage.apply(&root, &case.file, images)?;
    let check = look::check(&root);
    let first = look::start(&root, 10);
    let after = look::check(&root);
    let second = look::start(&root, 11);
    let mut verdict = rules::judge(case, images, &touched, &first, &check);
    rules::judge_again(&first, &second, false, &mut verdict);
    let mends = if is_well(&second, &after) {
        if is_well(&first, &check) { Mends::Nothing } else { Mends::Start }
    } else {
        look::repair(&root);
        let after = look::check(&root);
        let third = look::start(&root, 12);
        rules::judge_again(&second, &third, true, &mut verdict);
        if is_well(&third, &after) { Mends::Repair } else { Mends::Stays }
    };
    let plain = |words: &String| words.replace(&format!("{}/", root.display()), "");
    let start = first.words.iter().chain(&first.refused).map(plain).collect();
    let check = Check { findings: check.findings.iter().map(plain).collect(), ..check };
    Some(Outcome { case: case.clone(), verdict, start, check, mends })
}

fn is_well(start: &Start, check: &Check) -> bool {
    start.refused.is_none() && start.words.is_empty() && check.findings.is_empty()
}
/// All cases, on as many threads as there are cores.
fn run_all(images: &Images) -> Vec<Outcome> {
    let cases = cases(images);
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let folder = tempfile::tempdir().expect("a folder");
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = run(case, images, folder.path());
                    let at = (case.file.kind, case.damage, case.end);
                    lock(&outcomes).push((at, outcome));
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    let order = |at: &(&str, Damage, End)| {
        cases.iter().position(|case| (case.file.kind, case.damage, case.end) == *at)
    };
    outcomes.sort_by_key(|(at, _)| order(at));
    outcomes.into_iter().filter_map(|(_, outcome)| outcome).collect()
}

#[test]
fn no_fault_costs_more_than_it_touches_and_none_is_silent() {
    let images = Images::build();
    let outcomes = run_all(&images);
    let short: Vec<String> = outcomes.iter().flat_map(table::short).collect();
    println!("{} cases, {} short", outcomes.len(), short.len());
    table::compare(&outcomes);
    assert!(short.is_empty(), "{}", short.join("\n"));
}

/// Without damage there is nothing to say, and everything is there.
#[test]
fn a_store_without_a_fault_has_everything() {
    let images = Images::build();
    for end in End::BOTH {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("store");
        copy(&images.of(end), &root).expect("there is room");
        let check = look::check(&root);
        assert_eq!((check.code, check.findings), (0, Vec::new()), "{end:?}");
        let start = look::start(&root, 10);
        assert_eq!((&start.words, &start.refused), (&Vec::new(), &None), "{end:?}");
        for (name, truth) in &images.truth {
            let seen = &start.streams[*name];
            assert_eq!(seen.messages, truth.messages, "{end:?}: {name}");
            assert_eq!(seen.consumers, truth.consumers, "{end:?}: {name}");
            assert_eq!(seen.next, truth.last_seq + 1, "{end:?}: {name}");
        }
    }
}
