//! Which files of a crate use which others, and the circles in that.
//!
//! A file uses another one when it names something that the other defines, by `use` or by a path;
//! what a file only passes on (`pub use`) is looked for where it is defined. Tests do not count.

use crate::lexer::{Kind, Token};
use crate::sources::Source;
use std::collections::{BTreeMap, BTreeSet};

/// A path of modules and names, as it is written.
type Path<'a> = Vec<&'a str>;

/// Names that a file takes from others.
#[derive(Default)]
struct Named<'a> {
    /// Everything that is named.
    paths: Vec<Path<'a>>,
    /// Path that a name stands for in the file, by `use`.
    imported: BTreeMap<&'a str, Path<'a>>,
}

/// Files of one crate, by the path of their module.
struct Modules<'a>(BTreeMap<Path<'a>, Named<'a>>);

/// The circles among files of one crate, the largest first: files each of which uses, over
/// others, all the others.
#[must_use]
pub fn circles(sources: &[&Source]) -> Vec<Vec<String>> {
    let tokens: Vec<_> = sources.iter().map(|source| code(source)).collect();
    let modules = sources.iter().zip(&tokens).map(|(source, tokens)| (module(&source.path), named(tokens)));
    let modules = Modules(modules.collect());
    let order: Vec<&Path<'_>> = modules.0.keys().collect();
    let reached: Vec<BTreeSet<&Path<'_>>> = {
        let uses: BTreeMap<_, _> = order.iter().map(|path| (*path, modules.used_by(path))).collect();
        order.iter().map(|path| reached_from(path, &uses)).collect()
    };
    let mut found = BTreeSet::new();
    for (path, mine) in order.iter().zip(&reached) {
        let is_mutual = |(other, theirs): &(&&Path<'_>, &BTreeSet<&Path<'_>>)| {
            mine.contains(**other) && theirs.contains(*path)
        };
        let circle: Vec<String> =
            order.iter().zip(&reached).filter(is_mutual).map(|(other, _)| other.join("/")).collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    found
}

fn reached_from<'p, 'a>(
    from: &'p Path<'a>,
    uses: &BTreeMap<&'p Path<'a>, BTreeSet<&'p Path<'a>>>,
) -> BTreeSet<&'p Path<'a>> {
    let mut reached = BTreeSet::new();
    let mut left = vec![from];
    while let Some(path) = left.pop() {
        left.extend(uses[path].iter().filter(|next| reached.insert(**next)));
    }
    reached
}

/// The path of the module that a file is: `crates/store/src/stream/mod.rs` is `stream`.
fn module(path: &str) -> Path<'_> {
    let inner = path.split_once("/src/").map_or(path, |(_, inner)| inner);
    let inner = inner.strip_suffix(".rs").unwrap_or(inner);
    let mut parts: Path<'_> = inner.split('/').collect();
    if matches!(parts.last(), Some(&"mod")) || matches!(parts[..], ["lib" | "main"]) {
        parts.pop();
    }
    parts
}

impl<'a> Modules<'a> {
    fn used_by(&self, path: &Path<'a>) -> BTreeSet<&Path<'a>> {
        let absolute = self.0[path].paths.iter().filter_map(|named| self.absolute(path, named));
        let used = absolute.filter_map(|named| self.defined_in(&named, 0));
        used.filter(|other| *other != path).collect()
    }

    /// A path from the root of the crate; `None` for what is of another crate.
    fn absolute(&self, from: &Path<'a>, named: &[&'a str]) -> Option<Path<'a>> {
        match named {
            ["crate", rest @ ..] => Some(rest.to_vec()),
            ["self", rest @ ..] => Some([from, rest].concat()),
            ["super", ..] => {
                let above = named.iter().take_while(|part| **part == "super").count();
                let kept = from.len().checked_sub(above)?;
                Some([&from[..kept], &named[above..]].concat())
            }
            [first, ..] => {
                let child = [from, &[*first][..]].concat();
                self.0.contains_key(&child).then(|| [from, named].concat())
            }
            [] => None,
        }
    }

    /// The file that defines what a path from the root names.
    fn defined_in(&self, named: &[&'a str], depth: usize) -> Option<&Path<'a>> {
        let inner = (0..=named.len()).rev().find(|count| self.0.contains_key(&named[..*count]))?;
        let (path, module) = self.0.get_key_value(&named[..inner])?;
        let Some(imported) = named.get(inner).and_then(|name| module.imported.get(name)) else {
            return Some(path);
        };
        // A name that leads back to itself is nobody's.
        let further = self.absolute(path, imported).filter(|_| depth < 8)?;
        self.defined_in(&[&further, &named[inner + 1..]].concat(), depth + 1)
    }
}

/// The tokens of a file without comments, and without what is compiled for tests only.
fn code(source: &Source) -> Vec<Token<'_>> {
    let mut tokens = source.tokens();
    tokens.retain(|token| !matches!(token.kind, Kind::Comment | Kind::Doc));
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        match attribute(&tokens[at..]) {
            Some(length) if is_for_tests(&tokens[at..at + length]) => {
                at += length;
                at += item(&tokens[at..]);
            }
            Some(length) => at += length,
            None => {
                kept.push(tokens[at]);
                at += 1;
            }
        }
    }
    kept
}

fn is_for_tests(attribute: &[Token<'_>]) -> bool {
    let has = |word: &str| attribute.iter().any(|token| token.text == word);
    has("cfg") && has("test") && !has("not")
}

/// How many tokens an attribute has that the tokens begin with.
fn attribute(tokens: &[Token<'_>]) -> Option<usize> {
    let is_one = tokens.first()?.text == "#" && tokens.get(1)?.text == "[";
    is_one.then(|| 1 + balanced(&tokens[1..]))
}

/// How many tokens there are up to the bracket that closes the first one.
fn balanced(tokens: &[Token<'_>]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.kind == Kind::Sign) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// How many tokens an item has: up to its braces, or its semicolon.
fn item(tokens: &[Token<'_>]) -> usize {
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].text {
            ";" | "," => return at + 1,
            "{" => return at + balanced(&tokens[at..]),
            "(" | "[" => at += balanced(&tokens[at..]),
            _ => at += 1,
        }
    }
    at
}

fn named<'a>(tokens: &[Token<'a>]) -> Named<'a> {
    let mut named = Named::default();
    let mut passed_on = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_inner = at > 0 && matches!(tokens[at - 1].text, ":" | ".");
        // Who may see an item is no use of who may.
        let is_visibility = is_scope(&tokens[..at]);
        if tokens[at].kind != Kind::Word || is_inner || is_visibility {
            at += 1;
        } else if tokens[at].text == "use" {
            let is_public = at > 0 && matches!(tokens[at - 1].text, "pub" | ")");
            let first = named.paths.len();
            at += 1 + named.take_tree(&tokens[at + 1..], &[]);
            if is_public {
                passed_on.extend(named.paths.drain(first..));
            }
        } else {
            let path = path(&tokens[at..]);
            at += 1 + 3 * (path.len() - 1);
            if path.len() > 1 && !named.imported.contains_key(path[0]) {
                named.paths.push(path);
            }
        }
    }
    // What is only passed on is not used.
    let count = |name: &str| tokens.iter().filter(|token| token.text == name).count();
    named.paths.extend(passed_on.into_iter().filter(|path| path.last().is_some_and(|name| count(name) > 1)));
    named
}

/// Whether what follows these tokens is the scope of a `pub(in …)`.
fn is_scope(before: &[Token<'_>]) -> bool {
    matches!(before, [.., public, open, word] if (public.text, open.text, word.text) == ("pub", "(", "in"))
}

/// Names with two colons between them.
fn path<'a>(tokens: &[Token<'a>]) -> Path<'a> {
    let mut path = vec![tokens[0].text];
    while let [colon, other, name, ..] = &tokens[3 * path.len() - 2..]
        && (colon.text, other.text, name.kind) == (":", ":", Kind::Word)
    {
        path.push(name.text);
    }
    path
}

impl<'a> Named<'a> {
    /// Takes what `use` names, up to what ends it; answers how many tokens that are.
    fn take_tree(&mut self, tokens: &[Token<'a>], before: &[&'a str]) -> usize {
        let (mut path, mut name) = (before.to_vec(), None);
        let mut at = 0;
        while at < tokens.len() {
            match tokens[at].text {
                "," | "}" | ";" => break,
                "{" => {
                    at += 1;
                    while at < tokens.len() && tokens[at].text != "}" {
                        // A comma, or what does not belong there.
                        at += self.take_tree(&tokens[at..], &path);
                        at += usize::from(tokens.get(at).is_some_and(|token| token.text != "}"));
                    }
                    return at + 1;
                }
                "as" => {
                    name = tokens.get(at + 1).map(|token| token.text);
                    at += 1;
                }
                "self" if !path.is_empty() => {}
                text if tokens[at].kind == Kind::Word => path.push(text),
                _ => {}
            }
            at += 1;
        }
        if let Some(name) = name.or(path.last().copied()) {
            self.imported.insert(name, path.clone());
            self.paths.push(path);
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: format!("crates/one/src/{path}"), text: text.to_owned() }
    }

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let sources: Vec<Source> = files.iter().map(|(path, text)| source(path, text)).collect();
        circles(&sources.iter().collect::<Vec<_>>())
    }

    #[test]
    fn files_that_use_each_other_are_a_circle() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::A; use crate::b::deep::D;"),
            ("a.rs", "use crate::b::{B, deep::{D as Other}}; pub struct A;"),
            ("b/mod.rs", "mod deep; pub use deep::D; pub struct B;"),
            ("b/deep.rs", "pub struct D(crate::A);"),
        ];
        assert_eq!(found(&files), [["a", "b/deep"]]);
    }

    #[test]
    fn what_is_passed_on_or_for_tests_makes_no_circle() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use b::B;"),
            ("a.rs", "use crate::B; #[cfg(test)] mod twin; #[cfg(test)] use crate::b::Twin; struct A;"),
            ("b.rs", "pub struct B; #[cfg(all(test, loom))] mod models { use crate::a::A; }"),
        ];
        assert_eq!(found(&files), Vec::<Vec<String>>::new());
    }

    #[test]
    fn who_may_see_an_item_is_not_used_by_it() {
        let files = [
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod b; use b::B;"),
            ("a/b.rs", "pub(in crate::a) struct B;"),
        ];
        assert_eq!(found(&files), Vec::<Vec<String>>::new());
    }

    #[test]
    fn paths_count_as_imports_do() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "fn one() { super::b::two() }"),
            ("b.rs", "fn two() { crate::a::one(); self.three::four() }"),
        ];
        assert_eq!(found(&files), [["a", "b"]]);
    }
}
