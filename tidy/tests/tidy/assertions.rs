//! Code that keeps state says what must hold: so many assertions for each 1,000 lines of code.
//! Whether they catch anything, `just planted` shows (`docs/planted.md`).

use myelin_tidy::{Kind, sources};
use std::collections::BTreeSet;

/// Rooms, and their assertions for each 1,000 lines at least.
const LEAST: [(&str, usize); 3] = [("store", 8), ("streams", 8), ("broker", 4)];

#[test]
fn what_must_hold_is_asserted() {
    for (room, least) in LEAST {
        let (asserted, lines) = count(room);
        assert!(lines > 1000, "{room} is there");
        assert!(
            asserted * 1000 >= least * lines,
            "{room}: {asserted} assertions in {lines} lines, {least} for each 1,000 are the least"
        );
    }
}

/// Assertions of a room outside of its tests, and its lines with code.
fn count(room: &str) -> (usize, usize) {
    let (mut asserted, mut lines) = (0, 0);
    for source in sources().iter().filter(|source| source.room() == room && !source.is_test()) {
        let mut tokens = source.tokens();
        tokens.retain(|token| !matches!(token.kind, Kind::Comment | Kind::Doc));
        lines += tokens.iter().map(|token| token.line).collect::<BTreeSet<_>>().len();
        let names = ["assert", "assert_eq", "assert_ne"];
        let is_one = |word: &str| names.contains(&word.strip_prefix("debug_").unwrap_or(word));
        asserted += tokens.windows(2).filter(|pair| is_one(pair[0].text) && pair[1].text == "!").count();
    }
    (asserted, lines)
}
