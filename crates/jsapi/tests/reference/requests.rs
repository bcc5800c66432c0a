//! The files of requests: lines of configuration, then groups that begin on an empty account.
//!
//! `config LINE` goes into the server's configuration. `> VERB NAME BODY` is a request (NAME is `-`
//! where there is none), `<` the answer to the one above; a blank line ends a group; `#` begins a
//! remark. In bodies `<<x*9>>` is nine times x, and `\xHH` before anything else is a byte.

use std::fmt;

/// A file, line by line.
pub(crate) struct Scenario {
    pub(crate) lines: Vec<Line>,
}

pub(crate) enum Line {
    /// Part of the server's configuration.
    Config(String),
    /// A remark.
    Remark(String),
    /// The end of a group.
    Blank,
    /// A request.
    Exchange(Exchange),
}

pub(crate) struct Exchange {
    /// `CREATE` and so on, as in the subject.
    pub(crate) verb: String,
    /// The stream in the subject.
    pub(crate) name: String,
    /// The body as it stands in the file.
    text: String,
    /// Record of a request.
    pub(crate) answer: String,
}

impl Line {
    fn config(&self) -> Option<&str> {
        match self {
            Self::Config(text) => Some(text),
            _ => None,
        }
    }

    fn exchange(&self) -> Option<&Exchange> {
        match self {
            Self::Exchange(exchange) => Some(exchange),
            _ => None,
        }
    }
}

impl Exchange {
    pub(crate) fn line(&self) -> String {
        format!("> {} {} {}", self.verb.to_lowercase(), self.name, self.text).trim_end().to_owned()
    }

    pub(crate) fn subject(&self) -> String {
        let name = if self.name == "-" { String::new() } else { format!(".{}", self.name) };
        format!("$JS.API.STREAM.{}{name}", self.verb)
    }

    /// The bytes to send.
    pub(crate) fn body(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut rest = self.text.as_str();
        while let Some(c) = rest.chars().next() {
            if let Some((what, after)) = rest.strip_prefix("<<").and_then(|rest| rest.split_once(">>")) {
                let (piece, times) = what.rsplit_once('*').unwrap();
                out.extend_from_slice(piece.repeat(times.parse().unwrap()).as_bytes());
                rest = after;
            } else if let Some(after) = rest.strip_prefix(r"\x") {
                out.push(u8::from_str_radix(&after[..2], 16).unwrap());
                rest = &after[2..];
            } else {
                out.extend_from_slice(c.to_string().as_bytes());
                rest = &rest[c.len_utf8()..];
            }
        }
        out
    }
}

impl Scenario {
    pub(crate) fn exchanges(&self) -> impl Iterator<Item = &Exchange> {
        self.lines.iter().filter_map(Line::exchange)
    }

    pub(crate) fn config(&self) -> Vec<&str> {
        self.lines.iter().filter_map(Line::config).collect()
    }

    pub(crate) fn record(&mut self, answers: Vec<String>) {
        let mut answers = answers.into_iter();
        for line in &mut self.lines {
            if let Line::Exchange(exchange) = line {
                exchange.answer = answers.next().unwrap();
            }
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| match line {
            Line::Config(text) => writeln!(f, "config {text}"),
            Line::Remark(text) => writeln!(f, "{text}"),
            Line::Blank => writeln!(f),
            Line::Exchange(exchange) => writeln!(f, "{}\n< {}", exchange.line(), exchange.answer),
        })
    }
}

pub(crate) fn parse(text: &str) -> Scenario {
    let mut lines = Vec::new();
    for line in text.lines() {
        if let Some(config) = line.strip_prefix("config ") {
            lines.push(Line::Config(config.to_owned()));
        } else if line.starts_with('#') {
            lines.push(Line::Remark(line.to_owned()));
        } else if line.trim().is_empty() {
            lines.push(Line::Blank);
        } else if let Some(answer) = line.strip_prefix("< ") {
            let Some(Line::Exchange(exchange)) = lines.last_mut() else { panic!("no request above {line}") };
            exchange.answer = answer.to_owned();
        } else {
            let mut words = line.strip_prefix("> ").expect(line).splitn(3, ' ');
            let mut next = || words.next().unwrap_or_default().to_owned();
            let (verb, name, text) = (next().to_uppercase(), next(), next());
            lines.push(Line::Exchange(Exchange { verb, name, text, answer: String::new() }));
        }
    }
    Scenario { lines }
}

/// An answer without what differs from run to run: everything between the configuration and what
/// follows the time.
pub(crate) fn masked(answer: &str) -> String {
    let Some((head, rest)) = answer.split_once(r#","created":"#) else { return answer.to_owned() };
    let (_, tail) = rest.rsplit_once(r#""ts":""#).unwrap();
    let (_, tail) = tail.split_once('"').unwrap();
    format!("{head} ... {tail}")
}
