//! A name means one thing: the same name for different public types makes `grep` useless.

use myelin_tidy::{Kind, List, compare, sources};
use std::collections::{BTreeMap, BTreeSet};

/// Files that may define types of the same name.
const FILES: usize = 2;

#[test]
fn type_names_are_few() {
    let mut places: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        let tokens = source.tokens();
        for pair in tokens.windows(2) {
            let is_definition = matches!(pair[0].text, "struct" | "enum" | "trait");
            if is_definition && pair[0].kind == Kind::Word && pair[1].kind == Kind::Word {
                places.entry(pair[1].text.to_owned()).or_default().insert(source.path.clone());
            }
        }
    }
    let found: List = places
        .into_iter()
        .map(|(name, files)| (name, files.len()))
        .filter(|(_, files)| *files > FILES)
        .collect();
    compare("types", &found)
        .unwrap_or_else(|said| panic!("types defined in more than {FILES} files, {said}"));
}
