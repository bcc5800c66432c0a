//! Loops over hash maps where bytes and effects have to repeat: what `clippy.toml` cannot see.
//!
//! Clippy knows the methods by name (`disallowed_methods`) and loops over the standard library's
//! maps (`iter_over_hash_type`); a loop over one of `hashbrown`, and `into_iter` of any, have no
//! name of their own there. Here a file's own maps are known by their declarations.

use myelin_tidy::{Kind, Source, Token, sources};

/// Crates in which no order of a hash may be seen.
const ROOMS: [&str; 6] = ["broker", "jetstream", "mesh", "replica", "store", "streams"];
/// Files where it is shown that no order is seen, or that it is not that of a map.
const EXCUSED: [(&str, &str); 6] = [
    ("broker/src/imports/mod.rs", "`shadows` of one subscription are a list"),
    ("broker/src/jwt_accounts.rs", "`defaults` of one account are a list"),
    ("broker/src/registry.rs", "sums, which are sorted"),
    ("store/src/consumer/room.rs", "from a map into a map"),
    ("store/src/journal/salvage.rs", "of the most votes the highest number: no two are equal"),
    ("store/src/stream/find.rs", "what is found is sorted"),
];
/// Types whose order is that of a hash.
const HASHED: [&str; 3] = ["HashMap", "HashSet", "HashTable"];
/// Tokens that may stand between a name and its type, or its value.
const AROUND: [&str; 8] = ["&", "mut", "Mutex", "RwLock", "Option", "Box", "<", "hashbrown"];

#[test]
fn nobody_loops_over_a_hash_map() {
    let found: Vec<String> = sources()
        .iter()
        .filter(|source| ROOMS.contains(&source.room()) && !source.is_test())
        .flat_map(loops)
        .filter(|found| !EXCUSED.iter().any(|(file, _)| found.contains(file)))
        .collect();
    assert!(found.is_empty(), "the order of a hash is seen here: {found:#?}");
}

fn loops(source: &Source) -> Vec<String> {
    let tokens: Vec<Token<'_>> = source.tokens();
    let tokens: Vec<&Token<'_>> =
        tokens.iter().filter(|token| !matches!(token.kind, Kind::Doc | Kind::Comment)).collect();
    let names = hashed_names(&tokens);
    let is_named = |token: &Token<'_>| token.kind == Kind::Word && names.contains(&token.text);
    let into_iter = tokens
        .windows(3)
        .filter(|three| is_named(three[0]) && three[1].text == "." && three[2].text == "into_iter");
    let mut lines: Vec<usize> = into_iter.map(|three| three[2].line).collect();
    for at in (0..tokens.len()).filter(|at| tokens[*at].text == "in") {
        let over = tokens[at + 1..].iter().take_while(|token| token.text != "{");
        let over: Vec<&&Token<'_>> = over.take(12).collect();
        let is_place = over.iter().all(|token| token.kind == Kind::Word || matches!(token.text, "&" | "."));
        if is_place && over.last().is_some_and(|last| is_named(last)) {
            lines.push(tokens[at].line);
        }
    }
    lines.into_iter().map(|line| format!("{}:{line}", source.path)).collect()
}

/// Names that the file gives to hash maps: fields, parameters, and what is bound to a new one.
fn hashed_names<'a>(tokens: &[&Token<'a>]) -> Vec<&'a str> {
    let mut types: Vec<&str> = HASHED.to_vec();
    // `type NAME<..> = HashMap<..>;`
    for at in (0..tokens.len()).filter(|at| tokens[*at].text == "type") {
        let rest = &tokens[at + 1..];
        let value = rest.iter().position(|token| token.text == "=").and_then(|equals| rest.get(equals + 1));
        if let (Some(name), true) = (rest.first(), value.is_some_and(|is| HASHED.contains(&is.text))) {
            types.push(name.text);
        }
    }
    let mut names = Vec::new();
    for at in 1..tokens.len().saturating_sub(1) {
        if tokens[at - 1].kind != Kind::Word || !matches!(tokens[at].text, ":" | "=") {
            continue;
        }
        // A path has two colons.
        if tokens[at + 1].text == ":" || (at > 1 && tokens[at].text == ":" && tokens[at - 2].text == ":") {
            continue;
        }
        let of = tokens[at + 1..].iter().find(|token| !AROUND.contains(&token.text) && token.text != ":");
        if of.is_some_and(|of| types.contains(&of.text)) {
            names.push(tokens[at - 1].text);
        }
    }
    names
}

#[test]
fn a_loop_over_a_hash_map_is_found() {
    let file = |text: &str| Source { path: "crates/store/src/x.rs".to_owned(), text: text.to_owned() };
    let head = "struct S { map: Mutex<HashMap<u8, u8>>, tree: BTreeMap<u8, u8> }\ntype T = HashSet<u8>;\n";
    for (text, count) in [
        ("fn f(&self) { for x in &self.map { } }", 1),
        ("fn f(&mut self) { for x in &mut self.map { } }", 1),
        ("fn f(&self) { for x in &self.tree { } }", 0),
        ("fn f(&self) { for x in self.map.lock().get(1) { } }", 0),
        ("fn f() { let set = HashSet::new(); set.into_iter().collect() }", 1),
        ("fn f(set: &T) { for x in set { } }", 1),
        ("fn f() { let name = std::collections::BTreeMap::new(); for x in name { } }", 0),
    ] {
        assert_eq!(loops(&file(&format!("{head}{text}"))).len(), count, "{text}");
    }
}
