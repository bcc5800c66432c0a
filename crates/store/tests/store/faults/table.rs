//! The outcomes as text: exact in `faults.expected`, in words in `docs/store.md`.

use std::fmt::Write as _;
use std::fs;

use super::image::End;
use super::rules::ranges;
use super::{Mends, Outcome};

const EXPECTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/store/faults/faults.expected");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/store.md");
const BEGIN: &str = "<!-- The table of faults: written by `MYELIN_RECORD=1 cargo test -p myelin-store --test store faults`. -->\n";
const END: &str = "<!-- The table of faults ends. -->\n";

/// Compares the outcomes with both texts, or writes them.
pub(super) fn compare(outcomes: &[Outcome]) {
    let exact: String = outcomes.iter().map(exactly).collect();
    let page = fs::read_to_string(PAGE).expect("it is part of the repository");
    let (before, rest) = page.split_once(BEGIN).expect("the table has its place");
    let (_, after) = rest.split_once(END).expect("and its end");
    let told = format!("{before}{BEGIN}{}{END}{after}", in_words(outcomes));
    if std::env::var_os("MYELIN_RECORD").is_some() {
        fs::write(EXPECTED, exact).expect("the repository can be written");
        fs::write(PAGE, told).expect("the repository can be written");
        return;
    }
    same_lines(&fs::read_to_string(EXPECTED).unwrap_or_default(), &exact, EXPECTED);
    same_lines(&page, &told, PAGE);
}

fn same_lines(expected: &str, got: &str, file: &str) {
    let differs = expected.lines().zip(got.lines()).find(|(one, other)| one != other);
    assert!(expected == got, "{file} is not what comes out: {differs:?}; MYELIN_RECORD=1 writes it anew");
}

fn title(outcome: &Outcome) -> String {
    let case = &outcome.case;
    format!("{}: {}, {}", case.file.kind, case.damage.words(), case.end.words())
}

/// Broken rules.
pub(super) fn short(outcome: &Outcome) -> Vec<String> {
    outcome.verdict.broken.iter().map(|rule| format!("{}: {rule}", title(outcome))).collect()
}

/// A case, with all its numbers.
fn exactly(outcome: &Outcome) -> String {
    let verdict = &outcome.verdict;
    let mut text = format!("{}\n", title(outcome));
    let mut line = |words: String| writeln!(text, "  {words}").expect("strings take everything");
    for (name, lost) in &verdict.lost {
        line(format!("lost {name} {}", ranges(lost)));
    }
    for (name, back) in &verdict.back {
        line(format!("back {name} {}", ranges(back)));
    }
    for (name, how) in &verdict.consumers {
        line(format!("consumers {name} {how}"));
    }
    outcome.start.iter().for_each(|words| line(format!("start {words}")));
    line(format!("check {}", outcome.check.code));
    outcome.check.findings.iter().for_each(|words| line(format!("check {words}")));
    line(format!("mends {}", outcome.mends.words()));
    verdict.broken.iter().for_each(|words| line(format!("short {words}")));
    text.push('\n');
    text
}

/// A line of the table, for one or several cases.
#[derive(PartialEq)]
struct Row {
    kind: &'static str,
    lost: String,
    start: String,
    check: String,
    mends: String,
}

impl Row {
    fn of(outcome: &Outcome) -> Self {
        Self {
            kind: outcome.case.file.kind,
            lost: lost(outcome),
            start: says(outcome),
            check: finds(outcome),
            mends: mends(outcome),
        }
    }
}

fn lost(outcome: &Outcome) -> String {
    let verdict = &outcome.verdict;
    let mut words = Vec::new();
    match verdict.lost.iter().map(|(_, lost)| lost.len()).sum::<usize>() {
        0 => {}
        1 => words.push("the message there".to_owned()),
        _ => words.push("the messages there".to_owned()),
    }
    if !verdict.back.is_empty() {
        words.push("a deletion: the message is back".to_owned());
    }
    for (_, how) in &verdict.consumers {
        words.push(format!("consumers are {how}"));
    }
    words.extend(verdict.broken.iter().map(|rule| format!("**{rule}**")));
    if words.is_empty() { "nothing".to_owned() } else { words.join("; ") }
}

fn says(outcome: &Outcome) -> String {
    let mut words: Vec<String> = Vec::new();
    for line in &outcome.start {
        let plain = plain(line);
        if !words.contains(&plain) {
            words.push(plain);
        }
    }
    let readers =
        outcome.verdict.tells_readers.then(|| "nothing; whoever reads the message gets an error".to_owned());
    match words.is_empty() {
        true => readers.unwrap_or_else(|| "nothing".to_owned()),
        false => words.join("; "),
    }
}

fn finds(outcome: &Outcome) -> String {
    match outcome.check.code {
        0 if outcome.check.findings.is_empty() => "0".to_owned(),
        code => format!("{code}, {}", plural(outcome.check.findings.len(), "finding")),
    }
}

fn plural(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn mends(outcome: &Outcome) -> String {
    let words = outcome.mends.words();
    match (outcome.verdict.lost.is_empty(), outcome.mends) {
        (true, _) => words.to_owned(),
        (false, Mends::Nothing) => "a backup has the messages".to_owned(),
        (false, _) => format!("{words}; a backup has the messages"),
    }
}

/// A notice without its numbers and names, so that like ones are alike.
fn plain(words: &str) -> String {
    // The stream in front.
    let is_name = |name: &str| name.chars().all(|letter| letter.is_ascii_uppercase());
    let words = words.split_once(": ").filter(|(name, _)| is_name(name)).map_or(words, |(_, rest)| rest);
    let mut plain = String::new();
    for word in words.split_inclusive([' ', ':', ',', ';', '/']) {
        let is_number = |word: &str| word.chars().all(|letter| letter.is_ascii_hexdigit() || letter == '.');
        let bare = word.trim_end_matches([' ', ':', ',', ';', '/']);
        let has_digit = bare.chars().any(|letter| letter.is_ascii_digit());
        if is_number(bare) && has_digit {
            plain.push('N')
        } else {
            plain += bare
        }
        plain += &word[bare.len()..];
    }
    plain
}

/// The table: neighbours that came to the same share a line.
fn in_words(outcomes: &[Outcome]) -> String {
    let mut rows: Vec<(Row, Vec<&Outcome>)> = Vec::new();
    for outcome in outcomes {
        let row = Row::of(outcome);
        match rows.iter_mut().find(|(known, _)| *known == row) {
            Some((_, cases)) => cases.push(outcome),
            None => rows.push((row, vec![outcome])),
        }
    }
    let mut text = "\n| File | Damage | Lost | The start says | `store check` | What mends it |\n|---|---|---|---|---|---|\n".to_owned();
    for (row, cases) in &rows {
        let Row { kind, lost, start, check, mends } = row;
        let damages = damages(cases);
        writeln!(text, "| {kind} | {damages} | {lost} | {start} | {check} | {mends} |")
            .expect("strings take everything");
    }
    text.push('\n');
    text
}

/// Which damages, and after what if it was not both.
fn damages(cases: &[&Outcome]) -> String {
    let mut words: Vec<String> = Vec::new();
    for end in [None, Some(End::Clean), Some(End::Killed)] {
        let has = |outcome: &Outcome, end| {
            cases.iter().any(|case| case.case.damage == outcome.case.damage && case.case.end == end)
        };
        let fits = |outcome: &&&Outcome| {
            let is_both = has(outcome, End::Clean) && has(outcome, End::Killed);
            match end {
                None => is_both && outcome.case.end == End::Clean,
                Some(end) => !is_both && outcome.case.end == end,
            }
        };
        let own: Vec<&str> = cases.iter().filter(fits).map(|case| case.case.damage.words()).collect();
        if !own.is_empty() {
            let after = end.map_or(String::new(), |end| format!(" after a {}", end.words()));
            words.push(format!("{}{after}", own.join(", ")));
        }
    }
    words.join("; ")
}
