//! Files, functions and structs are short enough to be read in one go.

use myelin_tidy::{Kind, List, Source, Token, compare, sources};

/// Lines of a file.
const FILE: usize = 700;
/// Lines of a function.
const FUNCTION: usize = 60;
/// Fields of a struct.
const FIELDS: usize = 16;

#[test]
fn files_are_short() {
    let lines = |source: &Source| source.text.lines().count();
    let all = sources();
    let found = all.iter().filter(|source| lines(source) > FILE).map(|one| (one.path.clone(), lines(one)));
    compare("files", &found.collect()).unwrap_or_else(|said| panic!("more than {FILE} lines, {said}"));
}

#[test]
fn functions_are_short() {
    let found = bodies("fn", |tokens| tokens[tokens.len() - 1].line + 1 - tokens[0].line, FUNCTION);
    compare("functions", &found).unwrap_or_else(|said| panic!("more than {FUNCTION} lines, {said}"));
}

#[test]
fn structs_have_few_fields() {
    let found = bodies("struct", fields, FIELDS);
    compare("structs", &found).unwrap_or_else(|said| panic!("more than {FIELDS} fields, {said}"));
}

/// Definitions with `keyword` that measure more than `limit`.
fn bodies(keyword: &str, measure: fn(&[Token<'_>]) -> usize, limit: usize) -> List {
    let mut found = List::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        let mut tokens = source.tokens();
        tokens.retain(|token| !matches!(token.kind, Kind::Comment | Kind::Doc));
        for at in 0..tokens.len() {
            if tokens[at].kind != Kind::Word || tokens[at].text != keyword {
                continue;
            }
            let Some((name, body)) = body(&tokens[at..]) else { continue };
            let size = measure(body);
            if size > limit {
                found.insert(format!("{} {name}", source.path), size);
            }
        }
    }
    found
}

/// The name behind the keyword, and everything from the keyword to the end of the braces, if there
/// are any.
fn body<'a, 't>(tokens: &'t [Token<'a>]) -> Option<(&'a str, &'t [Token<'a>])> {
    let name = tokens.get(1).filter(|token| token.kind == Kind::Word)?.text;
    let mut depth = 0_usize;
    let mut braces = 0_usize;
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.kind == Kind::Sign) {
        match token.text {
            "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.checked_sub(1)?,
            "{" => braces += 1,
            "}" => {
                braces = braces.checked_sub(1)?;
                if braces == 0 && depth == 0 {
                    return Some((name, &tokens[..=at]));
                }
            }
            ";" if depth == 0 && braces == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The fields of a struct: names with one colon behind them, directly within its braces.
fn fields(tokens: &[Token<'_>]) -> usize {
    let (mut depth, mut count) = (0_usize, 0);
    for at in 1..tokens.len() {
        match tokens[at].text {
            "{" | "(" | "[" | "<" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            // Not that of an arrow.
            ">" if tokens[at - 1].text != "-" => depth = depth.saturating_sub(1),
            ":" if depth == 1 && tokens[at - 1].kind == Kind::Word => {
                let is_path = tokens.get(at + 1).is_some_and(|next| next.text == ":");
                count += usize::from(!is_path);
            }
            _ => {}
        }
    }
    count
}
