//! Verdict of a server on a configuration file, in a form that can be written down and compared.

use std::collections::BTreeSet;
use std::fmt;
use std::process::Output;

use myelin_conf::{Invocation, LoadError};

/// The verdict of `-t`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Valid, with this digest.
    Valid(String),
    /// The grammar is broken in this line.
    Line(u32),
    /// Errors and warnings at these lines and columns.
    At(BTreeSet<(u32, u32)>),
    /// Refused without a position.
    Refused,
}

impl Verdict {
    /// Verdict of `load` on the file.
    pub(crate) fn of_myelin(path: &str) -> Self {
        let diagnostics = match crate::load(&["-t", "-c", path]) {
            Ok(Invocation::TestConfig { digest, .. }) => return Verdict::Valid(digest),
            Err(LoadError::Config(diagnostics)) => diagnostics,
            Err(LoadError::Grammar(diagnostic)) => vec![diagnostic],
            other => panic!("{path}: {other:?}"),
        };
        assert!(!diagnostics.is_empty(), "{path} is refused without a reason");
        let is_grammar = diagnostics[0].message.starts_with("Parse error");
        let places = diagnostics.into_iter().filter_map(|diagnostic| diagnostic.position);
        let places: BTreeSet<_> = places.map(|place| (place.line, place.column)).collect();
        match places.first() {
            None => Verdict::Refused,
            Some(&(line, _)) if is_grammar => Verdict::Line(line),
            Some(_) => Verdict::At(places),
        }
    }

    /// Verdict of nats-server on the file at `path`.
    pub(crate) fn of_reference(output: &Output, path: &str) -> Self {
        let text = String::from_utf8_lossy(&output.stderr);
        if let Some((_, digest)) = text.split_once(" is valid (") {
            return Verdict::Valid(digest.trim_end().trim_end_matches(')').to_owned());
        }
        if let Some((_, rest)) = text.split_once("Parse error on line ")
            && !text.contains("include file")
        {
            let line = rest.split(':').next().and_then(|line| line.parse().ok());
            return Verdict::Line(line.expect("a line number"));
        }
        // A panic that follows from another error adds a line about itself.
        let lines = text.lines().filter(|line| !line.contains("runtime error"));
        let places: BTreeSet<_> = lines.filter_map(|line| place(line.split_once(path)?.1)).collect();
        if places.is_empty() { Verdict::Refused } else { Verdict::At(places) }
    }

    /// Whether this verdict says all that `expected`, often vaguer, does.
    pub(crate) fn agrees_with(&self, expected: &Self) -> bool {
        match (self, expected) {
            (Verdict::Valid(_), Verdict::Refused) => false,
            (_, Verdict::Refused) => true,
            (Verdict::At(ours), Verdict::At(theirs)) => theirs.is_subset(ours),
            _ => self == expected,
        }
    }

    pub(crate) fn parse(text: &str) -> Self {
        match text.split_once(' ') {
            Some(("valid", digest)) => Verdict::Valid(digest.to_owned()),
            Some(("line", line)) => Verdict::Line(line.parse().expect("a line number")),
            Some(("at", places)) => {
                let places = places.split(' ').map(|text| place(&format!(":{text}:")).expect("a place"));
                Verdict::At(places.collect())
            }
            _ => {
                assert_eq!(text, "refused", "an unknown verdict in the corpus");
                Verdict::Refused
            }
        }
    }
}

/// Reads `:line:column:` at the beginning of a text.
fn place(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.strip_prefix(':')?.split(':');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Valid(digest) => write!(f, "valid {digest}"),
            Verdict::Line(line) => write!(f, "line {line}"),
            Verdict::At(places) => {
                write!(f, "at")?;
                places.iter().try_for_each(|(line, column)| write!(f, " {line}:{column}"))
            }
            Verdict::Refused => write!(f, "refused"),
        }
    }
}
