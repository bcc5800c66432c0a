//! Words that say nothing to a stranger, in code and in comments.

use myelin_tidy::{Kind, List, compare, sources};

/// Metaphors of our own. GLOSSARY.md has what to say instead. (A letter is a dead letter.)
const FORBIDDEN: [&str; 34] = [
    "abroad",
    "aftermath",
    "brake",
    "buried",
    "bury",
    "crossings",
    "decoy",
    "desk",
    "desks",
    "door",
    "doors",
    "ear",
    "ears",
    "entrance",
    "errand",
    "errands",
    "haste",
    "hush",
    "leftovers",
    "loan",
    "loans",
    "parcel",
    "parcels",
    "prick",
    "seat",
    "seats",
    "shelf",
    "shelves",
    "surroundings",
    "taste",
    "voice",
    "voices",
    "witness",
    "witnesses",
];

/// Beginnings of a doc comment that cannot be read alone.
const DEPENDENT: [&str; 4] = ["The same", "See the head", "See the module", "Likewise"];

/// Beginnings that let a reader wait for what is meant: a noun or a verb says it at once.
const POINTING: [&str; 16] = [
    "What ",
    "Who ",
    "Whose ",
    "Those ",
    "It ",
    "They ",
    "That ",
    "These ",
    "This one",
    "So many ",
    "Such ",
    "And ",
    "But ",
    "Or ",
    "Also ",
    "Otherwise ",
];

/// Documents that are cited and not in this repository.
const ELSEWHERE: [&str; 2] = ["house.md", "feature map"];

/// Columns of a line with a comment.
const COLUMNS: usize = 100;

#[test]
fn words_are_those_of_the_field() {
    let mut found = List::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        for token in source.tokens().iter().filter(|token| token.kind != Kind::Literal) {
            for part in parts(token.text) {
                if FORBIDDEN.contains(&part.as_str()) {
                    *found.entry(format!("{} {part}", source.room())).or_default() += 1;
                }
            }
        }
    }
    compare("words", &found).unwrap_or_else(|said| panic!("words of no field, {said}"));
}

#[test]
fn doc_comments_can_be_read_alone() {
    let found = beginnings(&DEPENDENT);
    compare("dependent", &found).unwrap_or_else(|said| panic!("doc comments that lean on another, {said}"));
}

#[test]
fn doc_comments_begin_with_a_noun_or_a_verb() {
    let found = beginnings(&POINTING);
    compare("pointing", &found).unwrap_or_else(|said| panic!("doc comments that only point, {said}"));
}

/// Doc comments of each crate that begin with one of `starts`.
fn beginnings(starts: &[&str]) -> List {
    let mut found = List::new();
    for source in &sources() {
        let mut before = None;
        for token in source.tokens().iter().filter(|token| token.kind == Kind::Doc) {
            let begins = before != Some(token.line - 1);
            if begins && starts.iter().any(|start| token.text.trim_start().starts_with(start)) {
                *found.entry(source.room().to_owned()).or_default() += 1;
            }
            before = Some(token.line);
        }
    }
    found
}

#[test]
fn what_is_cited_is_here() {
    let mut found = List::new();
    for source in sources().iter().filter(|source| source.room() != "tidy") {
        for name in ELSEWHERE {
            let cites = source.text.matches(name).count();
            if cites > 0 {
                *found.entry(format!("{} {name}", source.room())).or_default() += cites;
            }
        }
    }
    compare("elsewhere", &found)
        .unwrap_or_else(|said| panic!("cites of what is not in this repository, {said}"));
}

#[test]
fn comments_are_not_wide() {
    let mut found = List::new();
    for source in &sources() {
        let is_wide = |line: &&str| line.trim_start().starts_with("//") && line.chars().count() > COLUMNS;
        let wide = source.text.lines().filter(is_wide).count();
        if wide > 0 {
            *found.entry(source.room().to_owned()).or_default() += wide;
        }
    }
    compare("wide", &found).unwrap_or_else(|said| panic!("comments beyond {COLUMNS} columns, {said}"));
}

/// The words in a name or a comment, in small letters: `OpenBatches`, `open_batches` and
/// `open batches` are the same two.
fn parts(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_small = false;
    for c in text.chars() {
        let is_new = !c.is_alphabetic() || (c.is_uppercase() && was_small);
        if is_new {
            parts.push(String::new());
        }
        if c.is_alphabetic() {
            parts.last_mut().expect("there is one").extend(c.to_lowercase());
        }
        was_small = c.is_lowercase();
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[test]
fn words_are_found_in_names() {
    assert_eq!(parts("OpenBatches open_batches"), ["open", "batches", "open", "batches"]);
    assert_eq!(parts("`Ear`s"), ["ear", "s"]);
}
