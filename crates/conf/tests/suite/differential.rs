//! Random configurations, read by us and by nats-server.
//!
//! Half of them are made to be valid: values of every kind in every layout, named and then used as
//! variables, so that no option has to take them; their digests must be equal. The others are those
//! with a few characters changed; verdict, lines and columns must be equal. A find goes into the
//! corpus.
//!
//! A short run with always the same cases is part of the tests (15 ms each); `MYELIN_DIFFERENTIAL`
//! says how many, `MYELIN_SEED` makes others. `MYELIN_RANDOM_SECONDS` goes on for so long with a
//! seed that is new each time. The seed is printed first.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use crate::verdict::Verdict;
use crate::{ConfigFile, reference};

const CASES: u64 = 150;
const SEED: u64 = 20_261_121;

/// Numbers that look random (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("smaller than a usize")
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }
}

const SCALARS: &[&str] = &[
    "true",
    "FALSE",
    "Yes",
    "no",
    "on",
    "oFF",
    "0",
    "-1",
    "42",
    "007",
    "1k",
    "2KB",
    "3mib",
    "-4Gi",
    "5t",
    "1e",
    "1.5",
    "-0.25",
    "0.0000001",
    "123456789.125",
    "100000000000000000000.5",
    "1.10",
    "2016-05-04T18:53:41Z",
    "127.0.0.1",
    "127.0.0.1:4222",
    "1.2.3",
    "5e7bcd",
    "1kx",
    "12ab",
    "word",
    "a.b.>",
    "nats://h:1",
    "a\\tb",
    "x\\x41y",
    "$2a$11$abc",
    "'single'",
    "'si\\ngle'",
    "\"\"",
    "''",
    "\"a b\"",
    "\"a\\\"b\\\\\"",
    "\"\\x00\\x7f\"",
    "\"é <&> \u{2028}\"",
    "\"two\nlines\"",
    "'two\nlines'",
    "\"1\"",
    "\"true\"",
    "trueish",
    "on1",
    "a'b",
    "é",
    "-5k",
    "\"\\xff\\xfe\"",
    "a#b",
    "a//b",
    "http://x/#y",
    "~",
    "a=b",
    "a:b",
    "/x/y",
    "*",
    ">",
    "%",
    "@",
    "!",
];

const KEYS: &[&str] =
    &["a", "b", "a_b", "'a b'", "\"k\"", "X-1", "a.b", "é", "A", "1", "a/b", "$d", "''", "a,b"];
const SEPARATORS: &[&str] = &[" = ", ": ", ":", "=", " ", "\t", "  :  "];
const ENDS: &[&str] = &["\n", "\n\n", "\r\n", ",\n", ";\n", " # c\n", " // c\n", "\n  # } c\n"];
const MAP_ENDS: &[&str] = &["\n", ", ", "; ", ",\n", "\r\n", " # c\n", ",\n// c\n", "\n\n"];
const ARRAY_ENDS: &[&str] = &[", ", "\n", ",\n", " ,", " # c\n", "\n # c\n"];

/// A value in some layout.
fn value(dice: &mut Dice, depth: usize, text: &mut String) {
    match dice.below(if depth == 0 { 4 } else { 8 }) {
        0..4 => text.push_str(dice.pick(SCALARS)),
        4 | 5 => map(dice, depth, text),
        6 => array(dice, depth, text),
        _ => text.push_str(dice.pick(&["(\nblock\n  ) text\n)\n", "(\n)\n", "( x\n\n)\n"])),
    }
}

fn map(dice: &mut Dice, depth: usize, text: &mut String) {
    text.push_str(dice.pick(&["{", "{ ", "{\n", "{ # c\n", "{\r\n  "]));
    for _ in 0..dice.below(4) {
        text.push_str(dice.pick(KEYS));
        text.push_str(dice.pick(SEPARATORS));
        value(dice, depth - 1, text);
        text.push_str(dice.pick(MAP_ENDS));
    }
    text.push_str(dice.pick(&["}", " }", "\n}"]));
}

fn array(dice: &mut Dice, depth: usize, text: &mut String) {
    text.push_str(dice.pick(&["[", "[ ", "[\n", "[ # c\n"]));
    for _ in 0..dice.below(4) {
        value(dice, depth - 1, text);
        text.push_str(dice.pick(ARRAY_ENDS));
    }
    text.push_str(dice.pick(&[" ]", "\n]"]));
}

/// A file of variables that are all used, so that none of them is an unknown field.
fn valid(dice: &mut Dice) -> String {
    let mut text = String::from(dice.pick(&["", "\n", "# c\n", "\r\n", "  "]));
    let names = ["V", "W1", "x_y", "Wert"];
    let count = 1 + dice.below(names.len());
    for name in &names[..count] {
        let separator = dice.pick(SEPARATORS);
        write!(text, "{name}{separator}").expect("a String takes all text");
        value(dice, 3, &mut text);
        text.push_str(dice.pick(ENDS));
    }
    for name in &names[..count] {
        write!(text, "port = ${name}{}", dice.pick(ENDS)).expect("a String takes all text");
    }
    text.push_str(dice.pick(&["port: 4222\n", "port 4222", "'port' = 4222;", "port=4222}"]));
    if dice.one_in(8) { format!("{{\n{text}\n}}\n") } else { text }
}

/// Makes a configuration with some bytes replaced, taken out, doubled or put in.
fn broken(dice: &mut Dice) -> Vec<u8> {
    const ODD: &[u8] = b"{}[]()'\"\\/#,;:=$ \n\r\t-.0aZ\xffx\xc3\xa9\x0b*";
    let mut text = valid(dice).into_bytes();
    for _ in 0..=dice.below(3) {
        if text.is_empty() {
            break;
        }
        let at = dice.below(text.len());
        match dice.below(5) {
            0 => text[at] = dice.pick(ODD),
            1 => drop(text.remove(at)),
            2 => text.truncate(at.max(1)),
            3 => text.insert(at, text[at]),
            _ => text.insert(at, dice.pick(ODD)),
        }
    }
    text
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("the variable holds a number"))
}

#[test]
fn random_configurations_get_the_same_verdict() {
    let Some(program) = reference::find() else { return };
    let (cases, seed) = (number("MYELIN_DIFFERENTIAL", CASES), number("MYELIN_SEED", SEED));
    println!("{cases} cases, MYELIN_SEED={seed}");
    compare(&program, seed, |case, _| case < cases);
    let time = Duration::from_secs(number("MYELIN_RANDOM_SECONDS", 0));
    if !time.is_zero() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is not 1969");
        let seed = number("MYELIN_RANDOM_SEED", now.as_secs());
        println!("for {} s cases of MYELIN_SEED={seed}", time.as_secs());
        // As many as make the generator's share of valid ones a matter of course, also on a busy
        // machine.
        compare(&program, seed, |case, began| case < CASES || began.elapsed() < time);
    }
}

/// Makes cases from `seed` and compares the verdicts on them, as long as `goes_on` says so.
fn compare(program: &PathBuf, seed: u64, goes_on: impl Fn(u64, Instant) -> bool) {
    let began = Instant::now();
    let mut dice = Dice(seed);
    let (mut wrong, mut valid_ones, mut cases) = (Vec::new(), 0, 0);
    while goes_on(cases, began) {
        cases += 1;
        let text = if dice.one_in(2) { valid(&mut dice).into_bytes() } else { broken(&mut dice) };
        let file = ConfigFile::new(&text);
        let path = file.path();
        let theirs = Verdict::of_reference(&reference::run(program, &["-t", "-c", &path]), &path);
        let ours = Verdict::of_myelin(&path);
        valid_ones += u64::from(matches!(theirs, Verdict::Valid(_)));
        if !ours.agrees_with(&theirs) && !is_on_purpose(&text, &path) {
            wrong.push(format!("{:?}\n    theirs {theirs}, ours {ours}", String::from_utf8_lossy(&text)));
        }
    }
    println!("{valid_ones} of {cases} were valid");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(valid_ones > cases / 8, "the generator makes too few that are valid");
}

/// Whether we refuse, for a reason that stands in the corpus, what the reference makes something
/// odd of.
fn is_on_purpose(text: &[u8], path: &str) -> bool {
    // Keys that are no UTF-8 are sorted by what they have become.
    let is_text = std::str::from_utf8(text).is_ok();
    // JSON has numbers before a bracket; the reference reads the bracket as text.
    let has_number_before_bracket = text.windows(2).any(|pair| {
        pair[1] == b']' && (pair[0].is_ascii_digit() || b"kmgtpebi".contains(&pair[0].to_ascii_lowercase()))
    });
    let said = crate::load(&["-t", "-c", path]).err().map(|error| error.to_string()).unwrap_or_default();
    let reasons = [
        "expected a value, found '}'",
        "quoted string is not closed",
        "quoted key is not closed",
        "has an unknown unit",
        "is out of the range",
        "NUL",
    ];
    !is_text && said.is_empty()
        || has_number_before_bracket
        || reasons.iter().any(|reason| said.contains(reason))
}
