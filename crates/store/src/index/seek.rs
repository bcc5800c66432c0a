//! Where the next subject that matches a pattern can be, in sorted order.
//!
//! Order is bytewise, not by tokens: `a-b` sorts before `a.b`, because `-` sorts before the
//! separator. What may be skipped follows from that: behind a prefix that ends with a separator
//! everything is contiguous, behind one that ends within a token it is not.

use myelin_subject::matches;

/// Sorts directly behind the separator: replaces it to get behind everything below a prefix.
const BEHIND_SEPARATOR: u8 = b'/';

/// A pattern, cut into what decides the next place to look at.
#[derive(Debug)]
pub(super) struct Seeker<'a> {
    pattern: &'a [u8],
    tokens: Vec<Token<'a>>,
}

#[derive(Debug)]
enum Token<'a> {
    /// Itself, and all of the pattern from here to the next wildcard (with the separator before
    /// it).
    Literal { text: &'a [u8], run: &'a [u8] },
    /// `*`.
    Any,
    /// `>`.
    Rest,
}

/// Verdict on a subject and those behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SeekVerdict {
    /// The subject matches.
    Match,
    /// The subject does not match; the next one may.
    Next,
    /// The subject does not match, nor does any before the target that was given.
    Seek,
    /// Neither it nor any behind it matches.
    Done,
}

impl<'a> Seeker<'a> {
    pub(super) fn new(pattern: &'a [u8]) -> Self {
        let mut tokens: Vec<Token<'a>> = Vec::new();
        let mut at = 0;
        for text in pattern.split(|&b| b == b'.') {
            tokens.push(match text {
                b"*" => Token::Any,
                b">" => Token::Rest,
                _ => Token::Literal { text, run: literal_run(&pattern[at..]) },
            });
            at += text.len() + 1;
        }
        Self { pattern, tokens }
    }

    /// Prefix that every match has.
    pub(super) fn prefix(&self) -> &'a [u8] {
        match self.tokens.first() {
            Some(Token::Literal { run, .. }) => run,
            _ => b"",
        }
    }

    /// Judges a subject. With [`SeekVerdict::Seek`] the target, which sorts behind the subject, is
    /// in `target`.
    pub(super) fn judge(&self, subject: &[u8], target: &mut Vec<u8>) -> SeekVerdict {
        let mut at = 0;
        // Where the last token that a `*` took ends.
        let mut wild_end = None;
        for (number, token) in self.tokens.iter().enumerate() {
            if at > subject.len() {
                return self.extend(number, subject, target);
            }
            let end = token_end(subject, at);
            match token {
                Token::Rest => return self.confirm(subject),
                Token::Any if end == at => return SeekVerdict::Next,
                Token::Any => wild_end = Some(end),
                Token::Literal { text, .. } if subject[at..end] == **text => {}
                Token::Literal { run, .. } => {
                    target.clear();
                    target.extend_from_slice(&subject[..at]);
                    target.extend_from_slice(run);
                    return if subject < target.as_slice() {
                        SeekVerdict::Seek
                    } else {
                        leave(subject, wild_end, target)
                    };
                }
            }
            at = end + 1;
        }
        if at > subject.len() { self.confirm(subject) } else { leave(subject, wild_end, target) }
    }

    /// The subject is a proper prefix, by tokens, of what would match.
    fn extend(&self, missing: usize, subject: &[u8], target: &mut Vec<u8>) -> SeekVerdict {
        if missing > 0 && matches!(self.tokens[missing - 1], Token::Any) {
            // `*` may take a longer token that sorts before the separator.
            return SeekVerdict::Next;
        }
        target.clear();
        target.extend_from_slice(subject);
        target.push(b'.');
        if let Token::Literal { run, .. } = self.tokens[missing] {
            target.extend_from_slice(run);
        }
        SeekVerdict::Seek
    }

    /// All tokens agree; the rules of the crate for subjects have the last word (empty tokens).
    fn confirm(&self, subject: &[u8]) -> SeekVerdict {
        if matches(self.pattern, subject) { SeekVerdict::Match } else { SeekVerdict::Next }
    }
}

/// Nothing else below what the last `*` took can match.
fn leave(subject: &[u8], wild_end: Option<usize>, target: &mut Vec<u8>) -> SeekVerdict {
    let Some(end) = wild_end else { return SeekVerdict::Done };
    target.clear();
    target.extend_from_slice(&subject[..end]);
    target.push(BEHIND_SEPARATOR);
    SeekVerdict::Seek
}

/// `pattern` up to its first wildcard token.
fn literal_run(pattern: &[u8]) -> &[u8] {
    let mut at = 0;
    for token in pattern.split(|&b| b == b'.') {
        if token == b"*" || token == b">" {
            return &pattern[..at];
        }
        at += token.len() + 1;
    }
    pattern
}

fn token_end(subject: &[u8], from: usize) -> usize {
    subject[from..].iter().position(|&b| b == b'.').map_or(subject.len(), |length| from + length)
}

#[cfg(test)]
mod tests;
