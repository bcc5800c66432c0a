//! Circles of files: there is no file to begin with in a circle, so a reader has to know all of it.

use myelin_tidy::{List, Source, circles, compare, sources};
use std::collections::BTreeMap;

/// Files of a circle that can be read as one.
const FILES: usize = 4;

#[test]
fn circles_are_small() {
    let all = sources();
    let mut rooms: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in all.iter().filter(|source| !source.is_test() && source.path.contains("/src/")) {
        rooms.entry(source.room()).or_default().push(source);
    }
    let (mut found, mut told) = (List::new(), String::new());
    for (room, files) in rooms {
        let large = circles(&files).into_iter().filter(|circle| circle.len() > FILES);
        for (at, circle) in large.enumerate() {
            told.push_str(&format!("\n{room}: {}", circle.join(", ")));
            // By rank: which files they are changes when something is mended.
            found.insert(format!("{room} {}", at + 1), circle.len());
        }
    }
    compare("circles", &found).unwrap_or_else(|said| panic!("circles beyond {FILES} files, {said}{told}"));
}
