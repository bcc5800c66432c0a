//! What reaches a person's terminal. Names, subjects, descriptions and errors come from strangers:
//! none of them may move the cursor, change colours, or write what is not there.
//!
//! Owns the standard output of the verbs that show what a server says.

use std::io::{BufRead, IsTerminal, Write};

use myelin_loadgen::error::BenchError;
use serde_json::Value;

/// Text in which nothing but line ends and tabs is more than a sign to look at.
pub(crate) fn plain(text: &str) -> String {
    escaped(text, |character| is_hostile(character) && !matches!(character, '\n' | '\t'))
}

/// Text for one place in one line.
pub(crate) fn one_line(text: &str) -> String {
    escaped(text, is_hostile)
}

fn escaped(text: &str, is_bad: impl Fn(char) -> bool) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match is_bad(character) {
            true => safe.extend(character.escape_unicode()),
            false => safe.push(character),
        }
    }
    safe
}

/// Control characters, those of eight bits included, and what turns the direction of writing.
fn is_hostile(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Prints text as it is: the caller has made it harmless.
pub(crate) fn show(text: &str) -> Result<(), BenchError> {
    write(text.as_bytes())
}

/// Prints a value as JSON, in which the encoder leaves some control characters as they are.
pub(crate) fn show_json(value: &Value) -> Result<(), BenchError> {
    let mut text = String::new();
    for character in format!("{value:#}\n").chars() {
        match is_hostile(character) && character != '\n' {
            true => text += &format!("\\u{:04x}", u32::from(character)),
            false => text.push(character),
        }
    }
    show(&text)
}

/// Prints the bytes of a message: as they are where a program reads them, or where that is wanted.
pub(crate) fn show_payload(bytes: &[u8], is_raw: bool) -> Result<(), BenchError> {
    match is_raw || !std::io::stdout().is_terminal() {
        true => write(bytes),
        false => write(plain(&String::from_utf8_lossy(bytes)).as_bytes()),
    }
}

/// Lines of a header block with an empty one behind them; nothing where there is none.
pub(crate) fn header_lines(header: &[u8]) -> String {
    let header = String::from_utf8_lossy(header);
    let lines = header.split("\r\n").skip(1).filter(|line| !line.is_empty());
    let text: String = lines.map(|line| plain(line) + "\n").collect();
    if text.is_empty() { text } else { text + "\n" }
}

fn write(bytes: &[u8]) -> Result<(), BenchError> {
    let mut output = std::io::stdout();
    output.write_all(bytes).and_then(|()| output.flush()).map_err(BenchError::io("printing"))
}

/// Asks a person at the terminal; fails where there is none, unless `--force` was given.
pub(crate) fn confirm(is_forced: bool, question: &str) -> Result<(), BenchError> {
    if is_forced {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(BenchError::Usage("nobody is there to ask: use --force".into()));
    }
    show(&format!("{question} (y/N) "))?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(BenchError::io("asking"))?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(BenchError::Usage("left as it is".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_steers_a_terminal() {
        let hostile = "a\u{1b}[2Jb\u{9b}31mc\u{7f}\u{202e}d\r\n\te\u{fc}";
        assert_eq!(plain(hostile), "a\\u{1b}[2Jb\\u{9b}31mc\\u{7f}\\u{202e}d\\u{d}\n\te\u{fc}");
        assert_eq!(one_line("a\n\tb"), "a\\u{a}\\u{9}b");
    }
}
