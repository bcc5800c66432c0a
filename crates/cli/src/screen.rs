//! Ways to a person's terminal. Names, subjects, descriptions and errors come from strangers:
//! none of them may move the cursor, change colours, or write what is not there.
//!
//! Owns the standard output of the verbs that show what a server says.

use std::fmt::Display;
use std::io::{BufRead, ErrorKind, IsTerminal, Write};

use myelin_loadgen::error::BenchError;
use myelin_loadgen::plain::is_hostile;
pub(crate) use myelin_loadgen::plain::{one_line, plain};
use serde_json::Value;

/// Exit code where nobody reads the output any more: that of a program which the signal for it has
/// ended, as shells show it.
const UNREAD: u8 = 128 + 13;

/// Prints text as it is: the caller has made it harmless.
pub(crate) fn show(text: &str) -> Result<(), BenchError> {
    write(text.as_bytes())
}

/// Prints a value as JSON.
pub(crate) fn show_json(value: &Value) -> Result<(), BenchError> {
    show(&(json_text(&format!("{value:#}")) + "\n"))
}

/// JSON in which the control characters are escaped that encoders leave as they are.
pub(crate) fn json_text(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for character in json.chars() {
        match is_hostile(character) && character != '\n' {
            true => safe += &format!("\\u{:04x}", u32::from(character)),
            false => safe.push(character),
        }
    }
    safe
}

/// Prints a line, with whatever is in it.
pub(crate) fn say(line: &impl Display) {
    tell(&(plain(&line.to_string()) + "\n"));
}

/// Prints a value as JSON in one line.
pub(crate) fn say_json(value: &Value) {
    tell(&(json_text(&value.to_string()) + "\n"));
}

/// Prints text as [`show`] does. The command ends where it cannot be printed.
pub(crate) fn tell(text: &str) {
    if let Err(error) = write(text.as_bytes()) {
        std::process::exit(i32::from(failure_status(&error)));
    }
}

/// Exit code of an error, which is told unless it is that nobody reads the output any more, as
/// behind `| head`.
pub(crate) fn failure_status(error: &BenchError) -> u8 {
    if let BenchError::Io("printing" | "writing the object", error) = error
        && error.kind() == ErrorKind::BrokenPipe
    {
        return UNREAD;
    }
    eprintln!("myelin: error: {}", plain(&error.to_string()));
    1
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
    fn json_steers_no_terminal_and_stays_json() {
        let hostile = "a\u{1b}[2Jb\u{9b}31mc\u{7f}\u{202e}d\r\n\te\u{fc}";
        let json = json_text(&serde_json::json!({ "a": hostile }).to_string());
        assert!(json.contains("\\u009b31m") && !json.chars().any(char::is_control), "{json}");
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["a"], hostile);
    }
}
