//! Which texts may stand as names in a line of the protocol, or in a subject of the JetStream API.
//!
//! Only what would break the line or the subject is refused here: everything else is the server's
//! to judge.

use crate::error::BenchError;

/// A subject, a reply subject or a queue group; `what` says which.
pub fn word(what: &str, text: &str) -> Result<(), BenchError> {
    refuse(what, text, |character| character.is_whitespace() || character.is_control())
}

/// The name of a stream.
pub fn stream(text: &str) -> Result<(), BenchError> {
    token("stream name", text)
}

/// The name of a consumer.
pub fn consumer(text: &str) -> Result<(), BenchError> {
    token("consumer name", text)
}

/// The name of a bucket.
pub fn bucket(text: &str) -> Result<(), BenchError> {
    token("bucket name", text)
}

/// Checks text that must be one token of a subject; `what` names it in the error.
fn token(what: &str, text: &str) -> Result<(), BenchError> {
    let is_bad =
        |character: char| character.is_whitespace() || character.is_control() || ".*>/\\".contains(character);
    refuse(what, text, is_bad)
}

fn refuse(what: &str, text: &str, is_bad: impl Fn(char) -> bool) -> Result<(), BenchError> {
    match text.chars().find(|&character| is_bad(character)) {
        Some(character) => Err(BenchError::Usage(format!("the {what} {text:?} must not hold {character:?}"))),
        None if text.is_empty() => Err(BenchError::Usage(format!("the {what} is empty"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_break_a_line_are_refused() {
        for good in ["a", "a.*.>", "$JS.API.INFO", "ü"] {
            assert!(word("subject", good).is_ok(), "{good}");
        }
        for bad in ["", " ", "a b", "a\r\nPUB x 0", "a\t", "\u{0}", "a\u{a0}b"] {
            assert!(matches!(word("subject", bad), Err(BenchError::Usage(_))), "{bad:?}");
            assert!(stream(bad).is_err(), "{bad:?}");
        }
        assert!(stream("S-1_x").is_ok());
        for bad in ["a.b", "*", ">", "a/b", "a\\b"] {
            assert!(stream(bad).is_err(), "{bad}");
        }
    }
}
