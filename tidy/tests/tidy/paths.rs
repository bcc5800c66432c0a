//! Paths that documents and heads of files name exist.

use myelin_tidy::{Kind, List, Source, compare, documents, root, sources};
use std::collections::BTreeSet;

/// How a path ends that is meant as one of ours.
const ENDINGS: [&str; 7] = [".rs", ".md", ".toml", ".txt", ".sh", ".py", "/"];
/// Documents that tell of files that are gone: what happened, and what was renamed.
const HISTORY: [&str; 1] = ["CHANGELOG.md"];

#[test]
fn paths_that_are_named_exist() {
    let (mut found, all) = (List::new(), sources());
    let named = named(&all);
    for (document, text) in documents().iter().filter(|(path, _)| !HISTORY.contains(&path.as_str())) {
        missing(document, text, &named, &mut found);
    }
    for source in all.iter().filter(|source| source.room() != "tidy") {
        for token in source.tokens().iter().filter(|token| token.kind == Kind::Doc) {
            missing(&source.path, token.text, &named, &mut found);
        }
    }
    compare("paths", &found).unwrap_or_else(|said| panic!("paths that are not there, {said}"));
}

/// Adds the paths between backticks that do not exist. A path may leave out the folders that a
/// reader knows from what stands before it: `store/src/journal/round.rs` is also
/// `journal/round.rs`.
fn missing(place: &str, text: &str, named: &BTreeSet<String>, found: &mut List) {
    let between = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    for path in between.flat_map(expanded).filter(|path| is_path(path)) {
        let beside = place.rsplit_once('/').map_or("", |(folder, _)| folder);
        if !named.contains(&path) && !root().join(&path).exists() && !root().join(beside).join(&path).exists()
        {
            *found.entry(format!("{place} {path}")).or_default() += 1;
        }
    }
}

fn is_path(text: &str) -> bool {
    // `NAME` stands for any.
    let is_any =
        |part: &str| part.split('.').next().is_some_and(|stem| stem.len() > 2 && stem == stem.to_uppercase());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    text.contains('/')
        && !text.starts_with(['/', '.', '~'])
        && text.chars().all(is_plain)
        && !text.split('/').any(is_any)
        && ENDINGS.iter().any(|end| text.ends_with(end))
}

/// `a/{b,c}.rs` is two paths.
fn expanded(text: &str) -> Vec<String> {
    let Some((before, rest)) = text.split_once('{') else { return vec![text.to_owned()] };
    let Some((list, after)) = rest.split_once('}') else { return vec![text.to_owned()] };
    list.split(',').flat_map(|one| expanded(&format!("{before}{}{after}", one.trim()))).collect()
}

/// Everything that can be named: each file and each folder that holds one, with the folders above
/// it.
fn named(sources: &[Source]) -> BTreeSet<String> {
    let texts = documents().into_iter().map(|(path, _)| path);
    let mut all = BTreeSet::new();
    for path in texts.chain(sources.iter().map(|source| source.path.clone())) {
        let starts = path.match_indices('/').map(|(at, _)| at + 1).chain([0]);
        for start in starts {
            let ends = path[start..].match_indices('/').map(|(at, _)| start + at + 1).chain([path.len()]);
            all.extend(ends.map(|end| path[start..end].to_owned()));
        }
    }
    all
}
