//! Lists of exceptions, which may only shrink.
//!
//! `lists/NAME.tsv` has a line `what<TAB>number` for each thing that is beyond its limit, and how
//! far. A thing beyond the limit that is not on the list, or further than the list says, fails the
//! test; so does a line of the list that says more than there is, because somebody has mended it
//! and the list has to follow.

use crate::sources::root;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

/// Things and how far each is beyond its limit.
pub type List = BTreeMap<String, usize>;

/// Compares what was found with `lists/NAME.tsv`.
///
/// Writes the list instead with `MYELIN_RECORD=1`: for whoever has mended something.
///
/// # Errors
/// A text that says which lines differ.
pub fn compare(name: &str, found: &List) -> Result<(), String> {
    let path = root().join("tidy/lists").join(format!("{name}.tsv"));
    if std::env::var_os("MYELIN_RECORD").is_some() {
        let lines: String = found.iter().map(|(what, number)| format!("{what}\t{number}\n")).collect();
        return fs::write(&path, lines).map_err(|error| format!("{}: {error}", path.display()));
    }
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let said = differences(&parse(&text), found);
    if said.is_empty() { Ok(()) } else { Err(format!("tidy/lists/{name}.tsv:\n{said}")) }
}

fn parse(text: &str) -> List {
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    lines.filter_map(|(what, number)| Some((what.to_owned(), number.parse().ok()?))).collect()
}

fn differences(listed: &List, found: &List) -> String {
    let mut said = String::new();
    let mut say = |line: String| writeln!(said, "  {line}").expect("a string takes everything");
    for (what, number) in found {
        match listed.get(what) {
            None => say(format!("{what}: {number}, and not on the list")),
            Some(before) if number > before => say(format!("{what}: {number}, more than {before}")),
            Some(before) if number < before => {
                say(format!("{what}: only {number} of {before}: shorten the list"))
            }
            Some(_) => {}
        }
    }
    for what in listed.keys().filter(|what| !found.contains_key(*what)) {
        say(format!("{what}: is mended: take it off the list"));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::{differences, parse};

    #[test]
    fn a_list_may_only_shrink() {
        let listed = parse("a\t3\nb\t2\nc\t1\n");
        assert_eq!(differences(&listed, &listed), "");
        let found = parse("a\t4\nb\t1\nd\t1\n");
        let said = differences(&listed, &found);
        for part in ["a: 4, more than 3", "b: only 1 of 2", "d: 1, and not on", "c: is mended"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
