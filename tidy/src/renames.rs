//! Renaming by a table, and the proof that nothing else was done.
//!
//! `docs/renames.tsv` has a line `kind<TAB>where<TAB>old<TAB>new` for each name. `where` is a list
//! of beginnings of paths, separated by commas: the rename holds in files that begin with one of
//! them; those behind a `!` are left out. Kinds:
//!
//! - `name`: every word of the code that is `old`. In comments only types of more than one word,
//!   and what stands between backticks.
//! - `type`: as `name`, but not a case of an enum (`Op::old`): no type stands behind another one.
//! - `module`: `old` behind `mod`, before or behind `::`, or in a `use`.
//! - `path`: a file or a folder, from the root. `where` is `-`.

use crate::lexer::{Kind, Token, lex};

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    kind: Class,
    places: Vec<String>,
    /// Old name.
    pub old: String,
    /// New name.
    pub new: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Name,
    Type,
    Module,
    Path,
}

impl Rename {
    /// Whether it moves a file or a folder.
    #[must_use]
    pub fn is_path(&self) -> bool {
        self.kind == Class::Path
    }

    /// Whether it is a word also where none of the code is: in comments and texts.
    fn is_word(&self) -> bool {
        matches!(self.kind, Class::Name | Class::Type)
    }

    /// Whether it holds in the file with this path, as it is called now.
    fn holds_in(&self, path: &str) -> bool {
        let is_out = |place: &String| place.strip_prefix('!').is_some_and(|place| path.starts_with(place));
        let is_in = |place: &String| place == "*" || path.starts_with(place.as_str());
        !self.is_path() && self.places.iter().any(is_in) && !self.places.iter().any(is_out)
    }

    /// Whether the word at `at` is meant.
    fn means(&self, code: &[Token<'_>], at: usize) -> bool {
        if code[at].text != self.old {
            return false;
        }
        let is = |at: Option<usize>, text: &str| {
            at.and_then(|at| code.get(at)).is_some_and(|one| one.text == text)
        };
        match self.kind {
            Class::Name => true,
            Class::Type => !is_case(code, at),
            Class::Module => {
                is_in_use(code, at)
                    || is(at.checked_sub(1), "mod")
                    || (is(Some(at + 1), ":") && is(Some(at + 2), ":"))
                    || (is(at.checked_sub(1), ":") && is(at.checked_sub(2), ":") && !is(Some(at + 1), "("))
            }
            Class::Path => false,
        }
    }
}

/// Whether a word stands behind a type: `Op::Message`.
fn is_case(code: &[Token<'_>], at: usize) -> bool {
    let before = at.checked_sub(3).map(|start| &code[start..at]);
    before.is_some_and(|before| {
        before[1].text == ":" && before[2].text == ":" && before[0].text.starts_with(char::is_uppercase)
    })
}

/// Whether a word stands in a `use`: nothing but what imports consist of lies between the two.
fn is_in_use(code: &[Token<'_>], at: usize) -> bool {
    let is_other = |one: &&Token<'_>| {
        let is_sign = matches!(one.text, "{" | "}" | "," | ":" | "*");
        !is_sign && (one.kind != Kind::Word || one.text == "use")
    };
    code[..at].iter().rev().find(is_other).is_some_and(|one| one.text == "use")
}

/// The table.
///
/// # Errors
/// A line that is none.
pub fn read(table: &str) -> Result<Vec<Rename>, String> {
    let lines = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| parse(line).ok_or_else(|| format!("not a rename: {line}"))).collect()
}

fn parse(line: &str) -> Option<Rename> {
    let parts: Vec<&str> = line.split('\t').collect();
    let &[kind, places, old, new] = parts.as_slice() else { return None };
    let kind = match kind {
        "name" => Class::Name,
        "type" => Class::Type,
        "module" => Class::Module,
        "path" => Class::Path,
        _ => return None,
    };
    let places = places.split(',').map(str::to_owned).collect();
    Some(Rename { kind, places, old: old.to_owned(), new: new.to_owned() })
}

/// The words, signs and literals of a file with its names as they are after the renames. Two
/// versions of a file between which nothing else was done have the same: the one before with the
/// renames, the one after without.
#[must_use]
pub fn code(path: &str, text: &str, renames: &[Rename]) -> Vec<String> {
    let mut tokens = lex(text);
    tokens.retain(|token| !matches!(token.kind, Kind::Comment | Kind::Doc));
    let here: Vec<&Rename> = renames.iter().filter(|one| one.holds_in(path)).collect();
    let renamed = |at: usize| match tokens[at].kind {
        Kind::Word => {
            let meant = here.iter().find(|one| one.means(&tokens, at));
            meant.map_or(tokens[at].text, |one| one.new.as_str()).to_owned()
        }
        Kind::Literal => in_literal(tokens[at].text, &here),
        _ => tokens[at].text.to_owned(),
    };
    (0..tokens.len()).map(renamed).collect()
}

/// The text of a file after the renames.
#[must_use]
pub fn apply(path: &str, text: &str, renames: &[Rename]) -> String {
    let here: Vec<&Rename> = renames.iter().filter(|one| one.holds_in(path)).collect();
    if here.is_empty() {
        return text.to_owned();
    }
    let tokens = lex(text);
    let code: Vec<Token<'_>> =
        tokens.iter().copied().filter(|one| !matches!(one.kind, Kind::Comment | Kind::Doc)).collect();
    let mut changes: Vec<(usize, usize, String)> = Vec::new();
    for token in code.iter().filter(|token| token.kind == Kind::Literal) {
        let after = in_literal(token.text, &here);
        if after != token.text {
            changes.push((token.start, token.text.len(), after));
        }
    }
    for (at, token) in code.iter().enumerate().filter(|(_, token)| token.kind == Kind::Word) {
        if let Some(one) = here.iter().find(|one| one.means(&code, at)) {
            changes.push((token.start, token.text.len(), one.new.clone()));
        }
    }
    for token in tokens.iter().filter(|one| matches!(one.kind, Kind::Comment | Kind::Doc)) {
        changes.extend(in_comment(token, &here));
    }
    changes.sort_unstable();
    let (mut result, mut at) = (String::with_capacity(text.len()), 0);
    for (start, length, new) in changes {
        result.push_str(&text[at..start]);
        result.push_str(&new);
        at = start + length;
    }
    result + &text[at..]
}

/// A literal with the names in it that are formatted: `{name}` and `{name:?}`.
fn in_literal(text: &str, here: &[&Rename]) -> String {
    let mut text = text.to_owned();
    for one in here.iter().filter(|one| one.is_word()) {
        for end in ["}", ":"] {
            text = text.replace(&format!("{{{}{end}", one.old), &format!("{{{}{end}", one.new));
        }
    }
    text
}

/// Changes in a comment: where each begins, how long it is, and what it is called then.
fn in_comment(token: &Token<'_>, here: &[&Rename]) -> Vec<(usize, usize, String)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let (mut at, mut in_ticks) = (0, false);
    while at < token.text.len() {
        let rest = &token.text[at..];
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        if length == 0 {
            in_ticks ^= rest.starts_with('`');
            at += rest.chars().next().map_or(1, char::len_utf8);
            continue;
        }
        let word = &rest[..length];
        // `Why` may also begin a sentence.
        let is_type = word.starts_with(char::is_uppercase) && word[1..].contains(char::is_uppercase);
        let meant = here.iter().find(|one| one.is_word() && one.old == word && (in_ticks || is_type));
        found.extend(meant.map(|one| (token.start + at, length, one.new.clone())));
        at += length;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{apply, code, read};

    const TABLE: &str = "# old names\nname\tcrates/broker,!crates/broker/src/x\tLetter\tMessageRef\nname\t*\tput\tpush\nmodule\t*\tparcel\tmessage_buf\n";

    #[test]
    fn names_change_where_they_are_meant() {
        let renames = read(TABLE).expect("a table");
        let text = "use crate::parcel::Letter; // A `Letter`, `put` or put.\nfn put(parcel: u8) { \"Letter {put:?}\"; }";
        let after = "use crate::message_buf::MessageRef; // A `MessageRef`, `push` or put.\n\
            fn push(parcel: u8) { \"Letter {push:?}\"; }";
        assert_eq!(apply("crates/broker/src/a.rs", text, &renames), after);
        assert_eq!(
            code("crates/broker/src/a.rs", text, &renames),
            code("crates/broker/src/a.rs", after, &[])
        );
        assert!(apply("crates/broker/src/x/a.rs", text, &renames).contains("message_buf::Letter"));
    }

    #[test]
    fn a_type_is_no_case_of_an_enum() {
        let renames = read("type\tcrates\tMessage\tPublished\n").expect("a table");
        let text = "use shard::Message; fn of(op: Op) -> Message { if let Op::Message(_) = op {} }";
        let after = "use shard::Published; fn of(op: Op) -> Published { if let Op::Message(_) = op {} }";
        assert_eq!(apply("crates/broker/src/a.rs", text, &renames), after);
    }

    #[test]
    fn another_change_is_seen() {
        let renames = read(TABLE).expect("a table");
        let (before, after) = ("let a = Letter { to: 1 };", "let a = MessageRef { to: 2 };");
        assert_ne!(
            code("crates/broker/src/a.rs", before, &renames),
            code("crates/broker/src/a.rs", after, &[])
        );
        assert!(read("name\t*\tLetter\n").is_err());
    }
}
